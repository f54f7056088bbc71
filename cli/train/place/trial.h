/* Short runs of a training with the candidates of a plan, on this computer. */
#ifndef CLI_TRAIN_PLACE_TRIAL_H
#define CLI_TRAIN_PLACE_TRIAL_H

#include "cli/train/trainer.h"
#include "plan/place/plan.h"

/* Sets `measured` of the plan's ways that are wanted: the median time of a step. The trainer stays as it is. The
 * devices of `learns`, a copy of the plan's machine, get the times that single operations took; NULL: they are not
 * measured. False after a complaint. */
bool trial_measure(const trainer *t, haul_plan *plan, const bool wanted[HAUL__PLAN_CANDIDATES], haul__machine *learns);

#endif
