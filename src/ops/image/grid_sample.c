/* Sampling pictures and volumes at given positions, and its gradients.
 *
 * An element of y is a sum over rows and columns near its position, with weights that are a product of one for the row
 * and one for the column; in a volume (grid_volume.c) the layers have weights, too. The kernels also compute it with
 * derivatives of these weights, so that the gradients are the same operations again, to any order.
 *
 * The gradient of x: a table has the elements of x that each position reads, and their weights. An item adds up a plane
 * of x, in the order of the positions. If there are few planes, GPUs sort the table, and an item adds up one element of
 * each plane, in the same order. */
#include "base/assert.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/image/image.h"
#include "ops/index/sort.h"

// clang-format off
/* kernel text begins */
#include "ops/image/grid_kernel.h"

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
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

#if CHUNKED && HAS_VECTORS
/* Many positions at once, for two taps and zeros outside. The elements of a position follow each other unless it is at an
 * edge or outside, which is left to grid_sample_point; the sums are the same. */
enum { GRID_BLOCK = 64 };

/* Positions along an axis: the first of two elements and the weight of the second. Where one of the two is outside x,
 * `outside` becomes 1, and where both are, 3. */
INLINE void grid_block_axis(const grid_params p, GLOBAL const T *v, I64 n, I64 count, PRIVATE I32 *first, PRIVATE A *second, PRIVATE I32 *outside)
{
    const I32 last = (I32)n - 1;
    VECTOR_LOOP for (I64 j = 0; j < count; j++) {
        const A there = grid_near(grid_place(p, v[2 * j], n)), whole = M_FLOOR(there);
        first[j] = (I32)whole;
        second[j] = there - whole;
        outside[j] |= (first[j] < 0) | (first[j] >= last) | (first[j] < -1) << 1 | (first[j] > last) << 1;
    }
}

INLINE A grid_two(A a, A b, A second) { return LIT(0.0) + (LIT(1.0) - second) * a + second * b; }

INLINE void grid_sample_block(const grid_params p, GLOBAL T *y, GLOBAL const T *x, GLOBAL const T *positions, I64 count)
{
    I32 rows[GRID_BLOCK], columns[GRID_BLOCK], outside[GRID_BLOCK] = {0}, at[GRID_BLOCK];
    A down[GRID_BLOCK], across[GRID_BLOCK], upper[2 * GRID_BLOCK], lower[2 * GRID_BLOCK];
    grid_block_axis(p, positions + 1, p.h, count, rows, down, outside);
    grid_block_axis(p, positions, p.w, count, columns, across, outside);
    VECTOR_LOOP for (I64 j = 0; j < count; j++) at[j] = outside[j] ? 0 : rows[j] * (I32)p.w + columns[j];
    for (I64 c = 0; c < p.channels; c++) {
        GLOBAL const T *plane = x + c * p.h * p.w;
        GLOBAL T *to = y + c * p.points;
        for (I64 j = 0; j < count; j++) {
            GLOBAL const T *v = plane + at[j], *under = v + p.w;
            upper[2 * j] = v[0], upper[2 * j + 1] = v[1], lower[2 * j] = under[0], lower[2 * j + 1] = under[1];
        }
        VECTOR_LOOP for (I64 j = 0; j < count; j++) {
            const A above = grid_two(upper[2 * j], upper[2 * j + 1], across[j]);
            to[j] = grid_two(above, grid_two(lower[2 * j], lower[2 * j + 1], across[j]), down[j]);
        }
    }
    for (I64 j = 0; j < count; j++)
        if (outside[j] == 1) grid_sample_point(p, y + j, x, positions + 2 * j, 2);
        else for (I64 c = 0; outside[j] && c < p.channels; c++) y[c * p.points + j] = 0;
}

