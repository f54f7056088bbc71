/* Loads and stores of a part of a vector: its first `count` lanes. The including file defines VECTOR for the type of
 * the vector. */
#ifndef HAUL_BACKENDS_CPU_KERNELS_PARTIAL_VECTORS_H
#define HAUL_BACKENDS_CPU_KERNELS_PARTIAL_VECTORS_H

#include <stdint.h>

#include "backends/cpu/kernels/vectors.h"

#if defined(__AVX512F__)
#define LOAD_PART_f32(p, count)     ((VECTOR)_mm512_maskz_loadu_ps((__mmask16)((1u << (count)) - 1), p))
#define STORE_PART_f32(p, v, count) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (count)) - 1), (__m512)(v))
#define LOAD_PART_f64(p, count)     ((VECTOR)_mm512_maskz_loadu_pd((__mmask8)((1u << (count)) - 1), p))
#define STORE_PART_f64(p, v, count) _mm512_mask_storeu_pd(p, (__mmask8)((1u << (count)) - 1), (__m512d)(v))
#elif defined(__AVX2__)
INLINE __m256i first_lanes(int64_t count, int bytes)
{
    static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(lanes + 8 - count * (bytes / 4)));
}
#define LOAD_PART_f32(p, count)     ((VECTOR)_mm256_maskload_ps(p, first_lanes(count, 4)))
#define STORE_PART_f32(p, v, count) _mm256_maskstore_ps(p, first_lanes(count, 4), (__m256)(v))
#define LOAD_PART_f64(p, count)     ((VECTOR)_mm256_maskload_pd(p, first_lanes(count, 8)))
#define STORE_PART_f64(p, v, count) _mm256_maskstore_pd(p, first_lanes(count, 8), (__m256d)(v))
#else
/* Not by a call of memcpy, whose start takes longer than a few elements. */
#define PARTS(type, name, lanes)                                                                                       \
    typedef type name##_vector __attribute__((vector_size(VECTOR_BYTES)));                                             \
    INLINE name##_vector load_part_##name(const type *p, int64_t count)                                                \
    {                                                                                                                  \
        name##_vector v = {0};                                                                                         \
        UNROLL for (int i = 0; i < lanes; i++) v[i] = i < count ? p[i] : 0;                                            \
        return v;                                                                                                      \
    }                                                                                                                  \
    INLINE void store_part_##name(type *p, name##_vector v, int64_t count)                                             \
    {                                                                                                                  \
        UNROLL for (int i = 0; i < lanes; i++) if (i < count) p[i] = v[i];                                             \
    }
PARTS(float, f32, 4)
PARTS(double, f64, 2)
#define LOAD_PART_f32(p, count)     ((VECTOR)load_part_f32(p, count))
#define STORE_PART_f32(p, v, count) store_part_f32(p, (f32_vector)(v), count)
#define LOAD_PART_f64(p, count)     ((VECTOR)load_part_f64(p, count))
#define STORE_PART_f64(p, v, count) store_part_f64(p, (f64_vector)(v), count)
#endif

#endif
