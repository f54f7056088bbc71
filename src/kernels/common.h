/* Common part of kernel text, after the prelude: the types of the dtype being compiled and its mathematics.
 *
 * T: how elements are stored; A: what is computed in; ACC: what sums are kept in; LIT(x): a literal of type A;
 * LOAD / STORE: between T and A; IS_FLOAT; IS_HALF: T holds the bits of an f16 or bf16, so that only LOAD and STORE may
 * give it a meaning, while A and ACC are f32; NARROW(x): a value of type A after a STORE and a LOAD; M_FMA(a, b, c):
 * a b + c, rounded once. f64 uses the functions of the device's library. */
// clang-format off

/* Half precision by integers and selects, without half arithmetic: vectorised by compilers, the same bits everywhere.
 * To nearest, ties to even, subnormal numbers as such, what is too large infinite, NaN quiet. */
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
#define IS_FLOAT     0
#define SCALAR(bits) ((A)(I64)(bits))
#if defined(HAUL_KERNEL_DTYPE_bool)
typedef U8  T;
typedef I32 A;
#define STORE(p, i, v) ((p)[i] = (T)((v) != 0))
#elif defined(HAUL_KERNEL_DTYPE_u8)
typedef U8  T;
typedef I32 A;
#elif defined(HAUL_KERNEL_DTYPE_i8)
typedef I8  T;
typedef I32 A;
#elif defined(HAUL_KERNEL_DTYPE_i16)
typedef I16 T;
typedef I32 A;
#elif defined(HAUL_KERNEL_DTYPE_i32)
typedef I32 T;
typedef I32 A;
#else
typedef I64 T;
typedef I64 A;
#endif
typedef I64 ACC;
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

#define M_MIN_OF(a, b) ((a) < (b) ? (a) : (b))
#define M_MAX_OF(a, b) ((a) > (b) ? (a) : (b))

#if IS_FLOAT
/* NaN in either operand wins, as in NumPy. */
FUNC A M_MAX(A a, A b)
{
    const A most = a > b ? a : b; /* one instruction */
    return a != a ? a : most;
}
FUNC A M_MIN(A a, A b)
{
    const A least = a < b ? a : b;
    return a != a ? a : least;
}
FUNC A M_SIGN(A x) { return x != x ? x : (A)(x > 0) - (A)(x < 0); }
#define M_ABS(x)           M1(fabs)(x)
#define M_SQRT(x)          M1(sqrt)(x)
#define M_FLOOR(x)         M1(floor)(x)
#define M_CEIL(x)          M1(ceil)(x)
#define M_RINT(x)          M1(rint)(x)
#define M_EXPM1(x)         M1(expm1)(x)
#define M_LOG1P(x)         M1(log1p)(x)
#define M_POW(x, y)        M1(pow)(x, y)
#define M_FMA(x, y, z)     M1(fma)(x, y, z)

#if A_IS_F32
/* The functions below have no branches and no calls, so that compilers vectorise them. Fused multiply-adds are written
 * out: they round once on every device, so the bits are the same. tools/fit prints the coefficients;
 * tests/test_functions.c holds the errors. */

/* x = k ln 2 + r with a whole k and |r| <= ln 2 / 2. k is in the low bits of z, whose other bits EXP_POWER shifts out. */
#define EXP_SPLIT(x, z, r)                                                                                             \
    const A z = M_FMA(x, 1.44269504f, 12582912.0f);                                                                    \
    A r = M_FMA(z - 12582912.0f, -0.693145752f, x);                                                                    \
    r = M_FMA(z - 12582912.0f, -1.42860677e-6f, r);
/* exp(r). */
FUNC A EXP_NEAR(A r)
{
    A y = 1.39418757e-3f;
    y = M_FMA(y, r, 8.36867932e-3f);
    y = M_FMA(y, r, 4.16663885e-2f);
    y = M_FMA(y, r, 0.166665211f);
    y = M_FMA(y, r, 0.5f);
    y = M_FMA(y, r, 1.0f);
    return M_FMA(y, r, 1.0f);
}
/* The one whose bits are the lesser integer: the smaller of two numbers >= 0, the larger of two numbers <= 0. Unlike a
 * comparison of floats it is one instruction. NaN becomes c. */
