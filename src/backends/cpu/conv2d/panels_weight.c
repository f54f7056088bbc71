/* CPU convolutions as products of packed panels: the gradient of the weights.
 *
 * It is a sum over pixels of dy, whose channels are the rows of a product. Its columns are channels of x at one tap of
 * the weight. The x of some images, or of some rows of one, is copied to planes, one for each phase of the stride, and
 * from there to pixels of a vector of channels. Then rows of B are pixels of one plane, shifted by the tap, and are
 * read in place.
 *
 * Images are cut into pieces, whose sums are added in order. Within a piece, the sum of an element is a chain for each
 * part of the pixels. Pieces and parts depend on the shape alone. */
#include <string.h>

#include "backends/cpu/conv2d/panels.h"
#include "backends/cpu/conv2d/planes.h"
#include "backends/cpu/gemm/panels.h"
#include "backends/cpu/gemm/tiles.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/workspace.h"
#include "core/pool.h"
#include "core/shape.h"

/* Pieces of the batch and chunks of so many channels are this many together, if weights are not too large: the most
 * elements of the sums of all pieces. Chunks of a level may be narrower: pieces must not depend on that. Tasks for each
 * thread. */
#define CHUNKS       8
#define CHUNK        32
#define PARTIAL_SUMS ((int64_t)1 << 21)
#define TASKS        2

static const char *const operation = "haul_conv2d";

typedef struct gradient {
    const haul__conv2d     *c;
    const haul__cpu_panels *panels;
    const haul__cpu_pixels *pixels;
    const haul__cpu_planes *kernels;
    haul__planes            planes;
    int64_t                 reach;                           /* rows of planes behind those of the pixels */
    int64_t                 channels, m, taps;               /* of a group; of a channel */
    int64_t                 width, chunks;                   /* channels in a chunk, chunks in a group */
    int64_t                 per_piece, pieces, images, band; /* images; images and rows of dy in a part */
    int64_t                 each, tasks;                     /* chunks in a task; tasks for all */
    int64_t                 tiles, blocks;                   /* tiles of rows in a task; tasks for all */
    int64_t                 depth;                           /* pixels of a part */
    int64_t                 packed, pixel_elements, plane_elements;
    int64_t                 piece_elements; /* of sums */
    int64_t                *offsets;        /* of the pixels of a part */
    float                  *sums;           /* [pieces, groups, chunks, taps, m, width] */
    haul__cpu_scratch       scratch;
} gradient;

/* Pixels of some images, or rows of one, for some chunks of a group. */
typedef struct part {
    int64_t piece, group, chunk, last, tile, last_tile;
    int64_t image, images, row, rows, pixels;
    float  *packed, *planes, *x;
} part;

static float *data(const haul__buffer *buffer, int64_t offset)
{
    return (float *)buffer->host + offset;
}

/* ---- a part ---- */

static int64_t tiles_of(const gradient *v)
{
    return haul__ceil_div(v->m, v->panels->rows);
}

/* Rows of a tile: they differ by one at most, as in panels.h. */
static int64_t rows_of(const gradient *v, int64_t tile)
{
    HAUL__ASSERT(tile < tiles_of(v));
    return v->m / tiles_of(v) + (tile < v->m % tiles_of(v));
}

static int64_t first_row(const gradient *v, int64_t tile)
{
    return v->m / tiles_of(v) * tile + smaller(tile, v->m % tiles_of(v));
}

/* dy as tiles of A. */
static void pack_dy(const gradient *v, const part *p)
{
    const haul__conv2d *c = v->c;
    int64_t             plane = c->out_h * c->out_w, count = p->rows * c->out_w;
    HAUL__ASSERT(p->image + p->images <= c->n && p->row + p->rows <= c->out_h);
    for (int64_t i = 0; i < p->images; i++) {
        const float *from = data(c->y, c->y_offset + ((p->image + i) * c->c_out + p->group * v->m) * plane);
        for (int64_t tile = p->tile; tile < p->last_tile; tile++)
            v->kernels->turn(p->packed + ((tile - p->tile) * p->pixels + i * count) * v->panels->rows, v->panels->rows,
                             from + first_row(v, tile) * plane + p->row * c->out_w, plane, rows_of(v, tile), count);
    }
}

/* A chunk of x as pixels of `width` channels; those that do not exist are zero. */
static void enter_x(const gradient *v, const part *p, int64_t chunk)
{
    const haul__conv2d *c = v->c;
    int64_t             count = smaller(v->width, v->channels - chunk * v->width);
    HAUL__ASSERT(count > 0);
    for (int64_t i = 0; i < p->images; i++) {
        int64_t from = (p->image + i) * c->c_in + p->group * v->channels + chunk * v->width;
        float  *x = p->x + i * v->planes.channel * v->width;
        v->kernels->fill(&v->planes, p->planes, data(c->x, c->x_offset + from * c->h * c->w), count, p->row,
                         p->rows + v->reach);
        if (count < v->width)
            memset(x, 0, (size_t)(v->planes.channel * v->width) * sizeof *x);
        v->kernels->turn(x, v->width, p->planes, v->planes.channel, count, v->planes.channel);
    }
}

