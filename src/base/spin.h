/* A lock for a few instructions. Taking a free lock costs no call, and no atomic exchange in a process of one thread. A
 * thread that finds the lock taken yields. */
#ifndef HAUL_BASE_SPIN_H
#define HAUL_BASE_SPIN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/counter.h"

/* Takes a lock that was just found taken. */
void haul__spin_wait(atomic_bool *lock);

/* Takes the lock if it is free. */
static inline bool haul__spin_try(atomic_bool *lock)
{
    if (!HAUL__SINGLE_THREADED)
        return !atomic_exchange_explicit(lock, true, memory_order_acquire);
    atomic_store_explicit(lock, true, memory_order_relaxed);
    return true;
}

static inline void haul__spin_lock(atomic_bool *lock)
{
    if (!haul__spin_try(lock))
        haul__spin_wait(lock);
}

static inline void haul__spin_unlock(atomic_bool *lock)
{
    atomic_store_explicit(lock, false, memory_order_release);
}

#endif
