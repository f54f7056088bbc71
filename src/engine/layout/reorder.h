/* Weights in the memory format that a library prefers. */
#ifndef HAUL_ENGINE_LAYOUT_REORDER_H
#define HAUL_ENGINE_LAYOUT_REORDER_H

#include "engine/operation.h"

/* The weight, [C_out, C_in, ...], dense, channels-last or row-major: itself, or a copy. The copy's memory is kept with
 * the weight's storage until the weight's elements change. The copy's handle is a temporary of the call. Returns NULL
 * on failure. */
haul_tensor *haul__weight_in_format(const haul__call *c, haul_tensor *weight, bool channels_last);

#endif
