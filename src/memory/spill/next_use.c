/* The order in which memory is spilled. */
#include "memory/spill/next_use.h"

#include "base/assert.h"
#include "memory/allocator_state.h"
#include "memory/dry_run/dry_run.h"

uint64_t haul__next_use_begin(size_t calls)
{
    static atomic_ullong last = 1;
    return atomic_fetch_add_explicit(&last, calls, memory_order_relaxed);
}

void haul__next_use_reach(haul_device *device, uint64_t now, uint64_t end)
{
    struct haul__allocator *a = atomic_load_explicit(&device->allocator, memory_order_acquire);
    if (!a || haul__device_is_host(device))
        return;
    if (haul__is_dry()) {
        haul__dry_run_foresee(device, NULL,
                              &(haul__program_foresight){.kind = HAUL__FORESEES_CALL, .position = now, .end = end});
        return;
    }
    HAUL__ASSERT(now <= end);
    haul__spin_lock(&a->lock);
    a->now = now;
    a->end = end;
    haul__spin_unlock(&a->lock);
}

void haul__next_use_set(haul__storage *storage, uint64_t position)
{
    haul__block *block = storage ? storage->block : NULL;
    if (storage && haul__is_dry())
        haul__dry_run_foresee(storage->device, storage,
                              &(haul__program_foresight){.kind = HAUL__FORESEES_USE, .position = position});
    if (haul__is_dry())
        return;
    if (!block || block->pinned || haul__device_is_host(storage->device))
        return;
    haul__spin_lock(&block->owner->lock);
    block->next_use = position;
    haul__spin_unlock(&block->owner->lock);
}

/* Memory that no later call of the step uses counts as used at its end. */
static uint64_t next_use(const haul__block *b)
{
    return b->next_use >= b->owner->now ? b->next_use : b->owner->end;
}

bool haul__goes_before(const haul__block *a, const haul__block *b)
{
    HAUL__ASSERT(a->owner == b->owner && a != b);
    if (a->owner->now && next_use(a) != next_use(b))
        return next_use(a) > next_use(b);
    return a->uses.last < b->uses.last;
}
