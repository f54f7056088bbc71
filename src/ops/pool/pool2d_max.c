/* The kernels of pooling by the maximum. Where a gradient will be needed, they keep where they found each element
 * (pool2d_max_gradient.c). */
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/pool/pool2d.h"

// clang-format off
/* kernel text begins */
#include "ops/pool/pool2d_kernel.h"

#if defined(HAUL_KERNEL) && IS_FLOAT
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
/* The same without the places. */
INLINE void pool_most_four(GLOBAL const T *upper, GLOBAL const T *lower, GLOBAL T *y, int n)
{
    BLOCK_LOOP for (int o = 0; o < n; o++) {
        const A left = M_MAX(LOAD(upper, 2 * o), LOAD(lower, 2 * o));
        STORE(y, o, M_MAX(left, M_MAX(LOAD(upper, 2 * o + 1), LOAD(lower, 2 * o + 1))));
    }
}
#if CHUNKED && HAS_VECTORS
/* The rows [i, last) of y, behind each of which another row of the same thread comes: a short row is computed as one
 * block of n, of which the next row covers the excess. */
INLINE void pool_halve_rows(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, GLOBAL I32 *found, I64 i, I64 last, int places, int n)
{
    const I64 plane = QUOTIENT(i, p.out_h), unused = p.h & 1 ? p.w : 0;
    I64 row = i - plane * p.out_h;
    GLOBAL const T *upper = x + (plane * p.h + 2 * row) * p.w;
    for (; i < last; i++) {
        for (I64 o = 0; o < p.out_w; o += n) {
            const I64 b = p.out_w < n ? 0 : least(o, p.out_w - n), to = i * p.out_w + b;
            GLOBAL const T *v = upper + 2 * b;
            if (places) pool_halve(v, v + p.w, y + to, found + to, (I32)(2 * (row * p.w + b)), (I32)p.w, n);
            else pool_most_four(v, v + p.w, y + to, n);
        }
        row++;
        upper += 2 * p.w + (row == p.out_h ? unused : 0);
        row = row == p.out_h ? 0 : row;
    }
}
#endif
/* Put the elements at even and at odd places of the `count` that windows two apart need side by side, and so is then what
 * one tap of n windows reads, where columns do not come first (see below). */
INLINE int pool_splits(const pool2d_params p, I64 step, int n)
{
    return !HAS_VECTORS && step == 2 && n > 1 && p.size_w > 1 && p.size_w <= 16;
}
INLINE void pool_split(GLOBAL const T *v, PRIVATE A *even, PRIVATE A *odd, int count, int n)
{
    BLOCK_LOOP for (int l = 0; l < n; l++) {
        even[l] = LOAD(v, 2 * l);
        odd[l] = LOAD(v, 2 * l + 1);
    }
    for (int k = 2 * n; k < count; k++) *((k & 1 ? odd : even) + (k >> 1)) = LOAD(v, k);
}

/* A larger element replaces the one in MOST, as does NaN. */
TEMPLATE(pool_take, MOST, WHERE, VALUE, PLACE)
        take = VALUE > MOST ? 1 : 0;
        take = VALUE != VALUE ? 1 : take;
        MOST = take ? VALUE : MOST;
        WHERE = take ? PLACE : WHERE;
