/* A training whose network is divided into stages, one on each rank (.stages of haul_parallel_new). All ranks compute
 * all pieces, each its stage of them. The schedule is 1F1B: after the forward pass of a piece, a rank makes the
 * backward pass of the piece that is as many pieces behind as there are stages after its own. So a rank has that many
 * pieces and one more in its memory. */
#ifndef HAUL_PARALLEL_PIPE_H
#define HAUL_PARALLEL_PIPE_H

#include <haul/parallel.h>

#include "parallel/absent.h"
#include "parallel/buckets.h"
#include "parallel/cut.h"
#include "parallel/shard.h"

/* A piece whose backward pass is to be made. Holds references. */
typedef struct haul__pipe_piece {
    haul_tensor *x;    /* what came from the stage before; NULL on the first one */
    haul_tensor *y;    /* the result of the stage, on the last one the loss; NULL: a piece without examples */
    haul_tensor *rest; /* its last bucket */
    int          number;
} haul__pipe_piece;

typedef struct haul__pipe {
    haul_group   *group;
    int           rank, stages;
    haul_module  *module;
    haul__cut     cut;
    haul__flat    all;    /* the parameters and buffers of all stages */
    int          *owners; /* of the parameters: ranks */
    haul__absent *absent; /* those of other stages */

    haul__pipe_piece *queue; /* the oldest first */
    int               queued;

    int64_t            step;
    bool               under_way; /* some pieces of it are left */
    haul__pipe_piece   now;       /* that has begun */
    bool               called;    /* it has: the forward pass of `now` was made */
    double             weight;    /* of the step so far */
    haul__error_record why;       /* with a status: a step has failed, and the training cannot go on */
} haul__pipe;

/* stages: as many as the group has ranks. */
haul__pipe *haul__pipe_new(haul_module *module, haul_group *group, int stages, const char *cuts);
void        haul__pipe_free(haul__pipe *p);

/* The items of the own stage. `own` has been initialised if HAUL_OK is returned. */
haul_status haul__pipe_own(const haul__pipe *p, haul__flat *own);

/* A step and a piece begin. */
haul_status haul__pipe_begin_step(haul__pipe *p, int64_t step);
void        haul__pipe_begin(haul__pipe *p, int piece);

/* Calls the own stage. `within`: in a piece, whose backward pass will come. HAUL_NONE except on the last rank. */
haul_tensor *haul__pipe_call(haul__pipe *p, haul_tensor *x, bool within, haul_device *device);

/* The forward pass of the piece is over: fails if this rank has a loss and should not, or the other way round. */
haul_status haul__pipe_check(const haul__pipe *p, haul_tensor *loss);

/* The piece takes its place in the queue. Its buffers are noted, and are then those before the step. scaled: the loss
 * as it is to be differentiated. */
haul_status haul__pipe_add(haul__pipe *p, haul__flat *own, haul_tensor *loss, haul_tensor *scaled, double weight);

/* Makes the backward passes whose turn it is; after the last piece, all. */
haul_status haul__pipe_backward(haul__pipe *p, haul__buckets *b, bool last);

/* The end of a step: the loss becomes that of the last rank. loss: of this one. Belongs to the innermost scope. */
haul_tensor *haul__pipe_share_loss(haul__pipe *p, haul_tensor *loss);

/* The training cannot go on. Its neighbours get the recorded error, once. */
void haul__pipe_fail(haul__pipe *p);

#endif
