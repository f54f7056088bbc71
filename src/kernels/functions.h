/* The mathematics of kernel text: functions of values of type A, the type in which a dtype is computed. They follow the
 * types (element.h). f64 uses the functions of the device's library. */
/* kernel functions: a unit has those that it uses */
// clang-format off
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
FUNC A M_ABS(A x) { return M1(fabs)(x); }
FUNC A M_SQRT(A x) { return M1(sqrt)(x); }
FUNC A M_FLOOR(A x) { return M1(floor)(x); }
FUNC A M_CEIL(A x) { return M1(ceil)(x); }
FUNC A M_RINT(A x) { return M1(rint)(x); }
FUNC A M_EXPM1(A x) { return M1(expm1)(x); }
FUNC A M_LOG1P(A x) { return M1(log1p)(x); }
FUNC A M_POW(A x, A y) { return M1(pow)(x, y); }
FUNC A M_FMA(A x, A y, A z) { return M1(fma)(x, y, z); }

#if A_IS_F32
/* The functions below have no branches and no calls, so that compilers vectorise them. Fused multiply-adds are written
 * out: they round once on every device, so the bits are the same. tools/fit prints the coefficients;
 * tests/conformance/test_functions.c holds the errors. */

FUNC A ABS_OF(A x) { return BITS_F32(F32_BITS(x) & 0x7fffffffu); }
FUNC A SIGNED(A y, A x) { return BITS_F32(F32_BITS(y) | (F32_BITS(x) & 0x80000000u)); } /* y, which is positive, with the sign of x */
/* x = k ln 2 + r with a whole k and |r| <= ln 2 / 2. k is in the low bits of z, whose other bits EXP_POWER shifts out. */
FUNC A EXP_WHOLE(A x) { return M_FMA(x, 1.44269504f, 12582912.0f); } /* z */
FUNC A EXP_REST(A x, A z)                                          /* r */
{
    const A r = M_FMA(z - 12582912.0f, -0.693145752f, x);
    return M_FMA(z - 12582912.0f, -1.42860677e-6f, r);
}
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
FUNC A LESSER_BITS(A x, A c)
{
    const U32 a = F32_BITS(x), b = F32_BITS(c);
    return BITS_F32(a < b ? a : b);
}
/* y 2^(k + more), where it is a normal number, and 2^k, where k is in the bits of z. */
FUNC A EXP_TIMES(A y, U32 k, U32 more) { return BITS_F32(F32_BITS(y) + ((k + more) << 23)); }
FUNC A EXP_POWER(U32 k) { return BITS_F32((k << 23) + 0x3f800000u); }
/* e^x. Two factors, so that results may be subnormal or infinite. */
FUNC A M_EXP(A x)
{
    const A low = x < -104.0f ? -104.0f : x, t = low > 89.0f ? 89.0f : low;
    const A z = EXP_WHOLE(t);
    const U32 k = F32_BITS(z), first = k >> 1;
    return EXP_NEAR(EXP_REST(t, z)) * EXP_POWER(first) * EXP_POWER(k - first);
}
/* The same where the result is a normal number. */
FUNC I32 EXP_IS_FAR(A x) { return !(ABS_OF(x) < 87.0f); }
FUNC A EXP_OF_NEAR(A x)
{
    const A z = EXP_WHOLE(x), r = EXP_REST(x, z);
    return EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 0u);
}
/* e^x for x <= 0, and anything for x > 0 and for NaN. e^-104 rounds to 0; the factor 0 gives it without an underflow, for
 * which processors take a hundred times as long. */
FUNC A EXP_BELOW(A x)
{
    const A t = LESSER_BITS(x, -104.0f), unscale = x <= -104.0f ? 0.0f : 5.42101086e-20f; /* 2^-64 */
    const A z = EXP_WHOLE(t), r = EXP_REST(t, z);
    return EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 64u) * unscale;
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
FUNC I32 LOG_IS_FAR(A x) { return F32_BITS(x) - 0x00800000u >= 0x7f000000u; } /* not a finite normal number > 0 */
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
    const A z = EXP_WHOLE(w), r = EXP_REST(w, z);
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
    const A z = EXP_WHOLE(t), r = EXP_REST(t, z);
    const A large = EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 64u); /* 2^64 e^t */
    const A y = (x < 0.0f ? x * large : x) / M_FMA(large, 5.42101086e-20f, 1.0f);
    return x < -120.0f ? t * 0.0f : x < 0.0f ? y * 5.42101086e-20f : y;
}
FUNC A M_SILU_BACKWARD(A g, A x)
{
    const A far = LESSER_BITS(BITS_F32(F32_BITS(x) | 0x80000000u), -104.0f); /* the sigmoid is 0 or 1 there */
    const A s = M_SIGMOID(x), t = SIGNED(ABS_OF(far), x);
    return g * (s * (1.0f + t * (1.0f - s)));
}
/* Phi(-t) = exp(-t^2 / 2) q(u) / (t + 2) for t >= 0, Phi the normal distribution, and u = (t - 2) / (t + 2), so the
 * relative error is small for large t, too. The square's rounding is made up for. PHI_NEAR is q(u). */
