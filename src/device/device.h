/* Devices, streams and kernels, for the layers above: checked wrappers around the backend's table. */
#ifndef HAUL_DEVICE_DEVICE_H
#define HAUL_DEVICE_DEVICE_H

#include <pthread.h>

#include "core/error.h"
#include "device/backend.h"

#define HAUL__MAX_DEVICES 32
#define HAUL__MAX_STREAMS (3 * HAUL__MAX_DEVICES)
#define HAUL__MAX_POINTS  8

/* In-order queue of commands. Tickets count its commands. */
struct haul__stream {
    haul_device        *device;
    void               *queue;
    int                 id;    /* small, unique */
    bool                eager; /* for copies: every command leaves a point, so that nobody waits for later ones */
    pthread_mutex_t     lock;
    atomic_ullong       submitted;                /* ticket of the newest command */
    atomic_ullong       completed;                /* all tickets up to this are known to be done */
    atomic_ullong       after[HAUL__MAX_STREAMS]; /* by stream id: new commands here come after that ticket there */
    struct haul__point *points[HAUL__MAX_POINTS]; /* the newest events recorded; guarded by lock */
    int                 next_point;
};

struct haul_device {
    const haul__backend              *backend;
    int                               index;        /* in the backend */
    int                               backend_slot; /* of the backend in backends.def */
    int                               slot;         /* in the registry: small, unique, stable */
    bool                              valid;
    char                              name[32];
    char                              why[448]; /* of an invalid one */
    haul_status                       why_status;
    haul_device_properties            properties;
    char                              model[128], driver[128], libraries[192];
    void                             *impl;                        /* the backend's */
    haul__stream                     *compute, *upload, *download; /* may be one and the same */
    _Atomic(struct haul__allocator *) allocator;                   /* the memory layer's, made with the first tensor */
    _Atomic(struct haul__allocator *) pinned;                      /* of host memory pinned for this device */
    _Atomic(haul__kernel *)          *kernels; /* [HAUL__KERNEL_COUNT][HAUL_DTYPE_END], filled as needed */
    pthread_mutex_t                   kernels_lock;
    atomic_int                        lost; /* 1: a fault is being noted, 2: noted in why and why_status; final */
};

/* The backends of this build, and their names, by backend_slot. */
int         haul__backend_count(void);
const char *haul__backend_name(int slot);

/* HAUL_OK, or the recorded reason why the device cannot be used. NULL is an error naming `argument`. */
haul_status haul__device_check(const haul_device *device, const char *operation, const char *argument);

/* A fault that is final was recorded as the last error: the device is refused, with that error, from now on. */
void haul__device_lose(haul_device *device, haul_status status);

/* The device new tensors go to on this thread; records an error and returns NULL if that one is not usable. */
haul_device *haul__device_current(const char *operation);

/* Commands. Each waits for what the storages' uses demand, runs, and leaves its mark on them. `origin` names the
 * operation for messages. */
haul_status haul__submit_launch(haul_device *device, const haul__launch *launch, haul__storage *const *reads,
                                int read_count, haul__storage *const *writes, int write_count, const char *origin);
haul_status haul__submit_fill(haul__storage *to, size_t offset, size_t bytes, const void *pattern, size_t pattern_size,
                              const char *origin);
/* Within one device. */
haul_status haul__submit_copy(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                              size_t bytes, const char *origin);
/* Across a link; called by src/transfer only. host_owner: storage whose memory the host side is (its uses are honoured
 * and marked), or NULL for memory of the caller's: then the call returns when the copy is done. */
haul_status haul__submit_write(haul__storage *to, size_t offset, const void *host, haul__storage *host_owner,
                               size_t bytes, const char *origin);
haul_status haul__submit_read(void *host, haul__storage *host_owner, haul__storage *from, size_t offset, size_t bytes,
                              const char *origin);
haul_status haul__submit_peer(haul__storage *to, size_t to_offset, haul__storage *from, size_t from_offset,
                              size_t bytes, const char *origin); /* HAUL_UNSUPPORTED: not recorded, go by the host */

/* Library calls of the backend (gemm, convolutions) run between these two: begin waits for the storages, end marks
 * them. */
haul_status haul__submit_begin(haul_device *device, haul__storage *const *reads, int read_count,
                               haul__storage *const *writes, int write_count);
haul_status haul__submit_end(haul_device *device, haul__storage *const *reads, int read_count,
                             haul__storage *const *writes, int write_count, haul_status status);

/* The host is about to read / write the storage's memory itself (CPU tensors): wait for whoever must come first. */
haul_status haul__host_before(haul__storage *storage, bool write, const char *origin);

/* Waiting for points on streams. Whatever may make the host wait is told the operation for whose sake it is, which
 * reports name (haul/sync.h); NULL where it is not known. */
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

/* The backend's memory hooks, reported: drivers may wait in them. */
haul_status haul__device_alloc(haul_device *device, size_t bytes, haul__buffer *out, const char *operation);
void        haul__device_free(haul_device *device, haul__buffer *buffer, size_t bytes, const char *operation);
haul_status haul__device_host_alloc(haul_device *device, size_t bytes, void **out, void **handle,
                                    const char *operation);
void haul__device_host_free(haul_device *device, void *memory, void *handle, size_t bytes, const char *operation);
/* Report a call of a driver that began at start_ns, by haul__now_ns. haul/sync.h lists the actions. */
void    haul__driver_called(const haul_device *device, const char *operation, const char *action, size_t bytes,
                            int64_t start_ns);
int64_t haul__now_ns(void); /* monotonic */

/* Give a device its streams, when it is opened. Where commands are synchronous one stream serves as all three. */
haul_status haul__streams_open(haul_device *device);

/* The kernel of `id` for a dtype on the device, compiled on first use. NULL on failure. */
const haul__kernel *haul__kernel_get(haul_device *device, int id, haul_dtype dtype);

/* Disk cache of compiled programs: key is any text (source, options, driver, device). Load gives memory to haul__free
 * or NULL if there is none; a damaged entry counts as none. Store is best effort. Folder: $HAUL_CACHE_DIR, else
 * $XDG_CACHE_HOME/haul, else ~/.cache/haul. */
void *haul__cache_load(const char *key, size_t *bytes);
void  haul__cache_store(const char *key, const void *data, size_t bytes);

#endif
