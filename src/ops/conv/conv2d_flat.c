/* 2-d convolution by portable kernels, without unfolding the image, for devices without a library for it.
 *
 * x is copied once into planes with its padding, `columns` wide; with strides, into one plane for each phase of the
 * stride. The planes of a channel's images follow one another. Then the elements that one tap (channel, row, column) of
 * the weight meets are contiguous in memory, shifted by the tap's offset, for all outputs of all images at once: a
 * convolution is a matrix product whose rows of B are the same planes, shifted. Between the rows of the result are a
 * few elements that belong to no output; the store skips them. There are fewer of them because zeros behind a row are
 * the zeros before the next one, where both have some. */
#include "ops/conv/conv2d_flat.h"

#include "base/assert.h"
#include "base/numbers.h"
#include "engine/copy.h"
#include "kernels/constants.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/conv/flat_planes.h"
#include "ops/matmul/gemm.h"

// clang-format off
/* kernel text begins */
#include "ops/matmul/tile_kernel.h"

/* Copy planes [images, channels, h, w] into planes [channels, phases, images, rows, columns]: element (r, c) of phase
 * (y, x) comes from ((r mul_h + y - top) / div_h, (c mul_w + x - left) / div_w) where that is a whole number inside the
 * plane; else it is 0. A work item is a row; the last one is `slack` zeros behind everything. `gap` zeros follow the
 * images of a phase. */
typedef struct conv2d_pad_params {
    I64 items;
    I64 images, channels;
    I64 in_offset, h, w, rows, columns, slack, gap;
    I64 phases_h, phases_w, mul_h, mul_w, div_h, div_w, top, left;
} conv2d_pad_params;

/* y [images, groups m, h, w], addressed by strides, = the taps [channels, kh, kw] of a weight, addressed by strides, over
 * padded planes, of which the first element for output 0 is `start`. */
typedef struct conv2d_tile_params {
    I64 items;
    I64 m, channels, kh, kw, groups;
    I64 images, h, w, rows, columns, tiles; /* of the result; of a plane; tiles that cover the planes of all images */
    I64 start, plane, channel; /* elements of the planes of a phase, of a channel (all its phases) */
    I64 step_h, step_w, phases_h, phases_w;
    I64 weight_offset, w_group, w_out, w_channel, w_kh, w_kw;
    I64 y_offset, y_plane, y_row, y_column, bias_offset;
    I32 has_bias, reserved;
} conv2d_tile_params;

/* dw [pieces, groups m, channels, kh, kw]: sums over a piece of dy's planes times x's, shifted. */
typedef struct conv2d_weight_params {
    I64 items;
    I64 m, channels, kh, kw, groups;
    I64 per_piece;        /* elements of the planes that are a piece */
    I64 span, dy_channel; /* elements up to the last one that counts, a multiple of LANES; from channel to channel */
    I64 columns, plane, channel; /* of x */
    I64 step_h, step_w, phases_h, phases_w;
} conv2d_weight_params;

enum { CONV2D_ROWS = 6, CONV2D_TAPS = 4 }; /* channels of dy, and taps, of an item of conv2d_weight */

