/* 2-d convolution: forward, gradient of x and gradient of the weight. Each is an operation whose gradients are the
 * other two. conv2d_run.c computes them. */
#include "ops/conv/conv2d.h"

#include <stdio.h>

#include "base/assert.h"
#include "core/option.h"
#include "ops/pointwise/internal.h"

/* ---- infer ---- */

static haul_status check_shapes(const haul__call *c)
{
    char              wanted[160], have[80];
    const haul_shape *x = &c->operands[0]->shape, *weight = &c->operands[1]->shape;
    if (x->ndim != 4)
        return haul__refuse_shape(c, 0, "it must be [N, C, H, W]");
    if (weight->ndim != 4)
        return haul__refuse_shape(c, 1, "it must be [C_out, C_in / groups, KH, KW]");
    if (x->dims[1] == 0 || x->dims[2] == 0 || x->dims[3] == 0)
        return haul__refuse_shape(c, 0, "only its batch can be empty");
    if (c->operands[1]->count == 0)
        return haul__refuse_shape(c, 1, "it must not be empty");
    if (haul__has(c, 2) && (c->operands[2]->shape.ndim != 1 || c->operands[2]->shape.dims[0] != weight->dims[0])) {
        snprintf(wanted, sizeof wanted, "weight is %s: bias must be [%lld]",
                 haul__shape_text(weight, have, sizeof have), (long long)weight->dims[0]);
        return haul__refuse_shape(c, 2, wanted);
    }
    return HAUL_OK;
}

static haul_status complete(const haul__call *c, haul__conv2d_attributes *at)
{
    static const int64_t ones[2] = {1, 1}, zeros[2];
    const char          *name = c->operation->name;
    if (at->given && (haul__option_pair(name, "stride", at->stride, ones, 1) ||
                      haul__option_pair(name, "padding", at->padding, zeros, 0) ||
                      haul__option_pair(name, "dilation", at->dilation, ones, 1)))
        return haul_error_status();
    if (at->groups < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "groups", "groups is %lld; it must be positive",
                          (long long)at->groups);
    at->given = false;
    at->groups = at->groups ? at->groups : 1;
    for (int i = 0; i < 2; i++) {
        at->size[i] = c->operands[0]->shape.dims[2 + i];
        at->taps[i] = c->operands[1]->shape.dims[2 + i];
    }
    HAUL__ASSERT(at->taps[0] > 0 && at->taps[1] > 0);
    return HAUL_OK;
}

static haul_status check_groups(const haul__call *c, const haul__conv2d_attributes *at)
{
    char              sx[80], sw[80];
    const haul_shape *x = &c->operands[0]->shape, *weight = &c->operands[1]->shape;
    if (x->dims[1] % at->groups == 0 && weight->dims[0] % at->groups == 0 && x->dims[1] / at->groups == weight->dims[1])
        return HAUL_OK;
    return haul__fail(HAUL_SHAPE, c->operation->name, "weight",
                      "x is %s and weight is %s with %lld group(s): weight must be [C_out, %lld / groups, KH, KW], "
                      "and groups must divide both numbers of channels",
                      haul__shape_text(x, sx, sizeof sx), haul__shape_text(weight, sw, sizeof sw),
                      (long long)at->groups, (long long)x->dims[1]);
}

/* Rows (axis 0) or columns of the result: the positions in the padded x where the dilated weight fits. Fails if the
 * sizes overflow. */
static haul_status output_size(const haul__call *c, const haul__conv2d_attributes *at, int axis, int64_t *out)
{
    const char *what = axis ? "columns" : "rows";
    int64_t     padded, reach;
    if (!haul__mul_size(at->padding[axis], 2, &padded) || !haul__add_size(padded, at->size[axis], &padded) ||
        !haul__mul_size(at->dilation[axis], at->taps[axis] - 1, &reach) || !haul__add_size(reach, 1, &reach) ||
        at->stride[axis] > INT32_MAX || padded > INT32_MAX || reach > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, NULL,
                          "stride, padding or dilation is too large: %s of x, padded, and of the weight, dilated, must "
                          "be less than 2^31",
                          what);
    if (padded < reach)
        return haul__fail(
            HAUL_SHAPE, c->operation->name, "x",
            "the weight spans %lld %s, but x has %lld with its padding; use more padding or a smaller kernel",
            (long long)reach, what, (long long)padded);
    *out = (padded - reach) / at->stride[axis] + 1;
    HAUL__ASSERT(*out > 0 && (*out - 1) * at->stride[axis] + reach <= padded);
    return HAUL_OK;
}

