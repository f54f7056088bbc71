/* The tensor, its storage, and when other streams may access the storage. */
#ifndef HAUL_CORE_TENSOR_H
#define HAUL_CORE_TENSOR_H

#include <haul/tensor.h>
#include <stdatomic.h>
#include <string.h>

#include "core/thread.h"

typedef struct haul__stream haul__stream; /* core/device.h */
typedef struct haul__node   haul__node;   /* engine/node.h */
typedef struct haul__block  haul__block;  /* memory/allocator.h */

/* A point on a stream, reached when `ticket` of its commands are done. stream == NULL: already reached. */
typedef struct haul__use {
    haul__stream *stream;
    uint64_t      ticket;
} haul__use;

/* The last write and the reads since, one per stream. Guarded by `lock`. Streams that complete at once (the CPU's) are
 * not recorded here. */
#define HAUL__MAX_READS 8
typedef struct haul__uses haul__uses;
struct haul__uses {
    atomic_bool lock;
    atomic_bool any; /* false: nothing is recorded, so no lock is needed */
    atomic_bool
         away;   /* the elements are in host memory (memory/spill/spill.c); guarded by the lock of device/residency.h */
    bool copied; /* host memory has a copy of the current elements (memory/spill/spill.c); guarded by `lock` */
    atomic_int  fixed; /* > 0: the elements stay; so many recordings and calls (memory/scratch.c) rely on it */
    uint64_t    last;  /* when it was last allocated or used by a command, by haul__residency_clock */
    haul__uses *whole; /* of a part of a block: the block's, in which all uses count as reads; NULL: a whole */
    haul__use   write;
    int         read_count;
    haul__use   reads[HAUL__MAX_READS];
};

/* Where a kernel finds a buffer: the backend's handle, and a host address if the host can see it (else NULL). */
typedef struct haul__buffer {
    void *handle;
    void *host;
} haul__buffer;

/* An address in a buffer. */
typedef struct haul__buffer_address {
    void  *handle; /* the buffer's */
    size_t offset; /* bytes */
} haul__buffer_address;

/* What layers above attach to a storage: its mapping into host memory, copies of its elements in another form that stay
 * valid until it changes, and why it is on its device. Whoever attaches an object has a lock for it. */
typedef enum haul__attachment { HAUL__MAPPING, HAUL__DERIVED, HAUL__REASON, HAUL__ATTACHMENTS } haul__attachment;

/* Memory on one device. Views share it; it is freed with the last of them. */
typedef struct haul__storage haul__storage;
struct haul__storage {
    haul__object  object;
    haul_device  *device;
    haul__block  *block;  /* from the allocator; NULL when wrapped, meta, or empty */
    haul__buffer  buffer; /* as in block */
    size_t        bytes;
    bool          planned;  /* made in a dry run: it has a size but no memory */
    bool          lent;     /* memory of a recording, in which each step puts other elements */
    atomic_uchar  role;     /* a haul__role (program/role.h); 0 until it is marked */
    atomic_ullong version;  /* counts in-place changes */
    haul__uses   *uses;     /* the block's, or own_uses; NULL: no use is recorded (on meta, or empty) */
    haul__uses    own_uses; /* for storages without a block */
    /* Called when the last reference goes, by the layer that knows devices: waits for `uses` (wrapped memory) and
     * returns the block. NULL: nothing to do. */
    void (*release)(haul__storage *storage);
    void (*deleter)(void *context); /* for wrapped memory; called after `release`; NULL for none */
    void *deleter_context;
    void *attached[HAUL__ATTACHMENTS]; /* objects that layers above attach, released with the storage; NULL: none */
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
    bool           failed;        /* a failed tensor, which has only an error */
    bool           requires_grad; /* a leaf that requires a gradient */
    uint32_t       followed;      /* in a recorded or followed step: the number of the value; 0: it is not one */
    haul__node    *node;          /* the operation that made it, if a gradient can flow through it */
    int            node_result;   /* which of the node's results this is */
    haul_tensor   *grad;          /* of a leaf: its accumulated gradient */
    void          *hooks;         /* of a leaf: an object of a layer above (autograd/hooks.h); NULL: none */
};

