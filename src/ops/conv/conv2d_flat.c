/* 2-d convolution by portable kernels, without unfolding the image, for devices without a library for it.
 *
 * x is copied once into planes with its padding, `columns` wide; with strides, into one plane for each phase of the
 * stride. Then the elements that one tap (channel, row, column) of the weight meets are contiguous in memory, shifted
 * by the tap's offset, for all outputs at once: a convolution is a matrix product whose rows of B are the same plane,
 * shifted. Between the rows of the result are a few elements that belong to no output; the store skips them. */
#include "ops/conv/conv2d_flat.h"

#include "base/numbers.h"
#include "engine/copy.h"
#include "kernels/constants.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/matmul/gemm.h"

// clang-format off
/* kernel text begins */
#include "ops/matmul/tile_kernel.h"

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

enum { CONV2D_ROWS = 4 }; /* channels of dy, and taps, of an item of conv2d_weight */

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
TEMPLATE(conv2d_tap, NAME, PARAMS)
FUNC I64 NAME(const PARAMS p, I64 y, I64 x)
{
    const I64 phase = REMAINDER(y * p.step_h, p.phases_h) * p.phases_w + REMAINDER(x * p.step_w, p.phases_w);
    return phase * p.plane + QUOTIENT(y * p.step_h, p.phases_h) * p.columns + QUOTIENT(x * p.step_w, p.phases_w);
}
END_TEMPLATE
EXPAND(conv2d_tap, conv2d_tile_tap, conv2d_tile_params)
EXPAND(conv2d_tap, conv2d_weight_tap, conv2d_weight_params)

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
        EXPAND(tile_zero)
        for (I64 y = 0; y < p.kh; y++)
            for (I64 x = 0; x < p.kw; x++) {
                GLOBAL const ACC *b = planes + conv2d_tile_tap(p, y, x), *a = taps + y * p.w_kh + x * p.w_kw;
                for (I64 c = 0; c < p.channels; c++) {
                    EXPAND(tile_load, b)
                    EXPAND(tile_add, a[row0], a[row1], a[row2], a[row3], a[row4], a[row5])
                    a += p.w_channel;
                    b += p.channel;
                }
            }
        const I64 end = M_MIN_OF(span, q0 + TILE_WIDTH);
        ACC rows[TILE_ROWS][TILE_WIDTH];
        EXPAND(tile_store, rows)
        for (int r = 0; r < TILE_ROWS && r <= below; r++) {
            const I64 channel = group * p.m + i0 + r;
            const A start = p.has_bias ? bias[p.bias_offset + channel] : (A)0;
            GLOBAL T *to = out + p.y_offset + (image * p.groups * p.m + channel) * p.h * p.w;
            for (I64 q = q0, y = QUOTIENT(q0, p.columns); q < end; y++) {
                const I64 next = M_MIN_OF((y + 1) * p.columns, end), stop = M_MIN_OF(y * p.columns + p.w, next);
                for (I64 j = q; j < stop; j++) STORE(to, y * p.w + j - y * p.columns, rows[r][j - q0] + start);
                q = next;
            }
        }
    }
}

/* Where tap k of a group finds its elements in an image of x. */
FUNC I64 conv2d_tap_at(const conv2d_weight_params of, I64 group, I64 k)
{
    const I64 c = QUOTIENT(k, of.kh * of.kw), yx = k - c * (of.kh * of.kw), y = QUOTIENT(yx, of.kw), x = yx - y * of.kw;
    return (group * of.channels + c) * of.channel + conv2d_weight_tap(of, y, x);
}

/* The sums of the lanes of `count` vectors. */
FUNC void conv2d_fold(GLOBAL ACC *to, I64 count, const ACC *lanes)
{
    for (I64 s = 0; s < count; s++) {
        ACC sum = 0;
        for (int l = 0; l < LANES; l++) sum += lanes[s * LANES + l];
        to[s] = sum;
    }
}

/* Row R of the four channels of dy and column R of the four taps, and the sums of that row. Channels and taps past the last
 * are the last again. */
