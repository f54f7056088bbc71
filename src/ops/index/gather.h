/* What gather.c and scatter.c share. */
#ifndef HAUL_OPS_INDEX_GATHER_H
#define HAUL_OPS_INDEX_GATHER_H

#include "engine/operation.h"
#include "kernels/types.h"
#include "ops/index/gather_kernel.h"

/* `into` is the tensor that the indices point into; `other` has index's shape. `lines`: an item is a line along the
 * axis, else an element of index. */
gather_params haul__gather_describe(const haul_tensor *into, const haul_tensor *index, const haul_tensor *other,
                                    int axis, bool lines);

/* True if there are too few lines to fill a GPU, so that their indices are sorted. */
bool haul__has_few_lines(const haul__call *c, const gather_params *p);

/* For infer: an axis of operand 0, x, that operand 1, index, may point along: index has as many dimensions as x, and
 * none of them except the axis is larger than x's. */
haul_status haul__check_index_shapes(haul__call *c, int *axis);

#endif
