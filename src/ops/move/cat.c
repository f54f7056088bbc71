/* Joining tensors: each operand is copied to its place in the result; the gradient takes it out again. cat joins along
 * an axis, stack along a new one. */
#include "base/assert.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "ops/attributes.h"

static int axis_of(haul__call *c)
{
    return ((const haul__join_attributes *)haul__attributes(c))->axis;
}

/* ---- shapes ---- */

/* Adds the other operands' lengths along the axis to that of the first one. */
static haul_status add_lengths(const haul__call *c, int axis, haul_shape *shape)
{
    char want[96], have[96];
    HAUL__ASSERT(0 <= axis && axis < shape->ndim);
    for (int i = 1; i < c->count; i++) {
        haul_shape other = c->operands[i]->shape;
        int64_t    size = axis < other.ndim ? other.dims[axis] : 0;
        if (axis < other.ndim)
            other.dims[axis] = shape->dims[axis];
        if (!haul__shape_equal(&other, shape))
            return haul__fail(HAUL_SHAPE, c->operation->name, "xs",
                              "xs[0] has shape %s, xs[%d] has %s; all must agree but along axis %d",
                              haul__shape_text(&c->operands[0]->shape, want, sizeof want), i,
                              haul__shape_text(&c->operands[i]->shape, have, sizeof have), axis);
        if (!haul__add_size(shape->dims[axis], size, &shape->dims[axis]))
            return haul__fail(HAUL_SHAPE, c->operation->name, "xs", "axis %d of the result is too long", axis);
    }
    return HAUL_OK;
}

static haul_status check_equal(const haul__call *c)
{
    char want[96], have[96];
    for (int i = 1; i < c->count; i++)
        if (!haul__shape_equal(&c->operands[i]->shape, &c->operands[0]->shape))
            return haul__fail(HAUL_SHAPE, c->operation->name, "xs",
                              "xs[0] has shape %s, xs[%d] has %s; all must have one shape",
                              haul__shape_text(&c->operands[0]->shape, want, sizeof want), i,
                              haul__shape_text(&c->operands[i]->shape, have, sizeof have));
    return HAUL_OK;
}

static haul_dtype common_dtype(const haul__call *c)
{
    haul_dtype dtype = c->operands[0]->dtype;
    for (int i = 1; i < c->count; i++)
        dtype = dtype ? haul__promote(c, dtype, i) : dtype;
    return dtype;
}

/* Copies an operand to its place in the result, which has these strides and begins at this offset. */
static haul_status copy_part(const haul__call *c, haul_tensor *x, const int64_t *strides, int64_t offset)
{
    HAUL__ASSERT(offset >= 0 && x->shape.ndim <= c->results[0]->shape.ndim);
    if (x->count == 0)
        return HAUL_OK;
    haul_tensor *place = haul__view_as(c, c->results[0], &x->shape, strides, c->results[0]->offset + offset);
    return haul__failed(place) ? haul_error_status() : haul__copy_elements(place, x, c->operation->name);
}

/* ---- cat ---- */

static haul_status infer_cat(haul__call *c)
{
    haul_shape             shape = c->operands[0]->shape;
    haul__join_attributes *a = haul__attributes(c);
    if (!common_dtype(c) || haul__call_proper_axis(c, 0, &a->axis) || add_lengths(c, a->axis, &shape))
        return haul_error_status();
    return haul__describe_like(c, 0, common_dtype(c), &shape, c->operands[0]);
}

static haul_status compute_cat(haul__call *c)
{
    int                axis = axis_of(c);
    const haul_tensor *y = c->results[0];
    int64_t            at = 0;
    for (int i = 0; i < c->count; i++) {
        if (copy_part(c, c->operands[i], y->strides, at * y->strides[axis]))
            return haul_error_status();
        at += c->operands[i]->shape.dims[axis];
    }
    HAUL__ASSERT(at == y->shape.dims[axis]); /* the parts fill the axis */
    return HAUL_OK;
}

static void cat_back(haul__gradient *g)
{
    int     axis = ((const haul__join_attributes *)g->attributes)->axis;
    int64_t at = 0;
    for (int i = 0; i < g->count; i++) {
        HAUL__ASSERT(axis < haul__operand_shape(g, i)->ndim);
        int64_t size = haul__operand_shape(g, i)->dims[axis];
        if (haul__wanted(g, i))
            g->operands[i] = haul_slice(g->results[0], axis, at, at + size, 1);
        at += size;
    }
}

