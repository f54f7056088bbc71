/* Who moves memory, and who submits commands that use it.
 *
 *     open ---------take, stop--------> stopped ---------give--------> open
 *
 *     a thread:  outside --enter--> inside --leave--> outside
 *                   |                  ^
 *                   +--enter_slowly----+   waits for the lock, brings memory back
 *
 * Invariants:
 *
 *   1. A thread leaves as often as it entered, so `inside` is never negative.
 *   2. Only the thread with the lock stops the others and lets them go on. It is not inside: its commands move memory.
 *   3. The events of a thread that is inside, or has the lock, are held back.
 *   4. What brings memory back runs under the lock.
 *   5. All memory of a command is present when its thread is inside. */
#include "device/residency.h"

#include <sched.h>

#include "base/assert.h"
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

/* The threads that were inside do not exist in the child. */
static void leave_in_child(void)
{
    atomic_store(&inside, 0);
}

HAUL__MUTEX_AND_CHILD_AT_FORK(HAUL__FORK_RESIDENCY, lock, leave_in_child);

bool haul__residency_take(void)
{
    if (has_lock)
        return false;
    haul__events_hold(); /* their subscribers may need the lock */
    pthread_mutex_lock(&lock);
    HAUL__ASSERT(!atomic_load(&stopped)); /* 2 */
    has_lock = true;
    return true;
}

bool haul__residency_is_taken(void)
{
    return has_lock;
}

void haul__residency_give(void)
{
    HAUL__ASSERT(has_lock && haul__events_are_held()); /* 2, 3 */
    atomic_store(&stopped, false);
    has_lock = false;
    pthread_mutex_unlock(&lock);
    haul__events_release();
}

void haul__residency_stop(void)
{
    HAUL__ASSERT(has_lock); /* 2 */
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
    HAUL__ASSERT(has_lock && (bring_back || all_present(c))); /* 4 */
    if (!all_present(c))
        status = bring_back(c);
    HAUL__ASSERT(status || all_present(c)); /* 5 */
    if (!status) {
        haul__events_hold();
        atomic_fetch_add(&inside, 1);
    }
    haul__residency_give();
    return status;
}

haul_status haul__residency_bring(const haul__command *c)
{
    if (has_lock || all_present(c))
        return HAUL_OK;
    haul__residency_take();
    haul__bring_back *bring_back = atomic_load(&bring);
    HAUL__ASSERT(bring_back); /* 4 */
    const haul_status status = bring_back(c);
    HAUL__ASSERT(status || all_present(c)); /* 5 */
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
    const int before = atomic_fetch_sub(&inside, 1);
    HAUL__ASSERT(before > 0 && haul__events_are_held()); /* 1, 3 */
    (void)before;
    haul__events_release();
}
