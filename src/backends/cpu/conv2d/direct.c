/* The implementation "direct": convolutions, one image at a time, with the register tiles of matrix products.
 *
 * An image is copied with its padding into planes (one for each phase of the stride), which stay in a cache. In a
 * plane, the elements that meet one tap of the weight are contiguous for all outputs, shifted by the tap's offset. So
 * the rows of B of a matrix product are the same plane, shifted, and nothing is unfolded. Between the rows of the
 * result are a few elements that belong to no output; the copy to the destination skips them.
 *
 * Only the shape decides how work is cut. Weight gradients are sums over fixed pieces of the batch, added in order. */
#include <string.h>

#include "backends/cpu/conv2d/refusals.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/tiles.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/workspace.h"
#include "core/pool.h"
#include "core/shape.h"

/* Multiplications that make a task worthwhile; images in a piece, which has a weight gradient of its own; the most
 * elements of all these gradients; rows and taps of the weight's gradient in a task. */
#define TASK_WORK    1000000.0
#define PIECE        8
#define PARTIAL_SUMS ((int64_t)1 << 21)
#define BLOCK_ROWS   32
#define BLOCK_TAPS   256

static const char *const operation = "haul_conv2d";

/* How many of `work` multiplications make a task. */
static int64_t grain_for(double work)
{
    return work >= TASK_WORK ? 1 : (int64_t)(TASK_WORK / (work > 1 ? work : 1));
}

/* ---- planes ---- */

/* Planes [h, w] become `phases` planes [rows, columns] each: element (r, c) of phase (y, x) comes from
 * ((r mul + y - top) / div, (c mul + x - left) / div), if that is a whole number inside; else it is 0. */
typedef struct planes {
    int64_t h, w, rows, columns, phases[2], mul[2], div[2], shift[2];
    int64_t size; /* of an element */
} planes;

static int64_t plane_elements(const planes *p)
{
    return p->rows * p->columns;
}

static int64_t channel_elements(const planes *p)
{
    return p->phases[0] * p->phases[1] * plane_elements(p);
}

/* to[i div] = from[i mul] */
#define SPREAD(bytes)                                                                                                  \
    static void spread_##bytes(char *to, int64_t div, const char *from, int64_t mul, int64_t count)                    \
    {                                                                                                                  \
        for (int64_t i = 0; i < count; i++, to += div * bytes, from += mul * bytes)                                    \
            memcpy(to, from, bytes);                                                                                   \
    }
SPREAD(4)
SPREAD(8)

static void pad_row(const planes *p, char *to, const char *from, int64_t shift)
{
    int64_t size = p->size;
    if (p->mul[1] == 1 && p->div[1] == 1) {
        int64_t first = smaller(shift < 0 ? -shift : 0, p->columns), last = smaller(p->w - shift, p->columns);
        if (last < first)
            last = first;
        HAUL__ASSERT(first == last || (0 <= first + shift && last + shift <= p->w));
        if (first > 0)
            memset(to, 0, (size_t)(first * size));
        memcpy(to + first * size, from + (first + shift) * size, (size_t)((last - first) * size));
        if (last < p->columns)
            memset(to + last * size, 0, (size_t)((p->columns - last) * size));
        return;
    }
    memset(to, 0, (size_t)(p->columns * size));
    /* Every mul-th element, or elements div apart; one of the two is 1. */
    int64_t mul = p->mul[1], div = p->div[1];
    int64_t first = shift < 0 ? haul__ceil_div(-shift, mul) : 0, at = first * mul + shift;
    if (at % div) {
        first += div - at % div;
        at += div - at % div;
    }
    int64_t left_to = haul__ceil_div(p->columns - first, div), left_from = haul__ceil_div(p->w - at / div, mul);
    int64_t count = smaller(left_to, left_from);
    HAUL__ASSERT((mul == 1 || div == 1) && (size == 4 || size == 8));
    if (size == 4)
        spread_4(to + first * size, div, from + at / div * size, mul, count);
    else
        spread_8(to + first * size, div, from + at / div * size, mul, count);
}

