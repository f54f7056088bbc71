/* Copies that map each axis of the result to an axis of the operand in its own way: padding, flips, repetitions and
 * rolls. */
#ifndef HAUL_OPS_MOVE_REMAP_H
#define HAUL_OPS_MOVE_REMAP_H

#include "engine/operation.h"

/* The element of an axis of x, which has n, for element c of the result's axis. */
typedef enum haul__way {
    HAUL__WAY_PLAIN,  /* c, where both have n */
    HAUL__WAY_FILL,   /* c + shift, or a number outside of x */
    HAUL__WAY_EDGE,   /* c + shift, or the nearest element of x */
    HAUL__WAY_MIRROR, /* c + shift; outside x it is reflected at the first or last element, once */
    HAUL__WAY_WRAP,   /* (c + shift) modulo n; shift is not negative */
    HAUL__WAY_BACK,   /* n - 1 - c */
    HAUL__WAY_EACH    /* c / shift */
} haul__way;

typedef struct haul__axis_map {
    haul__way way;
    int64_t   shift;
} haul__axis_map;

/* For compute: fills y, which is dense, with elements of x, which has as many axes, and with `value` where
 * HAUL__WAY_FILL finds none. */
haul_status haul__remap(const haul__call *c, haul_tensor *y, haul_tensor *x, const haul__axis_map *maps, double value);

#endif
