/* The table of functions that a backend provides. src/device calls these tables; other layers call src/device.
 *
 * A backend offers devices, memory on them, streams of commands, and kernels. Streams are in order: a command starts
 * when the commands before it on its stream are done. Functions return HAUL_OK, or record an error with haul__fail and
 * return its status. Any thread may call them; the device layer makes sure that calls for one stream do not overlap. A
 * function is required unless its comment says otherwise.
 *
 * A backend adds the device memory that it takes in other ways than `alloc` (contexts, code, libraries) to
 * device->overhead, as far as it is known. */
#ifndef HAUL_BACKENDS_BACKEND_H
#define HAUL_BACKENDS_BACKEND_H

#include <haul/custom.h>

#include "core/device.h"
#include "core/tensor.h"

/* A compiled kernel: what the backend needs to launch it. */
typedef struct haul__kernel {
    void                 *handle;
    void                 *extra;    /* the backend's own */
    haul_kernel_function *function; /* of a synchronous backend with host memory: computes a range of work items, from
                                     * the buffers' host addresses; NULL on other backends */
    char name[64];                  /* for events: "softmax_f32" */
} haul__kernel;

/* The work that the backend is asked to do; backends/command.h. */
typedef struct haul__command haul__command;

/* Per launch. Kernels have seven at most (KERNEL7 of the preludes). */
#define HAUL__MAX_BUFFERS 8

/* What to compile: the kernels of one unit (the kernel text of one file) for one dtype. */
typedef struct haul__unit {
    const char                  *name;   /* "pool": the file's stem; for pointwise rows "pointwise" */
    const char                  *text;   /* kernel text without preludes; NULL for backends with built-in kernels */
    const char                  *kernel; /* "max_pool2d": the entry is k_max_pool2d_f32 */
    haul_dtype                   dtype;
    haul_kernel_function *const *functions; /* for a kernel that the program added: its functions compiled for the
                                             * CPU, by dtype; NULL for others */
} haul__unit;

/* Parts of a buffer begin at multiples of so many bytes. */
enum { HAUL__SUB_BUFFER_ALIGNMENT = 8 << 10 };

/* A backend's own implementation of a matrix product or a convolution; backends/implementation.h. */
typedef struct haul__implementation haul__implementation;

typedef enum haul__description {
    HAUL__LIBRARIES,  /* the libraries that were found; the call opens them */
    HAUL__FREE_BYTES, /* the bytes of memory that are left, as digits only */
    HAUL__MEMORY_LEFT /* the memory that is left, and who holds the rest, for messages when the device is full: "1.5
                       * GiB of 80.0 GiB are free, other processes hold 70.0 GiB (process 4242 most)" */
} haul__description;