END_TEMPLATE
/* Outputs of whole windows `step` apart, `rows` high; v is the first's first element, which is element `at` of the plane. */
INLINE void pool_max_whole(const pool2d_params p, GLOBAL const T *v, GLOBAL T *y, GLOBAL I32 *found, I32 at, I64 rows, I64 step, int n)
{
    const int split = pool_splits(p, step, n);
    A best[16], even[24], odd[24];
    I32 from[16];
    BLOCK_LOOP for (int l = 0; l < n; l++) best[l] = LOAD(v, l * step);
    BLOCK_LOOP for (int l = 0; l < n; l++) from[l] = at + l * (I32)step;
    for (I64 r = 0; r < rows; r++) {
        I64 c = 0;
        if (split) pool_split(v + r * p.w, even, odd, 2 * n - 2 + (int)p.size_w, n);
        for (; c + 3 <= p.size_w && split; c += 3) { /* three at once, as each pass reads and writes best and from */
            PRIVATE const A *t0 = pool_tap(even, odd, c), *t1 = pool_tap(even, odd, c + 1), *t2 = pool_tap(even, odd, c + 2);
            const I32 here = at + (I32)(r * p.w + c);
            BLOCK_LOOP for (int l = 0; l < n; l++) {
                const I32 place = here + l * (I32)step;
                A most = best[l];
                I32 take, where = from[l];
                EXPAND(pool_take, most, where, t0[l], place)
                EXPAND(pool_take, most, where, t1[l], place + 1)
                EXPAND(pool_take, most, where, t2[l], place + 2)
                best[l] = most;
                from[l] = where;
            }
        }
        for (; c < p.size_w; c++) {
            const I32 here = at + (I32)(r * p.w + c);
            PRIVATE const A *tap = split ? pool_tap(even, odd, c) : even;
            BLOCK_LOOP for (int l = 0; l < n; l++) {
                const A value = split ? tap[l] : LOAD(v, r * p.w + c + l * step);
                A most = best[l];
                I32 take, where = from[l];
                EXPAND(pool_take, most, where, value, here + l * (I32)step)
                best[l] = most;
                from[l] = where;
            }
        }
    }
    BLOCK_LOOP for (int l = 0; l < n; l++) STORE(y, l, best[l]);
    BLOCK_LOOP for (int l = 0; l < n; l++) found[l] = from[l];
}
/* Where windows are two apart, the maxima of columns and their places come first, those of even and of odd columns
 * apart, and then those of the windows: of as many rows at once as fit, as a vector that is loaded from where parts of it
 * were just stored has to wait. Where there is no column, -inf is at a place behind all others. The CPU's level without
 * wide vectors has none of this, which keeps its code short. */
