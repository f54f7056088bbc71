#include "device/residency.h"

#include <sched.h>

#include "base/system/fork.h"
#include "device/device.h"
#include "events/events.h"

static pthread_mutex_t             lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int                  inside; /* threads that submit a command */
static atomic_bool                 stopped;
static _Atomic(haul__bring_back *) bring;
static _Atomic(haul__bring_back *) planner;
static _Thread_local bool          has_lock;

atomic_ullong haul__residency_clock;

HAUL__MUTEX_AT_FORK(HAUL__FORK_RESIDENCY, lock);

bool haul__residency_take(void)
{
    if (has_lock)
        return false;
    haul__events_hold(); /* their subscribers may need the lock */
    pthread_mutex_lock(&lock);
    has_lock = true;
    return true;
}

void haul__residency_give(void)
{
    atomic_store(&stopped, false);
    has_lock = false;
    pthread_mutex_unlock(&lock);
    haul__events_release();
}

void haul__residency_stop(void)
{
    atomic_store(&stopped, true);
    while (atomic_load(&inside) > 0)
        sched_yield();
}

void haul__residency_use(haul__bring_back *bring_back)
{
    atomic_store(&bring, bring_back);
}

void haul__residency_plan_with(haul__bring_back *plan)
{
    atomic_store(&planner, plan);
}

haul_status haul__residency_plan(const haul__command *c)
{
    haul__bring_back *plan = atomic_load_explicit(&planner, memory_order_acquire);
    return plan ? plan(c) : HAUL_OK;
}

static bool all_present(const haul__command *c)
{
    for (int i = 0; i < c->buffer_count; i++) {
        const haul__uses *uses = c->buffers[i].storage->uses;
        if (uses && atomic_load_explicit(&uses->away, memory_order_acquire))
            return false;
    }
    return true;
}

/* Under the lock nothing is moved away between the return of `bring` and the entry. */
static haul_status enter_slowly(const haul__command *c)
{
    haul_status status = HAUL_OK;
    haul__residency_take();
    haul__bring_back *bring_back = atomic_load(&bring);
    if (!all_present(c))
        status = bring_back(c);
    if (!status) {
        haul__events_hold();
        atomic_fetch_add(&inside, 1);
    }
    haul__residency_give();
    return status;
}

haul_status haul__residency_enter(const haul__command *c)
{
    if (has_lock) /* the commands that move memory */
        return HAUL_OK;
    haul__events_hold();
    atomic_fetch_add(&inside, 1);
    if (__builtin_expect(!atomic_load(&stopped) && all_present(c), 1))
        return HAUL_OK;
    atomic_fetch_sub(&inside, 1);
    haul__events_release();
    return enter_slowly(c);
}

void haul__residency_leave(void)
{
    if (has_lock)
        return;
    atomic_fetch_sub(&inside, 1);
    haul__events_release();
}
