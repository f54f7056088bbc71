/* One backward pass, shared by haul_backward and haul_grad. */
#ifndef HAUL_AUTOGRAD_PASS_H
#define HAUL_AUTOGRAD_PASS_H

#include <haul/autograd.h>

#include "core/map.h"

/* The result of a complete pass. */
typedef struct haul__pass_result {
    const haul__map    *of_leaves, *of_nodes;
    haul_tensor *const *leaves;
    size_t              leaf_count;
} haul__pass_result;

typedef struct haul__pass_request {
    const char         *operation;
    haul_tensor        *y, *seed; /* seed may be HAUL_NONE */
    bool                create_graph;
    bool                keep;   /* the graph can be used again; otherwise it gives up what it holds as the pass goes */
    haul_tensor *const *inputs; /* the only tensors whose gradients are wanted; NULL: those of all leaves */
    int                 input_count;
    haul_tensor       **gradients; /* a followed pass writes those of the inputs, with references; NULL: none arrived */
    /* Called for each leaf as soon as its gradient is complete. Takes over a reference to the gradient, and may hold
     * the only one. NULL: the gradients of leaves stay in the result. */
    haul_status (*complete)(haul_tensor *leaf, haul_tensor *gradient, void *context);
    /* Called once, when all gradients are complete, in a scope that ends after it; NULL: there is nothing to do. */
    haul_status (*commit)(const haul__pass_result *result, void *context);
    void *context;
} haul__pass_request;

haul_status haul__gradient_pass(const haul__pass_request *request);

/* A function that is called when a pass has added to the gradient of a leaf, after the leaf's hooks. */
typedef haul_status haul__leaf_done(haul_tensor *leaf, void *context);

/* haul_backward(y, .seed = seed, .once = true), which calls `done` for each leaf as soon as its gradient is complete:
 * in the order of the graph, and within the pass. In a followed step it is called for no leaf. */
haul_status haul__backward_once(haul_tensor *y, haul_tensor *seed, haul__leaf_done *done, void *context);

/* True if the holder of the only reference to a gradient may write to it: no other tensor sees its memory, and it has
 * neither gaps nor repeated elements. */
bool haul__gradient_is_own(const haul_tensor *g);

/* The gradient of a leaf or an input; NULL if none arrived. The pass holds the reference. */
haul_tensor *haul__gradient_of(const haul__pass_result *result, const haul_tensor *t);

/* The same for a leaf, with the reference of the pass, which has none afterwards. */
haul_tensor *haul__gradient_take(const haul__pass_result *result, const haul_tensor *leaf);

#endif
