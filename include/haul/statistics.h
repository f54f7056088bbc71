/* Statistics: running products and extremes, differences and integrals, order statistics, and covariance.
 *
 * Axes may be negative: they then count from the end. A 0-d tensor counts as an axis of one element. The sums, means
 * and extremes over axes are in ops.h. */
#ifndef HAUL_STATISTICS_H
#define HAUL_STATISTICS_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/ops.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* ---- Along an axis: running products and extremes, differences, integrals ---- */

/* The products of the elements up to each one. Integers and bool become i64. The gradient is exact where elements are
 * 0. */
HAUL_API haul_tensor *haul_cumprod(haul_tensor *x, int axis);
HAUL_API haul_status  haul_cumprod_into(haul_tensor *out, haul_tensor *x, int axis);

/* log(cumsum(exp(x))) without overflow. Integers and bool become f32 first. */
HAUL_API haul_tensor *haul_logcumsumexp(haul_tensor *x, int axis);
HAUL_API haul_status  haul_logcumsumexp_into(haul_tensor *out, haul_tensor *x, int axis);

/* The largest, or smallest, of the elements up to each one, and its index (i64), the last of equals. NaN counts as the
 * largest and as the smallest. Gradients flow through *values, to the elements at the indices. On failure both results
 * are failed tensors.
 *
 * - values, indices: get the results */
HAUL_API haul_status haul_cummax(haul_tensor *x, int axis, haul_tensor **values, haul_tensor **indices);
HAUL_API haul_status haul_cummin(haul_tensor *x, int axis, haul_tensor **values, haul_tensor **indices);

/* The differences of neighbours along an axis, x[i + 1] - x[i], and those of the differences for n = 2 and so on. The
 * axis becomes shorter by n, at least 0. bool is refused.
 *
 * - n: how many times; 0 gives x */
HAUL_API haul_tensor *haul_diff(haul_tensor *x, int n, int axis);

typedef struct HAUL__DESIGNATED haul_trapezoid_options {
    haul_tensor *y; /* the values; positional */
    HAUL__GUARD(x)
    haul_tensor *x;    /* the points of the values, of y's shape or broadcasting with it; default: a distance of dx */
    double       dx;   /* the distance of neighbours without x; default 1 */
    int          axis; /* default 0; -1 is the last one */
} haul_trapezoid_options;

/* The integral of y along an axis by the trapezoidal rule: haul_trapezoid(y, .x = t, .axis = -1). Integers and bool
 * become f32 first. */
#define haul_trapezoid(...) haul_trapezoid_with(HAUL__OPTIONS(haul_trapezoid_options, .y = __VA_ARGS__))
HAUL_API haul_tensor *haul_trapezoid_with(const haul_trapezoid_options *options);

/* ---- Order statistics: medians, modes and quantiles ---- */

/* The median along an axis, and its index (i64): of an even number of elements the lower of the two in the middle, as
 * in PyTorch. haul_median gives NaN if any element is NaN, haul_nanmedian only if all are. Gradients flow through
 * *values, to the elements at the indices. On failure both results are failed tensors.
 *
 * - keepdim: keep the axis, with size 1
 * - values, indices: get the results */
HAUL_API haul_status haul_median(haul_tensor *x, int axis, bool keepdim, haul_tensor **values, haul_tensor **indices);
HAUL_API haul_status haul_nanmedian(haul_tensor *x, int axis, bool keepdim, haul_tensor **values,
                                    haul_tensor **indices);

/* The most frequent element along an axis (the mode), the smallest of several, and the index (i64) of its last place.
 * Gradients flow through *values. On failure both results are failed tensors.
 *
 * - keepdim: keep the axis, with size 1
 * - values, indices: get the results */
HAUL_API haul_status haul_most_common(haul_tensor *x, int axis, bool keepdim, haul_tensor **values,
                                      haul_tensor **indices);

/* What a quantile is that falls between two elements. */
typedef enum haul_quantile_rule {
    HAUL_QUANTILE_LINEAR,   /* the point between them at which it falls */
    HAUL_QUANTILE_LOWER,    /* the smaller one */
    HAUL_QUANTILE_HIGHER,   /* the larger one */
    HAUL_QUANTILE_NEAREST,  /* the nearer one; in the middle the one at an even place */
    HAUL_QUANTILE_MIDPOINT, /* their mean */
} haul_quantile_rule;

typedef struct HAUL__DESIGNATED haul_quantile_options {
    double q; /* which quantile, from 0, the smallest element, to 1, the largest; positional */
    HAUL__GUARD(axes)
    haul_axes          haul__axes;    /* the axes, written HAUL_AXES(0, 2); default all axes */
    bool               keepdim;       /* keep reduced axes with size 1 */
    haul_quantile_rule interpolation; /* the value between two elements; default HAUL_QUANTILE_LINEAR */
} haul_quantile_options;

/* The quantile q over axes: haul_quantile(x, 0.9, HAUL_AXES(0)). haul_quantile(x, 0.5) is NumPy's median. NaN if any
 * element is NaN. Integers and bool become f32 first. Fails with HAUL_SHAPE if there are no elements. */
#define haul_quantile(x, ...) haul_quantile_with(x, HAUL__OPTIONS(haul_quantile_options, .q = __VA_ARGS__))
HAUL_API haul_tensor *haul_quantile_with(haul_tensor *x, const haul_quantile_options *options);

/* ---- Sums without NaN, and covariance ---- */

/* The sum, or mean, of the elements that are not NaN. The sum of none is 0, their mean NaN. */
#define haul_nansum(...)  haul_nansum_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
#define haul_nanmean(...) haul_nanmean_with(HAUL__OPTIONS(haul_reduce_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_nansum_with(const haul_reduce_options *options);
HAUL_API haul_tensor *haul_nanmean_with(const haul_reduce_options *options);

typedef struct HAUL__DESIGNATED haul_cov_options {
    haul_tensor *x; /* [variables, observations], or [observations]; positional */
    HAUL__GUARD(correction)
    double correction; /* subtracted from the number of observations; default 1; HAUL_ZERO for 0 */
} haul_cov_options;

/* The covariances of the rows of x, [variables, variables], or the variance of a vector, 0-d. Integers and bool become
 * f32 first. */
#define haul_cov(...) haul_cov_with(HAUL__OPTIONS(haul_cov_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_cov_with(const haul_cov_options *options);

/* The correlation coefficients (Pearson) of the rows of x, from -1 to 1; 1 for a vector. */
HAUL_API haul_tensor *haul_corrcoef(haul_tensor *x);

HAUL_END

#endif
