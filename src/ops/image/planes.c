/* Resizing planes, by the nearest or by the four nearest elements. The gradient gathers: an element of x reads the
 * elements of y that it is part of. Positions are fractions of integers, so that they are the same on every device. */
#include "base/assert.h"
#include "base/numbers.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/image/image.h"

// clang-format off
/* kernel text begins */
/* x: [planes, h, w]; y: [planes, out_h, out_w]. In the kernels ..._columns they are channels-last: [n, h, w, channels].
 * Element d of an axis of y is at (d mul + add) / div of x's axis, which is greater than -1; mul = skip div + rest. */
typedef struct interpolate_axis {
    I64 mul, add, div, skip, rest;
} interpolate_axis;
typedef struct interpolate_params {
    I64 items;
    I64 h, w, out_h, out_w, channels;
    I64 offset; /* of the operand */
    interpolate_axis rows, columns;
    I32 bilinear, reserved;
} interpolate_params;

enum { INTERPOLATE_WIDTH = 64 }; /* elements that are taken side by side */
enum { INTERPOLATE_REACH = 512 }; /* elements of a row of y that these may be part of */

#if defined(HAUL_KERNEL) && IS_FLOAT
/* An element of y comes from `first`, and for `share` from `second`. */
typedef struct interpolate_place {
    I64 first, second;
    A share;
} interpolate_place;
FUNC interpolate_place interpolate_find(const interpolate_axis of, I64 d, I64 size)
{
    const I64 at = M_MAX_OF(d * of.mul + of.add, (I64)0), whole = QUOTIENT(at, of.div);
    const I64 first = least(whole, size - 1);
    const interpolate_place place = {first, least(first + 1, size - 1), (A)(at - whole * of.div) / (A)of.div};
    return place;
}

/* What element d of y takes of element i of x: how near they are; all of it at the ends of x's axis. */
FUNC A interpolate_share(const interpolate_axis of, I64 d, I64 i, I64 size)
{
    const I64 at = least(M_MAX_OF(d * of.mul + of.add, (I64)0), (size - 1) * of.div), apart = at - i * of.div;
    return (A)M_MAX_OF(of.div - (apart < 0 ? -apart : apart), (I64)0) / (A)of.div;
}

/* The elements of y of which element i of x is part: [FROM, TO). */
FUNC I64 interpolate_from(const interpolate_axis of, I64 i, I32 bilinear)
{
    const I64 at = (bilinear ? i - 1 : i) * of.div - of.add;
    return i == 0 || at < 0 ? 0 : bilinear ? QUOTIENT(at, of.mul) + 1 : QUOTIENT(at + of.mul - 1, of.mul);
}
FUNC I64 interpolate_to(const interpolate_axis of, I64 i, I64 size, I64 count)
{
    return i == size - 1 ? count : least(QUOTIENT((i + 1) * of.div - of.add + of.mul - 1, of.mul), count);
}

/* What the kernels below do for the run of elements [i, end), of which the first and the last may be in the middle of
 * rows: on processors all that are to be computed, on GPUs one. A table for a few columns serves all rows of the run. */
FUNC I64 interpolate_end(I64 i, I64 end) { return CHUNKED ? end : i + 1; }
FUNC I64 interpolate_last(I64 first, I64 end, I64 width) { return CHUNKED ? QUOTIENT(end - 1, width) : first; }

