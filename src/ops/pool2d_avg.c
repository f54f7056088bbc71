/* The kernels of pooling by the average. The gradient is a gather: an element of x looks at the windows it is in.
 * Nothing is added up across work items, on any device. */
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/pool2d.h"

// clang-format off
/* kernel text begins */
#include "ops/pool2d_kernel.h"

#if defined(HAUL_KERNEL) && IS_FLOAT
/* A window's sum adds up its columns first, from the top, and then their sums, from the left. */
INLINE void pool_sum_whole(const pool2d_params p, GLOBAL const T *v, GLOBAL T *y, I64 rows, I64 step, A divisor, int n)
{
    A sum[16], column[16];
    BLOCK_LOOP for (int l = 0; l < n; l++) sum[l] = 0;
    for (I64 c = 0; c < p.size_w; c++) {
        BLOCK_LOOP for (int l = 0; l < n; l++) column[l] = LOAD(v, c + l * step);
        for (I64 r = 1; r < rows; r++) {
            BLOCK_LOOP for (int l = 0; l < n; l++) column[l] += LOAD(v, r * p.w + c + l * step);
        }
        BLOCK_LOOP for (int l = 0; l < n; l++) sum[l] += column[l];
    }
    BLOCK_LOOP for (int l = 0; l < n; l++) STORE(y, l, sum[l] / divisor);
}
/* Where windows are two apart, the sums of columns come first, in a line, and then those of the windows in it. */
#define POOL_LINE 192
#define POOL_ROUND 64 /* outputs */
#define POOL_SUMS_LINES                                                                                                \
    (CHUNKED && p.stride_w == 2 && p.size_w > 1 && p.size_w <= 16 && p.padding_w < p.size_w && !p.exclude_padding && !p.adaptive)
/* Of one row, two or three. */
INLINE void pool_sum_columns(const pool2d_params p, GLOBAL const T *v, PRIVATE A *to, I64 rows, int n)
{
    if (rows == 2) {
        BLOCK_LOOP for (int l = 0; l < n; l++) to[l] = LIT(0.0) + LOAD(v, l) + LOAD(v, p.w + l);
    } else if (rows > 2) {
        BLOCK_LOOP for (int l = 0; l < n; l++) to[l] = LIT(0.0) + LOAD(v, l) + LOAD(v, p.w + l) + LOAD(v, 2 * p.w + l);
    } else {
        BLOCK_LOOP for (int l = 0; l < n; l++) to[l] = LIT(0.0) + LOAD(v, l);
    }
}
/* The columns [0, count) of `rows` rows from v on. */
FUNC void pool_sum_rows(const pool2d_params p, GLOBAL const T *v, PRIVATE A *to, I64 rows, I64 count)
{
#define POOL_SUM_COLUMNS(n) pool_sum_columns(p, v + o, to + o, rows, n);
    POOL_BLOCKS((I64)0, count, POOL_SUM_COLUMNS)
    for (I64 r = 3; r < rows; r++) {
        GLOBAL const T *row = v + r * p.w;
        VECTOR_LOOP for (I64 k = 0; k < count; k++) to[k] += LOAD(row, k);
    }
}
/* `outs` windows of a line. Each step goes through the whole line, as a vector that is loaded from where parts of it were
 * just stored has to wait. */
FUNC void pool_sum_windows(const pool2d_params p, PRIVATE const A *line, GLOBAL T *y, A divisor, I64 outs)
{
    A even[POOL_LINE / 2], odd[POOL_LINE / 2], sum[POOL_ROUND];
    for (I64 b = 0; b < outs + 8; b += 16) pool_split_block(line + 2 * b, even + b, odd + b);
    for (I64 b = 0; b < outs; b += 16) {
        PRIVATE const A *evens = even + b, *odds = odd + b;
        PRIVATE A *to = sum + b;
        BLOCK_LOOP for (int l = 0; l < 16; l++) to[l] = LIT(0.0) + evens[l] + odds[l];
        for (I64 c = 2; c < p.size_w; c++) {
            PRIVATE const A *tap = POOL_TAP(even, odd, c) + b;
            BLOCK_LOOP for (int l = 0; l < 16; l++) to[l] += tap[l];
        }
    }
    VECTOR_LOOP for (I64 l = 0; l < outs; l++) STORE(y, l, sum[l] / divisor);
}
/* Outputs [at, at + outs) of `rows` rows, the first of which is row `oy` of a plane. More than one only if windows do not
 * overlap and cover their rows, so that the rows' columns make one line. */
