/* The kernels of sampling volumes at given positions: those of grid_sample.c with layers, which have weights, too. */
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/image/image.h"

// clang-format off
/* kernel text begins */
#include "ops/image/grid_kernel.h"

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* The elements of each axis that a position reads, -1 for those outside, and their weights. */
typedef struct volume_places {
    I64 layers[2], rows[2], columns[2];
    A deep[2], down[2], across[2];
} volume_places;

INLINE void volume_axes(const grid_params p, GLOBAL const T *position, I32 deep, I32 down, I32 across, const int taps, PRIVATE volume_places *to)
{
    grid_axis(p, position[2], p.d, deep, taps, to->layers, to->deep);
    grid_axis(p, position[1], p.h, down, taps, to->rows, to->down);
    grid_axis(p, position[0], p.w, across, taps, to->columns, to->across);
}

INLINE A volume_sum(const grid_params p, GLOBAL const T *x, const int taps, PRIVATE const volume_places *at)
{
    A sum = 0;
    for (int l = 0; l < taps; l++)
        if (at->layers[l] >= 0)
            sum += at->deep[l] * grid_sum(x + at->layers[l] * p.h * p.w, p.w, taps, at->rows, at->down, at->columns, at->across);
    return sum;
}

INLINE void volume_sample_point(const grid_params p, GLOBAL T *y, GLOBAL const T *x, GLOBAL const T *position, const int taps)
{
    volume_places at;
    volume_axes(p, position, p.deep, p.down, p.across, taps, &at);
    for (I64 c = 0; c < p.channels; c++) y[c * p.points] = volume_sum(p, x + c * p.d * p.h * p.w, taps, &at);
}

/* A position an item. */
KERNEL3(volume_sample, grid_params, T, y, const T, x, const T, grid)
{
    FOR_ITEMS(i) {
        const I64 n = QUOTIENT(i, p.points);
        GLOBAL T *to = y + p.at[0] + n * p.channels * p.points + (i - n * p.points);
        GLOBAL const T *from = x + p.at[1] + n * p.channels * p.d * p.h * p.w, *position = grid + p.at[2] + 3 * i;
        if (p.mode == GRID_LINEAR) volume_sample_point(p, to, from, position, 2);
        else volume_sample_point(p, to, from, position, 1);
    }
}

/* The gradient of the grid along one axis, whose weights have the order 1. */
INLINE A volume_slope(const grid_params p, GLOBAL const T *x, GLOBAL const T *position, GLOBAL const T *g, I32 deep, I32 down, I32 across)
{
    volume_places at;
    A sum = 0;
    volume_axes(p, position, deep, down, across, 2, &at);
    for (I64 c = 0; c < p.channels; c++) sum += g[c * p.points] * volume_sum(p, x + c * p.d * p.h * p.w, 2, &at);
    return sum;
}

/* The gradient of the grid: a position an item. */
KERNEL4(volume_slopes, grid_params, T, out, const T, x, const T, grid, const T, g)
{
    FOR_ITEMS(i) {
        const I64 n = QUOTIENT(i, p.points);
        const I32 smooth = p.mode == GRID_LINEAR;
        GLOBAL T *to = out + p.at[0] + 3 * i;
        GLOBAL const T *from = x + p.at[1] + n * p.channels * p.d * p.h * p.w, *position = grid + p.at[2] + 3 * i;
        GLOBAL const T *of_y = g + p.at[3] + n * p.channels * p.points + (i - n * p.points);
        for (I32 k = 0; k < 3; k++) to[k] = smooth ? volume_slope(p, from, position, of_y, k == 2, k == 1, k == 0) : LIT(0.0);
    }
}

INLINE void volume_tap_point(const grid_params p, GLOBAL T *weights, GLOBAL I64 *index, GLOBAL const T *position, const int taps)
{
    volume_places at;
    volume_axes(p, position, p.deep, p.down, p.across, taps, &at);
    for (int l = 0; l < taps; l++)
        for (int r = 0; r < taps; r++)
            for (int k = 0; k < taps; k++) {
                const I32 to = (l * taps + r) * taps + k, outside = at.layers[l] < 0 || at.rows[r] < 0 || at.columns[k] < 0;
                index[to] = outside ? p.d * p.h * p.w : (at.layers[l] * p.h + at.rows[r]) * p.w + at.columns[k];
                weights[to] = at.deep[l] * at.down[r] * at.across[k];
            }
}

/* The elements that each position reads, d h w for those outside, and their weights. */
KERNEL3(volume_taps, grid_params, T, weights, I64, index, const T, grid)
{
    FOR_ITEMS(i) {
        GLOBAL const T *position = grid + p.at[2] + 3 * i;
        GLOBAL T *w = weights + p.at[0];
        GLOBAL I64 *to = index + p.at[1];
        if (p.mode == GRID_LINEAR) volume_tap_point(p, w + 8 * i, to + 8 * i, position, 2);
        else volume_tap_point(p, w + i, to + i, position, 1);
    }
}
#endif
/* kernel text ends */
// clang-format on
