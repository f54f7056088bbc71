/* The kernels of pooling by the average. The gradient is a gather: an element of x looks at the windows it is in.
 * Nothing is added up across work items, on any device. */
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/pool/pool2d.h"

// clang-format off
/* kernel text begins */
#include "ops/pool/pool2d_kernel.h"

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
/* Where windows are two apart, the sums of columns come first, those of even and of odd columns apart, and then those of
 * the windows: of as many rows at once as fit, as a vector that is loaded from where parts of it were just stored has to
 * wait. Sums are 0 where there is no column. */
/* Of one row, two, or more. */
INLINE void pool_sum_pairs(const pool2d_params p, GLOBAL const T *v, PRIVATE A *even, PRIVATE A *odd, I64 rows, int n)
{
    GLOBAL const T *second = v + p.w, *third = second + p.w;
    if (rows == 2) {
        BLOCK_LOOP for (int l = 0; l < n; l++) {
            even[l] = LOAD(v, 2 * l) + LOAD(second, 2 * l);
            odd[l] = LOAD(v, 2 * l + 1) + LOAD(second, 2 * l + 1);
        }
    } else if (rows > 2) {
        BLOCK_LOOP for (int l = 0; l < n; l++) {
            even[l] = LOAD(v, 2 * l) + LOAD(second, 2 * l) + LOAD(third, 2 * l);
            odd[l] = LOAD(v, 2 * l + 1) + LOAD(second, 2 * l + 1) + LOAD(third, 2 * l + 1);
        }
    } else {
        BLOCK_LOOP for (int l = 0; l < n; l++) {
            even[l] = LOAD(v, 2 * l);
            odd[l] = LOAD(v, 2 * l + 1);
        }
    }
    for (I64 r = 3; r < rows; r++) {
        GLOBAL const T *next = v + r * p.w;
        BLOCK_LOOP for (int l = 0; l < n; l++) {
            even[l] += LOAD(next, 2 * l);
            odd[l] += LOAD(next, 2 * l + 1);
        }
    }
}
/* The pairs [begin, end) of `rows` rows from v on. The last may be half a pair. */
FUNC void pool_sum_rows(const pool2d_params p, GLOBAL const T *v, PRIVATE A *even, PRIVATE A *odd, I64 rows, I64 begin, I64 end)
{
    const I64 whole = least(end, p.w >> 1);
    EXPAND(pool_blocks, begin, whole, pool_sum_pairs(p, v + 2 * o, even + o - begin, odd + o - begin, rows, n))
    if (whole >= end) return;
    A column = LOAD(v, p.w - 1);
    for (I64 r = 1; r < rows; r++) column += LOAD(v, r * p.w + p.w - 1);
    even[end - 1 - begin] = column;
}
/* The averages of `count` windows side by side, of which the first has its column 0 in even[0]. */
FUNC void pool_average_pairs(const pool2d_params p, PRIVATE const A *even, PRIVATE const A *odd, PRIVATE A *to, A divisor, I64 count)
{
    for (I64 b = 0; b < count; b += 16) {
        PRIVATE const A *first = pool_column(p, even, odd, 0) + b, *second = pool_column(p, even, odd, 1) + b;
        PRIVATE A *sum = to + b;
        BLOCK_LOOP for (int l = 0; l < 16; l++) sum[l] = LIT(0.0) + first[l] + second[l];
        for (I64 c = 2; c < p.size_w; c++) {
            PRIVATE const A *tap = pool_column(p, even, odd, c) + b;
            BLOCK_LOOP for (int l = 0; l < 16; l++) sum[l] += tap[l];
        }
        BLOCK_LOOP for (int l = 0; l < 16; l++) sum[l] /= divisor;
    }
}
/* Outputs [at, at + outs) of `rows` rows, the first of which is row `oy` of a plane. `even` and `odd` are 0 where no row
 * has a pair. `columns`: how many of a window are in the plane, if those alone count. */
