/* Waits in every step, steps that wait for the loader, devices that wait for the host. */
#include <stdlib.h>
#include <string.h>

#include "core/alloc.h"
#include "device/device.h"
#include "profile/audit.h"

/* ---- waits ---- */

/* Data that leave a device to come back are waited for, which is a part of that finding. */
static bool is_explained(const haul_profile *p, const haul__suspects *all, const haul__moment *wait)
{
    for (size_t i = 0; i < all->count; i++)
        if ((all->items[i].kind == HAUL_FINDING_PING_PONG || all->items[i].kind == HAUL_FINDING_CPU_ISLAND) &&
            all->items[i].place == haul__place_of(p, wait->stack))
            return true;
    return false;
}

static void suspect_waits(const haul_profile *p, haul__suspects *all)
{
    for (size_t i = 0; i < p->count; i++) {
        const haul__moment *m = &p->moments[i];
        if (m->kind != HAUL_EVENT_WAITED || m->thread != p->thread || m->end > p->analysis->wall ||
            p->analysis->spans[i].phase != HAUL__PHASE_WAIT || is_explained(p, all, m))
            continue;
        haul__suspect_add(all,
                          &(haul__suspect){.kind = HAUL_FINDING_WAIT_PER_STEP,
                                           .place = haul__place_of(p, m->stack),
                                           .operation = m->operation,
                                           .device = m->device,
                                           .count = 1,
                                           .bytes = m->bytes,
                                           .ns = m->end - m->begin},
                          m->step);
    }
}

/* ---- the loader ---- */

static void suspect_loader(const haul_profile *p, haul__suspects *all)
{
    for (size_t i = 0; i < p->count; i++) {
        const haul__moment *m = &p->moments[i];
        if (m->kind != HAUL_EVENT_WORK_END || m->thread != p->thread || m->end > p->analysis->wall ||
            strcmp(haul__moment_text(p, m->text), "next batch") != 0)
            continue;
        haul__suspect_add(all,
                          &(haul__suspect){.kind = HAUL_FINDING_LOADER_BOUND,
                                           .place = haul__place_of(p, m->stack),
                                           .operation = m->operation,
                                           .count = 1,
                                           .ns = m->end - m->begin},
                          m->step);
    }
}

/* ---- devices without work ---- */

typedef struct interval {
    int64_t begin, end;
} interval;

static int by_begin(const void *a, const void *b)
{
    const interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Time in which the device ran no command, within the stretch. -1 without memory. */
static int64_t idle_time(const haul_profile *p, const haul_device *device)
{
    interval *busy = NULL;
    size_t    count = 0, room = 0;
    int64_t   idle = 0, until = 0;
    for (size_t i = 0; i < p->count; i++) {
        const haul__moment *m = &p->moments[i];
        if (m->kind != HAUL_EVENT_COMMAND_DONE || m->device != device || m->begin >= p->analysis->wall)
            continue;
        if (!haul__grow(&busy, &room, count + 1, sizeof *busy)) {
            haul__free(busy);
            return -1;
        }
        busy[count++] = (interval){m->begin, m->end};
    }
    if (count)
        qsort(busy, count, sizeof *busy, by_begin);
    for (size_t i = 0; i < count; i++) {
        idle += busy[i].begin > until ? busy[i].begin - until : 0;
        until = busy[i].end > until ? busy[i].end : until;
    }
    haul__free(busy);
    return idle + (p->analysis->wall > until ? p->analysis->wall - until : 0);
}

/* The device that most time was spent on, if it works behind the host. */
static const haul_device *worker_device(const haul_profile *p)
{
    const haul__table *table = &p->analysis->tables[HAUL_PROFILE_KERNEL];
    for (int i = 0; i < table->count; i++)
        if (!haul__device_is_synchronous(table->rows[i].device) && !strcmp(table->rows[i].kind, "compute"))
            return table->rows[i].device;
    return NULL;
}

/* Where the main thread spent most of the time that is neither the loader's nor a wait: the longest gap between calls
 * of the library, by the place of the call after it; else the operation that took longest. */
static haul__suspect slowest_place(const haul_profile *p)
{
    haul__suspect      s = {.kind = HAUL_FINDING_HOST_BOUND};
    const haul__table *table = &p->analysis->tables[HAUL_PROFILE_OPERATION];
    int64_t            longest = 0;
    double             most = 0;
    for (int i = 0; i < table->count; i++)
        if (table->rows[i].host_ms > most && *table->rows[i].name != '(') {
            most = table->rows[i].host_ms;
            for (uint32_t n = 1; n < p->texts.count; n++)
                s.operation = strcmp(p->texts.items[n], table->rows[i].name) ? s.operation : n;
        }
    for (size_t i = 0; i < p->gap_count; i++)
        if (p->gaps[i].ns > longest && (double)p->gaps[i].ns / 1e6 > most) {
            longest = p->gaps[i].ns;
            s.place = haul__place_of(p, p->gaps[i].stack);
        }
    return s;
}

/* The host holds a device up by what it does between commands, not by waiting for the device or the loader. */
static void suspect_host(const haul_profile *p, haul__suspects *all)
{
    const haul_profile_summary *sum = &p->analysis->summary;
    const haul_device          *device = worker_device(p);
    const int64_t               idle = device ? idle_time(p, device) : 0;
    const int64_t               excused = (int64_t)((sum->wait_ms + sum->data_ms) * 1e6);
    const size_t                steps = haul__step_count(p);
    all->failed = all->failed || idle < 0;
    if ((double)idle < 0.2 * sum->wall_ms * 1e6 || excused * 2 > idle)
        return;
    haul__suspect s = slowest_place(p);
    s.device = device;
    for (size_t i = 0; i < steps; i++) {
        s.ns = (idle - excused) / (int64_t)steps;
        s.count = 1;
        haul__suspect_add(all, &s, (int)i);
    }
}

void haul__suspect_times(const haul_profile *p, haul__suspects *all)
{
    suspect_waits(p, all);
    if (p->analysis->summary.data_ms > 0.1 * p->analysis->summary.wall_ms)
        suspect_loader(p, all);
    suspect_host(p, all);
}
