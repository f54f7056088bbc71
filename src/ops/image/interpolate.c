/* haul_interpolate: checks sizes and scales, makes them fractions of integers, and resizes planes by their nearest
 * elements at once (planes.c), or one axis after the other (resample.c). */
#include <math.h>

#include "base/assert.h"
#include "core/option.h"
#include "ops/image/image.h"

/* A given scale becomes a fraction of numbers up to this one, by continued fractions: 0.6 is 3 / 5. */
#define MOST_OF_SCALE (1 << 28)

enum { MAX_AXES = 3 };

typedef struct interpolate_attributes {
    int64_t size[MAX_AXES];
    double  scale[MAX_AXES];
    int     mode, align_corners, antialias, reserved;
} interpolate_attributes;

static bool is_smooth(const interpolate_attributes *a)
{
    return a->mode == HAUL_BILINEAR || a->mode == HAUL_BICUBIC;
}

static haul_status check(const haul__call *c, const interpolate_attributes *a)
{
    const haul_shape *x = &c->operands[0]->shape;
    const char       *name = c->operation->name;
    const int         axes = x->ndim - 2;
    bool              sized = false, scaled = false;
    int64_t           elements = 1;
    if (axes < 1 || axes > MAX_AXES)
        return haul__refuse_shape(c, 0, "it must be [N, C, L], [N, C, H, W] or [N, C, D, H, W]");
    for (int i = 0; i < axes; i++)
        if (!haul__mul_size(elements, x->dims[2 + i], &elements) || elements < 1 || elements > HAUL__IMAGE_LONGEST)
            return haul__refuse_shape(c, 0, "a plane of it must have from 1 to 2^30 elements");
    if (a->mode < HAUL_NEAREST || a->mode > HAUL_AREA)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "mode",
                          "mode is %d; it must be HAUL_NEAREST, HAUL_BILINEAR, HAUL_NEAREST_EXACT, HAUL_BICUBIC or "
                          "HAUL_AREA",
                          a->mode);
    if ((a->align_corners || a->antialias) && !is_smooth(a))
        return haul__fail(HAUL_INVALID_ARGUMENT, name, a->align_corners ? "align_corners" : "antialias",
                          "%s needs .mode = HAUL_BILINEAR or HAUL_BICUBIC",
                          a->align_corners ? "align_corners" : "antialias");
    for (int i = 0; i < MAX_AXES; i++) {
        sized = sized || a->size[i];
        scaled = scaled || a->scale[i] != 0;
        if (i >= axes && (a->size[i] || a->scale[i] != 0))
            return haul__fail(HAUL_INVALID_ARGUMENT, name, a->size[i] ? "size" : "scale",
                              "number %d of %s is given, but x has %d %s after the channels", i + 1,
                              a->size[i] ? "size" : "scale", axes, axes == 1 ? "axis" : "axes");
    }
    if (sized == scaled)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "size", "%s; give one of them",
                          sized ? "size and scale are both given" : "neither size nor scale is given");
    return HAUL_OK;
}

/* scale as num / den. Both are positive: the first term is 0 only if there is a second. */
static void fraction_of(double scale, int64_t *num, int64_t *den)
{
    int64_t before[2] = {0, 1}, now[2] = {1, 0};
    double  rest = scale;
    HAUL__ASSERT(scale > 0);
    do {
        double whole = floor(rest);
        double next[2] = {whole * (double)now[0] + (double)before[0], whole * (double)now[1] + (double)before[1]};
        if (now[0] && now[1] && (next[0] > MOST_OF_SCALE || next[1] > MOST_OF_SCALE))
            break;
        for (int i = 0; i < 2; i++) {
            before[i] = now[i];
            now[i] = (int64_t)next[i];
        }
        rest = 1 / (rest - whole);
    } while (fabs(scale * (double)now[1] - (double)now[0]) > 1e-12 * (double)now[0]);
    HAUL__ASSERT(now[0] > 0 && now[1] > 0);
    *num = now[0];
    *den = now[1];
}

