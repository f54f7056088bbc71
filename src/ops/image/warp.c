/* haul_rotate, haul_warp_affine and haul_warp_perspective: a grid from a matrix, and samples there (grid_sample.c).
 *
 * A matrix maps positions of the result to those of x, in the terms of Pillow and torchvision. All pictures have the
 * same grid, so they are sampled as channels of one. */
#include <math.h>

#include "base/assert.h"
#include "core/option.h"
#include "ops/image/picture.h"

/* Element (x, y) of the result comes from ((x, y, 1) of_x, (x, y, 1) of_y) / (x, y, 1) of_both - shift, in units in
 * which the edges of the operand are -1 and 1. The first element is at `start`. */
typedef struct warp {
    double  of_x[3], of_y[3], of_both[3], start[2], shift;
    bool    divides;
    int64_t rows, columns; /* of the result */
} warp;

static haul_tensor *weighted(haul_tensor *x, haul_tensor *y, const double of[3])
{
    return haul_add(haul_affine(x, of[0], of[2]), haul_mul_scalar(y, of[1]));
}

static haul_tensor *grid_of(haul_dtype dtype, const warp *w)
{
    haul_tensor *x = haul_linspace(dtype, w->start[0], w->start[0] + (double)(w->columns - 1), w->columns);
    haul_tensor *y = haul_linspace(dtype, w->start[1], w->start[1] + (double)(w->rows - 1), w->rows);
    y = haul_reshape(y, HAUL_SHAPE(w->rows, 1));
    haul_tensor *parts[] = {weighted(x, y, w->of_x), weighted(x, y, w->of_y)};
    haul_tensor *divisor = w->divides ? weighted(x, y, w->of_both) : NULL;
    for (int i = 0; i < 2 && w->divides; i++)
        parts[i] = haul_add_scalar(haul_div(parts[i], divisor), -w->shift);
    return haul_reshape(haul_stack(parts, 2, -1), HAUL_SHAPE(1, w->rows, w->columns, 2));
}

/* Samples of x [..., H, W], with `fill` around it. */
static haul_tensor *warped(haul_tensor *x, const warp *w, haul_interpolation mode, double fill)
{
    const haul_shape *shape = &x->shape;
    const int         last = shape->ndim - 1;
    haul_tensor      *wide = haul__picture_wide(x);
    if (!x->count)
        return haul__picture_of_planes(x, shape, w->rows, w->columns);
    HAUL__ASSERT(last > 0);
    const haul_shape one = HAUL_SHAPE(1, -1, shape->dims[last - 1], shape->dims[last]);
    haul_tensor     *grid = grid_of(haul_tensor_dtype(wide), w);
    haul_tensor     *y = haul_grid_sample(haul_reshape(wide, one), grid, mode);
    if (fill != 0) {
        haul_tensor *inside = haul_ones(haul_tensor_dtype(wide), HAUL_SHAPE(1, 1, one.dims[2], one.dims[3]));
        haul_tensor *share = haul_grid_sample(inside, grid, mode);
        y = mode == HAUL_NEAREST ? haul_masked_fill(y, haul_lt_scalar(share, 0.5), fill)
                                 : haul_add_scalar(haul_mul(haul_add_scalar(y, -fill), share), fill);
    }
    HAUL__ASSERT(haul__failed(y) || (y->shape.dims[2] == w->rows && y->shape.dims[3] == w->columns));
    return haul__picture_of_planes(haul__picture_rounded(y, x->dtype), shape, w->rows, w->columns);
}

/* ---- checks ---- */

typedef struct warp_attributes {
    double degrees, translate[2], scale, shear[2], center[2];
    double fill;
    int    mode, expand;
} warp_attributes;

static haul_status check_numbers(const haul__call *c, const char *option, const double *numbers, int count)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(numbers[i]) <= 1e9) && numbers[i] != HAUL_ZERO)
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, option,
                              "number %d of %s is %g; numbers from -1e9 to 1e9 are expected", i + 1, option,
                              numbers[i]);
    return HAUL_OK;
}

static haul_status check(const haul__call *c, int mode, double fill)
{
    const char      *name = c->operation->name;
    const haul_dtype dtype = c->operands[0]->dtype;
    if (haul__check_picture(c, 0, false))
        return haul_error_status();
    if (mode != HAUL_NEAREST && mode != HAUL_BILINEAR && mode != HAUL_BICUBIC)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "mode",
                          "mode is %d; it must be HAUL_NEAREST, HAUL_BILINEAR or HAUL_BICUBIC", mode);
    if (!haul__dtype_holds(dtype, fill))
        return haul__refuse_number(name, "fill", dtype, fill, "cast x to another dtype with haul_cast");
    return HAUL_OK;
}

/* ---- haul_rotate and haul_warp_affine ---- */

