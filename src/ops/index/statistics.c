/* Order statistics, differences and integrals along an axis, running extremes and sums without NaN: composed of
 * sorting, gathering and arithmetic. */
#include <haul/statistics.h>
#include <math.h>

#include "base/assert.h"
#include "core/option.h"
#include "engine/operation.h"
#include "ops/index/index.h"
#include "ops/reduce/statistics.h"

typedef struct axis_attributes {
    int  axis, n;
    bool keepdim;
    bool reserved[7];
} axis_attributes;

/* The length of the axis of x, 1 for a 0-d x. */
static int64_t length_of(const haul_tensor *x, int axis)
{
    HAUL__ASSERT(axis == 0 || axis < x->shape.ndim);
    return x->shape.ndim ? x->shape.dims[axis] : 1;
}

/* Completes the axis, sets the device on which the parts are computed, and refuses an axis without elements. */
static haul_status begin(haul__call *c, int *axis)
{
    const haul_tensor *x = c->operands[0];
    if (haul_set_device(c->device) || haul__call_axis(c, 0, axis)) /* the call's scope restores the device */
        return haul_error_status();
    if (length_of(x, *axis) == 0)
        return haul__refuse_shape(c, 0, "the axis must hold at least one element to choose from");
    return HAUL_OK;
}

static haul_status give(haul__call *c, haul_tensor *y)
{
    c->results[0] = y;
    return haul__status_of(y);
}

/* 0, 1, 2 ... along an axis of `shape`, whose other axes are 1 in the result, on the current device. */
static haul_tensor *positions(const haul_shape *shape, int axis)
{
    HAUL__ASSERT(axis == 0 || axis < shape->ndim);
    haul_shape line = *shape;
    for (int d = 0; d < line.ndim; d++)
        line.dims[d] = d == axis ? line.dims[d] : 1;
    return haul_view(haul_arange_i64(0, line.ndim ? line.dims[axis] : 1, 1), line);
}

/* ---- running extremes ---- */

/* The index of an extreme is the last position so far whose element is equal to it, or NaN as it is. */
static haul_status compose_extremes(haul__call *c, bool largest)
{
    axis_attributes *a = haul__attributes(c);
    haul_tensor     *x = c->operands[0];
    if (haul_set_device(c->device) || haul__call_axis(c, 0, &a->axis)) /* the call's scope restores the device */
        return haul_error_status();
    haul_tensor *y = haul__running_extremes(haul_detach(x), a->axis, largest), *here = haul_eq(x, y);
    if (haul_dtype_is_float(x->dtype))
        here = haul_logical_or(here, haul_isnan(x));
    haul_tensor *at = positions(&x->shape, a->axis);
    at = haul__running_extremes(haul_where_scalar(here, haul_expand(at, x->shape), 0), a->axis, true);
    HAUL__ASSERT(haul__failed(at) || haul__shape_equal(&at->shape, &x->shape));
    c->results[0] = haul_gather(x, a->axis, at);
    c->results[1] = at;
    return haul__failed(c->results[0]) ? haul_error_status() : haul__status_of(at);
}

static haul_status compose_cummax(haul__call *c)
{
    return compose_extremes(c, true);
}

static haul_status compose_cummin(haul__call *c)
{
    return compose_extremes(c, false);
}

HAUL__OPERATION(cummax) = {
    .name = "haul_cummax",
    .operands = {{"x"}},
    .results = {{"values"}, {"indices"}},
    .attributes_size = HAUL__ATTRIBUTES(axis_attributes),
    .compose = compose_cummax,
};

HAUL__OPERATION(cummin) = {
    .name = "haul_cummin",
    .operands = {{"x"}},
    .results = {{"values"}, {"indices"}},
    .attributes_size = HAUL__ATTRIBUTES(axis_attributes),
    .compose = compose_cummin,
};

haul_status haul_cummax(haul_tensor *x, int axis, haul_tensor **values, haul_tensor **indices)
{
    return haul__apply_pair(&haul__operation_cummax, (&(axis_attributes){.axis = axis}), x, values, indices);
}

haul_status haul_cummin(haul_tensor *x, int axis, haul_tensor **values, haul_tensor **indices)
{
    return haul__apply_pair(&haul__operation_cummin, (&(axis_attributes){.axis = axis}), x, values, indices);
}

