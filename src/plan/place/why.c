#include "plan/place/why.h"

#include <string.h>

#include "base/alloc.h"
#include "core/error.h"

static haul__place_cause cause_of(const haul__place_graph *g, const haul__place_tensor *t, const uint8_t *members)
{
    if (t->role == HAUL__PLACE_PARAMETER || t->role == HAUL__PLACE_STATE)
        return HAUL__PLACE_WEIGHTS;
    if (t->role == HAUL__PLACE_GRADIENT)
        return HAUL__PLACE_GRADIENTS;
    return members[g->operations[t->producer].group] ? HAUL__PLACE_RESULT : HAUL__PLACE_INPUT;
}

static int64_t copy_of(const haul__place_graph *g, int tensor, const uint8_t *place)
{
    const int to = haul__place_copied_to(g, tensor, place);
    return to < 0 ? 0 : g->tensors[tensor].copy[to];
}

static void compare(const haul__place_graph *g, const uint8_t *place, const uint8_t *other, const uint8_t *members,
                    haul__place_why *out)
{
    int64_t more[HAUL__PLACE_CAUSES] = {0};
    for (size_t t = 0; t < g->tensor_count; t++) {
        if (!g->tensors[t].user_count)
            continue;
        const int64_t change = copy_of(g, (int)t, other) - copy_of(g, (int)t, place);
        out->copies += change;
        more[cause_of(g, &g->tensors[t], members)] += change;
    }
    for (int i = 0; i < HAUL__PLACE_CAUSES; i++)
        out->cause = more[i] > more[out->cause] ? (haul__place_cause)i : out->cause;
}

haul_status haul__place_explain(const haul__place_graph *g, const uint8_t *place, const uint8_t *members,
                                haul__place_why *out)
{
    bool     movable = false;
    uint8_t *other = haul__malloc(g->group_count + 1);
    *out = (haul__place_why){0};
    if (!other)
        return haul__fail_memory("haul plan", g->group_count + 1);
    memcpy(other, place, g->group_count);
    for (size_t k = 0; k < g->group_count; k++) {
        if (!members[k])
            continue;
        const bool moves = haul__place_allows(g, (int)k, !place[k]);
        other[k] = moves ? !place[k] : place[k];
        out->here += g->groups[k].cost[place[k]];
        out->there += g->groups[k].cost[other[k]];
        movable = movable || moves;
    }
    compare(g, place, other, members, out);
    out->there = movable ? out->there : HAUL__PLACE_NEVER;
    haul__free(other);
    return HAUL_OK;
}
