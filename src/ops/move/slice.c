/* Slices: parts of a tensor as views of it. The gradient is g surrounded by zeros, an operation with its own
 * gradient. */
#include "base/assert.h"
#include "engine/attribute_shape.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "ops/attributes.h"

static int64_t clamp_index(int64_t i, int64_t size)
{
    i = i < 0 ? i + size : i;
    return i < 0 ? 0 : i > size ? size : i;
}

static int64_t part_count(const haul__part *at)
{
    HAUL__ASSERT(at->step >= 1);
    return at->stop > at->start ? (at->stop - at->start - 1) / at->step + 1 : 0;
}

/* The same elements with start and stop inside the axis, and a step with which no stride overflows. */
static void complete(haul__part *at, int64_t size)
{
    at->start = clamp_index(at->start, size);
    at->stop = clamp_index(at->stop, size);
    HAUL__ASSERT(0 <= at->start && at->start <= size && 0 <= at->stop && at->stop <= size);
    if (part_count(at) <= 1) {
        at->stop = at->stop > at->start ? at->start + 1 : at->start;
        at->step = 1;
    }
}

/* The shape of a part of t, its strides, and its offset; the outputs may be t's own. */
static int64_t part_layout(const haul__part *at, const haul_tensor *t, haul_shape *shape, int64_t *strides)
{
    HAUL__ASSERT(0 <= at->axis && at->axis < t->shape.ndim && 0 <= at->start);
    int64_t count = part_count(at), offset = t->offset + (count ? at->start * t->strides[at->axis] : 0);
    *shape = t->shape;
    for (int d = 0; d < t->shape.ndim; d++)
        strides[d] = d == at->axis ? t->strides[d] * at->step : t->strides[d];
    shape->dims[at->axis] = count;
    HAUL__ASSERT(!count || at->start + (count - 1) * at->step < t->shape.dims[at->axis]);
    return offset;
}

/* ---- the gradient: zeros, with g in place of the part ---- */

typedef struct put_attributes {
    haul__part            at;
    haul__attribute_shape shape; /* of the result */
} put_attributes;

static haul_status infer_put(haul__call *c)
{
    const put_attributes *a = haul__attributes(c);
    const haul_tensor    *g = c->operands[0];
    const haul_shape      shape = haul__shape_of_attribute(&a->shape);
    HAUL__ASSERT(shape.ndim == g->shape.ndim);
    return haul__describe_like(c, 0, g->dtype, &shape, g);
}

static haul_status compute_put(haul__call *c)
{
    haul_shape   shape;
    int64_t      strides[HAUL_MAX_DIMS];
    haul_tensor *y = c->results[0];
    int64_t      offset = part_layout(&((const put_attributes *)haul__attributes(c))->at, y, &shape, strides);
    HAUL__ASSERT(haul__shape_equal(&shape, &c->operands[0]->shape));
    haul_tensor *place = haul__view_as(c, y, &shape, strides, offset);
    if (!place || haul__fill_elements(y, 0, c->operation->name))
        return haul_error_status();
    return haul__copy_elements(place, c->operands[0], c->operation->name);
}

static void take_again(haul__gradient *g)
{
    const haul__part *at = &((const put_attributes *)g->attributes)->at;
    g->operands[0] = haul_slice(g->results[0], at->axis, at->start, at->stop, at->step);
}

HAUL__OPERATION(slice_backward) = {
    .name = "haul_slice_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES}},
    .results = {{"dx"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(put_attributes),
    .infer = infer_put,
    .compute = compute_put,
    .gradient = take_again,
};

static haul_tensor *put(haul_tensor *g, haul__part at, const haul_shape *shape)
{
    put_attributes a = {.at = at};
    haul__shape_to_attribute(&a.shape, shape);
    return HAUL__APPLY(slice_backward, &a, g);
}

/* ---- slice ---- */

static haul_status infer_slice(haul__call *c)
{
    haul_shape         shape;
    int64_t            strides[HAUL_MAX_DIMS];
    haul__part        *at = haul__attributes(c);
    const haul_tensor *x = c->operands[0];
    if (haul__call_proper_axis(c, 0, &at->axis))
        return haul_error_status();
    if (at->step < 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "step", "step is %lld; it must be at least 1",
                          (long long)at->step);
    complete(at, x->shape.dims[at->axis]);
    int64_t offset = part_layout(at, x, &shape, strides);
    HAUL__ASSERT(shape.dims[at->axis] <= x->shape.dims[at->axis]);
    return haul__describe_view(c, 0, &shape, strides, offset);
}

static void slice_back(haul__gradient *g)
{
    g->operands[0] = put(g->results[0], *(const haul__part *)g->attributes, haul__operand_shape(g, 0));
}

HAUL__OPERATION(slice) = {
    .name = "haul_slice",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__part),
    .infer = infer_slice,
    .gradient = slice_back,
};

haul_tensor *haul_slice(haul_tensor *x, int axis, int64_t start, int64_t stop, int64_t step)
{
    return HAUL__APPLY(slice, (&(haul__part){.axis = axis, .start = start, .stop = stop, .step = step}), x);
}

/* ---- select: a part with one element, without the axis ---- */

static haul_status infer_select(haul__call *c)
{
    haul__select_attributes *a = haul__attributes(c);
    const haul_tensor       *x = c->operands[0];
    int                      axis = a->axis;
    if (haul__call_proper_axis(c, 0, &a->axis))
        return haul_error_status();
    int64_t size = x->shape.dims[a->axis], index = a->index;
    HAUL__ASSERT(0 <= a->axis && a->axis < x->shape.ndim);
    a->index = index < 0 ? index + size : index;
    if (a->index < 0 || a->index >= size)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "index",
                          "index %lld is out of range for axis %d, which has %lld elements", (long long)index, axis,
                          (long long)size);
    haul_shape shape = {.ndim = x->shape.ndim - 1};
    int64_t    strides[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        shape.dims[d] = x->shape.dims[d + (d >= a->axis)];
        strides[d] = x->strides[d + (d >= a->axis)];
    }
    int64_t offset = x->count ? a->index * x->strides[a->axis] : 0;
    return haul__describe_view(c, 0, &shape, strides, x->offset + offset);
}

static void select_back(haul__gradient *g)
{
    const haul__select_attributes *s = g->attributes;
    const haul__part               at = {.axis = s->axis, .start = s->index, .stop = s->index + 1, .step = 1};
    g->operands[0] = put(haul_unsqueeze(g->results[0], s->axis), at, haul__operand_shape(g, 0));
}

HAUL__OPERATION(select) = {
    .name = "haul_select",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .view = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__select_attributes),
    .infer = infer_select,
    .gradient = select_back,
};

haul_tensor *haul_select(haul_tensor *x, int axis, int64_t index)
{
    return HAUL__APPLY(select, (&(haul__select_attributes){.axis = axis, .index = index}), x);
}