static haul_status infer_forward(haul__call *c)
{
    haul__conv2d_attributes *at = haul__attributes(c);
    int64_t                  out[2];
    if (check_shapes(c) || complete(c, at) || check_groups(c, at) || output_size(c, at, 0, &out[0]) ||
        output_size(c, at, 1, &out[1]))
        return haul_error_status();
    haul_shape shape = HAUL_SHAPE(c->operands[0]->shape.dims[0], c->operands[1]->shape.dims[0], out[0], out[1]);
    return haul__conv2d_describe(c, &shape, true);
}

/* Here and below the attributes are those that a forward pass completed. */
static haul_status infer_data(haul__call *c)
{
    const haul__conv2d_attributes *at = haul__attributes(c);
    const int64_t                 *dy = c->operands[0]->shape.dims, *weight = c->operands[1]->shape.dims;
    HAUL__ASSERT(!at->given && at->size[0] > 0 && at->size[1] > 0 && dy[1] == weight[0]);
    haul_shape shape = HAUL_SHAPE(dy[0], weight[1] * at->groups, at->size[0], at->size[1]);
    return haul__conv2d_describe(c, &shape, true);
}

/* A leaf's gradient is converted to the leaf's format when it arrives. */
static haul_status infer_weight(haul__call *c)
{
    const haul__conv2d_attributes *at = haul__attributes(c);
    const int64_t                 *x = c->operands[0]->shape.dims, *dy = c->operands[1]->shape.dims;
    HAUL__ASSERT(!at->given && at->taps[0] > 0 && at->taps[1] > 0 && x[0] == dy[0] && x[1] % at->groups == 0);
    haul_shape shape = HAUL_SHAPE(dy[1], x[1] / at->groups, at->taps[0], at->taps[1]);
    return haul__conv2d_describe(c, &shape, false);
}

/* ---- the operations ---- */

static void gradient_of_forward(haul__gradient *c);
static void gradient_of_data(haul__gradient *c);
static void gradient_of_weight(haul__gradient *c);

