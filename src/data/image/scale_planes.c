/* The loops that scale planes of colours, for processors that add products of bytes (AVX512-VNNI) and choose among the
 * bytes of vectors (AVX512-VBMI). A weight is three signed digits to the base of 256. Four inputs of a result, which
 * are a number of 32 bits, are multiplied by a digit of their weights at a time. */
#include <stddef.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/assert.h"
#include "data/image/image.h"

#if defined(__x86_64__)
#define TARGET static __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni,avx512vbmi")))
#define INLINE inline __attribute__((always_inline))

enum { DIGITS = 3, TAPS = 4, RESULTS = 16, BYTES = 64 };

/* The digits of four weights, each as a number of 32 bits. */
TARGET INLINE void take_digits(const int32_t *weights, int32_t *digits)
{
    __m128i left = _mm_loadu_si128((const __m128i *)(const void *)weights);
    for (int digit = 0; digit < DIGITS; digit++) {
        digits[digit] = _mm_cvtsi128_si32(_mm_shuffle_epi8(left, _mm_set1_epi32(0x0c080400)));
        /* The remainder without the digit, which is signed. */
        left = _mm_srai_epi32(_mm_add_epi32(left, _mm_set1_epi32(128)), 8);
    }
}

/* For 16 results and each four of their weights, there is a vector of each digit. */
TARGET void put_row_weights(const haul__scale_axis *a, int64_t result, const int32_t *weights)
{
    const int64_t block = result / RESULTS, lane = result % RESULTS,
                  start = a->first[result] - a->first[block * RESULTS];
    int32_t *to = a->weights + block * (a->stored / TAPS) * DIGITS * RESULTS + lane;
    HAUL__ASSERT(0 <= start && start + TAPS <= 2 * BYTES);
    for (int64_t j = 0; j < TAPS; j++)
        a->places[TAPS * result + j] = (uint8_t)(start + j);
    for (int64_t k = 0; k < a->stored; k += TAPS, to += DIGITS * RESULTS) {
        int32_t digits[DIGITS];
        take_digits(weights + k, digits);
        for (int digit = 0; digit < DIGITS; digit++)
            to[digit * RESULTS] = digits[digit];
    }
}

/* For each four weights of a result, there is a number of each digit. */
TARGET void put_column_weights(const haul__scale_axis *a, int64_t result, const int32_t *weights)
{
    for (int64_t k = 0; k < a->stored; k += TAPS)
        take_digits(weights + k, a->weights + result * a->stored + k / TAPS * DIGITS);
}

/* The sums begin with a half, which rounds the result. */
TARGET INLINE void begin_sums(__m512i *sums)
{
    sums[0] = _mm512_set1_epi32(1 << (HAUL__WEIGHT_BITS - 1));
    sums[1] = sums[2] = _mm512_setzero_si512();
}

/* The values of 16 results. The sum of a digit may overflow when it is shifted; the excess falls out again. */
TARGET INLINE __m512i values_of(const __m512i *sums)
{
    const __m512i high = _mm512_add_epi32(_mm512_slli_epi32(sums[1], 8), _mm512_slli_epi32(sums[2], 16));
    return _mm512_srai_epi32(_mm512_add_epi32(sums[0], high), HAUL__WEIGHT_BITS);
}

/* Inlined for numbers of groups of four weights that are constants, and for inputs that are in one vector or two. */
TARGET INLINE void row_by(const haul__scale_axis *a, int64_t groups, bool wide, const uint8_t *in, uint8_t *out)
{
    const int32_t *digits = a->weights;
    for (int64_t x = 0; x < a->out; x += RESULTS) {
        const __m512i  places = _mm512_loadu_si512(a->places + TAPS * x);
        const uint8_t *from = in + a->first[x];
        __m512i        sums[DIGITS];
        begin_sums(sums);
#pragma GCC unroll 4
        for (int64_t k = 0; k < groups; k++, digits += DIGITS * RESULTS, from += TAPS) {
            const __m512i near = _mm512_loadu_si512(from);
            const __m512i inputs = wide ? _mm512_permutex2var_epi8(near, places, _mm512_loadu_si512(from + BYTES))
                                        : _mm512_permutexvar_epi8(places, near);
#pragma GCC unroll 3
            for (int digit = 0; digit < DIGITS; digit++)
                sums[digit] = _mm512_dpbusd_epi32(sums[digit], inputs, _mm512_loadu_si512(digits + digit * RESULTS));
        }
        _mm_storeu_si128((__m128i *)(void *)(out + x), _mm512_cvtusepi32_epi8(values_of(sums)));
    }
}

