#include "base/system/fork.h"

#include <stdatomic.h>
#include <stddef.h>

static const haul__fork_part *parts[HAUL__FORK_PARTS];
static atomic_int             forks;
static bool                   watched;

void haul__fork_register(haul__fork_order order, const haul__fork_part *part)
{
    parts[order] = part;
}

int haul__fork_count(void)
{
    return atomic_load_explicit(&forks, memory_order_relaxed);
}

static void before(void)
{
    for (int i = 0; i < HAUL__FORK_PARTS; i++)
        if (parts[i] && parts[i]->take)
            parts[i]->take();
}

static void after(void)
{
    for (int i = HAUL__FORK_PARTS; i-- > 0;)
        if (parts[i] && parts[i]->give)
            parts[i]->give();
}

static void after_in_child(void)
{
    atomic_fetch_add_explicit(&forks, 1, memory_order_relaxed);
    after();
    for (int i = HAUL__FORK_PARTS; i-- > 0;)
        if (parts[i] && parts[i]->in_child)
            parts[i]->in_child();
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
