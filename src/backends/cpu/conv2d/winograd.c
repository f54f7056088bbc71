/* The implementation "winograd": convolutions with 3x3 weights by Winograd's F(4x4, 3x3), with a quarter of the
 * multiplications of a direct one.
 *
 * A picture is cut into tiles of 4x4 results. The 6x6 inputs of a tile, and the weights, are transformed to 36 points
 * (kernels/winograd_fma.c). At each point the convolution is a matrix product: [tiles, in] x [in, out]. Its results are
 * transformed back. The gradient of the input is the same convolution of dy with the weights reversed; the gradient of
 * the weights is a product [out, tiles] x [tiles, in] at each point.
 *
 * Transformed values are used while they are in a cache. Where there are more tiles than channels of the result, a task
 * takes some tiles, and all share the transformed weights. Otherwise a task takes some channels of the result, whose
 * weights it transforms, and all share the transformed input.
 *
 * Tiles of which small results would have large errors are marked (winograd_bound.c) and computed again as plain sums
 * (winograd_plain.c); the gradient of the weights leaves them out first.
 *
 * Sums over channels or tiles are chains that do not depend on how the work is cut (panels.h). */
#include "backends/cpu/conv2d/winograd_work.h"
#include "base/numbers.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/assert.h"
#include "core/pool.h"
#include "core/shape.h"

#define DEPTH  HAUL__PANEL_DEPTH
#define POINTS HAUL__WINOGRAD_POINTS
#define TILE   HAUL__WINOGRAD_TILE

/* Channels from which the transforms pay. The most elements of a task's transformed tiles, which stay in a cache of the
 * second level. The most elements that are transformed at a time for the gradient of the weights, and those for which
 * tasks take rows of it from the products to the end. Tasks that are enough for all threads. */
#define MANY_CHANNELS 16
#define TASK_ELEMENTS (150 << 10)
#define PART_ELEMENTS (1 << 20)
#define ROWS_ELEMENTS (6 << 20)
#define TASKS         16

/* Elements that make a task of a parallel_for worthwhile, and blocks of channels that are one where they are
 * transformed.
 */
#define GRAIN  16384
#define BLOCKS 4

/* ---- problems ---- */

typedef haul__winograd_work work;
typedef haul__winograd_side side;

/* Distances of an odd number of cache lines spread the values of 36 points over the sets of a cache. */
static int64_t spread(int64_t elements)
{
    return round_up(elements, 32) + 16;
}

/* The distance of tiles with so many channels: not of a page, whose lines are in the same sets. */
static int64_t tile_of(const work *w, int64_t channels)
{
    int64_t elements = round_up(channels, w->lanes);
    return elements % 512 ? elements : elements + 16;
}

static float *data(const haul__buffer *buffer, int64_t offset)
{
    return buffer ? (float *)buffer->host + offset : NULL;
}

static work work_of(const haul__conv2d *c)
{
    work w = {
        .c = c,
        .kernels = haul__winograd_kernels_for_f32(),
        .panels = haul__cpu_panels_for(HAUL_F32),
        .in = {data(c->x, c->x_offset), c->c_in, c->h, c->w, c->padding[0], c->padding[1]},
        .out = {data(c->y, c->y_offset), c->c_out, c->out_h, c->out_w, 0, 0},
        .out_step = c->c_in * 9,
        .in_step = 9,
        .weight = data(c->weight, c->weight_offset),
        .bias = c->has_bias ? data(c->bias, c->bias_offset) : NULL,
    };
    if (c->pass == HAUL__CONV2D_DATA) {
        w.in = (side){data(c->y, c->y_offset), c->c_out, c->out_h, c->out_w, 2 - c->padding[0], 2 - c->padding[1]};
        w.out = (side){data(c->x, c->x_offset), c->c_in, c->h, c->w, 0, 0};
        w.out_step = 9;
        w.in_step = c->c_in * 9;
    }
    w.columns = haul__ceil_div(w.out.w, TILE);
    w.picture_rows = haul__ceil_div(w.out.h, TILE);
    w.rows = c->n * w.picture_rows;
    w.lanes = w.kernels->lanes;
    w.width = w.panels->width;
    return w;
}

