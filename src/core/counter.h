/* Counters that several threads may change: in a process of one thread without a locked instruction, which takes as
 * long as twenty others. */
#ifndef HAUL_CORE_COUNTER_H
#define HAUL_CORE_COUNTER_H

#include "core/spin.h"

/* Add, and return the value before; `order` is that of the addition where there are other threads. */
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
