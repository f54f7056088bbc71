/* The loops of image_ycc_loops.h for each instruction level, and the choice among them. */
#include "data/image_ycc.h"

#include <stddef.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>

#define INLINE static inline __attribute__((always_inline))

/* The factors without their integer parts: 1.402 - 1, 1.772 - 2, and for green -0.344136 and 1 - 0.714136. */
#define RED      26345
#define BLUE     (-14942)
#define GREEN_CB (-22554)
#define GREEN_CR 18734
/* A pair of factors, for instructions that add the products of pairs. */
#define GREEN (GREEN_CR * 65536 + (GREEN_CB & 0xffff))

/* ---- v4 ---- */

#define NAME(name) name##_v4
#define TARGET     __attribute__((target("avx512f,avx512bw,avx512vl")))
#define LANES      32

typedef int16_t words_v4 __attribute__((vector_size(64)));

TARGET INLINE words_v4 load_v4(const void *p)
{
    return (words_v4)_mm512_loadu_si512(p);
}

TARGET INLINE void store_v4(words_v4 v, void *p)
{
    _mm512_storeu_si512(p, (__m512i)v);
}

TARGET INLINE words_v4 widen_v4(const uint8_t *p)
{
    return (words_v4)_mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

TARGET INLINE words_v4 high_v4(words_v4 v, int16_t factor)
{
    return (words_v4)_mm512_mulhi_epi16((__m512i)v, _mm512_set1_epi16(factor));
}

TARGET INLINE words_v4 clamp_v4(words_v4 v)
{
    const __m512i low = _mm512_max_epi16((__m512i)v, _mm512_setzero_si512());
    return (words_v4)_mm512_min_epi16(low, _mm512_set1_epi16(255));
}

TARGET INLINE __m512i rounded_v4(__m512i pairs)
{
    const __m512i sums = _mm512_madd_epi16(pairs, _mm512_set1_epi32(GREEN));
    return _mm512_srai_epi32(_mm512_add_epi32(sums, _mm512_set1_epi32(1 << 15)), 16);
}

TARGET INLINE words_v4 green_v4(words_v4 cb, words_v4 cr)
{
    const __m512i low = _mm512_unpacklo_epi16((__m512i)cb, (__m512i)cr);
    const __m512i high = _mm512_unpackhi_epi16((__m512i)cb, (__m512i)cr);
    return (words_v4)_mm512_packs_epi32(rounded_v4(low), rounded_v4(high));
}

/* Quarters of the vectors hold 16 neighbouring pixels; those of four vectors are brought into order. */
TARGET INLINE void put_pixels_v4(const words_v4 *even, const words_v4 *odd, uint8_t *out)
{
    const __m512i e = (__m512i)(even[0] | even[1] << 8), o = (__m512i)(odd[0] | odd[1] << 8);
    const __m512i e0 = _mm512_unpacklo_epi16(e, (__m512i)even[2]), e1 = _mm512_unpackhi_epi16(e, (__m512i)even[2]);
    const __m512i o0 = _mm512_unpacklo_epi16(o, (__m512i)odd[2]), o1 = _mm512_unpackhi_epi16(o, (__m512i)odd[2]);
    const __m512i a = _mm512_unpacklo_epi32(e0, o0), b = _mm512_unpackhi_epi32(e0, o0);
    const __m512i c = _mm512_unpacklo_epi32(e1, o1), d = _mm512_unpackhi_epi32(e1, o1);
    const __m512i ab0 = _mm512_shuffle_i32x4(a, b, 0x44), ab1 = _mm512_shuffle_i32x4(a, b, 0xee);
    const __m512i cd0 = _mm512_shuffle_i32x4(c, d, 0x44), cd1 = _mm512_shuffle_i32x4(c, d, 0xee);
    _mm512_storeu_si512(out, _mm512_shuffle_i32x4(ab0, cd0, 0x88));
    _mm512_storeu_si512(out + 64, _mm512_shuffle_i32x4(ab0, cd0, 0xdd));
    _mm512_storeu_si512(out + 128, _mm512_shuffle_i32x4(ab1, cd1, 0x88));
    _mm512_storeu_si512(out + 192, _mm512_shuffle_i32x4(ab1, cd1, 0xdd));
}

#include "data/image_ycc_loops.h"

/* ---- v3 ---- */

#define NAME(name) name##_v3
#define TARGET     __attribute__((target("avx2")))
#define LANES      16

typedef int16_t words_v3 __attribute__((vector_size(32)));

TARGET INLINE words_v3 load_v3(const void *p)
{
    return (words_v3)_mm256_loadu_si256(p);
}

TARGET INLINE void store_v3(words_v3 v, void *p)
{
    _mm256_storeu_si256(p, (__m256i)v);
}

TARGET INLINE words_v3 widen_v3(const uint8_t *p)
{
    return (words_v3)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

TARGET INLINE words_v3 high_v3(words_v3 v, int16_t factor)
{
    return (words_v3)_mm256_mulhi_epi16((__m256i)v, _mm256_set1_epi16(factor));
}

TARGET INLINE words_v3 clamp_v3(words_v3 v)
{
    const __m256i low = _mm256_max_epi16((__m256i)v, _mm256_setzero_si256());
    return (words_v3)_mm256_min_epi16(low, _mm256_set1_epi16(255));
}

TARGET INLINE __m256i rounded_v3(__m256i pairs)
{
    const __m256i sums = _mm256_madd_epi16(pairs, _mm256_set1_epi32(GREEN));
    return _mm256_srai_epi32(_mm256_add_epi32(sums, _mm256_set1_epi32(1 << 15)), 16);
}

TARGET INLINE words_v3 green_v3(words_v3 cb, words_v3 cr)
{
    const __m256i low = _mm256_unpacklo_epi16((__m256i)cb, (__m256i)cr);
    const __m256i high = _mm256_unpackhi_epi16((__m256i)cb, (__m256i)cr);
    return (words_v3)_mm256_packs_epi32(rounded_v3(low), rounded_v3(high));
}

/* Halves of the vectors hold 16 neighbouring pixels. */
TARGET INLINE void put_pixels_v3(const words_v3 *even, const words_v3 *odd, uint8_t *out)
{
    const __m256i e = (__m256i)(even[0] | even[1] << 8), o = (__m256i)(odd[0] | odd[1] << 8);
    const __m256i e0 = _mm256_unpacklo_epi16(e, (__m256i)even[2]), e1 = _mm256_unpackhi_epi16(e, (__m256i)even[2]);
    const __m256i o0 = _mm256_unpacklo_epi16(o, (__m256i)odd[2]), o1 = _mm256_unpackhi_epi16(o, (__m256i)odd[2]);
    const __m256i a = _mm256_unpacklo_epi32(e0, o0), b = _mm256_unpackhi_epi32(e0, o0);
    const __m256i c = _mm256_unpacklo_epi32(e1, o1), d = _mm256_unpackhi_epi32(e1, o1);
    store_v3((words_v3)_mm256_permute2x128_si256(a, b, 0x20), out);
    store_v3((words_v3)_mm256_permute2x128_si256(c, d, 0x20), out + 32);
    store_v3((words_v3)_mm256_permute2x128_si256(a, b, 0x31), out + 64);
    store_v3((words_v3)_mm256_permute2x128_si256(c, d, 0x31), out + 96);
}

#include "data/image_ycc_loops.h"

/* ---- base ---- */

#define NAME(name) name##_base
#define TARGET
#define LANES 8

typedef int16_t words_base __attribute__((vector_size(16)));

INLINE words_base load_base(const void *p)
{
    return (words_base)_mm_loadu_si128(p);
}

INLINE void store_base(words_base v, void *p)
{
    _mm_storeu_si128(p, (__m128i)v);
}

INLINE words_base widen_base(const uint8_t *p)
{
    return (words_base)_mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)p), _mm_setzero_si128());
}

