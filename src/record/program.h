/* Programs in the order of the calls, or in that of followed steps. */
#ifndef HAUL_RECORD_PROGRAM_H
#define HAUL_RECORD_PROGRAM_H

#include <haul/program.h>

#include "memory/dry_run/dry_run.h"
#include "record/order.h"

/* haul_program_record; with `moves` false updates of parameters stay where the function makes them (record/order.h),
 * and nothing is fused, as in a step that runs as it is. */
haul_status haul__program_record(haul_estimate_function *function, void *context, bool moves, haul_program *out);

/* The same, which also finds for each of `count` tensors the number of its store in the program; -1: the program does
 * not use it. The arenas are those of a followed step. */
haul_status haul__program_record_finding(haul_estimate_function *function, void *context, haul_tensor *const *tensors,
                                         int count, int64_t *stores, haul_program *out);

/* Calls the function in the thread's dry run; its range of the log goes to *out. */
haul_status haul__program_run(haul__dry_run *run, haul_estimate_function *function, void *context,
                              haul__program_range *out);

#endif
