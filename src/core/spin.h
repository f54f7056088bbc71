/* A lock for a few instructions: no call when it is free, no atomic exchange in a process of one thread, and a thread
 * that finds it taken gives up its turn. */
#ifndef HAUL_CORE_SPIN_H
#define HAUL_CORE_SPIN_H

#include <sched.h>
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

static inline void haul__spin_lock(atomic_bool *lock)
{
    if (HAUL__SINGLE_THREADED) {
        atomic_store_explicit(lock, true, memory_order_relaxed);
        return;
    }
    for (int tries = 0; atomic_exchange_explicit(lock, true, memory_order_acquire); tries++)
        if (tries > 100)
            sched_yield();
}

static inline void haul__spin_unlock(atomic_bool *lock)
{
    atomic_store_explicit(lock, false, memory_order_release);
}

#endif
