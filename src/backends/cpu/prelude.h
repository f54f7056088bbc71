/* Host C prelude of kernel text: a kernel becomes a function over a range of its work items.
 *
 * KERNELn(name, params, type0, buffer0, ...) begins a kernel with n buffers; `p` holds the params. Inside,
 * FOR_ITEMS(i) { ... } runs over the work items that are this call's, or ITEMS_BEGIN .. ITEMS_END in steps of
 * ITEMS_STEP(row) for kernels that take a row of consecutive items at once where CHUNKED is 1. */
// clang-format off
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifndef HAUL_KERNEL_H /* haul/kernel.h includes its own */
#include "kernels/constants.h"
#include "kernels/types.h"
#endif
#define GLOBAL
#define CONSTANT   static const
#define PRIVATE
#define FUNC       static inline
#define INLINE     static inline __attribute__((always_inline))
/* A function that is rarely called: its callers keep their registers, as it is not made a part of them. */
#define RARE_FUNC  static __attribute__((noinline))
#define CHUNKED    1
/* 0 at the level for processors from before 2013, whose kernels do without vectors of integers and larger blocks. */
#ifdef __AVX2__
#define HAS_VECTORS 1
#else
#define HAS_VECTORS 0
#endif
#define VECTOR_LOOP HAUL_VECTOR_LOOP
/* Begins to load a cache line, for later. */
INLINE void FETCH_AHEAD(const void *at) { __builtin_prefetch(at); }
/* Reads before it come before reads after it: processors fetch ahead only in order. */
INLINE void LOADS_IN_ORDER(void) { __asm__ volatile("" ::: "memory"); }
/* Before a loop of a few turns, whose number the compiler knows: vectors are better than turns one by one. */
#if defined(__clang__)
#define BLOCK_LOOP _Pragma("clang loop vectorize(assume_safety) unroll(disable)")
#else
#define BLOCK_LOOP _Pragma("GCC unroll 1") _Pragma("GCC ivdep")
#endif
#if defined(__clang__)
#define HAUL_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define HAUL_VECTOR_LOOP _Pragma("GCC ivdep")
#endif

#define ITEMS_BEGIN    haul_first
#define ITEMS_END      haul_last
INLINE I64 ITEMS_STEP(I64 row) { return row; }
#define FOR_ITEMS(i)   for (I64 i = haul_first; i < haul_last; i++)

/* QUOTIENT and REMAINDER of integers that are not negative, as positions are. */
INLINE I64 QUOTIENT(I64 a, I64 b) { return a / b; }
INLINE I64 REMAINDER(I64 a, I64 b) { return a % b; }

/* Kernels of the lanes form: an item is worked on in SUM_LANES lanes, here all by one thread, on CUDA each by a thread
 * of its own. FOR_ROWS(i) is their FOR_ITEMS, and makes a kernel one of them. LANE_VALUES(V, s) declares a value of
 * type V for each lane, OF_LANE(s, l) is that of lane l. EACH_LANE(l, n) runs over lanes below n <= SUM_LANES.
 * EACH_REST(l, n) runs over these at least, for the rest of a row: it gives a lane IN_REST(l, n, value, other), which
 * is `value` below n. (Vectors under a mask are faster than a loop whose end is not known.) EACH_PART(g, V) runs over
 * parts of the lanes, of which g is the first: here those whose values of type V fill a vector, elsewhere all lanes.
 * PART_VALUES(V, s) declares a value for each lane of a part, which EACH_OF_PART(l, V) runs over, and OF_PART(s, l) is
 * that of lane g + l. (Loops over one vector keep it in a register.) EACH_OF_ROW(j, n) runs over the elements of a row,
 * in any order. LANE_TREE(V, s, STEP) puts all lanes' values together as a tree, behind which OF_FIRST_LANE(s) is the
 * result. FIND_IN_ROW(found, j, n, condition) declares the first j below n for which the condition holds, n - 1 if
 * none; only the first lane has it. (Blocks without one are passed without a branch for each element.) LANE_UNROLL
 * stands before a loop over a long row: several loads are to be under way at once. LANES_ARE_THREADS: 1 where every
 * lane is one. Code under IS_FIRST_LANE runs once for an item; every lane runs all other code. */
