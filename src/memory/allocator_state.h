/* What the caching allocator keeps for a device, for the files that read or change it. */
#ifndef HAUL_MEMORY_ALLOCATOR_STATE_H
#define HAUL_MEMORY_ALLOCATOR_STATE_H

#include <haul/memory.h>

#include "base/spin.h"
#include "memory/allocator.h"
#include "memory/size_class.h"

/* Where spilled elements go (memory/spill/copy.h). */
typedef struct haul__tiers {
    bool                     host_is_limited;
    int64_t                  host_limit;   /* bytes */
    struct haul__spill_file *file;         /* NULL: none; guarded by the lock of device/residency.h */
    char                     refused[300]; /* why the last one could not go; "": it could, or a message said so */
} haul__tiers;

struct haul__allocator {
    atomic_bool             lock;
    struct haul__allocator *next; /* in the list of all */
    haul_device            *device;
    bool                    pinned;           /* for host memory pinned for the device */
    haul__block            *bins[HAUL__BINS]; /* free blocks, by `next` */
    haul__block            *rests;            /* free pieces whose size is not that of a class, or without a handle */
    int64_t                 pieces;           /* how many blocks there are more than were obtained */
    haul__block             live;             /* head of the ring */
    haul_memory_stats       stats;
    int64_t                 begun, ended; /* how often memory began and ended being under way (under_way.h) */
    bool                    has_lost;     /* in the child of a fork: blocks that other threads had are in no list */
    atomic_bool             spills;
    haul__tiers             tiers;
    uint64_t                now, end; /* positions in a step whose calls are known (memory/spill/next_use.h); 0: none */
    bool                    only_tensors; /* the limit does not count the device's overhead */
};

/* The bytes that the limit counts in addition to reserved ones. */
static inline int64_t haul__limited_overhead(const struct haul__allocator *a)
{
    return a->pinned || a->only_tensors ? 0 : (int64_t)atomic_load_explicit(&a->device->overhead, memory_order_relaxed);
}

/* Takes a block out of the ring of live blocks. The caller holds the lock. */
static inline void haul__ring_remove(haul__block *block)
{
    block->prev->next = block->next;
    block->next->prev = block->prev;
}

/* Prepares the storage of a new block, on `device`. */
void haul__block_begin(haul__block *block, haul_device *device);

/* A block of at least `bytes`, in the ring of live blocks. Returns NULL, with the error recorded, if there is no
 * memory. */
haul__block *haul__block_get(struct haul__allocator *a, size_t bytes, const char *origin);

/* A storage in a block of the allocator. Returns NULL if `a` is NULL, and, with an error recorded, if there is no
 * memory. If the allocation is not `needed`, it does not spill other tensors or free derived copies, and a failure is
 * not reported. */
haul__storage *haul__storage_in(struct haul__allocator *a, size_t bytes, bool needed, const char *origin);

/* The allocator of a device, made on first use. Returns NULL, with the error recorded, if host memory is exhausted. */
struct haul__allocator *haul__allocator_of(haul_device *device, bool pinned);

/* The same for a function that was given a device: checks it first. */
struct haul__allocator *haul__allocator_checked(const haul_device *device, const char *operation);

/* The same, but only from memory that is free or available without waiting. Nothing is moved away, and only blocks
 * whose uses are known to be over go back to the device. Returns NULL, without recording an error, if that does not
 * suffice.
 */
haul__block *haul__block_get_ready(struct haul__allocator *a, size_t bytes, const char *origin);

#endif
