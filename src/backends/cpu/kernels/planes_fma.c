/* Copies for convolutions by packed panels at one instruction level (planes.h). */
#include "haul_config.h"

#ifndef HAUL_SMALL
#include "backends/cpu/kernels/parts.h"
#include "backends/cpu/kernels/vectors.h"
#include "backends/cpu/planes.h"

#define LANES      (VECTOR_BYTES / (int)sizeof(float))
#define NAME(name) CAT3(name, f32, HAUL_KERNEL_LEVEL)
#define VECTOR     unaligned

typedef float vector __attribute__((vector_size(VECTOR_BYTES), may_alias));
typedef float unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(float)), may_alias));

#include "backends/cpu/kernels/turn.h"

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
INLINE void split_vectors(float *even, float *odd, const float *from)
{
    const __m512i first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(1));
    const __m512  a = (__m512)load(from), b = (__m512)load(from + LANES);
    store(even, (vector)_mm512_permutex2var_ps(a, first, b));
    store(odd, (vector)_mm512_permutex2var_ps(a, second, b));
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
INLINE void split_vectors(float *even, float *odd, const float *from)
{
    const __m256  a = (__m256)load(from), b = (__m256)load(from + LANES);
    const __m256d first = (__m256d)_mm256_shuffle_ps(a, b, 0x88), second = (__m256d)_mm256_shuffle_ps(a, b, 0xdd);
    store(even, (vector)_mm256_permute4x64_pd(first, 0xd8));
    store(odd, (vector)_mm256_permute4x64_pd(second, 0xd8));
}

INLINE void interleave(vector *a, vector *b)
{
    const __m256 low = _mm256_unpacklo_ps((__m256)*a, (__m256)*b), high = _mm256_unpackhi_ps((__m256)*a, (__m256)*b);
    *a = (vector)_mm256_permute2f128_ps(low, high, 0x20);
    *b = (vector)_mm256_permute2f128_ps(low, high, 0x31);
}
#else
INLINE void split_vectors(float *even, float *odd, const float *from)
{
    for (int i = 0; i < LANES; i++) {
        even[i] = from[2 * i];
        odd[i] = from[2 * i + 1];
    }
}

INLINE void interleave(vector *a, vector *b)
{
    vector low = *a, high = *a;
    UNROLL for (int i = 0; i < LANES; i++)
    {
        const float even = (*a)[i], odd = (*b)[i];
        if (i < LANES / 2)
            low[2 * i] = even, low[2 * i + 1] = odd;
        else
            high[2 * i - LANES] = even, high[2 * i + 1 - LANES] = odd;
    }
    *a = low;
    *b = high;
}
#endif

INLINE void join_vectors(float *to, const float *even, const float *odd, float bias)
{
    vector a = load(even) + bias, b = load(odd) + bias;
    interleave(&a, &b);
    store(to, a);
    store(to + LANES, b);
}

/* ---- images to planes ---- */

/* Elements of a cache line, and how far ahead those of an image are fetched: at the end of a page processors stop doing
 * so themselves. */
#define LINE  16
#define AHEAD 1024

INLINE void clear(float *to, int64_t count)
{
    for (; count >= LANES; count -= LANES, to += LANES)
        *(unaligned *)to = (unaligned){0};
    if (count > 0)
        STORE_PART_f32(to, (unaligned){0}, count);
}

INLINE void copy(float *to, const float *from, int64_t count)
{
    for (; count >= LANES; count -= LANES, to += LANES, from += LANES)
        *(unaligned *)to = *(const unaligned *)from;
    if (count > 0) {
        unaligned last = LOAD_PART_f32(from, count);
        STORE_PART_f32(to, last, count);
    }
}

/* Whole vectors, and the last of them again. */
static void split_in_two(float *even, float *odd, const float *from, int64_t count)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        split_vectors(even + i, odd + i, from + 2 * i);
    if (i < count && i) {
        split_vectors(even + count - LANES, odd + count - LANES, from + 2 * (count - LANES));
        return;
    }
    for (; i < count; i++) {
        even[i] = from[2 * i];
        odd[i] = from[2 * i + 1];
    }
}

static void take_every(float *restrict to, const float *restrict from, int64_t step, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[i * step];
}

static void take_even(float *restrict to, const float *restrict from, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        to[i] = from[2 * i];
}

/* A row of an image; `to` is that of plane 0. */
typedef void row_function(const haul__planes *p, float *to, const float *row);

static void fill_row(const haul__planes *p, float *to, const float *row)
{
    const int64_t step = p->step[1];

    for (int64_t i = 0; i < step; i++) {
        if (p->plane_of[i] < 0)
            continue;
        float        *plane = to + p->plane_of[i], *first = plane + p->column_of[i];
        const int64_t count = p->columns - p->column_of[i] - p->rest_of[i];
        clear(plane, p->column_of[i]);
        clear(first + count, p->rest_of[i]);
        if (step == 1)
            copy(first, row, count);
        else if (step == 2)
            take_even(first, row + i, count);
        else
            take_every(first, row + i, step, count);
    }
}

