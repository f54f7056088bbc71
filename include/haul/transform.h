/* Transforms: functions that change examples as they are read.
 *
 * haul_dataset_map(haul_cifar10("data"), haul_random_crop("x", 4), haul_random_flip("x"), haul_normalise("x")) is a
 * dataset whose examples pass through these, in this order. Workers of a loader run them. Random ones draw from the
 * example's random numbers, so batches do not depend on the number of workers. A transform may be used in several
 * datasets. */
#ifndef HAUL_TRANSFORM_H
#define HAUL_TRANSFORM_H

#include <haul/base.h>
#include <haul/dataset.h>

HAUL_BEGIN

typedef struct haul_transform haul_transform;

/* `dataset` with these transforms behind it. It holds all of them and has the dataset's name and count. */
HAUL_API haul_dataset *haul_dataset_map_list(haul_dataset *dataset, haul_transform *const *transforms, int count);
#ifdef __cplusplus
extern "C++" {
template <size_t N> haul_dataset *haul__map(haul_dataset *dataset, haul_transform *const (&transforms)[N])
{
    return haul_dataset_map_list(dataset, transforms, static_cast<int>(N));
}
}
#define haul_dataset_map(dataset, ...) haul__map(dataset, {__VA_ARGS__})
#else
#define haul_dataset_map(dataset, ...)                                                                                 \
    haul_dataset_map_list(dataset, (haul_transform *const[]){__VA_ARGS__},                                             \
                          HAUL__COUNT(haul_transform *const, __VA_ARGS__))
#endif

/* A transform of the user's own: haul_transform_new(add_noise, .context = &settings). `apply` changes the values of an
 * example, by haul_example_resize also their dtypes and shapes. Several threads may call it at once. If dtypes, shapes
 * or fields change, `fields` says how: it gets the fields before, with room for HAUL_MAX_FIELDS, and changes them and
 * their count; what it wants to keep of texts must outlive the call of haul_dataset_map, which copies them. `close` is
 * called when nothing holds the transform any more, also when haul_transform_new fails. */
typedef struct HAUL__DESIGNATED haul_transform_options {
    haul_example_function *apply; /* positional */
    HAUL__GUARD
    haul_status (*fields)(void *context, haul_field *fields, int *count);
    void (*close)(void *context);
    void *context;
} haul_transform_options;
#define haul_transform_new(...) haul_transform_new_with(HAUL__OPTIONS(haul_transform_options, .apply = __VA_ARGS__))
HAUL_API haul_transform *haul_transform_new_with(const haul_transform_options *options);

/* In what follows `fields` names one field, "x", or several, "x, mask", which get the same crop and flip. */

/* (x - mean) / deviation as f32, of fields of u8 (which are divided by 255 first) and f32, rounded to f32 after each
 * step as torchvision's ToTensor and Normalize do. One mean and deviation are for all elements, several are for the
 * channels, which are the first dimension. */
#define HAUL_MAX_CHANNELS 64
typedef struct HAUL__DESIGNATED haul_normalise_options {
    const char *fields; /* positional */
    HAUL__GUARD
    double mean[HAUL_MAX_CHANNELS];      /* default 0.5; write HAUL_ZERO for 0 */
    double deviation[HAUL_MAX_CHANNELS]; /* positive, as many as means; default 0.5 */
} haul_normalise_options;
#define haul_normalise(...) haul_normalise_with(HAUL__OPTIONS(haul_normalise_options, .fields = __VA_ARGS__))
HAUL_API haul_transform *haul_normalise_with(const haul_normalise_options *options);

/* Pad by so many zeros on each side of the last two dimensions, and crop back at random. */
HAUL_API haul_transform *haul_random_crop(const char *fields, int64_t padding);
/* Mirror the last dimension with probability 1/2. */
HAUL_API haul_transform *haul_random_flip(const char *fields);
/* Another dtype, with the values that haul_cast gives. */
HAUL_API haul_transform *haul_convert(const char *fields, haul_dtype dtype);

HAUL_END

#endif
