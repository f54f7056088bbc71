/* A lower bound for placements on more than two devices: shares of copies (plan/graph/cut.h), found by a subgradient
 * method with the steps of Polyak, "Minimization of unsmooth functionals", 1969. */
#ifndef HAUL_PLAN_GRAPH_DUAL_H
#define HAUL_PLAN_GRAPH_DUAL_H

#include "plan/graph/cut.h"

/* Looks for shares with a bound near `cost`, that of a placement, which are then those of the proof. `place` becomes
 * what the groups choose with them. The effort is bounded by a number of steps. Memory limits are not seen. */
haul_status haul__place_bound(const haul__place_graph *g, int64_t cost, uint8_t *place, haul__place_proof *proof);

#endif
