/* Memory: what a device's memory is used for, by whom, and limits.
 *
 * Each device has one caching allocator, from which every byte of its tensors comes. Freed blocks are kept for reuse:
 * they are "reserved" but not "allocated". They go back to the device when the limit is reached, an allocation fails,
 * or haul_memory_release_cached is called. A free block may be cut into parts for smaller requests. It goes back as a
 * whole, when all its parts are free.
 *
 * The CPU's allocator also holds the examples of datasets that are kept in memory, from 4 MiB on, if its limit leaves
 * room for them.
 *
 * A tensor on the CPU in pinned memory counts for the device that it is pinned for (haul_pinned_stats_get), not for the
 * CPU. Scratch memory that kernels of the CPU take from the system during a call is not counted and not limited. */
#ifndef HAUL_MEMORY_H
#define HAUL_MEMORY_H

#include <haul/base.h>
#include <haul/device.h>
#include <haul/error.h>

HAUL_BEGIN

/* What a device's memory is used for, in bytes and in blocks. */
typedef struct haul_memory_stats {
    int64_t allocated;          /* bytes in blocks that tensors hold now */
    int64_t reserved;           /* bytes obtained from the device, in use or cached */
    int64_t peak_allocated;     /* highest value of `allocated` since start or reset */
    int64_t peak_reserved;      /* highest value of `reserved` since start or reset */
    int64_t limit;              /* bytes `reserved` and `overhead` may not exceed together; 0 for none */
    int64_t allocations;        /* blocks that tensors were given since the start */
    int64_t cache_hits;         /* of those, how many came from the cache */
    int64_t device_allocations; /* blocks obtained from the device itself */
    int64_t live_blocks;        /* blocks that tensors hold now */
    /* of `allocated`: copies of parameters that are kept until the parameters change, for example casts by autocast and
     * weights in another memory format */
    int64_t derived_bytes;
    int64_t pinned; /* of `allocated`: bytes that haul_memory_pin keeps from being spilled */
    /* bytes in blocks of tensors whose elements are in host memory or in a file now: not in `allocated`; and bytes that
     * left for there since the start, each time counted */
    int64_t spilled, spilled_total;
    /* of these two: bytes in the file of haul_memory_set_spill_tiers, or that left for it */
    int64_t spilled_to_file, spilled_to_file_total;
    int64_t spill_host; /* bytes of host memory with spilled elements, also with those that are kept after a return */
    int64_t spill_file; /* bytes that the file takes on its disk */
    /* time that threads waited for reads and writes of the file since the start: with a slow disk, most of a step. In
     * the virtual time of simulated devices it is 0 */
    int64_t spill_file_nanoseconds;
    /* bytes that the driver took for its context, streams, compiled kernels and libraries, as far as it is known: on
     * NVIDIA GPUs from the free memory before and after, with OpenCL the size of the compiled kernels. 0 for the CPU
     * and other devices whose memory is the host's. */
    int64_t overhead;
} haul_memory_stats;

/* Fill *out with the use of a device's memory. */
HAUL_API haul_status haul_memory_stats_get(const haul_device *device, haul_memory_stats *out);

/* Set the peaks of the device to the present use, also those of the memory pinned for it. */
HAUL_API haul_status haul_memory_reset_peak(haul_device *device);

/* Set an upper bound on `reserved` and `overhead` together, in bytes; 0 removes it. A limit below the memory in use is
 * accepted: no more can be obtained then. What the driver takes is never refused, but leaves less for tensors.
 *
 * An allocation that would exceed the limit first gives back the cache, then derived copies, and then fails with
 * HAUL_OUT_OF_MEMORY. Matrix products and convolutions do not fail if there is no scratch memory for them: another
 * algorithm computes, whose bits may differ, and HAUL_EVENT_IMPLEMENTATION says so. */
HAUL_API haul_status haul_memory_set_limit(haul_device *device, int64_t bytes);

/* The same for `reserved` alone: what the driver takes does not count. It replaces the limit of haul_memory_set_limit,
 * and is replaced by it. */
HAUL_API haul_status haul_memory_set_tensor_limit(haul_device *device, int64_t bytes);

