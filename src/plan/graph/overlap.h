/* A placement whose makespan is short, by list scheduling and moves. */
#ifndef HAUL_PLAN_GRAPH_OVERLAP_H
#define HAUL_PLAN_GRAPH_OVERLAP_H

#include "plan/graph/place.h"

/* Looks for a placement with a shorter makespan than that of `place`. Both are within the graph's limits. `place`
 * becomes the best one that is found, or stays as it is. *before becomes the makespan that it had, and *makespan the
 * one that it has then.
 *
 * The search begins with `place` itself, with everything on each device, with the cheapest placements for shorter
 * copies, and with a list schedule: the operation with the longest way to the end of the step comes first, and gets the
 * device on which it ends first. From each of them modules and groups move. The effort is a number of steps, so the
 * result is always the same. */
haul_status haul__place_overlap(const haul__place_graph *g, uint8_t *place, int64_t *before, int64_t *makespan);

#endif
