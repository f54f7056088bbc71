/* When memory is used next, in a step whose calls are known. Positions count the calls of one step after the other.
 * While a step runs, the memory whose next use is the latest is spilled first. */
#ifndef HAUL_MEMORY_SPILL_NEXT_USE_H
#define HAUL_MEMORY_SPILL_NEXT_USE_H

#include "memory/allocator.h"

/* Returns the position of the first of `calls` calls, which come next. */
uint64_t haul__next_use_begin(size_t calls);

/* Sets the position of the device's next call, and that of the end of its step; 0: the step has ended. */
void haul__next_use_reach(haul_device *device, uint64_t now, uint64_t end);

/* Sets the position of the next use of the storage's memory. */
void haul__next_use_set(haul__storage *storage, uint64_t position);

/* True if `a` is spilled before `b`. Both are blocks of one allocator, whose lock the caller holds. */
bool haul__goes_before(const haul__block *a, const haul__block *b);

#endif
