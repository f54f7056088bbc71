/* Who holds memory, and how messages say so. */
#ifndef HAUL_MEMORY_ORIGINS_H
#define HAUL_MEMORY_ORIGINS_H

#include <haul/memory.h>

#include "memory/allocator.h"
#include "memory/budget.h"

/* Add up the blocks of the ring `live` by origin, largest sum first: those that `only` counts, unless it is NULL. Fills
 * at most `capacity` rows and returns how many there are. */
int haul__sum_origins(const haul__block *live, const haul__budget *only, haul_memory_origin *out, int capacity);

/* " (by haul_add 1.5 MiB, haul_exp 3.0 KiB, ...)", or "" where there are none. `count` may be more than the three rows
 * that are shown. Returns `out`. */
const char *haul__origins_text(const haul_memory_origin *rows, int count, char *out, size_t size);

/* "1.5 MiB" into a buffer; returns it. */
const char *haul__size_text(int64_t bytes, char *out, size_t size);

#endif
