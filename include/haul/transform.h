/* Transforms: functions that change examples as they are read.
 *
 *     haul_dataset *d = haul_dataset_map(haul_cifar10("data"), haul_random_crop("x", 4), haul_random_flip("x"),
 *                                        haul_normalise("x"));
 *
 * The examples of d pass through these transforms, in this order. The workers of a loader run them. Random transforms
 * draw from the example's own random numbers, so batches do not depend on the number of workers. A transform may be
 * used in several datasets.
 *
 * `fields` names one field, "x", or several, "x, mask", which then get the same crop and flip. */
#ifndef HAUL_TRANSFORM_H
#define HAUL_TRANSFORM_H

#include <haul/base.h>
#include <haul/dataset.h>

HAUL_BEGIN

/* A transform. Belongs to a scope. */
typedef struct haul_transform haul_transform;

/* A dataset whose examples are those of `dataset`, passed through transforms. It holds all of them, and has the
 * dataset's name and count.
 *
 * - count: the number of `transforms` */
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

/* A transform of your own: haul_transform_new(add_noise, .context = &settings). It changes the values of an example,
 * and with haul_example_resize also their dtypes and shapes. Several threads may call it at the same time. */
typedef struct HAUL__DESIGNATED haul_transform_options {
    haul_example_function *apply; /* changes an example; positional */
    HAUL__GUARD(fields)
    /* needed if dtypes, shapes or fields change: gets the fields before the transform, in memory for HAUL_MAX_FIELDS,
     * and changes them and their count. Texts that it puts there must outlive the call of haul_dataset_map, which
     * copies them */
    haul_status (*fields)(void *context, haul_field *fields, int *count);
    /* called when nothing holds the transform any more, and also if haul_transform_new fails */
    void (*close)(void *context);
    void *context; /* passed to the functions */
} haul_transform_options;
#define haul_transform_new(...) haul_transform_new_with(HAUL__OPTIONS(haul_transform_options, .apply = __VA_ARGS__))
HAUL_API haul_transform *haul_transform_new_with(const haul_transform_options *options);

/* The maximum number of means and deviations of haul_normalise. */
#define HAUL_MAX_CHANNELS 64

/* (x - mean) / deviation, as f32: haul_normalise("x", .mean = {0.49, 0.48, 0.45}, .deviation = {0.25, 0.24, 0.26}).
 * Fields are u8, which are divided by 255 first, or f32. Results are rounded to f32 after each step, as by
 * torchvision's ToTensor and Normalize. One mean and deviation apply to all elements, several to the channels, which
 * are the first dimension. */
typedef struct HAUL__DESIGNATED haul_normalise_options {
    const char *fields; /* the fields; positional */
    HAUL__GUARD(mean)
    double mean[HAUL_MAX_CHANNELS];      /* subtracted; default 0.5; HAUL_ZERO for zero */
    double deviation[HAUL_MAX_CHANNELS]; /* divided by, positive, as many as means; default 0.5 */
} haul_normalise_options;
#define haul_normalise(...) haul_normalise_with(HAUL__OPTIONS(haul_normalise_options, .fields = __VA_ARGS__))
HAUL_API haul_transform *haul_normalise_with(const haul_normalise_options *options);

/* Pad the last two dimensions with zeros on each side, and cut out the original size at a random place.
 *
 * - padding: zeros on each side */
HAUL_API haul_transform *haul_random_crop(const char *fields, int64_t padding);

/* Mirror the last dimension with probability 1/2. */
HAUL_API haul_transform *haul_random_flip(const char *fields);

/* Turn the last two dimensions around their middle by a random angle, as haul_rotate does with HAUL_NEAREST: elements
 * keep their values, and those from outside are 0. Fields that are named together turn by the same angle.
 *
 * - degrees: the largest angle in both directions, from 0 to 180 */
HAUL_API haul_transform *haul_random_rotation(const char *fields, double degrees);

/* Change brightness, contrast and saturation of pictures, u8 [3, H, W] or [1, H, W], by random factors from 1 - amount
 * to 1 + amount, in this order, as haul_adjust_brightness, haul_adjust_contrast and haul_adjust_saturation do. Fields
 * that are named together get the same factors.
 *
 * - amount: from 0 to 1 */
HAUL_API haul_transform *haul_random_colour(const char *fields, double amount);

/* Convert fields to another dtype, as haul_cast does. */
HAUL_API haul_transform *haul_convert(const char *fields, haul_dtype dtype);

HAUL_END

#endif
