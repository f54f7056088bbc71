/* Weights in the memory format that a library wants. */
#ifndef HAUL_ENGINE_REORDER_H
#define HAUL_ENGINE_REORDER_H

#include "core/tensor.h"

/* The weight, [C_out, C_in, ...], without gaps, channels-last or row-major, as a handle of the innermost scope, without
 * graph. A copy is kept with the weight's storage and serves until its elements change. NULL on failure. */
haul_tensor *haul__weight_in_format(const char *operation, haul_tensor *weight, bool channels_last);

#endif
