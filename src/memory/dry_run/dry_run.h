/* Dry runs: a thread runs a program without computing, and counts what the program would do.
 *
 * While a thread's setting HAUL__DRY_RUN is not 0 (haul__is_dry), storages are planned: they have a device and a size
 * but no memory, and are counted in the run's accounts. haul__submit passes no command on. So code that makes
 * temporaries, casts or scratch memory is counted by running it. Objects that existed before keep their contents, and
 * what the program attached to them (gradients, optimizer state) is restored at the end. */
#ifndef HAUL_MEMORY_DRY_RUN_DRY_RUN_H
#define HAUL_MEMORY_DRY_RUN_DRY_RUN_H

#include <haul/transfer.h>

#include "base/counter.h"
#include "core/map.h"
#include "core/trial.h"
#include "device/device.h"
#include "program/program.h"

/* What the run found when it first allocated or released memory of a device. */
typedef struct haul__dry_base {
    haul_device *device; /* NULL: it has not */
    int64_t      start;  /* bytes in blocks that were in use */
    int64_t      limit;  /* of a device that spills; 0: it does not */
} haul__dry_base;

typedef struct haul__recorder haul__recorder; /* engine/follow.h */

typedef struct haul__dry_run {
    haul__object        object;
    haul__recorder     *recorder;                  /* of a run that becomes a recording; else NULL */
    haul__dry_base      bases[HAUL__MAX_DEVICES];  /* by the device's slot */
    haul__dry_base      pinned[HAUL__MAX_DEVICES]; /* for host memory pinned for the device */
    haul_transfer_stats moved;
    bool                houses;      /* tensors that existed before have memory of the run (haul__dry_run_house) */
    bool                keeps;       /* copies on other devices are kept with memory that existed before, too */
    haul__program       program;     /* stores and commands are guarded by the run's lock */
    uint64_t            newest_node; /* the order of the newest node that existed before */
    haul__changes       changes;
    haul__map           drawn;  /* random generators, with the number of blocks that the run has drawn */
    haul__map           let_go; /* storages that existed before, with the number of references that would be gone */
    atomic_bool         lock;
} haul__dry_run;

/* Frees all that the run holds except its changes. */
void haul__dry_run_free(haul__dry_run *run);

/* Begins the thread's dry run, in a scope whose end ends it. `run` is all zero except its object head and newest_node;
 * the thread takes a reference. Fails if there is no memory for the thread's context. */
haul_status haul__dry_run_begin(haul__dry_run *run, const char *operation);

/* Restores the objects that existed before. Call it during the run. */
void haul__dry_run_restore(haul__dry_run *run);

/* The thread's run; call it only if haul__is_dry. */
haul__dry_run *haul__dry_run_now(void);

/* Begins a call in the log of the thread's run, or a section of that name if `operation` is NULL. `*call` is what to
 * end it with; -1 outside of dry runs and inside an operation that computes, which do not write calls. */
haul_status haul__dry_run_begin_call(const haul__operation *operation, const char *name, int *call);
void        haul__dry_run_end_call(int call);

/* The number of the storage's store in the log of the thread's run; -1, with the error recorded, if host memory is
 * exhausted. */
int haul__dry_run_store(const haul__storage *storage);

/* True if the thread's dry run planned the storage, so that it ends with the run at the latest, and for a part of a
 * planned arena. What an enclosing run planned existed before. */
bool haul__dry_run_planned(const haul__storage *storage);

/* True if an object whose tensors have this memory was made in the run: nothing of it is restored at the end. */
bool haul__dry_run_made(const haul__storage *storage);

/* Gives a tensor that existed before the memory and the layout of `other`, until the run ends. Its own memory counts as
 * free. */
haul_status haul__dry_run_house(haul_tensor *t, const haul_tensor *other, const char *operation);

/* A storage of `bytes` without memory. Returns NULL, with the error recorded, if host memory is exhausted. */
haul__storage *haul__planned_alloc(haul_device *device, size_t bytes, bool pinned, const char *origin);
bool           haul__planned_is_pinned(const haul__storage *storage);

/* What the run planned stays on its device, as haul_memory_pin keeps it. Does nothing for other storages. */
void haul__dry_run_pin(const haul__storage *storage);

/* What the run planned is used for. Does nothing for other storages. */
void haul__dry_run_mark(const haul__storage *storage, haul__role role);

/* Notes what a followed step knows of next uses; the storage is NULL for a call. Does nothing for devices that do not
 * spill. */
void haul__dry_run_foresee(const haul_device *device, const haul__storage *storage,
                           const haul__program_foresight *foresight);

/* Counts that a storage which existed before the run frees its block. */
void haul__dry_run_returned(const haul__storage *storage);

/* In a dry run, notes that a storage without a block ends, which may have existed before the run: the next storage at
 * its address is another one. */
void haul__dry_run_ended(const haul__storage *storage);

/* Counts a copy that would cross a link. */
void haul__dry_run_copied(const haul_device *to, const haul_device *from, size_t bytes);

/* Remembers the value of `place`, a field of `owner`, before it changes: a reference to a tensor or another object,
 * which may be NULL, or an integer. For owners that existed before the run; a followed step notes the value in its
 * trial (core/trial.h). Does nothing outside of both. */
haul_status haul__dry_run_keep_tensor(void *owner, haul_tensor **place, const char *operation);
haul_status haul__dry_run_keep_object(void *owner, void *place, const char *operation);
haul_status haul__dry_run_keep_integer(void *owner, int64_t *place, const char *operation);

/* Calls put_back(owner, state) at the end of the run, which holds a reference to the owner. */
haul_status haul__dry_run_keep_state(void *owner, void *state, void (*put_back)(void *owner, void *state),
                                     const char *operation);

/* Takes over the changes of a followed step that was made in the run. It has room for them in its list; see
 * haul__changes_reserve. */
void haul__dry_run_take_changes(haul__dry_run *run, haul__changes *changes);

/* True if the node of this order existed before the run. */
bool haul__dry_run_found(uint64_t order);

/* Counts that a real run would release a reference to a storage, which existed before: its block is free with the last
 * one. */
haul_status haul__dry_run_let_go(const haul__storage *storage);

/* Records an in-place change of the storage's elements. In a dry run only those change that it planned itself. */
static inline void haul__storage_changed(haul__storage *storage)
{
    if (!haul__is_dry() || haul__dry_run_planned(storage))
        haul__add_long(&storage->version, 1);
}

#endif
