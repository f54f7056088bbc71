/* Sampling pictures at given positions, and its gradients.
 *
 * An element of y is a sum over rows and columns near its position, with weights that are a product of one for the row
 * and one for the column. The kernels also compute it with derivatives of these weights, so that the gradients are the
 * same operations again, to any order.
 *
 * The gradient of x: a table has the elements of x that each position reads, and their weights. An item adds up a plane
 * of x, in the order of the positions. If there are few planes, GPUs sort the table, and an item adds up one element of
 * each plane, in the same order. */
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/image/image.h"
#include "ops/index/sort.h"

// clang-format off
/* kernel text begins */
enum { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC };
enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };

/* x: [images, channels, h, w]; grid: [images, points, 2]; y: [images, channels, points] */
typedef struct grid_params {
    I64 items, points, channels, h, w;
    I64 at[4]; /* offsets of the buffers, in the order of the kernel's arguments */
    I32 mode, padding, corners, down, across, reserved; /* down, across: the order of the weights' derivatives */
} grid_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* v mirrored at the ends of an axis of n elements until it is between them; the slope changes its sign with each. */
FUNC A grid_reflected(A v, I64 n, I32 corners, PRIVATE A *slope)
{
    const A low = corners ? LIT(0.0) : LIT(-0.5), span = (A)(corners ? n - 1 : n), there = v - low;
    if (span == 0) { *slope = 0; return 0; }
    const A apart = there < 0 ? -there : there, rest = M_FMOD(apart, span);
    const I32 odd = M_FMOD(M_FLOOR(apart / span), LIT(2.0)) != 0;
    *slope = (there < 0) != odd ? -*slope : *slope;
    return (odd ? span - rest : rest) + low;
}
FUNC A grid_clipped(A v, I64 n, PRIVATE A *slope)
{
    const A last = (A)(n - 1);
    if (v > 0 && v < last) return v;
    *slope = 0;
    return v > 0 ? last : LIT(0.0);
}
FUNC I64 grid_inside(I64 i, I64 n) { return i < 0 || i >= n ? -1 : i; }

/* The cubic weight of a neighbour: a polynomial of its distance d, which is up to 1 or (`far`) from 1 to 2, or one of
 * its derivatives. */
FUNC A grid_cubic(A d, I32 far, I32 order)
{
    const A c3 = far ? LIT(-0.75) : LIT(1.25), c2 = far ? LIT(3.75) : LIT(-2.25), c1 = far ? LIT(-6.0) : LIT(0.0), c0 = far ? LIT(3.0) : LIT(1.0);
    return order == 0 ? ((c3 * d + c2) * d + c1) * d + c0
         : order == 1 ? (LIT(3.0) * c3 * d + LIT(2.0) * c2) * d + c1
         : order == 2 ? LIT(6.0) * c3 * d + LIT(2.0) * c2
         : order == 3 ? LIT(6.0) * c3 : LIT(0.0);
}
/* Element i of the padded axis, as an element of the n of x; -1 for zeros. */
FUNC I64 grid_padded(I64 i, I64 n, I32 padding, I32 corners)
{
    A slope = 0;
    if (padding == GRID_ZEROS || (i >= 0 && i < n)) return grid_inside(i, n);
    return (I64)grid_clipped(padding == GRID_BORDER ? (A)i : grid_reflected((A)i, n, corners, &slope), n, &slope);
}

