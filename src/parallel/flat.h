/* What a piece adds to its step, as tensors without gaps, the *buckets*: each has the gradients of some parameters; the
 * last one has floating buffers, changes of integer buffers, the sum of losses and its weight. Sums over pieces and
 * exchanges between processes see numbers only. */
#ifndef HAUL_PARALLEL_FLAT_H
#define HAUL_PARALLEL_FLAT_H

#include <haul/group.h>
#include <haul/nn.h>
#include <haul/scope.h>

#include "core/map.h"

/* A tensor of the module, and where its numbers begin in its bucket. */
typedef struct haul__flat_item {
    haul_tensor *tensor;   /* holds a reference */
    haul_tensor *original; /* of a buffer: its values before the step; holds a reference. NULL until the first step */
    uint64_t     version;  /* of its memory then */
    const char  *name;     /* the module's */
    int          bucket;
    int64_t      at;
} haul__flat_item;

/* A bucket of gradients. */
typedef struct haul__flat_bucket {
    int     first, end; /* of haul__flat.order */
    int64_t count;      /* numbers */
} haul__flat_bucket;

typedef struct haul__flat {
    haul__flat_item *items; /* parameters, floating buffers, integer buffers */
    int              parameters, floats, integers;
    int64_t          total; /* numbers of all buckets */
    int64_t          rest;  /* those of the last bucket, in which loss and weight are last */
    haul_dtype       dtype; /* f32 or f64 */
    haul_device     *device;
    haul__map        places; /* of parameters: their items */

    haul__flat_bucket *buckets; /* of gradients */
    int                bucket_count;
    int               *order; /* the items of parameters, bucket after bucket, and by owner where they have one */

    const int *owners; /* of the parameters: the ranks that get their gradients; NULL: all ranks do */
    int        rank;   /* this one, with owners */
} haul__flat;

/* The items of a module: parameters that require a gradient, each once, and buffers. Buckets are filled from the last
 * parameter to the first. */
haul_status haul__flat_init(haul__flat *flat, haul_module *module, const char *operation);
void        haul__flat_free(haul__flat *flat);

/* Those of the tensors with these names only. */
typedef bool haul__flat_keeps(const char *name, const void *context);
haul_status  haul__flat_init_some(haul__flat *flat, haul_module *module, haul__flat_keeps *keeps, const void *context,
                                  const char *operation);

/* Fills the buckets in this order of all parameters, which may be flat->order itself. A bucket has at least
 * haul__flat_bucket_bytes, except for the last one, and is not larger than needed for that. */
void           haul__flat_arrange(haul__flat *flat, const int *order);
extern int64_t haul__flat_bucket_bytes; /* tests change it */

/* From here on rank owners[i] alone gets the gradient of parameter i. `owners` must outlive it. */
void haul__flat_divide(haul__flat *flat, const int *owners, int rank);

/* The first number of a bucket that goes to this rank or a later one. */
int64_t haul__flat_bound(const haul__flat *flat, int bucket, int rank);

/* The item of a parameter, or NULL. */
haul__flat_item *haul__flat_find(const haul__flat *flat, const haul_tensor *parameter);

/* A scope in which nothing records a graph, and operations compute where their operands are and in their dtypes. NULL
 * on failure. */
haul_scope *haul__flat_scope(void);

/* Of the names and shapes of the items. */
uint32_t haul__flat_hash(const haul__flat *flat);

/* All parameters and buffers of the module become those of rank 0. */
haul_status haul__flat_share(haul_module *module, haul_group *group, const char *operation);

/* Fails if other parameters require a gradient now. */
haul_status haul__flat_check(const haul__flat *flat, haul_module *module, const char *operation);

/* Remembers the values of the buffers, and puts them back. The last one leaves alone those whose memory nothing has
 * changed, which a backward pass to come may need. */
haul_status haul__flat_keep_buffers(haul__flat *flat);
haul_status haul__flat_restore_buffers(const haul__flat *flat);
haul_status haul__flat_restore_changed(haul__flat *flat);

/* Removes the gradients of the parameters. */
haul_status haul__flat_remove_gradients(const haul__flat *flat);

/* Moves the gradients of a bucket from its parameters to a new tensor, which the innermost scope owns. A failed tensor
 * on failure. */
haul_tensor *haul__flat_gather(const haul__flat *flat, int bucket);

/* The last bucket of a piece; HAUL_NONE as the loss: of a piece without examples. Integer buffers count in the first
 * piece of the step only. */
haul_tensor *haul__flat_gather_rest(const haul__flat *flat, haul_tensor *loss, double weight, bool first);

/* In the last bucket of a piece that is not the first one of its step: integer buffers count as unchanged. */
haul_status haul__flat_drop_changes(const haul__flat *flat, haul_tensor *rest);

/* Divides the sums over all pieces, one for each bucket, gives the parameters their gradients and the buffers their
 * values. The gradients share the memory of the sums. With owners a sum has only this rank's part of its bucket, and is
 * HAUL_NONE without one. */
haul_status haul__flat_scatter(const haul__flat *flat, haul_tensor *const *sums, int pieces);

/* The mean loss, by the sum of the last bucket over all pieces. */
haul_tensor *haul__flat_loss(const haul__flat *flat, haul_tensor *rest);

#endif