HAUL__OPERATION(conv2d_backward_data) = {
    .name = "haul_conv2d_backward_data",
    .operands = {{"dy", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1},
                 {"weight", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(haul__conv2d_attributes),
    .extra = &haul__conv2d_passes[HAUL__CONV2D_DATA],
    .infer = infer_data,
    .compute = haul__conv2d_compute,
    .implementations = &haul__conv2d_implementations,
    .gradient = gradient_of_data,
    .cost = haul__conv2d_cost,
};

HAUL__OPERATION(conv2d_backward_weight) = {
    .name = "haul_conv2d_backward_weight",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1},
                 {"dy", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"dweight"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(haul__conv2d_attributes),
    .extra = &haul__conv2d_passes[HAUL__CONV2D_WEIGHT],
    .infer = infer_weight,
    .compute = haul__conv2d_compute,
    .implementations = &haul__conv2d_implementations,
    .gradient = gradient_of_weight,
    .cost = haul__conv2d_cost,
};

HAUL__OPERATION(conv2d) = {
    .name = "haul_conv2d",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1},
                 {"weight", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0},
                 {"bias", .optional = true}},
    .results = {{"y", .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__FLOATS,
    .common_dtype = haul__conv2d_common_dtype,
    .autocast = HAUL__LOWER,
    .attributes_size = HAUL__ATTRIBUTES(haul__conv2d_attributes),
    .extra = &haul__conv2d_passes[HAUL__CONV2D_FORWARD],
    .infer = infer_forward,
    .compute = haul__conv2d_compute,
    .implementations = &haul__conv2d_implementations,
    .gradient = gradient_of_forward,
    .cost = haul__conv2d_cost,
};

/* With relu, dy flows where y > 0. */
static void gradient_of_forward(haul__gradient *c)
{
    haul__conv2d_attributes at = *(const haul__conv2d_attributes *)c->attributes;
    haul_tensor            *g = c->results[0];
    if (at.relu)
        g = haul__relu_backward(g, c->saved_results[0]);
    at.relu = false;
    if (haul__wanted(c, 0))
        c->operands[0] = HAUL__APPLY(conv2d_backward_data, &at, g, c->saved[1]);
    if (haul__wanted(c, 1))
        c->operands[1] = HAUL__APPLY(conv2d_backward_weight, &at, c->saved[0], g);
    if (haul__wanted(c, 2))
        c->operands[2] = haul_sum(g, HAUL_AXES(0, 2, 3));
}

/* dx = D(dy, w) is linear in both; its gradient gg has x's shape. */
static void gradient_of_data(haul__gradient *c)
{
    haul_tensor *gg = c->results[0];
    if (haul__wanted(c, 0))
        c->operands[0] = HAUL__APPLY(conv2d, c->attributes, gg, c->saved[1], HAUL_NONE);
    if (haul__wanted(c, 1))
        c->operands[1] = HAUL__APPLY(conv2d_backward_weight, c->attributes, gg, c->saved[0]);
}

/* dw = W(x, dy) is linear in both; its gradient gg has the weight's shape. */
static void gradient_of_weight(haul__gradient *c)
{
    haul_tensor *gg = c->results[0];
    if (haul__wanted(c, 0))
        c->operands[0] = HAUL__APPLY(conv2d_backward_data, c->attributes, c->saved[1], gg);
    if (haul__wanted(c, 1))
        c->operands[1] = HAUL__APPLY(conv2d, c->attributes, c->saved[0], gg, HAUL_NONE);
}

static haul__conv2d_attributes attributes_of(const haul_conv2d_options *o)
{
    return (haul__conv2d_attributes){
        .stride = {o->stride[0], o->stride[1]},
        .padding = {o->padding[0], o->padding[1]},
        .dilation = {o->dilation[0], o->dilation[1]},
        .groups = o->groups,
        .relu = o->relu,
        .given = true,
    };
}

/* .same: the padding, and x with one more row or column at the end where the number of zeros is odd. */
static haul_status pad_same(haul__call *c, haul__conv2d_attributes *at, haul_tensor **x)
{
    static const int64_t ones[2] = {1, 1}, zeros[2];
    const char          *name = c->operation->name;
    int64_t              more[2];
    if (haul__option_pair(name, "stride", at->stride, ones, 1) ||
        haul__option_pair(name, "padding", at->padding, zeros, 0) ||
        haul__option_pair(name, "dilation", at->dilation, ones, 1))
        return haul_error_status();
    for (int i = 0; i < 2; i++) {
        int64_t total;
        if (at->stride[i] != 1 || at->padding[i])
            return haul__fail(HAUL_INVALID_ARGUMENT, name, "same",
                              "same is set, so stride must be 1 and padding must not be given");
        if (!haul__mul_size(at->dilation[i], c->operands[1]->shape.dims[2 + i] - 1, &total) || total > INT32_MAX)
            return haul__fail(HAUL_INVALID_ARGUMENT, name, "dilation",
                              "dilation is too large: the weight, dilated, must have less than 2^31 elements each way");
        HAUL__ASSERT(total >= 0);
        at->padding[i] = total / 2;
        more[i] = total % 2;
    }
    if (more[0] || more[1])
        *x = haul_pad(*x, HAUL_PADS(0, more[1], 0, more[0]));
    return haul__failed(*x) ? haul_error_status() : HAUL_OK;
}

static haul_status conv2d_same(haul__call *c)
{
    haul__conv2d_attributes at = *(const haul__conv2d_attributes *)haul__attributes(c);
    haul_tensor            *x = c->operands[0], *weight = c->operands[1];
    at.given = false;
    if (check_shapes(c) || pad_same(c, &at, &x))
        return haul_error_status();
    c->results[0] = HAUL__APPLY(conv2d, &at, x, weight, c->operands[2]);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(conv2d_same) = {
    .name = "haul_conv2d_same",
    .operands = {{"x"}, {"weight"}, {"bias", .optional = true}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(haul__conv2d_attributes),
    .compose = conv2d_same,
};

haul_tensor *haul_conv2d_with(haul_tensor *x, const haul_conv2d_options *options)
{
    if (!options)
        return haul__no_options(&haul__operation_conv2d);
    haul__conv2d_attributes at = attributes_of(options);
    if (options->same)
        return HAUL__APPLY(conv2d_same, &at, x, options->weight, haul__optional(options->bias));
    return HAUL__APPLY(conv2d, &at, x, options->weight, haul__optional(options->bias));
}

haul_status haul_conv2d_into_with(haul_tensor *out, haul_tensor *x, const haul_conv2d_options *options)
{
    if (!options)
        return haul__fail_null(haul__operation_conv2d.name, "options");
    haul__conv2d_attributes at = attributes_of(options);
    if (options->same)
        return HAUL__APPLY_INTO(out, conv2d_same, &at, x, options->weight, haul__optional(options->bias));
    return HAUL__APPLY_INTO(out, conv2d, &at, x, options->weight, haul__optional(options->bias));
}
