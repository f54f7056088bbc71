/* OpenCL C 1.2 prelude of kernel text; backends/cpu/prelude.h says what each name means. CHUNKED is given by the
 * backend: on processors a work item takes a run of consecutive items, on GPUs every n-th. */
// clang-format off
#pragma OPENCL FP_CONTRACT OFF
#ifdef HAS_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double F64;
#endif
typedef uchar  U8;
typedef ushort U16;
typedef uint   U32;
typedef ulong  U64;
typedef char   I8;
typedef short  I16;
typedef int    I32;
typedef long   I64;
typedef float  F32;

#define GLOBAL   __global
#define CONSTANT __constant
#define PRIVATE  __private
#define FUNC     static inline
#define INLINE   static inline
#if CHUNKED && defined(__GNUC__)
#define RARE_FUNC static __attribute__((noinline))
#else
#define RARE_FUNC FUNC
#endif
#define HAS_VECTORS 1
/* The turns of a loop do not depend on one another, also where a result is in the place of an operand. Without the
 * pragma clang compares the addresses, and then computes element by element. clang makes vectors of 32 bytes where 64
 * are possible, unless a pragma gives the elements of a vector. The pragmas also allow it to change the order of
 * additions, so a loop with them must not add floats up. */
#if CHUNKED && defined(__clang__) && defined(__AVX512F__) &&                                                           \
    (defined(HAUL_KERNEL_DTYPE_f32) || defined(HAUL_KERNEL_DTYPE_f16) || defined(HAUL_KERNEL_DTYPE_bf16))
#define VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety) vectorize_width(16)")
#elif CHUNKED && defined(__clang__)
#define VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define VECTOR_LOOP
#endif
FUNC void LOADS_IN_ORDER(void) {}
#define BLOCK_LOOP
#define PACK_LOOP
#define PACK_REST

#if CHUNKED
#define HAUL_CHUNK      ((p.items + (I64)get_global_size(0) - 1) / (I64)get_global_size(0))
#define ITEMS_BEGIN     ((I64)get_global_id(0) * HAUL_CHUNK)
#define HAUL_CHUNK_END  (((I64)get_global_id(0) + 1) * HAUL_CHUNK)
#define ITEMS_END       (HAUL_CHUNK_END < p.items ? HAUL_CHUNK_END : p.items)
FUNC I64 ITEMS_STEP(I64 row) { return row; }
#define FOR_ITEMS(i)    for (I64 i = ITEMS_BEGIN, haul_end = ITEMS_END; i < haul_end; i++)
#else
#define ITEMS_BEGIN     ((I64)get_global_id(0))
#define ITEMS_END       (p.items)
FUNC I64 ITEMS_STEP(I64 row) { (void)row; return (I64)get_global_size(0); }
#define FOR_ITEMS(i)    for (I64 i = get_global_id(0); i < p.items; i += get_global_size(0))
#endif

FUNC I64 QUOTIENT(I64 a, I64 b) { return a / b; }
FUNC I64 REMAINDER(I64 a, I64 b) { return a % b; }

/* The lanes form: one work item does all lanes. Mesa unrolls every loop of up to 32 turns, and then needs minutes for a
 * kernel with several, so there it does not know the number: grids have one dimension. */
#ifdef HAUL_LLVMPIPE
#define HAUL_TURNS(n)     ((int)(n) * (int)get_work_dim())
#else
#define HAUL_TURNS(n)     ((int)(n))
#endif
#define FOR_ROWS(i)       FOR_ITEMS(i)
#define LANE_VALUES(V, s) V s[SUM_LANES]
#define OF_LANE(s, l)     (s)[l]
#define EACH_LANE(l, n)   for (int l = 0; l < HAUL_TURNS(n); l++)
#define EACH_REST(l, n)   EACH_LANE(l, n)
#define IN_REST(l, n, value, other) (value)
#define EACH_PART(g, V)   for (int g = 0; g < 1; g++)
#define PART_VALUES(V, s) V s[SUM_LANES]
#define OF_PART(s, l)     (s)[l]
#define EACH_OF_PART(l, V) EACH_LANE(l, SUM_LANES)
#define EACH_OF_ROW(j, n) VECTOR_LOOP for (I64 j = 0; j < (n); j++)
#define HAUL_LEVEL(s, STEP, w) for (int haul_l = 0; haul_l < HAUL_TURNS(w); haul_l++) (s)[haul_l] = STEP((s)[haul_l], (s)[haul_l + w]);
#define LANE_TREE(V, s, STEP)                                                                                          \
    HAUL_LEVEL(s, STEP, 16) HAUL_LEVEL(s, STEP, 8) HAUL_LEVEL(s, STEP, 4) HAUL_LEVEL(s, STEP, 2) HAUL_LEVEL(s, STEP, 1)
