#include "device/speeds.h"

#include <haul/device.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "backends/sim/sim.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/system/clock.h"
#include "core/error.h"
#include "files/disk_cache.h"

/* ---- in the cache on disk ---- */

static const char MEASURED[] = "machine 4", LEARNT[] = "learnt times 1";

/* The key of a device's entry of that kind, which the caller must free. It changes with what decides the speeds: of
 * the CPU's cores those that threads use, since a launcher may give each rank one of them. NULL: memory is exhausted.
 */
static char *key_of(const haul_device *device, const char *kind)
{
    haul_device_properties p = {0}, host = {0};
    const int              threads = haul_num_threads();
    if (haul_device_describe(device, &p) || haul_device_describe(haul_cpu(), &host))
        return NULL;
    const int units = device == haul_cpu() && p.compute_units > threads ? threads : p.compute_units;
    return haul__format("%s\n%s\n%s\n%s\n%s\n%s\n%s\n%d\n%s\n%s\n%d\n", kind, haul_version(), p.name, p.model, p.driver,
                        p.libraries, p.bus, units, host.model, host.libraries, threads);
}

static haul__machine *load(const haul_device *device, const char *kind)
{
    size_t         size = 0;
    char          *key = key_of(device, kind);
    char          *text = key ? haul__cache_load(key, &size) : NULL;
    haul__machine *m = NULL;
    if (text)
        haul__machine_read("haul_machine", "in the cache", text, size, &m);
    haul__free(key);
    haul__free(text);
    if (m && m->device_count <= 2 && haul__machine_find(m, device->name) >= 0) /* the host and the device at most */
        return m;
    haul__free(m);
    return NULL;
}

static void store(const haul_device *device, const char *kind, const haul__machine *m)
{
    char *key = key_of(device, kind), *text = haul__machine_write(m);
    if (key && text)
        haul__cache_store(key, text, strlen(text));
    haul__free(key);
    haul__free(text);
}

haul__machine *haul__speeds_load(const haul_device *device)
{
    haul__error_record before;
    haul__error_save(&before);
    haul__machine *m = load(device, MEASURED);
    if (m)
        haul__speeds_add_learnt(device, m);
    haul__error_restore(&before);
    return m;
}

/* ---- learnt times: a machine that has nothing else ---- */

static haul__machine *new_learnt(const haul_device *device)
{
    haul__machine *m = haul__calloc(1, sizeof *m);
    if (!m)
        return NULL;
    snprintf(m->name, sizeof m->name, "learnt");
    for (; m->device_count <= (device != haul_cpu()); m->device_count++) {
        haul__machine_device *d = &m->devices[m->device_count];
        snprintf(d->name, sizeof d->name, "%s", m->device_count ? device->name : "cpu");
        d->memory_bytes = d->bytes_per_second = 1;
    }
    for (int up = 0; up < 2 && m->device_count > 1; up++)
        m->links[m->link_count++] = (haul__machine_link){.from = !up, .to = up, .pinned = 1, .pageable = 1};
    HAUL__ASSERT(m->device_count == 1 + (device != haul_cpu()));
    return m;
}

void haul__speeds_learn(const haul_device *device, const haul__machine_learnt *times, int count)
{
    haul__error_record before;
    if (haul__clock_is_virtual())
        return;
    haul__error_save(&before);
    haul__machine *m = load(device, LEARNT);
    m = m ? m : new_learnt(device);
    HAUL__ASSERT(!m || m->device_count > 0);
    for (int i = 0; m && i < count; i++)
        haul__machine_learn(&m->devices[m->device_count - 1], &times[i]);
    if (m)
        store(device, LEARNT, m);
    haul__free(m);
    haul__error_restore(&before);
}

void haul__speeds_add_learnt(const haul_device *device, haul__machine *m)
{
    haul__error_record before;
    haul__error_save(&before);
    haul__machine *learnt = load(device, LEARNT);
    const int      at = haul__machine_find(m, device->name);
    HAUL__ASSERT(at < m->device_count && (!learnt || learnt->device_count > 0));
    for (int i = 0; learnt && at >= 0 && i < learnt->devices[learnt->device_count - 1].learnt_count; i++)
        haul__machine_learn(&m->devices[at], &learnt->devices[learnt->device_count - 1].learnt[i]);
    haul__free(learnt);
    haul__error_restore(&before);
}

