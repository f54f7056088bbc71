/* CUDA prelude of kernel text, for NVRTC; backends/cpu/prelude.h says what each name means. A thread takes every n-th
 * work item.
 *
 * C as well as C++: a compiler of C that is given CUDA's words (threadIdx, __global__, __shfl_down_sync ...) and
 * <math.h> reads it too. No header is included, for NVRTC has none. Buffers are not __restrict__: operations in place
 * pass one buffer twice. */
// clang-format off
#ifdef __cplusplus
#define HAUL_ENTRY extern "C" __global__
#else
#define HAUL_ENTRY __global__
#endif

/* The most threads of a block that these kernels are launched with. */
#ifndef HAUL_BLOCK
#define HAUL_BLOCK 256
#endif

typedef unsigned char      U8;
typedef unsigned short     U16;
typedef unsigned int       U32;
typedef unsigned long long U64;
typedef signed char        I8;
typedef short              I16;
typedef int                I32;
typedef long long          I64;
typedef float              F32;
typedef double             F64;

#define GLOBAL
#define CONSTANT static __device__ const
#define PRIVATE
#define FUNC     static __device__ __forceinline__
#define INLINE   FUNC
#define RARE_FUNC FUNC
#define HAS_VECTORS 1
#define VECTOR_LOOP
FUNC void FETCH_AHEAD(const void *at) { (void)at; }
FUNC void LOADS_IN_ORDER(void) {}
#define BLOCK_LOOP
#ifndef CHUNKED
#define CHUNKED 0
#endif

#define ITEMS_BEGIN     ((I64)blockIdx.x * blockDim.x + threadIdx.x)
#define ITEMS_END       (p.items)
FUNC I64 ITEMS_STEP(I64 row) { (void)row; return (I64)gridDim.x * blockDim.x; }
#define FOR_ITEMS(i)    for (I64 i = ITEMS_BEGIN, haul_step = ITEMS_STEP(1); i < p.items; i += haul_step)

/* GPUs divide by 32 bits at most: divisions of 64 bits are calls of a long routine, around which variables are put
 * aside. A larger quotient takes one step for each bit; a negative number gives 0, and must not be used. */
FUNC I64 QUOTIENT(I64 a, I64 b)
{
    I64 part = b, q = 0;
    if (((U64)a | (U64)b) >> 32 == 0) return (I64)((U32)a / (U32)b);
    U64 bit = 1;
    for (; part <= a >> 1; part <<= 1) bit <<= 1;
    for (; bit; bit >>= 1, part >>= 1)
        if (a >= part) {
            a -= part;
            q |= (I64)bit;
        }
    return q;
}
FUNC I64 REMAINDER(I64 a, I64 b) { return a - QUOTIENT(a, b) * b; }

#define CAT_(a, b)   a##_##b
#define CAT(a, b)    CAT_(a, b)
#define HAUL_NAME(kernel) CAT(k_##kernel, HAUL_KERNEL_SUFFIX)

/* HAUL_WANTED_name is defined for the kernel that is wanted, and without one all are. The others are functions that
 * nothing calls: the compiler drops them before it spends time on them. */
#define HAUL_IS_WANTED           ~, HAUL_ENTRY void __launch_bounds__(HAUL_BLOCK)
#define HAUL_SECOND_(a, b, ...)  b
#define HAUL_SECOND(...)         HAUL_SECOND_(__VA_ARGS__)
#ifdef HAUL_WANTS_ONE
#define HAUL_KERNEL_OF(name)     HAUL_SECOND(HAUL_WANTED_##name, static __device__ void, ~) HAUL_NAME(name)
#else
#define HAUL_KERNEL_OF(name)     HAUL_ENTRY void __launch_bounds__(HAUL_BLOCK) HAUL_NAME(name)
#endif
#define KERNEL1(name, P, T0, b0) HAUL_KERNEL_OF(name)(T0 *b0, const P p)
#define KERNEL2(name, P, T0, b0, T1, b1) HAUL_KERNEL_OF(name)(T0 *b0, T1 *b1, const P p)
#define KERNEL3(name, P, T0, b0, T1, b1, T2, b2) HAUL_KERNEL_OF(name)(T0 *b0, T1 *b1, T2 *b2, const P p)
#define KERNEL4(name, P, T0, b0, T1, b1, T2, b2, T3, b3)                                                               \
    HAUL_KERNEL_OF(name)(T0 *b0, T1 *b1, T2 *b2, T3 *b3, const P p)
#define KERNEL5(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4)                                                       \
    HAUL_KERNEL_OF(name)(T0 *b0, T1 *b1, T2 *b2, T3 *b3, T4 *b4, const P p)
#define KERNEL6(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4, T5, b5)                                               \
    HAUL_KERNEL_OF(name)(T0 *b0, T1 *b1, T2 *b2, T3 *b3, T4 *b4, T5 *b5, const P p)
#define KERNEL7(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4, T5, b5, T6, b6)                                       \
    HAUL_KERNEL_OF(name)(T0 *b0, T1 *b1, T2 *b2, T3 *b3, T4 *b4, T5 *b5, T6 *b6, const P p)

/* Memory of a block's threads, and the point that all of them reach before one goes on. */
#define SHARED        __shared__
#define BLOCK_BARRIER __syncthreads()

/* Kernels with a text of their own in the folder text. */
#define OWN_TILES

