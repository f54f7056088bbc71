#include "memory/under_way.h"

#include <sched.h>

#include "base/assert.h"
#include "events/events.h"

static _Thread_local haul__under_way_watching *innermost;

void haul__under_way_begin(struct haul__allocator *a)
{
    HAUL__ASSERT(a->begun >= a->ended);
    haul__events_hold();
    a->begun++;
}

void haul__under_way_end(struct haul__allocator *a)
{
    haul__spin_lock(&a->lock);
    a->ended++;
    HAUL__ASSERT(a->ended <= a->begun);
    haul__spin_unlock(&a->lock);
    for (haul__under_way_watching *w = innermost; w; w = w->outer)
        w->own += w->of == a;
    haul__events_release();
}

static void look(haul__under_way_watching *w)
{
    haul__spin_lock(&w->of->lock);
    w->at_first = w->of->ended;
    haul__spin_unlock(&w->of->lock);
    w->own = 0;
}

void haul__under_way_watch(haul__under_way_watching *w, struct haul__allocator *a)
{
    *w = (haul__under_way_watching){.of = a, .outer = innermost};
    innermost = w;
    look(w);
}

void haul__under_way_watch_again(haul__under_way_watching *w)
{
    HAUL__ASSERT(innermost == w); /* those that began within it have ended */
    look(w);
}

void haul__under_way_unwatch(haul__under_way_watching *w)
{
    HAUL__ASSERT(innermost == w);
    innermost = w->outer;
}

bool haul__under_way_wait(const haul__under_way_watching *w)
{
    struct haul__allocator *a = w->of;
    haul__spin_lock(&a->lock);
    const int64_t begun = a->begun;
    while (a->ended < begun) {
        haul__spin_unlock(&a->lock);
        sched_yield();
        haul__spin_lock(&a->lock);
    }
    HAUL__ASSERT(innermost == w && w->own <= a->ended - w->at_first);
    const bool any = a->ended - w->at_first > w->own;
    haul__spin_unlock(&a->lock);
    return any;
}
