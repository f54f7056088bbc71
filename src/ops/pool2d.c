/* Pooling over windows of the last two axes. The maximum keeps where it found each element, so that its gradient is a
 * gather: an element of x looks at the windows it is in. Nothing is added up across work items, on any device. */
#include <stdio.h>

#include "engine/dispatch.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
/* x: [planes, h, w]; y: [planes, out_h, out_w]; index (I32): where in the plane of x an element of y comes from. In the
 * kernels ..._columns all three are channels-last: [n, h, w, channels]. */
typedef struct pool2d_params {
    I64 items;
    I64 h, w, out_h, out_w, channels;
    I64 size_h, size_w, stride_h, stride_w, padding_h, padding_w;
    I64 x_offset, y_offset, index_offset;
    I32 exclude_padding, reserved;
} pool2d_params;

#if defined(HAUL_KERNEL) && IS_FLOAT
/* The part of window `o` that lies inside an axis of `size` elements. */
#define POOL_FIRST(o, stride, padding)              M_MAX_OF((o) * (stride) - (padding), (I64)0)
#define POOL_LAST(o, stride, padding, window, size) M_MIN_OF((o) * (stride) - (padding) + (window), size)
/* The windows that element `i` is in: [POOL_FROM, POOL_TO]. */
#define POOL_FROM(i, stride, padding, window)                                                                          \
    ((i) + (padding) < (window) ? (I64)0 : QUOTIENT((i) + (padding) - (window), stride) + 1)
FUNC I64 pool_least(I64 a, I64 b) { return a < b ? a : b; }
#define POOL_TO(i, stride, padding, count) pool_least(QUOTIENT((i) + (padding), stride), (count) - 1)

/* A row of y a work item. */
KERNEL3(max_pool2d, pool2d_params, T, out, I32, index, const T, in0)
{
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        GLOBAL T *y = out + i * p.out_w;
        GLOBAL I32 *found = index + i * p.out_w;
        if (p.size_h == 2 && p.size_w == 2 && p.stride_h == 2 && p.stride_w == 2 && p.padding_h + p.padding_w == 0) {
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
            const I64 y0 = POOL_FIRST(oy, p.stride_h, p.padding_h);
            const I64 y1 = POOL_LAST(oy, p.stride_h, p.padding_h, p.size_h, p.h);
            for (I64 o = 0; o < p.out_w; o++) {
                const I64 x0 = POOL_FIRST(o, p.stride_w, p.padding_w);
                const I64 x1 = POOL_LAST(o, p.stride_w, p.padding_w, p.size_w, p.w);
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
        const I64 o0 = POOL_FROM(r, p.stride_h, p.padding_h, p.size_h), o1 = POOL_TO(r, p.stride_h, p.padding_h, p.out_h);
        if (p.size_h == 2 && p.size_w == 2 && p.stride_h == 2 && p.stride_w == 2 && p.padding_h + p.padding_w == 0) {
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
            for (I64 c = 0; c < p.w; c++) {
                const I64 q0 = POOL_FROM(c, p.stride_w, p.padding_w, p.size_w);
                const I64 q1 = POOL_TO(c, p.stride_w, p.padding_w, p.out_w);
                A sum = 0;
                for (I64 o = o0; o <= o1; o++)
                    for (I64 q = q0; q <= q1; q++)
                        if (found[o * p.out_w + q] == (I32)(r * p.w + c)) sum += LOAD(dy, o * p.out_w + q);
                STORE(dx, c, sum);
            }
        }
    }
}

/* The elements of x that the maxima came from: an element of y a work item. */
KERNEL3(max_pool2d_pick, pool2d_params, T, out, const T, in0, const I32, index)
{
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h * p.out_w);
        out[i] = in0[p.x_offset + plane * p.h * p.w + index[p.index_offset + i]];
    }
}

