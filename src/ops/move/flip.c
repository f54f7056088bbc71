/* haul_flip and haul_roll: the elements of axes in reverse order, or shifted. The gradients undo it. */
#include "base/assert.h"
#include "engine/operation.h"
#include "ops/attributes.h"
#include "ops/move/remap.h"

/* The same shape and layout as x. */
static haul_status describe(haul__call *c)
{
    const haul_tensor *x = c->operands[0];
    return haul__describe_like(c, 0, x->dtype, &x->shape, x);
}

/* ---- flip ---- */

static haul_status infer_flip(haul__call *c)
{
    haul__flip_attributes *a = haul__attributes(c);
    return haul__call_axes(c, a->axes, a->count, a->flipped) ? haul_error_status() : describe(c);
}

static haul_status compute_flip(haul__call *c)
{
    const haul__flip_attributes *a = haul__attributes(c);
    haul__axis_map               maps[HAUL_MAX_DIMS] = {{0}};
    for (int d = 0; d < HAUL_MAX_DIMS; d++)
        maps[d].way = a->flipped[d] ? HAUL__WAY_BACK : HAUL__WAY_PLAIN;
    return haul__remap(c, c->results[0], c->operands[0], maps, 0);
}

static void flip_gradient(haul__gradient *g)
{
    g->operands[0] = haul__apply1(g->operation, g->attributes, g->results, 1);
}

HAUL__OPERATION(flip) = {
    .name = "haul_flip",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__flip_attributes),
    .infer = infer_flip,
    .compute = compute_flip,
    .gradient = flip_gradient,
};

static haul__flip_attributes attributes_of(const haul_flip_options *o)
{
    haul__flip_attributes a = {.count = o->haul__axes.count};
    for (int i = 0; i < a.count && i < HAUL_MAX_DIMS; i++)
        a.axes[i] = o->haul__axes.axes[i];
    return a;
}

HAUL__FUNCTION_WITH(flip, haul__flip_attributes, attributes_of(o), (const haul_flip_options *o), o->x)

/* ---- roll ---- */

static haul_status infer_roll(haul__call *c)
{
    haul__roll_attributes *a = haul__attributes(c);
    if (haul__call_proper_axis(c, 0, &a->axis))
        return haul_error_status();
    const int64_t n = c->operands[0]->shape.dims[a->axis];
    a->shift = n ? a->shift % n : 0;
    a->shift += a->shift < 0 ? n : 0;
    HAUL__ASSERT(0 <= a->shift && (a->shift < n || !n));
    return describe(c);
}

static haul_status compute_roll(haul__call *c)
{
    const haul__roll_attributes *a = haul__attributes(c);
    haul_tensor                 *x = c->operands[0];
    HAUL__ASSERT(a->axis < x->shape.ndim && a->shift <= x->shape.dims[a->axis]);
    haul__axis_map maps[HAUL_MAX_DIMS] = {{0}};
    maps[a->axis] = (haul__axis_map){HAUL__WAY_WRAP, x->shape.dims[a->axis] - a->shift};
    return haul__remap(c, c->results[0], x, maps, 0);
}

static void roll_gradient(haul__gradient *g)
{
    const haul__roll_attributes *a = g->attributes;
    g->operands[0] = haul_roll(g->results[0], -a->shift, a->axis);
}

HAUL__OPERATION(roll) = {
    .name = "haul_roll",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__roll_attributes),
    .infer = infer_roll,
    .compute = compute_roll,
    .gradient = roll_gradient,
};

HAUL__FUNCTION(roll, (&(haul__roll_attributes){.shift = shift, .axis = axis}),
               (haul_tensor * x, int64_t shift, int axis), x)