#if defined(HAUL_KERNEL) && IS_FLOAT
KERNEL2(conv2d_pad, conv2d_pad_params, ACC, out, const T, in0)
{
    const I64 phases = p.phases_h * p.phases_w;
    FOR_ITEMS(i) {
        const I64 part = QUOTIENT(i, p.rows), r = i - part * p.rows, above_it = QUOTIENT(part, p.images), image = part - above_it * p.images;
        const I64 channel = QUOTIENT(above_it, phases), phase = above_it - channel * phases, plane = image * p.channels + channel;
        GLOBAL ACC *to = out + i * p.columns + above_it * p.gap;
        const I64 above = r * p.mul_h + QUOTIENT(phase, p.phases_w) - p.top, from_row = QUOTIENT(above, p.div_h);
        const I64 shift = REMAINDER(phase, p.phases_w) - p.left;
        if (i == p.items - 1) {
            for (I64 c = 0; c < p.slack; c++) to[c] = 0;
            continue;
        }
        if (above < 0 || from_row * p.div_h != above || from_row >= p.h) {
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
        if (r == p.rows - 1 && image == p.images - 1)
            for (I64 c = 0; c < p.gap; c++) to[p.columns + c] = 0;
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
    const I64 strips = (p.m + TILE_ROWS - 1) / TILE_ROWS, span = (p.images * p.rows - p.rows + p.h - 1) * p.columns + p.w;
    FOR_ITEMS(i) {
        const I64 tile = QUOTIENT(i, strips), i0 = (i - tile * strips) * TILE_ROWS, group = QUOTIENT(tile, p.tiles);
        const I64 q0 = (tile - group * p.tiles) * TILE_WIDTH;
        GLOBAL const ACC *planes = in0 + p.start + group * p.channels * p.channel + q0;
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
            for (I64 q = q0, row = QUOTIENT(q0, p.columns); q < end; row++) {
                const I64 image = QUOTIENT(row, p.rows), y = row - image * p.rows, before = row * p.columns;
                const I64 next = M_MIN_OF(before + p.columns, end), stop = y < p.h ? M_MIN_OF(before + p.w, next) : q;
                GLOBAL T *to = out + p.y_offset + (image * p.groups * p.m + channel) * p.y_plane + y * p.y_row;
                if (p.y_column == 1)
                    for (I64 j = q; j < stop; j++) STORE(to, j - before, rows[r][j - q0] + start);
                else
                    for (I64 j = q; j < stop; j++) STORE(to, (j - before) * p.y_column, rows[r][j - q0] + start);
                q = next;
            }
        }
    }
}

/* Where tap k of a group finds its elements in x. */
FUNC I64 conv2d_tap_at(const conv2d_weight_params of, I64 group, I64 k)
{
    const I64 c = QUOTIENT(k, of.kh * of.kw), yx = k - c * (of.kh * of.kw), y = QUOTIENT(yx, of.kw), x = yx - y * of.kw;
    return (group * of.channels + c) * of.channel + conv2d_weight_tap(of, y, x);
}

/* The sums of the lanes of `count` vectors, whose lanes are added in pairs. */
FUNC void conv2d_fold(GLOBAL ACC *to, I64 count, ACC *lanes)
{
    for (I64 s = 0; s < count; s++) {
        ACC *v = lanes + s * LANES;
        if (LANES >= 16)
            for (int l = 0; l < 8; l++) v[l] += v[l + 8];
        if (LANES >= 8)
            for (int l = 0; l < 4; l++) v[l] += v[l + 4];
        if (LANES >= 4)
            for (int l = 0; l < 2; l++) v[l] += v[l + 2];
        to[s] = v[0] + v[1];
    }
}

/* The sums of row R of the channels of dy. Channels and taps past the last are the last again. */
TEMPLATE(conv2d_row, R)
        GLOBAL const ACC *dy##R = in0 + (group * p.m + i0 + M_MIN_OF(below, (I64)R)) * p.dy_channel;
        V s##R##0 = VSPLAT(LIT(0.0)), s##R##1 = s##R##0, s##R##2 = s##R##0, s##R##3 = s##R##0;
END_TEMPLATE
TEMPLATE(conv2d_add_row, R)
                {
                    const V w = VLOAD(dy##R + q);
                    s##R##0 = VFMA(w, v0, s##R##0);
                    s##R##1 = VFMA(w, v1, s##R##1);
                    s##R##2 = VFMA(w, v2, s##R##2);
                    s##R##3 = VFMA(w, v3, s##R##3);
                }
END_TEMPLATE
TEMPLATE(conv2d_store_row, R)
        VSTORE(lanes[R], s##R##0);
        VSTORE(lanes[R] + LANES, s##R##1);
        VSTORE(lanes[R] + 2 * LANES, s##R##2);
        VSTORE(lanes[R] + 3 * LANES, s##R##3);
END_TEMPLATE
/* Some channels of dy against four taps a work item. */
KERNEL3(conv2d_weight, conv2d_weight_params, ACC, out, const ACC, in0, const ACC, in1)
{
    const I64 taps = p.channels * p.kh * p.kw, strips = (p.m + CONV2D_ROWS - 1) / CONV2D_ROWS;
    const I64 blocks = (taps + CONV2D_TAPS - 1) / CONV2D_TAPS;
    FOR_ITEMS(i) {
        const I64 part = QUOTIENT(i, blocks), k0 = (i - part * blocks) * CONV2D_TAPS, above = QUOTIENT(part, strips);
        const I64 i0 = (part - above * strips) * CONV2D_ROWS, piece = QUOTIENT(above, p.groups), group = above - piece * p.groups;
        const I64 first = piece * p.per_piece, last = M_MIN_OF(first + p.per_piece, p.span);
        const I64 below = p.m - 1 - i0, right = taps - 1 - k0;
        EXPAND(conv2d_row, 0)
        EXPAND(conv2d_row, 1)
        EXPAND(conv2d_row, 2)
        EXPAND(conv2d_row, 3)
        EXPAND(conv2d_row, 4)
        EXPAND(conv2d_row, 5)
        GLOBAL const ACC *x0 = in1 + conv2d_tap_at(p, group, k0), *x1 = in1 + conv2d_tap_at(p, group, k0 + M_MIN_OF(right, (I64)1));
        GLOBAL const ACC *x2 = in1 + conv2d_tap_at(p, group, k0 + M_MIN_OF(right, (I64)2));
        GLOBAL const ACC *x3 = in1 + conv2d_tap_at(p, group, k0 + M_MIN_OF(right, (I64)3));
        for (I64 q = first; q < last; q += LANES) {
            const V v0 = VLOAD(x0 + q), v1 = VLOAD(x1 + q), v2 = VLOAD(x2 + q), v3 = VLOAD(x3 + q);
            EXPAND(conv2d_add_row, 0)
            EXPAND(conv2d_add_row, 1)
            EXPAND(conv2d_add_row, 2)
            EXPAND(conv2d_add_row, 3)
            EXPAND(conv2d_add_row, 4)
            EXPAND(conv2d_add_row, 5)
        }
        GLOBAL ACC *to = out + ((piece * p.groups + group) * p.m + i0) * taps + k0;
        const I64 count = M_MIN_OF(right + 1, (I64)CONV2D_TAPS);
        ACC lanes[CONV2D_ROWS][CONV2D_TAPS * LANES];
        EXPAND(conv2d_store_row, 0)
        EXPAND(conv2d_store_row, 1)
        EXPAND(conv2d_store_row, 2)
        EXPAND(conv2d_store_row, 3)
        EXPAND(conv2d_store_row, 4)
        EXPAND(conv2d_store_row, 5)
        for (int r = 0; r < CONV2D_ROWS && r <= below; r++) conv2d_fold(to + r * taps, count, lanes[r]);
    }
}
#endif
/* kernel text ends */
// clang-format on

/* Elements of workspace worth having at once, on processors as many as a near cache holds; elements of the planes of a
 * channel that are a piece, which has a weight gradient of its own, before these are added in order: a multiple of all
 * numbers of LANES; the most elements of all these gradients; multiplications that make a work item's share worthwhile.
 */
#define WORKSPACE    ((int64_t)1 << 26)
#define NEAR         ((int64_t)1 << 18)
#define PIECE        4096
#define PIECE_STEP   16
#define PARTIAL_SUMS ((int64_t)1 << 21)
#define GRAIN        65536

static int64_t at_least_one(int64_t v)
{
    return v > 1 ? v : 1;
}

/* Allocates the planes of `images`, each phase with `gap` zeros behind it. */
static haul_tensor *room_for(const haul__convolution *v, const haul__flat_planes *p, int64_t images, int64_t gap)
{
    HAUL__ASSERT(images >= 0 && gap >= 0 && p->slack >= 0);
    haul_shape shape =
        HAUL_SHAPE(images * haul__flat_elements(p) + p->channels * p->phases[0] * p->phases[1] * gap + p->slack);
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
static haul_status pad(const haul__convolution *v, haul_tensor *t, const haul__flat_planes *to, haul_tensor *room,
                       int64_t first, int64_t images, int64_t gap)
{
    HAUL__ASSERT((first + images) * to->channels * to->h * to->w <= t->count);
    HAUL__ASSERT(images * haul__flat_elements(to) + to->channels * to->phases[0] * to->phases[1] * gap + to->slack <=
                 room->count);
    conv2d_pad_params p = {
        .images = images,
        .channels = to->channels,
        .in_offset = t->offset + first * to->channels * to->h * to->w,
        .h = to->h,
        .w = to->w,
        .rows = to->rows,
        .columns = to->columns,
        .slack = to->slack,
        .gap = gap,
        .phases_h = to->phases[0],
        .phases_w = to->phases[1],
        .mul_h = to->mul[0],
        .mul_w = to->mul[1],
        .div_h = to->div[0],
        .div_w = to->div[1],
        .top = to->shift[0],
        .left = to->shift[1],
    };
    join_rows(&p, v->call->device);
    p.items = images * p.channels * p.phases_h * p.phases_w * p.rows + 1;
    return haul__launch_kernel(v->call, HAUL__K_conv2d_pad, t->dtype, HAUL__OUT(room), HAUL__IN(t), HAUL__PARAMS(p),
                               .grain = at_least_one(GRAIN / 4 / at_least_one(p.columns)));
}

/* ---- forward and the gradient of x ---- */

/* A weight that a pass reads: strides between groups, outputs, the channels that are added up, and taps. */
typedef struct taps {
    haul_tensor *weight;
    int64_t      group, out, channel, row, column;
} taps;

static int64_t tile_width(const haul__convolution *v)
{
    return TILE_VECTORS * haul__kernel_lanes(v->call->device, v->settings.dtype);
}

/* A tile reads a few rows of the weight at a time, channel after channel. If these are apart, each element that it
 * reads is on another line, and on processors those of a long sum stay in no near cache. */
static bool channels_are_apart(const haul__convolution *v, int64_t channels, int64_t outputs)
{
    enum { LONG = 512, TILES = 4 };
    const haul__conv2d *c = &v->settings;
    return !v->call->device->strided && c->kh * c->kw > 1 && channels * c->kh * c->kw >= LONG &&
           c->n * outputs > TILES * tile_width(v);
}

/* The weight in the dtype of the sums, with dense channels if that pays. */
static haul_status take_weight(const haul__convolution *v, taps *t)
{
    const haul__conv2d *c = &v->settings;
    const int64_t       outs = c->c_out / c->groups, ins = c->c_in / c->groups, count = c->kh * c->kw;
    const bool          data = c->pass == HAUL__CONV2D_DATA;
    HAUL__ASSERT(v->weight->count == c->groups * outs * ins * count);
    *t = (taps){
        .weight = haul__as_dtype(v->call, v->weight, haul__sum_dtype(c->dtype)),
        .group = outs * ins * count,
        .out = data ? count : ins * count,
        .channel = data ? ins * count : count,
        .row = c->kw,
        .column = 1,
    };
    const int64_t rows = data ? ins : outs, channels = data ? outs : ins;
    if (haul__failed(t->weight) || !channels_are_apart(v, channels, data ? c->h * c->w : c->out_h * c->out_w))
        return haul__status_of(t->weight);
    HAUL__ASSERT(c->groups * t->group == t->weight->count);
    haul_shape    shape = HAUL_SHAPE(c->groups, rows, count, channels);
    const int64_t strides[] = {t->group, t->out, 1, t->channel};
    const int64_t dense[] = {t->group, count * channels, channels, 1};
    haul_tensor  *view = haul__view_as(v->call, t->weight, &shape, strides, t->weight->offset);
    t->weight = view ? haul__as_strided(v->call, view, dense) : NULL;
    t->out = count * channels;
    t->channel = 1;
    t->row = c->kw * channels;
    t->column = channels;
    return haul__status_of(t->weight);
}

/* True if the weight, `size` long, has the taps. */
static bool are_taps(const haul__flat_axis *a, int64_t size)
{
    const int64_t last = a->first + (a->count - 1) * a->step;
    return !a->count || (0 <= a->first && a->first < size && 0 <= last && last < size);
}

/* Completes the params, which have sizes, steps and strides of the result. */
static haul_status run_tiles(const haul__convolution *v, conv2d_tile_params *p, const taps *t,
                             const haul__flat_axis *down, const haul__flat_axis *across, const haul__flat_planes *from,
                             haul_tensor *padded, haul_tensor *out, int64_t first, int64_t images)
{
    HAUL__ASSERT(are_taps(down, v->settings.kh) && are_taps(across, v->settings.kw));
    HAUL__ASSERT(p->y_offset + (down->length - 1) * p->y_row + (across->length - 1) * p->y_column < p->y_plane);
    HAUL__ASSERT((first + images) * v->settings.groups * p->m * p->y_plane <= out->count);
    haul_tensor *in[] = {padded, t->weight, v->bias ? v->bias : t->weight};
    p->groups = v->settings.groups;
    p->images = images;
    p->kh = down->count;
    p->kw = across->count;
    p->h = down->length;
    p->w = across->length;
    p->rows = from->rows;
    p->columns = from->columns;
    p->tiles = haul__ceil_div(((images - 1) * p->rows + p->h - 1) * p->columns + p->w, tile_width(v));
    p->start = down->start * from->columns + across->start;
    p->plane = images * from->rows * from->columns;
    p->channel = p->plane * from->phases[0] * from->phases[1];
    HAUL__ASSERT(p->groups * p->channels * p->channel <= padded->count);
    p->phases_h = from->phases[0];
    p->phases_w = from->phases[1];
    p->weight_offset = t->weight->offset + down->first * t->row + across->first * t->column;
    p->w_group = t->group;
    p->w_out = t->out;
    p->w_channel = t->channel;
    p->w_kh = down->step * t->row;
    p->w_kw = across->step * t->column;
    p->y_offset += out->offset + first * p->groups * p->m * p->y_plane;
    p->bias_offset = v->bias ? v->bias->offset : 0;
    p->has_bias = v->bias != NULL;
    p->items = p->groups * p->tiles * haul__ceil_div(p->m, TILE_ROWS);
    int64_t work = at_least_one(p->channels * p->kh * p->kw);
    return haul__launch_kernel(v->call, HAUL__K_conv2d_tile, out->dtype, HAUL__OUT(out), .ins = in, .in_count = 3,
                               HAUL__PARAMS(*p), .grain = at_least_one(GRAIN / (TILE_ROWS * 4) / work));
}

static haul_status forward_chunk(const haul__convolution *v, const haul__flat_planes *from, const taps *t,
                                 haul_tensor *room, int64_t first, int64_t images)
{
    const haul__conv2d   *c = &v->settings;
    const haul__flat_axis down = {.count = c->kh, .step = 1, .length = c->out_h};
    const haul__flat_axis across = {.count = c->kw, .step = 1, .length = c->out_w};
    conv2d_tile_params    p = {
           .m = c->c_out / c->groups,
           .channels = c->c_in / c->groups,
           .step_h = c->dilation[0],
           .step_w = c->dilation[1],
           .y_plane = c->out_h * c->out_w,
           .y_row = c->out_w,
           .y_column = 1,
    };
    if (pad(v, v->x, from, room, first, images, 0))
        return haul_error_status();
    HAUL__ASSERT(first + images <= c->n);
    HAUL__ASSERT(p.m * c->groups == c->c_out && p.channels * c->groups == c->c_in);
    return run_tiles(v, &p, t, &down, &across, from, room, v->y, first, images);
}

/* ---- the gradient of x ---- */

static haul_status data_chunk(const haul__convolution *v, const haul__flat_planes *from, const taps *t,
                              haul_tensor *room, int64_t first, int64_t images)
{
    const haul__conv2d *c = &v->settings;
    const bool          phases = haul__flat_has_phases(c);
    conv2d_tile_params  p = {
         .m = c->c_in / c->groups,
         .channels = c->c_out / c->groups,
         .step_h = c->dilation[0],
         .step_w = c->dilation[1],
         .y_plane = c->h * c->w,
    };
    if (pad(v, v->y, from, room, first, images, 0))
        return haul_error_status();
    HAUL__ASSERT(first + images <= c->n);
    HAUL__ASSERT(p.m * c->groups == c->c_in && p.channels * c->groups == c->c_out);
    if (!phases) {
        const haul__flat_axis down = {.first = c->kh - 1, .count = c->kh, .step = -1, .length = c->h};
        const haul__flat_axis across = {.first = c->kw - 1, .count = c->kw, .step = -1, .length = c->w};
        p.y_row = c->w;
        p.y_column = 1;
        return run_tiles(v, &p, t, &down, &across, from, room, v->x, first, images);
    }
    haul_status status = HAUL_OK;
    for (int64_t i = 0; i < c->stride[0] * c->stride[1] && !status; i++) {
        int64_t            above, before, y = i / c->stride[1], x = i % c->stride[1];
        haul__flat_axis    down = haul__flat_phase(c, 0, y, &above);
        haul__flat_axis    across = haul__flat_phase(c, 1, x, &before);
        conv2d_tile_params of = p;
        if (!down.length || !across.length)
            continue;
        down.start = down.count ? from->shift[0] - above : 0;
        across.start = across.count ? from->shift[1] - before : 0;
        if (!down.count || !across.count)
            down = (haul__flat_axis){.length = down.length}, across = (haul__flat_axis){.length = across.length};
        of.y_offset = y * c->w + x;
        of.y_row = c->stride[0] * c->w;
        of.y_column = c->stride[1];
        status = run_tiles(v, &of, t, &down, &across, from, room, v->x, first, images);
    }
    return status;
}

typedef haul_status chunk_fn(const haul__convolution *v, const haul__flat_planes *from, const taps *t,
                             haul_tensor *room, int64_t first, int64_t images);

static int64_t workspace(const haul_device *device)
{
    return device->strided ? WORKSPACE : NEAR;
}

/* Images pass through one workspace in chunks whose size only depends on the shape. Tiles read the few values of weight
 * and bias in the dtype of the sums, like the planes. */
static haul_status run_chunks(const haul__convolution *v, const haul__flat_planes *from, chunk_fn *fn)
{
    haul__convolution wide = *v;
    taps              t;
    int64_t           n = v->settings.n,
            most = at_least_one(workspace(v->call->device) / at_least_one(haul__flat_elements(from)));
    if (take_weight(v, &t))
        return haul_error_status();
    wide.bias = v->bias ? haul__as_dtype(v->call, v->bias, haul__sum_dtype(v->settings.dtype)) : NULL;
    if (v->bias && !wide.bias)
        return haul_error_status();
    HAUL__ASSERT(most > 0);
    haul_tensor *room = room_for(v, from, n < most ? n : most, 0);
    haul_status  status = haul__status_of(room);
    for (int64_t first = 0; first < n && !status; first += most)
        status = fn(&wide, from, &t, room, first, n - first < most ? n - first : most);
    return status;
}

haul_status haul__conv2d_flat_forward(const haul__convolution *v)
{
    haul__flat_planes from = haul__flat_planes_of_x(&v->settings, tile_width(v));
    return run_chunks(v, &from, forward_chunk);
}

haul_status haul__conv2d_flat_data(const haul__convolution *v)
{
    haul__flat_planes from = haul__flat_planes_of_dy(&v->settings, tile_width(v));
    return run_chunks(v, &from, data_chunk);
}

/* ---- the gradient of the weight ---- */

/* How many elements of `span` make a piece, of which there are no more than their sums, `count` for each, have room. */
static int64_t piece_of(int64_t span, int64_t count)
{
    HAUL__ASSERT(span > 0 && count > 0);
    int64_t most = at_least_one(PARTIAL_SUMS / count), least = haul__ceil_div(span, most);
    return least > PIECE ? haul__ceil_div(least, PIECE_STEP) * PIECE_STEP : PIECE;
}

/* The partial sums of all pieces, [pieces, c_out, c_in / groups, kh, kw]. */
static haul_tensor *weight_pieces(const haul__convolution *v)
{
    const haul__conv2d     *c = &v->settings;
    int64_t                 lanes = haul__kernel_lanes(v->call->device, c->dtype), channels = c->c_in / c->groups;
    int64_t                 m = c->c_out / c->groups;
    const haul__flat_planes from = haul__flat_planes_of_x(c, lanes);
    const haul__flat_planes dy = {.channels = c->c_out,
                                  .h = c->out_h,
                                  .w = c->out_w,
                                  .rows = from.rows,
                                  .columns = from.columns,
                                  .phases = {1, 1},
                                  .mul = {1, 1},
                                  .div = {1, 1}};
    int64_t                 plane = c->n * from.rows * from.columns, gap = (lanes - plane % lanes) % lanes;
    int64_t                 span = ((c->n - 1) * from.rows + c->out_h - 1) * from.columns + c->out_w;
    int64_t                 piece = piece_of(span, at_least_one(c->c_out * channels * c->kh * c->kw));
    haul_shape              shape = HAUL_SHAPE(haul__ceil_div(span, piece), c->c_out, channels, c->kh, c->kw);
    HAUL__ASSERT(shape.dims[0] * piece >= span && piece % PIECE_STEP == 0);
    HAUL__ASSERT(0 <= gap && gap < lanes);
    haul_tensor *padded = room_for(v, &from, c->n, 0), *spread = room_for(v, &dy, c->n, gap);
    haul_tensor *sums = haul__temporary(v->call, haul__sum_dtype(c->dtype), &shape);
    if (!padded || !spread || !sums || pad(v, v->x, &from, padded, 0, c->n, 0) ||
        pad(v, v->y, &dy, spread, 0, c->n, gap))
        return NULL;
    conv2d_weight_params p = {
        .m = m,
        .channels = channels,
        .kh = c->kh,
        .kw = c->kw,
        .groups = c->groups,
        .per_piece = piece,
        .span = haul__ceil_div(span, lanes) * lanes,
        .dy_channel = plane + gap,
        .columns = from.columns,
        .plane = plane,
        .channel = plane * from.phases[0] * from.phases[1],
        .step_h = c->dilation[0],
        .step_w = c->dilation[1],
        .phases_h = from.phases[0],
        .phases_w = from.phases[1],
    };
    p.items = shape.dims[0] * c->groups * haul__ceil_div(m, CONV2D_ROWS) *
              haul__ceil_div(channels * c->kh * c->kw, CONV2D_TAPS);
    if (haul__launch_kernel(v->call, HAUL__K_conv2d_weight, c->dtype, HAUL__OUT(sums), HAUL__IN(spread, padded),
                            HAUL__PARAMS(p), .grain = at_least_one(GRAIN / at_least_one(p.per_piece))))
        return NULL;
    return sums;
}

haul_status haul__conv2d_flat_weight(const haul__convolution *v)
{
    haul_tensor *sums = weight_pieces(v), *sum;
    if (!sums)
        return haul_error_status();
    HAUL__ASSERT(sums->count == sums->shape.dims[0] * v->weight->count);
    if (v->weight->dtype == sums->dtype)
        return haul_sum_into(v->weight, sums, HAUL_AXES(0));
    sum = haul_sum(sums, HAUL_AXES(0));
    return haul__failed(sum) ? haul_error_status() : haul__copy_elements(v->weight, sum, v->call->operation->name);
}
