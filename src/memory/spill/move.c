/* Moves the elements of blocks away from the device and back: the copies, and what becomes of the device memory. */
#include "memory/spill/move.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "core/thread.h"
#include "device/residency.h"
#include "memory/allocator_check.h"
#include "memory/allocator_state.h"
#include "memory/spill/copy.h"
#include "memory/spill/spill.h"
#include "memory/split.h"

static const char origin[] = "spill";

/* The record of uses goes with the memory, which has no other owner. */
static void take_uses(haul__uses *to, haul__uses *from)
{
    HAUL__ASSERT(to != from && 0 <= from->read_count && from->read_count <= HAUL__MAX_READS);
    haul__spin_lock(&to->lock);
    to->write = from->write;
    to->read_count = from->read_count;
    for (int i = 0; i < from->read_count; i++)
        to->reads[i] = from->reads[i];
    atomic_store(&to->any, atomic_load(&from->any));
    atomic_store(&to->away, false);
    haul__spin_unlock(&to->lock);
}

/* From now on the copy has the elements of the block. Nothing writes to the block meanwhile. */
static void set_copied(haul__block *block)
{
    haul__spin_lock(&block->uses.lock);
    block->uses.copied = true;
    haul__spin_unlock(&block->uses.lock);
}

static bool is_copied(haul__block *block)
{
    haul__spin_lock(&block->uses.lock);
    const bool copied = block->copy && block->uses.copied;
    haul__spin_unlock(&block->uses.lock);
    return copied;
}

/* The block's elements go away (1) or have returned (-1). The caller holds the allocator's lock. */
static void count_away(haul__block *block, const haul__spill_copy *copy, int by)
{
    haul_memory_stats *stats = &block->owner->stats;
    if (copy->elsewhere)
        return;
    stats->spilled += by * (int64_t)block->bytes;
    stats->spilled_to_file += copy->part ? by * (int64_t)block->bytes : 0;
    HAUL__ASSERT(0 <= stats->spilled_to_file && stats->spilled_to_file <= stats->spilled);
}

/* Counts each time that the elements leave, but not those that failed to return. */
static void count_move(haul__block *block, const haul__spill_copy *copy)
{
    haul_memory_stats *stats = &block->owner->stats;
    if (copy->elsewhere)
        return;
    stats->spilled_total += (int64_t)block->own.bytes;
    stats->spilled_to_file_total += copy->part ? (int64_t)block->own.bytes : 0;
}

/* The device memory of the block becomes that of a free block, whose next owner waits for its uses: the copy. */
static void part(haul__block *block, haul__block *rest)
{
    struct haul__allocator *a = block->owner;
    HAUL__ASSERT(block->copy && !block->pins && !haul__block_is_away(block) && haul__residency_is_taken());
    *rest = (haul__block){.owner = a,
                          .buffer = block->buffer,
                          .bytes = block->bytes,
                          .bin = block->bin,
                          .origin = block->origin,
                          .born = block->born};
    haul__uses_init(&rest->uses);
    take_uses(&rest->uses, &block->uses);
    haul__block_begin(rest, a->device);
    block->buffer = block->own.buffer = (haul__buffer){NULL, NULL};
    haul__spin_lock(&a->lock);
    atomic_store(&block->uses.away, true); /* under the lock, because sums by origin must agree with the statistics */
    atomic_store(&block->uses.any, true);
    haul__split_replace(rest, block);
    rest->next = a->bins[rest->bin];
    a->bins[rest->bin] = rest;
    a->stats.allocated -= (int64_t)block->bytes;
    count_away(block, block->copy, 1);
    if (block->moving)
        count_move(block, block->copy);
    block->moving = false;
    haul__allocator_check(a);
    haul__spin_unlock(&a->lock);
}

/* Gives the block its new copy, and frees the one before, which is out of date. */
static void set_copy(haul__block *block, haul__spill_copy *copy)
{
    haul__spill_copy *before = block->copy;
    haul__spin_lock(&block->owner->lock);
    block->copy = copy;
    haul__spin_unlock(&block->owner->lock);
    if (before != copy)
        haul__spill_copy_free(before);
}

