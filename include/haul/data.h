/* Batches and the loader.
 *
 * A loader cuts a dataset (dataset.h) into batches: worker threads read and transform examples on the CPU, batches are
 * moved to the device ahead of use. The batches of an epoch depend on the seed and the epoch's number only, never on
 * the number of workers. */
#ifndef HAUL_DATA_H
#define HAUL_DATA_H

#include <haul/base.h>
#include <haul/dataset.h>
#include <haul/error.h>
#include <haul/tensor.h>
#include <haul/transform.h>

HAUL_BEGIN

/* One batch. It belongs to the loader and is valid until the next call of haul_loader_next or haul_loader_start. */
typedef struct haul_batch {
    haul_tensor  *x, *y; /* the first two fields, [n, ...] on the loader's device; HAUL_NONE if there is no second */
    int64_t       index; /* from 0, within the epoch */
    int64_t       size;  /* n: smaller in the last batch unless drop_last */
    int           count; /* fields */
    haul_tensor  *tensors[HAUL_MAX_FIELDS]; /* all fields */
    haul_tensor  *lengths[HAUL_MAX_FIELDS]; /* i64 [n] for fields that vary, else HAUL_NONE */
    haul_dataset *dataset;                  /* names the fields */
} haul_batch;

/* The field of that name, [n, ...]. One that varies is as large as the longest example of the batch, and padded behind
 * the end of the others. */
HAUL_API haul_tensor *haul_batch_tensor(const haul_batch *batch, const char *name);
/* The size of each example in the dimension that varies, i64 [n], of a field that has one. */
HAUL_API haul_tensor *haul_batch_lengths(const haul_batch *batch, const char *name);

typedef struct HAUL__DESIGNATED haul_loader_options {
    haul_dataset *dataset; /* positional; the loader holds it */
    HAUL__GUARD
    int64_t      batch;   /* examples in a batch; default 1 */
    bool         shuffle; /* a new order each epoch, from the seed; not with .weights, nor if the count is unknown */
    uint64_t     seed;
    bool         drop_last; /* leave an incomplete last batch out */
    int          workers;   /* threads; default none: the calling thread does the work */
    int          prefetch;  /* batches ahead; default 2 for each worker */
    haul_device *device;    /* where batches go; default: the thread's current device at this call */
    haul_tensor *weights;   /* [count] f32 or f64 on the CPU: examples are drawn by weight, with replacement */
    int64_t      samples;   /* with weights: how many examples an epoch has; default: the dataset's count */
} haul_loader_options;

/* haul_loader_new(dataset, .batch = 64, .shuffle = true, .workers = 2)
 *
 * With weights an example may occur several times in an epoch. Each time it gets other random numbers: they depend on
 * the position in the epoch instead of the index. */
#define haul_loader_new(...) haul_loader_new_with(HAUL__OPTIONS(haul_loader_options, .dataset = __VA_ARGS__))
HAUL_API haul_loader *haul_loader_new_with(const haul_loader_options *options);

/* Begin epoch number `epoch` (any number; it selects the order and the random transforms), at batch `first` when
 * continuing within it. Ends an epoch under way. After a successful start haul_error_status() is HAUL_OK until
 * something fails, so it can be checked after the loop. If the count is unknown, the examples before batch `first` are
 * read again and thrown away. */
HAUL_API haul_status haul_loader_start(haul_loader *loader, int64_t epoch);
HAUL_API haul_status haul_loader_start_at(haul_loader *loader, int64_t epoch, int64_t first);

/* The next batch, or NULL at the end of the epoch and on failure; haul_loader_status distinguishes the two. */
HAUL_API const haul_batch *haul_loader_next(haul_loader *loader);
/* How the last haul_loader_next ended: HAUL_OK if it returned a batch (and after haul_loader_start), HAUL_END_OF_DATA
 * after the last batch of the epoch, or the error. */
HAUL_API haul_status haul_loader_status(const haul_loader *loader);
HAUL_API int64_t     haul_loader_batches(const haul_loader *loader); /* in an epoch; HAUL_UNKNOWN, also on failure */

HAUL_END

#endif
