/* Common part of kernel text, after the prelude: the types of the dtype being compiled and its mathematics.
 *
 * T: how elements are stored; A: what is computed in; ACC: what sums are kept in; LIT(x): a literal of type A;
 * LOAD / STORE: between T and A; IS_FLOAT; IS_HALF: T holds the bits of an f16 or bf16, so that only LOAD and STORE may
 * give it a meaning, while A and ACC are f32; NARROW(x): a value of type A after a STORE and a LOAD. The functions are
 * our own for f32, written without library calls, so that they are vectorised by compilers and give the same bits on
 * every device; f64 uses the device's library. */
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
FUNC A M_MAX(A a, A b) { return a > b || a != a ? a : b; }
FUNC A M_MIN(A a, A b) { return a < b || a != a ? a : b; }
FUNC A M_SIGN(A x) { return x != x ? x : (A)(x > 0) - (A)(x < 0); }
#define M_ABS(x)           M1(fabs)(x)
#define M_SQRT(x)          M1(sqrt)(x)
#define M_FLOOR(x)         M1(floor)(x)
#define M_CEIL(x)          M1(ceil)(x)
#define M_RINT(x)          M1(rint)(x)
#define M_EXPM1(x)         M1(expm1)(x)
#define M_LOG1P(x)         M1(log1p)(x)
#define M_SIN(x)           M1(sin)(x)
#define M_COS(x)           M1(cos)(x)
#define M_POW(x, y)        M1(pow)(x, y)

#if A_IS_F32
/* exp by Cody and Waite's reduction and a polynomial of degree 6 (coefficients of Cephes' expf). */
FUNC A M_EXP(A x)
{
    A   t = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
    A   k = (t * 1.44269504f + 12582912.0f) - 12582912.0f; /* nearest integer */
    A   r = (t - k * 0.693359375f) + k * 2.12194440e-4f;
    A   q = 1.9875691500e-4f;
    q = q * r + 1.3981999507e-3f;
    q = q * r + 8.3334519073e-3f;
    q = q * r + 4.1665795894e-2f;
    q = q * r + 1.6666665459e-1f;
    q = q * r + 5.0000001201e-1f;
    A   y = (q * r * r + r) + 1.0f;
    I32 n = (I32)k, h = n / 2; /* two steps: results may be subnormal */
    y = y * BITS_F32((U32)(h + 127) << 23) * BITS_F32((U32)(n - h + 127) << 23);
    return x != x ? x : y;
}
/* log by Cephes' logf: x = 2^e m with m in [sqrt(1/2), sqrt(2)). */
FUNC A M_LOG(A x)
{
    I32 small = x < 1.17549435e-38f;
    A   s = small ? x * 8388608.0f : x;
    U32 bits = F32_BITS(s);
    I32 e = (I32)(bits >> 23) - 126 - (small ? 23 : 0);
    A   m = BITS_F32((bits & 0x007fffffu) | 0x3f000000u);
    I32 low = m < 0.707106781f;
    e = low ? e - 1 : e;
    m = low ? (m + m) - 1.0f : m - 1.0f;
    A   z = m * m, y = 7.0376836292e-2f;
    y = y * m - 1.1514610310e-1f;
    y = y * m + 1.1676998740e-1f;
    y = y * m - 1.2420140846e-1f;
    y = y * m + 1.4249322787e-1f;
    y = y * m - 1.6668057665e-1f;
    y = y * m + 2.0000714765e-1f;
    y = y * m - 2.4999993993e-1f;
    y = y * m + 3.3333331174e-1f;
    y = y * m * z;
    A f = (A)e;
    y = y + f * -2.12194440e-4f;
    y = y - 0.5f * z;
    y = (m + y) + f * 0.693359375f;
    y = x == 0.0f ? BITS_F32(0xff800000u) : y;
    y = x < 0.0f ? BITS_F32(0x7fc00000u) : y;
    return x != x || x == BITS_F32(0x7f800000u) ? x : y;
}
/* tanh of |x|: an odd polynomial near 0 (Cephes' tanhf), 1 - 2 / (exp(2x) + 1) elsewhere. The sign is that of x, of -0
 * too. */
FUNC A M_TANH(A x)
{
    U32 sign = F32_BITS(x) & 0x80000000u;
    A   a = BITS_F32(F32_BITS(x) ^ sign), z = a * a;
    A   q = -5.70498872745e-3f;
    q = q * z + 2.06390887954e-2f;
    q = q * z - 5.37397155531e-2f;
    q = q * z + 1.33314422036e-1f;
    q = q * z - 3.33332819422e-1f;
    q = q * z * a + a;
    A e = M_EXP(a > 10.0f ? 20.0f : a + a);
    A r = 1.0f - 2.0f / (e + 1.0f);
    r = BITS_F32(F32_BITS(a < 0.625f ? q : r) ^ sign);
    return x != x ? x : r;
}
/* erf: W. J. Cody, "Rational Chebyshev approximation for the error function", 1969, in the two ranges that f32 needs;
 * relative error below 4e-7. */