/* ---- in memory ---- */

/* What haul__speeds_of found in the cache, by slot. NULL: it was not asked; `nothing`: there was no measurement.
 * Machines that were handed out stay. */
static _Atomic(haul__machine *) known[HAUL__MAX_DEVICES];
static haul__machine            nothing;

void haul__speeds_store(const haul_device *device, const haul__machine *measured)
{
    store(device, MEASURED, measured);
    haul__machine *expected = &nothing;
    HAUL__ASSERT(device->slot >= 0 && device->slot < HAUL__MAX_DEVICES);
    atomic_compare_exchange_strong(&known[device->slot], &expected, NULL);
}

static const haul__machine *find_measured(const haul_device *device)
{
    HAUL__ASSERT(device->slot >= 0 && device->slot < HAUL__MAX_DEVICES);
    haul__machine *m = atomic_load_explicit(&known[device->slot], memory_order_acquire);
    if (!m) {
        haul__machine *read = haul__speeds_load(device), *fresh = read ? read : &nothing;
        if (atomic_compare_exchange_strong(&known[device->slot], &m, fresh))
            m = fresh;
        else
            haul__free(read);
    }
    HAUL__ASSERT(m); /* the exchange failed only if another thread put one there */
    return m != &nothing ? m : NULL;
}

/* ---- assumed ---- */

/* A host with an accelerator over PCIe 4, and with one that shares its memory. */
static haul__machine  assumed[2];
static pthread_once_t assumed_once = PTHREAD_ONCE_INIT;

static void make_assumed(void)
{
    for (int shares = 0; shares < 2; shares++) {
        haul__machine        *m = &assumed[shares];
        haul__machine_device *host = &m->devices[0], *device = &m->devices[1];
        snprintf(m->name, sizeof m->name, "assumed");
        snprintf(host->name, sizeof host->name, "cpu");
        snprintf(device->name, sizeof device->name, "device");
        m->described = true;
        m->device_count = m->link_count = 2;
        host->launch_ns = 500;
        device->launch_ns = 10000;
        host->bytes_per_second = 20000000000;
        device->bytes_per_second = shares ? host->bytes_per_second : 200000000000;
        for (int up = 0; up < 2; up++) {
            haul__machine_link *link = &m->links[up];
            haul__machine_named_link("pcie4", link);
            link->from = !up;
            link->to = up;
            if (shares)
                link->pinned = link->pageable = host->bytes_per_second / 2;
            HAUL__ASSERT(link->pinned > 0 && link->pageable > 0 && link->from != link->to);
        }
    }
}

static haul__speeds speeds_assumed(const haul_device *device)
{
    pthread_once(&assumed_once, make_assumed);
    const bool is_host = device == haul_cpu();
    return (haul__speeds){&assumed[!is_host && device->properties.shares_host_memory], !is_host, true};
}

/* ---- the whole ---- */

haul__speeds haul__speeds_of(const haul_device *device)
{
    haul__speeds s = {.assumed = false};
    s.machine = haul__sim_machine(device, &s.number);
    HAUL__ASSERT(!s.machine || (0 <= s.number && s.number < s.machine->device_count));
    if (s.machine)
        return s;
    s.machine = find_measured(device);
    s.number = device != haul_cpu();
    return s.machine ? s : speeds_assumed(device);
}

int64_t haul__speeds_copy_time(const haul_device *from, const haul_device *to, int64_t bytes, bool pinned)
{
    const haul__speeds a = haul__speeds_of(from), b = haul__speeds_of(to);
    if (from == to || (a.machine == b.machine && a.number != b.number)) /* those that are assumed share a number */
        return haul__machine_copy_time(a.machine, a.number, b.number, bytes, pinned);
    const int64_t down = a.number ? haul__machine_copy_time(a.machine, a.number, 0, bytes, pinned) : 0;
    const int64_t up = b.number ? haul__machine_copy_time(b.machine, 0, b.number, bytes, pinned) : 0;
    HAUL__ASSERT(0 <= down && down <= HAUL__MACHINE_MOST_PS && 0 <= up && up <= HAUL__MACHINE_MOST_PS);
    return smaller(down + up, HAUL__MACHINE_MOST_PS);
}