/* Rows of tiles of which each has so many elements: as many as `most` allows, and whole pictures if it can be. */
static int64_t rows_within(const work *w, int64_t elements, int64_t most)
{
    int64_t rows = larger(1, smaller(most / larger(elements, 1), w->rows));
    HAUL__ASSERT(0 < rows && rows <= w->rows);
    return rows > w->picture_rows ? rows - rows % w->picture_rows : rows;
}

/* ---- transforms ---- */

/* Transforms all channels of the rows of tiles [row, end), which are marked if they need plain sums. */
static void enter(const work *w, int64_t row, int64_t end, float *to, float *workspace, float *magnitudes)
{
    while (row < end) {
        haul__winograd_planes p = haul__winograd_planes_of(w, &w->in, row, end, 0, workspace, magnitudes, false);
        for (int64_t channel = 0; channel < w->in.channels; channel += w->lanes) {
            w->kernels->input(&p, &(haul__winograd_tiles){to + channel, w->in_point, w->in_tile});
            haul__winograd_next_channels(&p, w->lanes);
        }
        haul__winograd_judge_tiles(w, &p, row);
        row += p.rows;
        to += p.rows * w->columns * w->in_tile;
    }
}

/* Transforms the products of a panel back, for the rows of tiles [row, end). */
static void leave(const work *w, int64_t row, int64_t end, int64_t panel, float *from, float *workspace)
{
    int64_t channel = panel * w->width;
    while (row < end) {
        haul__winograd_planes p = haul__winograd_planes_of(w, &w->out, row, end, channel, workspace, NULL, false);
        for (int64_t i = 0; i < w->width && p.channels > 0; i += w->lanes) {
            w->kernels->result(&(haul__winograd_tiles){from + i, w->out_point, w->width}, &p,
                               w->bias ? w->bias + channel + i : NULL, w->c->relu);
            haul__winograd_next_channels(&p, w->lanes);
        }
        row += p.rows;
        from += p.rows * w->columns * w->width;
    }
}

/* A panel of the transformed weights. */
static void enter_weights(work *w, int64_t panel, float *to)
{
    bool  reversed = w->c->pass == HAUL__CONV2D_DATA;
    float sums[9 * HAUL__WINOGRAD_LANES];
    for (int64_t i = 0; i < w->width; i += w->lanes) {
        int64_t channel = panel * w->width + i, left = w->out.channels - channel;
        if (left <= 0)
            break;
        w->kernels->weight(w->weight + channel * w->out_step, w->out_step, w->in_step, smaller(left, w->lanes),
                           w->in.channels, reversed, &(haul__winograd_tiles){to + i, w->weight_point, w->weight_tile},
                           sums);
        haul__winograd_judge_weights(w, sums, smaller(left, w->lanes));
    }
}

/* ---- convolutions ---- */

/* At each point: tiles [tiles, in] x weights [in, panel]. */
static void multiply(const work *w, int64_t tiles, const float *in, const float *weights, int64_t panel, float *out)
{
    int64_t columns = round_up(w->out.channels - panel * w->width, w->lanes);
    HAUL__ASSERT(tiles <= w->each * w->columns && columns > 0);
    for (int point = 0; point < POINTS; point++)
        for (int64_t k = 0; k < w->in.channels; k += DEPTH)
            w->panels->multiply(&(haul__cpu_strip){
                .m = tiles,
                .n = smaller(w->width, columns),
                .k = smaller(DEPTH, w->in.channels - k),
                .a = in + point * w->in_point + k,
                .a_row = w->in_tile,
                .a_column = 1,
                .b = weights + point * w->weight_point + k * w->weight_tile,
                .b_row = w->weight_tile,
                .c = out + point * w->out_point,
                .c_row = w->width,
                .accumulate = k > 0,
            });
}

static int64_t panels_of(const work *w, int64_t channels)
{
    return haul__ceil_div(channels, w->width);
}

/* Blocks of as many channels as a vector has. */
static int64_t blocks_of(const work *w, const side *s)
{
    return haul__ceil_div(s->channels, w->lanes);
}

/* Elements that the marks of all tiles take. */
static int64_t mark_elements(const work *w)
{
    return round_up(w->rows * w->columns * (int64_t)(sizeof *w->marks / sizeof *w->memory), 16);
}

