/* The loops of bench/support/limits_loops.h for each width of vectors, and the choice among them. */
#include "support/limits.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>

#define NAME(name)            name##_avx512
#define TARGET                __attribute__((target("avx512f")))
#define VECTOR                __m512
#define WIDTH                 16
#define SET(x)                _mm512_set1_ps(x)
#define LOAD(p)               _mm512_load_ps(p)
#define STORE(p, v)           _mm512_store_ps(p, v)
#define STREAM(p, v)          _mm512_stream_ps(p, v)
#define ADD(x, y)             _mm512_add_ps(x, y)
#define MULTIPLY_ADD(x, y, z) _mm512_fmadd_ps(x, y, z)
#define FENCE()               _mm_sfence()
#include "support/limits_loops.h"

#define NAME(name)            name##_avx2
#define TARGET                __attribute__((target("avx2,fma")))
#define VECTOR                __m256
#define WIDTH                 8
#define SET(x)                _mm256_set1_ps(x)
#define LOAD(p)               _mm256_load_ps(p)
#define STORE(p, v)           _mm256_store_ps(p, v)
#define STREAM(p, v)          _mm256_stream_ps(p, v)
#define ADD(x, y)             _mm256_add_ps(x, y)
#define MULTIPLY_ADD(x, y, z) _mm256_fmadd_ps(x, y, z)
#define FENCE()               _mm_sfence()
#include "support/limits_loops.h"

#define NAME(name) name##_base
#define TARGET
#define VECTOR                __m128
#define WIDTH                 4
#define SET(x)                _mm_set1_ps(x)
#define LOAD(p)               _mm_load_ps(p)
#define STORE(p, v)           _mm_store_ps(p, v)
#define STREAM(p, v)          _mm_stream_ps(p, v)
#define ADD(x, y)             _mm_add_ps(x, y)
#define MULTIPLY_ADD(x, y, z) _mm_add_ps(_mm_mul_ps(x, y), z)
#define FENCE()               _mm_sfence()
#include "support/limits_loops.h"

static void fill_by_instruction(float *to, int64_t n)
{
    const float one = 1;
    uint32_t    bits;
    memcpy(&bits, &one, sizeof bits);
    __asm__ volatile("rep stosl" : "+D"(to), "+c"(n) : "a"(bits) : "memory");
}

float limit_run(limit_kind kind, limit_stores stores, float *to, const float *a, const float *b, int64_t n)
{
    const char *level = getenv("HAUL_CPU_LEVEL");
    bool        base = level && strcmp(level, "base") == 0, v3 = level && strcmp(level, "v3") == 0;
    if (kind == LIMIT_FILL && stores == LIMIT_OWN) {
        fill_by_instruction(to, n);
        return 1;
    }
    if (!base && !v3 && __builtin_cpu_supports("avx512f"))
        return run_avx512(kind, stores, to, a, b, n);
    if (!base && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return run_avx2(kind, stores, to, a, b, n);
    return run_base(kind, stores, to, a, b, n);
}

#else

#define NAME(name) name##_base
#define TARGET
#define VECTOR                float
#define WIDTH                 1
#define SET(x)                (x)
#define LOAD(p)               (*(p))
#define STORE(p, v)           (*(p) = (v))
#define STREAM(p, v)          (*(p) = (v))
#define ADD(x, y)             ((x) + (y))
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
#define FENCE()               ((void)0)
#include "support/limits_loops.h"

float limit_run(limit_kind kind, limit_stores stores, float *to, const float *a, const float *b, int64_t n)
{
    return run_base(kind, stores, to, a, b, n);
}

#endif
