/* When the blocks of a program's stores exist on a device, and how many bytes are in blocks at each operation. */
#ifndef HAUL_RECORD_RESIDENCY_H
#define HAUL_RECORD_RESIDENCY_H

#include <haul/program.h>

#include "program/spill_schedule.h"

/* An allocation or a release. */
typedef struct haul__residency_change {
    int64_t store;     /* of the program; -1: it has none */
    int64_t bytes;     /* negative for a release */
    int64_t operation; /* under way then */
} haul__residency_change;

/* All zero is empty. The bytes at an operation are the most that are allocated at once while it is under way. */
typedef struct haul__residency {
    int64_t *bytes;        /* at each operation, with memory from before the program */
    int64_t *from, *until; /* of each store: the operations at which its block exists; from > until: none */
    int64_t *block;        /* bytes of each store's block; 0: it is not on the device */
    int64_t  start;        /* bytes when the program begins */
    haul__residency_change *changes;
    size_t                  change_count;
} haul__residency;

/* haul__program_record without moves, and the residency on a device. On failure both are empty. */
haul_status haul__program_record_residency(haul_estimate_function *function, void *context, const haul_device *device,
                                           haul_program *program, haul__residency *out);
void        haul__residency_free(haul__residency *r);

/* The most bytes in blocks if these stores go and come back. */
haul_status haul__residency_peak(const haul__residency *r, const haul_program *program,
                                 const haul__spill_schedule *schedule, int64_t *peak);

#endif
