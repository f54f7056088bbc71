/* Events of memory. Blocks and storages get their numbers from the first event that names them, so nothing is counted
 * without a subscriber. */
#include "memory/block_events.h"

#include "events/events.h"

static void number(uint64_t *id)
{
    static atomic_ullong last;
    if (*id == 0)
        *id = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

void haul__emit_block(haul_event_kind kind, haul__block *block, const haul_device *device, const char *operation,
                      int64_t start)
{
    const int64_t now = haul__now_ns();
    number(&block->id);
    haul__emit(&(haul_event){.kind = kind,
                             .operation = operation,
                             .text = block->pinned ? "pinned" : "",
                             .device = device,
                             .block = block->id,
                             .bytes = (int64_t)block->bytes,
                             .time = now,
                             .duration = start ? now - start : 0});
}

void haul__emit_storage(haul_event_kind kind, const haul__storage *storage, const haul_device *device)
{
    haul__block *block = storage->block;
    number(&block->id);
    number(&block->storage);
    haul__emit(&(haul_event){.kind = kind,
                             .operation = block->origin,
                             .text = block->pinned ? "pinned" : "",
                             .device = device,
                             .storage = block->storage,
                             .block = block->id,
                             .bytes = (int64_t)block->bytes,
                             .requested = (int64_t)storage->bytes});
}
