/* The caching allocator: one for each device, and one for host memory pinned for it, with the same code. */
#ifndef HAUL_MEMORY_ALLOCATOR_H
#define HAUL_MEMORY_ALLOCATOR_H

#include "device/device.h"

/* The address of a block in its buffer, on a device whose sub-buffers need handles, and the handle that was made last
 * for that place. Not used for blocks that were never a part, and on other devices. */
typedef struct haul__sub_buffer {
    haul__buffer_address address;
    void                *handle; /* NULL: none was made */
    size_t               bytes;  /* of the handle; other than those of the block: it is out of date */
} haul__sub_buffer;

/* A block of device memory, in use or cached. A cached block remembers the uses by its last owner, so that its next
 * owner waits for them. */
struct haul__block {
    struct haul__allocator   *owner;
    haul__buffer              buffer;
    void                     *pin; /* the backend's handle for pinned memory */
    bool                      pinned;
    size_t                    bytes; /* the size of its class */
    int                       bin;
    const char               *origin;      /* the operation that allocated it; a string that is never freed */
    uint64_t                  id;          /* number of the block, for events; 0: not assigned yet */
    atomic_ullong             storage;     /* number of its present or last storage, likewise; snapshots read it, too */
    bool                      quiet;       /* a subscriber to events allocated it: freeing it emits no event */
    struct haul__scope_limit *scope_limit; /* the innermost scope limit that counts it, with a reference; NULL: none */
    int64_t                   born;        /* the allocator's count of allocations when its storage got it */
    struct haul__spill_copy  *copy; /* its elements outside of the device: the only ones if uses.away, else valid if
                                     * uses.copied; NULL: none */
    bool     moving;                /* they are being copied there; both are guarded by the allocator's lock */
    uint64_t next_use;              /* its position (memory/spill/next_use.h); likewise guarded */
    int      pins;                  /* > 0: haul_memory_pin keeps the elements on the device; likewise guarded */
    struct haul__block_origin
                 *recorded; /* where its storage was allocated (memory/report/block_origin.h); NULL: never recorded */
    haul__uses    uses;
    haul__storage own;            /* the storage that uses it, while it is in use */
    haul__block  *next, *prev;    /* in a list of free blocks, where `prev` is NULL, or of live ones */
    haul__block  *before, *after; /* its neighbours in the same buffer of the device; NULL: none */
    haul__sub_buffer sub_buffer;
};

/* The address of a whole block or a piece in the buffer of the device. */
static inline haul__buffer_address haul__block_address(const haul__block *block)
{
    const haul__buffer_address known = block->sub_buffer.address;
    return known.handle ? known : (haul__buffer_address){block->buffer.handle, 0};
}

/* True if the block's elements are only outside of the device, and it has no device memory. */
static inline bool haul__block_is_away(const haul__block *block)
{
    return block->copy && atomic_load(&block->uses.away);
}

/* A storage of `bytes` on `device` with refs 1; for bytes == 0 and on meta it has no block. Returns NULL with
 * HAUL_OUT_OF_MEMORY and a message that gives the size, the live memory by origin, and the limit. */
haul__storage *haul__storage_alloc(haul_device *device, size_t bytes, const char *origin);

/* The same, but no scope's limit counts it: for memory that belongs to objects which other scopes and threads use,
 * too. */
haul__storage *haul__storage_alloc_apart(haul_device *device, size_t bytes, const char *origin);

/* The same for memory that the caller can do without: if there is none, NULL without an error. Nothing is spilled for
 * it. */
haul__storage *haul__storage_alloc_spare(haul_device *device, size_t bytes, const char *origin);

/* Memory for one library call. Release it with haul__object_release once the call is submitted: the block remembers its
 * use. On a device that spills, tensors make room for it, but not the `used` ones, which the call uses. Returns NULL,
 * without recording an error, for 0 bytes, on meta, and if there is no memory even without the cache: the call must
 * then work without it. */
haul__storage *haul__scratch_alloc(haul_device *device, size_t bytes, haul_tensor *const *used, int count);

/* Call this after a function that allocates outside the allocator (a library, or the driver for a kernel) returned
 * `status`. If it ran out of memory, empties the cache, restores the error `before`, and returns true: try again. Else,
 * and in a dry run, returns false. */
bool haul__retry_without_cache(haul_device *device, haul_status status, const haul__error_record *before);

/* A CPU storage in pinned host memory, cached like device memory, which `device` copies from and to at the speed of the
 * link. Returns NULL, without recording an error, if the device does not benefit (it works in host memory, or its
 * backend has no pinned memory), for 0 bytes, and if none is left: use pageable memory then. */
haul__storage *haul__pinned_alloc(haul_device *device, size_t bytes, const char *origin);
/* Pinned memory if available, else pageable CPU memory. */
haul__storage *haul__host_alloc_for(haul_device *device, size_t bytes, const char *origin);
bool           haul__storage_pinned(const haul__storage *storage);

/* Bytes in blocks that are in use now. */
int64_t      haul__device_allocated(haul_device *device, bool pinned);
haul_device *haul__block_device(const haul__block *block); /* of a pinned block: the device that it is pinned for */

#endif
