/* The caching allocator.
 *
 * Sizes are rounded up to classes (size_class.h), so that a free block is found at once. A freed block goes to its
 * class's list with its uses: whoever gets it next waits for them with its first command, which costs nothing on the
 * same stream. The newest free block is handed out first, as it may still be in the processor's caches. What is live
 * hangs in a ring, so that a report can say who made it. */
#include "memory/allocator.h"

#include <haul/memory.h>
#include <unistd.h>

#include "core/alloc.h"
#include "core/spin.h"
#include "events/events.h"
#include "memory/block_events.h"
#include "memory/budget.h"
#include "memory/derived.h"
#include "memory/dry_run.h"
#include "memory/origins.h"
#include "memory/size_class.h"

/* Free blocks of a class whose uses are not over, in number and in bytes, beside which others are made. */
enum { MOST_BUSY = 32, MOST_BUSY_BYTES = 64 << 20 };

struct haul__allocator {
    atomic_bool       lock;
    haul_device      *device;
    bool              pinned;           /* of host memory pinned for the device */
    haul__block      *bins[HAUL__BINS]; /* free blocks, by `next` */
    haul__block       live;             /* head of the ring */
    haul_memory_stats stats;
};

/* ---- the allocator of a device ---- */

/* Pinned memory is taken from the whole machine: not more than a quarter of it, unless the user says otherwise. */
static int64_t pinned_limit(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (int64_t)pages / 4 * size : 0;
}

static struct haul__allocator *allocator_new(haul_device *device, bool pinned)
{
    _Atomic(struct haul__allocator *) *place = pinned ? &device->pinned : &device->allocator;
    struct haul__allocator            *a = haul__calloc(1, sizeof *a), *other = NULL;
    if (!a) {
        haul__fail_memory("haul_memory", sizeof *a);
        return NULL;
    }
    atomic_init(&a->lock, false);
    a->device = device;
    a->pinned = pinned;
    a->stats.limit = pinned && haul__device_pins(device) ? pinned_limit() : 0;
    a->live.next = a->live.prev = &a->live;
    if (!atomic_compare_exchange_strong(place, &other, a)) {
        haul__free(a);
        a = other;
    }
    return a;
}

static struct haul__allocator *allocator_of(haul_device *device, bool pinned)
{
    struct haul__allocator *a =
        atomic_load_explicit(pinned ? &device->pinned : &device->allocator, memory_order_acquire);
    return a ? a : allocator_new(device, pinned);
}

static void ring_insert(struct haul__allocator *a, haul__block *block)
{
    block->next = &a->live;
    block->prev = a->live.prev;
    block->prev->next = block;
    a->live.prev = block;
}

