/* Loaders: batches of a dataset.
 *
 * A loader cuts a dataset (dataset.h) into batches. Worker threads read and transform examples on the CPU, and batches
 * are moved to the device before they are needed. The batches of an epoch depend only on the seed and the number of the
 * epoch, never on the number of workers.
 *
 *     haul_loader *loader = haul_loader_new(dataset, .batch = 64, .shuffle = true, .workers = 2);
 *     for (int64_t epoch = 1; epoch <= 10 && !haul_loader_start(loader, epoch); epoch++)
 *         for (const haul_batch *b; (b = haul_loader_next(loader));)
 *             train(b->x, b->y);
 *     if (haul_error_status())
 *         fprintf(stderr, "%s\n", haul_error_message()); */
#ifndef HAUL_DATA_H
#define HAUL_DATA_H

#include <haul/base.h>
#include <haul/dataset.h>
#include <haul/error.h>
#include <haul/tensor.h>
#include <haul/transform.h>

HAUL_BEGIN

/* A batch. It belongs to the loader and is valid until the next call of haul_loader_next or haul_loader_start. */
typedef struct haul_batch {
    /* x: the first field, [n, ...] on the loader's device; y: the second field, HAUL_NONE if there is none */
    haul_tensor  *x, *y;
    int64_t       index;                    /* its number in the epoch, from 0 */
    int64_t       size;                     /* the number of examples n; smaller in the last batch unless .drop_last */
    int           count;                    /* the number of fields */
    haul_tensor  *tensors[HAUL_MAX_FIELDS]; /* all fields, [n, ...] */
    haul_tensor  *lengths[HAUL_MAX_FIELDS]; /* for fields that vary i64 [n], the size of each example; else HAUL_NONE */
    haul_dataset *dataset;                  /* the dataset, which names the fields */
    int64_t       step;                     /* the global batch of which this is a piece, by its number in the epoch */
    int           piece;                    /* the piece of it, from 0; without .pieces always 0 */
} haul_batch;

/* The field of that name, [n, ...]. A field that varies is as large as the longest example of the batch, and filled
 * with the field's padding behind the end of the others. A failed tensor if the batch lacks the field. */
HAUL_API haul_tensor *haul_batch_tensor(const haul_batch *batch, const char *name);

/* The size of each example in the dimension that varies, i64 [n], for a field that has one. Else a failed tensor. */
HAUL_API haul_tensor *haul_batch_lengths(const haul_batch *batch, const char *name);

typedef struct HAUL__DESIGNATED haul_loader_options {
    haul_dataset *dataset; /* the dataset, which the loader holds; positional */
    HAUL__GUARD(batch)
    int64_t      batch;   /* examples in a batch; default 1 */
    bool         shuffle; /* a new order in each epoch, from the seed; not with .weights, nor if the count is unknown */
    uint64_t     seed;    /* seed of the order and of random transforms */
    bool         drop_last; /* leave out an incomplete last batch */
    int          workers;   /* threads that read examples; default none: the calling thread does the work */
    int          prefetch;  /* batches to prepare ahead; default 2 for each worker */
    haul_device *device;    /* where batches go; default the calling thread's current device */
    haul_tensor *weights;   /* [count], f32 or f64 on the CPU: examples are drawn by weight, with replacement */
    int64_t      samples;   /* with .weights: examples in an epoch; default the dataset's count */
    /* for parallel.h: pieces in a global batch, and the ones of each that the loader gives; default 1, and all from
     * .first_piece on */
    int pieces, first_piece, piece_count;
} haul_loader_options;

/* Make a loader: haul_loader_new(dataset, .batch = 64, .shuffle = true, .workers = 2). It belongs to a scope.
 *
 * With .pieces a batch is a piece of a global batch, which has .pieces times as many examples. The loader gives
 * .piece_count pieces of each, from .first_piece on, and counts only these in haul_batch.index, in haul_loader_batches
 * and in haul_loader_start_at. All pieces together are the batches of a loader without .pieces, in the same order, so
 * examples and their random numbers do not depend on how pieces are divided among loaders. The last global batch may
 * have fewer examples: then its last pieces have none, that is .size 0 and HAUL_NONE for all tensors. With .drop_last
 * an incomplete global batch is left out. A dataset whose count is unknown cannot have pieces.
 *
 * With .weights an example may occur several times in an epoch, each time with other random numbers: they depend on its
 * position in the epoch instead of its index. */
#define haul_loader_new(...) haul_loader_new_with(HAUL__OPTIONS(haul_loader_options, .dataset = __VA_ARGS__))
HAUL_API haul_loader *haul_loader_new_with(const haul_loader_options *options);

/* Begin an epoch, ending the one under way. haul_loader_start_at begins at batch `first`, to continue within an epoch.
 * A successful start clears the thread's error if the program has read its message (haul_error_message). It keeps one
 * that nothing has read, so a program may check haul_error_status() once, after its loop: no batches hide that its
 * weights could not be loaded.
 *
 * If the count of the dataset is unknown, the examples before batch `first` are read again and dropped.
 *
 * - epoch: any number; it selects the order and the random transforms
 * - first: the number of the first batch, from 0 */
HAUL_API haul_status haul_loader_start(haul_loader *loader, int64_t epoch);
HAUL_API haul_status haul_loader_start_at(haul_loader *loader, int64_t epoch, int64_t first);

/* The next batch. NULL at the end of the epoch and on failure: haul_loader_status returns which. Fails with HAUL_STATE
 * before the first haul_loader_start. */
HAUL_API const haul_batch *haul_loader_next(haul_loader *loader);

/* How the last haul_loader_next ended: HAUL_OK if it returned a batch, and after haul_loader_start; HAUL_END_OF_DATA
 * after the last batch of the epoch; otherwise the error. */
HAUL_API haul_status haul_loader_status(const haul_loader *loader);

/* The number of batches in an epoch; HAUL_UNKNOWN if it is not known, and on failure. */
HAUL_API int64_t haul_loader_batches(const haul_loader *loader);

HAUL_END

#endif
