/* The caching allocator.
 *
 * Sizes are rounded up to classes (size_class.h), so that a free block is found at once. A freed block goes to the list
 * of its class together with its uses. Its next owner waits for them with its first command, which costs nothing on the
 * same stream. The most recently freed block is handed out first, because it may still be in the processor's caches.
 * Live blocks are linked in a ring, so that a report can say who made them.
 *
 * The states of a block, and of its memory:
 *
 *     device --obtain--> under way --go_live--> live --spilled--> away
 *        ^                 ^                    | ^                | |
 *        |             take_free            put | +---returned-----+ |
 *        |                 |                    v                    | dropped
 *        +--blocks_free-- free <----------------+      (freed) <-----+
 *
 * Invariants, for whoever has the lock; the asserts name them by their numbers, and allocator_check.c walks all lists:
 *
 *   1. The ring is closed: the neighbours of a live block name it.
 *   2. A free block has no `prev`. In the list of a class it has the size of that class.
 *   3. 0 <= allocated <= reserved. A block that is away counts in neither.
 *   4. live_blocks is the length of the ring, with the blocks that are away.
 *   5. Memory that ended being under way had begun to be: ended <= begun.
 *   6. Pinned memory is counted by no scope's limit.
 *   7. Without memory under way, the live and free bytes are those that are reserved. */
#include "memory/allocator.h"

#include <sched.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hostile.h"
#include "base/numbers.h"
#include "core/trial.h"
#include "device/residency.h"
#include "events/events.h"
#include "memory/allocator_check.h"
#include "memory/allocator_state.h"
#include "memory/block_events.h"
#include "memory/derived.h"
#include "memory/dry_run/dry_run.h"
#include "memory/mark.h"
#include "memory/report/failure.h"
#include "memory/report/full.h"
#include "memory/scope_limit.h"
#include "memory/spill/copy.h"
#include "memory/spill/pins.h"
#include "memory/spill/spill.h"
#include "memory/split.h"
#include "memory/trim.h"
#include "memory/under_way.h"

/* Up to this many in-flight free blocks of a class, in number and in bytes, a new block is allocated instead of waiting
 * for one of them. */
enum { MOST_BUSY = 32, MOST_BUSY_BYTES = 64 << 20 };

/* How often room is looked for although nothing could be moved, because other threads gave memory back. */
enum { MOST_FUTILE = 4 };

/* In a hostile build every so many allocations move a tensor away. */
enum { SPILLS_EACH = 5 };

static void ring_insert(struct haul__allocator *a, haul__block *block)
{
    HAUL__ASSERT(a->live.prev->next == &a->live && a->live.next->prev == &a->live); /* 1 */
    block->next = &a->live;
    block->prev = a->live.prev;
    block->prev->next = block;
    a->live.prev = block;
}

/* ---- allocating blocks ---- */

/* Counts `bytes` more as reserved, which are under way then; false if that would exceed the limit. Frees cached blocks
 * to stay under the limit, also for scratch memory: operations choose other algorithms without it, and results must not
 * depend on the cache. */
static bool reserve(struct haul__allocator *a, int64_t bytes, const char *origin)
{
    haul__block *taken = NULL;
    if (atomic_load_explicit(&a->spills, memory_order_relaxed))
        haul__trim_ready(a, bytes, origin); /* blocks that need no wait go first */
    haul__spin_lock(&a->lock);
    const int64_t room = a->stats.limit - haul__limited_overhead(a) - bytes; /* for memory that is reserved already */
    if (a->stats.limit > 0 && a->stats.reserved > room)
        taken = haul__allocator_take(a, a->stats.reserved - room);
    bool fits = a->stats.limit == 0 || a->stats.reserved <= room;
    if (fits) {
        a->stats.reserved += bytes;
        haul__under_way_begin(a);
        HAUL__ASSERT(bytes > 0 && a->stats.reserved >= a->stats.allocated + bytes); /* 3 */
        HAUL__ASSERT(a->begun > a->ended);                                          /* 5 */
    }
    haul__allocator_check(a);
    haul__spin_unlock(&a->lock);
    haul__blocks_free(taken, origin);
    return fits;
}

