/* A training with --stages: each rank has a part of the network. */
#ifndef CLI_TRAIN_PIECES_STAGES_H
#define CLI_TRAIN_PIECES_STAGES_H

#include "cli/train/trainer.h"
#include "parallel/cut.h"

/* An option that does not go with --stages; NULL: all do. */
const char *stages_conflict(const train_options *o);

/* False after a complaint, if another option does not go with --stages. */
bool stages_suit(const train_options *o);

/* With one rank there are no stages; --estimate needs no ranks. False if there is another number of ranks than stages,
 * after a complaint unless `silent`. */
bool stages_suit_ranks(train_options *o, int ranks, bool silent);

/* Cuts the network into so many stages, by its parameters. haul__cut_free is due. */
haul_status stages_find_cut(const trainer *t, int stages, haul__cut *out);

/* Chooses where stages begin, unless --cuts says so: rank 0 plans it, as haul plan --ranks does. t->cuts is NULL
 * without stages, and in dry runs, which have none. */
haul_status stages_choose(trainer *t);

#endif
