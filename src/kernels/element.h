/* The first part of kernel text, after the prelude: the types of the dtype being compiled.
 *
 * T: how elements are stored; A: the type of computations; ACC: that of sums; LIT(x): a literal of type A; LOAD /
 * STORE: between T and A; IS_FLOAT; IS_HALF: T holds the bits of an f16 or bf16, so that only LOAD and STORE may give
 * it a meaning, while A and ACC are f32; NARROW(x): a value of type A after a STORE and a LOAD; M_FMA(a, b, c): a b +
 * c, rounded once; IS_BITS: T is the integer dtype whose kernels move elements of its size, of whatever dtype. */
// clang-format off

/* Half precision by integers and selects, without half arithmetic: vectorised by compilers, bit-identical everywhere.
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
#if defined(HAUL_KERNEL_DTYPE_f16)
INLINE F32 T_TO_F32(T h) { return F16_TO_F32(h); }
INLINE T F32_TO_T(F32 x) { return F32_TO_F16(x); }
#else
INLINE F32 T_TO_F32(T h) { return BF16_TO_F32(h); }
INLINE T F32_TO_T(F32 x) { return F32_TO_BF16(x); }
#endif
#define LOAD(p, i)     T_TO_F32((p)[i])
#define STORE(p, i, v) ((p)[i] = F32_TO_T((F32)(v)))
#elif defined(HAUL_KERNEL_DTYPE_f32)
#define A_IS_F32 1
typedef F32 T;
typedef F32 A;
typedef F32 ACC;
#define LIT(x)       x##f
#define IS_FLOAT     1
#elif defined(HAUL_KERNEL_DTYPE_f64)
typedef F64 T;
typedef F64 A;
typedef F64 ACC;
#define LIT(x)       x
#define IS_FLOAT     1
#else
#define LIT(x)       ((A)(x))
#define IS_FLOAT     0
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
#endif
#ifndef STORE
#define STORE(p, i, v) ((p)[i] = (T)(v))
#endif
/* The number whose bits a parameter has. */
#if A_IS_F32
INLINE A SCALAR(U64 bits) { return BITS_F32((U32)bits); }
#elif IS_FLOAT
INLINE A SCALAR(U64 bits) { return BITS_F64(bits); }
#else
INLINE A SCALAR(U64 bits) { return (A)(I64)bits; }
#endif
#if IS_HALF
INLINE A NARROW(A x) { return T_TO_F32(F32_TO_T(x)); }
#else
INLINE A NARROW(A x) { return x; }
#endif
