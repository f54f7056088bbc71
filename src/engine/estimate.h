/* The driver's part of dry runs (haul/estimate.h). */
#ifndef HAUL_ENGINE_ESTIMATE_H
#define HAUL_ENGINE_ESTIMATE_H

#include <haul/estimate.h>

#include "engine/operation.h"

/* In a dry run: registers a call whose operands and results are known, before `compute`. Operations that `compute`
 * calls are part of it and are not counted until the call's scope ends. */
haul_status haul__estimate_call(const haul__call *c);

#endif
