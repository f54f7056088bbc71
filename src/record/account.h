/* Memory of a device over a range of a dry run's log. */
#ifndef HAUL_RECORD_ACCOUNT_H
#define HAUL_RECORD_ACCOUNT_H

#include <haul/estimate.h>

#include "memory/dry_run/dry_run.h"

/* Bytes in blocks of the allocator, from moment `from` to the end of the log. */
typedef struct haul__account {
    int64_t start, peak;
    size_t  peak_at; /* the moment at which the peak was reached first */
} haul__account;

haul__account haul__account_read(const haul__dry_run *run, const haul_device *device, bool pinned, size_t from);

/* What the run itself had allocated on the device at a moment, by operation and module, the largest first: an array of
 * *count for haul__free. Returns NULL, with the error recorded, if host memory is exhausted. */
haul_estimate_origin *haul__account_origins(const haul__dry_run *run, const haul_device *device, size_t moment,
                                            int *count);

#endif
