/* Resampling along one axis: an element of y is a weighted sum of a few neighbours of x. A kernel writes the weights of
 * all elements to a table first, and every row of the axis uses it. Several axes are resampled one after the other. The
 * gradient gathers, by the same table: an element of x reads the elements of y that it is part of. Positions are
 * fractions of integers, so that they are the same on every device.
 *
 * Cubic weights: Keys 1981, with a = -3/4, and -1/2 if antialiased, as PyTorch and Pillow have them. */
#include "base/assert.h"
#include "base/numbers.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/image/image.h"

// clang-format off
/* kernel text begins */
enum { RESAMPLE_NEAREST, RESAMPLE_LINEAR, RESAMPLE_CUBIC, RESAMPLE_AREA, RESAMPLE_SMOOTH_LINEAR, RESAMPLE_SMOOTH_CUBIC };
enum { RESAMPLE_WIDTH = 64 }; /* elements that are taken side by side */

/* Element d of y is at (d mul + add) / div of the n elements of x, and num / den are the sizes' ratio. Its weights are
 * those of count elements from first on: spans has {first, count}, and each row of weights has room for `width`. */
typedef struct resample_table_params {
    I64 items, n, width, at[2]; /* at: of weights and spans */
    I64 num, den, mul, add, div;
    I32 kind, reserved;
} resample_table_params;

/* x: [outer, n, inner]; y: [outer, m, inner] */
typedef struct resample_params {
    I64 items, n, m, width, inner, at[4]; /* at: of the result, the operand, weights and spans */
} resample_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
FUNC A resample_cubic(A x, A a)
{
    x = x < 0 ? -x : x;
    if (x >= LIT(2.0)) return 0;
    return x <= LIT(1.0) ? ((a + LIT(2.0)) * x - (a + LIT(3.0))) * x * x + LIT(1.0)
                         : (((x - LIT(5.0)) * x + LIT(8.0)) * x - LIT(4.0)) * a;
}
FUNC A resample_linear(A x)
{
    x = x < 0 ? -x : x;
    return x < LIT(1.0) ? LIT(1.0) - x : LIT(0.0);
}
FUNC I64 resample_within(I64 i, I64 n) { return i < 0 ? 0 : least(i, n - 1); }

/* Two or four neighbours, of which those outside of x are the elements at its ends. */
FUNC I64 resample_neighbours(const resample_table_params p, GLOBAL T *w, I64 d, PRIVATE I64 *count)
{
    const I32 cubic = p.kind == RESAMPLE_CUBIC, taps = cubic ? 4 : p.kind == RESAMPLE_LINEAR ? 2 : 1;
    const I64 there = d * p.mul + p.add, at = cubic ? there : M_MAX_OF(there, (I64)0);
    const I64 whole = at < 0 ? -1 : QUOTIENT(at, p.div), start = cubic ? whole - 1 : whole;
    const I64 first = resample_within(start, p.n);
    const A part = (A)(at - whole * p.div) / (A)p.div;
    *count = resample_within(start + taps - 1, p.n) - first + 1;
    for (I64 k = 0; k < *count; k++) w[k] = 0;
    for (I32 k = 0; k < taps; k++)
        w[resample_within(start + k, p.n) - first] += taps == 1 ? LIT(1.0)
            : cubic ? resample_cubic((A)(k - 1) - part, LIT(-0.75)) : k ? part : LIT(1.0) - part;
    return first;
}

/* The neighbours that are as near in units of the larger pixels; their weights add up to 1. */
FUNC I64 resample_smooth(const resample_table_params p, GLOBAL T *w, I64 d, PRIVATE I64 *count)
{
    const I32 cubic = p.kind == RESAMPLE_SMOOTH_CUBIC;
    const I64 unit = M_MAX_OF(p.num, p.den), reach = cubic ? 4 * unit : 2 * unit, middle = p.num * (2 * d + 1);
    const I64 low = middle - reach + p.den, first = low < 0 ? 0 : resample_within(QUOTIENT(low, 2 * p.den), p.n);
    A total = 0;
    *count = M_MAX_OF(least(QUOTIENT(middle + reach + p.den, 2 * p.den), p.n) - first, (I64)1);
    for (I64 k = 0; k < *count; k++) {
        const A x = (A)((2 * (first + k) + 1) * p.den - middle) / (A)(2 * unit);
        w[k] = cubic ? resample_cubic(x, LIT(-0.5)) : resample_linear(x);
        total += w[k];
    }
    for (I64 k = 0; k < *count; k++) w[k] = w[k] / total;
    return first;
}

KERNEL2(resample_table, resample_table_params, T, weights, I64, spans)
{
    FOR_ITEMS(d) {
        GLOBAL T *w = weights + p.at[0] + d * p.width;
        I64 count = 0, first;
        if (p.kind == RESAMPLE_AREA) {
            first = QUOTIENT(d * p.n, p.items);
            count = QUOTIENT((d + 1) * p.n + p.items - 1, p.items) - first;
            for (I64 k = 0; k < count; k++) w[k] = LIT(1.0) / (A)count;
        } else {
            first = p.kind < RESAMPLE_AREA ? resample_neighbours(p, w, d, &count) : resample_smooth(p, w, d, &count);
        }
        spans[p.at[1] + 2 * d] = first;
        spans[p.at[1] + 2 * d + 1] = count;
    }
}

