/* Reductions as parts of other operations and of gradients. */
#ifndef HAUL_OPS_REDUCE_H
#define HAUL_OPS_REDUCE_H

#include "engine/operation.h"

/* For compute: out, which is 0-d, becomes the mean of all elements of x, summed in x's dtype and rounded to out's. NaN
 * of no elements. */
haul_status haul__mean_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x);

/* The same for their sum, divided by `divisor` unless that is 0; 0 of no elements. */
haul_status haul__sum_of_all(const haul__call *c, haul_tensor *out, haul_tensor *x, double divisor);

/* For compute: out [n] becomes the sum of the rows of x [m, n]. */
haul_status haul__sum_of_rows(const haul__call *c, haul_tensor *out, haul_tensor *x);

/* Sum g down to `shape`, undoing broadcasting. NULL is a failure that is handed on. */
haul_tensor *haul__sum_to(haul_tensor *g, const haul_shape *shape);

#endif
