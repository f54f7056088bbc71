/* Memory that is planned for what an operation allocates while it computes: temporaries, and scratch memory of
 * libraries. A followed step has it in its arena (record/follow). */
#ifndef HAUL_MEMORY_PLANNED_SCRATCH_H
#define HAUL_MEMORY_PLANNED_SCRATCH_H

#include "core/tensor.h"

typedef struct haul__planned_scratch {
    haul__storage *const *items; /* in the order in which they are asked for */
    int                   count;
    bool                  refuses; /* an allocation that was not planned fails */
    uint64_t              missed;  /* how many allocations were not planned */
    size_t                bytes;   /* of the last one */
} haul__planned_scratch;

/* Sets the thread's planned scratch; NULL: none. Returns the one before. */
haul__planned_scratch *haul__planned_scratch_set(haul__planned_scratch *scratch);

/* The next storage of this size, with a reference for the caller. NULL, without an error: there is none; then
 * `*refused` is true if the caller must not allocate. */
haul__storage *haul__planned_scratch_take(const haul_device *device, size_t bytes, bool *refused);

#endif
