/* Memory limits of scopes. A budget counts what its scope, and scopes inside it, allocate on a device.
 *
 * The thread's setting HAUL__BUDGET is the innermost budget, and each has the next one as `outer`. A block is counted
 * by all budgets of the thread that allocates it, and remembers the innermost: whoever frees it counts it down. So what
 * outlives its scope still counts for scopes outside. In a dry run, budgets that were made in it count planned
 * storages, and others count nothing. */
#ifndef HAUL_MEMORY_BUDGET_H
#define HAUL_MEMORY_BUDGET_H

#include "core/thread.h"
#include "device/device.h"

typedef struct haul__budget haul__budget;

/* The innermost of the thread; NULL: none, as a rule. */
static inline haul__budget *haul__budget_now(void)
{
    return haul__thread()->held[HAUL__BUDGET];
}

/* Count memory that the calling thread allocates, which holds a reference then. Otherwise returns the budget whose
 * limit it would exceed, and nothing has changed. */
haul__budget *haul__budget_charge(haul__budget *innermost, const haul_device *device, int64_t bytes, bool dry);

/* It is free again; on any thread. Lets go of the reference. */
void haul__budget_discharge(haul__budget *innermost, const haul_device *device, int64_t bytes, bool dry);

/* Is `budget` the innermost, or one outside it? */
bool haul__budget_within(const haul__budget *innermost, const haul__budget *budget);

/* Says that `bytes` exceed the limit; `who` is what is in use, by origin. */
haul_status haul__budget_fail(const haul__budget *budget, size_t bytes, const char *origin, const char *who);

#endif
