/* The smaller and the larger of two numbers, and a number rounded up to a multiple of another that is above 0. */
#ifndef HAUL_CORE_NUMBERS_H
#define HAUL_CORE_NUMBERS_H

#include <stdint.h>

#include "core/shape.h"

static inline int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline int64_t round_up(int64_t a, int64_t b)
{
    return haul__ceil_div(a, b) * b;
}

#endif
