/* Products of packed panels for f32 and f64 at one instruction level, and with AVX-512 for bf16 by instructions for
 * pairs; the build compiles this file once for each level. */
#include <string.h>

#include "backends/cpu/gemm/panels.h"
#include "haul_config.h"

#include "backends/cpu/kernels/partial_vectors.h"
#include "backends/cpu/kernels/vectors.h"

/* Sums that fill the level's registers and leave room for operands. */
#if defined(__AVX512F__)
#define TILE_ROWS          14
#define EACH_ROWS(action)  EACH_OF_6(action) EACH_OF_14(action)
#define AHEAD              16 /* rows of B that are fetched ahead; 0: none, where loads already take most of the time */
#define FIRST_ROWS         10 /* the fewest rows of the first of several tiles */
#define EACH_FIRST(action) action(10) action(11) action(12) action(13) action(14)
#else
#define TILE_ROWS          6
#define EACH_ROWS(action)  EACH_OF_6(action)
#define AHEAD              0
#define FIRST_ROWS         5
#define EACH_FIRST(action) action(5) action(6)
#endif
#define TILE_VECTORS       2
#define EACH_OF_6(action)  action(1) action(2) action(3) action(4) action(5) action(6)
#define EACH_OF_14(action) action(7) action(8) action(9) action(10) action(11) action(12) action(13) action(14)
#define AHEAD_APART        12 /* the same for rows that are not in a panel: they may share sets of a cache */
#define PREFETCH_DEPTH     48 /* rows of B above which C is fetched early */

#define LANES       (VECTOR_BYTES / (int)sizeof(REAL))
#define WIDTH       (TILE_VECTORS * LANES)
#define VECTOR      NAME(vector)
#define LOAD(p)     (*(const VECTOR *)(p))
#define STORE(p, v) (*(VECTOR *)(p) = (v))

/* ---- square blocks, transposed: to[i * to_row + j] = from[j * from_row + i] ---- */

#if defined(__SSE2__)
#define TURN_f32 4
INLINE void turn_f32(float *to, int64_t to_row, const float *from, int64_t from_row)
{
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_row);
    __m128 c = _mm_loadu_ps(from + 2 * from_row), d = _mm_loadu_ps(from + 3 * from_row);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_row, b);
    _mm_storeu_ps(to + 2 * to_row, c);
    _mm_storeu_ps(to + 3 * to_row, d);
}
#define TURN_f64 2
INLINE void turn_f64(double *to, int64_t to_row, const double *from, int64_t from_row)
{
    __m128d a = _mm_loadu_pd(from), b = _mm_loadu_pd(from + from_row);
    _mm_storeu_pd(to, _mm_unpacklo_pd(a, b));
    _mm_storeu_pd(to + to_row, _mm_unpackhi_pd(a, b));
}
#else
#define TURN_f32                         1
#define TURN_f64                         1
#define turn_f32(to, unused, from, same) (*(to) = *(from))
#define turn_f64(to, unused, from, same) (*(to) = *(from))
#endif

/* True if the first tile of a strip copies its panel. */
#ifdef HAUL_SMALL
#define COPIES 0
#else
#define COPIES 1
#endif

#define REAL                    float
#define MATRIX                  REAL
#define PACKED                  REAL
#define NAME(name)              CAT3(name, f32, HAUL_KERNEL_LEVEL)
#define LOAD_PART(p, count)     LOAD_PART_f32(p, count)
#define STORE_PART(p, v, count) STORE_PART_f32(p, v, count)
#define TURN                    TURN_f32
#define TURN_BLOCK              turn_f32
#define MULTIPLY_ADD(sum, w, x) ((sum) += (w) * (x))
#include "backends/cpu/kernels/panels_packing.h"
#include "backends/cpu/kernels/panels_template.h"

#ifndef HAUL_SMALL
/* after the panels of f32 */
#include "backends/cpu/kernels/panels_pixels.h"
#undef REAL
#undef NAME
#undef LOAD_PART
#undef STORE_PART
#undef TURN
#undef TURN_BLOCK

#define REAL                    double
#define NAME(name)              CAT3(name, f64, HAUL_KERNEL_LEVEL)
#define LOAD_PART(p, count)     LOAD_PART_f64(p, count)
#define STORE_PART(p, v, count) STORE_PART_f64(p, v, count)
#define TURN                    TURN_f64
#define TURN_BLOCK              turn_f64
#include "backends/cpu/kernels/panels_packing.h"
#include "backends/cpu/kernels/panels_template.h"

/* The processor must have AVX512-BF16, which the level does not include. */
#if defined(__AVX512F__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512bf16"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512bf16")
#endif
#undef REAL
#undef NAME
#undef LOAD_PART
#undef STORE_PART
#undef MULTIPLY_ADD
#undef MATRIX
#undef PACKED
#undef COPIES

#define COPIES                  0
#define REAL                    bits_of_pair
#define MATRIX                  uint16_t
#define PACKED                  uint32_t
#define NAME(name)              CAT3(name, bf16, HAUL_KERNEL_LEVEL)
#define LOAD_PART(p, count)     LOAD_PART_f32(p, count)
#define STORE_PART(p, v, count) STORE_PART_f32(p, v, count)
#define MULTIPLY_ADD(sum, w, x)                                                                                        \
    ((sum) = (VECTOR)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_ps(w), (__m512bh)(x)))
typedef float bits_of_pair __attribute__((may_alias));
typedef float VECTOR __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(float)), may_alias));

#include "backends/cpu/kernels/panels_pairs.h"

static void NAME(pack_tile)(uint32_t *to, const uint16_t *a, int64_t row, int64_t column, int64_t k, int64_t rows)
{
    if (row == 1)
        pair_adjacent(to, TILE_ROWS, a, column, k, (int)rows);
    else
        pair_apart(to, TILE_ROWS, a, column, row, k, (int)rows);
}

#include "backends/cpu/kernels/panels_template.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
#endif
