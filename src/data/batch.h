/* How a loader's batches are made: from examples to tensors on the device. */
#ifndef HAUL_DATA_BATCH_H
#define HAUL_DATA_BATCH_H

#include <haul/data.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/error.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "data/example.h"

/* What is the same for all batches of a loader. */
typedef struct haul__recipe {
    haul_dataset *dataset;
    haul_device  *device;
    int64_t       batch; /* examples in a full one */
    int64_t       rows;  /* in the largest batch there can be */
    uint64_t      seed;
    bool          weighted; /* an example's random numbers depend on its position in the epoch */
    bool          drop_last;
} haul__recipe;

/* Which examples a batch has. */
typedef struct haul__portion {
    int64_t        epoch, number; /* of the batch */
    int64_t        n;
    const int64_t *indices; /* [n]; NULL if the dataset's count is unknown */
} haul__portion;

/* Reading in order, where the dataset's count is unknown: batches take their turn. */
typedef struct haul__sequence {
    pthread_mutex_t lock;
    pthread_cond_t  moved;
    int64_t         turn;     /* the batch that may read */
    int64_t         position; /* examples that were read */
    bool            over;     /* the end was reached, or reading failed */
} haul__sequence;

/* One field of a batch. Memory is kept from batch to batch, unless somebody else still holds it. */
typedef struct haul__column {
    haul__storage *host, *device;                 /* the latter NULL where the device is the CPU */
    haul__storage *host_lengths, *device_lengths; /* of a field that varies */
    uint8_t       *pile;                          /* its values, one after the other */
    size_t         pile_bytes, pile_capacity;
    haul_tensor   *tensor, *lengths; /* once the batch is made; references of ours */
} haul__column;

/* An example and its memory. */
typedef struct haul__seat {
    haul_example       example;
    haul__example_room room;
} haul__seat;

/* Room for one batch. */
typedef struct haul__batch_slot {
    haul__column columns[HAUL_MAX_FIELDS];
    haul__seat  *seats; /* one; as many as examples if the dataset's count is unknown */
    int64_t      seat_count;
    int64_t      size; /* of the batch that was made last */
} haul__batch_slot;

/* Make sure of the slot's memory. */
haul_status haul__batch_slot_prepare(haul__batch_slot *slot, const haul__recipe *recipe, const char *operation);

/* Read, transform and send the examples of a batch. Ends early, with HAUL_OK and without a batch, when *stop becomes
 * true. HAUL_END_OF_DATA if the dataset ended before. An error is put into *error; the calling thread's own stays what
 * it was. */
haul_status haul__batch_slot_fill(haul__batch_slot *slot, const haul__recipe *recipe, const haul__portion *portion,
                                  haul__sequence *stream, const atomic_bool *stop, haul__error_record *error);

/* In the child of a fork: the slot is as a worker of the parent left it, and what was under way is not awaited. */
void haul__batch_slot_adopt(haul__batch_slot *slot);

void haul__batch_slot_clear(haul__batch_slot *slot); /* gives the batch up, keeps the memory */
void haul__batch_slot_free(haul__batch_slot *slot);

#endif