/* `slack` additional zeros, so that tiles may read past the end. */
static void pad(const planes *p, char *to, const char *from, int64_t channels, int64_t slack)
{
    int64_t row = p->columns * p->size, image = p->h * p->w * p->size;
    bool    as_it_is = p->mul[0] * p->mul[1] * p->div[0] * p->div[1] == 1 && p->shift[0] == 0 && p->shift[1] == 0;
    if (as_it_is && p->rows == p->h && p->columns == p->w) {
        memcpy(to, from, (size_t)(channels * image));
        memset(to + channels * image, 0, (size_t)(slack * p->size));
        return;
    }
    for (int64_t c = 0; c < channels; c++, from += image)
        for (int64_t y = 0; y < p->phases[0]; y++)
            for (int64_t x = 0; x < p->phases[1]; x++)
                for (int64_t r = 0; r < p->rows; r++, to += row) {
                    int64_t before = r * p->mul[0] + y - p->shift[0], at = before / p->div[0];
                    if (before >= 0 && at * p->div[0] == before && at < p->h)
                        pad_row(p, to, from + at * p->w * p->size, x - p->shift[1]);
                    else
                        memset(to, 0, (size_t)row);
                }
    memset(to, 0, (size_t)(slack * p->size));
}

static planes planes_of_x(const haul__conv2d *c, int64_t size)
{
    return (planes){
        .h = c->h,
        .w = c->w,
        .rows = c->out_h + (c->kh - 1) * c->dilation[0] / c->stride[0],
        .columns = c->out_w + (c->kw - 1) * c->dilation[1] / c->stride[1],
        .phases = {c->stride[0], c->stride[1]},
        .mul = {c->stride[0], c->stride[1]},
        .div = {1, 1},
        .shift = {c->padding[0], c->padding[1]},
        .size = size,
    };
}

/* dy with its elements a stride apart, so that a convolution of it gives dx. */
static planes planes_of_dy(const haul__conv2d *c, int64_t size)
{
    int64_t reach_h = (c->kh - 1) * c->dilation[0], reach_w = (c->kw - 1) * c->dilation[1];
    return (planes){
        .h = c->out_h,
        .w = c->out_w,
        .rows = c->h + reach_h,
        .columns = c->w + reach_w,
        .phases = {1, 1},
        .mul = {1, 1},
        .div = {c->stride[0], c->stride[1]},
        .shift = {reach_h - c->padding[0], reach_w - c->padding[1]},
        .size = size,
    };
}

/* The offsets of the elements for each tap (channel, row, column). */
static int64_t *tap_offsets(const haul__conv2d *c, const planes *p, int64_t channels)
{
    int64_t *offsets = haul__work_alloc((size_t)(channels * c->kh * c->kw) * sizeof *offsets), *next = offsets;
    for (int64_t i = 0; offsets && i < channels; i++)
        for (int64_t y = 0; y < c->kh; y++)
            for (int64_t x = 0; x < c->kw; x++) {
                int64_t down = y * c->dilation[0], right = x * c->dilation[1];
                int64_t phase = down % p->phases[0] * p->phases[1] + right % p->phases[1];
                *next++ = i * channel_elements(p) + phase * plane_elements(p) + down / p->phases[0] * p->columns +
                          right / p->phases[1];
            }
    HAUL__ASSERT(!offsets || next == offsets + channels * c->kh * c->kw);
    return offsets;
}

/* ---- forward and the gradient of x ---- */

/* out [n, groups m, out_h, out_w] from planes of in [n, groups channels, h, w] and weight [groups, m, channels taps].
 */
typedef struct convolution {
    const haul__cpu_tiles *tiles;
    planes                 planes;
    int64_t                n, groups, m, channels, taps, out_h, out_w;
    int64_t                blocks, rows; /* of m: how many, and rows of each */
    const char            *in, *weight, *bias;
    char                  *out;
    int64_t               *offsets;
    int64_t                span, pitch; /* of a row of the result in scratch */
    haul__cpu_scratch      scratch;
} convolution;

static int64_t padded_elements(const convolution *v)
{
    return round_up(v->channels * channel_elements(&v->planes) + v->tiles->width, v->tiles->width);
}

/* Rows of out are planes.columns apart in scratch. */
static void crop(const convolution *v, char *out, const char *from, int64_t rows)
{
    int64_t size = v->planes.size, row = v->out_w * size;
    for (int64_t i = 0; i < rows; i++)
        for (int64_t y = 0; y < v->out_h; y++)
            memcpy(out + (i * v->out_h + y) * row, from + (i * v->pitch + y * v->planes.columns) * size, (size_t)row);
}

