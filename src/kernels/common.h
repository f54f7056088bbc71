/* Common part of kernel text, after the prelude: the types of the dtype being compiled, its mathematics (functions.h),
 * and what many kernels do: checks of indices, sums over rows, random bits.
 *
 * T: how elements are stored; A: the type of computations; ACC: that of sums; LIT(x): a literal of type A; LOAD /
 * STORE: between T and A; IS_FLOAT; IS_HALF: T holds the bits of an f16 or bf16, so that only LOAD and STORE may give
 * it a meaning, while A and ACC are f32; NARROW(x): a value of type A after a STORE and a LOAD; M_FMA(a, b, c): a b +
 * c, rounded once; IS_BITS: T is the integer dtype whose kernels move elements of its size, of whatever dtype. */
// clang-format off

/* Half precision by integers and selects, without half arithmetic: vectorised by compilers, the same bits everywhere.
 * To nearest, ties to even, subnormal numbers kept, numbers beyond the largest infinite, NaN quiet. */
#ifndef OWN_F16 /* of the backend */
FUNC F32 F16_TO_F32(U16 h)
{
    const U32 sign = (U32)(h & 0x8000u) << 16, rest = (U32)(h & 0x7fffu) << 13;
    const F32 small = (F32)(I32)(h & 0x03ffu) * 5.9604644775390625e-8f; /* subnormal: times 2^-24 */
    const U32 normal = rest + (rest < 0x0f800000u ? 0x38000000u : 0x70000000u);
    return BITS_F32(sign | (rest < 0x00800000u ? F32_BITS(small) : normal));
}
FUNC U16 F32_TO_F16(F32 x)
{
    const U32 bits = F32_BITS(x), sign = bits >> 16 & 0x8000u, a = bits & 0x7fffffffu;
    const U32 small = F32_BITS(BITS_F32(a) + 0.5f) - 0x3f000000u; /* below 2^-14 the sum rounds at 2^-24 */
    const U32 normal = (a - 0x38000000u + 0x0fffu + (a >> 13 & 1u)) >> 13;
    const U32 large = a > 0x7f800000u ? 0x7e00u | (a >> 13 & 0x03ffu) : 0x7c00u;
    return (U16)(sign | (a < 0x38800000u ? small : a < 0x47800000u ? normal : large));
}
#endif
FUNC F32 BF16_TO_F32(U16 h) { return BITS_F32((U32)h << 16); }
FUNC U16 F32_TO_BF16(F32 x)
{
    const U32 bits = F32_BITS(x), normal = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
    return (U16)((bits & 0x7fffffffu) > 0x7f800000u ? bits >> 16 | 0x0040u : normal);
}

#if defined(HAUL_KERNEL_DTYPE_f16) || defined(HAUL_KERNEL_DTYPE_bf16)
#define IS_HALF 1
#define A_IS_F32 1
typedef U16 T;
typedef F32 A;
typedef F32 ACC;
#define LIT(x)       x##f
#define IS_FLOAT     1
#define SCALAR(bits) BITS_F32((U32)(bits))
#if defined(HAUL_KERNEL_DTYPE_f16)
#define T_TO_F32(h) F16_TO_F32(h)
#define F32_TO_T(x) F32_TO_F16(x)
#else
#define T_TO_F32(h) BF16_TO_F32(h)
#define F32_TO_T(x) F32_TO_BF16(x)
#endif
#define LOAD(p, i)     T_TO_F32((p)[i])
#define STORE(p, i, v) ((p)[i] = F32_TO_T((F32)(v)))
#define NARROW(x)      T_TO_F32(F32_TO_T(x))
#elif defined(HAUL_KERNEL_DTYPE_f32)
#define A_IS_F32 1
typedef F32 T;
typedef F32 A;
typedef F32 ACC;
#define LIT(x)       x##f
#define IS_FLOAT     1
#define SCALAR(bits) BITS_F32((U32)(bits))
#elif defined(HAUL_KERNEL_DTYPE_f64)
typedef F64 T;
typedef F64 A;
typedef F64 ACC;
#define LIT(x)       x
#define IS_FLOAT     1
#define SCALAR(bits) BITS_F64(bits)
#else
#define LIT(x)       ((A)(x))
#define IS_FLOAT     0
#define SCALAR(bits) ((A)(I64)(bits))
#if defined(HAUL_KERNEL_DTYPE_bool)
typedef U8  T;
typedef I32 A;
#define STORE(p, i, v) ((p)[i] = (T)((v) != 0))
#elif defined(HAUL_KERNEL_DTYPE_u8)
#define IS_BITS 1
typedef U8  T;
typedef I32 A;
#elif defined(HAUL_KERNEL_DTYPE_i8)
typedef I8  T;
typedef I32 A;
#elif defined(HAUL_KERNEL_DTYPE_i16)
#define IS_BITS 1
typedef I16 T;
typedef I32 A;
#elif defined(HAUL_KERNEL_DTYPE_i32)
#define IS_BITS 1
typedef I32 T;
typedef I32 A;
#else
#define IS_BITS 1
typedef I64 T;
typedef I64 A;
#endif
typedef I64 ACC;
#endif
#ifndef IS_BITS
#define IS_BITS 0
#endif
#ifndef IS_HALF
#define IS_HALF 0
#endif
#ifndef A_IS_F32
#define A_IS_F32 0
#endif
#ifndef LOAD
#define LOAD(p, i) ((A)(p)[i])
#define NARROW(x)  (x)
#endif
#ifndef STORE
#define STORE(p, i, v) ((p)[i] = (T)(v))
#endif

