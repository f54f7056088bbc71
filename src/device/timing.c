/* When commands were submitted, started and done.
 *
 * A device's times come from its own clock, which has an arbitrary zero: a backend reports how long after another
 * command a command began. They are mapped to the host's clock with the smallest offset that lets no command begin
 * before it was submitted. This is exact if one of the commands found the device idle. The last command that was
 * reported is the anchor of those reported next, on any stream: a device that is busy all the time keeps the offset
 * that it once had, and what streams do at once is at once.
 */
#include "device/timing.h"

#include <string.h>

#include "backends/implementation.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/numbers.h"
#include "base/system/clock.h"
#include "device/stream.h"
#include "events/events.h"

enum { LATE_KINDS = HAUL_EVENT_COMMAND_STARTED | HAUL_EVENT_COMMAND_DONE };

/* A command in flight. */
typedef struct haul__timed timed;
struct haul__timed {
    timed          *next;
    uint64_t        ticket;
    haul_event      event;  /* as in SUBMITTED */
    void           *timing; /* the backend's timing; NULL: none */
    haul__listener *listener;
    int64_t         after, duration; /* on the device's clock, relative to the anchor or the first command */
    int64_t         began;           /* on the host's clock, if `placed` */
    bool            placed;
    char            texts[]; /* the origin and label for the event */
};

static haul_event describe(const haul__stream *s, const haul__command *c)
{
    static const char *const texts[] = {
        [HAUL__COMMAND_LAUNCH] = "launch", [HAUL__COMMAND_LIBRARY] = "library call",
        [HAUL__COMMAND_COPY] = "copy",     [HAUL__COMMAND_WRITE] = "copy",
        [HAUL__COMMAND_READ] = "copy",     [HAUL__COMMAND_PEER] = "copy",
        [HAUL__COMMAND_FILL] = "fill",     [HAUL__COMMAND_CALLBACK] = "callback",
    };
    static atomic_ullong last;
    haul_event           e = {.operation = c->operation,
                              .text = texts[c->kind],
                              .stream = haul__stream_name(s),
                              .device = c->device,
                              .command = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1,
                              .copy = c->copy,
                              .kernel = c->kernel ? c->kernel->name
                                        : c->by   ? haul__implementation_name(c->by->id)
                                                  : NULL,
                              .bytes = (int64_t)c->bytes};
    HAUL__ASSERT(e.text && e.command > 0);
    for (int i = 0; i < c->buffer_count && c->bytes == 0; i++)
        e.bytes += (int64_t)c->buffers[i].storage->bytes;
    return e;
}

static void emit(const haul_event *of, haul_event_kind kind, int64_t time, int64_t duration)
{
    haul_event e = *of;
    e.kind = kind;
    e.time = time;
    e.duration = duration;
    haul__emit_late(&e);
}

/* ---- commands that are done at once ---- */

static haul_status give_now(haul__stream *s, const haul__command *c,
                            haul_status (*give)(haul__stream *s, const haul__command *c))
{
    char        path[HAUL__EVENT_PATH];
    int64_t     began = haul__now_ns();
    haul_status status = give(s, c);
    if (status)
        return status;
    int64_t    ended = haul__now_ns();
    haul_event e = describe(s, c);
    haul__event_context(&e, path);
    emit(&e, HAUL_EVENT_COMMAND_SUBMITTED, began, 0);
    e.submitted = began;
    emit(&e, HAUL_EVENT_COMMAND_STARTED, began, 0);
    emit(&e, HAUL_EVENT_COMMAND_DONE, ended, ended - began);
    return HAUL_OK;
}

/* ---- commands in flight; the caller holds the stream's lock ---- */

static void forget(const haul__stream *s, timed *t)
{
    if (t->timing)
        s->device->backend->timing_free(s->device, t->timing);
    haul__listener_release(t->listener);
    haul__free(t);
}

static void add(haul__stream *s, timed *t)
{
    HAUL__ASSERT(!t->next && t->ticket > atomic_load(&s->completed));
    if (!atomic_load_explicit(&s->timed, memory_order_relaxed))
        atomic_store_explicit(&s->timed, t, memory_order_relaxed);
    else
        *s->timed_end = t;
    s->timed_end = &t->next;
    atomic_fetch_add_explicit(&s->timed_count, 1, memory_order_relaxed);
}

