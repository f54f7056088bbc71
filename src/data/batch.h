/* How a loader's batches are made: from examples to tensors on the device. */
#ifndef HAUL_DATA_BATCH_H
#define HAUL_DATA_BATCH_H

#include <stdatomic.h>

#include "core/error.h"
#include "core/tensor.h"
#include "data/dataset.h"
#include "data/transform.h"

/* What is the same for all batches of a loader. */
typedef struct haul__recipe {
    haul_dataset     *dataset;
    haul_device      *device;
    int64_t           batch; /* examples in a full one */
    uint64_t          seed;
    haul__normaliser *normaliser; /* apart, since it is large */
    haul__augment     augment;
    bool              augmented;
} haul__recipe;

/* Room for one batch. Memory is kept from batch to batch, unless somebody else still holds it. */
typedef struct haul__batch_slot {
    haul__storage *host_x, *host_y;     /* pinned where the device has such memory */
    haul__storage *device_x, *device_y; /* NULL where the device is the CPU */
    uint8_t       *picture;             /* two examples: as read, and cropped */
    haul_tensor   *x, *y;               /* the batch, once it was filled; references of ours */
} haul__batch_slot;

/* Make sure of the slot's memory. */
haul_status haul__batch_slot_prepare(haul__batch_slot *slot, const haul__recipe *recipe, const char *operation);

/* Read, transform and send examples indices[0 ... n - 1] of an epoch. Ends early, with HAUL_OK and without a batch,
 * when *stop becomes true. An error is put into *error; the calling thread's own stays what it was. */
haul_status haul__batch_slot_fill(haul__batch_slot *slot, const haul__recipe *recipe, int64_t epoch,
                                  const int64_t *indices, int64_t n, const atomic_bool *stop,
                                  haul__error_record *error);

/* In the child of a fork: the slot is as a worker of the parent left it, and what was under way is not awaited. */
void haul__batch_slot_adopt(haul__batch_slot *slot);

void haul__batch_slot_clear(haul__batch_slot *slot); /* gives the batch up, keeps the memory */
void haul__batch_slot_free(haul__batch_slot *slot);

#endif
