/* A lock for a few instructions: no call when it is free, and a thread that finds it taken gives up its turn. */
#ifndef HAUL_CORE_SPIN_H
#define HAUL_CORE_SPIN_H

#include <sched.h>
#include <stdatomic.h>

static inline void haul__spin_lock(atomic_flag *lock)
{
    for (int tries = 0; atomic_flag_test_and_set_explicit(lock, memory_order_acquire); tries++)
        if (tries > 100)
            sched_yield();
}

static inline void haul__spin_unlock(atomic_flag *lock)
{
    atomic_flag_clear_explicit(lock, memory_order_release);
}

#endif
