/* Events of memory. Blocks and storages get their numbers from the first event that names them, so nothing is counted
 * without a subscriber. */
#include "memory/block_events.h"

#include "base/assert.h"
#include "events/events.h"
#include "program/role.h"

static uint64_t next_number(void)
{
    static atomic_ullong last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static uint64_t block_number(haul__block *block)
{
    if (block->id == 0)
        block->id = next_number();
    return block->id;
}

uint64_t haul__storage_number(const haul__storage *storage)
{
    haul__block *block = storage->block;
    if (!block)
        return 0;
    uint64_t number = atomic_load_explicit(&block->storage, memory_order_relaxed);
    if (number == 0) {
        number = next_number();
        atomic_store_explicit(&block->storage, number, memory_order_relaxed);
    }
    return number;
}

void haul__emit_block(haul_event_kind kind, haul__block *block, const haul_device *device, const char *operation,
                      int64_t start)
{
    const int64_t now = haul__now_ns();
    haul__emit(&(haul_event){.kind = kind,
                             .operation = operation,
                             .text = block->pinned ? "pinned" : "",
                             .device = device,
                             .block = block_number(block),
                             .bytes = (int64_t)block->bytes,
                             .time = now,
                             .duration = start ? now - start : 0});
}

void haul__emit_storage(haul_event_kind kind, const haul__storage *storage, const haul_device *device)
{
    HAUL__ASSERT(storage->block && storage->bytes <= storage->block->bytes);
    haul__block *block = storage->block;
    haul__emit(
        &(haul_event){.kind = kind,
                      .operation = block->origin,
                      .text = block->pinned ? "pinned" : "",
                      .device = device,
                      .storage = haul__storage_number(storage),
                      .block = block_number(block),
                      .host = haul__device_is_host(device) || block->pinned ? block->buffer.host : NULL,
                      .bytes = (int64_t)block->bytes,
                      .requested = (int64_t)storage->bytes,
                      .role = kind == HAUL_EVENT_MEMORY_FREED ? haul__role_name(haul__storage_role(storage)) : NULL});
}