#define FOR_ROWS(i)       FOR_ITEMS(i)
#define LANE_VALUES(V, s) V s[SUM_LANES]
#define OF_LANE(s, l)     (s)[l]
#define EACH_LANE(l, n)   BLOCK_LOOP for (int l = 0, haul_end_##l = (int)(n); l < haul_end_##l; l++)
#ifdef __AVX512F__
#define EACH_REST(l, n)   for (int haul_rest = (int)(n); haul_rest; haul_rest = 0) EACH_LANE(l, SUM_LANES)
#define IN_REST(l, n, value, other) (l < haul_rest ? (value) : (other))
#else
#define EACH_REST(l, n)   EACH_LANE(l, n)
#define IN_REST(l, n, value, other) (value)
#endif
#ifdef HAUL_SMALL /* shorter code, if compilers do not merge the loops */
#define HAUL_PART(V)       SUM_LANES
#define EACH_OF_PART(l, V) LOADS_IN_ORDER(); EACH_LANE(l, SUM_LANES)
#else
#ifdef __AVX512F__
#define HAUL_PART(V)       (64 / (int)sizeof(V))
#elif defined(__AVX__)
#define HAUL_PART(V)       (32 / (int)sizeof(V))
#else
#define HAUL_PART(V)       (16 / (int)sizeof(V))
#endif
#define EACH_OF_PART(l, V) BLOCK_LOOP for (int l = 0; l < HAUL_PART(V); l++)
#endif
#define EACH_PART(g, V)    for (int g = 0; g < SUM_LANES; g += HAUL_PART(V))
#define PART_VALUES(V, s)  V s[HAUL_PART(V)]
#define OF_PART(s, l)      (s)[l]
#define EACH_OF_ROW(j, n)  VECTOR_LOOP for (I64 j = 0; j < (n); j++)
/* Each level has an array of its own: compilers drop those that only vectors pass through. */
#define HAUL_LEVEL(V, to, from, STEP, w)                                                                               \
    V to[w];                                                                                                           \
    BLOCK_LOOP for (int haul_l = 0; haul_l < w; haul_l++) (to)[haul_l] = STEP((from)[haul_l], (from)[haul_l + w]);
