/* CUDA's own words, for kernel text compiled as C for the host: read before the text that NVRTC was given.
 *
 * Threads of a block run one at a time (block.c), so atomics need no atomic instructions. Kernels are found by the word
 * __global__, which therefore must not be a macro: nvrtc_text.c removes it. */
#include "module.h"

#define __CUDACC_RTC__ 1
#define __device__
#define __host__
#define __constant__    const
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define true 1
#define false 0
#define static_assert _Static_assert
#define alignas _Alignas
#define warpSize 32

typedef __SIZE_TYPE__ size_t;
typedef _Bool bool; /* no macro: names of kernels end in dtypes */

/* ---- the driver's services ---- */

static const struct standin_api *standin;

#define threadIdx (standin->state->threadIdx)
#define blockIdx  (standin->state->blockIdx)
#define blockDim  (standin->state->blockDim)
#define gridDim   (standin->state->gridDim)

/* Shared memory: one section, so that the driver can spoil it before each block. */
#define __shared__ static __attribute__((section("standin_shared")))
static char standin_shared_mark[1] __attribute__((section("standin_shared"), used));
extern char __start_standin_shared[], __stop_standin_shared[];

__attribute__((visibility("default"))) void standin_bind(const struct standin_api *api, char **shared, size_t *bytes)
{
    standin = api;
    *shared = __start_standin_shared;
    *bytes = (size_t)(__stop_standin_shared - __start_standin_shared);
}

static inline void *standin_untag(unsigned long long at)
{
    return STANDIN_UNTAG(at);
}

#define __syncthreads()       (standin->barrier())
#define __syncwarp(...)       ((void)standin->vote(0))
#define __threadfence()       ((void)0)
#define __threadfence_block() ((void)0)
#define __activemask()        0xFFFFFFFFu

/* ---- warps ---- */

static inline int standin_lane(void)
{
    return (int)((threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) & 31u);
}

/* The lane to take from, among `width` lanes (0: all); -1, nothing to take, gives the own value. */
static inline int standin_lane_at(int offset, int width)
{
    const int lane = standin_lane(), w = width ? width : 32, at = lane % w + offset;
    return at >= 0 && at < w ? lane - lane % w + at : -1;
}
static inline int standin_lane_of(int source, int width)
{
    const int lane = standin_lane(), w = width ? width : 32;
    return lane - lane % w + (source & (w - 1));
}

#define STANDIN_EXCHANGE(type, name)                                                                                   \
    static inline type standin_exchange_##name(type value, int lane)                                                   \
    {                                                                                                                  \
        unsigned long long bits = 0;                                                                                   \
        __builtin_memcpy(&bits, &value, sizeof value);                                                                 \
        bits = standin->exchange(bits, lane);                                                                          \
        __builtin_memcpy(&value, &bits, sizeof value);                                                                 \
        return value;                                                                                                  \
    }
STANDIN_EXCHANGE(float, float)
STANDIN_EXCHANGE(double, double)
STANDIN_EXCHANGE(int, int)
STANDIN_EXCHANGE(unsigned, unsigned)
STANDIN_EXCHANGE(long, long)
STANDIN_EXCHANGE(unsigned long, unsigned_long)
STANDIN_EXCHANGE(long long, long_long)
STANDIN_EXCHANGE(unsigned long long, unsigned_long_long)
#define STANDIN_TAKE(value, lane)                                                                                      \
    (_Generic((value) + 0, float                                                                                       \
              : standin_exchange_float, double                                                                         \
              : standin_exchange_double, int                                                                           \
              : standin_exchange_int, unsigned                                                                         \
              : standin_exchange_unsigned, long                                                                        \
              : standin_exchange_long, unsigned long                                                                   \
              : standin_exchange_unsigned_long, long long                                                              \
              : standin_exchange_long_long, unsigned long long                                                         \
              : standin_exchange_unsigned_long_long)((value), (lane)))

