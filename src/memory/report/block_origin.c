/* The origins of blocks. An event names a storage by its number, because the storage may have ended since; usually it
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

/* Takes *fresh if the block has no origin yet. False if it has none and *fresh is NULL. */
static bool fill(struct haul__allocator *a, const haul_event *event, haul__block_origin **fresh)
{
    haul__spin_lock(&a->lock);
    haul__block *block = find(a, event->storage);
    if (block && !block->recorded) {
        block->recorded = *fresh;
        *fresh = NULL;
    }
    haul__block_origin *origin = block ? block->recorded : NULL;
    if (origin) {
        origin->storage = event->storage;
        origin->time = event->time;
        haul__utf8_copy(origin->module, sizeof origin->module, event->origin);
        haul__utf8_copy(origin->label, sizeof origin->label, event->label);
    }
    haul__spin_unlock(&a->lock);
    return !block || origin;
}

void haul__block_origin_record(const haul_event *event)
{
    /* The allocator is part of the device's state, which `const` does not protect. */
    struct haul__allocator *a = haul__allocator_of((haul_device *)event->device, *event->text != 0);
    haul__block_origin     *fresh = NULL;
    if (!a || fill(a, event, &fresh))
        return;
    fresh = haul__malloc(sizeof *fresh);
    if (fresh)
        fill(a, event, &fresh);
    haul__free(fresh);
}
