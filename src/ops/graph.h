/* The autograd graph: a node holds what an operation needs to be differentiated.
 *
 * A result holds its node; a node holds, for each input, the node that made it or the leaf it is, and aliases (same
 * storage, no graph) of the tensors its gradient reads. So the graph hangs from results and is freed with the last of
 * them, and it keeps alive only the memory that gradients need. */
#ifndef HAUL_OPS_GRAPH_H
#define HAUL_OPS_GRAPH_H

#include "core/tensor.h"

#define HAUL__MAX_SAVED 6

/* The gradients of the inputs from `g`, that of the result: set out[i], for every i for which haul__needs(node, i);
 * what is left NULL is zero. Called in a scope of its own, which takes what is made on the way. Written in operations,
 * so that it is recorded itself under create_graph. On failure: the status of the recorded error. A gradient may have
 * the broadcast shape, dtype or device of the operation: the caller sums, casts and moves it to what the input was. */
typedef haul_status haul__backward_fn(haul__node *node, haul_tensor *g, haul_tensor **out);

/* Where an input came from. Both NULL: no gradient flows to it. */
typedef struct haul__edge {
    haul__node  *node;
    haul_tensor *leaf;
    haul_shape   shape;
    haul_dtype   dtype;
    haul_device *device;
} haul__edge;

typedef struct haul__saved_tensor {
    haul_tensor *alias; /* NULL: nothing */
    uint64_t     version;
    int          from; /* the input it is, HAUL__FROM_RESULT, or HAUL__FROM_NOWHERE */
} haul__saved_tensor;

enum { HAUL__FROM_RESULT = -1, HAUL__FROM_NOWHERE = -2 };

struct haul__node {
    haul__object       object;
    const char        *name; /* "haul_mul" */
    haul__backward_fn *backward;
    uint64_t           order; /* larger in nodes made later */
    int                edge_count, saved_count;
    haul__edge        *edges;
    haul__saved_tensor saved[HAUL__MAX_SAVED];
    void              *attributes; /* a copy of the operation's settings */
};

/* Does a gradient flow to input i? */
static inline bool haul__needs(const haul__node *node, int i)
{
    return node->edges[i].node || node->edges[i].leaf;
}

/* Saved tensor i, valid until the gradient function returns; with grad mode on it carries its graph. NULL with
 * HAUL_GRAPH if its elements were changed in place since. */
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

/* Is grad mode on and does a gradient flow through any of these? */
bool haul__records(haul_tensor *const *inputs, int count);

/* Make y the differentiable result of an operation, if haul__records(inputs). Returns y, or NULL on failure. */
haul_tensor *haul__finish(haul_tensor *y, const haul__record *record);

/* Sum g down to `shape`, undoing broadcasting. */
haul_tensor *haul__sum_to(haul_tensor *g, const haul_shape *shape);

#endif
