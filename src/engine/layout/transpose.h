/* Copies between layouts with different innermost dimensions, on processors. */
#ifndef HAUL_ENGINE_LAYOUT_TRANSPOSE_H
#define HAUL_ENGINE_LAYOUT_TRANSPOSE_H

#include "engine/layout/layout.h"
#include "transfer/copy.h"

/* True if a copy that haul__layout described (operand 0 the result, operand 1 the source) is a transposing one. */
bool haul__is_transpose(const pointwise_params *p, const haul_device *device);

/* Submits a launch of kernel `id` that copies `from` to `to`. The command has the kernel with its params, items and
 * grain. */
haul_status haul__launch_copy(haul__command *command, int id, haul_tensor *to, haul_tensor *from,
                              const haul__copy_note *note, const char *origin);

/* Submits a copy between these layouts. The tensors have the same dtype. */
haul_status haul__transpose(haul_device *device, haul_tensor *to, haul_tensor *from, const pointwise_params *layout,
                            const haul__copy_note *note, const char *origin);

#endif