FUNC void pool_average_rows(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, PRIVATE A *even, PRIVATE A *odd, PRIVATE const A *columns, I64 oy, I64 rows, I64 at, I64 outs)
{
    const I64 pitch = outs + pool_before(p) + pool_behind(p), begin = M_MAX_OF(at - pool_before(p), (I64)0);
    const I64 end = least(at + outs + pool_behind(p), (p.w + 1) >> 1);
    const A divisor = p.exclude_padding ? LIT(1.0) : (A)(p.size_h * p.size_w);
    A average[POOL_ROUND + 16];
    for (I64 r = 0; r < rows; r++) {
        const I64 y0 = pool_top(p, oy + r), y1 = pool_bottom(p, oy + r), to = r * pitch + begin - (at - pool_before(p));
        pool_fetch(p, x + y0 * p.w);
        pool_sum_rows(p, x + y0 * p.w, even + to, odd + to, y1 - y0, begin, end);
    }
    pool_average_pairs(p, even + pool_before(p), odd + pool_before(p), average, divisor, rows * pitch);
    for (I64 r = 0; r < rows; r++) {
        GLOBAL T *row = y + r * p.out_w + at;
        PRIVATE const A *from = average + r * pitch;
        if (p.exclude_padding) {
            const A height = (A)(pool_bottom(p, oy + r) - pool_top(p, oy + r));
            VECTOR_LOOP for (I64 o = 0; o < outs; o++) STORE(row, o, from[o] / (height * columns[o]));
        } else {
            VECTOR_LOOP for (I64 o = 0; o < outs; o++) STORE(row, o, from[o]);
        }
    }
}
/* Of windows of 2 x 2 that do not overlap. */
INLINE void pool_average_four(GLOBAL const T *upper, GLOBAL const T *lower, GLOBAL T *y, int n)
{
    BLOCK_LOOP for (int o = 0; o < n; o++) {
        const A left = LOAD(upper, 2 * o) + LOAD(lower, 2 * o), right = LOAD(upper, 2 * o + 1) + LOAD(lower, 2 * o + 1);
        STORE(y, o, (LIT(0.0) + left + right) / LIT(4.0));
    }
}
INLINE void pool_average_one(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, I64 y0, I64 y1, I64 o)
{
    const I64 x0 = pool_left(p, o), x1 = pool_right(p, o);
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
    I64 first = CHUNKED ? pool_whole_first(p) : 0, last = CHUNKED ? pool_whole_last(p, first) : 0;
    const I64 reach = pool_before(p) + pool_behind(p), outs = least(p.out_w, POOL_ROUND - reach);
    const I64 most = pool_by_pairs(p) && outs == p.out_w ? QUOTIENT(POOL_ROUND, outs + reach) : 1;
    A even[CHUNKED ? POOL_ROUND + 32 : 1], odd[CHUNKED ? POOL_ROUND + 32 : 1], columns[CHUNKED ? POOL_ROUND : 1];
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END && pool_by_pairs(p);) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        const I64 rows = least(most, least(p.out_h - oy, ITEMS_END - i));
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        for (I64 at = 0; at < p.out_w; at += outs) {
            const I64 some = least(p.out_w - at, outs);
            if (i == ITEMS_BEGIN || outs < p.out_w) {
                for (int l = 0; l < POOL_ROUND + 32; l++) even[l] = odd[l] = 0;
                for (I64 o = 0; o < some && p.exclude_padding; o++) columns[o] = (A)(pool_right(p, at + o) - pool_left(p, at + o));
            }
            pool_average_rows(p, x, out + i * p.out_w, even, odd, columns, oy, rows, at, some);
        }
        i += ITEMS_STEP(rows);
    }
    if (!pool_by_pairs(p)) FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        GLOBAL T *y = out + i * p.out_w;
        if (pool_is_halving(p)) {
            GLOBAL const T *upper = x + 2 * oy * p.w, *lower = upper + p.w;
            EXPAND(pool_blocks, (I64)0, p.out_w, pool_average_four(upper + 2 * o, lower + 2 * o, y + o, n))
            continue;
        }
        const I64 y0 = pool_top(p, oy), y1 = pool_bottom(p, oy);
        if (!CHUNKED) {
            first = pool_whole_first(p);
            last = pool_whole_last(p, first);
        }
        const A divisor = (A)(p.exclude_padding ? (y1 - y0) * p.size_w : p.size_h * p.size_w);
        for (I64 o = 0; o < first; o++) pool_average_one(p, x, y, y0, y1, o);
        EXPAND(pool_blocks, first, last,
               GLOBAL const T *v = x + y0 * p.w + o * p.stride_w - p.padding_w;
               if (p.stride_w == 1) pool_sum_whole(p, v, y + o, y1 - y0, 1, divisor, n);
               else pool_sum_whole(p, v, y + o, y1 - y0, p.stride_w, divisor, n))
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
/* Where windows are two apart and a column is in two at most, pairs of columns of dx are computed side by side. What a
 * window gives to each of its elements is kept for all rows of dx that need it, as divisions take long: a row of `kept`
 * has window k at POOL_OWN, and is 0 where there is none. */
