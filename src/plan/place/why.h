/* Why operations run where they do: what they would cost on the best other device, if everything else stayed. */
#ifndef HAUL_PLAN_PLACE_WHY_H
#define HAUL_PLAN_PLACE_WHY_H

#include "plan/graph/graph.h"

/* The reason for copies. */
typedef enum haul__place_cause {
    HAUL__PLACE_INPUT,
    HAUL__PLACE_RESULT,
    HAUL__PLACE_WEIGHTS,
    HAUL__PLACE_GRADIENTS,
    HAUL__PLACE_CAUSES
} haul__place_cause;

typedef struct haul__place_why {
    int               other;       /* the device */
    int64_t           here, there; /* ps; `there` is HAUL__PLACE_NEVER if none of them can run elsewhere */
    int64_t           copies;      /* ps that copies would cost more; negative: less */
    haul__place_cause cause;       /* of most of that */
} haul__place_why;

/* `members` has a byte for each group: 1 for those that are asked about. They run on the same device. Fails if memory
 * is exhausted. */
haul_status haul__place_explain(const haul__place_graph *g, const uint8_t *place, const uint8_t *members,
                                haul__place_why *out);

#endif
