/* Emitting events. haul/events.h says what they hold.
 *
 *     if (haul__watched(HAUL_EVENT_PLACEMENT))
 *         haul__emit(&(haul_event){.kind = HAUL_EVENT_PLACEMENT, .operation = operation, .device = device, ...});
 *
 * Nothing is computed for an event before the test. Waits and copies are rare and expensive, and are counted whether
 * anybody listens or not: they are always emitted, by haul__emit_counted. */
#ifndef HAUL_EVENTS_EVENTS_H
#define HAUL_EVENTS_EVENTS_H

#include <haul/events.h>

#include "core/clock.h"
#include "core/thread.h"

/* The test behind the word: registers a thread whose word is not known yet, and says no to subscribers at work. */
bool haul__listened(uint32_t kinds);

/* Does somebody listen to one of these kinds on this thread? One word is tested when nobody does. */
static inline bool haul__watched(uint32_t kinds)
{
    return __builtin_expect(atomic_load_explicit(&haul__tls.watch, memory_order_relaxed) & kinds, 0) &&
           haul__listened(kinds);
}

/* Call the subscribers. Fills in thread, depth, origin, label, frames, and time unless it is set; texts that are NULL
 * become "". */
void haul__emit(haul_event *event);

/* ---- events that come later than they happened ---- */

enum { HAUL__EVENT_PATH = 256 };

/* Where the thread is now: thread, depth, origin and label. The texts are valid until the thread goes on. */
void haul__event_place(haul_event *event, char path[HAUL__EVENT_PATH]);

/* As haul__emit, for an event that has its place and time already. */
void haul__emit_late(haul_event *event);

/* A thread whose own subscribers want an event that comes later: other threads may not take it from them. here: NULL
 * where none of them wants one of these kinds, or without memory; counted, to be released. elsewhere: is it another
 * thread, whose subscribers still want it? */
typedef struct haul__listener haul__listener;
haul__listener               *haul__listener_here(uint32_t kinds);
bool                          haul__listener_elsewhere(const haul__listener *listener, uint32_t kinds);
void                          haul__listener_release(haul__listener *listener);

/* ---- beginnings and ends ---- */

/* The beginning of what has an end; returns when that was. The end is emitted if the beginning was, so that they
 * balance: `began` is 0 where nobody listened, and nothing happens then. */
int64_t haul__emit_begin(haul_event *event);
void    haul__emit_end(haul_event *event, int64_t began);

int64_t haul__emit_operation_begin(const char *operation);
void    haul__emit_operation_end(const char *operation, int64_t began);

static inline int64_t haul__operation_begin(const char *operation)
{
    return haul__watched(HAUL_EVENT_OPERATION) ? haul__emit_operation_begin(operation) : 0;
}

static inline void haul__operation_end(const char *operation, int64_t began)
{
    if (__builtin_expect(began != 0, 0))
        haul__emit_operation_end(operation, began);
}

/* Between the two the thread's events wait: to be used around locks of the library that are held while something may be
 * emitted, since subscribers may call whatever needs them. The two nest. */
void haul__events_hold(void);
void haul__events_release(void);

/* ---- counts ---- */

/* Emit a wait or a copy, and count it: waits for the thread, copies for the process. */
void haul__emit_counted(haul_event *event);

typedef struct haul__event_count {
    int64_t events, bytes, duration;
} haul__event_count;

/* Of one kind: HAUL_EVENT_WAITED, FOUND_DONE and DRIVER_CALLED of the calling thread, since it began; copies of the
 * process, since the start or the last reset. */
haul__event_count haul__event_count_of(haul_event_kind kind);
void              haul__event_count_reset_copies(void);

/* How many events of this thread went to subscribers. */
int64_t haul__events_delivered(void);

/* Is a subscriber at work on this thread? What it allocates makes no event, and so must make none when it is freed. */
bool               haul__event_muted(void);
static inline bool haul__event_quiet(void)
{
    return atomic_load_explicit(&haul__tls.watch, memory_order_relaxed) && haul__event_muted();
}

/* ---- subscribers ---- */

/* One subscription, in memory of the caller's. The rooms above have theirs in static memory, so that subscribing cannot
 * fail for want of memory. */
typedef struct haul__subscriber haul__subscriber;
struct haul__subscriber {
    haul_subscription of; /* kinds are not 0 */
    int64_t           id; /* of a user's, which is freed when it is detached; else 0 */
    bool              linked, gone;
    haul__subscriber *next;
};

/* For all threads, or the calling one, as `of.everywhere` says. False if the thread or the list cannot be set up.
 * Detaching one that is not attached does nothing. */
bool haul__attach(haul__subscriber *subscriber);
void haul__detach(haul__subscriber *subscriber);

#endif
