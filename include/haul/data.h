/* Datasets, transforms and the loader.
 *
 * A dataset is a number of examples, each a fixed-shape input and a target. A loader cuts it into batches: worker
 * threads read and transform examples on the CPU, batches are moved to the device ahead of use. The batches of an epoch
 * depend on the seed and the epoch's number only, never on the number of workers. */
#ifndef HAUL_DATA_H
#define HAUL_DATA_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/random.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* What one example looks like. Pictures are u8, [channels, height, width]; other inputs f32 of any shape. */
typedef struct haul_example_spec {
    haul_shape input;
    haul_dtype input_dtype;  /* HAUL_U8 or HAUL_F32 */
    haul_shape target;       /* 0-d for a class index */
    haul_dtype target_dtype; /* HAUL_I64 for a class index, HAUL_F32 else */
    int        classes;      /* number of classes; 0 for regression */
} haul_example_spec;

HAUL_API int64_t     haul_dataset_count(const haul_dataset *dataset); /* -1 on failure */
HAUL_API haul_status haul_dataset_spec(const haul_dataset *dataset, haul_example_spec *out);
HAUL_API const char *haul_dataset_class_name(const haul_dataset *dataset, int index); /* NULL past the end */
HAUL_API const char *haul_dataset_name(const haul_dataset *dataset);                  /* "cifar10 (train)" */

/* CIFAR-10's binary files (data_batch_1.bin ... test_batch.bin) in `directory` or its cifar-10-batches-bin. */
typedef struct HAUL__DESIGNATED haul_split_options {
    const char *directory; /* positional */
    HAUL__GUARD
    bool test; /* the test split instead of the training one */
} haul_split_options;
#define haul_cifar10(...) haul_cifar10_with(HAUL__OPTIONS(haul_split_options, .directory = __VA_ARGS__))
HAUL_API haul_dataset *haul_cifar10_with(const haul_split_options *options);

/* A folder with one folder of JPEG and PNG pictures for each class, sorted by name. If it has folders named train and
 * test, these hold the classes of the two splits; the test split needs its folder. Classes are numbered by the training
 * split, so a class has the same number in both, even if the test split lacks some. A class that only the test split
 * has is an error. All pictures must have the size of the first; greyscale and CMYK ones become RGB. */
#define haul_image_folder(...) haul_image_folder_with(HAUL__OPTIONS(haul_split_options, .directory = __VA_ARGS__))
HAUL_API haul_dataset *haul_image_folder_with(const haul_split_options *options);

/* Examples in memory: x [N, ...] u8 or f32 and y [N, ...] i64 or f32 on the CPU; the dataset holds both. */
HAUL_API haul_dataset *haul_dataset_from_tensors(haul_tensor *x, haul_tensor *y);

/* Drawn 32x32 RGB pictures of 10 kinds of shapes, made from the seed: position, size, colour and noise vary, so that a
 * convolutional network is needed. Example i is the same whatever `count` is. Test examples differ from training ones.
 */
typedef struct HAUL__DESIGNATED haul_synthetic_options {
    int64_t count; /* positional */
    HAUL__GUARD
    uint64_t seed;
    bool     test;
} haul_synthetic_options;
#define haul_shapes(...) haul_shapes_with(HAUL__OPTIONS(haul_synthetic_options, .count = __VA_ARGS__))
HAUL_API haul_dataset *haul_shapes_with(const haul_synthetic_options *options);

/* Rows of 10 numbers in two Gaussian clouds, with target 0 or 1 (f32, [1]): for a small dense network. */
#define haul_blobs(...) haul_blobs_with(HAUL__OPTIONS(haul_synthetic_options, .count = __VA_ARGS__))
HAUL_API haul_dataset *haul_blobs_with(const haul_synthetic_options *options);

/* A dataset of the user's own: `read` fills one example's input and target (row-major, the spec's dtypes), may be
 * called by several threads at once, and returns a status. The struct and `name` are copied. `close`, which may be
 * NULL, is called when nothing holds the dataset any more, also when haul_dataset_new fails. */
typedef struct haul_dataset_source {
    haul_example_spec spec;
    int64_t           count;
    const char       *name;
    haul_status (*read)(void *context, int64_t index, void *input, void *target);
    void (*close)(void *context);
    void *context;
} haul_dataset_source;
HAUL_API haul_dataset *haul_dataset_new(const haul_dataset_source *source);

/* One batch. It belongs to the loader and is valid until the next call of haul_loader_next or haul_loader_start. */
typedef struct haul_batch {
    haul_tensor *x;     /* [n, ...] f32 on the loader's device */
    haul_tensor *y;     /* [n, ...] */
    int64_t      index; /* from 0, within the epoch */
    int64_t      size;  /* n: smaller in the last batch unless drop_last */
} haul_batch;

typedef struct HAUL__DESIGNATED haul_loader_options {
    haul_dataset *dataset; /* positional; the loader holds it */
    HAUL__GUARD
    int64_t      batch;   /* examples in a batch; default 1 */
    bool         shuffle; /* a new order each epoch, from the seed */
    uint64_t     seed;
    bool         drop_last;    /* leave an incomplete last batch out */
    int          workers;      /* threads; default none: the calling thread does the work */
    int          prefetch;     /* batches ahead; default 2 for each worker */
    haul_device *device;       /* where batches go; default: the thread's current device at this call */
    double       normalise[2]; /* {mean, deviation}: u8 becomes (x / 255 - mean) / deviation; default {0.5, 0.5} */
    int64_t      random_crop;  /* pad pictures by so many zero pixels and crop back at random: for training data */
    bool         random_flip;  /* mirror pictures left-right with probability 1/2: for training data */
} haul_loader_options;

/* haul_loader_new(dataset, .batch = 64, .shuffle = true, .workers = 2) */
#define haul_loader_new(...) haul_loader_new_with(HAUL__OPTIONS(haul_loader_options, .dataset = __VA_ARGS__))
HAUL_API haul_loader *haul_loader_new_with(const haul_loader_options *options);

/* Begin epoch number `epoch` (any number; it selects the order and the random transforms), at batch `first` when
 * continuing within it. Ends an epoch under way. After a successful start haul_error_status() is HAUL_OK until
 * something fails, so it can be checked after the loop. */
HAUL_API haul_status haul_loader_start(haul_loader *loader, int64_t epoch);
HAUL_API haul_status haul_loader_start_at(haul_loader *loader, int64_t epoch, int64_t first);

/* The next batch, or NULL at the end of the epoch and on failure; haul_loader_status distinguishes the two. */
HAUL_API const haul_batch *haul_loader_next(haul_loader *loader);
/* How the last haul_loader_next ended: HAUL_OK if it returned a batch (and after haul_loader_start), HAUL_END_OF_DATA
 * after the last batch of the epoch, or the error. */
HAUL_API haul_status haul_loader_status(const haul_loader *loader);
HAUL_API int64_t     haul_loader_batches(const haul_loader *loader); /* in an epoch; -1 on failure */

HAUL_END

#endif
