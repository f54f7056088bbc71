/* Waits in every step, steps that wait for the loader, devices that wait for the host. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/device.h"
#include "observe/audit/audit.h"

/* ---- waits ---- */

/* Data that leave a device to come back are waited for, which is a part of that finding. */
static bool is_explained(const haul_profile *p, const haul__suspects *all, const haul__profile_event *wait)
{
    for (size_t i = 0; i < all->count; i++)
        if ((all->items[i].kind == HAUL_FINDING_PING_PONG || all->items[i].kind == HAUL_FINDING_CPU_ISLAND) &&
            all->items[i].call_site == haul__call_site_of(p, wait->stack))
            return true;
    return false;
}

/* The copy to the host that the main thread waits for: the newest one of the step. NULL: it waits for other work. */
static const haul__profile_event *find_copy(const haul_profile *p, const haul__profile_event *wait)
{
    if (strcmp(haul__profile_text(p, wait->detail), "download") != 0)
        return NULL;
    for (const haul__profile_event *m = wait; m-- > p->events && m->step == wait->step;)
        if (m->kind == HAUL_EVENT_COPY_TO_HOST && m->other == wait->device && m->thread == wait->thread)
            return m;
    return NULL;
}

/* True if the copy brings the input of a layer, because the layer or the placement has it elsewhere: the network is
 * split here. */
static bool is_border(const haul_profile *p, const haul__profile_event *copy)
{
    return copy && copy->module &&
           (copy->planned || (copy->name && !strcmp(haul__profile_text(p, copy->operation), "haul_to")));
}

static haul__suspect wait_of(const haul_profile *p, const haul__profile_event *m)
{
    const haul__profile_event *copy = find_copy(p, m);
    haul__suspect              s = {.kind = HAUL_FINDING_WAIT_PER_STEP,
                                    .call_site = haul__call_site_of(p, m->stack),
                                    .operation = m->operation,
                                    .device = m->device,
                                    .count = 1,
                                    .bytes = m->bytes,
                                    .ns = m->end - m->begin};
    if (!is_border(p, copy))
        return s;
    s.bytes = copy->bytes;
    s.layer = copy->module;
    s.tensor = copy->name;
    s.planned = copy->planned;
    return s;
}

static void suspect_waits(const haul_profile *p, haul__suspects *all)
{
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind != HAUL_EVENT_WAITED || m->thread != p->thread || !haul__is_in_stretch(p->analysis, m) ||
            p->analysis->spans[i].phase != HAUL__PHASE_WAIT || is_explained(p, all, m))
            continue;
        const haul__suspect what = wait_of(p, m);
        haul__suspect_about(all, haul__suspect_add(all, &what, m->step), p, m);
    }
}

/* ---- the loader ---- */

static bool is_next_batch(const haul_profile *p, const haul__profile_event *m)
{
    return m->kind == HAUL_EVENT_WORK_END && m->thread == p->thread && haul__is_in_stretch(p->analysis, m) &&
           !strcmp(haul__profile_text(p, m->text), "next batch");
}

/* Waiting for a batch costs nothing while the device still has work. Returns the time that it does cost. */
static int64_t suspect_loader(const haul_profile *p, haul__suspects *all)
{
    int64_t cost = 0;
    for (size_t i = 0; i < p->count; i++)
        if (is_next_batch(p, &p->events[i]))
            cost += haul__starved(p->analysis, &p->events[i]);
    for (size_t i = 0; i < p->count && 4 * cost > p->analysis->wall; i++) {
        const haul__profile_event *m = &p->events[i];
        const haul__suspect        what = {.kind = HAUL_FINDING_LOADER_BOUND,
                                           .call_site = haul__call_site_of(p, m->stack),
                                           .operation = m->operation,
                                           .count = 1,
                                           .ns = haul__starved(p->analysis, m)};
        if (is_next_batch(p, m))
            haul__suspect_about(all, haul__suspect_add(all, &what, m->step), p, m);
    }
    return cost;
}

/* ---- the host ---- */

/* Time in which neither the device had work nor the host waited for anything. */
static int64_t held_up(const haul_profile *p, int64_t loader)
{
    int64_t ns = haul__intervals_covered(&p->analysis->idle.times, 0, p->analysis->wall) - loader;
    for (size_t i = 0; i < p->count; i++) {
        const haul__profile_event *m = &p->events[i];
        if (m->kind == HAUL_EVENT_WAITED && m->thread == p->thread && p->analysis->spans[i].phase == HAUL__PHASE_WAIT)
            ns -= haul__starved(p->analysis, m);
    }
    return ns;
}

/* haul_item, haul_device_sync: nothing is computed. */
static bool is_wait(const haul_profile_row *row)
{
    return row->device && row->flops + row->bytes <= 0;
}

/* The number of the text of the operation that took the main thread longest. */
static uint32_t slowest_operation(const haul_profile *p, double *ms)
{
    const haul__table *table = &p->analysis->tables[HAUL_PROFILE_OPERATION];
    const char        *name = "";
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].host_ms > *ms && *table->rows[i].name != '(' && !is_wait(&table->rows[i])) {
            *ms = table->rows[i].host_ms;
            name = table->rows[i].name;
        }
    for (uint32_t n = 1; n < p->texts.count; n++)
        if (!strcmp(p->texts.items[n], name))
            return n;
    return 0;
}

/* Where the main thread spent most of its time: between two calls of the library, by the call site of the second one;
 * or in an operation. */
static haul__suspect slowest_call_site(const haul_profile *p)
{
    double        ms = 0;
    haul__suspect s = {.kind = HAUL_FINDING_HOST_BOUND, .operation = slowest_operation(p, &ms)};
    for (size_t i = 1; i < p->gap_count; i++) {
        const uint32_t call_site = haul__call_site_of(p, (uint32_t)i);
        int64_t        ns = 0;
        for (size_t k = 1; k < p->gap_count; k++)
            ns += haul__call_site_of(p, (uint32_t)k) == call_site ? p->gaps[k] : 0;
        if ((double)ns / 1e6 > ms) {
            ms = (double)ns / 1e6;
            s.call_site = call_site;
        }
    }
    return s;
}

static void suspect_host(const haul_profile *p, const haul_device *device, int64_t held, haul__suspects *all)
{
    const int64_t steps = (int64_t)haul__step_count(p);
    if (5 * held < p->analysis->wall)
        return;
    haul__suspect s = slowest_call_site(p);
    s.device = device;
    s.count = 1;
    s.ns = held / steps;
    for (int i = 0; i < steps; i++)
        (void)haul__suspect_add(all, &s, i);
}

void haul__suspect_times(const haul_profile *p, haul__suspects *all)
{
    const haul_device *device = p->analysis->idle.device;
    suspect_waits(p, all);
    const int64_t loader = suspect_loader(p, all);
    if (device)
        suspect_host(p, device, held_up(p, loader), all);
}
