/* Records of allocations. The event names a storage by its number, because the storage may have ended since; usually it
 * is the newest block of the ring. */
#include "memory/report/block_origin.h"

#include "base/alloc.h"
#include "base/text/utf8.h"
#include "memory/allocator_state.h"

/* The caller holds the lock. */
static haul__block *find(struct haul__allocator *a, uint64_t storage)
{
    for (haul__block *block = a->live.prev; block != &a->live; block = block->prev)
        if (atomic_load_explicit(&block->storage, memory_order_relaxed) == storage)
            return block;
    return NULL;
}

/* False if the block needs a record first. The record is taken if it has none. */
static bool fill(struct haul__allocator *a, const haul_event *event, haul__record **fresh)
{
    haul__spin_lock(&a->lock);
    haul__block *block = find(a, event->storage);
    if (block && !block->record) {
        block->record = *fresh;
        *fresh = NULL;
    }
    haul__record *record = block ? block->record : NULL;
    if (record) {
        record->storage = event->storage;
        record->time = event->time;
        haul__utf8_copy(record->module, sizeof record->module, event->origin);
        haul__utf8_copy(record->label, sizeof record->label, event->label);
    }
    haul__spin_unlock(&a->lock);
    return !block || record;
}

void haul__record_allocation(const haul_event *event)
{
    /* The allocator is part of the device's state, which `const` does not protect. */
    struct haul__allocator *a = haul__allocator_of((haul_device *)event->device, *event->text != 0);
    haul__record           *fresh = NULL;
    if (!a || fill(a, event, &fresh))
        return;
    fresh = haul__malloc(sizeof *fresh);
    if (fresh)
        fill(a, event, &fresh);
    haul__free(fresh);
}
