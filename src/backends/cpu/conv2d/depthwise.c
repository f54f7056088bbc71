/* The implementation "depthwise": convolutions with a weight of its own for each channel.
 *
 * Some rows of a channel are copied with their padding into planes (plane_copies.h), which stay in a cache. There the
 * pixels that meet one tap are adjacent, so vectors hold pixels of a row of the result, and their sums go straight to
 * it. The sum of an element is the same chain as in direct.c. Bands of rows are distributed. */
#include "backends/cpu/conv2d/planes.h"
#include "backends/cpu/conv2d/refusals.h"
#include "backends/cpu/cpu.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/workspace.h"
#include "core/pool.h"
#include "core/shape.h"

/* Elements of the planes of a band, the fewest rows of the result in it, and multiplications that make a task
 * worthwhile. */
#define BAND_ELEMENTS 6144
#define LEAST_ROWS    4
#define TASK_WORK     1000000.0

static const char *const operation = "haul_conv2d";

typedef struct convolution {
    const haul__conv2d     *c;
    const haul__cpu_planes *kernels;
    haul__planes            planes;
    int64_t                 taps, reach; /* rows of a plane behind the first that a row of the result meets */
    int64_t                 bands, rows; /* how many, and rows of the result in each */
    int64_t                *offsets;     /* of the taps */
    haul__cpu_scratch       scratch;
} convolution;

static float *data(const haul__buffer *buffer, int64_t offset)
{
    return (float *)buffer->host + offset;
}

static void find_taps(const convolution *v)
{
    HAUL__ASSERT(v->taps == v->c->kh * v->c->kw && v->taps <= HAUL__TILE_DEPTH);
    const haul__conv2d *c = v->c;
    int64_t            *next = v->offsets;
    for (int64_t y = 0; y < c->kh; y++)
        for (int64_t x = 0; x < c->kw; x++)
            *next++ = haul__planes_offset(&v->planes, y * c->dilation[0], x * c->dilation[1]);
}

/* Tasks are images x channels x bands. */
static void convolve(void *context, int64_t first, int64_t last)
{
    convolution        *v = context;
    const haul__conv2d *c = v->c;
    int                 slot;
    float              *planes = haul__cpu_scratch_take(&v->scratch, &slot);
    for (int64_t i = first; i < last; i++) {
        int64_t part = i / v->bands, channel = part % c->groups, row = i % v->bands * v->rows;
        int64_t rows = smaller(v->rows, c->out_h - row);
        HAUL__ASSERT(rows > 0);
        haul__cpu_taps taps = {
            .planes = planes,
            .columns = v->planes.columns,
            .taps = v->offsets,
            .weights = data(c->weight, c->weight_offset + channel * v->taps),
            .bias = c->bias ? *data(c->bias, c->bias_offset + channel) : 0,
            .k = v->taps,
        };
        v->kernels->fill(&v->planes, planes, data(c->x, c->x_offset + part * c->h * c->w), 1, row, rows + v->reach);
        v->kernels->sum(data(c->y, c->y_offset + (part * c->out_h + row) * c->out_w), &taps, rows, c->out_w);
    }
    haul__cpu_scratch_give(&v->scratch, slot);
}

/* Bands of equal height. */
static bool measure(convolution *v, size_t *slot)
{
    const haul__conv2d *c = v->c;
    haul__planes       *p = &v->planes;
    int64_t             row, most;
    if (!haul__mul_size(p->columns, p->phases[0] * p->phases[1], &row))
        return false;
    most = larger(BAND_ELEMENTS / row - v->reach, LEAST_ROWS);
    v->bands = haul__ceil_div(c->out_h, most);
    v->rows = haul__ceil_div(c->out_h, v->bands);
    HAUL__ASSERT((v->bands - 1) * v->rows < c->out_h && c->out_h <= v->bands * v->rows);
    p->rows = v->rows + v->reach;
    if (!haul__planes_measure(p) || !haul__mul_size(p->channel + HAUL__PLANES_SLACK, sizeof(float), &row))
        return false;
    *slot = (size_t)row;
    return true;
}

const char *haul__cpu_conv2d_depthwise_refuses(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)device;
    if (!c)
        return NULL;
    if (c->pass != HAUL__CONV2D_FORWARD)
        return "it computes no gradients";
    if (c->c_in != c->groups || c->c_out != c->groups)
        return "it takes as many groups as channels only";
    if (c->stride[0] > HAUL__MOST_STEP || c->stride[1] > HAUL__MOST_STEP)
        return "it takes a stride of up to 8 only";
    if (c->kh * c->kw > HAUL__TILE_DEPTH)
        return "it takes up to 256 taps only";
    return haul__cpu_conv2d_f32_refuses(c);
}

haul_status haul__cpu_conv2d_depthwise(haul__stream *s, const void *problem)
{
    const haul__conv2d *c = problem;
    convolution         v = {
                .c = c,
                .kernels = haul__cpu_planes_for_f32(),
                .planes = haul__planes_of_x(c),
                .taps = c->kh * c->kw,
                .reach = (c->kh - 1) * c->dilation[0] / c->stride[0],
    };
    haul_status status = HAUL_OK;
    size_t      slot = 0;
    (void)s;
    HAUL__ASSERT(c->c_in == c->groups && c->c_out == c->groups);
    bool fits = measure(&v, &slot);
    v.offsets = haul__work_alloc((size_t)v.taps * sizeof *v.offsets);
    if (!fits || !v.offsets || !haul__cpu_scratch_open(&v.scratch, slot, c->n * c->groups * v.bands)) {
        status = haul__fail_memory(operation, slot);
        goto out;
    }
    find_taps(&v);
    double work = (double)v.rows * (double)c->out_w * (double)v.taps;
    haul__parallel_for(c->n * c->groups * v.bands, work >= TASK_WORK ? 1 : (int64_t)(TASK_WORK / (work + 1)) + 1,
                       convolve, &v);
    haul__cpu_scratch_close(&v.scratch);
out:
    haul__work_free(v.offsets);
    return status;
}
