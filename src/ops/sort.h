/* Sorting as a part of other operations. */
#ifndef HAUL_OPS_SORT_H
#define HAUL_OPS_SORT_H

#include "engine/operation.h"

/* The longest row that can be sorted. */
#define HAUL__SORT_MOST 0xffffffff

/* For compute: the elements of each dense row of `length` elements of x in order, equal ones as they stand, to
 * `values`, unless it is NULL, and where they were to `indices` (i64); both dense. NaN is the largest. */
haul_status haul__sort_rows(const haul__call *c, haul_tensor *values, haul_tensor *indices, haul_tensor *x,
                            int64_t length, bool descending);

/* For compute: the same along an axis of x, of any strides; values and indices have x's shape. */
haul_status haul__sort_axis(const haul__call *c, haul_tensor *values, haul_tensor *indices, haul_tensor *x, int axis,
                            bool descending);

#endif
