/* Where operations that draw on devices get their random numbers: the thread's generator, or that of the process. */
#ifndef HAUL_OPS_GENERATOR_H
#define HAUL_OPS_GENERATOR_H

#include <haul/random.h>

/* Take `blocks` blocks of four words: the state before is theirs. */
haul_random_state haul__random_take(int64_t blocks);

/* Nothing was drawn after all: undo a take, unless somebody took more since. */
void haul__random_give_back(haul_random_state taken, int64_t blocks);

#endif
