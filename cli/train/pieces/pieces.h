/* Steps in pieces (--pieces): data parallel training of the library. */
#ifndef CLI_TRAIN_PIECES_H
#define CLI_TRAIN_PIECES_H

#include "cli/train/trainer.h"

/* True if the options suit --pieces. Otherwise complains. */
bool pieces_suit(const train_options *o);

/* The loader of the training data, and with --pieces data parallel training of the network. */
haul_loader *pieces_loader(const trainer *t);
haul_status  pieces_begin(trainer *t);

/* The pieces of a mini-batch that are this rank's; 1 without --pieces. */
int64_t pieces_each(const trainer *t);

/* Mini-batches in an epoch. With --pieces, each has as many pieces as that. */
int64_t pieces_batches(const trainer *t);

/* Begin an epoch at the mini-batch where the training stands. */
haul_status pieces_start(const trainer *t);

/* The step function of the recording: the forward and the backward pass of a piece, t->batch. */
haul_status pieces_learn(void *context);

/* A step of the optimizer, whose first piece is given. In a training under way the loader gives the others; elsewhere
 * they are all like the first. With a recording, the pieces follow it. */
haul_status pieces_step(trainer *t, const haul_batch *first, haul_recording *recording);

#endif