KERNEL2(avg_pool2d, pool2d_params, T, out, const T, in0)
{
    FOR_ITEMS(i) {
        const I64 plane = QUOTIENT(i, p.out_h), oy = i - plane * p.out_h;
        GLOBAL const T *x = in0 + p.x_offset + plane * p.h * p.w;
        const I64 y0 = POOL_FIRST(oy, p.stride_h, p.padding_h);
        const I64 y1 = POOL_LAST(oy, p.stride_h, p.padding_h, p.size_h, p.h);
        for (I64 o = 0; o < p.out_w; o++) {
            const I64 x0 = POOL_FIRST(o, p.stride_w, p.padding_w);
            const I64 x1 = POOL_LAST(o, p.stride_w, p.padding_w, p.size_w, p.w);
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
        const I64 o0 = POOL_FROM(r, p.stride_h, p.padding_h, p.size_h), o1 = POOL_TO(r, p.stride_h, p.padding_h, p.out_h);
        for (I64 c = 0; c < p.w; c++) {
            const I64 q0 = POOL_FROM(c, p.stride_w, p.padding_w, p.size_w);
            const I64 q1 = POOL_TO(c, p.stride_w, p.padding_w, p.out_w);
            A sum = 0;
            for (I64 o = o0; o <= o1; o++)
                for (I64 q = q0; q <= q1; q++) {
                    const I64 rows = POOL_LAST(o, p.stride_h, p.padding_h, p.size_h, p.h) - POOL_FIRST(o, p.stride_h, p.padding_h);
                    const I64 columns = POOL_LAST(q, p.stride_w, p.padding_w, p.size_w, p.w) - POOL_FIRST(q, p.stride_w, p.padding_w);
                    sum += LOAD(dy, o * p.out_w + q) / (A)(p.exclude_padding ? rows * columns : p.size_h * p.size_w);
                }
            STORE(out, i * p.w + c, sum);
        }
    }
}

/* Channels-last, an element of the result is a work item: channel k of the pixel at (row, column) of image n, `width` of
 * them side by side. All are added in the order of the kernels above. */
#define POOL_WIDTH (CHUNKED ? 64 : 1)
#define POOL_COLUMNS(rows, columns, ...)                                                                               \
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {                                                                        \
        const I64 pixel = QUOTIENT(i, p.channels), k = i - pixel * p.channels, line = QUOTIENT(pixel, columns), n = QUOTIENT(line, rows);\
        const I64 row = line - n * (rows), column = pixel - line * (columns);                                          \
        const I64 room = CHUNKED ? M_MIN_OF(p.channels - k, ITEMS_END - i) : 1;                                        \
        const int width = (int)M_MIN_OF(room, POOL_WIDTH);                                                             \
        __VA_ARGS__;                                                                                                   \
        i += ITEMS_STEP(width);                                                                                        \
    }

/* Rows y0 .. y1 and columns x0 .. x1 of x that a pixel of y is made of; those of y that a pixel of x is part of. */
#define POOL_WINDOW                                                                                                    \
    const I64 y0 = POOL_FIRST(row, p.stride_h, p.padding_h);                                                           \
    const I64 y1 = POOL_LAST(row, p.stride_h, p.padding_h, p.size_h, p.h);                                             \
    const I64 x0 = POOL_FIRST(column, p.stride_w, p.padding_w);                                                        \
    const I64 x1 = POOL_LAST(column, p.stride_w, p.padding_w, p.size_w, p.w);
#define POOL_USERS                                                                                                     \
    const I64 o0 = POOL_FROM(row, p.stride_h, p.padding_h, p.size_h), o1 = POOL_TO(row, p.stride_h, p.padding_h, p.out_h); \
    const I64 q0 = POOL_FROM(column, p.stride_w, p.padding_w, p.size_w), q1 = POOL_TO(column, p.stride_w, p.padding_w, p.out_w);

KERNEL3(max_pool2d_columns, pool2d_params, T, out, I32, index, const T, in0)
{
    POOL_COLUMNS(p.out_h, p.out_w, {
        POOL_WINDOW
        GLOBAL const T *x = in0 + p.x_offset + n * p.h * p.w * p.channels + k;
        const I64 first = y0 * p.w + x0;
        A best[POOL_WIDTH];
        I32 from[POOL_WIDTH];
        for (int l = 0; l < width; l++) best[l] = LOAD(x, first * p.channels + l);
        for (int l = 0; l < width; l++) from[l] = (I32)first;
        for (I64 r = y0; r < y1; r++)
            for (I64 c = x0; c < x1; c++) {
                const I32 at = (I32)(r * p.w + c);
                GLOBAL const T *v = x + at * p.channels;
                VECTOR_LOOP for (int l = 0; l < width; l++) {
                    const A value = LOAD(v, l);
                    I32 take = value > best[l] ? 1 : 0;
                    take = value != value ? 1 : take;
                    best[l] = take ? value : best[l];
                    from[l] = take ? at : from[l];
                }
            }
        for (int l = 0; l < width; l++) STORE(out, i + l, best[l]);
        for (int l = 0; l < width; l++) index[i + l] = from[l];
    })
}

KERNEL3(max_pool2d_spread_columns, pool2d_params, T, out, const T, in0, const I32, index)
{
    POOL_COLUMNS(p.h, p.w, {
        POOL_USERS
        const I32 at = (I32)(row * p.w + column);
        A sum[POOL_WIDTH];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 o = o0; o <= o1; o++)
            for (I64 q = q0; q <= q1; q++) {
                const I64 user = ((n * p.out_h + o) * p.out_w + q) * p.channels + k;
                GLOBAL const T *g = in0 + p.y_offset + user;
                GLOBAL const I32 *from = index + p.index_offset + user;
                VECTOR_LOOP for (int l = 0; l < width; l++) {
                    const A value = LOAD(g, l);
                    sum[l] += from[l] == at ? value : LIT(0.0);
                }
            }
        for (int l = 0; l < width; l++) STORE(out, i + l, sum[l]);
    })
}