/* The number of elements, and the ratio of x's size to y's as a fraction: the given scale, unless sizes determine
 * it. */
static haul_status complete_size(const haul__call *c, const interpolate_attributes *a, int axis, haul__resized_axis *of)
{
    const char *name = c->operation->name;
    double      scale = a->scale[axis];
    of->in = c->operands[0]->shape.dims[2 + axis];
    HAUL__ASSERT(of->in > 0);
    double size = scale == 0 ? (double)a->size[axis] : floor((double)of->in * scale);
    if (scale == 0 && (size < 1 || size > HAUL__IMAGE_LONGEST))
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "size",
                          "size is {%lld, %lld, %lld}, but number %d must be from 1 to 2^30", (long long)a->size[0],
                          (long long)a->size[1], (long long)a->size[2], axis + 1);
    if (scale != 0 && (!(scale > 0) || !(size >= 1) || size > HAUL__IMAGE_LONGEST))
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "scale",
                          "scale is {%g, %g, %g}, but x has %lld elements along axis %d, and the result must have from "
                          "1 to 2^30",
                          a->scale[0], a->scale[1], a->scale[2], (long long)of->in, axis + 2);
    of->out = (int64_t)size;
    of->num = of->in;
    of->den = of->out;
    if (scale != 0 && (double)of->in * scale != size)
        fraction_of(scale, &of->den, &of->num);
    HAUL__ASSERT(of->out > 0 && of->num > 0 && of->den > 0);
    return HAUL_OK;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static haul__position position_of(int64_t mul, int64_t add, int64_t div)
{
    int64_t common = common_divisor(common_divisor(mul, add < 0 ? -add : add), div);
    mul /= common, add /= common, div /= common;
    HAUL__ASSERT(mul >= 0 && div > 0);
    return (haul__position){mul, add, div, mul / div, mul % div};
}

static haul_status complete(const haul__call *c, const interpolate_attributes *a, int axis, haul__resized_axis *of)
{
    if (complete_size(c, a, axis, of))
        return haul_error_status();
    if (a->align_corners) {
        of->num = of->out > 1 ? of->in - 1 : 0;
        of->den = of->out > 1 ? of->out - 1 : 1;
        of->at = position_of(of->in - 1, 0, of->den);
    } else if (is_smooth(a)) { /* (d + 1/2) num / den - 1/2 */
        of->at = position_of(2 * of->num, of->num - of->den, 2 * of->den);
    } else if (a->mode == HAUL_NEAREST_EXACT) { /* (d + 1/2) num / den */
        of->at = position_of(2 * of->num, of->num, 2 * of->den);
    } else {
        of->at = position_of(of->num, 0, of->den);
    }
    HAUL__ASSERT(of->den > 0 && of->num >= 0);
    HAUL__ASSERT(of->at.div > 0);
    return HAUL_OK;
}

/* ---- the ways ---- */

/* Planes, or rows as planes with one row. */
static haul_tensor *by_planes(haul_tensor *x, const haul__resized_axis *of, bool linear)
{
    const int64_t *dims = x->shape.dims;
    if (x->shape.ndim == 4)
        return haul__interpolate_planes(x, of, linear);
    const haul__resized_axis one = {.in = 1, .out = 1, .num = 1, .den = 1, .at = {1, 0, 1, 1, 0}};
    haul_tensor             *rows = haul_reshape(x, HAUL_SHAPE(dims[0], dims[1], 1, dims[2]));
    if (haul__failed(rows))
        return rows;
    haul_tensor *y = haul__interpolate_planes(rows, (const haul__resized_axis[]){one, of[0]}, linear);
    return haul_reshape(y, HAUL_SHAPE(dims[0], dims[1], of[0].out));
}

