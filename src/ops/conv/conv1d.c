/* 1-d convolutions: 2-d convolutions of pictures with one row, through views. */
#include <stdio.h>

#include "base/assert.h"
#include "core/option.h"
#include "engine/operation.h"

typedef struct conv1d_attributes {
    int64_t stride, padding, output_padding, dilation, groups;
    bool    relu, same;
    bool    reserved[6];
} conv1d_attributes;

/* ---- checks ---- */

/* An option in which 0 means the default; replaces it by that value. */
static haul_status complete_one(const haul__call *c, const char *name, int64_t *value, int64_t otherwise, int64_t least)
{
    int64_t meant = *value == HAUL_ZERO ? 0 : *value;
    if (*value && (meant < least || meant > INT32_MAX))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, name,
                          "%s is %lld; it must be from %lld to 2^31 - 1", name, (long long)meant, (long long)least);
    *value = *value ? meant : otherwise;
    return HAUL_OK;
}

static haul_status complete(const haul__call *c, conv1d_attributes *a)
{
    if (complete_one(c, "stride", &a->stride, 1, 1) || complete_one(c, "padding", &a->padding, 0, 0) ||
        complete_one(c, "output_padding", &a->output_padding, 0, 0) ||
        complete_one(c, "dilation", &a->dilation, 1, 1) || complete_one(c, "groups", &a->groups, 1, 1))
        return haul_error_status();
    return HAUL_OK;
}

/* The channels of x are axis `in` of the weight, times the groups if that is the second axis. */
static haul_status check(const haul__call *c, const conv1d_attributes *a, int in, const char *weight_shape)
{
    char              sx[80], sw[80];
    const haul_shape *x = &c->operands[0]->shape, *weight = &c->operands[1]->shape;
    if (x->ndim != 3)
        return haul__refuse_shape(c, 0, "it must be [N, C, L]");
    if (weight->ndim != 3)
        return haul__refuse_shape(c, 1, weight_shape);
    if (x->dims[1] == 0 || x->dims[2] == 0)
        return haul__refuse_shape(c, 0, "only its batch can be empty");
    if (c->operands[1]->count == 0)
        return haul__refuse_shape(c, 1, "it must not be empty");
    if (x->dims[1] % a->groups || weight->dims[0] % a->groups || x->dims[1] / (in ? a->groups : 1) != weight->dims[in])
        return haul__fail(HAUL_SHAPE, c->operation->name, "weight",
                          "x is %s and weight is %s with %lld group(s): %s, and groups must divide both numbers of "
                          "channels",
                          haul__shape_text(x, sx, sizeof sx), haul__shape_text(weight, sw, sizeof sw),
                          (long long)a->groups, weight_shape);
    int64_t out = in ? weight->dims[0] : weight->dims[1] * a->groups;
    if (haul__has(c, 2) && (c->operands[2]->shape.ndim != 1 || c->operands[2]->shape.dims[0] != out))
        return haul__refuse_shape(c, 2, "it must have one element for each channel of the result");
    return HAUL_OK;
}

/* ---- operations ---- */

/* An option of the 2-d operation, with a neutral value for the rows. */
#define PAIR(rows, value)                                                                                              \
    {                                                                                                                  \
        rows, (value) ? (value) : HAUL_ZERO                                                                            \
    }

static haul_tensor *with_row(haul_tensor *t)
{
    return haul_unsqueeze(t, 2);
}

static haul_status conv1d(haul__call *c)
{
    conv1d_attributes *a = haul__attributes(c);
    if (complete(c, a) || check(c, a, 1, "weight must be [C_out, C_in / groups, K]"))
        return haul_error_status();
    HAUL__ASSERT(a->groups > 0);
    const haul_conv2d_options o = {.weight = with_row(c->operands[1]),
                                   .bias = c->operands[2],
                                   .stride = PAIR(1, a->stride),
                                   .padding = PAIR(HAUL_ZERO, a->padding),
                                   .dilation = PAIR(1, a->dilation),
                                   .groups = a->groups,
                                   .relu = a->relu,
                                   .same = a->same};
    c->results[0] = haul_squeeze(haul_conv2d_with(with_row(c->operands[0]), &o), 2);
    HAUL__ASSERT(haul__failed(c->results[0]) || c->results[0]->shape.ndim == 3);
    return HAUL_OK;
}

static haul_status conv_transpose1d(haul__call *c)
{
    conv1d_attributes *a = haul__attributes(c);
    if (complete(c, a) || check(c, a, 0, "weight must be [C_in, C_out / groups, K]"))
        return haul_error_status();
    HAUL__ASSERT(a->groups > 0);
    const haul_conv_transpose2d_options o = {.weight = with_row(c->operands[1]),
                                             .bias = c->operands[2],
                                             .stride = PAIR(1, a->stride),
                                             .padding = PAIR(HAUL_ZERO, a->padding),
                                             .output_padding = PAIR(HAUL_ZERO, a->output_padding),
                                             .dilation = PAIR(1, a->dilation),
                                             .groups = a->groups};
    c->results[0] = haul_squeeze(haul_conv_transpose2d_with(with_row(c->operands[0]), &o), 2);
    HAUL__ASSERT(haul__failed(c->results[0]) || c->results[0]->shape.ndim == 3);
    return HAUL_OK;
}

HAUL__OPERATION(conv1d) = {
    .name = "haul_conv1d",
    .operands = {{"x"}, {"weight"}, {"bias", .optional = true}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(conv1d_attributes),
    .compose = conv1d,
};

HAUL__OPERATION(conv_transpose1d) = {
    .name = "haul_conv_transpose1d",
    .operands = {{"x"}, {"weight"}, {"bias", .optional = true}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(conv1d_attributes),
    .compose = conv_transpose1d,
};

/* ---- the functions ---- */

static conv1d_attributes attributes_of(const haul_conv1d_options *o)
{
    return (conv1d_attributes){.stride = o->stride,
                               .padding = o->padding,
                               .dilation = o->dilation,
                               .groups = o->groups,
                               .relu = o->relu,
                               .same = o->same};
}

HAUL__FUNCTIONS_WITH(conv1d, conv1d_attributes, attributes_of(o), (haul_tensor * x, const haul_conv1d_options *o), x,
                     o->weight, haul__optional(o->bias))

static conv1d_attributes transposed_attributes_of(const haul_conv_transpose1d_options *o)
{
    return (conv1d_attributes){.stride = o->stride,
                               .padding = o->padding,
                               .output_padding = o->output_padding,
                               .dilation = o->dilation,
                               .groups = o->groups};
}

HAUL__FUNCTIONS_WITH(conv_transpose1d, conv1d_attributes, transposed_attributes_of(o),
                     (haul_tensor * x, const haul_conv_transpose1d_options *o), x, o->weight, haul__optional(o->bias))
