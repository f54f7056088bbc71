/* The table of functions that a backend fills. src/device is made of these tables; other rooms ask src/device.
 *
 * A backend offers devices, memory on them, streams of commands, and kernels. Streams are in order: a command starts
 * when the ones before it on its stream are done. Functions return HAUL_OK or record an error with haul__fail and
 * return its status. All may be called from any thread; the device layer makes sure that calls on one stream do not
 * overlap. Unless said otherwise a function is required. */
#ifndef HAUL_BACKENDS_BACKEND_H
#define HAUL_BACKENDS_BACKEND_H

#include <haul/custom.h>

#include "backends/slot.h"
#include "core/device.h"
#include "core/tensor.h"

/* A compiled kernel: what the backend needs to launch it. */
typedef struct haul__kernel {
    void *handle;
    void *extra; /* the backend's own */
} haul__kernel;

/* What the backend is asked to do; backends/command.h. */
typedef struct haul__command haul__command;

/* Of a launch. Kernels have seven at most (KERNEL7 of the preludes). */
#define HAUL__MAX_BUFFERS 8

/* What to compile: the kernels of one unit (the kernel text of one file) for one dtype. */
typedef struct haul__unit {
    const char *name;   /* "pool": the file's stem; for pointwise rows "pointwise" */
    const char *text;   /* kernel text without preludes; NULL for backends that bring their kernels along */
    const char *kernel; /* "max_pool2d": the entry is k_max_pool2d_f32 */
    haul_dtype  dtype;
    haul_kernel_function *const *functions; /* of a kernel that the program added: it has been compiled for the CPU, and
                                               here is what it became for each dtype; NULL for others */
} haul__unit;

/* A way of the backend's own to compute a matrix product or a convolution; backends/implementation.h. */
typedef struct haul__implementation haul__implementation;

typedef enum haul__description {
    HAUL__LIBRARIES,  /* the libraries that were found, which it opens for that */
    HAUL__MEMORY_LEFT /* what is left, and who else has some, for messages when the device is full: "1.5 GiB of 80.0 GiB
                         are free, other processes hold 70.0 GiB (process 4242 most)" */
} haul__description;

/* At most 24 functions. Only src/device reads it. */
typedef struct haul__backend {
    size_t      size; /* sizeof(haul__backend) of who filled it */
    const char *name; /* "cpu" */

    /* How many devices there are, without opening them. On none: 0, and the reason in `why`. */
    int (*count)(char *why, size_t why_size);
    /* Fill device->properties and device->impl, taking nothing of the device yet: devices are opened to be listed and
     * compared. A device that cannot be used: an error saying why. */
    haul_status (*open)(haul_device *device, int index);
    /* Optional: what its use takes, once, before its first stream. */
    haul_status (*start)(haul_device *device);

    /* Memory, aligned to at least 64 bytes. HAUL_OUT_OF_MEMORY when the device is full. */
    haul_status (*alloc)(haul_device *device, size_t bytes, haul__buffer *out);
    void (*free)(haul_device *device, haul__buffer *buffer);
    /* Optional: host memory the device can copy from at full speed (pinned). NULL: copies use ordinary memory. */
    haul_status (*host_alloc)(haul_device *device, size_t bytes, void **out, void **handle);
    void (*host_free)(haul_device *device, void *memory, void *handle);

    /* Streams. `queue` is the backend's handle. */
    haul_status (*stream_open)(haul_device *device, void **queue);
    void (*stream_close)(haul_device *device, void *queue);

    /* Hand a command of any kind but a callback to the device; backends/command.h says what each kind is. Nothing
     * happens for one without items or bytes. Commands are asynchronous unless the backend is synchronous; host memory
     * of writes and reads stays until the command is done. A library call is c->run(s, c), whose answer is returned. A
     * peer copy between devices that do not reach each other is HAUL_UNSUPPORTED, with nothing recorded. */
    haul_status (*submit)(haul__stream *s, const haul__command *c);
    haul_status (*compile)(haul_device *device, const haul__unit *unit, haul__kernel *out);
    /* Waiting. Optional for a synchronous backend, whose commands are done when they return. The host waits for an
     * event, or, if that is NULL, for all of the stream. */
    haul_status (*sync)(haul__stream *s, void *event);
    haul_status (*event_record)(haul__stream *s, void **event); /* reached when all submitted so far is done */
    /* Later commands of s wait; same backend only. HAUL_UNSUPPORTED (nothing recorded) lets the host wait instead. */
    haul_status (*event_wait)(haul__stream *s, void *event);
    /* Optional: say, without waiting, if the event is reached. NULL: nobody knows before the host waits. */
    haul_status (*event_query)(haul_device *device, void *event, bool *reached);
    void (*event_free)(haul_device *device, void *event);

    /* Optional, all four or none: when commands ran, by the device's clock. begin and end stand around the commands of
     * one haul__command and record nothing where they fail. read is called when they are done: how long after the first
     * command of `origin`, an earlier timing of the same stream or the same one, theirs began, and how long they took,
     * in ns. NULL: nobody knows. */
    haul_status (*timing_begin)(haul__stream *s, void **timing);
    haul_status (*timing_end)(haul__stream *s, void *timing);
    haul_status (*timing_read)(haul_device *device, void *timing, void *origin, int64_t *after, int64_t *duration);
    void (*timing_free)(haul_device *device, void *timing);

    /* Optional, all three or none: a list of commands of the compute stream as one. capture keeps copies of what it
     * needs of the commands; their storages stay as long as the handle. HAUL_UNSUPPORTED (nothing recorded): they are
     * submitted one by one. replay runs them in order with the slots' bytes replaced; values == NULL: as captured.
     * Calls for one handle do not overlap. NULL: lists are submitted one by one. */
    haul_status (*capture)(haul_device *device, const haul__command *commands, int count, void **handle);
    haul_status (*replay)(haul__stream *s, void *handle, const haul__slot_values *values);
    void (*capture_free)(haul_device *device, void *handle);

    /* Optional: something in words; "" where that is not known. */
    void (*describe)(haul_device *device, haul__description what, char *out, size_t size);

    /* What it has of its own for matrix products and convolutions, in order of preference; `refuses` of the entry
     * behind the last is NULL. NULL: kernels compute all of them. */
    const haul__implementation *implementations;

    bool synchronous;  /* commands are done when they return, and may overlap on one stream */
    bool host_memory;  /* buffers have a host address */
    bool no_data;      /* meta: shapes only; none of the commands is ever called */
    bool only_one;     /* there is one device, called by the backend's name without a number */
    bool precompiled;  /* compile needs no text */
    bool peers;        /* its devices copy from one another, where they reach each other */
    bool shared_tiles; /* its prelude has SHARED: the matrix product's tiles are made by threads that share memory */
} haul__backend;

/* Adding a backend is a folder and a line of backends.def. */
#define X(name) extern const haul__backend haul__backend_##name;
#include "backends/backends.def"
#undef X

#endif
