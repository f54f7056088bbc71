/* The transforms of Winograd's F(4x4, 3x3) at one instruction level (winograd.h).
 *
 * Pictures are turned into pixels of LANES channels with zeros around them, so that all transforms are arithmetic on
 * whole vectors: a picture in a *workspace* is [4 rows + 2, 4 columns + 2, LANES]. */
#include "backends/cpu/conv2d/winograd.h"

#include <string.h>

#include "backends/cpu/kernels/vectors.h"

#define LANES      (VECTOR_BYTES / (int)sizeof(float))
#define NAME(name) CAT3(name, f32, HAUL_KERNEL_LEVEL)

enum { TILE = HAUL__WINOGRAD_TILE, INPUT = HAUL__WINOGRAD_INPUT, POINTS = HAUL__WINOGRAD_POINTS, TAPS = 3, WEIGHT = 9 };

typedef float   vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef int32_t integers __attribute__((vector_size(VECTOR_BYTES)));
typedef float   unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(float)), may_alias));

#include "backends/cpu/kernels/transpose.h"
#include "base/numbers.h"

#define LOAD(p)     ((vector) * (const unaligned *)(p))
#define STORE(p, v) (*(unaligned *)(p) = (v))

/* ---- the transforms in one dimension ----
 *
 * A convolution is a product of polynomials, which is found from its values at as many points as it has coefficients
 * (Toom and Cook; for convolutions: Winograd, Arithmetic complexity of computations, 1980; for networks: Lavin and
 * Gray, 2015, arXiv:1509.09308). The points are 0, +-a, +-b and infinity. With a = sqrt(1/2) and b = sqrt(2), errors
 * are 2.3 times smaller than with the usual 1 and 2, whose powers differ more. `from` and `to` are element distances.
 */

#define A         0.70710678118654752f /* sqrt(1/2) */
#define B         1.41421356237309505f /* sqrt(2) */
#define A2        0.5f
#define B2        2.0f
#define AT_A      (-2.0f / 3.0f) /* 1 / (2 a^2 (a^2 - b^2)) */
#define AT_B      (1.0f / 6.0f)  /* 1 / (2 b^2 (b^2 - a^2)) */
#define SUM_A2_B2 2.5f           /* and a^2 b^2 is 1 */

/* 6 inputs to 6 points. */
INLINE void input_points(const vector *d, int from, vector *out, int to)
{
    const vector even_a = d[4 * from] - B2 * d[2 * from], odd_a = A * (d[3 * from] - B2 * d[from]);
    const vector even_b = d[4 * from] - A2 * d[2 * from], odd_b = B * (d[3 * from] - A2 * d[from]);
    out[0] = d[0] - SUM_A2_B2 * d[2 * from] + d[4 * from];
    out[to] = even_a + odd_a;
    out[2 * to] = even_a - odd_a;
    out[3 * to] = even_b + odd_b;
    out[4 * to] = even_b - odd_b;
    out[5 * to] = d[from] - SUM_A2_B2 * d[3 * from] + d[5 * from];
}

/* 3 weights to 6 points. */
INLINE void weight_points(const vector *w, int from, vector *out, int to)
{
    const vector even_a = AT_A * (w[0] + A2 * w[2 * from]), odd_a = (AT_A * A) * w[from];
    const vector even_b = AT_B * (w[0] + B2 * w[2 * from]), odd_b = (AT_B * B) * w[from];
    out[0] = w[0];
    out[to] = even_a + odd_a;
    out[2 * to] = even_a - odd_a;
    out[3 * to] = even_b + odd_b;
    out[4 * to] = even_b - odd_b;
    out[5 * to] = w[2 * from];
}

/* 6 points to 4 results. */
INLINE void results(const vector *m, int from, vector *out, int to)
{
    const vector even_a = m[from] + m[2 * from], odd_a = m[from] - m[2 * from];
    const vector even_b = m[3 * from] + m[4 * from], odd_b = m[3 * from] - m[4 * from];
    out[0] = m[0] + even_a + even_b;
    out[to] = A * odd_a + B * odd_b;
    out[2 * to] = A2 * even_a + B2 * even_b;
    out[3 * to] = (A2 * A) * odd_a + (B2 * B) * odd_b + m[5 * from];
}

