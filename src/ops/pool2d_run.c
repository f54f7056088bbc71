/* The kernels of pooling over windows of the last two axes. The maximum keeps where it found each element, so that its
 * gradient is a gather: an element of x looks at the windows it is in. Nothing is added up across work items, on any
 * device. */
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/pool2d.h"

// clang-format off
/* kernel text begins */
/* x: [planes, h, w]; y: [planes, out_h, out_w]; index (I32): where in the plane of x an element of y comes from. In the
 * kernels ..._columns all three are channels-last: [n, h, w, channels]. */
typedef struct pool2d_params {
    I64 items;
    I64 h, w, out_h, out_w, channels;
    I64 size_h, size_w, stride_h, stride_w, padding_h, padding_w;
    I64 x_offset, y_offset, index_offset;
    I32 exclude_padding, adaptive;
} pool2d_params;

#define POOL_WIDTH 64 /* channels that are taken side by side */

#if defined(HAUL_KERNEL) && IS_FLOAT
/* The part of window `o` of an axis that is inside it: [TOP, BOTTOM) of rows, [LEFT, RIGHT) of columns. Adaptive windows
 * are the o-th of `count` parts of the axis, rounded outwards. */
#define POOL_BEGIN(o, stride, padding, size, count)                                                                    \
    (p.adaptive ? QUOTIENT((o) * (size), count) : M_MAX_OF((o) * (stride) - (padding), (I64)0))
#define POOL_END(o, stride, padding, window, size, count)                                                              \
    (p.adaptive ? QUOTIENT(((o) + 1) * (size) + (count) - 1, count) : M_MIN_OF((o) * (stride) - (padding) + (window), size))
#define POOL_TOP(o)    POOL_BEGIN(o, p.stride_h, p.padding_h, p.h, p.out_h)
#define POOL_BOTTOM(o) POOL_END(o, p.stride_h, p.padding_h, p.size_h, p.h, p.out_h)
#define POOL_LEFT(o)   POOL_BEGIN(o, p.stride_w, p.padding_w, p.w, p.out_w)
#define POOL_RIGHT(o)  POOL_END(o, p.stride_w, p.padding_w, p.size_w, p.w, p.out_w)
/* The windows that element `i` of an axis is in: [FROM, TO] of rows or columns. */
#define POOL_FIRST(i, stride, padding, window) ((i) + (padding) < (window) ? (I64)0 : QUOTIENT((i) + (padding) - (window), stride) + 1)
#define POOL_FROM(i, stride, padding, window, size, count)                                                             \
    (p.adaptive ? QUOTIENT((i) * (count), size) : POOL_FIRST(i, stride, padding, window))
#define POOL_TO(i, stride, padding, size, count)                                                                       \
    (p.adaptive ? QUOTIENT(((i) + 1) * (count) - 1, size) : least(QUOTIENT((i) + (padding), stride), (count) - 1))
#define POOL_ROW_FROM(i)    POOL_FROM(i, p.stride_h, p.padding_h, p.size_h, p.h, p.out_h)
#define POOL_ROW_TO(i)      POOL_TO(i, p.stride_h, p.padding_h, p.h, p.out_h)
#define POOL_COLUMN_FROM(i) POOL_FROM(i, p.stride_w, p.padding_w, p.size_w, p.w, p.out_w)
#define POOL_COLUMN_TO(i)   POOL_TO(i, p.stride_w, p.padding_w, p.w, p.out_w)

/* The windows [from, to] that a column is in, for columns in order: `right` is where the first of them ends, `left`
 * where the one behind them begins. */
typedef struct pool_columns {
    I64 from, to, right, left;
} pool_columns;
FUNC pool_columns pool_columns_of(const pool2d_params p, I64 c)
{
    const I64 from = POOL_COLUMN_FROM(c), to = POOL_COLUMN_TO(c);
    const pool_columns at = {from, to, POOL_RIGHT(from), POOL_LEFT(to + 1)};
    return at;
}
FUNC pool_columns pool_columns_next(const pool2d_params p, pool_columns at, I64 c)
{
    while (at.right <= c && at.from < p.out_w) {
        at.from++;
        at.right = POOL_RIGHT(at.from);
    }
    while (at.left <= c && at.to < p.out_w - 1) {
        at.to++;
        at.left = POOL_LEFT(at.to + 1);
    }
    return at;
}

