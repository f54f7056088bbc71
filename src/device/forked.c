/* The backend table in the child of a fork.
 *
 * Drivers have threads and handles that a child does not inherit: a call may hang there, or crash. In the child the
 * backend's table is replaced by one that calls nothing. Functions that would use the device fail at once, and
 * functions that free something do nothing: the parent, or the end of the process, frees it. */
#include "device/forked.h"

#include <stdio.h>

#include "base/assert.h"
#include "core/error.h"

static haul_status refuse(const haul_device *device)
{
    return haul__fail(HAUL_STATE, NULL, "device", "%s", device->why);
}

static haul_status refuse_stream(const haul__stream *s)
{
    return refuse(s->device);
}

void haul__device_forked_why(const char *name, char *out, size_t size)
{
    snprintf(out, size,
             "device \"%s\" was looked for or used before this process was forked, and its driver does not work in the "
             "child; use it in one of the two processes only: fork first, or start the child by fork and exec",
             name);
}

static haul_status forked_open(haul_device *device, int index)
{
    char why[sizeof device->why];
    (void)index;
    haul__device_forked_why(device->name, why, sizeof why);
    return haul__fail(HAUL_STATE, NULL, "device", "%s", why);
}

static haul_status forked_start(haul_device *device)
{
    return refuse(device);
}

static haul_status forked_alloc(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out)
{
    (void)bytes;
    (void)of;
    (void)out;
    return refuse(device);
}

static void forked_free(haul_device *device, haul__buffer *buffer)
{
    (void)device;
    (void)buffer;
}

static haul_status forked_host_alloc(haul_device *device, size_t bytes, void **out, void **handle)
{
    (void)bytes;
    (void)out;
    (void)handle;
    return refuse(device);
}

static void forked_host_free(haul_device *device, void *memory, void *handle)
{
    (void)device;
    (void)memory;
    (void)handle;
}

static haul_status forked_stream_open(haul_device *device, void **queue)
{
    (void)queue;
    return refuse(device);
}

static void forget_handle(haul_device *device, void *handle)
{
    (void)device;
    (void)handle;
}

static haul_status forked_submit(haul__stream *s, const haul__command *c)
{
    (void)c;
    return refuse_stream(s);
}

static haul_status forked_compile(haul_device *device, const haul__unit *unit, haul__kernel *out)
{
    (void)unit;
    (void)out;
    return refuse(device);
}

static haul_status forked_sync(haul__stream *s, void *event)
{
    (void)event;
    return refuse_stream(s);
}

static haul_status forked_event_record(haul__stream *s, void **event)
{
    (void)event;
    return refuse_stream(s);
}

static haul_status forked_timing_read(haul_device *device, void *timing, void *origin, int64_t *after,
                                      int64_t *duration)
{
    (void)timing;
    (void)origin;
    (void)after;
    (void)duration;
    return refuse(device);
}

void haul__backend_forked(const haul__backend *original, haul__backend *out)
{
    HAUL__ASSERT(out != original && !original->host_memory && !original->no_data); /* it has a driver */
    *out = *original;
    out->open = forked_open;
    out->start = forked_start;
    out->alloc = forked_alloc;
    out->free = forked_free;
    out->host_alloc = original->host_alloc ? forked_host_alloc : NULL;
    out->host_free = original->host_free ? forked_host_free : NULL;
    out->host_is_pinned = NULL;
    out->holds = NULL;
    out->sync_device = NULL;
    out->stream_open = forked_stream_open;
    out->stream_close = forget_handle;
    out->submit = forked_submit;
    out->compile = forked_compile;
    out->sync = forked_sync;
    out->event_record = forked_event_record;
    out->event_wait = original->event_wait ? forked_sync : NULL;
    HAUL__ASSERT(!original->timing_begin == !original->timing_end && !original->timing_read == !original->timing_free);
    out->event_query = NULL;
    out->event_free = forget_handle;
    out->timing_begin = original->timing_begin ? forked_event_record : NULL;
    out->timing_end = original->timing_end ? forked_sync : NULL;
    out->timing_read = original->timing_read ? forked_timing_read : NULL;
    out->timing_free = original->timing_free ? forget_handle : NULL;
    out->describe = NULL;
    out->implementations = NULL;
}
