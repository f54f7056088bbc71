/* The tiles of a Winograd convolution that it may not compute (winograd_bound.c), as plain sums over channels or
 * pixels. Values outside of the picture are left out of the sums: an infinite weight times a zero there would be NaN.
 *
 * The sum of an element is added up tap by tap, in parts of HAUL__PANEL_DEPTH channels, or tile by tile. */
#include <string.h>

#include "backends/cpu/conv2d/winograd_work.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "core/pool.h"

#define DEPTH HAUL__PANEL_DEPTH
#define TILE  HAUL__WINOGRAD_TILE
#define INPUT HAUL__WINOGRAD_INPUT
#define TAPS  9

/* Tiles for which a task copies the weights once. */
#define CHUNK 32

typedef haul__winograd_work work;
typedef haul__winograd_side side;

/* ---- tiles ---- */

typedef struct tile {
    int64_t picture, y, x; /* of its first result */
    int64_t rows, columns; /* results that there are */
} tile;

static tile tile_of(const work *w, int64_t number)
{
    int64_t row = number / w->columns, picture = row / w->picture_rows;
    tile    t = {.picture = picture, .y = (row - picture * w->picture_rows) * TILE, .x = number % w->columns * TILE};
    /* the gradient of the weights has a tile of dy in place of results */
    t.rows = smaller(TILE, w->out.h - t.y);
    t.columns = smaller(TILE, w->out.w - t.x);
    HAUL__ASSERT(t.rows > 0 && t.columns > 0);
    return t;
}

/* Copies [size, size] pixels from row y and column x on, of `channels` channels, which become adjacent, `apart`
 * elements from one pixel to the next, with zeros behind them and around the picture. */
static void take(const side *s, int64_t picture, int64_t y, int64_t x, int size, int64_t channel, int64_t channels,
                 float *to, int64_t apart)
{
    const float *from = s->data + (picture * s->channels + channel) * s->h * s->w;
    HAUL__ASSERT(channels <= apart && channel + channels <= s->channels);
    memset(to, 0, (size_t)(size * size * apart) * sizeof *to);
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++, to += apart)
            for (int64_t c = 0; c < channels && y + i >= 0 && y + i < s->h && x + j >= 0 && x + j < s->w; c++)
                to[c] = from[(c * s->h + y + i) * s->w + x + j];
}

/* The results of row i of a tile that have a pixel of the input at the tap: columns [*first, returned end). */
static int64_t inside(const work *w, const tile *t, int64_t i, int tap, int64_t *first)
{
    int64_t y = t->y + i + tap / 3 - w->in.top, x = t->x + tap % 3 - w->in.left;
    *first = larger(0, -x);
    return y >= 0 && y < w->in.h ? smaller(t->columns, w->in.w - x) : 0;
}

/* ---- convolutions ---- */

/* Results [TILE, TILE, width] of a panel of channels. `patch` is [INPUT, INPUT, in_tile], `weights` [TAPS, in, width].
 */
static void multiply_tile(const work *w, const tile *t, int64_t columns, const float *patch, const float *weights,
                          float *sums)
{
    int64_t channels = w->in.channels, first;
    HAUL__ASSERT(columns <= w->width && t->rows <= TILE && t->columns <= TILE);
    memset(sums, 0, (size_t)(TILE * TILE * w->width) * sizeof *sums);
    for (int tap = 0; tap < TAPS; tap++)
        for (int64_t i = 0; i < t->rows; i++) {
            int64_t count = inside(w, t, i, tap, &first) - first;
            for (int64_t k = 0; k < channels && count > 0; k += DEPTH)
                w->panels->multiply(&(haul__cpu_strip){
                    .m = count,
                    .n = columns,
                    .k = smaller(DEPTH, channels - k),
                    .a = patch + ((i + tap / 3) * INPUT + first + tap % 3) * w->in_tile + k,
                    .a_row = w->in_tile,
                    .a_column = 1,
                    .b = weights + (tap * channels + k) * w->width,
                    .b_row = w->width,
                    .c = sums + (i * TILE + first) * w->width,
                    .c_row = w->width,
                    .accumulate = true,
                });
        }
}

static void leave_tile(const work *w, const tile *t, int64_t channel, int64_t channels, const float *sums)
{
    const side *s = &w->out;
    HAUL__ASSERT(channels <= w->width && channel + channels <= s->channels);
    for (int64_t c = 0; c < channels; c++) {
        float *to = s->data + ((t->picture * s->channels + channel + c) * s->h + t->y) * s->w + t->x;
        float  bias = w->bias ? w->bias[channel + c] : 0;
        for (int64_t i = 0; i < t->rows; i++)
            for (int64_t j = 0; j < t->columns; j++) {
                float value = sums[(i * TILE + j) * w->width + c] + bias;
                to[i * s->w + j] = w->c->relu && value < 0 ? 0 : value;
            }
    }
}

/* Numbers of tiles. */
typedef struct list {
    work          *w;
    const int64_t *tiles;
    int64_t        count;
} list;

