/* What the stream itself counts: waits of each thread, and copies of the process. Both can be queried at any time
 * (haul/sync.h, haul/transfer.h), including what happened before anybody subscribed. */
#include "events/events.h"

enum { FIRST_COPY = 5, FIRST_WAIT = 8, KINDS = 3 };
_Static_assert(HAUL_EVENT_COPY == 7 << FIRST_COPY && HAUL_EVENT_WAIT == 7 << FIRST_WAIT,
               "three kinds of each in a row");

/* The thread's waits are in its memory. */
_Static_assert(sizeof(haul__event_count[KINDS]) == sizeof((haul__thread_memory *)0)->counts, "they fill it");

static haul__event_count *waits_of(haul__thread_memory *memory)
{
    return (haul__event_count *)(void *)memory->counts;
}

static struct {
    atomic_llong events, bytes;
} copies[KINDS];

void haul__emit_counted(haul_event *event)
{
    if (event->kind & HAUL_EVENT_WAIT) {
        const haul__context *context = haul__context_get(); /* without memory for the thread, nothing is counted */
        if (context) {
            haul__event_count *count = &waits_of(context->memory)[__builtin_ctz(event->kind) - FIRST_WAIT];
            count->events++;
            count->bytes += event->bytes;
            count->duration += event->duration;
        }
    } else {
        int i = __builtin_ctz(event->kind) - FIRST_COPY;
        atomic_fetch_add_explicit(&copies[i].events, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&copies[i].bytes, event->bytes, memory_order_relaxed);
    }
    if (haul__watched(event->kind))
        haul__emit(event);
}

haul__event_count haul__event_count_of(haul_event_kind kind)
{
    if (kind & HAUL_EVENT_WAIT)
        return waits_of(haul__tls.memory)[__builtin_ctz(kind) - FIRST_WAIT];
    int i = __builtin_ctz(kind) - FIRST_COPY;
    return (haul__event_count){.events = atomic_load(&copies[i].events), .bytes = atomic_load(&copies[i].bytes)};
}

void haul__event_count_reset_copies(void)
{
    for (int i = 0; i < KINDS; i++) {
        atomic_store(&copies[i].events, 0);
        atomic_store(&copies[i].bytes, 0);
    }
}