/* A tensor over `storage`, not owned by a scope yet. It takes a reference of its own; the caller releases its reference
 * when done. strides == NULL: row-major. The strides of size-1 dimensions are made canonical. The shape must have
 * passed haul__shape_count. Returns NULL, with the error recorded, if host memory is exhausted. */
haul_tensor *haul__tensor_wrap(haul__storage *storage, haul_dtype dtype, const haul_shape *shape,
                               const int64_t *strides, int64_t offset);

/* For asserts. True if dimensions, count and strides agree, and all elements are in the storage, if there is one. */
bool haul__tensor_is_sound(const haul_tensor *t);

extern const haul__class haul__tensor_class;

static inline void haul__tensor_clear(haul_tensor *t)
{
    t->storage = NULL;
    t->failed = t->requires_grad = false;
    t->followed = 0;
    t->node = NULL;
    t->node_result = 0;
    t->grad = NULL;
    t->hooks = NULL;
}

/* haul__tensor_new if the thread has no free block. */
haul_tensor *haul__tensor_new_slowly(void);

/* A tensor that no scope owns yet. The caller must set its storage, dtype and shape. Returns NULL, with the error
 * recorded, if host memory is exhausted. */
static inline haul_tensor *haul__tensor_new(void)
{
    haul_tensor *t = haul__traces_lifetimes() ? NULL : haul__small_reuse(sizeof *t);
    if (__builtin_expect(!t, 0))
        return haul__tensor_new_slowly();
    haul__object_init(&t->object, &haul__tensor_class);
    haul__tensor_clear(t);
    return t;
}

/* Sets dtype, shape, strides and what follows from them, as haul__tensor_wrap does. */
void haul__tensor_describe(haul_tensor *t, haul_dtype dtype, const haul_shape *shape, const int64_t *strides,
                           int64_t offset);

/* Gives t the dtype, shape, strides and offset of `other`. */
static inline void haul__tensor_take_form(haul_tensor *t, const haul_tensor *other)
{
    t->dtype = other->dtype;
    t->shape = other->shape;
    memcpy(t->strides, other->strides, sizeof t->strides);
    t->offset = other->offset;
    t->count = other->count;
    t->contiguous = other->contiguous;
}

/* Gives t the memory and the layout of `other`, which has its shape and dtype. Views of t keep the old memory. */
void haul__tensor_take_over(haul_tensor *t, const haul_tensor *other);

/* True if the elements fill their memory without gaps, in any order of dimensions. */
bool haul__tensor_is_gap_free(const haul_tensor *t);

/* True if two tensors of one shape have their elements at the same offsets from the first one. */
bool haul__tensor_same_layout(const haul_tensor *a, const haul_tensor *b);

/* A second handle to the same elements, without graph, for nodes that save a tensor. No scope owns it. */
haul_tensor *haul__tensor_alias(const haul_tensor *t);

/* A storage without a block, buffer, bytes, release or deleter, which the caller may set; it has its own `uses`.
 * Returns NULL, with the error recorded, if host memory is exhausted. */
haul__storage *haul__storage_new(haul_device *device);

/* Initialises a storage that is part of a larger structure: the same, but without uses. The storage does not free its
 * own memory. `release`, which the caller must set, disposes of the whole structure. */
void haul__storage_embed(haul__storage *storage, haul_device *device);

/* Reuses an embedded storage that has ended. Everything that its owner set stays as it was. */
static inline void haul__storage_revive(haul__storage *storage)
{
    atomic_store_explicit(&storage->object.refs, 1, memory_order_relaxed);
    atomic_store_explicit(&storage->version, 0, memory_order_relaxed);
    atomic_store_explicit(&storage->role, 0, memory_order_relaxed);
}

