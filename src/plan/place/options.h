/* The options of a plan as a request. */
#ifndef HAUL_PLAN_PLACE_OPTIONS_H
#define HAUL_PLAN_PLACE_OPTIONS_H

#include "plan/place/plan.h"

/* The first of the program's `pins` become those of the request, in `room`, which has as many. On failure there is
 * nothing to free. measures: devices that were not measured are, where the plan is for this computer. */
haul_status haul__plan_choose(const haul_plan_options *options, bool measures, haul__place_pin *room,
                              const char *operation, haul__plan_request *out);

#endif