#define LESSER_BITS(x, c) BITS_F32(M_MIN_OF(F32_BITS(x), F32_BITS(c)))
/* y 2^(k + more), where it is a normal number, and 2^k, where k is in the bits of z. */
#define EXP_TIMES(y, k, more) BITS_F32(F32_BITS(y) + (((k) + (more)) << 23))
#define EXP_POWER(k)          BITS_F32(((k) << 23) + 0x3f800000u)
/* e^x. Two factors, so that results may be subnormal or infinite. */
FUNC A M_EXP(A x)
{
    const A low = x < -104.0f ? -104.0f : x, t = low > 89.0f ? 89.0f : low;
    EXP_SPLIT(t, z, r)
    const U32 k = F32_BITS(z), first = k >> 1;
    return EXP_NEAR(r) * EXP_POWER(first) * EXP_POWER(k - first);
}
/* The same where the result is a normal number. */
#define EXP_IS_FAR(x) (!(ABS_OF(x) < 87.0f))
FUNC A EXP_OF_NEAR(A x)
{
    EXP_SPLIT(x, z, r)
    return EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 0u);
}
/* e^x for x <= 0, and anything for x > 0 and for NaN. */
FUNC A EXP_BELOW(A x)
{
    const A t = LESSER_BITS(x, -104.0f);
    EXP_SPLIT(t, z, r)
    return EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 64u) * 5.42101086e-20f; /* 2^-64 */
}
/* log(1 + f) for f in [-1/3, 1/3]. */
FUNC A LOG_NEAR(A f)
{
    A y = -0.131917715f;
    y = M_FMA(y, f, 0.139617473f);
    y = M_FMA(y, f, -0.121150821f);
    y = M_FMA(y, f, 0.140110761f);
    y = M_FMA(y, f, -0.166854709f);
    y = M_FMA(y, f, 0.200100332f);
    y = M_FMA(y, f, -0.249996886f);
    y = M_FMA(y, f, 0.333332241f);
    y = M_FMA(y, f, -0.5f);
    return M_FMA(y, f * f, f);
}
/* log(s) + more ln 2 for a normal s > 0; s = 2^e (1 + f) with 1 + f in [2/3, 4/3). ln 2 is the sum of two numbers. */
FUNC A LOG_OF_NORMAL(A s, A more)
{
    const U32 bits = F32_BITS(s), top = bits - 0x3f2aaaabu;
    const A   e = (A)((I32)top >> 23) + more;
    const A   f = BITS_F32(bits - (top & 0xff800000u)) - 1.0f;
    return M_FMA(e, 0.693147182f, M_FMA(e, -1.90465421e-9f, LOG_NEAR(f)));
}
#define LOG_IS_FAR(x) (F32_BITS(x) - 0x00800000u >= 0x7f000000u) /* not a finite normal number > 0 */
FUNC A M_LOG(A x)
{
    const A small = x < 1.17549435e-38f ? 8388608.0f : 1.0f; /* 2^23 */
    A       y = LOG_OF_NORMAL(x * small, x < 1.17549435e-38f ? -23.0f : 0.0f);
    y = x > 0.0f ? y : x == 0.0f ? BITS_F32(0xff800000u) : BITS_F32(0x7fc00000u);
    return x < BITS_F32(0x7f800000u) ? y : x;
}
/* log(1 + e) for e in [0, 1]. */
FUNC A LOG1P_UNIT(A e)
{
    const A y = LOG_NEAR(e > 0.333333343f ? M_FMA(e, 0.5f, -0.5f) : e);
    return e > 0.333333343f ? y + 0.693147182f : y;
}
#define ABS_OF(x)     BITS_F32(F32_BITS(x) & 0x7fffffffu)
#define SIGNED(y, x)  BITS_F32(F32_BITS(y) | (F32_BITS(x) & 0x80000000u)) /* y, which is positive, with the sign of x */
/* A polynomial near 0, also for NaN, and 1 - 2 / (exp(2 |x|) + 1) elsewhere. There k is 26 at most, so one number for
 * ln 2 is enough. */
