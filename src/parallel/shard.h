/* The state of an optimizer, divided among the ranks of a group (.shard of haul_parallel_new). Each parameter has one
 * owner. The others have no state for it, and get its new value from the owner. From .shard = 2 on the owner alone has
 * its gradient (optim/divided.h). With .shard = 3 it alone has the parameter, too (parallel/parts.h). */
#ifndef HAUL_PARALLEL_SHARD_H
#define HAUL_PARALLEL_SHARD_H

#include "group/group.h"
#include "optim/divided.h"
#include "optim/optimizer.h"
#include "parallel/flat.h"
#include "parallel/parts.h"

typedef struct haul__shards {
    int               stage; /* .shard of haul_parallel_new */
    bool              apart; /* ranks do not get the parameters of others after a step */
    const haul__flat *flat;
    haul_group       *group;
    int              *owners;  /* of the parameters of flat: ranks; NULL: nothing is divided */
    haul__divided    *divided; /* of gradients; NULL: each rank has all of them */
    haul__parts      *parts;   /* of parameters; NULL: each rank has all of them */
} haul__shards;

/* Parameters go to the rank that has the fewest bytes, the largest ones first. `flat` and `group` must outlive it. */
haul_status haul__shards_init(haul__shards *s, int stage, haul__flat *flat, haul_group *group);
/* Each rank has what belongs to its own parameters, and does not get the others. Copies `owners`. */
haul_status haul__shards_init_apart(haul__shards *s, haul__flat *flat, const int *owners, haul_group *group);
void        haul__shards_free(haul__shards *s);

/* A step begins, with the parameters of rank 0 on all ranks in the first one. */
haul_status haul__shards_begin(const haul__shards *s);

/* The gradients of a step are ready, or not any more. */
void haul__shards_ready(const haul__shards *s, bool ready);

/* A step of the optimizer: each rank updates its own parameters, and gets the others. scaler: NULL, there is none. If
 * it fails on this rank, the others may wait for it: pass the error to them. */
haul_status haul__shards_step(const haul__shards *s, haul_optimizer *o, haul_grad_scaler *scaler);

/* Rank 0 gets all parameters and, with an optimizer, the state of all. */
haul_status haul__shards_gather(const haul__shards *s, haul_optimizer *o);

#endif
