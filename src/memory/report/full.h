/* The errors of allocations that find no memory. */
#ifndef HAUL_MEMORY_REPORT_FULL_H
#define HAUL_MEMORY_REPORT_FULL_H

#include "memory/allocator_state.h"
#include "memory/scope_limit.h"

/* A device has no room for `bytes`, or its limit leaves none. */
void haul__fail_full(struct haul__allocator *a, size_t bytes, const char *origin);

/* The limit of a scope leaves no room for them. */
void haul__fail_over(struct haul__allocator *a, const haul__scope_limit *over, size_t bytes, const char *origin);

#endif
