/* What spilling would cost a training. */
#ifndef HAUL_PLAN_SPILL_COST_H
#define HAUL_PLAN_SPILL_COST_H

#include "plan/fit.h"

/* By a dry run that spills, and by copies over the link that are timed now. */
typedef struct haul__spill_cost {
    haul__fit_spill spill;
    double          seconds; /* of the copies of a step, without those of the file; NaN: not known */
} haul__spill_cost;

/* What a dry run has found, with the seconds of its copies. */
void haul__spill_cost_of(const haul__fit_spill *spill, haul_device *device, haul__spill_cost *out);

/* The same of haul__fit_spilling. False, without an error, if the device cannot spill. */
bool haul__spill_cost_find(const haul__training *t, const haul__fit_request *r, haul__spill_cost *out);

#endif
