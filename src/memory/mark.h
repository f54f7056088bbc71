/* Says what memory is used for, in the one place that knows: modules mark their parameters, the backward pass
 * gradients, optimizers their state, loaders their batches. */
#ifndef HAUL_MEMORY_MARK_H
#define HAUL_MEMORY_MARK_H

#include "program/role.h"

/* NULL and failed tensors are ignored. A tensor that takes over other memory (haul__tensor_take_over) keeps its role.
 */
void haul__set_storage_role(haul__storage *storage, haul__role role);
void haul__set_role(const haul_tensor *t, haul__role role);

#endif