static void plan_convolution(work *w)
{
    int64_t tiles = w->rows * w->columns;
    w->in_tile = tile_of(w, w->in.channels);
    w->by_channels = w->out.channels > tiles;
    w->each = w->rows;
    if (!w->by_channels)
        w->each = rows_within(w, POINTS * w->in_tile * w->columns,
                              smaller(TASK_ELEMENTS, POINTS * w->in_tile * haul__ceil_div(tiles, TASKS)));
    w->in_point = spread(w->each * w->columns * w->in_tile);
    w->out_point = spread(w->each * w->columns * w->width);
    w->weight_tile = w->width;
    w->weight_point = spread(w->in.channels * w->width);
    w->workspace = round_up(haul__winograd_workspace(smaller(w->each, w->picture_rows), w->columns, w->lanes), 16);
    /* the range of windows is read in whole vectors */
    w->in_magnitudes = round_up(haul__winograd_height(smaller(w->each, w->picture_rows)) * w->in.w + w->lanes, 16);
    int64_t panel = POINTS * w->weight_point, input = POINTS * w->in_point;
    if (w->by_channels) {
        w->shared = input + w->c->n * blocks_of(w, &w->in) * w->in_magnitudes;
        w->slot = w->workspace + POINTS * w->out_point + panel;
        w->tasks = panels_of(w, w->out.channels);
    } else {
        w->shared = panels_of(w, w->out.channels) * panel;
        w->slot = w->workspace + POINTS * w->out_point + input + w->in_magnitudes;
        w->tasks = haul__ceil_div(w->rows, w->each);
    }
}

/* Tasks are rows of tiles; the weights are shared. */
static void run_tiles(void *context, int64_t first, int64_t last)
{
    work   *w = context;
    int     slot;
    float  *workspace = haul__cpu_scratch_take(&w->scratch, &slot), *out = workspace + w->workspace;
    float  *in = out + POINTS * w->out_point, *magnitudes = in + POINTS * w->in_point;
    int64_t panels = panels_of(w, w->out.channels);
    for (int64_t i = first; i < last; i++) {
        int64_t row = i * w->each, end = smaller(row + w->each, w->rows);
        HAUL__ASSERT(row < end);
        enter(w, row, end, in, workspace, magnitudes);
        for (int64_t panel = 0; panel < panels; panel++) {
            multiply(w, (end - row) * w->columns, in, w->memory + panel * POINTS * w->weight_point, panel, out);
            leave(w, row, end, panel, out, workspace);
        }
    }
    haul__cpu_scratch_give(&w->scratch, slot);
}

static void run_weights(void *context, int64_t first, int64_t last)
{
    work *w = context;
    for (int64_t panel = first; panel < last; panel++)
        enter_weights(w, panel, w->memory + panel * POINTS * w->weight_point);
}

/* Tasks are panels of the result; the input is shared. */
static void run_channels(void *context, int64_t first, int64_t last)
{
    work  *w = context;
    int    slot;
    float *workspace = haul__cpu_scratch_take(&w->scratch, &slot), *out = workspace + w->workspace;
    float *weights = out + POINTS * w->out_point;
    for (int64_t panel = first; panel < last; panel++) {
        enter_weights(w, panel, weights);
        multiply(w, w->rows * w->columns, w->memory, weights, panel, out);
        leave(w, 0, w->rows, panel, out, workspace);
    }
    haul__cpu_scratch_give(&w->scratch, slot);
}

/* Tasks are channels, as many as a vector has, of each picture. */
static void run_pictures(void *context, int64_t first, int64_t last)
{
    work   *w = context;
    int64_t blocks = blocks_of(w, &w->in);
    int     slot;
    float  *workspace = haul__cpu_scratch_take(&w->scratch, &slot);
    for (int64_t i = first; i < last; i++) {
        int64_t               row = i / blocks * w->picture_rows, channel = i % blocks * w->lanes;
        float                *to = w->memory + row * w->columns * w->in_tile + channel;
        haul__winograd_planes p = haul__winograd_planes_of(w, &w->in, row, row + w->picture_rows, channel, workspace,
                                                           w->magnitudes + i * w->in_magnitudes, false);
        w->kernels->input(&p, &(haul__winograd_tiles){to, w->in_point, w->in_tile});
    }
    haul__cpu_scratch_give(&w->scratch, slot);
}