/* Loops over the outputs of a row take blocks of a fixed number, 16, 8 or 4, which vectorise whatever the row's length.
 * The last block ends with the row, and computes some outputs again. Shorter rows take one output at a time. */
#define POOL_BLOCKS(first, last, DO)                                                                                \
    {                                                                                                                  \
        const I64 pool_count = (last) - (first);                                                                       \
        const int pool_block = pool_count < 4 || !CHUNKED ? 1 : pool_count < 8 ? 4 : pool_count < 16 ? 8 : 16;         \
        for (I64 pool_o = (first); pool_o < (last); pool_o += pool_block) {                                            \
            const I64 o = least(pool_o, (last) - pool_block);                                                          \
            if (pool_block == 16) DO(16)                                                                               \
            else if (pool_block == 8) DO(8)                                                                            \
            else if (pool_block == 4) DO(4)                                                                            \
            else DO(1)                                                                                                 \
        }                                                                                                              \
    }
#define POOL_IS_HALVING                                                                                                \
    (p.size_h == 2 && p.size_w == 2 && p.stride_h == 2 && p.stride_w == 2 && p.padding_h + p.padding_w + p.adaptive == 0)
/* Outputs [first, last) of a row have windows that are whole along it; none if windows are adaptive. */
#define POOL_WHOLE_FIRST least(p.adaptive ? p.out_w : QUOTIENT(p.padding_w + p.stride_w - 1, p.stride_w), p.out_w)
#define POOL_WHOLE_LAST(first)                                                                                         \
    (p.adaptive || p.w + p.padding_w < p.size_w                                                                        \
         ? (first)                                                                                                     \
         : M_MAX_OF(first, least(QUOTIENT(p.w + p.padding_w - p.size_w, p.stride_w) + 1, p.out_w)))

/* They are the same for all rows, but a GPU's thread, which has one row, lacks the registers to keep them. */
#define POOL_WHOLE const I64 first = POOL_WHOLE_FIRST, last = POOL_WHOLE_LAST(first);
#if CHUNKED
#define POOL_WHOLE_OF_ALL POOL_WHOLE
#define POOL_WHOLE_OF_ROW
#else
#define POOL_WHOLE_OF_ALL
#define POOL_WHOLE_OF_ROW POOL_WHOLE
#endif

/* Outputs of windows of 2 x 2 that do not overlap; `at` is where the first begins. NaN wins; two selects each, which
 * compilers vectorise. */
INLINE void pool_halve(GLOBAL const T *upper, GLOBAL const T *lower, GLOBAL T *y, GLOBAL I32 *found, I32 at, I32 width, int n)
{
    BLOCK_LOOP for (int o = 0; o < n; o++) {
        const A a = LOAD(upper, 2 * o), b = LOAD(upper, 2 * o + 1);
        const A c = LOAD(lower, 2 * o), d = LOAD(lower, 2 * o + 1);
        I32 right = b > a ? 1 : 0, low_right = d > c ? 1 : 0;
        right = b != b ? 1 : right;
        low_right = d != d ? 1 : low_right;
        const A top = right ? b : a, bottom = low_right ? d : c;
        I32 below = bottom > top ? 1 : 0;
        below = bottom != bottom ? 1 : below;
        STORE(y, o, below ? bottom : top);
        found[o] = at + 2 * o + (below ? width + low_right : right);
    }
}
/* Put the elements at even and at odd places of the `count` that windows two apart need side by side, and so is then what
 * one tap of n windows reads. Loads of every second element vectorise badly, as they must not read behind the last. */
