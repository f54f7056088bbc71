/* Commands on their way to a device: wait for what the storages' uses demand, hand over, leave a mark.
 *
 * Nothing is ever submitted to a device without data. Streams of synchronous backends are not locked: their commands
 * run on the calling threads, side by side. */
#include "core/alloc.h"
#include "core/thread.h"
#include "device/index_fault.h"
#include "device/recording.h"
#include "device/stream.h"
#include "device/timing.h"
#include "events/events.h"

/* ---- kinds ---- */

static haul_status give(haul__stream *s, const haul__command *c)
{
    return s->device->backend->submit(s, c);
}

static haul_status call(haul__stream *s, const haul__command *c)
{
    return c->run(s, c);
}

typedef struct traits {
    haul__fault fault; /* the fault point it passes; 0: none */
    const char *name;  /* in the fault's message */
    bool        moves; /* bytes say how much there is to do */
    bool        waits; /* the caller's memory on the host's side is free again when haul__submit returns */
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

/* Has any of the buffers been used by a stream that somebody may have to wait for? */
static bool any_uses(const haul__command *c)
{
    for (int i = 0; i < c->buffer_count; i++) {
        haul__uses *uses = c->buffers[i].storage->uses;
        if (uses && atomic_load_explicit(&uses->any, memory_order_acquire))
            return true;
    }
    return false;
}

/* What a dry run made has no memory that another command could use; its uses are marked. */
static haul_status refuse_planned(const haul__command *c)
{
    for (int i = 0; i < c->buffer_count; i++)
        if (c->buffers[i].storage->planned)
            return haul__refuse_planned(c->buffers[i].storage, c->operation);
    return HAUL_OK;
}

static haul_status wait_all(const haul__command *c, haul__stream *waiter)
{
    if (!any_uses(c))
        return HAUL_OK;
    if (refuse_planned(c))
        return haul_error_status();
    haul_status status = wait_for(c, c->write_count, c->buffer_count, waiter, false);
    return status ? status : wait_for(c, 0, c->write_count, waiter, true);
}

/* Reads first: of memory that is read and written the write is the mark that must stay. */
static void mark_all(const haul__command *c, haul__use use)
{
    for (int i = c->write_count; i < c->buffer_count; i++)
        haul__uses_mark(c->buffers[i].storage->uses, use, false);
    for (int i = 0; i < c->write_count; i++)
        haul__uses_mark(c->buffers[i].storage->uses, use, true);
}

/* ---- handing over ---- */

/* The only place from which commands reach backends. */
static haul_status hand_over(haul__stream *s, const haul__command *c, const traits *kind)
{
    haul_status (*run)(haul__stream *, const haul__command *) = kind->on_host ? call : give;
    return haul__watched(HAUL_EVENT_COMMAND) ? haul__timing_give(s, c, run) : run(s, c);
}

static haul_status submit_queued(haul__stream *s, const haul__command *c, const traits *kind)
{
    haul__use done = {0};
    haul__events_hold();
    pthread_mutex_lock(&s->lock);
    haul_status status = hand_over(s, c, kind);
    if (!status)
        done = haul__stream_advance(s);
    if (!status && c->record)
        haul__index_faults_launched(s->device, done.ticket);
    pthread_mutex_unlock(&s->lock);
    haul__events_release();
    if (status)
        return status;
    mark_all(c, done);
    haul__timing_relieve(s);
    return kind->waits && c->buffer_count == 1 ? haul__use_wait_host(done, c->operation) : HAUL_OK;
}

/* The stream's order holds because the host waits for the stream: what is submitted next comes after the callback. */
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
    return c->stream == HAUL__STREAM_COMPUTE ? d->compute : c->stream == HAUL__STREAM_UPLOAD ? d->upload : d->download;
}

static haul_status submit(const haul__command *c, const traits *kind)
{
    haul__stream *s = stream_of(c);
    haul_status   status = check(c, kind);
    if (status)
        return status;
    if (kind->on_host)
        return call_back(s, c, kind);
    status = wait_all(c, s);
    if (status)
        return status;
    return c->device->backend->synchronous ? hand_over(s, c, kind) : submit_queued(s, c, kind);
}

static haul_status submit_recorded(const haul__command *c, const traits *kind)
{
    int         before = haul__recording_count(haul__recording_current);
    haul_status status = haul__recording_note(c);
    if (status)
        return status;
    status = submit(c, kind);
    if (status)
        haul__recording_cut(before);
    return status;
}

/* A launch or call that is done when it returns, of a thread that nobody listens to or records, on memory that no
 * stream uses: most commands of a processor. In dry runs nobody asks for either. */
static bool is_plain(const haul__command *c)
{
    const haul_device *device = c->device;
    bool               computes = c->kind == HAUL__COMMAND_LAUNCH ? c->items != 0 : c->kind == HAUL__COMMAND_LIBRARY;
    return computes && device->backend->synchronous && !device->backend->no_data && device->valid &&
           atomic_load_explicit(&device->lost, memory_order_acquire) == 0 && !haul__recording_current &&
           !haul__watched(HAUL_EVENT_COMMAND) && !any_uses(c) && !haul__fault_planned(HAUL__FAULT_LAUNCH);
}

haul_status haul__submit(const haul__command *c)
{
    if (is_plain(c))
        return c->device->backend->submit(c->device->compute, c);
    const traits *kind = &kinds[c->kind];
    if (c->kind == HAUL__COMMAND_PEER && !haul__device_peers(c->device, c->buffers[1].storage->device))
        return HAUL_UNSUPPORTED;
    if (c->device->backend->no_data || (kind->moves ? c->bytes == 0 : c->kind == HAUL__COMMAND_LAUNCH && c->items == 0))
        return HAUL_OK;
    if (haul__is_dry())
        return HAUL_OK;
    return haul__recording_current ? submit_recorded(c, kind) : submit(c, kind);
}
