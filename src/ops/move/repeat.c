/* haul_repeat and haul_repeat_interleave: a tensor, or each of its elements, several times along axes. The gradients
 * add up what came from one element. */
#include "base/assert.h"
#include "engine/attribute_shape.h"
#include "engine/operation.h"
#include "ops/attributes.h"
#include "ops/move/remap.h"

/* x, whose dimensions are the last ones of y, with as many dimensions as y. */
static haul_tensor *with_axes_of(const haul__call *c, haul_tensor *x, const haul_tensor *y)
{
    const int lead = y->shape.ndim - x->shape.ndim;
    HAUL__ASSERT(lead >= 0);
    haul_shape shape = {.ndim = y->shape.ndim};
    int64_t    strides[HAUL_MAX_DIMS] = {0};
    for (int d = 0; d < shape.ndim; d++) {
        shape.dims[d] = d < lead ? 1 : x->shape.dims[d - lead];
        strides[d] = d < lead ? 0 : x->strides[d - lead];
    }
    return haul__view_as(c, x, &shape, strides, x->offset);
}

static int64_t product(const haul_shape *shape, int from, int to)
{
    HAUL__ASSERT(0 <= from && from <= to && to <= shape->ndim);
    int64_t n = 1; /* part of a product that was checked */
    for (int d = from; d < to; d++)
        n *= shape->dims[d];
    return n;
}

/* ---- repeat ---- */

static haul_shape times_of(const haul__repeat_attributes *a)
{
    return haul__shape_of_attribute(&a->times);
}

static haul_status infer_repeat(haul__call *c)
{
    char               text[96];
    const haul_tensor *x = c->operands[0];
    const haul_shape   times = times_of(haul__attributes(c));
    const int          lead = times.ndim - x->shape.ndim;
    haul_shape         shape = times;
    if (times.ndim > HAUL_MAX_DIMS || lead < 0)
        return haul__fail(HAUL_SHAPE, c->operation->name, "times",
                          "times has %d dimensions, x has %d; expected are as many as x has or more, at most %d",
                          times.ndim, x->shape.ndim, HAUL_MAX_DIMS);
    for (int d = 0; d < shape.ndim; d++) {
        if (times.dims[d] < 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "times",
                              "times is %s; a tensor is repeated 0 times or more",
                              haul__shape_text(&times, text, sizeof text));
        if (d >= lead && !haul__mul_size(times.dims[d], x->shape.dims[d - lead], &shape.dims[d]))
            return haul__refuse_shape(c, 0, "dims that fit in 64 bits when they are repeated are expected");
    }
    return haul__describe(c, 0, x->dtype, &shape);
}

static haul_status compute_repeat(haul__call *c)
{
    haul_tensor   *y = c->results[0], *x = with_axes_of(c, c->operands[0], y);
    haul__axis_map maps[HAUL_MAX_DIMS] = {{0}};
    if (haul__failed(x))
        return haul_error_status();
    for (int d = 0; d < y->shape.ndim; d++)
        maps[d].way = y->shape.dims[d] == x->shape.dims[d] ? HAUL__WAY_PLAIN : HAUL__WAY_WRAP;
    return haul__remap(c, y, x, maps, 0);
}

static void repeat_gradient(haul__gradient *c)
{
    const haul_shape times = times_of(c->attributes);
    haul_tensor     *g = c->results[0];
    haul_shape       shape = g->shape;
    if (g->count == 0)
        return; /* the result is empty, so the gradient is zero */
    for (int d = 0; d < shape.ndim; d++) {
        const int64_t n = times.dims[d];
        HAUL__ASSERT(n > 0 && shape.dims[d] % n == 0); /* there are elements */
        if (n == 1)
            continue;
        g = haul_reshape(g, HAUL_SHAPE(product(&shape, 0, d), n, product(&shape, d, shape.ndim) / n));
        g = haul_sum(g, HAUL_AXES(1));
        shape.dims[d] /= n;
    }
    c->operands[0] = haul_reshape(g, *haul__operand_shape(c, 0));
}

HAUL__OPERATION(repeat) = {
    .name = "haul_repeat",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__repeat_attributes),
    .infer = infer_repeat,
    .compute = compute_repeat,
    .gradient = repeat_gradient,
};

haul_tensor *haul_repeat(haul_tensor *x, haul_shape times)
{
    haul__repeat_attributes a;
    haul__shape_to_attribute(&a.times, &times);
    return HAUL__APPLY(repeat, &a, x);
}

/* ---- repeat_interleave ---- */

typedef struct interleave_attributes {
    int64_t times;
    int     axis, reserved;
} interleave_attributes;

static haul_status infer_interleave(haul__call *c)
{
    interleave_attributes *a = haul__attributes(c);
    const haul_tensor     *x = c->operands[0];
    haul_shape             shape = x->shape;
    if (haul__call_proper_axis(c, 0, &a->axis))
        return haul_error_status();
    if (a->times < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "times",
                          "times is %lld; an element is repeated 0 times or more", (long long)a->times);
    if (!haul__mul_size(shape.dims[a->axis], a->times, &shape.dims[a->axis]))
        return haul__refuse_shape(c, 0, "dims that fit in 64 bits when they are repeated are expected");
    return haul__describe_like(c, 0, x->dtype, &shape, x);
}

static haul_status compute_interleave(haul__call *c)
{
    const interleave_attributes *a = haul__attributes(c);
    HAUL__ASSERT(c->results[0]->shape.dims[a->axis] == c->operands[0]->shape.dims[a->axis] * a->times);
    haul__axis_map maps[HAUL_MAX_DIMS] = {{0}};
    maps[a->axis] = (haul__axis_map){HAUL__WAY_EACH, a->times};
    return haul__remap(c, c->results[0], c->operands[0], maps, 0);
}

static void interleave_gradient(haul__gradient *c)
{
    const interleave_attributes *a = c->attributes;
    const haul_shape            *shape = haul__operand_shape(c, 0);
    if (c->results[0]->count == 0)
        return; /* the result is empty, so the gradient is zero */
    haul_shape split = HAUL_SHAPE(product(shape, 0, a->axis + 1), a->times, product(shape, a->axis + 1, shape->ndim));
    c->operands[0] = haul_reshape(haul_sum(haul_reshape(c->results[0], split), HAUL_AXES(1)), *shape);
}

HAUL__OPERATION(repeat_interleave) = {
    .name = "haul_repeat_interleave",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(interleave_attributes),
    .infer = infer_interleave,
    .compute = compute_interleave,
    .gradient = interleave_gradient,
};

HAUL__FUNCTION(repeat_interleave, (&(interleave_attributes){.times = times, .axis = axis}),
               (haul_tensor * x, int64_t times, int axis), x)
