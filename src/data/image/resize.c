/* Resizes pictures: scales them until they cover the size, keeping their proportions, and crops the centre.
 *
 * A result is the weighted mean of the pixels around its position. Weights fall linearly to 0 at a distance of one
 * pixel of the smaller of the two pictures, so that no pixel is skipped when a picture shrinks. Rows are scaled first,
 * then columns, each rounded to bytes, with weights of 22 bits. Pillow does the same, so the results have the same
 * bytes.
 *
 * Each row is scaled when it is decoded, while it is in the nearest cache. Of the scaled rows only those are kept that
 * the next row of the result needs. */
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "core/shape.h"
#include "data/image/image.h"

/* ---- weights ---- */

enum { PLACES = 4 }; /* of a result, in haul__scale_axis */

/* `in` inputs scaled to `scaled`, of which the central `out` are kept. An odd remainder is rounded like Python's
 * round(). */
static haul__side side_of(int64_t in, int64_t scaled, int64_t out)
{
    const int64_t rest = scaled - out;
    const double  scale = (double)in / (double)scaled;
    HAUL__ASSERT(in > 0 && 0 < out && out <= scaled);
    return (haul__side){.cut = rest / 2 + (rest % 2 && rest / 2 % 2), .scale = scale, .reach = fmax(scale, 1)};
}

void haul__image_nearest(int64_t in, int64_t scaled, int64_t out, int64_t *nearest)
{
    const haul__side side = side_of(in, scaled, out);
    for (int64_t i = 0; i < out; i++) {
        const int64_t at = (int64_t)(((double)(side.cut + i) + 0.5) * side.scale);
        nearest[i] = at < in ? at : in - 1;
    }
}

/* Inputs at a distance below `reach`: there are never more, because inputs are 1 apart. */
static int64_t taps_of(const haul__side *side, int64_t in)
{
    const int64_t taps = (int64_t)ceil(2 * side->reach);
    return taps < in ? taps : in;
}

/* The weights of the inputs from `first` on, for a result whose centre is at `centre` of the input. */
static void weigh(int64_t taps, int64_t first, double centre, double reach, double *weights, int32_t *out)
{
    const double shrink = 1 / reach;
    double       sum = 0;
    for (int64_t k = 0; k < taps; k++) {
        const double distance = ((double)(first + k) - centre + 0.5) * shrink;
        const double weight = 1 - (distance < 0 ? -distance : distance);
        weights[k] = weight > 0 ? weight : 0;
        sum += weights[k];
    }
    HAUL__ASSERT(sum > 0);
    const double scale = 1 / sum;
    for (int64_t k = 0; k < taps; k++)
        out[k] = (int32_t)(weights[k] * scale * (1 << HAUL__WEIGHT_BITS) + 0.5);
}

/* Results that loops compute. */
static int64_t results_of(const haul__scale_axis *a)
{
    return haul__ceil_div(a->out, a->at_once) * a->at_once;
}

static int64_t first_of(const haul__scale_axis *a, const haul__side *side, double centre)
{
    const double  begin = centre - side->reach + 0.5;
    const int64_t first = begin > 0 ? (int64_t)begin : 0, last = a->in - a->taps;
    HAUL__ASSERT(last >= 0);
    return first < last ? first : last;
}

/* Writes the tables of the axis; `weights` and `rounded` have room for those of a result. The results past the last
 * one have weights of 0. */
static void fill(haul__scale_axis *a, const haul__side *side, haul__scale_put *put, double *weights, int32_t *rounded)
{
    const int64_t all = results_of(a);
    memset(a->weights, 0, (size_t)(all * a->stored * a->unit) * sizeof *a->weights);
    memset(a->places, 0, (size_t)(all * PLACES));
    memset(a->first + a->out, 0, (size_t)(all - a->out) * sizeof *a->first);
    memset(rounded + a->taps, 0, (size_t)(a->stored - a->taps) * sizeof *rounded);
    HAUL__ASSERT(all >= a->out && a->stored >= a->taps && a->taps > 0);
    double before = 0;
    for (int64_t i = 0; i < a->out; i++) {
        const double  centre = ((double)(side->cut + i) + 0.5) * side->scale;
        const int64_t first = first_of(a, side, centre);
        const double  distance = centre - (double)first; /* exact: it has no more digits than centre */
        /* At the same distance, which is common where a side becomes a half or a quarter, weights are the same. */
        if (!i || distance != before)
            weigh(a->taps, first, centre, side->reach, weights, rounded);
        before = distance;
        a->first[i] = first * a->unit;
        const int64_t span = a->first[i] - a->first[i / a->at_once * a->at_once] + PLACES;
        a->span = span > a->span ? span : a->span;
        put(a, i, rounded);
    }
}

/* ---- memory ---- */

/* Parts of a block of memory, one after the other. With a base of NULL they are only counted. */
typedef struct parts {
    uint8_t *base;
    size_t   used;
} parts;

static void *part(parts *p, int64_t count, size_t element)
{
    void *at = p->base ? p->base + p->used : NULL;
    p->used += ((size_t)count * element + HAUL__ROW_PADDING - 1) / HAUL__ROW_PADDING * HAUL__ROW_PADDING;
    return at;
}

static void place_axis(haul__scale_axis *a, parts *p)
{
    a->first = part(p, results_of(a), sizeof *a->first);
    a->places = part(p, results_of(a) * PLACES, 1);
    a->weights = part(p, results_of(a) * a->stored * a->unit, sizeof *a->weights);
}

