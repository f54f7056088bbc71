/* Simulated devices "sim:MACHINE:N" of the shipped machines, which are opened only by name. */
#include "backends/sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "events/events.h"

static const struct place {
    const char *machine, *device;
} places[] = {
#define HOST(machine, model, flops, bytes, memory)
#define DEVICE(machine, number, model, flops32, flops16, flops64, bytes, memory, shares, link)                         \
    {machine, "cuda:" #number},
#include "machine/shipped.def"
#undef DEVICE
};

static const char *const names[] = {
#define DEVICE(machine, number, model, flops32, flops16, flops64, bytes, memory, shares, link) machine ":" #number,
#include "machine/shipped.def"
#undef DEVICE
#undef HOST
    NULL};

static int sim_count(char *why, size_t why_size)
{
    snprintf(why, why_size,
             "simulated devices are opened by the name of a machine, as \"sim:%s\"; haul devices "
             "--machines lists them",
             places[0].machine);
    return 0;
}

/* The machine of a place, which its devices share. The registry opens one device at a time. NULL: memory is exhausted.
 */
static const haul__machine *machine_of(const struct place *p)
{
    enum { PLACES = sizeof places / sizeof *places };
    static haul__machine *loaded[PLACES];
    HAUL__ASSERT(places <= p && p < places + PLACES);
    for (int i = 0; i < PLACES; i++) {
        if (!loaded[i] && haul__machine_load("haul_device_get", p->machine, &loaded[i]))
            return NULL;
        if (strcmp(loaded[i]->name, p->machine) == 0)
            return loaded[i];
    }
    return NULL;
}

static haul_status sim_open(haul_device *device, int index)
{
    const haul__machine *m = machine_of(&places[index]);
    if (!m)
        return haul_error_status();
    haul__sim_device *own = haul__calloc(1, sizeof *own);
    if (!own)
        return haul__fail_memory("haul_device_get", sizeof *own);
    own->machine = m;
    own->number = haul__machine_find(m, places[index].device);
    HAUL__ASSERT(0 <= own->number && own->number < m->device_count);
    device->impl = own;
    const haul__machine_device *d = &m->devices[own->number];
    device->properties.kind = HAUL_KIND_GPU;
    device->properties.memory_bytes = d->memory_bytes;
    device->properties.shares_host_memory = d->shares_host_memory;
    device->properties.has_f64 = true;
    device->properties.compute_units = 1;
    snprintf(device->model, sizeof device->model, "%.100s, simulated", d->model);
    snprintf(device->driver, sizeof device->driver, "computes on the CPU, in virtual time");
    return HAUL_OK;
}

static void take(const haul_event *event, void *context)
{
    (void)event;
    (void)context;
}

/* As long as commands have a subscriber, no operation takes a short path around the device layer. */
static haul__subscriber watcher = {.of = {.take = take, .kinds = HAUL_EVENT_COMMAND_SUBMITTED, .everywhere = true}};

static haul_status sim_start(haul_device *device)
{
    const haul__sim_device *own = device->impl;
    HAUL__ASSERT(own->machine->device_count > own->number && own->number > 0); /* 0 is the host */
    if (!haul__clock_is_virtual() && !haul__attach(&watcher))
        return haul__fail_memory("haul_device_get", sizeof watcher);
    haul__sim_machine_begin(own->machine);
    haul__clock_begin_virtual();
    return HAUL_OK;
}

/* ---- memory ---- */

/* Before each buffer there is its size. */
enum { ALIGNMENT = 64 };

static haul_status refuse(const haul_device *device, size_t bytes)
{
    const haul__sim_device *own = device->impl;
    return haul__fail(HAUL_OUT_OF_MEMORY, NULL, NULL, "%s: %zu bytes do not fit, %lld of %lld are in use", device->name,
                      bytes, atomic_load(&own->used), (long long)device->properties.memory_bytes);
}

static haul_status sim_alloc(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    haul__sim_device *own = device->impl;
    const int64_t     all = device->properties.memory_bytes;
    void             *memory = NULL;
    HAUL__ASSERT(!of && bytes > 0); /* parts of buffers have addresses */
    *out = (haul__buffer){NULL, NULL};
    if (bytes > (uint64_t)all)
        return refuse(device, bytes);
    if (atomic_fetch_add(&own->used, (long long)bytes) + (int64_t)bytes > all) {
        atomic_fetch_sub(&own->used, (long long)bytes);
        return refuse(device, bytes);
    }
    if (bytes > SIZE_MAX - ALIGNMENT || posix_memalign(&memory, ALIGNMENT, bytes + ALIGNMENT)) {
        atomic_fetch_sub(&own->used, (long long)bytes);
        return haul__fail(HAUL_OUT_OF_MEMORY, NULL, NULL, "%s: the system cannot provide %zu bytes", device->name,
                          bytes);
    }
    HAUL__ASSERT(atomic_load(&own->used) >= (long long)bytes);
    *(size_t *)memory = bytes;
    out->host = out->handle = (char *)memory + ALIGNMENT;
    return HAUL_OK;
}

static void sim_free(haul_device *device, haul__buffer *buffer)
{
    haul__sim_device *own = device->impl;
    char             *memory = (char *)buffer->host - ALIGNMENT;
    const long long   bytes = (long long)*(size_t *)(void *)memory, used = atomic_fetch_sub(&own->used, bytes);
    HAUL__ASSERT(used >= bytes);
    free(memory);
    *buffer = (haul__buffer){NULL, NULL};
}

static haul_status sim_host_alloc(haul_device *device, size_t bytes, void **out, void **handle)
{
    *handle = NULL;
    if (!posix_memalign(out, ALIGNMENT, bytes))
        return HAUL_OK;
    return haul__fail(HAUL_OUT_OF_MEMORY, NULL, NULL, "%s: the system cannot provide %zu bytes", device->name, bytes);
}

static void sim_host_free(haul_device *device, void *memory, void *handle)
{
    (void)device;
    (void)handle;
    free(memory);
}

static void sim_describe(haul_device *device, haul__description what, char *out, size_t size)
{
    const haul__sim_device *own = device->impl;
    const long long         all = device->properties.memory_bytes, left = all - atomic_load(&own->used);
    HAUL__ASSERT(size > 0);
    *out = '\0';
    if (what == HAUL__FREE_BYTES)
        snprintf(out, size, "%lld", left);
    else if (what == HAUL__MEMORY_LEFT)
        snprintf(out, size, "%lld of %lld simulated bytes are free", left, all);
}

const haul__backend haul__backend_sim = {
    .size = sizeof(haul__backend),
    .name = "sim",
    .count = sim_count,
    .open = sim_open,
    .start = sim_start,
    .alloc = sim_alloc,
    .free = sim_free,
    .host_alloc = sim_host_alloc,
    .host_free = sim_host_free,
    .stream_open = haul__sim_stream_open,
    .stream_close = haul__sim_stream_close,
    .submit = haul__sim_submit,
    .compile = haul__cpu_compile,
    .sync = haul__sim_sync,
    .event_record = haul__sim_event_record,
    .event_wait = haul__sim_event_wait,
    .event_query = haul__sim_event_query,
    .event_free = haul__sim_event_free,
    .timing_begin = haul__sim_timing_begin,
    .timing_end = haul__sim_timing_end,
    .timing_read = haul__sim_timing_read,
    .timing_free = haul__sim_timing_free,
    .describe = sim_describe,
    .implementations = haul__cpu_implementations,
    .names = names,
    .addresses = true,
    .precompiled = true,
    .peers = true,
};
