/* Devices and streams as plain data that every layer may read: names, properties, and slots for what the layers above
 * attach. The functions that act on them are in backends and device. */
#ifndef HAUL_CORE_DEVICE_H
#define HAUL_CORE_DEVICE_H

#include <haul/device.h>
#include <pthread.h>
#include <stdatomic.h>

typedef struct haul__stream haul__stream;

#define HAUL__MAX_DEVICES    32
#define HAUL__DEVICE_STREAMS 4
#define HAUL__MAX_STREAMS    (HAUL__DEVICE_STREAMS * HAUL__MAX_DEVICES)
#define HAUL__MAX_POINTS     8

/* In-order queue of commands. Tickets count its commands. */
struct haul__stream {
    haul_device        *device;
    void               *queue;
    int                 id;    /* small, unique */
    bool                eager; /* for copies: every command records an event, so that waits end before later ones */
    pthread_mutex_t     lock;
    atomic_ullong       submitted;                /* ticket of the newest command */
    atomic_ullong       completed;                /* all tickets up to this one are known to be done */
    atomic_ullong       after[HAUL__MAX_STREAMS]; /* by stream id: new commands here run after that ticket there */
    struct haul__point *points[HAUL__MAX_POINTS]; /* the most recently recorded events; guarded by lock */
    int                 next_point;

    /* Commands whose STARTED and DONE events have a subscriber, oldest first. Changed under the lock, read without
     * it. */
    _Atomic(struct haul__timed *) timed;
    struct haul__timed          **timed_end;
    void *anchor; /* of the compute stream: the timing of the command of the device that was reported last; NULL:
                   * none. Guarded by its lock */
    int64_t    anchor_began; /* when it began, on the host's clock */
    atomic_int timed_count;
};

struct haul_device {
    const struct haul__backend          *backend;
    int                                  index;        /* the device's number within its backend */
    uint32_t                             mark;         /* HAUL__DEVICE_MARK: not an object (core/object.h) */
    int                                  backend_slot; /* the backend's place in backends.def */
    int                                  slot;         /* in the registry: small, unique, stable */
    bool                                 valid;
    char                                 name[32];
    char                                 why[448]; /* if the device is invalid */
    haul_status                          why_status;
    haul_device_properties               properties;
    char                                 model[128], driver[128], libraries[192];
    void                                *impl;        /* owned by the backend */
    bool                                 sub_buffers; /* parts of its buffers can have handles of their own */
    bool                                 strided;     /* work items take every n-th item, as on GPUs; else a run */
    haul__stream                        *compute, *upload, *download; /* may be the same stream */
    haul__stream                        *ahead;     /* for uploads that let others pass; may be the same, too */
    _Atomic(struct haul__allocator *)    allocator; /* owned by the memory layer, made with the first tensor */
    _Atomic(struct haul__allocator *)    pinned;    /* the allocator of host memory pinned for this device */
    _Atomic(struct haul__kernel *)      *kernels;   /* [by id][HAUL_DTYPE_END], filled on demand */
    atomic_uchar                        *foreseen;  /* the same order: 1 for a kernel that a dry run would launch */
    pthread_mutex_t                      kernels_lock;
    _Atomic(struct haul__index_faults *) index_faults; /* made with the first kernel that checks indices */
    atomic_llong                         obtained;     /* bytes of memory that src/device obtained and has not freed */
    atomic_llong                         overhead; /* bytes that the backend's driver and libraries took, as known */
    atomic_llong                         link_bytes, link_ns; /* copies that were timed (device/link.h) */
    atomic_int                           lost; /* 1: a fault is being recorded; 2: it is in why and why_status, and
                                                * final */
};

/* All streams of a device; NULL before it is started. */
static inline void haul__device_streams(const haul_device *device, haul__stream *out[HAUL__DEVICE_STREAMS])
{
    out[0] = device->upload;
    out[1] = device->ahead;
    out[2] = device->compute;
    out[3] = device->download;
}

/* What haul_tensor_device returns on failure; every function refuses it. */
haul_device *haul__device_invalid(void);

/* A final fault became the last error: the device is refused from now on, with that error. */
void haul__device_lose(haul_device *device, haul_status status);

#endif