KERNEL3(max_pool2d_pick_columns, pool2d_params, T, out, const T, in0, const I32, index)
{
    FOR_ITEMS(i) {
        const I64 pixel = QUOTIENT(i, p.channels), n = QUOTIENT(pixel, p.out_h * p.out_w);
        out[i] = in0[p.x_offset + (n * p.h * p.w + index[p.index_offset + i] - pixel) * p.channels + i];
    }
}

KERNEL2(avg_pool2d_columns, pool2d_params, T, out, const T, in0)
{
    POOL_COLUMNS(p.out_h, p.out_w, {
        POOL_WINDOW
        GLOBAL const T *x = in0 + p.x_offset + n * p.h * p.w * p.channels + k;
        const A divisor = (A)(p.exclude_padding ? (y1 - y0) * (x1 - x0) : p.size_h * p.size_w);
        A sum[POOL_WIDTH];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 r = y0; r < y1; r++)
            for (I64 c = x0; c < x1; c++) {
                GLOBAL const T *v = x + (r * p.w + c) * p.channels;
                VECTOR_LOOP for (int l = 0; l < width; l++) sum[l] += LOAD(v, l);
            }
        for (int l = 0; l < width; l++) STORE(out, i + l, sum[l] / divisor);
    })
}

KERNEL2(avg_pool2d_backward_columns, pool2d_params, T, out, const T, in0)
{
    POOL_COLUMNS(p.h, p.w, {
        POOL_USERS
        A sum[POOL_WIDTH];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 o = o0; o <= o1; o++)
            for (I64 q = q0; q <= q1; q++) {
                const I64 rows = POOL_LAST(o, p.stride_h, p.padding_h, p.size_h, p.h) - POOL_FIRST(o, p.stride_h, p.padding_h);
                const I64 columns = POOL_LAST(q, p.stride_w, p.padding_w, p.size_w, p.w) - POOL_FIRST(q, p.stride_w, p.padding_w);
                const A divisor = (A)(p.exclude_padding ? rows * columns : p.size_h * p.size_w);
                GLOBAL const T *g = in0 + p.y_offset + ((n * p.out_h + o) * p.out_w + q) * p.channels + k;
                VECTOR_LOOP for (int l = 0; l < width; l++) sum[l] += LOAD(g, l) / divisor;
            }
        for (int l = 0; l < width; l++) STORE(out, i + l, sum[l]);
    })
}
#endif
/* kernel text ends */
// clang-format on

/* Elements whose work is worth a share of its own. */
#define GRAIN 8192

/* The window, the shapes of x and y, and how they lie: what gradients need to know. */
typedef struct pool {
    pool2d_params p;
    haul_shape    x, y;
    bool          channels_last;
} pool;

/* The kernel for rows, and the one for channels side by side. */
#define KERNELS(name) ((const int[]){HAUL__K_##name, HAUL__K_##name##_columns})

/* Row-major, a work item is a row of the result; channels-last, an element. */
static haul_status run(const char *operation, const pool *how, const int *kernels, haul_tensor **outs, int out_count,
                       haul_tensor **ins, int in_count, pool2d_params *p)
{
    const haul_tensor *out = outs[0];
    int64_t            row = how->channels_last || !out->count ? 1 : out->shape.dims[3];
    int64_t window = p->size_h * p->size_w, work = window > GRAIN / row ? GRAIN : row * window; /* no overflow */
    p->items = out->count / row;
    return haul__run(operation, out->storage->device, kernels[how->channels_last], out->dtype, outs, out_count, ins,
                     in_count, p, sizeof *p, p->items, work >= GRAIN ? 1 : GRAIN / work);
}

/* x or dy without gaps, and a fresh result. */
static haul_tensor *lay(const char *operation, haul_tensor *t, const pool *how)
{
    return t ? haul__in_format(operation, t, how->channels_last) : NULL;
}

