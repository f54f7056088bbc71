/* Filters of pictures: Gaussian and median blur, sharpness, and the largest or smallest element nearby. */
#include <math.h>

#include "base/assert.h"
#include "ops/image/picture.h"

typedef struct filter_attributes {
    int64_t size;
    double  number; /* sigma, or the factor of sharpness */
} filter_attributes;

/* An odd size of at most twice the picture's: reflections and windows stay within it. */
static haul_status check_size(const haul__call *c)
{
    const filter_attributes *a = haul__attributes_of(c);
    if (haul__check_picture(c, 0, false))
        return haul_error_status();
    const haul_shape *shape = &c->operands[0]->shape;
    HAUL__ASSERT(shape->ndim >= 2);
    const int64_t rows = shape->dims[shape->ndim - 2], columns = shape->dims[shape->ndim - 1];
    if (a->size < 1 || a->size % 2 == 0 || a->size / 2 >= rows || a->size / 2 >= columns)
        return haul__fail(
            HAUL_INVALID_ARGUMENT, c->operation->name, "size",
            "size is %lld for pictures of %lld x %lld; an odd number is expected, whose half is less than "
            "their rows and columns",
            (long long)a->size, (long long)rows, (long long)columns);
    return HAUL_OK;
}

/* The filtered planes of x as its picture. */
static haul_status give(haul__call *c, haul_tensor *y)
{
    const haul_tensor *x = c->operands[0];
    const int          last = x->shape.ndim - 1;
    HAUL__ASSERT(last >= 1);
    y = haul__picture_rounded(y, x->dtype);
    return haul__give_picture(c, haul__picture_of_planes(y, &x->shape, x->shape.dims[last - 1], x->shape.dims[last]));
}

/* ---- haul_gaussian_blur ---- */

/* Weights of one axis, which add up to 1. */
static haul_tensor *weights_of(haul_dtype dtype, int64_t size, double sigma, haul_shape shape)
{
    const double end = (double)(size - 1) / 2;
    haul_tensor *at = haul_square(haul_linspace(dtype, -end, end, size));
    return haul_reshape(haul_softmax(haul_mul_scalar(at, -1 / (2 * sigma * sigma)), 0), shape);
}

static haul_status gaussian_blur(haul__call *c)
{
    const filter_attributes *a = haul__attributes(c);
    const int64_t            size = a->size, half = size / 2;
    const double             sigma = a->number == 0 ? 0.15 * (double)size + 0.35 : a->number;
    if (check_size(c))
        return haul_error_status();
    if (!(sigma >= 1e-3 && sigma <= 1e6))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "sigma",
                          "sigma is %g; 0 for 0.15 size + 0.35, or a number from 0.001 to 1e6 is expected", sigma);
    if (!c->operands[0]->count)
        return haul__give_picture(c, c->operands[0]);
    HAUL__ASSERT(size % 2 == 1);
    haul_tensor     *x = haul__picture_planes(haul__picture_wide(c->operands[0]));
    const haul_dtype dtype = haul_tensor_dtype(x);
    HAUL__ASSERT(haul__failed(x) || (x->shape.ndim == 4 && x->shape.dims[1] == 1));
    x = haul_pad(x, HAUL_PADS(half, half, half, half), .mode = HAUL_PAD_REFLECT);
    x = haul_conv2d(x, weights_of(dtype, size, sigma, HAUL_SHAPE(1, 1, 1, size)));
    return give(c, haul_conv2d(x, weights_of(dtype, size, sigma, HAUL_SHAPE(1, 1, size, 1))));
}

/* ---- haul_adjust_sharpness ---- */

