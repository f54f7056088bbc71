/* Devices, streams and kernels for the layers above: checked wrappers around the backends' tables. */
#ifndef HAUL_DEVICE_DEVICE_H
#define HAUL_DEVICE_DEVICE_H

#include "backends/backend.h"
#include "backends/command.h"
#include "core/device.h"
#include "core/error.h"

/* The backends and their names, by backend_slot. */
int         haul__backend_count(void);
const char *haul__backend_name(int slot);
/* Adds a backend that is not part of this build, for tests; its devices can be named from then on. Call it before other
 * threads use the library. */
haul_status haul__backend_add(const haul__backend *backend);

/* The devices that were made ready for use, by slot, without opening more: NULL for a slot without one, and beyond the
 * last. Slots are below HAUL__MAX_DEVICES. */
haul_device *haul__device_in_use(int slot);

/* True if it holds data and computes. Meta does not. */
static inline bool haul__device_computes(const haul_device *device)
{
    return !device->backend->no_data;
}

/* True if it compiles kernel text at run time. */
static inline bool haul__device_compiles_text(const haul_device *device)
{
    return !device->backend->no_data && !device->backend->precompiled;
}

/* True if commands are done when they return. */
static inline bool haul__device_is_synchronous(const haul_device *device)
{
    return device->backend->synchronous;
}

/* True if its memory is host memory, at buffer.host. */
static inline bool haul__device_is_host(const haul_device *device)
{
    return device->backend->host_memory;
}

/* True if parts of its buffers need handles of their own, which haul__device_sub_buffer_alloc makes. */
static inline bool haul__device_has_sub_buffers(const haul_device *device)
{
    return device->sub_buffers;
}

/* True if a buffer can be divided into parts. */
static inline bool haul__device_divides(const haul_device *device)
{
    return device->backend->host_memory || device->backend->addresses || device->sub_buffers;
}

/* Parts of a buffer that hold tensors or scratch memory begin at multiples of this many bytes. Vendors' libraries
 * choose algorithms by alignment up to 256 bytes, and cuBLASLt refuses scratch memory that is less aligned. */
static inline int64_t haul__device_part_alignment(const haul_device *device)
{
    return device->sub_buffers ? HAUL__SUB_BUFFER_ALIGNMENT : device->backend->host_memory ? 64 : 256;
}

/* A buffer that begins `bytes` behind the beginning of another one, of a device that divides. It has no handle yet if
 * parts need handles of their own. */
static inline haul__buffer haul__device_sub_buffer(const haul_device *device, haul__buffer buffer, size_t bytes)
{
    return (haul__buffer){.host = buffer.host ? (char *)buffer.host + bytes : NULL,
                          .handle = device->backend->addresses ? (char *)buffer.handle + bytes : NULL};
}

/* True if both belong to one backend that copies directly between its devices. The two may still lack a link. */
static inline bool haul__device_peers(const haul_device *a, const haul_device *b)
{
    return a->backend == b->backend && a->backend->peers;
}

/* True if the driver repeats at most 4 bytes in a fill. A fill of longer elements takes far longer than a kernel. */
static inline bool haul__device_fills_words(const haul_device *device)
{
    return device->backend->fills_words;
}

/* The bytes of the pages in which the driver takes large requests of memory; 0: as requested. */
static inline size_t haul__device_page(const haul_device *device)
{
    return device->backend->page;
}

/* True if it has memory of its own, which its commands keep in place (device/residency.h). */
static inline bool haul__device_is_apart(const haul_device *device)
{
    return !device->backend->no_data && !device->backend->host_memory && !device->backend->synchronous;
}

/* True if copies from and to it are faster with pinned memory. */
bool haul__device_pins(const haul_device *device);

/* True if its kernels work on host memory as fast as on its own. Then a write or read may have a kernel. */
bool haul__device_reaches_host(const haul_device *device);

