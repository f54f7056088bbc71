/* The autograd graph: a node holds what an operation needs to be differentiated.
 *
 * A result holds its node; a node holds, for each input, the node that made it or the leaf it is, and aliases (same
 * storage, no graph) of the tensors its gradient reads. So the graph hangs from results and is freed with the last of
 * them, and it keeps alive only the memory that gradients need. */
#ifndef HAUL_ENGINE_GRAPH_H
#define HAUL_ENGINE_GRAPH_H

#include "engine/node.h"

typedef haul_status haul__backward_fn(haul__node *node, haul_tensor *g, haul_tensor **out);

enum { HAUL__FROM_RESULT = -1, HAUL__FROM_NOWHERE = -2 };

haul_tensor *haul__saved(haul__node *node, int i);

/* What to record. NULL and HAUL_NONE inputs are skipped; an entry of `saves` is an input, the result, any other tensor
 * (no gradient flows to that one), or NULL / HAUL_NONE for nothing. */
typedef struct haul__record {
    const char         *name;
    haul__backward_fn  *backward;
    haul_tensor *const *inputs;
    int                 input_count;
    haul_tensor *const *saves;
    int                 save_count;
    const void         *attributes;
    size_t              attributes_size;
} haul__record;

/* Make y the differentiable result of an operation, if haul__records(inputs). Returns y, or NULL on failure. */
haul_tensor *haul__finish(haul_tensor *y, const haul__record *record);

/* Sum g down to `shape`, undoing broadcasting. */
haul_tensor *haul__sum_to(haul_tensor *g, const haul_shape *shape);

#endif
