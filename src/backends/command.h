/* A command is one piece of work for a device, as a value: what runs, on what memory, for which operation.
 *
 * Everything a device does, apart from allocating and waiting, is a command that went through haul__submit. So commands
 * can be counted, watched, recorded and replayed in one place. Pointers in a command are borrowed for the call; whoever
 * keeps a command copies what they point to and keeps the storages. */
#ifndef HAUL_BACKENDS_COMMAND_H
#define HAUL_BACKENDS_COMMAND_H

#include "backends/backend.h"

typedef enum haul__command_kind {
    HAUL__COMMAND_LAUNCH,   /* a kernel, over work items */
    HAUL__COMMAND_LIBRARY,  /* `run`, by which an implementation of the backend's computes */
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
    HAUL__STREAM_DOWNLOAD
} haul__stream_choice;

/* A storage from a byte on. */
typedef struct haul__region {
    haul__storage *storage;
    size_t         offset; /* 0 in launches and library calls, whose params have the offsets */
} haul__region;

/* Fields that a kind does not name stay 0. */
struct haul__command {
    haul__command_kind    kind;
    haul__stream_choice   stream;
    const char           *operation; /* for whose sake: "haul_add"; never NULL */
    haul_device          *device;
    const haul__region   *buffers; /* the written ones first; a launch has at most HAUL__MAX_BUFFERS */
    int                   write_count, buffer_count;
    const void           *params; /* of launches, library calls and callbacks; without pointers that matter */
    size_t                params_size;
    const haul__slot_use *slots; /* what in the params changes from step to step */
    int                   slot_count;

    /* launch: every params struct begins with int64_t items, the number of work items, which the backend may spread
     * over its processors in any way; each is done once */
    const haul__kernel *kernel;
    int64_t             items;
    int64_t             grain; /* work items below which splitting does not pay */
    bool checks; /* a kernel that checks indices: behind the buffers it gets a record (backends/index_check.h) */
    const haul__buffer *record; /* which; NULL on a synchronous backend, which makes one for the launch, cleared, and
                                   fails by haul__index_fail if something is noted */
    bool lanes; /* a kernel of the lanes form: where its prelude makes lanes threads, 32 neighbouring ones
                   work on an item */

    /* copies and fills */
    size_t   bytes;
    size_t   pattern_size; /* of a fill: 1, 2, 4 or 8, dividing bytes and offset */
    uint64_t pattern;      /* its first bytes in memory */
    /* The host's side of a write or read that has one buffer: memory of the caller's. haul__submit then returns when
     * the copy is done. With two buffers the host's side is the one whose storage is in host memory: a write's
     * buffers[1], a read's buffers[0]. */
    union {
        const void *from_host;
        void       *to_host;
    };

    /* library call, callback; a callback submits no commands */
    haul_status (*run)(haul__stream *stream, const haul__command *command);
};

/* What a backend does for a kind of command. */
typedef haul_status haul__command_fn(haul__stream *stream, const haul__command *command);

/* Do what the command's kind says, by a backend's list of functions. Library calls and callbacks run themselves, and
 * nothing happens for a launch without items or a copy or fill without bytes. */
haul_status haul__command_run(haul__command_fn *const functions[HAUL__COMMAND_CALLBACK], haul__stream *stream,
                              const haul__command *command);

/* The host's memory of a write or read. */
const void *haul__command_source(const haul__command *write);
void       *haul__command_target(const haul__command *read);

/* A copy that has its own buffers, params and slots, for haul__command_free; storages are not kept. */
haul_status haul__command_copy(haul__command *out, const haul__command *command);
void        haul__command_free(haul__command *copy);

/* The command with these slots; its params are then in `room`, which has room for params_size. values == NULL: as it
 * is. */
haul__command haul__command_with(const haul__command *command, const haul__slot_values *values, void *room);

#endif
