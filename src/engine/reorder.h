/* Weights in the memory format that a library wants. */
#ifndef HAUL_ENGINE_REORDER_H
#define HAUL_ENGINE_REORDER_H

#include "engine/operation.h"

/* The weight, [C_out, C_in, ...], without gaps, channels-last or row-major: itself, or a copy that is kept with its
 * storage until its elements change. What is returned goes with the call. NULL on failure. */
haul_tensor *haul__weight_in_format(const haul__call *c, haul_tensor *weight, bool channels_last);

#endif
