/* Where memory was allocated: what haul_memory_record adds to a block. */
#ifndef HAUL_MEMORY_REPORT_BLOCK_ORIGIN_H
#define HAUL_MEMORY_REPORT_BLOCK_ORIGIN_H

#include <haul/events.h>
#include <haul/memory.h>

#include "memory/allocator.h"

/* Made when an allocation of the block is recorded for the first time, and freed with the block. Guarded by the
 * allocator's lock. */
typedef struct haul__block_origin {
    uint64_t storage; /* the storage that it is about */
    int64_t  time;
    char     module[sizeof((haul_memory_block *)0)->module];
    char     label[sizeof((haul_memory_block *)0)->label];
} haul__block_origin;

/* The origin of the block's present or last storage; NULL if that was not recorded. */
static inline const haul__block_origin *haul__block_origin_of(const haul__block *block)
{
    const uint64_t storage = atomic_load_explicit(&block->storage, memory_order_relaxed);
    return block->recorded && storage && block->recorded->storage == storage ? block->recorded : NULL;
}

/* Records an allocation, as an event of HAUL_EVENT_MEMORY_ALLOCATED reports it. Does nothing if the storage has ended,
 * or if memory is exhausted. */
void haul__block_origin_record(const haul_event *event);

#endif