static void convolve_block(const convolution *v, int64_t part, int64_t block, char *padded, char *result)
{
    int64_t size = v->planes.size, first = block * v->rows, group = part % v->groups;
    bool    dense = v->planes.columns == v->out_w; /* then there is nothing between rows */
    int64_t rows = smaller(v->rows, v->m - first), row = group * v->m + first;
    char   *out = v->out + (part * v->m + first) * v->out_h * v->out_w * size;
    HAUL__ASSERT(0 < rows && v->span <= v->pitch);
    haul__cpu_product p = {
        .m = rows,
        .n = v->span,
        .k = v->channels * v->taps,
        .a = v->weight + row * v->channels * v->taps * size,
        .a_row = v->channels * v->taps,
        .a_column = 1,
        .b = padded,
        .b_rows = v->offsets,
        .c = dense ? out : result,
        .c_row = dense ? v->span : v->pitch,
        .row_bias = v->bias ? v->bias + row * size : NULL,
    };
    v->tiles->product(&p);
    if (!dense)
        crop(v, out, result, rows);
}

/* Tasks are images x groups x blocks of rows; those of one image and group follow one another. */
static void convolve(void *context, int64_t first, int64_t last)
{
    convolution *v = context;
    int          slot;
    char        *padded = haul__cpu_scratch_take(&v->scratch, &slot);
    char        *result = padded + padded_elements(v) * v->planes.size;
    int64_t      before = -1;
    HAUL__ASSERT(last <= v->n * v->groups * v->blocks);
    for (int64_t i = first; i < last; i++) {
        int64_t part = i / v->blocks;
        if (part != before)
            pad(&v->planes, padded, v->in + part * v->channels * v->planes.h * v->planes.w * v->planes.size,
                v->channels, v->tiles->width);
        before = part;
        convolve_block(v, part, i - part * v->blocks, padded, result);
    }
    haul__cpu_scratch_give(&v->scratch, slot);
}

static haul_status run_convolution(convolution *v, const haul__conv2d *c)
{
    haul_status status = HAUL_OK;
    v->n = c->n;
    v->groups = c->groups;
    v->taps = c->kh * c->kw;
    v->span = (v->out_h - 1) * v->planes.columns + v->out_w;
    v->pitch = round_up(v->span, v->tiles->lanes);
    /* For few images, their rows are distributed, too. */
    int64_t wanted = c->n * c->groups < 16 ? haul__ceil_div(16, c->n * c->groups) : 1;
    v->rows = round_up(haul__ceil_div(v->m, wanted), v->tiles->rows);
    v->blocks = haul__ceil_div(v->m, v->rows);
    HAUL__ASSERT((v->blocks - 1) * v->rows < v->m && v->m <= v->blocks * v->rows && v->out_w <= v->planes.columns);
    v->offsets = tap_offsets(c, &v->planes, v->channels);
    int64_t tasks = c->n * c->groups * v->blocks, elements;
    if (!haul__mul_size(v->rows, v->pitch, &elements) || !v->offsets ||
        !haul__cpu_scratch_open(&v->scratch, (size_t)(padded_elements(v) + elements) * (size_t)v->planes.size, tasks)) {
        status = haul__fail_memory(operation, (size_t)(padded_elements(v) * v->planes.size));
        goto out;
    }
    double work = (double)v->rows * (double)v->span * (double)v->channels * (double)v->taps;
    haul__parallel_for(tasks, grain_for(work), convolve, v);
    haul__cpu_scratch_close(&v->scratch);
out:
    haul__work_free(v->offsets);
    return status;
}

static char *address(const haul__buffer *buffer, int64_t offset, int64_t size)
{
    return (char *)buffer->host + offset * size;
}

static haul_status run_forward(const haul__conv2d *c)
{
    int64_t     size = c->dtype == HAUL_F32 ? 4 : 8;
    convolution v = {
        .tiles = haul__cpu_tiles_for(c->dtype),
        .planes = planes_of_x(c, size),
        .m = c->c_out / c->groups,
        .channels = c->c_in / c->groups,
        .out_h = c->out_h,
        .out_w = c->out_w,
        .in = address(c->x, c->x_offset, size),
        .weight = address(c->weight, c->weight_offset, size),
        .bias = c->bias ? address(c->bias, c->bias_offset, size) : NULL,
        .out = address(c->y, c->y_offset, size),
    };
    return run_convolution(&v, c);
}

/* weight [groups, o, i, taps] as [groups, i, o, taps], taps in reverse. */
static char *turned_weight(const haul__conv2d *c, int64_t size)
{
    int64_t     o = c->c_out / c->groups, i = c->c_in / c->groups, taps = c->kh * c->kw;
    const char *from = address(c->weight, c->weight_offset, size);
    char       *to = haul__work_alloc((size_t)(c->c_out * i * taps * size));
    for (int64_t g = 0; to && g < c->groups; g++)
        for (int64_t a = 0; a < i; a++)
            for (int64_t b = 0; b < o; b++) {
                char       *out = to + (((g * i + a) * o + b) * taps) * size;
                const char *in = from + (((g * o + b) * i + a) * taps) * size;
                for (int64_t t = 0; t < taps; t++)
                    memcpy(out + t * size, in + (taps - 1 - t) * size, (size_t)size);
            }
    return to;
}

