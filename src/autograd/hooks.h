/* Functions of the program that backward passes call with the gradients of tensors. */
#ifndef HAUL_AUTOGRAD_HOOKS_H
#define HAUL_AUTOGRAD_HOOKS_H

#include "core/tensor.h"

/* True if a tensor of the process has hooks. */
bool haul__has_hooks(void);

/* Calls the hooks of a result of a node, or of a leaf (result 0), with its gradient. `*gradient` has a reference, which
 * passes to the gradient that the last hook returned. hooks: of the node or the leaf. */
haul_status haul__run_gradient_hooks(void *hooks, int result, haul_tensor **gradient, const char *operation);

/* Calls the hooks of a leaf that has hooks, after its gradient has changed. */
haul_status haul__run_leaf_hooks(haul_tensor *leaf, const char *operation);

#endif