FUNC A M_TANH(A x)
{
    const A a = ABS_OF(x), s = x * x, t = 2.0f * LESSER_BITS(a, 9.1f);
    A       y = -5.89669636e-3f;
    y = M_FMA(y, s, 2.07979325e-2f);
    y = M_FMA(y, s, -5.37846275e-2f);
    y = M_FMA(y, s, 0.133319363f);
    y = M_FMA(y, s, -0.333332986f);
    y = M_FMA(y * s, x, x);
    const A z = M_FMA(t, 1.44269504f, 12582912.0f), r = M_FMA(z - 12582912.0f, -0.693147182f, t);
    const A far = 1.0f - 2.0f / (EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 0u) + 1.0f);
    return SIGNED(a >= 0.6f ? far : y, x);
}
/* A polynomial near 0, 1 - exp(p(|x|)) elsewhere. */
FUNC A M_ERF(A x)
{
    const A a = ABS_OF(x), s = x * x, t = LESSER_BITS(a, 3.95f);
    A       y = -5.99082152e-4f, w = -1.1521759e-5f;
    y = M_FMA(y, s, 4.99381125e-3f);
    y = M_FMA(y, s, -2.67675929e-2f);
    y = M_FMA(y, s, 0.112818629f);
    y = M_FMA(y, s, -0.376125008f);
    y = M_FMA(y, s, 0.128379151f);
    y = M_FMA(y, x, x);
    w = M_FMA(w, t, 3.25649336e-4f);
    w = M_FMA(w, t, -3.65375821e-3f);
    w = M_FMA(w, t, 2.37853508e-2f);
    w = M_FMA(w, t, -0.106263168f);
    w = M_FMA(w, t, -0.635135889f);
    w = M_FMA(w, t, -0.12865217f);
    w = M_FMA(w, t, -t);
    EXP_SPLIT(w, z, r)
    const A far = 1.0f - EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 0u);
    return x != x ? x : a < 0.9277f ? y : SIGNED(far, x);
}
FUNC A M_SIGMOID(A x)
{
    const A e = EXP_BELOW(BITS_F32(F32_BITS(x) | 0x80000000u)), y = (x < 0.0f ? e : 1.0f) / (1.0f + e);
    return x != x ? x : y;
}
/* x sigmoid(x), without the digits that a subnormal sigmoid lacks. */
FUNC A M_SILU(A x)
{
    const A t = LESSER_BITS(BITS_F32(F32_BITS(x) | 0x80000000u), -120.0f);
    EXP_SPLIT(t, z, r)
    const A large = EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 64u); /* 2^64 e^t */
    const A y = (x < 0.0f ? x * large : x) / M_FMA(large, 5.42101086e-20f, 1.0f);
    return x < -120.0f ? x * 0.0f : x < 0.0f ? y * 5.42101086e-20f : y;
}
/* 2^64 Phi(-t) for t >= 0, Phi the normal distribution, and exp(-t^2 / 2). Phi(-t) = exp(-t^2 / 2) q(u) / (t + 2) with
 * u = (t - 2) / (t + 2), so the relative error is small for large t, too. The square's rounding is made up for. */
FUNC A PHI_BELOW(A t, PRIVATE A *density)
{
    const A c = LESSER_BITS(t, 14.3f), d = 1.0f / (c + 2.0f), u = M_FMA(d, -4.0f, 1.0f), s = c * c, h = -0.5f * s;
    A       q = -7.02015604e-5f;
    q = M_FMA(q, u, 4.33066671e-5f);
    q = M_FMA(q, u, 7.19409436e-4f);
    q = M_FMA(q, u, 8.65332899e-4f);
    q = M_FMA(q, u, -1.890652e-3f);
    q = M_FMA(q, u, -6.74138777e-3f);
    q = M_FMA(q, u, -4.82784933e-4f);
    q = M_FMA(q, u, 3.67193632e-2f);
    q = M_FMA(q, u, 2.87984125e-2f);
    q = M_FMA(q, u, -0.331404418f);
    q = M_FMA(q, u, 0.672407985f);
    EXP_SPLIT(h, z, r)
    r = M_FMA(M_FMA(c, c, -s), -0.5f, r);
    const A e = EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 64u);
    *density = e * 5.42101086e-20f;
    return e * (q * d);
}
/* x Phi(x) and its derivative Phi(x) + x phi(x) (Hendrycks, Gimpel 2016). */
#define GELU_IS_FAR(x) (!(ABS_OF(x) <= 14.3f))
FUNC A GELU_OF_NEAR(A x)
{
    A       density;
    const A y = x * PHI_BELOW(ABS_OF(x), &density) * 5.42101086e-20f;
    return x > 0.0f ? x - y : y;
}
FUNC A M_GELU(A x) { return x > 14.3f ? x : x < -14.3f ? -0.0f : GELU_OF_NEAR(x); }
FUNC A M_GELU_BACKWARD(A g, A x)
{
    A       density;
    const A below = PHI_BELOW(ABS_OF(x), &density) * 5.42101086e-20f;
    const A y = M_FMA(x * density, 0.398942280f, x < 0.0f ? below : 1.0f - below);
    return g * (x > 14.3f ? 1.0f : x < -14.3f ? 0.0f : y);
}
/* sin and cos: x = k pi / 2 + r, k in the low bits of z, by three parts of pi / 2. */
FUNC A TRIG_NEAR(A r, U32 k) /* sin(r + k pi / 2) */
{
    const A s = r * r;
    A       odd = -1.9518609e-4f, even = 2.44306684e-5f;
    odd = M_FMA(odd, s, 8.33219104e-3f);
    odd = M_FMA(odd, s, -0.166666552f);
    odd = M_FMA(odd, r * s, r);
    even = M_FMA(even, s, -1.38873013e-3f);
    even = M_FMA(even, s, 4.16666456e-2f);
    even = M_FMA(even, s, -0.5f);
    even = M_FMA(even, s, 1.0f);
    return BITS_F32(F32_BITS(k & 1u ? even : odd) ^ (k & 2u) << 30);
}
FUNC A TRIG_OF_NEAR(A x, U32 add)
{
    const A z = M_FMA(x, 0.636619747f, 12582912.0f), k = z - 12582912.0f;
    A       r = M_FMA(k, -1.57079637f, x);
    r = M_FMA(k, 4.37113883e-8f, r);
    r = M_FMA(k, 1.71512451e-15f, r);
    return TRIG_NEAR(r, F32_BITS(z) + add);
}
/* Is |x| too large for that, or x not finite? Then 2 x / pi is computed in integers (Payne, Hanek 1983): the product of the
 * 24 bits of x and the bits of 2 / pi that matter. */
