/* The events that the allocator emits for its blocks. */
#ifndef HAUL_MEMORY_BLOCK_EVENTS_H
#define HAUL_MEMORY_BLOCK_EVENTS_H

#include <haul/events.h>

#include "memory/allocator.h"

/* The block was allocated from the device or returned to it, by a call that began at `start` (0: unknown). */
void haul__emit_block(haul_event_kind kind, haul__block *block, const haul_device *device, const char *operation,
                      int64_t start);

/* The number of a storage in events; 0 if it has no block. */
uint64_t haul__storage_number(const haul__storage *storage);

/* The storage received its block, or returns it. */
void haul__emit_storage(haul_event_kind kind, const haul__storage *storage, const haul_device *device);

#endif
