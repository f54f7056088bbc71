/* All allocators: one for each device and one for host memory pinned for it, each made on first use. A fork takes their
 * locks. */
#include <unistd.h>

#include "base/alloc.h"
#include "base/hostile.h"
#include "base/system/fork.h"
#include "memory/allocator_state.h"
#include "memory/spill/spill.h"

/* All allocators, which stay to the end of the process, and those whose locks a fork has taken: the list grows at its
 * beginning. */
static _Atomic(struct haul__allocator *) all;
static struct haul__allocator           *at_fork;

static void take_locks(void)
{
    struct haul__allocator *first = atomic_load(&all);
    for (struct haul__allocator *a = first; a; a = a->next)
        haul__spin_lock(&a->lock);
    at_fork = first;
}

static void give_locks(void)
{
    for (struct haul__allocator *a = at_fork; a; a = a->next)
        haul__spin_unlock(&a->lock);
}

/* The threads whose memory was under way are not in the child. */
static void end_all(void)
{
    for (struct haul__allocator *a = atomic_load(&all); a; a = a->next) {
        a->has_lost = a->has_lost || a->ended < a->begun;
        a->ended = a->begun;
    }
}

HAUL__AT_FORK(HAUL__FORK_ALLOCATORS, .take = take_locks, .give = give_locks, .in_child = end_all);

/* Pinned memory is taken from the whole machine, so by default it is limited to a quarter of it. */
static int64_t pinned_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (int64_t)pages / 4 * size : 0;
}

static struct haul__allocator *allocator_new(haul_device *device, bool pinned)
{
    _Atomic(struct haul__allocator *) *link = pinned ? &device->pinned : &device->allocator;
    struct haul__allocator            *a = haul__calloc(1, sizeof *a), *other = NULL;
    if (!a) {
        haul__fail_memory("haul_memory", sizeof *a);
        return NULL;
    }
    atomic_init(&a->lock, false);
    a->device = device;
    a->pinned = pinned;
    a->stats.limit = pinned && haul__device_pins(device) ? pinned_limit() : 0;
    a->live.next = a->live.prev = &a->live;
    if (haul__is_hostile(HAUL__HOSTILE_SPILLS) && !pinned && haul__device_is_apart(device))
        haul__spill_begin(a);
    if (!atomic_compare_exchange_strong(link, &other, a)) {
        haul__free(a);
        return other;
    }
    a->next = atomic_load(&all);
    while (!atomic_compare_exchange_weak(&all, &a->next, a))
        ;
    return a;
}

struct haul__allocator *haul__allocator_of(haul_device *device, bool pinned)
{
    struct haul__allocator *a =
        atomic_load_explicit(pinned ? &device->pinned : &device->allocator, memory_order_acquire);
    return a ? a : allocator_new(device, pinned);
}