#define LANE_TREE(V, s, STEP)                                                                                          \
    HAUL_LEVEL(V, s##_16, s, STEP, 16) HAUL_LEVEL(V, s##_8, s##_16, STEP, 8) HAUL_LEVEL(V, s##_4, s##_8, STEP, 4)      \
    HAUL_LEVEL(V, s##_2, s##_4, STEP, 2) const V s##_1 = STEP(s##_2[0], s##_2[1]);
#define OF_FIRST_LANE(s)  s##_1
#define IS_FIRST_LANE     1
enum { LANES_ARE_THREADS = 0 };
#define LANE_UNROLL
#define FIND_IN_ROW(found, j, n, condition)                                                                            \
    I64 found = 0;                                                                                                     \
    HAUL_PASS_BLOCKS(found, j, n, condition)                                                                           \
    for (I64 j = found; found = j, j < (n) - 1 && !(condition); j++) {}
#ifdef __AVX2__
#define HAUL_PASS_BLOCKS(found, j, n, condition)                                                                       \
    for (I32 haul_any = 0; !haul_any && found + SUM_LANES < (n); found += haul_any ? 0 : SUM_LANES)                    \
        BLOCK_LOOP for (I64 j = found; j < found + SUM_LANES; j++) haul_any |= (condition) ? 1 : 0;
#else
#define HAUL_PASS_BLOCKS(found, j, n, condition) /* shorter code */
#endif

#define CAT_(a, b)     a##_##b
#define CAT(a, b)      CAT_(a, b)
#define HAUL_NAME(kernel)   CAT(CAT(haul__k_##kernel, HAUL_KERNEL_SUFFIX), HAUL_KERNEL_LEVEL) /* ## first: names may be macros elsewhere */

/* Where HAS_GROUPS, kernels may have a text of their own in the folder text: it takes whole groups of items, and the kernel
 * the others. A unit defines HAUL_GROUPS_name for each of these kernels; without it a kernel takes all items. */
#if defined(__AVX512F__) && (defined(HAUL_KERNEL_DTYPE_f32) || defined(HAUL_KERNEL_DTYPE_f16) || defined(HAUL_KERNEL_DTYPE_bf16))
#define HAS_GROUPS 1
#else
#define HAS_GROUPS 0
#endif
typedef I64 haul_groups(void *const *buffers, const void *params, I64 first, I64 last); /* the first item that remains */
#define HAUL_SECOND_(a, b, ...) b
#define HAUL_SECOND(...)        HAUL_SECOND_(__VA_ARGS__)
#define HAUL_NO_GROUPS(buffers, params, first, last) first
#define HAUL_AFTER_GROUPS(name) HAUL_SECOND(HAUL_GROUPS_##name, HAUL_NO_GROUPS, ~)(haul_buffers, haul_params, haul_first, haul_last)

/* The entry unpacks the buffers; the body is the text that follows. A body has a copy of its params, since a compiler
 * keeps what it finds in one in registers. Rows of pointwise operations, whose params are large and whose runs may be
 * short, read them in place: nothing that they write is among them. */
#ifdef HAUL_PARAMS_IN_PLACE
#define HAUL_TAKE(P) const P *restrict haul_p
#define HAUL_GIVE(P) haul_params
#else
#define HAUL_TAKE(P) const P p
#define HAUL_GIVE(P) *(const P *)haul_params
#endif
#define HAUL_BODY(name, P, ...)                                                                                        \
    static inline void CAT(HAUL_NAME(name), body)(__VA_ARGS__, HAUL_TAKE(P), I64 haul_first, I64 haul_last)
#define HAUL_CALL(name, P, ...)                                                                                        \
    { CAT(HAUL_NAME(name), body)(__VA_ARGS__, HAUL_GIVE(P), HAUL_AFTER_GROUPS(name), haul_last); }
#define KERNEL_ENTRY(name, P, args, ...)                                                                               \
    HAUL_BODY(name, P, __VA_ARGS__);                                                                                   \
    haul__cpu_fn HAUL_NAME(name);                                                                                           \
    void HAUL_NAME(name)(void *const *haul_buffers, const void *haul_params, I64 haul_first, I64 haul_last) HAUL_CALL(name, P, args) \
    HAUL_BODY(name, P, __VA_ARGS__)
#define BUFFER(i)  haul_buffers[i]
#define COMMA      ,
#define KERNEL1(name, P, T0, b0) KERNEL_ENTRY(name, P, BUFFER(0), T0 *b0)
#define KERNEL2(name, P, T0, b0, T1, b1) KERNEL_ENTRY(name, P, BUFFER(0) COMMA BUFFER(1), T0 *b0, T1 *b1)
#define KERNEL3(name, P, T0, b0, T1, b1, T2, b2)                                                                       \
    KERNEL_ENTRY(name, P, BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2), T0 *b0, T1 *b1, T2 *b2)
#define KERNEL4(name, P, T0, b0, T1, b1, T2, b2, T3, b3)                                                               \
    KERNEL_ENTRY(name, P, BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3), T0 *b0, T1 *b1, T2 *b2, T3 *b3)
#define KERNEL5(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4)                                                       \
    KERNEL_ENTRY(name, P, BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3) COMMA BUFFER(4), T0 *b0, T1 *b1,     \
                 T2 *b2, T3 *b3, T4 *b4)