#define __shfl_sync(mask, value, lane, ...)       STANDIN_TAKE(value, standin_lane_of((int)(lane), __VA_ARGS__ + 0))
#define __shfl_down_sync(mask, value, delta, ...) STANDIN_TAKE(value, standin_lane_at((int)(delta), __VA_ARGS__ + 0))
#define __shfl_up_sync(mask, value, delta, ...)   STANDIN_TAKE(value, standin_lane_at(-(int)(delta), __VA_ARGS__ + 0))
#define __shfl_xor_sync(mask, value, bits, ...)   STANDIN_TAKE(value, standin_lane() ^ (int)(bits))
#define __ballot_sync(mask, predicate)            (standin->vote((predicate) != 0))
#define __any_sync(mask, predicate)               (standin->vote((predicate) != 0) != 0)
#define __all_sync(mask, predicate)               (standin->vote((predicate) == 0) == 0)

/* ---- atomics: the old value is the result ---- */

#define STANDIN_ATOMIC(at, value, result)                                                                              \
    ({                                                                                                                 \
        __typeof__(at)         at_ = (at);                                                                             \
        __typeof__(*at_)       old_ = *at_;                                                                            \
        const __typeof__(old_) value_ = (value);                                                                       \
        *at_ = (result);                                                                                               \
        old_;                                                                                                          \
    })
#define atomicAdd(at, value)          STANDIN_ATOMIC(at, value, old_ + value_)
#define atomicSub(at, value)          STANDIN_ATOMIC(at, value, old_ - value_)
#define atomicMax(at, value)          STANDIN_ATOMIC(at, value, old_ > value_ ? old_ : value_)
#define atomicMin(at, value)          STANDIN_ATOMIC(at, value, old_ < value_ ? old_ : value_)
#define atomicAnd(at, value)          STANDIN_ATOMIC(at, value, old_ &value_)
#define atomicOr(at, value)           STANDIN_ATOMIC(at, value, old_ | value_)
#define atomicXor(at, value)          STANDIN_ATOMIC(at, value, old_ ^ value_)
#define atomicExch(at, value)         STANDIN_ATOMIC(at, value, value_)
#define atomicInc(at, value)          STANDIN_ATOMIC(at, value, old_ >= value_ ? 0 : old_ + 1)
#define atomicCAS(at, compare, value) STANDIN_ATOMIC(at, value, old_ == (compare) ? value_ : old_)

/* ---- vectors ---- */

