/* The implementation "panels": convolutions with a stride as products of packed panels. This file computes y and dx.
 *
 * Pixels of the result are the columns of a product whose rows are channels. Weights are packed once, as A. The input
 * of some images, or of some rows of one, is copied to planes that stay in a cache, one for each phase of the stride.
 * From there panels of B are packed: in a plane, the pixels that meet one tap are adjacent. Sums stay in a cache until
 * they are copied to the result.
 *
 * dx has a product for each phase of the stride: its pixels of one phase meet the same few taps of the weight, at
 * adjacent pixels of dy. So no multiplication has a factor that is always zero. The sums of phases are interleaved when
 * they are copied.
 *
 * The sum of an element of y is the same chain as in direct.c. That of dx has neither its order of taps nor its zeros.
 */
#include "backends/cpu/conv2d/panels.h"

#include "backends/cpu/conv2d/planes.h"
#include "backends/cpu/conv2d/refusals.h"
#include "backends/cpu/gemm/panels.h"
#include "backends/cpu/gemm/tiles.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/workspace.h"
#include "core/pool.h"
#include "core/shape.h"

/* Bytes of planes and of sums that a task keeps in a cache of the second level. How many times as many bands are tried
 * as memory needs. Multiplications that make a task worthwhile. */
#define PLANES_BYTES ((int64_t)640 << 10)
#define SUMS_BYTES   ((int64_t)384 << 10)
#define MOST_BANDS   4
#define TASK_WORK    1e6

/* Channels of dy with which the products of dx are long enough. */
#define LONG_PRODUCTS 5

/* The most columns of a panel, and taps whose weights are packed at a time. */
#define MOST_WIDTH 64
#define SOME_TAPS  64

/* Elements of a cache line, and how many planes ahead those of the result are fetched. */
#define LINE  16
#define AHEAD 8

static const char *const operation = "haul_conv2d";

/* The product for one phase of the result: rows of B at some taps of each channel. */
typedef struct product {
    int64_t        k;
    const int64_t *taps;    /* [k], of planes */
    int64_t        weights; /* where those of a block of rows are packed, in elements */
} product;

typedef struct convolution {
    const haul__conv2d     *c;
    const haul__cpu_panels *panels;
    const haul__cpu_pixels *pixels;
    const haul__cpu_planes *kernels;
    haul__planes            planes;
    int64_t                 reach; /* rows of planes behind those of the result's pixels */
    const float            *in, *bias, *weight;
    float                  *out;
    int64_t                 channels, m; /* of a group */
    int64_t                 out_h, out_w;
    int64_t                 spread[2], grid[2]; /* phases of the result, and pixels of one */
    int64_t                 taps, k;            /* of a channel; of all products */

    /* The plan. */
    int64_t images, band, bands, units; /* images and rows of a unit; bands of an image */
    int64_t rows, blocks, tiles;        /* rows in a block, blocks of m, tiles of a block */
    int64_t move;                       /* pixels that are copied at a time */
    int64_t planes_elements, panel_elements, sums_elements, block_elements;

    product          *products;
    int64_t          *offsets;
    int64_t          *product_of; /* the product of each tap of dx; NULL for y */
    float            *weights;    /* packed: [groups, blocks, k, rows] in tiles */
    haul__cpu_scratch scratch;
} convolution;

/* What a task computes: rows of a block for the pixels of some images, or of a band of one. */
typedef struct unit {
    int64_t image, images, row, rows, pixels;
    int64_t group, block, m;
    float  *planes, *panel, *sums;
} unit;

static float *data(const haul__buffer *buffer, int64_t offset)
{
    return (float *)buffer->host + offset;
}

/* ---- parts of k ---- */

static int64_t parts_of(int64_t k)
{
    return haul__ceil_div(k, HAUL__TILE_DEPTH);
}

static int64_t part_start(int64_t k, int64_t part)
{
    return smaller(part * HAUL__TILE_DEPTH, k);
}

/* ---- weights ---- */

static int64_t rows_of(const convolution *v, int64_t block)
{
    return smaller(v->rows, v->m - block * v->rows);
}

