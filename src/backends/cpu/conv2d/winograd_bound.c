/* Which tiles of a Winograd convolution have errors that are too large for their results.
 *
 * The transforms mix all inputs of a tile, so each of its results has an error in proportion to the tile's largest
 * inputs, even if its own window holds small ones only. The sum of an input's magnitudes over all channels is one
 * number for a pixel. A tile is even if the magnitudes of its pixels together are at most SPREAD times those of each
 * result's window. It is a bound in relation to the result's own sum if the weights of all taps are alike. If those of
 * one tap are more than TAP_SPREAD times those of another, the pixel at that tap is compared, too.
 *
 * The gradient of the weights adds products of two inputs over pixels. Each channel has sums of its own, and many of
 * its pixels may be zero. So a pixel's magnitude is that of its largest channel, and a tile is even if the product of
 * its largest pixels is at most PAIR_SPREAD times that of typical pixels of the picture.
 *
 * Most pictures pass at once, because their largest and smallest windows, or the pixels of one of the two inputs,
 * differ little. The numbers stay far from the limits of f32, so that no transform overflows and no digits are lost. */
#include "backends/cpu/conv2d/winograd_work.h"
#include "base/assert.h"

#include <math.h>

#define TILE  HAUL__WINOGRAD_TILE
#define INPUT HAUL__WINOGRAD_INPUT
#define TAPS  9

#define SPREAD       64.0f
#define PIXEL_SPREAD 512.0f
#define TAP_SPREAD   16.0f
#define PAIR_SPREAD  64.0f

/* Allows for sums that were rounded in another order. */
#define SLACK 0.99f

/* Magnitudes of a tile's inputs, of weights, and of each input of a product for the gradient of the weights. */
#define LEAST      0x1p-80f
#define MOST       0x1p80f
#define LEAST_TAP  0x1p-100f
#define MOST_TAP   0x1p30f
#define LEAST_OF_2 0x1p-60f
#define MOST_OF_2  0x1p45f

/* Bits of `weights`: the largest tap of a channel whose taps are uneven, or that all tiles need plain sums. */
#define UNUSABLE (1u << TAPS)

/* ---- weights ---- */

static uint32_t judge_channel(const float *taps, int64_t apart)
{
    int   largest = 0;
    float least = taps[0];
    for (int i = 0; i < TAPS; i++) {
        float tap = taps[i * apart];
        if (!(tap <= MOST_TAP))
            return UNUSABLE;
        if (tap > taps[largest * apart])
            largest = i;
        least = tap < least ? tap : least;
    }
    float most = taps[largest * apart];
    if (most > 0 && most < LEAST_TAP)
        return UNUSABLE;
    return most > TAP_SPREAD * least ? 1u << largest : 0;
}

void haul__winograd_judge_weights(haul__winograd_work *w, const float *sums, int64_t outs)
{
    uint32_t bits = 0;
    for (int64_t i = 0; i < outs; i++)
        bits |= judge_channel(sums + i, w->lanes);
    if (bits)
        atomic_fetch_or_explicit(&w->weights, bits, memory_order_relaxed);
}

/* ---- magnitudes ---- */

/* The rows [first, last) of a picture that some rows of tiles read. */
typedef struct region {
    const float *magnitudes;
    int64_t      first, last, w;
} region;

static region region_of(const haul__winograd_planes *p, int64_t height)
{
    int64_t top = p->row * TILE - p->top, first = larger(top, 0);
    return (region){p->magnitudes, first, larger(smaller(top + height, p->h), first), p->w};
}

void haul__winograd_merge(const haul__winograd_work *w, const haul__winograd_planes *p, int64_t height, int64_t blocks,
                          int64_t apart)
{
    const region r = region_of(p, height);
    for (int64_t block = 1; block < blocks; block++)
        w->kernels->merge(p->magnitudes, p->magnitudes + block * apart, (r.last - r.first) * r.w, p->most);
}

/* Copies [size, size] magnitudes from row y and column x on, with zeros around the picture. Returns their sum. */
static float take(const region *r, int64_t y, int64_t x, int size, float *to)
{
    float total = 0;
    for (int i = 0; i < size; i++)
        for (int j = 0; j < size; j++, to++) {
            bool inside = y + i >= r->first && y + i < r->last && x + j >= 0 && x + j < r->w;
            *to = inside ? r->magnitudes[(y + i - r->first) * r->w + x + j] : 0;
            total += *to;
        }
    return total;
}