#define STANDIN_VECTORS(type, name)                                                                                    \
    typedef struct name##2                                                                                             \
    {                                                                                                                  \
        type x, y;                                                                                                     \
    }                                                                                                                  \
    __attribute__((aligned(2 * sizeof(type)))) name##2;                                                                \
    typedef struct name##4                                                                                             \
    {                                                                                                                  \
        type x, y, z, w;                                                                                               \
    }                                                                                                                  \
    __attribute__((aligned(4 * sizeof(type) > 16 ? 16 : 4 * sizeof(type)))) name##4;                                   \
    static inline name##2 make_##name##2(type x, type y)                                                               \
    {                                                                                                                  \
        return (name##2){x, y};                                                                                        \
    }                                                                                                                  \
    static inline name##4 make_##name##4(type x, type y, type z, type w)                                               \
    {                                                                                                                  \
        return (name##4){x, y, z, w};                                                                                  \
    }
STANDIN_VECTORS(float, float)
STANDIN_VECTORS(double, double)
STANDIN_VECTORS(signed char, char)
STANDIN_VECTORS(unsigned char, uchar)
STANDIN_VECTORS(short, short)
STANDIN_VECTORS(unsigned short, ushort)
STANDIN_VECTORS(int, int)
STANDIN_VECTORS(unsigned, uint)
STANDIN_VECTORS(long long, longlong)
STANDIN_VECTORS(unsigned long long, ulonglong)

/* ---- intrinsic functions ---- */

#define STANDIN_BITS(name, to, from)                                                                                   \
    static inline to name(from value)                                                                                  \
    {                                                                                                                  \
        to bits;                                                                                                       \
        __builtin_memcpy(&bits, &value, sizeof bits);                                                                  \
        return bits;                                                                                                   \
    }
STANDIN_BITS(__float_as_uint, unsigned, float)
STANDIN_BITS(__float_as_int, int, float)
STANDIN_BITS(__uint_as_float, float, unsigned)
STANDIN_BITS(__int_as_float, float, int)
STANDIN_BITS(__double_as_longlong, long long, double)
STANDIN_BITS(__longlong_as_double, double, long long)

#define __umulhi(a, b) ((unsigned)(((unsigned long long)(unsigned)(a) * (unsigned)(b)) >> 32))
#define __mulhi(a, b)  ((int)(((long long)(int)(a) * (int)(b)) >> 32))
#define __umul64hi(a, b)                                                                                               \
    ((unsigned long long)(((unsigned __int128)(unsigned long long)(a) * (unsigned long long)(b)) >> 64))
#define __popc(x)         __builtin_popcount(x)
#define __popcll(x)       __builtin_popcountll(x)
#define __clz(x)          ((x) ? __builtin_clz(x) : 32)
#define __clzll(x)        ((x) ? __builtin_clzll(x) : 64)
#define __ffs(x)          __builtin_ffs(x)
#define __ldg(at)         (*(at))
#define __ldcs(at)        (*(at))
#define __ldcg(at)        (*(at))
#define __stcs(at, value) ((void)(*(at) = (value)))
#define __stcg(at, value) ((void)(*(at) = (value)))

/* -ffp-contract never joins what passes through a function that is not inlined. */
#define STANDIN_ROUNDED(name, type, expression)                                                                        \
    static __attribute__((noinline)) type name(type a, type b)                                                         \
    {                                                                                                                  \
        return expression;                                                                                             \
    }
STANDIN_ROUNDED(__fadd_rn, float, a + b)
STANDIN_ROUNDED(__fsub_rn, float, a - b)
STANDIN_ROUNDED(__fmul_rn, float, a *b)
STANDIN_ROUNDED(__fdiv_rn, float, a / b)
STANDIN_ROUNDED(__dadd_rn, double, a + b)
STANDIN_ROUNDED(__dsub_rn, double, a - b)
STANDIN_ROUNDED(__dmul_rn, double, a *b)
STANDIN_ROUNDED(__ddiv_rn, double, a / b)
#define __fmaf_rn(a, b, c) fmaf(a, b, c)
#define __fma_rn(a, b, c)  fma(a, b, c)
#define __fsqrt_rn(a)      sqrtf(a)
#define __dsqrt_rn(a)      sqrt(a)
#define rsqrtf(a)          (1.0f / sqrtf(a))
#define rsqrt(a)           (1.0 / sqrt(a))

#define STANDIN_MATH1(name)                                                                                            \
    float  name##f(float);                                                                                             \
    double name(double);
#define STANDIN_MATH2(name)                                                                                            \
    float  name##f(float, float);                                                                                      \
    double name(double, double);
STANDIN_MATH1(fabs)
STANDIN_MATH1(sqrt)
STANDIN_MATH1(cbrt)
STANDIN_MATH1(floor)
STANDIN_MATH1(ceil)
STANDIN_MATH1(rint)
STANDIN_MATH1(round)
STANDIN_MATH1(trunc)
STANDIN_MATH1(exp)
STANDIN_MATH1(exp2)
STANDIN_MATH1(expm1)
STANDIN_MATH1(log)
STANDIN_MATH1(log2)
STANDIN_MATH1(log10)
STANDIN_MATH1(log1p)
STANDIN_MATH1(sin)
STANDIN_MATH1(cos)
STANDIN_MATH1(tan)
STANDIN_MATH1(asin)
STANDIN_MATH1(acos)
STANDIN_MATH1(atan)
STANDIN_MATH1(sinh)
STANDIN_MATH1(cosh)
STANDIN_MATH1(tanh)
STANDIN_MATH1(asinh)
STANDIN_MATH1(acosh)
STANDIN_MATH1(atanh)
STANDIN_MATH1(erf)
STANDIN_MATH1(erfc)
STANDIN_MATH2(pow)
STANDIN_MATH2(fmod)
STANDIN_MATH2(fmax)
STANDIN_MATH2(fmin)
STANDIN_MATH2(atan2)
STANDIN_MATH2(hypot)
STANDIN_MATH2(copysign)
float  fmaf(float, float, float);
double fma(double, double, double);
#define isnan(x)    __builtin_isnan(x)
#define isinf(x)    __builtin_isinf(x)
#define isfinite(x) __builtin_isfinite(x)
#define memcpy      __builtin_memcpy