/* after the types */
#include "functions.h"

#if IS_FLOAT
/* The TILE_ROWS rows and TILE_VECTORS vectors of a register tile, in named variables, which every compiler keeps in registers:
 * TILE_EACH(TILE_ZERO) declares it, TILE_FMA(row, w) adds w times the vectors x0 .. x3 to a row. */
#define TILE_WIDTH (TILE_VECTORS * LANES)
#define TILE_EACH(what) what(0) what(1) what(2) what(3) what(4) what(5)
#define TILE_ZERO(r)    V t##r##0 = VSPLAT(LIT(0.0)), t##r##1 = t##r##0, t##r##2 = t##r##0, t##r##3 = t##r##0;
#define TILE_LOAD(p)    const V x0 = VLOAD(p), x1 = VLOAD((p) + LANES), x2 = VLOAD((p) + 2 * LANES), x3 = VLOAD((p) + 3 * LANES);
#define TILE_ADD(r, c)   t##r##c = VFMA(tile_w, x##c, t##r##c);
#define TILE_FMA(r, w)   { const V tile_w = VSPLAT(w); TILE_ADD(r, 0) TILE_ADD(r, 1) TILE_ADD(r, 2) TILE_ADD(r, 3) }
#define TILE_STORE(r, p) { VSTORE(p, t##r##0); VSTORE((p) + LANES, t##r##1); VSTORE((p) + 2 * LANES, t##r##2); VSTORE((p) + 3 * LANES, t##r##3); }
#endif

#define SUM_OF(a, b) ((a) + (b))

FUNC I64 least(I64 a, I64 b) { return a < b ? a : b; }

/* How many items a loop takes side by side: those that are `left` for it, of `room` that are neighbours, at most `most`;
 * one where work is not CHUNKED. */
FUNC int NEIGHBOURS(I64 room, I64 left, int most)
{
    const I64 n = least(room, left);
    return CHUNKED ? (int)least(n, most) : 1;
}

FUNC void PUT_I64(GLOBAL U32 *words, I64 value)
{
    words[0] = (U32)value;
    words[1] = (U32)((U64)value >> 32);
}

/* The index `value`, which stands at `position`, or -1 if it is not in [0, bound). Then the first thread notes it in the
 * record `fault`, from which the host makes an error of `check` (device/index_fault.h). */
FUNC I64 CHECKED_INDEX(GLOBAL U32 *fault, U32 check, I64 position, I64 value, I64 bound)
{
    if ((U64)value < (U64)bound) return value;
    if (TAKE_WORD(fault + FAULT_CHECK, check)) {
        PUT_I64(fault + FAULT_POSITION, position);
        PUT_I64(fault + FAULT_VALUE, value);
        PUT_I64(fault + FAULT_BOUND, bound);
    }
    return -1;
}

/* Puts elements from j on, 4 * SUM_LANES of them, together by STEP: the four of each lane first, then those with the
 * lane's own value in s, so that few steps wait for one another. ELEMENT(k, V, TERM, w) is what element k gives. In
 * kernels of the lanes form. Each loop has one step, as compilers do not vectorise several. */
#define PUT_FOURS_TOGETHER(V, STEP, s, j, ELEMENT, TERM, w)                                                            \
    EACH_PART(haul_g, V) {                                                                                             \
        PART_VALUES(V, haul_a);                                                                                        \
        PART_VALUES(V, haul_b);                                                                                        \
        EACH_OF_PART(l, V) OF_PART(haul_a, l) = STEP(ELEMENT((j) + haul_g + l, V, TERM, w),                            \
                                                     ELEMENT((j) + haul_g + l + SUM_LANES, V, TERM, w));               \
        EACH_OF_PART(l, V) OF_PART(haul_b, l) = STEP(ELEMENT((j) + haul_g + l + 2 * SUM_LANES, V, TERM, w),            \
                                                     ELEMENT((j) + haul_g + l + 3 * SUM_LANES, V, TERM, w));           \
        EACH_OF_PART(l, V) OF_PART(haul_a, l) = STEP(OF_PART(haul_a, l), OF_PART(haul_b, l));                          \
        EACH_OF_PART(l, V) OF_LANE(s, haul_g + l) = STEP(OF_LANE(s, haul_g + l), OF_PART(haul_a, l));                  \
    }

