/* Conversions between types. */
#include "lanes.h"

#include <math.h>

static f32 from_half(u16 bits)
{
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    f32       value = exponent == 31  ? (fraction ? NAN : INFINITY)
                      : exponent == 0 ? ldexpf((f32)fraction, -24)
                                      : ldexpf((f32)(1024 + fraction), exponent - 25);
    return bits & 0x8000 ? -value : value;
}

/* To the nearest, and of two to the even one. */
static u16 to_half(f32 value)
{
    const u16 sign = signbit(value) ? 0x8000 : 0;
    const f32 size = fabsf(value);
    int       exponent;
    f32       steps;
    if (value != value)
        return 0x7FFF;
    if (size >= 65520)
        return sign | 0x7C00;
    if (size < 0x1p-14f)
        return sign | (u16)rintf(ldexpf(size, 24)); /* 1024, the least normal number, is right too */
    frexpf(size, &exponent);
    steps = rintf(ldexpf(size, 11 - exponent)); /* 1024 to 2048, which carries into the exponent */
    return (u16)(sign | (((exponent + 13) << 10) + (int)steps));
}

/* ---- whole numbers: those beyond the range become its ends ---- */

/* NaN becomes 0 from f32, and from f64 the number whose highest bit alone is set. PTX leaves this open; GPUs do so. */
#define TO_WHOLE(T, low, high, none)                                                                                   \
    static T whole_##T(f64 x, bool wide)                                                                               \
    {                                                                                                                  \
        if (x != x)                                                                                                    \
            return wide ? (none) : 0;                                                                                  \
        return x <= (f64)(low) ? (low) : x >= (f64)(high) ? (high) : (T)x;                                             \
    }
TO_WHOLE(u8, 0, UINT8_MAX, 0x80)
TO_WHOLE(s8, INT8_MIN, INT8_MAX, INT8_MIN)
TO_WHOLE(u16, 0, UINT16_MAX, 0x8000)
TO_WHOLE(s16, INT16_MIN, INT16_MAX, INT16_MIN)
TO_WHOLE(u32, 0, UINT32_MAX, 0x80000000)
TO_WHOLE(s32, INT32_MIN, INT32_MAX, INT32_MIN)
TO_WHOLE(u64, 0, UINT64_MAX, 0x8000000000000000)
TO_WHOLE(s64, INT64_MIN, INT64_MAX, INT64_MIN)

#define ROUNDED(mode, round, T, F) UNARY(mode##_##T##_##F, T, F, whole_##T(round((f64)x), sizeof(F) == 8))
#define OF_TYPE(T)                                                                                                     \
    UNARY(u8_##T, u8, T, x)                                                                                            \
    UNARY(s8_##T, s8, T, x)                                                                                            \
    UNARY(u16_##T, u16, T, x)                                                                                          \
    UNARY(s16_##T, s16, T, x)                                                                                          \
    UNARY(u32_##T, u32, T, x)                                                                                          \
    UNARY(s32_##T, s32, T, x)                                                                                          \
    UNARY(u64_##T, u64, T, x)                                                                                          \
    UNARY(s64_##T, s64, T, x)                                                                                          \
    UNARY(f32_##T, f32, T, x)                                                                                          \
    UNARY(f64_##T, f64, T, x)                                                                                          \
    ROUNDED(rni, rint, T, f32)                                                                                         \
    ROUNDED(rzi, trunc, T, f32)                                                                                        \
    ROUNDED(rmi, floor, T, f32)                                                                                        \
    ROUNDED(rpi, ceil, T, f32)                                                                                         \
    ROUNDED(rni, rint, T, f64)                                                                                         \
    ROUNDED(rzi, trunc, T, f64)                                                                                        \
    ROUNDED(rmi, floor, T, f64)                                                                                        \
    ROUNDED(rpi, ceil, T, f64)
OF_TYPE(u8)
OF_TYPE(s8)
OF_TYPE(u16)
OF_TYPE(s16)
OF_TYPE(u32)
OF_TYPE(s32)
OF_TYPE(u64)
OF_TYPE(s64)

#define WHOLE_VALUE(T, suffix)                                                                                         \
    UNARY(rni_##T, T, T, rint##suffix(x))                                                                              \
    UNARY(rzi_##T, T, T, trunc##suffix(x))                                                                             \
    UNARY(rmi_##T, T, T, floor##suffix(x))                                                                             \
    UNARY(rpi_##T, T, T, ceil##suffix(x))
WHOLE_VALUE(f32, f)
WHOLE_VALUE(f64, )

UNARY(f64_f32, f64, f32, x)
UNARY(f32_f64, f32, f64, x)
UNARY(f32_f16, f32, u16, from_half(x))
UNARY(f16_f32, u16, f32, to_half(x))

/* ---- names ---- */

#define ROUNDED_ROWS(T, F)                                                                                             \
    {"cvt.rni." #T "." #F, rni_##T##_##F}, {"cvt.rzi." #T "." #F, rzi_##T##_##F},                                      \
        {"cvt.rmi." #T "." #F, rmi_##T##_##F},                                                                         \
    {                                                                                                                  \
        "cvt.rpi." #T "." #F, rpi_##T##_##F                                                                            \
    }
#define ROWS(T)                                                                                                        \
    {"cvt.u8." #T, u8_##T}, {"cvt.s8." #T, s8_##T}, {"cvt.u16." #T, u16_##T}, {"cvt.s16." #T, s16_##T},                \
        {"cvt.u32." #T, u32_##T}, {"cvt.s32." #T, s32_##T}, {"cvt.u64." #T, u64_##T}, {"cvt.s64." #T, s64_##T},        \
        {"cvt.rn.f32." #T, f32_##T}, {"cvt.rn.f64." #T, f64_##T}, ROUNDED_ROWS(T, f32), ROUNDED_ROWS(T, f64)

const ptx_row ptx_convert_rows[] = {
    ROWS(u8),
    ROWS(s8),
    ROWS(u16),
    ROWS(s16),
    ROWS(u32),
    ROWS(s32),
    ROWS(u64),
    ROWS(s64),
    {"cvt.rni.f32.f32", rni_f32},
    {"cvt.rzi.f32.f32", rzi_f32},
    {"cvt.rmi.f32.f32", rmi_f32},
    {"cvt.rpi.f32.f32", rpi_f32},
    {"cvt.rni.f64.f64", rni_f64},
    {"cvt.rzi.f64.f64", rzi_f64},
    {"cvt.rmi.f64.f64", rmi_f64},
    {"cvt.rpi.f64.f64", rpi_f64},
    {"cvt.f64.f32", f64_f32},
    {"cvt.rn.f32.f64", f32_f64},
    {"cvt.f32.f16", f32_f16},
    {"cvt.rn.f16.f32", f16_f32},
    {0},
};
