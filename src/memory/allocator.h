/* The caching allocator, one a device, the same code for all; one more for host memory pinned for it. */
#ifndef HAUL_MEMORY_ALLOCATOR_H
#define HAUL_MEMORY_ALLOCATOR_H

#include "device/device.h"

/* A block of device memory, in use or cached. A cached block remembers the uses of its last owner, so that whoever gets
 * it next waits for them. */
struct haul__block {
    struct haul__allocator *owner;
    haul__buffer            buffer;
    void                   *pin; /* the backend's handle of pinned memory */
    bool                    pinned;
    size_t                  bytes; /* of the size class */
    int                     bin;
    const char             *origin; /* the operation that asked; a string that lives for ever */
    uint64_t                id;     /* of the block, and of the storage that has it, for events; 0: not needed yet */
    uint64_t                storage;
    bool                    quiet;  /* a subscriber to events has it */
    struct haul__budget    *budget; /* kept; the innermost that counts it; NULL: none */
    haul__uses              uses;
    haul__storage           own;         /* the storage that has it, while it is in use */
    haul__block            *next, *prev; /* in the bin's free list, or in the list of live blocks */
};

/* A storage of `bytes` on `device` with refs 1; bytes == 0 and meta devices get no block. NULL with
 * HAUL_OUT_OF_MEMORY and a message that says what was asked, what is live by origin, and what the limit is. */
haul__storage *haul__storage_alloc(haul_device *device, size_t bytes, const char *origin);

/* The same, but no limit of a scope counts it: for what is kept with objects that other scopes and threads use, too. */
haul__storage *haul__storage_alloc_apart(haul_device *device, size_t bytes, const char *origin);

/* Memory for the length of one library call, released with haul__object_release when the call was submitted: the block
 * remembers its use. NULL, with nothing recorded, for 0 bytes and where there is no memory beside what is cached: the
 * call must do without. */
haul__storage *haul__scratch_alloc(haul_device *device, size_t bytes);

/* After a call that takes memory beside the allocator (a library's, the driver's own for a kernel) answered `status`:
 * where it ran out of memory, give the cache back, put the error before it in its place, and say that it is worth
 * another try. */
bool haul__room_made(haul_device *device, haul_status status, const haul__error_record *before);

/* A CPU storage in pinned host memory, which `device` copies from and to at the speed of the link, from a cache like
 * that of device memory. NULL, with nothing recorded, where the device gains nothing by it (it works in the host's
 * memory, or its backend has no such memory), for 0 bytes, and where there is none left: ordinary memory must do. */
haul__storage *haul__pinned_alloc(haul_device *device, size_t bytes, const char *origin);
/* Pinned if that can be had, else ordinary memory of the CPU. */
haul__storage *haul__host_alloc_for(haul_device *device, size_t bytes, const char *origin);
bool           haul__storage_pinned(const haul__storage *storage);

/* Bytes in blocks that are in use now. */
int64_t      haul__device_allocated(haul_device *device, bool pinned);
haul_device *haul__block_device(const haul__block *block); /* for a pinned one that which it is pinned for */

#endif