#define KERNEL6(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4, T5, b5)                                               \
    KERNEL_ENTRY(name, P,                                                                                              \
                 BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3) COMMA BUFFER(4) COMMA BUFFER(5), T0 *b0,      \
                 T1 *b1, T2 *b2, T3 *b3, T4 *b4, T5 *b5)
#define KERNEL7(name, P, T0, b0, T1, b1, T2, b2, T3, b3, T4, b4, T5, b5, T6, b6)                                       \
    KERNEL_ENTRY(name, P,                                                                                              \
                 BUFFER(0) COMMA BUFFER(1) COMMA BUFFER(2) COMMA BUFFER(3) COMMA BUFFER(4) COMMA BUFFER(5) COMMA BUFFER(6), \
                 T0 *b0, T1 *b1, T2 *b2, T3 *b3, T4 *b4, T5 *b5, T6 *b6)

static inline F32 BITS_F32(U32 bits) { F32 x; memcpy(&x, &bits, 4); return x; }
static inline U32 F32_BITS(F32 x) { U32 bits; memcpy(&bits, &x, 4); return bits; }
static inline F64 BITS_F64(U64 bits) { F64 x; memcpy(&x, &bits, 8); return x; }
static inline U64 F64_BITS(F64 x) { U64 bits; memcpy(&bits, &x, 8); return bits; }
/* TAKE_WORD(word, mine): put `mine` into a U32 that is 0; false if it is not, because another thread was faster. */
INLINE I32 TAKE_WORD(U32 *word, U32 mine) { return __sync_bool_compare_and_swap(word, 0u, mine); }

INLINE U32 MULHI32(U32 a, U32 b) { return (U32)(((U64)a * b) >> 32); }
#define HAS_F64 1

/* Large results go past the caches in whole lines of 64 bytes, so that memory is not read first: where HAS_LINES.
 * PUT_LINE(o, line) stores a line, PUT_LINES(o, from, bytes) many bytes. LINES_IN(memory) is where a kernel collects up to
 * LINES_RUN elements for PUT_LINES. BYTES_TO_LINE(o) are before the next line. PUT_LINES_END comes before other threads.
 * FIXED_BLOCK: the elements of a block of a dense row, or 0 where a block of large ones is a line. */
enum { HAS_LINES = 1, FIXED_BLOCK = 0 };
INLINE void *LINES_IN(void *memory) { return memory; }
INLINE U64 BYTES_TO_LINE(const void *o) { return -(U64)(uintptr_t)o & 63; }
/* All elements of a line count as read. Compilers load pairs of elements as vectors only where both are. */
#ifdef __AVX__
INLINE void COUNTS_AS_READ(const void *line) { __asm__("" : : "m"(*(const char(*)[64])line)); }
#else
INLINE void COUNTS_AS_READ(const void *line) { (void)line; }
#endif
#if defined(__x86_64__)
#if defined(__AVX512F__)
typedef U8 haul_piece __attribute__((vector_size(64), may_alias));
#elif defined(__AVX__)
typedef U8 haul_piece __attribute__((vector_size(32), may_alias));
#else
typedef U8 haul_piece __attribute__((vector_size(16), may_alias));
#endif
static inline void PUT_LINE(void *o, const void *line)
{
    char *to = o;
    const char *from = line;
    for (size_t k = 0; k < 64; k += sizeof(haul_piece)) {
        haul_piece v;
        memcpy(&v, from + k, sizeof v);
#if defined(__AVX512F__)
        __asm__("vmovntdq %1, %0" : "=m"(*(haul_piece *)(to + k)) : "v"(v));
#elif defined(__AVX__)
        __asm__("vmovntdq %1, %0" : "=m"(*(haul_piece *)(to + k)) : "x"(v));
#else
        __asm__("movntdq %1, %0" : "=m"(*(haul_piece *)(to + k)) : "x"(v));
#endif
    }
}
INLINE void PUT_LINES_END(I32 nontemporal) { if (nontemporal) __asm__ volatile("sfence" ::: "memory"); }
#else
static inline void PUT_LINE(void *o, const void *line) { memcpy(o, line, 64); }
INLINE void PUT_LINES_END(I32 nontemporal) { (void)nontemporal; }
#endif
static inline void PUT_LINES(void *to, const void *from, U64 size)
{
    const U64 head = BYTES_TO_LINE(to), whole = size < head + 64 ? 0 : (size - head) / 64 * 64;
    char *t = to;
    const char *f = from;
    if (!whole) {
        memcpy(t, f, size);
        return;
    }
    memcpy(t, f, head);
    for (U64 i = head; i < head + whole; i += 64) PUT_LINE(t + i, f + i);
    memcpy(t + head + whole, f + head + whole, size - head - whole);
}

