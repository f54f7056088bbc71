/* When the device that does most of the work has none. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "device/device.h"
#include "profile/analysis.h"

static bool add(haul__idle *all, int64_t begin, int64_t end)
{
    if (end <= begin)
        return true;
    if (!haul__grow(&all->items, &all->room, all->count + 1, sizeof *all->items))
        return false;
    all->items[all->count++] = (haul__interval){begin, end};
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const haul__interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* The device that computes longest behind the host; NULL: none does. */
static const haul_device *worker_device(const haul_profile *p)
{
    int64_t            times[HAUL__MAX_DEVICES] = {0}, most = 0;
    const haul_device *device = NULL;
    for (size_t i = 0; i < p->count; i++) {
        const haul__moment *m = &p->moments[i];
        if (m->kind != HAUL_EVENT_COMMAND_DONE || haul__device_is_synchronous(m->device) ||
            strcmp(haul__moment_text(p, m->detail), "compute") != 0)
            continue;
        times[m->device->slot] += m->end - m->begin;
        if (times[m->device->slot] > most) {
            most = times[m->device->slot];
            device = m->device;
        }
    }
    return device;
}

/* A device has work from the moment when a command is submitted until it is done. */
bool haul__find_idle(const haul_profile *p, haul__analysis *a)
{
    haul__idle busy = {.items = NULL}, *idle = &a->idle;
    int64_t    until = 0;
    bool       fine = true;
    idle->device = worker_device(p);
    for (size_t i = 0; i < p->count && fine && idle->device; i++) {
        const haul__moment *m = &p->moments[i];
        if (m->kind == HAUL_EVENT_COMMAND_DONE && m->device == idle->device && haul__is_in_stretch(a, m))
            fine = add(&busy, m->submitted < m->begin ? m->submitted : m->begin, m->end);
    }
    if (busy.count)
        qsort(busy.items, busy.count, sizeof *busy.items, by_begin);
    for (size_t i = 0; i < busy.count && fine; i++) {
        fine = add(idle, until, busy.items[i].begin);
        until = busy.items[i].end > until ? busy.items[i].end : until;
    }
    haul__free(busy.items);
    return fine && (!idle->device || add(idle, until, a->wall));
}

int64_t haul__starved(const haul__analysis *a, const haul__moment *m)
{
    const haul__idle *all = &a->idle;
    size_t            low = 0, high = all->count;
    int64_t           ns = 0;
    if (!all->device)
        return m->end - m->begin;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (all->items[middle].end <= m->begin)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < all->count && all->items[low].begin < m->end; low++) {
        const haul__interval *x = &all->items[low];
        ns += (x->end < m->end ? x->end : m->end) - (x->begin > m->begin ? x->begin : m->begin);
    }
    return ns;
}