/* Returns the bytes. Sides have at most HAUL__IMAGE_MAX_SIDE pixels, so that sizes do not overflow. */
static size_t place(haul__scaler *s, uint8_t *memory)
{
    parts         p = {memory, 0};
    const int64_t taps = s->down.stored > s->across.stored ? s->down.stored : s->across.stored;
    place_axis(&s->down, &p);
    place_axis(&s->across, &p);
    s->temporary = part(&p, taps, sizeof *s->temporary);
    s->rounded = part(&p, taps, sizeof *s->rounded);
    s->window = part(&p, s->down.stored, sizeof *s->window);
    s->result = part(&p, s->pitch, 1);
    s->rows = part(&p, s->down.taps, (size_t)s->pitch);
    s->lines = part(&p, s->planes * s->line, 1);
    return p.used;
}

/* The side that must grow more, or shrink less, decides; the other one is rounded down. */
void haul__image_cover(const haul__image *image, int64_t *height, int64_t *width)
{
    if (*height * image->width >= *width * image->height)
        *width = image->width * *height / image->height;
    else
        *height = image->height * *width / image->width;
}

static int64_t padded(int64_t bytes)
{
    return haul__ceil_div(bytes, HAUL__ROW_PADDING) * HAUL__ROW_PADDING;
}

static haul__scale_axis axis_of(const haul__side *side, int64_t in, int64_t out, int unit, int step, int at_once)
{
    const int64_t taps = taps_of(side, in), stored = haul__ceil_div(taps, step) * step;
    return (haul__scale_axis){.in = in, .out = out, .taps = taps, .stored = stored, .unit = unit, .at_once = at_once};
}

size_t haul__scaler_plan(haul__scaler *s, const haul__image *image, int64_t height, int64_t width, int channels)
{
    int64_t scaled_height = height, scaled_width = width;
    haul__image_cover(image, &scaled_height, &scaled_width);
    *s = (haul__scaler){.down_side = side_of(image->height, scaled_height, height),
                        .across_side = side_of(image->width, scaled_width, width)};
    const haul__cpu_level_id level = haul__cpu_chosen_level();
    const haul__scale_loops *pixels = haul__scale_loops_of(level);
    const haul__scale_loops *planes = haul__scale_planes_of(level, s->across_side.scale);
    const haul__scale_loops *l = s->loops = planes ? planes : pixels;
    s->down = axis_of(&s->down_side, image->height, height, 1, l->step_down, 1);
    s->across = axis_of(&s->across_side, image->width, width, l->unit, l->step_across, l->at_once);
    s->planes = planes ? channels : 0;
    s->line = padded(image->width) + HAUL__PLANE_PADDING;
    s->plane = padded(width);
    s->pitch = planes ? channels * s->plane : padded(width * HAUL__PIXEL);
    HAUL__ASSERT(s->across.unit == (planes ? 1 : HAUL__PIXEL) && s->pitch % HAUL__ROW_PADDING == 0);
    return place(s, NULL);
}

void haul__scaler_begin(haul__scaler *s, uint8_t *memory)
{
    place(s, memory);
    fill(&s->down, &s->down_side, s->loops->put_down, s->temporary, s->rounded);
    fill(&s->across, &s->across_side, s->loops->put_across, s->temporary, s->rounded);
    /* Bytes between rows are read, and not used. */
    memset(s->rows, 0, (size_t)(s->down.taps * s->pitch));
    memset(s->lines, 0, (size_t)(s->planes * s->line));
}

void haul__scaler_columns(const haul__scaler *s, int64_t *first, int64_t *last)
{
    HAUL__ASSERT(s->across.out > 0);
    *first = s->across.first[0] / s->across.unit;
    *last = s->across.first[s->across.out - 1] / s->across.unit + s->across.taps;
}

/* ---- rows ---- */

void haul__scaler_take(haul__scaler *s, const uint8_t *row)
{
    const int64_t y = s->taken++;
    HAUL__ASSERT(y < s->down.in && s->given <= s->down.out);
    HAUL__ASSERT(row || s->planes);
    if (s->given == s->down.out || y < s->down.first[s->given])
        return;
    uint8_t *scaled = s->rows + y % s->down.taps * s->pitch;
    if (!s->planes)
        s->loops->row(&s->across, row, scaled);
    for (int c = 0; c < s->planes; c++)
        s->loops->row(&s->across, s->lines + c * s->line, scaled + c * s->plane);
}

const uint8_t *haul__scaler_give(haul__scaler *s)
{
    const haul__scale_axis *down = &s->down;
    if (s->given == down->out || s->taken < down->first[s->given] + down->taps)
        return NULL;
    /* Rows past the taps have weights of 0. */
    const uint8_t *end = s->rows + down->taps * s->pitch,
                  *row = s->rows + down->first[s->given] % down->taps * s->pitch;
    HAUL__ASSERT(s->taken == down->first[s->given] + down->taps && row < end); /* no row of them was overwritten */
    for (int64_t k = 0; k < down->stored; k++) {
        s->window[k] = row;
        row = row + s->pitch < end ? row + s->pitch : s->rows;
    }
    s->loops->column(s->window, down->weights + s->given * down->stored, down->stored, s->pitch, s->result);
    s->given++;
    return s->result;
}
