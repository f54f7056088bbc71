/* The blocks of a device at the moment when an allocation failed. Memory for them is there before, because nothing can
 * be allocated then. */
#ifndef HAUL_MEMORY_REPORT_FAILURE_H
#define HAUL_MEMORY_REPORT_FAILURE_H

#include "memory/allocator.h"

/* From now on each failure is kept, or no longer. haul__failure_end forgets the last one. */
haul_status haul__failure_begin(const char *operation);
void        haul__failure_end(void);

/* An allocation has failed for good, on the allocator's device, with the error that is recorded now. Allocates nothing.
 * Failures of pinned memory are not kept, because ordinary memory takes its place. */
void haul__failure_take(struct haul__allocator *a);

#endif