static float *sums_of(const gradient *v, const part *p, int64_t chunk, int64_t tap)
{
    return v->sums + p->piece * v->piece_elements + ((p->group * v->chunks + chunk) * v->taps + tap) * v->m * v->width;
}

/* Tiles take all taps one after another: a tile of dy stays in a cache of the first level. */
static void multiply(const gradient *v, const part *p, int64_t chunk, bool accumulate)
{
    const haul__conv2d *c = v->c;
    HAUL__ASSERT(0 < p->pixels && p->pixels <= v->depth);
    haul__cpu_strip s = {
        .k = p->pixels, .taps = v->offsets, .b_vector = v->pixels->lanes, .c_row = v->width, .accumulate = accumulate};
    for (int64_t tile = p->tile; tile < p->last_tile; tile++) {
        s.m = rows_of(v, tile);
        s.a = p->packed + (tile - p->tile) * p->pixels * v->panels->rows;
        for (int64_t tap = 0; tap < v->taps; tap++) {
            int64_t y = tap / c->kw, x = tap - y * c->kw;
            s.b = p->x + haul__planes_offset(&v->planes, y * c->dilation[0], x * c->dilation[1]) * v->width;
            s.c = sums_of(v, p, chunk, tap) + first_row(v, tile) * v->width;
            v->pixels->multiply_planes(&s);
        }
    }
}

/* Tasks are pieces x groups x some chunks x some tiles of rows. */
static void compute_task(const gradient *v, int64_t task, part p)
{
    int64_t index = task / v->blocks / v->tasks;
    p.tile = task % v->blocks * v->tiles;
    p.last_tile = smaller(p.tile + v->tiles, tiles_of(v));
    p.chunk = task / v->blocks % v->tasks * v->each;
    p.last = smaller(p.chunk + v->each, v->chunks);
    p.group = index % v->c->groups;
    p.piece = index / v->c->groups;
    int64_t first = p.piece * v->per_piece, last = smaller(first + v->per_piece, v->c->n);
    HAUL__ASSERT(p.tile < p.last_tile && p.chunk < p.last && first < last);
    for (p.image = first; p.image < last; p.image += v->images)
        for (p.row = 0; p.row < v->c->out_h; p.row += v->band) {
            p.images = smaller(v->images, last - p.image);
            p.rows = smaller(v->band, v->c->out_h - p.row);
            p.pixels = p.images * p.rows * v->c->out_w;
            pack_dy(v, &p);
            for (int64_t chunk = p.chunk; chunk < p.last; chunk++) {
                enter_x(v, &p, chunk);
                multiply(v, &p, chunk, p.image > first || p.row > 0);
            }
        }
}

static void compute(void *context, int64_t first, int64_t last)
{
    gradient *v = context;
    int       slot;
    part      p = {.packed = haul__cpu_scratch_take(&v->scratch, &slot)};
    p.x = p.packed + v->packed;
    p.planes = p.x + v->pixel_elements;
    /* Planes of a part with fewer rows than others are turned as a whole. */
    memset(p.planes, 0, (size_t)v->plane_elements * sizeof *p.planes);
    for (int64_t i = first; i < last; i++)
        compute_task(v, i, p);
    haul__cpu_scratch_give(&v->scratch, slot);
}

/* ---- sums ---- */

/* Adds the pieces to the first, in order, a range of elements per call. */
static void add_pieces(void *context, int64_t first, int64_t last)
{
    const gradient *v = context;
    for (int64_t piece = 1; piece < v->pieces; piece++)
        haul__cpu_tiles_for(HAUL_F32)->add(v->sums + first, v->sums + piece * v->piece_elements + first, last - first);
}

/* Copies sums to the gradient. Items are channels of dy. */
static void leave(void *context, int64_t first, int64_t last)
{
    const gradient *v = context;
    for (int64_t i = first; i < last; i++) {
        int64_t group = i / v->m, o = i - group * v->m;
        float  *to = data(v->c->weight, v->c->weight_offset + i * v->channels * v->taps);
        for (int64_t chunk = 0; chunk < v->chunks; chunk++) {
            const float *from = v->sums + ((group * v->chunks + chunk) * v->taps * v->m + o) * v->width;
            int64_t      channel = chunk * v->width;
            v->kernels->turn(to + channel * v->taps, v->taps, from, v->m * v->width, v->taps,
                             smaller(v->width, v->channels - channel));
        }
    }
}

/* ---- the plan ---- */

/* Cuts the work of a piece into tasks: chunks, and rows if they are still too few. With one tap, what tasks copy again
 * takes longer than what threads wait for the last of them. */