/* Size of an element in bytes. */
extern const unsigned char haul__dtype_bytes[HAUL_DTYPE_END];
static inline size_t       haul__dtype_size(haul_dtype dtype)
{
    return (unsigned)dtype < HAUL_DTYPE_END ? haul__dtype_bytes[dtype] : 0;
}

/* True for u16, u32 and u64, but not u8. Moves, comparisons and integer arithmetic take them. */
static inline bool haul__is_unsigned(haul_dtype dtype)
{
    return dtype == HAUL_U16 || dtype == HAUL_U32 || dtype == HAUL_U64;
}

/* The dtype in which sums of a floating dtype are kept, ACC in kernel text: f32 for f16 and bf16. */
haul_dtype haul__sum_dtype(haul_dtype dtype);

/* Kernels receive scalars as the bits of type A: f32 and f64 as they are, f32 for f16 and bf16, i64 for
 * integers. Those of u16, u32 and u64 are the signed numbers with these bits. */
uint64_t haul__scalar_bits(haul_dtype dtype, double value);
/* The bits of an element of that value, in the lowest bytes. */
uint64_t haul__element_bits(haul_dtype dtype, double value);

/* True if a number is a value of the dtype. Every number is, for floats and for bool, to which it is converted. */
bool haul__dtype_holds(haul_dtype dtype, double value);
/* Fails if it is not; `fix` is advice for the user. */
haul_status haul__refuse_number(const char *operation, const char *argument, haul_dtype dtype, double value,
                                const char *fix);

/* The range of integers that a dtype holds exactly; of u64 the part that an int64_t holds. */
void haul__dtype_range(haul_dtype dtype, int64_t *least, int64_t *most);

/* Fails unless t, the argument of that name, is a tensor. Records an error for NULL and HAUL_NONE, and the carried
 * error for a failed tensor. */
haul_status haul__check_tensor(const char *operation, const char *argument, const haul_tensor *t);

/* The same for an argument that may be HAUL_NONE. */
haul_status haul__check_optional(const char *operation, const char *argument, const haul_tensor *t);

/* A failed tensor that carries the thread's error; public functions return it in place of a tensor. The innermost scope
 * owns it. Without a scope or memory it is one of two without an owner. Never NULL. */
haul_tensor *haul__failed_tensor(void);

/* What a public function returns: t, or a failed tensor if t is NULL. */
haul_tensor *haul__result(haul_tensor *t);

/* The same for the result of an inner call, whose error is attributed to `operation`. */
haul_tensor *haul__result_within(haul_tensor *t, const char *operation);

/* Writes "f32[64,10] on cpu" into a buffer and returns it, for messages. */
char *haul__tensor_text(const haul_tensor *t, char *buffer, size_t size);

/* HAUL_NONE, at an address that needs no load. */
extern haul_tensor haul__none;

static inline bool haul__is_none(const haul_tensor *t)
{
    return t == &haul__none;
}

/* True if the call that made t failed. Public functions then return a failed tensor, internal ones NULL. */
static inline bool haul__failed(const haul_tensor *t)
{
    return !t || t->failed;
}

/* A tensor in a struct of options: NULL if the caller left it out. */
static inline haul_tensor *haul__optional(haul_tensor *t)
{
    return t ? t : &haul__none;
}

/* HAUL_OK, or the error that was just recorded, for the result of a call. */
static inline haul_status haul__status_of(const haul_tensor *t)
{
    return haul__failed(t) ? haul_error_status() : HAUL_OK;
}

/* True if it is a live tensor. False for NULL, HAUL_NONE, a dead tensor, and an object of another class. */
static inline bool haul__is_tensor(const haul_tensor *t)
{
    return t && t->object.type == &haul__tensor_class;
}

/* True if a gradient flows through t: t is a leaf that requires one, or a result of a node. */
static inline bool haul__tracks(const haul_tensor *t)
{
    return t->node || t->requires_grad;
}

#endif
