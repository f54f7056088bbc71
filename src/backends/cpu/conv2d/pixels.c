/* The implementation "pixels": convolutions whose pixels or output channels fill vectors, as products that read the
 * input in place.
 *
 * If rows of the result fill vectors, pixels are the columns of a product, whose rows are output channels: a tile's
 * sums go straight to the result. Otherwise output channels are the columns. Then a pixel of the input is a factor for
 * a vector of weights, so that any stride can be read in place and short rows leave no lanes empty. (With a stride and
 * many output channels, panels.c is faster.) Sums of a few rows of pixels stay in a cache, and are copied from there to
 * the planes of the result. In both forms weights are packed once, and nothing is unfolded.
 *
 * The sum of an element is the same chain as in direct.c. Images are distributed. */
#include <string.h>

#include "backends/cpu/conv2d/refusals.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/panels.h"
#include "backends/cpu/gemm/tiles.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/workspace.h"
#include "core/pool.h"
#include "core/shape.h"

/* Pixels whose sums are kept before they are copied, and the fewest images that give every thread some. */
#define KEPT_PIXELS  128
#define LEAST_IMAGES 16

/* The fewest output channels of a group for products with pixels as columns. Those with pixels as rows need several
 * pixels in a row, and so many taps that copying the sums takes little of the time. In longer rows without stride, what
 * direct.c computes between rows is less than the copy. */
#define LEAST_CHANNELS 6
#define LEAST_PIXELS   6
#define LEAST_TAPS     24
#define LONG_ROW       32

/* Multiplications that make a task worthwhile. */
#define TASK_WORK 1000000.0

static const char *const operation = "haul_conv2d";

typedef struct convolution {
    const haul__conv2d     *c;
    const haul__cpu_pixels *pixels;
    int64_t                 m, channels, taps; /* of a group: channels of both sides, and all taps of a channel of y */
    int64_t                 h, w;              /* of padded planes */
    int64_t                 blocks, each;      /* of channels of y: how many, and channels of each */
    int64_t                 rows;              /* of y, whose sums are kept */
    bool                    by_planes;         /* pixels are the columns of products */
    bool                    pads;
    int64_t                *offsets;
    float                  *weight, *bias; /* packed: [groups, blocks, taps, width], and [groups, blocks, width] */
    haul__cpu_scratch       scratch;
} convolution;

static float *data(const haul__buffer *buffer, int64_t offset)
{
    return (float *)buffer->host + offset;
}

/* ---- what all images share ---- */

static void find_taps(convolution *v)
{
    const haul__conv2d *c = v->c;
    int64_t            *next = v->offsets;
    for (int64_t i = 0; i < v->channels; i++)
        for (int64_t y = 0; y < c->kh; y++)
            for (int64_t x = 0; x < c->kw; x++)
                *next++ = (i * v->h + y * c->dilation[0]) * v->w + x * c->dilation[1];
}

/* Channels of block b of a group. */
static int64_t channels_of(const convolution *v, int64_t b)
{
    HAUL__ASSERT(b < v->blocks && b * v->each < v->m);
    return smaller(v->each, v->m - b * v->each);
}

/* Columns of panels up to a whole vector are zero. */
static void pack_weights(const convolution *v)
{
    const haul__conv2d     *c = v->c;
    const haul__cpu_panels *panels = haul__cpu_panels_for(HAUL_F32);
    int64_t                 width = v->pixels->width;
    for (int64_t i = 0; i < c->groups * v->blocks; i++) {
        int64_t group = i / v->blocks, b = i - group * v->blocks, n = channels_of(v, b);
        int64_t channel = group * v->m + b * v->each;
        HAUL__ASSERT(0 < n && n <= (v->by_planes ? v->pixels->rows : width));
        float *to = v->weight + i * v->taps * width, *from = data(c->weight, c->weight_offset + channel * v->taps);
        if (v->by_planes)
            panels->pack_a(to, 0, from, v->taps, 1, n, v->taps);
        else
            panels->pack_b(to, from, 1, v->taps, v->taps, n);
        memset(v->bias + i * width, 0, (size_t)width * sizeof(float));
        if (c->bias)
            memcpy(v->bias + i * width, data(c->bias, c->bias_offset + channel), (size_t)n * sizeof(float));
    }
}

/* ---- an image ---- */

/* Copies the planes of a group into those that have zeros around them. */
static void pad(const convolution *v, float *to, const float *from)
{
    const haul__conv2d *c = v->c;
    for (int64_t i = 0; i < v->channels; i++)
        for (int64_t y = 0; y < c->h; y++, from += c->w)
            memcpy(to + (i * v->h + y + c->padding[0]) * v->w + c->padding[1], from, (size_t)c->w * sizeof(float));
}

