/* A placement whose makespan is short, by list scheduling and moves. */
#ifndef HAUL_PLAN_GRAPH_OVERLAP_H
#define HAUL_PLAN_GRAPH_OVERLAP_H

#include "plan/graph/place.h"

/* Looks for a placement within the graph's limits with a shorter makespan than that of `place`, which keeps them, and
 * sets *makespan to that of the one in `place` then. The starts are that one, everything on each device, cheapest
 * placements with shorter copies, and the list schedule in which operations get the device on which they end first, the
 * longest way to the end of the step first. Modules and groups move from there. Never longer than `place`. The effort
 * is a number of steps, so the result is always the same. */
haul_status haul__place_overlap(const haul__place_graph *g, uint8_t *place, int64_t *makespan);

#endif