static haul_status run_data(const haul__conv2d *c)
{
    int64_t     size = c->dtype == HAUL_F32 ? 4 : 8;
    convolution v = {
        .tiles = haul__cpu_tiles_for(c->dtype),
        .planes = planes_of_dy(c, size),
        .m = c->c_in / c->groups,
        .channels = c->c_out / c->groups,
        .out_h = c->h,
        .out_w = c->w,
        .in = address(c->y, c->y_offset, size),
        .bias = c->bias ? address(c->bias, c->bias_offset, size) : NULL,
        .out = address(c->x, c->x_offset, size),
    };
    char *weight = turned_weight(c, size);
    if (!weight)
        return haul__fail_memory(operation, (size_t)(c->c_out * (c->c_in / c->groups) * c->kh * c->kw * size));
    v.weight = weight;
    haul_status status = run_convolution(&v, c);
    haul__work_free(weight);
    return status;
}

/* ---- the gradient of the weight ---- */

/* Tasks are pieces x groups x blocks of rows x blocks of channels of the weight; each goes through its piece's images.
 */
typedef struct weight_gradient {
    const haul__conv2d    *c;
    const haul__cpu_tiles *tiles;
    planes                 x, dy; /* dy's have x's width and no phases */
    int64_t                m, channels, taps, size;
    int64_t                pieces, per_piece, row_blocks, channel_blocks, channels_each;
    int64_t                length; /* of a dot product */
    int64_t               *offsets;
    char                  *sums; /* [pieces, c_out, channels, taps] */
    haul__cpu_scratch      scratch;
} weight_gradient;

static int64_t x_elements(const weight_gradient *v)
{
    return round_up(v->channels_each * channel_elements(&v->x) + v->tiles->width, v->tiles->width);
}

static int64_t dy_elements(const weight_gradient *v)
{
    return round_up(smaller(v->m, BLOCK_ROWS) * plane_elements(&v->dy) + v->tiles->width, v->tiles->width);
}

static void gradient_task(const weight_gradient *v, int64_t task, char *memory)
{
    const haul__conv2d *c = v->c;
    int64_t             size = v->size, channel_block = task % v->channel_blocks, rest = task / v->channel_blocks;
    int64_t             row_block = rest % v->row_blocks, part = rest / v->row_blocks;
    int64_t             group = part % c->groups, piece = part / c->groups;
    int64_t             row = row_block * BLOCK_ROWS, rows = smaller(BLOCK_ROWS, v->m - row);
    int64_t             channel = channel_block * v->channels_each;
    int64_t             channels = smaller(v->channels_each, v->channels - channel);
    int64_t             first = piece * v->per_piece, last = smaller(first + v->per_piece, c->n);
    HAUL__ASSERT(rows > 0 && channels > 0 && first < last && v->length <= plane_elements(&v->dy));
    char          *x = memory, *dy = x + x_elements(v) * size, *sums = dy + dy_elements(v) * size;
    haul__cpu_dots dots = {
        .m = rows,
        .n = channels * v->taps,
        .k = v->length,
        .a = dy,
        .a_row = plane_elements(&v->dy),
        .b = x,
        .b_rows = v->offsets,
    };
    for (int64_t n = first; n < last; n++) {
        int64_t from_x = (n * c->c_in + group * v->channels + channel) * c->h * c->w;
        int64_t from_dy = (n * c->c_out + group * v->m + row) * c->out_h * c->out_w;
        pad(&v->x, x, address(c->x, c->x_offset + from_x, size), channels, v->tiles->width);
        pad(&v->dy, dy, address(c->y, c->y_offset + from_dy, size), rows, v->tiles->width);
        v->tiles->gather(&dots, sums, n > first);
    }
    char *out = v->sums + ((piece * c->c_out + group * v->m + row) * v->channels + channel) * v->taps * size;
    for (int64_t i = 0; i < rows; i++)
        v->tiles->fold(out + i * v->channels * v->taps * size, sums + i * dots.n * v->tiles->lanes * size, dots.n);
}

