/* A placement within memory limits, by prices of resident memory. */
#ifndef HAUL_PLAN_GRAPH_SEARCH_H
#define HAUL_PLAN_GRAPH_SEARCH_H

#include "plan/graph/cut.h"

/* Looks for a placement that fits and is cheaper than `place`, which fits if *found. The proof, which is that of the
 * cut without prices, becomes the one with the highest bound. The effort is bounded by a number of steps and not by
 * time, so the result is always the same. */
haul_status haul__place_search(const haul__place_graph *g, uint8_t *place, bool *found, haul__place_proof *proof);

#endif