#define OF_FIRST_LANE(s)  (s)[0]
#define IS_FIRST_LANE     1
enum { LANES_ARE_THREADS = 0 };
#define LANE_UNROLL
#define FIND_IN_ROW(found, j, n, condition)                                                                            \
    I64 found = 0;                                                                                                     \
    for (I32 haul_any = 0; !haul_any && found + SUM_LANES < (n); found += haul_any ? 0 : SUM_LANES)                    \
        for (I64 j = found; j < found + SUM_LANES; j++) haul_any |= (condition) ? 1 : 0;                               \
    for (I64 j = found; found = j, j < (n) - 1 && !(condition); j++) {}

#define CAT_(a, b)   a##_##b
#define CAT(a, b)    CAT_(a, b)
#define HAUL_NAME(kernel) CAT(k_##kernel, HAUL_KERNEL_SUFFIX)

/* HAUL_WANTED_name is defined for the kernel that is wanted, and without one all are. The others are functions that
 * nothing calls: the compiler drops them before it spends time on them. No macro is variadic: OpenCL C has none, and
 * NVIDIA's compiler refuses them. So the wanted kernel follows the declaration of a function that does not exist. */
#ifdef HAUL_WANTS_ONE
#define HAUL_IS_WANTED(name)    haul_nothing(void); __kernel void HAUL_NAME(name)
#define HAUL_KERNEL_OF(name)    static void HAUL_WANTED_##name
#else
#define HAUL_KERNEL_OF(name)    __kernel void HAUL_NAME(name)
#endif
/* HAUL_KERNEL_FROM(name, (parameters), P, (arguments)) begins a kernel. llvmpipe of Mesa 22 cannot read a kernel's params at
 * an index that differs between work items, so there the kernel copies its params and calls a function with its text. */