static void unreserve(struct haul__allocator *a, int64_t bytes)
{
    haul__spin_lock(&a->lock);
    a->stats.reserved -= bytes;
    HAUL__ASSERT(a->stats.reserved >= a->stats.allocated); /* 3 */
    haul__spin_unlock(&a->lock);
    haul__under_way_end(a);
}

static haul_status ask(struct haul__allocator *a, haul__block *block, const char *origin)
{
    if (a->pinned)
        return haul__device_host_alloc(a->device, block->bytes, &block->buffer.host, &block->pin, origin);
    return haul__device_alloc(a->device, block->bytes, &block->buffer, origin);
}

/* Allocates from the device. If it is full, empties the cache and tries once more. */
static haul_status obtain(struct haul__allocator *a, haul__block *block, const char *origin)
{
    haul__error_record before;
    haul__error_save(&before);
    haul_status  status = ask(a, block, origin);
    haul__block *cached = NULL;
    if (status == HAUL_OUT_OF_MEMORY) {
        haul__spin_lock(&a->lock);
        cached = haul__allocator_take(a, INT64_MAX);
        haul__spin_unlock(&a->lock);
    }
    if (!cached)
        return status;
    haul__blocks_free(cached, origin);
    haul__error_restore(&before);
    return ask(a, block, origin);
}

/* The block is under way. */
static haul__block *block_new(struct haul__allocator *a, int bin, size_t bytes, bool needed, const char *origin)
{
    size_t size = haul__bin_bytes(bin);
    if (size > INT64_MAX / 2 || !reserve(a, (int64_t)size, origin)) {
        if (needed)
            haul__fail_full(a, bytes, origin);
        return NULL;
    }
    haul__block *block = haul__calloc(1, sizeof *block);
    haul_status  status = block ? HAUL_OK : haul__fail_memory(origin, sizeof *block);
    if (block) {
        haul__uses_init(&block->uses);
        block->owner = a;
        block->pinned = a->pinned;
        block->bytes = size;
        block->bin = bin;
        const int64_t start = haul__watched(HAUL_EVENT_MEMORY_OBTAINED) ? haul__now_ns() : 0;
        status = obtain(a, block, origin);
        if (!status && haul__watched(HAUL_EVENT_MEMORY_OBTAINED))
            haul__emit_block(HAUL_EVENT_MEMORY_OBTAINED, block, a->device, origin, start);
    }
    if (status) {
        unreserve(a, (int64_t)size);
        if (block && needed && status == HAUL_OUT_OF_MEMORY)
            haul__fail_full(a, bytes, origin);
        haul__free(block);
        return NULL;
    }
    HAUL__ASSERT(!block->prev && !block->scope_limit && (!a->pinned || block->buffer.host));
    return block;
}

/* Everything that a snapshot reads is set here, under the lock. */
static inline void go_live(struct haul__allocator *a, haul__block *block, bool cached, size_t bytes, const char *origin)
{
    haul_memory_stats *stats = &a->stats;
    HAUL__ASSERT(block->owner == a && block->bytes >= bytes && block->bytes == haul__bin_bytes(block->bin));
    HAUL__ASSERT(!block->moving && !block->copy && !block->pins); /* what the last storage left would move this one */
    HAUL__ASSERT(!a->pinned || !block->scope_limit);              /* 6 */
    block->origin = origin;
    block->own.bytes = bytes;
    block->next_use = a->now;
    atomic_store_explicit(&block->storage, 0, memory_order_relaxed);
    ring_insert(a, block);
    stats->allocated += (int64_t)block->bytes;
    stats->peak_allocated = larger(stats->peak_allocated, stats->allocated);
    block->born = ++stats->allocations;
    stats->live_blocks++;
    block->uses.last = atomic_load_explicit(&haul__residency_clock, memory_order_relaxed);
    if (cached) {
        stats->cache_hits++;
    } else {
        stats->device_allocations++;
        stats->peak_reserved = larger(stats->peak_reserved, stats->reserved);
    }
    HAUL__ASSERT(0 <= stats->allocated && stats->allocated <= stats->reserved); /* 3 */
    haul__allocator_check(a);
}