/* Tasks are pictures: marks their tiles. */
static void run_marks(void *context, int64_t first, int64_t last)
{
    work   *w = context;
    int64_t blocks = blocks_of(w, &w->in);
    int     slot;
    float  *workspace = haul__cpu_scratch_take(&w->scratch, &slot);
    for (int64_t picture = first; picture < last; picture++) {
        int64_t               row = picture * w->picture_rows;
        haul__winograd_planes p = haul__winograd_planes_of(w, &w->in, row, row + w->picture_rows, 0, workspace,
                                                           w->magnitudes + picture * blocks * w->in_magnitudes, false);
        haul__winograd_merge(w, &p, haul__winograd_height(p.rows), blocks, w->in_magnitudes);
        haul__winograd_judge_tiles(w, &p, row);
    }
    haul__cpu_scratch_give(&w->scratch, slot);
}

static void run_convolution(work *w)
{
    int64_t panels = panels_of(w, w->out.channels);
    if (w->by_channels) {
        w->magnitudes = w->memory + POINTS * w->in_point;
        haul__winograd_cut(w, w->workspace);
        haul__parallel_for(w->c->n * blocks_of(w, &w->in), BLOCKS, run_pictures, w);
        haul__winograd_cut(w, w->slot);
        haul__parallel_for(panels, 1, run_channels, w);
        haul__winograd_cut(w, w->workspace);
        haul__parallel_for(w->c->n, haul__ceil_div(GRAIN, w->in.channels * w->in.h * w->in.w), run_marks, w);
    } else {
        haul__parallel_for(panels, 1, run_weights, w);
        haul__winograd_cut(w, w->slot);
        haul__parallel_for(w->tasks, 1, run_tiles, w);
    }
}

/* ---- the gradient of the weights ---- */

/* Tiles that are transformed at a time. The input is in panels: element `channel` of a tile is at
 * in[point][channel / width][tile][channel % width]. */
typedef struct part {
    work   *w;
    int64_t row, end;
    float  *in, *out, *sums;               /* of the input, of dy, of the gradient */
    float *in_magnitudes, *out_magnitudes; /* of magnitudes: [pictures of the part, blocks of channels, in_magnitudes or
                                              out_magnitudes] */
} part;

/* The most pictures that a part has rows of. */
static int64_t pictures_of_part(const work *w)
{
    return haul__ceil_div(w->each, w->picture_rows) + 1;
}

static void plan_gradient(work *w)
{
    int64_t in = round_up(w->in.channels, w->width);
    w->out_tile = tile_of(w, w->out.channels);
    w->weight_tile = tile_of(w, w->in.channels);
    int64_t row = POINTS * (in + w->out_tile) * w->columns;
    /* Rows of the gradient keep their sums in a cache if all tiles are there at once. */
    w->by_channels = row * w->rows <= ROWS_ELEMENTS && w->out.channels >= 8 * 2 * w->panels->rows;
    w->each = w->by_channels ? w->rows : rows_within(w, row, PART_ELEMENTS);
    w->in_tile = w->width;
    w->in_point = spread(w->each * w->columns * in);
    w->out_point = spread(w->each * w->columns * w->out_tile);
    int64_t rows = w->by_channels ? 2 * w->panels->rows : w->out.channels;
    w->weight_point = spread(rows * w->weight_tile);
    int64_t together = smaller(w->each, w->picture_rows);
    w->workspace = round_up(haul__winograd_workspace(together, w->columns, w->lanes), 16);
    w->in_magnitudes = round_up(haul__winograd_height(together) * w->in.w, 16);
    w->out_magnitudes = round_up(together * TILE * w->out.w, 16);
    w->shared = POINTS * (w->in_point + w->out_point + (w->by_channels ? 0 : w->weight_point));
    w->shared +=
        pictures_of_part(w) * (blocks_of(w, &w->in) * w->in_magnitudes + blocks_of(w, &w->out) * w->out_magnitudes);
    w->slot = w->workspace + (w->by_channels ? POINTS * w->weight_point : 0);
    w->tasks = w->by_channels
                   ? haul__ceil_div(w->out.channels, 2 * w->panels->rows)
                   : haul__ceil_div(pictures_of_part(w) * (blocks_of(w, &w->in) + blocks_of(w, &w->out)), BLOCKS);
}

