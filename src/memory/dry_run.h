/* Dry runs: a thread goes through a program without computing, and counts what it would do.
 *
 * While a thread's setting HAUL__DRY_RUN is not 0 (haul__is_dry), storages are planned: they have a device and a size
 * and no memory, and count in the accounts of the run. haul__submit passes no command on. So whatever makes
 * temporaries, casts or scratch memory is counted by running it. What existed before keeps its contents, and what the
 * program attached to it (gradients, state of optimizers) is put back at the end. */
#ifndef HAUL_MEMORY_DRY_RUN_H
#define HAUL_MEMORY_DRY_RUN_H

#include <haul/transfer.h>

#include "core/counter.h"
#include "core/map.h"
#include "core/thread.h"
#include "device/device.h"

/* What the allocator of a device would say. */
typedef struct haul__account {
    haul_device *device; /* NULL: not touched yet */
    atomic_llong allocated;
    int64_t      start, peak; /* since the innermost estimate began */
} haul__account;

typedef struct haul__dry_run {
    haul__object        object;
    haul__account       accounts[HAUL__MAX_DEVICES]; /* by the device's slot */
    haul__account       pinned[HAUL__MAX_DEVICES];   /* of host memory pinned for the device */
    haul_transfer_stats moved;
    haul__map           kept; /* places that were changed, and what was there */
} haul__dry_run;

/* Begin the thread's dry run, in a scope whose end ends it; `run` is all zero but for its object, and the thread keeps
 * a reference. An error without memory for the thread's context. */
haul_status haul__dry_run_begin(haul__dry_run *run, const char *operation);

/* Put back what was changed in objects that existed before. To be called while the run is under way. */
void haul__dry_run_restore(haul__dry_run *run);

/* The thread's run, where haul__is_dry. */
haul__dry_run *haul__dry_run_now(void);

/* A storage of `bytes` without memory. NULL, with the error recorded, when host memory is exhausted. */
haul__storage *haul__planned_alloc(haul_device *device, size_t bytes, bool pinned, const char *origin);
bool           haul__planned_is_pinned(const haul__storage *storage);

/* A storage that existed before the run gives its block back. */
void haul__dry_run_returned(const haul__storage *storage);

/* A copy that would cross a link is counted. */
void haul__dry_run_copied(const haul_device *to, const haul_device *from, size_t bytes);

/* Remember what is in `place`, a part of `owner`, before it is changed: a reference to a tensor or another object,
 * which may be NULL, or an integer. For owners that existed before the run; nothing happens outside of dry runs. */
haul_status haul__dry_run_keep_tensor(void *owner, haul_tensor **place, const char *operation);
haul_status haul__dry_run_keep_object(void *owner, void *place, const char *operation);
haul_status haul__dry_run_keep_integer(void *owner, int64_t *place, const char *operation);

/* The storage's elements were changed in place. Not in a dry run, where they stay what they are. */
static inline void haul__storage_changed(haul__storage *storage)
{
    if (!haul__is_dry() || storage->planned)
        haul__add_long(&storage->version, 1);
}

#endif