/* A tile of `rows` rows of a block, from number `row` on. */
typedef struct tile {
    int64_t      number, row, rows;
    const float *from; /* weights of the first row */
    float       *to;   /* of the block */
} tile;

/* Where the elements of a tile for row k of B are in the block; a part has its tiles one after another. */
static int64_t tile_place(const convolution *v, const product *p, const tile *t, int64_t part, int64_t k)
{
    int64_t start = part_start(p->k, part), depth = part_start(p->k, part + 1) - start;
    HAUL__ASSERT(start <= k && k < start + depth && k < p->k);
    return p->weights + (start * v->tiles + t->number * depth + k - start) * v->panels->rows;
}

/* Rows of A are adjacent in weights [m, k]. */
static void pack_for_y(const convolution *v, const tile *t)
{
    const product *p = v->products;
    for (int64_t part = 0; part < parts_of(p->k); part++) {
        int64_t k = part_start(p->k, part), depth = part_start(p->k, part + 1) - k;
        v->kernels->turn(t->to + tile_place(v, p, t, part, k), v->panels->rows, t->from + k, p->k, t->rows, depth);
    }
}

/* Weights are [channels, m, taps]: columns k of all products are packed at a time, those of a channel of dy. */
static void pack_for_dx(const convolution *v, const tile *t)
{
    int64_t phases = v->spread[0] * v->spread[1], places[SOME_TAPS];
    int64_t next[HAUL__MOST_STEP * HAUL__MOST_STEP][3]; /* k, where its part ends, and its place */
    HAUL__ASSERT(phases <= HAUL__MOST_STEP * HAUL__MOST_STEP);
    for (int64_t q = 0; q < phases; q++)
        next[q][0] = next[q][1] = 0;
    for (int64_t o = 0; o < v->channels; o++)
        for (int64_t tap = 0; tap < v->taps; tap += SOME_TAPS) {
            int64_t count = smaller(v->taps - tap, SOME_TAPS);
            for (int64_t i = 0; i < count; i++) {
                int64_t       *n = next[v->product_of[tap + i]], k = n[0]++;
                const product *p = v->products + v->product_of[tap + i];
                if (k == n[1]) {
                    n[1] = smaller(k + HAUL__TILE_DEPTH, p->k);
                    n[2] = tile_place(v, p, t, k / HAUL__TILE_DEPTH, k);
                }
                places[i] = n[2];
                n[2] += v->panels->rows;
            }
            v->kernels->turn_to(t->to, places, t->from + o * v->m * v->taps + tap, v->taps, t->rows, count);
        }
}

/* Items are tiles of all blocks and groups. */
static void pack_weights(void *context, int64_t first, int64_t last)
{
    const convolution *v = context;
    for (int64_t i = first; i < last; i++) {
        int64_t block = i / v->tiles % v->blocks, group = i / v->tiles / v->blocks;
        int64_t m = rows_of(v, block), tiles = haul__ceil_div(m, v->panels->rows);
        tile    t = {.number = i % v->tiles, .to = v->weights + (group * v->blocks + block) * v->block_elements};
        if (t.number >= tiles)
            continue;
        /* Tiles differ by one row at most, as in panels.h. */
        t.row = block * v->rows + t.number * (m / tiles) + smaller(t.number, m % tiles);
        t.rows = m / tiles + (t.number < m % tiles);
        HAUL__ASSERT(0 < t.rows && t.rows <= v->panels->rows && t.row + t.rows <= block * v->rows + m);
        if (v->product_of) {
            t.from = v->weight + (group * v->channels * v->m + t.row) * v->taps;
            pack_for_dx(v, &t);
        } else {
            t.from = v->weight + (group * v->m + t.row) * v->k;
            pack_for_y(v, &t);
        }
    }
}

/* ---- a unit ---- */

/* Pixels from number `pixel` of a unit on that are adjacent in planes and, within a row of the grid, in the result. */
typedef struct run {
    int64_t image, row, column, count;
} run;

/* Copies that make a row of a panel. */
typedef struct moves {
    int64_t count, from[MOST_WIDTH], to[MOST_WIDTH];
} moves;

