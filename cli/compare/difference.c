#include "cli/compare/difference.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/half.h"

/* ---- elements as numbers ---- */

#define ELEMENT(type) ((const type *)data)[i]
double element_of(haul_dtype dtype, const void *data, int64_t i)
{
    switch (dtype) {
    case HAUL_F64: return ELEMENT(double);
    case HAUL_F32: return ELEMENT(float);
    case HAUL_F16:
    case HAUL_BF16: return haul__half_decode(dtype, ELEMENT(uint16_t));
    case HAUL_I64: return (double)ELEMENT(int64_t);
    case HAUL_I32: return ELEMENT(int32_t);
    case HAUL_I16: return ELEMENT(int16_t);
    case HAUL_I8: return ELEMENT(int8_t);
    case HAUL_U16: return ELEMENT(uint16_t);
    case HAUL_U32: return ELEMENT(uint32_t);
    case HAUL_U64: return (double)ELEMENT(uint64_t);
    default: return ELEMENT(uint8_t);
    }
}

/* Bits of the significand, and the exponent of the smallest normal number. 0 bits: an integer. */
static void format_of(haul_dtype dtype, int *bits, int *least)
{
    static const struct {
        haul_dtype dtype;
        int        bits, least;
    } formats[] = {{HAUL_F64, 53, -1022}, {HAUL_F32, 24, -126}, {HAUL_F16, 11, -14}, {HAUL_BF16, 8, -126}};
    *bits = *least = 0;
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].dtype == dtype) {
            *bits = formats[i].bits;
            *least = formats[i].least;
        }
}

/* ---- distances ---- */

typedef struct measure {
    int bits, least; /* of the coarser dtype */
} measure;

static measure measure_of(haul_dtype a, haul_dtype b)
{
    measure x, y;
    format_of(a, &x.bits, &x.least);
    format_of(b, &y.bits, &y.least);
    return x.bits <= y.bits ? x : y;
}

/* The number of a value among the numbers of the dtype, counted from 0. Those of f64 need more digits than a double. */
static long double rank_of(const measure *m, double value)
{
    int          exponent;
    const double magnitude = fabs(value), fraction = frexp(magnitude, &exponent); /* of [0.5, 1) */
    const int    normal = exponent - 1 - m->least;
    long double  rank = ldexpl(normal, m->bits - 1) + ldexpl(fraction, m->bits);
    if (magnitude == 0 || normal < 0)
        rank = ldexpl(magnitude, m->bits - 1 - m->least);
    return value < 0 ? -rank : rank;
}

static double distance(const measure *m, double a, double b)
{
    if (isnan(a) || isnan(b) || isinf(a) || isinf(b))
        return INFINITY;
    return m->bits ? (double)fabsl(rank_of(m, a) - rank_of(m, b)) : fabs(a - b);
}

static bool are_equal(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

difference difference_of(const side_record *a, const void *a_data, const side_record *b, const void *b_data)
{
    const measure m = measure_of(a->dtype, b->dtype);
    difference    d = {.element = -1};
    double        squares = 0, of_a = 0, of_b = 0;
    int64_t       count = 1;
    for (int i = 0; i < a->shape.ndim; i++)
        count *= a->shape.dims[i];
    if (a->dtype == b->dtype && !memcmp(a_data, b_data, (size_t)a->bytes))
        return d;
    for (int64_t i = 0; i < count; i++) {
        const double x = element_of(a->dtype, a_data, i), y = element_of(b->dtype, b_data, i);
        of_a += isfinite(x) ? x * x : 0;
        of_b += isfinite(y) ? y * y : 0;
        if (are_equal(x, y))
            continue;
        const double ulp = distance(&m, x, y);
        d.count++;
        squares += isfinite(x) && isfinite(y) ? (x - y) * (x - y) : INFINITY;
        if (d.element < 0 || ulp > d.ulp) {
            d.element = i;
            d.ulp = ulp;
            d.a = x;
            d.b = y;
        }
    }
    const double norm = fmax(sqrt(fmax(of_a, of_b)), fmax(a->scale, b->scale));
    d.share = d.count ? sqrt(squares) / norm : 0;
    return d;
}
