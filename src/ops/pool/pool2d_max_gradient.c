/* The kernels of the gradient of pooling by the maximum, and of its gradient. They read where the maximum found each
 * element (pool2d_max.c), so the gradient is a gather: an element of x looks at the windows it is in. Nothing is added
 * up across work items, on any device. */
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/pool/pool2d.h"

// clang-format off
/* kernel text begins */
#include "ops/pool/pool2d_kernel.h"

#if defined(HAUL_KERNEL) && IS_FLOAT
/* Gradients of windows of 2 x 2 that do not overlap: the elements of dx in a row of windows, the first being `at`. */
INLINE void pool_unhalve(GLOBAL const T *g, GLOBAL const I32 *from, GLOBAL T *dx, I32 at, int n)
{
    BLOCK_LOOP for (int o = 0; o < n; o++) {
        const I32 place = from[o] - at - 2 * o;
        const T v = g[o];
        dx[2 * o] = place == 0 ? v : (T)0;
        dx[2 * o + 1] = place == 1 ? v : (T)0;
    }
}

#if CHUNKED && HAS_VECTORS
/* Pairs of rows of dx, the upper ones in [i, last), and the rows in no window between them: short rows as above. Three
 * rows of the same thread come behind, so that there is another row of windows. Returns the row after them. */
INLINE I64 pool_unhalve_rows(const pool2d_params p, GLOBAL const T *dy, GLOBAL const I32 *found, GLOBAL T *dx, I64 i, I64 last, int n)
{
    const I64 plane = QUOTIENT(i, p.h), width = 2 * p.out_w;
    I64 row = (i - plane * p.h) >> 1;
    GLOBAL const T *g = dy + (plane * p.out_h + row) * p.out_w;
    GLOBAL const I32 *from = found + (plane * p.out_h + row) * p.out_w;
    for (; i < last; g += p.out_w, from += p.out_w) {
        GLOBAL T *upper = dx + i * p.w, *lower = upper + p.w;
        const I32 at = (I32)(2 * row * p.w);
        for (I64 o = 0; o < p.out_w; o += n) {
            const I64 b = p.out_w < n ? 0 : least(o, p.out_w - n);
            pool_unhalve(g + b, from + b, upper + 2 * b, at + (I32)(2 * b), n);
        }
        if (width < p.w) upper[width] = 0;
        for (I64 o = 0; o < p.out_w; o += n) {
            const I64 b = p.out_w < n ? 0 : least(o, p.out_w - n);
            pool_unhalve(g + b, from + b, lower + 2 * b, at + (I32)(p.w + 2 * b), n);
        }
        if (width < p.w) lower[width] = 0;
        i += 2;
        if (++row < p.out_h) continue;
        row = 0;
        for (I64 c = 0; c < p.w && (p.h & 1); c++) dx[i * p.w + c] = 0;
        i += p.h & 1;
    }
    return i;
}
#endif

/* dx from dy: a row of x a work item. Where a thread has consecutive rows and elements need no conversion, it adds what
 * the windows give to the elements that they took; elsewhere each element looks at its windows. Both add in one order. */
KERNEL3(max_pool2d_spread, pool2d_params, T, out, const T, in0, const I32, index)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 plane = QUOTIENT(i, p.h), r = i - plane * p.h;
#if CHUNKED && HAS_VECTORS
        if (pool_is_halving(p) && p.out_w > 1 && (r & 1) == 0 && r + 1 < p.h && i + 4 < ITEMS_END) {
            EXPAND(pool_once, p.out_w, i = pool_unhalve_rows(p, in0 + p.y_offset, index + p.index_offset, out, i, ITEMS_END - 4, n))
            continue;
        }
#endif
        GLOBAL const T *dy = in0 + p.y_offset + plane * p.out_h * p.out_w;
        GLOBAL const I32 *found = index + p.index_offset + plane * p.out_h * p.out_w;
        GLOBAL T *dx = out + i * p.w;
        I64 rows = 1;
        if (pool_is_halving(p)) {
            /* The last of an odd number of rows or columns is in no window. */
            const I32 at = (I32)(r * p.w);
            const I64 row = r >> 1, count = row < p.out_h ? p.out_w : 0;
            GLOBAL const T *g = dy + row * p.out_w;
            GLOBAL const I32 *from = found + row * p.out_w;
            EXPAND(pool_blocks, (I64)0, count, pool_unhalve(g + o, from + o, dx + 2 * o, at + (I32)(2 * o), n))
            for (I64 c = 2 * count; c < p.w; c++) dx[c] = 0;
            i += ITEMS_STEP(rows);
            continue;
        }
        const I64 o0 = pool_row_from(p, r), o1 = pool_row_to(p, r);
        if (CHUNKED && !IS_HALF) {
            rows = least(p.h - r, ITEMS_END - i);
            const I64 begin = r * p.w, size = rows * p.w, user_end = (pool_row_to(p, r + rows - 1) + 1) * p.out_w;
            for (I64 k = 0; k < size; k++) dx[k] = 0;
            for (I64 user = o0 * p.out_w; user < user_end; user++) {
                const I64 k = found[user] - begin;
                if (k >= 0 && k < size) dx[k] += dy[user];
            }
        } else {
            pool_columns at = pool_columns_of(p, 0);
            for (I64 c = 0; c < p.w; c++) {
                at = pool_columns_next(p, at, c);
                A sum = 0;
                for (I64 o = o0; o <= o1; o++)
                    for (I64 q = at.from; q <= at.to; q++)
                        if (found[o * p.out_w + q] == (I32)(r * p.w + c)) sum += LOAD(dy, o * p.out_w + q);
                STORE(dx, c, sum);
            }
        }
        i += ITEMS_STEP(rows);
    }
}

/* Channels-last, an element of dx is a work item; `width` channels of a pixel are taken side by side. All are added in
 * the order of the kernel above. */
KERNEL3(max_pool2d_spread_columns, pool2d_params, T, out, const T, in0, const I32, index)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const pool_place at = pool_place_of(i, p.h, p.w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, POOL_WIDTH);
        const I64 o0 = pool_row_from(p, at.row), o1 = pool_row_to(p, at.row);
        const I64 q0 = pool_column_from(p, at.column), q1 = pool_column_to(p, at.column);
        const I32 here = (I32)(at.row * p.w + at.column);
        A sum[CHUNKED ? POOL_WIDTH : 1];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 o = o0; o <= o1; o++)
            for (I64 q = q0; q <= q1; q++) {
                const I64 user = ((at.n * p.out_h + o) * p.out_w + q) * p.channels + at.k;
                GLOBAL const T *g = in0 + p.y_offset + user;
                GLOBAL const I32 *from = index + p.index_offset + user;
                VECTOR_LOOP for (int l = 0; l < width; l++) {
                    const A value = LOAD(g, l);
                    sum[l] += from[l] == here ? value : LIT(0.0);
                }
            }
        for (int l = 0; l < width; l++) STORE(out, i + l, sum[l]);
        i += ITEMS_STEP(width);
    }
}

/* The elements of x that the maxima came from: an element of y a work item. Row-major, p.channels is 1. */
KERNEL3(max_pool2d_pick, pool2d_params, T, out, const T, in0, const I32, index)
{
    FOR_ITEMS(i) {
        const I64 pixel = QUOTIENT(i, p.channels), n = QUOTIENT(pixel, p.out_h * p.out_w);
        out[i] = in0[p.x_offset + (n * p.h * p.w + index[p.index_offset + i] - pixel) * p.channels + i];
    }
}
#endif
/* kernel text ends */
// clang-format on
