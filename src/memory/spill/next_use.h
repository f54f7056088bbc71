/* When memory is used next, in a step whose calls are known. Positions count their calls, one step after the
 * other. While a step runs, the memory that is used latest is spilled first. */
#ifndef HAUL_MEMORY_SPILL_NEXT_USE_H
#define HAUL_MEMORY_SPILL_NEXT_USE_H

#include "memory/allocator.h"

/* The position of the first of so many calls, which are made next. */
uint64_t haul__next_use_begin(size_t calls);

/* The position of the device's next call, and of the end of its step; 0: the step has ended. */
void haul__next_use_reach(haul_device *device, uint64_t now, uint64_t end);

/* The position of the next use of the storage's memory. */
void haul__next_use_set(haul__storage *storage, uint64_t position);

/* True if `a` is to be spilled before `b`, which are blocks of one allocator. The caller holds its lock. */
bool haul__goes_before(const haul__block *a, const haul__block *b);

#endif
