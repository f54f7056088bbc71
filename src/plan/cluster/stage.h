/* Stages of a pipeline: units in equal parts, and when each of them has computed. */
#ifndef HAUL_PLAN_CLUSTER_STAGE_H
#define HAUL_PLAN_CLUSTER_STAGE_H

#include "plan/cluster/cluster.h"
#include "plan/cluster/units.h"

/* Consecutive units on one device of each replica. */
typedef struct haul__stage {
    int                first, end;              /* units */
    int64_t            forward_ps, backward_ps; /* of one micro-batch */
    int64_t            update_ps;
    int64_t            add_ps;         /* that the gradients of a further micro-batch take */
    int64_t            up_ps, down_ps; /* copies over the border behind it */
    int64_t            fetch_ps;       /* parameters of other ranks, in each pass; 0: it has them */
    int64_t            sent_bytes;     /* over borders, of a micro-batch */
    haul__unit         sum;            /* of its units: bytes and parameters */
    haul__units_memory memory;
    int64_t            last_ps; /* when its last backward pass begins; haul__stages_run sets the next two */
    int64_t            done_ps;
} haul__stage;

/* Cuts the units into so many stages, at most haul__units_most_stages, of which the longest one is as short as
 * possible, with the copies before it. Each has a gradient. */
haul_status haul__stages_cut(const haul__units *u, const haul__cluster_request *r, int count, haul__stage *out);

/* Makes the times of a stage those of one of so many ranks of a host, which share its CPU. */
void haul__stage_share(haul__stage *s, const haul__cluster_request *r, int ranks);
/* The same for one time. */
int64_t haul__stage_shared(const haul__cluster_request *r, int64_t ps, int ranks);

/* The forward passes of all micro-batches, and then the backward passes, the last micro-batch first. Devices and links
 * work at the same time, each in this order. `fetches`: passes wait for parameters of other ranks. */
void haul__stages_run(haul__stage *stages, int count, int parts, bool fetches);

#endif