static haul_tensor *fresh(const char *operation, const haul_tensor *t, haul_dtype dtype, const haul_shape *shape,
                          const pool *how)
{
    return haul__result_in_format(operation, t->storage->device, dtype, shape, how->channels_last);
}

/* ---- maximum ---- */

static haul_tensor *max_spread(const char *operation, haul_tensor *dy, haul_tensor *index, const pool *how);
static haul_tensor *max_pick(const char *operation, haul_tensor *x, haul_tensor *index, const pool *how);

/* y = max_pool2d(x) and spread(dy) both pick or spread by the same index, and are each other's gradients. */
static haul_status gradient_by_spreading(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    if (haul__needs(node, 0))
        out[0] = max_spread(node->name, g, haul__saved(node, 0), node->attributes);
    return out[0] || !haul__needs(node, 0) ? HAUL_OK : haul_error_status();
}

static haul_status gradient_by_picking(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    if (haul__needs(node, 0))
        out[0] = max_pick(node->name, g, haul__saved(node, 0), node->attributes);
    return out[0] || !haul__needs(node, 0) ? HAUL_OK : haul_error_status();
}

static haul_tensor *finish(haul_tensor *y, const char *operation, haul__backward_fn *backward, haul_tensor *x,
                           haul_tensor *index, const pool *how)
{
    return haul__finish(y, &(haul__record){
                               .name = operation,
                               .backward = backward,
                               .inputs = &x,
                               .input_count = 1,
                               .saves = &index,
                               .save_count = index ? 1 : 0,
                               .attributes = how,
                               .attributes_size = sizeof *how,
                           });
}

static haul_tensor *max_spread(const char *operation, haul_tensor *dy, haul_tensor *index, const pool *how)
{
    haul_tensor *dense = index ? lay(operation, dy, how) : NULL;
    haul_tensor *dx = dense ? fresh(operation, dy, dy->dtype, &how->x, how) : NULL;
    if (!dx)
        return NULL;
    pool2d_params p = how->p;
    p.y_offset = dense->offset;
    p.index_offset = index->offset;
    if (run(operation, how, KERNELS(max_pool2d_spread), &dx, 1, (haul_tensor *[]){dense, index}, 2, &p))
        return NULL;
    return finish(dx, operation, gradient_by_picking, dy, index, how);
}

static haul_tensor *max_pick(const char *operation, haul_tensor *x, haul_tensor *index, const pool *how)
{
    haul_tensor *dense = index ? lay(operation, x, how) : NULL;
    haul_tensor *y = dense ? fresh(operation, x, x->dtype, &how->y, how) : NULL;
    if (!y)
        return NULL;
    pool2d_params p = how->p;
    p.x_offset = dense->offset;
    p.index_offset = index->offset;
    p.items = y->count;
    if (haul__run(operation, x->storage->device, KERNELS(max_pool2d_pick)[how->channels_last], x->dtype, &y, 1,
                  (haul_tensor *[]){dense, index}, 2, &p, sizeof p, p.items, GRAIN))
        return NULL;
    return finish(y, operation, gradient_by_spreading, x, index, how);
}

static haul_tensor *max_pool(haul_tensor *x, const pool *how)
{
    const char  *operation = "haul_max_pool2d";
    haul_tensor *dense = lay(operation, x, how);
    haul_tensor *out[] = {fresh(operation, x, x->dtype, &how->y, how), fresh(operation, x, HAUL_I32, &how->y, how)};
    if (!dense || !out[0] || !out[1])
        return NULL;
    pool2d_params p = how->p;
    p.x_offset = dense->offset;
    if (run(operation, how, KERNELS(max_pool2d), out, 2, &dense, 1, &p))
        return NULL;
    return finish(out[0], operation, gradient_by_spreading, x, out[1], how);
}

/* ---- average ---- */

static haul_tensor *avg_pool(haul_tensor *x, const pool *how);
static haul_tensor *avg_pool_backward(haul_tensor *dy, const pool *how);

static haul_status avg_gradient(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    if (haul__needs(node, 0) && !(out[0] = avg_pool_backward(g, node->attributes)))
        return haul_error_status();
    return HAUL_OK;
}

static haul_status avg_second_gradient(haul__node *node, haul_tensor *g, haul_tensor **out)
{
    if (haul__needs(node, 0) && !(out[0] = avg_pool(g, node->attributes)))
        return haul_error_status();
    return HAUL_OK;
}

