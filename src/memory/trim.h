/* Returning cached blocks to the device. */
#ifndef HAUL_MEMORY_TRIM_H
#define HAUL_MEMORY_TRIM_H

#include "memory/allocator_state.h"

/* Takes free blocks, largest first, until their sum is `wanted` bytes; they are chained by `next`, behind structures
 * that joining left over. The caller holds the lock. */
haul__block *haul__allocator_take(struct haul__allocator *a, int64_t wanted);

/* Takes all free blocks of a class but the newest one. The caller holds the lock. */
haul__block *haul__trim_class(struct haul__allocator *a, int bin);

/* Returns a chain of blocks to the device, without the lock. Waits for their uses. Structures of 0 bytes are only
 * freed. */
void haul__blocks_free(haul__block *blocks, const char *origin);

/* Makes room for `bytes` below the device's limit without waiting: returns only blocks whose uses are over, as far as
 * the device knows. Returns false, and changes nothing, if they do not suffice, or if there is no limit: only the
 * driver knows the room on a device. */
bool haul__trim_ready(struct haul__allocator *a, int64_t bytes, const char *origin);

#endif