typedef struct pool_best {
    PRIVATE A *even, *odd;
    PRIVATE I32 *even_at, *odd_at;
} pool_best;
FUNC pool_best pool_best_from(pool_best best, I64 k)
{
    const pool_best from = {best.even + k, best.odd + k, best.even_at + k, best.odd_at + k};
    return from;
}
/* Of `rows` rows. v is element `at` of the plane. */
INLINE void pool_best_columns(const pool2d_params p, GLOBAL const T *v, pool_best to, I32 at, I64 rows, int n)
{
    const I64 down = least((I64)1, rows - 1) * p.w, bottom = least((I64)2, rows - 1) * p.w;
    GLOBAL const T *second = v + down, *third = v + bottom;
    BLOCK_LOOP for (int l = 0; l < n; l++) {
        A even = LOAD(v, 2 * l), odd = LOAD(v, 2 * l + 1);
        I32 take, even_at = at + 2 * l, odd_at = at + 2 * l + 1;
        EXPAND(pool_take, even, even_at, LOAD(second, 2 * l), at + (I32)down + 2 * l)
        EXPAND(pool_take, odd, odd_at, LOAD(second, 2 * l + 1), at + (I32)down + 2 * l + 1)
        EXPAND(pool_take, even, even_at, LOAD(third, 2 * l), at + (I32)bottom + 2 * l)
        EXPAND(pool_take, odd, odd_at, LOAD(third, 2 * l + 1), at + (I32)bottom + 2 * l + 1)
        to.even[l] = even;
        to.odd[l] = odd;
        to.even_at[l] = even_at;
        to.odd_at[l] = odd_at;
    }
    for (I64 r = 3; r < rows; r++) {
        GLOBAL const T *next = v + r * p.w;
        const I32 here = at + (I32)(r * p.w);
        BLOCK_LOOP for (int l = 0; l < n; l++) {
            A even = to.even[l], odd = to.odd[l];
            I32 take, even_at = to.even_at[l], odd_at = to.odd_at[l];
            EXPAND(pool_take, even, even_at, LOAD(next, 2 * l), here + 2 * l)
            EXPAND(pool_take, odd, odd_at, LOAD(next, 2 * l + 1), here + 2 * l + 1)
            to.even[l] = even;
            to.odd[l] = odd;
            to.even_at[l] = even_at;
            to.odd_at[l] = odd_at;
        }
    }
}
/* The pairs [begin, end) of `rows` rows. The last may be half a pair. */
FUNC void pool_best_pairs(const pool2d_params p, GLOBAL const T *x, pool_best to, I64 top, I64 rows, I64 begin, I64 end)
{
    const I64 whole = least(end, p.w >> 1);
    EXPAND(pool_blocks, begin, whole, pool_best_columns(p, x + top * p.w + 2 * o, pool_best_from(to, o - begin), (I32)(top * p.w + 2 * o), rows, n))
    if (whole >= end) return;
    A left, right;
    I32 left_at, right_at;
    const pool_best last = {&left, &right, &left_at, &right_at};
    const I64 behind = top * p.w + p.w - 2;
    pool_best_columns(p, x + behind, last, (I32)behind, rows, 1);
    to.even[end - 1 - begin] = right;
    to.even_at[end - 1 - begin] = right_at;
}
/* The larger of two maxima, found in any order: the first of two equal ones, the last of two NaN. */
INLINE void pool_meet(PRIVATE const A *one, PRIVATE const I32 *one_at, PRIVATE const A *other, PRIVATE const I32 *other_at, PRIVATE A *to, PRIVATE I32 *to_at, int n)
{
    BLOCK_LOOP for (int l = 0; l < n; l++) {
        const A most = one[l], value = other[l];
        const I32 where = one_at[l], place = other_at[l];
        const I32 take = (value > most) | ((value == most) & (place < where)) |
                         ((value != value) & ((most == most) | (place > where)));
        to[l] = take ? value : most;
        to_at[l] = take ? place : where;
    }
}
INLINE void pool_best_windows(const pool2d_params p, pool_best of, GLOBAL T *y, GLOBAL I32 *found, int n)
{
    A two[16], best[16];
    I32 two_at[16], best_at[16];
    const I64 last = p.size_w - 1, third = least((I64)2, last);
    pool_meet(pool_column(p, of.even, of.odd, 0), pool_tap_at(of.even_at, of.odd_at, 0 - p.padding_w), pool_column(p, of.even, of.odd, 1), pool_tap_at(of.even_at, of.odd_at, 1 - p.padding_w), two, two_at, n);
    pool_meet(two, two_at, pool_column(p, of.even, of.odd, third), pool_tap_at(of.even_at, of.odd_at, third - p.padding_w), best, best_at, n);
    for (I64 c = 3; c <= last; c++) pool_meet(best, best_at, pool_column(p, of.even, of.odd, c), pool_tap_at(of.even_at, of.odd_at, c - p.padding_w), best, best_at, n);
    BLOCK_LOOP for (int l = 0; l < n; l++) STORE(y, l, best[l]);
    BLOCK_LOOP for (int l = 0; l < n; l++) found[l] = best_at[l];
}
/* Outputs [at, at + outs) of `rows` rows, the first of which is row `oy` of a plane. */
FUNC void pool_best_rows(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, GLOBAL I32 *found, pool_best best, I64 oy, I64 rows, I64 at, I64 outs)
{
    const I64 pitch = outs + pool_before(p) + pool_behind(p), begin = M_MAX_OF(at - pool_before(p), (I64)0);
    const I64 end = least(at + outs + pool_behind(p), (p.w + 1) >> 1);
    for (I64 r = 0; r < rows; r++) {
        const I64 y0 = pool_top(p, oy + r), y1 = pool_bottom(p, oy + r), to = r * pitch + begin - (at - pool_before(p));
        pool_fetch(p, x + y0 * p.w);
        pool_best_pairs(p, x, pool_best_from(best, to), y0, y1 - y0, begin, end);
    }
    for (I64 r = 0; r < rows; r++) {
        const I64 from = r * pitch + pool_before(p), to = r * p.out_w + at;
        EXPAND(pool_blocks, (I64)0, outs, pool_best_windows(p, pool_best_from(best, from + o), y + to + o, found + to + o, n))
    }
}
FUNC void pool_best_by_pairs(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, GLOBAL I32 *found, I64 i, I64 last)
{
    const I64 reach = pool_before(p) + pool_behind(p), outs = least(p.out_w, POOL_ROUND - reach);
    const I64 most = outs == p.out_w ? QUOTIENT(POOL_ROUND, outs + reach) : 1;
    A even[POOL_ROUND], odd[POOL_ROUND];
    I32 even_at[POOL_ROUND], odd_at[POOL_ROUND];
    const pool_best best = {even, odd, even_at, odd_at};
    for (int fresh = 1; i < last; fresh = outs < p.out_w) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h, rows = least(most, least(p.out_h - oy, last - i));
        for (I64 at = 0; at < p.out_w; at += outs) {
            for (int l = 0; l < POOL_ROUND && fresh; l++) {
                even[l] = odd[l] = -(LIT(1.0) / LIT(0.0));
                even_at[l] = odd_at[l] = 0x7fffffff;
            }
            fresh = 1;
            pool_best_rows(p, x + plane * p.h * p.w, y + i * p.out_w, found + i * p.out_w, best, oy, rows, at, least(p.out_w - at, outs));
        }
        i += rows;
    }
}
INLINE void pool_max_one(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, GLOBAL I32 *found, I64 y0, I64 y1, I64 o)
{
    const I64 x0 = pool_left(p, o), x1 = pool_right(p, o);
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
#if CHUNKED && HAS_VECTORS
    if (pool_by_pairs(p)) {
        pool_best_by_pairs(p, in0 + p.x_offset, out, index, ITEMS_BEGIN, ITEMS_END);
        return;
    }
#endif
    I64 first = CHUNKED ? pool_whole_first(p) : 0, last = CHUNKED ? pool_whole_last(p, first) : 0;
    I64 first_item = ITEMS_BEGIN;
#if CHUNKED && HAS_VECTORS
    if (pool_is_halving(p) && p.out_w > 1 && ITEMS_END > first_item) {
        EXPAND(pool_once, p.out_w, pool_halve_rows(p, in0 + p.x_offset, out, index, first_item, ITEMS_END - 1, 1, n))
        first_item = ITEMS_END - 1;
    }
#endif
    for (I64 i = first_item; i < ITEMS_END; i += ITEMS_STEP(1)) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        GLOBAL T *y = out + i * p.out_w;
        GLOBAL I32 *found = index + i * p.out_w;
        if (pool_is_halving(p)) {
            const I32 at = (I32)(2 * oy * p.w), width = (I32)p.w;
            GLOBAL const T *upper = x + at, *lower = upper + width;
            EXPAND(pool_blocks, (I64)0, p.out_w, pool_halve(upper + 2 * o, lower + 2 * o, y + o, found + o, at + (I32)(2 * o), width, n))
            continue;
        }
        const I64 y0 = pool_top(p, oy), y1 = pool_bottom(p, oy);
        if (!CHUNKED) {
            first = pool_whole_first(p);
            last = pool_whole_last(p, first);
        }
        for (I64 o = 0; o < first; o++) pool_max_one(p, x, y, found, y0, y1, o);
        EXPAND(pool_blocks, first, last,
               const I64 at = y0 * p.w + o * p.stride_w - p.padding_w;
               if (p.stride_w == 1) pool_max_whole(p, x + at, y + o, found + o, (I32)at, y1 - y0, 1, n);
               else if (p.stride_w == 2) pool_max_whole(p, x + at, y + o, found + o, (I32)at, y1 - y0, 2, n);
               else pool_max_whole(p, x + at, y + o, found + o, (I32)at, y1 - y0, p.stride_w, n))
        for (I64 o = last; o < p.out_w; o++) pool_max_one(p, x, y, found, y0, y1, o);
    }
}