/* An element of y a work item. */
KERNEL2(interpolate, interpolate_params, T, out, const T, in0)
{
    const interpolate_axis of = p.columns;
    const A unit = LIT(1.0) / (A)of.div;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END; i += ITEMS_STEP(ITEMS_END - ITEMS_BEGIN)) {
        const I64 end = interpolate_end(i, ITEMS_END), line0 = QUOTIENT(i, p.out_w), line1 = interpolate_last(line0, end, p.out_w);
        const I64 stop = CHUNKED ? p.out_w : i - line0 * p.out_w + 1;
        for (I64 c = CHUNKED ? 0 : stop - 1; c < stop; c += INTERPOLATE_WIDTH) {
            const I64 width = least(stop - c, INTERPOLATE_WIDTH), at = c * of.mul + of.add;
            I32 from[CHUNKED ? INTERPOLATE_WIDTH : 1], last = (I32)p.w - 1;
            A share[CHUNKED ? INTERPOLATE_WIDTH : 1], both[CHUNKED ? 2 * INTERPOLATE_WIDTH : 1];
            I64 whole = at < 0 ? -1 : QUOTIENT(at, of.div), part = at - whole * of.div;
            for (I64 l = 0; l < width; l++) {
                const I32 carry = part + of.rest >= of.div ? 1 : 0;
                from[l] = (I32)least(M_MAX_OF(whole, (I64)0), last);
                share[l] = whole < 0 ? LIT(0.0) : (A)part * unit;
                whole += of.skip + carry;
                part += of.rest - (carry ? of.div : 0);
            }
            for (I64 line = line0; line <= line1; line++) {
                const I64 plane = QUOTIENT(line, p.out_h), l0 = M_MAX_OF(i - line * p.out_w - c, (I64)0);
                const I64 l1 = least(end - line * p.out_w - c, width);
                if (l0 >= l1) continue;
                const interpolate_place row = interpolate_find(p.rows, line - plane * p.out_h, p.h);
                GLOBAL const T *upper = in0 + p.offset + (plane * p.h + row.first) * p.w;
                GLOBAL const T *lower = in0 + p.offset + (plane * p.h + row.second) * p.w;
                GLOBAL T *to = out + line * p.out_w + c;
                const A low = row.share, high = LIT(1.0) - low;
                const I32 x0 = from[l0], count = (I32)least(from[l1 - 1] + 2, p.w) - x0;
                if (!p.bilinear) {
                    for (I64 l = l0; l < l1; l++) to[l] = upper[from[l]];
                } else if (CHUNKED && count <= 2 * INTERPOLATE_WIDTH) {
                    VECTOR_LOOP for (I32 x = 0; x < count; x++) both[x] = high * LOAD(upper, x0 + x) + low * LOAD(lower, x0 + x);
                    for (I64 l = l0; l < l1; l++) {
                        const I32 a = from[l] - x0, b = from[l] < last ? a + 1 : a;
                        STORE(to, l, (LIT(1.0) - share[l]) * both[a] + share[l] * both[b]);
                    }
                } else {
                    for (I64 l = l0; l < l1; l++) {
                        const I32 a = from[l], b = a < last ? a + 1 : a;
                        STORE(to, l, (LIT(1.0) - share[l]) * (high * LOAD(upper, a) + low * LOAD(lower, a)) +
                                     share[l] * (high * LOAD(upper, b) + low * LOAD(lower, b)));
                    }
                }
            }
        }
    }
}

/* An element of x's gradient a work item: rows of dy are added up first, then their columns. */
KERNEL2(interpolate_backward, interpolate_params, T, out, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END; i += ITEMS_STEP(ITEMS_END - ITEMS_BEGIN)) {
        const I64 end = interpolate_end(i, ITEMS_END), line0 = QUOTIENT(i, p.w), line1 = interpolate_last(line0, end, p.w);
        const I64 stop = CHUNKED ? p.w : i - line0 * p.w + 1;
        I64 width = 1;
        for (I64 c = CHUNKED ? 0 : stop - 1; c < stop; c += width) {
            /* Columns whose elements of dy, from `first` on, the tables take; where one has too many, it goes alone. */
            I32 from[CHUNKED ? INTERPOLATE_WIDTH : 1], taps[CHUNKED ? INTERPOLATE_WIDTH : 1];
            A weight[CHUNKED ? 2 * INTERPOLATE_REACH : 1], sums[CHUNKED ? INTERPOLATE_REACH : 1];
            const I64 first = interpolate_from(p.columns, c, p.bilinear);
            I64 behind = interpolate_to(p.columns, c, p.w, p.out_w), used = 0, l = 0;
            for (; CHUNKED && l < INTERPOLATE_WIDTH && c + l < stop; l++) {
                const I64 from_here = interpolate_from(p.columns, c + l, p.bilinear), to_here = interpolate_to(p.columns, c + l, p.w, p.out_w);
                if (to_here - first > INTERPOLATE_REACH) break;
                from[l] = (I32)(from_here - first);
                taps[l] = (I32)M_MAX_OF(to_here - from_here, (I64)0);
                behind = M_MAX_OF(behind, to_here);
                for (I64 q = from_here; q < to_here; q++)
                    weight[used++] = p.bilinear ? interpolate_share(p.columns, q, c + l, p.w) : LIT(1.0);
            }
            const I64 tabled = l, count = behind - first;
            width = M_MAX_OF(tabled, (I64)1);
            for (I64 line = line0; line <= line1; line++) {
                const I64 plane = QUOTIENT(line, p.h), row = line - plane * p.h, l0 = M_MAX_OF(i - line * p.w - c, (I64)0);
                const I64 l1 = least(end - line * p.w - c, width);
                if (l0 >= l1) continue;
                GLOBAL const T *dy = in0 + p.offset + plane * p.out_h * p.out_w + first;
                GLOBAL T *to = out + line * p.w + c;
                const I64 r0 = interpolate_from(p.rows, row, p.bilinear), r1 = interpolate_to(p.rows, row, p.h, p.out_h);
                if (tabled) {
                    for (I64 q = 0; q < count; q++) sums[q] = 0;
                    for (I64 r = r0; r < r1; r++) {
                        const A of_row = p.bilinear ? interpolate_share(p.rows, r, row, p.h) : LIT(1.0);
                        VECTOR_LOOP for (I64 q = 0; q < count; q++) sums[q] += of_row * LOAD(dy, r * p.out_w + q);
                    }
                    const A *w = weight;
                    for (l = 0; l < l1; w += taps[l], l++) {
                        A sum = 0;
                        for (I32 q = 0; q < taps[l]; q++) sum += w[q] * sums[from[l] + q];
                        if (l >= l0) STORE(to, l, sum);
                    }
                } else {
                    A sum = 0;
                    for (I64 q = 0; q < count; q++) {
                        A column = 0;
                        for (I64 r = r0; r < r1; r++)
                            column += (p.bilinear ? interpolate_share(p.rows, r, row, p.h) : LIT(1.0)) * LOAD(dy, r * p.out_w + q);
                        sum += (p.bilinear ? interpolate_share(p.columns, first + q, c, p.w) : LIT(1.0)) * column;
                    }
                    STORE(to, 0, sum);
                }
            }
        }
    }
}