/* The inverse of scaling, shearing and turning around the center, and then moving. */
static void invert(const warp_attributes *a, const double center[2], double m[6])
{
    const double unit = acos(-1) / 180, turn = a->degrees * unit, sx = a->shear[0] * unit, sy = a->shear[1] * unit;
    const double k = cos(turn - sy) / cos(sy), l = -(k * tan(sx) + sin(turn));
    const double n = sin(turn - sy) / cos(sy), o = cos(turn) - n * tan(sx);
    const double x = center[0] + a->translate[0], y = center[1] + a->translate[1];
    m[0] = o / a->scale, m[1] = -l / a->scale, m[3] = -n / a->scale, m[4] = k / a->scale;
    m[2] = center[0] - m[0] * x - m[1] * y;
    m[5] = center[1] - m[3] * x - m[4] * y;
}

/* How many elements have room for the n ones of an axis whose corners are at (+-w / 2, +-h / 2) times m. Parts of less
 * than a ten-thousandth of an element do not count. */
static int64_t room_of(const double m[3], double w, double h, double n)
{
    double low = INFINITY, high = -INFINITY;
    for (int i = 0; i < 4; i++) {
        const double at = m[0] * (i & 1 ? w : -w) / 2 + m[1] * (i & 2 ? h : -h) / 2 + m[2] + n / 2;
        low = fmin(low, at), high = fmax(high, at);
    }
    return (int64_t)(ceil(trunc(high * 1e4) / 1e4) - floor(trunc(low * 1e4) / 1e4));
}

static haul_status warp_by(haul__call *c, const warp_attributes *a)
{
    haul_tensor *x = c->operands[0];
    const int    last = x->shape.ndim - 1;
    const double w = (double)x->shape.dims[last], h = (double)x->shape.dims[last - 1];
    double       m[6], center[2] = {0, 0};
    HAUL__ASSERT(last >= 1 && w > 0 && h > 0);
    if (a->center[0] != 0 || a->center[1] != 0) {
        center[0] = haul__option(a->center[0], 0) - w / 2;
        center[1] = haul__option(a->center[1], 0) - h / 2;
    }
    invert(a, center, m);
    warp to = {.rows = x->shape.dims[last - 1], .columns = x->shape.dims[last]};
    if (a->expand) {
        to.columns = room_of(m, w, h, w);
        to.rows = room_of(m + 3, w, h, h);
    }
    HAUL__ASSERT(to.rows > 0 && to.columns > 0);
    for (int i = 0; i < 3; i++) {
        to.of_x[i] = m[i] / (w / 2);
        to.of_y[i] = m[3 + i] / (h / 2);
    }
    to.start[0] = (double)(1 - to.columns) / 2;
    to.start[1] = (double)(1 - to.rows) / 2;
    return haul__give_picture(c, warped(x, &to, (haul_interpolation)a->mode, a->fill));
}

/* Quarter turns only move elements. */
static haul_status rotate(haul__call *c)
{
    warp_attributes *a = haul__attributes(c);
    haul_tensor     *x = c->operands[0];
    if (check(c, a->mode, a->fill) || check_numbers(c, "degrees", &a->degrees, 1) ||
        check_numbers(c, "center", a->center, 2))
        return haul_error_status();
    const double turn = fmod(fmod(a->degrees, 360) + 360, 360);
    HAUL__ASSERT(turn >= 0 && turn < 360);
    const bool middle = a->center[0] == 0 && a->center[1] == 0;
    const int  last = x->shape.ndim - 1;
    HAUL__ASSERT(last > 0);
    if (middle && turn == 0)
        return haul__give_picture(c, x);
    if (middle && turn == 180)
        return haul__give_picture(c, haul_flip(x, HAUL_AXES(-1, -2)));
    if (middle && (turn == 90 || turn == 270) && (a->expand || x->shape.dims[last] == x->shape.dims[last - 1])) {
        haul_tensor *back = turn == 90 ? haul_flip(x, HAUL_AXES(-1)) : haul_flip(x, HAUL_AXES(-2));
        return haul__give_picture(c, haul_contiguous(haul_transpose(back, -1, -2)));
    }
    a->degrees = -turn; /* haul_rotate turns the other way */
    return warp_by(c, a);
}

static haul_status warp_affine(haul__call *c)
{
    warp_attributes *a = haul__attributes(c);
    if (check(c, a->mode, a->fill) || check_numbers(c, "degrees", &a->degrees, 1) ||
        check_numbers(c, "translate", a->translate, 2) || check_numbers(c, "scale", &a->scale, 1) ||
        check_numbers(c, "shear", a->shear, 2) || check_numbers(c, "center", a->center, 2))
        return haul_error_status();
    a->scale = haul__option(a->scale, 1);
    for (int i = 0; i < 2; i++) {
        a->translate[i] = haul__option(a->translate[i], 0);
        a->shear[i] = haul__option(a->shear[i], 0);
        if (!(fabs(a->shear[i]) < 90))
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "shear",
                              "shear is {%g, %g}; degrees between -90 and 90 are expected", a->shear[0], a->shear[1]);
    }
    if (!(a->scale >= 1e-6))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "scale", "scale is %g; at least 1e-6 is expected",
                          a->scale);
    return warp_by(c, a);
}