/* Where the places are not wanted, the maxima of columns come first, in a line, and then those of the windows in it. */
enum { POOL_LINE = 192 };
INLINE void pool_max_columns(GLOBAL const T *r0, GLOBAL const T *r1, GLOBAL const T *r2, PRIVATE const A *before, PRIVATE A *to, int n)
{
    BLOCK_LOOP for (int l = 0; l < n; l++) {
        const A upper = M_MAX(LOAD(r0, l), LOAD(r1, l)), lower = M_MAX(LOAD(r2, l), before[l]);
        to[l] = M_MAX(upper, lower);
    }
}
INLINE void pool_max_pairs(GLOBAL const T *r0, GLOBAL const T *r1, PRIVATE A *to, int n)
{
    BLOCK_LOOP for (int l = 0; l < n; l++) to[l] = M_MAX(LOAD(r0, l), LOAD(r1, l));
}
/* The columns [0, count) of `rows` rows from v on: two rows, or three rows at once, of which the last may be one row.
 * `none` is -inf 16 times: values in `to` before the first rows may come from columns behind another row's last. */
FUNC void pool_max_rows(const pool2d_params p, GLOBAL const T *v, PRIVATE A *to, PRIVATE const A *none, I64 rows, I64 count)
{
    for (I64 r = 0; r < rows && rows != 2; r += 3) {
        GLOBAL const T *r0 = v + r * p.w, *r1 = v + least(r + 1, rows - 1) * p.w, *r2 = v + least(r + 2, rows - 1) * p.w;
        EXPAND(pool_blocks, (I64)0, count, pool_max_columns(r0 + o, r1 + o, r2 + o, !HAS_VECTORS || r > 0 ? to + o : none, to + o, n))
    }
    if (rows != 2) return;
    EXPAND(pool_blocks, (I64)0, count, pool_max_pairs(v + o, v + p.w + o, to + o, n))
}
INLINE PRIVATE const A *pool_max_tap(PRIVATE const A *line, PRIVATE const A *even, PRIVATE const A *odd, I64 step, I64 c)
{
    return step == 2 ? pool_tap(even, odd, c) : line + c;
}
/* `outs` windows of a line. Each step goes through the whole line, as a vector that is loaded from where parts of it were
 * just stored has to wait. */