/* ---- differences and integrals ---- */

/* The elements of an axis but for the first, or for the last. */
static haul_tensor *without_first(haul_tensor *x, int axis)
{
    return haul_slice(x, axis, 1, x->shape.dims[axis], 1);
}

static haul_tensor *without_last(haul_tensor *x, int axis)
{
    return haul_slice(x, axis, 0, x->shape.dims[axis] - 1, 1);
}

static haul_status compose_diff(haul__call *c)
{
    axis_attributes *a = haul__attributes(c);
    haul_tensor     *x = c->operands[0];
    if (a->n < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "n", "n is %d; 0 or more is expected", a->n);
    if (haul__call_proper_axis(c, 0, &a->axis))
        return haul_error_status();
    if (a->n == 0)
        return give(c, haul_view(x, x->shape));
    for (int i = 0; i < a->n && !haul__failed(x) && x->shape.dims[a->axis] > 0; i++)
        x = haul_sub(without_first(x, a->axis), without_last(x, a->axis));
    return give(c, x);
}

HAUL__OPERATION(diff) = {
    .name = "haul_diff",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__NUMBERS,
    .attributes_size = HAUL__ATTRIBUTES(axis_attributes),
    .compose = compose_diff,
};

haul_tensor *haul_diff(haul_tensor *x, int n, int axis)
{
    return HAUL__APPLY(diff, (&(axis_attributes){.axis = axis, .n = n}), x);
}

typedef struct trapezoid_attributes {
    double dx;
    int    axis, reserved;
} trapezoid_attributes;

static haul_status compose_trapezoid(haul__call *c)
{
    trapezoid_attributes *a = haul__attributes(c);
    haul_tensor          *y = c->operands[0], *x = c->operands[1];
    if (haul__call_proper_axis(c, 0, &a->axis))
        return haul_error_status();
    haul_reduce_options sum = {.haul__axes = {.count = 1, .axes = {a->axis}}};
    if (y->shape.dims[a->axis] < 2) {
        sum.x = haul_mul_scalar(y, 0);
        return give(c, haul_sum_with(&sum));
    }
    haul_tensor *pairs = haul_add(without_first(y, a->axis), without_last(y, a->axis));
    HAUL__ASSERT(haul__failed(pairs) || pairs->shape.dims[a->axis] + 1 == y->shape.dims[a->axis]);
    if (haul__has(c, 1)) {
        haul_tensor *points = haul_expand(x, y->shape);
        if (haul__failed(points))
            return haul__refuse_shape(c, 1, "a shape that broadcasts to that of y is expected");
        sum.x = haul_mul(pairs, haul_sub(without_first(points, a->axis), without_last(points, a->axis)));
        return give(c, haul_mul_scalar(haul_sum_with(&sum), 0.5));
    }
    sum.x = pairs;
    return give(c, haul_mul_scalar(haul_sum_with(&sum), 0.5 * a->dx));
}

HAUL__OPERATION(trapezoid) = {
    .name = "haul_trapezoid",
    .operands = {{"y", .layout = HAUL__ANY_STRIDES}, {"x", .optional = true, .layout = HAUL__ANY_STRIDES}},
    .results = {{"integral"}},
    .rule = HAUL__FLOATED,
    .attributes_size = HAUL__ATTRIBUTES(trapezoid_attributes),
    .compose = compose_trapezoid,
};

haul_tensor *haul_trapezoid_with(const haul_trapezoid_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_trapezoid);
    trapezoid_attributes a = {.dx = haul__option(o->dx, 1), .axis = o->axis};
    return HAUL__APPLY(trapezoid, &a, o->y, haul__optional(o->x));
}

/* ---- medians and modes ---- */

/* Gives the elements at one index of each line along the axis, and the indices. */
static haul_status give_at(haul__call *c, const axis_attributes *a, haul_tensor *at)
{
    haul_tensor *x = c->operands[0], *values = haul_gather(x, a->axis, at);
    bool         squeezes = !a->keepdim && x->shape.ndim;
    c->results[0] = squeezes ? haul_squeeze(values, a->axis) : values;
    c->results[1] = squeezes ? haul_squeeze(at, a->axis) : at;
    return haul__failed(c->results[0]) ? haul_error_status() : haul__status_of(c->results[1]);
}

