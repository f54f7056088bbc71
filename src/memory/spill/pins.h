/* Memory that is pinned on its device against spilling (haul_memory_pin). The block counts its pins. */
#ifndef HAUL_MEMORY_SPILL_PINS_H
#define HAUL_MEMORY_SPILL_PINS_H

#include "memory/allocator.h"

/* Ends the pins of a block when its memory is freed. The caller holds the allocator's lock; the block has pins. */
void haul__pins_end(haul__block *block);

#endif