static run run_at(const convolution *v, const unit *u, int64_t pixel, int64_t last, bool in_rows)
{
    int64_t of_image = u->rows * v->grid[1], image = pixel / of_image, rest = pixel - image * of_image;
    run     r = {.image = image, .row = rest / v->grid[1]};
    r.column = rest - r.row * v->grid[1];
    r.count = smaller(last - pixel, in_rows ? v->grid[1] - r.column : of_image - rest);
    HAUL__ASSERT(r.count > 0 && r.image < u->images && r.row < u->rows);
    return r;
}

/* The moves that make a panel of the pixels [pixel, last). */
static void find_moves(const convolution *v, const unit *u, int64_t pixel, int64_t last, moves *to)
{
    bool in_rows = v->planes.columns != v->grid[1];
    to->count = 0;
    for (int64_t at = pixel; at < last;) {
        run     r = run_at(v, u, at, last, in_rows);
        int64_t start = (r.image * v->channels * v->planes.channel) + r.row * v->planes.columns + r.column;
        for (int64_t i = 0; i < r.count; i += v->move, to->count++) {
            HAUL__ASSERT(to->count < MOST_WIDTH);
            to->from[to->count] = start + i;
            to->to[to->count] = at - pixel + i;
        }
        at += r.count;
    }
}

/* Multiplies a panel. If two whole vectors are a row of it, the first tile reads them from the planes, and copies. */
static void multiply_panel(const convolution *v, const unit *u, const moves *m, haul__cpu_strip s)
{
    int64_t lanes = v->panels->lanes, tiles = haul__ceil_div(s.m, v->panels->rows), all = s.m;
    if (m->count == 2 && m->to[1] == lanes && v->move == lanes && s.n == v->panels->width) {
        s.m = haul__ceil_div(all, tiles);
        s.b = u->planes + m->from[0];
        s.b_vector = m->from[1] - m->from[0];
        v->pixels->multiply_planes_copying(&s, u->panel);
        s.a = (const float *)s.a + s.a_tile;
        s.c = (float *)s.c + s.m * s.c_row;
        s.m = all - s.m;
        if (!s.m)
            return;
    } else {
        v->kernels->pack(u->panel, &(haul__cpu_moves){.planes = u->planes,
                                                      .taps = s.taps,
                                                      .k = s.k,
                                                      .width = s.b_row,
                                                      .size = v->move,
                                                      .count = m->count,
                                                      .from = m->from,
                                                      .to = m->to});
    }
    s.b = u->panel;
    v->panels->multiply(&s);
}

/* Sums begin with the bias. */
static void start_sums(const convolution *v, const unit *u, float *sums)
{
    const float *bias = v->bias ? v->bias + u->group * v->m + u->block * v->rows : NULL;
    int64_t      width = v->panels->width;
    for (int64_t pixel = 0; pixel < u->pixels; pixel += width)
        for (int64_t o = 0; o < u->m; o++, sums += width)
            v->kernels->set(sums, bias ? bias[o] : 0, width);
}

/* The sums of a product for all pixels of a unit: [panels, m, width]. */
static void multiply(const convolution *v, const unit *u, const product *p, float *sums)
{
    int64_t         width = v->panels->width, lanes = v->panels->lanes;
    haul__cpu_strip s = {.m = u->m, .b_row = width, .c_row = width};
    if (v->bias || p->k == 0)
        start_sums(v, u, sums);
    HAUL__ASSERT(part_start(p->k, parts_of(p->k)) == p->k && round_up(u->pixels, width) * u->m <= v->sums_elements);
    for (int64_t part = 0; part < parts_of(p->k); part++) {
        int64_t k = part_start(p->k, part);
        s.k = part_start(p->k, part + 1) - k;
        s.a = v->weights + (u->group * v->blocks + u->block) * v->block_elements + p->weights +
              k * v->tiles * v->panels->rows;
        s.a_tile = s.k * v->panels->rows;
        s.taps = p->taps + k;
        s.accumulate = part > 0 || v->bias;
        for (int64_t pixel = 0; pixel < u->pixels; pixel += width) {
            int64_t last = smaller(pixel + width, u->pixels);
            moves   m;
            find_moves(v, u, pixel, last, &m);
            s.n = round_up(last - pixel, lanes);
            s.c = sums + pixel * u->m;
            multiply_panel(v, u, &m, s);
        }
    }
}

