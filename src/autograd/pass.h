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
    bool                uses_up; /* the graph gives up what it holds as the pass goes */
    haul_tensor *const *inputs;  /* intermediate results whose gradients are wanted; leaves are always included */
    int                 input_count;
    /* Called once, when all gradients are complete, in a scope that ends after it. */
    haul_status (*commit)(const haul__pass_result *result, void *context);
    void *context;
} haul__pass_request;

haul_status haul__gradient_pass(const haul__pass_request *request);

/* The gradient of a leaf or an input; NULL if none arrived. The pass holds the reference. */
haul_tensor *haul__gradient_of(const haul__pass_result *result, const haul_tensor *t);

#endif