/* 4 gradients of results to 6 points: the transposed of `results`. */
INLINE void gradient_points(const vector *y, int from, vector *out, int to)
{
    const vector even_a = y[0] + A2 * y[2 * from], odd_a = A * (y[from] + A2 * y[3 * from]);
    const vector even_b = y[0] + B2 * y[2 * from], odd_b = B * (y[from] + B2 * y[3 * from]);
    out[0] = y[0];
    out[to] = even_a + odd_a;
    out[2 * to] = even_a - odd_a;
    out[3 * to] = even_b + odd_b;
    out[4 * to] = even_b - odd_b;
    out[5 * to] = y[3 * from];
}

/* 6 points to the gradients of 3 weights: the transposed of `weight_points`. */
INLINE void weight_gradients(const vector *u, int from, vector *out, int to)
{
    const vector even_a = AT_A * (u[from] + u[2 * from]), odd_a = (AT_A * A) * (u[from] - u[2 * from]);
    const vector even_b = AT_B * (u[3 * from] + u[4 * from]), odd_b = (AT_B * B) * (u[3 * from] - u[4 * from]);
    out[0] = u[0] + even_a + even_b;
    out[to] = odd_a + odd_b;
    out[2 * to] = A2 * even_a + B2 * even_b + u[5 * from];
}

/* ---- workspace ---- */

/* Vectors in a row of the workspace. */
static int64_t pitch_of(const haul__winograd_planes *p)
{
    return p->columns * TILE + 2;
}

/* The pixel's vector in the workspace. */
static vector *cell(const haul__winograd_planes *p, int64_t y, int64_t x)
{
    return (vector *)(void *)p->workspace + (y - p->row * TILE + p->top) * pitch_of(p) + x + p->left;
}

INLINE vector magnitude(vector v)
{
    return (vector)((integers)v & INT32_MAX);
}

/* As integers, numbers that are not negative have the same order, and NaN is above all of them. */
#if defined(__AVX512F__)
INLINE integers lane_max(integers a, integers b)
{
    return (integers)_mm512_max_epi32((__m512i)a, (__m512i)b);
}
INLINE integers lane_min(integers a, integers b)
{
    return (integers)_mm512_min_epi32((__m512i)a, (__m512i)b);
}
#elif defined(__AVX2__)
INLINE integers lane_max(integers a, integers b)
{
    return (integers)_mm256_max_epi32((__m256i)a, (__m256i)b);
}
INLINE integers lane_min(integers a, integers b)
{
    return (integers)_mm256_min_epi32((__m256i)a, (__m256i)b);
}
#else
INLINE integers lane_max(integers a, integers b)
{
    const integers first = a > b;
    return (a & first) | (b & ~first);
}
INLINE integers lane_min(integers a, integers b)
{
    const integers first = a < b;
    return (a & first) | (b & ~first);
}
#endif

INLINE vector largest(vector a, vector b)
{
    return (vector)lane_max((integers)a, (integers)b);
}

INLINE integers lanes_from(int first)
{
    integers lane;
    UNROLL for (int i = 0; i < LANES; i++) lane[i] = i;
    return lane >= first;
}

/* LANES pixels of each channel, from that element on. Returns the sums or the largest of their magnitudes. */
INLINE vector load_square(const haul__winograd_planes *p, const float *from, vector *r)
{
    const int64_t plane = p->h * p->w;
    vector        part[2] = {{0}};
    UNROLL for (int i = 0; i < LANES; i++) r[i] = i < p->channels ? LOAD(from + i * plane) : (vector){0};
    if (p->most) {
        UNROLL for (int i = 0; i < LANES; i++) part[i % 2] = largest(part[i % 2], magnitude(r[i]));
        return largest(part[0], part[1]);
    }
    UNROLL for (int i = 0; i < LANES; i++) part[i % 2] += magnitude(r[i]);
    return part[0] + part[1];
}