/* Tasks are panels of the result x chunks of tiles. */
static void run_tiles(void *context, int64_t begin, int64_t end)
{
    const list *l = context;
    work       *w = l->w;
    int64_t     chunks = haul__ceil_div(l->count, CHUNK);
    int         slot;
    float      *weights = haul__cpu_scratch_take(&w->scratch, &slot);
    float      *patch = weights + TAPS * w->in.channels * w->width, *sums = patch + INPUT * INPUT * w->in_tile;
    for (int64_t task = begin; task < end; task++) {
        int64_t channel = task / chunks * w->width, columns = smaller(w->width, w->out.channels - channel);
        int64_t first = task % chunks * CHUNK;
        HAUL__ASSERT(columns > 0 && first < l->count);
        for (int tap = 0; tap < TAPS; tap++)
            w->panels->pack_b(weights + tap * w->in.channels * w->width,
                              w->weight + channel * w->out_step +
                                  (w->c->pass == HAUL__CONV2D_DATA ? TAPS - 1 - tap : tap),
                              w->in_step, w->out_step, w->in.channels, columns);
        for (int64_t i = first; i < smaller(first + CHUNK, l->count); i++) {
            tile t = tile_of(w, l->tiles[i]);
            take(&w->in, t.picture, t.y - w->in.top, t.x - w->in.left, INPUT, 0, w->in.channels, patch, w->in_tile);
            multiply_tile(w, &t, columns, patch, weights, sums);
            leave_tile(w, &t, channel, columns, sums);
        }
    }
    haul__cpu_scratch_give(&w->scratch, slot);
}

/* ---- the gradient of the weights ---- */

/* Rows of the gradient in a task. */
static int64_t gradient_rows(const work *w)
{
    return 2 * w->panels->rows;
}

/* Adds what a tile adds to the sums [TAPS, rows, width]. `in` is [INPUT, INPUT, width], `out` [TILE, TILE, rows]. */
static void add_tile(const work *w, const tile *t, int64_t rows, int64_t columns, const float *in, const float *out,
                     float *sums)
{
    int64_t apart = gradient_rows(w), first;
    HAUL__ASSERT(rows <= apart && columns <= w->width);
    for (int tap = 0; tap < TAPS; tap++)
        for (int64_t i = 0; i < t->rows; i++) {
            int64_t count = inside(w, t, i, tap, &first) - first;
            if (count > 0)
                w->panels->multiply(&(haul__cpu_strip){
                    .m = rows,
                    .n = columns,
                    .k = count,
                    .a = out + (i * TILE + first) * apart,
                    .a_row = 1,
                    .a_column = apart,
                    .b = in + ((i + tap / 3) * INPUT + first + tap % 3) * w->width,
                    .b_row = w->width,
                    .c = sums + tap * apart * w->width,
                    .c_row = w->width,
                    .accumulate = true,
                });
        }
}

/* Tasks are rows of the gradient x panels of the input's channels. */
static void run_gradient(void *context, int64_t begin, int64_t end)
{
    const list *l = context;
    work       *w = l->w;
    int64_t     panels = haul__ceil_div(w->in.channels, w->width), apart = gradient_rows(w);
    float      *gradient = (float *)w->c->weight->host + w->c->weight_offset;
    int         slot;
    float      *sums = haul__cpu_scratch_take(&w->scratch, &slot), *in = sums + TAPS * apart * w->width;
    float      *out = in + INPUT * INPUT * w->width;
    for (int64_t task = begin; task < end; task++) {
        int64_t row = task / panels * apart, rows = smaller(apart, w->out.channels - row);
        int64_t channel = task % panels * w->width, columns = smaller(w->width, w->in.channels - channel);
        HAUL__ASSERT(rows > 0 && columns > 0);
        memset(sums, 0, (size_t)(TAPS * apart * w->width) * sizeof *sums);
        for (int64_t i = 0; i < l->count; i++) {
            tile t = tile_of(w, l->tiles[i]);
            take(&w->in, t.picture, t.y - w->in.top, t.x - w->in.left, INPUT, channel, columns, in, w->width);
            take(&w->out, t.picture, t.y, t.x, TILE, row, rows, out, apart);
            add_tile(w, &t, rows, columns, in, out, sums);
        }
        for (int64_t i = 0; i < rows; i++)
            for (int64_t c = 0; c < columns; c++)
                for (int tap = 0; tap < TAPS; tap++)
                    gradient[((row + i) * w->in.channels + channel + c) * TAPS + tap] +=
                        sums[(tap * apart + i) * w->width + c];
    }
    haul__cpu_scratch_give(&w->scratch, slot);
}

/* ---- both ---- */

int64_t haul__winograd_plain_slot(const work *w)
{
    int64_t apart = gradient_rows(w);
    if (w->c->pass == HAUL__CONV2D_WEIGHT)
        return round_up((TAPS * apart + INPUT * INPUT) * w->width + TILE * TILE * apart, 16);
    return round_up((TAPS * w->in.channels + TILE * TILE) * w->width + INPUT * INPUT * w->in_tile, 16);
}

int64_t haul__winograd_plain_tasks(const work *w)
{
    if (w->c->pass == HAUL__CONV2D_WEIGHT)
        return haul__ceil_div(w->out.channels, gradient_rows(w)) * haul__ceil_div(w->in.channels, w->width);
    return haul__ceil_div(w->out.channels, w->width);
}

void haul__winograd_plain(work *w)
{
    list l = {w, w->marks, 0};
    for (int64_t i = 0; i < w->rows * w->columns; i++)
        if (w->marks[i])
            w->marks[l.count++] = i;
    if (!l.count)
        return;
    haul__winograd_cut(w, w->plain_slot);
    if (w->c->pass == HAUL__CONV2D_WEIGHT)
        haul__parallel_for(haul__winograd_plain_tasks(w), 1, run_gradient, &l);
    else
        haul__parallel_for(haul__winograd_plain_tasks(w) * haul__ceil_div(l.count, CHUNK), 1, run_tiles, &l);
}