/* The element itself counts five times in a mean of 13, its neighbours once. Elements at the edges stay. */
static haul_status adjust_sharpness(haul__call *c)
{
    const filter_attributes *a = haul__attributes(c);
    haul_tensor             *x = c->operands[0];
    const int                last = x->shape.ndim - 1;
    if (haul__check_picture(c, 0, false))
        return haul_error_status();
    HAUL__ASSERT(last > 0);
    if (!(a->number >= 0 && a->number <= 1e9))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "factor",
                          "factor is %g; a number from 0 to 1e9 is expected", a->number);
    if (!x->count || x->shape.dims[last] < 3 || x->shape.dims[last - 1] < 3)
        return haul__give_picture(c, x);
    haul_tensor *wide = haul__picture_planes(haul__picture_wide(x));
    haul_tensor *middle = haul_slice(haul_slice(wide, 2, 1, -1, 1), 3, 1, -1, 1);
    HAUL__ASSERT(haul__failed(middle) || middle->shape.dims[2] + 2 == x->shape.dims[last - 1]);
    haul_tensor *mean = haul_mul_scalar(haul_avg_pool2d(wide, 3, .stride = {1, 1}), 9.0 / 13);
    haul_tensor *smooth = haul_add(mean, haul_mul_scalar(middle, 4.0 / 13));
    if (x->dtype == HAUL_U8)
        smooth = haul_round(smooth);
    haul_tensor *change = haul_mul_scalar(haul_sub(smooth, middle), 1 - a->number);
    wide = haul_add(wide, haul_pad(change, HAUL_PADS(1, 1, 1, 1)));
    return haul__give_picture(c, haul_reshape(haul__picture_cut(wide, x->dtype), x->shape));
}

/* ---- haul_median_blur, haul_dilate, haul_erode ---- */

static haul_status median_blur(haul__call *c)
{
    const filter_attributes *a = haul__attributes(c);
    const int64_t            half = a->size / 2;
    haul_tensor             *x = c->operands[0], *values, *indices;
    if (check_size(c))
        return haul_error_status();
    if (!x->count)
        return haul__give_picture(c, x);
    x = haul_pad(haul__picture_planes(x), HAUL_PADS(half, half, half, half), .mode = HAUL_PAD_REPLICATE);
    if (haul_median(haul_unfold(x, a->size), 1, false, &values, &indices))
        return haul_error_status();
    return haul__give_picture(c, haul_reshape(values, c->operands[0]->shape));
}

/* The largest elements, or the smallest ones with the sign -1. */
static haul_status extremes(haul__call *c, double sign)
{
    const filter_attributes *a = haul__attributes(c);
    const int64_t            half = a->size > 1 ? a->size / 2 : HAUL_ZERO;
    if (check_size(c))
        return haul_error_status();
    if (!c->operands[0]->count)
        return haul__give_picture(c, c->operands[0]);
    haul_tensor *x = haul__picture_planes(haul__picture_wide(c->operands[0]));
    x = haul_max_pool2d(sign < 0 ? haul_neg(x) : x, a->size, .stride = {1, 1}, .padding = {half, half});
    return give(c, sign < 0 ? haul_neg(x) : x);
}

static haul_status dilate(haul__call *c)
{
    return extremes(c, 1);
}

static haul_status erode(haul__call *c)
{
    return extremes(c, -1);
}

/* ---- the operations ---- */

#define FILTER                                                                                                         \
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}}, .results = {{"y"}}, .dtypes = HAUL__PICTURES,                    \
    .attributes_size = HAUL__ATTRIBUTES(filter_attributes)

HAUL__OPERATION(gaussian_blur) = {.name = "haul_gaussian_blur", FILTER, .compose = gaussian_blur};
HAUL__OPERATION(adjust_sharpness) = {.name = "haul_adjust_sharpness", FILTER, .compose = adjust_sharpness};
HAUL__OPERATION(median_blur) = {.name = "haul_median_blur", FILTER, .compose = median_blur};
HAUL__OPERATION(dilate) = {.name = "haul_dilate", FILTER, .compose = dilate};
HAUL__OPERATION(erode) = {.name = "haul_erode", FILTER, .compose = erode};

haul_tensor *haul_gaussian_blur(haul_tensor *x, int64_t size, double sigma)
{
    return HAUL__APPLY(gaussian_blur, (&(filter_attributes){.size = size, .number = sigma}), x);
}

haul_tensor *haul_adjust_sharpness(haul_tensor *x, double factor)
{
    return HAUL__APPLY(adjust_sharpness, (&(filter_attributes){.number = factor}), x);
}

haul_tensor *haul_median_blur(haul_tensor *x, int64_t size)
{
    return HAUL__APPLY(median_blur, (&(filter_attributes){.size = size}), x);
}

haul_tensor *haul_dilate(haul_tensor *x, int64_t size)
{
    return HAUL__APPLY(dilate, (&(filter_attributes){.size = size}), x);
}

haul_tensor *haul_erode(haul_tensor *x, int64_t size)
{
    return HAUL__APPLY(erode, (&(filter_attributes){.size = size}), x);
}