INLINE words_base high_base(words_base v, int16_t factor)
{
    return (words_base)_mm_mulhi_epi16((__m128i)v, _mm_set1_epi16(factor));
}

INLINE words_base clamp_base(words_base v)
{
    return (words_base)_mm_min_epi16(_mm_max_epi16((__m128i)v, _mm_setzero_si128()), _mm_set1_epi16(255));
}

INLINE __m128i rounded_base(__m128i pairs)
{
    const __m128i sums = _mm_madd_epi16(pairs, _mm_set1_epi32(GREEN));
    return _mm_srai_epi32(_mm_add_epi32(sums, _mm_set1_epi32(1 << 15)), 16);
}

INLINE words_base green_base(words_base cb, words_base cr)
{
    const __m128i low = _mm_unpacklo_epi16((__m128i)cb, (__m128i)cr);
    const __m128i high = _mm_unpackhi_epi16((__m128i)cb, (__m128i)cr);
    return (words_base)_mm_packs_epi32(rounded_base(low), rounded_base(high));
}

INLINE void put_pixels_base(const words_base *even, const words_base *odd, uint8_t *out)
{
    const __m128i e = (__m128i)(even[0] | even[1] << 8), o = (__m128i)(odd[0] | odd[1] << 8);
    const __m128i e0 = _mm_unpacklo_epi16(e, (__m128i)even[2]), e1 = _mm_unpackhi_epi16(e, (__m128i)even[2]);
    const __m128i o0 = _mm_unpacklo_epi16(o, (__m128i)odd[2]), o1 = _mm_unpackhi_epi16(o, (__m128i)odd[2]);
    store_base((words_base)_mm_unpacklo_epi32(e0, o0), out);
    store_base((words_base)_mm_unpackhi_epi32(e0, o0), out + 16);
    store_base((words_base)_mm_unpacklo_epi32(e1, o1), out + 32);
    store_base((words_base)_mm_unpackhi_epi32(e1, o1), out + 48);
}

#include "data/image_ycc_loops.h"
#endif

const haul__ycc_loops *haul__ycc_loops_of(haul__cpu_level_id level)
{
#if defined(__x86_64__)
    switch (level) {
    case HAUL__CPU_V4: return &loops_v4;
    case HAUL__CPU_V3: return &loops_v3;
    default: return &loops_base;
    }
#else
    (void)level;
    return NULL;
#endif
}
