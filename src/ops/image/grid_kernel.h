/* What the kernels of grid_sample.c and grid_volume.c share: their params, and which elements of an axis a position
 * reads, with which weights. */
#ifndef HAUL_OPS_IMAGE_GRID_KERNEL_H
#define HAUL_OPS_IMAGE_GRID_KERNEL_H

// clang-format off
enum { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC };
enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };

/* x: [images, channels, h, w]; grid: [images, points, 2]; y: [images, channels, points]. In the kernels of volumes x is
 * [images, channels, d, h, w], and a point of the grid has three numbers. */
typedef struct grid_params {
    I64 items, points, channels, d, h, w;
    I64 at[4]; /* offsets of the buffers, in the order of the kernel's arguments */
    I32 mode, padding, corners, deep, down, across; /* deep, down, across: the order of the weights' derivatives */
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

/* Where position v is along an axis of n elements. */
INLINE A grid_place(const grid_params p, A v, I64 n)
{
    return p.corners ? (v + LIT(1.0)) * LIT(0.5) * (A)(n - 1) : ((v + LIT(1.0)) * (A)n - LIT(1.0)) * LIT(0.5);
}
/* The same within the range of I32: all places far outside, and NaN, are one of them. */
INLINE A grid_near(A there) { return there > LIT(-1e9) && there < LIT(1e9) ? there : LIT(-100.0); }

/* The `taps` elements along an axis of n that are read for position v, -1 for those outside, and their weights. */
INLINE void grid_axis(const grid_params p, A v, I64 n, I32 order, const int taps, PRIVATE I64 *at, PRIVATE A *weight)
{
    A slope = (A)(p.corners ? n - 1 : n) * LIT(0.5), scale = 1, there = grid_place(p, v, n);
    if (taps < 4 && p.padding == GRID_REFLECTION) there = grid_reflected(there, n, p.corners, &slope);
    if (taps < 4 && p.padding != GRID_ZEROS) there = grid_clipped(there, n, &slope);
    there = grid_near(there);
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
#endif
// clang-format on

#endif