/* Adds the magnitudes of LANES pixels, but not of the first `known` pixels, which are there already. */
INLINE void note_magnitudes(const haul__winograd_planes *p, vector v, float *magnitudes, int known)
{
    vector before = {0};
    if (p->adds)
        before = LOAD(magnitudes);
    else if (known)
        before = (vector)((integers)LOAD(magnitudes) & ~lanes_from(known));
    if (known)
        v = (vector)((integers)v & lanes_from(known));
    const vector sum = before + v, most = largest(before, v);
    STORE(magnitudes, (p->most ? most : sum));
}

INLINE void enter_square(const haul__winograd_planes *p, int64_t pixel, float *magnitudes, int known)
{
    vector  r[LANES];
    int64_t y = pixel / p->w, x = pixel - y * p->w;
    vector *to = cell(p, y, x);
    note_magnitudes(p, load_square(p, p->data + pixel, r), magnitudes, known);
    turn(r);
    if (x + LANES <= p->w) {
        UNROLL for (int i = 0; i < LANES; i++) to[i] = r[i];
        return;
    }
    for (int i = 0; i < LANES; i++) {
        *to++ = r[i];
        if (++x < p->w)
            continue;
        x = 0;
        to += pitch_of(p) - p->w;
    }
}

/* The sum, or the larger of the two, or NaN. */
static float combined(float a, float b, bool most)
{
    return !most ? a + b : a > b || a != a ? a : b;
}

static void enter_pixel(const haul__winograd_planes *p, int64_t pixel, float *magnitude_of)
{
    int64_t y = pixel / p->w, x = pixel - y * p->w;
    float  *to = (float *)(void *)cell(p, y, x), part[2] = {0};
    for (int i = 0; i < LANES; i++) {
        to[i] = i < p->channels ? p->data[i * p->h * p->w + pixel] : 0;
        part[i % 2] = combined(part[i % 2], __builtin_fabsf(to[i]), p->most);
    }
    part[0] = combined(part[0], part[1], p->most);
    *magnitude_of = p->adds ? combined(*magnitude_of, part[0], p->most) : part[0];
}

/* Fills the first `height` rows of the workspace: pixels, and zeros around them. */
static void enter(const haul__winograd_planes *p, int64_t height)
{
    int64_t first = larger(p->row * TILE - p->top, 0), last = smaller(p->row * TILE - p->top + height, p->h);
    int64_t pixel = first * p->w, end = larger(last, first) * p->w, pitch = pitch_of(p);
    for (int64_t i = 0; i < height; i++) {
        int64_t y = p->row * TILE - p->top + i;
        vector *row = (vector *)(void *)p->workspace + i * pitch;
        bool    inside = y >= first && y < last;
        int64_t left = inside ? p->left : 0, right = inside ? p->left + p->w : 0;
        memset(row, 0, (size_t)left * sizeof *row);
        memset(row + right, 0, (size_t)(pitch - right) * sizeof *row);
    }
    for (; pixel + LANES <= end; pixel += LANES)
        enter_square(p, pixel, p->magnitudes + (pixel - first * p->w), 0);
    if (pixel < end && end - LANES >= first * p->w) {
        pixel = end - LANES;
        enter_square(p, pixel, p->magnitudes + (pixel - first * p->w), LANES - (int)((end - first * p->w) % LANES));
        return;
    }
    for (; pixel < end; pixel++)
        enter_pixel(p, pixel, p->magnitudes + (pixel - first * p->w));
}

/* ---- tiles ---- */

static void NAME(input)(const haul__winograd_planes *p, const haul__winograd_tiles *tiles)
{
    const int64_t pitch = pitch_of(p);
    float        *out = tiles->data;
    enter(p, p->rows * TILE + 2);
    for (int64_t y = 0; y < p->rows; y++)
        for (int64_t x = 0; x < p->columns; x++, out += tiles->tile) {
            const vector *from = (const vector *)(const void *)p->workspace + (y * pitch + x) * TILE;
            vector        half[POINTS], points[POINTS];
            UNROLL for (int i = 0; i < INPUT; i++) input_points(from + i * pitch, 1, half + i * INPUT, 1);
            UNROLL for (int i = 0; i < INPUT; i++) input_points(half + i, INPUT, points + i, INPUT);
            for (int i = 0; i < POINTS; i++)
                STORE(out + i * tiles->point, points[i]);
        }
}