#define TRIG_IS_FAR(x) (!(ABS_OF(x) < 1e5f))
CONSTANT U32 two_over_pi[8] = {0u,          0x28be60dbu, 0x9391054au, 0x7f09d5f4u,
                               0x7d4d3770u, 0x36d8a566u, 0x4f10e410u, 0x7f9458eau};
FUNC A TRIG_OF_FAR(A x, U32 add)
{
    const U32 bits = F32_BITS(x), exponent = bits >> 23 & 0xffu;
    if (exponent == 0xffu) return BITS_F32(0x7fc00000u);
    const U32 m = bits << 8 | 0x80000000u, word = (exponent - 126u) >> 5, shift = (exponent - 126u) & 31u;
    const U64 first = (U64)two_over_pi[word] << 32 | two_over_pi[word + 1];
    const U64 second = (U64)two_over_pi[word + 2] << 32 | two_over_pi[word + 3];
    const U64 high = shift ? first << shift | second >> (64 - shift) : first;
    const U32 low = (U32)((shift ? second << shift : second) >> 32);
    const U64 product = ((U64)(m * (U32)(high >> 32)) << 32) + (U64)m * (U32)high + ((U64)m * low >> 32);
    U32       k = (U32)(product >> 62);
    I64       rest = (I64)(product & 0x3fffffffffffffffu);
    if (rest >> 61) {
        rest -= (I64)0x4000000000000000;
        k++;
    }
    const A r = (A)rest * 3.40612158e-19f; /* pi / 2 2^-62 */
    return bits >> 31 ? TRIG_NEAR(-r, add - k) : TRIG_NEAR(r, add + k);
}
#define SIN_OF_NEAR(x) ((x) == 0.0f ? (x) : TRIG_OF_NEAR(x, 0u)) /* -0 stays */
#define COS_OF_NEAR(x) TRIG_OF_NEAR(x, 1u)
FUNC A M_SIN(A x) { return TRIG_IS_FAR(x) ? TRIG_OF_FAR(x, 0u) : SIN_OF_NEAR(x); }
FUNC A M_COS(A x) { return TRIG_IS_FAR(x) ? TRIG_OF_FAR(x, 1u) : COS_OF_NEAR(x); }
#else
#define M_EXP(x)               M1(exp)(x)
#define M_LOG(x)               M1(log)(x)
#define M_TANH(x)              M1(tanh)(x)
#define M_ERF(x)               M1(erf)(x)
#define EXP_IS_FAR             NEVER
#define LOG_IS_FAR             NEVER
#define GELU_IS_FAR            NEVER
#define TRIG_IS_FAR            NEVER
#define EXP_OF_NEAR(x)         M_EXP(x)
#define EXP_BELOW(x)           M_EXP(x)
#define LOG_OF_NORMAL(x, more) M_LOG(x)
#define GELU_OF_NEAR(x)        M_GELU(x)
#define SIN_OF_NEAR(x)         M_SIN(x)
#define COS_OF_NEAR(x)         M_COS(x)
FUNC A M_SIN(A x) { return M1(sin)(x); }
FUNC A M_COS(A x) { return M1(cos)(x); }
FUNC A LOG1P_UNIT(A x) { return M1(log1p)(x); }
FUNC A M_SIGMOID(A x)
{
    A e = M_EXP(x < 0 ? x : -x); /* at most 1: nothing overflows */
    A d = LIT(1.0) / (LIT(1.0) + e);
    return x != x ? x : x < 0 ? e * d : d;
}
FUNC A M_SILU(A x) { return x * M_SIGMOID(x); }
/* x Phi(x) and its derivative Phi(x) + x phi(x), Phi the normal distribution (Hendrycks, Gimpel 2016). erfc keeps the
 * digits of large negative x. */
