/* Copies that could be fewer, smaller or cheaper. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "observe/audit/audit.h"
#include "observe/audit/costs.h"

enum { SMALL = 16 << 10, MANY = 4 };

/* ---- suspects ---- */

static haul__suspect suspect_of(const haul_profile *p, const haul__profile_event *copy, haul_finding_kind kind)
{
    HAUL__ASSERT(copy->kind & HAUL_EVENT_COPY && copy->stack <= p->stacks.count);
    const bool down = copy->kind == HAUL_EVENT_COPY_TO_HOST;
    return (haul__suspect){.kind = kind,
                           .call_site = haul__call_site_of(p, copy->stack),
                           .operation = copy->operation,
                           .device = down ? copy->other : copy->device,
                           .tensor = copy->name,
                           .module = copy->module,
                           .conversion = copy->detail,
                           .down = down,
                           .planned = copy->planned,
                           .count = 1,
                           .bytes = copy->bytes};
}

/* A copy that should not be, or not as it is: what crosses the link and the calls, or the calls alone. */
static void add_copy(const haul__costs *costs, const haul__profile_event *copy, const haul__suspect *what,
                     haul__suspects *to)
{
    haul__suspect *s = haul__suspect_add(to, what, copy->step);
    const bool     link = what->kind != HAUL_FINDING_PAGEABLE;
    HAUL__ASSERT(copy->kind & HAUL_EVENT_COPY && copy->bytes > 0);
    if (s) {
        s->carried += copy->bytes;
        to->failed = !haul__cost_of_copy(costs, copy, link, &s->when) || to->failed;
        haul__suspect_about(to, s, costs->profile, copy);
    }
}

/* Data that left a device and came back: the way there is the place. */
static void add_return(const haul__costs *costs, const haul__profile_event *back, haul__suspects *to)
{
    HAUL__ASSERT(0 < back->flow.back_from && back->flow.back_from <= costs->profile->count);
    const haul_profile        *p = costs->profile;
    const haul__profile_event *gone = &p->events[back->flow.back_from - 1];
    if (gone->other != back->device)
        return;
    haul__suspect what = suspect_of(p, gone, back->flow.operations ? HAUL_FINDING_CPU_ISLAND : HAUL_FINDING_PING_PONG);
    what.second = haul__call_site_of(p, back->stack);
    what.bytes += back->bytes;
    what.planned += back->planned;
    haul__suspect *s = haul__suspect_add(to, &what, back->step);
    if (s) {
        to->failed = !haul__cost_of_return(costs, gone, back, &s->when) || to->failed;
        haul__suspect_about(to, s, p, gone);
        haul__suspect_about(to, s, p, back);
    }
}

/* Small copies are suspects each; whether there are many is known at the end. */
static void look_at(const haul__costs *costs, const haul__profile_event *copy, haul__suspects *to)
{
    const haul_profile *p = costs->profile;
    const haul__suspect small = suspect_of(p, copy, HAUL_FINDING_MANY_SMALL);
    const haul__suspect pageable = suspect_of(p, copy, HAUL_FINDING_PAGEABLE);
    const haul__suspect unchanged = suspect_of(p, copy, HAUL_FINDING_UNCHANGED);
    haul__suspect       wrong_side = suspect_of(p, copy, HAUL_FINDING_WRONG_SIDE);
    const bool          returned = copy->kind == HAUL_EVENT_COPY_TO_DEVICE && copy->flow.back_from;
    HAUL__ASSERT(0 <= copy->flow.excess && copy->flow.excess <= copy->bytes);
    wrong_side.bytes = copy->flow.excess;
    if (returned)
        add_return(costs, copy, to);
    if (copy->flow.excess > 0)
        add_copy(costs, copy, &wrong_side, to);
    if (copy->unchanged && !returned)
        add_copy(costs, copy, &unchanged, to);
    if (copy->bytes <= SMALL)
        add_copy(costs, copy, &small, to);
    else if (!strcmp(haul__profile_text(p, copy->text), "pageable"))
        add_copy(costs, copy, &pageable, to);
}

/* The part of the copies' time that the fix saves: one copy would remain of the small ones of a step, and the smaller
 * dtype of what crosses in the larger one. */
static double wasted(const haul__suspect *s)
{
    HAUL__ASSERT(s->count >= s->steps && s->steps > 0);
    HAUL__ASSERT(s->kind != HAUL_FINDING_WRONG_SIDE || s->carried >= s->bytes);
    if (s->kind == HAUL_FINDING_MANY_SMALL)
        return (double)(s->count - s->steps) / (double)s->count;
    return s->kind == HAUL_FINDING_WRONG_SIDE ? (double)s->bytes / (double)s->carried : 1;
}

static bool is_many(const haul__suspect *s)
{
    return s->kind != HAUL_FINDING_MANY_SMALL || s->count >= (int64_t)MANY * s->steps;
}

/* Copies that run at once cost their time once. */
static void judge_copies(haul__suspects *all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        haul__suspect *s = &all->items[i];
        haul__intervals_join(&s->when);
        s->ns = (int64_t)((double)haul__intervals_length(&s->when) * wasted(s));
        HAUL__ASSERT(s->ns >= 0);
        haul__free(s->when.items);
        s->when = (haul__intervals){0};
        if (is_many(s))
            all->items[kept++] = *s;
        else
            haul__free(s->about.events);
    }
    HAUL__ASSERT(kept <= all->count);
    all->count = kept;
}

void haul__suspect_copies(const haul_profile *p, haul__suspects *to)
{
    haul__costs costs;
    to->failed = !haul__costs_open(p, &costs) || to->failed;
    for (size_t i = 0; i < p->count && !to->failed; i++)
        if (p->events[i].kind & HAUL_EVENT_COPY && haul__is_steady(p->analysis, &p->events[i]) &&
            p->events[i].bytes > 0)
            look_at(&costs, &p->events[i], to);
    judge_copies(to);
    haul__costs_close(&costs);
}
