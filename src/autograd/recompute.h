/* Functions that run again in the backward pass, for haul_checkpoint and for modules.
 *
 * The first run saves no tensors: its nodes have only edges (HAUL__BARE), which show where gradients must go. One node
 * takes the place of that graph. When the backward pass reaches this node, the function runs again and records its
 * whole graph, which the pass then visits as if it had been there from the start. So gradients are added in the same
 * order, and are bit-identical to those without recomputation. */
#ifndef HAUL_AUTOGRAD_RECOMPUTE_H
#define HAUL_AUTOGRAD_RECOMPUTE_H

#include <haul/autograd.h>

#include "engine/node.h"

typedef struct haul__recompute_body {
    const char *operation; /* for messages */
    /* Computes `result_count` results, which may be HAUL_NONE. The innermost scope or another owner has them. */
    haul_status (*run)(void *context, haul_tensor *const *inputs, int count, haul_tensor **results);
    void (*release)(void *context); /* called once, when the function cannot run any more; NULL: nothing to do */
    void *context;
    int   result_count; /* at most HAUL__NODE_RESULTS */
} haul__recompute_body;

/* Runs a function for the first time. The innermost scope gets the results. */
haul_status haul__recompute(const haul__recompute_body *body, haul_tensor *const *inputs, int count,
                            haul_tensor **results);

#endif