INLINE I32 grid_has_blocks(const grid_params p)
{
    return p.mode == GRID_LINEAR && p.padding == GRID_ZEROS && !p.down && !p.across && p.h > 1 && p.w > 1 &&
           p.h <= 2147483647 / p.w; /* places in a plane are I32 */
}
#endif

/* A position an item. */
KERNEL3(grid_sample, grid_params, T, y, const T, x, const T, grid)
{
#if CHUNKED && HAS_VECTORS
    for (I64 i = ITEMS_BEGIN; grid_has_blocks(p) && i < ITEMS_END;) {
        const I64 n = QUOTIENT(i, p.points), at = i - n * p.points;
        const I64 count = least(least(p.points - at, ITEMS_END - i), GRID_BLOCK);
        grid_sample_block(p, y + p.at[0] + n * p.channels * p.points + at, x + p.at[1] + n * p.channels * p.h * p.w,
                          grid + p.at[2] + 2 * i, count);
        i += count;
    }
    if (grid_has_blocks(p)) return;
#endif
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
    int64_t size[3];                     /* of x: the gradient of x has it. Pictures have one layer */
    int     mode, padding;               /* GRID_... */
    int     corners, deep, down, across; /* as in grid_params */
} sample_attributes;

enum { X, GRID, G };

static bool is_volume(const haul_tensor *grid)
{
    return grid->shape.ndim == 5;
}

/* Elements along an axis that a position reads. */
static int taps_of(const sample_attributes *a)
{
    return a->mode == GRID_NEAREST ? 1 : a->mode == GRID_LINEAR ? 2 : 4;
}

/* Elements that a position reads. */
static int reads_of(const sample_attributes *a, const haul_tensor *grid)
{
    return taps_of(a) * taps_of(a) * (is_volume(grid) ? taps_of(a) : 1);
}

static grid_params params_of(const sample_attributes *a, const haul_tensor *grid, int64_t channels)
{
    const int64_t *of = grid->shape.dims, points = of[1] * of[2] * (is_volume(grid) ? of[3] : 1);
    HAUL__ASSERT(grid->shape.ndim == 4 || is_volume(grid));
    HAUL__ASSERT(a->size[0] > 0 && a->size[1] > 0 && a->size[2] > 0);
    return (grid_params){.items = of[0] * points,
                         .points = points,
                         .channels = channels,
                         .d = a->size[0],
                         .h = a->size[1],
                         .w = a->size[2],
                         .mode = a->mode,
                         .padding = a->padding,
                         .corners = a->corners,
                         .deep = a->deep,
                         .down = a->down,
                         .across = a->across};
}

static int64_t grain_of(int64_t channels, int reads)
{
    return GRAIN / (channels * reads + 1) + 1;
}

/* ---- y ---- */

static haul_status sample_infer(haul__call *c)
{
    const haul_shape *x = &c->operands[X]->shape, *grid = &c->operands[GRID]->shape;
    haul_shape        shape = {.ndim = grid->ndim, .dims = {x->dims[0], x->dims[1]}};
    for (int i = 2; i < grid->ndim; i++)
        shape.dims[i] = grid->dims[i - 1];
    return haul__describe(c, 0, c->operands[X]->dtype, &shape);
}

static haul_status sample_compute(haul__call *c)
{
    const sample_attributes *a = haul__attributes(c);
    haul_tensor             *x = c->operands[X], *grid = c->operands[GRID], *y = c->results[0];
    grid_params              p = params_of(a, grid, x->shape.dims[1]);
    HAUL__ASSERT(y->count == p.items * p.channels && x->count == x->shape.dims[0] * p.channels * p.d * p.h * p.w);
    p.at[0] = y->offset, p.at[1] = x->offset, p.at[2] = grid->offset;
    return haul__launch_kernel(c, is_volume(grid) ? HAUL__K_volume_sample : HAUL__K_grid_sample, y->dtype, HAUL__OUT(y),
                               HAUL__IN(x, grid), HAUL__PARAMS(p), .grain = grain_of(p.channels, reads_of(a, grid)));
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
    HAUL__ASSERT(g->count == p.items * p.channels && out->count == grid->count);
    p.at[0] = out->offset, p.at[1] = x->offset, p.at[2] = grid->offset, p.at[3] = g->offset;
    return haul__launch_kernel(c, is_volume(grid) ? HAUL__K_volume_slopes : HAUL__K_grid_slopes, out->dtype,
                               HAUL__OUT(out), HAUL__IN(x, grid, g), HAUL__PARAMS(p),
                               .grain = grain_of(2 * p.channels, reads_of(a, grid)));
}

