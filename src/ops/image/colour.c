/* Colours of pictures: grey, hue, saturation and value, brightness and contrast. As torchvision computes them. */
#include "base/assert.h"
#include "ops/image/picture.h"

typedef struct factor_attributes {
    double factor;
} factor_attributes;

static haul_tensor *channel(haul_tensor *x, int i)
{
    return haul_slice(x, -3, i, i + 1, 1);
}

static haul_status check_factor(const haul__call *c, bool grey)
{
    const factor_attributes *a = haul__attributes_of(c);
    if (haul__check_picture(c, 3, grey))
        return haul_error_status();
    if (!(a->factor >= 0 && a->factor <= 1e9))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "factor",
                          "factor is %g; a number from 0 to 1e9 is expected", a->factor);
    return HAUL_OK;
}

static bool is_grey(const haul_tensor *x)
{
    HAUL__ASSERT(x->shape.ndim >= 3);
    return x->shape.dims[x->shape.ndim - 3] == 1;
}

/* ---- grey ---- */

/* ITU-R BT.601, by channels. */
static haul_tensor *grey_of(haul_tensor *wide)
{
    haul_tensor *red = haul_mul_scalar(channel(wide, 0), 0.2989), *green = haul_mul_scalar(channel(wide, 1), 0.587);
    return haul_add(haul_add(red, green), haul_mul_scalar(channel(wide, 2), 0.114));
}

static haul_status rgb_to_grayscale(haul__call *c)
{
    haul_tensor *x = c->operands[0];
    if (haul__check_picture(c, 3, true))
        return haul_error_status();
    return haul__give_picture(c, is_grey(x) ? x : haul_cast(grey_of(haul__picture_wide(x)), x->dtype));
}

/* ---- hue, saturation, value ---- */

/* Smith 1978, in the form of Pillow: hue is 0 for grey. */
static haul_tensor *hsv_of(haul_tensor *rgb)
{
    HAUL__ASSERT(haul__failed(rgb) || (rgb->shape.ndim >= 3 && rgb->shape.dims[rgb->shape.ndim - 3] == 3));
    haul_tensor *most = haul_max(rgb, HAUL_AXES(-3), .keepdim = true), *least;
    least = haul_min(rgb, HAUL_AXES(-3), .keepdim = true);
    haul_tensor *grey = haul_eq(most, least), *range = haul_sub(most, least);
    haul_tensor *saturation = haul_div(range, haul_masked_fill(most, grey, 1));
    haul_tensor *apart = haul_div(haul_sub(most, rgb), haul_masked_fill(range, grey, 1));
    haul_tensor *r = channel(apart, 0), *g = channel(apart, 1), *b = channel(apart, 2);
    haul_tensor *of_blue = haul_sub(haul_add_scalar(g, 4), r), *of_green = haul_sub(haul_add_scalar(r, 2), b);
    haul_tensor *hue = haul_where(haul_eq(most, channel(rgb, 1)), of_green, of_blue);
    hue = haul_where(haul_eq(most, channel(rgb, 0)), haul_sub(b, g), hue);
    hue = haul_fmod_scalar(haul_affine(hue, 1.0 / 6.0, 1), 1);
    HAUL__ASSERT(haul__failed(hue) || hue->shape.dims[hue->shape.ndim - 3] == 1);
    haul_tensor *parts[] = {hue, saturation, most};
    return haul_cat(parts, 3, -3);
}

/* a where the sector is i or j, else b. */
static haul_tensor *in_sectors(haul_tensor *sector, int i, int j, haul_tensor *a, haul_tensor *b)
{
    return haul_where(haul_logical_or(haul_eq_scalar(sector, i), haul_eq_scalar(sector, j)), a, b);
}