static bool is_idle(haul__uses *uses)
{
    return !atomic_load_explicit(&uses->any, memory_order_acquire) || haul__uses_reached(uses);
}

/* The link of the first idle block, or of the one after `most` busy ones. */
static haul__block **find_idle(haul__block **link, size_t most)
{
    for (size_t busy = 0; *link && busy < most && !is_idle(&(*link)->uses); busy++)
        link = &(*link)->next;
    return link;
}

/* A free block of the class; NULL if a new one must be made. If a device stream will wait for its last uses, the most
 * recently freed one. If the host would have to wait, the most recent one whose uses are over; while only a few are in
 * flight, none of those is taken. The caller holds the lock. */
static inline haul__block *take_free(struct haul__allocator *a, int bin)
{
    haul__block **link = &a->bins[bin];
    haul__block  *block = *link;
    if (block && __builtin_expect(atomic_load_explicit(&block->uses.any, memory_order_acquire), 0) &&
        (a->pinned || haul__device_is_host(a->device))) {
        size_t most = MOST_BUSY_BYTES / haul__bin_bytes(bin);
        link = find_idle(link, most < MOST_BUSY ? most : MOST_BUSY);
        block = *link;
    }
    if (block) {
        HAUL__ASSERT(!block->prev && block->bin == bin && block->bytes == haul__bin_bytes(bin)); /* 2 */
        *link = block->next;
        block->prev = block; /* its neighbours must not take it for free (split.c) */
    }
    return block;
}

/* A free block, which is under way. */
static haul__block *block_take(struct haul__allocator *a, int bin)
{
    haul__spin_lock(&a->lock);
    haul__block *block = take_free(a, bin);
    if (block)
        haul__under_way_begin(a);
    haul__spin_unlock(&a->lock);
    return block;
}

/* If there is no memory for the block, derived copies are freed. Then tensors are spilled, and memory of other threads
 * that is under way is waited for. Other failures are final. The block is under way. */
static haul__block *block_make(struct haul__allocator *a, int bin, size_t bytes, bool needed, const char *origin)
{
    haul__error_record       before;
    haul__under_way_watching watch;
    const bool               can_wait = needed && !a->pinned;
    haul__error_save(&before);
    if (can_wait)
        haul__under_way_watch(&watch, a);
    haul__block *block = block_new(a, bin, bytes, needed, origin);
    const bool   again = !block && can_wait && haul_error_status() == HAUL_OUT_OF_MEMORY;
    if (again && haul__derived_give_back(a->device)) {
        haul__error_restore(&before);
        block = block_new(a, bin, bytes, needed, origin);
    }
    for (int futile = 0; again && !block && futile < MOST_FUTILE;) {
        const int64_t moved = haul__spill(a, (int64_t)haul__bin_bytes(bin));
        if (!haul__under_way_wait(&watch) && moved < 0) {
            if (haul__spill_was_refused(a))
                haul__fail_full(a, bytes, origin); /* with the reason */
            break;
        }
        futile += moved <= 0;
        haul__error_restore(&before);
        haul__under_way_watch_again(&watch);
        block = block_take(a, bin);
        block = block ? block : block_new(a, bin, bytes, needed, origin);
    }
    if (can_wait)
        haul__under_way_unwatch(&watch);
    HAUL__ASSERT(!block || (block->owner == a && block->bytes == haul__bin_bytes(bin)));
    return block;
}

/* Counts a block against the limits of the thread's scopes. */
static bool charge(struct haul__allocator *a, haul__scope_limit *scope_limit, int bin, size_t bytes, bool needed,
                   const char *origin)
{
    const haul__scope_limit *over =
        haul__scope_limit_charge(scope_limit, a->device, (int64_t)haul__bin_bytes(bin), false);
    if (over && needed)
        haul__fail_over(a, over, bytes, origin);
    return !over;
}

/* ---- the storage of a block ---- */