KERNEL4(resample, resample_params, T, out, const T, in0, const T, weights, const I64, spans)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 line = QUOTIENT(i, p.inner), q = i - line * p.inner, o = QUOTIENT(line, p.m), d = line - o * p.m;
        GLOBAL const I64 *span = spans + p.at[3] + 2 * d;
        GLOBAL const T *w = weights + p.at[2] + d * p.width;
        GLOBAL const T *x = in0 + p.at[1] + o * p.n * p.inner + q;
        GLOBAL T *y = out + p.at[0] + i;
        if (p.inner == 1) {
            const I64 row = CHUNKED ? least(p.m - d, ITEMS_END - i) : 1;
            for (I64 l = 0; l < row; l++, w += p.width) {
                const I64 first = span[2 * l], count = span[2 * l + 1];
                A sum = 0;
                for (I64 k = 0; k < count; k++) sum += w[k] * x[first + k];
                y[l] = sum;
            }
            i += ITEMS_STEP(row);
            continue;
        }
        const int width = NEIGHBOURS(p.inner - q, ITEMS_END - i, RESAMPLE_WIDTH);
        A sum[CHUNKED ? RESAMPLE_WIDTH : 1];
        x += span[0] * p.inner;
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 k = 0; k < span[1]; k++, x += p.inner) {
            const A of_row = w[k];
            VECTOR_LOOP for (int l = 0; l < width; l++) sum[l] += of_row * x[l];
        }
        for (int l = 0; l < width; l++) y[l] = sum[l];
        i += ITEMS_STEP(width);
    }
}

/* The first element of y whose span ends (`ends`) or begins behind element j of x; both only grow. */
FUNC I64 resample_behind(GLOBAL const I64 *spans, I64 m, I64 j, I32 ends)
{
    I64 low = 0, high = m;
    while (low < high) {
        const I64 middle = (low + high) >> 1, at = spans[2 * middle] + (ends ? spans[2 * middle + 1] : 0);
        if (at > j) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* in0: the gradient of y; out: that of x */
KERNEL4(resample_backward, resample_params, T, out, const T, in0, const T, weights, const I64, spans)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 line = QUOTIENT(i, p.inner), q = i - line * p.inner, o = QUOTIENT(line, p.n), j = line - o * p.n;
        const int width = NEIGHBOURS(p.inner - q, ITEMS_END - i, RESAMPLE_WIDTH);
        GLOBAL const I64 *span = spans + p.at[3];
        const I64 from = resample_behind(span, p.m, j, 1), to = resample_behind(span, p.m, j, 0);
        GLOBAL const T *g = in0 + p.at[1] + (o * p.m + from) * p.inner + q;
        GLOBAL T *x = out + p.at[0] + i;
        A sum[CHUNKED ? RESAMPLE_WIDTH : 1];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 d = from; d < to; d++, g += p.inner) {
            const A of_row = weights[p.at[2] + d * p.width + j - span[2 * d]];
            VECTOR_LOOP for (int l = 0; l < width; l++) sum[l] += of_row * g[l];
        }
        for (int l = 0; l < width; l++) x[l] = sum[l];
        i += ITEMS_STEP(width);
    }
}
#endif
/* kernel text ends */
// clang-format on

static const I32 kinds[] = {
    [HAUL__RESAMPLE_NEAREST] = RESAMPLE_NEAREST,
    [HAUL__RESAMPLE_LINEAR] = RESAMPLE_LINEAR,
    [HAUL__RESAMPLE_CUBIC] = RESAMPLE_CUBIC,
    [HAUL__RESAMPLE_AREA] = RESAMPLE_AREA,
    [HAUL__RESAMPLE_SMOOTH_LINEAR] = RESAMPLE_SMOOTH_LINEAR,
    [HAUL__RESAMPLE_SMOOTH_CUBIC] = RESAMPLE_SMOOTH_CUBIC,
};

/* Elements that make a share worthwhile. */
#define GRAIN 4096

typedef struct resample_attributes {
    haul__resized_axis of;
    int                axis, kind;
} resample_attributes;

static haul_status describe(haul__call *c, int64_t size)
{
    const resample_attributes *a = haul__attributes(c);
    const haul_tensor         *x = c->operands[0];
    haul_shape                 shape = x->shape;
    HAUL__ASSERT(2 <= a->axis && a->axis < shape.ndim && size > 0);
    shape.dims[a->axis] = size;
    return haul__describe_format(c, 0, x->dtype, &shape, haul__wants_channels_last(x));
}

static haul_status infer(haul__call *c)
{
    return describe(c, ((const resample_attributes *)haul__attributes(c))->of.out);
}

static haul_status infer_backward(haul__call *c)
{
    return describe(c, ((const resample_attributes *)haul__attributes(c))->of.in);
}

