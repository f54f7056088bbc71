/* What the kernels of pooling share: their params, and which elements a window has. It is part of the kernel text of
 * pool2d_max.c, pool2d_max_gradient.c and pool2d_avg.c, which include it. */
#ifndef HAUL_OPS_POOL_POOL2D_KERNEL_H
#define HAUL_OPS_POOL_POOL2D_KERNEL_H

// clang-format off
/* x: [planes, h, w]; y: [planes, out_h, out_w]; index (I32): where in the plane of x an element of y comes from. In the
 * kernels ..._columns all three are channels-last: [n, h, w, channels]. */
typedef struct pool2d_params {
    I64 items;
    I64 h, w, out_h, out_w, channels;
    I64 size_h, size_w, stride_h, stride_w, padding_h, padding_w;
    I64 x_offset, y_offset, index_offset;
    I32 exclude_padding, adaptive;
} pool2d_params;

enum { POOL_WIDTH = 64 }; /* channels that are taken side by side */

#if defined(HAUL_KERNEL) && IS_FLOAT
/* The part of window `o` of an axis that is inside it: [top, bottom) of rows, [left, right) of columns. Adaptive windows
 * are the o-th of `count` parts of the axis, rounded outwards. */
INLINE I64 pool_begin(I32 adaptive, I64 o, I64 stride, I64 padding, I64 size, I64 count)
{
    return adaptive ? QUOTIENT(o * size, count) : M_MAX_OF(o * stride - padding, (I64)0);
}
INLINE I64 pool_end(I32 adaptive, I64 o, I64 stride, I64 padding, I64 window, I64 size, I64 count)
{
    return adaptive ? QUOTIENT((o + 1) * size + count - 1, count) : M_MIN_OF(o * stride - padding + window, size);
}
INLINE I64 pool_top(const pool2d_params p, I64 o) { return pool_begin(p.adaptive, o, p.stride_h, p.padding_h, p.h, p.out_h); }
INLINE I64 pool_bottom(const pool2d_params p, I64 o) { return pool_end(p.adaptive, o, p.stride_h, p.padding_h, p.size_h, p.h, p.out_h); }
INLINE I64 pool_left(const pool2d_params p, I64 o) { return pool_begin(p.adaptive, o, p.stride_w, p.padding_w, p.w, p.out_w); }
INLINE I64 pool_right(const pool2d_params p, I64 o) { return pool_end(p.adaptive, o, p.stride_w, p.padding_w, p.size_w, p.w, p.out_w); }
/* The windows [from, to] of rows or columns that element `i` of an axis is in. */
INLINE I64 pool_from(I32 adaptive, I64 i, I64 stride, I64 padding, I64 window, I64 size, I64 count)
{
    if (adaptive) return QUOTIENT(i * count, size);
    return i + padding < window ? (I64)0 : QUOTIENT(i + padding - window, stride) + 1;
}
INLINE I64 pool_to(I32 adaptive, I64 i, I64 stride, I64 padding, I64 size, I64 count)
{
    return adaptive ? QUOTIENT((i + 1) * count - 1, size) : least(QUOTIENT(i + padding, stride), count - 1);
}
INLINE I64 pool_row_from(const pool2d_params p, I64 i) { return pool_from(p.adaptive, i, p.stride_h, p.padding_h, p.size_h, p.h, p.out_h); }
INLINE I64 pool_row_to(const pool2d_params p, I64 i) { return pool_to(p.adaptive, i, p.stride_h, p.padding_h, p.h, p.out_h); }
INLINE I64 pool_column_from(const pool2d_params p, I64 i) { return pool_from(p.adaptive, i, p.stride_w, p.padding_w, p.size_w, p.w, p.out_w); }
INLINE I64 pool_column_to(const pool2d_params p, I64 i) { return pool_to(p.adaptive, i, p.stride_w, p.padding_w, p.w, p.out_w); }

/* The windows [from, to] that a column is in, for columns in order: `right` is where the first of them ends, `left`
 * where the one behind them begins. */
typedef struct pool_columns {
    I64 from, to, right, left;
} pool_columns;
FUNC pool_columns pool_columns_of(const pool2d_params p, I64 c)
{
    const I64 from = pool_column_from(p, c), to = pool_column_to(p, c);
    const pool_columns at = {from, to, pool_right(p, from), pool_left(p, to + 1)};
    return at;
}
FUNC pool_columns pool_columns_next(const pool2d_params p, pool_columns at, I64 c)
{
    while (at.right <= c && at.from < p.out_w) {
        at.from++;
        at.right = pool_right(p, at.from);
    }
    while (at.left <= c && at.to < p.out_w - 1) {
        at.to++;
        at.left = pool_left(p, at.to + 1);
    }
    return at;
}

