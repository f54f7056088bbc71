/* The object of data parallel training. make.c makes it, parallel.c runs steps with it. */
#ifndef HAUL_PARALLEL_STATE_H
#define HAUL_PARALLEL_STATE_H

#include <haul/parallel.h>
#include <haul/random.h>

#include "core/object.h"
#include "parallel/buckets.h"
#include "parallel/pipe.h"
#include "parallel/shard.h"

struct haul_parallel {
    haul__object      object;
    haul_module      *module;    /* holds a reference, as of these two: */
    haul_grad_scaler *scaler;    /* NULL: none */
    haul_generator   *generator; /* of the pieces */
    uint64_t          seed;
    int               pieces;
    haul_group       *group;        /* holds a reference */
    haul__tree        tree;         /* of the pieces and ranks */
    int               first, count; /* this rank's pieces */
    bool              equal;        /* all ranks have the weights of rank 0 */
    haul__flat        flat;
    bool              dry; /* made in a dry run */

    int64_t       step;
    int           done;  /* own pieces of the step */
    bool          begun; /* a piece was begun and not finished */
    bool          ready; /* the step is reduced */
    haul__buckets buckets;
    haul__shards  shards; /* of the optimizer's state; without owners: each rank has all of it */
    haul_tensor  *loss;   /* of the step that is ready; holds a reference */
    haul__pipe   *pipe;   /* of stages; NULL: each rank computes the whole network */
};
_Static_assert(sizeof(haul_parallel) <= 1024, "objects of the user are small");

/* Fails unless p is data parallel training. */
haul_status haul__parallel_check(const haul_parallel *p, const char *operation);

#endif
