/* Submits commands to devices: waits for earlier uses of the storages, passes the command to the backend, and marks the
 * storages.
 *
 * Nothing is submitted to a device without data. Streams of synchronous backends are not locked: their commands run
 * concurrently on the calling threads. */
#include "backends/sim/sim.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/trial.h"
#include "device/index_fault.h"
#include "device/launch_now.h"
#include "device/residency.h"
#include "device/stream.h"
#include "device/timing.h"
#include "events/events.h"

/* ---- kinds ---- */

static haul_status give(haul__stream *s, const haul__command *c)
{
    haul_status status = s->device->backend->submit(s, c);
    if (!status && s->device->backend->synchronous && haul__clock_is_virtual())
        haul__sim_host_done(c);
    return status;
}

static haul_status call(haul__stream *s, const haul__command *c)
{
    return c->run(s, c);
}

typedef struct traits {
    haul__fault fault; /* the fault point of this kind; 0: none */
    const char *name;  /* its name in an injected fault's message */
    bool        moves; /* `bytes` holds the amount of work */
    bool        waits; /* the caller's host memory may be reused when haul__submit returns */
    bool        on_host;
} traits;

static const traits kinds[] = {
    [HAUL__COMMAND_LAUNCH] = {.fault = HAUL__FAULT_LAUNCH, .name = "launch"},
    [HAUL__COMMAND_LIBRARY] = {.fault = HAUL__FAULT_LAUNCH, .name = "launch"},
    [HAUL__COMMAND_COPY] = {HAUL__FAULT_COPY, "copy", .moves = true},
    [HAUL__COMMAND_WRITE] = {HAUL__FAULT_COPY, "copy", .moves = true, .waits = true},
    [HAUL__COMMAND_READ] = {HAUL__FAULT_COPY, "copy", .moves = true, .waits = true},
    [HAUL__COMMAND_PEER] = {HAUL__FAULT_COPY, "copy", .moves = true},
    [HAUL__COMMAND_FILL] = {HAUL__FAULT_COPY, "copy", .moves = true},
    [HAUL__COMMAND_CALLBACK] = {.on_host = true},
};

/* ---- before and after ---- */

static haul_status check(const haul__command *c, const traits *kind)
{
    if (kind->fault && haul__fault_point(kind->fault))
        return haul__fail(HAUL_BACKEND, c->operation, NULL, "%s refused a %s (a fault injected by a test)",
                          c->device->name, kind->name);
    bool fine = c->device->valid && atomic_load_explicit(&c->device->lost, memory_order_acquire) == 0;
    return fine ? HAUL_OK : haul__device_check(c->device, NULL, "device");
}

static haul_status wait_for(const haul__command *c, int first, int last, haul__stream *waiter, bool write)
{
    haul_status status = HAUL_OK;
    for (int i = first; i < last && !status; i++)
        status = haul__uses_wait(c->buffers[i].storage->uses, waiter, write, c->operation);
    return status;
}

/* True if a stream has used one of the buffers, and a wait may be needed. */
static bool any_uses(const haul__command *c)
{
    for (int i = 0; i < c->buffer_count; i++)
        if (haul__storage_is_used(c->buffers[i].storage))
            return true;
    return false;
}

/* Fails for memory that a dry run planned, because it does not exist. Its uses are always marked, so that commands that
 * use it get here. */
static haul_status refuse_planned(const haul__command *c)
{
    for (int i = 0; i < c->buffer_count; i++)
        if (c->buffers[i].storage->planned)
            return haul__refuse_planned(c->buffers[i].storage, c->operation);
    return HAUL_OK;
}

static haul_status wait_all(const haul__command *c, haul__stream *waiter)
{
    HAUL__ASSERT(waiter == NULL || waiter->device == c->device);
    if (!any_uses(c))
        return HAUL_OK;
    if (refuse_planned(c))
        return haul_error_status();
    haul_status status = wait_for(c, c->write_count, c->buffer_count, waiter, false);
    return status ? status : wait_for(c, 0, c->write_count, waiter, true);
}

/* Reads first: for memory that is both read and written the mark of the write must stay. */
static void mark_all(const haul__command *c, haul__use use)
{
    HAUL__ASSERT(0 < use.ticket && use.ticket <= atomic_load(&use.stream->submitted));
    atomic_fetch_add_explicit(&haul__residency_clock, 1, memory_order_relaxed);
    for (int i = c->write_count; i < c->buffer_count; i++)
        haul__uses_mark(c->buffers[i].storage->uses, use, false);
    for (int i = 0; i < c->write_count; i++)
        haul__uses_mark(c->buffers[i].storage->uses, use, true);
}

/* ---- handing over ---- */

