/* Moving the elements of tensors to host memory or a file where the memory of their device does not suffice. */
#ifndef HAUL_MEMORY_SPILL_SPILL_H
#define HAUL_MEMORY_SPILL_SPILL_H

#include "memory/allocator.h"

/* Moves the storages that were used longest ago away, until `wanted` bytes are in free blocks, or nothing is
 * left to move. Returns the bytes that were moved. 0: nothing can be moved, but memory is free, which another thread
 * may have given back meanwhile, or which is a part of a block in use. -1: there is none, or the device does not spill.
 * If a block of `wanted` bytes exceeds the limit or the device's whole memory, nothing is moved. */
int64_t haul__spill(struct haul__allocator *a, int64_t wanted);

/* True if a tier refused elements since a message said so: haul__fail_full names the reason. */
bool haul__spill_was_refused(struct haul__allocator *a);

/* True if a device has ever spilled. Else all blocks are on their devices. */
bool haul__may_spill(void);

/* Brings back what a command will use soon, if there is memory for it without moving anything away and without waiting,
 * and the limit leaves `room` bytes then. Returns false if there is not, or if the device refused; no error is
 * recorded. A dry run notes it, and nothing happens where a step is followed. The caller holds a reference. */
bool haul__spill_return_ahead(haul__storage *storage, int64_t room);

/* Brings the elements back if they are away, and moves others away for them if it must. The caller has the
 * lock of device/residency.h. */
haul_status haul__spill_return(haul__block *block);

/* Bytes in blocks that could be moved. */
int64_t haul__spillable(struct haul__allocator *a);

/* From here on commands bring back what they use and is away. */
void haul__spill_watch(void);

/* What haul_memory_set_spill does to switch it on. */
void haul__spill_begin(struct haul__allocator *a);

/* True if haul_memory_set_spill is on for the device. */
bool haul__spills(const haul_device *device);

/* What the limit of a device that spills leaves for tensors; 0: it does not spill, or has no limit. */
int64_t haul__spill_limit(const haul_device *device);

/* The most bytes of spilled elements that may be in host memory, and in a file; -1: any number. */
void haul__spill_tiers_room(const haul_device *device, int64_t *host, int64_t *file);

/* Releases the copies of tensors that are on the device, which are kept in case these are spilled again. */
void haul__spill_drop_copies(struct haul__allocator *a);

/* The last reference to a block whose elements are away is gone: frees both. */
void haul__spill_drop(haul__block *block);

#endif
