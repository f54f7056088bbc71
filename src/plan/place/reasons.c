/* The reasons of a plan in words. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/text/duration.h"
#include "core/error.h"
#include "plan/place/plan.h"

void haul__plan_reason(const haul_plan *p, const haul__place_why *why, char *out, size_t size)
{
    static const char *const causes[HAUL__PLACE_CAUSES] = {"input", "result", "parameters", "gradients"};
    const char              *other = p->request.names[why->other];
    HAUL__ASSERT(0 <= why->other && why->other < haul__plan_device_count(p));
    HAUL__ASSERT((size_t)why->cause < sizeof causes / sizeof *causes);
    char          here[HAUL__DURATION], there[HAUL__DURATION], copies[HAUL__DURATION];
    const int64_t moved = why->copies < 0 ? -why->copies : why->copies;
    const int64_t longest = why->there == HAUL__PLACE_NEVER ? why->here : larger(larger(why->here, why->there), moved);
    haul__duration_text_like(why->here, longest, here);
    haul__duration_text_like(why->there, longest, there);
    haul__duration_text_like(moved, longest, copies);
    if (why->there == HAUL__PLACE_NEVER && !why->here)
        snprintf(out, size, "the host reads it");
    else if (why->there == HAUL__PLACE_NEVER)
        snprintf(out, size, "%s here, and it cannot run on %s", here,
                 haul__plan_device_count(p) > 2 ? "any other device" : other);
    else if (why->there + why->copies < why->here)
        snprintf(out, size, "%s here, %s on %s, which has %s", here, there, other,
                 p->spread            ? "other work at that time"
                 : !p->request.stages ? "no room for it"
                 : why->other         ? "another stage"
                                      : "no stage");
    else if (why->there < why->here)
        snprintf(out, size, "%s here, %s on %s, but its %s would cost %s to move", here, there, other,
                 causes[why->cause], copies);
    else if (why->copies < 0)
        snprintf(out, size, "%s here, %s on %s, which saves more than the %s of copies that it costs", here, there,
                 other, copies);
    else
        snprintf(out, size, "%s here, %s on %s", here, there, other);
}

static char *reason_of(const haul_plan *p, const haul__place_operation *o, uint8_t *members)
{
    haul__place_why why;
    char            text[300];
    HAUL__ASSERT(!members[o->group]); /* one group at a time */
    members[o->group] = 1;
    const haul_status status = haul__place_explain(&p->graph, p->best->device, members, &why);
    members[o->group] = 0;
    if (status)
        return NULL;
    haul__plan_reason(p, &why, text, sizeof text);
    return haul__strdup(text);
}

haul_status haul__plan_explain(haul_plan *p, const char *operation)
{
    const size_t count = p->graph.operation_count;
    if (p->reasons)
        return HAUL_OK;
    char   **reasons = haul__calloc(count + 1, sizeof *reasons);
    uint8_t *members = haul__calloc(p->graph.group_count + 1, 1);
    bool     fine = reasons && members;
    for (size_t i = 0; fine && i < count; i++)
        fine = (reasons[i] = reason_of(p, &p->graph.operations[i], members)) != NULL;
    haul__free(members);
    if (fine) {
        p->reasons = reasons;
        return HAUL_OK;
    }
    for (size_t i = 0; reasons && i < count; i++)
        haul__free(reasons[i]);
    haul__free(reasons);
    return haul__fail_memory(operation, count * sizeof *reasons);
}
