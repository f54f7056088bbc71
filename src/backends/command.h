/* A command is one piece of work for a device, as a value: what runs, on which memory, for which operation.
 *
 * Everything a device does, apart from allocating and waiting, is a command that passes through haul__submit. So one
 * place can count and watch commands. The one exception is a launch that is neither counted nor watched, on a device
 * whose kernels are functions of this process (device/launch_now.h). Pointers in a command are borrowed for the call;
 * code that keeps a command copies what they point to and holds the storages. */
#ifndef HAUL_BACKENDS_COMMAND_H
#define HAUL_BACKENDS_COMMAND_H

#include "backends/backend.h"

typedef enum haul__command_kind {
    HAUL__COMMAND_LAUNCH,   /* a kernel, over work items */
    HAUL__COMMAND_LIBRARY,  /* `run`, through which a backend's implementation computes */
    HAUL__COMMAND_COPY,     /* bytes from buffers[1] to buffers[0], on one device */
    HAUL__COMMAND_WRITE,    /* bytes from the host to buffers[0] */
    HAUL__COMMAND_READ,     /* bytes from the last buffer to the host */
    HAUL__COMMAND_PEER,     /* bytes from buffers[1], on another device of the backend, to buffers[0] */
    HAUL__COMMAND_FILL,     /* a pattern, repeated over bytes of buffers[0] */
    HAUL__COMMAND_CALLBACK, /* `run`, on the host, after all earlier commands of the stream */
} haul__command_kind;

typedef enum haul__stream_choice {
    HAUL__STREAM_COMPUTE,
    HAUL__STREAM_UPLOAD,
    HAUL__STREAM_DOWNLOAD,
    HAUL__STREAM_AHEAD /* uploads that are not needed yet */
} haul__stream_choice;

/* A region of a storage that starts at a byte. */
typedef struct haul__region {
    haul__storage *storage;
    size_t         offset; /* 0 for launches and library calls, whose params contain the offsets */
} haul__region;

/* Fields that a kind does not mention are 0. */
struct haul__command {
    haul__command_kind  kind;
    haul__stream_choice stream;
    const char         *operation; /* the operation that it is for: "haul_add"; never NULL */
    haul_device        *device;
    const haul__region *buffers; /* the written buffers first; a launch has at most HAUL__MAX_BUFFERS */
    int                 write_count, buffer_count;
    const void         *params; /* for launches, library calls and callbacks */
    size_t              params_size;

    /* launch, and a write or read whose kernel copies the elements from buffers[1] to buffers[0], which is only
     * submitted to a device that works in host memory (haul__device_reaches_host): every params struct begins with
     * int64_t items, the number of work items. The backend may distribute them over its processors in any way; each
     * runs once */
    const haul__kernel *kernel;
    int64_t             items;
    int64_t             grain; /* fewer work items than this are not worth splitting */
    bool checks; /* a kernel that checks indices gets a record after its buffers (backends/index_check.h) */
    const haul__buffer *record; /* the record; NULL on a synchronous backend, which makes a cleared one for the
                                 * launch and fails through haul__index_fail if a fault is noted */
    bool lanes; /* a kernel of the lanes form: where the prelude maps lanes to threads, 32 neighbouring threads work
                 * on an item */

    /* copies and fills */
    size_t   bytes;
    uint64_t copy;         /* the number of the copy over a link that it is a part of; 0: of none */
    bool     staged;       /* of a write or read: the pinned memory stands for pageable memory of the program */
    size_t   pattern_size; /* for a fill: 1, 2, 4 or 8; divides bytes and offset */
    uint64_t pattern;      /* its first bytes in memory */
    /* The host's side of a write or read with one buffer: the caller's memory. haul__submit then returns when the copy
     * is done. With two buffers the host's side is the one whose storage is in host memory: a write's buffers[1], a
     * read's buffers[0]. */
    union {
        const void *from_host;
        void       *to_host;
    };

    /* library call, callback; a callback submits no commands */
    haul_status (*run)(haul__stream *stream, const haul__command *command);
    const haul__implementation *by; /* for a library call: the implementation that `run` runs; NULL: none */
};

/* A backend's function for each kind of command. */
typedef haul_status haul__command_fn(haul__stream *stream, const haul__command *command);

/* Runs a command through a backend's list of functions. Library calls and callbacks call `run`. Does nothing for a
 * launch without items, or a copy or fill without bytes. */
haul_status haul__command_run(haul__command_fn *const functions[HAUL__COMMAND_CALLBACK], haul__stream *stream,
                              const haul__command *command);

/* The host memory of a write or read. */
const void *haul__command_source(const haul__command *write);
void       *haul__command_target(const haul__command *read);

#endif
