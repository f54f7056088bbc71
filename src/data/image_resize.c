/* Resizes pictures: scales them until they cover the size, keeping their proportions, and crops the centre.
 *
 * A result is the weighted mean of the pixels around its position. Weights fall linearly to 0 at a distance of one
 * pixel of the smaller of the two pictures, so that no pixel is skipped when a picture shrinks. Rows are scaled first,
 * then columns, each rounded to bytes, with weights of 22 bits. Pillow does the same, so the results have the same
 * bytes. */
#include <math.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "core/alloc.h"
#include "core/shape.h"
#include "data/image.h"

#define WEIGHT_BITS 22

/* A weight as the factors of 128 v and v, which add up to its product with v. The first of 2^22 would need 16 bits. */
typedef struct factors {
    int16_t high, low;
} factors;

static factors factors_of(int32_t weight)
{
    int32_t high = weight >> 7 > INT16_MAX ? INT16_MAX : weight >> 7;
    return (factors){(int16_t)high, (int16_t)(weight - (high << 7))};
}

/* How one side is scaled: result i is the sum of `taps` inputs from first[i] on, times their weights. */
typedef struct axis {
    int64_t  in, out, taps;
    int64_t *first;   /* [out] */
    factors *weights; /* [out][taps]; those past the end of the input are 0 */
} axis;

static void axis_free(axis *a)
{
    haul__free(a->first);
    haul__free(a->weights);
}

/* The weights of result i. Its centre is at `centre` of the input; the triangle reaches `reach` pixels to both sides.
 */
static void weigh(axis *a, int64_t i, double centre, double reach, double *weights)
{
    int64_t first = (int64_t)fmax(centre - reach + 0.5, 0);
    double  shrink = 1 / reach, sum = 0;
    if (first > a->in - a->taps)
        first = a->in - a->taps;
    for (int64_t k = 0; k < a->taps; k++) {
        weights[k] = fmax(1 - fabs(((double)(first + k) - centre + 0.5) * shrink), 0);
        sum += weights[k];
    }
    a->first[i] = first;
    for (int64_t k = 0; k < a->taps; k++)
        a->weights[i * a->taps + k] = factors_of((int32_t)(weights[k] * (1 / sum) * (1 << WEIGHT_BITS) + 0.5));
}

/* `in` pixels scaled to `scaled`, of which the central `out` are kept. An odd remainder is rounded like Python's
 * round(). */
static bool axis_init(axis *a, int64_t in, int64_t scaled, int64_t out)
{
    int64_t rest = scaled - out, cut = rest / 2 + (rest % 2 && rest / 2 % 2), bytes;
    double  scale = (double)in / (double)scaled, reach = fmax(scale, 1);
    *a = (axis){.in = in, .out = out, .taps = 2 * (int64_t)ceil(reach) + 1};
    if (a->taps > in)
        a->taps = in;
    if (!haul__mul_size(out, a->taps, &bytes) || !haul__mul_size(bytes, sizeof *a->weights, &bytes))
        return false;
    double *weights = haul__malloc((size_t)a->taps * sizeof *weights);
    a->first = haul__malloc((size_t)out * sizeof *a->first);
    a->weights = haul__malloc((size_t)bytes);
    bool made = weights && a->first && a->weights;
    for (int64_t i = 0; made && i < out; i++)
        weigh(a, i, ((double)(cut + i) + 0.5) * scale, reach, weights);
    haul__free(weights);
    return made;
}

/* ---- sums of pixels ----
 *
 * A value times a weight of 22 bits is the sum of two products of 16 bits, which processors add to a sum in one
 * instruction. So a pixel is *wide* here: (128 v, v) for each of its values v. */

#if defined(__SSE2__)
typedef __m128i sums, wide;

static inline __m128i no_sums(void)
{
    return _mm_setzero_si128();
}

/* The pixel of that number among four. */
static inline __m128i widen(const uint8_t *four, int i)
{
    const __m128i zero = _mm_setzero_si128(), bytes = _mm_loadu_si128((const __m128i *)(const void *)four);
    const __m128i values = i < 2 ? _mm_unpacklo_epi8(bytes, zero) : _mm_unpackhi_epi8(bytes, zero);
    const __m128i high = _mm_slli_epi16(values, 7);
    return i % 2 ? _mm_unpackhi_epi16(high, values) : _mm_unpacklo_epi16(high, values);
}

static inline __m128i add_product(__m128i sum, __m128i pixel, factors w)
{
    int32_t both;
    memcpy(&both, &w, sizeof both);
    return _mm_add_epi32(sum, _mm_madd_epi16(pixel, _mm_set1_epi32(both)));
}

/* Sums rounded to bytes. */
static inline void put_pixel(__m128i sum, uint8_t *out)
{
    const __m128i values = _mm_srai_epi32(_mm_add_epi32(sum, _mm_set1_epi32(1 << (WEIGHT_BITS - 1))), WEIGHT_BITS);
    const __m128i words = _mm_packs_epi32(values, values);
    int32_t       pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(out, &pixel, HAUL__PIXEL);
}
#else
typedef struct sums {
    int32_t values[HAUL__PIXEL];
} sums, wide;

static inline sums no_sums(void)
{
    return (sums){{0}};
}

static inline wide widen(const uint8_t *four, int i)
{
    const uint8_t *pixel = four + HAUL__PIXEL * i;
    return (wide){{pixel[0], pixel[1], pixel[2], pixel[3]}};
}

