/* What a device that spills would move in a dry run, by the rules of memory/spill/spill.c. */
#ifndef HAUL_RECORD_SPILL_PLAN_H
#define HAUL_RECORD_SPILL_PLAN_H

#include "memory/dry_run/dry_run.h"

/* In bytes. */
typedef struct haul__spill_plan {
    int64_t spilled, returned;    /* that would leave the device, and come back */
    int64_t to_file;              /* of `spilled`: to the file, not to host memory */
    int64_t host_peak, file_peak; /* the most that would be in host memory and in the file */
    int64_t missing;              /* the most that neither has room for */
    int64_t over;                 /* the most in use where the limit is exceeded, because nothing else can be moved */
    int     over_store;           /* that needed memory then */
    int     over_call;            /* for this call; -1: for none */
} haul__spill_plan;

/* Follows the log to its end; the result is what happens after its first `from` changes and `command` commands.
 * Storages from before the run cannot be moved. All zero for a device without a limit, or that does not spill. */
haul_status haul__spill_plan_make(const haul__dry_run *run, const haul__dry_base *base, size_t from, size_t command,
                                  haul__spill_plan *out);

#endif