/* The shape of x with one element along the axis. */
static haul_shape one_of(const haul_tensor *x, int axis)
{
    HAUL__ASSERT(axis == 0 || axis < x->shape.ndim);
    haul_shape shape = x->shape;
    if (shape.ndim)
        shape.dims[axis] = 1;
    return shape;
}

/* So many elements of a line are sorted in less time than one is looked for. */
enum { FEW = 1500 };

/* The index, along the axis, of the element that sorting puts at `place` of its line. */
static haul_tensor *index_at(const haul__call *c, haul_tensor *x, int axis, haul_tensor *place)
{
    const int64_t length = length_of(x, axis);
    HAUL__ASSERT(haul__failed(place) || place->count * length == x->count);
    /* GPUs share a row only when they sort it, and elements of one byte are sorted fast. */
    if (c->device->strided || length <= FEW || length > UINT32_MAX || haul_dtype_bits(x->dtype) == 8)
        return haul_gather(haul_argsort(x, axis, false), axis, place);
    const haul_shape one = one_of(x, axis);
    int              order[HAUL_MAX_DIMS] = {0}, last = 0;
    haul_shape       lines = {.ndim = x->shape.ndim};
    for (int d = 0; d < x->shape.ndim; d++)
        if (d != axis)
            order[last++] = d;
    HAUL__ASSERT(last + 1 == x->shape.ndim); /* each other axis once */
    order[last] = axis;
    for (int d = 0; d < last; d++)
        lines.dims[d] = x->shape.dims[order[d]];
    lines.dims[last] = 1;
    return haul_view(haul__nth(haul_permute(x, order, last + 1), haul_view(haul_contiguous(place), lines)), one);
}

/* NaN is behind all others in the order: one of them is the median if there are any, or those before it have one. */
static haul_status compose_median(haul__call *c, bool skips)
{
    axis_attributes *a = haul__attributes(c);
    haul_tensor     *x = c->operands[0];
    if (begin(c, &a->axis))
        return haul_error_status();
    const int64_t n = length_of(x, a->axis);
    HAUL__ASSERT(n > 0);
    haul_tensor *place;
    if (haul_dtype_is_float(x->dtype)) {
        haul_tensor *nans = haul_sum(haul_isnan(x), HAUL_AXES(a->axis), .keepdim = true);
        if (skips) { /* (n - nans - 1) / 2, and 0 if all are NaN */
            place = haul_floor_div_scalar(haul_maximum_scalar(haul_rsub(nans, (double)(n - 1)), 0), 2);
        } else {
            place = haul_where_scalar(haul_gt_scalar(nans, 0), haul_rsub(nans, (double)n), (double)((n - 1) / 2));
        }
    } else {
        place = haul_full(HAUL_I64, one_of(x, a->axis), (double)((n - 1) / 2));
    }
    return give_at(c, a, index_at(c, haul_detach(x), a->axis, place));
}

static haul_status compose_plain_median(haul__call *c)
{
    return compose_median(c, false);
}

static haul_status compose_nanmedian(haul__call *c)
{
    return compose_median(c, true);
}

/* In order, equal elements are runs; the place of each in its run is one less than how many precede it and itself. */
static haul_status compose_mode(haul__call *c)
{
    axis_attributes *a = haul__attributes(c);
    haul_tensor     *x = c->operands[0], *sorted, *order, *starts, *unused;
    if (begin(c, &a->axis))
        return haul_error_status();
    if (x->shape.ndim == 0)
        return give_at(c, a, haul_zeros(HAUL_I64, HAUL_SCALAR_SHAPE));
    if (haul_sort(haul_detach(x), a->axis, false, &sorted, &order))
        return haul_error_status();
    haul_tensor *at = haul_expand(positions(&x->shape, a->axis), x->shape);
    haul_tensor *differ = haul_ne(without_first(sorted, a->axis), without_last(sorted, a->axis));
    haul_tensor *begins = haul_cat((haul_tensor *[]){haul_ones(HAUL_BOOL, one_of(x, a->axis)), differ}, 2, a->axis);
    HAUL__ASSERT(haul__failed(begins) || haul__shape_equal(&begins->shape, &x->shape));
    if (haul_cummax(haul_where_scalar(begins, at, 0), a->axis, &starts, &unused))
        return haul_error_status();
    haul_tensor *best = haul_argmax(haul_sub(at, starts), a->axis, true);
    return give_at(c, a, haul_gather(order, a->axis, best));
}