/* Spill tensors of the device where its memory, or the limit, does not suffice: move those that were used longest ago
 * to host memory (pinned if possible) or a file (haul_memory_set_spill_tiers), and bring them back when they are used.
 * Off by default. Results do not change. Each spilled tensor costs two copies, counted as transfers of the
 * operation "spill", or one if it has not changed since it was last spilled: the copy in host memory stays valid until
 * the tensor changes or ends. The device orders copies with its other work; the host waits for one only if its memory
 * must go back to the driver. Backward passes and optimizer steps bring back what they use next, if there is room. An
 * operation fails only if its own operands, results and temporaries do not fit. A request that exceeds the limit, or
 * all memory of the device, fails without moving anything. Tensors make room for scratch memory, too, unless it does
 * not fit next to those.
 *
 * Fails with HAUL_UNSUPPORTED for the CPU and other devices whose memory is the host's. */
HAUL_API haul_status haul_memory_set_spill(haul_device *device, bool on);

/* Where spilled elements go, an option of haul_memory_set_spill_tiers. */
typedef struct HAUL__DESIGNATED haul_spill_tiers {
    HAUL__GUARD(host_limit)
    int64_t     host_limit;   /* bytes of host memory for them; HAUL_ZERO: none; 0: no limit */
    const char *folder;       /* what exceeds that goes to a file in this folder; NULL: an allocation fails instead */
    int64_t     folder_limit; /* bytes of the file; 0: as many as the disk has */
} haul_spill_tiers;

/* Say where spilled elements go:
 *
 *     haul_memory_set_spill_tiers(device, .host_limit = 4LL << 30, .folder = "/var/tmp", .folder_limit = 64LL << 30)
 *
 * At first they go to host memory, without a limit. The file has no name, so nothing is left of it when the process
 * ends, however it ends. Its space is reserved before elements go there. Elements pass through 4 MiB of host memory,
 * and the host waits for these copies. What returns keeps its place until another tensor has left for it, so the last
 * one needs a free place. haul_memory_release_cached gives space that is free back to the disk.
 *
 * If no tier has room, the allocation fails with HAUL_OUT_OF_MEMORY; the message names the tier, its folder, the bytes
 * that it needs and those that are free. If elements cannot be read back, the operation that uses them fails with
 * HAUL_IO, and they stay in the file. haul_memory_stats counts the bytes of each tier.
 *
 * Fails with HAUL_UNSUPPORTED for the CPU and other devices whose memory is the host's, with HAUL_IO if the file cannot
 * be made, and with HAUL_STATE if the folder would change while tensors are in its file. Then nothing has changed. */
#define haul_memory_set_spill_tiers(device, ...)                                                                       \
    haul_memory_set_spill_tiers_with(device, HAUL__OPTIONS(haul_spill_tiers, __VA_ARGS__))
HAUL_API haul_status haul_memory_set_spill_tiers_with(haul_device *device, const haul_spill_tiers *tiers);

/* Pin a tensor's memory on its device: it is never spilled until it is unpinned as often as it was pinned, or ends. The
 * memory is pinned with all tensors that share it. If it is in host memory now, it comes back first, which moves others
 * away if it must, and fails with HAUL_OUT_OF_MEMORY if there is no room for it; it is not pinned then.
 *
 * Pinned memory makes no room for anything. So an allocation fails with HAUL_OUT_OF_MEMORY where it does not fit next
 * to the pinned memory and what its operation uses; the message and haul_memory_report say how much is pinned. On a
 * device that does not spill, a pin changes nothing, but counts, should the device spill later. Host memory from which
 * a device copies fast is something else: haul_pin.
 *
 * haul_memory_unpin fails with HAUL_STATE if the memory is not pinned. In a dry run, memory that the run would allocate
 * counts as pinned from the beginning to its end. A step of a recording that calls one of them runs as it is. Any
 * thread may call them. */
HAUL_API haul_status haul_memory_pin(haul_tensor *tensor);
HAUL_API haul_status haul_memory_unpin(haul_tensor *tensor);

