/* The smaller and the larger of two numbers, and a number rounded up to a multiple of another that is above 0. */
#ifndef HAUL_BASE_NUMBERS_H
#define HAUL_BASE_NUMBERS_H

#include <stdint.h>

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a / b rounded up, for b > 0; 0 for a < 0. */
static inline int64_t haul__ceil_div(int64_t a, int64_t b)
{
    return a > 0 ? (a - 1) / b + 1 : 0;
}

static inline int64_t round_up(int64_t a, int64_t b)
{
    return haul__ceil_div(a, b) * b;
}

#endif
