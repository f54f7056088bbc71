/* When memory may be accessed: tickets, uses, and the waits that follow from them.
 *
 * A stream counts its commands. A use is a ticket on a stream. A storage remembers its last write and the reads since.
 * Backend events are recorded only when a wait needs them. Copy streams are the exception: every command there records
 * one, because the next batch is often in flight already, and a wait for this batch must not wait for that one. A
 * stream keeps its newest events as points, which everybody shares who waits for the same or an earlier ticket.
 *
 * A fault that a wait reports is final: the device is marked as lost, and haul__device_check refuses it from then
 * on.
 *
 * The states of a command, by its ticket:
 *
 *     (none) --advance--> submitted --point_record--> covered by a point --wait, query--> completed
 *                             |                                                              ^
 *                             +------------------- a wait for the stream -------------------+
 *
 * Invariants of a stream:
 *
 *   1. completed <= submitted.
 *   2. A point covers submitted commands only, and a newer point covers all that an older one does.
 *   3. What a stream runs after was submitted: after[id] <= submitted of that stream.
 *   4. A use has a ticket from 1 to submitted.
 *   5. A storage remembers at most one read of each stream, and at most HAUL__MAX_READS.
 *   6. A point has references until it is freed. */
#include "device/stream.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hostile.h"
#include "base/spin.h"
#include "base/system/fork.h"
#include "device/index_fault.h"
#include "device/residency.h"
#include "device/timing.h"
#include "device/wait.h"
#include "events/events.h"

/* An event of the backend and the ticket it covers. */
struct haul__point {
    atomic_int   refs;
    uint64_t     ticket;
    uint64_t     behind; /* haul__index_faults_behind */
    void        *event;
    haul_device *device;
};

static atomic_int stream_count;

/* ---- points ---- */

static void point_release(struct haul__point *p)
{
    HAUL__ASSERT(!p || atomic_load(&p->refs) > 0); /* 6 */
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    p->device->backend->event_free(p->device, p->event);
    haul__free(p);
}

/* True if no point of s covers more than `ticket`. The caller holds the lock of s. */
static bool covers_all(const haul__stream *s, uint64_t ticket)
{
    for (int i = 0; i < HAUL__MAX_POINTS; i++)
        if (s->points[i] && s->points[i]->ticket > ticket)
            return false;
    return true;
}

/* Records an event after everything that was submitted to s, and keeps it as one of its points. The caller holds the
 * lock of s. */
static haul_status point_record(haul__stream *s, struct haul__point **out)
{
    struct haul__point *p = haul__malloc(sizeof *p);
    if (!p)
        return haul__fail_memory("haul_device_sync", sizeof *p);
    haul__index_faults_read(s);
    haul_status status = s->device->backend->event_record(s, &p->event);
    if (status) {
        haul__free(p);
        return status;
    }
    atomic_init(&p->refs, 1);
    p->ticket = atomic_load(&s->submitted);
    p->behind = haul__index_faults_behind(s);
    p->device = s->device;
    HAUL__ASSERT(0 <= s->next_point && s->next_point < HAUL__MAX_POINTS && covers_all(s, p->ticket)); /* 2 */
    point_release(s->points[s->next_point]);
    s->points[s->next_point] = p;
    s->next_point = haul__is_hostile(HAUL__HOSTILE_CACHES) ? 0 : (s->next_point + 1) % HAUL__MAX_POINTS;
    *out = p;
    return HAUL_OK;
}

/* The earliest point of s that covers `ticket`; NULL if none does. The caller holds the lock of s. */
static struct haul__point *point_find(const haul__stream *s, uint64_t ticket)
{
    struct haul__point *best = NULL;
    for (int i = 0; i < HAUL__MAX_POINTS; i++) {
        struct haul__point *p = s->points[i];
        if (p && p->ticket >= ticket && (!best || p->ticket < best->ticket))
            best = p;
    }
    return best;
}

