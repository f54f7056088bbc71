/* Snapshots: what their text is made of. */
#ifndef HAUL_MEMORY_REPORT_SNAPSHOT_H
#define HAUL_MEMORY_REPORT_SNAPSHOT_H

#include <haul/memory.h>

#include "base/text/json_text.h"
#include "memory/allocator_state.h"
#include "program/role.h"

enum { HAUL__SNAPSHOT_SUMS = 3 }; /* by operation, by module, by role */

/* A device's memory at one moment. There may be more blocks and origins than there is room for. */
typedef struct haul__snapshot {
    const haul_device  *device;
    haul_memory_stats   stats;
    haul_memory_block  *blocks;
    haul_memory_origin *origins[HAUL__SNAPSHOT_SUMS];
    int                 block_room, origin_room;
    int                 count, counts[HAUL__SNAPSHOT_SUMS];
} haul__snapshot;

/* Fills a snapshot, as far as there is room. Allocates nothing. */
void haul__snapshot_take(struct haul__allocator *a, haul__snapshot *s);

/* The rows that are there. */
int haul__snapshot_rows(const haul__snapshot *s);

/* The numbers of live storages that events have named, and their roles. Fills at most `capacity` entries and returns
 * how many there are; -1 if the device has no allocator. */
typedef struct haul__live_role {
    uint64_t   storage;
    haul__role role;
} haul__live_role;
int haul__live_roles(const haul_device *device, haul__live_role *out, int capacity);

/* The members of a snapshot's object. */
void haul__snapshot_json(haul__json_text *t, const haul__snapshot *s);

#endif