TARGET void scale_row(const haul__scale_axis *a, const uint8_t *in, uint8_t *out)
{
    const int64_t groups = a->stored / TAPS;
    HAUL__ASSERT(a->stored % TAPS == 0 && a->span <= 2 * BYTES);
    if (a->span > BYTES)
        row_by(a, groups, true, in, out);
    else if (groups == 1)
        row_by(a, 1, false, in, out);
    else if (groups == 2)
        row_by(a, 2, false, in, out);
    else
        row_by(a, groups, false, in, out);
}

/* 64 bytes of four rows as four bytes of each column: a vector has those of a quarter of each 16 columns. */
TARGET INLINE void gather_columns(const uint8_t *const *rows, int64_t at, __m512i *out)
{
    const __m512i a = _mm512_loadu_si512(rows[0] + at), b = _mm512_loadu_si512(rows[1] + at);
    const __m512i c = _mm512_loadu_si512(rows[2] + at), d = _mm512_loadu_si512(rows[3] + at);
    const __m512i ab0 = _mm512_unpacklo_epi8(a, b), ab1 = _mm512_unpackhi_epi8(a, b);
    const __m512i cd0 = _mm512_unpacklo_epi8(c, d), cd1 = _mm512_unpackhi_epi8(c, d);
    out[0] = _mm512_unpacklo_epi16(ab0, cd0);
    out[1] = _mm512_unpackhi_epi16(ab0, cd0);
    out[2] = _mm512_unpacklo_epi16(ab1, cd1);
    out[3] = _mm512_unpackhi_epi16(ab1, cd1);
}

TARGET void scale_column(const uint8_t *const *rows, const int32_t *weights, int64_t taps, int64_t bytes, uint8_t *out)
{
    HAUL__ASSERT(taps % TAPS == 0 && bytes % BYTES == 0);
    for (int64_t at = 0; at < bytes; at += BYTES) {
        __m512i        sums[4][DIGITS], inputs[4];
        const int32_t *digits = weights;
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            begin_sums(sums[i]);
        for (int64_t k = 0; k < taps; k += TAPS, digits += DIGITS) {
            gather_columns(rows + k, at, inputs);
#pragma GCC unroll 3
            for (int digit = 0; digit < DIGITS; digit++)
#pragma GCC unroll 4
                for (int i = 0; i < 4; i++)
                    sums[i][digit] = _mm512_dpbusd_epi32(sums[i][digit], inputs[i], _mm512_set1_epi32(digits[digit]));
        }
        const __m512i low = _mm512_packs_epi32(values_of(sums[0]), values_of(sums[1]));
        const __m512i high = _mm512_packs_epi32(values_of(sums[2]), values_of(sums[3]));
        _mm512_storeu_si512(out + at, _mm512_packus_epi16(low, high));
    }
}

static const haul__scale_loops loops = {.unit = 1,
                                        .step_across = TAPS,
                                        .step_down = TAPS,
                                        .at_once = RESULTS,
                                        .put_across = put_row_weights,
                                        .put_down = put_column_weights,
                                        .row = scale_row,
                                        .column = scale_column};
#endif

const haul__scale_loops *haul__scale_planes_of(haul__cpu_level_id level, double scale)
{
#if defined(__x86_64__)
    /* The inputs of the results that are computed together are in two vectors, with some to spare for rounding. */
    if (level == HAUL__CPU_V4 && scale * (RESULTS - 1) + TAPS + 2 <= 2 * BYTES &&
        __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("avx512vbmi"))
        return &loops;
#else
    (void)level;
    (void)scale;
#endif
    return NULL;
}
