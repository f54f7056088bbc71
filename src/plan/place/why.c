#include "plan/place/why.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

static haul__place_cause cause_of(const haul__place_graph *g, const haul__place_tensor *t, const uint8_t *members)
{
    if (t->role == HAUL__PLACE_PARAMETER || t->role == HAUL__PLACE_STATE)
        return HAUL__PLACE_WEIGHTS;
    if (t->role == HAUL__PLACE_GRADIENT)
        return HAUL__PLACE_GRADIENTS;
    return members[g->operations[t->producer].group] ? HAUL__PLACE_RESULT : HAUL__PLACE_INPUT;
}

static void compare(const haul__place_graph *g, const uint8_t *place, const uint8_t *other, const uint8_t *members,
                    haul__place_why *out)
{
    int64_t more[HAUL__PLACE_CAUSES] = {0};
    for (size_t t = 0; t < g->tensor_count; t++) {
        if (!g->tensors[t].user_count)
            continue;
        const int64_t change = haul__place_copying(g, (int)t, other) - haul__place_copying(g, (int)t, place);
        out->copies += change;
        more[cause_of(g, &g->tensors[t], members)] += change;
    }
    for (int i = 0; i < HAUL__PLACE_CAUSES; i++)
        out->cause = more[i] > more[out->cause] ? (haul__place_cause)i : out->cause;
}

/* On the other device, where it can be. False if no member can. */
static bool explain(const haul__place_graph *g, const uint8_t *place, const uint8_t *members, uint8_t *other,
                    haul__place_why *out)
{
    bool movable = false;
    memcpy(other, place, g->group_count);
    for (size_t k = 0; k < g->group_count; k++) {
        if (!members[k])
            continue;
        const bool moves = place[k] != out->other && haul__place_allows(g, (int)k, out->other);
        other[k] = moves ? (uint8_t)out->other : place[k];
        HAUL__ASSERT(haul__place_allows(g, (int)k, other[k]));
        out->here += g->groups[k].cost[place[k]];
        out->there += g->groups[k].cost[other[k]];
        movable = movable || moves;
    }
    compare(g, place, other, members, out);
    return movable;
}

static bool is_better(const haul__place_why *a, const haul__place_why *b)
{
    if (a->there == HAUL__PLACE_NEVER || b->there == HAUL__PLACE_NEVER)
        return a->there != HAUL__PLACE_NEVER;
    return a->there + a->copies < b->there + b->copies;
}

haul_status haul__place_explain(const haul__place_graph *g, const uint8_t *place, const uint8_t *members,
                                haul__place_why *out)
{
    const uint8_t *first = memchr(members, 1, g->group_count);
    const int      home = first ? place[first - members] : 0;
    uint8_t       *other = haul__malloc(g->group_count + 1);
    *out = (haul__place_why){.other = home};
    if (!other)
        return haul__fail_memory("haul plan", g->group_count + 1);
    for (int d = 0; d < g->device_count; d++) {
        haul__place_why why = {.other = d};
        if (d == home)
            continue;
        why.there = explain(g, place, members, other, &why) ? why.there : HAUL__PLACE_NEVER;
        if (out->other == home || is_better(&why, out))
            *out = why;
    }
    HAUL__ASSERT(out->other != home || g->device_count == 1);
    haul__free(other);
    return HAUL_OK;
}
