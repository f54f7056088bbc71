/* Register tiles for f32 and f64 at one instruction level; the build compiles this file once for each. */
#include <string.h>

#include "backends/cpu/gemm/tiles.h"
#include "haul_config.h"

#include "backends/cpu/kernels/vectors.h"

/* Tiles that fill the level's registers and leave room for operands. A single row of A takes ROW_VECTORS of a row of B:
 * 256 bytes with AVX2 and AVX-512, which are fetched faster than fewer, and than more. */
#if defined(__AVX512F__)
#define TILE_VECTORS 4
#define ROW_VECTORS  4
#define DOT_ROWS     6
#define DOT_COLUMNS  4
#elif defined(__AVX__)
#define TILE_VECTORS 2
#define ROW_VECTORS  8
#define DOT_ROWS     3
#define DOT_COLUMNS  4
#else
#define TILE_VECTORS 2
#define ROW_VECTORS  8
#define DOT_ROWS     3
#define DOT_COLUMNS  4
#endif
#define TILE_ROWS 6

/* Parts of vectors, where the level has instructions for them: no detour by memory, whose loads would have to wait for
 * smaller stores. */
#if defined(__AVX2__) && !defined(__AVX512F__)
static inline __m256i first_lanes(int64_t count, int bytes)
{
    static const int32_t lanes[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const __m256i *)(const void *)(lanes + 8 - count * (bytes / 4)));
}
#endif

#define REAL       float
#define NAME(name) CAT3(name, f32, HAUL_KERNEL_LEVEL)
#if defined(__AVX512F__)
#define MASK_LOAD(p, count)     _mm512_maskz_loadu_ps((__mmask16)((1u << (count)) - 1), p)
#define MASK_STORE(p, v, count) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (count)) - 1), (__m512)(v))
#elif defined(__AVX2__)
#define MASK_LOAD(p, count)     _mm256_maskload_ps(p, first_lanes(count, 4))
#define MASK_STORE(p, v, count) _mm256_maskstore_ps(p, first_lanes(count, 4), (__m256)(v))
#endif
#include "backends/cpu/kernels/tiles_template.h"

#ifndef HAUL_SMALL
#undef REAL
#undef NAME
#undef MASK_LOAD
#undef MASK_STORE

#define REAL       double
#define NAME(name) CAT3(name, f64, HAUL_KERNEL_LEVEL)
#if defined(__AVX512F__)
#define MASK_LOAD(p, count)     _mm512_maskz_loadu_pd((__mmask8)((1u << (count)) - 1), p)
#define MASK_STORE(p, v, count) _mm512_mask_storeu_pd(p, (__mmask8)((1u << (count)) - 1), (__m512d)(v))
#elif defined(__AVX2__)
#define MASK_LOAD(p, count)     _mm256_maskload_pd(p, first_lanes(count, 8))
#define MASK_STORE(p, v, count) _mm256_maskstore_pd(p, first_lanes(count, 8), (__m256d)(v))
#endif
#include "backends/cpu/kernels/tiles_template.h"
#endif
