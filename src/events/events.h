/* Emitting events, whose contents haul/events.h documents.
 *
 *     if (haul__watched(HAUL_EVENT_PLACEMENT))
 *         haul__emit(&(haul_event){.kind = HAUL_EVENT_PLACEMENT, .operation = operation, .device = device, ...});
 *
 * Nothing is computed for an event before the test. Waits and copies are rare and expensive, and are counted with or
 * without subscribers, so they are always emitted, by haul__emit_counted. */
#ifndef HAUL_EVENTS_EVENTS_H
#define HAUL_EVENTS_EVENTS_H

#include <haul/events.h>

#include "base/system/clock.h"
#include "core/thread.h"

/* The slow part of the test: registers a thread whose word is unknown, and returns false inside a subscriber. */
bool haul__listened(uint32_t kinds);

/* True if one of these kinds has a subscriber on this thread. Without subscribers this tests one word. */
static inline bool haul__watched(uint32_t kinds)
{
    return __builtin_expect(atomic_load_explicit(&haul__tls.watch, memory_order_relaxed) & kinds, 0) &&
           haul__listened(kinds);
}

/* Calls the subscribers. Fills in thread, depth, origin, label, frames, and time unless it is set; texts that are NULL
 * become "". */
void haul__emit(haul_event *event);

/* ---- events that are emitted later than they happened ---- */

enum { HAUL__EVENT_PATH = 256 };

/* The calling thread's number in events. */
int haul__event_thread(void);

/* The thread's present thread number, depth, origin and label. The texts are valid until the thread continues. */
void haul__event_context(haul_event *event, char path[HAUL__EVENT_PATH]);

/* The same as haul__emit, for an event that has its place and time already. */
void haul__emit_late(haul_event *event);

/* A thread whose own subscribers want an event that comes later; other threads may not emit it in its place. here: NULL
 * if none of them wants one of these kinds, or without memory; the caller must release it. elsewhere: true if it
 * is another thread whose subscribers still want the event. */
typedef struct haul__listener haul__listener;
haul__listener               *haul__listener_here(uint32_t kinds);
bool                          haul__listener_elsewhere(const haul__listener *listener, uint32_t kinds);
void                          haul__listener_release(haul__listener *listener);

/* ---- beginnings and ends ---- */

/* Emits the start of something that has an end, and returns its time, or 0 inside a subscriber. Pass that time to
 * haul__emit_end as `began`. For 0 it does nothing, so that starts and ends balance. */
int64_t haul__emit_begin(haul_event *event);
void    haul__emit_end(haul_event *event, int64_t began);

int64_t haul__emit_operation_begin(const char *operation);

static inline int64_t haul__operation_begin(const char *operation)
{
    return haul__watched(HAUL_EVENT_OPERATION) ? haul__emit_operation_begin(operation) : 0;
}

/* Work that consists of operations; texts as in HAUL_EVENT_WORK_BEGIN. */
int64_t haul__emit_work_begin(const char *operation, const char *text, uint64_t node);
void    haul__emit_work_end(const char *operation, const char *text, uint64_t node, int64_t began);

static inline int64_t haul__work_begin(const char *operation, const char *text, uint64_t node)
{
    return haul__watched(HAUL_EVENT_WORK) ? haul__emit_work_begin(operation, text, node) : 0;
}

static inline void haul__work_end(const char *operation, const char *text, uint64_t node, int64_t began)
{
    if (__builtin_expect(began != 0, 0))
        haul__emit_work_end(operation, text, node, began);
}

/* Between the two calls the thread's events are held back. Use them around locks of the library under which events may
 * be emitted, because subscribers may call functions that take those locks. Pairs of calls nest. */
void haul__events_hold(void);
void haul__events_release(void);
bool haul__events_are_held(void); /* those of the calling thread */

/* ---- counts ---- */

/* Emits a wait or a copy, and counts it: waits for the thread, copies for the process. */
void haul__emit_counted(haul_event *event);

typedef struct haul__event_count {
    int64_t events, bytes, duration;
} haul__event_count;

/* The count of one kind: HAUL_EVENT_WAITED, FOUND_DONE and DRIVER_CALLED of the calling thread since it began; copies
 * of the process since the start or the last reset. */
haul__event_count haul__event_count_of(haul_event_kind kind);
void              haul__event_count_reset_copies(void);

/* How many events of this thread reached subscribers. */
int64_t haul__events_delivered(void);

/* True while a subscriber runs on this thread. Memory that it allocates emits no event, and so must emit none when it
 * is freed. */
bool               haul__event_muted(void);
static inline bool haul__event_quiet(void)
{
    return atomic_load_explicit(&haul__tls.watch, memory_order_relaxed) && haul__event_muted();
}

/* ---- subscribers ---- */

/* A subscription, in memory of the caller. Layers above use static memory, so that subscribing cannot fail for lack of
 * memory. */
typedef struct haul__subscriber haul__subscriber;
struct haul__subscriber {
    haul_subscription of;      /* kinds are not 0 */
    int64_t           id;      /* the id of a user's subscription, which is freed when it is detached; else 0 */
    bool              program; /* it calls a function of the program */
    bool              linked, gone;
    int               running; /* of process-wide ones: how many threads are in the function of the program */
    bool              awaited; /* who detached it waits until it runs on no other thread */
    haul__subscriber *next;
};

/* Attaches it for all threads, or for the calling one, as `of.everywhere` says. Returns false if the thread or the list
 * cannot be set up. Detaching one that is not attached does nothing. */
bool haul__attach(haul__subscriber *subscriber);
void haul__detach(haul__subscriber *subscriber);

/* Between the two calls no process-wide subscriber runs, so what they wrote can be read. A subscriber may call them. */
void haul__subscribers_lock(void);
void haul__subscribers_unlock(void);

#endif