/* DO, statements about n outputs from o on, for the outputs [FIRST, LAST) of a row, in blocks of a fixed number n, 16, 8 or
 * 4, which vectorise whatever the row's length. The last block ends with the row, and computes some outputs again. Shorter
 * rows take one output at a time. Without HAS_VECTORS there are no larger blocks than 4, which keeps the code short. */
TEMPLATE(pool_blocks, FIRST, LAST, DO)
        {
            const I64 in_row = LAST - FIRST;
            const int block = in_row < 4 || !CHUNKED ? 1 : in_row < 8 || !HAS_VECTORS ? 4 : in_row < 16 ? 8 : 16;
            for (I64 next = FIRST; next < LAST; next += block) {
                const I64 o = least(next, LAST - block);
                if (block == 16) { enum { n = 16 }; DO; }
                else if (block == 8) { enum { n = 8 }; DO; }
                else if (block == 4) { enum { n = 4 }; DO; }
                else { enum { n = 1 }; DO; }
            }
        }
END_TEMPLATE
INLINE I32 pool_is_halving(const pool2d_params p)
{
    return p.size_h == 2 && p.size_w == 2 && p.stride_h == 2 && p.stride_w == 2 && p.padding_h + p.padding_w + p.adaptive == 0;
}
/* How many windows of 2 x 2 a loop takes at once: all of a short row, and some behind its last. They may be computed, and
 * written to the row that comes next, if that is the same thread's and comes after. */
TEMPLATE(pool_once, COUNT, DO)
        if (COUNT > 8) { enum { n = 16 }; DO; }
        else if (COUNT > 4) { enum { n = 8 }; DO; }
        else { enum { n = 4 }; DO; }
END_TEMPLATE
/* Outputs [first, last) of a row have windows that are whole along it; none if windows are adaptive. They are the same for
 * all rows, but a GPU's thread, which has one row, lacks the registers to keep them. */
INLINE I64 pool_whole_first(const pool2d_params p)
{
    return least(p.adaptive ? p.out_w : QUOTIENT(p.padding_w + p.stride_w - 1, p.stride_w), p.out_w);
}
INLINE I64 pool_whole_last(const pool2d_params p, I64 first)
{
    if (p.adaptive || p.w + p.padding_w < p.size_w) return first;
    const I64 last = least(QUOTIENT(p.w + p.padding_w - p.size_w, p.stride_w) + 1, p.out_w);
    return M_MAX_OF(first, last);
}

/* The elements at even and at odd places of 32. */
INLINE void pool_split_block(PRIVATE const A *from, PRIVATE A *even, PRIVATE A *odd)
{
    BLOCK_LOOP for (int l = 0; l < 16; l++) {
        even[l] = from[2 * l];
        odd[l] = from[2 * l + 1];
    }
}
INLINE PRIVATE const A *pool_tap(PRIVATE const A *even, PRIVATE const A *odd, I64 c) { return (c & 1 ? odd : even) + (c >> 1); }
INLINE PRIVATE const I32 *pool_tap_at(PRIVATE const I32 *even, PRIVATE const I32 *odd, I64 c) { return (c & 1 ? odd : even) + (c >> 1); }

/* Where windows are two apart, even and odd columns are worked on apart, in lines of so many pairs. */
enum { POOL_ROUND = 256 };
INLINE I32 pool_by_pairs(const pool2d_params p)
{
    return CHUNKED && p.stride_w == 2 && p.size_w > 1 && p.size_w <= 16 && p.w > 1 && !p.adaptive && !pool_is_halving(p);
}
/* The rows of x that a row of outputs adds are fetched so many elements ahead: processors follow one line through memory
 * by themselves, not the rows of overlapping windows. */
enum { POOL_AHEAD = 1024 };
INLINE void pool_fetch(const pool2d_params p, GLOBAL const T *top)
{
    for (I64 k = 0; k < p.stride_h * p.w; k += 64 / (int)sizeof(T)) FETCH_AHEAD(top + POOL_AHEAD + k);
}
/* Pairs that the windows reach into before the first one's own and behind the last one's. */
INLINE I64 pool_before(const pool2d_params p) { return (p.padding_w + 1) >> 1; }
INLINE I64 pool_behind(const pool2d_params p) { return (p.size_w - 1 - p.padding_w) >> 1; }
/* Column c of the windows, from that window on whose own pair is at even[0] and odd[0]. */
INLINE PRIVATE const A *pool_column(const pool2d_params p, PRIVATE const A *even, PRIVATE const A *odd, I64 c)
{
    return pool_tap(even, odd, c - p.padding_w);
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
#endif
// clang-format on

#endif
