/* What the layers of convolutions share. */
#ifndef HAUL_NN_CONV_H
#define HAUL_NN_CONV_H

#include "nn/module.h"

/* Check the sizes of a layer. *fan_in becomes the elements of the weight behind its first axis, of which the second has
 * `second` / groups: the channels in, or out if the layer is transposed. */
haul_status haul__conv_check(const char *operation, int64_t in, int64_t out, int64_t height, int64_t width,
                             int64_t groups, int64_t second, int64_t *fan_in);

/* Draw the weight, and the bias of `out` elements unless that is 0; drops m on failure. m == NULL is a failure. */
haul_module *haul__conv_built(haul_module *m, haul_shape weight, int64_t out, int64_t fan_in, const char *operation);

/* Check a copy of pairs as options have them; the operation completes them at each call. */
haul_status haul__conv_check_pairs(const char *operation, const int64_t stride[2], const int64_t padding[2],
                                   const int64_t dilation[2]);

#endif
