/* Evenly spaced numbers, for other operations. */
#ifndef HAUL_OPS_POINTWISE_LINSPACE_H
#define HAUL_OPS_POINTWISE_LINSPACE_H

#include "engine/operation.h"

/* haul_linspace on a device; NULL means the thread's current one. */
haul_tensor *haul__linspace_on(haul_device *device, haul_dtype dtype, double start, double stop, int64_t count);

/* `count` evenly spaced edges from `low` to `high`, two tensors of one element; from low - 1 to high + 1 if the two are
 * equal. */
haul_tensor *haul__even_edges(haul_tensor *low, haul_tensor *high, int64_t count);

#endif
