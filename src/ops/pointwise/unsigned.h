/* What operations on u16, u32 and u64 need apart from the kernels of signed integers. */
#ifndef HAUL_OPS_POINTWISE_UNSIGNED_H
#define HAUL_OPS_POINTWISE_UNSIGNED_H

#include "engine/operation.h"

/* The kernel of u16, u32 and u64 in the place of a row's kernel for integers. */
int haul__unsigned_kernel(int id);

/* For `compute` of operations that order elements. x itself; or, if it is u16, u32 or u64, a temporary of the signed
 * dtype of the same size, whose elements have the same order. NULL on failure. */
haul_tensor *haul__in_signed_order(const haul__call *c, haul_tensor *x);

/* A result y itself; or a temporary for its elements in that order. NULL on failure, and for NULL. */
haul_tensor *haul__signed_for(const haul__call *c, haul_tensor *y);

/* Writes them to y. Does nothing if `from` is y. */
haul_status haul__from_signed_order(const haul__call *c, haul_tensor *y, haul_tensor *from);

#endif