#if IS_FLOAT
/* The largest element of a dense row, its sum, and the sum of exp(x - most) over it. In kernels of the lanes form. */
#define ROW_ELEMENT(k, V, TERM, v) TERM(LOAD(v, k))
#define ROW_SELF(x) (x)
#define ROW_EXP(x)  EXP_BELOW((x) - most)
FUNC A ROW_MAX(GLOBAL const T *v, I64 n)
{
    const I64 whole = n - n % SUM_LANES;
    const A first = LOAD(v, 0);
    LANE_VALUES(A, s);
    if (!LANES_ARE_THREADS && n <= SUM_LANES / 2) { /* the order does not matter */
        A most = first;
        for (I64 j = 1; j < n; j++) most = M_MAX(most, LOAD(v, j));
        return most;
    }
    EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = first;
    I64 j = 0;
    for (; j + 4 * SUM_LANES <= whole; j += 4 * SUM_LANES) {
        PUT_FOURS_TOGETHER(A, M_MAX, s, j, ROW_ELEMENT, ROW_SELF, v)
    }
    for (; j < whole; j += SUM_LANES)
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = M_MAX(OF_LANE(s, l), LOAD(v, j + l));
    EACH_REST(l, n - whole) OF_LANE(s, l) = IN_REST(l, n - whole, M_MAX(OF_LANE(s, l), LOAD(v, whole + l)), OF_LANE(s, l));
    LANE_TREE(A, s, M_MAX)
    return OF_FIRST_LANE(s);
}
#define ROW_ADD(v, n, TERM)                                                                                            \
    const I64 whole = (n) - (n) % SUM_LANES;                                                                           \
    LANE_VALUES(A, s);                                                                                                 \
    EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;                                                                         \
    I64 j = 0;                                                                                                         \
    for (; j + 4 * SUM_LANES <= whole; j += 4 * SUM_LANES) {                                                           \
        PUT_FOURS_TOGETHER(A, SUM_OF, s, j, ROW_ELEMENT, TERM, v)                                                      \
    }                                                                                                                  \
    for (; j < whole; j += SUM_LANES) EACH_LANE(l, SUM_LANES) OF_LANE(s, l) += TERM(LOAD(v, j + l));                   \
    EACH_REST(l, (n) - whole) OF_LANE(s, l) = IN_REST(l, (n) - whole, OF_LANE(s, l) + TERM(LOAD(v, whole + l)), OF_LANE(s, l)); \
    LANE_TREE(A, s, SUM_OF)
/* Rows with a NaN or an infinite maximum have no sum of exponentials. */
#define NAN_IF_NOT_FINITE(most) ((most) - (most))
FUNC A ROW_SUM(GLOBAL const T *v, I64 n)
{
    ROW_ADD(v, n, ROW_SELF)
    return OF_FIRST_LANE(s);
}
FUNC A ROW_EXP_SUM(GLOBAL const T *v, I64 n, A most)
{
    ROW_ADD(v, n, ROW_EXP)
    return OF_FIRST_LANE(s) + NAN_IF_NOT_FINITE(most);
}
#endif

/* Philox 4x32-10 (Salmon et al. 2011): four words of random bits for each 64-bit counter, here of PHILOX_BLOCKS counters
 * from `counter` on, so that vector units are used. Word j of block b is words[4 b + j]. */
#define PHILOX_BLOCKS (CHUNKED ? 32 : 1)
FUNC void philox(U64 seed, U64 counter, U32 *words)
{
    U32 c0[PHILOX_BLOCKS], c1[PHILOX_BLOCKS], c2[PHILOX_BLOCKS], c3[PHILOX_BLOCKS];
    U32 k0 = (U32)seed, k1 = (U32)(seed >> 32);
    for (int b = 0; b < PHILOX_BLOCKS; b++) {
        const U64 c = counter + (U64)b;
        c0[b] = (U32)c;
        c1[b] = (U32)(c >> 32);
        c2[b] = 0;
        c3[b] = 0;
    }
    for (int round = 0; round < 10; round++) {
        for (int b = 0; b < PHILOX_BLOCKS; b++) {
            const U32 high0 = MULHI32(0xD2511F53u, c0[b]), low0 = 0xD2511F53u * c0[b];
            const U32 high1 = MULHI32(0xCD9E8D57u, c2[b]), low1 = 0xCD9E8D57u * c2[b];
            c0[b] = high1 ^ c1[b] ^ k0;
            c1[b] = low1;
            c2[b] = high0 ^ c3[b] ^ k1;
            c3[b] = low0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int b = 0; b < PHILOX_BLOCKS; b++) {
        words[4 * b] = c0[b];
        words[4 * b + 1] = c1[b];
        words[4 * b + 2] = c2[b];
        words[4 * b + 3] = c3[b];
    }
}
