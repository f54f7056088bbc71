/* The state of an optimizer, divided among the ranks of a group (.shard = 1 of haul_parallel_new). Each parameter has
 * one owner. The others have no state for it, and get its new value from the owner. */
#ifndef HAUL_PARALLEL_SHARD_H
#define HAUL_PARALLEL_SHARD_H

#include "group/group.h"
#include "optim/optimizer.h"
#include "parallel/flat.h"

typedef struct haul__shards {
    const haul__flat *flat;
    haul_group       *group;
    int              *owners; /* of the parameters of flat: ranks; NULL: nothing is divided */
} haul__shards;

/* Parameters go to the rank that has the fewest bytes, the largest ones first. `flat` and `group` must outlive it. */
haul_status haul__shards_init(haul__shards *s, const haul__flat *flat, haul_group *group);
void        haul__shards_free(haul__shards *s);

/* A step of the optimizer: each rank updates its own parameters, and gets the others. scaler: NULL, there is none. */
haul_status haul__shards_step(const haul__shards *s, haul_optimizer *o, haul_grad_scaler *scaler);

/* Rank 0 gets the state of all parameters. */
haul_status haul__shards_gather(const haul__shards *s, haul_optimizer *o);

#endif
