/* Spilling.
 *
 * A storage stays where it is, in its block; its elements and its device memory part. The device memory goes to the
 * free blocks, from which an allocation takes it or returns it to the device. The elements go to pinned host memory
 * where there is some. A command that uses the storage brings them back first (device/residency.h).
 *
 * The storage that was used longest ago goes first. In the forward pass of a training these are optimizer states and
 * the tensors that the first layers saved, which are needed last. The copies are ordered by uses like all others: the
 * next owner of the device memory waits for the copy away, and the command that uses the storage for the copy back. The
 * host waits only where the device memory must go back to the driver.
 *
 * Two things happen ahead of time. Whoever makes room also copies what would go next, but leaves it in place: then the
 * next one finds device memory whose copy is under way. Code that knows the next uses, for example a backward pass,
 * brings storages back early. Elements keep their copy in host memory until a command writes to them, so that they need
 * no other one when they go again. */
#include "memory/spill.h"

#include <haul/memory.h>

#include "base/alloc.h"
#include "core/thread.h"
#include "device/residency.h"
#include "events/events.h"
#include "memory/allocator_state.h"
#include "memory/split.h"

static const char origin[] = "spill";

static atomic_bool any; /* a device has spilled */

/* The command whose memory is being brought back on this thread; it must not be moved away. */
static _Thread_local const haul__command *current;

/* ---- choosing ---- */

static bool is_current(const haul__storage *storage)
{
    for (int i = 0; current && i < current->buffer_count; i++)
        if (current->buffers[i].storage == storage)
            return true;
    return false;
}

static bool can_move(const haul__block *block)
{
    return !atomic_load(&block->uses.away) && !block->pins && !atomic_load(&block->uses.fixed) &&
           !is_current(&block->own);
}

/* What a search for memory finds. */
typedef struct found {
    haul__block *block; /* used longest ago, marked as moving; NULL: there is none */
    bool         free;  /* there is memory that is not in use */
} found;

/* Looks for a block of at least `least` bytes. If its last reference goes now, that thread waits until it was moved. */
static found find_oldest(struct haul__allocator *a, int64_t least)
{
    found f = {NULL, false};
    haul__spin_lock(&a->lock);
    f.free = a->stats.reserved > a->stats.allocated;
    for (haul__block *b = a->live.next; b != &a->live; b = b->next)
        if ((int64_t)b->bytes >= least && can_move(b) && (!f.block || b->uses.last < f.block->uses.last))
            f.block = b;
    if (f.block)
        f.block->moving = true;
    haul__spin_unlock(&a->lock);
    return f;
}

/* ---- moving; the caller has the lock of device/residency.h ---- */

static haul_status copy(haul__stream_choice stream, haul__storage *to, haul__storage *from)
{
    const bool         up = stream != HAUL__STREAM_DOWNLOAD;
    const haul_device *device = (up ? to : from)->device;
    haul_status        status = haul__submit(&(haul__command){.kind = up ? HAUL__COMMAND_WRITE : HAUL__COMMAND_READ,
                                                              .stream = stream,
                                                              .operation = origin,
                                                              .device = (haul_device *)device,
                                                              .buffers = (haul__region[]){{to, 0}, {from, 0}},
                                                              .write_count = 1,
                                                              .buffer_count = 2,
                                                              .bytes = up ? to->bytes : from->bytes});
    if (!status)
        haul__emit_counted(&(haul_event){.kind = up ? HAUL_EVENT_COPY_TO_DEVICE : HAUL_EVENT_COPY_TO_HOST,
                                         .operation = origin,
                                         .device = to->device,
                                         .other = from->device,
                                         .text = haul__storage_pinned(up ? from : to) ? "pinned" : "pageable",
                                         .bytes = (int64_t)(up ? to->bytes : from->bytes)});
    return status;
}

/* The uses of the memory go with it. It has no other owner. */
static void take_uses(haul__uses *to, haul__uses *from)
{
    haul__spin_lock(&to->lock);
    to->write = from->write;
    to->read_count = from->read_count;
    for (int i = 0; i < from->read_count; i++)
        to->reads[i] = from->reads[i];
    atomic_store(&to->any, atomic_load(&from->any));
    atomic_store(&to->away, false);
    haul__spin_unlock(&to->lock);
}

/* Host memory has what the block's memory has, from now on. It is not written to meanwhile. */
static void set_copied(haul__block *block)
{
    haul__spin_lock(&block->uses.lock);
    block->uses.copied = true;
    haul__spin_unlock(&block->uses.lock);
}

static bool is_copied(haul__block *block)
{
    haul__spin_lock(&block->uses.lock);
    const bool copied = block->host && block->uses.copied;
    haul__spin_unlock(&block->uses.lock);
    return copied;
}

/* The device memory of the block becomes that of a free block, whose next owner waits for its uses: the copy. */
static void part(haul__block *block, haul__block *rest, haul__storage *host)
{
    struct haul__allocator *a = block->owner;
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
    a->stats.spilled += (int64_t)block->bytes;
    a->stats.spilled_total += block->moving ? (int64_t)block->own.bytes : 0; /* not if it failed to return */
    block->host = host;
    block->moving = false;
    haul__spin_unlock(&a->lock);
}

