/* Transposed 2-d convolution: the pass that computes a convolution's gradient of x, with a bias. Its x is the dy of
 * that pass, so weight is [C_in, C_out / groups, KH, KW]. */
#include <stdio.h>

#include "base/assert.h"
#include "core/option.h"
#include "ops/conv/conv2d.h"

/* ---- infer ---- */

static haul_status check_shapes(const haul__call *c)
{
    const haul_shape *x = &c->operands[0]->shape, *weight = &c->operands[1]->shape;
    if (x->ndim != 4)
        return haul__refuse_shape(c, 0, "it must be [N, C, H, W]");
    if (weight->ndim != 4)
        return haul__refuse_shape(c, 1, "it must be [C_in, C_out / groups, KH, KW]");
    if (x->dims[1] == 0 || x->dims[2] == 0 || x->dims[3] == 0)
        return haul__refuse_shape(c, 0, "only its batch can be empty");
    if (c->operands[1]->count == 0)
        return haul__refuse_shape(c, 1, "it must not be empty");
    return HAUL_OK;
}

static haul_status check_channels(const haul__call *c, const haul__conv2d_attributes *at, int64_t *out)
{
    char              sx[80], sw[80], wanted[160];
    const haul_shape *x = &c->operands[0]->shape, *weight = &c->operands[1]->shape;
    HAUL__ASSERT(at->groups > 0);
    if (x->dims[1] != weight->dims[0] || x->dims[1] % at->groups)
        return haul__fail(HAUL_SHAPE, c->operation->name, "weight",
                          "x is %s and weight is %s with %lld group(s): weight must be [%lld, C_out / groups, KH, KW], "
                          "and groups must divide %lld",
                          haul__shape_text(x, sx, sizeof sx), haul__shape_text(weight, sw, sizeof sw),
                          (long long)at->groups, (long long)x->dims[1], (long long)x->dims[1]);
    if (!haul__mul_size(weight->dims[1], at->groups, out))
        return haul__refuse_shape(c, 1, "its channels times the groups must be less than 2^63");
    if (haul__has(c, 2) && (c->operands[2]->shape.ndim != 1 || c->operands[2]->shape.dims[0] != *out)) {
        snprintf(wanted, sizeof wanted, "weight is %s with %lld group(s): bias must be [%lld]",
                 haul__shape_text(weight, sw, sizeof sw), (long long)at->groups, (long long)*out);
        return haul__refuse_shape(c, 2, wanted);
    }
    return HAUL_OK;
}

static haul_status complete(const haul__call *c, haul__conv_transpose2d_attributes *a)
{
    static const int64_t     ones[2] = {1, 1}, zeros[2];
    const char              *name = c->operation->name;
    haul__conv2d_attributes *at = &a->conv;
    if (haul__option_pair(name, "stride", at->stride, ones, 1) ||
        haul__option_pair(name, "padding", at->padding, zeros, 0) ||
        haul__option_pair(name, "output_padding", a->output_padding, zeros, 0) ||
        haul__option_pair(name, "dilation", at->dilation, ones, 1))
        return haul_error_status();
    if (at->groups < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "groups", "groups is %lld; it must be positive",
                          (long long)at->groups);
    at->groups = at->groups ? at->groups : 1;
    for (int i = 0; i < 2; i++)
        at->taps[i] = c->operands[1]->shape.dims[2 + i];
    HAUL__ASSERT(at->groups > 0 && at->taps[0] > 0 && at->taps[1] > 0);
    return HAUL_OK;
}

/* Rows (axis 0) or columns of the result. A convolution of the result has x's size, because its end is padded by less
 * than a stride. */
