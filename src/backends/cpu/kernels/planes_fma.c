/* Copies for convolutions by packed panels at one instruction level (plane_copies.h). */
#include "haul_config.h"

#ifndef HAUL_SMALL
#include "backends/cpu/conv2d/plane_copies.h"
#include "backends/cpu/kernels/partial_vectors.h"
#include "backends/cpu/kernels/vectors.h"

#define LANES      (VECTOR_BYTES / (int)sizeof(float))
#define NAME(name) CAT3(name, f32, HAUL_KERNEL_LEVEL)
#define VECTOR     unaligned

typedef float vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef float unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(float)), may_alias));

#include "backends/cpu/kernels/transpose.h"

/* ---- even and odd elements ---- */

INLINE vector load(const float *p)
{
    return (vector) * (const unaligned *)p;
}

INLINE void store(float *p, vector v)
{
    *(unaligned *)p = (unaligned)v;
}

/* Two vectors of alternating elements as one of even ones and one of odd ones; and the reverse. */
#if defined(__AVX512F__)
INLINE void separate(vector *a, vector *b)
{
    const __m512i first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(1));
    const __m512  low = (__m512)*a, high = (__m512)*b;
    *a = (vector)_mm512_permutex2var_ps(low, first, high);
    *b = (vector)_mm512_permutex2var_ps(low, second, high);
}

INLINE void interleave(vector *a, vector *b)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    const __m512  even = (__m512)*a, odd = (__m512)*b;
    *a = (vector)_mm512_permutex2var_ps(even, low, odd);
    *b = (vector)_mm512_permutex2var_ps(even, high, odd);
}
#elif defined(__AVX2__)
INLINE void separate(vector *a, vector *b)
{
    const __m256d even = (__m256d)_mm256_shuffle_ps((__m256)*a, (__m256)*b, 0x88);
    const __m256d odd = (__m256d)_mm256_shuffle_ps((__m256)*a, (__m256)*b, 0xdd);
    *a = (vector)_mm256_permute4x64_pd(even, 0xd8);
    *b = (vector)_mm256_permute4x64_pd(odd, 0xd8);
}

INLINE void interleave(vector *a, vector *b)
{
    const __m256 low = _mm256_unpacklo_ps((__m256)*a, (__m256)*b), high = _mm256_unpackhi_ps((__m256)*a, (__m256)*b);
    *a = (vector)_mm256_permute2f128_ps(low, high, 0x20);
    *b = (vector)_mm256_permute2f128_ps(low, high, 0x31);
}
#else
INLINE void separate(vector *a, vector *b)
{
    vector even = *a, odd = *a;
    UNROLL for (int i = 0; i < LANES; i++)
    {
        even[i] = i < LANES / 2 ? (*a)[2 * i % LANES] : (*b)[2 * i % LANES];
        odd[i] = i < LANES / 2 ? (*a)[2 * i % LANES + 1] : (*b)[2 * i % LANES + 1];
    }
    *a = even;
    *b = odd;
}

INLINE void interleave(vector *a, vector *b)
{
    vector low = *a, high = *a;
    UNROLL for (int i = 0; i < LANES; i++)
    {
        low[i] = i % 2 ? (*b)[i / 2] : (*a)[i / 2];
        high[i] = i % 2 ? (*b)[(LANES + i) / 2] : (*a)[(LANES + i) / 2];
    }
    *a = low;
    *b = high;
}
#endif

/* The first `count` elements at p, and zeros. */
INLINE vector load_some(const float *p, int64_t count)
{
    return count >= LANES ? load(p) : count > 0 ? (vector)LOAD_PART_f32(p, count) : (vector){0};
}

INLINE void store_some(float *p, vector v, int64_t count)
{
    if (count >= LANES)
        store(p, v);
    else if (count > 0)
        STORE_PART_f32(p, (unaligned)v, count);
}

/* ---- images to planes ---- */

/* Elements of a cache line, and how far ahead those of an image are fetched: at the end of a page processors stop doing
 * so themselves. */
#define LINE  16
#define AHEAD 1024