/* ---- haul_warp_perspective ---- */

typedef struct perspective_attributes {
    double from[8], to[8], fill;
    int    mode, reserved;
} perspective_attributes;

/* The solution of eight equations, by elimination with pivots. False if there is not exactly one. */
static bool solve(double a[8][9])
{
    for (int k = 0; k < 8; k++) {
        int best = k;
        for (int i = k + 1; i < 8; i++)
            best = fabs(a[i][k]) > fabs(a[best][k]) ? i : best;
        if (!(fabs(a[best][k]) > 1e-9))
            return false;
        for (int j = 0; j < 9; j++) {
            const double other = a[k][j];
            a[k][j] = a[best][j];
            a[best][j] = other;
        }
        HAUL__ASSERT(best >= k && fabs(a[k][k]) > 1e-9);
        for (int i = 0; i < 8; i++) {
            const double times = i == k ? 0 : a[i][k] / a[k][k];
            for (int j = k; j < 9; j++)
                a[i][j] -= times * a[k][j];
        }
    }
    for (int i = 0; i < 8; i++)
        a[i][8] /= a[i][i];
    return true;
}

static haul_status warp_perspective(haul__call *c)
{
    const perspective_attributes *a = haul__attributes(c);
    haul_tensor                  *x = c->operands[0];
    double                        m[8][9] = {{0}};
    if (check(c, a->mode, a->fill) || check_numbers(c, "from", a->from, 8) || check_numbers(c, "to", a->to, 8))
        return haul_error_status();
    for (int i = 0; i < 8; i++) {
        const double px = haul__option(a->to[i / 2 * 2], 0), py = haul__option(a->to[i / 2 * 2 + 1], 0);
        const double at = haul__option(a->from[i], 0);
        double      *row = m[i];
        row[i % 2 * 3] = px, row[i % 2 * 3 + 1] = py, row[i % 2 * 3 + 2] = 1;
        row[6] = -at * px, row[7] = -at * py, row[8] = at;
    }
    if (!solve(m))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "to",
                          "no perspective maps these corners to each other; four corners of which no three are on one "
                          "line are expected");
    const int last = x->shape.ndim - 1;
    HAUL__ASSERT(last > 0);
    warp w = {.rows = x->shape.dims[last - 1],
              .columns = x->shape.dims[last],
              .start = {0.5, 0.5},
              .of_both = {m[6][8], m[7][8], 1},
              .shift = 1,
              .divides = true};
    for (int i = 0; i < 3; i++) {
        w.of_x[i] = m[i][8] / ((double)w.columns / 2);
        w.of_y[i] = m[3 + i][8] / ((double)w.rows / 2);
    }
    return haul__give_picture(c, warped(x, &w, (haul_interpolation)a->mode, a->fill));
}

/* ---- the operations ---- */

#define WARP .operands = {{"x", .layout = HAUL__ANY_STRIDES}}, .results = {{"y"}}, .dtypes = HAUL__PICTURES

HAUL__OPERATION(rotate) = {
    .name = "haul_rotate", WARP, .attributes_size = HAUL__ATTRIBUTES(warp_attributes), .compose = rotate};
HAUL__OPERATION(warp_affine) = {
    .name = "haul_warp_affine", WARP, .attributes_size = HAUL__ATTRIBUTES(warp_attributes), .compose = warp_affine};
HAUL__OPERATION(warp_perspective) = {.name = "haul_warp_perspective",
                                     WARP,
                                     .attributes_size = HAUL__ATTRIBUTES(perspective_attributes),
                                     .compose = warp_perspective};

#define COPY_PAIR(of)                                                                                                  \
    {                                                                                                                  \
        (of)[0], (of)[1]                                                                                               \
    }

haul_tensor *haul_rotate_with(haul_tensor *x, const haul_rotate_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_rotate);
    const warp_attributes a = {.degrees = o->degrees,
                               .scale = 1,
                               .center = COPY_PAIR(o->center),
                               .fill = o->fill,
                               .mode = (int)o->mode,
                               .expand = o->expand};
    return HAUL__APPLY(rotate, &a, x);
}

haul_tensor *haul_warp_affine_with(const haul_warp_affine_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_warp_affine);
    const warp_attributes a = {.degrees = o->degrees,
                               .translate = COPY_PAIR(o->translate),
                               .scale = o->scale,
                               .shear = COPY_PAIR(o->shear),
                               .center = COPY_PAIR(o->center),
                               .fill = o->fill,
                               .mode = (int)o->mode};
    return HAUL__APPLY(warp_affine, &a, o->x);
}

haul_tensor *haul_warp_perspective_with(const haul_warp_perspective_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_warp_perspective);
    perspective_attributes a = {.fill = o->fill, .mode = (int)o->mode};
    for (int i = 0; i < 8; i++) {
        a.from[i] = o->from[i];
        a.to[i] = o->to[i];
    }
    return HAUL__APPLY(warp_perspective, &a, o->x);
}