/* Copies the sums of a panel to rows of phase `y` of the result. */
static void leave_panel(const convolution *v, const unit *u, int64_t y, int64_t pixel, int64_t last)
{
    int64_t width = v->panels->width, plane = v->out_h * v->out_w, distance = v->sums_elements;
    int64_t channel = u->group * v->m + u->block * v->rows, all = v->m * v->c->groups;
    bool    in_rows = v->spread[0] > 1 || v->spread[1] > 1;
    HAUL__ASSERT(pixel < last && last <= u->pixels);
    for (int64_t at = pixel; at < last;) {
        run     r = run_at(v, u, at, last, in_rows);
        int64_t row = (u->row + r.row) * v->spread[0] + y, column = r.column * v->spread[1];
        int64_t count = smaller(r.count * v->spread[1], in_rows ? v->out_w - column : r.count);
        float  *to = v->out + ((u->image + r.image) * all + channel) * plane + row * v->out_w + column;
        float  *from = u->sums + pixel * u->m + at - pixel;
        at += r.count;
        for (int64_t o = 0; o < u->m && row < v->out_h; o++, to += plane, from += width) {
            for (int64_t i = 0; i < count; i += LINE)
                __builtin_prefetch(to + AHEAD * plane + i, 1, 3);
            v->kernels->join(to, from, distance, v->spread[1], count);
        }
    }
}

static void compute_unit(const convolution *v, const unit *u)
{
    const product *p = v->products;
    int64_t        width = v->panels->width, image = v->planes.h * v->planes.w * v->channels;
    for (int64_t i = 0; i < u->images; i++)
        v->kernels->fill(&v->planes, u->planes + i * v->channels * v->planes.channel,
                         v->in + ((u->image + i) * v->c->groups + u->group) * image, v->channels, u->row,
                         u->rows + v->reach);
    for (int64_t y = 0; y < v->spread[0]; y++) {
        for (int64_t x = 0; x < v->spread[1]; x++)
            multiply(v, u, p++, u->sums + x * v->sums_elements);
        for (int64_t pixel = 0; pixel < u->pixels; pixel += width)
            leave_panel(v, u, y, pixel, smaller(pixel + width, u->pixels));
    }
}

/* Tasks are units x groups x blocks. */
static void compute(void *context, int64_t first, int64_t last)
{
    convolution *v = context;
    int          slot;
    unit         u = {.panel = haul__cpu_scratch_take(&v->scratch, &slot)};
    u.sums = u.panel + v->panel_elements;
    u.planes = u.sums + v->spread[1] * v->sums_elements;
    for (int64_t i = first; i < last; i++) {
        int64_t part = i / v->blocks / v->c->groups;
        u.block = i % v->blocks;
        u.group = i / v->blocks % v->c->groups;
        u.m = rows_of(v, u.block);
        u.image = part / v->bands * v->images;
        u.images = smaller(v->images, v->c->n - u.image);
        u.row = part % v->bands * v->band;
        u.rows = smaller(v->band, v->grid[0] - u.row);
        u.pixels = u.images * u.rows * v->grid[1];
        HAUL__ASSERT(u.m > 0 && u.pixels > 0 && u.pixels * u.m <= v->sums_elements);
        compute_unit(v, &u);
    }
    haul__cpu_scratch_give(&v->scratch, slot);
}

/* ---- the plan ---- */

/* Vectors of columns that the busiest thread multiplies if a unit has `pixels` pixels. */
static int64_t vectors_of_a_thread(const convolution *v, int64_t units, int64_t pixels)
{
    int64_t threads = haul__pool_threads();
    return haul__ceil_div(units * v->c->groups, threads) * haul__ceil_div(pixels, v->panels->lanes);
}

