/* Declarations shared by operations that read and return indices. */
#ifndef HAUL_OPS_INDEX_INDEX_H
#define HAUL_OPS_INDEX_INDEX_H

#include "backends/index_check.h"
#include "engine/operation.h"

/* For compute, before anything is written into a target: if an index out of range fails the call itself, it fails here.
 * The indices point into `size` elements. */
haul_status haul__check_indices(const haul__call *c, haul_tensor *index, int64_t size, uint32_t check);

/* For compute: y becomes the elements of x along an axis at which the row-major `index` points, in the order of
 * `index`. */
haul_status haul__select_elements(const haul__call *c, haul_tensor *y, haul_tensor *x, haul_tensor *index, int axis,
                                  uint32_t check);

/* The gradient of haul_index_select(x, axis, index), as an operation; `size` is x's size along the axis. Element `skip`
 * has the gradient 0; -1 for none. */
haul_tensor *haul__index_select_backward(haul_tensor *g, int axis, haul_tensor *index, int64_t size, int64_t skip);

/* The gradient of haul_gather(x, axis, index), as an operation; `shape` is that of x. With `unique` no two indices of a
 * line along the axis are equal. haul__gather_unique is haul_gather for those. */
haul_tensor *haul__gather_backward(haul_tensor *g, int axis, haul_tensor *index, const haul_shape *shape, bool unique);
haul_tensor *haul__gather_unique(haul_tensor *x, int axis, haul_tensor *index);

/* i64, in the shape of `places`: the index in each dense row of x, as long as divides x evenly among the places, of the
 * element that a stable sort puts at its place, which is in the row. Elements have more than one byte,
 * and a row at most UINT32_MAX of them. */
haul_tensor *haul__nth(haul_tensor *x, haul_tensor *places);

/* Applies an operation on x that returns values and indices, for a public function: on failure both are failed
 * tensors. */
haul_status haul__apply_pair(const haul__operation *operation, const void *attributes, haul_tensor *x,
                             haul_tensor **values, haul_tensor **indices);

#endif
