/* Copies that could be fewer, smaller or cheaper. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "profile/audit.h"

enum { SMALL = 16 << 10, MANY = 4 };

/* ---- what copies cost ---- */

/* Time of commands, by the number of the copy that they are a part of. */
typedef struct part {
    uint64_t copy;
    int64_t  ns;
} part;

typedef struct parts {
    part  *items;
    size_t count;
} parts;

static int by_copy(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return (x->copy > y->copy) - (x->copy < y->copy);
}

static bool find_parts(const haul_profile *p, parts *out)
{
    size_t room = 0;
    for (size_t i = 0; i < p->count; i++) {
        const haul__moment *m = &p->moments[i];
        if (m->kind != HAUL_EVENT_COMMAND_DONE || !m->copy)
            continue;
        if (!haul__grow(&out->items, &room, out->count + 1, sizeof *out->items))
            return false;
        out->items[out->count++] = (part){m->copy, m->end - m->begin};
    }
    if (out->count)
        qsort(out->items, out->count, sizeof *out->items, by_copy);
    return true;
}

static int64_t device_time(const parts *all, uint64_t copy)
{
    size_t  low = 0, high = all->count;
    int64_t ns = 0;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (all->items[middle].copy < copy)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < all->count && all->items[low].copy == copy; low++)
        ns += all->items[low].ns;
    return ns;
}

/* The longer of the two: how long the host waited in the call, and how long the device copied. */
static int64_t cost_of(const parts *all, const haul__moment *copy)
{
    const int64_t host = copy->end - copy->begin, device = device_time(all, copy->copy);
    return host > device ? host : device;
}

/* ---- suspects ---- */

static haul__suspect suspect_of(const haul_profile *p, const haul__moment *copy, haul_finding_kind kind, int64_t ns)
{
    const bool down = copy->kind == HAUL_EVENT_COPY_TO_HOST;
    return (haul__suspect){.kind = kind,
                           .place = haul__place_of(p, copy->stack),
                           .operation = copy->operation,
                           .device = down ? copy->other : copy->device,
                           .tensor = copy->name,
                           .module = copy->module,
                           .conversion = copy->detail,
                           .down = down,
                           .count = 1,
                           .bytes = copy->bytes,
                           .ns = ns};
}

/* Data that left a device and came back: the way there is the place. */
static void add_return(const haul_profile *p, const parts *all, const haul__moment *back, haul__suspects *to)
{
    const haul__moment *gone = &p->moments[back->flow.back_from - 1];
    if (gone->other != back->device)
        return;
    haul__suspect s = suspect_of(p, gone, back->flow.operations ? HAUL_FINDING_CPU_ISLAND : HAUL_FINDING_PING_PONG,
                                 cost_of(all, gone) + cost_of(all, back) + back->flow.host_ns);
    s.second = haul__place_of(p, back->stack);
    s.bytes += back->bytes;
    haul__suspect_add(to, &s, back->step);
}

static void add_excess(const haul_profile *p, const parts *all, const haul__moment *copy, haul__suspects *to)
{
    const double  wasted = (double)copy->flow.excess / (double)copy->bytes;
    haul__suspect s = suspect_of(p, copy, HAUL_FINDING_WRONG_SIDE, (int64_t)((double)cost_of(all, copy) * wasted));
    s.bytes = copy->flow.excess;
    haul__suspect_add(to, &s, copy->step);
}

/* Small copies are suspects each; whether there are many is known at the end. */
static void look_at(const haul_profile *p, const parts *all, const haul__moment *copy, haul__suspects *to)
{
    const int64_t       cost = cost_of(all, copy);
    const haul__suspect small = suspect_of(p, copy, HAUL_FINDING_MANY_SMALL, cost);
    const haul__suspect pageable = suspect_of(p, copy, HAUL_FINDING_PAGEABLE, cost);
    const haul__suspect unchanged = suspect_of(p, copy, HAUL_FINDING_UNCHANGED, cost);
    const bool          returned = copy->kind == HAUL_EVENT_COPY_TO_DEVICE && copy->flow.back_from;
    if (returned)
        add_return(p, all, copy, to);
    if (copy->flow.excess > 0)
        add_excess(p, all, copy, to);
    if (copy->unchanged && !returned)
        haul__suspect_add(to, &unchanged, copy->step);
    if (copy->bytes <= SMALL)
        haul__suspect_add(to, &small, copy->step);
    else if (!strcmp(haul__moment_text(p, copy->text), "pageable"))
        haul__suspect_add(to, &pageable, copy->step);
}

/* One copy would remain of the small ones of a step. */
static void judge_small(haul__suspects *all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        haul__suspect *s = &all->items[i];
        if (s->kind == HAUL_FINDING_MANY_SMALL) {
            if (s->count < (int64_t)MANY * s->steps)
                continue;
            s->ns -= s->ns * s->steps / s->count;
        }
        all->items[kept++] = *s;
    }
    all->count = kept;
}

void haul__suspect_copies(const haul_profile *p, haul__suspects *to)
{
    parts all = {.items = NULL};
    to->failed = to->failed || !find_parts(p, &all);
    for (size_t i = 0; i < p->count && !to->failed; i++)
        if (p->moments[i].kind & HAUL_EVENT_COPY && haul__is_in_stretch(p->analysis, &p->moments[i]) &&
            p->moments[i].bytes > 0)
            look_at(p, &all, &p->moments[i], to);
    haul__free(all.items);
    judge_small(to);
}