static inline sums add_product(sums sum, wide pixel, factors w)
{
    for (int c = 0; c < HAUL__PIXEL; c++)
        sum.values[c] += pixel.values[c] * (128 * w.high + w.low);
    return sum;
}

static inline void put_pixel(sums sum, uint8_t *out)
{
    for (int c = 0; c < HAUL__PIXEL; c++) {
        int32_t value = (sum.values[c] + (1 << (WEIGHT_BITS - 1))) >> WEIGHT_BITS;
        out[c] = (uint8_t)(value > 255 ? 255 : value);
    }
}
#endif

/* ---- rows, then columns ---- */

/* One row of wide pixels, which becomes a->out pixels. Inlined for numbers of taps that are constants, whose loops are
 * unrolled. */
static inline __attribute__((always_inline)) void scale_row_by(const axis *a, int64_t taps, const wide *in,
                                                               uint8_t *out)
{
    for (int64_t x = 0; x < a->out; x++) {
        const wide    *from = in + a->first[x];
        const factors *weights = a->weights + x * taps;
        sums           sum = no_sums();
#pragma GCC unroll 16
        for (int64_t k = 0; k < taps; k++)
            sum = add_product(sum, from[k], weights[k]);
        put_pixel(sum, out + HAUL__PIXEL * x);
    }
}

static void scale_row(const axis *a, const wide *in, uint8_t *out)
{
    switch (a->taps) {
    case 3: scale_row_by(a, 3, in, out); break; /* grows */
    case 5: scale_row_by(a, 5, in, out); break; /* shrinks to a half at least */
    case 7: scale_row_by(a, 7, in, out); break;
    case 9: scale_row_by(a, 9, in, out); break;
    default: scale_row_by(a, a->taps, in, out);
    }
}

/* The row `in`; its last pixels are copied, because four are read at a time. */
static void widen_row(const uint8_t *in, int64_t count, wide *out)
{
    uint8_t last[4 * HAUL__PIXEL] = {0};
    int64_t x = 0;
    for (; x + 4 <= count; x += 4)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            out[x + i] = widen(in + HAUL__PIXEL * x, i);
    memcpy(last, in + HAUL__PIXEL * x, (size_t)(HAUL__PIXEL * (count - x)));
    for (int i = 0; x + i < count; i++)
        out[x + i] = widen(last, i);
}

/* Row y of the result from rows of `pitch` bytes, which is a multiple of four pixels. */
static void scale_columns(const axis *a, int64_t y, const uint8_t *rows, int64_t pitch, uint8_t *out)
{
    const uint8_t *from = rows + a->first[y] * pitch;
    const factors *weights = a->weights + y * a->taps;
    for (int64_t at = 0; at < pitch; at += 4 * HAUL__PIXEL) {
        sums sum[4] = {no_sums(), no_sums(), no_sums(), no_sums()};
        for (int64_t k = 0; k < a->taps; k++)
#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                sum[i] = add_product(sum[i], widen(from + k * pitch + at, i), weights[k]);
        for (int i = 0; i < 4; i++)
            put_pixel(sum[i], out + at + HAUL__PIXEL * i);
    }
}

/* Memory of a picture that is being resized. */
typedef struct rooms {
    wide    *row;   /* [across->in] */
    uint8_t *rows;  /* [down->in, pitch] */
    uint8_t *whole; /* [pitch] */
    int64_t  pitch;
} rooms;

static void scale(const axis *down, const axis *across, const uint8_t *in, const rooms *r, uint8_t *out)
{
    int64_t begin = down->first[0], end = down->first[down->out - 1] + down->taps; /* rows that are needed */
    for (int64_t y = begin; y < end; y++) {
        widen_row(in + y * across->in * HAUL__PIXEL, across->in, r->row);
        scale_row(across, r->row, r->rows + y * r->pitch);
    }
    for (int64_t y = 0; y < down->out; y++) {
        scale_columns(down, y, r->rows, r->pitch, r->whole);
        memcpy(out + y * across->out * HAUL__PIXEL, r->whole, (size_t)(across->out * HAUL__PIXEL));
    }
}

/* Rows that are not written have zeros, which no pixel of the result sees. */
static size_t make_rooms(rooms *r, int64_t in_height, int64_t in_width, int64_t width)
{
    r->pitch = haul__ceil_div(width, 4) * 4 * HAUL__PIXEL;
    size_t bytes = (size_t)(in_height * r->pitch);
    r->row = haul__malloc((size_t)in_width * sizeof *r->row);
    r->rows = haul__calloc((size_t)in_height, (size_t)r->pitch);
    r->whole = haul__malloc((size_t)r->pitch);
    return bytes;
}

haul_status haul__image_resize(const haul__image *image, const uint8_t *in, int64_t height, int64_t width, uint8_t *out)
{
    /* The side that must grow more, or shrink less, decides; the other one is rounded down. */
    int64_t down_first = height * image->width >= width * image->height;
    int64_t scaled_height = down_first ? height : image->height * width / image->width;
    int64_t scaled_width = down_first ? image->width * height / image->height : width;
    axis    down = {0}, across = {0};
    rooms   r = {0};
    bool    made =
        axis_init(&down, image->height, scaled_height, height) && axis_init(&across, image->width, scaled_width, width);
    size_t bytes = made ? make_rooms(&r, image->height, image->width, width) : 0;
    made = made && r.row && r.rows && r.whole;
    if (made)
        scale(&down, &across, in, &r, out);
    haul__free(r.row);
    haul__free(r.rows);
    haul__free(r.whole);
    axis_free(&down);
    axis_free(&across);
    return made ? HAUL_OK : haul__image_no_memory(image, bytes);
}
