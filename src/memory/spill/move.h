/* Moving a block's elements away from its device, and back. The caller has the lock of device/residency.h. */
#ifndef HAUL_MEMORY_SPILL_MOVE_H
#define HAUL_MEMORY_SPILL_MOVE_H

#include "memory/allocator.h"

/* These two functions take a block that is marked as moving, and remove the mark. On failure, with the error recorded,
 * the elements are where they were. */

/* Moves the elements away from the device, whose memory becomes a free block. */
haul_status haul__move_away(haul__block *block);

/* Copies the elements to host memory, if there is room, and leaves them in place. */
haul_status haul__copy_ahead(haul__block *block);

/* Brings back the elements of a block that are away. `ahead`: only to memory that is free or becomes free without
 * waiting; if there is none, no error is recorded. */
haul_status haul__move_back(haul__block *block, bool ahead);

#endif
