#include "plan/graph/many.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "plan/graph/dual.h"
#include "plan/graph/expand.h"

static const haul__place_proof UNPRICED = {.share_count = 0};

typedef struct trying {
    const haul__place_graph *g;
    uint8_t                 *best, *pair, *now; /* the best one, the best one of two devices */
    int64_t                  cost, pair_cost;   /* of these */
} trying;

static void keep_if_best(trying *t)
{
    const int64_t cost = haul__place_cost(t->g, t->now);
    if (cost >= t->cost)
        return;
    t->cost = cost;
    memcpy(t->best, t->now, t->g->group_count);
}

/* The start in `now`, improved. */
static haul_status improve(trying *t)
{
    const haul_status status = haul__place_expand_all(t->g, &UNPRICED, t->now);
    if (!status)
        keep_if_best(t);
    return status;
}

/* From everything on one device, the move to another one gives the best placement on these two. */
static haul_status try_pair(trying *t, int first, int second)
{
    bool better;
    HAUL__ASSERT(first != second);
    haul__place_all_on(t->g, first, t->now);
    const haul_status status = haul__place_expand(t->g, &UNPRICED, second, t->now, &better);
    const int64_t     cost = status ? INT64_MAX : haul__place_cost(t->g, t->now);
    if (cost < t->pair_cost) {
        t->pair_cost = cost;
        memcpy(t->pair, t->now, t->g->group_count);
    }
    return status;
}

static haul_status try_starts(trying *t)
{
    const int   n = t->g->device_count;
    haul_status status = HAUL_OK;
    for (int i = 0; i < n && !status; i++) {
        for (int j = i + 1; j < n && !status; j++)
            status = try_pair(t, i, j);
        haul__place_all_on(t->g, i, t->now);
        if (!status)
            status = improve(t);
    }
    memcpy(t->now, t->pair, t->g->group_count);
    return status ? status : improve(t);
}

haul_status haul__place_among_many(const haul__place_graph *g, uint8_t *place, haul__place_proof *proof)
{
    uint8_t    *room = haul__calloc(2 * g->group_count + 1, 1);
    trying      t = {g, place, room, room + g->group_count, INT64_MAX, INT64_MAX};
    haul_status status = room ? try_starts(&t) : haul__fail_memory("haul plan", 2 * g->group_count);
    if (!status)
        status = haul__place_bound(g, t.cost, t.now, proof);
    HAUL__ASSERT(status || proof->bound <= t.cost);
    if (!status && proof->bound < t.cost)
        status = improve(&t);
    haul__free(room);
    return status;
}

/* ---- two of the devices ---- */

static void keep_pair(const haul__place_graph *g, const int device[2], haul__place_graph *out)
{
    for (size_t k = 0; k < g->group_count; k++)
        for (int d = 0; d < 2; d++)
            out->groups[k].cost[d] = g->groups[k].cost[device[d]];
    for (size_t i = 0; i < g->tensor_count; i++)
        for (int d = 0; d < 2; d++)
            out->times[4 * i + (d ? 1 : 2)] = haul__place_copy_time(g, &g->tensors[i], device[!d], device[d]);
    for (int d = 0; d < 2; d++)
        out->limit[d] = g->limit[device[d]];
}

haul_status haul__place_pair(const haul__place_graph *g, int first, int second, haul__place_graph *out, bool *fits)
{
    const size_t groups = g->group_count * sizeof *g->groups, times = 4 * g->tensor_count * sizeof *g->times;
    HAUL__ASSERT(first != second && first < g->device_count && second < g->device_count);
    *out = *g;
    *fits = true;
    out->device_count = 2;
    out->groups = haul__malloc(groups + 1);
    out->times = haul__calloc(times + 1, 1);
    if (!out->groups || !out->times) {
        haul__place_pair_free(out);
        return haul__fail_memory("haul plan", groups + times);
    }
    memcpy(out->groups, g->groups, groups);
    keep_pair(g, (const int[]){first, second}, out);
    for (size_t k = 0; k < g->group_count; k++)
        *fits = *fits && haul__place_allows(out, (int)k, haul__place_allowed(out, (int)k, 0));
    return HAUL_OK;
}

void haul__place_pair_free(haul__place_graph *pair)
{
    haul__free(pair->groups);
    haul__free(pair->times);
}