static void end_moving(haul__block *block, haul__storage *host)
{
    haul__spin_lock(&block->owner->lock);
    block->host = host;
    block->moving = false;
    haul__spin_unlock(&block->owner->lock);
}

/* Host memory gets the block's elements, if it has not got them yet; NULL if there is none, or if the device refused
 * the copy. The block counts as used when it was before. */
static haul__storage *copy_away(haul__block *block)
{
    haul__storage *storage = &block->own, *host = block->host;
    const uint64_t last = block->uses.last;
    if (is_copied(block))
        return host;
    if (!host && !(host = haul__host_alloc_for(storage->device, storage->bytes, origin)))
        return NULL;
    if (!copy(HAUL__STREAM_DOWNLOAD, host, storage)) {
        haul__spin_lock(&block->uses.lock);
        block->uses.last = last;
        haul__spin_unlock(&block->uses.lock);
        return host;
    }
    if (!block->host)
        haul__object_release(host);
    return NULL;
}

static bool move_away(haul__block *block)
{
    haul__block   *rest = haul__malloc(sizeof *rest);
    haul__storage *host = rest ? copy_away(block) : NULL;
    if (host) {
        part(block, rest, host);
        return true;
    }
    end_moving(block, block->host);
    haul__free(rest);
    return false;
}

/* Copies the block's elements, which stay. */
static bool prepare(haul__block *block)
{
    haul__storage *host = copy_away(block);
    if (host)
        set_copied(block);
    end_moving(block, host ? host : block->host);
    return host != NULL;
}

/* Memory for the block, which takes it out of a fresh one. No scope's limit counts it a second time. */
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
    haul__ring_remove(fresh);
    haul__split_replace(block, fresh);
    a->stats.live_blocks--;
    a->stats.spilled -= (int64_t)block->bytes;
    atomic_store(&block->uses.away, false);
    haul__spin_unlock(&a->lock);
    block->buffer = block->own.buffer = fresh->buffer;
    take_uses(&block->uses, &fresh->uses);
    haul__free(fresh->recorded);
    haul__free(fresh);
    return HAUL_OK;
}

/* The copy in host memory stays until the elements are written or freed: they could go again. */
static haul_status move_back(haul__block *block, bool ahead)
{
    haul__storage *host = block->host;
    haul__block   *rest = haul__malloc(sizeof *rest); /* should the copy fail */
    haul_status    status = rest ? obtain(block, ahead) : haul__fail_memory(origin, sizeof *rest);
    if (status) {
        haul__free(rest);
        return status;
    }
    if ((status = copy(ahead ? HAUL__STREAM_AHEAD : HAUL__STREAM_UPLOAD, &block->own, host))) {
        part(block, rest, host);
        return status;
    }
    haul__free(rest);
    set_copied(block);
    return HAUL_OK;
}

static haul_status bring_back(const haul__command *c)
{
    haul_status status = HAUL_OK;
    haul__residency_stop();
    current = c;
    for (int i = 0; i < c->buffer_count && !status; i++) {
        haul__storage *storage = c->buffers[i].storage;
        if (storage->uses && atomic_load(&storage->uses->away))
            status = move_back(storage->block, false);
    }
    current = NULL;
    return status;
}

/* ---- what others call ---- */

/* A sixteenth of the wanted bytes, so that not many small tensors go where a large one would do; then any. */
static found choose(struct haul__allocator *a, int64_t wanted)
{
    found f = find_oldest(a, wanted / 16);
    return f.block ? f : find_oldest(a, 0);
}

/* Moves one tensor away and adds its size. Returns false if there is none, and no memory is free either. */
static bool make_room(struct haul__allocator *a, int64_t wanted, int64_t *moved)
{
    const found f = choose(a, wanted);
    if (!f.block)
        return f.free;
    const int64_t bytes = (int64_t)f.block->bytes; /* once it has moved, its last reference may go */
    const bool    works = move_away(f.block);
    *moved += works ? bytes : 0;
    return works;
}

/* Bytes in blocks of at least `least` that can be moved, are copied, and were used before `last`. */
static int64_t copied_before(struct haul__allocator *a, int64_t least, uint64_t last)
{
    int64_t bytes = 0;
    for (const haul__block *b = a->live.next; b != &a->live; b = b->next)
        if ((int64_t)b->bytes >= least && b->uses.copied && b->uses.last < last && can_move(b))
            bytes += (int64_t)b->bytes;
    return bytes;
}

/* Of what can be moved and is not copied, the block used longest ago, marked as moving. NULL if blocks of `enough`
 * bytes go before it. */
static haul__block *find_next(struct haul__allocator *a, int64_t enough)
{
    const int64_t least = enough / 16;
    haul__block  *next = NULL;
    haul__spin_lock(&a->lock);
    for (haul__block *b = a->live.next; b != &a->live; b = b->next)
        if ((int64_t)b->bytes >= least && !b->uses.copied && can_move(b) && (!next || b->uses.last < next->uses.last))
            next = b;
    if (next && copied_before(a, least, next->uses.last) >= enough)
        next = NULL;
    if (next)
        next->moving = true;
    haul__spin_unlock(&a->lock);
    return next;
}

