/* Tensors in memory formats, for the tests of those. */
#ifndef HAUL_TESTS_FORMAT_H
#define HAUL_TESTS_FORMAT_H

#include "support/linalg.h"

#define SHAPE HAUL_SHAPE(2, 5, 3, 4)
#define COUNT 120

static inline haul_tensor *channels_last(haul_tensor *x)
{
    return haul_to_memory_format(x, HAUL_CHANNELS_LAST);
}

static inline haul_tensor *sample(haul_device *device, unsigned seed)
{
    return sample_tensor(device, HAUL_F32, SHAPE, seed, NULL);
}

static inline bool is_only_last(haul_tensor *t)
{
    return haul_tensor_is_channels_last(t) && !haul_tensor_is_contiguous(t);
}

static inline void assert_equal(haul_tensor *got, haul_tensor *want, double error, const char *what)
{
    double *values = calloc((size_t)haul_tensor_count(want) + 1, sizeof *values);
    assert_non_null(values);
    assert_int_equal(read_values(want, values, haul_tensor_count(want)), HAUL_OK);
    assert_close(got, values, haul_tensor_count(want), error, what);
    free(values);
}

static inline haul_tensor *weight_of(haul_device *device)
{
    return sample_tensor(device, HAUL_F32, HAUL_SHAPE(6, 5, 3, 3), 7, NULL);
}

#endif
