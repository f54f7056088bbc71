/* Floating-point numbers. Operations that PTX rounds correctly are the host's; approximate ones are computed in f64 and
 * rounded once, which is nearer than PTX promises. */
#include "lanes.h"

#include <fenv.h>
#include <math.h>

static f32 flushed(f32 x)
{
    return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x;
}

/* Towards zero. The operands are volatile so that nothing is computed before the mode is set. */
static f32 add_towards_zero(f32 x, f32 y)
{
    volatile f32 a = x, b = y, sum;
    fesetround(FE_TOWARDZERO);
    sum = a + b;
    fesetround(FE_TONEAREST);
    return sum;
}

static f32 fma_towards_zero(f32 x, f32 y, f32 z)
{
    volatile f32 a = x, b = y, c = z, sum;
    fesetround(FE_TOWARDZERO);
    sum = fmaf(a, b, c);
    fesetround(FE_TONEAREST);
    return sum;
}

/* rcp.approx.ftz.f64 computes the upper word alone. */
static f64 upper_word(f64 x)
{
    u64 bits;
    memcpy(&bits, &x, sizeof bits);
    bits &= 0xFFFFFFFF00000000;
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* -0 is less than 0; a number is preferred to NaN. */
#define LESSER(T)                                                                                                      \
    static T lesser_##T(T x, T y)                                                                                      \
    {                                                                                                                  \
        if (x != x || y != y)                                                                                          \
            return x != x ? y : x;                                                                                     \
        return x == y ? (signbit(x) ? x : y) : x < y ? x : y;                                                          \
    }
LESSER(f32)
LESSER(f64)

#define ARITHMETIC(T, bits, suffix)                                                                                    \
    BINARY(add_##T, T, T, T, x + y)                                                                                    \
    BINARY(sub_##T, T, T, T, x - y)                                                                                    \
    BINARY(mul_##T, T, T, T, x *y)                                                                                     \
    BINARY(div_##T, T, T, T, x / y)                                                                                    \
    TERNARY(fma_##T, T, T, T, T, fma##suffix(x, y, z))                                                                 \
    UNARY(rcp_##T, T, T, 1 / x)                                                                                        \
    UNARY(sqrt_##T, T, T, sqrt##suffix(x))                                                                             \
    BINARY(min_##T, T, T, T, lesser_##T(x, y))                                                                         \
    BINARY(max_##T, T, T, T, -lesser_##T(-x, -y))                                                                      \
    UNARY(abs_##T, u##bits, u##bits, x & ~((u##bits)1 << ((bits)-1)))                                                  \
    UNARY(neg_##T, u##bits, u##bits, x ^ (u##bits)1 << ((bits)-1))                                                     \
    BINARY(copysign_##T, u##bits, u##bits, u##bits,                                                                    \
           (x & (u##bits)1 << ((bits)-1)) | (y & ~((u##bits)1 << ((bits)-1))))                                         \
    COMPARISON(eq_##T, T, x == y)                                                                                      \
    COMPARISON(ne_##T, T, x<y || x> y)                                                                                 \
    COMPARISON(lt_##T, T, x < y)                                                                                       \
    COMPARISON(le_##T, T, x <= y)                                                                                      \
    COMPARISON(gt_##T, T, x > y)                                                                                       \
    COMPARISON(ge_##T, T, x >= y)                                                                                      \
    COMPARISON(equ_##T, T, !(x < y || x > y))                                                                          \
    COMPARISON(neu_##T, T, !(x == y))                                                                                  \
    COMPARISON(ltu_##T, T, !(x >= y))                                                                                  \
    COMPARISON(leu_##T, T, !(x > y))                                                                                   \
    COMPARISON(gtu_##T, T, !(x <= y))                                                                                  \
    COMPARISON(geu_##T, T, !(x < y))                                                                                   \
    COMPARISON(num_##T, T, x == x && y == y)                                                                           \
    COMPARISON(nan_##T, T, x != x || y != y)
ARITHMETIC(f32, 32, f)
ARITHMETIC(f64, 64, )

BINARY(add_rz, f32, f32, f32, add_towards_zero(x, y))
TERNARY(fma_rz, f32, f32, f32, f32, fma_towards_zero(x, y, z))
UNARY(rcp_ftz, f32, f32, flushed(1 / flushed(x)))
UNARY(rcp_ftz_f64, f64, f64, upper_word(1 / x))
UNARY(ex2, f32, f32, (f32)exp2(x))
UNARY(ex2_ftz, f32, f32, flushed((f32)exp2(flushed(x))))
UNARY(lg2, f32, f32, (f32)log2(x))

/* ---- names ---- */

#define ROWS(T)                                                                                                        \
    {"add.rn." #T, add_##T}, {"sub.rn." #T, sub_##T}, {"mul.rn." #T, mul_##T}, {"div.rn." #T, div_##T},                \
        {"add." #T, add_##T}, {"sub." #T, sub_##T}, {"mul." #T, mul_##T}, {"fma.rn." #T, fma_##T},                     \
        {"rcp.rn." #T, rcp_##T}, {"sqrt.rn." #T, sqrt_##T}, {"min." #T, min_##T}, {"max." #T, max_##T},                \
        {"abs." #T, abs_##T}, {"neg." #T, neg_##T}, {"copysign." #T, copysign_##T}, {"setp.eq." #T, eq_##T},           \
        {"setp.ne." #T, ne_##T}, {"setp.lt." #T, lt_##T}, {"setp.le." #T, le_##T}, {"setp.gt." #T, gt_##T},            \
        {"setp.ge." #T, ge_##T}, {"setp.equ." #T, equ_##T}, {"setp.neu." #T, neu_##T}, {"setp.ltu." #T, ltu_##T},      \
        {"setp.leu." #T, leu_##T}, {"setp.gtu." #T, gtu_##T}, {"setp.geu." #T, geu_##T}, {"setp.num." #T, num_##T},    \
    {                                                                                                                  \
        "setp.nan." #T, nan_##T                                                                                        \
    }

const ptx_row ptx_floating_rows[] = {
    ROWS(f32),
    ROWS(f64),
    {"add.rz.f32", add_rz},
    {"fma.rz.f32", fma_rz},
    {"div.approx.f32", div_f32},
    {"rcp.approx.ftz.f32", rcp_ftz},
    {"rcp.approx.ftz.f64", rcp_ftz_f64},
    {"ex2.approx.f32", ex2},
    {"ex2.approx.ftz.f32", ex2_ftz},
    {"lg2.approx.f32", lg2},
    {0},
};