FUNC void pool_max_windows(const pool2d_params p, PRIVATE const A *line, GLOBAL T *y, I64 outs)
{
    const I64 step = p.stride_w, last = p.size_w - 1;
    A even[POOL_LINE / 2], odd[POOL_LINE / 2], most[64];
    for (I64 l = 0; l < outs && step > 2; l++) {
        A v = line[l * step];
        for (I64 c = 1; c <= last; c++) v = M_MAX(v, line[l * step + c]);
        STORE(y, l, v);
    }
    if (step > 2) return;
    for (I64 b = 0; b < outs + 8 && step == 2; b += 16) pool_split_block(line + 2 * b, even + b, odd + b);
    for (I64 b = 0; b < outs && last > 1; b += 16) {
        PRIVATE const A *tap = pool_max_tap(line, even, odd, step, 0) + b;
        PRIVATE A *to = most + b;
        BLOCK_LOOP for (int l = 0; l < 16; l++) to[l] = tap[l];
        for (I64 c = 1; c < last; c++) {
            tap = pool_max_tap(line, even, odd, step, c) + b;
            BLOCK_LOOP for (int l = 0; l < 16; l++) to[l] = M_MAX(to[l], tap[l]);
        }
    }
    PRIVATE const A *rest = last > 1 ? most : pool_max_tap(line, even, odd, step, 0), *tap = pool_max_tap(line, even, odd, step, last);
    VECTOR_LOOP for (I64 l = 0; l < outs; l++) STORE(y, l, M_MAX(rest[l], tap[l]));
}
/* Outputs [at, at + outs) of `rows` rows, the first of which is row `oy` of a plane. More than one only if windows do
 * not overlap and cover their rows, so that the rows' columns make one line: then a short row is read as a whole block
 * where the `total` elements behind x allow it, and the next row covers the excess. */
