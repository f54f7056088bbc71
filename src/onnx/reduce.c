/* Operators that reduce axes. */
#include <haul/dtype.h>
#include <haul/elementwise.h>
#include <haul/statistics.h>
#include <haul/transfer.h>
#include <string.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/tensor.h"
#include "onnx/families.h"

#define X(i) haul__onnx_x(c, i)

/* The axes are an attribute at first, and an input from 13 on in ReduceSum, from 18 on in the others. */
static haul_status options_of(haul__onnx_call *c, haul_tensor *x, haul_reduce_options *o, bool *noop)
{
    haul__onnx_list axes;
    const int       since = !strcmp(c->step->row->name, "ReduceSum") ? 13 : 18;
    if (haul__onnx_ints_or_input(c, "axes", 1, since, &axes))
        return haul_error_status();
    if (axes.count > HAUL_MAX_DIMS)
        return haul__onnx_wrong(c, "more than 8 axes"), haul_error_status();
    *o = (haul_reduce_options){.x = x, .keepdim = haul__onnx_int(c, "keepdims", 1) != 0};
    HAUL__ASSERT(0 <= axes.count && axes.count <= HAUL_MAX_DIMS);
    o->haul__axes.count = axes.count;
    for (int i = 0; i < axes.count; i++)
        if (haul__onnx_axis(c, axes.items[i], haul__onnx_shape(c, 0).ndim, &o->haul__axes.axes[i]))
            return haul_error_status();
    *noop = !axes.count && haul__onnx_int(c, "noop_with_empty_axes", 0) != 0;
    return HAUL_OK;
}

typedef haul_tensor *reduction(const haul_reduce_options *options);

static haul_tensor *reduce(haul__onnx_call *c, haul_tensor *x, reduction *f)
{
    haul_reduce_options o;
    bool                noop = false;
    if (options_of(c, x, &o, &noop))
        return NULL;
    return noop ? x : f(&o);
}

static haul_tensor *settled(haul__onnx_call *c, haul_tensor *y)
{
    return haul_cast(y, haul__onnx_type(c, 0));
}

haul_tensor *haul__onnx_reduce(haul__onnx_call *c)
{
    haul_tensor *x = X(0);
    reduction   *f = c->step->row->use.reduce;
    if (haul__onnx_type(c, 0) == HAUL_BOOL && (f == haul_max_with || f == haul_min_with))
        f = f == haul_max_with ? haul_any_with : haul_all_with;
    if (f == haul_mean_with && !haul_dtype_is_float(haul__onnx_type(c, 0)))
        x = haul_cast(x, HAUL_F64);
    return settled(c, reduce(c, x, f));
}

haul_tensor *haul__onnx_reduce_l1(haul__onnx_call *c)
{
    return settled(c, reduce(c, haul_abs(X(0)), haul_sum_with));
}

haul_tensor *haul__onnx_reduce_l2(haul__onnx_call *c)
{
    return settled(c, haul_sqrt(reduce(c, haul_square(X(0)), haul_sum_with)));
}

haul_tensor *haul__onnx_reduce_log_sum(haul__onnx_call *c)
{
    return settled(c, haul_log(reduce(c, X(0), haul_sum_with)));
}

haul_tensor *haul__onnx_reduce_sum_square(haul__onnx_call *c)
{
    return settled(c, reduce(c, haul_square(X(0)), haul_sum_with));
}

haul_tensor *haul__onnx_arg(haul__onnx_call *c)
{
    const bool keep = haul__onnx_int(c, "keepdims", 1) != 0, last = haul__onnx_int(c, "select_last_index", 0) != 0;
    const haul_shape shape = haul__onnx_shape(c, 0);
    int              axis;
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", 0), shape.ndim ? shape.ndim : 1, &axis))
        return NULL;
    if (!last)
        return c->step->row->use.axis_keep(X(0), axis, keep);
    haul_tensor *y = c->step->row->use.axis_keep(haul_flip(X(0), HAUL_AXES(axis)), axis, keep);
    return haul_rsub(y, (double)(shape.dims[axis] - 1));
}

/* Sums or products along an axis. Exclusive ones are those of the elements before: the first is what `first` makes. */
static haul_tensor *scan(haul__onnx_call *c, haul_tensor *(*along)(haul_tensor *x, int axis),
                         haul_tensor *(*first)(haul_tensor *like))
{
    const bool   exclusive = haul__onnx_int(c, "exclusive", 0) != 0, reverse = haul__onnx_int(c, "reverse", 0) != 0;
    haul_tensor *x = X(0);
    int64_t      wanted;
    int          axis;
    if (haul__onnx_integer(c, 1, 0, &wanted) || haul__onnx_axis(c, wanted, haul__onnx_shape(c, 0).ndim, &axis))
        return NULL;
    haul_tensor *y = along(reverse ? haul_flip(x, HAUL_AXES(axis)) : x, axis);
    if (exclusive && !haul__failed(y)) {
        haul_tensor *parts[] = {first(haul_slice(y, axis, 0, 1, 1)), y};
        y = haul_slice(haul_cat(parts, 2, axis), axis, 0, haul__onnx_shape(c, 0).dims[axis], 1);
    }
    return settled(c, reverse ? haul_flip(y, HAUL_AXES(axis)) : y);
}

haul_tensor *haul__onnx_cumsum(haul__onnx_call *c)
{
    return scan(c, haul_cumsum, haul_zeros_like);
}

haul_tensor *haul__onnx_cumprod(haul__onnx_call *c)
{
    return scan(c, haul_cumprod, haul_ones_like);
}

/* Vectors of zeros stay as they are. */
haul_tensor *haul__onnx_lp_normalization(haul__onnx_call *c)
{
    const int64_t p = haul__onnx_int(c, "p", 2);
    haul_tensor  *x = X(0);
    int           axis;
    if (p != 1 && p != 2)
        return haul__onnx_refuse(c, "a p other than 1 and 2");
    if (haul__onnx_axis(c, haul__onnx_int(c, "axis", -1), haul__onnx_shape(c, 0).ndim, &axis))
        return NULL;
    haul_tensor *norm = haul_sum(p == 1 ? haul_abs(x) : haul_square(x), HAUL_AXES(axis), .keepdim = true);
    norm = p == 1 ? norm : haul_sqrt(norm);
    return haul_div(x, haul_where_scalar(haul_ne_scalar(norm, 0), norm, 1));
}

haul_tensor *haul__onnx_mean_variance_normalization(haul__onnx_call *c)
{
    haul_tensor        *x = X(0);
    haul__onnx_list     axes;
    haul_reduce_options o = {.x = x, .keepdim = true};
    int                 axis;
    if (haul__onnx_ints(c, "axes", &axes))
        return NULL;
    if (axes.count > HAUL_MAX_DIMS)
        return haul__onnx_wrong(c, "more than 8 axes");
    if (!axes.given)
        axes = (haul__onnx_list){.count = 3, .items = {0, 2, 3}};
    for (int i = 0; i < axes.count; i++) {
        if (haul__onnx_axis(c, axes.items[i], haul__onnx_shape(c, 0).ndim, &axis))
            return NULL;
        o.haul__axes.axes[o.haul__axes.count++] = axis;
    }
    x = haul_sub(x, haul_mean_with(&o));
    o.x = haul_square(x);
    return haul_div(x, haul_add_scalar(haul_sqrt(haul_mean_with(&o)), 1e-9));
}
