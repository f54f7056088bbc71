/* The loops of ycc_loops.h for each instruction level, and the choice among them. */
#include "data/image/ycc.h"

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

/* Puts the bytes of even and odd pixels, halves of 16 bytes, into order. */
#define IN_ORDER _mm_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15)

/* ---- v4 ---- */

#define NAME(name) name##_v4
#define TARGET     __attribute__((target("avx512f,avx512bw,avx512vl")))
#define LANES      32

typedef int16_t  words_v4 __attribute__((vector_size(64)));
typedef uint16_t unsigned_words_v4 __attribute__((vector_size(64)));

TARGET INLINE words_v4 load_v4(const void *p)
{
    return (words_v4)_mm512_loadu_si512(p);
}

TARGET INLINE void store_v4(words_v4 v, void *p)
{
    _mm512_storeu_si512(p, (__m512i)v);
}

TARGET INLINE void stream_v4(words_v4 v, void *p)
{
    _mm512_stream_si512((__m512i *)p, (__m512i)v);
}

TARGET INLINE words_v4 widen_v4(const uint8_t *p)
{
    return (words_v4)_mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* The instruction multiplies by a factor of 15 bits after the point. Half of an odd one is exact enough for 8 bits. */
TARGET INLINE words_v4 scaled_v4(words_v4 v, int factor)
{
    return (words_v4)_mm512_mulhrs_epi16((__m512i)v, _mm512_set1_epi16((int16_t)(factor / 2)));
}

TARGET INLINE words_v4 bytes_v4(words_v4 even, words_v4 odd)
{
    const __m512i halves = _mm512_packus_epi16((__m512i)even, (__m512i)odd);
    return (words_v4)_mm512_shuffle_epi8(halves, _mm512_broadcast_i32x4(IN_ORDER));
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
TARGET INLINE void put_pixels_v4(const words_v4 *colours, uint8_t *out)
{
    const __m512i red = (__m512i)colours[0], green = (__m512i)colours[1], blue = (__m512i)colours[2];
    const __m512i none = _mm512_setzero_si512();
    const __m512i rg0 = _mm512_unpacklo_epi8(red, green), rg1 = _mm512_unpackhi_epi8(red, green);
    const __m512i bx0 = _mm512_unpacklo_epi8(blue, none), bx1 = _mm512_unpackhi_epi8(blue, none);
    const __m512i a = _mm512_unpacklo_epi16(rg0, bx0), b = _mm512_unpackhi_epi16(rg0, bx0);
    const __m512i c = _mm512_unpacklo_epi16(rg1, bx1), d = _mm512_unpackhi_epi16(rg1, bx1);
    const __m512i ab0 = _mm512_shuffle_i32x4(a, b, 0x44), ab1 = _mm512_shuffle_i32x4(a, b, 0xee);
    const __m512i cd0 = _mm512_shuffle_i32x4(c, d, 0x44), cd1 = _mm512_shuffle_i32x4(c, d, 0xee);
    _mm512_storeu_si512(out, _mm512_shuffle_i32x4(ab0, cd0, 0x88));
    _mm512_storeu_si512(out + 64, _mm512_shuffle_i32x4(ab0, cd0, 0xdd));
    _mm512_storeu_si512(out + 128, _mm512_shuffle_i32x4(ab1, cd1, 0x88));
    _mm512_storeu_si512(out + 192, _mm512_shuffle_i32x4(ab1, cd1, 0xdd));
}

#include "data/image/ycc_loops.h"

/* ---- v3 ---- */

#define NAME(name) name##_v3
#define TARGET     __attribute__((target("avx2")))
#define LANES      16

typedef int16_t  words_v3 __attribute__((vector_size(32)));
typedef uint16_t unsigned_words_v3 __attribute__((vector_size(32)));

TARGET INLINE words_v3 load_v3(const void *p)
{
    return (words_v3)_mm256_loadu_si256(p);
}

TARGET INLINE void store_v3(words_v3 v, void *p)
{
    _mm256_storeu_si256(p, (__m256i)v);
}

TARGET INLINE void stream_v3(words_v3 v, void *p)
{
    _mm256_stream_si256((__m256i *)p, (__m256i)v);
}

TARGET INLINE words_v3 widen_v3(const uint8_t *p)
{
    return (words_v3)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* The instruction multiplies by a factor of 15 bits after the point. Half of an odd one is exact enough for 8 bits. */
TARGET INLINE words_v3 scaled_v3(words_v3 v, int factor)
{
    return (words_v3)_mm256_mulhrs_epi16((__m256i)v, _mm256_set1_epi16((int16_t)(factor / 2)));
}

TARGET INLINE words_v3 bytes_v3(words_v3 even, words_v3 odd)
{
    const __m256i halves = _mm256_packus_epi16((__m256i)even, (__m256i)odd);
    return (words_v3)_mm256_shuffle_epi8(halves, _mm256_broadcastsi128_si256(IN_ORDER));
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
TARGET INLINE void put_pixels_v3(const words_v3 *colours, uint8_t *out)
{
    const __m256i red = (__m256i)colours[0], green = (__m256i)colours[1], blue = (__m256i)colours[2];
    const __m256i none = _mm256_setzero_si256();
    const __m256i rg0 = _mm256_unpacklo_epi8(red, green), rg1 = _mm256_unpackhi_epi8(red, green);
    const __m256i bx0 = _mm256_unpacklo_epi8(blue, none), bx1 = _mm256_unpackhi_epi8(blue, none);
    const __m256i a = _mm256_unpacklo_epi16(rg0, bx0), b = _mm256_unpackhi_epi16(rg0, bx0);
    const __m256i c = _mm256_unpacklo_epi16(rg1, bx1), d = _mm256_unpackhi_epi16(rg1, bx1);
    store_v3((words_v3)_mm256_permute2x128_si256(a, b, 0x20), out);
    store_v3((words_v3)_mm256_permute2x128_si256(c, d, 0x20), out + 32);
    store_v3((words_v3)_mm256_permute2x128_si256(a, b, 0x31), out + 64);
    store_v3((words_v3)_mm256_permute2x128_si256(c, d, 0x31), out + 96);
}

#include "data/image/ycc_loops.h"

/* ---- base ---- */

#define NAME(name) name##_base
#define TARGET
#define LANES 8

typedef int16_t  words_base __attribute__((vector_size(16)));
typedef uint16_t unsigned_words_base __attribute__((vector_size(16)));

INLINE words_base load_base(const void *p)
{
    return (words_base)_mm_loadu_si128(p);
}

INLINE void store_base(words_base v, void *p)
{
    _mm_storeu_si128(p, (__m128i)v);
}

INLINE void stream_base(words_base v, void *p)
{
    _mm_stream_si128((__m128i *)p, (__m128i)v);
}

INLINE words_base widen_base(const uint8_t *p)
{
    return (words_base)_mm_unpacklo_epi8(_mm_loadl_epi64((const __m128i *)(const void *)p), _mm_setzero_si128());
}

INLINE words_base scaled_base(words_base v, int factor)
{
    return ((words_base)_mm_mulhi_epi16((__m128i)(v + v), _mm_set1_epi16((int16_t)factor)) + 1) >> 1;
}

INLINE words_base bytes_base(words_base even, words_base odd)
{
    const __m128i halves = _mm_packus_epi16((__m128i)even, (__m128i)odd);
    return (words_base)_mm_unpacklo_epi8(halves, _mm_srli_si128(halves, 8));
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

INLINE void put_pixels_base(const words_base *colours, uint8_t *out)
{
    const __m128i red = (__m128i)colours[0], green = (__m128i)colours[1], blue = (__m128i)colours[2];
    const __m128i none = _mm_setzero_si128();
    const __m128i rg0 = _mm_unpacklo_epi8(red, green), rg1 = _mm_unpackhi_epi8(red, green);
    const __m128i bx0 = _mm_unpacklo_epi8(blue, none), bx1 = _mm_unpackhi_epi8(blue, none);
    const __m128i a = _mm_unpacklo_epi16(rg0, bx0), b = _mm_unpackhi_epi16(rg0, bx0);
    const __m128i c = _mm_unpacklo_epi16(rg1, bx1), d = _mm_unpackhi_epi16(rg1, bx1);
    store_base((words_base)a, out);
    store_base((words_base)b, out + 16);
    store_base((words_base)c, out + 32);
    store_base((words_base)d, out + 48);
}

#include "data/image/ycc_loops.h"
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
