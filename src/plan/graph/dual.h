/* A lower bound for placements on more than two devices: shares of copies and prices of memory (plan/graph/cut.h),
 * found by a subgradient method with the steps of Polyak, "Minimization of unsmooth functionals", 1969. */
#ifndef HAUL_PLAN_GRAPH_DUAL_H
#define HAUL_PLAN_GRAPH_DUAL_H

#include "plan/graph/cut.h"

/* Looks for shares with a bound near `cost`, that of a placement, which are then those of the proof. `place` becomes
 * what the groups choose with them. The effort is bounded by a number of steps.
 *
 * Memory limits count at the moments of the proof's prices, which get new values; those of 0 are left out. The maker of
 * a tensor pays the price of its memory, and copies elsewhere pay nothing, so memory is underestimated. */
haul_status haul__place_bound(const haul__place_graph *g, int64_t cost, uint8_t *place, haul__place_proof *proof);

#endif
