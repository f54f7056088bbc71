/* Reports on allocations that failed. Each is kept under a number, which the error record holds, so that a report goes
 * wherever its error goes: into failed tensors, out of attempts that are made again, and away. */
#ifndef HAUL_MEMORY_REPORT_REPORT_H
#define HAUL_MEMORY_REPORT_REPORT_H

#include "memory/allocator.h"
#include "memory/scope_limit.h"

/* Reports the failure that is recorded now: `bytes` did not fit on the allocator's device, or exceeded the limit of the
 * scope limit `over`, unless it is NULL. Allocates nothing. */
void haul__report_failure(struct haul__allocator *a, const haul__scope_limit *over, size_t bytes, const char *origin);

/* A function found nothing about the thread's error. Returns HAUL_STATE; keeps the error, and if there is none, records
 * one with the text `what`. */
haul_status haul__report_lacks(const char *operation, const char *what);

#endif