/* The largest units that keep all threads busy: some images, or else some rows of one. */
static void find_units(convolution *v, int64_t most_pixels, int64_t most_rows)
{
    int64_t n = v->c->n, h = v->grid[0], w = v->grid[1], least = INT64_MAX;
    int64_t images = smaller(smaller(most_pixels / w / h, most_rows / (h + v->reach)), n);
    int64_t band = larger(smaller(smaller(most_pixels / w, most_rows - v->reach), h), 1);
    v->images = 1;
    v->band = h;
    for (int64_t i = images; i > 0; i--) {
        int64_t vectors = vectors_of_a_thread(v, haul__ceil_div(n, i), i * h * w);
        if (vectors >= least)
            continue;
        least = vectors;
        v->images = i;
    }
    for (int64_t bands = haul__ceil_div(h, band); v->images == 1 && bands <= MOST_BANDS * haul__ceil_div(h, band);
         bands++) {
        int64_t rows = haul__ceil_div(h, bands), units = n * haul__ceil_div(h, rows);
        int64_t vectors = vectors_of_a_thread(v, units, rows * w);
        if (vectors >= least)
            continue;
        least = vectors;
        v->band = rows;
    }
    v->bands = haul__ceil_div(h, v->band);
    HAUL__ASSERT((v->bands - 1) * v->band < h && h <= v->bands * v->band && v->images > 0);
    v->units = haul__ceil_div(n, v->images) * v->bands;
}

/* Cuts rows into blocks if units are too few for all threads. */
static bool plan(convolution *v)
{
    const haul__conv2d *c = v->c;
    int64_t             tiles = haul__ceil_div(v->m, v->panels->rows), threads = haul__pool_threads(), all, pixels;
    int64_t             row_bytes = v->planes.columns * v->planes.phases[0] * v->planes.phases[1] * v->channels * 4;
    if (!haul__mul_size(v->grid[0], v->grid[1], &all) || !haul__mul_size(all, c->n, &all))
        return false;
    pixels = SUMS_BYTES / (4 * v->spread[1] * larger(v->m, 1));
    find_units(v, larger(pixels, v->panels->width), larger(PLANES_BYTES / larger(row_bytes, 1), 1));
    v->blocks = threads > 1 ? haul__ceil_div(2 * threads, larger(v->units * c->groups, 1)) : 1;
    v->blocks = larger(smaller(v->blocks, tiles / 2), 1);
    v->tiles = haul__ceil_div(tiles, v->blocks);
    v->rows = v->tiles * v->panels->rows;
    v->blocks = haul__ceil_div(v->m, v->rows);
    HAUL__ASSERT((v->blocks - 1) * v->rows < v->m && v->m <= v->blocks * v->rows);
    v->move = 4;
    while (v->move < v->grid[1] && v->move < v->panels->lanes)
        v->move *= 2;
    return true;
}

/* Sizes of scratch memory and of what all tasks share. */
static bool measure(convolution *v, size_t *slot, size_t *shared)
{
    haul__planes *p = &v->planes;
    int64_t       width = v->panels->width, pixels, sums, elements, weights, taps;
    p->rows = v->band + v->reach;
    if (!haul__planes_measure(p) || !haul__mul_size(p->channel, v->channels, &elements) ||
        !haul__mul_size(elements, v->images, &elements) || !haul__mul_size(v->images * v->band, v->grid[1], &pixels) ||
        !haul__mul_size(round_up(pixels, width), smaller(v->rows, v->m), &v->sums_elements) ||
        !haul__mul_size(v->sums_elements, v->spread[1], &sums) || !haul__mul_size(v->k + v->taps, 8, &taps) ||
        !haul__mul_size(v->tiles * v->panels->rows, v->k, &v->block_elements) ||
        !haul__mul_size(v->block_elements, v->blocks * v->c->groups, &weights))
        return false;
    v->planes_elements = round_up(elements + HAUL__PLANES_SLACK, 16);
    v->panel_elements = HAUL__TILE_DEPTH * width + HAUL__PLANES_SLACK;
    *slot = (size_t)(v->planes_elements + v->panel_elements + sums) * sizeof(float);
    *shared = (size_t)weights * sizeof(float) + (size_t)taps + 64;
    return true;
}

