/* 3-d convolutions: 2-d convolutions of the layers of a volume. The layers under the window are channels of a picture
 * (haul_unfold along the depth); the layers that a transposed convolution makes are added up (haul_fold). */
#include <haul/volume.h>

#include "base/assert.h"
#include "core/option.h"
#include "engine/operation.h"
#include "ops/pool/triple.h"

typedef struct conv3d_attributes {
    int64_t stride[3], padding[3], output_padding[3], dilation[3], groups;
    bool    relu, same;
    bool    reserved[6];
} conv3d_attributes;

/* A pair of the 2-d operation, of rows and columns. */
#define PAIR(triple)                                                                                                   \
    {                                                                                                                  \
        (triple)[1] ? (triple)[1] : HAUL_ZERO, (triple)[2] ? (triple)[2] : HAUL_ZERO                                   \
    }
/* A pair of haul_unfold and haul_fold, of the depth; the columns are left as they are. */
#define DEPTH(triple, columns)                                                                                         \
    {                                                                                                                  \
        (triple)[0] ? (triple)[0] : HAUL_ZERO, columns                                                                 \
    }

/* ---- checks ---- */

/* The attributes with defaults in place of 0. */
static haul_status complete(const haul__call *c, const conv3d_attributes *given, conv3d_attributes *a)
{
    static const int64_t ones[3] = {1, 1, 1}, zeros[3];
    const char          *name = c->operation->name;
    *a = *given;
    if (haul__option_triple(name, "stride", given->stride, ones, 1, a->stride) ||
        haul__option_triple(name, "padding", given->padding, zeros, 0, a->padding) ||
        haul__option_triple(name, "output_padding", given->output_padding, zeros, 0, a->output_padding) ||
        haul__option_triple(name, "dilation", given->dilation, ones, 1, a->dilation))
        return haul_error_status();
    a->groups = given->groups ? given->groups : 1;
    if (a->groups < 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "groups", "groups is %lld; it must be positive",
                          (long long)a->groups);
    HAUL__ASSERT(a->stride[0] > 0 && a->stride[1] > 0 && a->stride[2] > 0);
    HAUL__ASSERT(a->dilation[0] > 0 && a->dilation[1] > 0 && a->dilation[2] > 0);
    return HAUL_OK;
}

/* The channels of x are axis `in` of the weight, times the groups if that is the second axis. */
static haul_status check(const haul__call *c, const conv3d_attributes *a, int in, const char *weight_shape)
{
    char              sx[120], sw[120];
    const haul_shape *x = &c->operands[0]->shape, *weight = &c->operands[1]->shape;
    HAUL__ASSERT(a->groups > 0);
    if (x->ndim != 5)
        return haul__refuse_shape(c, 0, "it must be [N, C, D, H, W]");
    if (weight->ndim != 5)
        return haul__refuse_shape(c, 1, weight_shape);
    if (x->dims[1] == 0 || x->dims[2] == 0 || x->dims[3] == 0 || x->dims[4] == 0)
        return haul__refuse_shape(c, 0, "only its batch can be empty");
    if (c->operands[1]->count == 0)
        return haul__refuse_shape(c, 1, "it must not be empty");
    if (x->dims[1] % a->groups || weight->dims[0] % a->groups || x->dims[1] / (in ? a->groups : 1) != weight->dims[in])
        return haul__fail(HAUL_SHAPE, c->operation->name, "weight",
                          "x is %s and weight is %s with %lld group(s): %s, and groups must divide both numbers of "
                          "channels",
                          haul__shape_text(x, sx, sizeof sx), haul__shape_text(weight, sw, sizeof sw),
                          (long long)a->groups, weight_shape);
    int64_t out = weight->dims[0];
    if (!in && !haul__mul_size(weight->dims[1], a->groups, &out))
        return haul__refuse_shape(c, 1, "its channels times the groups must be less than 2^63");
    if (haul__has(c, 2) && (c->operands[2]->shape.ndim != 1 || c->operands[2]->shape.dims[0] != out))
        return haul__refuse_shape(c, 2, "it must have one element for each channel of the result");
    return HAUL_OK;
}

/* Products of sizes of existing tensors, which cannot overflow, are not checked. */
static haul_status give(haul__call *c, haul_tensor *y)
{
    c->results[0] = y;
    return haul__failed(y) ? haul_error_status() : HAUL_OK;
}

/* [N, A, B, H, W] from [N, B, A, H, W], in memory of its own. */
static haul_tensor *exchanged(haul_tensor *x)
{
    return haul_contiguous(haul_permute(x, (const int[]){0, 2, 1, 3, 4}, 5));
}

