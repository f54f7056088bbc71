/* Anomaly detection in backward passes. */
#ifndef HAUL_AUTOGRAD_ANOMALY_H
#define HAUL_AUTOGRAD_ANOMALY_H

#include "engine/anomaly.h"
#include "engine/node.h"

/* Fails, and names the node's operation, if a gradient of its operands has a NaN. `results` are the gradients of its
 * results, `out` those of its operands. */
haul_status haul__check_gradients(const haul__node *node, haul_tensor *const *results, haul_tensor *const *out);

/* Fails if the gradient with which a pass begins has a NaN. */
haul_status haul__check_seed(const char *operation, haul_tensor *seed);

#endif
