/* What the allocator tells of its blocks. */
#ifndef HAUL_MEMORY_BLOCK_EVENTS_H
#define HAUL_MEMORY_BLOCK_EVENTS_H

#include <haul/events.h>

#include "memory/allocator.h"

/* The block was obtained from the device or returned to it, in a call that began at `start` (0: not known). */
void haul__emit_block(haul_event_kind kind, haul__block *block, const haul_device *device, const char *operation,
                      int64_t start);

/* The storage was given its block, or gives it back. */
void haul__emit_storage(haul_event_kind kind, const haul__storage *storage, const haul_device *device);

#endif
