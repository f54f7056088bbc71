/* Offsets in one arena for memory whose lifetimes are known. */
#ifndef HAUL_PROGRAM_ARENA_H
#define HAUL_PROGRAM_ARENA_H

#include <stddef.h>
#include <stdint.h>

/* Memory that is needed from time `first` to time `last`, both included. */
typedef struct haul__arena_item {
    int64_t bytes;
    int64_t first, last;
    int64_t offset; /* set by haul__arena_plan; a multiple of the alignment */
} haul__arena_item;

/* Gives each item an offset, so that items whose times overlap do not overlap in the arena. Returns the arena's size,
 * or -1, without an error, if host memory is exhausted. `least` gets the most bytes that are needed at one time, with
 * sizes rounded up to the alignment, a power of two. */
int64_t haul__arena_plan(haul__arena_item *items, size_t count, int64_t alignment, int64_t *least);

#endif
