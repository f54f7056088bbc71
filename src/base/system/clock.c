#include "base/system/clock.h"

#include <stdatomic.h>
#include <time.h>

/* `began` is on the system's clock; 0: the clock is the system's. */
static atomic_llong began, virtual_ps;

int64_t haul__system_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t haul__now_ns(void)
{
    const int64_t start = atomic_load_explicit(&began, memory_order_relaxed);
    return start ? start + haul__clock_ps() / 1000 : haul__system_ns();
}

void haul__clock_begin_virtual(void)
{
    long long none = 0;
    atomic_compare_exchange_strong(&began, &none, haul__system_ns());
}

bool haul__clock_is_virtual(void)
{
    return atomic_load_explicit(&began, memory_order_relaxed) != 0;
}

int64_t haul__clock_ps(void)
{
    return atomic_load_explicit(&virtual_ps, memory_order_relaxed);
}

void haul__clock_advance(int64_t ps)
{
    atomic_fetch_add_explicit(&virtual_ps, ps, memory_order_relaxed);
}

void haul__clock_reach(int64_t ps)
{
    long long now = atomic_load_explicit(&virtual_ps, memory_order_relaxed);
    while (now < ps &&
           !atomic_compare_exchange_weak_explicit(&virtual_ps, &now, ps, memory_order_relaxed, memory_order_relaxed))
        ;
}