/* Mathematical functions of type A. */
#if defined(HAUL_KERNEL_DTYPE_f64)
#define M1(function) function
#else
#define M1(function) function##f
#endif

/* V: a vector of LANES elements of ACC, for the tiles of structured kernels. The host asks haul__kernel_lanes. */
#if defined(HAUL_KERNEL_DTYPE_f64)
enum { LANES = VECTOR_BYTES_CPU / 8 };
typedef F64 V __attribute__((vector_size(VECTOR_BYTES_CPU), aligned(8), may_alias));
#else
enum { LANES = VECTOR_BYTES_CPU / 4 };
typedef F32 V __attribute__((vector_size(VECTOR_BYTES_CPU), aligned(4), may_alias));
#endif
#define VSPLAT(x)       ((x) + (V){0})
#define VLOAD(p)        (*(const V *)(p))
#define VSTORE(p, v)    (*(V *)(p) = (v))
#define VFMA(a, b, c)   ((a) * (b) + (c))

/* Processors that convert f16 do so with blocks of a dense row, with the bits of the text, except that NaNs become quiet,
 * as they do in every STORE. The header of these instructions takes longer to read than most kernels take to compile. */
#if defined(__F16C__) && defined(HAUL_KERNEL_DTYPE_f16)
#define HALF_BLOCKS 1
#if defined(__AVX512F__)
#define HAUL_HALVES    16
#define HAUL_WIDEN(x)  __builtin_ia32_vcvtph2ps512_mask(x, (haul_wide_value){0}, (U16)-1, 4) /* 4: the mode of the thread */
#define HAUL_NARROW(x) __builtin_ia32_vcvtps2ph512_mask(x, 0, (haul_halves_value){0}, (U16)-1) /* 0: to nearest */
#else
#define HAUL_HALVES    8
#define HAUL_WIDEN(x)  __builtin_ia32_vcvtph2ps256(x)
#define HAUL_NARROW(x) __builtin_ia32_vcvtps2ph256(x, 0)
#endif
/* As the compilers' builtin functions take them. */
typedef short haul_halves_value __attribute__((vector_size(2 * HAUL_HALVES)));
typedef F32   haul_wide_value __attribute__((vector_size(4 * HAUL_HALVES)));
typedef short haul_halves __attribute__((vector_size(2 * HAUL_HALVES), aligned(2), may_alias));
typedef F32   haul_wide __attribute__((vector_size(4 * HAUL_HALVES), aligned(4), may_alias));
INLINE void WIDEN_BLOCK(F32 *to, const U16 *from, int n)
{
    for (int i = 0; i < n; i += HAUL_HALVES)
        *(haul_wide *)(to + i) = HAUL_WIDEN((haul_halves_value)*(const haul_halves *)(from + i));
}
INLINE void NARROW_BLOCK(U16 *to, const F32 *from, int n)
{
    for (int i = 0; i < n; i += HAUL_HALVES)
        *(haul_halves *)(to + i) = HAUL_NARROW((haul_wide_value)*(const haul_wide *)(from + i));
}
#endif
