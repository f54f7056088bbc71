/* The source of random numbers for operations that draw on devices: the thread's generator, or that of the process. */
#ifndef HAUL_OPS_RANDOM_GENERATOR_H
#define HAUL_OPS_RANDOM_GENERATOR_H

#include <haul/random.h>

/* Takes `blocks` blocks of four words, which begin at the state before. */
haul_random_state haul__random_take(int64_t blocks);

/* Undoes a take, because nothing was drawn after all, unless more was taken since. */
void haul__random_give_back(haul_random_state taken, int64_t blocks);

#endif
