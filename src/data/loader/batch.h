/* How a loader makes its batches: from examples to tensors on the device. */
#ifndef HAUL_DATA_LOADER_BATCH_H
#define HAUL_DATA_LOADER_BATCH_H

#include <haul/data.h>
#include <pthread.h>
#include <stdatomic.h>

#include "core/error.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "data/example.h"

/* Settings that all batches of a loader share. */
typedef struct haul__batch_spec {
    haul_dataset *dataset;
    haul_device  *device;
    int64_t       batch; /* examples in a full batch */
    int64_t       rows;  /* examples in the largest possible batch */
    uint64_t      seed;
    bool          weighted; /* an example's random numbers depend on its position in the epoch */
    bool          drop_last;
} haul__batch_spec;

/* The examples of a batch. */
typedef struct haul__batch_range {
    int64_t        epoch, number; /* of the batch */
    int64_t        n;             /* examples in it */
    const int64_t *indices;       /* [n]; NULL if the dataset's count is unknown */
} haul__batch_range;

/* For reading in order, if the dataset's count is unknown: batches take turns. */
typedef struct haul__sequence {
    pthread_mutex_t lock;
    pthread_cond_t  moved;
    int64_t         turn;     /* the batch that may read */
    int64_t         position; /* examples read so far */
    bool            over;     /* the data has ended, or reading failed */
} haul__sequence;

/* One field of a batch. Its memory is reused for the next batch, unless it still has another owner. */
typedef struct haul__column {
    haul__storage *host, *device;                 /* device is NULL for the CPU */
    haul__storage *host_lengths, *device_lengths; /* for a field that varies */
    uint8_t       *ragged;                        /* its values, one after the other */
    size_t         ragged_bytes, ragged_capacity;
    haul_tensor   *tensor, *lengths; /* set once the batch is made; holds references */
} haul__column;

/* An example with its memory. */
typedef struct haul__stored_example {
    haul_example         example;
    haul__example_memory memory;
} haul__stored_example;

/* Memory for one batch. */
typedef struct haul__batch_slot {
    haul__column          columns[HAUL_MAX_FIELDS];
    haul__stored_example *examples; /* one example, or as many as the batch has if the dataset's count is unknown */
    int64_t               example_count;
    int64_t               size; /* of the batch that was made last */
} haul__batch_slot;

/* Allocates the slot's memory if necessary. */
haul_status haul__batch_slot_prepare(haul__batch_slot *slot, const haul__batch_spec *spec, const char *operation);

/* Reads, transforms and sends the examples of a batch. If *stop becomes true, it ends early and returns HAUL_OK without
 * a batch. Returns HAUL_END_OF_DATA if the dataset ended before. An error goes to *error; the calling thread's own
 * error does not change. */
haul_status haul__batch_slot_fill(haul__batch_slot *slot, const haul__batch_spec *spec, const haul__batch_range *range,
                                  haul__sequence *stream, const atomic_bool *stop, haul__error_record *error);

/* In the child of a fork: the slot is as a worker of the parent left it, and copies in flight are not awaited. */
void haul__batch_slot_adopt(haul__batch_slot *slot);

void haul__batch_slot_clear(haul__batch_slot *slot); /* gives up the batch but keeps the memory */
void haul__batch_slot_free(haul__batch_slot *slot);

#endif
