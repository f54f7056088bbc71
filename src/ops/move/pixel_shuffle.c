/* haul_pixel_shuffle and its inverse: views of five axes, whose permutation is copied. */
#include "base/assert.h"
#include "engine/operation.h"

typedef struct pixel_attributes {
    int64_t factor;
} pixel_attributes;

/* Checks x for both, and makes *leading the product of all sizes before the last two. */
static haul_status check(haul__call *c, int64_t r, int64_t *leading)
{
    const haul_shape *x = &c->operands[0]->shape;
    *leading = 1;
    if (r < 1 || r > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "factor",
                          "factor is %lld; it must be from 1 to 2^31 - 1", (long long)r);
    if (x->ndim < 3)
        return haul__refuse_shape(c, 0, "[..., C, H, W] is expected");
    for (int d = 0; d < x->ndim - 2; d++)
        if (!haul__mul_size(*leading, x->dims[d], leading))
            return haul__refuse_shape(c, 0, "fewer elements are expected");
    return HAUL_OK;
}

static haul_status give(haul__call *c, haul_tensor *view, const int *order, const haul_shape *shape)
{
    c->results[0] = haul_reshape(haul_permute(view, order, 5), *shape);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

/* [C r^2, H, W] as [C, r, r, H, W], in the order C, H, r, W, r. */
static haul_status pixel_shuffle(haul__call *c)
{
    const int64_t r = ((const pixel_attributes *)haul__attributes(c))->factor;
    haul_tensor  *x = c->operands[0];
    haul_shape    shape = x->shape;
    int64_t       leading;
    if (check(c, r, &leading))
        return haul_error_status();
    HAUL__ASSERT(r > 0 && shape.ndim >= 3);
    int64_t *of = shape.dims + shape.ndim - 3; /* channels, rows, columns */
    if (of[0] % (r * r)) {
        char text[96];
        return haul__fail(HAUL_SHAPE, c->operation->name, "x",
                          "x has shape %s and %lld channels; a multiple of the square of the factor, %lld, is expected",
                          haul__shape_text(&x->shape, text, sizeof text), (long long)of[0], (long long)(r * r));
    }
    HAUL__ASSERT(leading % (r * r) == 0);
    haul_tensor *view = haul_reshape(x, HAUL_SHAPE(leading / (r * r), r, r, of[1], of[2]));
    of[0] /= r * r;
    if (!haul__mul_size(of[1], r, &of[1]) || !haul__mul_size(of[2], r, &of[2]))
        return haul__refuse_shape(c, 0, "fewer rows and columns are expected");
    return give(c, view, (const int[]){0, 3, 1, 4, 2}, &shape);
}

/* [C, H r, W r] as [C, H, r, W, r], in the order C, r, r, H, W. */
static haul_status pixel_unshuffle(haul__call *c)
{
    const int64_t r = ((const pixel_attributes *)haul__attributes(c))->factor;
    haul_tensor  *x = c->operands[0];
    haul_shape    shape = x->shape;
    int64_t       leading;
    if (check(c, r, &leading))
        return haul_error_status();
    HAUL__ASSERT(r > 0 && shape.ndim >= 3);
    int64_t *of = shape.dims + shape.ndim - 3; /* channels, rows, columns */
    if (of[1] % r || of[2] % r) {
        char text[96];
        return haul__fail(HAUL_SHAPE, c->operation->name, "x",
                          "x has shape %s; rows and columns that are multiples of the factor, %lld, are expected",
                          haul__shape_text(&x->shape, text, sizeof text), (long long)r);
    }
    of[1] /= r;
    of[2] /= r;
    HAUL__ASSERT(of[1] * r == x->shape.dims[x->shape.ndim - 2] && of[2] * r == x->shape.dims[x->shape.ndim - 1]);
    haul_tensor *view = haul_reshape(x, HAUL_SHAPE(leading, of[1], r, of[2], r));
    if (!haul__mul_size(of[0], r * r, &of[0]))
        return haul__refuse_shape(c, 0, "fewer channels are expected");
    return give(c, view, (const int[]){0, 2, 4, 1, 3}, &shape);
}

#define PIXELS                                                                                                         \
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}}, .results = {{"y"}}, .dtypes = HAUL__EVERY,                       \
    .attributes_size = HAUL__ATTRIBUTES(pixel_attributes)

HAUL__OPERATION(pixel_shuffle) = {.name = "haul_pixel_shuffle", PIXELS, .compose = pixel_shuffle};
HAUL__OPERATION(pixel_unshuffle) = {.name = "haul_pixel_unshuffle", PIXELS, .compose = pixel_unshuffle};

haul_tensor *haul_pixel_shuffle(haul_tensor *x, int64_t factor)
{
    return HAUL__APPLY(pixel_shuffle, &(pixel_attributes){factor}, x);
}

haul_tensor *haul_pixel_unshuffle(haul_tensor *x, int64_t factor)
{
    return HAUL__APPLY(pixel_unshuffle, &(pixel_attributes){factor}, x);
}