/* The most elements of x that one of y is made from. */
static int64_t width_of(const resample_attributes *a)
{
    const haul__resized_axis *of = &a->of;
    const int64_t             unit = of->num > of->den ? of->num : of->den;
    static const int64_t      taps[] = {1, 2, 4};
    HAUL__ASSERT(of->in > 0 && of->out > 0 && of->den > 0 && a->kind <= HAUL__RESAMPLE_SMOOTH_CUBIC);
    int64_t width = a->kind == HAUL__RESAMPLE_SMOOTH_LINEAR  ? 2 * unit / of->den + 2
                    : a->kind == HAUL__RESAMPLE_SMOOTH_CUBIC ? 4 * unit / of->den + 2
                    : a->kind == HAUL__RESAMPLE_AREA         ? of->in / of->out + 2
                                                             : taps[a->kind];
    return width < of->in ? width : of->in;
}

static haul_status table(const haul__call *c, const resample_attributes *a, haul_tensor *weights, haul_tensor *spans,
                         int64_t width)
{
    const haul__resized_axis *of = &a->of;
    HAUL__ASSERT(width > 0 && weights->count == of->out * width && spans->count == 2 * of->out);
    HAUL__ASSERT(of->at.div > 0 && of->den > 0);
    const resample_table_params p = {.items = of->out,
                                     .n = of->in,
                                     .width = width,
                                     .at = {weights->offset, spans->offset},
                                     .num = of->num,
                                     .den = of->den,
                                     .mul = of->at.mul,
                                     .add = of->at.add,
                                     .div = of->at.div,
                                     .kind = kinds[a->kind]};
    return haul__launch_kernel(c, HAUL__K_resample_table, weights->dtype, HAUL__OUT(weights, spans), HAUL__PARAMS(p),
                               .grain = GRAIN / width + 1);
}

/* The elements that follow each other for one position of the axis. */
static int64_t inner_of(const haul_tensor *x, int axis, bool channels_last)
{
    int64_t inner = channels_last ? x->shape.dims[1] : 1;
    for (int d = axis + 1; d < x->shape.ndim; d++)
        inner *= x->shape.dims[d];
    return inner;
}

static haul_status compute(haul__call *c)
{
    const resample_attributes *a = haul__attributes(c);
    haul_tensor               *y = c->results[0];
    const bool                 channels_last = haul__wants_channels_last(c->operands[0]);
    haul_tensor               *x = haul__as_format(c, c->operands[0], channels_last);
    const int64_t              width = width_of(a);
    if (!x)
        return haul_error_status();
    if (!y->count)
        return HAUL_OK;
    HAUL__ASSERT(width > 0);
    HAUL__ASSERT(y->shape.dims[a->axis] == a->of.out || y->shape.dims[a->axis] == a->of.in);
    haul_tensor *weights = haul__temporary(c, y->dtype, &HAUL_SHAPE(a->of.out, width));
    haul_tensor *spans = haul__temporary(c, HAUL_I64, &HAUL_SHAPE(a->of.out, 2));
    if (!weights || !spans || table(c, a, weights, spans, width))
        return haul_error_status();
    const resample_params p = {.items = y->count,
                               .n = a->of.in,
                               .m = a->of.out,
                               .width = width,
                               .inner = inner_of(x, a->axis, channels_last),
                               .at = {y->offset, x->offset, weights->offset, spans->offset}};
    return haul__launch_kernel(c, c->operation->kernel, y->dtype, HAUL__OUT(y), HAUL__IN(x, weights, spans),
                               HAUL__PARAMS(p), .grain = GRAIN / width + 1);
}

static haul__cost cost(const haul__call *c)
{
    const int64_t width = width_of(haul__attributes_of(c));
    return (haul__cost){.flops = 2.0 * (double)width * (double)c->results[0]->count, .bytes = haul__call_bytes(c)};
}

static void gradient(haul__gradient *g);
static void second(haul__gradient *g);

#define RESAMPLING                                                                                                     \
    .dtypes = HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64), .attributes_size = HAUL__ATTRIBUTES(resample_attributes),   \
    .compute = compute, .cost = cost

HAUL__OPERATION(resample) = {
    .name = "haul_resample",
    .operands = {{"x", .layout = HAUL__BATCH_FORMAT}},
    .results = {{"y"}},
    .kernel = HAUL__K_resample,
    .infer = infer,
    .gradient = gradient,
    RESAMPLING,
};

/* Each operation is linear and is the other's gradient. */
HAUL__OPERATION(resample_backward) = {
    .name = "haul_resample_backward",
    .operands = {{"g", .layout = HAUL__BATCH_FORMAT}},
    .results = {{"dx"}},
    .kernel = HAUL__K_resample_backward,
    .infer = infer_backward,
    .gradient = second,
    RESAMPLING,
};

static void gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(resample_backward, g->attributes, g->results[0]);
}

static void second(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(resample, g->attributes, g->results[0]);
}

haul_tensor *haul__resample(haul_tensor *x, int axis, const haul__resized_axis *of, haul__resampling kind)
{
    return HAUL__APPLY(resample, (&(resample_attributes){.of = *of, .axis = axis, .kind = (int)kind}), x);
}
