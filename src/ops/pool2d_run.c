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

/* A row of y a work item. */
KERNEL3(max_pool2d, pool2d_params, T, out, I32, index, const T, in0)
{
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        GLOBAL T *y = out + i * p.out_w;
        GLOBAL I32 *found = index + i * p.out_w;
        if (p.size_h == 2 && p.size_w == 2 && p.stride_h == 2 && p.stride_w == 2 && p.padding_h + p.padding_w + p.adaptive == 0) {
            const I32 at = (I32)(2 * oy * p.w), width = (I32)p.w;
            GLOBAL const T *upper = x + at, *lower = upper + width;
            const I64 count = p.out_w;
            VECTOR_LOOP for (I64 o = 0; o < count; o++) {
                const A a = LOAD(upper, 2 * o), b = LOAD(upper, 2 * o + 1);
                const A c = LOAD(lower, 2 * o), d = LOAD(lower, 2 * o + 1);
                /* NaN wins; two selects each, which compilers vectorise. */
                I32 right = b > a ? 1 : 0, low_right = d > c ? 1 : 0;
                right = b != b ? 1 : right;
                low_right = d != d ? 1 : low_right;
                const A top = right ? b : a, bottom = low_right ? d : c;
                I32 below = bottom > top ? 1 : 0;
                below = bottom != bottom ? 1 : below;
                STORE(y, o, below ? bottom : top);
                found[o] = at + (I32)(2 * o) + (below ? width + low_right : right);
            }
        } else {
            const I64 y0 = POOL_TOP(oy), y1 = POOL_BOTTOM(oy);
            for (I64 o = 0; o < p.out_w; o++) {
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
        }
    }
}

/* dx from dy: a row of x a work item. */
KERNEL3(max_pool2d_spread, pool2d_params, T, out, const T, in0, const I32, index)
{
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.h), r = i - plane * p.h;
        GLOBAL const T *dy = in0 + p.y_offset + plane * p.out_h * p.out_w;
        GLOBAL const I32 *found = index + p.index_offset + plane * p.out_h * p.out_w;
        GLOBAL T *dx = out + i * p.w;
        const I64 o0 = POOL_ROW_FROM(r), o1 = POOL_ROW_TO(r);
        if (p.size_h == 2 && p.size_w == 2 && p.stride_h == 2 && p.stride_w == 2 && p.padding_h + p.padding_w + p.adaptive == 0) {
            /* The last of an odd number of rows or columns is in no window. */
            const I32 at = (I32)(r * p.w);
            const I64 count = o0 <= o1 ? p.out_w : 0;
            GLOBAL const T *g = dy + o0 * p.out_w;
            GLOBAL const I32 *from = found + o0 * p.out_w;
            VECTOR_LOOP for (I64 o = 0; o < count; o++) {
                const I32 place = from[o] - at - (I32)(2 * o);
                const T v = g[o];
                dx[2 * o] = place == 0 ? v : (T)0;
                dx[2 * o + 1] = place == 1 ? v : (T)0;
            }
            for (I64 c = 2 * count; c < p.w; c++) dx[c] = 0;
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
    }
}

KERNEL2(avg_pool2d, pool2d_params, T, out, const T, in0)
{
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        const I64 y0 = POOL_TOP(oy), y1 = POOL_BOTTOM(oy);
        for (I64 o = 0; o < p.out_w; o++) {
            const I64 x0 = POOL_LEFT(o), x1 = POOL_RIGHT(o);
            A sum = 0;
            for (I64 r = y0; r < y1; r++)
                for (I64 c = x0; c < x1; c++) sum += LOAD(x, r * p.w + c);
            STORE(out, i * p.out_w + o, sum / (A)(p.exclude_padding ? (y1 - y0) * (x1 - x0) : p.size_h * p.size_w));
        }
    }
}

KERNEL2(avg_pool2d_backward, pool2d_params, T, out, const T, in0)
{
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.h), r = i - plane * p.h;
        GLOBAL const T *dy = in0 + p.y_offset + plane * p.out_h * p.out_w;
        const I64 o0 = POOL_ROW_FROM(r), o1 = POOL_ROW_TO(r);
        pool_columns at = pool_columns_of(p, 0);
        I64 from = -1, to = -1;
        A sum = 0;
        for (I64 c = 0; c < p.w; c++) {
            at = pool_columns_next(p, at, c);
            if (at.from != from || at.to != to) { /* else it is the same as that of the column before */
                from = at.from;
                to = at.to;
                sum = 0;
                for (I64 o = o0; o <= o1; o++) {
                    const I64 rows = POOL_BOTTOM(o) - POOL_TOP(o);
                    for (I64 q = from; q <= to; q++) {
                        const I64 columns = POOL_RIGHT(q) - POOL_LEFT(q);
                        sum += LOAD(dy, o * p.out_w + q) / (A)(p.exclude_padding ? rows * columns : p.size_h * p.size_w);
                    }
                }
            }
            STORE(out, i * p.w + c, sum);
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
        A sum[CHUNKED ? POOL_WIDTH : 1];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 r = y0; r < y1; r++)
            for (I64 c = x0; c < x1; c++) {
                GLOBAL const T *v = x + (r * p.w + c) * p.channels;
                VECTOR_LOOP for (int l = 0; l < width; l++) sum[l] += LOAD(v, l);
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
        A sum[CHUNKED ? POOL_WIDTH : 1];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 o = o0; o <= o1; o++)
            for (I64 q = q0; q <= q1; q++) {
                const I64 rows = POOL_BOTTOM(o) - POOL_TOP(o), columns = POOL_RIGHT(q) - POOL_LEFT(q);
                const A divisor = (A)(p.exclude_padding ? rows * columns : p.size_h * p.size_w);
                GLOBAL const T *g = in0 + p.y_offset + ((at.n * p.out_h + o) * p.out_w + q) * p.channels + at.k;
                VECTOR_LOOP for (int l = 0; l < width; l++) sum[l] += LOAD(g, l) / divisor;
            }
        for (int l = 0; l < width; l++) STORE(out, i + l, sum[l]);
        i += ITEMS_STEP(width);
    }
}
#endif
/* kernel text ends */
// clang-format on

/* Elements whose work is worth a share of its own. */
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
    if (!index) /* the kernel finds it in any case */
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
