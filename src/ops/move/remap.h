/* Copies that map each axis of the result to an axis of the operand in its own way: padding, flips, repetitions and
 * rolls. */
#ifndef HAUL_OPS_MOVE_REMAP_H
#define HAUL_OPS_MOVE_REMAP_H

#include "engine/operation.h"
#include "ops/move/ways_kernel.h"

typedef struct haul__axis_map {
    haul__way way;
    int64_t   shift;
} haul__axis_map;

/* For compute: fills y, which is dense, with elements of x, which has as many axes, and with `value` where
 * HAUL__WAY_FILL finds none. */
haul_status haul__remap(const haul__call *c, haul_tensor *y, haul_tensor *x, const haul__axis_map *maps, double value);

#endif