static haul_tensor *avg_pool(haul_tensor *x, const pool *how)
{
    const char  *operation = "haul_avg_pool2d";
    haul_tensor *dense = lay(operation, x, how), *y = dense ? fresh(operation, x, x->dtype, &how->y, how) : NULL;
    if (!y)
        return NULL;
    pool2d_params p = how->p;
    p.x_offset = dense->offset;
    if (run(operation, how, KERNELS(avg_pool2d), &y, 1, &dense, 1, &p))
        return NULL;
    return finish(y, operation, avg_gradient, x, NULL, how);
}

static haul_tensor *avg_pool_backward(haul_tensor *dy, const pool *how)
{
    const char  *operation = "haul_avg_pool2d";
    haul_tensor *dense = lay(operation, dy, how), *dx = dense ? fresh(operation, dy, dy->dtype, &how->x, how) : NULL;
    if (!dx)
        return NULL;
    pool2d_params p = how->p;
    p.y_offset = dense->offset;
    if (run(operation, how, KERNELS(avg_pool2d_backward), &dx, 1, &dense, 1, &p))
        return NULL;
    return finish(dx, operation, avg_second_gradient, dy, NULL, how);
}

/* ---- checks ---- */

static haul_status output_size(const char *operation, const char *what, int64_t size, int64_t window, int64_t stride,
                               int64_t padding, int64_t *out)
{
    if (window < 1 || stride < 1 || window > INT32_MAX || stride > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, window < 1 ? "size" : "stride",
                          "a window of %lld %s with stride %lld is not possible; both must be from 1 to 2^31 - 1",
                          (long long)window, what, (long long)stride);
    if (padding < 0 || padding > window / 2)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "padding",
                          "padding %lld is not possible; it can be from 0 to half the window's %lld %s",
                          (long long)padding, (long long)window, what);
    if (size + 2 * padding < window)
        return haul__fail(HAUL_SHAPE, operation, "x",
                          "the window has %lld %s, but x has %lld with its padding; use a smaller window",
                          (long long)window, what, (long long)(size + 2 * padding));
    *out = (size + 2 * padding - window) / stride + 1;
    return HAUL_OK;
}

static haul_status describe(const char *operation, const haul_tensor *x, const haul_pool2d_options *o, pool *how)
{
    int64_t plane;
    if (x->shape.ndim != 4)
        return haul__fail_shape(operation, "x", x, "it must be [N, C, H, W]");
    if (!haul_dtype_is_float(x->dtype))
        return haul__fail_dtype(operation, "x", x, "pooling needs f32 or f64; convert it with haul_cast");
    if (!haul__mul_size(x->shape.dims[2], x->shape.dims[3], &plane) || plane > INT32_MAX)
        return haul__fail_shape(operation, "x", x, "a plane of it must have less than 2^31 elements");
    *how = (pool){.x = x->shape, .y = x->shape, .channels_last = haul__wants_channels_last(x)};
    pool2d_params *p = &how->p;
    p->channels = x->shape.dims[1];
    p->h = x->shape.dims[2];
    p->w = x->shape.dims[3];
    p->size_h = o->size;
    p->size_w = o->size_w ? o->size_w : o->size;
    p->stride_h = o->stride[0] ? o->stride[0] : p->size_h;
    p->stride_w = o->stride[1] ? o->stride[1] : o->stride[0] ? o->stride[0] : p->size_w;
    p->padding_h = o->padding[0];
    p->padding_w = o->padding[1];
    p->exclude_padding = o->exclude_padding;
    haul_status status = output_size(operation, "rows", p->h, p->size_h, p->stride_h, p->padding_h, &p->out_h);
    if (!status)
        status = output_size(operation, "columns", p->w, p->size_w, p->stride_w, p->padding_w, &p->out_w);
    how->y.dims[2] = p->out_h;
    how->y.dims[3] = p->out_w;
    return status;
}

typedef haul_tensor *pool_fn(haul_tensor *x, const pool *how);

static haul_tensor *pool2d(const char *operation, pool_fn *fn, haul_tensor *x, const haul_pool2d_options *options)
{
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    haul_scope *scope = haul_scope_push();
    if (!scope)
        return NULL;
    pool how;
    bool fine = haul__place(operation, &x, (const char *const[]){"x"}, 1) && !describe(operation, x, options, &how);
    return haul_scope_return(scope, fine ? fn(x, &how) : NULL);
}

haul_tensor *haul_max_pool2d_with(haul_tensor *x, const haul_pool2d_options *options)
{
    return pool2d("haul_max_pool2d", max_pool, x, options);
}

haul_tensor *haul_avg_pool2d_with(haul_tensor *x, const haul_pool2d_options *options)
{
    return pool2d("haul_avg_pool2d", avg_pool, x, options);
}
