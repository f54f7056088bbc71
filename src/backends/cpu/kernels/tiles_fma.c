/* Register tiles for f32 and f64 at one instruction level; the build compiles this file once for each. */
#include <string.h>

#include "backends/cpu/tiles.h"

/* Vectors of the level's width; tiles that fill its registers and leave room for operands. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#define TILE_VECTORS 4
#define DOT_ROWS     6
#define DOT_COLUMNS  4
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#define TILE_VECTORS 2
#define DOT_ROWS     3
#define DOT_COLUMNS  4
#else
#define VECTOR_BYTES 16
#define TILE_VECTORS 2
#define DOT_ROWS     3
#define DOT_COLUMNS  4
#endif
#define TILE_ROWS 6

/* Without it compilers keep the accumulators in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif
#define INLINE         static inline __attribute__((always_inline))
#define CAT3_(a, b, c) a##_##b##_##c
#define CAT3(a, b, c)  CAT3_(a, b, c)

#define REAL       float
#define NAME(name) CAT3(name, f32, HAUL_KERNEL_LEVEL)
#include "backends/cpu/kernels/tiles_template.h"
#undef REAL
#undef NAME

#define REAL       double
#define NAME(name) CAT3(name, f64, HAUL_KERNEL_LEVEL)
#include "backends/cpu/kernels/tiles_template.h"
