/* What a device that spills would move in a dry run, by the rules of memory/spill.c. */
#ifndef HAUL_MEMORY_DRY_RUN_PLANNED_SPILL_H
#define HAUL_MEMORY_DRY_RUN_PLANNED_SPILL_H

#include <stdbool.h>
#include <stdint.h>

/* A planned storage, in the list of those that could be moved. */
typedef struct haul__movable {
    struct haul__movable *next, *prev; /* NULL: not in a list */
    int64_t               block;       /* bytes of its block */
    int64_t               bytes;       /* bytes of its elements */
    uint64_t              last;        /* when it was last allocated or used */
    bool                  away;
} haul__movable;

/* All zero: the device does not spill. */
typedef struct haul__planned_spill {
    int64_t       limit;   /* bytes; 0: nothing is spilled */
    int64_t       present; /* bytes that are not away */
    uint64_t      clock;
    haul__movable all;               /* head of the ring */
    int64_t       spilled, returned; /* bytes that were moved to host memory and back */
    bool          over;              /* the limit was exceeded, because nothing else could be moved */
} haul__planned_spill;

/* Begins with `present` bytes, which cannot be moved. */
void haul__planned_spill_begin(haul__planned_spill *s, int64_t limit, int64_t present);

/* The storage is made, used, and dropped. A command's storages are used after haul__planned_spill_next, and stay until
 * the next command. These do nothing where nothing is spilled. */
void haul__planned_spill_add(haul__planned_spill *s, haul__movable *m);
void haul__planned_spill_next(haul__planned_spill *s);
void haul__planned_spill_use(haul__planned_spill *s, haul__movable *m);
void haul__planned_spill_drop(haul__planned_spill *s, haul__movable *m);

#endif