/* ---- tiles of a convolution ---- */

/* True if a result's window, or its pixel at one of the uneven taps, is too small for the tile. */
static bool exceeds(float total, const float *window, uint32_t taps)
{
    float own = 0;
    for (int i = 0; i < TAPS; i++) {
        float pixel = window[i / 3 * INPUT + i % 3];
        own += pixel;
        if ((taps >> i & 1) && !(total <= PIXEL_SPREAD * pixel))
            return true;
    }
    return !(total <= SPREAD * own);
}

/* The tile whose inputs begin at row y and column x, and which has so many rows and columns of results. */
static bool is_uneven(const region *r, int64_t y, int64_t x, int64_t rows, int64_t columns, uint32_t taps)
{
    float pixels[INPUT * INPUT], total = take(r, y, x, INPUT, pixels);
    if (total == 0)
        return false;
    if (!(total >= LEAST && total <= MOST))
        return true;
    for (int64_t i = 0; i < rows && i < TILE; i++)
        for (int64_t j = 0; j < columns && j < TILE; j++)
            if (exceeds(total, pixels + i * INPUT + j, taps))
                return true;
    return false;
}

/* The most pixels of a tile's rows or columns for each of a window: all but `zeros` of 6 to all but `zeros` of 3. */
static float widest(int64_t zeros)
{
    return zeros == 0 ? 2 : (float)(INPUT - zeros) / (float)(3 - zeros);
}

/* True if the range of pixels implies that each tile of the picture is even. */
static bool have_even_pixels(const haul__winograd_work *w, const haul__winograd_planes *p, const region *r)
{
    haul__winograd_range pixels = w->kernels->range(r->magnitudes, (r->last - r->first) * r->w);
    float                tile = widest(p->top) * widest(p->left) * pixels.most;
    return pixels.least >= LEAST && pixels.most <= MOST / (INPUT * INPUT) && tile <= SLACK * SPREAD * pixels.least;
}

/* True if the range of windows does: a tile has no more than four windows together. */
static bool have_even_windows(const haul__winograd_work *w, const haul__winograd_planes *p)
{
    int64_t              rows = smaller(p->rows * TILE, w->out.h - p->row * TILE);
    haul__winograd_range windows = w->kernels->windows(p, rows, w->out.w);
    return windows.least >= LEAST && windows.most <= MOST / 4 && 4 * windows.most <= SLACK * SPREAD * windows.least;
}

void haul__winograd_judge_tiles(const haul__winograd_work *w, const haul__winograd_planes *p, int64_t row)
{
    uint32_t taps = atomic_load_explicit(&w->weights, memory_order_relaxed);
    int64_t *marks = w->marks + row * w->columns;
    region   r = region_of(p, haul__winograd_height(p->rows));
    bool     even = !taps && (have_even_pixels(w, p, &r) || have_even_windows(w, p));
    for (int64_t y = 0; y < p->rows; y++)
        for (int64_t x = 0; x < w->columns; x++) {
            int64_t down = (p->row + y) * TILE, right = x * TILE;
            *marks++ = taps & UNUSABLE || (!even && is_uneven(&r, down - p->top, right - p->left, w->out.h - down,
                                                              w->out.w - right, taps));
        }
}

/* ---- tiles of the gradient of the weights ---- */

/* Of the magnitudes that are not zero. Large ones do not raise their harmonic mean. */
typedef struct usual {
    float harmonic, least; /* with none, 0 and infinity */
} usual;

typedef float   four __attribute__((vector_size(16), aligned(4), may_alias));
typedef int32_t four_integers __attribute__((vector_size(16)));

static four four_of(float number)
{
    return (four){number, number, number, number};
}

/* Adds the inverses of the numbers that are above zero to *sum, and lowers *least to the least of them. */
static four_integers add_inverses(four v, four *sum, four *least)
{
    const four_integers used = v > four_of(0), less = used & (v < *least);
    *sum += (four)((four_integers)(four_of(1) / v) & used);
    *least = (four)(((four_integers)v & less) | ((four_integers)*least & ~less));
    return used;
}

