/* 2-d convolution by kernels, without unfolding the image, for devices that have no call of their own for it.
 *
 * x is copied once into planes with its padding, `columns` wide; with strides, into one plane a phase of the stride.
 * Then the elements that a tap (channel, row, column) of the weight meets lie one after another in memory, shifted by
 * the tap's offset, for all outputs at once: a convolution is a matrix product whose rows of B are the same plane
 * shifted. Between the rows of the result lie a few elements that belong to no output; they are left out when it is
 * stored. */
#include "ops/conv2d_flat.h"

#include "kernels/types.h"
#include "ops/gemm.h"

// clang-format off
/* kernel text begins */
/* Copy planes [h, w] into planes [rows, columns], `phases` of them for each: element (r, c) of phase (y, x) comes from
 * ((r mul_h + y - top) / div_h, (c mul_w + x - left) / div_w) where that is a whole number inside the plane; else it is
 * 0. A work item is a row; the last one is `slack` zeros behind everything. */
typedef struct conv2d_pad_params {
    I64 items;
    I64 in_offset, h, w, rows, columns, slack;
    I64 phases_h, phases_w, mul_h, mul_w, div_h, div_w, top, left;
} conv2d_pad_params;

/* y [n, groups m, h, w] = the taps [channels, kh, kw] of a weight, addressed by strides, over padded planes. */
typedef struct conv2d_tile_params {
    I64 items;
    I64 m, channels, kh, kw, groups;
    I64 h, w, columns, tiles; /* of the result; width of the planes; tiles that cover the result at that width */
    I64 plane, channel, image; /* elements of a plane, of a channel (all its phases), of an image */
    I64 step_h, step_w, phases_h, phases_w;
    I64 weight_offset, w_group, w_out, w_channel, w_kh, w_kw;
    I64 y_offset, bias_offset;
    I32 has_bias, reserved;
} conv2d_tile_params;

/* dw [pieces, groups m, channels, kh, kw]: sums over the images of a piece of dy's planes times x's, shifted. */
typedef struct conv2d_weight_params {
    I64 items;
    I64 m, channels, kh, kw, groups;
    I64 n, per_piece; /* images, and how many of them are a piece */
    I64 span;         /* elements of a plane that count, a multiple of LANES */
    I64 columns, plane, channel, image; /* of x */
    I64 dy_plane, dy_image;
    I64 step_h, step_w, phases_h, phases_w;
} conv2d_weight_params;

#if defined(HAUL_KERNEL) && IS_FLOAT
KERNEL2(conv2d_pad, conv2d_pad_params, ACC, out, const T, in0)
{
    const I64 phases = p.phases_h * p.phases_w;
    FOR_ITEMS(i) {
        GLOBAL ACC *to = out + i * p.columns;
        const I64 part = QUOTIENT(i, p.rows), r = i - part * p.rows, plane = QUOTIENT(part, phases), phase = part - plane * phases;
        const I64 above = r * p.mul_h + QUOTIENT(phase, p.phases_w) - p.top, from_row = QUOTIENT(above, p.div_h);
        const I64 shift = REMAINDER(phase, p.phases_w) - p.left;
        if (i == p.items - 1) {
            for (I64 c = 0; c < p.slack; c++) to[c] = 0;
        } else if (above < 0 || from_row * p.div_h != above || from_row >= p.h) {
            for (I64 c = 0; c < p.columns; c++) to[c] = 0;
        } else {
            GLOBAL const T *from = in0 + p.in_offset + (plane * p.h + from_row) * p.w;
            if (p.mul_w == 1 && p.div_w == 1) {
                const I64 first = M_MIN_OF(M_MAX_OF(-shift, (I64)0), p.columns);
                const I64 last = M_MAX_OF(M_MIN_OF(p.w - shift, p.columns), first);
                for (I64 c = 0; c < first; c++) to[c] = 0;
                for (I64 c = first; c < last; c++) to[c] = LOAD(from, c + shift);
                for (I64 c = last; c < p.columns; c++) to[c] = 0;
            } else {
                for (I64 c = 0; c < p.columns; c++) {
                    const I64 before = c * p.mul_w + shift, at = QUOTIENT(before, p.div_w);
                    to[c] = before >= 0 && at * p.div_w == before && at < p.w ? LOAD(from, at) : (A)0;
                }
            }
        }
    }
}

