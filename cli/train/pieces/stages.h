/* A training with --stages: each rank has a part of the network. */
#ifndef CLI_TRAIN_PIECES_STAGES_H
#define CLI_TRAIN_PIECES_STAGES_H

#include "cli/train/trainer.h"

/* An option that does not go with --stages; NULL: all do. */
const char *stages_conflict(const train_options *o);

/* False after a complaint, if another option does not go with --stages. */
bool stages_suit(const train_options *o);

/* With one rank there are no stages; --estimate needs no ranks. False if there is another number of ranks than stages,
 * after a complaint unless `silent`. */
bool stages_suit_ranks(train_options *o, int ranks, bool silent);

/* Chooses where stages begin, by the arithmetic of the layers, unless --cuts says so. t->cuts is NULL without stages,
 * and in dry runs, which have none. */
haul_status stages_choose(trainer *t);

#endif