#define POOL_SPLITS(step, n) (CHUNKED && (step) == 2 && (n) > 1 && p.size_w > 1 && p.size_w <= 16)
INLINE void pool_split(GLOBAL const T *v, PRIVATE A *even, PRIVATE A *odd, int count, int n)
{
    BLOCK_LOOP for (int l = 0; l < n; l++) {
        even[l] = LOAD(v, 2 * l);
        odd[l] = LOAD(v, 2 * l + 1);
    }
    for (int k = 2 * n; k < count; k++) *((k & 1 ? odd : even) + (k >> 1)) = LOAD(v, k);
}
#define POOL_TAP(even, odd, c) (((c) & 1 ? (odd) : (even)) + ((c) >> 1))

/* A larger element replaces the one in `most`, as does NaN. */
#define POOL_TAKE(value, place)                                                                                        \
    take = (value) > most ? 1 : 0;                                                                                     \
    take = (value) != (value) ? 1 : take;                                                                              \
    most = take ? (value) : most;                                                                                      \
    where = take ? (place) : where;
/* Outputs of whole windows `step` apart, `rows` high; v is the first's first element, which is element `at` of the plane. */
INLINE void pool_max_whole(const pool2d_params p, GLOBAL const T *v, GLOBAL T *y, GLOBAL I32 *found, I32 at, I64 rows, I64 step, int n)
{
    const int split = POOL_SPLITS(step, n);
    A best[16], even[24], odd[24];
    I32 from[16];
    BLOCK_LOOP for (int l = 0; l < n; l++) best[l] = LOAD(v, l * step);
    BLOCK_LOOP for (int l = 0; l < n; l++) from[l] = at + l * (I32)step;
    for (I64 r = 0; r < rows; r++) {
        I64 c = 0;
        if (split) pool_split(v + r * p.w, even, odd, 2 * n - 2 + (int)p.size_w, n);
        for (; c + 3 <= p.size_w && split; c += 3) { /* three at once, as each pass reads and writes best and from */
            PRIVATE const A *t0 = POOL_TAP(even, odd, c), *t1 = POOL_TAP(even, odd, c + 1), *t2 = POOL_TAP(even, odd, c + 2);
            const I32 here = at + (I32)(r * p.w + c);
            BLOCK_LOOP for (int l = 0; l < n; l++) {
                const I32 place = here + l * (I32)step;
                A most = best[l];
                I32 take, where = from[l];
                POOL_TAKE(t0[l], place)
                POOL_TAKE(t1[l], place + 1)
                POOL_TAKE(t2[l], place + 2)
                best[l] = most;
                from[l] = where;
            }
        }
        for (; c < p.size_w; c++) {
            const I32 here = at + (I32)(r * p.w + c);
            PRIVATE const A *tap = POOL_TAP(even, odd, c);
            BLOCK_LOOP for (int l = 0; l < n; l++) {
                const A value = split ? tap[l] : LOAD(v, r * p.w + c + l * step);
                A most = best[l];
                I32 take, where = from[l];
                POOL_TAKE(value, here + l * (I32)step)
                best[l] = most;
                from[l] = where;
            }
        }
    }
    BLOCK_LOOP for (int l = 0; l < n; l++) STORE(y, l, best[l]);
    BLOCK_LOOP for (int l = 0; l < n; l++) found[l] = from[l];
}
INLINE void pool_max_one(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, GLOBAL I32 *found, I64 y0, I64 y1, I64 o)
{
    const I64 x0 = POOL_LEFT(o), x1 = POOL_RIGHT(o);
    I64 best = y0 * p.w + x0;
    for (I64 r = y0; r < y1; r++)
        for (I64 c = x0; c < x1; c++) {
            const A v = LOAD(x, r * p.w + c);
            best = v > LOAD(x, best) || v != v ? r * p.w + c : best;
        }
    y[o] = x[best];
    found[o] = (I32)best;
}

