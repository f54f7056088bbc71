/* The loops of scale_loops.h for each instruction level, and the choice among them. */
#include "data/image/scale.h"

#include <stddef.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "data/image/image.h"

#define INLINE static inline __attribute__((always_inline))

/* Sums to values. */
#define ROUNDED(sum) (((sum) + (1 << (HAUL__WEIGHT_BITS - 1))) >> HAUL__WEIGHT_BITS)

typedef int32_t ints_base __attribute__((vector_size(16)));

#if defined(__x86_64__)
/* ---- v4 ---- */

/* Only for processors that also have instructions for sums of products of bytes (AVX512-VNNI). */
#define NAME(name) name##_v4
#define TARGET     __attribute__((target("avx512f,avx512bw,avx512vl,avx512vnni")))
#define LANES      16
#define ENCODE(w)  (w)
#define PUT        put_weights_v4
#define OWN_ROW

typedef int32_t ints_v4 __attribute__((vector_size(64)));

TARGET INLINE ints_v4 load_v4(const uint8_t *p)
{
    return (ints_v4)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p));
}

TARGET INLINE ints_v4 multiply_v4(ints_v4 v, ints_v4 w)
{
    return v * w;
}

TARGET INLINE void put_v4(ints_v4 sums, uint8_t *out)
{
    _mm_storeu_si128((__m128i *)(void *)out, _mm512_cvtusepi32_epi8((__m512i)ROUNDED(sums)));
}

/* A weight is three signed digits to the base of 256. Four weights of a result are 16 bytes of each digit, which repeat
 * the digits for the colours; those of four results fill a vector. */
enum { DIGITS = 3, RESULTS = 4, PIXELS = 4 };

/* The bytes of the first digit of the weights from k on; those of the next one are a vector further. */
INLINE uint8_t *digits_of(const haul__scale_axis *a, int64_t result, int64_t k)
{
    const int64_t vector = (result / RESULTS * (a->stored / PIXELS) + k / PIXELS) * DIGITS;
    return (uint8_t *)a->weights + vector * (int64_t)sizeof(ints_v4) + result % RESULTS * (int64_t)sizeof(ints_base);
}

TARGET static void put_weights_v4(const haul__scale_axis *a, int64_t result, const int32_t *weights)
{
    for (int64_t k = 0; k < a->stored; k += PIXELS) {
        uint8_t *to = digits_of(a, result, k);
        __m128i  left = _mm_loadu_si128((const __m128i *)(const void *)(weights + k));
        for (int digit = 0; digit < DIGITS; digit++, to += sizeof(ints_v4)) {
            const __m128i low = _mm_shuffle_epi8(left, _mm_set1_epi32(0x0c080400));
            _mm_storeu_si128((__m128i *)(void *)to, low);
            /* The remainder without the digit, which is signed. */
            left = _mm_srai_epi32(_mm_add_epi32(left, _mm_set1_epi32(128)), 8);
        }
    }
}

/* Pixels of four results, four each, as four bytes of each colour. */
TARGET INLINE __m512i gather_v4(const uint8_t *in, const int64_t *first)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(in + first[0])));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(in + first[1])), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(in + first[2])), 2);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(in + first[3])), 3);
    const __m128i by_colour = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_shuffle_epi8(v, _mm512_broadcast_i32x4(by_colour));
}

TARGET INLINE void row_by_v4(const haul__scale_axis *a, int64_t vectors, const uint8_t *in, uint8_t *out)
{
    const __m512i *digits = (const void *)a->weights;
    for (int64_t x = 0; x < a->out; x += RESULTS) {
        __m512i sums[DIGITS] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
#pragma GCC unroll 8
        for (int64_t k = 0; k < vectors; k++, digits += DIGITS) {
            const __m512i pixels = gather_v4(in + k * LANES, a->first + x);
#pragma GCC unroll 3
            for (int digit = 0; digit < DIGITS; digit++)
                sums[digit] = _mm512_dpbusd_epi32(sums[digit], pixels, _mm512_loadu_si512(digits + digit));
        }
        /* The sum of a digit may overflow when it is shifted; the excess falls out again. */
        const __m512i high = _mm512_add_epi32(_mm512_slli_epi32(sums[1], 8), _mm512_slli_epi32(sums[2], 16));
        put_v4((ints_v4)_mm512_add_epi32(sums[0], high), out + HAUL__PIXEL * x);
    }
}

#include "data/image/scale_loops.h"

/* ---- v3 ---- */