static void ring_remove(haul__block *block)
{
    block->prev->next = block->next;
    block->next->prev = block->prev;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* ---- giving blocks back to the device ---- */

static void block_free(haul__block *block, const char *origin)
{
    haul__uses_finish(&block->uses, origin);
    const bool    watched = haul__watched(HAUL_EVENT_MEMORY_RETURNED);
    const int64_t start = watched ? haul__now_ns() : 0;
    if (block->pinned)
        haul__device_host_free(block->owner->device, block->buffer.host, block->pin, block->bytes, origin);
    else
        haul__device_free(block->owner->device, &block->buffer, block->bytes, origin);
    if (watched)
        haul__emit_block(HAUL_EVENT_MEMORY_RETURNED, block, block->owner->device, origin, start);
    haul__free(block);
}

/* Take free blocks, largest first, until `wanted` bytes came together; they are chained by `next`. Locked. */
static haul__block *take_cached(struct haul__allocator *a, int64_t wanted)
{
    haul__block *taken = NULL;
    for (int bin = HAUL__BINS - 1; bin >= 0 && wanted > 0; bin--) {
        for (haul__block *block; wanted > 0 && (block = a->bins[bin]);) {
            a->bins[bin] = block->next;
            a->stats.reserved -= (int64_t)block->bytes;
            wanted -= (int64_t)block->bytes;
            block->next = taken;
            taken = block;
        }
    }
    return taken;
}

static void free_all(haul__block *blocks, const char *origin)
{
    while (blocks) {
        haul__block *next = blocks->next;
        block_free(blocks, origin);
        blocks = next;
    }
}

/* ---- out of memory ---- */

static haul_status fail_full(struct haul__allocator *a, size_t bytes, const char *origin)
{
    haul_device       *device = a->device;
    haul_memory_origin rows[3];
    char               asked[32], used[32], limit[32], who[200], left[128] = "";
    haul__spin_lock(&a->lock);
    haul_memory_stats stats = a->stats;
    int               count = haul__sum_origins(&a->live, NULL, rows, 3);
    haul__spin_unlock(&a->lock);
    haul__origins_text(rows, count, who, sizeof who);
    haul__size_text((int64_t)bytes, asked, sizeof asked);
    haul__size_text(stats.allocated, used, sizeof used);
    if (stats.limit > 0)
        return haul__fail(HAUL_OUT_OF_MEMORY, origin, NULL,
                          "out of memory on %s: asked for %s, %s of %s limit in use%s; lower the batch size, free "
                          "tensors, or raise the limit with haul_memory_set_limit",
                          device->name, asked, used, haul__size_text(stats.limit, limit, sizeof limit), who);
    haul__device_memory_left(device, left, sizeof left);
    return haul__fail(HAUL_OUT_OF_MEMORY, origin, NULL,
                      "out of memory on %s: asked for %s, which the device does not have beside %s in use%s%s%s; lower "
                      "the batch size or free tensors",
                      device->name, asked, used, who, left[0] ? "; " : "", left);
}

static haul_status fail_over(struct haul__allocator *a, const haul__budget *over, size_t bytes, const char *origin)
{
    haul_memory_origin rows[3];
    char               who[200];
    haul__spin_lock(&a->lock);
    int count = haul__sum_origins(&a->live, over, rows, 3);
    haul__spin_unlock(&a->lock);
    return haul__budget_fail(over, bytes, origin, haul__origins_text(rows, count, who, sizeof who));
}

/* ---- getting blocks ---- */

/* Room for `bytes` more under the limit, at the cost of cached blocks if they are needed. Counts them as reserved. */
static bool reserve(struct haul__allocator *a, int64_t bytes, bool needed, const char *origin)
{
    haul__block *taken = NULL;
    haul__spin_lock(&a->lock);
    if (needed && a->stats.limit > 0 && a->stats.reserved > a->stats.limit - bytes)
        taken = take_cached(a, a->stats.reserved + bytes - a->stats.limit);
    bool fits = a->stats.limit == 0 || a->stats.reserved <= a->stats.limit - bytes;
    if (fits)
        a->stats.reserved += bytes;
    haul__spin_unlock(&a->lock);
    free_all(taken, origin);
    return fits;
}

static void unreserve(struct haul__allocator *a, int64_t bytes)
{
    haul__spin_lock(&a->lock);
    a->stats.reserved -= bytes;
    haul__spin_unlock(&a->lock);
}

static haul_status ask(struct haul__allocator *a, haul__block *block, const char *origin)
{
    if (a->pinned)
        return haul__device_host_alloc(a->device, block->bytes, &block->buffer.host, &block->pin, origin);
    return haul__device_alloc(a->device, block->bytes, &block->buffer, origin);
}

/* Memory from the device itself; when it is full, once more after the cache was given back, if it is needed. */
static haul_status obtain(struct haul__allocator *a, haul__block *block, bool needed, const char *origin)
{
    haul__error_record before;
    haul__error_save(&before);
    haul_status  status = ask(a, block, origin);
    haul__block *cached = NULL;
    if (needed && status == HAUL_OUT_OF_MEMORY) {
        haul__spin_lock(&a->lock);
        cached = take_cached(a, INT64_MAX);
        haul__spin_unlock(&a->lock);
    }
    if (!cached)
        return status;
    free_all(cached, origin);
    haul__error_restore(&before);
    return ask(a, block, origin);
}

static haul__block *block_new(struct haul__allocator *a, int bin, size_t bytes, bool needed, const char *origin)
{
    size_t size = haul__bin_bytes(bin);
    if (size > INT64_MAX / 2 || !reserve(a, (int64_t)size, needed, origin)) {
        if (needed)
            fail_full(a, bytes, origin);
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
        status = obtain(a, block, needed, origin);
        if (!status && haul__watched(HAUL_EVENT_MEMORY_OBTAINED))
            haul__emit_block(HAUL_EVENT_MEMORY_OBTAINED, block, a->device, origin, start);
    }
    if (status) {
        unreserve(a, (int64_t)size);
        if (block && needed && status == HAUL_OUT_OF_MEMORY)
            fail_full(a, bytes, origin);
        haul__free(block);
        return NULL;
    }
    return block;
}

static void go_live(struct haul__allocator *a, haul__block *block, bool cached)
{
    haul_memory_stats *stats = &a->stats;
    ring_insert(a, block);
    stats->allocated += (int64_t)block->bytes;
    stats->peak_allocated = larger(stats->peak_allocated, stats->allocated);
    stats->allocations++;
    stats->live_blocks++;
    stats->peak_reserved = larger(stats->peak_reserved, stats->reserved);
    if (cached)
        stats->cache_hits++;
    else
        stats->device_allocations++;
}

static bool is_idle(haul__uses *uses)
{
    return !atomic_load_explicit(&uses->any, memory_order_acquire) || haul__uses_reached(uses);
}

/* A free block of the class; NULL: another must be made. The newest, where a device's stream will wait for its last
 * uses. Where the host would wait, the newest whose uses are over; while there are but few that are still in use none
 * of them is taken. Locked. */
static haul__block *take_free(struct haul__allocator *a, int bin)
{
    haul__block **place = &a->bins[bin];
    bool          host = a->pinned || haul__device_is_host(a->device);
    if (host && *place && !is_idle(&(*place)->uses)) {
        size_t most = MOST_BUSY_BYTES / haul__bin_bytes(bin), busy = 0;
        if (most > MOST_BUSY)
            most = MOST_BUSY;
        for (; *place && busy < most && !is_idle(&(*place)->uses); busy++)
            place = &(*place)->next;
    }
    haul__block *block = *place;
    if (block)
        *place = block->next;
    return block;
}

/* Where there is no memory beside them derived copies make room. */
static haul__block *block_make(struct haul__allocator *a, int bin, size_t bytes, bool needed, const char *origin)
{
    haul__error_record before;
    haul__error_save(&before);
    haul__block *block = block_new(a, bin, bytes, needed, origin);
    if (block || !needed || a->pinned || !haul__derived_give_back(a->device))
        return block;
    haul__error_restore(&before);
    return block_new(a, bin, bytes, needed, origin);
}

/* Count a block for the limits of the thread's scopes. */
static bool charge(struct haul__allocator *a, haul__budget *budget, int bin, size_t bytes, bool needed,
                   const char *origin)
{
    const haul__budget *over = haul__budget_charge(budget, a->device, (int64_t)haul__bin_bytes(bin), false);
    if (over && needed)
        fail_over(a, over, bytes, origin);
    return !over;
}

static haul__block *block_get(struct haul__allocator *a, size_t bytes, bool needed, const char *origin)
{
    int           bin = haul__bin_of(bytes, a->pinned);
    haul__budget *budget = haul__budget_now();
    if (bin < 0 || haul__fault_point(a->pinned ? HAUL__FAULT_PINNED : HAUL__FAULT_DEVICE)) {
        fail_full(a, bytes, origin);
        return NULL;
    }
    if (__builtin_expect(budget != NULL, 0)) {
        if (a->pinned)
            budget = NULL;
        else if (!charge(a, budget, bin, bytes, needed, origin))
            return NULL;
    }
    haul__spin_lock(&a->lock);
    haul__block *block = take_free(a, bin);
    if (block) {
        block->origin = origin;
        block->budget = budget;
        go_live(a, block, true);
    }
    haul__spin_unlock(&a->lock);
    if (block)
        return block;
    block = block_make(a, bin, bytes, needed, origin);
    if (block) {
        block->origin = origin;
        block->budget = budget;
        haul__spin_lock(&a->lock);
        go_live(a, block, false);
        haul__spin_unlock(&a->lock);
    } else if (budget) {
        haul__budget_discharge(budget, a->device, (int64_t)haul__bin_bytes(bin), false);
    }
    return block;
}

static void block_put(haul__block *block)
{
    struct haul__allocator *a = block->owner;
    haul__budget           *budget = block->budget;
    const int64_t           bytes = (int64_t)block->bytes; /* the block is another's as soon as it is free */
    haul__spin_lock(&a->lock);
    ring_remove(block);
    block->next = a->bins[block->bin];
    a->bins[block->bin] = block;
    a->stats.allocated -= bytes;
    a->stats.live_blocks--;
    haul__spin_unlock(&a->lock);
    if (__builtin_expect(budget != NULL, 0))
        haul__budget_discharge(budget, a->device, bytes, false);
}

/* ---- storages ---- */

static void storage_release(haul__storage *storage)
{
    if (haul__is_dry())
        haul__dry_run_returned(storage);
    if (haul__watched(HAUL_EVENT_MEMORY_FREED) && !storage->block->quiet)
        haul__emit_storage(HAUL_EVENT_MEMORY_FREED, storage, storage->block->owner->device);
    block_put(storage->block);
}

/* A storage of the device in a block of the allocator, which may be another's. What is not needed costs no cached
 * blocks and no message. */
static haul__storage *storage_in(struct haul__allocator *a, haul_device *device, size_t bytes, bool needed,
                                 const char *origin)
{
    haul__block *block = a ? block_get(a, bytes, needed, origin ? origin : "?") : NULL;
    if (!block)
        return NULL;
    haul__storage *storage = &block->own;
    haul__storage_embed(storage, device);
    storage->bytes = bytes;
    storage->block = block;
    storage->buffer = block->buffer;
    storage->uses = &block->uses;
    storage->release = storage_release;
    block->storage = 0;
    block->quiet = haul__event_quiet();
    if (haul__watched(HAUL_EVENT_MEMORY_ALLOCATED))
        haul__emit_storage(HAUL_EVENT_MEMORY_ALLOCATED, storage, a->device);
    return storage;
}

haul__storage *haul__storage_alloc(haul_device *device, size_t bytes, const char *origin)
{
    if (haul__is_dry() && bytes > 0)
        return haul__planned_alloc(device, bytes, false, origin);
    if (bytes == 0 || !haul__device_computes(device)) {
        haul__storage *storage = haul__storage_new(device);
        if (storage)
            storage->bytes = bytes;
        return storage;
    }
    return storage_in(allocator_of(device, false), device, bytes, true, origin);
}

haul__storage *haul__storage_alloc_apart(haul_device *device, size_t bytes, const char *origin)
{
    void **setting = &haul__thread()->held[HAUL__BUDGET], *budget = *setting;
    *setting = NULL;
    haul__storage *storage = haul__storage_alloc(device, bytes, origin);
    *setting = budget;
    return storage;
}

haul__storage *haul__scratch_alloc(haul_device *device, size_t bytes)
{
    haul__error_record before;
    if (bytes == 0 || !haul__device_computes(device))
        return NULL;
    haul__error_save(&before);
    haul__storage *storage = haul__is_dry() ? haul__planned_alloc(device, bytes, false, "scratch")
                                            : storage_in(allocator_of(device, false), device, bytes, false, "scratch");
    if (!storage)
        haul__error_restore(&before);
    return storage;
}

haul__storage *haul__pinned_alloc(haul_device *device, size_t bytes, const char *origin)
{
    haul__error_record before;
    if (bytes == 0 || !haul__device_pins(device))
        return NULL;
    haul__error_save(&before);
    haul__storage *storage = haul__is_dry() ? haul__planned_alloc(device, bytes, true, origin)
                                            : storage_in(allocator_of(device, true), haul_cpu(), bytes, true, origin);
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

/* ---- what users see ---- */

static struct haul__allocator *checked(const haul_device *device, bool pinned, const char *operation)
{
    /* The allocator belongs to the device's state, not to what `const` promises about it. */
    return haul__device_check(device, operation, "device") ? NULL : allocator_of((haul_device *)device, pinned);
}

static haul_status get_stats(struct haul__allocator *a, haul_memory_stats *out, const char *operation)
{
    if (!a)
        return haul_error_status();
    if (!out)
        return haul__fail_null(operation, "out");
    haul__spin_lock(&a->lock);
    *out = a->stats;
    haul__spin_unlock(&a->lock);
    out->derived_bytes = a->pinned ? 0 : haul__derived_bytes(a->device);
    return HAUL_OK;
}

haul_status haul_memory_stats_get(const haul_device *device, haul_memory_stats *out)
{
    return get_stats(checked(device, false, "haul_memory_stats_get"), out, "haul_memory_stats_get");
}

haul_status haul_pinned_stats_get(const haul_device *device, haul_memory_stats *out)
{
    return get_stats(checked(device, true, "haul_pinned_stats_get"), out, "haul_pinned_stats_get");
}

haul_status haul_memory_reset_peak(haul_device *device)
{
    for (int pinned = 0; pinned < 2; pinned++) {
        struct haul__allocator *a = checked(device, pinned, "haul_memory_reset_peak");
        if (!a)
            return haul_error_status();
        haul__spin_lock(&a->lock);
        a->stats.peak_allocated = a->stats.allocated;
        a->stats.peak_reserved = a->stats.reserved;
        haul__spin_unlock(&a->lock);
    }
    return HAUL_OK;
}

static haul_status set_limit(struct haul__allocator *a, int64_t bytes, const char *operation)
{
    if (!a)
        return haul_error_status();
    if (bytes < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, operation, "bytes",
                          "bytes is %lld; expected a size, or 0 for no limit", (long long)bytes);
    haul__spin_lock(&a->lock);
    a->stats.limit = bytes;
    haul__block *taken = bytes > 0 ? take_cached(a, a->stats.reserved - bytes) : NULL;
    haul__spin_unlock(&a->lock);
    free_all(taken, operation);
    return HAUL_OK;
}

haul_status haul_memory_set_limit(haul_device *device, int64_t bytes)
{
    return set_limit(checked(device, false, "haul_memory_set_limit"), bytes, "haul_memory_set_limit");
}

haul_status haul_pinned_set_limit(haul_device *device, int64_t bytes)
{
    return set_limit(checked(device, true, "haul_pinned_set_limit"), bytes, "haul_pinned_set_limit");
}

haul_status haul_memory_release_cached(haul_device *device)
{
    static const char operation[] = "haul_memory_release_cached";
    if (haul__device_check(device, operation, "device"))
        return haul_error_status();
    haul__derived_give_back(device);
    for (int pinned = 0; pinned < 2; pinned++) {
        struct haul__allocator *a = checked(device, pinned, operation);
        if (!a)
            return haul_error_status();
        haul__spin_lock(&a->lock);
        haul__block *taken = take_cached(a, INT64_MAX);
        haul__spin_unlock(&a->lock);
        free_all(taken, operation);
    }
    return HAUL_OK;
}

bool haul__room_made(haul_device *device, haul_status status, const haul__error_record *before)
{
    if (status != HAUL_OUT_OF_MEMORY || haul_memory_release_cached(device))
        return false;
    haul__error_restore(before);
    return true;
}

int haul_memory_by_origin(const haul_device *device, haul_memory_origin *out, int capacity)
{
    struct haul__allocator *a = checked(device, false, "haul_memory_by_origin");
    if (!a)
        return -1;
    if (!out && capacity > 0) {
        haul__fail_null("haul_memory_by_origin", "out");
        return -1;
    }
    haul__spin_lock(&a->lock);
    int count = haul__sum_origins(&a->live, NULL, out, capacity > 0 ? capacity : 0);
    haul__spin_unlock(&a->lock);
    return count;
}
