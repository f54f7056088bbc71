/* Tensors of indices, as index_select and the losses take them. */
#ifndef HAUL_OPS_INDICES_H
#define HAUL_OPS_INDICES_H

#include "engine/dispatch.h"

/* `index` (1-d, of an integer dtype) as a row-major i64 tensor of the innermost scope. On the CPU, where looking costs
 * next to nothing, every element must lie in [0, limit); elsewhere kernels clamp them. NULL on failure. */
haul_tensor *haul__indices(const char *operation, const char *argument, haul_tensor *index, int64_t limit);

#endif