static haul_status output_size(const haul__call *c, haul__conv_transpose2d_attributes *a, int axis)
{
    haul__conv2d_attributes *at = &a->conv;
    const char              *what = axis ? "columns" : "rows";
    int64_t                  x = c->operands[0]->shape.dims[2 + axis], spread, reach, padded;
    HAUL__ASSERT(at->stride[axis] > 0 && at->dilation[axis] > 0);
    if (a->output_padding[axis] >= at->stride[axis])
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "output_padding",
                          "output_padding is %lld for %s with stride %lld; it must be less than the stride",
                          (long long)a->output_padding[axis], what, (long long)at->stride[axis]);
    if (!haul__mul_size(x - 1, at->stride[axis], &spread) ||
        !haul__mul_size(at->dilation[axis], at->taps[axis] - 1, &reach) || !haul__add_size(spread, reach, &padded) ||
        !haul__add_size(padded, 1 + a->output_padding[axis], &padded) || padded > INT32_MAX ||
        at->padding[axis] > INT32_MAX || at->stride[axis] > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, NULL,
                          "stride, padding or dilation is too large: the result must have less than 2^31 %s", what);
    at->size[axis] = padded - 2 * at->padding[axis];
    if (at->size[axis] < 1)
        return haul__fail(
            HAUL_SHAPE, c->operation->name, "padding",
            "x gives %lld %s, from which the padding removes %lld at each side, so none are left; use less padding",
            (long long)padded, what, (long long)at->padding[axis]);
    HAUL__ASSERT((at->size[axis] + 2 * at->padding[axis] - reach - 1) / at->stride[axis] + 1 == x);
    return HAUL_OK;
}

static haul_status infer(haul__call *c)
{
    haul__conv_transpose2d_attributes *a = haul__attributes(c);
    int64_t                            channels = 0;
    if (check_shapes(c) || complete(c, a) || check_channels(c, &a->conv, &channels) || output_size(c, a, 0) ||
        output_size(c, a, 1))
        return haul_error_status();
    haul_shape shape = HAUL_SHAPE(c->operands[0]->shape.dims[0], channels, a->conv.size[0], a->conv.size[1]);
    return haul__conv2d_describe(c, &shape, true);
}

/* ---- the operation ---- */

static void gradient(haul__gradient *c);

HAUL__OPERATION(conv_transpose2d) = {
    .name = "haul_conv_transpose2d",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1},
                 {"weight", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0},
                 {"bias", .optional = true}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .common_dtype = haul__conv2d_common_dtype,
    .autocast = HAUL__LOWER,
    .attributes_size = HAUL__ATTRIBUTES(haul__conv_transpose2d_attributes),
    .extra = &haul__conv2d_passes[HAUL__CONV2D_DATA],
    .infer = infer,
    .compute = haul__conv2d_compute,
    .implementations = &haul__conv2d_implementations,
    .gradient = gradient,
    .cost = haul__conv2d_cost,
};

/* y = D(x, w) + bias, and D is linear in both: a convolution of g, and the gradient of its weight. */
static void gradient(haul__gradient *c)
{
    const haul__conv_transpose2d_attributes *a = c->attributes;
    haul_tensor                             *g = c->results[0];
    if (haul__wanted(c, 0))
        c->operands[0] = HAUL__APPLY(conv2d, &a->conv, g, c->saved[1], HAUL_NONE);
    if (haul__wanted(c, 1))
        c->operands[1] = HAUL__APPLY(conv2d_backward_weight, &a->conv, g, c->saved[0]);
    if (haul__wanted(c, 2))
        c->operands[2] = haul_sum(g, HAUL_AXES(0, 2, 3));
}

static haul__conv_transpose2d_attributes attributes_of(const haul_conv_transpose2d_options *o)
{
    return (haul__conv_transpose2d_attributes){
        .conv = {.stride = {o->stride[0], o->stride[1]},
                 .padding = {o->padding[0], o->padding[1]},
                 .dilation = {o->dilation[0], o->dilation[1]},
                 .groups = o->groups},
        .output_padding = {o->output_padding[0], o->output_padding[1]},
    };
}

HAUL__FUNCTIONS_WITH(conv_transpose2d, haul__conv_transpose2d_attributes, attributes_of(o),
                     (haul_tensor * x, const haul_conv_transpose2d_options *o), x, o->weight, haul__optional(o->bias))