static usual usual_of(const region *r)
{
    int64_t       count = (r->last - r->first) * r->w, i = 0;
    four          sum = {0}, least = four_of(INFINITY), rest = {0};
    four_integers used = {0};
    for (; i + 4 <= count; i += 4)
        used += add_inverses(*(const four *)(r->magnitudes + i), &sum, &least);
    for (int lane = 0; i + lane < count; lane++)
        rest[lane] = r->magnitudes[i + lane];
    used += add_inverses(rest, &sum, &least);
    float total = sum[0] + sum[1] + sum[2] + sum[3], low = least[0];
    for (int lane = 1; lane < 4; lane++)
        low = least[lane] < low ? least[lane] : low;
    int64_t all = -((int64_t)used[0] + used[1] + used[2] + used[3]);
    HAUL__ASSERT(0 <= all && all <= count);
    return (usual){all ? (float)all / total : 0, low};
}

/* The largest of [size, size] magnitudes from row y and column x on; NaN is above all others. */
static float largest(const region *r, int64_t y, int64_t x, int size)
{
    float most = 0;
    for (int64_t i = larger(y, r->first); i < y + size && i < r->last; i++)
        for (int64_t j = larger(x, 0); j < x + size && j < r->w; j++) {
            float here = r->magnitudes[(i - r->first) * r->w + j];
            most = here <= most || most != most ? most : here;
        }
    return most;
}

/* The tile with these largest magnitudes, in a picture with these typical ones. */
static bool is_uneven_pair(float in, float out, float typical_in, float typical_out)
{
    if (!(in <= MOST_OF_2 && out <= MOST_OF_2))
        return true;
    if (in == 0 || out == 0)
        return false;
    return in < LEAST_OF_2 || out < LEAST_OF_2 || in * out > PAIR_SPREAD * typical_in * typical_out;
}

/* True if the largest and smallest pixels imply that all tiles are even. */
static bool have_even_pairs(const haul__winograd_range *in, const haul__winograd_range *out)
{
    return in->least >= LEAST_OF_2 && out->least >= LEAST_OF_2 && in->most <= MOST_OF_2 && out->most <= MOST_OF_2 &&
           in->most * out->most <= SLACK * PAIR_SPREAD * in->least * out->least;
}

/* True if the largest and typical pixels do, where some are zero. */
static bool have_usual_pairs(const haul__winograd_range *in, const haul__winograd_range *out, const usual *a,
                             const usual *b)
{
    return a->least >= LEAST_OF_2 && b->least >= LEAST_OF_2 && in->most <= MOST_OF_2 && out->most <= MOST_OF_2 &&
           in->most * out->most <= PAIR_SPREAD * a->harmonic * b->harmonic;
}

void haul__winograd_judge_gradient(const haul__winograd_work *w, const haul__winograd_planes *in,
                                   const haul__winograd_planes *out, int64_t row)
{
    int64_t             *marks = w->marks + row * w->columns;
    const region         a = region_of(in, haul__winograd_height(in->rows)), b = region_of(out, out->rows * TILE);
    haul__winograd_range range_a = w->kernels->range(a.magnitudes, (a.last - a.first) * a.w);
    haul__winograd_range range_b = w->kernels->range(b.magnitudes, (b.last - b.first) * b.w);
    usual                usual_a = {0}, usual_b = {0};
    HAUL__ASSERT(in->row == out->row && in->rows == out->rows);
    bool even = have_even_pairs(&range_a, &range_b);
    if (!even) {
        usual_a = usual_of(&a);
        usual_b = usual_of(&b);
        even = have_usual_pairs(&range_a, &range_b, &usual_a, &usual_b);
    }
    for (int64_t y = 0; y < in->rows; y++)
        for (int64_t x = 0; x < w->columns; x++) {
            int64_t down = (in->row + y) * TILE, right = x * TILE;
            *marks++ = !even && is_uneven_pair(largest(&a, down - in->top, right - in->left, INPUT),
                                               largest(&b, down, right, TILE), usual_a.harmonic, usual_b.harmonic);
        }
}