/* The rows of a picture in the part, counted from its first. Sums are those of a block of channels. */
static haul__winograd_planes planes_in_part(const part *p, bool is_in, int64_t picture, int64_t block, float *workspace)
{
    const work *w = p->w;
    const side *s = is_in ? &w->in : &w->out;
    float      *magnitudes = is_in ? p->in_magnitudes : p->out_magnitudes;
    int64_t     apart = is_in ? w->in_magnitudes : w->out_magnitudes;
    int64_t     row = larger(p->row, (p->row / w->picture_rows + picture) * w->picture_rows);
    HAUL__ASSERT(row < p->end);
    return haul__winograd_planes_of(w, s, row, p->end, block * w->lanes, workspace,
                                    magnitudes + (picture * blocks_of(w, s) + block) * apart, true);
}

/* The row of tiles, counted from the part's first, with which these planes begin. */
static int64_t row_in_part(const part *p, int64_t picture)
{
    return larger(0, (p->row / p->w->picture_rows + picture) * p->w->picture_rows - p->row);
}

/* Transformed tiles of a block of channels, from that number on. */
static haul__winograd_tiles tiles_in_part(const part *p, bool is_in, int64_t tile, int64_t block)
{
    const work *w = p->w;
    int64_t     channel = block * w->lanes, tiles = (p->end - p->row) * w->columns;
    if (!is_in)
        return (haul__winograd_tiles){p->out + tile * w->out_tile + channel, w->out_point, w->out_tile};
    return (haul__winograd_tiles){p->in + (channel / w->width * tiles + tile) * w->width + channel % w->width,
                                  w->in_point, w->width};
}

/* Tasks are the channels of both sides, as many as a vector has, of each picture. */
static void run_sides(void *context, int64_t first, int64_t last)
{
    const part *p = context;
    work       *w = p->w;
    int64_t     in_blocks = blocks_of(w, &w->in), blocks = in_blocks + blocks_of(w, &w->out);
    int         slot;
    float      *workspace = haul__cpu_scratch_take(&w->scratch, &slot);
    for (int64_t i = first; i < last; i++) {
        bool                  is_in = i % blocks < in_blocks;
        int64_t               picture = i / blocks, block = i % blocks - (is_in ? 0 : in_blocks);
        haul__winograd_planes planes = planes_in_part(p, is_in, picture, block, workspace);
        haul__winograd_tiles  tiles = tiles_in_part(p, is_in, row_in_part(p, picture) * w->columns, block);
        (is_in ? w->kernels->input : w->kernels->gradient)(&planes, &tiles);
    }
    haul__cpu_scratch_give(&w->scratch, slot);
}

/* Replaces a transformed tile by zeros. */
static void clear_tile(const part *p, int64_t tile)
{
    const work *w = p->w;
    for (int is_in = 0; is_in < 2; is_in++)
        for (int64_t block = 0; block < blocks_of(w, is_in ? &w->in : &w->out); block++) {
            haul__winograd_tiles to = tiles_in_part(p, is_in, tile, block);
            for (int64_t point = 0; point < POINTS; point++)
                memset(to.data + point * to.point, 0, (size_t)w->lanes * sizeof *to.data);
        }
}

/* Tasks are pictures: marks their tiles, and leaves out those that are marked. */
static void run_part_marks(void *context, int64_t first, int64_t last)
{
    const part *p = context;
    const work *w = p->w;
    for (int64_t i = first; i < last; i++) {
        haul__winograd_planes in = planes_in_part(p, true, i, 0, NULL), out = planes_in_part(p, false, i, 0, NULL);
        int64_t               tile = row_in_part(p, i) * w->columns, count = in.rows * w->columns;
        haul__winograd_merge(w, &in, haul__winograd_height(in.rows), blocks_of(w, &w->in), w->in_magnitudes);
        haul__winograd_merge(w, &out, out.rows * TILE, blocks_of(w, &w->out), w->out_magnitudes);
        haul__winograd_judge_gradient(w, &in, &out, p->row + row_in_part(p, i));
        for (int64_t t = tile; t < tile + count; t++)
            if (w->marks[p->row * w->columns + t])
                clear_tile(p, t);
    }
}

