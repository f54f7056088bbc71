/* For kernel text where HAS_PAIRS: vectors of pairs of elements, as complex numbers are. Processors have them, but not
 * under OpenCL. */
#ifndef HAUL_BACKENDS_CPU_PAIRS_H
#define HAUL_BACKENDS_CPU_PAIRS_H
// clang-format off

#if defined(HAUL_KERNEL) && CHUNKED && HAS_VECTORS && !defined(__OPENCL_C_VERSION__)
#define HAS_PAIRS 1
/* PAIRS pairs: all alike; with the two of each pair swapped; with the first or the second one in place of both. */
#if defined(HAUL_KERNEL_DTYPE_f64)
enum { PAIRS = 2 };
typedef T pairs __attribute__((vector_size(32), aligned(8), may_alias));
INLINE pairs pairs_of(A a, A b) { return (pairs){a, b, a, b}; }
INLINE pairs pairs_swapped(pairs v) { return (pairs){v[1], v[0], v[3], v[2]}; }
INLINE pairs pairs_firsts(pairs v) { return (pairs){v[0], v[0], v[2], v[2]}; }
INLINE pairs pairs_seconds(pairs v) { return (pairs){v[1], v[1], v[3], v[3]}; }
#else
enum { PAIRS = 4 };
typedef T pairs __attribute__((vector_size(32), aligned(4), may_alias));
INLINE pairs pairs_of(A a, A b) { return (pairs){a, b, a, b, a, b, a, b}; }
INLINE pairs pairs_swapped(pairs v) { return (pairs){v[1], v[0], v[3], v[2], v[5], v[4], v[7], v[6]}; }
INLINE pairs pairs_firsts(pairs v) { return (pairs){v[0], v[0], v[2], v[2], v[4], v[4], v[6], v[6]}; }
INLINE pairs pairs_seconds(pairs v) { return (pairs){v[1], v[1], v[3], v[3], v[5], v[5], v[7], v[7]}; }
#endif
INLINE pairs pairs_load(const T *x) { return *(const pairs *)x; }
INLINE void pairs_store(T *y, pairs v) { *(pairs *)y = v; }
#else
#define HAS_PAIRS 0
#endif
// clang-format on

#endif
