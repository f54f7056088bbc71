/* haul_watch_calls: a subscriber to the module calls of the thread. */
#include <haul/nn.h>

#include "events/call.h"
#include "events/events.h"

static _Thread_local haul_call_watcher *watching;
static _Thread_local void              *watching_context;
static _Thread_local haul__subscriber   subscriber = {.program = true};

static void take(const haul_event *e, void *context)
{
    (void)context;
    watching(&(haul_call_event){.module = e->module,
                                .path = e->origin,
                                .depth = haul__call_now()->depth,
                                .x = e->x,
                                .y = e->y,
                                .done = e->kind == HAUL_EVENT_CALL_END},
             watching_context);
}

void haul_watch_calls(haul_call_watcher *watcher, void *context)
{
    haul__detach(&subscriber);
    watching = watcher;
    watching_context = context;
    subscriber.of = (haul_subscription){.take = take, .kinds = HAUL_EVENT_CALL};
    if (watcher)
        haul__attach(&subscriber);
}