HAUL__OPERATION(median) = {
    .name = "haul_median",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"values"}, {"indices"}},
    .attributes_size = HAUL__ATTRIBUTES(axis_attributes),
    .compose = compose_plain_median,
};

HAUL__OPERATION(nanmedian) = {
    .name = "haul_nanmedian",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"values"}, {"indices"}},
    .attributes_size = HAUL__ATTRIBUTES(axis_attributes),
    .compose = compose_nanmedian,
};

HAUL__OPERATION(most_common) = {
    .name = "haul_most_common",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"values"}, {"indices"}},
    .attributes_size = HAUL__ATTRIBUTES(axis_attributes),
    .compose = compose_mode,
};

haul_status haul_median(haul_tensor *x, int axis, bool keepdim, haul_tensor **values, haul_tensor **indices)
{
    return haul__apply_pair(&haul__operation_median, (&(axis_attributes){.axis = axis, .keepdim = keepdim}), x, values,
                            indices);
}

haul_status haul_nanmedian(haul_tensor *x, int axis, bool keepdim, haul_tensor **values, haul_tensor **indices)
{
    return haul__apply_pair(&haul__operation_nanmedian, (&(axis_attributes){.axis = axis, .keepdim = keepdim}), x,
                            values, indices);
}

haul_status haul_most_common(haul_tensor *x, int axis, bool keepdim, haul_tensor **values, haul_tensor **indices)
{
    return haul__apply_pair(&haul__operation_most_common, (&(axis_attributes){.axis = axis, .keepdim = keepdim}), x,
                            values, indices);
}

/* ---- quantiles ---- */

typedef struct quantile_attributes {
    double             q;
    haul_axes          axes;
    haul_quantile_rule rule;
    bool               keepdim;
    bool               reserved[7];
} quantile_attributes;

/* x with the chosen axes at the end, as one. The result's shape without them, or with ones, becomes *kept. */
static haul_tensor *as_lines(haul_tensor *x, const bool *chosen, bool keepdim, haul_shape *kept)
{
    haul_shape lines = {0};
    int        order[HAUL_MAX_DIMS + 1] = {0}, last = 0;
    int64_t    n = 1;
    *kept = (haul_shape){0};
    for (int d = 0; d < x->shape.ndim; d++)
        if (!chosen[d]) {
            order[lines.ndim] = d;
            lines.dims[lines.ndim++] = x->shape.dims[d];
        }
    last = lines.ndim;
    for (int d = 0; d < x->shape.ndim; d++) {
        if (chosen[d]) {
            order[last++] = d;
            n *= x->shape.dims[d]; /* part of a product that was checked */
        }
        if (!chosen[d] || keepdim)
            kept->dims[kept->ndim++] = chosen[d] ? 1 : x->shape.dims[d];
    }
    HAUL__ASSERT(last == x->shape.ndim);
    HAUL__ASSERT(kept->ndim <= x->shape.ndim);
    if (!x->shape.ndim)
        return haul_reshape(x, HAUL_SHAPE(1));
    haul_tensor *moved = haul_permute(x, order, x->shape.ndim);
    if (lines.ndim == HAUL_MAX_DIMS) /* no axis was chosen, which HAUL_AXES cannot say */
        return moved;
    lines.dims[lines.ndim++] = n;
    return haul_reshape(moved, lines);
}

/* The elements at two neighbouring places of a line in order, and the weight of the second one. */
static haul_tensor *between(haul_tensor *sorted, int64_t n, const quantile_attributes *a)
{
    const int    last = sorted->shape.ndim - 1;
    const double place = a->q * (double)(n - 1), low = floor(place);
    double       weight = place - low;
    switch (a->rule) {
    case HAUL_QUANTILE_LOWER: weight = 0; break;
    case HAUL_QUANTILE_HIGHER: weight = weight > 0; break;
    case HAUL_QUANTILE_NEAREST: weight = nearbyint(place) > low; break;
    case HAUL_QUANTILE_MIDPOINT: weight = weight > 0 ? 0.5 : 0; break;
    default: break;
    }
    HAUL__ASSERT(0 <= low && (int64_t)low + (weight > 0) < n);
    if (weight == 0 || weight == 1)
        return haul_select(sorted, last, (int64_t)low + (weight == 1));
    return haul_lerp_scalar(haul_select(sorted, last, (int64_t)low), haul_select(sorted, last, (int64_t)low + 1),
                            weight);
}

