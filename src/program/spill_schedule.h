/* When stores of a program go to host memory, and when they are back, as a plan expects it. A step itself chooses by
 * the next uses (memory/spill/next_use.h); decision 037 compares the two.
 *
 * Numbers are those of a haul_program: of its stores and of its operations. A move says that the elements of a store
 * leave the device after operation `after` has been submitted, and are on it again before operation `before` is. The
 * store is not used between the two. A store from outside that is away at the end of the program has `before` as the
 * number of operations plus that of its first use in the next run. Moves are in the order of `after`. */
#ifndef HAUL_PROGRAM_SPILL_SCHEDULE_H
#define HAUL_PROGRAM_SPILL_SCHEDULE_H

#include <haul/program.h>

typedef struct haul__spill_move {
    int64_t store;
    int64_t after, before; /* operations; -1 as `after`: before the first one */
} haul__spill_move;

typedef struct haul__spill_schedule {
    haul__spill_move *moves;
    int64_t           count;
} haul__spill_schedule;

#endif
