/* What a piece adds to its step, as one tensor without gaps: the gradients of the parameters, floating buffers, changes
 * of integer buffers, the sum of losses and its weight. Sums over pieces and exchanges between processes see numbers
 * only. */
#ifndef HAUL_PARALLEL_FLAT_H
#define HAUL_PARALLEL_FLAT_H

#include <haul/group.h>
#include <haul/nn.h>

/* A tensor of the module, and where its numbers begin. */
typedef struct haul__flat_item {
    haul_tensor *tensor;   /* holds a reference */
    haul_tensor *original; /* of a buffer: its values before the step; holds a reference. NULL until the first step */
    const char  *name;     /* the module's */
    int64_t      at;
} haul__flat_item;

typedef struct haul__flat {
    haul__flat_item *items; /* parameters, floating buffers, integer buffers */
    int              parameters, floats, integers;
    int64_t          gradients; /* numbers of all parameters, which come first */
    int64_t          total;     /* all numbers; the last two are the loss and the weight */
    haul_dtype       dtype;     /* f32 or f64 */
    haul_device     *device;
} haul__flat;

/* The items of a module: parameters that require a gradient, each once, and buffers. */
haul_status haul__flat_init(haul__flat *flat, haul_module *module, const char *operation);
void        haul__flat_free(haul__flat *flat);

/* Of the names and shapes of the items. */
uint32_t haul__flat_hash(const haul__flat *flat);

/* All parameters and buffers of the module become those of rank 0. */
haul_status haul__flat_share(haul_module *module, haul_group *group, const char *operation);

/* Fails if other parameters require a gradient now. */
haul_status haul__flat_check(const haul__flat *flat, haul_module *module, const char *operation);

/* Remembers the values of the buffers, and puts them back. */
haul_status haul__flat_keep_buffers(haul__flat *flat);
haul_status haul__flat_restore_buffers(const haul__flat *flat);

/* Removes the gradients of the parameters. */
haul_status haul__flat_remove_gradients(const haul__flat *flat);

/* The numbers of a piece that was differentiated, a new tensor of the innermost scope; HAUL_NONE as the loss: of a
 * piece without examples. Integer buffers count in the first piece of the step only. A failed tensor on failure. */
haul_tensor *haul__flat_gather(const haul__flat *flat, haul_tensor *loss, double weight, bool first);

/* Divides the sum over all pieces, gives the parameters their gradients and the buffers their values. The gradients
 * share the memory of `sum`. */
haul_status haul__flat_scatter(const haul__flat *flat, haul_tensor *sum, int pieces);

/* The mean loss of the sum over all pieces. */
haul_tensor *haul__flat_loss(const haul__flat *flat, haul_tensor *sum);

#endif