static void NAME(gradient)(const haul__winograd_planes *p, const haul__winograd_tiles *tiles)
{
    const int64_t pitch = pitch_of(p);
    float        *out = tiles->data;
    enter(p, p->rows * TILE);
    for (int64_t y = 0; y < p->rows; y++)
        for (int64_t x = 0; x < p->columns; x++, out += tiles->tile) {
            const vector *from = (const vector *)(const void *)p->workspace + (y * pitch + x) * TILE;
            vector        half[TILE * INPUT], points[POINTS];
            UNROLL for (int i = 0; i < TILE; i++) gradient_points(from + i * pitch, 1, half + i * INPUT, 1);
            UNROLL for (int i = 0; i < INPUT; i++) gradient_points(half + i, INPUT, points + i, INPUT);
            for (int i = 0; i < POINTS; i++)
                STORE(out + i * tiles->point, points[i]);
        }
}

/* Puts a tile of results into the workspace, whose rows have the pixels of the plane and nothing else. */
INLINE void leave_tile(const haul__winograd_planes *p, int64_t y, int64_t x, const vector *tile)
{
    vector *to = (vector *)(void *)p->workspace + (y - p->row * TILE) * p->w + x;
    if (y + TILE <= p->h && x + TILE <= p->w) {
        UNROLL for (int i = 0; i < TILE; i++)
        {
            UNROLL for (int j = 0; j < TILE; j++) to[i * p->w + j] = tile[i * TILE + j];
        }
        return;
    }
    for (int i = 0; i < TILE && y + i < p->h; i++)
        for (int j = 0; j < TILE && x + j < p->w; j++)
            to[i * p->w + j] = tile[i * TILE + j];
}

/* Writes the workspace's pixels to the planes. */
static void leave(const haul__winograd_planes *p)
{
    const int64_t plane = p->h * p->w, first = p->row * TILE * p->w;
    const int64_t end = smaller((p->row + p->rows) * TILE, p->h) * p->w, count = end - first;
    const vector *workspace = (const vector *)(const void *)p->workspace;
    float        *to = p->data + first;
    int64_t       pixel = 0;
    for (; pixel < count && count >= LANES; pixel += LANES) {
        vector r[LANES];
        if (pixel > count - LANES)
            pixel = count - LANES; /* some of them again */
        UNROLL for (int i = 0; i < LANES; i++) r[i] = workspace[pixel + i];
        turn(r);
        UNROLL for (int i = 0; i < LANES; i++)
        {
            if (i < p->channels)
                STORE(to + i * plane + pixel, r[i]);
        }
    }
    for (; pixel < count; pixel++)
        for (int i = 0; i < LANES && i < p->channels; i++)
            to[i * plane + pixel] = ((const float *)(const void *)(workspace + pixel))[i];
}

static void NAME(result)(const haul__winograd_tiles *tiles, const haul__winograd_planes *p, const float *bias,
                         bool relu)
{
    const float *from = tiles->data;
    float        start[LANES] __attribute__((aligned(VECTOR_BYTES))) = {0};
    if (bias)
        memcpy(start, bias, (size_t)smaller(p->channels, LANES) * sizeof *start);
    const vector added = *(const vector *)(const void *)start;
    for (int64_t y = 0; y < p->rows; y++)
        for (int64_t x = 0; x < p->columns; x++, from += tiles->tile) {
            vector half[INPUT * TILE], tile[TILE * TILE];
            UNROLL for (int i = 0; i < INPUT; i++)
            {
                vector row[INPUT];
                UNROLL for (int j = 0; j < INPUT; j++) row[j] = LOAD(from + (i * INPUT + j) * tiles->point);
                results(row, 1, half + i * TILE, 1);
            }
            UNROLL for (int j = 0; j < TILE; j++) results(half + j, TILE, tile + j, TILE);
            UNROLL for (int i = 0; i < TILE * TILE; i++)
            {
                tile[i] += added;
                if (relu)
                    tile[i] = (vector)((integers)tile[i] & ~(integers)(tile[i] < 0));
            }
            leave_tile(p, (p->row + y) * TILE, x * TILE, tile);
        }
    leave(p);
}

