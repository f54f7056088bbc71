/* What the CPU's innermost loops share: the bytes of a vector at this instruction level, and how they are compiled. */
#ifndef HAUL_BACKENDS_CPU_KERNELS_VECTORS_H
#define HAUL_BACKENDS_CPU_KERNELS_VECTORS_H

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* Without it compilers keep sums in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif
#define INLINE         static inline __attribute__((always_inline))
#define CAT3_(a, b, c) a##_##b##_##c
#define CAT3(a, b, c)  CAT3_(a, b, c)

#endif