/* The pixel (row, column) of image n that element i belongs to, channels-last, and its channel k. */
typedef struct interpolate_pixel {
    I64 n, row, column, k;
} interpolate_pixel;
FUNC interpolate_pixel interpolate_pixel_of(I64 i, I64 rows, I64 columns, I64 channels)
{
    const I64 pixel = QUOTIENT(i, channels), line = QUOTIENT(pixel, columns), n = QUOTIENT(line, rows);
    const interpolate_pixel at = {n, line - n * rows, pixel - line * columns, i - pixel * channels};
    return at;
}

/* Channels-last; `width` channels of a pixel are taken side by side. */
KERNEL2(interpolate_columns, interpolate_params, T, out, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const interpolate_pixel at = interpolate_pixel_of(i, p.out_h, p.out_w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, INTERPOLATE_WIDTH);
        const interpolate_place row = interpolate_find(p.rows, at.row, p.h), column = interpolate_find(p.columns, at.column, p.w);
        GLOBAL const T *image = in0 + p.offset + at.n * p.h * p.w * p.channels + at.k;
        GLOBAL const T *a = image + (row.first * p.w + column.first) * p.channels, *b = image + (row.first * p.w + column.second) * p.channels;
        GLOBAL const T *c = image + (row.second * p.w + column.first) * p.channels, *d = image + (row.second * p.w + column.second) * p.channels;
        const A low = row.share, high = LIT(1.0) - low, right = column.share, left = LIT(1.0) - right;
        GLOBAL T *to = out + i;
        if (p.bilinear) {
            VECTOR_LOOP for (int l = 0; l < width; l++)
                STORE(to, l, high * (left * LOAD(a, l) + right * LOAD(b, l)) + low * (left * LOAD(c, l) + right * LOAD(d, l)));
        } else {
            for (int l = 0; l < width; l++) to[l] = a[l];
        }
        i += ITEMS_STEP(width);
    }
}