/* A row of y a work item. */
KERNEL3(max_pool2d, pool2d_params, T, out, I32, index, const T, in0)
{
    POOL_WHOLE_OF_ALL
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        GLOBAL T *y = out + i * p.out_w;
        GLOBAL I32 *found = index + i * p.out_w;
        if (POOL_IS_HALVING) {
            const I32 at = (I32)(2 * oy * p.w), width = (I32)p.w;
            GLOBAL const T *upper = x + at, *lower = upper + width;
#define POOL_HALVE(n) pool_halve(upper + 2 * o, lower + 2 * o, y + o, found + o, at + (I32)(2 * o), width, n);
            POOL_BLOCKS((I64)0, p.out_w, POOL_HALVE)
            continue;
        }
        const I64 y0 = POOL_TOP(oy), y1 = POOL_BOTTOM(oy);
        POOL_WHOLE_OF_ROW
        for (I64 o = 0; o < first; o++) pool_max_one(p, x, y, found, y0, y1, o);
#define POOL_MAX(n, step) pool_max_whole(p, x + at, y + o, found + o, (I32)at, y1 - y0, step, n);
#define POOL_MAX_STEPS(n)                                                                                              \
    {                                                                                                                  \
        const I64 at = y0 * p.w + o * p.stride_w - p.padding_w;                                                        \
        if (p.stride_w == 1) POOL_MAX(n, 1)                                                                            \
        else if (p.stride_w == 2) POOL_MAX(n, 2)                                                                       \
        else POOL_MAX(n, p.stride_w)                                                                                   \
    }
        POOL_BLOCKS(first, last, POOL_MAX_STEPS)
        for (I64 o = last; o < p.out_w; o++) pool_max_one(p, x, y, found, y0, y1, o);
    }
}

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

/* dx from dy: a row of x a work item. Where a thread has consecutive rows and elements need no conversion, it adds what
 * the windows give to the elements that they took; elsewhere each element looks at its windows. Both add in one order. */
