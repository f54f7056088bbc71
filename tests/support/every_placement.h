/* The best placement of a small graph, by trying all of them. For a test program's one source file. */
#ifndef HAUL_TESTS_EVERY_PLACEMENT_H
#define HAUL_TESTS_EVERY_PLACEMENT_H

#include "plan/graph/place.h"

/* A search in depth: the groups before `next` have a place. `allowed` has a bit for each device. */
typedef struct every_placement {
    const haul__place_graph *g;
    unsigned                 allowed;
    bool                     fits; /* only placements within the limits count */
    uint8_t                  place[64];
    int64_t                  least; /* INT64_MAX: there is none */
} every_placement;

static inline bool every_can_be(const every_placement *e, int group, int device)
{
    return haul__place_allows(e->g, group, device) && e->allowed & 1U << device;
}

/* What no completion is below: the costs of the groups, at least the cheapest ones, and the copies that are certain. */
static inline int64_t every_bound(const every_placement *e, int next)
{
    const haul__place_graph *g = e->g;
    int64_t                  sum = 0;
    for (int k = 0; k < (int)g->group_count; k++) {
        int64_t least = HAUL__PLACE_MOST;
        for (int d = 0; d < g->device_count; d++)
            if (every_can_be(e, k, d) && g->groups[k].cost[d] < least)
                least = g->groups[k].cost[d];
        sum += k < next ? g->groups[k].cost[e->place[k]] : least;
    }
    for (size_t i = 0; i < g->tensor_count; i++) {
        const haul__place_tensor *t = &g->tensors[i];
        const int                 home = g->operations[t->producer].group;
        unsigned                  there = 0;
        for (int k = t->user; k < t->user + t->user_count && home < next; k++)
            if (g->users[k].group < next)
                there |= 1U << e->place[g->users[k].group];
        for (int d = 0; d < g->device_count && there; d++)
            sum += there & 1U << d && d != e->place[home] ? haul__place_copy_time(g, t, e->place[home], d) : 0;
    }
    return sum;
}

static inline bool every_fits(const every_placement *e)
{
    static int64_t   scratch[HAUL__PLACE_DEVICES * 200];
    haul__place_peak peaks[HAUL__PLACE_DEVICES];
    haul__place_peaks(e->g, e->place, scratch, peaks);
    return haul__place_fits(e->g, peaks);
}

static inline void every_try(every_placement *e, int next)
{
    const int64_t bound = every_bound(e, next);
    if (bound >= e->least)
        return;
    if (next == (int)e->g->group_count) {
        if (!e->fits || every_fits(e))
            e->least = bound;
        return;
    }
    for (int d = 0; d < e->g->device_count; d++)
        if (every_can_be(e, next, d)) {
            e->place[next] = (uint8_t)d;
            every_try(e, next + 1);
        }
}

/* The least cost of all placements on these devices; INT64_MAX: there is none. */
static inline int64_t least_of_all(const haul__place_graph *g, unsigned allowed, bool fits)
{
    every_placement e = {.g = g, .allowed = allowed, .fits = fits, .least = INT64_MAX};
    every_try(&e, 0);
    return e.least;
}

#endif