static void plan_tasks(gradient *v)
{
    int64_t threads = haul__pool_threads(), parts = v->pieces * v->c->groups;
    int64_t wanted = haul__ceil_div(threads > 1 ? threads * (v->taps > 1 ? TASKS : 1) : 1, parts);
    v->each = haul__ceil_div(v->chunks, smaller(v->chunks, wanted));
    v->tasks = haul__ceil_div(v->chunks, v->each);
    v->tiles = haul__ceil_div(tiles_of(v), smaller(tiles_of(v), haul__ceil_div(wanted, v->tasks)));
    HAUL__ASSERT(v->tiles > 0 && (v->tasks - 1) * v->each < v->chunks);
    v->blocks = haul__ceil_div(tiles_of(v), v->tiles);
}

static void plan(gradient *v)
{
    const haul__conv2d *c = v->c;
    int64_t             plane = c->out_h * c->out_w, rows = larger(HAUL__PANEL_DEPTH / c->out_w, 1);
    v->images = larger(smaller(HAUL__PANEL_DEPTH / plane, c->n), 1);
    v->band = plane <= HAUL__PANEL_DEPTH ? c->out_h : haul__ceil_div(c->out_h, haul__ceil_div(c->out_h, rows));
    v->depth = v->images * v->band * c->out_w;
    v->pieces = smaller(haul__ceil_div(CHUNKS, haul__ceil_div(v->channels, CHUNK) * c->groups),
                        PARTIAL_SUMS / larger(c->c_out * v->channels * v->taps, 1));
    v->per_piece = haul__ceil_div(haul__ceil_div(c->n, larger(v->pieces, 1)), v->images) * v->images;
    v->pieces = haul__ceil_div(c->n, v->per_piece);
    HAUL__ASSERT((v->pieces - 1) * v->per_piece < c->n && c->n <= v->pieces * v->per_piece &&
                 v->per_piece % v->images == 0);
    plan_tasks(v);
}

static bool measure(gradient *v, size_t *slot, size_t *shared)
{
    haul__planes *p = &v->planes;
    int64_t       sums, count;
    if (!haul__mul_size(v->chunks * v->width * v->c->groups, v->taps, &sums) ||
        !haul__mul_size(sums, v->m, &v->piece_elements))
        return false;
    plan(v);
    p->rows = v->band + v->reach;
    if (!haul__planes_measure(p) || !haul__mul_size(p->channel, v->width, &v->plane_elements) ||
        !haul__mul_size(v->plane_elements, v->images, &v->pixel_elements) ||
        !haul__mul_size(v->depth, v->tiles * v->panels->rows, &v->packed) ||
        !haul__mul_size(v->piece_elements, v->pieces * (int64_t)sizeof(float), &sums) ||
        !haul__mul_size(v->depth, 8, &count))
        return false;
    v->packed = haul__ceil_div(v->packed, 16) * 16;
    *slot = (size_t)(v->packed + v->pixel_elements + v->plane_elements + HAUL__PLANES_SLACK) * sizeof(float);
    *shared = (size_t)sums + (size_t)count + 64;
    return true;
}

static void find_pixels(const gradient *v)
{
    int64_t *next = v->offsets;
    for (int64_t i = 0; i < v->images; i++)
        for (int64_t y = 0; y < v->band; y++)
            for (int64_t x = 0; x < v->c->out_w; x++)
                *next++ = (i * v->planes.channel + y * v->planes.columns + x) * v->width;
}

haul_status haul__cpu_conv2d_panels_weight(const haul__conv2d *c)
{
    gradient v = {
        .c = c,
        .panels = haul__cpu_panels_for(HAUL_F32),
        .pixels = haul__cpu_pixels_for_f32(),
        .kernels = haul__cpu_planes_for_f32(),
        .reach = (c->kh - 1) * c->dilation[0] / c->stride[0],
        .channels = c->c_in / c->groups,
        .m = c->c_out / c->groups,
        .taps = c->kh * c->kw,
    };
    haul_status status = HAUL_OK;
    size_t      slot = 0, shared = 0;
    v.width = v.pixels->width;
    v.chunks = haul__ceil_div(v.channels, v.width);
    v.planes = haul__planes_of_x(c);
    char   *block = measure(&v, &slot, &shared) ? haul__work_alloc(shared) : NULL;
    int64_t tasks = v.pieces * c->groups * v.tasks * v.blocks;
    if (!block || !haul__cpu_scratch_open(&v.scratch, slot, tasks)) {
        status = haul__fail_memory(operation, slot + shared);
        goto out;
    }
    v.sums = (float *)(void *)(((uintptr_t)block + 63) & ~(uintptr_t)63);
    v.offsets = (int64_t *)(void *)(v.sums + v.pieces * v.piece_elements);
    HAUL__ASSERT((char *)(v.offsets + v.depth) <= block + shared);
    find_pixels(&v);
    haul__parallel_for(tasks, 1, compute, &v);
    haul__cpu_scratch_close(&v.scratch);
    if (v.pieces > 1)
        haul__parallel_for(v.piece_elements, 1 << 14, add_pieces, &v);
    haul__parallel_for(c->c_out, haul__ceil_div(1 << 14, v.channels * v.taps), leave, &v);
out:
    haul__work_free(block);
    return status;
}