TEMPLATE(conv2d_row, R)
        const I64 dy##R = (group * p.m + i0 + M_MIN_OF(below, (I64)R)) * p.dy_plane;
        const I64 x##R = conv2d_tap_at(p, group, k0 + M_MIN_OF(right, (I64)R));
        V s##R##0 = VSPLAT(LIT(0.0)), s##R##1 = s##R##0, s##R##2 = s##R##0, s##R##3 = s##R##0;
END_TEMPLATE
TEMPLATE(conv2d_add_row, R)
                {
                    const V w = VLOAD(dy + dy##R + q);
                    s##R##0 = VFMA(w, v0, s##R##0);
                    s##R##1 = VFMA(w, v1, s##R##1);
                    s##R##2 = VFMA(w, v2, s##R##2);
                    s##R##3 = VFMA(w, v3, s##R##3);
                }
END_TEMPLATE
TEMPLATE(conv2d_store_row, R)
        if (R <= below) {
            VSTORE(lanes, s##R##0);
            VSTORE(lanes + LANES, s##R##1);
            VSTORE(lanes + 2 * LANES, s##R##2);
            VSTORE(lanes + 3 * LANES, s##R##3);
            conv2d_fold(to + R * taps, count, lanes);
        }
END_TEMPLATE
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
        EXPAND(conv2d_row, 0)
        EXPAND(conv2d_row, 1)
        EXPAND(conv2d_row, 2)
        EXPAND(conv2d_row, 3)
        for (I64 image = first; image < last; image++) {
            GLOBAL const ACC *dy = in0 + image * p.dy_image, *x = in1 + image * p.image;
            for (I64 q = 0; q < p.span; q += LANES) {
                const V v0 = VLOAD(x + x0 + q), v1 = VLOAD(x + x1 + q), v2 = VLOAD(x + x2 + q), v3 = VLOAD(x + x3 + q);
                EXPAND(conv2d_add_row, 0)
                EXPAND(conv2d_add_row, 1)
                EXPAND(conv2d_add_row, 2)
                EXPAND(conv2d_add_row, 3)
            }
        }
        GLOBAL ACC *to = out + ((piece * p.groups + group) * p.m + i0) * taps + k0;
        const I64 count = M_MIN_OF(right + 1, (I64)CONV2D_ROWS);
        ACC lanes[CONV2D_ROWS * LANES];
        EXPAND(conv2d_store_row, 0)
        EXPAND(conv2d_store_row, 1)
        EXPAND(conv2d_store_row, 2)
        EXPAND(conv2d_store_row, 3)
    }
}
#endif
/* kernel text ends */
// clang-format on

/* Elements of workspace worth having at once; images in a piece, which has a weight gradient of its own, before these
 * are added in order; the most elements of all these gradients; multiplications that make a work item's share
 * worthwhile. */
#define WORKSPACE    ((int64_t)1 << 26)
#define PIECE        8
#define PARTIAL_SUMS ((int64_t)1 << 21)
#define GRAIN        65536

static int64_t at_least_one(int64_t v)
{
    return v > 1 ? v : 1;
}

/* ---- planes ---- */

/* The layout of images in a workspace: planes of rows x columns, `phases` of them for each channel. */
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

/* dy's planes: its elements are a stride apart, with borders that give every tap of the weight something to read. */
static planes planes_of_dy(const haul__conv2d *c)
{
    return planes_of(c->c_out, c->h + (c->kh - 1) * c->dilation[0], c->w + (c->kw - 1) * c->dilation[1], 1, 1);
}

/* Allocates the planes of `images`; `slack` zeros after them let tiles read past their end. */
static haul_tensor *room_for(const haul__convolution *v, const planes *to, int64_t images, int64_t slack)
{
    haul_shape shape = HAUL_SHAPE(images * to->image + slack);
    return haul__temporary(v->call, haul__sum_dtype(v->settings.dtype), &shape);
}

/* On processors, planes that are copied as they are need one item each in the place of one for each row. */
static void join_rows(conv2d_pad_params *p, const haul_device *device)
{
    if (haul__device_shares_tiles(device) ||
        p->phases_h * p->phases_w * p->mul_h * p->mul_w * p->div_h * p->div_w != 1 || p->top || p->left ||
        p->rows != p->h || p->columns != p->w)
        return;
    p->columns = p->w = p->h * p->w;
    p->rows = p->h = 1;
}

/* Copies images of `t` from `first` on into `room`. */
static haul_status pad(const haul__convolution *v, haul_tensor *t, const planes *to, const conv2d_pad_params *how,
                       haul_tensor *room, int64_t first, int64_t images, int64_t channels)
{
    conv2d_pad_params p = *how;
    p.in_offset = t->offset + first * channels * p.h * p.w;
    p.rows = to->rows;
    p.columns = to->columns;
    p.phases_h = to->phases_h;
    p.phases_w = to->phases_w;
    join_rows(&p, v->call->device);
    p.items = images * channels * to->phases_h * to->phases_w * p.rows + 1;
    return haul__launch_kernel(v->call, HAUL__K_conv2d_pad, t->dtype, HAUL__OUT(room), HAUL__IN(t), HAUL__PARAMS(p),
                               .grain = at_least_one(GRAIN / 4 / at_least_one(p.columns)));
}

static haul_status pad_x(const haul__convolution *v, const planes *to, int64_t slack, haul_tensor *room, int64_t first,
                         int64_t images)
{
    const haul__conv2d     *c = &v->settings;
    const conv2d_pad_params how = {
        .h = c->h,
        .w = c->w,
        .slack = slack,
        .mul_h = c->stride[0],
        .mul_w = c->stride[1],
        .div_h = 1,
        .div_w = 1,
        .top = c->padding[0],
        .left = c->padding[1],
    };
    return pad(v, v->x, to, &how, room, first, images, c->c_in);
}

/* ---- forward and the gradient of x ---- */

static int64_t tile_width(const haul__convolution *v)
{
    return TILE_VECTORS * haul__kernel_lanes(v->call->device, v->settings.dtype);
}

static haul_status run_tiles(const haul__convolution *v, conv2d_tile_params *p, const planes *from, haul_tensor *padded,
                             haul_tensor *out, int64_t first, int64_t images)
{
    const haul__conv2d *c = &v->settings;
    haul_tensor        *in[] = {padded, v->weight, v->bias ? v->bias : v->weight};
    p->kh = c->kh;
    p->kw = c->kw;
    p->groups = c->groups;
    p->columns = from->columns;
    p->plane = from->plane;
    p->channel = from->channel;
    p->image = from->image;
    p->phases_h = from->phases_h;
    p->phases_w = from->phases_w;
    p->tiles = haul__ceil_div((p->h - 1) * p->columns + p->w, tile_width(v));
    p->weight_offset += v->weight->offset;
    p->y_offset = out->offset + first * c->groups * p->m * p->h * p->w;
    p->bias_offset = v->bias ? v->bias->offset : 0;
    p->has_bias = v->bias != NULL;
    p->items = images * c->groups * p->tiles * haul__ceil_div(p->m, TILE_ROWS);
    return haul__launch_kernel(
        v->call, HAUL__K_conv2d_tile, out->dtype, HAUL__OUT(out), .ins = in, .in_count = 3, HAUL__PARAMS(*p),
        .grain = at_least_one(GRAIN / (TILE_ROWS * 4) / at_least_one(p->channels * c->kh * c->kw)));
}

static haul_status forward_chunk(const haul__convolution *v, const planes *from, haul_tensor *room, int64_t first,
                                 int64_t images)
{
    const haul__conv2d *c = &v->settings;
    int64_t             taps = c->kh * c->kw;
    if (pad_x(v, from, tile_width(v), room, first, images))
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
    return run_tiles(v, &p, from, room, v->y, first, images);
}

/* dx is the convolution of dy, its elements a stride apart with zeros between them, with the flipped weight. */
static haul_status data_chunk(const haul__convolution *v, const planes *from, haul_tensor *room, int64_t first,
                              int64_t images)
{
    const haul__conv2d     *c = &v->settings;
    int64_t                 taps = c->kh * c->kw;
    const conv2d_pad_params how = {
        .h = c->out_h,
        .w = c->out_w,
        .slack = tile_width(v),
        .mul_h = 1,
        .mul_w = 1,
        .div_h = c->stride[0],
        .div_w = c->stride[1],
        .top = (c->kh - 1) * c->dilation[0] - c->padding[0],
        .left = (c->kw - 1) * c->dilation[1] - c->padding[1],
    };
    if (pad(v, v->y, from, &how, room, first, images, c->c_out))
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
    return run_tiles(v, &p, from, room, v->x, first, images);
}

typedef haul_status chunk_fn(const haul__convolution *v, const planes *from, haul_tensor *room, int64_t first,
                             int64_t images);

/* Images pass through one workspace in chunks whose size only depends on the shape. Tiles read the few values of weight
 * and bias in the dtype of the sums, like the planes. */
static haul_status run_chunks(const haul__convolution *v, const planes *from, chunk_fn *fn)
{
    haul__convolution wide = *v;
    haul_dtype        dtype = haul__sum_dtype(v->settings.dtype);
    int64_t           n = v->settings.n, most = at_least_one(WORKSPACE / at_least_one(from->image));
    wide.weight = haul__as_dtype(v->call, v->weight, dtype);
    wide.bias = v->bias ? haul__as_dtype(v->call, v->bias, dtype) : NULL;
    if (haul__failed(wide.weight) || (v->bias && !wide.bias))
        return haul_error_status();
    haul_tensor *room = room_for(v, from, n < most ? n : most, tile_width(v));
    haul_status  status = haul__status_of(room);
    for (int64_t first = 0; first < n && !status; first += most)
        status = fn(&wide, from, room, first, n - first < most ? n - first : most);
    return status;
}

haul_status haul__conv2d_flat_forward(const haul__convolution *v)
{
    planes from = planes_of_x(&v->settings);
    return run_chunks(v, &from, forward_chunk);
}

haul_status haul__conv2d_flat_data(const haul__convolution *v)
{
    planes from = planes_of_dy(&v->settings);
    return run_chunks(v, &from, data_chunk);
}

/* ---- the gradient of the weight ---- */

/* The partial sums of all pieces, [pieces, c_out, c_in / groups, kh, kw]. */
static haul_tensor *weight_pieces(const haul__convolution *v, int64_t per_piece)
{
    const haul__conv2d *c = &v->settings;
    int64_t             lanes = haul__kernel_lanes(v->call->device, c->dtype), channels = c->c_in / c->groups;
    planes              from = planes_of_x(c);
    int64_t    span = haul__ceil_div((c->out_h - 1) * from.columns + c->out_w, lanes) * lanes, m = c->c_out / c->groups;
    planes     dy_planes = planes_of(c->c_out, haul__ceil_div(span, from.columns), from.columns, 1, 1);
    haul_shape shape = HAUL_SHAPE(haul__ceil_div(c->n, per_piece), c->c_out, channels, c->kh, c->kw);
    haul_tensor            *padded = room_for(v, &from, c->n, lanes), *spread = room_for(v, &dy_planes, c->n, lanes);
    haul_tensor            *sums = haul__temporary(v->call, haul__sum_dtype(c->dtype), &shape);
    const conv2d_pad_params how = {
        .h = c->out_h, .w = c->out_w, .slack = lanes, .mul_h = 1, .mul_w = 1, .div_h = 1, .div_w = 1};
    if (!padded || !spread || !sums || pad_x(v, &from, lanes, padded, 0, c->n) ||
        pad(v, v->y, &dy_planes, &how, spread, 0, c->n, c->c_out))
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
    if (haul__launch_kernel(v->call, HAUL__K_conv2d_weight, c->dtype, HAUL__OUT(sums), HAUL__IN(spread, padded),
                            HAUL__PARAMS(p), .grain = at_least_one(GRAIN / at_least_one(per_piece * span))))
        return NULL;
    return sums;
}

haul_status haul__conv2d_flat_weight(const haul__convolution *v)
{
    const haul__conv2d *c = &v->settings;
    int64_t             count = at_least_one(c->c_out * (c->c_in / c->groups) * c->kh * c->kw);
    bool                pieces = c->n > PIECE && count <= PARTIAL_SUMS / haul__ceil_div(c->n, PIECE);
    haul_tensor        *sums = weight_pieces(v, pieces ? PIECE : c->n);
    haul_tensor        *sum = haul__failed(sums) ? NULL : haul_sum(sums, HAUL_AXES(0));
    return haul__failed(sum) ? haul_error_status() : haul__copy_elements(v->weight, sum, v->call->operation->name);
}