/* Two planes with a vector of zeros at each end, which the elements overwrite. */
static void fill_row_of_two(const haul__planes *p, float *to, const float *row)
{
    const int64_t count = p->count, last = p->columns - LANES;
    float        *even = to + p->plane_of[0], *odd = to + p->plane_of[1];

    for (int64_t i = 0; i < count; i += LINE)
        __builtin_prefetch(row + AHEAD + i, 0, 3);
    *(unaligned *)even = (unaligned){0};
    *(unaligned *)odd = (unaligned){0};
    *(unaligned *)(even + last) = (unaligned){0};
    *(unaligned *)(odd + last) = (unaligned){0};
    even += p->column_of[0];
    odd += p->column_of[1];
    split_in_two(even, odd, row, count / 2);
    if (count % 2)
        even[count / 2] = row[count - 1];
}

static row_function *row_function_for(const haul__planes *p)
{
    bool two = p->step[1] == 2 && p->phases[1] == 2 && p->columns >= LANES;
    for (int i = 0; i < 2 && two; i++)
        two = p->column_of[i] <= LANES && p->rest_of[i] <= LANES;
    return two ? fill_row_of_two : fill_row;
}

/* Rows of the image are read in their order. */
static void NAME(fill)(const haul__planes *p, float *to, const float *image, int64_t channels, int64_t first,
                       int64_t rows)
{
    const int64_t group = p->phases[1] * p->phase;
    row_function *fill = row_function_for(p);

    for (int64_t c = 0; c < channels; c++, to += p->channel, image += p->h * p->w) {
        int64_t at = first * p->step[0] - p->shift[0];
        for (int64_t r = 0; r < rows; r++, at += p->step[0])
            for (int64_t y = 0; y < p->phases[0]; y++) {
                float *row = to + y * group + r * p->columns;
                if (at + y >= 0 && at + y < p->h) {
                    fill(p, row, image + (at + y) * p->w);
                    continue;
                }
                for (int64_t x = 0; x < p->phases[1]; x++)
                    clear(row + x * p->phase, p->columns);
            }
    }
}

/* ---- sums to images ---- */

static void join_two(float *to, const float *even, const float *odd, int64_t count, float bias)
{
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        join_vectors(to + 2 * i, even + i, odd + i, bias);
    if (i < count && i) {
        i = count - LANES;
        join_vectors(to + 2 * i, even + i, odd + i, bias);
        return;
    }
    for (; i < count; i++) {
        to[2 * i] = even[i] + bias;
        to[2 * i + 1] = odd[i] + bias;
    }
}

static void add_bias(float *to, const float *from, int64_t count, float bias)
{
    for (; count >= LANES; count -= LANES, to += LANES, from += LANES)
        *(unaligned *)to = *(const unaligned *)from + bias;
    if (count > 0) {
        unaligned last = LOAD_PART_f32(from, count) + bias;
        STORE_PART_f32(to, last, count);
    }
}

static void NAME(join)(float *to, const float *from, int64_t phase, int64_t step, int64_t count, float bias)
{
    if (step == 1) {
        add_bias(to, from, count, bias);
        return;
    }
    if (step == 2) {
        join_two(to, from, from + phase, count / 2, bias);
        if (count % 2)
            to[count - 1] = from[count / 2] + bias;
        return;
    }
    for (int64_t p = 0; p < step; p++)
        for (int64_t i = p, j = p * phase; i < count; i += step, j++)
            to[i] = from[j] + bias;
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

INLINE void turn_square(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns)
{
    vector r[LANES];
    UNROLL for (int i = 0; i < LANES; i++)
    {
        if (i >= rows)
            r[i] = (vector){0};
        else if (columns < LANES)
            r[i] = (vector)LOAD_PART_f32(from + i * from_row, columns);
        else
            r[i] = (vector) * (const unaligned *)(from + i * from_row);
    }
    turn(r);
    UNROLL for (int j = 0; j < LANES; j++)
    {
        if (j < columns && rows < LANES)
            STORE_PART_f32(to + j * to_row, (unaligned)r[j], rows);
        else if (j < columns)
            *(unaligned *)(to + j * to_row) = (unaligned)r[j];
    }
}

static void NAME(turn)(float *to, int64_t to_row, const float *from, int64_t from_row, int64_t rows, int64_t columns)
{
    for (int64_t j = 0; j < columns; j += LANES)
        for (int64_t i = 0; i < rows; i += LANES) {
            float       *out = to + j * to_row + i;
            const float *in = from + i * from_row + j;
            if (i + LANES <= rows && j + LANES <= columns)
                turn_square(out, to_row, in, from_row, LANES, LANES);
            else
                turn_square(out, to_row, in, from_row, i + LANES <= rows ? LANES : rows - i,
                            j + LANES <= columns ? LANES : columns - j);
        }
}

const haul__cpu_planes NAME(haul__cpu_planes) = {
    .fill = NAME(fill),
    .pack = NAME(pack),
    .join = NAME(join),
    .turn = NAME(turn),
};
#endif