/* Number `panel` of the packed weights, from tap k on, and where its sums go. Sums are chains of HAUL__TILE_DEPTH taps.
 */
static haul__cpu_strip strip_of(const convolution *v, int64_t panel, int64_t k, float *to)
{
    int64_t width = v->pixels->width;
    HAUL__ASSERT(0 <= k && k < v->taps && panel < v->c->groups * v->blocks);
    const float *weight = v->weight + panel * v->taps * width;
    return (haul__cpu_strip){
        .k = smaller(HAUL__TILE_DEPTH, v->taps - k),
        .taps = v->offsets + k,
        .a = weight + k * v->pixels->rows,
        .b = weight + k * width,
        .b_row = width,
        .b_vector = v->pixels->lanes,
        .c = to,
        .accumulate = k > 0,
    };
}

/* The bias of the channels of a panel, which is added with the first taps. */
static const float *bias_of(const convolution *v, int64_t panel, int64_t k)
{
    return k == 0 ? v->bias + panel * v->pixels->width : NULL;
}

/* Pixels are columns: row `row` of y for some channels. */
static void convolve_planes(const convolution *v, int64_t panel, const float *x, int64_t row, float *y,
                            int64_t channels)
{
    const haul__conv2d *c = v->c;
    HAUL__ASSERT(c->out_w % v->pixels->width == 0 && c->stride[1] == 1);
    for (int64_t j = 0; j < c->out_w; j += v->pixels->width)
        for (int64_t k = 0; k < v->taps; k += HAUL__TILE_DEPTH) {
            haul__cpu_strip s = strip_of(v, panel, k, y + row * c->out_w + j);
            s.m = channels;
            s.b = x + row * c->stride[0] * v->w + j;
            s.c_row = c->out_h * c->out_w;
            s.row_bias = bias_of(v, panel, k);
            v->pixels->multiply_planes(&s);
        }
}

/* Pixels are rows: rows [first, last) of y for some channels. */
static void convolve_pixels(const convolution *v, int64_t panel, const float *x, int64_t first, int64_t last,
                            float *sums, float *y, int64_t channels)
{
    const haul__conv2d *c = v->c;
    int64_t             width = v->pixels->width, lanes = v->pixels->lanes;
    HAUL__ASSERT(first < last && last - first <= v->rows && channels <= width);
    for (int64_t k = 0; k < v->taps; k += HAUL__TILE_DEPTH)
        for (int64_t row = first; row < last; row++) {
            haul__cpu_strip s = strip_of(v, panel, k, sums + (row - first) * c->out_w * width);
            s.m = c->out_w;
            s.n = channels > lanes ? width : lanes;
            s.bias = bias_of(v, panel, k);
            s.a = x + row * c->stride[0] * v->w;
            s.a_row = c->stride[1];
            s.c_row = width;
            v->pixels->multiply(&s);
        }
    v->pixels->leave(y + first * c->out_w, c->out_h * c->out_w, sums, (last - first) * c->out_w, channels);
}

/* Image and group number `part`. */
static void convolve_part(const convolution *v, int64_t part, float *padded, float *sums)
{
    const haul__conv2d *c = v->c;
    const float        *x = data(c->x, c->x_offset + part * v->channels * c->h * c->w);
    float              *y = data(c->y, c->y_offset + part * v->m * c->out_h * c->out_w);
    if (v->pads) {
        pad(v, padded, x);
        x = padded;
    }
    for (int64_t b = 0; b < v->blocks; b++, y += v->each * c->out_h * c->out_w) {
        int64_t panel = part % c->groups * v->blocks + b, channels = channels_of(v, b);
        for (int64_t row = 0; row < c->out_h; row += v->rows) {
            if (v->by_planes)
                convolve_planes(v, panel, x, row, y, channels);
            else
                convolve_pixels(v, panel, x, row, smaller(row + v->rows, c->out_h), sums, y, channels);
        }
    }
}

static void convolve(void *context, int64_t first, int64_t last)
{
    convolution *v = context;
    int          slot;
    float       *sums = haul__cpu_scratch_take(&v->scratch, &slot);
    float       *padded = sums + (v->by_planes ? 0 : v->rows * v->c->out_w * v->pixels->width);
    if (v->pads)
        memset(padded, 0, (size_t)(v->channels * v->h * v->w) * sizeof(float));
    for (int64_t part = first; part < last; part++)
        convolve_part(v, part, padded, sums);
    haul__cpu_scratch_give(&v->scratch, slot);
}