/* The weight [A, B, KD, KH, KW] as one of pictures, [A, B KD, KH, KW]. */
static haul_tensor *flat_weight(haul_tensor *w)
{
    const int64_t *k = w->shape.dims;
    return haul_reshape(w, HAUL_SHAPE(k[0], k[1] * k[2], k[3], k[4]));
}

/* ---- haul_conv3d ---- */

/* `.same`: the padding, and x with one more element at the end of each axis where that is odd. */
static haul_status same_size(const haul__call *c, conv3d_attributes *a, haul_tensor **x)
{
    int64_t more[3];
    for (int i = 0; i < 3; i++) {
        int64_t total;
        if (a->stride[i] != 1 || a->padding[i])
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "same",
                              "same is set, so stride must be 1 and padding must not be given");
        if (!haul__mul_size(a->dilation[i], c->operands[1]->shape.dims[2 + i] - 1, &total) || total > INT32_MAX)
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "dilation",
                              "dilation is too large: the weight, dilated, must have less than 2^31 elements each way");
        HAUL__ASSERT(total >= 0);
        a->padding[i] = total / 2;
        more[i] = total % 2;
    }
    if (more[0] || more[1] || more[2])
        *x = haul_pad(*x, HAUL_PADS(0, more[2], 0, more[1], 0, more[0]));
    return haul__failed(*x) ? haul_error_status() : HAUL_OK;
}

static haul_status conv3d(haul__call *c)
{
    conv3d_attributes a;
    haul_tensor      *x = c->operands[0], *w = c->operands[1];
    if (complete(c, haul__attributes(c), &a) || check(c, &a, 1, "weight must be [C_out, C_in / groups, KD, KH, KW]"))
        return haul_error_status();
    const int64_t taps = w->shape.dims[2];
    if (a.same && same_size(c, &a, &x))
        return haul_error_status();
    const int64_t *of = x->shape.dims, n = of[0], channels = of[1] * taps, rows = of[3], columns = of[4];
    int64_t        reach, depth = of[2] + 2 * a.padding[0];
    if (!haul__mul_size(a.dilation[0], taps - 1, &reach) || depth <= reach)
        return haul__fail(HAUL_SHAPE, c->operation->name, "x",
                          "the weight spans more layers than the %lld that x has with its padding; use more padding or "
                          "a smaller kernel",
                          (long long)depth);
    depth = (depth - reach - 1) / a.stride[0] + 1;
    HAUL__ASSERT(depth > 0 && (depth - 1) * a.stride[0] + reach < of[2] + 2 * a.padding[0]);
    haul_tensor *layers = haul_unfold(haul_reshape(x, HAUL_SHAPE(n, of[1], of[2], rows * columns)), taps, .size_w = 1,
                                      .stride = DEPTH(a.stride, 1), .padding = DEPTH(a.padding, HAUL_ZERO),
                                      .dilation = DEPTH(a.dilation, 1));
    layers = exchanged(haul_reshape(layers, HAUL_SHAPE(n, channels, depth, rows, columns)));
    const haul_conv2d_options o = {.weight = flat_weight(w),
                                   .bias = c->operands[2],
                                   .stride = PAIR(a.stride),
                                   .padding = PAIR(a.padding),
                                   .dilation = PAIR(a.dilation),
                                   .groups = a.groups,
                                   .relu = a.relu};
    haul_tensor *y = haul_conv2d_with(haul_reshape(layers, HAUL_SHAPE(n * depth, channels, rows, columns)), &o);
    if (haul__failed(y))
        return haul_error_status();
    const int64_t *made = y->shape.dims;
    HAUL__ASSERT(y->shape.dims[0] == n * depth);
    return give(c, exchanged(haul_reshape(y, HAUL_SHAPE(n, depth, made[1], made[2], made[3]))));
}

/* ---- haul_conv_transpose3d ---- */