FUNC A PHI_NEAR(A u)
{
    A q = -7.02015604e-5f;
    q = M_FMA(q, u, 4.33066671e-5f);
    q = M_FMA(q, u, 7.19409436e-4f);
    q = M_FMA(q, u, 8.65332899e-4f);
    q = M_FMA(q, u, -1.890652e-3f);
    q = M_FMA(q, u, -6.74138777e-3f);
    q = M_FMA(q, u, -4.82784933e-4f);
    q = M_FMA(q, u, 3.67193632e-2f);
    q = M_FMA(q, u, 2.87984125e-2f);
    q = M_FMA(q, u, -0.331404418f);
    return M_FMA(q, u, 0.672407985f);
}
/* q(u) / (t + 2), and exp(-t^2 / 2) 2^more in *e. */
FUNC A PHI_FACTORS(A t, U32 more, PRIVATE A *e)
{
    const A d = 1.0f / (t + 2.0f), s = t * t, h = -0.5f * s, z = EXP_WHOLE(h);
    *e = EXP_TIMES(EXP_NEAR(M_FMA(M_FMA(t, t, -s), -0.5f, EXP_REST(h, z))), F32_BITS(z), more);
    return PHI_NEAR(M_FMA(d, -4.0f, 1.0f)) * d;
}
/* 2^64 Phi(-t), and exp(-t^2 / 2). */
FUNC A PHI_BELOW(A t, PRIVATE A *density)
{
    const A c = LESSER_BITS(t, 14.3f);
    A       e;
    const A q = PHI_FACTORS(c, 64u, &e);
    *density = e * 5.42101086e-20f;
    return e * q;
}
/* x Phi(x) and its derivative Phi(x) + x phi(x) (Hendrycks, Gimpel 2016). */
FUNC A M_GELU(A x)
{
    const A t = LESSER_BITS(ABS_OF(x), 14.3f);
    A       e;
    const A q = PHI_FACTORS(t, t < 12.5f ? 0u : 64u, &e);
    const A y = x * (e * q) * (t < 12.5f ? 1.0f : 5.42101086e-20f); /* 2^-64 */
    return x > 14.3f ? x : x < -14.3f ? -0.0f : x > 0.0f ? x - y : y;
}
/* The same for |x| < 12.5, where Phi(-|x|) is a normal number. */
FUNC I32 GELU_IS_FAR(A x) { return !(ABS_OF(x) < 12.5f); }
FUNC A GELU_OF_NEAR(A x)
{
    const A t = ABS_OF(x);
    A       e;
    const A q = PHI_FACTORS(t, 0u, &e);
    const A y = x * (e * q);
    return x > 0.0f ? x - y : y;
}
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
/* True if |x| is too large for that, or x is not finite. Then 2 x / pi is computed in integers (Payne, Hanek 1983): the
 * product of the 24 bits of x and the bits of 2 / pi that matter. */