/* At most 24 functions. Only src/device reads it. */
typedef struct haul__backend {
    size_t      size; /* sizeof(haul__backend) where the table was compiled */
    const char *name; /* "cpu" */

    /* The number of devices, without opening them. If there are none: 0, and the reason in `why`. */
    int (*count)(char *why, size_t why_size);
    /* Fills device->properties and device->impl without claiming resources of the device, because devices are opened
     * just to be listed and compared. Fails for a device that cannot be used, with the reason. */
    haul_status (*open)(haul_device *device, int index);
    /* Optional: claims what its use needs, once, before its first stream. */
    haul_status (*start)(haul_device *device);

    /* Memory, aligned to at least 64 bytes. HAUL_OUT_OF_MEMORY if the device is full. If `of` is not NULL, a buffer for
     * the `bytes` from that place on, which `free` releases like others: only devices with device->sub_buffers have
     * those. */
    haul_status (*alloc)(haul_device *device, size_t bytes, const haul__buffer_address *of, haul__buffer *out);
    void (*free)(haul_device *device, haul__buffer *buffer);
    /* Optional: host memory that the device copies at full speed (pinned). NULL: copies use pageable memory. */
    haul_status (*host_alloc)(haul_device *device, size_t bytes, void **out, void **handle);
    void (*host_free)(haul_device *device, void *memory, void *handle);
    /* Optional, with the two: true if the device copies this host memory at full speed, which the program or another
     * library obtained. NULL: it does not, or it is unknown. */
    bool (*host_is_pinned)(haul_device *device, const void *memory, size_t bytes);

    /* Optional, for devices whose memory other libraries of the process use. `holds` is true if all of these bytes are
     * memory of the device, whoever obtained it. `sync_device` makes the host wait for everything on the device,
     * whoever submitted it. */
    bool (*holds)(haul_device *device, const void *memory, size_t bytes);
    haul_status (*sync_device)(haul_device *device);

    /* Streams. `queue` is the backend's handle. */
    haul_status (*stream_open)(haul_device *device, void **queue);
    void (*stream_close)(haul_device *device, void *queue);

    /* Submits a command of any kind except a callback; backends/command.h documents the kinds. Does nothing for one
     * without items or bytes. Commands are asynchronous unless the backend is synchronous; the host memory of writes
     * and reads stays valid until the command is done. For a library call it returns the result of c->run(s, c). For a
     * peer copy between devices without a direct link, and for a write or read with a kernel if the driver cannot use
     * that host memory, it returns HAUL_UNSUPPORTED, without recording an error. */
    haul_status (*submit)(haul__stream *s, const haul__command *c);
    haul_status (*compile)(haul_device *device, const haul__unit *unit, haul__kernel *out);
    /* Waiting. Optional for a synchronous backend, whose commands are done when they return. Makes the host wait for an
     * event or, if it is NULL, for everything on the stream. */
    haul_status (*sync)(haul__stream *s, void *event);
    haul_status (*event_record)(haul__stream *s, void **event); /* reached when everything submitted so far is done */
    /* Later commands of s wait; only within one backend. HAUL_UNSUPPORTED (no error recorded) makes the host wait
     * instead. */
    haul_status (*event_wait)(haul__stream *s, void *event);
    /* Optional: returns whether the event is reached, without waiting. NULL: unknown until the host waits. */
    haul_status (*event_query)(haul_device *device, void *event, bool *reached);
    void (*event_free)(haul_device *device, void *event);

    /* Optional, all four or none: the times of commands on the device's clock. begin and end surround the commands of
     * one haul__command, and record nothing if they fail. read is called when they are done. It gives, in ns, how long
     * after the first command of `origin` (an earlier timing of the same stream, or this one) they began, and how long
     * they took. NULL: unknown. */
    haul_status (*timing_begin)(haul__stream *s, void **timing);
    haul_status (*timing_end)(haul__stream *s, void *timing);
    haul_status (*timing_read)(haul_device *device, void *timing, void *origin, int64_t *after, int64_t *duration);
    void (*timing_free)(haul_device *device, void *timing);

    /* Optional: a text for messages; "" if it is unknown. */
    void (*describe)(haul_device *device, haul__description what, char *out, size_t size);

    /* Its own implementations of matrix products and convolutions, in order of preference; the entry after the last has
     * `refuses` NULL. NULL: kernels compute all of them. */
    const haul__implementation *implementations;

    /* The names of its devices, if they are opened only by name, as "sim:h200:0": what follows the backend's name and
     * ":", NULL after the last. `count` then returns 0, and gives the reason that lists of devices show. NULL: they are
     * numbered. */
    const char *const *names;

    /* Its driver takes requests of more than half of this many bytes, a power of two, in whole pages of this size. 0:
     * as requested. */
    size_t page;

    /* DLPack's number for devices of this kind, whose data pointers are the addresses of buffers. 0: other libraries
     * cannot use its buffers. */
    int dlpack;

    bool synchronous;  /* commands are done when they return, and may overlap on one stream */
    bool host_memory;  /* buffers have a host address */
    bool addresses;    /* a buffer's handle is an address, so a part of a buffer is one, too */
    bool no_data;      /* meta: only shapes; none of the command functions is ever called */
    bool only_one;     /* it has one device, whose name is the backend's without a number */
    bool precompiled;  /* compile needs no text */
    bool peers;        /* its devices can copy to each other directly if they are linked */
    bool reaches_host; /* kernels of its devices that are processors of the host work on host memory, too: submit takes
                        * writes and reads with a kernel */
    bool fills_words;  /* its command for fills repeats at most 4 bytes; longer patterns of unequal halves take far
                        * longer */
    bool shared_tiles; /* its prelude has SHARED: groups of threads compute tiles of the matrix product in shared
                        * memory */
} haul__backend;

/* To add a backend, add a folder and a line in backends.def. */
#define X(name) extern const haul__backend haul__backend_##name;
#include "backends/backends.def"
#undef X

#endif
