/* Tones of pictures: inversion, fewer levels, and levels that use the whole range. As torchvision computes them. */
#include "base/assert.h"
#include "ops/image/picture.h"

typedef struct tone_attributes {
    double threshold;
    int    bits, reserved;
} tone_attributes;

/* ---- haul_invert, haul_solarize, haul_posterize ---- */

static haul_tensor *inverted(haul_tensor *x)
{
    return x->dtype == HAUL_U8 ? haul_bitwise_not(x) : haul_affine(x, -1, 1);
}

static haul_status invert(haul__call *c)
{
    return haul__check_picture(c, 0, false) ? haul_error_status() : haul__give_picture(c, inverted(c->operands[0]));
}

static haul_status solarize(haul__call *c)
{
    const tone_attributes *a = haul__attributes(c);
    haul_tensor           *x = c->operands[0];
    if (haul__check_picture(c, 0, false))
        return haul_error_status();
    if (!(a->threshold <= haul__picture_white(x->dtype)))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "threshold",
                          "threshold is %g; at most %g is expected for %s", a->threshold, haul__picture_white(x->dtype),
                          haul_dtype_name(x->dtype));
    return haul__give_picture(c, haul_where(haul_ge_scalar(x, a->threshold), inverted(x), x));
}

static haul_status posterize(haul__call *c)
{
    const tone_attributes *a = haul__attributes(c);
    haul_tensor           *x = c->operands[0];
    if (haul__check_picture(c, 0, false))
        return haul_error_status();
    if (a->bits < 0 || a->bits > 8)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "bits", "bits is %d; 0 to 8 is expected", a->bits);
    if (x->dtype == HAUL_U8)
        return haul__give_picture(c, haul_bitwise_and_scalar(x, 256 - (1 << (8 - a->bits))));
    const double levels = 1 << a->bits;
    haul_tensor *level = haul_clamp(haul_floor(haul_mul_scalar(haul__picture_wide(x), levels)), 0, levels - 1);
    return haul__give_picture(c, haul_cast(haul_mul_scalar(level, 1 / levels), x->dtype));
}

/* ---- haul_autocontrast, haul_equalize ---- */

static haul_status autocontrast(haul__call *c)
{
    haul_tensor *x = c->operands[0];
    if (haul__check_picture(c, 0, false))
        return haul_error_status();
    haul_tensor *wide = haul__picture_wide(x);
    haul_tensor *least = haul_min(wide, HAUL_AXES(-2, -1), .keepdim = true);
    haul_tensor *most = haul_max(wide, HAUL_AXES(-2, -1), .keepdim = true), *even = haul_eq(most, least);
    haul_tensor *unit = haul_mul_scalar(haul_sub(most, least), 1 / haul__picture_white(x->dtype));
    wide = haul_div(haul_sub(wide, haul_masked_fill(least, even, 0)), haul_masked_fill(unit, even, 1));
    return haul__give_picture(c, haul__picture_cut(wide, x->dtype));
}

/* Level k of a plane becomes (elements below k + step / 2) / step, where 255 steps are all elements but those of the
 * highest level. Planes of which a step is 0 stay. */
static haul_tensor *equalized(haul_tensor *levels)
{
    HAUL__ASSERT(levels->dtype == HAUL_U8 && levels->shape.ndim == 2);
    const int64_t planes = levels->shape.dims[0], n = levels->shape.dims[1];
    haul_tensor  *index = haul_cast(levels, HAUL_I64), *one = haul_ones(HAUL_I64, HAUL_SHAPE(planes, n));
    haul_tensor  *counts = haul_scatter_add(haul_zeros(HAUL_I64, HAUL_SHAPE(planes, 256)), 1, index, one);
    haul_tensor  *highest = haul_eq(index, haul_max(index, HAUL_AXES(1), .keepdim = true));
    haul_tensor  *rest =
        haul_affine(haul_sum(haul_cast(highest, HAUL_I64), HAUL_AXES(1), .keepdim = true), -1, (double)n);
    haul_tensor *step = haul_floor_div_scalar(rest, 255), *divisor = haul_maximum_scalar(step, 1);
    haul_tensor *below = haul_slice(haul_cumsum(counts, 1), 1, 0, 255, 1);
    haul_tensor *to = haul_floor_div(haul_add(below, haul_floor_div_scalar(step, 2)), divisor);
    to = haul_pad(haul_clamp(to, 0, 255), HAUL_PADS(1, 0));
    HAUL__ASSERT(haul__failed(to) || to->count == 256 * planes);
    return haul_cast(haul_where(haul_gt_scalar(step, 0), haul_gather(to, 1, index), index), HAUL_U8);
}

static haul_status equalize(haul__call *c)
{
    haul_tensor *x = c->operands[0], *levels = x;
    if (haul__check_picture(c, 0, false))
        return haul_error_status();
    if (!x->count)
        return haul__give_picture(c, x);
    const int last = x->shape.ndim - 1;
    HAUL__ASSERT(last > 0);
    if (x->dtype != HAUL_U8)
        levels = haul_cast(haul_clamp(haul_mul_scalar(haul__picture_wide(x), 255.999), 0, 255), HAUL_U8);
    levels = haul_reshape(levels, HAUL_SHAPE(-1, x->shape.dims[last] * x->shape.dims[last - 1]));
    if (haul__failed(levels))
        return haul_error_status();
    haul_tensor *y = equalized(haul_detach(levels));
    if (x->dtype != HAUL_U8)
        y = haul_cast(haul_div_scalar(haul_cast(y, x->dtype == HAUL_F64 ? HAUL_F64 : HAUL_F32), 255), x->dtype);
    HAUL__ASSERT(haul__failed(y) || y->count == x->count);
    return haul__give_picture(c, haul_reshape(y, x->shape));
}

/* ---- the operations ---- */

#define TONES .operands = {{"x", .layout = HAUL__ANY_STRIDES}}, .results = {{"y"}}, .dtypes = HAUL__PICTURES

HAUL__OPERATION(invert) = {.name = "haul_invert", TONES, .compose = invert};
HAUL__OPERATION(solarize) = {
    .name = "haul_solarize", TONES, .attributes_size = HAUL__ATTRIBUTES(tone_attributes), .compose = solarize};
HAUL__OPERATION(posterize) = {
    .name = "haul_posterize", TONES, .attributes_size = HAUL__ATTRIBUTES(tone_attributes), .compose = posterize};
HAUL__OPERATION(autocontrast) = {.name = "haul_autocontrast", TONES, .compose = autocontrast};
HAUL__OPERATION(equalize) = {.name = "haul_equalize", TONES, .not_recorded = true, .compose = equalize};

haul_tensor *haul_invert(haul_tensor *x)
{
    return HAUL__APPLY(invert, NULL, x);
}

haul_tensor *haul_solarize(haul_tensor *x, double threshold)
{
    return HAUL__APPLY(solarize, (&(tone_attributes){.threshold = threshold}), x);
}

haul_tensor *haul_posterize(haul_tensor *x, int bits)
{
    return HAUL__APPLY(posterize, (&(tone_attributes){.bits = bits}), x);
}

haul_tensor *haul_autocontrast(haul_tensor *x)
{
    return HAUL__APPLY(autocontrast, NULL, x);
}

haul_tensor *haul_equalize(haul_tensor *x)
{
    return HAUL__APPLY(equalize, NULL, x);
}