/* The earliest point of s that covers `ticket`; the caller gets a reference. */
static haul_status point_for(haul__stream *s, uint64_t ticket, struct haul__point **out)
{
    haul_status status = HAUL_OK;
    pthread_mutex_lock(&s->lock);
    struct haul__point *best = point_find(s, ticket);
    if (!best)
        status = point_record(s, &best);
    HAUL__ASSERT(ticket <= atomic_load(&s->submitted)); /* 4 */
    if (!status) {
        HAUL__ASSERT(best->ticket >= ticket && best->ticket <= atomic_load(&s->submitted)); /* 2 */
        atomic_fetch_add_explicit(&best->refs, 1, memory_order_relaxed);
        *out = best;
    }
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* ---- waiting for a use ---- */

void haul__raise_to(atomic_ullong *value, uint64_t least)
{
    unsigned long long now = atomic_load(value);
    while (now < least && !atomic_compare_exchange_weak(value, &now, least))
        ;
}

/* Makes the host wait for a point or, without one, for the whole stream. */
static haul_status host_wait(haul__stream *s, const struct haul__point *p, const char *origin)
{
    haul_status status;
    uint64_t    reached, behind;
    if (p) {
        reached = p->ticket;
        behind = p->behind;
        status = haul__wait(s, p->event, origin);
    } else {
        haul__events_hold();
        pthread_mutex_lock(&s->lock);
        haul__index_faults_read(s);
        reached = atomic_load(&s->submitted);
        behind = haul__index_faults_behind(s);
        status = haul__wait(s, NULL, origin);
        pthread_mutex_unlock(&s->lock);
        haul__events_release();
    }
    if (status) {
        haul__device_lose(s->device, status);
        haul__timing_drop(s->device);
        return status;
    }
    HAUL__ASSERT(reached <= atomic_load(&s->submitted)); /* 1 */
    haul__raise_to(&s->completed, reached);
    haul__index_faults_reached(s->device, behind);
    haul__timing_emit(s->device);
    return HAUL_OK;
}

bool haul__use_done(haul__use use)
{
    return !use.stream || atomic_load_explicit(&use.stream->completed, memory_order_acquire) >= use.ticket;
}

static bool use_reached(haul__use use)
{
    if (haul__use_done(use))
        return true;
    if (!use.stream->device->backend->event_query)
        return false;
    pthread_mutex_lock(&use.stream->lock);
    struct haul__point *p = point_find(use.stream, use.ticket);
    if (p)
        atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    pthread_mutex_unlock(&use.stream->lock);
    bool reached = p && haul__event_reached(p->device, p->event);
    if (reached) {
        HAUL__ASSERT(use.ticket <= p->ticket && p->ticket <= atomic_load(&use.stream->submitted)); /* 1, 2 */
        haul__raise_to(&use.stream->completed, p->ticket);
        haul__index_faults_reached(p->device, p->behind);
    }
    point_release(p);
    return reached;
}

void haul__stream_ask(haul__stream *s, uint64_t ticket, bool anew)
{
    struct haul__point *newest = NULL;
    haul__error_record  before;
    haul__error_save(&before);
    HAUL__ASSERT(ticket > 0); /* 4 */
    while (use_reached((haul__use){s, ticket}))
        ticket = atomic_load(&s->completed) + 1;
    if (anew && s->device->backend->event_query && point_for(s, atomic_load(&s->submitted), &newest))
        haul__error_restore(&before);
    point_release(newest);
}

haul_status haul__use_wait_host(haul__use use, const char *origin)
{
    struct haul__point *p = NULL;
    if (haul__use_done(use))
        return HAUL_OK;
    HAUL__ASSERT(0 < use.ticket && use.ticket <= atomic_load(&use.stream->submitted)); /* 4 */
    haul_status status = haul__device_check(use.stream->device, "haul_device_sync", NULL);
    if (!status && use.stream->device->backend->event_record)
        status = point_for(use.stream, use.ticket, &p);
    if (!status)
        status = host_wait(use.stream, p, origin);
    point_release(p);
    return status;
}

haul_status haul__use_wait_stream(haul__stream *waiter, haul__use use, const char *origin)
{
    struct haul__point *p;
    HAUL__ASSERT(!use.stream || (0 <= use.stream->id && use.stream->id < HAUL__MAX_STREAMS));
    if (use.stream == waiter || haul__use_done(use) || atomic_load(&waiter->after[use.stream->id]) >= use.ticket)
        return HAUL_OK;
    const haul__backend *backend = waiter->device->backend;
    if (backend->synchronous || backend != use.stream->device->backend || !backend->event_wait)
        return haul__use_wait_host(use, origin);
    haul_status status = point_for(use.stream, use.ticket, &p);
    if (status)
        return status;
    pthread_mutex_lock(&waiter->lock);
    status = backend->event_wait(waiter, p->event);
    pthread_mutex_unlock(&waiter->lock);
    HAUL__ASSERT(waiter != use.stream && p->ticket <= atomic_load(&use.stream->submitted)); /* 3 */
    if (!status)
        haul__raise_to(&waiter->after[use.stream->id], p->ticket);
    point_release(p);
    return status == HAUL_UNSUPPORTED ? haul__use_wait_host(use, origin) : status;
}

/* ---- uses ---- */

void haul__uses_init(haul__uses *uses)
{
    *uses = (haul__uses){.lock = false};
}

void haul__uses_forget(haul__uses *uses)
{
    HAUL__ASSERT(haul__fork_count() > 0 && 0 <= uses->read_count && uses->read_count <= HAUL__MAX_READS); /* 5 */
    atomic_store(&uses->lock, false);
    uses->write = (haul__use){0};
    uses->read_count = 0;
    atomic_store(&uses->any, atomic_load(&uses->away));
}

/* Removes uses that are done and copies those that a reader or writer must wait for to `out`; returns how many. */
static int pending(haul__uses *uses, bool write, haul__use out[1 + HAUL__MAX_READS])
{
    int count = 0, kept = 0;
    if (!uses || !atomic_load_explicit(&uses->any, memory_order_acquire))
        return 0;
    haul__spin_lock(&uses->lock);
    if (haul__use_done(uses->write))
        uses->write = (haul__use){0};
    else
        out[count++] = uses->write;
    for (int i = 0; i < uses->read_count; i++) {
        if (haul__use_done(uses->reads[i]))
            continue;
        if (write)
            out[count++] = uses->reads[i];
        uses->reads[kept++] = uses->reads[i];
    }
    HAUL__ASSERT(kept <= uses->read_count && uses->read_count <= HAUL__MAX_READS); /* 5 */
    HAUL__ASSERT(count <= 1 + kept);
    uses->read_count = kept;
    if (!uses->write.stream && kept == 0 && !atomic_load_explicit(&uses->away, memory_order_relaxed))
        atomic_store_explicit(&uses->any, false, memory_order_release);
    haul__spin_unlock(&uses->lock);
    return count;
}

haul_status haul__uses_wait(haul__uses *uses, haul__stream *waiter, bool write, const char *origin)
{
    haul__use   wanted[1 + HAUL__MAX_READS];
    haul_status status = HAUL_OK;
    int         count = pending(uses, write, wanted);
    for (int i = 0; i < count && !status; i++)
        status = waiter ? haul__use_wait_stream(waiter, wanted[i], origin) : haul__use_wait_host(wanted[i], origin);
    return status;
}

bool haul__uses_reached(haul__uses *uses)
{
    haul__use wanted[1 + HAUL__MAX_READS];
    int       count = pending(uses, true, wanted);
    for (int i = 0; i < count; i++)
        if (!use_reached(wanted[i]))
            return false;
    return true;
}

bool haul__uses_settled(haul__uses *uses)
{
    haul__use wanted[1 + HAUL__MAX_READS];
    return pending(uses, false, wanted) == 0;
}

void haul__uses_finish(haul__uses *uses, const char *origin)
{
    haul__use          wanted[1 + HAUL__MAX_READS];
    haul__error_record before;
    int                count = pending(uses, true, wanted);
    if (count == 0)
        return;
    haul__error_save(&before);
    for (int i = 0; i < count; i++)
        if (haul__use_wait_host(wanted[i], origin) && !atomic_load(&wanted[i].stream->device->lost))
            host_wait(wanted[i].stream, NULL, origin); /* there was no memory for an event */
    haul__error_restore(&before);
}

/* Adds a read: in the slot of an older read of its stream, or in a free one. */
static bool add_read(haul__uses *uses, haul__use use)
{
    for (int i = 0; i < uses->read_count; i++) {
        if (uses->reads[i].stream == use.stream) {
            if (uses->reads[i].ticket < use.ticket)
                uses->reads[i].ticket = use.ticket;
            return true;
        }
    }
    HAUL__ASSERT(0 <= uses->read_count && uses->read_count <= HAUL__MAX_READS); /* 5 */
    if (uses->read_count == HAUL__MAX_READS)
        return false;
    uses->reads[uses->read_count++] = use;
    return true;
}

static void mark(haul__uses *uses, haul__use use, bool write)
{
    const uint64_t now = atomic_load_explicit(&haul__residency_clock, memory_order_relaxed);
    HAUL__ASSERT(use.ticket > 0); /* 4 */
    for (bool added = false; !added;) {
        haul__use first = {0};
        haul__spin_lock(&uses->lock);
        uses->last = now;
        if (write) {
            uses->write = use;
            uses->read_count = 0;
            uses->copied = false;
            added = true;
        } else {
            added = add_read(uses, use);
            first = uses->reads[0];
        }
        atomic_store_explicit(&uses->any, true, memory_order_release);
        haul__spin_unlock(&uses->lock);
        if (!added) { /* more streams than slots: wait for one */
            HAUL__ASSERT(first.stream && first.ticket > 0 && first.stream != use.stream); /* 4, 5 */
            haul__uses one = {.lock = false, .any = true, .read_count = 1, .reads = {first}};
            haul__uses_finish(&one, NULL);
            haul__spin_lock(&uses->lock);
            if (uses->read_count > 0 && uses->reads[0].stream == first.stream && uses->reads[0].ticket == first.ticket)
                uses->reads[0] = uses->reads[--uses->read_count];
            haul__spin_unlock(&uses->lock);
        }
    }
}

/* A write of a part does not wait for other parts, so it does not replace their uses. */
void haul__uses_mark(haul__uses *uses, haul__use use, bool write)
{
    if (!uses || !use.stream)
        return;
    mark(uses, use, write);
    if (uses->whole)
        mark(uses->whole, use, false);
}

void haul__uses_follow(haul__uses *uses, haul__uses *before)
{
    haul__use earlier[1 + HAUL__MAX_READS];
    const int count = uses == before ? 0 : pending(before, true, earlier);
    for (int i = 0; i < count; i++)
        mark(uses, earlier[i], false);
}

/* The elements may be in another process. */
static haul_status bring(haul__storage *storage, const char *origin)
{
    if (!storage->uses || !atomic_load_explicit(&storage->uses->away, memory_order_acquire))
        return HAUL_OK;
    return haul__residency_bring(&(haul__command){.kind = HAUL__COMMAND_CALLBACK,
                                                  .operation = origin,
                                                  .device = storage->device,
                                                  .buffers = &(haul__region){storage, 0},
                                                  .buffer_count = 1});
}

haul_status haul__host_before(haul__storage *storage, bool write, const char *origin)
{
    if (haul__refuse_dry(origin) || haul__refuse_planned(storage, origin))
        return haul_error_status();
    const haul_status status = bring(storage, origin);
    return status ? status : haul__uses_wait(storage->uses, NULL, write, origin);
}

/* ---- streams ---- */

haul__use haul__stream_advance(haul__stream *s)
{
    haul__use use = {s, atomic_fetch_add(&s->submitted, 1) + 1};
    HAUL__ASSERT(atomic_load(&s->completed) < use.ticket); /* 1 */
    if (s->eager && s->device->backend->event_record) {
        struct haul__point *p;
        haul__error_record  before;
        haul__error_save(&before);
        if (point_record(s, &p)) /* the next waiter tries again */
            haul__error_restore(&before);
    }
    return use;
}

static void stream_close(haul_device *device, haul__stream *s)
{
    if (!s)
        return;
    if (device->backend->stream_close)
        device->backend->stream_close(device, s->queue);
    pthread_mutex_destroy(&s->lock);
    haul__free(s);
}

static haul_status stream_open(haul_device *device, bool eager, haul__stream **out)
{
    haul__stream *s = haul__calloc(1, sizeof *s);
    if (!s)
        return haul__fail_memory("haul_device_get", sizeof *s);
    s->device = device;
    s->eager = eager;
    pthread_mutex_init(&s->lock, NULL);
    s->id = atomic_fetch_add(&stream_count, 1);
    haul_status status = HAUL_OK;
    if (s->id >= HAUL__MAX_STREAMS)
        status = haul__fail(HAUL_UNSUPPORTED, "haul_device_get", NULL, "there are too many streams");
    else if (device->backend->stream_open)
        status = device->backend->stream_open(device, &s->queue);
    if (status) {
        pthread_mutex_destroy(&s->lock);
        haul__free(s);
        return status;
    }
    *out = s;
    return HAUL_OK;
}

haul_status haul__streams_open(haul_device *device)
{
    haul__stream *made[HAUL__DEVICE_STREAMS] = {NULL};
    HAUL__ASSERT(!device->compute); /* a device has its streams once */
    bool        one = device->backend->synchronous;
    haul_status status = stream_open(device, false, &made[0]);
    for (int i = 1; i < HAUL__DEVICE_STREAMS && !status && !one; i++)
        status = stream_open(device, true, &made[i]);
    if (status) {
        for (int i = 0; i < HAUL__DEVICE_STREAMS; i++)
            stream_close(device, made[i]);
        return status;
    }
    device->compute = made[0];
    device->upload = one ? made[0] : made[1];
    device->download = one ? made[0] : made[2];
    device->ahead = one ? made[0] : made[3];
    return HAUL_OK;
}

haul_status haul_device_sync(haul_device *device)
{
    haul_status status = haul__device_check(device, "haul_device_sync", "device");
    if (status)
        return status;
    haul__stream *streams[HAUL__DEVICE_STREAMS];
    haul__device_streams(device, streams);
    for (int i = 0; i < HAUL__DEVICE_STREAMS && !status; i++)
        status = haul__use_wait_host((haul__use){streams[i], atomic_load(&streams[i]->submitted)}, "haul_device_sync");
    if (status)
        return status;
    haul__timing_emit(device); /* reports commands that were done already, too, for which nothing here waited */
    return haul__index_faults_raise(device);
}