/* Limit the memory of a device that the calling thread allocates in this scope, and in scopes inside it, from now on:
 * for tensors, temporaries and saved tensors, in the sizes of blocks. With 0 bytes, memory is counted without a limit.
 *
 * Memory counts until it is freed, even if haul_scope_return, haul_keep or another object has it by then. When the
 * scope is popped, memory that outlives it counts only for the scopes outside, each of which may have its own limit.
 * Not counted are derived copies, memory pinned for a device, and the memory of other threads, including the library's
 * own (loaders' workers).
 *
 * Exceeding the limit fails with HAUL_OUT_OF_MEMORY. The message names the scope and what the memory is used for. Other
 * scopes and threads are not affected.
 *
 * A scope can have a limit for each device. Set the first one before scopes inside it are pushed; it can be changed at
 * any time while the scope is open. A limit set in a dry run (haul_estimate) applies to what the run would allocate,
 * and scopes outside do not count it. */
HAUL_API haul_status haul_scope_set_memory_limit(haul_scope *scope, haul_device *device, int64_t bytes);

/* What a scope has allocated on a device. */
typedef struct haul_scope_memory_stats {
    int64_t allocated;      /* bytes in blocks that are in use now */
    int64_t peak_allocated; /* highest value of `allocated` */
    int64_t limit;          /* the scope's limit in bytes; 0 for none */
} haul_scope_memory_stats;

/* Fill *out with the figures of an open scope of the calling thread. Fails with HAUL_STATE if
 * haul_scope_set_memory_limit was not called for the scope. */
HAUL_API haul_status haul_scope_memory_stats_get(const haul_scope *scope, const haul_device *device,
                                                 haul_scope_memory_stats *out);

/* Drop derived copies, give cached blocks back to the device, and return cached host memory to the system,
 * including host copies of spilled tensors that are back on the device. */
HAUL_API haul_status haul_memory_release_cached(haul_device *device);

/* Pinned host memory, from and to which a device copies at the speed of the link. It holds the results of moves to the
 * CPU, the loader's batches, tensors of haul_pin, and the chunks through which ordinary memory is copied. Drivers are
 * slow to allocate it, so it is cached, too.
 *
 * haul_pinned_stats_get fills *out; with zeros if the device has no pinned memory (CPUs, meta, GPUs that share the
 * host's memory). haul_pinned_set_limit sets the limit in bytes; 0 removes it. The limit of each device is a quarter of
 * the machine's memory unless set. Beyond the limit Haul uses ordinary memory, and nothing fails. */
HAUL_API haul_status haul_pinned_stats_get(const haul_device *device, haul_memory_stats *out);
HAUL_API haul_status haul_pinned_set_limit(haul_device *device, int64_t bytes);

/* One row of haul_memory_by_origin, haul_memory_by_module or haul_memory_by_role. */
typedef struct haul_memory_origin {
    char    name[80]; /* the operation, "haul_conv2d", the path of the module, "features.0", or the role */
    int64_t bytes;    /* bytes in its blocks */
    int64_t blocks;   /* how many blocks */
} haul_memory_origin;

/* List live memory by the operation that allocated it, largest first. Fills at most `capacity` rows of `out` and
 * returns how many there are; -1 on failure. */
HAUL_API int haul_memory_by_origin(const haul_device *device, haul_memory_origin *out, int capacity);

/* Record from now on, or no longer, in which module and under which label memory is allocated, and when: for all
 * devices and threads. An allocation takes about 0.2 microseconds longer meanwhile; while nothing is recorded, it costs
 * what it always does. The records stay with the memory until that is freed and used again.
 *
 * Meanwhile each allocation that fails takes a snapshot: haul_memory_report_snapshot. The recording allocates 2.0 MB of
 * host memory for it when it begins.
 *
 * Fails with HAUL_OUT_OF_MEMORY if there is no memory for that, or if the system cannot register another thread key. */
HAUL_API haul_status haul_memory_record(bool on);

/* List live memory by the module that was being called when it was allocated, largest first, as haul_memory_by_origin
 * does. Memory that was allocated outside of modules, for instance by an optimizer, is "(no module)", and memory
 * that haul_memory_record did not see is "(not recorded)". */
