/* Datasets: numbered examples with named fields.
 *
 * Every example of a dataset has the same fields, each with a name, a dtype and a shape. A loader (data.h) makes
 * batches of them, transforms (transform.h) change examples as they are read. Files are validated before use, as in
 * io.h. */
#ifndef HAUL_DATASET_H
#define HAUL_DATASET_H

#include <haul/base.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/nn.h>
#include <haul/tensor.h>

HAUL_BEGIN

#define HAUL_MAX_FIELDS 16
/* The count of a dataset whose end is not known before it is reached. */
#define HAUL_UNKNOWN (-1)

/* One field of the examples of a dataset: {"tokens", HAUL_I32, HAUL_SHAPE(-1), .padding = -100}. */
typedef struct haul_field {
    const char        *name; /* neither a comma nor a blank in it */
    haul_dtype         dtype;
    haul_shape         shape;       /* of one example, at most 7 dimensions; one of them may be -1: it varies */
    int                classes;     /* of a class index, 0 ... classes - 1; 0: the field is something else */
    const char *const *class_names; /* `classes` texts; NULL: their numbers */
    double             padding;     /* what a batch of a varying field has behind the end of shorter examples */
} haul_field;

/* ---- one example ---- */

/* Random numbers for one example: Philox 4x32-10, as in random.h. The sequence depends on what it was made from only,
 * so an example gets the same numbers whichever thread reads it. The members are private. */
typedef struct haul_draws {
    uint32_t haul__key[2], haul__counter[4], haul__words[4];
    int      haul__left;
} haul_draws;
HAUL_API haul_draws haul_draws_new(uint64_t seed, int64_t epoch, int64_t index); /* as a loader with this seed does */
HAUL_API uint32_t   haul_draw_bits(haul_draws *draws);
HAUL_API uint64_t   haul_draw_below(haul_draws *draws, uint64_t bound); /* 0 ... bound - 1; 0 for a bound of 0 */
HAUL_API double     haul_draw_unit(haul_draws *draws);                  /* [0, 1), 53 bits */
HAUL_API double     haul_draw_normal(haul_draws *draws);                /* mean 0, deviation 1 */

/* The value of a field in one example. */
typedef struct haul_value {
    const char *name;
    haul_dtype  dtype;
    haul_shape  shape;
    void       *data; /* row-major; NULL: none yet */
} haul_value;

/* An example that is being read or transformed. `draws` continues from one function to the next: from `read` to the
 * first transform, and so on. */
typedef struct haul_example {
    int64_t    index; /* in the dataset whose `read` is called */
    int64_t    epoch; /* as given to haul_loader_start */
    haul_draws draws; /* depends on the loader's seed, the epoch and the index in the loader's dataset */
    int        count; /* fields */
    haul_value fields[HAUL_MAX_FIELDS];
    struct haul__example_room *haul__room;
} haul_example;

/* The field of that name; NULL, with the error recorded, if there is none. */
HAUL_API haul_value *haul_example_field(haul_example *example, const char *name);

/* Give a field another dtype and shape, and memory for them, which is returned; NULL, with the error recorded, on
 * failure. Its values are undefined. The old memory stays readable until the next call for the same field. `read` calls
 * it for a field that varies; a transform for a field that gets another size or dtype. */
HAUL_API void *haul_example_resize(haul_example *example, int field, haul_dtype dtype, haul_shape shape);

/* ---- datasets ---- */

HAUL_API int64_t     haul_dataset_count(const haul_dataset *dataset);  /* HAUL_UNKNOWN, also on failure */
HAUL_API const char *haul_dataset_name(const haul_dataset *dataset);   /* "cifar10 (train)" */
HAUL_API int         haul_dataset_fields(const haul_dataset *dataset); /* how many; -1 on failure */
/* Field `index`. Its texts live as long as the dataset; class_names is NULL only if there are no classes. */
HAUL_API haul_status haul_dataset_field(const haul_dataset *dataset, int index, haul_field *out);

