/* The best placement on more than two devices that expansion moves find, with a bound. */
#ifndef HAUL_PLAN_GRAPH_MANY_H
#define HAUL_PLAN_GRAPH_MANY_H

#include "plan/graph/cut.h"

/* Without limits: never dearer than everything on one device or the best placement on two. The shares and the bound
 * become those of the proof. */
haul_status haul__place_among_many(const haul__place_graph *g, uint8_t *place, haul__place_proof *proof);

/* The graph with these two of its devices, which shares what does not depend on them. False in *fits: a group can run
 * on neither. haul__place_pair_free is due unless it fails. */
haul_status haul__place_pair(const haul__place_graph *g, int first, int second, haul__place_graph *out, bool *fits);
void        haul__place_pair_free(haul__place_graph *pair);

#endif