#ifdef HAUL_LLVMPIPE
#define HAUL_KERNEL_FROM(name, parameters, P, arguments)                                                               \
    static void HAUL_NAME(of_##name) parameters;                                                                            \
    HAUL_KERNEL_OF(name) parameters                                                                                    \
    {                                                                                                                  \
        const P haul_p = p;                                                                                            \
        HAUL_NAME(of_##name) arguments;                                                                                     \
    }                                                                                                                  \
    static void HAUL_NAME(of_##name) parameters
#else
#define HAUL_KERNEL_FROM(name, parameters, P, arguments) HAUL_KERNEL_OF(name) parameters
#endif
#define KERNEL1(name, P, T0, b0)                                                                                       \
    HAUL_KERNEL_FROM(name, (__global T0 *b0, const P p), P, (b0, haul_p))
#define KERNEL2(name, P, T0, b0, T1, b1)                                                                               \
    HAUL_KERNEL_FROM(name, (__global T0 *b0, __global T1 *b1, const P p), P, (b0, b1, haul_p))
#define KERNEL3(name, P, T0, b0, T1, b1, T2, b2)                                                                       \
    HAUL_KERNEL_FROM(name, (__global T0 *b0, __global T1 *b1, __global T2 *b2, const P p), P, (b0, b1, b2, haul_p))
#define KERNEL4(name, P, T0, b0, T1, b1, T2, b2, T3, b3)                                                               \
    HAUL_KERNEL_FROM(name, (__global T0 *b0, __global T1 *b1, __global T2 *b2, __global T3 *b3, const P p), P,         \
                     (b0, b1, b2, b3, haul_p))
#define KERNEL5(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4)                                                       \
    HAUL_KERNEL_FROM(name, (__global T0 *b0, __global T1 *b1, __global T2 *b2, __global T3 *b3,                        \
                            __global T4 *b4, const P p), P, (b0, b1, b2, b3, b4, haul_p))
#define KERNEL6(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4, T5, b5)                                               \
    HAUL_KERNEL_FROM(name, (__global T0 *b0, __global T1 *b1, __global T2 *b2, __global T3 *b3, __global T4 *b4,       \
                            __global T5 *b5, const P p), P, (b0, b1, b2, b3, b4, b5, haul_p))
#define KERNEL7(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4, T5, b5, T6, b6)                                       \
    HAUL_KERNEL_FROM(name, (__global T0 *b0, __global T1 *b1, __global T2 *b2, __global T3 *b3, __global T4 *b4,       \
                            __global T5 *b5, __global T6 *b6, const P p), P, (b0, b1, b2, b3, b4, b5, b6, haul_p))

/* llvmpipe of Mesa 22 crashes when it compiles a load or store of a struct of a few bytes. */
#ifdef HAUL_LLVMPIPE
#define PACK_MOVE(S, TO, to, FROM, from)                                                                               \
    for (int haul_k = 0; haul_k < PACK; haul_k++) ((TO S *)(to))[haul_k] = ((FROM const S *)(from))[haul_k]
#endif

FUNC F32 BITS_F32(U32 bits) { return as_float(bits); }
FUNC U32 F32_BITS(F32 x) { return as_uint(x); }
#ifdef HAS_F64
FUNC F64 BITS_F64(U64 bits) { return as_double(bits); }
FUNC U64 F64_BITS(F64 x) { return as_ulong(x); }
#endif
FUNC U32 MULHI32(U32 a, U32 b) { return mul_hi(a, b); }

FUNC I32 TAKE_WORD(GLOBAL U32 *word, U32 mine) { return atomic_cmpxchg(word, 0u, mine) == 0u; }

/* Stores past the caches and fetches ahead, on x86 processors whose driver uses clang and generates code for the
 * processor directly. Private and global memory share one address space there, so pointers to one can be cast to the
 * other by way of a number. */
#define HAUL_X86 0
#if CHUNKED && defined(__SSE2__) && defined(__has_builtin)
#if __has_builtin(__builtin_nontemporal_store) && __has_builtin(__builtin_ia32_sfence)
#undef HAUL_X86
#define HAUL_X86 1
#endif
#endif
#if HAUL_X86
FUNC void FETCH_AHEAD(GLOBAL const void *at) { __builtin_prefetch((const void *)(U64)at); }
/* Blocks are stored from memory: clang keeps no array in registers whose address becomes a number. */
enum { HAS_LINES = 1, FIXED_BLOCK = 256 };
FUNC GLOBAL void *LINES_IN(PRIVATE void *memory) { return (GLOBAL void *)(U64)memory; }
FUNC void PUT_LINES_END(I32 nontemporal) { if (nontemporal) __builtin_ia32_sfence(); }
FUNC U64 BYTES_TO_LINE(GLOBAL const void *o) { return -(U64)o & 63; }
FUNC void COUNTS_AS_READ(PRIVATE const void *line) { __asm__("" : : "m"(*(PRIVATE const char(*)[64])line)); }
typedef uint16 haul_line __attribute__((aligned(1)));
FUNC void haul_put_line(GLOBAL U8 *to, GLOBAL const U8 *from)
{
    const uint16 v = *(GLOBAL const haul_line *)from;
    __builtin_nontemporal_store(v, (GLOBAL uint16 *)to);
}
FUNC void PUT_LINE(GLOBAL void *o, PRIVATE const void *line) { haul_put_line((GLOBAL U8 *)o, (GLOBAL const U8 *)(U64)line); }
FUNC void PUT_LINES(GLOBAL void *o, GLOBAL const void *q, U64 size)
{
    GLOBAL U8 *to = (GLOBAL U8 *)o;
    GLOBAL const U8 *from = (GLOBAL const U8 *)q;
    const U64 before = BYTES_TO_LINE(to), head = before < size ? before : size, last = size - (size - head) % 64;
    for (U64 k = 0; k < head; k++) to[k] = from[k];
    for (U64 k = head; k < last; k += 64) haul_put_line(to + k, from + k);
    for (U64 k = last; k < size; k++) to[k] = from[k];
}
#else
FUNC void FETCH_AHEAD(GLOBAL const void *at) { (void)at; }
enum { HAS_LINES = 0, FIXED_BLOCK = 0 };
FUNC GLOBAL void *LINES_IN(PRIVATE void *memory) { (void)memory; return 0; }
FUNC void PUT_LINES(GLOBAL void *o, GLOBAL const void *q, U64 size) { (void)o, (void)q, (void)size; }
FUNC void PUT_LINE(GLOBAL void *o, PRIVATE const void *line) { (void)o, (void)line; }
FUNC void PUT_LINES_END(I32 nontemporal) { (void)nontemporal; }
FUNC U64 BYTES_TO_LINE(GLOBAL const void *o) { (void)o; return 0; }
FUNC void COUNTS_AS_READ(PRIVATE const void *line) { (void)line; }
#endif

/* Mathematical functions of type A. Drivers may define the built-in functions as macros, which would change the names of
 * kernels called the same; behind these the backend can undefine the names of a unit's kernels. */
#if defined(HAUL_KERNEL_DTYPE_f64)
#define HAUL_REAL F64
#else
#define HAUL_REAL F32
#endif
#define M1(function) haul_##function
#define HAUL_UNARY_FUNCTION(function)                                                                                  \
    FUNC HAUL_REAL haul_##function(HAUL_REAL x) { return function(x); }
HAUL_UNARY_FUNCTION(fabs)
HAUL_UNARY_FUNCTION(sqrt)
HAUL_UNARY_FUNCTION(floor)
HAUL_UNARY_FUNCTION(ceil)
HAUL_UNARY_FUNCTION(rint)
HAUL_UNARY_FUNCTION(exp)
HAUL_UNARY_FUNCTION(expm1)
HAUL_UNARY_FUNCTION(log)
HAUL_UNARY_FUNCTION(log1p)
HAUL_UNARY_FUNCTION(sin)
HAUL_UNARY_FUNCTION(cos)
HAUL_UNARY_FUNCTION(tanh)
HAUL_UNARY_FUNCTION(erf)
HAUL_UNARY_FUNCTION(erfc)
HAUL_UNARY_FUNCTION(trunc)
HAUL_UNARY_FUNCTION(exp2)
HAUL_UNARY_FUNCTION(log2)
HAUL_UNARY_FUNCTION(log10)
HAUL_UNARY_FUNCTION(tan)
HAUL_UNARY_FUNCTION(asin)
HAUL_UNARY_FUNCTION(acos)
HAUL_UNARY_FUNCTION(atan)
HAUL_UNARY_FUNCTION(sinh)
HAUL_UNARY_FUNCTION(cosh)
HAUL_UNARY_FUNCTION(asinh)
HAUL_UNARY_FUNCTION(acosh)
HAUL_UNARY_FUNCTION(atanh)
FUNC HAUL_REAL haul_pow(HAUL_REAL x, HAUL_REAL y) { return pow(x, y); }
FUNC HAUL_REAL haul_atan2(HAUL_REAL y, HAUL_REAL x) { return atan2(y, x); }
FUNC HAUL_REAL haul_hypot(HAUL_REAL x, HAUL_REAL y) { return hypot(x, y); }
FUNC HAUL_REAL haul_fma(HAUL_REAL x, HAUL_REAL y, HAUL_REAL z) { return fma(x, y, z); }
FUNC HAUL_REAL haul_fmod(HAUL_REAL x, HAUL_REAL y) { return fmod(x, y); }

#if CHUNKED && !defined(HAUL_KERNEL_DTYPE_f64)
enum { LANES = VECTOR_BYTES_CPU / 4 };
typedef float16 V;
#define VLOAD(p)     vload16(0, p)
#define VSTORE(p, v) vstore16(v, 0, p)
#elif CHUNKED
enum { LANES = VECTOR_BYTES_CPU / 8 };
typedef double8 V;
#define VLOAD(p)     vload8(0, p)
#define VSTORE(p, v) vstore8(v, 0, p)
#elif !defined(HAUL_KERNEL_DTYPE_f64)
enum { LANES = VECTOR_BYTES_GPU / 4 };
typedef float4 V;
#define VLOAD(p)     vload4(0, p)
#define VSTORE(p, v) vstore4(v, 0, p)
#else
enum { LANES = VECTOR_BYTES_GPU / 8 };
typedef double2 V;
#define VLOAD(p)     vload2(0, p)
#define VSTORE(p, v) vstore2(v, 0, p)
#endif
#define VSPLAT(x)     ((V)(x))
#ifdef HAUL_LLVMPIPE /* its fma is a long function, of which a tile has a hundred copies */
#define VFMA(a, b, c) ((a) * (b) + (c))
#else
#define VFMA(a, b, c) fma(a, b, c)
#endif
