/* Devices and streams as data, which every room may look at: names, properties, and the places in which the rooms above
 * keep what is theirs. What is done with them is in backends and device. */
#ifndef HAUL_CORE_DEVICE_H
#define HAUL_CORE_DEVICE_H

#include <haul/device.h>
#include <pthread.h>
#include <stdatomic.h>

typedef struct haul__stream haul__stream;

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

    /* Commands whose STARTED and DONE somebody awaits, oldest first; changed under lock, looked at without. */
    _Atomic(struct haul__timed *) timed;
    struct haul__timed          **timed_end;
    atomic_int                    timed_count;
};

struct haul_device {
    const struct haul__backend          *backend;
    int                                  index;        /* in the backend */
    uint32_t                             mark;         /* HAUL__DEVICE_MARK: it is not an object (core/object.h) */
    int                                  backend_slot; /* of the backend in backends.def */
    int                                  slot;         /* in the registry: small, unique, stable */
    bool                                 valid;
    char                                 name[32];
    char                                 why[448]; /* of an invalid one */
    haul_status                          why_status;
    haul_device_properties               properties;
    char                                 model[128], driver[128], libraries[192];
    void                                *impl;                        /* the backend's */
    haul__stream                        *compute, *upload, *download; /* may be one and the same */
    _Atomic(struct haul__allocator *)    allocator; /* the memory layer's, made with the first tensor */
    _Atomic(struct haul__allocator *)    pinned;    /* of host memory pinned for this device */
    _Atomic(struct haul__kernel *)      *kernels;   /* [by id][HAUL_DTYPE_END], filled as needed */
    pthread_mutex_t                      kernels_lock;
    _Atomic(struct haul__index_faults *) index_faults; /* made with the first kernel that checks indices */
    atomic_int                           lost; /* 1: a fault is being noted, 2: noted in why and why_status; final */
};

/* The device that haul_tensor_device answers on failure; every function refuses it. */
haul_device *haul__device_invalid(void);

/* A fault that is final was recorded as the last error: the device is refused, with that error, from now on. */
void haul__device_lose(haul_device *device, haul_status status);

#endif