/* Where a tap finds its elements, relative to a channel. */
#define CONV2D_TAP(y, x)                                                                                               \
    ((REMAINDER((y) * p.step_h, p.phases_h) * p.phases_w + REMAINDER((x) * p.step_w, p.phases_w)) * p.plane +          \
     QUOTIENT((y) * p.step_h, p.phases_h) * p.columns + QUOTIENT((x) * p.step_w, p.phases_w))

/* A tile of the result a work item. */
KERNEL4(conv2d_tile, conv2d_tile_params, T, out, const ACC, in0, const ACC, weight, const ACC, bias)
{
    const I64 strips = (p.m + TILE_ROWS - 1) / TILE_ROWS, span = (p.h - 1) * p.columns + p.w;
    FOR_ITEMS(i) {
        const I64 tile = QUOTIENT(i, strips), i0 = (i - tile * strips) * TILE_ROWS, part = QUOTIENT(tile, p.tiles);
        const I64 q0 = (tile - part * p.tiles) * TILE_WIDTH, image = QUOTIENT(part, p.groups), group = part - image * p.groups;
        GLOBAL const ACC *planes = in0 + image * p.image + group * p.channels * p.channel + q0;
        GLOBAL const ACC *taps = weight + p.weight_offset + group * p.w_group + i0 * p.w_out;
        const I64 below = p.m - 1 - i0, row0 = 0;
        const I64 row1 = M_MIN_OF(below, 1) * p.w_out, row2 = M_MIN_OF(below, 2) * p.w_out;
        const I64 row3 = M_MIN_OF(below, 3) * p.w_out, row4 = M_MIN_OF(below, 4) * p.w_out;
        const I64 row5 = M_MIN_OF(below, 5) * p.w_out;
        TILE_EACH(TILE_ZERO)
        for (I64 y = 0; y < p.kh; y++)
            for (I64 x = 0; x < p.kw; x++) {
                GLOBAL const ACC *b = planes + CONV2D_TAP(y, x), *a = taps + y * p.w_kh + x * p.w_kw;
                for (I64 c = 0; c < p.channels; c++) {
                    TILE_LOAD(b)
#define CONV2D_STEP(r) TILE_FMA(r, a[row##r])
                    TILE_EACH(CONV2D_STEP)
#undef CONV2D_STEP
                    a += p.w_channel;
                    b += p.channel;
                }
            }
        const I64 end = M_MIN_OF(span, q0 + TILE_WIDTH);
#define CONV2D_KEEP(r)                                                                                                 \
        if (r <= below) {                                                                                              \
            const I64 channel = group * p.m + i0 + r;                                                                  \
            const A start = p.has_bias ? bias[p.bias_offset + channel] : (A)0;                                         \
            GLOBAL T *to = out + p.y_offset + (image * p.groups * p.m + channel) * p.h * p.w;                          \
            ACC row[TILE_WIDTH];                                                                                       \
            TILE_STORE(r, row)                                                                                         \
            for (I64 q = q0, y = QUOTIENT(q0, p.columns); q < end; y++) {                                              \
                const I64 next = M_MIN_OF((y + 1) * p.columns, end), stop = M_MIN_OF(y * p.columns + p.w, next);       \
                for (I64 j = q; j < stop; j++) STORE(to, y * p.w + j - y * p.columns, row[j - q0] + start);            \
                q = next;                                                                                              \
            }                                                                                                          \
        }
        TILE_EACH(CONV2D_KEEP)
#undef CONV2D_KEEP
    }
}

