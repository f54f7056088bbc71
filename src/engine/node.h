/* The autograd graph. A node is an operation, its attributes, and the tensors that its gradient reads.
 *
 * A result holds its node. A node holds, for each operand, the node and result that it came from, or the leaf that it
 * is. It also holds aliases (same storage, no graph) of the tensors that its gradient reads. So the graph hangs from
 * results, is freed with the last of them, and keeps only the memory that gradients need. */
#ifndef HAUL_ENGINE_NODE_H
#define HAUL_ENGINE_NODE_H

#include "core/tensor.h"
#include "engine/operation.h"

/* Where an operand came from. If both are NULL, no gradient flows to it. */
typedef struct haul__edge {
    haul__node  *node;
    int          result; /* the index of the result of that node */
    haul_tensor *leaf;
    haul_shape   shape;
    haul_dtype   dtype;
    haul_device *device;
} haul__edge;

typedef struct haul__saved_tensor {
    haul_tensor *alias;
    uint64_t     version;
} haul__saved_tensor;

struct haul__node {
    haul__object           object;
    const haul__operation *operation;
    size_t                 bytes; /* the size of the block that holds the whole node */
    uint64_t               order; /* increases with each node that is made */
    int                    edge_count, result_count;
    const char            *bare;  /* why what the gradient needs was not saved, or was given up; NULL: it is there */
    void                  *owned; /* an object that the node holds; NULL: none */
    char                  *path;  /* of the module that was called, in a dry run, with a subscriber, a plan or anomaly
                                     detection; NULL */
    char              *label;     /* of the program, with anomaly detection; NULL */
    void              *hooks;     /* of its results, an object (autograd/hooks.h); NULL: none */
    haul__edge        *edges;
    uint32_t           saves, saves_results; /* which entries of the following are set */
    haul__saved_tensor saved[HAUL__MAX_OPERANDS], saved_results[HAUL__MAX_RESULTS];
    void              *attributes; /* a copy of the call's attributes */
};

/* The maximum number of results of a node that haul__node_over makes. */
enum { HAUL__NODE_RESULTS = 8 };

/* True if grad mode is on and one of these requires a gradient. */
bool haul__records(haul_tensor *const *inputs, int count);

/* Makes the results of a recorded call differentiable. */
haul_status haul__node_record(haul__call *c);

/* The setting HAUL__RECOMPUTE of functions that run again in the backward pass (autograd/recompute.h). */
#define HAUL__BARE  1u /* the first run: nodes have edges, but save no tensors */
#define HAUL__AGAIN 2u /* the second run: side effects of the first one are not repeated */

/* True while a function runs again in a backward pass. */
static inline bool haul__runs_again(void)
{
    return (haul__thread()->words[HAUL__RECOMPUTE] & HAUL__AGAIN) != 0;
}

/* The order of the newest node that any thread has made; events name nodes by it. */
uint64_t haul__node_newest(void);

/* Where t comes from; without references. */
haul__edge haul__edge_to(haul_tensor *t);

/* A node without operands and attributes that takes references to what the edges name. The caller gets a reference;
 * NULL, without an error, if memory is exhausted. */
haul__node *haul__node_over(const haul__operation *operation, const haul__edge *edges, int count, int result_count);

/* Why the gradient of a node cannot be computed. */
extern const char haul__bare_in_function[], haul__bare_used[];

/* Gives up what the node holds for its gradient, which cannot be computed any more; `why` is one of the above. A dry
 * run gives it back to nodes that existed before, and fails if there is no memory to note that. */
haul_status haul__node_strip(haul__node *node, const char *why);

/* Fails because the node is bare. */
haul_status haul__node_refuse(const haul__node *node);

/* Writes the gradients of the node's operands to `out`, given those of its results, with HAUL_NONE where none arrived.
 * Call it in a scope of its own. Entries that stay HAUL_NONE are zero. */
haul_status haul__node_gradient(haul__node *node, haul_tensor *const *results, haul_tensor **out);

/* True if a gradient flows to operand i. */
static inline bool haul__needs(const haul__node *node, int i)
{
    return node->edges[i].node || node->edges[i].leaf;
}

#endif