HAUL__OPERATION(cat) = {
    .name = "haul_cat",
    .operands = {{"xs", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .repeat = 1,
    .attributes_size = HAUL__ATTRIBUTES(haul__join_attributes),
    .infer = infer_cat,
    .compute = compute_cat,
    .gradient = cat_back,
};

haul_tensor *haul_cat(haul_tensor *const *xs, int count, int axis)
{
    return haul__apply1(&haul__operation_cat, &(haul__join_attributes){axis}, xs, count);
}

haul_status haul_cat_into(haul_tensor *out, haul_tensor *const *xs, int count, int axis)
{
    return haul__apply_into(&out, &haul__operation_cat, &(haul__join_attributes){axis}, xs, count);
}

/* ---- stack ---- */

/* The strides of x with an additional axis of size 1. */
static void add_axis(const haul_tensor *x, int axis, int64_t *strides)
{
    HAUL__ASSERT(0 <= axis && axis <= x->shape.ndim && x->shape.ndim < HAUL_MAX_DIMS);
    for (int d = 0; d < axis; d++)
        strides[d] = x->strides[d];
    strides[axis] = axis < x->shape.ndim ? x->strides[axis] * x->shape.dims[axis] : 1;
    for (int d = axis; d < x->shape.ndim; d++)
        strides[d + 1] = x->strides[d];
}

static haul_status infer_stack(haul__call *c)
{
    int64_t                like[HAUL_MAX_DIMS], strides[HAUL_MAX_DIMS];
    const haul_tensor     *x = c->operands[0];
    haul__join_attributes *a = haul__attributes(c);
    haul_shape             shape = {.ndim = x->shape.ndim + 1};
    if (x->shape.ndim == HAUL_MAX_DIMS)
        return haul__refuse_shape(c, 0, "a tensor has at most 8 dimensions");
    if (!common_dtype(c) || haul__axis(a->axis, shape.ndim, c->operation->name, &a->axis) || check_equal(c))
        return haul_error_status();
    for (int d = 0; d < shape.ndim; d++)
        shape.dims[d] = d == a->axis ? c->count : x->shape.dims[d - (d > a->axis)];
    HAUL__ASSERT(c->count > 0);
    if (x->contiguous)
        return haul__describe(c, 0, common_dtype(c), &shape);
    add_axis(x, a->axis, like);
    haul__shape_strides_like(&shape, like, strides);
    return haul__describe_strided(c, 0, common_dtype(c), &shape, strides);
}

static haul_status compute_stack(haul__call *c)
{
    int                axis = axis_of(c);
    int64_t            strides[HAUL_MAX_DIMS] = {0};
    const haul_tensor *y = c->results[0];
    HAUL__ASSERT(0 <= axis && axis < y->shape.ndim && y->shape.dims[axis] == c->count);
    for (int d = 0; d < y->shape.ndim - 1; d++)
        strides[d] = y->strides[d + (d >= axis)];
    for (int i = 0; i < c->count; i++)
        if (copy_part(c, c->operands[i], strides, i * y->strides[axis]))
            return haul_error_status();
    return HAUL_OK;
}

static void stack_back(haul__gradient *g)
{
    int axis = ((const haul__join_attributes *)g->attributes)->axis;
    for (int i = 0; i < g->count; i++)
        if (haul__wanted(g, i))
            g->operands[i] = haul_select(g->results[0], axis, i);
}

HAUL__OPERATION(stack) = {
    .name = "haul_stack",
    .operands = {{"xs", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .repeat = 1,
    .attributes_size = HAUL__ATTRIBUTES(haul__join_attributes),
    .infer = infer_stack,
    .compute = compute_stack,
    .gradient = stack_back,
};

haul_tensor *haul_stack(haul_tensor *const *xs, int count, int axis)
{
    return haul__apply1(&haul__operation_stack, &(haul__join_attributes){axis}, xs, count);
}

haul_status haul_stack_into(haul_tensor *out, haul_tensor *const *xs, int count, int axis)
{
    return haul__apply_into(&out, &haul__operation_stack, &(haul__join_attributes){axis}, xs, count);
}
