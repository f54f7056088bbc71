/* Stores whose values are the same in every run of a followed step, so that their calls compute once. */
#ifndef HAUL_RECORD_CONSTANTS_H
#define HAUL_RECORD_CONSTANTS_H

#include "program/program.h"
#include "record/order.h"

/* Sets `constant[i]` for the stores of `p` that are constants. `p` has its stores and its operations, which are the
 * items of the order. */
haul_status haul__program_find_constants(const haul__program *log, const haul__program_order *order,
                                         const haul_program *p, bool *constant);

#endif
