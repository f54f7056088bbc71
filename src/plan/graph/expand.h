/* Cheaper placements of a graph on more than two devices, by expansion moves: Boykov, Veksler and Zabih, "Fast
 * approximate energy minimization via graph cuts", PAMI 2001.
 *
 * A move to a device lets each group choose between the place that it has and that device. The best choice of all
 * groups together is a minimum cut, if a tensor's copies to other devices do not become shorter where its maker moves.
 * Where they do, the cut takes the longer time, and a move is made only if it is cheaper in truth. */
#ifndef HAUL_PLAN_GRAPH_EXPAND_H
#define HAUL_PLAN_GRAPH_EXPAND_H

#include "plan/graph/cut.h"

/* The cost of the placement and of the memory that the proof's prices count. */
int64_t haul__place_priced_cost(const haul__place_graph *g, const haul__place_proof *prices, const uint8_t *place);

/* The KiB that a price counts: a copy between two of its uses is not seen. */
int64_t haul__place_priced_kib(const haul__place_graph *g, const haul__place_price *price, const uint8_t *place);

/* Moves groups to the device, if that lowers the priced cost; sets *better if it did, and leaves it otherwise. */
haul_status haul__place_expand(const haul__place_graph *g, const haul__place_proof *prices, int device, uint8_t *place,
                               bool *better);

/* Moves to each device in turn until none helps. */
haul_status haul__place_expand_all(const haul__place_graph *g, const haul__place_proof *prices, uint8_t *place);

#endif
