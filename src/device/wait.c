/* Where the host waits for devices.
 *
 * The backends' sync function, which waits, and those in which a driver may wait by itself (alloc, free, host_alloc and
 * host_free) are called only here, which tests/tree/waits.sh checks; compile is called in kernel.c. So the events that
 * are emitted here, and the counts, are complete by construction. index_fault.c handles indices out of range that a
 * wait brings to the host. */
#include "device/wait.h"

#include "base/assert.h"
#include "base/system/clock.h"
#include "device/stream.h"
#include "events/events.h"

static _Thread_local haul__wait_group *group;

static void note(haul_event_kind kind, const char *operation, const char *text, const haul_device *device,
                 const char *stream, size_t bytes, int64_t ns)
{
    haul__emit_counted(&(haul_event){.kind = kind,
                                     .operation = operation ? operation : "a library call",
                                     .text = text,
                                     .device = device,
                                     .stream = stream,
                                     .bytes = (int64_t)bytes,
                                     .duration = ns});
}

const char *haul__stream_name(const haul__stream *s)
{
    const haul_device *d = s->device;
    return s == d->compute    ? "compute"
           : s == d->upload   ? "upload"
           : s == d->download ? "download"
           : s == d->ahead    ? "ahead"
                              : "";
}

static void note_wait(const haul__stream *s, bool ready, const char *operation, size_t bytes, int64_t ns)
{
    note(ready ? HAUL_EVENT_FOUND_DONE : HAUL_EVENT_WAITED, operation, ready ? "found done" : "waited", s->device,
         haul__stream_name(s), bytes, ns);
}

/* ---- waits ---- */

static void waited(haul__stream *s, bool ready, int64_t ns, const char *operation)
{
    if (!group || haul__event_quiet()) { /* a subscriber's own waits are not part of the transfer that it watches */
        note_wait(s, ready, operation, 0, ns);
        return;
    }
    HAUL__ASSERT(!group->outer && ns >= 0); /* those within another one count into it */
    group->stream = group->stream ? group->stream : s;
    group->ns += ns;
    group->waits += !ready;
    group->ready += ready;
}

void haul__wait_group_begin(haul__wait_group *g, const char *operation, size_t bytes)
{
    *g = (haul__wait_group){.operation = operation, .bytes = bytes, .outer = group != NULL};
    if (!g->outer)
        group = g;
}

void haul__wait_group_end(haul__wait_group *g)
{
    if (g->outer)
        return;
    HAUL__ASSERT(group == g && g->ns >= 0);
    group = NULL;
    if (g->stream)
        note_wait(g->stream, !g->waits, g->operation, g->bytes, g->ns);
}

bool haul__event_reached(haul_device *device, void *event)
{
    haul__error_record before;
    bool               reached = false;
    if (!device->backend->event_query)
        return false;
    haul__error_save(&before);
    if (device->backend->event_query(device, event, &reached)) { /* the wait will report it again */
        haul__error_restore(&before);
        return false;
    }
    return reached;
}

haul_status haul__wait(haul__stream *s, void *event, const char *operation)
{
    bool ready = event && haul__event_reached(s->device, event);
    HAUL__ASSERT(s->device->backend->sync != NULL);
    int64_t     start = haul__now_ns();
    haul_status status = s->device->backend->sync(s, event);
    waited(s, ready, haul__now_ns() - start, operation);
    return status;
}

haul_status haul__device_finish(haul_device *device, const char *operation)
{
    if (!device->backend->sync_device)
        return HAUL_OK;
    const int64_t     start = haul__now_ns();
    const haul_status status = device->backend->sync_device(device);
    note_wait(device->compute, false, operation, 0, haul__now_ns() - start);
    return status;
}

/* ---- calls in which drivers may wait ---- */

void haul__driver_called(const haul_device *device, const char *operation, const char *action, size_t bytes,
                         int64_t start_ns)
{
    if (!device->backend->synchronous)
        note(HAUL_EVENT_DRIVER_CALLED, operation, action, device, "", bytes, haul__now_ns() - start_ns);
}

haul_status haul__device_alloc(haul_device *device, size_t bytes, haul__buffer *out, const char *operation)
{
    int64_t     start = haul__now_ns();
    haul_status status = device->backend->alloc(device, bytes, NULL, out);
    HAUL__ASSERT(status || out->host || out->handle);
    if (!status)
        atomic_fetch_add(&device->obtained, (long long)bytes);
    haul__driver_called(device, operation, "obtained memory", bytes, start);
    return status;
}

void haul__device_free(haul_device *device, haul__buffer *buffer, size_t bytes, const char *operation)
{
    int64_t start = haul__now_ns();
    device->backend->free(device, buffer);
    const long long before = atomic_fetch_sub(&device->obtained, (long long)bytes);
    HAUL__ASSERT(before >= (long long)bytes);
    (void)before;
    haul__driver_called(device, operation, "gave memory back", bytes, start);
}

/* Parts take no memory, and no driver waits for them, so they are not reported. */
haul_status haul__device_sub_buffer_alloc(haul_device *device, size_t bytes, haul__buffer_address place, void **handle)
{
    haul__buffer buffer = {0};
    haul_status  status = device->backend->alloc(device, bytes, &place, &buffer);
    HAUL__ASSERT(device->sub_buffers && (status || buffer.handle));
    *handle = buffer.handle;
    return status;
}

void haul__device_sub_buffer_free(haul_device *device, void *handle)
{
    device->backend->free(device, &(haul__buffer){.handle = handle});
}

haul_status haul__device_host_alloc(haul_device *device, size_t bytes, void **out, void **handle, const char *operation)
{
    int64_t     start = haul__now_ns();
    haul_status status = device->backend->host_alloc(device, bytes, out, handle);
    HAUL__ASSERT(status || *out);
    haul__driver_called(device, operation, "obtained pinned memory", bytes, start);
    return status;
}

void haul__device_host_free(haul_device *device, void *memory, void *handle, size_t bytes, const char *operation)
{
    int64_t start = haul__now_ns();
    HAUL__ASSERT(memory);
    device->backend->host_free(device, memory, handle);
    haul__driver_called(device, operation, "gave pinned memory back", bytes, start);
}
