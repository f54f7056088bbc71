/* Memory limits of scopes. A scope limit counts what its scope, and the scopes inside it, allocate on a device.
 *
 * The thread's setting HAUL__SCOPE_LIMIT is the innermost scope limit, and `outer` links it to the next. All of the
 * allocating thread's scope limits for its device count a block. The block remembers the innermost one. Whichever
 * thread frees the block, it is then subtracted from all of them. So memory that outlives its scope still counts for
 * enclosing scopes. In a dry run, scope limits made in that run count planned storages, and other scope limits count
 * nothing. */
#ifndef HAUL_MEMORY_SCOPE_LIMIT_H
#define HAUL_MEMORY_SCOPE_LIMIT_H

#include "core/thread.h"
#include "device/device.h"

typedef struct haul__scope_limit haul__scope_limit;

/* The thread's innermost scope limit; usually NULL: none. */
static inline haul__scope_limit *haul__scope_limit_now(void)
{
    return haul__thread()->held[HAUL__SCOPE_LIMIT];
}

/* The scope limit whose limit `bytes` more would exceed; NULL: none. */
haul__scope_limit *haul__scope_limit_over(haul__scope_limit *innermost, const haul_device *device, int64_t bytes,
                                          bool dry);

/* Counts memory that the calling thread allocates, and takes a reference to `innermost` for it. If a limit would be
 * exceeded, returns its scope limit and changes nothing. Otherwise returns NULL. */
haul__scope_limit *haul__scope_limit_charge(haul__scope_limit *innermost, const haul_device *device, int64_t bytes,
                                            bool dry);

/* The memory is free again, on any thread. Releases the reference. */
void haul__scope_limit_discharge(haul__scope_limit *innermost, const haul_device *device, int64_t bytes, bool dry);

/* True if `scope_limit` is the innermost one, or one that encloses it. */
bool haul__scope_limit_within(const haul__scope_limit *innermost, const haul__scope_limit *scope_limit);

/* The name of its scope, or "", and its figures in bytes. */
typedef struct haul__scope_limit_figures {
    const char *scope;
    int64_t     allocated, limit;
} haul__scope_limit_figures;
haul__scope_limit_figures haul__scope_limit_figures_of(const haul__scope_limit *scope_limit);

/* Records that `bytes` exceed the limit; `who` lists the memory in use by origin. */
haul_status haul__scope_limit_fail(const haul__scope_limit *scope_limit, size_t bytes, const char *origin,
                                   const char *who);

#endif