/* ---- the convolution ---- */

static bool fills_rows(const haul__conv2d *c, int64_t width)
{
    return c->stride[1] == 1 && c->out_w % width == 0 && c->c_out / c->groups >= LEAST_CHANNELS;
}

/* Three quarters of the lanes. */
static bool fills_channels(const haul__conv2d *c, int64_t lanes)
{
    int64_t m = c->c_out / c->groups;
    return 4 * m >= 3 * haul__ceil_div(m, lanes) * lanes;
}

static bool fills_vectors(const haul__conv2d *c)
{
    const haul__cpu_pixels *pixels = haul__cpu_pixels_for_f32();
    if (fills_rows(c, pixels->width))
        return true;
    bool short_rows = c->out_w < LONG_ROW && c->c_in / c->groups * c->kh * c->kw >= LEAST_TAPS;
    return c->out_w >= LEAST_PIXELS && (c->stride[1] > 1 || short_rows) && fills_channels(c, pixels->lanes);
}

static bool measure(convolution *v, size_t *slot, size_t *shared)
{
    const haul__conv2d *c = v->c;
    int64_t             width = v->pixels->width, panels = c->groups * v->blocks, sums, planes, weight, taps;
    if (!haul__mul_size(v->rows * c->out_w, width, &sums) || !haul__mul_size(v->h, v->w, &planes) ||
        !haul__mul_size(planes, v->channels, &planes) || !haul__mul_size(panels * width, v->taps + 1, &weight) ||
        !haul__mul_size(v->taps, 8, &taps))
        return false;
    *slot = (size_t)((v->by_planes ? 0 : sums) + (v->pads ? planes : 0)) * sizeof(float);
    *shared = (size_t)weight * sizeof(float) + (size_t)taps + 64;
    return true;
}

const char *haul__cpu_conv2d_pixels_refuse(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)device;
    if (!c)
        return NULL;
    if (c->pass != HAUL__CONV2D_FORWARD)
        return "it computes no gradients";
    if (c->n * c->groups < LEAST_IMAGES)
        return "with fewer than 16 images and groups it leaves threads without work";
    return fills_vectors(c) ? haul__cpu_conv2d_f32_refuses(c)
                            : "neither rows nor output channels of this shape would fill its vectors";
}

haul_status haul__cpu_conv2d_pixels(haul__stream *s, const void *problem)
{
    const haul__conv2d *c = problem;
    convolution         v = {
                .c = c,
                .pixels = haul__cpu_pixels_for_f32(),
                .m = c->c_out / c->groups,
                .channels = c->c_in / c->groups,
                .taps = c->c_in / c->groups * c->kh * c->kw,
                .h = c->h + 2 * c->padding[0],
                .w = c->w + 2 * c->padding[1],
                .pads = c->padding[0] || c->padding[1],
    };
    haul_status status = HAUL_OK;
    size_t      slot = 0, shared = 0;
    (void)s;
    v.by_planes = fills_rows(c, v.pixels->width);
    v.blocks = haul__ceil_div(v.m, v.by_planes ? v.pixels->rows : v.pixels->width);
    v.each = v.by_planes ? haul__ceil_div(v.m, v.blocks) : v.pixels->width;
    v.rows = !v.by_planes && c->out_w < KEPT_PIXELS ? smaller(KEPT_PIXELS / c->out_w, c->out_h) : 1;
    char *block = measure(&v, &slot, &shared) ? haul__work_alloc(shared) : NULL;
    if (!block || !haul__cpu_scratch_open(&v.scratch, slot, c->n * c->groups)) {
        status = haul__fail_memory(operation, slot + shared);
        goto out;
    }
    v.weight = (float *)(void *)(((uintptr_t)block + 63) & ~(uintptr_t)63);
    v.bias = v.weight + c->groups * v.blocks * v.taps * v.pixels->width;
    v.offsets = (int64_t *)(void *)(v.bias + c->groups * v.blocks * v.pixels->width);
    HAUL__ASSERT((char *)(v.offsets + v.taps) <= block + shared);
    HAUL__ASSERT((v.blocks - 1) * v.each < v.m && v.m <= v.blocks * v.each); /* each channel is in one block */
    find_taps(&v);
    pack_weights(&v);
    double work = (double)(v.m * v.taps) * (double)c->out_h * (double)c->out_w;
    haul__parallel_for(c->n * c->groups, work >= TASK_WORK ? 1 : (int64_t)(TASK_WORK / (work + 1)) + 1, convolve, &v);
    haul__cpu_scratch_close(&v.scratch);
out:
    haul__work_free(block);
    return status;
}