HAUL_API int haul_memory_by_module(const haul_device *device, haul_memory_origin *out, int capacity);

/* List live memory by what it is used for, largest first, as haul_memory_by_origin does: "parameters", "gradients" of
 * leaves, "optimizer state", "activations" (results of operations, and all that is not one of the others), "workspace"
 * (scratch memory and temporaries of an operation), "data" (batches of loaders, and datasets kept in memory), "step
 * arena" (gradients, activations and workspace of a step that a recording follows) and "other" (buffers of modules, and
 * copies of parameters in another form). */
HAUL_API int haul_memory_by_role(const haul_device *device, haul_memory_origin *out, int capacity);

/* A block of a device's memory. For a cached block, everything but its size is about the tensor that used it last. */
typedef struct haul_memory_block {
    char        operation[48]; /* the operation that allocated it, "haul_conv2d" */
    char        module[80];    /* path of the module being called, "features.0"; "" outside of modules */
    char        label[48];     /* the innermost label of the thread (haul_label_begin) */
    const char *role;          /* what it is used for, as in haul_memory_by_role; lives as long as the process */
    int64_t     bytes;         /* the size of the block */
    int64_t     requested;     /* bytes that were asked for */
    int64_t     age;           /* blocks that the device's allocator has handed out since */
    int64_t     nanoseconds;   /* time since then */
    bool        live;          /* a tensor holds it. Else it is cached */
    bool        spilled;       /* the tensor's elements are in host memory (haul_memory_set_spill) */
    bool        recorded;      /* haul_memory_record saw it. Else module and label are "", and nanoseconds is 0 */
} haul_memory_block;

/* List the blocks of a device's memory: live ones first, the oldest at the beginning, then cached ones, the largest at
 * the beginning. Fills at most `capacity` rows of `out` and returns how many blocks there are; -1 on failure. Wrapped
 * host memory, mapped files and pinned memory are not listed. */
HAUL_API int haul_memory_snapshot(const haul_device *device, haul_memory_block *out, int capacity);

/* Write a snapshot to `out` as a JSON object: the device's name, statistics, the sums by operation, by module and by
 * role, and all blocks. As haul_stats_json, it writes at most `size` bytes, the last of which is 0, and returns the
 * length of the whole text without the 0; -1 on failure.
 *
 *     {"device":"cpu","allocated":5120,"reserved":6144,"peak_allocated":5120,"limit":0,"spilled":0,"overhead":0,
 *      "by_operation":[{"name":"haul_ones","bytes":5120,"blocks":1}],
 *      "by_module":[{"name":"(not recorded)","bytes":5120,"blocks":1}],
 *      "by_role":[{"name":"activations","bytes":5120,"blocks":1}],
 *      "blocks":[{"operation":"haul_ones","role":"activations","bytes":5120,"requested":4100,"age":0,"live":true,
 *                  "spilled":false}, ...]}
 *
 * Blocks that were recorded have "module", "label" and "nanoseconds" as well. */
HAUL_API int64_t haul_memory_snapshot_json(const haul_device *device, char *out, size_t size);

/* The number of `origins` in a report. */
enum { HAUL_MEMORY_REPORT_ORIGINS = 8 };
/* The number of `roles` in a report. */
enum { HAUL_MEMORY_REPORT_ROLES = 8 };

/* Why an allocation failed. All figures are those of the moment of the failure, after the cache and derived copies were
 * given back. */
