/* What draws share: uniforms made of Philox's words, and functions that give bit-identical results on every device. */
#ifndef HAUL_OPS_RANDOM_RANDOM_KERNEL_H
#define HAUL_OPS_RANDOM_RANDOM_KERNEL_H
// clang-format off
#if defined(HAUL_KERNEL) && IS_FLOAT
#if defined(HAUL_KERNEL_DTYPE_f64)
enum { RANDOM_EACH = 2, RANDOM_WORDS = 2 }; /* numbers of a block, words of a number */
FUNC A random_53(U32 high, U32 low) { return (A)((U64)high << 21 | low >> 11); }
/* A number of its first and its last word, in [0, 1), and in (0, 1] for a logarithm; and the same in turns. */
FUNC A random_unit(U32 high, U32 low) { return random_53(high, low) * 1.1102230246251565e-16; }
FUNC A random_turns(U32 high, U32 low) { return random_unit(high, low); }
FUNC A random_unit_log(U32 high, U32 low) { return (random_53(high, low) + 1.0) * 1.1102230246251565e-16; }

/* log x = e log 2 + 2 artanh s, s = (m - 1) / (m + 1), for x = 2^e m with m around 1. */
FUNC A random_log(A x)
{
    const U64 bits = F64_BITS(x);
    I32 e = (I32)(bits >> 52) - 1023;
    A m = BITS_F64((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
    if (m > 1.4142135623730951) {
        m *= 0.5;
        e++;
    }
    const A s = (m - 1.0) / (m + 1.0), z = s * s;
    A q = 1.0 / 23.0;
    q = q * z + 1.0 / 21.0;
    q = q * z + 1.0 / 19.0;
    q = q * z + 1.0 / 17.0;
    q = q * z + 1.0 / 15.0;
    q = q * z + 1.0 / 13.0;
    q = q * z + 1.0 / 11.0;
    q = q * z + 1.0 / 9.0;
    q = q * z + 1.0 / 7.0;
    q = q * z + 1.0 / 5.0;
    q = q * z + 1.0 / 3.0;
    /* log 2 in two parts, the first exact when multiplied by e */
    return (A)e * 6.93147180369123816490e-01 + ((A)e * 1.90821492927058770002e-10 + (2.0 * s + 2.0 * s * (z * q)));
}

/* e^x for x <= 0: 2^k e^r with |r| <= log 2 / 2, by Taylor's series. */
FUNC A random_exp(A x)
{
    if (!(x > -745.0)) return 0.0;
    const A k = M_FLOOR(x * 1.4426950408889634 + 0.5);
    const A r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10;
    A y = 1.0 / 6227020800.0;
    y = y * r + 1.0 / 479001600.0;
    y = y * r + 1.0 / 39916800.0;
    y = y * r + 1.0 / 3628800.0;
    y = y * r + 1.0 / 362880.0;
    y = y * r + 1.0 / 40320.0;
    y = y * r + 1.0 / 5040.0;
    y = y * r + 1.0 / 720.0;
    y = y * r + 1.0 / 120.0;
    y = y * r + 1.0 / 24.0;
    y = y * r + 1.0 / 6.0;
    y = y * r + 0.5;
    y = y * r + 1.0;
    y = y * r + 1.0;
    const I32 first = (I32)k / 2, second = (I32)k - first; /* 2^k may be subnormal, the two factors are not */
    return y * BITS_F64((U64)(first + 1023) << 52) * BITS_F64((U64)(second + 1023) << 52);
}
#else
enum { RANDOM_EACH = 4, RANDOM_WORDS = 1 };
FUNC A random_24(U32 word) { return (A)(word >> 8) * 5.9604644775390625e-8f; }
/* As many bits as the dtype holds: the largest value is below 1 in it. */
FUNC A random_unit(U32 word, U32 last)
{
    (void)last;
#if defined(HAUL_KERNEL_DTYPE_f16)
    return (A)(word >> 21) * 4.8828125e-4f;
#elif defined(HAUL_KERNEL_DTYPE_bf16)
    return (A)(word >> 24) * 3.90625e-3f;
#else
    return random_24(word);
#endif
}
FUNC A random_turns(U32 word, U32 last) { (void)last; return random_24(word); }
FUNC A random_unit_log(U32 word, U32 last) { (void)last; return (A)word * 2.3283064365386963e-10f + 1.1641532182693481e-10f; }
FUNC A random_log(A x) { return M_LOG(x); }
FUNC A random_exp(A x) { return M_EXP(x); }
#endif

/* Sine and cosine of t turns, 0 <= t < 1: Taylor's series within an eighth of a turn of the nearest quarter. */
FUNC void random_turn(A t, A *sine, A *cosine)
{
    const I32 quarter = (I32)(t * LIT(4.0) + LIT(0.5));
    const A a = (t * LIT(4.0) - (A)quarter) * LIT(1.57079632679489662), z = a * a;
#if defined(HAUL_KERNEL_DTYPE_f64)
    A s = 1.0 / 355687428096000.0, c = -1.0 / 6402373705728000.0;
    s = s * z - 1.0 / 1307674368000.0;
    s = s * z + 1.0 / 6227020800.0;
    s = s * z - 1.0 / 39916800.0;
    s = s * z + 1.0 / 362880.0;
    c = c * z + 1.0 / 20922789888000.0;
    c = c * z - 1.0 / 87178291200.0;
    c = c * z + 1.0 / 479001600.0;
    c = c * z - 1.0 / 3628800.0;
#else
    A s = 1.0f / 362880.0f, c = -1.0f / 3628800.0f;
#endif
    s = s * z - LIT(1.0) / LIT(5040.0);
    s = s * z + LIT(1.0) / LIT(120.0);
    s = s * z - LIT(1.0) / LIT(6.0);
    s = s * z * a + a;
    c = c * z + LIT(1.0) / LIT(40320.0);
    c = c * z - LIT(1.0) / LIT(720.0);
    c = c * z + LIT(1.0) / LIT(24.0);
    c = c * z - LIT(0.5);
    c = c * z + LIT(1.0);
    const A along = quarter & 1 ? s : c, across = quarter & 1 ? c : s;
    *cosine = quarter == 1 || quarter == 2 ? -along : along;
    *sine = quarter == 2 || quarter == 3 ? -across : across;
}

/* -log u for u in (0, 1], an exponentially distributed number, never 0: half a step of u for u = 1. */
FUNC A random_waiting(A u)
{
#if defined(HAUL_KERNEL_DTYPE_f64)
    const A step = 5.5511151231257827e-17;
#else
    const A step = 2.98023224e-8f;
#endif
    const A e = -random_log(u);
    return e > step ? e : step;
}

/* Two uniforms from the block of one counter, the first in (0, 1], the second in [0, 1). */
FUNC void random_pair(U64 seed, U64 counter, A *first, A *second)
{
    U32 c0 = (U32)counter, c1 = (U32)(counter >> 32), c2 = 0, c3 = 0, k0 = (U32)seed, k1 = (U32)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const U32 high0 = MULHI32(0xD2511F53u, c0), low0 = 0xD2511F53u * c0;
        const U32 high1 = MULHI32(0xCD9E8D57u, c2), low1 = 0xCD9E8D57u * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    const U32 words[4] = {c0, c1, c2, c3};
    *first = random_unit_log(words[0], words[RANDOM_WORDS - 1]);
    *second = random_turns(words[RANDOM_WORDS], words[2 * RANDOM_WORDS - 1]);
}
#endif
// clang-format on
#endif
