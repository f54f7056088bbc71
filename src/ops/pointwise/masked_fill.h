/* Masked fills as part of other operations. */
#ifndef HAUL_OPS_POINTWISE_MASKED_FILL_H
#define HAUL_OPS_POINTWISE_MASKED_FILL_H

#include "engine/operation.h"

/* For compute: result 0 becomes `value` where the mask equals `where`, else x; both broadcast to it. */
haul_status haul__fill_where(const haul__call *c, haul_tensor *x, haul_tensor *mask, bool where, double value);

#endif