#define CONV2D_ROWS 4
#define CONV2D_EACH(what) what(0) what(1) what(2) what(3)
/* Four channels of dy against four taps a work item. */
KERNEL3(conv2d_weight, conv2d_weight_params, ACC, out, const ACC, in0, const ACC, in1)
{
    const I64 taps = p.channels * p.kh * p.kw, strips = (p.m + CONV2D_ROWS - 1) / CONV2D_ROWS;
    const I64 blocks = (taps + CONV2D_ROWS - 1) / CONV2D_ROWS;
    FOR_ITEMS(i) {
        const I64 part = QUOTIENT(i, blocks), k0 = (i - part * blocks) * CONV2D_ROWS, above = QUOTIENT(part, strips);
        const I64 i0 = (part - above * strips) * CONV2D_ROWS, piece = QUOTIENT(above, p.groups), group = above - piece * p.groups;
        const I64 first = piece * p.per_piece, last = M_MIN_OF(first + p.per_piece, p.n);
        const I64 below = p.m - 1 - i0, right = taps - 1 - k0;
        /* Channels and taps past the last are the last again. */
#define CONV2D_ROW(r)                                                                                                  \
        const I64 dy##r = (group * p.m + i0 + M_MIN_OF(below, (I64)r)) * p.dy_plane;                                   \
        const I64 tap##r = k0 + M_MIN_OF(right, (I64)r), c##r = QUOTIENT(tap##r, p.kh * p.kw);                         \
        const I64 yx##r = tap##r - c##r * (p.kh * p.kw), ky##r = QUOTIENT(yx##r, p.kw), kx##r = yx##r - ky##r * p.kw;  \
        const I64 x##r = (group * p.channels + c##r) * p.channel + CONV2D_TAP(ky##r, kx##r);                           \
        V s##r##0 = VSPLAT(LIT(0.0)), s##r##1 = s##r##0, s##r##2 = s##r##0, s##r##3 = s##r##0;
        CONV2D_EACH(CONV2D_ROW)
#undef CONV2D_ROW
        for (I64 image = first; image < last; image++) {
            GLOBAL const ACC *dy = in0 + image * p.dy_image, *x = in1 + image * p.image;
            for (I64 q = 0; q < p.span; q += LANES) {
                const V v0 = VLOAD(x + x0 + q), v1 = VLOAD(x + x1 + q), v2 = VLOAD(x + x2 + q), v3 = VLOAD(x + x3 + q);
#define CONV2D_STEP(r)                                                                                                 \
                {                                                                                                      \
                    const V w = VLOAD(dy + dy##r + q);                                                                 \
                    s##r##0 = VFMA(w, v0, s##r##0);                                                                    \
                    s##r##1 = VFMA(w, v1, s##r##1);                                                                    \
                    s##r##2 = VFMA(w, v2, s##r##2);                                                                    \
                    s##r##3 = VFMA(w, v3, s##r##3);                                                                    \
                }
                CONV2D_EACH(CONV2D_STEP)
#undef CONV2D_STEP
            }
        }
        GLOBAL ACC *to = out + ((piece * p.groups + group) * p.m + i0) * taps + k0;
        ACC lanes[4 * LANES];
#define CONV2D_KEEP(r)                                                                                                 \
        if (r <= below) {                                                                                              \
            VSTORE(lanes, s##r##0);                                                                                    \
            VSTORE(lanes + LANES, s##r##1);                                                                            \
            VSTORE(lanes + 2 * LANES, s##r##2);                                                                        \
            VSTORE(lanes + 3 * LANES, s##r##3);                                                                        \
            for (I64 s = 0; s <= M_MIN_OF(right, (I64)3); s++) {                                                       \
                ACC sum = 0;                                                                                           \
                for (int l = 0; l < LANES; l++) sum += lanes[s * LANES + l];                                           \
                to[r * taps + s] = sum;                                                                                \
            }                                                                                                          \
        }
        CONV2D_EACH(CONV2D_KEEP)
#undef CONV2D_KEEP
    }
}
#endif
/* kernel text ends */
// clang-format on

/* TILE_ROWS, TILE_WIDTH / LANES and CONV2D_ROWS of kernel text. */
#define TILE_ROWS    6
#define TILE_VECTORS 4
#define CONV2D_ROWS  4

/* Elements of workspace worth having at once; images whose weight gradients are summed apart, and then in order; most
 * elements those sums may have; multiplications below which a work item's share should not fall. */
#define WORKSPACE    ((int64_t)1 << 26)
#define PIECE        8
#define PARTIAL_SUMS ((int64_t)1 << 21)
#define GRAIN        65536

static const char *const operation = "haul_conv2d";

static int64_t at_least_one(int64_t v)
{
    return v > 1 ? v : 1;
}

/* ---- planes ---- */

/* How images lie in a workspace: planes of rows x columns, phases of them for each channel. */
typedef struct planes {
    int64_t rows, columns, phases_h, phases_w, plane, channel, image;
} planes;

static planes planes_of(int64_t channels, int64_t rows, int64_t columns, int64_t phases_h, int64_t phases_w)
{
    int64_t plane = rows * columns, channel = plane * phases_h * phases_w;
    return (planes){rows, columns, phases_h, phases_w, plane, channel, channel * channels};
}

/* x's planes for outputs of c->out_h x c->out_w. */
static planes planes_of_x(const haul__conv2d *c)
{
    int64_t rows = c->out_h + (c->kh - 1) * c->dilation[0] / c->stride[0];
    int64_t columns = c->out_w + (c->kw - 1) * c->dilation[1] / c->stride[1];
    return planes_of(c->c_in, rows, columns, c->stride[0], c->stride[1]);
}

/* `slack` zeros behind the planes let tiles read past their end. */
static haul_tensor *pad(haul_tensor *t, const planes *to, const conv2d_pad_params *how, int64_t first, int64_t images,
                        int64_t channels)
{
    conv2d_pad_params p = *how;
    haul_shape        shape = HAUL_SHAPE(images * to->image + p.slack);
    haul_tensor      *out = haul__result(operation, t->storage->device, haul__sum_dtype(t->dtype), &shape);
    p.in_offset = t->offset + first * channels * p.h * p.w;
    p.rows = to->rows;
    p.columns = to->columns;
    p.phases_h = to->phases_h;
    p.phases_w = to->phases_w;
    p.items = images * channels * to->phases_h * to->phases_w * to->rows + 1;
    if (!out || haul__run(operation, t->storage->device, HAUL__K_conv2d_pad, t->dtype, &out, 1, &t, 1, &p, sizeof p,
                          p.items, at_least_one(GRAIN / 4 / at_least_one(p.columns))))
        return NULL;
    return out;
}

static haul_tensor *pad_x(haul_tensor *x, const planes *to, const haul__conv2d *c, int64_t slack, int64_t first,
                          int64_t images)
{
    return pad(x, to,
               &(conv2d_pad_params){.h = c->h,
                                    .w = c->w,
                                    .slack = slack,
                                    .mul_h = c->stride[0],
                                    .mul_w = c->stride[1],
                                    .div_h = 1,
                                    .div_w = 1,
                                    .top = c->padding[0],
                                    .left = c->padding[1]},
               first, images, c->c_in);
}

/* ---- forward and the gradient of x ---- */

static haul_status run_tiles(const haul__conv2d *c, conv2d_tile_params *p, const planes *from, haul_tensor *padded,
                             haul_tensor *weight, haul_tensor *bias, haul_tensor *y, int64_t first, int64_t images)
{
    haul_device *device = y->storage->device;
    int64_t      width = TILE_VECTORS * haul__kernel_lanes(device, y->dtype);
    haul_tensor *in[] = {padded, weight, bias ? bias : weight};
    p->kh = c->kh;
    p->kw = c->kw;
    p->groups = c->groups;
    p->columns = from->columns;
    p->plane = from->plane;
    p->channel = from->channel;
    p->image = from->image;
    p->phases_h = from->phases_h;
    p->phases_w = from->phases_w;
    p->tiles = haul__ceil_div((p->h - 1) * p->columns + p->w, width);
    p->weight_offset += weight->offset;
    p->y_offset = y->offset + first * c->groups * p->m * p->h * p->w;
    p->bias_offset = bias ? bias->offset : 0;
    p->has_bias = bias != NULL;
    p->items = images * c->groups * p->tiles * haul__ceil_div(p->m, TILE_ROWS);
    return haul__run(operation, device, HAUL__K_conv2d_tile, y->dtype, &y, 1, in, 3, p, sizeof *p, p->items,
                     at_least_one(GRAIN / (TILE_ROWS * 4) / at_least_one(p->channels * c->kh * c->kw)));
}

static haul_status forward_chunk(const haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *bias,
                                 haul_tensor *y, int64_t first, int64_t images)
{
    planes       from = planes_of_x(c);
    int64_t      slack = TILE_VECTORS * haul__kernel_lanes(y->storage->device, y->dtype), taps = c->kh * c->kw;
    haul_tensor *padded = pad_x(x, &from, c, slack, first, images);
    if (!padded)
        return haul_error_status();
    conv2d_tile_params p = {
        .m = c->c_out / c->groups,
        .channels = c->c_in / c->groups,
        .h = c->out_h,
        .w = c->out_w,
        .step_h = c->dilation[0],
        .step_w = c->dilation[1],
        .w_group = c->c_out / c->groups * (c->c_in / c->groups) * taps,
        .w_out = c->c_in / c->groups * taps,
        .w_channel = taps,
        .w_kh = c->kw,
        .w_kw = 1,
    };
    return run_tiles(c, &p, &from, padded, weight, bias, y, first, images);
}

/* dx is the convolution of dy, its elements a stride apart with zeros between them, with the weight turned round. */
static haul_status data_chunk(const haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *bias,
                              haul_tensor *y, int64_t first, int64_t images)
{
    (void)bias;
    int64_t      reach_h = (c->kh - 1) * c->dilation[0], reach_w = (c->kw - 1) * c->dilation[1];
    planes       from = planes_of(c->c_out, c->h + reach_h, c->w + reach_w, 1, 1);
    int64_t      slack = TILE_VECTORS * haul__kernel_lanes(x->storage->device, x->dtype), taps = c->kh * c->kw;
    haul_tensor *padded = pad(y, &from,
                              &(conv2d_pad_params){.h = c->out_h,
                                                   .w = c->out_w,
                                                   .slack = slack,
                                                   .mul_h = 1,
                                                   .mul_w = 1,
                                                   .div_h = c->stride[0],
                                                   .div_w = c->stride[1],
                                                   .top = reach_h - c->padding[0],
                                                   .left = reach_w - c->padding[1]},
                              first, images, c->c_out);
    if (!padded)
        return haul_error_status();
    conv2d_tile_params p = {
        .m = c->c_in / c->groups,
        .channels = c->c_out / c->groups,
        .h = c->h,
        .w = c->w,
        .step_h = c->dilation[0],
        .step_w = c->dilation[1],
        .weight_offset = taps - 1,
        .w_group = c->c_out / c->groups * (c->c_in / c->groups) * taps,
        .w_out = taps,
        .w_channel = c->c_in / c->groups * taps,
        .w_kh = -c->kw,
        .w_kw = -1,
    };
    return run_tiles(c, &p, &from, padded, weight, NULL, x, first, images);
}

/* Images go through a workspace in chunks of a size that depends on the shape only. */
typedef haul_status chunk_fn(const haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *bias,
                             haul_tensor *y, int64_t first, int64_t images);

static haul_status run_chunks(chunk_fn *fn, const haul__conv2d *c, int64_t per_image, haul_tensor *x,
                              haul_tensor *weight, haul_tensor *bias, haul_tensor *y)
{
    int64_t     most = at_least_one(WORKSPACE / at_least_one(per_image));
    haul_status status = HAUL_OK;
    for (int64_t first = 0; first < c->n && !status; first += most) {
        haul_scope *scope = haul_scope_push();
        if (!scope)
            return haul_error_status();
        status = fn(c, x, weight, bias, y, first, c->n - first < most ? c->n - first : most);
        haul_scope_pop(scope);
    }
    return status;
}

/* Tiles take the few values of weight and bias in the dtype of the sums, as they take the planes. */
static haul_status run_widened(chunk_fn *fn, const haul__conv2d *c, int64_t per_image, haul_tensor *x,
                               haul_tensor *weight, haul_tensor *bias, haul_tensor *y)
{
    haul_dtype dtype = haul__sum_dtype(weight->dtype);
    if (weight->dtype == dtype)
        return run_chunks(fn, c, per_image, x, weight, bias, y);
    bool         grad = haul_set_grad_enabled(false);
    haul_scope  *scope = haul_scope_push();
    haul_tensor *w = scope ? haul_cast(weight, dtype) : NULL, *b = w && bias ? haul_cast(bias, dtype) : NULL;
    haul_status  status = w && (b || !bias) ? run_chunks(fn, c, per_image, x, w, b, y) : haul_error_status();
    haul_scope_pop(scope);
    haul_set_grad_enabled(grad);
    return status;
}

haul_status haul__conv2d_flat_forward(const haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *bias,
                                      haul_tensor *y)
{
    return run_widened(forward_chunk, c, planes_of_x(c).image, x, weight, bias, y);
}

haul_status haul__conv2d_flat_data(const haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *dy)
{
    int64_t rows = c->h + (c->kh - 1) * c->dilation[0], columns = c->w + (c->kw - 1) * c->dilation[1];
    return run_widened(data_chunk, c, c->c_out * rows * columns, x, weight, NULL, dy);
}

/* ---- the gradient of the weight ---- */

/* The partial sums of all pieces, [pieces, c_out, c_in / groups, kh, kw]. */
static haul_tensor *weight_pieces(const haul__conv2d *c, haul_tensor *x, haul_tensor *dy, int64_t per_piece)
{
    haul_device *device = x->storage->device;
    int64_t      lanes = haul__kernel_lanes(device, x->dtype), channels = c->c_in / c->groups, m = c->c_out / c->groups;
    planes       from = planes_of_x(c);
    int64_t      span = haul__ceil_div((c->out_h - 1) * from.columns + c->out_w, lanes) * lanes;
    planes       dy_planes = planes_of(c->c_out, haul__ceil_div(span, from.columns), from.columns, 1, 1);
    haul_shape   shape = HAUL_SHAPE(haul__ceil_div(c->n, per_piece), c->c_out, channels, c->kh, c->kw);
    haul_tensor *padded = pad_x(x, &from, c, lanes, 0, c->n);
    haul_tensor *spread =
        pad(dy, &dy_planes,
            &(conv2d_pad_params){
                .h = c->out_h, .w = c->out_w, .slack = lanes, .mul_h = 1, .mul_w = 1, .div_h = 1, .div_w = 1},
            0, c->n, c->c_out);
    haul_tensor *sums = haul__result(operation, device, haul__sum_dtype(x->dtype), &shape);
    if (!padded || !spread || !sums)
        return NULL;
    conv2d_weight_params p = {
        .m = m,
        .channels = channels,
        .kh = c->kh,
        .kw = c->kw,
        .groups = c->groups,
        .n = c->n,
        .per_piece = per_piece,
        .span = span,
        .columns = from.columns,
        .plane = from.plane,
        .channel = from.channel,
        .image = from.image,
        .dy_plane = dy_planes.plane,
        .dy_image = dy_planes.image,
        .step_h = c->dilation[0],
        .step_w = c->dilation[1],
        .phases_h = from.phases_h,
        .phases_w = from.phases_w,
    };
    p.items = shape.dims[0] * c->groups * haul__ceil_div(m, CONV2D_ROWS) *
              haul__ceil_div(channels * c->kh * c->kw, CONV2D_ROWS);
    int64_t work = at_least_one(per_piece * span);
    if (haul__run(operation, device, HAUL__K_conv2d_weight, x->dtype, &sums, 1, (haul_tensor *[]){spread, padded}, 2,
                  &p, sizeof p, p.items, at_least_one(GRAIN / work)))
        return NULL;
    return sums;
}

haul_tensor *haul__conv2d_flat_weight(const haul__conv2d *c, haul_tensor *x, haul_tensor *dy)
{
    int64_t      count = at_least_one(c->c_out * (c->c_in / c->groups) * c->kh * c->kw);
    bool         pieces = c->n > PIECE && count <= PARTIAL_SUMS / haul__ceil_div(c->n, PIECE);
    haul_tensor *sums = weight_pieces(c, x, dy, pieces ? PIECE : c->n);
    haul_tensor *sum = sums ? haul_sum(sums, .axes = {0}, .count = 1) : NULL;
    return sum && sum->dtype != x->dtype ? haul_cast(sum, x->dtype) : sum;
}