typedef struct haul_memory_report {
    haul_device *device;        /* the device */
    char         operation[48]; /* the operation that asked for memory, "haul_conv2d" */
    char         module[80];    /* path of the module being called, "features.0"; "" outside of modules */
    bool         of_scope;      /* the limit of a scope was reached. Else it was the device's, or the device is full */
    char         scope[64];     /* the name of that scope; "" if it has none */
    int64_t      requested;     /* bytes that were asked for */
    int64_t      block;         /* the size of the block that they take */
    int64_t      allocated;     /* bytes in blocks that tensors hold */
    int64_t      reserved;      /* bytes obtained from the device, in use or cached */
    int64_t      spilled;       /* bytes in blocks of tensors whose elements are in host memory, not in `allocated` */
    int64_t      pinned;        /* of `allocated`: bytes that haul_memory_pin keeps from being spilled */
    int64_t      overhead;      /* other bytes that the limit counts: haul_memory_stats.overhead */
    int64_t      scope_allocated; /* bytes that the scope counts; 0 unless of_scope */
    int64_t      limit;           /* the limit that was reached; 0: the device is full */
    /* bytes that the device has left; -1 if it does not know. On the CPU: what the process may still get, the least of
     * what the machine, its control groups (cgroups, as containers have them) and RLIMIT_AS and RLIMIT_DATA leave */
    int64_t free;
    /* bytes that could have been allocated: the rest of the limit, or of the device; -1 if it is unknown */
    int64_t room;
    /* What spilling (haul_memory_set_spill) would cost: bytes that this allocation would move to host memory, and
     * probably back later; 0 if it would not help, because it is on already, or for a scope's limit, on the CPU, and if
     * too little can be moved; -1 if the device is full and the missing bytes are not known. */
    int64_t spill_bytes;
    /* an estimate of the time for both ways, from the speed of earlier copies of 1 MiB and more; -1 if there were none
     */
    int64_t            spill_nanoseconds;
    bool               by_module;    /* the origins are modules, because haul_memory_record is on; else operations */
    int                origin_count; /* the number of `origins` */
    haul_memory_origin origins[HAUL_MEMORY_REPORT_ORIGINS]; /* what holds most of the memory, the largest first */
    int                role_count;                          /* the number of `roles` */
    haul_memory_origin roles[HAUL_MEMORY_REPORT_ROLES]; /* what the memory is used for, as haul_memory_by_role lists */
} haul_memory_report;

/* Fill *out with the report on the calling thread's error, after an operation failed with HAUL_OUT_OF_MEMORY. The
 * report goes with the error: haul_error_clear and the next failure end it. Nothing is allocated for it.
 *
 * Fails with HAUL_STATE, and keeps the error, if the thread's error is not a failure to allocate memory of a device: if
 * there is none, if host memory for the library's own structures was exhausted, and in dry runs. The reports of the
 * last 16 failures of all threads are kept. */
HAUL_API haul_status haul_memory_report_get(haul_memory_report *out);

/* Write a report to `out` as a text of several lines for people, or as one JSON object with the names of the members.
 * As haul_stats_json, they write at most `size` bytes, the last of which is 0, and return the length of the whole text
 * without the 0; -1 on failure. */
HAUL_API int64_t haul_memory_report_text(const haul_memory_report *report, char *out, size_t size);
HAUL_API int64_t haul_memory_report_json(const haul_memory_report *report, char *out, size_t size);

/* The number of blocks that a snapshot of a failure keeps. */
enum { HAUL_MEMORY_REPORT_BLOCKS = 8192 };

/* List the blocks that the device had at the moment of the failure that the calling thread's error is about, in the
 * order of haul_memory_snapshot. While haul_memory_record is on, each allocation that fails takes this snapshot, unless
 * it is tried again; nothing is allocated for it. It is kept until the next failure of any thread, or until
 * haul_memory_record(false).
 *
 * Fills at most `capacity` rows of `out` and returns how many blocks there were. If there were more than
 * HAUL_MEMORY_REPORT_BLOCKS, only so many are kept: cached blocks are left out first, then the youngest live ones.
 *
 * Returns -1 on failure. Fails with HAUL_STATE, and keeps the error, if haul_memory_report_get does, if memory was not
 * recorded, and if the snapshot is no longer kept. */
HAUL_API int haul_memory_report_snapshot(haul_memory_block *out, int capacity);

/* Write this snapshot to `out` as a JSON object, as haul_memory_snapshot_json does, but without allocating anything.
 * The object has one more member, "left_out": the number of blocks that are not kept. The sums include these blocks;
 * the 256 largest sums of each kind are kept. Returns -1 on failure, as above. */
HAUL_API int64_t haul_memory_report_snapshot_json(char *out, size_t size);

HAUL_END

#endif
