/* Copies of elements and fills, as commands: for the driver, and for `compute` of operations; and copies in the order
 * of another tensor, as operations. */
#ifndef HAUL_ENGINE_COPY_H
#define HAUL_ENGINE_COPY_H

#include "core/tensor.h"

/* Copy all elements of `from`, which may broadcast, to `to` on the same device: any layouts, any dtypes. */
haul_status haul__copy_elements(haul_tensor *to, haul_tensor *from, const char *origin);

/* Set all elements of `to`, of any layout, to the value, which the dtype holds: haul__dtype_holds. */
haul_status haul__fill_elements(haul_tensor *to, double value, const char *origin);

/* haul_cast(x, dtype) whose memory is kept with x's until x's elements change: nobody may write to it. */
haul_tensor *haul__cast_kept(haul_tensor *x, haul_dtype dtype);

/* x without gaps, with its dimensions in memory in the order in which `like`, of the same shape, has them: itself or a
 * copy, as a fresh handle; or always a copy. Operations, so that they are differentiable. */
haul_tensor *haul__to_order_of(haul_tensor *x, const haul_tensor *like);
haul_tensor *haul__copy_to_order_of(haul_tensor *x, const haul_tensor *like);

#endif
