/* The autograd graph: a node is an operation, its attributes, and the tensors that its gradient reads.
 *
 * A result holds its node; a node holds, for each operand, the node and result that it came from or the leaf it is, and
 * aliases (same storage, no graph) of the tensors its gradient reads. So the graph hangs from results, is freed with
 * the last of them, and keeps alive only the memory that gradients need. */
#ifndef HAUL_ENGINE_NODE_H
#define HAUL_ENGINE_NODE_H

#include "core/tensor.h"
#include "engine/operation.h"

/* Where an operand came from. Both NULL: no gradient flows to it. */
typedef struct haul__edge {
    haul__node  *node;
    int          result; /* of that node */
    haul_tensor *leaf;
    haul_shape   shape;
    haul_dtype   dtype;
    haul_device *device;
} haul__edge;

typedef struct haul__saved_tensor {
    haul_tensor *alias; /* NULL: nothing */
    uint64_t     version;
} haul__saved_tensor;

struct haul__node {
    haul__object           object;
    const haul__operation *operation;
    size_t                 bytes; /* of the block that holds all of the node */
    uint64_t               order; /* larger in nodes made later */
    int                    edge_count, result_count;
    haul__edge            *edges;
    haul__saved_tensor     saved[HAUL__MAX_OPERANDS], saved_results[HAUL__MAX_RESULTS];
    void                  *attributes; /* a copy of the call's */
};

/* Is grad mode on and does a gradient flow through any of these? */
bool haul__records(haul_tensor *const *inputs, int count);

/* Make the results of a call, which records, differentiable. */
haul_status haul__node_record(haul__call *c);

/* The gradients of the node's operands, written to `out`, from those of its results, HAUL_NONE where none arrived. To
 * be called in a scope of its own. Entries that are left HAUL_NONE are zero. */
haul_status haul__node_gradient(haul__node *node, haul_tensor *const *results, haul_tensor **out);

/* Does a gradient flow to operand i? */
static inline bool haul__needs(const haul__node *node, int i)
{
    return node->edges[i].node || node->edges[i].leaf;
}

#endif