/* The number of layers of the result. */
static haul_status count_layers(const haul__call *c, const conv3d_attributes *a, int64_t taps, int64_t *depth)
{
    int64_t spread, reach, padded;
    HAUL__ASSERT(a->stride[0] > 0 && taps > 0);
    if (a->output_padding[0] >= a->stride[0])
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "output_padding",
                          "output_padding is %lld for layers with stride %lld; it must be less than the stride",
                          (long long)a->output_padding[0], (long long)a->stride[0]);
    if (!haul__mul_size(c->operands[0]->shape.dims[2] - 1, a->stride[0], &spread) ||
        !haul__mul_size(a->dilation[0], taps - 1, &reach) || !haul__add_size(spread, reach, &padded) ||
        !haul__add_size(padded, 1 + a->output_padding[0], &padded) || padded > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, NULL,
                          "stride or dilation is too large: the result must have less than 2^31 layers");
    *depth = padded - 2 * a->padding[0];
    if (*depth < 1)
        return haul__fail(HAUL_SHAPE, c->operation->name, "padding",
                          "x gives %lld layers, from which the padding removes %lld at each side, so none are left; "
                          "use less padding",
                          (long long)padded, (long long)a->padding[0]);
    return HAUL_OK;
}

static haul_status conv_transpose3d(haul__call *c)
{
    conv3d_attributes a;
    haul_tensor      *x = c->operands[0], *w = c->operands[1];
    int64_t           depth = 0;
    if (complete(c, haul__attributes(c), &a) || check(c, &a, 0, "weight must be [C_in, C_out / groups, KD, KH, KW]") ||
        count_layers(c, &a, w->shape.dims[2], &depth))
        return haul_error_status();
    const int64_t                      *of = x->shape.dims, n = of[0], in = of[2], taps = w->shape.dims[2];
    haul_tensor                        *pictures = haul_reshape(exchanged(x), HAUL_SHAPE(n * in, of[1], of[3], of[4]));
    const haul_conv_transpose2d_options o = {.weight = flat_weight(w),
                                             .stride = PAIR(a.stride),
                                             .padding = PAIR(a.padding),
                                             .output_padding = PAIR(a.output_padding),
                                             .dilation = PAIR(a.dilation),
                                             .groups = a.groups};
    haul_tensor                        *y = haul_conv_transpose2d_with(pictures, &o);
    if (haul__failed(y))
        return haul_error_status();
    const int64_t channels = y->shape.dims[1], rows = y->shape.dims[2], columns = y->shape.dims[3];
    HAUL__ASSERT(y->shape.dims[0] == n * in && channels % taps == 0);
    y = exchanged(haul_reshape(y, HAUL_SHAPE(n, in, channels, rows, columns)));
    y = haul_fold(haul_reshape(y, HAUL_SHAPE(n, channels, in * rows * columns)), depth, rows * columns, taps,
                  .size_w = 1, .stride = DEPTH(a.stride, 1), .padding = DEPTH(a.padding, HAUL_ZERO),
                  .dilation = DEPTH(a.dilation, 1));
    y = haul_reshape(y, HAUL_SHAPE(n, channels / taps, depth, rows, columns));
    HAUL__ASSERT(haul__failed(y) || y->count == n * (channels / taps) * depth * rows * columns);
    if (haul__has(c, 2))
        y = haul_add(y, haul_reshape(c->operands[2], HAUL_SHAPE(channels / taps, 1, 1, 1)));
    return give(c, y);
}

#define CONVOLUTION                                                                                                    \
    .operands = {{"x"}, {"weight"}, {"bias", .optional = true}}, .results = {{"y"}},                                   \
    .attributes_size = HAUL__ATTRIBUTES(conv3d_attributes)

HAUL__OPERATION(conv3d) = {.name = "haul_conv3d", CONVOLUTION, .compose = conv3d};
HAUL__OPERATION(conv_transpose3d) = {.name = "haul_conv_transpose3d", CONVOLUTION, .compose = conv_transpose3d};

#define TRIPLE(array)                                                                                                  \
    {                                                                                                                  \
        (array)[0], (array)[1], (array)[2]                                                                             \
    }

haul_tensor *haul_conv3d_with(haul_tensor *x, const haul_conv3d_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_conv3d);
    conv3d_attributes a = {.stride = TRIPLE(o->stride),
                           .padding = TRIPLE(o->padding),
                           .dilation = TRIPLE(o->dilation),
                           .groups = o->groups,
                           .relu = o->relu,
                           .same = o->same};
    return HAUL__APPLY(conv3d, &a, x, o->weight, haul__optional(o->bias));
}

haul_tensor *haul_conv_transpose3d_with(haul_tensor *x, const haul_conv_transpose3d_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_conv_transpose3d);
    conv3d_attributes a = {.stride = TRIPLE(o->stride),
                           .padding = TRIPLE(o->padding),
                           .output_padding = TRIPLE(o->output_padding),
                           .dilation = TRIPLE(o->dilation),
                           .groups = o->groups};
    return HAUL__APPLY(conv_transpose3d, &a, x, o->weight, haul__optional(o->bias));
}
