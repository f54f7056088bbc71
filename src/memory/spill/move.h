/* Moving a block's elements away from its device, and back. The caller has the lock of device/residency.h. */
#ifndef HAUL_MEMORY_SPILL_MOVE_H
#define HAUL_MEMORY_SPILL_MOVE_H

#include "memory/allocator.h"

/* These two take a block that is marked as moving, and end that. On failure, with the error recorded, the elements are
 * where they were. */

/* The elements leave the device, and its memory becomes a free block. */
haul_status haul__move_away(haul__block *block);

/* The elements are also in host memory, if there is room. */
haul_status haul__copy_ahead(haul__block *block);

/* The elements of a block that are away return. `ahead`: only to memory that is free, or can be had without waiting;
 * then no error is recorded where there is none. */
haul_status haul__move_back(haul__block *block, bool ahead);

#endif