/* The `taps` elements along an axis of n that are read for position v, -1 for those outside, and their weights. */
INLINE void grid_axis(const grid_params p, A v, I64 n, I32 order, const int taps, PRIVATE I64 *at, PRIVATE A *weight)
{
    A slope = (A)(p.corners ? n - 1 : n) * LIT(0.5), scale = 1;
    A there = p.corners ? (v + LIT(1.0)) * LIT(0.5) * (A)(n - 1) : ((v + LIT(1.0)) * (A)n - LIT(1.0)) * LIT(0.5);
    if (taps < 4 && p.padding == GRID_REFLECTION) there = grid_reflected(there, n, p.corners, &slope);
    if (taps < 4 && p.padding != GRID_ZEROS) there = grid_clipped(there, n, &slope);
    there = there > LIT(-1e9) && there < LIT(1e9) ? there : LIT(-100.0); /* far outside, and NaN */
    const A whole = taps == 1 ? M_RINT(there) : M_FLOOR(there), t = there - whole;
    const I64 first = (I64)whole;
    for (I32 k = 0; k < order; k++) scale *= slope;
    if (taps == 1) {
        at[0] = grid_inside(first, n);
        weight[0] = order == 0 ? LIT(1.0) : LIT(0.0);
    } else if (taps == 2) {
        for (int k = 0; k < 2; k++) at[k] = grid_inside(first + k, n);
        weight[0] = order == 0 ? LIT(1.0) - t : order == 1 ? -scale : LIT(0.0);
        weight[1] = order == 0 ? t : order == 1 ? scale : LIT(0.0);
    } else {
        for (int k = 0; k < 4; k++) at[k] = grid_padded(first + k - 1, n, p.padding, p.corners);
        const A back = order & 1 ? -scale : scale; /* the distance to a neighbour behind becomes smaller */
        weight[0] = scale * grid_cubic(t + LIT(1.0), 1, order);
        weight[1] = scale * grid_cubic(t, 0, order);
        weight[2] = back * grid_cubic(LIT(1.0) - t, 0, order);
        weight[3] = back * grid_cubic(LIT(2.0) - t, 1, order);
    }
}

INLINE A grid_sum(GLOBAL const T *plane, I64 w, const int taps, PRIVATE const I64 *rows, PRIVATE const A *down, PRIVATE const I64 *columns, PRIVATE const A *across)
{
    A sum = 0;
    for (int r = 0; r < taps; r++) {
        if (rows[r] < 0) continue;
        GLOBAL const T *row = plane + rows[r] * w;
        A line = 0;
        for (int k = 0; k < taps; k++)
            if (columns[k] >= 0) line += across[k] * row[columns[k]];
        sum += down[r] * line;
    }
    return sum;
}

/* True if the elements are neighbours in x, as they are but at its edges. */
INLINE I32 grid_is_dense(PRIVATE const I64 *at, const int taps) { return at[0] >= 0 && at[taps - 1] - at[0] == taps - 1; }

/* The same sum of neighbours, from the first one on. */
INLINE A grid_dense_sum(GLOBAL const T *first, I64 w, const int taps, PRIVATE const A *down, PRIVATE const A *across)
{
    A sum = 0;
    for (int r = 0; r < taps; r++, first += w) {
        A line = 0;
        for (int k = 0; k < taps; k++) line += across[k] * first[k];
        sum += down[r] * line;
    }
    return sum;
}

INLINE void grid_sample_point(const grid_params p, GLOBAL T *y, GLOBAL const T *x, GLOBAL const T *position, const int taps)
{
    I64 rows[4], columns[4];
    A down[4], across[4];
    grid_axis(p, position[1], p.h, p.down, taps, rows, down);
    grid_axis(p, position[0], p.w, p.across, taps, columns, across);
    if (CHUNKED && grid_is_dense(rows, taps) && grid_is_dense(columns, taps)) {
        GLOBAL const T *first = x + rows[0] * p.w + columns[0];
        for (I64 c = 0; c < p.channels; c++) y[c * p.points] = grid_dense_sum(first + c * p.h * p.w, p.w, taps, down, across);
        return;
    }
    for (I64 c = 0; c < p.channels; c++) y[c * p.points] = grid_sum(x + c * p.h * p.w, p.w, taps, rows, down, columns, across);
}

/* A position an item. */
KERNEL3(grid_sample, grid_params, T, y, const T, x, const T, grid)
{
    FOR_ITEMS(i) {
        const I64 n = QUOTIENT(i, p.points);
        GLOBAL T *to = y + p.at[0] + n * p.channels * p.points + (i - n * p.points);
        GLOBAL const T *from = x + p.at[1] + n * p.channels * p.h * p.w, *position = grid + p.at[2] + 2 * i;
        if (p.mode == GRID_LINEAR) grid_sample_point(p, to, from, position, 2);
        else if (p.mode == GRID_NEAREST) grid_sample_point(p, to, from, position, 1);
        else grid_sample_point(p, to, from, position, 4);
    }
}

INLINE void grid_slope_point(const grid_params p, GLOBAL T *to, GLOBAL const T *x, GLOBAL const T *position, GLOBAL const T *g, const int taps)
{
    I64 rows[4], columns[4];
    A down[4], across[4], steep[4], aslant[4], sum_x = 0, sum_y = 0;
    grid_axis(p, position[1], p.h, 1, taps, rows, steep);
    grid_axis(p, position[0], p.w, 1, taps, columns, aslant);
    grid_axis(p, position[1], p.h, 0, taps, rows, down);
    grid_axis(p, position[0], p.w, 0, taps, columns, across);
    for (I64 c = 0; c < p.channels; c++, x += p.h * p.w) {
        sum_x += g[c * p.points] * grid_sum(x, p.w, taps, rows, down, columns, aslant);
        sum_y += g[c * p.points] * grid_sum(x, p.w, taps, rows, steep, columns, across);
    }
    to[0] = sum_x;
    to[1] = sum_y;
}