/* The taps of all products. Those of y: every tap of a channel after the other. */
static void find_taps_of_y(convolution *v)
{
    const haul__conv2d *c = v->c;
    int64_t            *next = v->offsets;
    v->products[0] = (product){.k = v->k, .taps = next};
    for (int64_t i = 0; i < v->channels; i++)
        for (int64_t y = 0; y < c->kh; y++)
            for (int64_t x = 0; x < c->kw; x++)
                *next++ =
                    i * v->planes.channel + haul__planes_offset(&v->planes, y * c->dilation[0], x * c->dilation[1]);
}

/* True if a pixel of phase `phase` of dx meets tap `tap`. Then `*back` is how many pixels of dy it is ahead of its own.
 */
static bool meets(const haul__conv2d *c, int axis, int64_t phase, int64_t tap, int64_t *back)
{
    int64_t distance = phase + c->padding[axis] - tap * c->dilation[axis];
    *back = distance / c->stride[axis];
    return distance % c->stride[axis] == 0;
}

/* Those of dx: the taps of a product, channel by channel. */
static void find_taps_of_dx(convolution *v)
{
    const haul__conv2d *c = v->c;
    int64_t            *next = v->offsets, weights = 0, down, right;
    for (int64_t i = 0; i < c->stride[0] * c->stride[1]; i++) {
        product *p = v->products + i;
        int64_t  y = i / c->stride[1], x = i % c->stride[1];
        *p = (product){.taps = next, .weights = weights};
        for (int64_t o = 0; o < v->channels; o++)
            for (int64_t t = 0; t < v->taps; t++) {
                if (!meets(c, 0, y, t / c->kw, &down) || !meets(c, 1, x, t % c->kw, &right))
                    continue;
                v->product_of[t] = i;
                *next++ = o * v->planes.channel + (down + v->planes.shift[0]) * v->planes.columns + right +
                          v->planes.shift[1];
            }
        HAUL__ASSERT(next <= v->offsets + v->k);
        p->k = next - p->taps;
        weights += p->k * v->tiles * v->panels->rows;
    }
}

static haul_status run_convolution(convolution *v)
{
    const haul__conv2d *c = v->c;
    int64_t             phases = v->spread[0] * v->spread[1];
    size_t              slot = 0, shared = 0;
    haul_status         status = HAUL_OK;
    v->taps = c->kh * c->kw;
    bool  fits = haul__mul_size(v->channels, v->taps, &v->k) && plan(v) && measure(v, &slot, &shared);
    char *block = fits ? haul__work_alloc(shared + (size_t)phases * sizeof(product)) : NULL;
    if (!block || !haul__cpu_scratch_open(&v->scratch, slot, v->units * c->groups * v->blocks)) {
        status = haul__fail_memory(operation, slot + shared);
        goto out;
    }
    v->weights = (float *)(void *)(((uintptr_t)block + 63) & ~(uintptr_t)63);
    v->offsets = (int64_t *)(void *)(v->weights + c->groups * v->blocks * v->block_elements);
    v->products = (product *)(void *)(v->offsets + v->k + v->taps);
    HAUL__ASSERT((char *)(v->products + phases) <= block + shared + (size_t)phases * sizeof(product));
    if (c->pass == HAUL__CONV2D_DATA) {
        v->product_of = v->offsets + v->k;
        find_taps_of_dx(v);
    } else {
        find_taps_of_y(v);
    }
    haul__parallel_for(c->groups * v->blocks * v->tiles, haul__ceil_div(16384, v->k * v->panels->rows), pack_weights,
                       v);
    double work = (double)v->m * (double)v->k * (double)v->band * (double)v->images * (double)v->grid[1];
    haul__parallel_for(v->units * c->groups * v->blocks, work >= TASK_WORK ? 1 : (int64_t)(TASK_WORK / (work + 1)) + 1,
                       compute, v);
    haul__cpu_scratch_close(&v->scratch);
out:
    haul__work_free(block);
    return status;
}

/* ---- the passes ---- */

