/* Numbers next to tensors of integers: haul_lt_scalar(i32, 3e9), haul_clamp(u8, -1, 300). Comparisons and bounds are
 * decided as for real numbers, whatever the dtype holds; arithmetic refuses a number that it does not hold. */
#ifndef HAUL_OPS_NUMBERS_H
#define HAUL_OPS_NUMBERS_H

#include "engine/operation.h"

/* How a row uses its number, or its two. */
typedef enum haul__number_use {
    HAUL__NUMBER_VALUE,    /* in arithmetic */
    HAUL__NUMBER_EXPONENT, /* of a power */
    HAUL__NUMBER_TRUTH,    /* is it 0? */
    HAUL__NUMBER_EQ,
    HAUL__NUMBER_NE,
    HAUL__NUMBER_LT,
    HAUL__NUMBER_LE,
    HAUL__NUMBER_GT,
    HAUL__NUMBER_GE,
    HAUL__NUMBER_MAXIMUM,
    HAUL__NUMBER_MINIMUM,
    HAUL__NUMBER_CLAMP,    /* both */
    HAUL__NUMBER_THRESHOLD /* what is compared, and a value */
} haul__number_use;

/* Is the result for integers one of integers (or bool)? If not, it is computed in floats. */
bool haul__numbers_keep_integers(haul__number_use use, const double *s);

/* Refuse numbers that would have to be in the result and are not values of an integer dtype. */
haul_status haul__check_numbers(const haul__call *c, haul__number_use use, haul_dtype dtype, const double *s);

/* Change the numbers to values of the integer dtype for which the result is the same. Returns the use of the changed
 * number: a comparison may have become another one. */
haul__number_use haul__fit_numbers(haul__number_use use, haul_dtype dtype, double *s);

#endif