static haul_tensor *rgb_of(haul_tensor *hsv)
{
    HAUL__ASSERT(haul__failed(hsv) || (hsv->shape.ndim >= 3 && hsv->shape.dims[hsv->shape.ndim - 3] == 3));
    haul_tensor *s = channel(hsv, 1), *v = channel(hsv, 2), *six = haul_mul_scalar(channel(hsv, 0), 6);
    haul_tensor *whole = haul_floor(six), *part = haul_mul(s, haul_sub(six, whole)), *rest = haul_affine(s, -1, 1);
    haul_tensor *sector = haul_remainder_scalar(haul_detach(whole), 6);
    HAUL__ASSERT(haul__failed(sector) || 3 * sector->count == hsv->count);
    haul_tensor *q = haul_clamp(haul_mul(haul_affine(part, -1, 1), v), 0, 1);
    haul_tensor *t = haul_clamp(haul_mul(haul_add(part, rest), v), 0, 1);
    haul_tensor *p = haul_clamp(haul_mul(rest, v), 0, 1);
    haul_tensor *parts[] = {
        in_sectors(sector, 0, 5, v, in_sectors(sector, 1, 1, q, in_sectors(sector, 4, 4, t, p))),
        in_sectors(sector, 1, 2, v, in_sectors(sector, 3, 3, q, in_sectors(sector, 0, 0, t, p))),
        in_sectors(sector, 3, 4, v, in_sectors(sector, 5, 5, q, in_sectors(sector, 2, 2, t, p))),
    };
    return haul_cat(parts, 3, -3);
}

static haul_status rgb_to_hsv(haul__call *c)
{
    haul_tensor *x = c->operands[0];
    return haul__check_picture(c, 3, false) ? haul_error_status()
                                            : haul__give_picture(c, haul_cast(hsv_of(haul__picture_wide(x)), x->dtype));
}

static haul_status hsv_to_rgb(haul__call *c)
{
    haul_tensor *x = c->operands[0];
    return haul__check_picture(c, 3, false) ? haul_error_status()
                                            : haul__give_picture(c, haul_cast(rgb_of(haul__picture_wide(x)), x->dtype));
}

static haul_status adjust_hue(haul__call *c)
{
    const factor_attributes *a = haul__attributes(c);
    haul_tensor             *x = c->operands[0];
    if (haul__check_picture(c, 3, true))
        return haul_error_status();
    if (!(a->factor >= -0.5 && a->factor <= 0.5))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "factor",
                          "factor is %g; a part of the colour circle from -0.5 to 0.5 is expected", a->factor);
    if (is_grey(x))
        return haul__give_picture(c, x);
    HAUL__ASSERT(x->shape.dims[x->shape.ndim - 3] == 3);
    haul_tensor *wide = haul__picture_wide(x);
    haul_tensor *hsv = hsv_of(x->dtype == HAUL_U8 ? haul_div_scalar(wide, 255) : wide);
    haul_tensor *hue = haul_remainder_scalar(haul_add_scalar(channel(hsv, 0), a->factor), 1);
    HAUL__ASSERT(haul__failed(hue) || 3 * hue->count == x->count);
    haul_tensor *parts[] = {hue, channel(hsv, 1), channel(hsv, 2)};
    haul_tensor *rgb = rgb_of(haul_cat(parts, 3, -3));
    return haul__give_picture(c, haul_cast(x->dtype == HAUL_U8 ? haul_mul_scalar(rgb, 255.999) : rgb, x->dtype));
}

/* ---- brightness, contrast, saturation ---- */

/* x times the factor, and the rest of `other`. */
static haul_tensor *blended(haul_tensor *x, haul_tensor *wide, haul_tensor *other, double factor)
{
    haul_tensor *y = haul_add(haul_mul_scalar(wide, factor), haul_mul_scalar(other, 1 - factor));
    return haul__picture_cut(y, x->dtype);
}

/* The grey of a picture, in whole numbers for u8. */
static haul_tensor *grey_like(haul_tensor *x, haul_tensor *wide)
{
    haul_tensor *grey = is_grey(x) ? wide : grey_of(wide);
    return x->dtype == HAUL_U8 ? haul_floor(grey) : grey;
}