/* The gradient of the grid: a position an item. */
KERNEL4(grid_slopes, grid_params, T, out, const T, x, const T, grid, const T, g)
{
    FOR_ITEMS(i) {
        const I64 n = QUOTIENT(i, p.points);
        GLOBAL T *to = out + p.at[0] + 2 * i;
        GLOBAL const T *from = x + p.at[1] + n * p.channels * p.h * p.w, *position = grid + p.at[2] + 2 * i;
        GLOBAL const T *of_y = g + p.at[3] + n * p.channels * p.points + (i - n * p.points);
        if (p.mode == GRID_LINEAR) grid_slope_point(p, to, from, position, of_y, 2);
        else if (p.mode == GRID_CUBIC) grid_slope_point(p, to, from, position, of_y, 4);
        else to[0] = to[1] = 0;
    }
}

INLINE void grid_tap_point(const grid_params p, GLOBAL T *weights, GLOBAL I64 *index, GLOBAL const T *position, const int taps)
{
    I64 rows[4], columns[4];
    A down[4], across[4];
    grid_axis(p, position[1], p.h, p.down, taps, rows, down);
    grid_axis(p, position[0], p.w, p.across, taps, columns, across);
    for (int r = 0; r < taps; r++)
        for (int k = 0; k < taps; k++) {
            index[r * taps + k] = rows[r] < 0 || columns[k] < 0 ? p.h * p.w : rows[r] * p.w + columns[k];
            weights[r * taps + k] = down[r] * across[k];
        }
}

/* The elements that each position reads, h w for those outside, and their weights. */
KERNEL3(grid_taps, grid_params, T, weights, I64, index, const T, grid)
{
    FOR_ITEMS(i) {
        GLOBAL const T *position = grid + p.at[2] + 2 * i;
        GLOBAL T *w = weights + p.at[0];
        GLOBAL I64 *to = index + p.at[1];
        if (p.mode == GRID_LINEAR) grid_tap_point(p, w + 4 * i, to + 4 * i, position, 2);
        else if (p.mode == GRID_NEAREST) grid_tap_point(p, w + i, to + i, position, 1);
        else grid_tap_point(p, w + 16 * i, to + 16 * i, position, 4);
    }
}

/* The gradient of x, a plane an item; `w` counts the elements of a plane, and `h` the taps of a position. */
KERNEL4(grid_scatter, grid_params, T, out, const T, g, const T, weights, const I64, index)
{
    FOR_ITEMS(i) {
        const I64 first = QUOTIENT(i, p.channels) * p.points * p.h;
        GLOBAL T *sums = out + p.at[0] + i * p.w;
        GLOBAL const T *from = g + p.at[1] + i * p.points, *w = weights + p.at[2] + first;
        GLOBAL const I64 *to = index + p.at[3] + first;
        for (I64 k = 0; k < p.w; k++) sums[k] = 0;
        for (I64 j = 0; j < p.points; j++, w += p.h, to += p.h)
            for (I64 k = 0; k < p.h; k++)
                if (to[k] < p.w) sums[to[k]] += w[k] * from[j];
    }
}

/* The same with a sorted table, an element of all planes of an image an item. */
KERNEL5(grid_collect, grid_params, T, out, const T, g, const T, weights, const I64, sorted, const I64, order)
{
    FOR_ITEMS(i) {
        const I64 n = QUOTIENT(i, p.w), place = i - n * p.w, count = p.points * p.h;
        GLOBAL const I64 *keys = sorted + n * count, *which = order + n * count;
        GLOBAL const T *w = weights + p.at[2] + n * count;
        I64 low = 0, high = count;
        while (low < high) {
            const I64 middle = (low + high) >> 1;
            if (keys[middle] >= place) high = middle;
            else low = middle + 1;
        }
        for (I64 c = 0; c < p.channels; c++) {
            GLOBAL const T *from = g + p.at[1] + (n * p.channels + c) * p.points;
            A sum = 0;
            for (I64 j = low; j < count && keys[j] == place; j++) {
                const I64 tap = which[j];
                sum += w[tap] * from[QUOTIENT(tap, p.h)];
            }
            out[p.at[0] + (n * p.channels + c) * p.w + place] = sum;
        }
    }
}
#endif
/* kernel text ends */
// clang-format on