FUNC void pool_max_line(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, I64 oy, I64 rows, I64 at, I64 outs, I64 total)
{
    const I64 step = p.stride_w, before = step * at - p.padding_w, begin = M_MAX_OF(before, (I64)0);
    const I64 count = least(before + step * (outs - 1) + p.size_w, p.w) - begin;
    const I64 used = least(step * ((rows * outs + 15) & ~(I64)15) + 32, POOL_LINE);
    A line[POOL_LINE], none[16];
    BLOCK_LOOP for (int l = 0; l < 16; l++) none[l] = -(LIT(1.0) / LIT(0.0));
    for (I64 b = 0; b < used && (p.size_h != 2 || p.padding_h + p.padding_w > 0); b += 16) {
        PRIVATE A *to = line + b;
        BLOCK_LOOP for (int l = 0; l < 16; l++) to[l] = -(LIT(1.0) / LIT(0.0));
    }
    for (I64 r = 0; r < rows; r++) {
        const I64 y0 = pool_top(p, oy + r), y1 = pool_bottom(p, oy + r);
        const int whole = HAS_VECTORS && rows > 1 && count < 16 && (y1 - 1) * p.w + 16 <= total;
        pool_max_rows(p, x + y0 * p.w + begin, line + r * p.w + begin - before, none, y1 - y0, whole ? 16 : count);
    }
    pool_max_windows(p, line, y + at, rows * outs);
}
/* Where windows are two apart, of even and of odd columns apart, as above: -inf where there is no column. */
INLINE void pool_most_columns(const pool2d_params p, GLOBAL const T *v, PRIVATE A *even, PRIVATE A *odd, I64 rows, int n)
{
    GLOBAL const T *second = v + least((I64)1, rows - 1) * p.w, *third = v + least((I64)2, rows - 1) * p.w;
    BLOCK_LOOP for (int l = 0; l < n; l++) {
        even[l] = M_MAX(M_MAX(LOAD(v, 2 * l), LOAD(second, 2 * l)), LOAD(third, 2 * l));
        odd[l] = M_MAX(M_MAX(LOAD(v, 2 * l + 1), LOAD(second, 2 * l + 1)), LOAD(third, 2 * l + 1));
    }
    for (I64 r = 3; r < rows; r += 3) { /* of two equal zeros, one of the next rows would not be what lines give */
        GLOBAL const T *r0 = v + r * p.w, *r1 = v + least(r + 1, rows - 1) * p.w, *r2 = v + least(r + 2, rows - 1) * p.w;
        BLOCK_LOOP for (int l = 0; l < n; l++) {
            even[l] = M_MAX(M_MAX(LOAD(r0, 2 * l), LOAD(r1, 2 * l)), M_MAX(LOAD(r2, 2 * l), even[l]));
            odd[l] = M_MAX(M_MAX(LOAD(r0, 2 * l + 1), LOAD(r1, 2 * l + 1)), M_MAX(LOAD(r2, 2 * l + 1), odd[l]));
        }
    }
}
FUNC void pool_most_pairs(const pool2d_params p, GLOBAL const T *v, PRIVATE A *even, PRIVATE A *odd, I64 rows, I64 begin, I64 end)
{
    const I64 whole = least(end, p.w >> 1);
    EXPAND(pool_blocks, begin, whole, pool_most_columns(p, v + 2 * o, even + o - begin, odd + o - begin, rows, n))
    if (whole >= end) return;
    A left, right;
    pool_most_columns(p, v + p.w - 2, &left, &right, rows, 1);
    even[end - 1 - begin] = right;
}
INLINE void pool_most_windows(const pool2d_params p, PRIVATE const A *even, PRIVATE const A *odd, GLOBAL T *y, int n)
{
    A most[16];
    PRIVATE const A *before = pool_column(p, even, odd, 0), *last = pool_column(p, even, odd, p.size_w - 1);
    for (I64 c = 1; c < p.size_w - 1; c++) {
        PRIVATE const A *tap = pool_column(p, even, odd, c);
        BLOCK_LOOP for (int l = 0; l < n; l++) most[l] = M_MAX(before[l], tap[l]);
        before = most;
    }
    BLOCK_LOOP for (int l = 0; l < n; l++) STORE(y, l, M_MAX(before[l], last[l]));
}
FUNC void pool_most_rows(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, PRIVATE A *even, PRIVATE A *odd, I64 oy, I64 rows, I64 at, I64 outs)
{
    const I64 pitch = outs + pool_before(p) + pool_behind(p), begin = M_MAX_OF(at - pool_before(p), (I64)0);
    const I64 end = least(at + outs + pool_behind(p), (p.w + 1) >> 1);
    for (I64 r = 0; r < rows; r++) {
        const I64 y0 = pool_top(p, oy + r), y1 = pool_bottom(p, oy + r), to = r * pitch + begin - (at - pool_before(p));
        pool_fetch(p, x + y0 * p.w);
        pool_most_pairs(p, x + y0 * p.w, even + to, odd + to, y1 - y0, begin, end);
    }
    for (I64 r = 0; r < rows; r++) {
        const I64 from = r * pitch + pool_before(p), to = r * p.out_w + at;
        EXPAND(pool_blocks, (I64)0, outs, pool_most_windows(p, even + from + o, odd + from + o, y + to + o, n))
    }
}
FUNC void pool_most_by_pairs(const pool2d_params p, GLOBAL const T *x, GLOBAL T *y, I64 i, I64 last)
{
    const I64 reach = pool_before(p) + pool_behind(p), outs = least(p.out_w, POOL_ROUND - reach);
    const I64 most = outs == p.out_w ? QUOTIENT(POOL_ROUND, outs + reach) : 1;
    A even[POOL_ROUND], odd[POOL_ROUND];
    for (int fresh = 1; i < last; fresh = outs < p.out_w) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h, rows = least(most, least(p.out_h - oy, last - i));
        for (I64 at = 0; at < p.out_w; at += outs) {
            for (int l = 0; l < POOL_ROUND && fresh; l++) even[l] = odd[l] = -(LIT(1.0) / LIT(0.0));
            fresh = 1;
            pool_most_rows(p, x + plane * p.h * p.w, y + i * p.out_w, even, odd, oy, rows, at, least(p.out_w - at, outs));
        }
        i += rows;
    }
}
FUNC A pool_largest(const pool2d_params p, GLOBAL const T *x, I64 y0, I64 y1, I64 o)
{
    const I64 x0 = pool_left(p, o), x1 = pool_right(p, o);
    A most = LOAD(x, y0 * p.w + x0);
    for (I64 r = y0; r < y1; r++)
        for (I64 c = x0; c < x1; c++) {
            const A v = LOAD(x, r * p.w + c);
            most = v > most || v != v ? v : most;
        }
    return most;
}

