/* Memory limits of scopes. A budget counts what its scope, and the scopes inside it, allocate on a device.
 *
 * The thread's setting HAUL__BUDGET is the innermost budget, and `outer` links it to the next. All of the allocating
 * thread's budgets for its device count a block. The block remembers the innermost one. Whichever thread frees the
 * block, it is then subtracted from all of them. So memory that outlives its scope still counts for enclosing scopes.
 * In a dry run, budgets made in that run count planned storages, and other budgets count nothing. */
#ifndef HAUL_MEMORY_SCOPE_LIMIT_H
#define HAUL_MEMORY_SCOPE_LIMIT_H

#include "core/thread.h"
#include "device/device.h"

typedef struct haul__budget haul__budget;

/* The thread's innermost budget; usually NULL: none. */
static inline haul__budget *haul__budget_now(void)
{
    return haul__thread()->held[HAUL__BUDGET];
}

/* The budget whose limit `bytes` more would exceed; NULL: none. */
haul__budget *haul__budget_over(haul__budget *innermost, const haul_device *device, int64_t bytes, bool dry);

/* Counts memory that the calling thread allocates, and takes a reference to `innermost` for it. If a limit would be
 * exceeded, returns its budget and changes nothing. Otherwise returns NULL. */
haul__budget *haul__budget_charge(haul__budget *innermost, const haul_device *device, int64_t bytes, bool dry);

/* The memory is free again, on any thread. Releases the reference. */
void haul__budget_discharge(haul__budget *innermost, const haul_device *device, int64_t bytes, bool dry);

/* Is `budget` the innermost one, or one that encloses it? */
bool haul__budget_within(const haul__budget *innermost, const haul__budget *budget);

/* The name of its scope, or "", and its figures in bytes. */
typedef struct haul__budget_figures {
    const char *scope;
    int64_t     allocated, limit;
} haul__budget_figures;
haul__budget_figures haul__budget_figures_of(const haul__budget *budget);

/* Records that `bytes` exceed the limit; `who` lists the memory in use by origin. */
haul_status haul__budget_fail(const haul__budget *budget, size_t bytes, const char *origin, const char *who);

#endif
