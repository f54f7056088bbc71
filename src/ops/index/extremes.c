/* The largest or smallest elements along an axis, and their indices. */
#include "base/assert.h"
#include "ops/index/index.h"

typedef struct extremes_attributes {
    int  axis;
    bool keepdim;
    bool reserved[3];
} extremes_attributes;

/* The elements to which argmax or argmin points. For a 0-d x, x itself. */
static haul_status compose(haul__call *c, haul_tensor *(*where)(haul_tensor *, int, bool))
{
    extremes_attributes *a = haul__attributes(c);
    haul_tensor         *x = c->operands[0];
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    if (x->shape.ndim && x->shape.dims[a->axis] == 0)
        return haul__refuse_shape(c, 0, "the axis must hold at least one element to choose from");
    HAUL__ASSERT(a->axis == 0 || a->axis < x->shape.ndim);
    haul_tensor *at = where(x, a->axis, true), *values = haul__gather_unique(x, a->axis, at);
    bool         squeezes = !a->keepdim && x->shape.ndim;
    c->results[0] = squeezes ? haul_squeeze(values, a->axis) : values;
    c->results[1] = squeezes ? haul_squeeze(at, a->axis) : at;
    HAUL__ASSERT(haul__failed(c->results[0]) || haul__failed(c->results[1]) ||
                 haul__shape_equal(&c->results[0]->shape, &c->results[1]->shape));
    return haul__failed(c->results[0]) || haul__failed(c->results[1]) ? haul_error_status() : HAUL_OK;
}

static haul_status compose_max(haul__call *c)
{
    return compose(c, haul_argmax);
}

static haul_status compose_min(haul__call *c)
{
    return compose(c, haul_argmin);
}

HAUL__OPERATION(max_with_indices) = {
    .name = "haul_max_with_indices",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"values"}, {"indices"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(extremes_attributes),
    .compose = compose_max,
};

HAUL__OPERATION(min_with_indices) = {
    .name = "haul_min_with_indices",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"values"}, {"indices"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(extremes_attributes),
    .compose = compose_min,
};

haul_status haul_max_with_indices(haul_tensor *x, int axis, bool keepdim, haul_tensor **values, haul_tensor **indices)
{
    return haul__apply_pair(&haul__operation_max_with_indices,
                            (&(extremes_attributes){.axis = axis, .keepdim = keepdim}), x, values, indices);
}

haul_status haul_min_with_indices(haul_tensor *x, int axis, bool keepdim, haul_tensor **values, haul_tensor **indices)
{
    return haul__apply_pair(&haul__operation_min_with_indices,
                            (&(extremes_attributes){.axis = axis, .keepdim = keepdim}), x, values, indices);
}