/* ---- the gradient of x ---- */

static haul_status scatter_infer(haul__call *c)
{
    const sample_attributes *a = haul__attributes(c);
    haul_shape               shape = c->operands[0]->shape;
    HAUL__ASSERT(shape.ndim == 4 || shape.ndim == 5);
    for (int i = 2; i < shape.ndim; i++)
        shape.dims[i] = a->size[i + 3 - shape.ndim];
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

static haul_status collect(haul__call *c, grid_params p, haul_tensor *weights, haul_tensor *index)
{
    haul_tensor *out = c->results[0];
    HAUL__ASSERT(index->count == weights->count && index->count == out->shape.dims[0] * p.points * p.h);
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
    const int                taps = reads_of(a, grid);
    const int64_t            images = out->shape.dims[0];
    grid_params              p = params_of(a, grid, out->shape.dims[1]);
    int64_t                  each;
    if (!out->count)
        return HAUL_OK;
    if (!haul__mul_size(p.points, taps, &each))
        return haul__refuse_shape(c, 1, "fewer positions are expected");
    HAUL__ASSERT(g->count == p.items * p.channels);
    haul_tensor *weights = haul__temporary(c, out->dtype, &HAUL_SHAPE(images, each));
    haul_tensor *index = haul__temporary(c, HAUL_I64, &HAUL_SHAPE(images, each));
    if (!weights || !index)
        return haul_error_status();
    p.at[0] = weights->offset, p.at[1] = index->offset, p.at[2] = grid->offset;
    if (haul__launch_kernel(c, is_volume(grid) ? HAUL__K_volume_taps : HAUL__K_grid_taps, out->dtype,
                            HAUL__OUT(weights, index), HAUL__IN(grid), HAUL__PARAMS(p), .grain = grain_of(1, taps)))
        return haul_error_status();
    p.at[0] = out->offset, p.at[1] = g->offset, p.at[2] = weights->offset, p.at[3] = index->offset;
    p.items = images * p.channels, p.w = a->size[0] * a->size[1] * a->size[2], p.h = taps;
    HAUL__ASSERT(out->count == p.items * p.w && weights->count == images * p.points * p.h);
    if (c->device->strided && p.items < FEW_PLANES && each > MANY_TAPS && each <= HAUL__SORT_MOST)
        return collect(c, p, weights, index);
    return haul__launch_kernel(c, HAUL__K_grid_scatter, out->dtype, HAUL__OUT(out), HAUL__IN(g, weights, index),
                               HAUL__PARAMS(p), .grain = GRAIN / (each + p.w) + 1);
}

/* ---- the operations ---- */

static haul__cost sample_cost(const haul__call *c)
{
    const sample_attributes *a = haul__attributes_of(c);
    return (haul__cost){.flops = 2.0 * reads_of(a, c->operands[GRID]) * (1 + 1.0 / taps_of(a)) *
                                 (double)c->results[0]->count,
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
    const sample_attributes *a = c->attributes;
    haul_tensor             *parts[3];
    if (!a->deep && !a->down && !a->across && !haul__differentiated(c))
        return HAUL__APPLY(grid_sample_planes_backward_grid, a, x, grid, g);
    const int axes = is_volume(grid) ? 3 : 2;
    HAUL__ASSERT(grid->shape.dims[grid->shape.ndim - 1] == axes);
    for (int i = 0; i < axes; i++) {
        sample_attributes steep = *a;
        steep.across += i == 0, steep.down += i == 1, steep.deep += i == 2;
        parts[i] = haul_sum(haul_mul(g, HAUL__APPLY(grid_sample_planes, &steep, x, grid)), HAUL_AXES(1));
    }
    HAUL__ASSERT(haul__failed(parts[0]) || parts[0]->count * axes == grid->count);
    return haul_stack(parts, axes, -1);
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
    const bool        volume = x->ndim == 5;
    int64_t           elements = 1;
    if (x->ndim != 4 && !volume)
        return haul__refuse_shape(c, X, "[N, C, H, W] or [N, C, D, H, W] is expected");
    for (int i = 2; i < x->ndim; i++)
        if (!haul__mul_size(x->dims[i], elements, &elements) || elements < 1 || elements > HAUL__IMAGE_LONGEST)
            return haul__refuse_shape(c, X,
                                      volume ? "a volume of it must have from 1 to 2^30 elements"
                                             : "a plane of it must have from 1 to 2^30 elements");
    if (grid->ndim != x->ndim || grid->dims[x->ndim - 1] != x->ndim - 2 || grid->dims[0] != x->dims[0])
        return haul__refuse_shape(c, GRID,
                                  volume ? "[N, layers, rows, columns, 3] is expected, with the N of x"
                                         : "[N, rows, columns, 2] is expected, with the N of x");
    if (a->mode != HAUL_NEAREST && a->mode != HAUL_BILINEAR && a->mode != HAUL_BICUBIC)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "mode",
                          "mode is %d; it must be HAUL_NEAREST, HAUL_BILINEAR or HAUL_BICUBIC", a->mode);
    if (volume && a->mode == HAUL_BICUBIC)
        return haul__fail(HAUL_UNSUPPORTED, name, "mode",
                          "volumes are not sampled with HAUL_BICUBIC; use HAUL_NEAREST or HAUL_BILINEAR");
    if (a->padding < HAUL_GRID_ZEROS || a->padding > HAUL_GRID_REFLECTION)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "padding",
                          "padding is %d; it must be HAUL_GRID_ZEROS, HAUL_GRID_BORDER or HAUL_GRID_REFLECTION",
                          a->padding);
    return HAUL_OK;
}