FUNC void pool_sum_line(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, A divisor, I64 oy, I64 rows, I64 at, I64 outs)
{
    const I64 before = 2 * at - p.padding_w, begin = M_MAX_OF(before, (I64)0);
    const I64 count = M_MAX_OF(least(before + 2 * outs - 2 + p.size_w, p.w) - begin, (I64)0);
    A line[POOL_LINE];
    for (I64 b = 0; b < rows * outs + 8; b += 16) {
        PRIVATE A *to = line + 2 * b;
        BLOCK_LOOP for (int l = 0; l < 32; l++) to[l] = 0;
    }
    for (I64 r = 0; r < rows; r++) {
        const I64 y0 = POOL_TOP(oy + r), y1 = POOL_BOTTOM(oy + r);
        pool_sum_rows(p, x + y0 * p.w + begin, line + r * p.w + begin - before, y1 - y0, count);
    }
    pool_sum_windows(p, line, y + at, divisor, rows * outs);
}
INLINE void pool_average_one(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, I64 y0, I64 y1, I64 o)
{
    const I64 x0 = POOL_LEFT(o), x1 = POOL_RIGHT(o);
    A sum = 0;
    for (I64 c = x0; c < x1; c++) {
        A column = LOAD(x, y0 * p.w + c);
        for (I64 r = y0 + 1; r < y1; r++) column += LOAD(x, r * p.w + c);
        sum += column;
    }
    STORE(y, o, sum / (A)(p.exclude_padding ? (y1 - y0) * (x1 - x0) : p.size_h * p.size_w));
}

KERNEL2(avg_pool2d, pool2d_params, T, out, const T, in0)
{
    POOL_WHOLE_OF_ALL
    const int join = p.size_w == 2 && p.padding_w == 0 && 2 * p.out_w == p.w && p.out_w <= POOL_ROUND;
    const I64 joined = join ? QUOTIENT(POOL_ROUND, p.out_w) : 1;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END && POOL_SUMS_LINES;) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        const I64 rows = least(joined, least(p.out_h - oy, ITEMS_END - i));
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        for (I64 at = 0; at < p.out_w; at += POOL_ROUND)
            pool_sum_line(p, x, out + i * p.out_w, (A)(p.size_h * p.size_w), oy, rows, at, least(p.out_w - at, POOL_ROUND));
        i += ITEMS_STEP(rows);
    }
    if (!POOL_SUMS_LINES) FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        GLOBAL T *y = out + i * p.out_w;
        const I64 y0 = POOL_TOP(oy), y1 = POOL_BOTTOM(oy);
        POOL_WHOLE_OF_ROW
        const A divisor = (A)(p.exclude_padding ? (y1 - y0) * p.size_w : p.size_h * p.size_w);
        for (I64 o = 0; o < first; o++) pool_average_one(p, x, y, y0, y1, o);
#define POOL_SUM(n, step) pool_sum_whole(p, v, y + o, y1 - y0, step, divisor, n);
#define POOL_SUM_STEPS(n)                                                                                              \
    {                                                                                                                  \
        GLOBAL const T *v = x + y0 * p.w + o * p.stride_w - p.padding_w;                                               \
        if (p.stride_w == 1) POOL_SUM(n, 1)                                                                            \
        else POOL_SUM(n, p.stride_w)                                                                                   \
    }
        POOL_BLOCKS(first, last, POOL_SUM_STEPS)
        for (I64 o = last; o < p.out_w; o++) pool_average_one(p, x, y, y0, y1, o);
    }
}