/* True if a kernel is faster than the driver's command that copies or sets so many bytes without gaps. On a device that
 * is a processor of the host it uses all cores; the command uses one, and starts sooner. */
bool haul__device_moves_by_kernel(const haul_device *device, size_t bytes);

/* Writes to `out`, in words, what memory is left on the device, or "". */
void haul__device_memory_left(haul_device *device, char *out, size_t size);

/* The bytes of memory that are left on the device; -1 if it is not known. */
int64_t haul__device_free_bytes(haul_device *device);

/* The backend's own implementations of matrix products and convolutions (backends/implementation.h); may be NULL. */
static inline const haul__implementation *haul__device_implementations(const haul_device *device)
{
    return device->backend->implementations;
}

/* True if its kernels compute tiles of matrix products in groups of threads with shared memory. */
static inline bool haul__device_shares_tiles(const haul_device *device)
{
    return device->backend->shared_tiles;
}

/* HAUL_OK, or the recorded reason why the device cannot be used. NULL is an error that names `argument`. */
haul_status haul__device_check(const haul_device *device, const char *operation, const char *argument);

/* Fails unless the device supports tensors of the dtype. */
haul_status haul__check_dtype(haul_dtype dtype, const haul_device *device, const char *operation);

/* The device for new tensors on this thread; records an error and returns NULL if it is not usable. */
haul_device *haul__device_current(const char *operation);

/* Call this before the host reads / writes the storage's memory itself (CPU tensors): waits for the commands that must
 * come first. */
haul_status haul__host_before(haul__storage *storage, bool write, const char *origin);

/* The error for reading values in a dry run, and afterwards for reading a tensor that a dry run made; else HAUL_OK. */
haul_status haul__refuse_dry(const char *operation);
haul_status haul__refuse_planned(const haul__storage *storage, const char *operation);

/* Waiting for points on streams. A function that may make the host wait takes the operation that it waits for, which
 * reports name (haul/sync.h); NULL if it is unknown. */
bool        haul__use_done(haul__use use);
haul_status haul__use_wait_host(haul__use use, const char *origin);
haul_status haul__use_wait_stream(haul__stream *waiter, haul__use use, const char *origin);
void        haul__uses_init(haul__uses *uses);
/* In the child of a fork: the threads that used the memory do not exist. The elements stay where they are. */
void haul__uses_forget(haul__uses *uses);
/* The next command that writes the memory of `uses` comes after the uses in `before`, too. */
void haul__uses_follow(haul__uses *uses, haul__uses *before);
/* True if all of `uses` are known to be reached, without waiting. Queries the device if possible. */
bool haul__uses_reached(haul__uses *uses);
/* True if the last write is known to be done. */
bool haul__uses_settled(haul__uses *uses);
/* Makes the host wait for all of `uses`. Failures are not recorded, because the memory is about to be freed. */
void haul__uses_finish(haul__uses *uses, const char *origin);

/* Counts and reports the thread's waits between the two calls as one, of `operation` for `bytes`: a transfer in chunks.
 * Inside another group they belong to that one. */
typedef struct haul__wait_group {
    const char   *operation;
    size_t        bytes;
    haul__stream *stream; /* the stream of the first wait; NULL: none yet */
    int64_t       ns;
    int           waits, ready;
    bool          outer; /* another group encloses this one */
} haul__wait_group;
void haul__wait_group_begin(haul__wait_group *group, const char *operation, size_t bytes);
void haul__wait_group_end(haul__wait_group *group);

/* The backend's memory functions, with reports: drivers may wait in them. */
haul_status haul__device_alloc(haul_device *device, size_t bytes, haul__buffer *out, const char *operation);
void        haul__device_free(haul_device *device, haul__buffer *buffer, size_t bytes, const char *operation);
/* A handle for `bytes` of a buffer of a device that has parts. Commands that use it may still run when it is freed. The
 * memory of a buffer that is freed goes with the last handle of a part. */