/* ---- magnitudes ---- */

/* In lanes, as integers. */
typedef struct extremes {
    integers least, most;
} extremes;

INLINE extremes no_extremes(void)
{
    return (extremes){(integers){0} + INT32_MAX, {0}};
}

/* Lanes with the mask 0 do not count. */
INLINE void widen(extremes *e, vector v, integers mask)
{
    e->least = lane_min(((integers)v | ~mask) & INT32_MAX, e->least);
    e->most = lane_max((integers)v & mask, e->most);
}

INLINE integers first_lanes(int64_t count)
{
    return ~lanes_from((int)smaller(count, LANES));
}

static void NAME(merge)(float *to, const float *from, int64_t count, bool most)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES) {
        const vector a = LOAD(to + i), b = LOAD(from + i);
        if (most)
            STORE(to + i, largest(a, b));
        else
            STORE(to + i, a + b);
    }
    for (; i < count; i++)
        to[i] = combined(to[i], from[i], most);
}

static haul__winograd_range range_of(const extremes *e)
{
    int32_t least = e->least[0], most = e->most[0];
    for (int i = 1; i < LANES; i++) {
        least = e->least[i] < least ? e->least[i] : least;
        most = e->most[i] > most ? e->most[i] : most;
    }
    haul__winograd_range r;
    memcpy(&r.least, &least, sizeof least);
    memcpy(&r.most, &most, sizeof most);
    return r;
}

static haul__winograd_range NAME(range)(const float *magnitudes, int64_t count)
{
    extremes e = no_extremes();
    int64_t  i = 0;
    for (; i + LANES <= count; i += LANES)
        widen(&e, LOAD(magnitudes + i), (integers){0} - 1);
    if (i < count) {
        vector rest = {0};
        memcpy(&rest, magnitudes + i, (size_t)(count - i) * sizeof *magnitudes);
        widen(&e, rest, first_lanes(count - i));
    }
    return range_of(&e);
}

/* Writes the sums of the pixels in the three rows of a row of results to the line, with zeros around them. */
INLINE void add_rows(const haul__winograd_planes *p, int64_t row, int64_t first, int64_t last, float *line)
{
    STORE(line, (vector){0});
    STORE(line + p->left + round_up(p->w, LANES), (vector){0});
    for (int64_t x = 0; x < p->w; x += LANES) {
        vector sum = {0};
        for (int64_t y = larger(row, first); y < row + 3 && y < last; y++)
            sum += LOAD(p->magnitudes + (y - first) * p->w + x);
        STORE(line + p->left + x, (vector)((integers)sum & first_lanes(p->w - x)));
    }
}

/* All lines are written before one is read, because a processor waits for stores that a load has only a part of. */
static haul__winograd_range NAME(windows)(const haul__winograd_planes *p, int64_t h, int64_t w)
{
    int64_t  top = p->row * TILE - p->top, first = larger(top, 0);
    int64_t  last = smaller(top + haul__winograd_height(p->rows), p->h);
    int64_t  pitch = round_up(p->w, LANES) + 2 * LANES + 4;
    extremes e = no_extremes();
    for (int64_t y = 0; y < h; y++)
        add_rows(p, top + y, first, last, p->workspace + y * pitch);
    for (int64_t y = 0; y < h; y++) {
        const float *line = p->workspace + y * pitch;
        for (int64_t x = 0; x < w; x += LANES)
            widen(&e, LOAD(line + x) + LOAD(line + x + 1) + LOAD(line + x + 2), first_lanes(w - x));
    }
    return range_of(&e);
}

/* ---- weights ---- */

enum { ROW = (WEIGHT + LANES - 1) / LANES * LANES }; /* vectors for 9 weights, where they are turned */

