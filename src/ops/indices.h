/* Tensors of indices, as index_select and the losses take them: operands that accept HAUL__INTEGERS, become HAUL_I64
 * and are row-major. */
#ifndef HAUL_OPS_INDICES_H
#define HAUL_OPS_INDICES_H

#include "engine/operation.h"

/* For infer: the operand has one dimension, and there are elements that it can point at. */
haul_status haul__check_indices(const haul__call *c, int operand, int64_t limit);

/* For compute: every element is in [0, limit). Only on the CPU, where looking costs next to nothing; elsewhere kernels
 * clamp them. */
haul_status haul__check_range(const haul__call *c, int operand, int64_t limit);

#endif
