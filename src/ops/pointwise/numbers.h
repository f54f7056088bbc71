/* Scalars combined with tensors of integers: haul_lt_scalar(i32, 3e9), haul_clamp(u8, -1, 300). Comparisons and bounds
 * follow the real numbers, whatever the dtype holds; arithmetic fails for a scalar that the dtype does not hold. */
#ifndef HAUL_OPS_POINTWISE_NUMBERS_H
#define HAUL_OPS_POINTWISE_NUMBERS_H

#include "engine/operation.h"

/* How an operation uses its one or two scalars. */
typedef enum haul__number_use {
    HAUL__NUMBER_VALUE,    /* as a term of arithmetic */
    HAUL__NUMBER_EXPONENT, /* as an exponent */
    HAUL__NUMBER_TRUTH,    /* only whether it is 0 */
    HAUL__NUMBER_EQ,
    HAUL__NUMBER_NE,
    HAUL__NUMBER_LT,
    HAUL__NUMBER_LE,
    HAUL__NUMBER_GT,
    HAUL__NUMBER_GE,
    HAUL__NUMBER_MAXIMUM,
    HAUL__NUMBER_MINIMUM,
    HAUL__NUMBER_CLAMP,    /* as both bounds */
    HAUL__NUMBER_THRESHOLD /* as the value compared, and a value of the result */
} haul__number_use;

/* True if the result for integers is an integer (or bool). If not, it is computed in floats. */
bool haul__numbers_keep_integers(haul__number_use use, const double *s);

/* Fails for scalars that the result would have to hold and that are not values of the integer dtype. */
haul_status haul__check_numbers(const haul__call *c, haul__number_use use, haul_dtype dtype, const double *s);

/* Changes the scalars to values of the integer dtype that give the same result. Returns the use of the changed scalar:
 * a comparison may have become another one. */
haul__number_use haul__fit_numbers(haul__number_use use, haul_dtype dtype, double *s);

#endif