/* The caller holds the lock. */
static inline void put(struct haul__allocator *a, haul__block *block)
{
    HAUL__ASSERT(block->owner == a && !block->moving);
    HAUL__ASSERT(block->next->prev == block && block->prev->next == block); /* 1 */
    if (__builtin_expect(block->pins != 0, 0))
        haul__pins_end(block);
    haul__ring_remove(block);
    block->prev = NULL;
    block->next = a->bins[block->bin];
    a->bins[block->bin] = block;
    a->stats.allocated -= (int64_t)block->bytes;
    a->stats.live_blocks--;
    HAUL__ASSERT(a->stats.allocated >= 0 && a->stats.live_blocks >= 0);      /* 3, 4 */
    HAUL__ASSERT((a->stats.live_blocks == 0) == (a->live.next == &a->live)); /* 4 */
    HAUL__ASSERT(a->ended <= a->begun);                                      /* 5 */
    haul__allocator_check(a);                                                /* 7, and the others for all blocks */
}

/* Takes the lock when no thread is moving the block's elements. */
static void lock_for(struct haul__allocator *a, const haul__block *block)
{
    haul__spin_lock(&a->lock);
    while (block->moving) {
        haul__spin_unlock(&a->lock);
        sched_yield();
        haul__spin_lock(&a->lock);
    }
}

static void block_put(haul__block *block)
{
    struct haul__allocator *a = block->owner;
    haul__scope_limit      *scope_limit = block->scope_limit;
    haul__block            *surplus = NULL;
    const int64_t           bytes = (int64_t)block->bytes; /* as soon as the block is free, another thread may own it */
    lock_for(a, block);
    const bool        away = haul__block_is_away(block);
    haul__spill_copy *copy = away ? NULL : block->copy;
    if (!away) {
        block->copy = NULL;
        block->uses.copied = false;
        put(a, block);
        surplus = haul__is_hostile(HAUL__HOSTILE_CACHES) ? haul__trim_class(a, block->bin) : NULL;
    }
    HAUL__ASSERT(!away || (!block->buffer.handle && !block->buffer.host)); /* its memory is that of another block */
    haul__spin_unlock(&a->lock);
    haul__spill_copy_free(copy);
    haul__blocks_free(surplus, NULL);
    if (away)
        haul__spill_drop(block);
    if (__builtin_expect(scope_limit != NULL, 0))
        haul__scope_limit_discharge(scope_limit, a->device, bytes, false);
}

/* True if neither a subscriber nor a dry run follows blocks. */
static inline bool is_unwatched(void)
{
    return !(atomic_load_explicit(&haul__tls.watch, memory_order_relaxed) | haul__thread()->words[HAUL__DRY_RUN]);
}

__attribute__((noinline)) static void release_slowly(haul__storage *storage)
{
    if (haul__is_dry())
        haul__dry_run_returned(storage);
    if (haul__watched(HAUL_EVENT_MEMORY_FREED) && !storage->block->quiet)
        haul__emit_storage(HAUL_EVENT_MEMORY_FREED, storage, storage->block->owner->device);
    block_put(storage->block);
}

static void storage_release(haul__storage *storage)
{
    haul__block            *block = storage->block;
    struct haul__allocator *a = block->owner;
    HAUL__ASSERT(storage == &block->own && storage->bytes <= block->bytes);
    if (haul__is_hostile(HAUL__HOSTILE_CACHES) || !is_unwatched() || block->scope_limit || !haul__spin_try(&a->lock)) {
        release_slowly(storage);
        return;
    }
    const bool whole = !block->copy && !block->moving;
    if (whole)
        put(a, block);
    haul__spin_unlock(&a->lock);
    if (!whole)
        release_slowly(storage);
}

/* The first storage in a block. Later ones are on the same device. */
void haul__block_begin(haul__block *block, haul_device *device)
{
    haul__storage *storage = &block->own;
    HAUL__ASSERT(device && block->owner && block->bytes > 0);
    haul__storage_embed(storage, device);
    storage->block = block;
    storage->buffer = block->buffer;
    storage->uses = &block->uses;
    storage->release = storage_release;
}

/* ---- a block for a storage ---- */

