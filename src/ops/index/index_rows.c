/* Parts of a tensor along an axis, for example rows, added, put or filled where indices point. */
#include <math.h>

#include "base/assert.h"
#include "engine/operation.h"
#include "ops/index/index.h"

typedef struct rows_attributes {
    int    axis, reserved;
    double value; /* of haul_index_fill */
} rows_attributes;

enum { X, INDEX, SOURCE };

/* index is [n]; source, if there is one, has x's shape with n along the axis. */
static haul_status check(haul__call *c)
{
    rows_attributes   *a = haul__attributes(c);
    haul_shape         shape = c->operands[X]->shape;
    const haul_tensor *index = c->operands[INDEX];
    if (haul__call_proper_axis(c, X, &a->axis))
        return haul_error_status();
    HAUL__ASSERT(0 <= a->axis && a->axis < shape.ndim);
    if (index->shape.ndim != 1)
        return haul__refuse_shape(c, INDEX, "one dimension is expected");
    if (index->count > 0 && shape.dims[a->axis] == 0)
        return haul__fail(HAUL_SHAPE, c->operation->name, "index", "no index is valid: that axis has no elements");
    shape.dims[a->axis] = index->count;
    if (c->count > SOURCE && !haul__shape_equal(&shape, &c->operands[SOURCE]->shape))
        return haul__refuse_shape(c, SOURCE, "the shape of x is expected, with the size of index along the axis");
    return HAUL_OK;
}

static haul_status finish(haul__call *c, haul_tensor *y)
{
    c->results[0] = y;
    return haul__failed(y) ? haul_error_status() : HAUL_OK;
}

/* index, repeated for each element of the parts. */
static haul_tensor *expanded(haul_tensor *index, const haul_shape *shape, int axis)
{
    haul_shape own = {.ndim = shape->ndim};
    HAUL__ASSERT(0 <= axis && axis < shape->ndim && index->count == shape->dims[axis]);
    for (int d = 0; d < shape->ndim; d++)
        own.dims[d] = d == axis ? shape->dims[d] : 1;
    return haul_expand(haul_reshape(index, own), *shape);
}

static haul_status add(haul__call *c)
{
    if (check(c))
        return haul_error_status();
    haul_tensor  *x = c->operands[X], *index = c->operands[INDEX], *source = c->operands[SOURCE];
    const int     axis = ((const rows_attributes *)haul__attributes(c))->axis;
    const int64_t size = x->shape.dims[axis];
    if (!haul_dtype_is_float(x->dtype))
        return finish(c, haul_scatter_add(x, axis, expanded(index, &source->shape, axis), source));
    return finish(c, haul_add(x, haul__index_select_backward(source, axis, index, size, -1)));
}

HAUL__OPERATION(index_add) = {
    .name = "haul_index_add",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64},
                 {"source", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__NUMBERS,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(rows_attributes),
    .compose = add,
};

haul_tensor *haul_index_add(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source)
{
    return HAUL__APPLY(index_add, &(rows_attributes){.axis = axis}, x, index, source);
}

/* For each place along the axis, in the shape [.., size, .., 1], the last index that points there, or -1. */
static haul_tensor *last_index(haul__call *c)
{
    haul_tensor *x = c->operands[X], *index = c->operands[INDEX];
    const int    axis = ((const rows_attributes *)haul__attributes(c))->axis;
    haul_shape   shape = {.ndim = x->shape.ndim};
    HAUL__ASSERT(0 <= axis && axis < shape.ndim);
    for (int d = 0; d < shape.ndim; d++)
        shape.dims[d] = d == axis ? x->shape.dims[d] : 1;
    if (haul_set_device(c->device)) /* until the call ends */
        return haul__failed_tensor();
    haul_tensor *none = haul_full(HAUL_I64, HAUL_SHAPE(shape.dims[axis]), -1);
    return haul_reshape(haul_scatter(none, 0, index, haul_arange_i64(0, index->count, 1)), shape);
}

static haul_status copy(haul__call *c)
{
    if (check(c))
        return haul_error_status();
    haul_tensor *x = c->operands[X], *last = last_index(c);
    const int    axis = ((const rows_attributes *)haul__attributes(c))->axis;
    if (!c->operands[INDEX]->count)
        return finish(c, haul_identity(x, c->device));
    haul_tensor *from = haul_reshape(haul_clamp(last, 0, HUGE_VAL), HAUL_SHAPE(-1));
    return finish(c, haul_where(haul_ge_scalar(last, 0), haul_index_select(c->operands[SOURCE], axis, from), x));
}

HAUL__OPERATION(index_copy) = {
    .name = "haul_index_copy",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64},
                 {"source", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(rows_attributes),
    .compose = copy,
};

haul_tensor *haul_index_copy(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source)
{
    return HAUL__APPLY(index_copy, &(rows_attributes){.axis = axis}, x, index, source);
}

static haul_status fill(haul__call *c)
{
    if (check(c))
        return haul_error_status();
    haul_tensor *mask = haul_ge_scalar(last_index(c), 0);
    return finish(c, haul_masked_fill(c->operands[X], mask, ((const rows_attributes *)haul__attributes(c))->value));
}

HAUL__OPERATION(index_fill) = {
    .name = "haul_index_fill",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}, {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(rows_attributes),
    .compose = fill,
};

haul_tensor *haul_index_fill(haul_tensor *x, int axis, haul_tensor *index, double value)
{
    return HAUL__APPLY(index_fill, (&(rows_attributes){.axis = axis, .value = value}), x, index);
}
