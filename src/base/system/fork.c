#include "base/system/fork.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/assert.h"

static const haul__fork_handler *handlers[HAUL__FORK_HANDLERS];
static atomic_int                forks;
static bool                      watched;

void haul__fork_register(haul__fork_order order, const haul__fork_handler *handler)
{
    HAUL__ASSERT(order < HAUL__FORK_HANDLERS && !handlers[order]);
    handlers[order] = handler;
}

int haul__fork_count(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

static void before(void)
{
    for (int i = 0; i < HAUL__FORK_HANDLERS; i++)
        if (handlers[i] && handlers[i]->take)
            handlers[i]->take();
}

static void after(void)
{
    for (int i = HAUL__FORK_HANDLERS; i-- > 0;)
        if (handlers[i] && handlers[i]->give)
            handlers[i]->give();
}

static void after_in_child(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
    after();
    for (int i = HAUL__FORK_HANDLERS; i-- > 0;)
        if (handlers[i] && handlers[i]->in_child)
            handlers[i]->in_child();
}

static void watch(void)
{
    watched = pthread_atfork(before, after, after_in_child) == 0;
}

bool haul__fork_watch(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
    return watched;
}