INLINE void pool_unaverage(GLOBAL const T *g, GLOBAL T *dx, int n)
{
    BLOCK_LOOP for (int o = 0; o < n; o++) {
        const A v = LIT(0.0) + LOAD(g, o) / LIT(4.0);
        STORE(dx, 2 * o, v);
        STORE(dx, 2 * o + 1, v);
    }
}
/* What the windows in rows [o0, o1] of columns [q, q + n) give to an element of each column of windows. */
INLINE void pool_column_sums(const pool2d_params p, GLOBAL const T *dy, PRIVATE A *sum, I64 o0, I64 o1, I64 q, int n)
{
    A columns[16];
    BLOCK_LOOP for (int l = 0; l < n; l++) sum[l] = columns[l] = 0;
    for (int l = 0; l < n && p.exclude_padding; l++) columns[l] = (A)(POOL_RIGHT(q + l) - POOL_LEFT(q + l));
    for (I64 o = o0; o <= o1; o++) {
        GLOBAL const T *g = dy + o * p.out_w + q;
        const A rows = (A)(POOL_BOTTOM(o) - POOL_TOP(o)), whole = (A)(p.size_h * p.size_w);
        if (p.exclude_padding) {
            BLOCK_LOOP for (int l = 0; l < n; l++) sum[l] += LOAD(g, l) / (rows * columns[l]);
        } else {
            BLOCK_LOOP for (int l = 0; l < n; l++) sum[l] += LOAD(g, l) / whole;
        }
    }
}
/* Of 16 columns; 0 of those behind the last. */
FUNC void pool_column_sums_16(const pool2d_params p, GLOBAL const T *dy, PRIVATE A *sum, I64 o0, I64 o1, I64 q)
{
    const I64 rest = p.out_w - q;
    int n = 0;
    if (rest >= 16) {
        pool_column_sums(p, dy, sum, o0, o1, q, 16);
        return;
    }
    for (; n + 4 <= rest; n += 4) pool_column_sums(p, dy, sum + n, o0, o1, q + n, 4);
    for (; n < rest; n++) pool_column_sums(p, dy, sum + n, o0, o1, q + n, 1);
    for (; n < 16; n++) sum[n] = 0;
}
/* A row of dx. Where windows are two apart and an element is in two columns of windows at most, pairs of elements are
 * computed side by side. */
#define POOL_PAIRS 64
INLINE void pool_spread_pairs(const pool2d_params p, GLOBAL const T *dy, GLOBAL T *dx, I64 o0, I64 o1)
{
    A sum[POOL_PAIRS + 1], line[2 * POOL_PAIRS];
    sum[0] = 0;
    for (I64 q = 0; 2 * q - p.padding_w < p.w; q += POOL_PAIRS) {
        const I64 at = 2 * q - p.padding_w, begin = M_MAX_OF(-at, (I64)0), end = least(2 * POOL_PAIRS, p.w - at);
        const I64 columns = M_MAX_OF(least(p.out_w - q, POOL_PAIRS), (I64)0);
        BLOCK_LOOP for (int l = 0; l < POOL_PAIRS; l++) sum[l + 1] = 0;
#define POOL_COLUMN_SUMS(n) pool_column_sums(p, dy, sum + 1 + o, o0, o1, q + o, n);
        POOL_BLOCKS((I64)0, columns, POOL_COLUMN_SUMS)
        for (int b = 0; 2 * b < end; b += 16) {
            PRIVATE const A *t = sum + b;
            PRIVATE A *to = line + 2 * b;
            BLOCK_LOOP for (int l = 0; l < 16; l++) {
                to[2 * l] = LIT(0.0) + (p.size_w > 2 ? t[l] : LIT(0.0)) + t[l + 1];
                to[2 * l + 1] = LIT(0.0) + (p.size_w > 3 ? t[l] : LIT(0.0)) + (p.size_w > 1 ? t[l + 1] : LIT(0.0));
            }
        }
        VECTOR_LOOP for (I64 k = begin; k < end; k++) dx[at + k] = (T)line[k];
        sum[0] = sum[POOL_PAIRS];
    }
}
/* The same for all windows. */
INLINE void pool_spread(const pool2d_params p, GLOBAL const T *dy, GLOBAL T *dx, I64 o0, I64 o1)
{
    A sum[16];
    for (I64 c = 0; c < p.w; c++) dx[c] = 0;
    for (I64 q = 0; q < p.out_w; q += 16) {
        const I64 end = least(p.out_w, q + 16);
        pool_column_sums_16(p, dy, sum, o0, o1, q);
        for (I64 k = q; k < end; k++)
            for (I64 c = POOL_LEFT(k); c < POOL_RIGHT(k); c++) dx[c] += (T)sum[k - q];
    }
}

