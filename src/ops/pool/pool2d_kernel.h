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
 * The last block ends with the row, and computes some outputs again. Shorter rows take one output at a time. The CPU's
 * level for processors with vectors of four has no larger blocks, which keeps its code short. */
#if defined(HAUL_KERNEL_LEVEL) && !defined(__AVX2__)
#define POOL_NARROW 1
#else
#define POOL_NARROW 0
#endif
#define POOL_BLOCKS(first, last, DO)                                                                                \
    {                                                                                                                  \
        const I64 pool_count = (last) - (first);                                                                       \
        const int pool_block = pool_count < 4 || !CHUNKED ? 1 : pool_count < 8 || POOL_NARROW ? 4 : pool_count < 16 ? 8 : 16; \
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
/* How many windows of 2 x 2 a loop takes at once: all of a short row, and some behind its last. They may be computed, and
 * written to the row that comes next, if that is the same thread's and comes after. */
#define POOL_ONCE(count, DO)                                                                                           \
    {                                                                                                                  \
        if ((count) > 8) DO(16)                                                                                        \
        else if ((count) > 4) DO(8)                                                                                    \
        else DO(4)                                                                                                     \
    }
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

/* The elements at even and at odd places of 32. */
INLINE void pool_split_block(PRIVATE const A *from, PRIVATE A *even, PRIVATE A *odd)
{
    BLOCK_LOOP for (int l = 0; l < 16; l++) {
        even[l] = from[2 * l];
        odd[l] = from[2 * l + 1];
    }
}
#define POOL_TAP(even, odd, c) (((c) & 1 ? (odd) : (even)) + ((c) >> 1))

/* Where windows are two apart, even and odd columns are worked on apart, in lines of so many pairs. */
#define POOL_ROUND 256
#define POOL_BY_PAIRS                                                                                                  \
    (CHUNKED && p.stride_w == 2 && p.size_w > 1 && p.size_w <= 16 && p.w > 1 && !p.adaptive && !POOL_IS_HALVING)
/* The rows of x that a row of outputs adds are fetched so many elements ahead: processors follow one line through memory
 * by themselves, not the rows of overlapping windows. */
#define POOL_AHEAD 1024
#define POOL_FETCH(top) \
    for (I64 fetched = 0; fetched < p.stride_h * p.w; fetched += 64 / (int)sizeof(T)) FETCH_AHEAD((top) + POOL_AHEAD + fetched);
/* Pairs that the windows reach into before the first one's own and behind the last one's. */
#define POOL_BEFORE ((p.padding_w + 1) >> 1)
#define POOL_BEHIND ((p.size_w - 1 - p.padding_w) >> 1)
/* Column c of the windows, from that window on whose own pair is at even[0] and odd[0]. */
#define POOL_COLUMN(even, odd, c) POOL_TAP(even, odd, (c) - p.padding_w)

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