enum {
    POOL_KEPT = 8,    /* rows of windows */
    POOL_PAIRS = 128, /* of columns */
    POOL_OWN = 16,
    POOL_WINDOWS = POOL_PAIRS + 48
};
INLINE I32 pool_spreads_pairs(const pool2d_params p)
{
    return CHUNKED && !p.adaptive && p.stride_w == 2 && p.size_w <= 4 && p.size_h <= POOL_KEPT * p.stride_h;
}
FUNC void pool_keep(const pool2d_params p, GLOBAL const T *dy, PRIVATE A *kept, PRIVATE const A *columns, I64 row, I64 k)
{
    const I64 from = M_MAX_OF(k - 1, (I64)0), count = least(k + POOL_PAIRS + 1, p.out_w) - from;
    const A rows = (A)(pool_bottom(p, row) - pool_top(p, row)), whole = (A)(p.size_h * p.size_w);
    GLOBAL const T *g = dy + row * p.out_w + from;
    PRIVATE A *to = kept + POOL_OWN + from - k;
    kept[POOL_OWN - 1] = 0;
    if (p.exclude_padding) {
        VECTOR_LOOP for (I64 l = 0; l < count; l++) to[l] = LOAD(g, l) / (rows * columns[from - k + 1 + l]);
    } else {
        EXPAND(pool_blocks, (I64)0, count, BLOCK_LOOP for (int l = 0; l < n; l++) to[o + l] = LOAD(g, o + l) / whole)
    }
    to += count;
    BLOCK_LOOP for (int l = 0; l < 16; l++) to[l] = 0;
}
/* Where the windows of an even or of an odd column are, in two rows of kept; `none` is 0 everywhere. */
typedef struct pool_taps {
    PRIVATE const A *upper, *lower, *next_upper, *next_lower;
} pool_taps;
FUNC pool_taps pool_taps_of(PRIVATE const A *upper, PRIVATE const A *lower, PRIVATE const A *none, I64 first, I64 last)
{
    const pool_taps taps = {first > last ? none : upper + POOL_OWN + first, first > last ? none : lower + POOL_OWN + first,
                            first < last ? upper + POOL_OWN + last : none, first < last ? lower + POOL_OWN + last : none};
    return taps;
}
INLINE A pool_tapped(pool_taps t, I64 l) { return LIT(0.0) + (t.upper[l] + t.lower[l]) + (t.next_upper[l] + t.next_lower[l]); }
INLINE void pool_spread_block(pool_taps even, pool_taps odd, GLOBAL T *dx, I64 o, int n)
{
    BLOCK_LOOP for (int l = 0; l < n; l++) {
        STORE(dx, 2 * (o + l), pool_tapped(even, o + l));
        STORE(dx, 2 * (o + l) + 1, pool_tapped(odd, o + l));
    }
}
/* `rows` rows of dx from row r on: the windows they are in begin with row `first` and are POOL_KEPT rows at most. */
INLINE void pool_spread_pairs(const pool2d_params p, GLOBAL const T *dy, GLOBAL T *dx, I64 r, I64 rows, I64 first)
{
    A kept[POOL_KEPT][POOL_WINDOWS], none[POOL_WINDOWS], columns[POOL_WINDOWS];
    BLOCK_LOOP for (int l = 0; l < POOL_WINDOWS; l++) none[l] = 0;
    for (I64 k = 0; 2 * k < p.w; k += POOL_PAIRS) {
        const I64 whole = least((p.w >> 1) - k, POOL_PAIRS);
        for (int l = 0; l < POOL_PAIRS + 2 && p.exclude_padding; l++) columns[l] = (A)(pool_right(p, k - 1 + l) - pool_left(p, k - 1 + l));
        for (I64 o = first; o <= pool_row_to(p, r + rows - 1); o++) pool_keep(p, dy, kept[o - first], columns, o, k);
        for (I64 j = 0; j < rows; j++) {
            const I64 o0 = pool_row_from(p, r + j) - first, o1 = pool_row_to(p, r + j) - first;
            PRIVATE const A *upper = o0 > o1 ? none : kept[o0], *lower = o0 < o1 ? kept[o0 + 1] : none;
            GLOBAL T *to = dx + j * p.w + 2 * k;
            A sum[POOL_WINDOWS];
            for (I64 q = o0 + 2; q <= o1; q++) {
                VECTOR_LOOP for (I64 l = POOL_OWN - 1; l < POOL_OWN + whole + 3; l++) sum[l] = upper[l] + lower[l];
                upper = sum;
                lower = kept[q];
            }
            const pool_taps even = pool_taps_of(upper, lower, none, (p.padding_w - p.size_w + 2) >> 1, p.padding_w >> 1);
            const pool_taps odd = pool_taps_of(upper, lower, none, (p.padding_w - p.size_w + 3) >> 1, (p.padding_w + 1) >> 1);
            EXPAND(pool_blocks, (I64)0, whole, pool_spread_block(even, odd, to, o, n))
            if (2 * (k + whole) == p.w - 1 && whole < POOL_PAIRS) STORE(to, 2 * whole, pool_tapped(even, whole));
        }
    }
}
/* What the windows in rows [o0, o1] of columns [q, q + n) give to an element of each column of windows. */
INLINE void pool_column_sums(const pool2d_params p, GLOBAL const T *dy, PRIVATE A *sum, I64 o0, I64 o1, I64 q, int n)
{
    A columns[16];
    BLOCK_LOOP for (int l = 0; l < n; l++) sum[l] = columns[l] = 0;
    for (int l = 0; l < n && p.exclude_padding; l++) columns[l] = (A)(pool_right(p, q + l) - pool_left(p, q + l));
    for (I64 o = o0; o <= o1; o++) {
        GLOBAL const T *g = dy + o * p.out_w + q;
        const A rows = (A)(pool_bottom(p, o) - pool_top(p, o)), whole = (A)(p.size_h * p.size_w);
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
/* A row of dx, for all windows. */
INLINE void pool_spread(const pool2d_params p, GLOBAL const T *dy, GLOBAL T *dx, I64 o0, I64 o1)
{
    A sum[16];
    for (I64 c = 0; c < p.w; c++) dx[c] = 0;
    for (I64 q = 0; q < p.out_w; q += 16) {
        const I64 end = least(p.out_w, q + 16);
        pool_column_sums_16(p, dy, sum, o0, o1, q);
        for (I64 k = q; k < end; k++)
            for (I64 c = pool_left(p, k); c < pool_right(p, k); c++) dx[c] += (T)sum[k - q];
    }
}

KERNEL2(avg_pool2d_backward, pool2d_params, T, out, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 plane = QUOTIENT(i, p.h), r = i - plane * p.h;
        GLOBAL const T *dy = in0 + p.y_offset + plane * p.out_h * p.out_w;
        GLOBAL T *dx = out + i * p.w;
        I64 rows = 1;
        if (pool_is_halving(p)) {
            const I64 row = r >> 1, count = row < p.out_h ? p.out_w : 0;
            GLOBAL const T *g = dy + row * p.out_w;
            EXPAND(pool_blocks, (I64)0, count, pool_unaverage(g + o, dx + 2 * o, n))
            for (I64 c = 2 * count; c < p.w; c++) dx[c] = 0;
            i += ITEMS_STEP(rows);
            continue;
        }
        const I64 o0 = pool_row_from(p, r), o1 = pool_row_to(p, r);
        if (pool_spreads_pairs(p)) {
            rows = least(least(p.h - r, ITEMS_END - i), (o0 + POOL_KEPT) * p.stride_h - p.padding_h - r);
            pool_spread_pairs(p, dy, dx, r, rows, o0);
        } else if (CHUNKED && !IS_HALF) { /* elements are added in the order of the loop below */
            pool_spread(p, dy, dx, o0, o1);
        } else {
            pool_columns at = pool_columns_of(p, 0);
            for (I64 c = 0; c < p.w; c++) {
                at = pool_columns_next(p, at, c);
                A sum = 0;
                for (I64 q = at.from; q <= at.to; q++) {
                    const I64 columns = pool_right(p, q) - pool_left(p, q);
                    A column = 0;
                    for (I64 o = o0; o <= o1; o++) {
                        const I64 height = pool_bottom(p, o) - pool_top(p, o);
                        column += LOAD(dy, o * p.out_w + q) / (A)(p.exclude_padding ? height * columns : p.size_h * p.size_w);
                    }
                    sum += column;
                }
                STORE(dx, c, sum);
            }
        }
        i += ITEMS_STEP(rows);
    }
}

KERNEL2(avg_pool2d_columns, pool2d_params, T, out, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const pool_place at = pool_place_of(i, p.out_h, p.out_w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, POOL_WIDTH);
        const I64 y0 = pool_top(p, at.row), y1 = pool_bottom(p, at.row), x0 = pool_left(p, at.column), x1 = pool_right(p, at.column);
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
        const I64 o0 = pool_row_from(p, at.row), o1 = pool_row_to(p, at.row);
        const I64 q0 = pool_column_from(p, at.column), q1 = pool_column_to(p, at.column);
        A sum[CHUNKED ? POOL_WIDTH : 1], column[CHUNKED ? POOL_WIDTH : 1];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 q = q0; q <= q1; q++) {
            for (int l = 0; l < width; l++) column[l] = 0;
            for (I64 o = o0; o <= o1; o++) {
                const I64 rows = pool_bottom(p, o) - pool_top(p, o), columns = pool_right(p, q) - pool_left(p, q);
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
