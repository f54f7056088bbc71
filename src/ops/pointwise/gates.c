/* Activations of two tensors, or of two halves of one: gated linear units, and a relu with slopes that are learned. */
#include "base/assert.h"
#include "engine/operation.h"
#include "ops/pointwise/internal.h"

typedef struct glu_attributes {
    int axis;
} glu_attributes;

static haul_status give(haul__call *c, haul_tensor *y)
{
    c->results[0] = y;
    return haul__failed(y) ? haul_error_status() : HAUL_OK;
}

/* ---- haul_glu ---- */

static haul_status glu(haul__call *c)
{
    haul_tensor *x = c->operands[0], *parts[2];
    int          axis = ((const glu_attributes *)haul__attributes(c))->axis;
    if (!x->shape.ndim)
        return haul__refuse_shape(c, 0, "at least one dimension is expected");
    if (haul__axis(axis, x->shape.ndim, c->operation->name, &axis))
        return haul_error_status();
    if (x->shape.dims[axis] % 2) {
        char text[96];
        return haul__fail(HAUL_SHAPE, c->operation->name, "x",
                          "x has shape %s, with %lld elements along axis %d; an even number is expected",
                          haul__shape_text(&x->shape, text, sizeof text), (long long)x->shape.dims[axis], axis);
    }
    if (haul_chunk(x, axis, 2, parts))
        return haul_error_status();
    HAUL__ASSERT(parts[0]->count == parts[1]->count && parts[0]->count * 2 == x->count);
    return give(c, haul_mul(parts[0], haul_sigmoid(parts[1])));
}

HAUL__OPERATION(glu) = {
    .name = "haul_glu",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .attributes_size = HAUL__ATTRIBUTES(glu_attributes),
    .compose = glu,
};

haul_tensor *haul_glu(haul_tensor *x, int axis)
{
    return HAUL__APPLY(glu, &(glu_attributes){axis}, x);
}

/* ---- haul_prelu ---- */

/* Slopes for each channel of x, [C, 1, 1 ...], or a single one without dimensions. */
static haul_status prelu(haul__call *c)
{
    haul_tensor  *x = c->operands[0], *weight = c->operands[1];
    const int     ndim = x->shape.ndim;
    const int64_t channels = ndim > 1 ? x->shape.dims[1] : 1;
    haul_shape    shape = {.ndim = ndim > 1 ? ndim - 1 : 0};
    if (weight->shape.ndim > 1 || (weight->count != 1 && weight->count != channels)) {
        char have[96], of[96];
        return haul__fail(HAUL_SHAPE, c->operation->name, "weight",
                          "weight has shape %s; [1] is expected, or [%lld], the channels of x of shape %s",
                          haul__shape_text(&weight->shape, have, sizeof have), (long long)channels,
                          haul__shape_text(&x->shape, of, sizeof of));
    }
    for (int d = 1; d < shape.ndim; d++)
        shape.dims[d] = 1;
    shape.dims[0] = channels;
    return give(c, haul__prelu_elements(x, haul_reshape(weight, weight->count == 1 ? HAUL_SCALAR_SHAPE : shape)));
}

HAUL__OPERATION(prelu) = {
    .name = "haul_prelu",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}, {"weight"}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .compose = prelu,
};

haul_tensor *haul_prelu(haul_tensor *x, haul_tensor *weight)
{
    return HAUL__APPLY(prelu, NULL, x, weight);
}
