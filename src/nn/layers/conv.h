/* Declarations shared by the convolution layers. */
#ifndef HAUL_NN_LAYERS_CONV_H
#define HAUL_NN_LAYERS_CONV_H

#include "nn/module.h"

/* Checks the sizes of a layer. *fan_in becomes the number of the weight's elements per index of its first axis; the
 * second axis has `second` / groups: the input channels, or the output channels of a transposed layer. */
haul_status haul__conv_check(const char *operation, int64_t in, int64_t out, int64_t height, int64_t width,
                             int64_t groups, int64_t second, int64_t *fan_in);

/* Initialises the weight, and the bias with `out` elements unless that is 0; drops m on failure. m == NULL is a
 * failure. */
haul_module *haul__conv_built(haul_module *m, haul_shape weight, int64_t out, int64_t fan_in, const char *operation);

/* Checks a copy of the pairs in options; the operation fills in their defaults at each call. */
haul_status haul__conv_check_pairs(const char *operation, const int64_t stride[2], const int64_t padding[2],
                                   const int64_t dilation[2]);

/* Checks a number in options, which is 0, HAUL_ZERO or at least `least`; the operation fills in its default at each
 * call. */
haul_status haul__conv_check_number(const char *operation, int64_t value, const char *name, int64_t least);

#endif
