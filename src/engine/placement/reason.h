/* Why a tensor is where it is, kept with its storage: the decision of HAUL_PLACE_AUTO that made it. */
#ifndef HAUL_ENGINE_PLACEMENT_REASON_H
#define HAUL_ENGINE_PLACEMENT_REASON_H

#include "engine/operation.h"

/* "haul_conv2d runs on sim:h200: 0.2 us here and 3.0 us to move its operands; 9.1 us on cpu". NULL, without an error,
 * if there is no memory for it. */
haul__object *haul__reason_new(const char *operation, const haul_device *device, const char *why);

/* The results of the call get its reason, which is given up. */
void haul__reason_attach(haul__call *c);

#endif