/* Without memory for an entry STARTED and DONE are left out, and without a timing they have no duration; the commands
 * run all the same. */
static void await(haul__stream *s, const haul_event *e, void *timing)
{
    size_t origin = strlen(e->origin) + 1, label = strlen(e->label) + 1;
    timed *t = haul__malloc(sizeof *t + origin + label);
    if (!t) {
        if (timing)
            s->device->backend->timing_free(s->device, timing);
        return;
    }
    *t = (timed){.event = *e,
                 .ticket = atomic_load(&s->submitted) + 1,
                 .timing = timing,
                 .listener = haul__listener_here(LATE_KINDS)};
    t->event.origin = memcpy(t->texts, e->origin, origin);
    t->event.label = memcpy(t->texts + origin, e->label, label);
    add(s, t);
}

static haul_status give_queued(haul__stream *s, const haul__command *c,
                               haul_status (*give)(haul__stream *s, const haul__command *c))
{
    const haul__backend *backend = s->device->backend;
    char                 path[HAUL__EVENT_PATH];
    void                *timing = NULL;
    haul__error_record   before;
    bool                 awaited = haul__watched(LATE_KINDS);
    int64_t              now = haul__now_ns();
    haul__error_save(&before);
    if (awaited && backend->timing_begin && backend->timing_begin(s, &timing))
        timing = NULL;
    haul__error_restore(&before);
    haul_status status = give(s, c);
    if (!status && timing && backend->timing_end(s, timing)) {
        backend->timing_free(s->device, timing);
        timing = NULL;
        haul__error_restore(&before);
    }
    if (status) {
        if (timing)
            backend->timing_free(s->device, timing);
        return status;
    }
    HAUL__ASSERT(awaited || !timing);
    haul_event e = describe(s, c);
    haul__event_context(&e, path);
    e.time = now;
    if (awaited)
        await(s, &e, timing);
    emit(&e, HAUL_EVENT_COMMAND_SUBMITTED, now, 0);
    return HAUL_OK;
}

haul_status haul__timing_give(haul__stream *s, const haul__command *c,
                              haul_status (*give)(haul__stream *s, const haul__command *c))
{
    bool now = s->device->backend->synchronous || c->kind == HAUL__COMMAND_CALLBACK;
    return now ? give_now(s, c, give) : give_queued(s, c, give);
}

/* ---- reports ---- */

enum { LONG_AGO = 1000000000 }; /* ns */

/* Removes entries that are done and that no other thread's own subscribers wait for. */
static timed *take_done(haul__stream *s)
{
    timed *done = NULL, **end = &done, *kept = NULL, **kept_end = &kept, *t, *next;
    pthread_mutex_lock(&s->lock);
    uint64_t completed = atomic_load(&s->completed);
    for (t = atomic_load_explicit(&s->timed, memory_order_relaxed); t; t = next) {
        bool take = t->ticket <= completed && !haul__listener_elsewhere(t->listener, LATE_KINDS);
        next = t->next;
        t->next = NULL;
        *(take ? end : kept_end) = t;
        if (take)
            end = &t->next;
        else
            kept_end = &t->next;
        if (take)
            atomic_fetch_sub_explicit(&s->timed_count, 1, memory_order_relaxed);
    }
    HAUL__ASSERT((kept == NULL) == (atomic_load(&s->timed_count) == 0));
    atomic_store_explicit(&s->timed, kept, memory_order_relaxed);
    s->timed_end = kept_end;
    pthread_mutex_unlock(&s->lock);
    return done;
}

/* The device's times, and their offset to the host's clock: when the anchor began, or without one the first command. No
 * command ends before it begins, or after now. An anchor of long ago says nothing, because clocks drift. 0 if no time
 * could be read. The caller holds the keeper's lock. */
static int64_t read_times(const haul__stream *keeper, timed *first)
{
    haul_device         *device = keeper->device;
    const haul__backend *backend = device->backend;
    const int64_t        now = haul__now_ns();
    HAUL__ASSERT(keeper == device->compute);
    void              *origin = now - keeper->anchor_began < LONG_AGO ? keeper->anchor : NULL;
    int64_t            least = origin ? keeper->anchor_began : INT64_MIN, most = INT64_MAX;
    haul__error_record before;
    haul__error_save(&before);
    for (timed *t = first; t; t = t->next) {
        if (!t->timing)
            continue;
        void *from = origin ? origin : t->timing;
        if (backend->timing_read(device, t->timing, from, &t->after, &t->duration)) {
            backend->timing_free(device, t->timing);
            t->timing = NULL;
            haul__error_restore(&before);
            continue;
        }
        origin = from;
        t->duration = larger(t->duration, 0);
        least = t->event.time - t->after > least ? t->event.time - t->after : least;
        most = now - t->after - t->duration < most ? now - t->after - t->duration : most;
    }
    return most == INT64_MAX ? 0 : least < most ? least : most;
}

