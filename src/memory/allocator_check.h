/* Walks all lists of an allocator, in hostile builds only (HAUL_HOSTILE). */
#ifndef HAUL_MEMORY_ALLOCATOR_CHECK_H
#define HAUL_MEMORY_ALLOCATOR_CHECK_H

#include "memory/allocator_state.h"

#ifdef HAUL_HOSTILE
/* Asserts the invariants at the head of allocator.c for every block. The caller has the lock, and what it changes is
 * whole. With many blocks only some of the calls walk, so that a call visits a few dozen blocks on average. */
void haul__allocator_check(const struct haul__allocator *a);
#else
static inline void haul__allocator_check(const struct haul__allocator *a)
{
    (void)a;
}
#endif

#endif
