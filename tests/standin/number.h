/* f16, bf16 and TF32 as bits, for the stand-ins of libraries. */
#ifndef HAUL_TESTS_STANDIN_NUMBER_H
#define HAUL_TESTS_STANDIN_NUMBER_H

#include <stdint.h>
#include <string.h>

static inline float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* Keep the upper bits, rounded to nearest, ties to even; NaN stays NaN. */
static inline uint32_t round_bits(uint32_t bits, int dropped)
{
    if ((bits & 0x7FFFFFFFu) > 0x7F800000u)
        return (bits | 0x400000u) >> dropped << dropped;
    bits += (1u << (dropped - 1)) - 1 + (bits >> dropped & 1);
    return bits >> dropped << dropped;
}

static inline float half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = h >> 10 & 31u, mantissa = h & 1023u;
    if (exponent == 31)
        return float_of(sign | 0x7F800000u | mantissa << 13);
    if (exponent == 0) {
        float value = (float)mantissa * 0x1p-24f;
        return sign ? -value : value;
    }
    return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
}

static inline uint16_t float_to_half(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, rest = bits & 0x7FFFFFFFu;
    if (rest > 0x7F800000u)
        return (uint16_t)(sign | 0x7E00u);
    if (rest < 0x38800000u) { /* the sum's last bit is worth 2^-24: the hardware rounds */
        float shifted = float_of(rest) + 0.5f;
        return (uint16_t)(sign | (bits_of(shifted) - bits_of(0.5f)));
    }
    rest = round_bits(rest, 13);
    if (rest >= 0x47800000u)
        return (uint16_t)(sign | 0x7C00u);
    return (uint16_t)(sign | (rest - 0x38000000u) >> 13);
}

static inline uint16_t float_to_bfloat(float value)
{
    return (uint16_t)(round_bits(bits_of(value), 16) >> 16);
}

static inline float bfloat_to_float(uint16_t b)
{
    return float_of((uint32_t)b << 16);
}

#endif