/* Few planes, and many taps, of which a GPU takes each by itself. */
enum { FEW_PLANES = 8192, MANY_TAPS = 64 };

/* Elements that make a share worthwhile. */
#define GRAIN 4096

typedef struct sample_attributes {
    int64_t size[2];               /* of x: the gradient of x has it */
    int     mode, padding;         /* GRID_... */
    int     corners, down, across; /* as in grid_params */
    int     reserved;
} sample_attributes;

enum { X, GRID, G };

static int64_t points_of(const haul_tensor *grid)
{
    return grid->shape.dims[1] * grid->shape.dims[2];
}

static int taps_of(const sample_attributes *a)
{
    return a->mode == GRID_NEAREST ? 1 : a->mode == GRID_LINEAR ? 2 : 4;
}

static grid_params params_of(const sample_attributes *a, const haul_tensor *grid, int64_t channels)
{
    return (grid_params){.items = grid->shape.dims[0] * points_of(grid),
                         .points = points_of(grid),
                         .channels = channels,
                         .h = a->size[0],
                         .w = a->size[1],
                         .mode = a->mode,
                         .padding = a->padding,
                         .corners = a->corners,
                         .down = a->down,
                         .across = a->across};
}

static int64_t grain_of(int64_t channels, int taps)
{
    return GRAIN / (channels * taps * taps + 1) + 1;
}

/* ---- y ---- */

static haul_status sample_infer(haul__call *c)
{
    const haul_shape *x = &c->operands[X]->shape, *grid = &c->operands[GRID]->shape;
    return haul__describe(c, 0, c->operands[X]->dtype,
                          &HAUL_SHAPE(x->dims[0], x->dims[1], grid->dims[1], grid->dims[2]));
}

static haul_status sample_compute(haul__call *c)
{
    const sample_attributes *a = haul__attributes(c);
    haul_tensor             *x = c->operands[X], *grid = c->operands[GRID], *y = c->results[0];
    grid_params              p = params_of(a, grid, x->shape.dims[1]);
    p.at[0] = y->offset, p.at[1] = x->offset, p.at[2] = grid->offset;
    return haul__launch_kernel(c, HAUL__K_grid_sample, y->dtype, HAUL__OUT(y), HAUL__IN(x, grid), HAUL__PARAMS(p),
                               .grain = grain_of(p.channels, taps_of(a)));
}

/* ---- the gradient of the grid ---- */

static haul_status slopes_infer(haul__call *c)
{
    return haul__describe(c, 0, c->operands[GRID]->dtype, &c->operands[GRID]->shape);
}

static haul_status slopes_compute(haul__call *c)
{
    const sample_attributes *a = haul__attributes(c);
    haul_tensor             *x = c->operands[X], *grid = c->operands[GRID], *g = c->operands[G], *out = c->results[0];
    grid_params              p = params_of(a, grid, x->shape.dims[1]);
    p.at[0] = out->offset, p.at[1] = x->offset, p.at[2] = grid->offset, p.at[3] = g->offset;
    return haul__launch_kernel(c, HAUL__K_grid_slopes, out->dtype, HAUL__OUT(out), HAUL__IN(x, grid, g),
                               HAUL__PARAMS(p), .grain = grain_of(2 * p.channels, taps_of(a)));
}

/* ---- the gradient of x ---- */

static haul_status scatter_infer(haul__call *c)
{
    const sample_attributes *a = haul__attributes(c);
    const haul_shape        *g = &c->operands[0]->shape;
    return haul__describe(c, 0, c->operands[0]->dtype, &HAUL_SHAPE(g->dims[0], g->dims[1], a->size[0], a->size[1]));
}

static haul_status collect(haul__call *c, grid_params p, haul_tensor *weights, haul_tensor *index)
{
    haul_tensor *out = c->results[0];
    haul_tensor *sorted = haul__temporary(c, HAUL_I64, &index->shape);
    haul_tensor *order = haul__temporary(c, HAUL_I64, &index->shape);
    if (!sorted || !order || haul__sort_rows(c, sorted, order, index, p.points * p.h, false))
        return haul_error_status();
    p.items = out->shape.dims[0] * p.w;
    return haul__launch_kernel(c, HAUL__K_grid_collect, out->dtype, HAUL__OUT(out),
                               HAUL__IN(c->operands[0], weights, sorted, order), HAUL__PARAMS(p), .grain = 64);
}

