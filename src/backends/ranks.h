/* Libraries that move data between the devices of several processes, which are the ranks of a group: NCCL.
 *
 * The data does not pass through the memory of the host. None of these libraries adds for a program: sums are made by
 * kernels of Haul's own (group/direct_sum.c). */
#ifndef HAUL_BACKENDS_RANKS_H
#define HAUL_BACKENDS_RANKS_H

#include "backends/backend.h"
#include "backends/command.h"

enum { HAUL__RANKS_ID = 128, HAUL__RANKS_PLACE = 32 };

/* Bytes that a rank sends to another one, or receives from it. Messages between two ranks arrive in order. */
typedef struct haul__rank_message {
    int          rank; /* the other one */
    bool         sends;
    haul__region at;
    size_t       bytes;
} haul__rank_message;

/* Functions return HAUL_OK, or record an error and return its status. */
typedef struct haul__rank_library {
    const char *name; /* "nccl" */
    const char *file; /* "libnccl.so.2" */

    /* Opens the library. False, with the reason and the fix in `why`, if it cannot be used. */
    bool (*usable)(char *why, size_t size);
    void (*version)(char *out, size_t size);
    /* A name that differs between the devices of a host, and is the same in all its processes. */
    void (*place)(const haul_device *device, char out[HAUL__RANKS_PLACE]);

    /* One rank makes an identifier, and all ranks connect by it; none returns before all have called. */
    haul_status (*make_id)(char id[HAUL__RANKS_ID]);
    haul_status (*connect)(haul_device *device, const char id[HAUL__RANKS_ID], int rank, int size, void **connection);
    /* Does not wait for the other ranks. Exchanges under way end without being complete. */
    void (*disconnect)(haul_device *device, void *connection);

    /* Submits messages to a stream, as one exchange: the counterparts are in an exchange of each of the other ranks. */
    haul_status (*exchange)(haul__stream *s, void *connection, const haul__rank_message *messages, int count);
    /* Fails if an exchange that was submitted has failed. Does not wait. */
    haul_status (*check)(haul_device *device, void *connection);
} haul__rank_library;

extern const haul__rank_library haul__cuda_ranks; /* of the devices of haul__backend_cuda */

#endif
