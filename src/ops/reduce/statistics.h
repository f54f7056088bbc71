/* Running extremes as part of other operations. */
#ifndef HAUL_OPS_REDUCE_STATISTICS_H
#define HAUL_OPS_REDUCE_STATISTICS_H

#include <haul/tensor.h>

/* The largest, or smallest, of the elements up to each one along an axis, with the dtype of x and without a gradient.
 */
haul_tensor *haul__running_extremes(haul_tensor *x, int axis, bool largest);

#endif
