/* How many steps the mini-batches of an epoch form. */
#ifndef HAUL_TRAIN_PIECES_H
#define HAUL_TRAIN_PIECES_H

#include <stdint.h>

/* The steps that `batches` mini-batches form, `accumulate` (at least 1) in each. The last one may have fewer. */
static inline int64_t haul__step_count(int64_t batches, int64_t accumulate)
{
    return batches / accumulate + (batches % accumulate != 0);
}

#endif
