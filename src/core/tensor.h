/* The tensor, the storage behind it, and when other streams may touch it. */
#ifndef HAUL_CORE_TENSOR_H
#define HAUL_CORE_TENSOR_H

#include <haul/tensor.h>
#include <stdatomic.h>

#include "core/object.h"

typedef struct haul__stream haul__stream; /* core/device.h */
typedef struct haul__node   haul__node;   /* engine/node.h */
typedef struct haul__block  haul__block;  /* memory/allocator.h */

/* A point on a stream: reached when `ticket` commands of it are done. stream == NULL: reached already. */
typedef struct haul__use {
    haul__stream *stream;
    uint64_t      ticket;
} haul__use;

/* The last write and the reads since, one a stream. Guarded by `lock`; streams that complete at once (the CPU's)
 * leave no trace here. */
#define HAUL__MAX_READS 4
typedef struct haul__uses {
    atomic_bool lock;
    atomic_bool any; /* false: nothing recorded, no need to lock */
    haul__use   write;
    int         read_count;
    haul__use   reads[HAUL__MAX_READS];
} haul__uses;

/* Where a kernel finds a buffer: the backend's handle, and an address where the host can see it (else NULL). */
typedef struct haul__buffer {
    void *handle;
    void *host;
} haul__buffer;

/* What rooms above attach to a storage: what it is mapped as in host memory, and copies of its elements in another form
 * that are right until it changes. Who attaches an object has a lock for it. */
typedef enum haul__attachment { HAUL__MAPPING, HAUL__DERIVED, HAUL__ATTACHMENTS } haul__attachment;

/* Memory of one device. Shared by views; freed with the last of them. */
typedef struct haul__storage haul__storage;
struct haul__storage {
    haul__object  object;
    haul_device  *device;
    haul__block  *block;  /* from the allocator; NULL when wrapped, meta, or empty */
    haul__buffer  buffer; /* as in block */
    size_t        bytes;
    bool          planned;  /* made in a dry run: it has a size and no memory */
    atomic_ullong version;  /* counts in-place changes */
    haul__uses   *uses;     /* the block's; never NULL unless meta or empty */
    haul__uses    own_uses; /* used by wrapped memory */
    /* Called when the last reference goes, by the layer that knows devices: wait for what `uses` says (wrapped memory),
     * give the block back. NULL: nothing to do. */
    void (*release)(haul__storage *storage);
    void (*deleter)(void *context); /* of wrapped memory; called after `release`; NULL for none */
    void *deleter_context;
    void *attached[HAUL__ATTACHMENTS]; /* objects that rooms above keep with it, released with it; NULL: none */
};

struct haul_tensor {
    haul__object   object;
    haul__storage *storage;
    haul_dtype     dtype;
    haul_shape     shape;
    int64_t        strides[HAUL_MAX_DIMS];
    int64_t        offset; /* elements */
    int64_t        count;
    bool           contiguous;    /* row-major, dense */
    bool           failed;        /* a failed tensor, which has nothing but an error */
    bool           requires_grad; /* a leaf that asks for one */
    haul__node    *node;          /* what made it, when a gradient can flow through it */
    int            node_result;   /* which of the node's results it is */
    haul_tensor   *grad;          /* of a leaf */
};

/* A tensor over `storage`, not owned by a scope yet. It holds a reference of its own: the caller keeps its reference
 * and releases it when done. strides == NULL: row-major; the strides of size-1 dimensions are made canonical. The shape
 * must have passed haul__shape_count. NULL, with the error recorded, when host memory is exhausted. */
haul_tensor *haul__tensor_wrap(haul__storage *storage, haul_dtype dtype, const haul_shape *shape,
                               const int64_t *strides, int64_t offset);

/* A tensor of no scope without storage, dtype and shape yet, which the caller sets. NULL, with the error recorded, when
 * host memory is exhausted. */
haul_tensor *haul__tensor_new(void);

/* Set dtype, shape, strides and what follows from them. As in haul__tensor_wrap. */
void haul__tensor_describe(haul_tensor *t, haul_dtype dtype, const haul_shape *shape, const int64_t *strides,
                           int64_t offset);