static haul_status scatter_compute(haul__call *c)
{
    const sample_attributes *a = haul__attributes(c);
    haul_tensor             *g = c->operands[0], *grid = c->operands[1], *out = c->results[0];
    const int64_t            taps = (int64_t)taps_of(a) * taps_of(a), images = out->shape.dims[0];
    grid_params              p = params_of(a, grid, out->shape.dims[1]);
    int64_t                  each;
    if (!out->count)
        return HAUL_OK;
    if (!haul__mul_size(p.points, taps, &each))
        return haul__refuse_shape(c, 1, "fewer positions are expected");
    haul_tensor *weights = haul__temporary(c, out->dtype, &HAUL_SHAPE(images, each));
    haul_tensor *index = haul__temporary(c, HAUL_I64, &HAUL_SHAPE(images, each));
    if (!weights || !index)
        return haul_error_status();
    p.at[0] = weights->offset, p.at[1] = index->offset, p.at[2] = grid->offset;
    if (haul__launch_kernel(c, HAUL__K_grid_taps, out->dtype, HAUL__OUT(weights, index), HAUL__IN(grid),
                            HAUL__PARAMS(p), .grain = grain_of(1, taps_of(a))))
        return haul_error_status();
    p.at[0] = out->offset, p.at[1] = g->offset, p.at[2] = weights->offset, p.at[3] = index->offset;
    p.items = images * p.channels, p.w = a->size[0] * a->size[1], p.h = taps;
    if (c->device->strided && p.items < FEW_PLANES && each > MANY_TAPS && each <= HAUL__SORT_MOST)
        return collect(c, p, weights, index);
    return haul__launch_kernel(c, HAUL__K_grid_scatter, out->dtype, HAUL__OUT(out), HAUL__IN(g, weights, index),
                               HAUL__PARAMS(p), .grain = GRAIN / (each + p.w) + 1);
}

/* ---- the operations ---- */

static haul__cost sample_cost(const haul__call *c)
{
    const int taps = taps_of(haul__attributes_of(c));
    return (haul__cost){.flops = (double)(2 * taps * (taps + 1)) * (double)c->results[0]->count,
                        .bytes = haul__call_bytes(c)};
}

static void sample_gradient(haul__gradient *c);
static void scatter_gradient(haul__gradient *c);

#define SAMPLING                                                                                                       \
    .dtypes = HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64), .attributes_size = HAUL__ATTRIBUTES(sample_attributes),     \
    .cost = sample_cost

HAUL__OPERATION(grid_sample_planes) = {
    .name = "haul_grid_sample_planes",
    .operands = {{"x", .saved_for = HAUL__FOR_1}, {"grid", .saved_for = HAUL__FOR_ALL}},
    .results = {{"y"}},
    .infer = sample_infer,
    .compute = sample_compute,
    .gradient = sample_gradient,
    SAMPLING,
};

HAUL__OPERATION(grid_sample_planes_backward_x) = {
    .name = "haul_grid_sample_planes_backward_x",
    .operands = {{"g", .saved_for = HAUL__FOR_1}, {"grid", .saved_for = HAUL__FOR_ALL}},
    .results = {{"dx"}},
    .infer = scatter_infer,
    .compute = scatter_compute,
    .gradient = scatter_gradient,
    SAMPLING,
};

HAUL__OPERATION(grid_sample_planes_backward_grid) = {
    .name = "haul_grid_sample_planes_backward_grid",
    .operands = {{"x"}, {"grid"}, {"g"}},
    .results = {{"dgrid"}},
    .infer = slopes_infer,
    .compute = slopes_compute,
    SAMPLING,
};

/* The gradient of the grid where g is that of samples of x. To be differentiated again, it is made from samples with
 * derivatives of the weights along one axis. */