/* At a point: dy [rows from `row`, tiles] x input [tiles, in]. */
static void multiply_sides(const part *p, int64_t point, int64_t row, int64_t rows, float *sums)
{
    const work *w = p->w;
    int64_t     tiles = (p->end - p->row) * w->columns, in = round_up(w->in.channels, w->lanes);
    for (int64_t panel = 0; panel * w->width < in; panel++)
        for (int64_t k = 0; k < tiles; k += DEPTH)
            w->panels->multiply(&(haul__cpu_strip){
                .m = rows,
                .n = smaller(w->width, in - panel * w->width),
                .k = smaller(DEPTH, tiles - k),
                .a = p->out + point * w->out_point + k * w->out_tile + row,
                .a_row = 1,
                .a_column = w->out_tile,
                .b = p->in + point * w->in_point + (panel * tiles + k) * w->width,
                .b_row = w->width,
                .c = sums + panel * w->width,
                .c_row = w->weight_tile,
                .accumulate = k > 0 || p->row > 0,
            });
}

static void run_points(void *context, int64_t first, int64_t last)
{
    const part *p = context;
    for (int64_t point = first; point < last; point++)
        multiply_sides(p, point, 0, p->w->out.channels, p->sums + point * p->w->weight_point);
}

/* Writes `rows` channels of the gradient, from that of the number `row`. */
static void leave_gradient(const work *w, const float *sums, int64_t row, int64_t rows)
{
    float *to = data(w->c->weight, w->c->weight_offset);
    for (int64_t i = 0; i < rows; i++)
        w->kernels->weight_gradient(sums + i * w->weight_tile, w->weight_point, w->in.channels,
                                    to + (row + i) * w->in.channels * 9);
}

static void run_gradients(void *context, int64_t first, int64_t last)
{
    const part *p = context;
    leave_gradient(p->w, p->sums + first * p->w->weight_tile, first, last - first);
}

/* Tasks are rows of the gradient, from the products to the end. */
static void run_rows(void *context, int64_t first, int64_t last)
{
    const part *p = context;
    work       *w = p->w;
    int         slot;
    float      *sums = (float *)haul__cpu_scratch_take(&w->scratch, &slot) + w->workspace;
    for (int64_t i = first; i < last; i++) {
        int64_t each = 2 * w->panels->rows, row = i * each, rows = smaller(each, w->out.channels - row);
        HAUL__ASSERT(rows > 0);
        for (int64_t point = 0; point < POINTS; point++)
            multiply_sides(p, point, row, rows, sums + point * w->weight_point);
        leave_gradient(w, sums, row, rows);
    }
    haul__cpu_scratch_give(&w->scratch, slot);
}

static void run_gradient(work *w)
{
    int64_t blocks = blocks_of(w, &w->in) + blocks_of(w, &w->out);
    part    p = {.w = w, .in = w->memory, .out = w->memory + POINTS * w->in_point};
    p.sums = p.out + POINTS * w->out_point;
    p.in_magnitudes = p.sums + (w->by_channels ? 0 : POINTS * w->weight_point);
    p.out_magnitudes = p.in_magnitudes + pictures_of_part(w) * blocks_of(w, &w->in) * w->in_magnitudes;
    for (; p.row < w->rows; p.row = p.end) {
        p.end = smaller(p.row + w->each, w->rows);
        int64_t pictures = (p.end - 1) / w->picture_rows - p.row / w->picture_rows + 1;
        HAUL__ASSERT(p.row < p.end && pictures <= pictures_of_part(w));
        haul__winograd_cut(w, w->workspace);
        haul__parallel_for(pictures * blocks, BLOCKS, run_sides, &p);
        haul__parallel_for(pictures, haul__ceil_div(GRAIN, w->in.channels * w->in_magnitudes), run_part_marks, &p);
        haul__winograd_cut(w, w->slot);
        if (w->by_channels)
            haul__parallel_for(w->tasks, 1, run_rows, &p);
        else
            haul__parallel_for(POINTS, 1, run_points, &p);
    }
    if (!w->by_channels)
        haul__parallel_for(w->out.channels, haul__ceil_div(GRAIN, POINTS * w->in.channels), run_gradients, &p);
}