FUNC A M_ERF(A x)
{
    A a = x < 0.0f ? -x : x, z = x * x;
    A small = x * (3.209377589138469e3f + z * (3.774852376853020e2f + z * (1.138641541510502e2f + z * (3.161123743870566e0f + z * 1.857777061846032e-1f)))) /
              (2.844236833439171e3f + z * (1.282616526077372e3f + z * (2.440246379344442e2f + z * (2.360129095234412e1f + z))));
    A c = a > 4.0f ? 4.0f : a;
    A num = 1.23033935479799725e3f + c * (2.05107837782607147e3f + c * (1.71204761263407058e3f + c * (8.81952221241769090e2f + c * (2.98635138197400131e2f + c * (6.61191906371416295e1f + c * (8.88314979438837594e0f + c * (5.64188496988670089e-1f + c * 2.15311535474403846e-8f)))))));
    A den = 1.23033935480374942e3f + c * (3.43936767414372164e3f + c * (4.36261909014324716e3f + c * (3.29079923573345963e3f + c * (1.62138957456669019e3f + c * (5.37181101862009858e2f + c * (1.17693950891312499e2f + c * (1.57449261107098347e1f + c)))))));
    A large = 1.0f - M_EXP(-c * c) * (num / den);
    large = x < 0.0f ? -large : large;
    return x != x ? x : a < 0.46875f ? small : large;
}
#else
#define M_EXP(x)  M1(exp)(x)
#define M_LOG(x)  M1(log)(x)
#define M_TANH(x) M1(tanh)(x)
#define M_ERF(x)  M1(erf)(x)
#endif

FUNC A M_SIGMOID(A x)
{
    A e = M_EXP(x < 0 ? x : -x); /* at most 1: nothing overflows */
    A d = LIT(1.0) / (LIT(1.0) + e);
    return x != x ? x : x < 0 ? e * d : d;
}
FUNC A M_SOFTPLUS(A x)
{
    A a = M_ABS(x);
    return (x > 0 ? x : x != x ? x : LIT(0.0)) + M1(log1p)(M_EXP(-a));
}
FUNC A M_SILU_BACKWARD(A g, A x)
{
    A s = M_SIGMOID(x);
    return g * (s * (LIT(1.0) + x * (LIT(1.0) - s)));
}
/* x Phi(x) and its derivative Phi(x) + x phi(x), Phi the normal distribution (Hendrycks, Gimpel 2016). */
FUNC A M_GELU(A x) { return LIT(0.5) * x * (LIT(1.0) + M_ERF(x * LIT(0.70710678118654752))); }
FUNC A M_GELU_BACKWARD(A g, A x)
{
    A cdf = LIT(0.5) * (LIT(1.0) + M_ERF(x * LIT(0.70710678118654752)));
    A pdf = M_EXP(LIT(-0.5) * x * x) * LIT(0.39894228040143268);
    return g * (cdf + x * pdf);
}
/* Binary cross-entropy of a logit and a target. Where the target is certain of what an infinite logit says it is 0. */
FUNC A M_BCE(A x, A target)
{
    const A a = M_ABS(x), missing = x > 0 ? LIT(1.0) - target : target;
    return (missing == 0 ? LIT(0.0) : a * missing) + M1(log1p)(M_EXP(-a));
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

#if IS_FLOAT
/* The largest element of a dense row, and the sum of exp(x - most) over it: the halves of a softmax. In kernels of the
 * lanes form. */
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
    for (I64 j = 0; j < whole; j += SUM_LANES)
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = M_MAX(OF_LANE(s, l), LOAD(v, j + l));
    EACH_LANE(l, n - whole) OF_LANE(s, l) = M_MAX(OF_LANE(s, l), LOAD(v, whole + l));
    LANE_TREE(A, s, M_MAX)
    return OF_FIRST_LANE(s);
}
FUNC A ROW_EXP_SUM(GLOBAL const T *v, I64 n, A most)
{
    const I64 whole = n - n % SUM_LANES;
    LANE_VALUES(A, s);
    EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
    for (I64 j = 0; j < whole; j += SUM_LANES)
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) += M_EXP(LOAD(v, j + l) - most);
    EACH_LANE(l, n - whole) OF_LANE(s, l) += M_EXP(LOAD(v, whole + l) - most);
    LANE_TREE(A, s, SUM_OF)
    return OF_FIRST_LANE(s);
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
