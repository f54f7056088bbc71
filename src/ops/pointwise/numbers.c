/* Scalars combined with tensors of integers. */
#include "ops/pointwise/numbers.h"

#include <math.h>

#include "base/assert.h"

/* The smallest value of an integer dtype or bool, and the first whole number above the largest: both are exact as
 * doubles. */
typedef struct bounds {
    double least, end;
} bounds;

static bounds bounds_of(haul_dtype dtype)
{
    int64_t least, most;
    haul__dtype_range(dtype, &least, &most);
    return (bounds){(double)least, dtype == HAUL_U64 ? 0x1p64 : (double)most + (most < INT64_MAX)};
}

static bool is_whole(double s)
{
    return s - s == 0 && floor(s) == s;
}

static bool is_whole_or_infinite(double s)
{
    return floor(s) == s;
}

bool haul__numbers_keep_integers(haul__number_use use, const double *s)
{
    switch (use) {
    case HAUL__NUMBER_VALUE:
    case HAUL__NUMBER_EXPONENT: return is_whole(s[0]);
    case HAUL__NUMBER_MAXIMUM:
    case HAUL__NUMBER_MINIMUM: return is_whole_or_infinite(s[0]);
    case HAUL__NUMBER_CLAMP: return is_whole_or_infinite(s[0]) && is_whole_or_infinite(s[1]);
    case HAUL__NUMBER_THRESHOLD: return is_whole(s[1]);
    default: return true;
    }
}

haul_status haul__check_numbers(const haul__call *c, haul__number_use use, haul_dtype dtype, const double *s)
{
    const char  *name = c->operation->operands[0].name;
    const bounds b = bounds_of(dtype);
    double       low = b.least, high = b.least; /* values that the result may have to hold */
    HAUL__ASSERT(b.least < b.end);
    switch (use) {
    case HAUL__NUMBER_EXPONENT:
        if (s[0] < 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "s",
                              "%s is %s, and integers have no integer power of %.15g; cast %s to a floating dtype with "
                              "haul_cast",
                              name, haul_dtype_name(dtype), s[0], name);
        low = high = s[0];
        break;
    case HAUL__NUMBER_VALUE: low = high = s[0]; break;
    case HAUL__NUMBER_MAXIMUM: high = s[0]; break;
    case HAUL__NUMBER_MINIMUM: low = fmin(s[0], low); break;
    case HAUL__NUMBER_CLAMP:
        high = s[0];
        low = fmin(s[1], low);
        break;
    case HAUL__NUMBER_THRESHOLD: low = high = s[1]; break;
    default: break;
    }
    if (low >= b.least && high < b.end)
        return HAUL_OK;
    return haul__refuse_number(c->operation->name, "s", dtype, low < b.least ? low : high,
                               dtype == HAUL_I64 || dtype == HAUL_U64
                                   ? "cast the tensor to a floating dtype with haul_cast"
                                   : "cast the tensor to a wider dtype with haul_cast");
}

/* x < s, x <= s ... for a whole s: a comparison of integers, which is always true or always false if s is out of
 * range. */
static haul__number_use fit_order(haul__number_use use, bounds b, double *s)
{
    bool below = use == HAUL__NUMBER_LT || use == HAUL__NUMBER_LE, always;
    if (*s >= b.least && *s < b.end)
        return use;
    always = *s < b.least ? !below : *s >= b.end && below; /* never with NaN */
    HAUL__ASSERT(use == HAUL__NUMBER_LT || use == HAUL__NUMBER_LE || use == HAUL__NUMBER_GT || use == HAUL__NUMBER_GE);
    *s = b.least;
    return always ? HAUL__NUMBER_GE : HAUL__NUMBER_LT;
}

static haul__number_use fit_comparison(haul__number_use use, bounds b, double *s)
{
    bool equality = use == HAUL__NUMBER_EQ || use == HAUL__NUMBER_NE;
    if (equality && is_whole(*s) && *s >= b.least && *s < b.end)
        return use;
    if (equality) {
        *s = b.least;
        return use == HAUL__NUMBER_NE ? HAUL__NUMBER_GE : HAUL__NUMBER_LT;
    }
    *s = use == HAUL__NUMBER_LT || use == HAUL__NUMBER_GE ? ceil(*s) : floor(*s);
    return fit_order(use, b, s);
}

/* haul__scalar_bits clamps larger values to the largest i64 or u64. */
static double clip(double s, bounds b)
{
    return s < b.least ? b.least : s >= b.end ? (b.end < 0x1p63 ? b.end - 1 : b.end) : s;
}

haul__number_use haul__fit_numbers(haul__number_use use, haul_dtype dtype, double *s)
{
    const bounds b = bounds_of(dtype);
    HAUL__ASSERT(b.least < b.end);
    switch (use) {
    case HAUL__NUMBER_VALUE:
    case HAUL__NUMBER_EXPONENT: return use;
    case HAUL__NUMBER_TRUTH: s[0] = s[0] != 0; return use;
    case HAUL__NUMBER_CLAMP: s[1] = clip(s[1], b); /* fall through */
    case HAUL__NUMBER_MAXIMUM:
    case HAUL__NUMBER_MINIMUM: s[0] = clip(s[0], b); return use;
    case HAUL__NUMBER_THRESHOLD:
        if (s[0] < b.least) /* x is larger in any case */
            s[1] = b.least;
        s[0] = s[0] == s[0] ? clip(floor(s[0]), b) : clip(INFINITY, b);
        return use;
    default: return fit_comparison(use, b, s);
    }
}
