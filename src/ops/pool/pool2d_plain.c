/* The kernels of pooling for windows that those of pool2d_max.c and pool2d_avg.c do not take: elements apart from each
 * other, windows that end behind the padding, and means with another divisor. An element of the result is a work item.
 */
#include "base/assert.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/pool/pool2d.h"

// clang-format off
/* kernel text begins */
#include "ops/pool/pool2d_kernel.h"

/* Row-major, of.channels is 1. */
typedef struct pool2d_plain_params {
    I64 items;
    pool2d_params of; /* without its own items */
    I64 dilation_h, dilation_w, divisor; /* divisor: 0 for the number of elements */
} pool2d_plain_params;

#if defined(HAUL_KERNEL) && IS_FLOAT
/* The first element of a window that is inside the axis: elements are `dilation` apart. */
FUNC I64 pool_plain_first(I64 begin, I64 dilation)
{
    return begin >= 0 ? begin : begin + QUOTIENT(dilation - 1 - begin, dilation) * dilation;
}

KERNEL3(pool2d_plain_max, pool2d_plain_params, T, out, I32, index, const T, in0)
{
    FOR_ITEMS(i) {
        const pool2d_params q = p.of;
        const pool_place at = pool_place_of(i, q.out_h, q.out_w, q.channels);
        GLOBAL const T *x = in0 + q.x_offset + at.n * q.h * q.w * q.channels + at.k;
        const I64 top = at.row * q.stride_h - q.padding_h, left = at.column * q.stride_w - q.padding_w;
        const I64 y0 = pool_plain_first(top, p.dilation_h), x0 = pool_plain_first(left, p.dilation_w);
        const I64 y1 = least(top + q.size_h * p.dilation_h, q.h), x1 = least(left + q.size_w * p.dilation_w, q.w);
        A best = LOAD(x, (y0 * q.w + x0) * q.channels);
        I64 from = y0 * q.w + x0;
        for (I64 r = y0; r < y1; r += p.dilation_h)
            for (I64 c = x0; c < x1; c += p.dilation_w) {
                const A value = LOAD(x, (r * q.w + c) * q.channels);
                if (value > best || value != value) {
                    best = value;
                    from = r * q.w + c;
                }
            }
        STORE(out, i, best);
        index[i] = (I32)from;
    }
}

/* The divisor of the sum of a window: padding counts, but not the elements behind it. */
FUNC A pool_plain_divisor(const pool2d_plain_params p, I64 row, I64 column)
{
    const I64 top = row * p.of.stride_h - p.of.padding_h, left = column * p.of.stride_w - p.of.padding_w;
    const I64 bottom = least(top + p.of.size_h, p.of.h + p.of.padding_h);
    const I64 right = least(left + p.of.size_w, p.of.w + p.of.padding_w);
    if (p.divisor > 0) return (A)p.divisor;
    if (!p.of.exclude_padding) return (A)((bottom - top) * (right - left));
    return (A)((least(bottom, p.of.h) - M_MAX_OF(top, (I64)0)) * (least(right, p.of.w) - M_MAX_OF(left, (I64)0)));
}

KERNEL2(pool2d_plain_avg, pool2d_plain_params, T, out, const T, in0)
{
    FOR_ITEMS(i) {
        const pool2d_params q = p.of;
        const pool_place at = pool_place_of(i, q.out_h, q.out_w, q.channels);
        GLOBAL const T *x = in0 + q.x_offset + at.n * q.h * q.w * q.channels + at.k;
        const I64 y0 = pool_top(q, at.row), y1 = pool_bottom(q, at.row);
        const I64 x0 = pool_left(q, at.column), x1 = pool_right(q, at.column);
        A sum = 0;
        for (I64 c = x0; c < x1; c++) {
            A column = 0;
            for (I64 r = y0; r < y1; r++) column += LOAD(x, (r * q.w + c) * q.channels);
            sum += column;
        }
        STORE(out, i, sum / pool_plain_divisor(p, at.row, at.column));
    }
}

/* An element of x looks at the windows it is in. */
KERNEL2(pool2d_plain_spread, pool2d_plain_params, T, out, const T, in0)
{
    FOR_ITEMS(i) {
        const pool2d_params q = p.of;
        const pool_place at = pool_place_of(i, q.h, q.w, q.channels);
        GLOBAL const T *g = in0 + q.y_offset + at.n * q.out_h * q.out_w * q.channels + at.k;
        const I64 o0 = pool_row_from(q, at.row), o1 = pool_row_to(q, at.row);
        const I64 q0 = pool_column_from(q, at.column), q1 = pool_column_to(q, at.column);
        A sum = 0;
        for (I64 c = q0; c <= q1; c++) {
            A column = 0;
            for (I64 r = o0; r <= o1; r++) column += LOAD(g, (r * q.out_w + c) * q.channels) / pool_plain_divisor(p, r, c);
            sum += column;
        }
        STORE(out, i, sum);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 4096 };

static haul_status launch(const haul__call *c, int kernel, haul_tensor *const *outs, int out_count, haul_tensor *in)
{
    const haul__pool2d_attributes *a = haul__attributes_of(c);
    HAUL__ASSERT(!a->adaptive && a->size[0] > 0 && a->size[1] > 0 &&
                 (out_count == 1 || outs[1]->count == outs[0]->count));
    HAUL__ASSERT(a->dilation[0] > 0 && a->dilation[1] > 0);
    pool2d_plain_params p = {.items = outs[0]->count,
                             .of = haul__pool2d_params(a),
                             .dilation_h = a->dilation[0],
                             .dilation_w = a->dilation[1],
                             .divisor = a->divisor};
    p.of.x_offset = p.of.y_offset = in->offset;
    p.of.channels = a->channels_last ? a->channels : 1;
    const int64_t window = a->size[0] > GRAIN / a->size[1] ? GRAIN : a->size[0] * a->size[1];
    return haul__launch_kernel(c, kernel, outs[0]->dtype, .outs = outs, .out_count = out_count, HAUL__IN(in),
                               HAUL__PARAMS(p), .grain = 1 + GRAIN / window);
}

haul_status haul__pool2d_plain_max(haul__call *c)
{
    haul_tensor *y = c->results[0], *index = c->results[1];
    if (!index)
        index = haul__temporary(c, HAUL_I32, &y->shape); /* as dense as y, whatever its order */
    if (!index)
        return haul_error_status();
    return launch(c, HAUL__K_pool2d_plain_max, (haul_tensor *[]){y, index}, 2, c->operands[0]);
}

haul_status haul__pool2d_plain_avg(haul__call *c)
{
    return launch(c, HAUL__K_pool2d_plain_avg, c->results, 1, c->operands[0]);
}

haul_status haul__pool2d_plain_spread(haul__call *c, haul_tensor *g)
{
    return launch(c, HAUL__K_pool2d_plain_spread, c->results, 1, g);
}