static void gradient_tasks(void *context, int64_t first, int64_t last)
{
    weight_gradient *v = context;
    int              slot;
    char            *memory = haul__cpu_scratch_take(&v->scratch, &slot);
    for (int64_t i = first; i < last; i++)
        gradient_task(v, i, memory);
    haul__cpu_scratch_give(&v->scratch, slot);
}

static int64_t weight_elements(const haul__conv2d *c)
{
    return c->c_out * (c->c_in / c->groups) * c->kh * c->kw;
}

/* Adds the pieces in order, a range of elements per call. */
static void add_pieces(void *context, int64_t first, int64_t last)
{
    const weight_gradient *v = context;
    int64_t                count = weight_elements(v->c), size = v->size;
    char                  *out = address(v->c->weight, v->c->weight_offset + first, size);
    memcpy(out, v->sums + first * size, (size_t)((last - first) * size));
    for (int64_t p = 1; p < v->pieces; p++)
        v->tiles->add(out, v->sums + (p * count + first) * size, last - first);
}

static haul_status run_gradient(weight_gradient *v)
{
    const haul__conv2d *c = v->c;
    int64_t             tasks = v->pieces * c->groups * v->row_blocks * v->channel_blocks, count = weight_elements(c);
    int64_t             block = smaller(v->m, BLOCK_ROWS) * v->channels_each * v->taps;
    size_t              bytes = (size_t)(x_elements(v) + dy_elements(v) + block * v->tiles->lanes) * (size_t)v->size;
    bool                partial = v->pieces > 1;
    haul_status         status = HAUL_OK;
    char               *sums = partial ? haul__work_alloc((size_t)(v->pieces * count * v->size)) : NULL;
    v->sums = partial ? sums : address(c->weight, c->weight_offset, v->size);
    v->offsets = tap_offsets(c, &v->x, v->channels_each);
    HAUL__ASSERT(v->channels_each * v->channel_blocks >= v->channels && v->row_blocks * BLOCK_ROWS >= v->m);
    if ((partial && !sums) || !v->offsets || !haul__cpu_scratch_open(&v->scratch, bytes, tasks)) {
        status = haul__fail_memory(operation, bytes);
        goto out;
    }
    haul__parallel_for(tasks, grain_for((double)block * (double)v->length * (double)v->per_piece), gradient_tasks, v);
    haul__cpu_scratch_close(&v->scratch);
    if (partial)
        haul__parallel_for(count, 1 << 14, add_pieces, v);
out:
    haul__work_free(v->offsets);
    haul__work_free(sums);
    return status;
}

static haul_status run_weight(const haul__conv2d *c)
{
    int64_t         size = c->dtype == HAUL_F32 ? 4 : 8, count = weight_elements(c);
    weight_gradient v = {
        .c = c,
        .tiles = haul__cpu_tiles_for(c->dtype),
        .x = planes_of_x(c, size),
        .m = c->c_out / c->groups,
        .channels = c->c_in / c->groups,
        .taps = c->kh * c->kw,
        .size = size,
    };
    v.length = round_up((c->out_h - 1) * v.x.columns + c->out_w, v.tiles->lanes);
    v.dy = (planes){
        .h = c->out_h,
        .w = c->out_w,
        .rows = haul__ceil_div(v.length, v.x.columns),
        .columns = v.x.columns,
        .phases = {1, 1},
        .mul = {1, 1},
        .div = {1, 1},
        .size = size,
    };
    v.per_piece = c->n > PIECE && count <= PARTIAL_SUMS / haul__ceil_div(c->n, PIECE) ? PIECE : c->n;
    v.pieces = haul__ceil_div(c->n, v.per_piece);
    HAUL__ASSERT((v.pieces - 1) * v.per_piece < c->n && c->n <= v.pieces * v.per_piece);
    v.row_blocks = haul__ceil_div(v.m, BLOCK_ROWS);
    v.channels_each = smaller(v.channels, v.taps < BLOCK_TAPS ? BLOCK_TAPS / v.taps : 1);
    v.channel_blocks = haul__ceil_div(v.channels, v.channels_each);
    return run_gradient(&v);
}

/* ---- the implementation ---- */

const char *haul__cpu_conv2d_direct_refuses(haul_device *device, const void *problem)
{
    (void)device;
    return problem ? haul__cpu_conv2d_tiles_refuse(problem) : NULL;
}

haul_status haul__cpu_conv2d_direct(haul__stream *s, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)s;
    if (c->pass == HAUL__CONV2D_FORWARD)
        return run_forward(c);
    return c->pass == HAUL__CONV2D_DATA ? run_data(c) : run_weight(c);
}
