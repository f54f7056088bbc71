/* haul_parallel_backward in two parts, for pieces that are followed (haul/recording.h). The step function of the
 * recording has the forward pass of a piece and the first part. haul_parallel_begin comes before it, because it sets
 * random numbers; the second part comes behind it, because it talks to other ranks. */
#ifndef HAUL_PARALLEL_PIECE_H
#define HAUL_PARALLEL_PIECE_H

#include <haul/parallel.h>

/* Differentiates the piece that was begun, and gathers its gradients. It may be called several times for a piece. In a
 * step that is recorded or followed nothing is added to the pieces before and nothing travels; in one that runs as it
 * is, gradients of a rank's last piece travel as soon as they are complete. */
haul_status haul__parallel_differentiate(haul_parallel *parallel, haul_tensor *sum_of_losses, double weight);

/* Adds the piece to those before; the last one reduces. status: of the first part and of what came before it. If it is
 * not HAUL_OK, the step is given up on all ranks. Returns it, or what fails here. */
haul_status haul__parallel_finish(haul_parallel *parallel, haul_status status);

/* With stages: all ranks have the parameters and buffers of rank 0 from here on, and each gives up the parameters of
 * other stages, which haul_parallel_begin would do. All ranks call it. What loads weights or a checkpoint afterwards
 * sets the parameters that a rank has. */
haul_status haul__parallel_divide(haul_parallel *parallel, const char *operation);

/* The training ends on this rank: ranks that wait for it get the recorded error. */
void haul__parallel_fail(haul_parallel *parallel, const char *operation);

/* Why pieces should run as they are: with several buckets, one is copied instead of being a gradient's memory, and
 * would not travel before the end of the pass. NULL: they should be followed. */
const char *haul__parallel_unfollowed(const haul_parallel *parallel);

#endif
