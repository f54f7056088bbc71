/* Scratch memory: memory for one library call. Without it the library computes in another way, maybe with different
 * bits.
 *
 * On a device that spills, tensors make room for it, so that a limit does not decide how a call computes. The tensors
 * that the call itself uses stay: they would only have to come back. */
#include "base/assert.h"
#include "device/residency.h"
#include "memory/allocator_state.h"
#include "memory/dry_run/dry_run.h"
#include "memory/mark.h"
#include "memory/planned_scratch.h"
#include "memory/scope_limit.h"
#include "memory/spill/spill.h"

static const char origin[] = "scratch";

/* How often room is made: other threads may take it first. */
enum { ATTEMPTS = 4 };

/* ---- what the call uses ---- */

/* 1: it stays; -1: it may go again. The caller has the lock of device/residency.h, so no other thread spills meanwhile.
 */
static void hold(haul_tensor *const *used, int count, int by)
{
    HAUL__ASSERT(haul__residency_is_taken() && (by == 1 || by == -1));
    for (int i = 0; i < count; i++)
        if (used[i]->storage->uses) {
            const int before = atomic_fetch_add(&used[i]->storage->uses->fixed, by);
            HAUL__ASSERT(before + by >= 0);
            (void)before;
        }
}

static bool is_repeated(haul_tensor *const *used, int i)
{
    for (int k = 0; k < i; k++)
        if (used[k]->storage == used[i]->storage)
            return true;
    return false;
}

/* What must come back for the call. */
static int64_t bytes_away(haul_tensor *const *used, int count)
{
    int64_t bytes = 0;
    HAUL__ASSERT(haul__residency_is_taken());
    for (int i = 0; i < count; i++) {
        const haul__block *block = used[i]->storage->block;
        if (block && haul__block_is_away(block) && !is_repeated(used, i))
            bytes += (int64_t)block->bytes;
    }
    return bytes;
}

/* ---- making room ---- */

/* True if everything that the call uses and `bytes` more fit once all other tensors are away. */
static bool can_fit(struct haul__allocator *a, int64_t bytes, haul_tensor *const *used, int count)
{
    const int64_t movable = haul__spillable(a);
    haul__spin_lock(&a->lock);
    const haul_memory_stats *s = &a->stats;
    const int64_t            most = s->limit > 0 ? s->limit - haul__limited_overhead(a) : s->reserved;
    const int64_t            room = most - s->allocated + movable;
    HAUL__ASSERT(movable >= 0 && s->allocated >= 0);
    haul__spin_unlock(&a->lock);
    return room - bytes >= bytes_away(used, count);
}

static haul__storage *make_room(struct haul__allocator *a, size_t bytes, int64_t block, haul_tensor *const *used,
                                int count)
{
    haul__storage *storage = NULL;
    const bool     taken = haul__residency_take();
    hold(used, count, 1);
    if (can_fit(a, block, used, count))
        for (int i = 0; i < ATTEMPTS && !storage && haul__spill(a, block) >= 0; i++)
            storage = haul__storage_in(a, bytes, false, origin);
    hold(used, count, -1);
    if (taken)
        haul__residency_give();
    return storage;
}

static bool may_make_room(struct haul__allocator *a, int bin)
{
    return a && bin >= 0 && atomic_load(&a->spills) &&
           !haul__scope_limit_over(haul__scope_limit_now(), a->device, (int64_t)haul__bin_bytes(bin), false);
}

static haul__storage *alloc(struct haul__allocator *a, size_t bytes, haul_tensor *const *used, int count)
{
    const int      bin = a ? haul__bin_for(a->device, false, bytes) : -1;
    haul__storage *storage = haul__storage_in(a, bytes, false, origin);
    if (!storage && may_make_room(a, bin))
        storage = make_room(a, bytes, (int64_t)haul__bin_bytes(bin), used, count);
    return storage;
}

haul__storage *haul__scratch_alloc(haul_device *device, size_t bytes, haul_tensor *const *used, int count)
{
    haul__error_record before;
    bool               refused;
    if (bytes == 0 || !haul__device_computes(device))
        return NULL;
    haul__storage *s = haul__planned_scratch_take(device, bytes, &refused);
    if (s || refused)
        return s;
    haul__error_save(&before);
    haul__storage *storage = haul__is_dry() ? haul__planned_alloc(device, bytes, false, origin)
                                            : alloc(haul__allocator_of(device, false), bytes, used, count);
    HAUL__ASSERT(!storage || (storage->device == device && storage->bytes == bytes));
    if (!storage)
        haul__error_restore(&before);
    haul__set_storage_role(storage, HAUL__ROLE_WORKSPACE);
    return storage;
}
