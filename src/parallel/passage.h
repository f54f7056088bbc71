/* Activations and their gradients between the ranks of neighbouring stages (parallel/pipe.h). A message has a head, and
 * then the elements. Both go through host memory, by sends and receives of the group. */
#ifndef HAUL_PARALLEL_PASSAGE_H
#define HAUL_PARALLEL_PASSAGE_H

#include "group/group.h"

/* What passes: equal on both ranks. */
typedef struct haul__passage {
    haul_group *group;
    int         peer;        /* the other rank */
    bool        is_gradient; /* of an activation that has passed in the other direction */
    int64_t     step;        /* -1: outside of steps; -2: between two pieces of one */
    int         piece;
} haul__passage;

/* Reads a tensor and sends it. Outside of steps it waits until an activation has come, so that no rank runs far ahead
 * of the next one; else it does not wait for the other rank. Outside of pieces, if `t` or the reading has failed, the
 * error goes in its place. */
haul_status haul__passage_send(const haul__passage *p, haul_tensor *t);

/* Waits for a tensor, which has the order of axes in memory that the sender's had, and repeats elements where that did.
 * It is on `device` and belongs to the innermost scope. With an activation comes the state of the sender's generator of
 * random numbers: the thread goes on drawing where the sender has stopped. A failed tensor on failure, also if the
 * other rank has failed: then with its error. */
haul_tensor *haul__passage_receive(const haul__passage *p, haul_device *device);

/* Sends the recorded error in the place of a tensor: this rank has failed. */
void haul__passage_fail(const haul__passage *p);

#endif
