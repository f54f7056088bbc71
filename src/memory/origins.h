/* Who holds memory, and the text about it in messages. */
#ifndef HAUL_MEMORY_ORIGINS_H
#define HAUL_MEMORY_ORIGINS_H

#include <haul/memory.h>

#include "memory/allocator.h"
#include "memory/budget.h"

/* Adds up the blocks of the ring `live` by origin, largest sum first; only those that the budget `only` counts, unless
 * it is NULL. Writes at most `capacity` rows and returns the number of origins. */
int haul__sum_origins(const haul__block *live, const haul__budget *only, haul_memory_origin *out, int capacity);

/* " (by haul_add 1.5 MiB, haul_exp 3.0 KiB, ...)", or "" if there are none. `count` may exceed the three rows that are
 * shown. Returns `out`. */
const char *haul__origins_text(const haul_memory_origin *rows, int count, char *out, size_t size);

/* Writes "1.5 MiB" into a buffer and returns it. */
const char *haul__size_text(int64_t bytes, char *out, size_t size);

#endif
