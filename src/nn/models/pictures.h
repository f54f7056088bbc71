/* What networks of pictures have in common. */
#ifndef HAUL_NN_MODELS_PICTURES_H
#define HAUL_NN_MODELS_PICTURES_H

#include <haul/layers.h>

/* Fails unless an example of the network `name` is [channels, height, width]. */
haul_status haul__model_check_pictures(const char *name, const haul_shape *input);

/* The layer between the last convolution and the classes: the mean of each channel, [N, C, H, W] to [N, C]. */
haul_module *haul__model_average(void);

#endif