/* A dataset of the user's own. `read` writes each field of an example to its memory. A field that varies has none yet:
 * haul_example_resize gives it. Several threads may call `read` at once. The struct, its names and texts are copied.
 * `close`, which may be NULL, is called when nothing holds the dataset any more, also when haul_dataset_new fails.
 *
 * With .count = HAUL_UNKNOWN `read` returns HAUL_END_OF_DATA past the last example, and records no error for it. It is
 * then called for the indices 0, 1, 2 ... in this order, by one thread at a time; index 0 begins a new epoch. */
typedef haul_status haul_example_function(void *context, haul_example *example);
typedef struct haul_dataset_source {
    haul_field             fields[HAUL_MAX_FIELDS]; /* up to the first without a name */
    int64_t                count;
    const char            *name;
    haul_example_function *read;
    void (*close)(void *context);
    void *context;
} haul_dataset_source;
HAUL_API haul_dataset *haul_dataset_new(const haul_dataset_source *source);

/* Examples in memory: tensors [N, ...] of any dtype on the CPU, which the dataset holds. Field names are the tensors'.
 * haul_dataset_from_tensors names them "x" and "y"; class indices, y i64 [N], must not be negative, and there are as
 * many classes as the highest says. */
HAUL_API haul_dataset *haul_dataset_from_named(const haul_named_tensor *tensors, int count);
HAUL_API haul_dataset *haul_dataset_from_tensors(haul_tensor *x, haul_tensor *y);

/* ---- parts and sums of datasets: each holds the datasets it is made of, whose count must be known ---- */

/* The examples of these indices, in this order; an index may occur more than once. */
HAUL_API haul_dataset *haul_dataset_subset(haul_dataset *dataset, const int64_t *indices, int64_t index_count);

/* Cut a dataset at random into parts that share no example: haul_dataset_split(parts, dataset, .fractions = {0.8, 0.2},
 * .seed = 1). Either the fractions, which add up to 1, or the counts, which add up to the dataset's, say how many parts
 * there are; examples that fractions leave over go to the first parts, one each. parts[] gets a dataset for each. With
 * the same seed the parts are the same. On failure nothing is made, and parts[] is left alone. */
#define HAUL_MAX_PARTS 16
typedef struct HAUL__DESIGNATED haul_dataset_split_options {
    haul_dataset *dataset; /* positional */
    HAUL__GUARD
    double   fractions[HAUL_MAX_PARTS];
    int64_t  counts[HAUL_MAX_PARTS];
    uint64_t seed;
    bool     in_order; /* do not shuffle: the first part has the first examples */
} haul_dataset_split_options;
#define haul_dataset_split(parts, ...)                                                                                 \
    haul_dataset_split_with(parts, HAUL__OPTIONS(haul_dataset_split_options, .dataset = __VA_ARGS__))
HAUL_API haul_status haul_dataset_split_with(haul_dataset **parts, const haul_dataset_split_options *options);

/* One dataset after the other. All must have the same fields: names, dtypes, shapes and classes. */
HAUL_API haul_dataset *haul_dataset_concat_list(haul_dataset *const *datasets, int count);
#ifdef __cplusplus
extern "C++" {
template <size_t N> haul_dataset *haul__concat(haul_dataset *const (&datasets)[N])
{
    return haul_dataset_concat_list(datasets, static_cast<int>(N));
}
}
#define haul_dataset_concat(...) haul__concat({__VA_ARGS__})
#else
#define haul_dataset_concat(...)                                                                                       \
    haul_dataset_concat_list((haul_dataset *const[]){__VA_ARGS__}, HAUL__COUNT(haul_dataset *const, __VA_ARGS__))
#endif

/* ---- pictures: x u8 [3, height, width], y i64 [], a class index ---- */

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

/* Rows x f32 [10] in two Gaussian clouds, with target y f32 [1], 0 or 1: for a small dense network. */
#define haul_blobs(...) haul_blobs_with(HAUL__OPTIONS(haul_synthetic_options, .count = __VA_ARGS__))
HAUL_API haul_dataset *haul_blobs_with(const haul_synthetic_options *options);

HAUL_END

#endif