/* Copies what goes next, so that its memory is ready when it is needed. */
static void copy_ahead(struct haul__allocator *a, int64_t enough)
{
    haul__block *block;
    while ((block = find_next(a, enough)) && prepare(block))
        ;
}

/* True if a block of so many bytes would fit on the empty device. */
static bool could_fit(const struct haul__allocator *a, int64_t bytes)
{
    const int64_t limit = haul__spill_limit(a->device), memory = a->device->properties.memory_bytes;
    return (!limit || bytes <= limit) && (!memory || bytes <= memory);
}

int64_t haul__spill(struct haul__allocator *a, int64_t wanted)
{
    haul__error_record before;
    int64_t            moved = 0;
    bool               works = true;
    if (a->pinned || !atomic_load(&a->spills) || !could_fit(a, wanted))
        return -1;
    const bool taken = haul__residency_take();
    haul__error_save(&before);
    haul__residency_stop();
    for (int64_t now = -1; works && moved < wanted && moved > now;) {
        now = moved;
        works = make_room(a, wanted - moved, &moved);
    }
    if (moved >= wanted)
        copy_ahead(a, wanted);
    haul__error_restore(&before);
    if (taken)
        haul__residency_give();
    return works || moved > 0 ? moved : -1;
}

bool haul__may_spill(void)
{
    return atomic_load_explicit(&any, memory_order_relaxed);
}

bool haul__spill_return_ahead(haul__storage *storage)
{
    haul__error_record before;
    if (!storage->uses || !atomic_load_explicit(&storage->uses->away, memory_order_acquire))
        return true;
    const bool taken = haul__residency_take();
    haul__error_save(&before);
    haul__residency_stop();
    const bool works = !atomic_load(&storage->uses->away) || !move_back(storage->block, true);
    haul__error_restore(&before);
    if (taken)
        haul__residency_give();
    return works;
}

haul_status haul__spill_return(haul__block *block)
{
    return bring_back(&(haul__command){.buffers = &(haul__region){&block->own, 0}, .buffer_count = 1});
}

int64_t haul__spillable(struct haul__allocator *a)
{
    int64_t bytes = 0;
    haul__spin_lock(&a->lock);
    for (const haul__block *b = a->live.next; b != &a->live; b = b->next)
        bytes += can_move(b) ? (int64_t)b->bytes : 0;
    haul__spin_unlock(&a->lock);
    return bytes;
}

bool haul__spills(const haul_device *device)
{
    const struct haul__allocator *a = atomic_load_explicit(&device->allocator, memory_order_acquire);
    return a && atomic_load(&a->spills);
}

int64_t haul__spill_limit(const haul_device *device)
{
    struct haul__allocator *a = atomic_load_explicit(&device->allocator, memory_order_acquire);
    if (!haul__spills(device))
        return 0;
    haul__spin_lock(&a->lock);
    const int64_t limit = a->stats.limit, left = limit - haul__limited_overhead(a);
    haul__spin_unlock(&a->lock);
    return limit && left < 1 ? 1 : left;
}

/* A copy in host memory of elements that are on the device; NULL: none is left. */
static haul__storage *take_copy(struct haul__allocator *a)
{
    haul__storage *host = NULL;
    haul__spin_lock(&a->lock);
    for (haul__block *b = a->live.next; b != &a->live && !host; b = b->next) {
        if (!b->host || haul__block_is_away(b))
            continue;
        host = b->host;
        b->host = NULL;
        b->uses.copied = false;
    }
    haul__spin_unlock(&a->lock);
    return host;
}

void haul__spill_drop_copies(struct haul__allocator *a)
{
    haul__storage *host;
    if (!haul__may_spill())
        return;
    const bool taken = haul__residency_take();
    haul__residency_stop();
    while ((host = take_copy(a)))
        haul__object_release(host);
    if (taken)
        haul__residency_give();
}

void haul__spill_drop(haul__block *block)
{
    struct haul__allocator *a = block->owner;
    haul__spin_lock(&a->lock);
    haul__ring_remove(block);
    a->stats.live_blocks--;
    a->stats.spilled -= (int64_t)block->bytes;
    haul__spin_unlock(&a->lock);
    haul__object_release(block->host);
    haul__free(block->recorded);
    haul__free(block);
}

haul_status haul_memory_set_spill(haul_device *device, bool on)
{
    static const char operation[] = "haul_memory_set_spill";
    haul_status       status = haul__device_check(device, operation, "device");
    if (status)
        return status;
    if (on && !haul__device_is_apart(device))
        return haul__fail(HAUL_UNSUPPORTED, operation, "device",
                          "%s has no memory apart from the host's to which its tensors could be moved; spilling is for "
                          "GPUs and other devices with memory of their own",
                          device->name);
    struct haul__allocator *a = haul__allocator_of(device, false);
    if (!a)
        return haul_error_status();
    haul__residency_use(bring_back);
    if (on)
        atomic_store(&any, true);
    atomic_store(&a->spills, on);
    return HAUL_OK;
}