INLINE void clear(float *to, int64_t count)
{
    for (; count > 0; count -= LANES, to += LANES)
        store_some(to, (vector){0}, count);
}

INLINE void copy(float *to, const float *from, int64_t count)
{
    for (; count > 0; count -= LANES, to += LANES, from += LANES)
        store_some(to, load_some(from, count), count);
}

/* The even and the odd elements; those without a place are left out. */
INLINE void split_in_two(float *even, float *odd, const float *from, int64_t count)
{
    for (int64_t i = 0; count > 0; i += LANES, from += 2 * LANES, count -= 2 * LANES) {
        vector a = load_some(from, count), b = load_some(from + LANES, count - LANES);
        separate(&a, &b);
        if (even)
            store_some(even + i, a, (count + 1) / 2);
        if (odd)
            store_some(odd + i, b, count / 2);
    }
}

static void take_every(float *restrict to, const float *restrict from, int64_t step, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i * step];
}

/* Zeros before `left` elements of a row and in its last `right` ones; elements between them may be cleared. */
INLINE void clear_ends(float *to, int64_t columns, int64_t left, int64_t right)
{
    if (columns <= LANES) {
        store_some(to, (vector){0}, columns);
    } else if (left <= LANES && right <= LANES) {
        store(to, (vector){0});
        store(to + columns - LANES, (vector){0});
    } else {
        clear(to, left);
        clear(to + columns - right, right);
    }
}

INLINE void fetch(const float *row, int64_t count)
{
    for (int64_t i = 0; i < count; i += LINE)
        __builtin_prefetch(row + AHEAD + i, 0, 3);
}

/* A row of an image; `to` is that of plane 0. */
static void fill_row(const haul__planes *p, float *to, const float *row)
{
    const int64_t step = p->step[1];
    fetch(row, p->count);
    for (int64_t i = 0; i < step; i++) {
        if (p->plane_of[i] < 0)
            continue;
        float        *plane = to + p->plane_of[i], *first = plane + p->column_of[i];
        const int64_t count = p->columns - p->column_of[i] - p->rest_of[i];
        clear_ends(plane, p->columns, p->column_of[i], p->rest_of[i]);
        if (step == 1)
            copy(first, row, count);
        else if (step == 2)
            split_in_two(i ? NULL : first, i ? first : NULL, row, p->count);
        else
            take_every(first, row + i, step, count);
    }
}

/* The same with a step of 2 and both phases. `p` is a copy: its members stay in registers. */
INLINE void fill_row_of_two(const haul__planes *p, float *to, const float *row)
{
    float *even = to + p->plane_of[0], *odd = to + p->plane_of[1];
    fetch(row, p->count);
    clear_ends(even, p->columns, p->column_of[0], p->rest_of[0]);
    clear_ends(odd, p->columns, p->column_of[1], p->rest_of[1]);
    split_in_two(even + p->column_of[0], odd + p->column_of[1], row, p->count);
}

/* The same with a step of 1. Whole vectors are written, also over what follows the row, which is filled later: on some
 * processors stores of a part take several times as long. */
INLINE void fill_row_of_one(const haul__planes *p, float *to, const float *row)
{
    int64_t at = 0;
    fetch(row, p->count);
    for (; at < p->column_of[0]; at += LANES)
        store(to + at, (vector){0});
    at = p->column_of[0];
    for (int64_t i = 0; i < p->count; i += LANES, at += LANES)
        store(to + at, load_some(row + i, p->count - i));
    for (; at < p->columns; at += LANES)
        store(to + at, (vector){0});
}