FUNC A M_GELU(A x) { return LIT(0.5) * x * M1(erfc)(x * LIT(-0.70710678118654752)); }
FUNC A M_GELU_BACKWARD(A g, A x)
{
    A cdf = LIT(0.5) * M1(erfc)(x * LIT(-0.70710678118654752));
    A pdf = M_EXP(LIT(-0.5) * x * x) * LIT(0.39894228040143268);
    return g * (cdf + x * pdf);
}
#endif

FUNC A M_SOFTPLUS(A x)
{
    A a = M_ABS(x);
    return (x > 0 ? x : x != x ? x : LIT(0.0)) + LOG1P_UNIT(M_EXP(-a));
}
FUNC A M_SILU_BACKWARD(A g, A x)
{
    A s = M_SIGMOID(x);
    return g * (s * (LIT(1.0) + x * (LIT(1.0) - s)));
}
/* Binary cross-entropy of a logit and a target. Where the target is certain of what an infinite logit says it is 0. */
FUNC A M_BCE(A x, A target)
{
    const A a = M_ABS(x), missing = x > 0 ? LIT(1.0) - target : target;
    return (missing == 0 ? LIT(0.0) : a * missing) + LOG1P_UNIT(M_EXP(-a));
}
/* What is left of a in steps of b, exactly. Of f32, f64 holds what a quotient below 2^29 takes away, which is faster. */
#if A_IS_F32 && CHUNKED && defined(HAS_F64)
FUNC A M_FMOD(A a, A b)
{
    const F64 q = (F64)a / (F64)b;
    if (!(q > -536870912.0 && q < 536870912.0)) return M1(fmod)(a, b);
    const A r = (A)((F64)a - (F64)(I32)q * (F64)b);
    return (I32)q == 0 ? a : r == 0 ? a * LIT(0.0) : r;
}
#else
#define M_FMOD(a, b) M1(fmod)(a, b)
#endif
/* The sign of b, as in Python; NaN for b = 0. */
FUNC A M_MOD(A a, A b)
{
    const A r = M_FMOD(a, b);
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/* floor(a / b) of the quotient before it is rounded, as in Python; a / b for b = 0. */
FUNC A M_FLOOR_DIV(A a, A b)
{
    const A r = M_FMOD(a, b), near = (a - r) / b; /* almost whole */
    const A q = r != 0 && (r < 0) != (b < 0) ? near - LIT(1.0) : near;
    const A low = M1(floor)(q), whole = q - low > LIT(0.5) ? low + LIT(1.0) : low;
    return b == 0 ? a / b : q == 0 ? a / b * LIT(0.0) : whole;
}
#else
#define LIT(x) ((A)(x))
FUNC A M_MAX(A a, A b) { return a > b ? a : b; }
FUNC A M_MIN(A a, A b) { return a < b ? a : b; }
FUNC A M_SIGN(A x) { return (x > 0) - (x < 0); }
#define M_ABS(x)         ((x) < 0 ? -(x) : (x))
#define M_FLOOR(x)       (x)
#define M_CEIL(x)        (x)
#define M_RINT(x)        (x)
/* By squaring; wraps around. 1 / a^-b is cut to a whole number for a negative exponent; it is 0 for a = 0. */
FUNC A M_POW(A a, A b)
{
    U64 y = 1, square = (U64)(I64)a;
    for (I64 n = (I64)b; n > 0; n >>= 1, square *= square) y *= n & 1 ? square : (U64)1;
    return b >= 0 ? (A)(I64)y : a == 1 ? (A)1 : a == -1 ? (A)(b & 1 ? -1 : 1) : (A)0;
}
/* The sign of b, as in Python; 0 for b = 0, and for b = -1 without the division that traps. */
FUNC A M_MOD(A a, A b)
{
    A d = b == 0 || b == -1 ? (A)1 : b;
    A r = a % d;
    return r != 0 && (r < 0) != (d < 0) ? r + d : r;
}
/* floor(a / b), as in Python; 0 for b = 0. The smallest number divided by -1 wraps around. */
FUNC A M_FLOOR_DIV(A a, A b)
{
    A d = b == 0 || b == -1 ? (A)1 : b;
    A r = a % d, q = a / d - (r != 0 && (r < 0) != (d < 0) ? (A)1 : (A)0);
    return b == 0 ? (A)0 : b == -1 ? -a : q;
}
#endif

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