/* ---- the implementation ---- */

const char *haul__cpu_winograd_refuses(haul_device *device, const void *problem)
{
    const haul__conv2d *c = problem;
    (void)device;
    if (!c)
        return NULL;
    if (c->channels_last)
        return "it takes row-major tensors only";
    if (c->dtype != HAUL_F32)
        return "it takes f32 only";
    if (c->kh != 3 || c->kw != 3 || c->stride[0] != 1 || c->stride[1] != 1 || c->dilation[0] != 1 ||
        c->dilation[1] != 1 || c->groups != 1)
        return "only 3x3 weights without stride, dilation or groups";
    if (c->padding[0] > 2 || c->padding[1] > 2)
        return "it takes a padding of up to 2 only";
    if (c->c_in < MANY_CHANNELS || c->c_out < MANY_CHANNELS)
        return "with fewer than 16 channels its transforms do not pay";
    int64_t h = c->pass == HAUL__CONV2D_DATA ? c->h : c->out_h, w = c->pass == HAUL__CONV2D_DATA ? c->w : c->out_w;
    if (2 * h * w < round_up(h, TILE) * round_up(w, TILE))
        return "more than half of its 4x4 tiles would be empty";
    return c->n > 0 ? NULL : "the batch is empty";
}

static work plan(const haul__conv2d *c)
{
    work w = work_of(c);
    if (c->pass == HAUL__CONV2D_WEIGHT)
        plan_gradient(&w);
    else
        plan_convolution(&w);
    w.plain_slot = haul__winograd_plain_slot(&w);
    w.shared += mark_elements(&w);
    return w;
}

/* Slots for as many tasks as there are threads to run them: a convolution with few tasks needs no more on many cores.
 */
static int64_t slots_for(int64_t tasks)
{
    return smaller(smaller(tasks, haul__pool_threads()), HAUL__CPU_MOST_SLOTS);
}

static size_t scratch_of(const work *w)
{
    int64_t plain = w->plain_slot * slots_for(haul__winograd_plain_tasks(w));
    return (size_t)(w->shared + larger(w->slot * slots_for(w->tasks), plain)) * sizeof(float);
}

size_t haul__cpu_winograd_scratch(haul_device *device, const void *problem)
{
    if (!haul__cpu_is_host(device))
        return 0;
    const work w = plan(problem);
    return scratch_of(&w);
}

static void run_in(work *w, float *memory, size_t bytes)
{
    w->memory = memory;
    w->marks = (int64_t *)(void *)(memory + w->shared - mark_elements(w));
    w->slots = memory + w->shared;
    w->room = (int64_t)(bytes / sizeof(float)) - w->shared;
    HAUL__ASSERT(w->room >= w->slot && w->room >= w->plain_slot);
    if (w->c->pass == HAUL__CONV2D_WEIGHT)
        run_gradient(w);
    else
        run_convolution(w);
    haul__winograd_plain(w);
}

/* For a device that is described. */
static haul_status run_in_host_memory(work *w)
{
    haul__cpu_scratch scratch;
    const size_t      bytes = scratch_of(w);
    if (!haul__cpu_scratch_open(&scratch, bytes, 1))
        return HAUL_UNSUPPORTED;
    run_in(w, (float *)(void *)scratch.memory, bytes);
    haul__cpu_scratch_close(&scratch);
    return HAUL_OK;
}

haul_status haul__cpu_winograd(haul__stream *s, const void *problem)
{
    const haul__conv2d *c = problem;
    work                w = plan(c);
    if (s && !haul__cpu_is_host(s->device))
        return run_in_host_memory(&w);
    if (!c->scratch || c->scratch_bytes / sizeof(float) < (size_t)(w.shared + larger(w.slot, w.plain_slot)))
        return HAUL_UNSUPPORTED;
    run_in(&w, c->scratch->host, c->scratch_bytes);
    return HAUL_OK;
}
