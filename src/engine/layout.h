/* Describing operands to pointwise kernels: broadcast, collapse, offsets. */
#ifndef HAUL_ENGINE_LAYOUT_H
#define HAUL_ENGINE_LAYOUT_H

#include "engine/operation.h"
#include "kernels/types.h"

/* pointwise_params, shared with kernel text; as the build tool writes it */
#include "kernels/pointwise.k.h"

/* Elements below which a loop is not worth splitting among threads. */
enum { HAUL__POINTWISE_GRAIN = 16384 };

/* Fill dims, strides, offsets, ndim and items for operands broadcast to `shape`; operand 0 is the result, which
 * has that shape. Dimensions are taken in the order in which the result has them in memory; those of size 1 go away and
 * neighbours are merged where every operand allows it, so that most cases are one or two loops. */
void haul__layout(pointwise_params *p, const haul_shape *shape, haul_tensor *const *operands, int count);

/* For GPUs: how many elements a work item takes, of kernels compiled for `dtype`, after which `items` are those; and
 * what positions are found with. On processors an item is an element. */
void haul__layout_packs(pointwise_params *p, const haul_device *device, haul_dtype dtype, int operands);

/* Describe result 0 of a pointwise operation: it has the shape to which the operands broadcast. In memory its
 * dimensions have the order of the first operand that has that shape and repeats no element, else they are row-major.
 */
haul_status haul__describe_pointwise(haul__call *c, haul_dtype dtype);

#endif