/* A row a warp, a lane a thread. Blocks are whole warps, so all lanes of a warp come to the same words. */
typedef char haul_a_lane_is_a_thread[SUM_LANES == 32 ? 1 : -1]; /* of a warp */
#define HAUL_LANE            ((int)(threadIdx.x & 31u))
#define FOR_ROWS(i)          for (I64 i = ITEMS_BEGIN / 32, haul_step = ITEMS_STEP(1) / 32; i < p.items; i += haul_step)
#define LANE_VALUES(V, s)    V s
#define OF_LANE(s, l)        (s)
#define EACH_LANE(l, n)      for (int l = HAUL_LANE, haul_once = 1; haul_once && l < (int)(n); haul_once = 0)
#define EACH_REST(l, n)      EACH_LANE(l, n)
#define IN_REST(l, n, value, other) (value)
#define EACH_PART(g, V)      for (int g = 0, haul_part = 1; haul_part; haul_part = 0)
#define PART_VALUES(V, s)    V s
#define OF_PART(s, l)        (s)
#define EACH_OF_PART(l, V)   EACH_LANE(l, SUM_LANES)
#define EACH_OF_ROW(j, n)    for (I64 j = HAUL_LANE; j < (n); j += 32)
#define LANE_TREE(V, s, STEP)                                                                                          \
    for (int haul_w = 16; haul_w; haul_w /= 2) {                                                                       \
        const V haul_other = __shfl_down_sync(0xffffffffu, s, haul_w);                                                 \
        s = STEP(s, haul_other);                                                                                       \
    }
#define OF_FIRST_LANE(s)     __shfl_sync(0xffffffffu, s, 0)
#define IS_FIRST_LANE        (HAUL_LANE == 0)
enum { LANES_ARE_THREADS = 1 };
#ifdef __CUDACC__
#define LANE_UNROLL          _Pragma("unroll 16")
#define PACK_LOOP            _Pragma("unroll")
#define PACK_REST            _Pragma("unroll 1")
#else
#define LANE_UNROLL
#define PACK_LOOP
#define PACK_REST
#endif
#define HAUL_LEAST(a, b)     ((b) < (a) ? (b) : (a))
#define FIND_IN_ROW(found, j, n, condition)                                                                            \
    I64 found = (n) - 1;                                                                                               \
    for (I64 j = HAUL_LANE; j < (n); j += 32)                                                                          \
        if (condition) { found = j; break; }                                                                           \
    LANE_TREE(I64, found, HAUL_LEAST)

FUNC F32 BITS_F32(U32 bits) { return __uint_as_float(bits); }
FUNC U32 F32_BITS(F32 x) { return __float_as_uint(x); }
FUNC F64 BITS_F64(U64 bits) { return __longlong_as_double((I64)bits); }
FUNC U64 F64_BITS(F64 x) { return (U64)__double_as_longlong(x); }
FUNC U32 MULHI32(U32 a, U32 b) { return __umulhi(a, b); }
#define HAS_F64 1

#ifdef __CUDACC__
/* The GPU's own conversions of f16. They give the bits of those in common.h, but only one NaN. */
#define OWN_F16
FUNC F32 F16_TO_F32(U16 h)
{
    F32 x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
FUNC U16 F32_TO_F16(F32 x)
{
    U16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
#endif

FUNC I32 TAKE_WORD(U32 *word, U32 mine) { return atomicCAS(word, 0u, mine) == 0u; }

/* Stores past the caches are left to the device. */
enum { HAS_LINES = 0, FIXED_BLOCK = 0 };
FUNC void *LINES_IN(void *memory) { (void)memory; return 0; }
FUNC void PUT_LINES(void *o, const void *q, U64 size) { (void)o, (void)q, (void)size; }
FUNC void PUT_LINE(void *o, const void *line) { (void)o, (void)line; }
FUNC void COUNTS_AS_READ(const void *line) { (void)line; }
FUNC U64 BYTES_TO_LINE(const void *o) { (void)o; return 0; }
FUNC void PUT_LINES_END(I32 nontemporal) { (void)nontemporal; }

/* Mathematical functions of type A. */
#if defined(HAUL_KERNEL_DTYPE_f64)
#define M1(function) function
#else
#define M1(function) function##f
#endif

/* V: a vector of ACC, which need not be aligned. */
#if defined(HAUL_KERNEL_DTYPE_f64)
enum { LANES = VECTOR_BYTES_GPU / 8 };
#define HAUL_REAL F64
#else
enum { LANES = VECTOR_BYTES_GPU / 4 };
#define HAUL_REAL F32
#endif
typedef struct V {
    HAUL_REAL of[LANES];
} V;
FUNC V VSPLAT(HAUL_REAL x)
{
    V v;
    for (int l = 0; l < LANES; l++) v.of[l] = x;
    return v;
}
FUNC V VLOAD(const HAUL_REAL *p)
{
    V v;
    for (int l = 0; l < LANES; l++) v.of[l] = p[l];
    return v;
}
FUNC void VSTORE(HAUL_REAL *p, V v)
{
    for (int l = 0; l < LANES; l++) p[l] = v.of[l];
}
FUNC V VFMA(V a, V b, V c)
{
    for (int l = 0; l < LANES; l++) c.of[l] = M1(fma)(a.of[l], b.of[l], c.of[l]);
    return c;
}