#define NAME(name) name##_v3
#define TARGET     __attribute__((target("avx2")))
#define LANES      8
#define ENCODE(w)  (w)
#define PUT        put_in_order_v3

typedef int32_t ints_v3 __attribute__((vector_size(32)));

TARGET INLINE ints_v3 load_v3(const uint8_t *p)
{
    return (ints_v3)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p));
}

TARGET INLINE ints_v3 multiply_v3(ints_v3 v, ints_v3 w)
{
    return v * w;
}

TARGET INLINE void put_v3(ints_v3 sums, uint8_t *out)
{
    const __m256i v = (__m256i)ROUNDED(sums);
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)out, _mm_packus_epi16(words, words));
}

/* The sum of a's pixels and that of b's. */
TARGET INLINE ints_v3 pixels_v3(ints_v3 a, ints_v3 b)
{
    const __m256i x = (__m256i)a, y = (__m256i)b;
    return (ints_v3)_mm256_permute2x128_si256(x, y, 0x20) + (ints_v3)_mm256_permute2x128_si256(x, y, 0x31);
}

TARGET INLINE void put_pixels_v3(ints_v3 a, ints_v3 b, ints_v3 c, ints_v3 d, uint8_t *out)
{
    const ints_v3 ab = pixels_v3(a, b), cd = pixels_v3(c, d);
    const __m256i words = _mm256_packs_epi32((__m256i)ROUNDED(ab), (__m256i)ROUNDED(cd)); /* a, c, b, d */
    const __m256i ordered = _mm256_permute4x64_epi64(words, 0xd8);
    _mm_storeu_si128((__m128i *)(void *)out,
                     _mm_packus_epi16(_mm256_castsi256_si128(ordered), _mm256_extracti128_si256(ordered, 1)));
}

#include "data/image/scale_loops.h"
#endif

/* ---- base ---- */

#define NAME(name) name##_base
#define TARGET
#define LANES     4
#define ENCODE(w) encode_base(w)
#define PUT       put_in_order_base

#if defined(__x86_64__)
/* Processors of this level have no products of 32 bits. A weight is two factors of 16 bits, of the value and of 128
 * times the value, whose products one instruction adds. The second factor of 2^22 would need 16 bits and a sign. */
INLINE int32_t encode_base(int32_t weight)
{
    const int32_t high = weight >> 7 > INT16_MAX ? INT16_MAX : weight >> 7;
    return high * (1 << 16) + (weight - high * (1 << 7));
}

INLINE ints_base load_base(const uint8_t *p)
{
    const __m128i zero = _mm_setzero_si128();
    int32_t       pixel;
    memcpy(&pixel, p, sizeof pixel);
    return (ints_base)_mm_unpacklo_epi16(_mm_unpacklo_epi8(_mm_cvtsi32_si128(pixel), zero), zero);
}

INLINE ints_base multiply_base(ints_base v, ints_base w)
{
    return (ints_base)_mm_madd_epi16((__m128i)(v | v << 23), (__m128i)w);
}

INLINE void put_base(ints_base sums, uint8_t *out)
{
    const __m128i words = _mm_packs_epi32((__m128i)ROUNDED(sums), _mm_setzero_si128());
    const int32_t pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    memcpy(out, &pixel, sizeof pixel);
}
#else
INLINE int32_t encode_base(int32_t weight)
{
    return weight;
}

INLINE ints_base load_base(const uint8_t *p)
{
    return (ints_base){p[0], p[1], p[2], p[3]};
}

INLINE ints_base multiply_base(ints_base v, ints_base w)
{
    return v * w;
}

INLINE void put_base(ints_base sums, uint8_t *out)
{
    const ints_base values = ROUNDED(sums);
    for (int c = 0; c < HAUL__PIXEL; c++)
        out[c] = (uint8_t)(values[c] > 255 ? 255 : values[c]);
}
#endif

INLINE void put_pixels_base(ints_base a, ints_base b, ints_base c, ints_base d, uint8_t *out)
{
    put_base(a, out);
    put_base(b, out + HAUL__PIXEL);
    put_base(c, out + 2 * HAUL__PIXEL);
    put_base(d, out + 3 * HAUL__PIXEL);
}

#include "data/image/scale_loops.h"

const haul__scale_loops *haul__scale_loops_of(haul__cpu_level_id level)
{
#if defined(__x86_64__)
    switch (level) {
    case HAUL__CPU_V4: return __builtin_cpu_supports("avx512vnni") ? &loops_v4 : &loops_v3;
    case HAUL__CPU_V3: return &loops_v3;
    default: break;
    }
#else
    (void)level;
#endif
    return &loops_base;
}