static haul_status run_forward(const haul__conv2d *c)
{
    convolution v = {
        .c = c,
        .panels = haul__cpu_panels_for(HAUL_F32),
        .pixels = haul__cpu_pixels_for_f32(),
        .kernels = haul__cpu_planes_for_f32(),
        .reach = (c->kh - 1) * c->dilation[0] / c->stride[0],
        .in = data(c->x, c->x_offset),
        .bias = c->bias ? data(c->bias, c->bias_offset) : NULL,
        .weight = data(c->weight, c->weight_offset),
        .out = data(c->y, c->y_offset),
        .channels = c->c_in / c->groups,
        .m = c->c_out / c->groups,
        .out_h = c->out_h,
        .out_w = c->out_w,
        .spread = {1, 1},
        .grid = {c->out_h, c->out_w},
    };
    v.planes = haul__planes_of_x(c);
    return run_convolution(&v);
}

/* How far taps reach from a pixel of dy before and behind it. */
static void reaches_of_dx(const haul__conv2d *c, int axis, int64_t *before, int64_t *behind)
{
    int64_t taps = axis ? c->kw : c->kh, back;
    *before = *behind = 0;
    for (int64_t phase = 0; phase < c->stride[axis]; phase++)
        for (int64_t tap = 0; tap < taps; tap++) {
            if (!meets(c, axis, phase, tap, &back))
                continue;
            *before = larger(*before, -back);
            *behind = larger(*behind, back);
        }
}

static haul_status run_data(const haul__conv2d *c)
{
    int64_t     before[2], behind[2];
    convolution v = {
        .c = c,
        .panels = haul__cpu_panels_for(HAUL_F32),
        .pixels = haul__cpu_pixels_for_f32(),
        .kernels = haul__cpu_planes_for_f32(),
        .in = data(c->y, c->y_offset),
        .bias = c->bias ? data(c->bias, c->bias_offset) : NULL,
        .weight = data(c->weight, c->weight_offset),
        .out = data(c->x, c->x_offset),
        .channels = c->c_out / c->groups,
        .m = c->c_in / c->groups,
        .out_h = c->h,
        .out_w = c->w,
        .spread = {c->stride[0], c->stride[1]},
        .grid = {haul__ceil_div(c->h, c->stride[0]), haul__ceil_div(c->w, c->stride[1])},
    };
    for (int axis = 0; axis < 2; axis++)
        reaches_of_dx(c, axis, &before[axis], &behind[axis]);
    v.reach = before[0] + behind[0];
    v.planes = (haul__planes){
        .h = c->out_h,
        .w = c->out_w,
        .step = {1, 1},
        .phases = {1, 1},
        .shift = {before[0], before[1]},
        .columns = v.grid[1] + before[1] + behind[1],
    };
    return run_convolution(&v);
}

/* ---- the implementation ---- */

/* True if channels fill half of the chunks that the gradient of the weights reads. */
static bool fills_chunks(const haul__conv2d *c)
{
    int64_t width = haul__cpu_panels_for(HAUL_F32)->width, channels = c->c_in / c->groups;
    return 2 * channels >= round_up(channels, width);
}

const char *haul__cpu_conv2d_panels_refuse(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)device;
    if (!c)
        return NULL;
    if (c->stride[0] == 1 && c->stride[1] == 1)
        return "it takes convolutions with a stride only";
    if (c->stride[0] > HAUL__MOST_STEP || c->stride[1] > HAUL__MOST_STEP)
        return "it takes a stride of up to 8 only";
    if (c->pass == HAUL__CONV2D_DATA && c->c_out / c->groups < LONG_PRODUCTS)
        return "with fewer than 5 channels of dy in a group its products are short";
    if (c->pass == HAUL__CONV2D_WEIGHT && !fills_chunks(c))
        return "the channels of x would fill less than half of its vectors";
    return haul__cpu_conv2d_f32_refuses(c);
}

haul_status haul__cpu_conv2d_panels(haul__stream *s, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)s;
    if (c->pass == HAUL__CONV2D_WEIGHT)
        return haul__cpu_conv2d_panels_weight(c);
    return c->pass == HAUL__CONV2D_FORWARD ? run_forward(c) : run_data(c);
}