/* Rows of the image are read in their order. */
INLINE void fill_all(const haul__planes *p, float *to, const float *image, int64_t channels, int64_t first,
                     int64_t rows, int step)
{
    const haul__planes copy = *p;
    const int64_t      group = copy.phases[1] * copy.phase;
    for (int64_t c = 0; c < channels; c++, to += copy.channel, image += copy.h * copy.w) {
        int64_t at = first * copy.step[0] - copy.shift[0];
        for (int64_t r = 0; r < rows; r++, at += copy.step[0])
            for (int64_t y = 0; y < copy.phases[0]; y++) {
                float       *row = to + y * group + r * copy.columns;
                const float *from = image + (at + y) * copy.w;
                bool         inside = at + y >= 0 && at + y < copy.h;
                if (inside && step == 1)
                    fill_row_of_one(&copy, row, from);
                else if (inside && step == 2)
                    fill_row_of_two(&copy, row, from);
                else if (inside)
                    fill_row(p, row, from);
                else
                    for (int64_t x = 0; x < copy.phases[1]; x++)
                        clear(row + x * copy.phase, copy.columns);
            }
    }
}

static void NAME(fill)(const haul__planes *p, float *to, const float *image, int64_t channels, int64_t first,
                       int64_t rows)
{
    if (p->step[0] == 1 && p->step[1] == 1)
        fill_all(p, to, image, channels, first, rows, 1);
    else if (p->step[1] == 2 && p->phases[1] == 2)
        fill_all(p, to, image, channels, first, rows, 2);
    else
        fill_all(p, to, image, channels, first, rows, 0);
}

/* ---- sums to images ---- */

INLINE void join_two(float *to, const float *even, const float *odd, int64_t count)
{
    for (; count > 0; count -= 2 * LANES, to += 2 * LANES, even += LANES, odd += LANES) {
        vector a = load_some(even, (count + 1) / 2), b = load_some(odd, count / 2);
        interleave(&a, &b);
        store_some(to, a, count);
        store_some(to + LANES, b, count - LANES);
    }
}

static void NAME(set)(float *to, float value, int64_t count)
{
    for (int64_t i = 0; i < count; i += LANES)
        store(to + i, (vector){0} + value);
}

static void NAME(join)(float *to, const float *from, int64_t phase, int64_t step, int64_t count)
{
    if (step == 1) {
        copy(to, from, count);
        return;
    }
    if (step == 2) {
        join_two(to, from, from + phase, count);
        return;
    }
    for (int64_t p = 0; p < step; p++)
        for (int64_t i = p, j = p * phase; i < count; i += step, j++)
            to[i] = from[j];
}

/* ---- panels ---- */

typedef float four __attribute__((vector_size(16), aligned(sizeof(float)), may_alias));
#define MOVE(type, i) (*(type *)(out + m->to[i]) = *(const type *)(in + m->from[i]))

/* Moves of one type of vector. A number that is known in advance keeps their places in registers. */
#define PACK(type)                                                                                                     \
    INLINE void pack_##type##_some(float *out, const haul__cpu_moves *m, int64_t count)                                \
    {                                                                                                                  \
        for (int64_t k = 0; k < m->k; k++, out += m->width) {                                                          \
            const float *in = m->planes + m->taps[k];                                                                  \
            for (int64_t i = 0; i < count; i++)                                                                        \
                MOVE(type, i);                                                                                         \
        }                                                                                                              \
    }                                                                                                                  \
    static void pack_##type(float *out, const haul__cpu_moves *m)                                                      \
    {                                                                                                                  \
        if (m->count == 1)                                                                                             \
            pack_##type##_some(out, m, 1);                                                                             \
        else if (m->count == 2)                                                                                        \
            pack_##type##_some(out, m, 2);                                                                             \
        else if (m->count == 4)                                                                                        \
            pack_##type##_some(out, m, 4);                                                                             \
        else                                                                                                           \
            pack_##type##_some(out, m, m->count);                                                                      \
    }
PACK(four)
#if VECTOR_BYTES >= 32
typedef float eight __attribute__((vector_size(32), aligned(sizeof(float)), may_alias));
PACK(eight)
#endif
#if VECTOR_BYTES >= 64
PACK(unaligned)
#endif

static void NAME(pack)(float *panel, const haul__cpu_moves *m)
{
    if (m->size == 4)
        pack_four(panel, m);
#if VECTOR_BYTES >= 32
    else if (m->size == 8)
        pack_eight(panel, m);
#endif
#if VECTOR_BYTES >= 64
    else
        pack_unaligned(panel, m);
#endif
}