/* The axis that becomes smallest in relation to its size goes first, so that the others are less work. */
static haul_tensor *by_axes(haul_tensor *x, const haul__resized_axis *of, haul__resampling kind)
{
    const int    axes = x->shape.ndim - 2;
    haul_tensor *y = x;
    bool         done[MAX_AXES] = {false};
    for (int i = 0; i < axes; i++)
        done[i] = of[i].in == of[i].out && of[i].num == of[i].den;
    for (int round = 0; round < axes && !haul__failed(y); round++) {
        int next = -1;
        for (int i = 0; i < axes; i++)
            if (!done[i] && (next < 0 || of[i].out * of[next].in < of[next].out * of[i].in))
                next = i;
        if (next >= 0) {
            y = haul__resample(y, 2 + next, &of[next], kind);
            done[next] = true;
        }
    }
    HAUL__ASSERT(axes <= MAX_AXES);
    HAUL__ASSERT(haul__failed(y) || y->shape.ndim == axes + 2);
    return y == x ? haul_clone(x) : y;
}

static haul_tensor *resized(haul_tensor *x, const haul__resized_axis *of, const interpolate_attributes *a)
{
    static const haul__resampling plain[] = {HAUL__RESAMPLE_NEAREST, HAUL__RESAMPLE_LINEAR, HAUL__RESAMPLE_NEAREST,
                                             HAUL__RESAMPLE_CUBIC, HAUL__RESAMPLE_AREA};
    const haul_dtype              dtype = x->dtype;
    if (x->shape.ndim < 5 && a->mode <= HAUL_NEAREST_EXACT && !a->antialias)
        return by_planes(x, of, a->mode == HAUL_BILINEAR);
    haul_tensor *wide = haul_cast(x, dtype == HAUL_F64 ? HAUL_F64 : HAUL_F32);
    if (haul__failed(wide))
        return wide;
    HAUL__ASSERT((size_t)a->mode < sizeof plain / sizeof *plain);
    haul__resampling kind = plain[a->mode];
    if (a->antialias)
        kind = a->mode == HAUL_BICUBIC ? HAUL__RESAMPLE_SMOOTH_CUBIC : HAUL__RESAMPLE_SMOOTH_LINEAR;
    HAUL__ASSERT(!a->antialias || is_smooth(a));
    return haul_cast(by_axes(wide, of, kind), dtype);
}

static haul_status compose(haul__call *c)
{
    const interpolate_attributes *a = haul__attributes(c);
    haul_tensor                  *x = c->operands[0];
    haul__resized_axis            of[MAX_AXES];
    if (check(c, a))
        return haul_error_status();
    HAUL__ASSERT(x->shape.ndim - 2 <= MAX_AXES);
    for (int i = 0; i < x->shape.ndim - 2; i++)
        if (complete(c, a, i, &of[i]))
            return haul_error_status();
    if (x->dtype == HAUL_U8) {
        haul_tensor *wide = haul_cast(x, HAUL_F32);
        if (!haul__failed(wide))
            wide = resized(wide, of, a);
        c->results[0] =
            haul_cast(is_smooth(a) || a->mode == HAUL_AREA ? haul_clamp(haul_round(wide), 0, 255) : wide, HAUL_U8);
    } else {
        c->results[0] = resized(x, of, a);
    }
    HAUL__ASSERT(haul__failed(c->results[0]) || c->results[0]->dtype == x->dtype);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(interpolate) = {
    .name = "haul_interpolate",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS | HAUL__ONLY(HAUL_U8),
    .attributes_size = HAUL__ATTRIBUTES(interpolate_attributes),
    .compose = compose,
};

static interpolate_attributes attributes_of(const haul_interpolate_options *o)
{
    return (interpolate_attributes){.size = {o->size[0], o->size[1], o->size[2]},
                                    .scale = {o->scale[0], o->scale[1], o->scale[2]},
                                    .mode = (int)o->mode,
                                    .align_corners = o->align_corners,
                                    .antialias = o->antialias};
}

HAUL__FUNCTION_WITH(interpolate, interpolate_attributes, attributes_of(o), (const haul_interpolate_options *o), o->x)