/* The same as max_pool2d without the places: a row of y a work item. Planes that windows divide exactly are as one. */
KERNEL2(max_pool2d_values, pool2d_params, T, out, const T, in0)
{
    I64 first_item = ITEMS_BEGIN;
#if CHUNKED && HAS_VECTORS
    if (pool_by_pairs(p)) {
        pool_most_by_pairs(p, in0 + p.x_offset, out, ITEMS_BEGIN, ITEMS_END);
        return;
    }
    if (pool_is_halving(p) && p.out_w > 1 && ITEMS_END > first_item) {
        EXPAND(pool_once, p.out_w, pool_halve_rows(p, in0 + p.x_offset, out, (GLOBAL I32 *)0, first_item, ITEMS_END - 1, 0, n))
        first_item = ITEMS_END - 1;
    }
#endif
    const int by_lines = CHUNKED && !p.adaptive && p.size_w <= 16 && p.stride_w <= 16;
    const I64 round = !by_lines ? 1 : p.stride_w <= 2 ? 64 : QUOTIENT(128, p.stride_w);
    const int join = p.size_w <= p.stride_w && p.padding_w == 0 && p.out_w * p.stride_w == p.w && p.out_w <= round;
    const int joins_planes = join && p.padding_h == 0 && p.size_h <= p.stride_h && p.out_h * p.stride_h == p.h;
    const I64 joined = join ? QUOTIENT(round, p.out_w) : 1, total = QUOTIENT(p.items, p.out_h) * p.h * p.w;
    pool2d_params q = p;
    if (joins_planes) {
        q.out_h = p.items;
        q.h = p.items * p.stride_h;
    }
    for (I64 i = first_item; i < ITEMS_END && by_lines;) {
        const I64 plane = QUOTIENT(i, q.out_h), oy = i - plane * q.out_h, before = plane * q.h * q.w;
        const I64 rows = least(joined, least(q.out_h - oy, ITEMS_END - i));
        GLOBAL const T *x = in0 + p.x_offset + before;
        for (I64 at = 0; at < p.out_w; at += round)
            pool_max_line(q, x, out + i * p.out_w, oy, rows, at, least(p.out_w - at, round), total - before);
        i += ITEMS_STEP(rows);
    }
    if (!by_lines) FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        const I64 y0 = pool_top(p, oy), y1 = pool_bottom(p, oy);
        for (I64 o = 0; o < p.out_w; o++) STORE(out, i * p.out_w + o, pool_largest(p, x, y0, y1, o));
    }
}