KERNEL2(avg_pool2d_backward, pool2d_params, T, out, const T, in0)
{
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.h), r = i - plane * p.h;
        GLOBAL const T *dy = in0 + p.y_offset + plane * p.out_h * p.out_w;
        GLOBAL T *dx = out + i * p.w;
        const I64 o0 = POOL_ROW_FROM(r), o1 = POOL_ROW_TO(r);
        if (POOL_IS_HALVING) {
            const I64 count = o0 <= o1 ? p.out_w : 0;
            GLOBAL const T *g = dy + o0 * p.out_w;
#define POOL_UNAVERAGE(n) pool_unaverage(g + o, dx + 2 * o, n);
            POOL_BLOCKS((I64)0, count, POOL_UNAVERAGE)
            for (I64 c = 2 * count; c < p.w; c++) dx[c] = 0;
        } else if (CHUNKED && !IS_HALF && !p.adaptive && p.stride_w == 2 && p.size_w <= 4) {
            pool_spread_pairs(p, dy, dx, o0, o1);
        } else if (CHUNKED && !IS_HALF) { /* elements are added in the order of the loop below */
            pool_spread(p, dy, dx, o0, o1);
        } else {
            pool_columns at = pool_columns_of(p, 0);
            for (I64 c = 0; c < p.w; c++) {
                at = pool_columns_next(p, at, c);
                A sum = 0;
                for (I64 q = at.from; q <= at.to; q++) {
                    const I64 columns = POOL_RIGHT(q) - POOL_LEFT(q);
                    A column = 0;
                    for (I64 o = o0; o <= o1; o++) {
                        const I64 rows = POOL_BOTTOM(o) - POOL_TOP(o);
                        column += LOAD(dy, o * p.out_w + q) / (A)(p.exclude_padding ? rows * columns : p.size_h * p.size_w);
                    }
                    sum += column;
                }
                STORE(dx, c, sum);
            }
        }
    }
}

KERNEL2(avg_pool2d_columns, pool2d_params, T, out, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const pool_place at = pool_place_of(i, p.out_h, p.out_w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, POOL_WIDTH);
        const I64 y0 = POOL_TOP(at.row), y1 = POOL_BOTTOM(at.row), x0 = POOL_LEFT(at.column), x1 = POOL_RIGHT(at.column);
        GLOBAL const T *x = in0 + p.x_offset + at.n * p.h * p.w * p.channels + at.k;
        const A divisor = (A)(p.exclude_padding ? (y1 - y0) * (x1 - x0) : p.size_h * p.size_w);
        A sum[CHUNKED ? POOL_WIDTH : 1], column[CHUNKED ? POOL_WIDTH : 1];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 c = x0; c < x1; c++) {
            for (int l = 0; l < width; l++) column[l] = LOAD(x, (y0 * p.w + c) * p.channels + l);
            for (I64 r = y0 + 1; r < y1; r++) {
                GLOBAL const T *v = x + (r * p.w + c) * p.channels;
                VECTOR_LOOP for (int l = 0; l < width; l++) column[l] += LOAD(v, l);
            }
            VECTOR_LOOP for (int l = 0; l < width; l++) sum[l] += column[l];
        }
        for (int l = 0; l < width; l++) STORE(out, i + l, sum[l] / divisor);
        i += ITEMS_STEP(width);
    }
}

KERNEL2(avg_pool2d_backward_columns, pool2d_params, T, out, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const pool_place at = pool_place_of(i, p.h, p.w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, POOL_WIDTH);
        const I64 o0 = POOL_ROW_FROM(at.row), o1 = POOL_ROW_TO(at.row);
        const I64 q0 = POOL_COLUMN_FROM(at.column), q1 = POOL_COLUMN_TO(at.column);
        A sum[CHUNKED ? POOL_WIDTH : 1], column[CHUNKED ? POOL_WIDTH : 1];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 q = q0; q <= q1; q++) {
            for (int l = 0; l < width; l++) column[l] = 0;
            for (I64 o = o0; o <= o1; o++) {
                const I64 rows = POOL_BOTTOM(o) - POOL_TOP(o), columns = POOL_RIGHT(q) - POOL_LEFT(q);
                const A divisor = (A)(p.exclude_padding ? rows * columns : p.size_h * p.size_w);
                GLOBAL const T *g = in0 + p.y_offset + ((at.n * p.out_h + o) * p.out_w + q) * p.channels + at.k;
                VECTOR_LOOP for (int l = 0; l < width; l++) column[l] += LOAD(g, l) / divisor;
            }
            VECTOR_LOOP for (int l = 0; l < width; l++) sum[l] += column[l];
        }
        for (int l = 0; l < width; l++) STORE(out, i + l, sum[l]);
        i += ITEMS_STEP(width);
    }
}
#endif
/* kernel text ends */
// clang-format on
