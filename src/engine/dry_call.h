/* The driver's part of dry runs: calls in the log (program/program.h), with their operands, results and costs. */
#ifndef HAUL_ENGINE_DRY_CALL_H
#define HAUL_ENGINE_DRY_CALL_H

#include "engine/operation.h"
#include "memory/dry_run/dry_run.h"

/* Describes the call that haul__dry_run_begin_call began, when its operands and results are known and `compute` has not
 * begun. Operations that `compute` calls are a part of it and are not in the log; the call's scope ends that. */
haul_status haul__dry_call_describe(const haul__call *c);

/* Describes what the call launches, if it `tiles`. */
void haul__dry_call_launch(const haul__launch *launch);

/* Copies a result to its target as a call of its own, so that a recording has it. */
haul_status haul__dry_call_copy(haul_tensor *out, haul_tensor *x);

/* Ends the call. One that failed is not listed. */
void haul__dry_call_end(int call, haul_status status);

#endif
