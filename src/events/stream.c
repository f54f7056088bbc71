/* The stream of events: what an event contains, and when it reaches the subscribers (subscribers.c).
 *
 * Invariants:
 *
 *   1. Holds and releases, beginnings and ends are pairs.
 *   2. Events that are held back are a list in order, whose end is known. */
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"
#include "events/call.h"
#include "events/events.h"
#include "events/label.h"
#include "events/subscribers.h"

/* An event that is held back until a lock of the library is released. */
typedef struct held {
    haul_event   event;
    struct held *next;
    char         texts[]; /* those that may be gone when the event is emitted */
} held;

/* The calling thread's place in the stream. */
static _Thread_local struct {
    int     holds;
    held   *first, **last;
    int     depth, number;
    int64_t delivered;
} self;

static atomic_int thread_count;

const char *haul_event_kind_name(haul_event_kind kind)
{
    static const struct {
        haul_event_kind kind;
        const char     *name;
    } names[] = {
#define X(NAME, bit, text) {HAUL_EVENT_##NAME, text},
        HAUL_EVENT_LIST(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].kind == kind)
            return names[i].name;
    return "invalid";
}

int64_t haul__events_delivered(void)
{
    return self.delivered;
}

static int number(void)
{
    if (!self.number)
        self.number = atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed) + 1;
    return self.number;
}

int haul__event_thread(void)
{
    return number();
}

static void fill_texts(haul_event *event, char *path)
{
    const char **const texts[] = {&event->operation, &event->text,    &event->stream,  &event->tensor,
                                  &event->kernel,    &event->problem, &event->refused, &event->role};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!*texts[i])
            *texts[i] = "";
    if (!event->origin)
        event->origin = haul__call_path(path, HAUL__EVENT_PATH);
    if (!event->label)
        event->label = haul__label();
}

static void deliver(haul_event *event)
{
    char               path[HAUL__EVENT_PATH];
    haul__error_record before;
    HAUL__ASSERT(!self.holds); /* 1 */
    haul__error_save(&before);
    self.delivered++;
    if (!event->thread)
        event->thread = number();
    fill_texts(event, path);
    haul__subscribers_call(event);
    if (before.status || haul_error_status())
        haul__error_restore(&before);
}

/* Without memory for the entry the event is lost. A wait or a copy was counted before. */
static void hold_back(const haul_event *event)
{
    haul__error_record before;
    haul__error_save(&before);
    const char *const texts[] = {event->origin, event->label, event->tensor, event->problem};
    enum { TEXTS = sizeof texts / sizeof *texts };
    size_t sizes[TEXTS], size = 0;
    for (int i = 0; i < TEXTS; i++)
        size += sizes[i] = texts[i] ? strlen(texts[i]) + 1 : 0;
    held *h = haul__malloc(sizeof *h + size);
    if (!h) {
        haul__error_restore(&before);
        return;
    }
    h->event = *event;
    if (h->event.kind & HAUL_EVENT_COPY)
        h->event.settled = false; /* the caller may free the memory before the event is emitted */
    h->next = NULL;
    const char **const kept[] = {&h->event.origin, &h->event.label, &h->event.tensor, &h->event.problem};
    char              *end = h->texts;
    for (int i = 0; i < TEXTS; end += sizes[i++])
        if (texts[i])
            *kept[i] = memcpy(end, texts[i], sizes[i]);
    HAUL__ASSERT(self.holds > 0 && (!self.first || !*self.last)); /* 1, 2 */
    *(self.first ? self.last : &self.first) = h;
    self.last = &h->next;
}

static void emit(haul_event *event)
{
    if (!(atomic_load_explicit(&haul__tls.watch, memory_order_relaxed) & event->kind))
        return; /* subscribers want only the other event of a pair: its start or its end */
    if (!event->time)
        event->time = haul__now_ns();
    if (self.holds)
        hold_back(event);
    else
        deliver(event);
}

void haul__emit(haul_event *event)
{
    event->depth = self.depth;
    if (!haul__event_muted())
        emit(event);
}

void haul__event_context(haul_event *event, char path[HAUL__EVENT_PATH])
{
    event->thread = number();
    event->depth = self.depth;
    event->origin = haul__call_path(path, HAUL__EVENT_PATH);
    event->label = haul__label();
}

void haul__emit_late(haul_event *event)
{
    if (!haul__subscriber_runs())
        emit(event);
}

int64_t haul__emit_begin(haul_event *event)
{
    if (haul__subscriber_runs())
        return 0;
    event->depth = self.depth++;
    event->time = haul__now_ns();
    emit(event);
    return event->time;
}

void haul__emit_end(haul_event *event, int64_t began)
{
    if (!began)
        return;
    HAUL__ASSERT(self.depth > 0); /* 1 */
    event->depth = --self.depth;
    event->time = haul__now_ns();
    event->duration = event->time - began;
    emit(event);
}

int64_t haul__emit_operation_begin(const char *operation)
{
    return haul__emit_begin(&(haul_event){.kind = HAUL_EVENT_OPERATION_BEGIN, .operation = operation});
}

int64_t haul__emit_work_begin(const char *operation, const char *text, uint64_t node)
{
    return haul__emit_begin(
        &(haul_event){.kind = HAUL_EVENT_WORK_BEGIN, .operation = operation, .text = text, .node = node});
}

void haul__emit_work_end(const char *operation, const char *text, uint64_t node, int64_t began)
{
    haul__emit_end(&(haul_event){.kind = HAUL_EVENT_WORK_END, .operation = operation, .text = text, .node = node},
                   began);
}

void haul__events_hold(void)
{
    self.holds++;
}

bool haul__events_are_held(void)
{
    return self.holds > 0;
}

void haul__events_release(void)
{
    HAUL__ASSERT(self.holds > 0); /* 1 */
    if (--self.holds || haul__subscriber_runs())
        return;
    for (held *h; (h = self.first);) {
        self.first = h->next;
        deliver(&h->event);
        haul__free(h);
    }
}