static void end_moving(haul__block *block)
{
    haul__spin_lock(&block->owner->lock);
    HAUL__ASSERT(block->moving && !haul__block_is_away(block));
    block->moving = false;
    haul__spin_unlock(&block->owner->lock);
}

/* Copies the elements out of the device, unless the present copy is valid. This does not count as a use. */
static haul_status copy_out(haul__block *block, bool ahead)
{
    const uint64_t last = block->uses.last;
    HAUL__ASSERT(block->moving && haul__residency_is_taken());
    if (is_copied(block) || (block->copy && block->copy->elsewhere))
        return HAUL_OK;
    haul__spill_copy *copy = haul__spill_copy_for(block, ahead);
    if (!copy)
        return haul_error_status();
    const haul_status status = haul__spill_copy_out(copy, &block->own);
    if (status && copy != block->copy)
        haul__spill_copy_free(copy);
    if (status)
        return status;
    haul__spin_lock(&block->uses.lock);
    block->uses.last = last;
    haul__spin_unlock(&block->uses.lock);
    set_copy(block, copy);
    return HAUL_OK;
}

haul_status haul__move_away(haul__block *block)
{
    haul__block *rest = haul__malloc(sizeof *rest);
    haul_status  status = rest ? copy_out(block, false) : haul__fail_memory(origin, sizeof *rest);
    if (!status) {
        part(block, rest);
        return HAUL_OK;
    }
    end_moving(block);
    haul__free(rest);
    return status;
}

haul_status haul__copy_ahead(haul__block *block)
{
    const haul_status status = copy_out(block, true);
    if (!status)
        set_copied(block);
    end_moving(block);
    return status;
}

/* Gets device memory for the block: that of a fresh block. No scope's limit counts it a second time. */
static haul_status obtain(haul__block *block, bool ahead)
{
    struct haul__allocator *a = block->owner;
    void                  **scope_limit = &haul__thread()->held[HAUL__SCOPE_LIMIT], *before = *scope_limit;
    *scope_limit = NULL;
    haul__block *fresh = (ahead ? haul__block_get_ready : haul__block_get)(a, block->own.bytes, origin);
    *scope_limit = before;
    if (!fresh)
        return ahead ? HAUL_OUT_OF_MEMORY : haul_error_status();
    haul__spin_lock(&a->lock);
    HAUL__ASSERT(haul__block_is_away(block) && !block->moving && !fresh->copy && !fresh->scope_limit);
    haul__ring_remove(fresh);
    haul__split_replace(block, fresh);
    a->stats.live_blocks--;
    count_away(block, block->copy, -1);
    atomic_store(&block->uses.away, false);
    haul__allocator_check(a);
    haul__spin_unlock(&a->lock);
    block->buffer = block->own.buffer = fresh->buffer;
    take_uses(&block->uses, &fresh->uses);
    haul__free(fresh->recorded);
    haul__free(fresh);
    return HAUL_OK;
}

/* The copy stays until the elements are written or freed, because they may leave again. */
haul_status haul__move_back(haul__block *block, bool ahead)
{
    HAUL__ASSERT(haul__residency_is_taken() && haul__block_is_away(block));
    haul__block *rest = haul__malloc(sizeof *rest); /* in case the copy fails */
    haul_status  status = rest ? obtain(block, ahead) : haul__fail_memory(origin, sizeof *rest);
    if (status) {
        haul__free(rest);
        return status;
    }
    if ((status = haul__spill_copy_back(block->copy, &block->own, ahead))) {
        part(block, rest);
        return status;
    }
    haul__free(rest);
    set_copied(block);
    HAUL__ASSERT(!haul__block_is_away(block) && block->own.buffer.handle == block->buffer.handle);
    return HAUL_OK;
}

void haul__spill_drop(haul__block *block)
{
    struct haul__allocator *a = block->owner;
    haul__spin_lock(&a->lock);
    HAUL__ASSERT(!block->moving && !haul__is_piece(block));
    haul__ring_remove(block);
    a->stats.live_blocks--;
    count_away(block, block->copy, -1);
    haul__allocator_check(a);
    haul__spin_unlock(&a->lock);
    haul__spill_copy_free(block->copy);
    haul__free(block->recorded);
    haul__free(block);
}