KERNEL2(interpolate_backward_columns, interpolate_params, T, out, const T, in0)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const interpolate_pixel at = interpolate_pixel_of(i, p.h, p.w, p.channels);
        const int width = NEIGHBOURS(p.channels - at.k, ITEMS_END - i, INTERPOLATE_WIDTH);
        const I64 r0 = interpolate_from(p.rows, at.row, p.bilinear), r1 = interpolate_to(p.rows, at.row, p.h, p.out_h);
        const I64 c0 = interpolate_from(p.columns, at.column, p.bilinear), c1 = interpolate_to(p.columns, at.column, p.w, p.out_w);
        A sum[CHUNKED ? INTERPOLATE_WIDTH : 1];
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 r = r0; r < r1; r++) {
            const A of_row = p.bilinear ? interpolate_share(p.rows, r, at.row, p.h) : LIT(1.0);
            for (I64 c = c0; c < c1; c++) {
                GLOBAL const T *g = in0 + p.offset + ((at.n * p.out_h + r) * p.out_w + c) * p.channels + at.k;
                const A share = p.bilinear ? of_row * interpolate_share(p.columns, c, at.column, p.w) : LIT(1.0);
                VECTOR_LOOP for (int l = 0; l < width; l++) sum[l] += share * LOAD(g, l);
            }
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

typedef struct interpolate_attributes {
    int64_t          in[2], size[2], channels; /* of x and y, {rows, columns} */
    interpolate_axis axes[2];
    int              linear, channels_last;
} interpolate_attributes;

/* ---- infer ---- */

static haul_status describe(haul__call *c, const int64_t *size)
{
    const interpolate_attributes *a = haul__attributes(c);
    haul_shape                    shape = c->operands[0]->shape;
    HAUL__ASSERT(shape.ndim == 4 && shape.dims[1] == a->channels && size[0] > 0 && size[1] > 0);
    shape.dims[2] = size[0];
    shape.dims[3] = size[1];
    return haul__describe_format(c, 0, c->operands[0]->dtype, &shape, a->channels_last);
}

static haul_status infer(haul__call *c)
{
    interpolate_attributes *a = haul__attributes(c);
    a->channels_last = haul__wants_channels_last(c->operands[0]);
    return describe(c, a->size);
}

static haul_status infer_backward(haul__call *c)
{
    const interpolate_attributes *a = haul__attributes(c);
    return describe(c, a->in);
}

/* ---- compute ---- */

static haul_status compute(haul__call *c)
{
    const interpolate_attributes *a = haul__attributes(c);
    haul_tensor                  *x = haul__as_format(c, c->operands[0], a->channels_last), *y = c->results[0];
    int                           kernel = c->operation->kernel;
    if (!x)
        return haul_error_status();
    interpolate_params p = {.items = y->count,
                            .h = a->in[0],
                            .w = a->in[1],
                            .out_h = a->size[0],
                            .out_w = a->size[1],
                            .channels = a->channels,
                            .offset = x->offset,
                            .rows = a->axes[0],
                            .columns = a->axes[1],
                            .bilinear = a->linear};
    HAUL__ASSERT((x->shape.dims[2] == p.h && y->shape.dims[2] == p.out_h) ||
                 (x->shape.dims[2] == p.out_h && y->shape.dims[2] == p.h));
    HAUL__ASSERT(p.h > 0 && p.w > 0 && p.out_h > 0 && p.out_w > 0);
    int64_t work = y->count ? haul__ceil_div(x->count, y->count) : 1;
    return haul__launch_kernel(c, a->channels_last ? haul__kernel_infos[kernel].columns : kernel, y->dtype,
                               HAUL__OUT(y), HAUL__IN(x), HAUL__PARAMS(p), .grain = work >= GRAIN ? 1 : GRAIN / work);
}

/* ---- the operations ---- */

static void gradient(haul__gradient *g);
static void second(haul__gradient *g);

HAUL__OPERATION(interpolate_planes) = {
    .name = "haul_interpolate_planes",
    .operands = {{"x", .layout = HAUL__BATCH_FORMAT}},
    .results = {{"y", .at_start = true}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(interpolate_attributes),
    .kernel = HAUL__K_interpolate,
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 8,
};

/* Each operation is linear and is the other's gradient. */
HAUL__OPERATION(interpolate_planes_backward) = {
    .name = "haul_interpolate_planes_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES}},
    .results = {{"dx", .at_start = true}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(interpolate_attributes),
    .kernel = HAUL__K_interpolate_backward,
    .infer = infer_backward,
    .compute = compute,
    .gradient = second,
    .flops = 8,
};

static void gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(interpolate_planes_backward, g->attributes, g->results[0]);
}

static void second(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(interpolate_planes, g->attributes, g->results[0]);
}

haul_tensor *haul__interpolate_planes(haul_tensor *x, const haul__resized_axis axes[2], bool linear)
{
    interpolate_attributes a = {.channels = x->shape.dims[1], .linear = linear};
    for (int i = 0; i < 2; i++) {
        const haul__position at = axes[i].at;
        a.in[i] = axes[i].in;
        a.size[i] = axes[i].out;
        a.axes[i] = (interpolate_axis){at.mul, at.add, at.div, at.skip, at.rest};
    }
    return HAUL__APPLY(interpolate_planes, &a, x);
}

bool haul__interpolate_planes_of(const void *attributes, haul__resized_axis axes[2])
{
    const interpolate_attributes *a = attributes;
    for (int i = 0; i < 2; i++) {
        const interpolate_axis at = a->axes[i];
        axes[i] =
            (haul__resized_axis){.in = a->in[i], .out = a->size[i], .at = {at.mul, at.add, at.div, at.skip, at.rest}};
    }
    return a->linear;
}
