/* The best placement of a graph within its limits, with a proof. */
#ifndef HAUL_PLAN_GRAPH_PLACE_H
#define HAUL_PLAN_GRAPH_PLACE_H

#include "plan/graph/cut.h"

/* All zero is empty. */
typedef struct haul__placement {
    uint8_t          *device; /* of each group */
    int64_t           cost;
    haul__place_peak  peaks[HAUL__PLACE_DEVICES];
    haul__place_proof proof; /* its bound is at most the cost; without limits, and on two devices, it equals the cost */
} haul__placement;

void haul__placement_free(haul__placement *p);

/* The cheapest placement. On two devices without limits that bind it is exact. On more devices it is the best that
 * expansion moves find. With limits it is the best that a search finds: prices of resident memory that a subgradient
 * method raises until the cheapest placement fits, repair of what does not, and a descent. It is never dearer than a
 * placement of everything on one device that fits. Fails with HAUL_OUT_OF_MEMORY if nothing that fits was found; the
 * message says whether that is proven. */
haul_status haul__place_solve(const haul__place_graph *g, haul__placement *out);

/* Everything on one device, as far as pins allow it, without a proof. */
haul_status haul__place_single(const haul__place_graph *g, int device, haul__placement *out);

/* Sets the cost and the peaks of a placement by its devices. */
haul_status haul__place_measure(const haul__place_graph *g, haul__placement *p);

/* True if the peaks are within the limits. */
bool haul__place_fits(const haul__place_graph *g, const haul__place_peak peaks[HAUL__PLACE_DEVICES]);

#endif