/* From the cache; NULL if there is none. */
static haul__block *cached_get(struct haul__allocator *a, int bin, size_t bytes, haul__scope_limit *scope_limit,
                               const char *origin)
{
    haul__spin_lock(&a->lock);
    haul__block *block = take_free(a, bin);
    const bool   is_split = !block;
    if (is_split) {
        haul__spin_unlock(&a->lock);
        block = haul__split_get(a, bin);
        haul__spin_lock(&a->lock);
    }
    if (block) {
        block->scope_limit = scope_limit;
        go_live(a, block, true, bytes, origin);
    }
    haul__spin_unlock(&a->lock);
    if (block && is_split)
        haul__under_way_end(a);
    return block;
}

static haul__block *block_find(struct haul__allocator *a, size_t bytes, bool needed, const char *origin)
{
    int                bin = haul__bin_for(a->device, a->pinned, bytes);
    haul__scope_limit *scope_limit = haul__scope_limit_now();
    if (bin < 0 || haul__fault_point(a->pinned ? HAUL__FAULT_PINNED : HAUL__FAULT_DEVICE)) {
        haul__fail_full(a, bytes, origin);
        return NULL;
    }
    if (__builtin_expect(scope_limit != NULL, 0)) {
        if (a->pinned)
            scope_limit = NULL;
        else if (!charge(a, scope_limit, bin, bytes, needed, origin))
            return NULL;
    }
    if (haul__is_hostile(HAUL__HOSTILE_SPILLS) && needed && !a->pinned && haul__hostile_turn(SPILLS_EACH))
        haul__spill(a, (int64_t)haul__bin_bytes(bin));
    HAUL__ASSERT(!a->pinned || !scope_limit); /* 6 */
    haul__block *block = cached_get(a, bin, bytes, scope_limit, origin);
    if (block)
        return block;
    block = block_make(a, bin, bytes, needed, origin);
    if (block) {
        haul__block_begin(block, a->pinned ? haul_cpu() : a->device);
        block->scope_limit = scope_limit;
        haul__spin_lock(&a->lock);
        go_live(a, block, false, bytes, origin);
        haul__spin_unlock(&a->lock);
        haul__under_way_end(a);
    } else if (scope_limit) {
        haul__scope_limit_discharge(scope_limit, a->device, (int64_t)haul__bin_bytes(bin), false);
    }
    return block;
}

static haul__block *block_get(struct haul__allocator *a, size_t bytes, bool needed, const char *origin)
{
    haul__block *block = block_find(a, bytes, needed, origin);
    if (!block && needed)
        haul__failure_take(a);
    return block;
}

haul__block *haul__block_get(struct haul__allocator *a, size_t bytes, const char *origin)
{
    return block_get(a, bytes, true, origin);
}

haul__block *haul__block_get_ready(struct haul__allocator *a, size_t bytes, const char *origin)
{
    const int    bin = haul__bin_for(a->device, a->pinned, bytes);
    haul__block *block = bin < 0 ? NULL : cached_get(a, bin, bytes, NULL, origin);
    if (!block && bin >= 0 && haul__trim_ready(a, (int64_t)haul__bin_bytes(bin), origin))
        block = block_get(a, bytes, false, origin);
    return block;
}

/* ---- storages ---- */

haul__storage *haul__storage_in(struct haul__allocator *a, size_t bytes, bool needed, const char *origin)
{
    haul__block *block = a ? block_get(a, bytes, needed, origin ? origin : "?") : NULL;
    if (!block)
        return NULL;
    HAUL__ASSERT(block->own.block == block && block->own.bytes == bytes && !block->own.planned);
    haul__storage_revive(&block->own);
    block->quiet = haul__event_quiet();
    if (haul__watched(HAUL_EVENT_MEMORY_ALLOCATED))
        haul__emit_storage(HAUL_EVENT_MEMORY_ALLOCATED, &block->own, a->device);
    return &block->own;
}

__attribute__((noinline)) static haul__storage *alloc_slowly(haul_device *device, size_t bytes, const char *origin)
{
    if (bytes > 0 && haul__refuse_followed(origin, "makes a tensor"))
        return NULL;
    if (haul__is_dry() && bytes > 0)
        return haul__planned_alloc(device, bytes, false, origin);
    if (bytes == 0 || !haul__device_computes(device)) {
        haul__storage *storage = haul__storage_new(device);
        if (storage)
            storage->bytes = bytes;
        return storage;
    }
    return haul__storage_in(haul__allocator_of(device, false), bytes, true, origin);
}