/* The weights of LANES channels of the result and one of the input, at `taps`, to points. */
INLINE void leave_weight(const vector *taps, float *to, int64_t point)
{
    vector half[TAPS * INPUT], points[POINTS];
    UNROLL for (int i = 0; i < TAPS; i++) weight_points(taps + i * TAPS, 1, half + i * INPUT, 1);
    UNROLL for (int i = 0; i < INPUT; i++) weight_points(half + i, INPUT, points + i, INPUT);
    for (int i = 0; i < POINTS; i++)
        STORE(to + i * point, points[i]);
}

/* The 9 weights of LANES channels of the result, `step` apart; zeros for channels from `outs` on. */
#if defined(__AVX512F__)
INLINE void load_taps(const float *w, int64_t step, int64_t outs, vector *taps)
{
    UNROLL for (int i = 0; i < LANES; i++) taps[i] =
        (vector)_mm512_maskz_loadu_ps(i < outs ? (1 << WEIGHT) - 1 : 0, w + i * step);
    turn(taps);
}
#else
INLINE void load_taps(const float *w, int64_t step, int64_t outs, vector *taps)
{
    UNROLL for (int first = 0; first < WEIGHT - 1; first += LANES)
    {
        UNROLL for (int i = 0; i < LANES; i++) taps[first + i] = i < outs ? LOAD(w + i * step + first) : (vector){0};
        turn(taps + first);
    }
    UNROLL for (int i = 0; i < LANES; i++) taps[WEIGHT - 1][i] = i < outs ? w[i * step + WEIGHT - 1] : 0;
}
#endif

static void NAME(weight)(const float *w, int64_t out_step, int64_t in_step, int64_t outs, int64_t ins, bool reversed,
                         const haul__winograd_tiles *to, float *sums)
{
    vector sum[WEIGHT] = {{0}};
    for (int64_t in = 0; in < ins; in++) {
        vector taps[ROW], ordered[WEIGHT];
        load_taps(w + in * in_step, out_step, outs, taps);
        UNROLL for (int i = 0; i < WEIGHT; i++) ordered[i] = taps[reversed ? WEIGHT - 1 - i : i];
        UNROLL for (int i = 0; i < WEIGHT; i++) sum[i] += magnitude(ordered[i]);
        leave_weight(ordered, to->data + in * to->tile, to->point);
    }
    UNROLL for (int i = 0; i < WEIGHT; i++) STORE(sums + i * LANES, sum[i]);
}

static void NAME(weight_gradient)(const float *from, int64_t point, int64_t ins, float *w)
{
    float rows[LANES * WEIGHT + ROW];
    for (int64_t in = 0; in < ins; in += LANES, from += LANES) {
        vector half[INPUT * TAPS], taps[ROW] = {{0}};
        UNROLL for (int i = 0; i < INPUT; i++)
        {
            vector row[INPUT];
            UNROLL for (int j = 0; j < INPUT; j++) row[j] = LOAD(from + (i * INPUT + j) * point);
            weight_gradients(row, 1, half + i * TAPS, 1);
        }
        UNROLL for (int j = 0; j < TAPS; j++) weight_gradients(half + j, TAPS, taps + j, TAPS);
        /* What a vector has behind its 9 elements is written over by what comes later. */
        UNROLL for (int first = ROW - LANES; first >= 0; first -= LANES)
        {
            turn(taps + first);
            UNROLL for (int i = 0; i < LANES; i++) STORE(rows + i * WEIGHT + first, taps[first + i]);
        }
        memcpy(w + in * WEIGHT, rows, (size_t)(smaller(LANES, ins - in) * WEIGHT) * sizeof *rows);
    }
}

const haul__winograd_kernels NAME(haul__cpu_winograd) = {
    .lanes = LANES,
    .input = NAME(input),
    .gradient = NAME(gradient),
    .result = NAME(result),
    .weight = NAME(weight),
    .weight_gradient = NAME(weight_gradient),
    .merge = NAME(merge),
    .range = NAME(range),
    .windows = NAME(windows),
};
