/* Devices, streams and kernels, for the layers above: checked wrappers around the backend's table. */
#ifndef HAUL_DEVICE_DEVICE_H
#define HAUL_DEVICE_DEVICE_H

#include "backends/backend.h"
#include "backends/command.h"
#include "core/device.h"
#include "core/error.h"

/* The backends, and their names, by backend_slot. */
int         haul__backend_count(void);
const char *haul__backend_name(int slot);
/* One that is not of this build, for tests: its devices can be named from then on. To be called before other threads
 * use the library. */
haul_status haul__backend_add(const haul__backend *backend);

/* Does it hold data and compute? Meta does not. */
static inline bool haul__device_computes(const haul_device *device)
{
    return !device->backend->no_data;
}

/* Are commands done when they return? */
static inline bool haul__device_is_synchronous(const haul_device *device)
{
    return device->backend->synchronous;
}

/* Is its memory the host's, at buffer.host? */
static inline bool haul__device_is_host(const haul_device *device)
{
    return device->backend->host_memory;
}

/* Are the two of one backend, whose devices copy from one another where they reach each other? */
static inline bool haul__device_peers(const haul_device *a, const haul_device *b)
{
    return a->backend == b->backend && a->backend->peers;
}

/* Do copies from and to it gain by pinned memory? */
bool haul__device_pins(const haul_device *device);

/* What memory is left there, in words, or "". */
void haul__device_memory_left(haul_device *device, char *out, size_t size);

/* What the device's backend has of its own for matrix products and convolutions (backends/implementation.h); may be
 * NULL. */
static inline const haul__implementation *haul__device_implementations(const haul_device *device)
{
    return device->backend->implementations;
}

/* Do its kernels make the matrix product's tiles by threads that share memory? */
static inline bool haul__device_shares_tiles(const haul_device *device)
{
    return device->backend->shared_tiles;
}

/* HAUL_OK, or the recorded reason why the device cannot be used. NULL is an error naming `argument`. */
haul_status haul__device_check(const haul_device *device, const char *operation, const char *argument);

/* Can tensors of the dtype be made on the device? */
haul_status haul__check_dtype(haul_dtype dtype, const haul_device *device, const char *operation);

/* The device new tensors go to on this thread; records an error and returns NULL if that one is not usable. */
haul_device *haul__device_current(const char *operation);

/* The host is about to read / write the storage's memory itself (CPU tensors): wait for whoever must come first. */
haul_status haul__host_before(haul__storage *storage, bool write, const char *origin);

/* The errors of whoever wants values in a dry run, and afterwards those of a tensor that one made; else HAUL_OK. */
haul_status haul__refuse_dry(const char *operation);
haul_status haul__refuse_planned(const haul__storage *storage, const char *operation);

/* Waiting for points on streams. What may make the host wait takes the operation that it waits for, which reports
 * name (haul/sync.h); NULL where it is not known. */
bool        haul__use_done(haul__use use);
haul_status haul__use_wait_host(haul__use use, const char *origin);
haul_status haul__use_wait_stream(haul__stream *waiter, haul__use use, const char *origin);
void        haul__uses_init(haul__uses *uses);
/* Is all of `uses` reached, as far as can be told without waiting? Asks the device where it can be asked. */
bool haul__uses_reached(haul__uses *uses);
/* The host waits for all of `uses`; failures are not recorded: the memory is about to be given up. */
void haul__uses_finish(haul__uses *uses, const char *origin);

/* Waits of the thread between the two are counted and reported as one, of `operation` for `bytes`: a transfer in
 * chunks. Within another group they are part of that one. */
typedef struct haul__wait_group {
    const char   *operation;
    size_t        bytes;
    haul__stream *stream; /* of the first wait */
    int64_t       ns;
    int           waits, ready;
    bool          outer; /* there is a group around it */
} haul__wait_group;
void haul__wait_group_begin(haul__wait_group *group, const char *operation, size_t bytes);
void haul__wait_group_end(haul__wait_group *group);

/* The backend's functions of memory, reported: drivers may wait in them. */
haul_status haul__device_alloc(haul_device *device, size_t bytes, haul__buffer *out, const char *operation);
void        haul__device_free(haul_device *device, haul__buffer *buffer, size_t bytes, const char *operation);
haul_status haul__device_host_alloc(haul_device *device, size_t bytes, void **out, void **handle,
                                    const char *operation);
void haul__device_host_free(haul_device *device, void *memory, void *handle, size_t bytes, const char *operation);
/* Report a call of a driver that began at start_ns, by haul__now_ns (core/clock.h). haul/sync.h lists the actions. */
void haul__driver_called(const haul_device *device, const char *operation, const char *action, size_t bytes,
                         int64_t start_ns);

/* Give a device its streams, when it is opened. Where commands are synchronous one stream serves as all three. */
haul_status haul__streams_open(haul_device *device);

/* The kernel of `id` for a dtype on the device, compiled on first use. NULL on failure. */
const haul__kernel *haul__kernel_get(haul_device *device, int id, haul_dtype dtype);
/* The same if it was compiled already, else NULL with nothing recorded. */
static inline const haul__kernel *haul__kernel_known(const haul_device *device, int id, haul_dtype dtype)
{
    return atomic_load_explicit(&device->kernels[(size_t)id * HAUL_DTYPE_END + dtype], memory_order_acquire);
}

/* The record that a launch of a kernel that checks indices passes on; NULL where the backend has its own. `operation`
 * is for whose sake it may be made. */
haul_status haul__index_record(haul_device *device, const char *operation, const haul__buffer **out);
/* The error of an index out of range that a kernel of the device noted; NULL: of any device. Returns HAUL_OK if there
 * is none, and returns each error once. Functions that give the host values or wait for a device call it after the
 * wait. */
haul_status haul__index_faults_report(haul_device *device);

/* Check the command, wait for what its buffers' uses demand, hand it to the backend, and leave its mark on them. A
 * command that is refused leaves its storages unmarked and untouched. Nothing happens on meta, nor for a command
 * without items or bytes. HAUL_UNSUPPORTED, with nothing recorded: a peer copy between devices that do not reach each
 * other, or what `run` answers. */
haul_status haul__submit(const haul__command *command);

#endif