/* Most blocks are taken from the cache, by a thread without limits and subscribers: the short case of
 * haul__storage_in. */
haul__storage *haul__storage_alloc(haul_device *device, size_t bytes, const char *origin)
{
    struct haul__allocator *a = atomic_load_explicit(&device->allocator, memory_order_acquire);
    int                     bin = bytes ? haul__bin_for(device, false, bytes) : -1;
    if (!a || bin < 0 || !is_unwatched() || haul__scope_limit_now() || haul__fault_planned(HAUL__FAULT_DEVICE) ||
        !haul__spin_try(&a->lock))
        return alloc_slowly(device, bytes, origin);
    haul__block *block = a->bins[bin];
    if (!block || atomic_load_explicit(&block->uses.any, memory_order_acquire)) {
        haul__spin_unlock(&a->lock);
        return alloc_slowly(device, bytes, origin);
    }
    HAUL__ASSERT(!block->prev && block->bin == bin); /* 2 */
    a->bins[bin] = block->next;
    block->scope_limit = NULL;
    go_live(a, block, true, bytes, origin ? origin : "?");
    haul__spin_unlock(&a->lock);
    haul__storage_revive(&block->own);
    block->quiet = false;
    return &block->own;
}

haul__storage *haul__storage_alloc_apart(haul_device *device, size_t bytes, const char *origin)
{
    void **setting = &haul__thread()->held[HAUL__SCOPE_LIMIT], *scope_limit = *setting;
    *setting = NULL;
    haul__storage *storage = haul__storage_alloc(device, bytes, origin);
    *setting = scope_limit;
    HAUL__ASSERT(!storage || !storage->block || !storage->block->scope_limit);
    haul__set_storage_role(storage, HAUL__ROLE_OTHER);
    return storage;
}

haul__storage *haul__storage_alloc_spare(haul_device *device, size_t bytes, const char *origin)
{
    void             **setting = &haul__thread()->held[HAUL__SCOPE_LIMIT], *scope_limit = *setting;
    haul__error_record before;
    haul__error_save(&before);
    *setting = NULL;
    haul__storage *storage = haul__refuse_followed(origin, "makes a tensor") ? NULL
                             : haul__is_dry()
                                 ? haul__planned_alloc(device, bytes, false, origin)
                                 : haul__storage_in(haul__allocator_of(device, false), bytes, false, origin);
    *setting = scope_limit;
    HAUL__ASSERT(!storage || !storage->block || !storage->block->scope_limit);
    if (!storage)
        haul__error_restore(&before);
    return storage;
}

haul__storage *haul__pinned_alloc(haul_device *device, size_t bytes, const char *origin)
{
    haul__error_record before;
    if (bytes == 0 || !haul__device_pins(device) || haul__refuse_followed(origin, "makes a tensor"))
        return NULL;
    haul__error_save(&before);
    haul__storage *storage = haul__is_dry() ? haul__planned_alloc(device, bytes, true, origin)
                                            : haul__storage_in(haul__allocator_of(device, true), bytes, true, origin);
    HAUL__ASSERT(!storage || (haul__storage_pinned(storage) && haul__device_is_host(storage->device)));
    if (!storage)
        haul__error_restore(&before);
    return storage;
}

haul__storage *haul__host_alloc_for(haul_device *device, size_t bytes, const char *origin)
{
    haul__storage *storage = haul__pinned_alloc(device, bytes, origin);
    return storage ? storage : haul__storage_alloc(haul_cpu(), bytes, origin);
}

bool haul__storage_pinned(const haul__storage *storage)
{
    return storage->planned ? haul__planned_is_pinned(storage) : storage->block && storage->block->pinned;
}

int64_t haul__device_allocated(haul_device *device, bool pinned)
{
    struct haul__allocator *a =
        atomic_load_explicit(pinned ? &device->pinned : &device->allocator, memory_order_acquire);
    if (!a)
        return 0;
    haul__spin_lock(&a->lock);
    int64_t allocated = a->stats.allocated;
    haul__spin_unlock(&a->lock);
    return allocated;
}

haul_device *haul__block_device(const haul__block *block)
{
    return block->owner->device;
}
