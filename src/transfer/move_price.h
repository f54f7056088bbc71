/* What moving a tensor takes: for error messages, and for decisions by price. */
#ifndef HAUL_TRANSFER_MOVE_PRICE_H
#define HAUL_TRANSFER_MOVE_PRICE_H

#include "core/tensor.h"

/* Picoseconds of haul_to(t, to), by the speeds of the two devices (device/speeds.h). 0 if the tensor is there. */
int64_t haul__move_ps(const haul_tensor *t, const haul_device *to);

#endif
