/* Half precision from the definition of the formats: sign, exponent, and a significand of `digits` bits. */
#include "base/half.h"

#include <math.h>

#include "base/assert.h"

typedef struct format {
    int      digits; /* bits of the significand, including the leading one */
    int      least;  /* exponent of the smallest normal number */
    uint16_t infinity;
} format;

static format format_of(haul_dtype dtype)
{
    return dtype == HAUL_F16 ? (format){11, -14, 0x7c00} : (format){8, -126, 0x7f80};
}

bool haul__is_half(haul_dtype dtype)
{
    return dtype == HAUL_F16 || dtype == HAUL_BF16;
}

uint16_t haul__half_encode(haul_dtype dtype, double value)
{
    format   f = format_of(dtype);
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    int      exponent;
    HAUL__ASSERT(haul__is_half(dtype));
    if (isnan(value))
        return (uint16_t)(sign | f.infinity | 1 << (f.digits - 2));
    if (isinf(value) || value == 0)
        return (uint16_t)(sign | (value == 0 ? 0 : f.infinity));
    frexp(value, &exponent); /* value = m 2^exponent, 1/2 <= |m| < 1 */
    exponent = exponent - 1 < f.least ? f.least : exponent - 1;
    if (exponent > -f.least + 1)
        return sign | f.infinity;
    /* in units of the last digit, rounded to nearest, ties to even; a carry goes into the exponent */
    int64_t units = (int64_t)nearbyint(ldexp(fabs(value), f.digits - 1 - exponent));
    HAUL__ASSERT(0 <= units && units <= (int64_t)1 << f.digits);
    int64_t bits = ((int64_t)(exponent - f.least) << (f.digits - 1)) + units;
    return (uint16_t)(sign | (bits < f.infinity ? bits : f.infinity));
}

double haul__half_decode(haul_dtype dtype, uint16_t bits)
{
    format  f = format_of(dtype);
    int64_t magnitude = bits & 0x7fff, fraction = magnitude & ((1 << (f.digits - 1)) - 1);
    int     exponent = (int)(magnitude >> (f.digits - 1));
    double  value;
    HAUL__ASSERT(haul__is_half(dtype));
    if (magnitude > f.infinity)
        value = NAN;
    else if (magnitude == f.infinity)
        value = INFINITY;
    else if (exponent == 0)
        value = ldexp((double)fraction, f.least - f.digits + 1);
    else
        value = ldexp((double)(fraction + (1 << (f.digits - 1))), exponent - 1 + f.least - f.digits + 1);
    return bits & 0x8000 ? -value : value;
}
