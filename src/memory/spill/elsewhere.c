#include "memory/spill/elsewhere.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "device/residency.h"
#include "memory/allocator_state.h"
#include "memory/derived.h"
#include "memory/spill/copy.h"
#include "memory/spill/move.h"
#include "memory/spill/spill.h"

/* ---- the end ---- */

static void ended_before(haul__elsewhere *e, int64_t number, const haul__command *c)
{
    (void)e;
    (void)number;
    (void)c;
}

static haul_status ended_fetch(haul__elsewhere *e, int64_t number, void *to, size_t bytes)
{
    (void)e;
    (void)number;
    (void)to;
    (void)bytes;
    return haul__fail(
        HAUL_STATE, "haul_parallel_gather", NULL,
        "the elements of this parameter are on another rank, whose training with .shard = 3 or .stages this rank has "
        "ended; call haul_parallel_gather on all ranks before the end and use rank 0's, or make a "
        "new module and load a checkpoint");
}

static haul__elsewhere ended = {.before = ended_before, .fetch = ended_fetch};

/* ---- states ---- */

bool haul__is_elsewhere(const haul__storage *storage)
{
    const haul__block *block = storage->block;
    return block && block->copy && block->copy->elsewhere && block->copy->elsewhere != &ended;
}

bool haul__is_given_up(const haul__storage *storage)
{
    return haul__is_elsewhere(storage) && atomic_load(&storage->uses->away);
}

bool haul__is_out_of_reach(const haul__storage *storage)
{
    return haul__is_given_up(storage) && storage->block->copy->elsewhere->out_of_reach;
}

bool haul__elsewhere_suits(const haul__storage *s)
{
    const haul__block *block = s->block;
    return block && &block->own == s && !s->planned && !s->lent && !block->pinned && !block->pins &&
           !atomic_load(&block->uses.fixed) && (!block->copy || block->copy->elsewhere) && !haul__spills(s->device);
}

/* Marks the block as moving; false if it must stay. The caller has the lock of device/residency.h. */
static bool begin_moving(haul__block *block)
{
    haul__spin_lock(&block->owner->lock);
    HAUL__ASSERT(haul__residency_is_taken() && !block->moving);
    const bool can = !atomic_load(&block->uses.away) && !block->pins && !atomic_load(&block->uses.fixed);
    if (can)
        block->moving = true;
    haul__spin_unlock(&block->owner->lock);
    return can;
}

bool haul__elsewhere_leave(haul__storage *storage)
{
    haul__error_record before;
    if (haul__is_given_up(storage))
        return true;
    const bool taken = haul__residency_take();
    haul__error_save(&before);
    haul__residency_stop();
    const bool leaves = begin_moving(storage->block) && !haul__move_away(storage->block);
    HAUL__ASSERT(!leaves || haul__is_given_up(storage)); /* the caller has a reference */
    haul__error_restore(&before);
    if (taken)
        haul__residency_give();
    if (leaves)
        haul__derived_drop_all(storage);
    return leaves;
}

static haul_status set_copy(haul__block *block, haul__elsewhere *e, int64_t number)
{
    haul__spill_copy *copy = block->copy;
    HAUL__ASSERT(!copy || copy->elsewhere); /* others have host memory or a part of a file */
    if (!copy && !(copy = haul__calloc(1, sizeof *copy)))
        return haul__fail_memory("haul_parallel_new", sizeof *copy);
    haul__spin_lock(&block->owner->lock);
    *copy =
        (haul__spill_copy){.of = block->owner, .bytes = (int64_t)block->own.bytes, .elsewhere = e, .number = number};
    block->copy = copy;
    haul__spin_unlock(&block->owner->lock);
    return HAUL_OK;
}

haul_status haul__elsewhere_begin(haul__storage *storage, haul__elsewhere *e, int64_t number)
{
    haul__spill_watch();
    if (set_copy(storage->block, e, number))
        return haul_error_status();
    haul__elsewhere_leave(storage);
    return HAUL_OK;
}

haul_status haul__elsewhere_come(haul__storage *storage, const char *operation)
{
    return haul__host_before(storage, false, operation);
}

void haul__elsewhere_change(haul__storage *storage)
{
    atomic_fetch_add(&storage->version, 1);
    haul__derived_drop_all(storage);
}

void haul__elsewhere_end(haul__storage *storage)
{
    haul__block *block = storage->block;
    if (!haul__is_elsewhere(storage))
        return;
    haul__spin_lock(&block->owner->lock);
    haul__spill_copy *copy = block->copy;
    const bool        away = haul__block_is_away(block);
    HAUL__ASSERT(!copy->host && !copy->part);
    copy->elsewhere = &ended;
    if (!away)
        block->copy = NULL;
    haul__spin_unlock(&block->owner->lock);
    if (!away)
        haul__spill_copy_free(copy);
}
