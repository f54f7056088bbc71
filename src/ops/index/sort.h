/* Sorting as part of other operations. */
#ifndef HAUL_OPS_INDEX_SORT_H
#define HAUL_OPS_INDEX_SORT_H

#include "engine/operation.h"

/* The longest row that can be sorted. */
#define HAUL__SORT_MOST 0xffffffff

/* For compute: sorts each dense row of `length` elements of x, stably, into `values`, unless it is NULL, and writes the
 * elements' indices to `indices` (i64); both are dense. NaN is the largest. */
haul_status haul__sort_rows(const haul__call *c, haul_tensor *values, haul_tensor *indices, haul_tensor *x,
                            int64_t length, bool descending);

/* For compute: the same along an axis of x with any strides; values and indices have x's shape. */
haul_status haul__sort_axis(const haul__call *c, haul_tensor *values, haul_tensor *indices, haul_tensor *x, int axis,
                            bool descending);

#endif
