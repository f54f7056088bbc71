#include "memory/under_way.h"

#include <sched.h>

#include "events/events.h"

/* What the thread watches, how many had ended when it began, and how many of its own have since. */
static _Thread_local struct haul__allocator *watched;
static _Thread_local int64_t                 at_first, own;

void haul__under_way_begin(struct haul__allocator *a)
{
    haul__events_hold();
    a->begun++;
}

void haul__under_way_end(struct haul__allocator *a)
{
    haul__spin_lock(&a->lock);
    a->ended++;
    haul__spin_unlock(&a->lock);
    own += a == watched;
    haul__events_release();
}

void haul__under_way_watch(struct haul__allocator *a)
{
    haul__spin_lock(&a->lock);
    at_first = a->ended;
    haul__spin_unlock(&a->lock);
    watched = a;
    own = 0;
}

bool haul__under_way_wait(struct haul__allocator *a)
{
    haul__spin_lock(&a->lock);
    const int64_t begun = a->begun;
    while (a->ended < begun) {
        haul__spin_unlock(&a->lock);
        sched_yield();
        haul__spin_lock(&a->lock);
    }
    const bool any = a->ended - at_first > own;
    haul__spin_unlock(&a->lock);
    return any;
}