static haul_status adjust_brightness(haul__call *c)
{
    haul_tensor *x = c->operands[0];
    if (check_factor(c, true))
        return haul_error_status();
    haul_tensor *y = haul_mul_scalar(haul__picture_wide(x), ((const factor_attributes *)haul__attributes(c))->factor);
    return haul__give_picture(c, haul__picture_cut(y, x->dtype));
}

static haul_status adjust_contrast(haul__call *c)
{
    haul_tensor *x = c->operands[0];
    if (check_factor(c, true))
        return haul_error_status();
    haul_tensor *wide = haul__picture_wide(x);
    haul_tensor *mean = haul_mean(grey_like(x, wide), HAUL_AXES(-3, -2, -1), .keepdim = true);
    return haul__give_picture(c, blended(x, wide, mean, ((const factor_attributes *)haul__attributes(c))->factor));
}

static haul_status adjust_saturation(haul__call *c)
{
    haul_tensor *x = c->operands[0];
    if (check_factor(c, true))
        return haul_error_status();
    if (is_grey(x))
        return haul__give_picture(c, x);
    haul_tensor *wide = haul__picture_wide(x);
    return haul__give_picture(
        c, blended(x, wide, grey_like(x, wide), ((const factor_attributes *)haul__attributes(c))->factor));
}

/* ---- the operations ---- */

#define COLOURS    .operands = {{"x", .layout = HAUL__ANY_STRIDES}}, .results = {{"y"}}, .dtypes = HAUL__PICTURES
#define BY_FACTOR  COLOURS, .attributes_size = HAUL__ATTRIBUTES(factor_attributes)
#define CONVERSION .operands = {{"x", .layout = HAUL__ANY_STRIDES}}, .results = {{"y"}}, .dtypes = HAUL__FLOATS

HAUL__OPERATION(rgb_to_grayscale) = {.name = "haul_rgb_to_grayscale", COLOURS, .compose = rgb_to_grayscale};
HAUL__OPERATION(rgb_to_hsv) = {.name = "haul_rgb_to_hsv", CONVERSION, .compose = rgb_to_hsv};
HAUL__OPERATION(hsv_to_rgb) = {.name = "haul_hsv_to_rgb", CONVERSION, .compose = hsv_to_rgb};
HAUL__OPERATION(adjust_hue) = {.name = "haul_adjust_hue", BY_FACTOR, .compose = adjust_hue};
HAUL__OPERATION(adjust_brightness) = {.name = "haul_adjust_brightness", BY_FACTOR, .compose = adjust_brightness};
HAUL__OPERATION(adjust_contrast) = {.name = "haul_adjust_contrast", BY_FACTOR, .compose = adjust_contrast};
HAUL__OPERATION(adjust_saturation) = {.name = "haul_adjust_saturation", BY_FACTOR, .compose = adjust_saturation};

haul_tensor *haul_rgb_to_grayscale(haul_tensor *x)
{
    return HAUL__APPLY(rgb_to_grayscale, NULL, x);
}

haul_tensor *haul_rgb_to_hsv(haul_tensor *x)
{
    return HAUL__APPLY(rgb_to_hsv, NULL, x);
}

haul_tensor *haul_hsv_to_rgb(haul_tensor *x)
{
    return HAUL__APPLY(hsv_to_rgb, NULL, x);
}

haul_tensor *haul_adjust_hue(haul_tensor *x, double factor)
{
    return HAUL__APPLY(adjust_hue, &(factor_attributes){factor}, x);
}

haul_tensor *haul_adjust_brightness(haul_tensor *x, double factor)
{
    return HAUL__APPLY(adjust_brightness, &(factor_attributes){factor}, x);
}

haul_tensor *haul_adjust_contrast(haul_tensor *x, double factor)
{
    return HAUL__APPLY(adjust_contrast, &(factor_attributes){factor}, x);
}

haul_tensor *haul_adjust_saturation(haul_tensor *x, double factor)
{
    return HAUL__APPLY(adjust_saturation, &(factor_attributes){factor}, x);
}
