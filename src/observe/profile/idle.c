/* When the device that does most of the work has none. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "device/device.h"
#include "observe/profile/analysis.h"

/* The device that computes longest behind the host; NULL: none does. */
static const haul_device *worker_device(const haul_profile *p)
{
    int64_t            times[HAUL__MAX_DEVICES] = {0}, most = 0;
    const haul_device *device = NULL;
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind != HAUL_EVENT_COMMAND_DONE || haul__device_is_synchronous(m->device) ||
            strcmp(haul__profile_text(p, m->detail), "compute") != 0)
            continue;
        HAUL__ASSERT(0 <= m->device->slot && m->device->slot < HAUL__MAX_DEVICES);
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
    haul__intervals busy = {.items = NULL};
    haul__idle     *idle = &a->idle;
    bool            fine = true;
    idle->device = worker_device(p);
    if (!idle->device)
        return true;
    for (size_t i = 0; i < p->count && fine; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind == HAUL_EVENT_COMMAND_DONE && m->device == idle->device && haul__is_in_stretch(a, m))
            fine = haul__intervals_add(&busy, m->submitted < m->begin ? m->submitted : m->begin, m->end);
    }
    haul__intervals_join(&busy);
    HAUL__ASSERT(!idle->times.count);
    fine = fine && haul__intervals_add_rest(&idle->times, 0, a->wall, &busy);
    haul__free(busy.items);
    return fine;
}

int64_t haul__starved(const haul__analysis *a, const haul__profile_event *m)
{
    const int64_t whole = m->end - m->begin;
    return a->idle.device ? haul__intervals_covered(&a->idle.times, m->begin, m->end) : whole;
}