/* ---- transposition ---- */

/* Column j of a square becomes a row at to + at[j], or at to + j * to_row. */
INLINE void turn_square(float *to, int64_t to_row, const int64_t *at, const float *from, int64_t from_row, int64_t rows,
                        int64_t columns)
{
    vector r[LANES];
    UNROLL for (int i = 0; i < LANES; i++) r[i] = i < rows ? load_some(from + i * from_row, columns) : (vector){0};
    turn(r);
    UNROLL for (int j = 0; j < LANES; j++)
    {
        if (j < columns)
            store_some(to + (at ? at[j] : j * to_row), r[j], rows);
    }
}

INLINE void turn_all(float *to, int64_t to_row, const int64_t *at, const float *from, int64_t from_row, int64_t rows,
                     int64_t columns)
{
    for (int64_t j = 0; j < columns; j += LANES)
        for (int64_t i = 0; i < rows; i += LANES) {
            float         *out = to + i + (at ? 0 : j * to_row);
            const float   *in = from + i * from_row + j;
            const int64_t *places = at ? at + j : NULL;
            if (i + LANES <= rows && j + LANES <= columns)
                turn_square(out, to_row, places, in, from_row, LANES, LANES);
            else
                turn_square(out, to_row, places, in, from_row, i + LANES <= rows ? LANES : rows - i,
                            j + LANES <= columns ? LANES : columns - j);
        }
}

static void NAME(turn)(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns)
{
    turn_all(to, to_row, NULL, from, from_row, rows, columns);
}

static void NAME(turn_to)(float *to, const int64_t *at, const float *from, int64_t from_row, int64_t rows,
                          int64_t columns)
{
    if (columns == 1 && from_row == 1)
        copy(to + at[0], from, rows);
    else
        turn_all(to, 0, at, from, from_row, rows, columns);
}

/* ---- sums of planes ---- */

/* Rows whose sums are found together. */
#define SUM_ROWS 4

/* Sums of a vector of pixels in each of some rows. Whole vectors are written as far as `room` reaches, also over what
 * follows the row, which is written later. */
INLINE void sum_tile(float *to, const haul__cpu_taps *of, int rows, int64_t width, int64_t j, int64_t room)
{
    const float  *from = of->planes + j;
    const int64_t columns = of->columns;
    vector        sum[SUM_ROWS];
    UNROLL for (int r = 0; r < rows; r++) sum[r] = (vector){0};
    for (int64_t i = 0; i < of->k; i++) {
        const float *in = from + of->taps[i];
        UNROLL for (int r = 0; r < rows; r++) sum[r] += of->weights[i] * load(in + r * columns);
    }
    UNROLL for (int r = 0; r < rows; r++)
    {
        const int64_t at = r * width + j;
        store_some(to + at, sum[r] + of->bias, at + LANES <= room ? LANES : width - j);
    }
}

/* The last rows are computed together, too, some of them again. */
static void NAME(sum)(float *to, const haul__cpu_taps *of, int64_t rows, int64_t width)
{
    haul__cpu_taps some = *of;
    for (int64_t i = 0, step; i < rows; i += step) {
        step = rows < SUM_ROWS ? 1 : i + SUM_ROWS <= rows ? SUM_ROWS : rows - i;
        const int64_t row = step == 1 ? i : i + step - SUM_ROWS;
        some.planes = of->planes + row * of->columns;
        for (int64_t j = (width - 1) / LANES * LANES; j >= 0; j -= LANES) {
            if (step == 1)
                sum_tile(to + row * width, &some, 1, width, j, (rows - row) * width);
            else
                sum_tile(to + row * width, &some, SUM_ROWS, width, j, (rows - row) * width);
        }
    }
}

const haul__cpu_planes NAME(haul__cpu_planes) = {
    .fill = NAME(fill),
    .pack = NAME(pack),
    .set = NAME(set),
    .join = NAME(join),
    .turn = NAME(turn),
    .turn_to = NAME(turn_to),
    .sum = NAME(sum),
};
#endif
