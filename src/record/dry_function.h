/* A call of one of the program's functions in a dry run: a run of its own, or a part of the one under way. */
#ifndef HAUL_RECORD_DRY_FUNCTION_H
#define HAUL_RECORD_DRY_FUNCTION_H

#include <haul/estimate.h>
#include <haul/scope.h>

#include "memory/dry_run/dry_run.h"

typedef struct haul__dry_function {
    haul_scope    *scope; /* owns what the function makes */
    haul__dry_run *run;   /* with a reference */
    haul__dry_run *outer; /* the run that goes on after a recording within it; else NULL */
    bool           is_new;
} haul__dry_function;

/* Enters the dry run. `operation` names it in messages. After a failure there is nothing to end. */
haul_status haul__dry_function_begin(haul__dry_function *call, const char *operation);

/* The same with a recorder, which is notified of calls, and always with a run of its own; NULL: without. */
haul_status haul__dry_function_begin_recorded(haul__dry_function *call, haul__recorder *recorder,
                                              const char *operation);

/* Calls function(context) in a dry run, and returns its status. */
haul_status haul__dry_function_call(haul_estimate_function *function, void *context, const char *operation);

/* Frees what the function made. A run that began with the call ends, and what it changed is restored. */
void haul__dry_function_end(haul__dry_function *call);

#endif
