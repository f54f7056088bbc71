/* The loops of dct_loops.h for each instruction level, and the choice among them. */
#include "data/image/dct.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

enum { SIDE = 8, BLOCK = SIDE * SIDE };

/* The bits after the point: of the factors, and those that the first pass leaves for the second one. */
enum { FACTOR_BITS = 13, SPARE_BITS = 2, FIRST_SHIFT = FACTOR_BITS - SPARE_BITS, LAST_SHIFT = FACTOR_BITS + 5 };

/* Factors with 13 bits after the point, as in libjpeg's jidctint.c. */
enum {
    F_0_298 = 2446,
    F_0_390 = 3196,
    F_0_541 = 4433,
    F_0_765 = 6270,
    F_0_899 = 7373,
    F_1_175 = 9633,
    F_1_501 = 12299,
    F_1_847 = 15137,
    F_1_961 = 16069,
    F_2_053 = 16819,
    F_2_562 = 20995,
    F_3_072 = 25172
};

/* A pair of factors, for instructions that add the products of pairs. */
#define PAIR(a, b) OP(set1_epi32)((b)*65536 + ((a)&0xffff))

/* ---- v4 ---- */

#define NAME(name) name##_v4
#define TARGET     __attribute__((target("avx512f,avx512bw,avx512vl")))
#define VECTOR     __m512i
#define OP(name)   _mm512_##name
#define GROUP      4

/* The rows of four blocks: vector i has row i of each. */
TARGET INLINE void load_v4(const int16_t *blocks, __m512i *rows)
{
#pragma GCC unroll 2
    for (int half = 0; half < 2; half++) {
        const int16_t *from = blocks + half * BLOCK / 2;
        const __m512i  a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + BLOCK);
        const __m512i  c = _mm512_loadu_si512(from + 2 * BLOCK), d = _mm512_loadu_si512(from + 3 * BLOCK);
        const __m512i  ab0 = _mm512_shuffle_i32x4(a, b, 0x44), ab1 = _mm512_shuffle_i32x4(a, b, 0xee);
        const __m512i  cd0 = _mm512_shuffle_i32x4(c, d, 0x44), cd1 = _mm512_shuffle_i32x4(c, d, 0xee);
        rows[4 * half] = _mm512_shuffle_i32x4(ab0, cd0, 0x88);
        rows[4 * half + 1] = _mm512_shuffle_i32x4(ab0, cd0, 0xdd);
        rows[4 * half + 2] = _mm512_shuffle_i32x4(ab1, cd1, 0x88);
        rows[4 * half + 3] = _mm512_shuffle_i32x4(ab1, cd1, 0xdd);
    }
}

TARGET INLINE __m512i repeat_v4(const void *row)
{
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)row));
}

TARGET INLINE bool differ_v4(__m512i a, __m512i b)
{
    return _mm512_cmpneq_epi16_mask(a, b) != 0;
}

/* Two rows, of each block 8 bytes of the first one and 8 of the second one. */
TARGET INLINE void put_v4(__m512i rows, uint8_t *out, int64_t pitch)
{
    const __m512i ordered = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), rows);
    _mm256_storeu_si256((__m256i *)(void *)out, _mm512_castsi512_si256(ordered));
    _mm256_storeu_si256((__m256i *)(void *)(out + pitch), _mm512_extracti64x4_epi64(ordered, 1));
}

#include "data/image/dct_loops.h"

/* ---- v3 ---- */

#define NAME(name) name##_v3
#define TARGET     __attribute__((target("avx2")))
#define VECTOR     __m256i
#define OP(name)   _mm256_##name
#define GROUP      2

TARGET INLINE void load_v3(const int16_t *blocks, __m256i *rows)
{
#pragma GCC unroll 8
    for (int i = 0; i < SIDE; i++)
        rows[i] = _mm256_loadu2_m128i((const __m128i *)(const void *)(blocks + BLOCK + SIDE * i),
                                      (const __m128i *)(const void *)(blocks + SIDE * i));
}

TARGET INLINE __m256i repeat_v3(const void *row)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)row));
}

TARGET INLINE bool differ_v3(__m256i a, __m256i b)
{
    return _mm256_movemask_epi8(_mm256_cmpeq_epi16(a, b)) != -1;
}

TARGET INLINE void put_v3(__m256i rows, uint8_t *out, int64_t pitch)
{
    const __m256i ordered = _mm256_permute4x64_epi64(rows, 0xd8);
    _mm_storeu_si128((__m128i *)(void *)out, _mm256_castsi256_si128(ordered));
    _mm_storeu_si128((__m128i *)(void *)(out + pitch), _mm256_extracti128_si256(ordered, 1));
}

#include "data/image/dct_loops.h"
#endif

haul__dct *haul__dct_of(haul__cpu_level_id level)
{
#if defined(__x86_64__)
    return level == HAUL__CPU_V4 ? dct_v4 : level == HAUL__CPU_V3 ? dct_v3 : NULL;
#else
    (void)level;
    return NULL;
#endif
}