FUNC I32 TRIG_IS_FAR(A x) { return !(ABS_OF(x) < 1e5f); }
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
FUNC A SIN_OF_NEAR(A x) { return x == 0.0f ? x : TRIG_OF_NEAR(x, 0u); } /* -0 stays */
FUNC A COS_OF_NEAR(A x) { return TRIG_OF_NEAR(x, 1u); }
FUNC A M_SIN(A x) { return TRIG_IS_FAR(x) ? TRIG_OF_FAR(x, 0u) : SIN_OF_NEAR(x); }
FUNC A M_COS(A x) { return TRIG_IS_FAR(x) ? TRIG_OF_FAR(x, 1u) : COS_OF_NEAR(x); }
#else
FUNC A M_EXP(A x) { return M1(exp)(x); }
FUNC A M_LOG(A x) { return M1(log)(x); }
FUNC A M_TANH(A x) { return M1(tanh)(x); }
FUNC A M_ERF(A x) { return M1(erf)(x); }
FUNC A M_SIN(A x) { return M1(sin)(x); }
FUNC A M_COS(A x) { return M1(cos)(x); }
FUNC A EXP_BELOW(A x) { return M_EXP(x); }
FUNC A LOG_OF_NORMAL(A x, A more) { (void)more; return M_LOG(x); }
/* No x is far: the rows' own formulas are as fast. */
FUNC I32 EXP_IS_FAR(A x) { (void)x; return 0; }
FUNC I32 LOG_IS_FAR(A x) { (void)x; return 0; }
FUNC I32 GELU_IS_FAR(A x) { (void)x; return 0; }
FUNC I32 TRIG_IS_FAR(A x) { (void)x; return 0; }
FUNC A EXP_OF_NEAR(A x) { return M_EXP(x); }
FUNC A SIN_OF_NEAR(A x) { return M_SIN(x); }
FUNC A COS_OF_NEAR(A x) { return M_COS(x); }
FUNC A LOG1P_UNIT(A x) { return M1(log1p)(x); }
FUNC A M_SIGMOID(A x)
{
    A e = M_EXP(x < 0 ? x : -x); /* at most 1: nothing overflows */
    A d = LIT(1.0) / (LIT(1.0) + e);
    return x != x ? x : x < 0 ? e * d : d;
}
FUNC A M_SILU(A x) { return M_MAX_OF(x, LIT(-800.0)) * M_SIGMOID(x); } /* which is 0 below */
FUNC A M_SILU_BACKWARD(A g, A x)
{
    const A s = M_SIGMOID(x), t = M_MAX_OF(M_MIN_OF(x, LIT(800.0)), LIT(-800.0)); /* s is 0 or 1 there */
    return g * (s * (LIT(1.0) + t * (LIT(1.0) - s)));
}
/* x Phi(x) and its derivative Phi(x) + x phi(x), Phi the normal distribution (Hendrycks, Gimpel 2016). erfc keeps the
 * digits of large negative x. Beyond 40 both are at their limits. */
FUNC A M_GELU(A x)
{
    return LIT(0.5) * M_MAX_OF(x, LIT(-40.0)) * M1(erfc)(x * LIT(-0.70710678118654752));
}
FUNC A GELU_OF_NEAR(A x) { return M_GELU(x); }
FUNC A M_GELU_BACKWARD(A g, A x)
{
    const A t = x > LIT(40.0) ? LIT(40.0) : x < LIT(-40.0) ? LIT(-40.0) : x;
    A cdf = LIT(0.5) * M1(erfc)(t * LIT(-0.70710678118654752));
    A pdf = M_EXP(LIT(-0.5) * t * t) * LIT(0.39894228040143268);
    return g * (cdf + t * pdf);
}
#endif

FUNC A M_SOFTPLUS(A x)
{
    A a = M_ABS(x);
    return (x > 0 ? x : x != x ? x : LIT(0.0)) + LOG1P_UNIT(M_EXP(-a));
}
/* Binary cross-entropy of a logit and a target. Where the target is certain of what an infinite logit says it is 0. */
FUNC A M_BCE(A x, A target)
{
    const A a = M_ABS(x), missing = x > 0 ? LIT(1.0) - target : target;
    return (missing == 0 ? LIT(0.0) : a * missing) + LOG1P_UNIT(M_EXP(-a));
}
/* The remainder of a in steps of b, exactly. Of f32, f64 holds what a quotient below 2^29 takes away, which is faster. */
#if A_IS_F32 && CHUNKED && defined(HAS_F64)
FUNC A M_FMOD(A a, A b)
{
    const F64 q = (F64)a / (F64)b;
    if (!(q > -536870912.0 && q < 536870912.0)) return M1(fmod)(a, b);
    const A r = (A)((F64)a - (F64)(I32)q * (F64)b);
    return (I32)q == 0 ? a : r == 0 ? a * LIT(0.0) : r;
}
#else
FUNC A M_FMOD(A a, A b) { return M1(fmod)(a, b); }
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
FUNC A M_MAX(A a, A b) { return a > b ? a : b; }
FUNC A M_MIN(A a, A b) { return a < b ? a : b; }
FUNC A M_SIGN(A x) { return (x > 0) - (x < 0); }
FUNC A M_ABS(A x) { return x < 0 ? -x : x; }
FUNC A M_FLOOR(A x) { return x; }
FUNC A M_CEIL(A x) { return x; }
FUNC A M_RINT(A x) { return x; }
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
