/* Describes operands for pointwise kernels: broadcasting, merged dimensions, offsets. */
#ifndef HAUL_ENGINE_LAYOUT_LAYOUT_H
#define HAUL_ENGINE_LAYOUT_LAYOUT_H

#include "engine/operation.h"
#include "kernels/types.h"

/* pointwise_params, shared with kernel text, as the build tool generates it */
#include "kernels/pointwise.k.h"

/* A loop of fewer elements is not worth splitting among threads. */
enum { HAUL__POINTWISE_GRAIN = 16384 };

/* Fills dims, strides, offsets, ndim, and items for operands broadcast to `shape`; operand 0 is the result
 * and has that shape. Dimensions follow the result's order in memory. Size-1 dimensions are removed and neighbours are
 * merged where every operand allows it, so most cases become one or two loops. */
void haul__layout(pointwise_params *p, const haul_shape *shape, haul_tensor *const *operands, int count);

/* For kernels that read `nontemporal`, on processors: sets it if the result would push everything else out of the
 * caches, unless it takes the place of an operand. */
void haul__layout_stores(pointwise_params *p, haul_tensor *const *operands, int count);

/* True if all `count` tensors are dense in the order of the result, or single elements. */
bool haul__layout_is_flat(const pointwise_params *p, int count);

/* For GPUs: how many elements a work item computes, for kernels compiled for `dtype`; `items` then counts work items.
 * Also fills the divisors that find positions. On processors an item is an element. */
void haul__layout_packs(pointwise_params *p, const haul_device *device, haul_dtype dtype, int operands);

/* Describes result 0 of a pointwise operation. It has the shape to which the operands broadcast. Its order in memory is
 * that of the first operand that has that shape and repeats no element, else row-major. */
haul_status haul__describe_pointwise(haul__call *c, haul_dtype dtype);

#endif