/* Channels-last, an element of the result is a work item; `width` channels of a pixel are taken side by side. They are
 * compared in the order of the kernels above. */
KERNEL3(max_pool2d_columns, pool2d_params, T, out, I32, index, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const pool_place at = pool_place_of(i, p.out_h, p.out_w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, POOL_WIDTH);
        const I64 y0 = pool_top(p, at.row), y1 = pool_bottom(p, at.row), x0 = pool_left(p, at.column), x1 = pool_right(p, at.column);
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

KERNEL2(max_pool2d_values_columns, pool2d_params, T, out, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const pool_place at = pool_place_of(i, p.out_h, p.out_w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, POOL_WIDTH);
        const I64 y0 = pool_top(p, at.row), y1 = pool_bottom(p, at.row), x0 = pool_left(p, at.column), x1 = pool_right(p, at.column);
        GLOBAL const T *x = in0 + p.x_offset + at.n * p.h * p.w * p.channels + at.k;
        A best[CHUNKED ? POOL_WIDTH : 1];
        for (int l = 0; l < width; l++) best[l] = LOAD(x, (y0 * p.w + x0) * p.channels + l);
        for (I64 r = y0; r < y1; r++)
            for (I64 c = x0; c < x1; c++) {
                GLOBAL const T *v = x + (r * p.w + c) * p.channels;
                VECTOR_LOOP for (int l = 0; l < width; l++) {
                    const A value = LOAD(v, l);
                    I32 take = value > best[l] ? 1 : 0;
                    take = value != value ? 1 : take;
                    best[l] = take ? value : best[l];
                }
            }
        for (int l = 0; l < width; l++) STORE(out, i + l, best[l]);
        i += ITEMS_STEP(width);
    }
}
#endif
/* kernel text ends */
// clang-format on
