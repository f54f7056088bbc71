/* Counters that several threads may change. While the process has one thread they use no locked instruction, which
 * would cost as much as twenty ordinary ones. */
#ifndef HAUL_BASE_COUNTER_H
#define HAUL_BASE_COUNTER_H

#include <stdatomic.h>
#include <stdbool.h>
#if defined(__has_include)
#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#define HAUL__SINGLE_THREADED __libc_single_threaded
#endif
#endif
#ifndef HAUL__SINGLE_THREADED
#define HAUL__SINGLE_THREADED false
#endif

/* Adds, and returns the value before. `order` is the memory order while there are other threads. */
static inline int haul__add_int(atomic_int *counter, int n, memory_order order)
{
    if (!HAUL__SINGLE_THREADED)
        return atomic_fetch_add_explicit(counter, n, order);
    int before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + n, memory_order_relaxed);
    return before;
}

static inline unsigned long long haul__add_long(atomic_ullong *counter, unsigned long long n)
{
    if (!HAUL__SINGLE_THREADED)
        return atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
    unsigned long long before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + n, memory_order_relaxed);
    return before;
}

#endif