haul_status haul__device_sub_buffer_alloc(haul_device *device, size_t bytes, haul__buffer_address place, void **handle);
void        haul__device_sub_buffer_free(haul_device *device, void *handle);
haul_status haul__device_host_alloc(haul_device *device, size_t bytes, void **out, void **handle,
                                    const char *operation);
void haul__device_host_free(haul_device *device, void *memory, void *handle, size_t bytes, const char *operation);
/* Reports a call of a driver that began at start_ns, by haul__now_ns (base/system/clock.h). haul/sync.h lists the
 * actions. */
void haul__driver_called(const haul_device *device, const char *operation, const char *action, size_t bytes,
                         int64_t start_ns);

/* Where other libraries of the process use the device's memory. DLPack's number for its kind; 0: they cannot. */
static inline int haul__device_dlpack(const haul_device *device)
{
    return device->backend->dlpack;
}
/* The device with this number of those of a kind. NULL, without an error, for a kind that no backend has; an invalid
 * device, which carries the reason, for a number that the backend does not have. */
haul_device *haul__device_by_dlpack(int kind, int number);
/* True if all of these bytes are memory of the device, whoever obtained it. */
bool haul__device_holds(haul_device *device, const void *memory, size_t bytes);
/* Makes the host wait for everything on the device, whoever submitted it. Does nothing in the child of a fork. */
haul_status haul__device_finish(haul_device *device, const char *operation);

/* Gives a device its streams when it is opened. A synchronous device uses one stream as all three. */
haul_status haul__streams_open(haul_device *device);

/* True if the device copies this host memory, which Haul did not obtain, at full speed. */
static inline bool haul__device_host_is_pinned(haul_device *device, const void *memory, size_t bytes)
{
    return device->backend->host_is_pinned && device->backend->host_is_pinned(device, memory, bytes);
}

/* The kernel `id` for a dtype on the device, compiled on first use. Returns NULL on failure. */
const haul__kernel *haul__kernel_get(haul_device *device, int id, haul_dtype dtype);
/* The same if it is compiled already; else NULL, without recording an error. */
static inline const haul__kernel *haul__kernel_known(const haul_device *device, int id, haul_dtype dtype)
{
    return atomic_load_explicit(&device->kernels[(size_t)id * HAUL_DTYPE_END + dtype], memory_order_acquire);
}

/* Compiles the kernel of a unit, and reports it by the name `shown`. The caller holds the device's kernels_lock. */
haul_status haul__kernel_compile(haul_device *device, const haul__unit *unit, const char *shown, haul__kernel *kernel);

/* The slots of a device's kernels: one for each id and dtype. */
size_t haul__kernel_slots(void);

/* How many kernels are ready on the device, counting each dtype. */
int64_t haul__kernels_ready(const haul_device *device);

/* A dry run would launch this kernel. haul__kernels_awaited counts those of them that are not compiled yet; 0 for a
 * device whose kernels come compiled. */
void    haul__kernel_foresee(haul_device *device, int id, haul_dtype dtype);
int64_t haul__kernels_awaited(const haul_device *device);

/* The record that a launch of a kernel that checks indices passes on; NULL if the backend has its own. `operation`
 * names the cause if the record must be made. */
haul_status haul__index_fault_buffer(haul_device *device, const char *operation, const haul__buffer **out);
/* The error of an index out of range that a kernel of the device noted; device NULL: of any device. Returns HAUL_OK if
 * there is none, and returns each error once. Functions that return values to the host or wait for a device call it
 * after the wait. */
haul_status haul__index_faults_raise(haul_device *device);

/* Checks the command, waits for earlier uses of its buffers, passes it to the backend, and marks the buffers as used. A
 * refused command leaves its storages unmarked and untouched. Does nothing on meta, or for a command without items or
 * bytes. Returns HAUL_UNSUPPORTED, without recording an error, for a peer copy between devices without a link, or if
 * `run` does. */
haul_status haul__submit(const haul__command *command);

#endif