/* Give t the memory and the layout of `other`, which has its shape and dtype. Views of t keep the old memory. */
void haul__tensor_take_over(haul_tensor *t, const haul_tensor *other);

/* Do the elements fill their memory without gaps, in whatever order of dimensions? */
bool haul__tensor_is_gap_free(const haul_tensor *t);

/* Have two tensors of one shape their elements in the same places, relative to the first? */
bool haul__tensor_same_layout(const haul_tensor *a, const haul_tensor *b);

/* A second handle to the same elements, without graph: what nodes save. Not owned by a scope. */
haul_tensor *haul__tensor_alias(const haul_tensor *t);

/* A storage without a block, buffer, bytes, release or deleter, all of which the caller may set; `uses` are its own.
 * NULL, with the error recorded, when host memory is exhausted. */
haul__storage *haul__storage_new(haul_device *device);

/* The same, without uses, in memory that `release`, which must be set, disposes of with whatever else is there. */
void haul__storage_embed(haul__storage *storage, haul_device *device);

/* Size of an element in bytes. */
extern const unsigned char haul__dtype_bytes[HAUL_DTYPE_END];
static inline size_t       haul__dtype_size(haul_dtype dtype)
{
    return (unsigned)dtype < HAUL_DTYPE_END ? haul__dtype_bytes[dtype] : 0;
}

/* What sums of a floating dtype are kept in, ACC of kernel text: f32 for f16 and bf16. */
haul_dtype haul__sum_dtype(haul_dtype dtype);

/* Scalars travel to kernels as the bits of type A: f32 and f64 as such, f32 for f16 and bf16, integers as i64. */
uint64_t haul__scalar_bits(haul_dtype dtype, double value);

/* Is a number a value of the dtype? Every number is one of floats and of bool, to which it is converted. */
bool haul__dtype_holds(haul_dtype dtype, double value);
/* Refuse a number that is none; `fix` says what to do about it. */
haul_status haul__refuse_number(const char *operation, const char *argument, haul_dtype dtype, double value,
                                const char *fix);

/* The integers that a dtype holds exactly. */
void haul__dtype_range(haul_dtype dtype, int64_t *least, int64_t *most);

/* Is t, the argument of that name, a tensor? Records what is wrong with NULL and HAUL_NONE; for a failed tensor, the
 * error it carries. */
haul_status haul__check_tensor(const char *operation, const char *argument, const haul_tensor *t);

/* The same for an argument that may be HAUL_NONE. */
haul_status haul__check_optional(const char *operation, const char *argument, const haul_tensor *t);

/* A failed tensor that carries the thread's error: what public functions return in place of a tensor. It belongs to the
 * innermost scope. Without a scope or memory it is one of two that belong to nobody. Never NULL. */
haul_tensor *haul__failed_tensor(void);

/* What a public function returns: t, or a failed tensor where t is NULL. */
haul_tensor *haul__result(haul_tensor *t);

/* The same for the result of an inner call: its error is said to be that of `operation`. */
haul_tensor             *haul__result_within(haul_tensor *t, const char *operation);
extern const haul__class haul__tensor_class;

/* "f32[64,10] on cpu" into a buffer; returns it. For messages. */
char *haul__tensor_text(const haul_tensor *t, char *buffer, size_t size);

static inline bool haul__is_none(const haul_tensor *t)
{
    return t == haul_none;
}

/* Did the call that made t fail? Public functions return a failed tensor then, internal ones NULL. */
static inline bool haul__failed(const haul_tensor *t)
{
    return !t || t->failed;
}

/* A tensor in a struct of options: NULL when it was not given. */
static inline haul_tensor *haul__optional(haul_tensor *t)
{
    return t ? t : haul_none;
}

/* HAUL_OK, or the error that was just recorded, for the result of a call. */
static inline haul_status haul__status_of(const haul_tensor *t)
{
    return haul__failed(t) ? haul_error_status() : HAUL_OK;
}

/* A tensor: not NULL, HAUL_NONE, one that is over, or an object of another class. */
static inline bool haul__is_tensor(const haul_tensor *t)
{
    return t && t->object.type == &haul__tensor_class;
}

/* Does a gradient flow through t? */
static inline bool haul__tracks(const haul_tensor *t)
{
    return t->node || t->requires_grad;
}

#endif
