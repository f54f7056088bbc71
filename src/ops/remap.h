/* Copies in which each axis goes its own way through an operand: what padding, flips, repetitions and rolls share. */
#ifndef HAUL_OPS_REMAP_H
#define HAUL_OPS_REMAP_H

#include "engine/operation.h"

/* Which element of an axis of x, that has n of them, element c of the result's axis is. */
typedef enum haul__way {
    HAUL__WAY_PLAIN,  /* c, where both have n */
    HAUL__WAY_FILL,   /* c + shift, or a number outside of x */
    HAUL__WAY_EDGE,   /* c + shift, or the nearest in x */
    HAUL__WAY_MIRROR, /* c + shift; outside of x it is reflected by the first or last element, once */
    HAUL__WAY_WRAP,   /* (c + shift) modulo n; shift is not negative */
    HAUL__WAY_BACK,   /* n - 1 - c */
    HAUL__WAY_EACH    /* c / shift */
} haul__way;

typedef struct haul__axis_map {
    haul__way way;
    int64_t   shift;
} haul__axis_map;

/* For compute: fill y, whose strides leave no gaps, with elements of x, which has as many axes, and with `value` where
 * HAUL__WAY_FILL finds none. */
haul_status haul__remap(const haul__call *c, haul_tensor *y, haul_tensor *x, const haul__axis_map *maps, double value);

#endif