/* The only place that passes commands to backends. */
static haul_status hand_over(haul__stream *s, const haul__command *c, const traits *kind)
{
    haul_status (*run)(haul__stream *, const haul__command *) = kind->on_host ? call : give;
    HAUL__ASSERT(c->run || (c->kind != HAUL__COMMAND_LIBRARY && c->kind != HAUL__COMMAND_CALLBACK));
    return haul__watched(HAUL_EVENT_COMMAND) ? haul__timing_give(s, c, run) : run(s, c);
}

static haul_status submit_queued(haul__stream *s, const haul__command *c, const traits *kind, haul__use *out)
{
    haul__use done = {0};
    HAUL__ASSERT(s->device == c->device && !s->device->backend->synchronous);
    haul__events_hold();
    pthread_mutex_lock(&s->lock);
    haul_status status = hand_over(s, c, kind);
    if (!status)
        done = haul__stream_advance(s);
    if (!status && c->record)
        haul__index_faults_launched(s->device, done.ticket);
    pthread_mutex_unlock(&s->lock);
    haul__events_release();
    if (!status)
        mark_all(c, done);
    *out = done;
    return status;
}

/* Without the events that are held back while memory must stay in place. */
static haul_status submit_in_place(haul__stream *s, const haul__command *c, const traits *kind)
{
    haul__use   done = {0};
    haul_status status = haul__residency_enter(c);
    if (status)
        return status;
    status = wait_all(c, s);
    if (!status)
        status = submit_queued(s, c, kind, &done);
    haul__residency_leave();
    if (status)
        return status;
    HAUL__ASSERT(done.stream == s && done.ticket > 0);
    haul__timing_relieve(s);
    return kind->waits && c->buffer_count == 1 ? haul__use_wait_host(done, c->operation) : HAUL_OK;
}

/* The stream's order is kept because the host waits for the stream: the next command is submitted after the
 * callback. */
static haul_status call_back(haul__stream *s, const haul__command *c, const traits *kind)
{
    haul_status status = haul__use_wait_host((haul__use){s, atomic_load(&s->submitted)}, c->operation);
    if (!status)
        status = wait_all(c, NULL);
    return status ? status : hand_over(s, c, kind);
}

static haul__stream *stream_of(const haul__command *c)
{
    const haul_device *d = c->device;
    switch (c->stream) {
    case HAUL__STREAM_UPLOAD: return d->upload;
    case HAUL__STREAM_DOWNLOAD: return d->download;
    case HAUL__STREAM_AHEAD: return d->ahead;
    default: return d->compute;
    }
}

/* For asserts: what a command reads and writes is in its buffers, and it has a kernel if it launches one. */
static bool is_within_buffers(const haul__command *c, const traits *kind)
{
    const size_t bytes = kind->moves && !c->kernel ? c->bytes : 0; /* kernels may read elements several times */
    for (int i = 0; i < c->buffer_count; i++) {
        const haul__region *r = &c->buffers[i];
        if (r->offset > r->storage->bytes || bytes > r->storage->bytes - r->offset)
            return false;
    }
    return c->kind != HAUL__COMMAND_LAUNCH || (c->kernel && c->buffer_count > 0);
}

static haul_status submit(const haul__command *c, const traits *kind)
{
    haul__stream *s = stream_of(c);
    haul_status   status = check(c, kind);
    HAUL__ASSERT(0 <= c->write_count && c->write_count <= c->buffer_count);
    HAUL__ASSERT(status || is_within_buffers(c, kind));
    if (status)
        return status;
    if (kind->on_host)
        return call_back(s, c, kind);
    if (!c->device->backend->synchronous)
        return submit_in_place(s, c, kind);
    status = haul__residency_bring(c);
    if (!status)
        status = wait_all(c, s);
    return status ? status : hand_over(s, c, kind);
}

/* A call of a library that is done when it returns. Dry runs are not checked for, because they submit none. */
static bool is_plain_call(const haul__command *c)
{
    const haul__backend *backend = c->device->backend;
    return c->kind == HAUL__COMMAND_LIBRARY && backend->synchronous && !backend->no_data &&
           haul__submits_plainly(c->device) && !any_uses(c);
}

haul_status haul__submit(const haul__command *c)
{
    if (is_plain_call(c))
        return c->run(c->device->compute, c); /* as the backend would */
    const traits *kind = &kinds[c->kind];
    HAUL__ASSERT((size_t)c->kind < sizeof kinds / sizeof *kinds && c->device);
    if (c->kind == HAUL__COMMAND_PEER && !haul__device_peers(c->device, c->buffers[1].storage->device))
        return HAUL_UNSUPPORTED;
    if (c->device->backend->no_data || (kind->moves ? c->bytes == 0 : c->kind == HAUL__COMMAND_LAUNCH && c->items == 0))
        return HAUL_OK;
    if (haul__is_dry())
        return haul__residency_plan(c);
    if (haul__refuse_followed(c->operation, "computes"))
        return haul_error_status();
    return submit(c, kind);
}