static haul_status compose(haul__call *c)
{
    static const int paddings[] = {
        [HAUL_GRID_ZEROS] = GRID_ZEROS, [HAUL_GRID_BORDER] = GRID_BORDER, [HAUL_GRID_REFLECTION] = GRID_REFLECTION};
    const grid_attributes *a = haul__attributes(c);
    haul_tensor           *x = c->operands[X], *grid = c->operands[GRID];
    if (check(c, a))
        return haul_error_status();
    const haul_dtype dtype = x->dtype, wide = dtype == HAUL_F64 ? HAUL_F64 : HAUL_F32;
    const int64_t   *last = x->shape.dims + x->shape.ndim - 2;
    HAUL__ASSERT(0 <= a->padding && a->padding < (int)(sizeof paddings / sizeof *paddings));
    sample_attributes s = {.size = {x->shape.ndim == 5 ? x->shape.dims[2] : 1, last[0], last[1]},
                           .mode = a->mode == HAUL_BILINEAR  ? GRID_LINEAR
                                   : a->mode == HAUL_NEAREST ? GRID_NEAREST
                                                             : GRID_CUBIC,
                           .padding = paddings[a->padding],
                           .corners = a->corners};
    HAUL__ASSERT(s.size[0] * s.size[1] * s.size[2] <= HAUL__IMAGE_LONGEST);
    c->results[0] = haul_cast(HAUL__APPLY(grid_sample_planes, &s, haul_cast(x, wide), haul_cast(grid, wide)), dtype);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

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
