/* More mathematics of kernel text, after functions.h: inverse and hyperbolic functions, logarithms and powers of other
 * bases, the gamma function and its relatives. In f32 they have no calls, so compilers vectorise them, and they are
 * bit-identical on every device. tests/conformance/test_functions.c holds the errors. */
/* kernel functions: a unit has those that it uses */
// clang-format off
#if IS_FLOAT
FUNC A M_TRUNC(A x) { return M1(trunc)(x); }
FUNC A M_TRUNC_DIV(A a, A b) { return M1(trunc)(a / b); }
#if A_IS_F32
FUNC A M_COPYSIGN(A x, A y) { return BITS_F32((F32_BITS(x) & 0x7fffffffu) | (F32_BITS(y) & 0x80000000u)); }
FUNC I32 M_SIGNBIT(A x) { return (I32)(F32_BITS(x) >> 31); }
/* 2^x = 2^k e^(r ln 2) with a whole k and |r| <= 1/2. */
FUNC A M_EXP2(A x)
{
    const A low = x < -150.0f ? -150.0f : x, t = low > 129.0f ? 129.0f : low, z = t + 12582912.0f;
    const U32 k = F32_BITS(z), first = k >> 1;
    return EXP_NEAR((t - (z - 12582912.0f)) * 0.693147182f) * EXP_POWER(first) * EXP_POWER(k - first);
}
/* The logarithm in another base: `one` is that of e, and high + low that of 2. */
FUNC A LOG_IN_BASE(A x, A one, A high, A low)
{
    const A   small = x < 1.17549435e-38f ? 8388608.0f : 1.0f; /* 2^23 */
    const U32 bits = F32_BITS(x * small), top = bits - 0x3f2aaaabu;
    const A   e = (A)((I32)top >> 23) - (x < 1.17549435e-38f ? 23.0f : 0.0f);
    const A   f = BITS_F32(bits - (top & 0xff800000u)) - 1.0f;
    A         y = M_FMA(e, high, M_FMA(e, low, LOG_NEAR(f) * one));
    y = x > 0.0f ? y : x == 0.0f ? BITS_F32(0xff800000u) : BITS_F32(0x7fc00000u);
    return x < BITS_F32(0x7f800000u) ? y : x;
}
FUNC A M_LOG2(A x) { return LOG_IN_BASE(x, 1.44269502f, 1.0f, 0.0f); }
FUNC A M_LOG10(A x) { return LOG_IN_BASE(x, 0.434294492f, 0.301030010f, -1.4320989e-8f); }
/* log(1 + x) for x >= 0: what 1 + x loses is put back. */
FUNC A LOG1P_POSITIVE(A x)
{
    const A u = 1.0f + x, lost = x - (u - 1.0f), y = LOG_OF_NORMAL(u, 0.0f) + lost / u;
    return x < BITS_F32(0x7f800000u) ? y : x;
}
/* e^x / 2 for x >= 0. */
FUNC A EXP_HALF(A x)
{
    const A t = x > 91.0f ? 91.0f : x;
    const A z = EXP_WHOLE(t), r = EXP_REST(t, z);
    const U32 k = F32_BITS(z), first = k >> 1;
    return EXP_NEAR(r) * EXP_POWER(first) * EXP_POWER(k - first - 1u);
}
/* A polynomial near 0, (e^x - e^-x) / 2 elsewhere. */
FUNC A M_SINH(A x)
{
    const A a = ABS_OF(x), s = x * x, h = EXP_HALF(a);
    A       y = 2.81744292e-6f;
    y = M_FMA(y, s, 1.98360649e-4f);
    y = M_FMA(y, s, 8.33335053e-3f);
    y = M_FMA(y, s, 0.166666672f);
    y = M_FMA(y * s, x, x);
    return a < 1.0f ? y : x != x ? x : SIGNED(h - 0.25f / h, x);
}
FUNC A M_COSH(A x)
{
    const A h = EXP_HALF(ABS_OF(x));
    return h + 0.25f / h;
}
/* log(x + sqrt(x^2 + 1)), by log(1 + t) where x is not large. */
FUNC A M_ASINH(A x)
{
    const A a = ABS_OF(x), c = a > 1e4f ? 1e4f : a, s = c * c;
    const A near = LOG1P_POSITIVE(c + s / (1.0f + M_SQRT(1.0f + s)));
    const A far = a < BITS_F32(0x7f800000u) ? LOG_OF_NORMAL(a, 1.0f) : a;
    return x != x ? x : SIGNED(a > 1e4f ? far : near, x);
}
FUNC A M_ACOSH(A x)
{
    const A t = (x > 1e4f ? 1e4f : x) - 1.0f, near = LOG1P_POSITIVE(t + M_SQRT(t * (t + 2.0f)));
    const A far = x < BITS_F32(0x7f800000u) ? LOG_OF_NORMAL(x, 1.0f) : x;
    return x > 1e4f ? far : x >= 1.0f ? near : BITS_F32(0x7fc00000u);
}
FUNC A M_ATANH(A x)
{
    const A a = ABS_OF(x), y = 0.5f * LOG1P_POSITIVE(2.0f * a / (1.0f - a));
    return a <= 1.0f ? SIGNED(y, x) : BITS_F32(0x7fc00000u);
}
/* asin(x) for 0 <= x <= 1/2, s = x^2. */
FUNC A ASIN_NEAR(A x, A s)
{
    A y = 4.22180146e-2f;
    y = M_FMA(y, s, 2.41478961e-2f);
    y = M_FMA(y, s, 4.54770513e-2f);
    y = M_FMA(y, s, 7.49524236e-2f);
    y = M_FMA(y, s, 0.166667536f);
    return M_FMA(y * s, x, x);
}
/* Beyond 1/2, by asin(x) = pi / 2 - 2 asin(sqrt((1 - x) / 2)). */
FUNC A M_ASIN(A x)
{
    const A a = ABS_OF(x), s = a > 0.5f ? (1.0f - a) * 0.5f : a * a, y = ASIN_NEAR(a > 0.5f ? M_SQRT(s) : a, s);
    return x != x ? x : SIGNED(a > 0.5f ? M_FMA(-2.0f, y, 1.57079637f) - 4.37113883e-8f : y, x);
}
FUNC A M_ACOS(A x)
{
    const A a = ABS_OF(x), s = a > 0.5f ? (1.0f - a) * 0.5f : a * a, y = ASIN_NEAR(a > 0.5f ? M_SQRT(s) : a, s);
    const A near = 1.57079637f - ((x < 0.0f ? -y : y) + 4.37113883e-8f);
    const A far = x < 0.0f ? 3.14159274f - (2.0f * y + 8.74227766e-8f) : 2.0f * y;
    return a > 0.5f ? far : near;
}
/* atan(x) for 0 <= x <= 1. */
FUNC A ATAN_NEAR(A x)
{
    const A s = x * x;
    A       y = -1.7929459e-3f;
    y = M_FMA(y, s, 1.09115718e-2f);
    y = M_FMA(y, s, -3.1172175e-2f);
    y = M_FMA(y, s, 5.79518862e-2f);
    y = M_FMA(y, s, -8.40311646e-2f);
    y = M_FMA(y, s, 0.109520711f);
    y = M_FMA(y, s, -0.1426422f);
    y = M_FMA(y, s, 0.199985459f);
    y = M_FMA(y, s, -0.333332986f);
    return M_FMA(y * s, x, x);
}
FUNC A M_ATAN(A x)
{
    const A a = ABS_OF(x), y = ATAN_NEAR(a > 1.0f ? 1.0f / a : a);
    return x != x ? x : SIGNED(a > 1.0f ? 1.57079637f - (y + 4.37113883e-8f) : y, x);
}
FUNC A M_ATAN2(A y, A x)
{
    const A a = ABS_OF(y), b = ABS_OF(x), most = a > b ? a : b, least_of = a > b ? b : a;
    const A ratio = most == 0.0f ? 0.0f : least_of == most ? 1.0f : least_of / most, near = ATAN_NEAR(ratio);
    const A first = a > b ? 1.57079637f - (near + 4.37113883e-8f) : near;
    const A second = F32_BITS(x) >> 31 ? 3.14159274f - (first + 8.74227766e-8f) : first;
    return x != x ? x : y != y ? y : SIGNED(second, y);
}
/* tan(r + k pi / 2) for |r| <= pi / 4. */
FUNC A TAN_NEAR(A r, U32 k)
{
    const A s = r * r;
    A       y = 4.41406621e-3f;
    y = M_FMA(y, s, 9.18055684e-6f);
    y = M_FMA(y, s, 1.09025994e-2f);
    y = M_FMA(y, s, 2.12548915e-2f);
    y = M_FMA(y, s, 5.40655553e-2f);
    y = M_FMA(y, s, 0.133326098f);
    y = M_FMA(y, s, 0.333333522f);
    y = M_FMA(y * s, r, r);
    return k & 1u ? -1.0f / y : y;
}
FUNC A TAN_OF_NEAR(A x)
{
    const A z = M_FMA(x, 0.636619747f, 12582912.0f), k = z - 12582912.0f;
    A       r = M_FMA(k, -1.57079637f, x);
    r = M_FMA(k, 4.37113883e-8f, r);
    r = M_FMA(k, 1.71512451e-15f, r);
    return x == 0.0f ? x : TAN_NEAR(r, F32_BITS(z)); /* -0 stays */
}
FUNC A M_TAN(A x) { return TRIG_IS_FAR(x) ? TRIG_OF_FAR(x, 0u) / TRIG_OF_FAR(x, 1u) : TAN_OF_NEAR(x); }
FUNC A M_HYPOT(A x, A y)
{
    const A a = ABS_OF(x), b = ABS_OF(y), most = a > b ? a : b, t = most == 0.0f ? 0.0f : (a > b ? b : a) / most;
    const A inf = BITS_F32(0x7f800000u), h = most * M_SQRT(M_FMA(t, t, 1.0f));
    return a == inf || b == inf ? inf : x != x ? x : y != y ? y : h;
}
/* 1 - erf(x) near 0. Elsewhere 2 Phi(-x sqrt(2)), as PHI_FACTORS has it, with the square of x itself. */
FUNC A M_ERFC(A x)
{
    const A a = LESSER_BITS(ABS_OF(x), 10.1f), t = a * 1.41421354f, s = a * a, d = 1.0f / (t + 2.0f), h = -s;
    const A z = EXP_WHOLE(h), r = EXP_REST(h, z) - M_FMA(a, a, h);
    const A y = EXP_TIMES(EXP_NEAR(r), F32_BITS(z), 64u) * (PHI_NEAR(M_FMA(d, -4.0f, 1.0f)) * d) * 1.08420217e-19f; /* 2^-63 */
    const A near = 1.0f - M_ERF(x), far = x < 0.0f ? 2.0f - y : y;
    return x != x ? x : ABS_OF(x) < 0.4769f ? near : far;
}
/* erfinv(x) / x as a polynomial of w = -log(1 - x^2), and of its root where it is large (Giles 2010). */
FUNC A M_ERFINV(A x)
{
    const A w = -M_LOG(M_FMA(-x, x, 1.0f)), s = w - 2.5f, t = M_SQRT(w) - 3.0f;
    A near = -8.79205952e-09f;
    near = M_FMA(near, s, 2.32331612e-08f);
    near = M_FMA(near, s, 4.66184503e-07f);
    near = M_FMA(near, s, -3.46271099e-06f);
    near = M_FMA(near, s, -4.96341136e-06f);
    near = M_FMA(near, s, 0.000218344459f);
    near = M_FMA(near, s, -0.00125274179f);
    near = M_FMA(near, s, -0.00417738687f);
    near = M_FMA(near, s, 0.24664028f);
    near = M_FMA(near, s, 1.50140941f);
    A far = 0.000106012856f;
    far = M_FMA(far, t, -0.000300069165f);
    far = M_FMA(far, t, -4.29446482e-05f);
    far = M_FMA(far, t, 0.00147323252f);
    far = M_FMA(far, t, -0.00360459019f);
    far = M_FMA(far, t, 0.00569151249f);
    far = M_FMA(far, t, -0.0076357564f);
    far = M_FMA(far, t, 0.00944475643f);
    far = M_FMA(far, t, 1.00167489f);
    far = M_FMA(far, t, 2.83297682f);
    const A y = x * (w < 5.0f ? near : far);
    return w == BITS_F32(0x7f800000u) ? SIGNED(w, x) : y;
}
/* lgamma(2 + t) / (t (1 + t)) for t in [-1, 1]. */
FUNC A LGAMMA_NEAR(A t)
{
    A y = 2.05917877e-5f;
    y = M_FMA(y, t, -3.87368382e-5f);
    y = M_FMA(y, t, 1.64003704e-5f);
    y = M_FMA(y, t, -5.24122224e-5f);
    y = M_FMA(y, t, 2.00129463e-4f);
    y = M_FMA(y, t, -4.2557859e-4f);
    y = M_FMA(y, t, 9.08261223e-4f);
    y = M_FMA(y, t, -2.10205838e-3f);
    y = M_FMA(y, t, 5.00000687e-3f);
    y = M_FMA(y, t, -1.23849753e-2f);
    y = M_FMA(y, t, 3.29649001e-2f);
    y = M_FMA(y, t, -0.10031727f);
    return M_FMA(y, t, 0.422784328f);
}
/* lgamma(x) - (x - 1/2) log(x) + x - log(2 pi) / 2 for s = 1 / x^2 and x >= 8, times x (Stirling). */
FUNC A STIRLING(A s)
{
    return M_FMA(M_FMA(7.93650805e-4f, s, -2.77777785e-3f), s, 8.33333358e-2f);
}
#else
FUNC A M_COPYSIGN(A x, A y) { return BITS_F64((F64_BITS(x) & 0x7fffffffffffffffu) | (F64_BITS(y) & 0x8000000000000000u)); }
FUNC I32 M_SIGNBIT(A x) { return (I32)(F64_BITS(x) >> 63); }
FUNC A M_EXP2(A x) { return M1(exp2)(x); }
FUNC A M_LOG2(A x) { return M1(log2)(x); }
FUNC A M_LOG10(A x) { return M1(log10)(x); }
FUNC A M_SINH(A x) { return M1(sinh)(x); }
FUNC A M_COSH(A x) { return M1(cosh)(x); }
FUNC A M_ASINH(A x) { return M1(asinh)(x); }
FUNC A M_ACOSH(A x) { return M1(acosh)(x); }
FUNC A M_ATANH(A x) { return M1(atanh)(x); }
FUNC A M_ASIN(A x) { return M1(asin)(x); }
FUNC A M_ACOS(A x) { return M1(acos)(x); }
FUNC A M_ATAN(A x) { return M1(atan)(x); }
FUNC A M_ATAN2(A y, A x) { return M1(atan2)(y, x); }
FUNC A TAN_OF_NEAR(A x) { return M1(tan)(x); }
FUNC A M_TAN(A x) { return M1(tan)(x); }
FUNC A M_HYPOT(A x, A y) { return M1(hypot)(x, y); }
FUNC A M_ERFC(A x) { return M1(erfc)(x); }
/* The inverse of erf: the quantile of the normal distribution (Wichura 1988, algorithm AS 241), divided by sqrt(2). */
FUNC A M_ERFINV(A x)
{
    const A q = 0.5 * x, tail = 0.5 - M_ABS(q);
    if (M_ABS(q) <= 0.425) {
        const A r = 0.180625 - q * q;
        A a = 2509.0809287301226727, b = 5226.495278852545925;
        a = M_FMA(a, r, 33430.575583588128105);
        a = M_FMA(a, r, 67265.770927008700853);
        a = M_FMA(a, r, 45921.953931549871457);
        a = M_FMA(a, r, 13731.693765509461125);
        a = M_FMA(a, r, 1971.5909503065514427);
        a = M_FMA(a, r, 133.14166789178437745);
        a = M_FMA(a, r, 3.387132872796366608);
        b = M_FMA(b, r, 28729.085735721942674);
        b = M_FMA(b, r, 39307.89580009271061);
        b = M_FMA(b, r, 21213.794301586595867);
        b = M_FMA(b, r, 5394.1960214247511077);
        b = M_FMA(b, r, 687.1870074920579083);
        b = M_FMA(b, r, 42.313330701600911252);
        b = M_FMA(b, r, 1.0);
        return q * a / b * 0.70710678118654752440;
    }
    const A root = M_SQRT(-M_LOG(tail));
    A a, b;
    if (root <= 5.0) {
        const A r = root - 1.6;
        a = M_FMA(7.7454501427834140764e-4, r, 0.0227238449892691845833);
        a = M_FMA(a, r, 0.24178072517745061177);
        a = M_FMA(a, r, 1.27045825245236838258);
        a = M_FMA(a, r, 3.64784832476320460504);
        a = M_FMA(a, r, 5.7694972214606914055);
        a = M_FMA(a, r, 4.6303378461565452959);
        a = M_FMA(a, r, 1.42343711074968357734);
        b = M_FMA(1.05075007164441684324e-9, r, 5.475938084995344946e-4);
        b = M_FMA(b, r, 0.0151986665636164571966);
        b = M_FMA(b, r, 0.14810397642748007459);
        b = M_FMA(b, r, 0.68976733498510000455);
        b = M_FMA(b, r, 1.6763848301838038494);
        b = M_FMA(b, r, 2.05319162663775882187);
        b = M_FMA(b, r, 1.0);
    } else {
        const A r = root - 5.0;
        a = M_FMA(2.01033439929228813265e-7, r, 2.71155556874348757815e-5);
        a = M_FMA(a, r, 1.2426609473880784386e-3);
        a = M_FMA(a, r, 0.026532189526576123093);
        a = M_FMA(a, r, 0.29656057182850489123);
        a = M_FMA(a, r, 1.7848265399172913358);
        a = M_FMA(a, r, 5.4637849111641143699);
        a = M_FMA(a, r, 6.6579046435011037772);
        b = M_FMA(2.04426310338993978564e-15, r, 1.4215117583164458887e-7);
        b = M_FMA(b, r, 1.8463183175100546818e-5);
        b = M_FMA(b, r, 7.868691311456132591e-4);
        b = M_FMA(b, r, 0.0148753612908506148525);
        b = M_FMA(b, r, 0.13692988092273580531);
        b = M_FMA(b, r, 0.59983220655588793769);
        b = M_FMA(b, r, 1.0);
    }
    const A y = a / b * 0.70710678118654752440;
    return tail == 0 ? 1.0 / (x < 0 ? -0.0 : 0.0) : x < 0 ? -y : y;
}
FUNC A LGAMMA_NEAR(A t)
{
    A y = 1.69334557958581231e-9;
    y = M_FMA(y, t, -3.05971377578729387e-9);
    y = M_FMA(y, t, -5.08427030670672816e-9);
    y = M_FMA(y, t, 7.63803591201420306e-9);
    y = M_FMA(y, t, 1.84141628583984118e-8);
    y = M_FMA(y, t, -2.99386568678662036e-8);
    y = M_FMA(y, t, 2.19316250612785956e-9);
    y = M_FMA(y, t, -1.87610928409991406e-8);
    y = M_FMA(y, t, 1.08219138538581406e-7);
    y = M_FMA(y, t, -2.12001824341369471e-7);
    y = M_FMA(y, t, 3.92967442743218915e-7);
    y = M_FMA(y, t, -8.41517472430525816e-7);
    y = M_FMA(y, t, 1.81285475097182952e-6);
    y = M_FMA(y, t, -3.85175179683820103e-6);
    y = M_FMA(y, t, 8.22073332538270291e-6);
    y = M_FMA(y, t, -1.76605113714954439e-5);
    y = M_FMA(y, t, 3.81691915046469989e-5);
    y = M_FMA(y, t, -8.30953281571835227e-5);
    y = M_FMA(y, t, 1.82552598484797536e-4);
    y = M_FMA(y, t, -4.05707375770413666e-4);
    y = M_FMA(y, t, 9.15376925520089743e-4);
    y = M_FMA(y, t, -2.10813083527129918e-3);
    y = M_FMA(y, t, 4.99864116455970091e-3);
    y = M_FMA(y, t, -1.23841921933342866e-2);
    y = M_FMA(y, t, 3.2965000621158115e-2);
    y = M_FMA(y, t, -0.100317301674354229);
    return M_FMA(y, t, 0.422784335098467133);
}
FUNC A STIRLING(A s)
{
    A y = -1.39243221690590112; /* B2k / (2k (2k - 1)) */
    y = M_FMA(y, s, 0.179644372368830573);
    y = M_FMA(y, s, -2.95506535947712418e-2);
    y = M_FMA(y, s, 6.41025641025641026e-3);
    y = M_FMA(y, s, -1.91752691752691753e-3);
    y = M_FMA(y, s, 8.41750841750841751e-4);
    y = M_FMA(y, s, -5.95238095238095238e-4);
    y = M_FMA(y, s, 7.93650793650793651e-4);
    y = M_FMA(y, s, -2.77777777777777778e-3);
    return M_FMA(y, s, 8.33333333333333333e-2);
}
#endif
/* log(Gamma(x)) for x > 0: below 1 and from 3 to 8 it is moved to [1, 3] by Gamma(x + 1) = x Gamma(x). */
FUNC A LGAMMA_POSITIVE(A x)
{
    A near = x, factor = LIT(1.0);
    for (int i = 0; i < 5; i++) {
        const A less = near - LIT(1.0);
        factor = near > LIT(3.0) ? factor * less : factor;
        near = near > LIT(3.0) ? less : near;
    }
    const A log_factor = M_LOG(x < LIT(1.0) ? x : factor);
    const A t = x < LIT(1.0) ? x - LIT(1.0) : near - LIT(2.0), d = LIT(1.0) / x, far_of = x < LIT(8.0) ? LIT(8.0) : x;
    const A y = M_FMA(t * (LIT(1.0) + t), LGAMMA_NEAR(t), x < LIT(1.0) ? -log_factor : log_factor);
    const A log_of = M_LOG(far_of) - LIT(1.0);
    const A far = M_FMA(far_of - LIT(0.5), log_of, STIRLING(d * d) * d) + LIT(0.41893853320467274178);
    return x - x != 0 ? x : x > LIT(8.0) ? far : y;
}
/* The logarithm of |Gamma(x)|. For negative x, Gamma(x) Gamma(1 - x) = pi / sin(pi x). */
FUNC A M_LGAMMA(A x)
{
    const A positive = LGAMMA_POSITIVE(x > 0 ? x : LIT(1.0) - x), part = x - M_RINT(x);
    const A below = LIT(1.14472988584940017414) - M_LOG(M_ABS(M_SIN(part * LIT(3.14159265358979323846)))) - positive;
    return x > 0 || x != x ? positive : x - x != 0 ? -x : part == 0 ? -M_LOG(LIT(0.0)) : below;
}
/* Hurwitz's zeta function: the sum of (q + k)^-n for k = 0, 1 ..., for q > 0 and a whole n >= 2 (Euler, Maclaurin). */
FUNC A ZETA_POSITIVE(A n, A q)
{
    A sum = 0, x = q;
    for (int i = 0; i < 10; i++, x += LIT(1.0)) sum += M_POW(x, -n);
    const A power = M_POW(x, -n), s = LIT(1.0) / (x * x);
    A term = n * power / x, rest = x * power / (n - LIT(1.0)) + LIT(0.5) * power + term * LIT(0.083333333333333333);
    term *= (n + LIT(1.0)) * (n + LIT(2.0)) * s;
    rest -= term * LIT(1.3888888888888889e-3);
    term *= (n + LIT(3.0)) * (n + LIT(4.0)) * s;
    rest += term * LIT(3.3068783068783069e-5);
    term *= (n + LIT(5.0)) * (n + LIT(6.0)) * s;
    rest -= term * LIT(8.2671957671957672e-7);
    term *= (n + LIT(7.0)) * (n + LIT(8.0)) * s;
    rest += term * LIT(2.0876756987868099e-8);
    term *= (n + LIT(9.0)) * (n + LIT(10.0)) * s;
    rest -= term * LIT(5.2841901386874932e-10);
    return q - q != 0 ? (q > 0 ? LIT(0.0) : q) : sum + rest;
}
/* The derivative of log(Gamma(x)). */
FUNC A M_DIGAMMA(A x)
{
    A below = 0, up = x > 0 ? x : LIT(1.0) - x;
    const A from = up, part = x - M_RINT(x), angle = part * LIT(3.14159265358979323846);
    for (int i = 0; i < 10; i++) {
        below += up < LIT(10.0) ? LIT(1.0) / up : LIT(0.0);
        up += up < LIT(10.0) ? LIT(1.0) : LIT(0.0);
    }
    const A d = LIT(1.0) / up, s = d * d;
    A y = LIT(0.083333333333333333);
    y = M_FMA(y, s, LIT(-0.021092796092796093));
    y = M_FMA(y, s, LIT(7.5757575757575758e-3));
    y = M_FMA(y, s, LIT(-4.1666666666666667e-3));
    y = M_FMA(y, s, LIT(3.9682539682539683e-3));
    y = M_FMA(y, s, LIT(-8.3333333333333333e-3));
    y = M_FMA(y, s, LIT(0.083333333333333333));
    y = M_LOG(up) - LIT(0.5) * d - y * s - below;
    y = from - from != 0 ? from : y;
    const A cot = M_COS(angle) / M_SIN(angle), pi = LIT(3.14159265358979323846);
    if (x == 0) return LIT(-1.0) / x;
    return x > 0 || x != x ? y : part == 0 || x - x != 0 ? M_SQRT(LIT(-1.0)) : y - pi * cot; /* NaN at whole numbers */
}
/* The n-th derivative of digamma for a whole n >= 1: (-1)^(n + 1) n! zeta(n + 1, x). */
FUNC A M_POLYGAMMA(A n, A x)
{
    A factor = LIT(1.0);
    for (A k = LIT(2.0); k <= n && k < LIT(200.0); k += LIT(1.0)) factor *= k;
    const A odd = n - LIT(2.0) * M_FLOOR(n * LIT(0.5)), sign = odd != 0 ? LIT(1.0) : LIT(-1.0); /* of (-1)^(n + 1) */
    /* The terms below 0 are those of a sum from part on, and of another one from 1 - part on, but for those beyond x. */
    const A part = x - M_FLOOR(x);
    A       y = 0;
    for (int turn = 0; turn < (x <= 0 ? 3 : 1); turn++) {
        const A from = x > 0 || x != x ? x : turn == 0 ? LIT(1.0) - x : turn == 1 ? part : LIT(1.0) - part;
        const A zeta = ZETA_POSITIVE(n + LIT(1.0), from);
        y = x > 0 || x != x ? zeta : turn == 0 ? -sign * zeta : turn == 1 ? y + zeta : y + sign * zeta;
    }
    return n >= LIT(1.0) && M_FLOOR(n) == n ? sign * factor * y : M_SQRT(LIT(-1.0)); /* NaN */
}
/* A step from a to the next number of type T in the direction of b. */
FUNC A M_NEXTAFTER(A a, A b)
{
    const A away = (b > a) == (a > 0) ? LIT(1.0) : LIT(-1.0); /* from 0 */
#if IS_HALF
    const U32 bits = F32_TO_T(a), least_bits = 1u | (b < 0 ? 0x8000u : 0u);
    const A   y = T_TO_F32((U16)(a == 0 ? least_bits : away > 0 ? bits + 1u : bits - 1u));
#elif A_IS_F32
    const U32 bits = F32_BITS(a), least_bits = 1u | (b < 0 ? 0x80000000u : 0u);
    const A   y = BITS_F32(a == 0 ? least_bits : away > 0 ? bits + 1u : bits - 1u);
#else
    const U64 bits = F64_BITS(a), least_bits = (U64)1 | (b < 0 ? (U64)1 << 63 : (U64)0);
    const A   y = BITS_F64(a == 0 ? least_bits : away > 0 ? bits + (U64)1 : bits - (U64)1);
#endif
    return a != a || b != b ? a + b : a == b ? b : y;
}
/* log(e^a + e^b), without overflow. */
FUNC A M_LOGADDEXP(A a, A b)
{
    const A most = a > b ? a : b, apart = a == b ? LIT(0.0) : M_ABS(a - b);
    return a != a ? a : b != b ? b : most + LOG1P_UNIT(M_EXP(-apart));
}
/* a log(b), and 0 where a is 0. */
FUNC A M_XLOGY(A a, A b) { return b != b ? b : a == 0 ? LIT(0.0) : a * M_LOG(b); }
/* x softly cut at 0 with the steepness beta; beyond the threshold x itself. */
FUNC A M_SOFTPLUS_BETA(A x, A beta, A threshold) { return x * beta > threshold ? x : M_SOFTPLUS(x * beta) / beta; }
/* x (1 + tanh(u)) / 2 is x sigmoid(2 u); u = sqrt(2 / pi) (x + 0.044715 x^3). */
FUNC A M_GELU_TANH(A x)
{
    const A t = x < LIT(-30.0) ? LIT(-30.0) : x; /* 0 there */
    return t * M_SIGMOID(LIT(1.5957691216057308) * t * M_FMA(LIT(0.044715) * t, t, LIT(1.0)));
}
#else
FUNC A M_TRUNC(A x) { return x; }
/* The sign of a, as in C; 0 for b = 0. */
FUNC A M_FMOD(A a, A b)
{
    const A d = b == 0 || b == -1 ? (A)1 : b;
    return a % d;
}
/* a / b rounded towards 0; 0 for b = 0. The smallest number divided by -1 wraps around. */
FUNC A M_TRUNC_DIV(A a, A b)
{
    const A d = b == 0 || b == -1 ? (A)1 : b;
    return b == 0 ? (A)0 : b == -1 ? -a : a / d;
}
FUNC A M_BITS_AND(A a, A b) { return a & b; }
FUNC A M_BITS_OR(A a, A b) { return a | b; }
FUNC A M_BITS_XOR(A a, A b) { return a ^ b; }
#if defined(HAUL_KERNEL_DTYPE_bool)
FUNC A M_BITS_NOT(A x) { return x == 0; }
#else
FUNC A M_BITS_NOT(A x) { return ~x; }
#endif
/* By all bits of T or more nothing remains, but for the sign; by a negative number likewise. */
FUNC I32 SHIFT_IS_OUT(A b) { return b < 0 || b >= (A)(8 * sizeof(T)); }
FUNC A M_SHIFT_LEFT(A a, A b) { return SHIFT_IS_OUT(b) ? (A)0 : (A)((U64)(I64)a << b); }
FUNC A M_SHIFT_RIGHT(A a, A b) { return SHIFT_IS_OUT(b) ? (A)(a < 0 ? -1 : 0) : a >> b; }
#endif
