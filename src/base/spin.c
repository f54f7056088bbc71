/* Waiting for a lock of a few instructions. */
#include "base/spin.h"

#include <sched.h>

void haul__spin_wait(atomic_bool *lock)
{
    for (int tries = 1; atomic_exchange_explicit(lock, true, memory_order_acquire); tries++)
        if (tries > 100)
            sched_yield();
}