/* Finds when commands began. The last one that was timed becomes the anchor of all streams of the device, which have
 * one clock. The compute stream keeps it. */
static void place(haul__stream *keeper, timed *done)
{
    pthread_mutex_lock(&keeper->lock);
    const int64_t behind = read_times(keeper, done);
    for (timed *t = done; t; t = t->next) {
        if (!t->timing)
            continue;
        HAUL__ASSERT(t->timing != keeper->anchor);
        if (keeper->anchor)
            keeper->device->backend->timing_free(keeper->device, keeper->anchor);
        t->placed = true;
        t->began = keeper->anchor_began = t->after + behind;
        keeper->anchor = t->timing;
        t->timing = NULL;
    }
    pthread_mutex_unlock(&keeper->lock);
}

static void report(timed *t)
{
    t->event.submitted = t->event.time;
    HAUL__ASSERT(!t->placed || !t->timing); /* a timing that was read is the anchor's, or was freed */
    int64_t began = t->placed ? t->began : haul__now_ns();
    int64_t duration = t->placed ? t->duration : 0;
    emit(&t->event, HAUL_EVENT_COMMAND_STARTED, began, 0);
    emit(&t->event, HAUL_EVENT_COMMAND_DONE, began + duration, duration);
}

static void report_stream(haul__stream *s)
{
    timed *next, *done = take_done(s);
    if (haul__watched(LATE_KINDS))
        place(s->device->compute, done);
    for (timed *t = done; t; t = t->next)
        report(t);
    for (timed *t = done; t; t = next) {
        next = t->next;
        forget(s, t);
    }
}

/* The oldest recorded ticket; 0: none. */
static uint64_t oldest(haul__stream *s)
{
    if (!atomic_load_explicit(&s->timed, memory_order_relaxed))
        return 0;
    pthread_mutex_lock(&s->lock);
    const timed *t = atomic_load_explicit(&s->timed, memory_order_relaxed);
    uint64_t     ticket = t ? t->ticket : 0;
    HAUL__ASSERT(ticket <= atomic_load(&s->submitted)); /* the lock is held until a command has its ticket */
    pthread_mutex_unlock(&s->lock);
    return ticket;
}

/* A subscriber that is running leaves the events for later, because they would not be received now. */
static void ask_and_report(haul__stream *s, bool anew)
{
    uint64_t ticket = s && !haul__event_muted() ? oldest(s) : 0;
    if (!ticket)
        return;
    haul__stream_ask(s, ticket, anew);
    report_stream(s);
}

void haul__timing_emit(haul_device *device)
{
    haul__stream *streams[HAUL__DEVICE_STREAMS];
    haul__device_streams(device, streams);
    for (int i = 0; i < HAUL__DEVICE_STREAMS; i++)
        ask_and_report(streams[i], false);
}

void haul__timing_catch_up(haul__stream *s)
{
    ask_and_report(s, true);
}

static void drop_stream(haul__stream *s)
{
    timed *next;
    pthread_mutex_lock(&s->lock);
    timed *all = atomic_exchange_explicit(&s->timed, NULL, memory_order_relaxed);
    atomic_store_explicit(&s->timed_count, 0, memory_order_relaxed);
    void *last = s->anchor;
    HAUL__ASSERT(!last || s == s->device->compute);
    s->anchor = NULL;
    pthread_mutex_unlock(&s->lock);
    if (last)
        s->device->backend->timing_free(s->device, last);
    for (timed *t = all; t; t = next) {
        next = t->next;
        forget(s, t);
    }
}

void haul__timing_drop(haul_device *device)
{
    haul__stream *streams[HAUL__DEVICE_STREAMS];
    haul__device_streams(device, streams);
    for (int i = 0; i < HAUL__DEVICE_STREAMS; i++)
        if (streams[i])
            drop_stream(streams[i]);
}