KERNEL3(max_pool2d_spread, pool2d_params, T, out, const T, in0, const I32, index)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 plane = QUOTIENT(i, p.h), r = i - plane * p.h;
        GLOBAL const T *dy = in0 + p.y_offset + plane * p.out_h * p.out_w;
        GLOBAL const I32 *found = index + p.index_offset + plane * p.out_h * p.out_w;
        GLOBAL T *dx = out + i * p.w;
        const I64 o0 = POOL_ROW_FROM(r), o1 = POOL_ROW_TO(r);
        I64 rows = 1;
        if (POOL_IS_HALVING) {
            /* The last of an odd number of rows or columns is in no window. */
            const I32 at = (I32)(r * p.w);
            const I64 count = o0 <= o1 ? p.out_w : 0;
            GLOBAL const T *g = dy + o0 * p.out_w;
            GLOBAL const I32 *from = found + o0 * p.out_w;
#define POOL_UNHALVE(n) pool_unhalve(g + o, from + o, dx + 2 * o, at + (I32)(2 * o), n);
            POOL_BLOCKS((I64)0, count, POOL_UNHALVE)
            for (I64 c = 2 * count; c < p.w; c++) dx[c] = 0;
        } else if (CHUNKED && !IS_HALF) {
            rows = least(p.h - r, ITEMS_END - i);
            const I64 begin = r * p.w, size = rows * p.w, user_end = (POOL_ROW_TO(r + rows - 1) + 1) * p.out_w;
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
#define POOL_ROW 64
#define POOL_SUMS_ROWS                                                                                                 \
    (CHUNKED && p.stride_w == 2 && p.size_w > 1 && p.size_w <= 16 && p.padding_w < p.size_w && !p.exclude_padding && !p.adaptive)
/* The elements at even and at odd places of 32. */
INLINE void pool_split_block(PRIVATE const A *from, PRIVATE A *even, PRIVATE A *odd)
{
    BLOCK_LOOP for (int l = 0; l < 16; l++) {
        even[l] = from[2 * l];
        odd[l] = from[2 * l + 1];
    }
}
/* The outputs [at, at + outs), up to POOL_ROW of them, of windows two apart, of which some may begin or end outside. Each
 * step goes through the whole line, as a vector that is loaded from where parts of it were just stored has to wait. */
FUNC void pool_sum_row(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, I64 y0, I64 y1, A divisor, I64 at, I64 outs)
{
    const I64 before = 2 * at - p.padding_w, begin = M_MAX_OF(before, (I64)0);
    const I64 count = M_MAX_OF(least(before + 2 * outs - 2 + p.size_w, p.w) - begin, (I64)0);
    A line[2 * POOL_ROW + 64], even[POOL_ROW + 32], odd[POOL_ROW + 32], sum[POOL_ROW];
    BLOCK_LOOP for (int k = 0; k < 2 * POOL_ROW + 64; k++) line[k] = 0;
    for (I64 r = y0; r < y1; r++) {
        GLOBAL const T *row = x + r * p.w + begin;
        PRIVATE A *to = line + begin - before;
        VECTOR_LOOP for (I64 k = 0; k < count; k++) to[k] += LOAD(row, k);
    }
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
    VECTOR_LOOP for (I64 l = 0; l < outs; l++) STORE(y, at + l, sum[l] / divisor);
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
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        GLOBAL T *y = out + i * p.out_w;
        const I64 y0 = POOL_TOP(oy), y1 = POOL_BOTTOM(oy);
        POOL_WHOLE_OF_ROW
        const A divisor = (A)(p.exclude_padding ? (y1 - y0) * p.size_w : p.size_h * p.size_w);
        if (POOL_SUMS_ROWS) {
            for (I64 o = 0; o < p.out_w; o += POOL_ROW) pool_sum_row(p, x, y, y0, y1, divisor, o, least(p.out_w - o, POOL_ROW));
            continue;
        }
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
    BLOCK_LOOP for (int l = 0; l < n; l++) sum[l] = 0;
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
        for (int b = 0; 2 * b < end; b += 16) {
            PRIVATE const A *t = sum + b;
            PRIVATE A *to = line + 2 * b;
            pool_column_sums_16(p, dy, sum + b + 1, o0, o1, q + b);
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

/* The pixel (row, column) of image n that element i belongs to, channels-last, and its channel k. */
typedef struct pool_place {
    I64 n, row, column, k;
} pool_place;
FUNC pool_place pool_place_of(I64 i, I64 rows, I64 columns, I64 channels)
{
    const I64 pixel = QUOTIENT(i, channels), line = QUOTIENT(pixel, columns), n = QUOTIENT(line, rows);
    const pool_place at = {n, line - n * rows, pixel - line * columns, i - pixel * channels};
    return at;
}

/* Channels-last, an element of the result is a work item; `width` channels of a pixel are taken side by side. All are
 * added in the order of the kernels above. */
KERNEL3(max_pool2d_columns, pool2d_params, T, out, I32, index, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const pool_place at = pool_place_of(i, p.out_h, p.out_w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, POOL_WIDTH);
        const I64 y0 = POOL_TOP(at.row), y1 = POOL_BOTTOM(at.row), x0 = POOL_LEFT(at.column), x1 = POOL_RIGHT(at.column);
        GLOBAL const T *x = in0 + p.x_offset + at.n * p.h * p.w * p.channels + at.k;
        const I64 first = y0 * p.w + x0;
        A best[CHUNKED ? POOL_WIDTH : 1];
        I32 from[CHUNKED ? POOL_WIDTH : 1];
        for (int l = 0; l < width; l++) best[l] = LOAD(x, first * p.channels + l);
        for (int l = 0; l < width; l++) from[l] = (I32)first;
        for (I64 r = y0; r < y1; r++)
            for (I64 c = x0; c < x1; c++) {
                const I32 here = (I32)(r * p.w + c);
                GLOBAL const T *v = x + here * p.channels;
                VECTOR_LOOP for (int l = 0; l < width; l++) {
                    const A value = LOAD(v, l);
                    I32 take = value > best[l] ? 1 : 0;
                    take = value != value ? 1 : take;
                    best[l] = take ? value : best[l];
                    from[l] = take ? here : from[l];
                }
            }
        for (int l = 0; l < width; l++) STORE(out, i + l, best[l]);
        for (int l = 0; l < width; l++) index[i + l] = from[l];
        i += ITEMS_STEP(width);
    }
}

KERNEL3(max_pool2d_spread_columns, pool2d_params, T, out, const T, in0, const I32, index)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const pool_place at = pool_place_of(i, p.h, p.w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, POOL_WIDTH);
        const I64 o0 = POOL_ROW_FROM(at.row), o1 = POOL_ROW_TO(at.row);
        const I64 q0 = POOL_COLUMN_FROM(at.column), q1 = POOL_COLUMN_TO(at.column);
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

/* Elements that make a share worthwhile. */
#define GRAIN 8192

static pool2d_params params_of(const haul__pool2d_attributes *a)
{
    return (pool2d_params){.h = a->in[0],
                           .w = a->in[1],
                           .out_h = a->out[0],
                           .out_w = a->out[1],
                           .channels = a->channels,
                           .size_h = a->size[0],
                           .size_w = a->size[1],
                           .stride_h = a->stride[0],
                           .stride_w = a->stride[1],
                           .padding_h = a->padding[0],
                           .padding_w = a->padding[1],
                           .exclude_padding = a->exclude_padding || a->adaptive,
                           .adaptive = a->adaptive};
}

/* Row-major, a work item is a row of the result; channels-last, an element. */
static haul_status launch(const haul__call *c, const haul__pool2d_attributes *a, haul_tensor *const *outs,
                          int out_count, haul_tensor *const *ins, int in_count, pool2d_params *p)
{
    int     kernel = c->operation->kernel;
    int64_t row = a->channels_last ? 1 : outs[0]->shape.dims[3];
    int64_t window = p->size_h * p->size_w, work = window > GRAIN / row ? GRAIN : row * window; /* no overflow */
    p->items = outs[0]->count / row;
    return haul__launch_kernel(c, a->channels_last ? haul__kernel_infos[kernel].columns : kernel, outs[0]->dtype, outs,
                               out_count, ins, in_count, p, sizeof *p, p->items, work >= GRAIN ? 1 : GRAIN / work);
}

haul_status haul__pool2d_max(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    haul_tensor                   *y = c->results[0], *index = c->results[1];
    pool2d_params                  p = params_of(a);
    if (!index) /* the kernel finds it either way */
        index = haul__temporary_strided(c, HAUL_I32, &y->shape, y->strides);
    if (!index)
        return haul_error_status();
    p.x_offset = c->operands[0]->offset;
    return launch(c, a, (haul_tensor *[]){y, index}, 2, c->operands, 1, &p);
}

haul_status haul__pool2d_avg(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    pool2d_params                  p = params_of(a);
    p.x_offset = c->operands[0]->offset;
    return launch(c, a, c->results, 1, c->operands, 1, &p);
}

haul_status haul__pool2d_backward(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    haul_tensor                   *g = haul__as_format(c, c->operands[0], a->channels_last);
    pool2d_params                  p = params_of(a);
    if (!g)
        return haul_error_status();
    p.y_offset = g->offset;
    if (c->count == 1)
        return launch(c, a, c->results, 1, &g, 1, &p);
    p.index_offset = c->operands[1]->offset;
    return launch(c, a, c->results, 1, (haul_tensor *[]){g, c->operands[1]}, 2, &p);
}

haul_status haul__pool2d_pick(haul__call *c)
{
    const haul__pool2d_attributes *a = haul__attributes(c);
    haul_tensor                   *y = c->results[0], *index = c->operands[1];
    haul_tensor                   *x = haul__as_format(c, c->operands[0], a->channels_last);
    pool2d_params                  p = params_of(a);
    if (!x)
        return haul_error_status();
    p.items = y->count;
    p.channels = a->channels_last ? p.channels : 1;
    p.x_offset = x->offset;
    p.index_offset = index->offset;
    return haul__launch_kernel(c, c->operation->kernel, y->dtype, &y, 1, (haul_tensor *[]){x, index}, 2, &p, sizeof p,
                               p.items, GRAIN);
}
