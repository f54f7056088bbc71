/* Memory of a device: what is used, by whom, and a limit.
 *
 * Every byte a tensor uses comes from one caching allocator per device. Freed blocks are kept for reuse ("reserved"
 * but not "allocated") until the limit is reached, an allocation fails, or haul_memory_release_cached is called. A
 * tensor on the CPU in pinned memory counts among that of the device it is pinned for (haul_pinned_stats_get), not
 * among the CPU's. */
#ifndef HAUL_MEMORY_H
#define HAUL_MEMORY_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/error.h>

HAUL_BEGIN

typedef struct haul_memory_stats {
    int64_t allocated;      /* bytes in blocks that tensors hold now */
    int64_t reserved;       /* bytes obtained from the device, in use or cached */
    int64_t peak_allocated; /* highest value of `allocated` since start or reset */
    int64_t peak_reserved;
    int64_t limit;              /* bytes `reserved` may not exceed; 0 for none */
    int64_t allocations;        /* blocks handed out */
    int64_t cache_hits;         /* of those, how many came from the cache */
    int64_t device_allocations; /* blocks obtained from the device itself */
    int64_t live_blocks;
    int64_t derived_bytes; /* of `allocated`: copies of parameters that are kept until these change, such as casts
                              within autocast and weights in another memory format */
} haul_memory_stats;

HAUL_API haul_status haul_memory_stats_get(const haul_device *device, haul_memory_stats *out);
HAUL_API haul_status haul_memory_reset_peak(haul_device *device); /* also of the memory pinned for it */

/* Absolute upper bound on `reserved`, in bytes; 0 removes it. A limit below what is in use is accepted and lets nothing
 * more be obtained. Reaching it gives the cache back first, then derived copies, then fails with HAUL_OUT_OF_MEMORY. */
HAUL_API haul_status haul_memory_set_limit(haul_device *device, int64_t bytes);

/* A limit for what a scope allocates: memory of the device that this thread obtains for tensors, temporaries and saved
 * tensors from now on, in this scope and in scopes inside it, in the sizes of blocks. It counts until it is freed, also
 * when haul_scope_return, haul_keep or another object has it by then. When the scope is popped, what is left of it
 * counts for the scopes outside alone, each of which has a limit of its own, if any. Not counted are derived copies,
 * memory pinned for a device, and what other threads allocate, the library's own (loaders' workers) among them.
 *
 * Exceeding the limit is HAUL_OUT_OF_MEMORY. The message names the scope and what the memory is used for. Other scopes
 * and threads are not affected. A scope can have a limit for each device. Set the first one before scopes inside it are
 * pushed; it can be changed at any time while the scope is open. With 0 bytes, memory is counted without a limit.
 * Limits that are set in a dry run (haul_estimate) hold for what the run would allocate; it is not counted by scopes
 * outside. */
HAUL_API haul_status haul_scope_set_memory_limit(haul_scope *scope, haul_device *device, int64_t bytes);

typedef struct haul_scope_memory_stats {
    int64_t allocated;      /* bytes in blocks that are in use now */
    int64_t peak_allocated; /* highest value of `allocated` */
    int64_t limit;          /* 0 for none */
} haul_scope_memory_stats;

/* What is counted for an open scope of this thread. HAUL_STATE if haul_scope_set_memory_limit was not called for it. */
HAUL_API haul_status haul_scope_memory_stats_get(const haul_scope *scope, const haul_device *device,
                                                 haul_scope_memory_stats *out);

/* Give derived copies up and cached blocks back to the device, and host memory that is cached for it to the system. */
HAUL_API haul_status haul_memory_release_cached(haul_device *device);

/* Pinned host memory, from and to which the device copies at the speed of the link: results of moves to the CPU, the
 * loader's batches, haul_pin's tensors, and what copies of ordinary memory go through. Drivers are slow to make it, so
 * it is cached, too; all zeros where the device has none (CPUs, meta, GPUs that share the host's memory). The limit is
 * a quarter of the machine's memory for each device unless set, 0 removes it; beyond it ordinary memory is used, and
 * nothing fails. */
HAUL_API haul_status haul_pinned_stats_get(const haul_device *device, haul_memory_stats *out);
HAUL_API haul_status haul_pinned_set_limit(haul_device *device, int64_t bytes);

/* Live memory by the operation that made it, largest first. Fills at most `capacity` rows; returns how many there are
 * (negative on failure). */
typedef struct haul_memory_origin {
    char    name[48];
    int64_t bytes;
    int64_t blocks;
} haul_memory_origin;

HAUL_API int haul_memory_by_origin(const haul_device *device, haul_memory_origin *out, int capacity);

HAUL_END

#endif