static haul_tensor *grid_gradient(const haul__gradient *c, haul_tensor *x, haul_tensor *grid, haul_tensor *g)
{
    sample_attributes a = *(const sample_attributes *)c->attributes, down = a, across = a;
    if (!a.down && !a.across && !haul__differentiated(c))
        return HAUL__APPLY(grid_sample_planes_backward_grid, &a, x, grid, g);
    down.down++, across.across++;
    haul_tensor *y_slope = HAUL__APPLY(grid_sample_planes, &down, x, grid);
    haul_tensor *x_slope = HAUL__APPLY(grid_sample_planes, &across, x, grid);
    haul_tensor *parts[] = {haul_sum(haul_mul(g, x_slope), HAUL_AXES(1)), haul_sum(haul_mul(g, y_slope), HAUL_AXES(1))};
    return haul_stack(parts, 2, -1);
}

static void sample_gradient(haul__gradient *c)
{
    haul_tensor *g = c->results[0];
    if (haul__wanted(c, X))
        c->operands[X] = HAUL__APPLY(grid_sample_planes_backward_x, c->attributes, g, c->saved[GRID]);
    if (haul__wanted(c, GRID))
        c->operands[GRID] = grid_gradient(c, c->saved[X], c->saved[GRID], g);
}

/* The inner product of h and this operation's result is that of g and samples of h. */
static void scatter_gradient(haul__gradient *c)
{
    haul_tensor *h = c->results[0];
    if (haul__wanted(c, 0))
        c->operands[0] = HAUL__APPLY(grid_sample_planes, c->attributes, h, c->saved[1]);
    if (haul__wanted(c, 1))
        c->operands[1] = grid_gradient(c, h, c->saved[1], c->saved[0]);
}

/* ---- haul_grid_sample ---- */

typedef struct grid_attributes {
    int mode, padding, corners, reserved;
} grid_attributes;

static haul_status check(const haul__call *c, const grid_attributes *a)
{
    const haul_shape *x = &c->operands[X]->shape, *grid = &c->operands[GRID]->shape;
    const char       *name = c->operation->name;
    int64_t           elements;
    if (x->ndim != 4)
        return haul__refuse_shape(c, X, "[N, C, H, W] is expected");
    if (!haul__mul_size(x->dims[2], x->dims[3], &elements) || elements < 1 || elements > HAUL__IMAGE_LONGEST)
        return haul__refuse_shape(c, X, "a plane of it must have from 1 to 2^30 elements");
    if (grid->ndim != 4 || grid->dims[3] != 2 || grid->dims[0] != x->dims[0])
        return haul__refuse_shape(c, GRID, "[N, rows, columns, 2] is expected, with the N of x");
    if (a->mode != HAUL_NEAREST && a->mode != HAUL_BILINEAR && a->mode != HAUL_BICUBIC)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "mode",
                          "mode is %d; it must be HAUL_NEAREST, HAUL_BILINEAR or HAUL_BICUBIC", a->mode);
    if (a->padding < HAUL_GRID_ZEROS || a->padding > HAUL_GRID_REFLECTION)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "padding",
                          "padding is %d; it must be HAUL_GRID_ZEROS, HAUL_GRID_BORDER or HAUL_GRID_REFLECTION",
                          a->padding);
    return HAUL_OK;
}

static haul_status compose(haul__call *c)
{
    const grid_attributes *a = haul__attributes(c);
    haul_tensor           *x = c->operands[X], *grid = c->operands[GRID];
    if (check(c, a))
        return haul_error_status();
    const haul_dtype  dtype = x->dtype, wide = dtype == HAUL_F64 ? HAUL_F64 : HAUL_F32;
    sample_attributes s = {.size = {x->shape.dims[2], x->shape.dims[3]},
                           .mode = a->mode == HAUL_BILINEAR  ? GRID_LINEAR
                                   : a->mode == HAUL_NEAREST ? GRID_NEAREST
                                                             : GRID_CUBIC,
                           .padding = a->padding,
                           .corners = a->corners};
    c->results[0] = haul_cast(HAUL__APPLY(grid_sample_planes, &s, haul_cast(x, wide), haul_cast(grid, wide)), dtype);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

_Static_assert((int)HAUL_GRID_ZEROS == GRID_ZEROS && (int)HAUL_GRID_REFLECTION == GRID_REFLECTION, "one order");

HAUL__OPERATION(grid_sample) = {
    .name = "haul_grid_sample",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}, {"grid", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .rule = HAUL__PROMOTED,
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(grid_attributes),
    .compose = compose,
};

haul_tensor *haul_grid_sample_with(const haul_grid_sample_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_grid_sample);
    grid_attributes a = {.mode = (int)o->mode, .padding = (int)o->padding, .corners = o->align_corners};
    return HAUL__APPLY(grid_sample, &a, o->x, o->grid);
}
