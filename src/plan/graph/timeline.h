/* When a device and its link can do what follows. Commands of a device, and copies in each direction of its link, run
 * in the order in which the host submits them; computing, copying up and copying down overlap. */
#ifndef HAUL_PLAN_GRAPH_TIMELINE_H
#define HAUL_PLAN_GRAPH_TIMELINE_H

#include <stddef.h>
#include <stdint.h>

#include "core/device.h"

/* Copies from a device wait for a point in its work that covers what they read. A point is made when a copy needs one
 * and none covers it, and then covers everything that the device has been given until then. The newest are kept. */
typedef struct haul__timeline_point {
    int64_t number; /* of the device's last operation before it */
    int64_t ps;
} haul__timeline_point;

/* All zero is the beginning. The host only computes. */
typedef struct haul__timeline {
    int64_t              compute, up, down; /* when the device and its link in each direction are free */
    int64_t              number;            /* of operations on the device */
    haul__timeline_point points[HAUL__MAX_POINTS];
    int                  next_point;
} haul__timeline;

/* The time of the earliest point after that operation of the device. */
static inline int64_t haul__timeline_after(haul__timeline *t, int64_t number)
{
    const haul__timeline_point *best = NULL;
    for (int i = 0; i < HAUL__MAX_POINTS; i++)
        if (t->points[i].number >= number && (!best || t->points[i].number < best->number))
            best = &t->points[i];
    if (best)
        return best->ps;
    t->points[t->next_point] = (haul__timeline_point){t->number, t->compute};
    t->next_point = (t->next_point + 1) % HAUL__MAX_POINTS;
    return t->compute;
}

#endif