static haul_status compose_quantile(haul__call *c)
{
    const quantile_attributes *a = haul__attributes(c);
    haul_tensor               *x = c->operands[0], *sorted, *order;
    bool                       chosen[HAUL_MAX_DIMS] = {false};
    haul_shape                 kept;
    if (!(a->q >= 0 && a->q <= 1))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "q", "q is %g; a number from 0 to 1 is expected",
                          a->q);
    if ((int)a->rule < 0 || a->rule > HAUL_QUANTILE_MIDPOINT)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "interpolation",
                          "interpolation is %d; a HAUL_QUANTILE_ value is expected", (int)a->rule);
    if (haul__call_axes(c, a->axes.axes, a->axes.count, chosen))
        return haul_error_status();
    haul_tensor *lines = as_lines(x, chosen, a->keepdim, &kept);
    if (haul__failed(lines))
        return haul_error_status();
    const int64_t n = lines->shape.dims[lines->shape.ndim - 1];
    if (n == 0)
        return haul__refuse_shape(c, 0, "the axes must hold at least one element to choose from");
    if (haul_sort(lines, -1, false, &sorted, &order))
        return haul_error_status();
    haul_tensor *y = between(sorted, n, a), *nan = haul_isnan(haul_select(sorted, -1, n - 1)); /* NaN is the last */
    HAUL__ASSERT(haul__failed(y) || y->shape.ndim == lines->shape.ndim - 1);
    return give(c, haul_reshape(haul_masked_fill(y, nan, NAN), kept));
}

HAUL__OPERATION(quantile) = {
    .name = "haul_quantile",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .attributes_size = HAUL__ATTRIBUTES(quantile_attributes),
    .compose = compose_quantile,
};

haul_tensor *haul_quantile_with(haul_tensor *x, const haul_quantile_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_quantile);
    quantile_attributes a = {.q = o->q, .axes = o->haul__axes, .rule = o->interpolation, .keepdim = o->keepdim};
    return HAUL__APPLY(quantile, &a, x);
}

/* ---- sums without NaN ---- */

typedef struct nansum_attributes {
    haul_axes axes;
    int       keepdim;
} nansum_attributes;

static haul_reduce_options options_of(const haul__call *c, haul_tensor *x)
{
    const nansum_attributes *a = haul__attributes_of(c);
    return (haul_reduce_options){.x = x, .haul__axes = a->axes, .keepdim = a->keepdim};
}

static haul_tensor *sum_without_nan(const haul__call *c, haul_tensor *nan)
{
    haul_reduce_options o = options_of(c, haul_masked_fill(c->operands[0], nan, 0));
    return haul_sum_with(&o);
}

static haul_status compose_nansum(haul__call *c)
{
    haul_tensor        *x = c->operands[0];
    haul_reduce_options plain = options_of(c, x);
    return give(c, haul_dtype_is_float(x->dtype) ? sum_without_nan(c, haul_isnan(x)) : haul_sum_with(&plain));
}

static haul_status compose_nanmean(haul__call *c)
{
    haul_tensor        *nan = haul_isnan(c->operands[0]);
    haul_reduce_options count = options_of(c, haul_logical_not(nan));
    haul_tensor        *sum = sum_without_nan(c, nan);
    return give(c, haul__failed(sum) ? sum : haul_div(sum, haul_cast(haul_sum_with(&count), sum->dtype)));
}

HAUL__OPERATION(nansum) = {
    .name = "haul_nansum",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(nansum_attributes),
    .compose = compose_nansum,
};

HAUL__OPERATION(nanmean) = {
    .name = "haul_nanmean",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(nansum_attributes),
    .compose = compose_nanmean,
};

haul_tensor *haul_nansum_with(const haul_reduce_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_nansum);
    return HAUL__APPLY(nansum, (&(nansum_attributes){o->haul__axes, o->keepdim}), o->x);
}

haul_tensor *haul_nanmean_with(const haul_reduce_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_nanmean);
    return HAUL__APPLY(nanmean, (&(nansum_attributes){o->haul__axes, o->keepdim}), o->x);
}
