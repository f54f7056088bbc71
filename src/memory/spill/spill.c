/* Spilling.
 *
 * A storage stays where it is, in its block; its elements leave its device memory. The device memory goes to the
 * free blocks, from which an allocation takes it or returns it to the device. The elements go to pinned host memory
 * where there is some, or to a file (memory/spill/copy.h). A command that uses the storage brings them back first
 * (device/residency.h).
 *
 * The storage that was used longest ago goes first. In the forward pass of a training these are optimizer states and
 * the tensors that the first layers saved, which are needed last. The copies are ordered by uses like all others: the
 * next owner of the device memory waits for the copy away, and the command that uses the storage for the copy back. The
 * host waits only where the device memory must go back to the driver.
 *
 * Two things happen ahead of time. Whoever makes room also copies what would go next, but leaves it in place: then the
 * next one finds device memory whose copy is under way. Code that knows the next uses, for example a backward pass,
 * brings storages back early. Elements keep their copy until a command writes to them, so that they need no new one
 * when they leave again.
 *
 * The states of a block's elements. Only the thread with the lock of device/residency.h follows an arrow:
 *
 *                   find_oldest, find_next
 *         present ------------------------> moving --move_away--> away
 *          ^  ^ ^                            |  |                  |
 *   write  |  | +----- the copy failed ------+  | copy_ahead       | move_back
 *          |  +---------------------------------+                  |
 *          |                                    v                  v
 *          +-------------------------------- present, with a valid copy
 *
 * Invariants:
 *
 *   1. Whoever chooses or moves a block has the lock of device/residency.h.
 *   2. A block that moves is present, has no pins, and belongs to the allocator that spills.
 *   3. A block that is away has a copy, and no device memory.
 *   4. The command whose memory is brought back is set only under the lock, and its memory stays.
 *   5. After a return, all memory of the command is present.
 *   6. Pinned host memory does not spill: its copy would be in the same memory. */
#include "memory/spill/spill.h"

#include <haul/memory.h>
#include <stdio.h>

#include "base/assert.h"
#include "device/residency.h"
#include "memory/allocator_state.h"
#include "memory/dry_run/dry_run.h"
#include "memory/spill/copy.h"
#include "memory/spill/move.h"
#include "memory/spill/next_use.h"

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

/* Elements that another process has are given up by memory/spill/elsewhere.c alone. The caller has the allocator's
 * lock. */
static bool can_move(const haul__block *block)
{
    return !(block->copy && block->copy->elsewhere) && !atomic_load(&block->uses.away) && !block->pins &&
           !atomic_load(&block->uses.fixed) && !is_current(&block->own);
}

static bool has_memory(const haul__block *block)
{
    return block->buffer.handle || block->buffer.host;
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
    HAUL__ASSERT(haul__residency_is_taken() && !a->pinned); /* 1, 6 */
    haul__spin_lock(&a->lock);
    f.free = a->stats.reserved > a->stats.allocated;
    for (haul__block *b = a->live.next; b != &a->live; b = b->next)
        if ((int64_t)b->bytes >= least && can_move(b) && (!f.block || haul__goes_before(b, f.block)))
            f.block = b;
    HAUL__ASSERT(!f.block ||
                 (!f.block->moving && !f.block->pins && f.block->owner == a && has_memory(f.block))); /* 2 */
    if (f.block)
        f.block->moving = true;
    haul__spin_unlock(&a->lock);
    return f;
}

static haul_status bring_back(const haul__command *c)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(haul__residency_is_taken() && !current); /* 1, 4 */
    haul__residency_stop();
    current = c;
    for (int i = 0; i < c->buffer_count && !status; i++) {
        haul__storage *storage = c->buffers[i].storage;
        if (!storage->uses || !atomic_load(&storage->uses->away))
            continue;
        const haul__spill_copy *copy = storage->block->copy;
        HAUL__ASSERT(copy && !has_memory(storage->block)); /* 3 */
        if (copy->elsewhere)
            copy->elsewhere->before(copy->elsewhere, copy->number, c);
        status = haul__move_back(storage->block, false);
    }
    current = NULL;
    for (int i = 0; HAUL__ASSERTS && i < c->buffer_count && !status; i++)
        HAUL__ASSERT(!c->buffers[i].storage->uses || !atomic_load(&c->buffers[i].storage->uses->away)); /* 5 */
    return status;
}

/* ---- what others call ---- */

/* A sixteenth of the wanted bytes, so that not many small tensors go where a large one would do; then any. */
static found choose(struct haul__allocator *a, int64_t wanted)
{
    found f = find_oldest(a, wanted / 16);
    return f.block ? f : find_oldest(a, 0);
}

/* Keeps the reason of a failure for the message of the allocation that fails by it. */
static void note(struct haul__allocator *a, bool works)
{
    haul__spin_lock(&a->lock);
    snprintf(a->tiers.refused, sizeof a->tiers.refused, "%s", works ? "" : haul_error_message());
    haul__spin_unlock(&a->lock);
}

/* Moves one tensor away and adds its size. Returns false if there is none, and no memory is free either. */
static bool make_room(struct haul__allocator *a, int64_t wanted, int64_t *moved)
{
    const found f = choose(a, wanted);
    if (!f.block)
        return f.free;
    const int64_t bytes = (int64_t)f.block->bytes; /* once it has moved, its last reference may go */
    HAUL__ASSERT(!is_current(&f.block->own));      /* 4 */
    const bool works = !haul__move_away(f.block);
    note(a, works);
    *moved += works ? bytes : 0;
    return works;
}

/* Bytes in blocks of at least `least` that can be moved, are copied, and go before `next`. */
static int64_t copied_before(struct haul__allocator *a, int64_t least, const haul__block *next)
{
    int64_t bytes = 0;
    for (const haul__block *b = a->live.next; b != &a->live; b = b->next)
        if ((int64_t)b->bytes >= least && b->uses.copied && haul__goes_before(b, next) && can_move(b))
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
        if ((int64_t)b->bytes >= least && !b->uses.copied && can_move(b) && (!next || haul__goes_before(b, next)))
            next = b;
    if (next && copied_before(a, least, next) >= enough)
        next = NULL;
    HAUL__ASSERT(haul__residency_is_taken());                                                      /* 1 */
    HAUL__ASSERT(!next || (!next->moving && !next->pins && next->owner == a && has_memory(next))); /* 2 */
    if (next)
        next->moving = true;
    haul__spin_unlock(&a->lock);
    return next;
}

/* Copies what goes next, so that its memory is ready when it is needed. */
static void copy_ahead(struct haul__allocator *a, int64_t enough)
{
    haul__block *block;
    while ((block = find_next(a, enough)) && !haul__copy_ahead(block))
        ;
}

/* True if a block of so many bytes would fit on the empty device. */
static bool could_fit(const struct haul__allocator *a, int64_t bytes)
{
    const int64_t limit = haul__spill_limit(a->device), memory = a->device->properties.memory_bytes;
    return (!limit || bytes <= limit) && (!memory || bytes <= memory);
}

/* The part of `wanted` bytes that the limit does not leave. All of them if there is room, but in pieces, or no limit.
 */
static int64_t missing(struct haul__allocator *a, int64_t wanted)
{
    haul__spin_lock(&a->lock);
    const int64_t more = a->stats.reserved + wanted + haul__limited_overhead(a) - a->stats.limit;
    const bool    is_part = a->stats.limit && more > 0 && more < wanted;
    haul__spin_unlock(&a->lock);
    return is_part ? more : wanted;
}

int64_t haul__spill(struct haul__allocator *a, int64_t wanted)
{
    haul__error_record before;
    const int64_t      least = missing(a, wanted);
    int64_t            moved = 0;
    bool               works = true;
    if (a->pinned || !atomic_load(&a->spills) || !could_fit(a, wanted))
        return -1;
    HAUL__ASSERT(0 < least && least <= wanted);
    const bool taken = haul__residency_take();
    haul__error_save(&before);
    haul__residency_stop();
    for (int64_t now = -1; works && moved < least && moved > now;) {
        now = moved;
        works = make_room(a, least - moved, &moved);
    }
    if (moved >= least)
        copy_ahead(a, wanted);
    haul__error_restore(&before);
    if (taken)
        haul__residency_give();
    return works || moved > 0 ? moved : -1;
}

bool haul__spill_was_refused(struct haul__allocator *a)
{
    haul__spin_lock(&a->lock);
    const bool was_refused = *a->tiers.refused;
    haul__spin_unlock(&a->lock);
    return was_refused;
}

bool haul__may_spill(void)
{
    return atomic_load_explicit(&any, memory_order_relaxed);
}

/* True if the limit leaves `room` bytes next to the block. */
static bool leaves_room(const haul__block *block, int64_t room)
{
    struct haul__allocator *a = block->owner;
    HAUL__ASSERT(haul__residency_is_taken() && haul__block_is_away(block)); /* 1 */
    haul__spin_lock(&a->lock);
    const int64_t left = a->stats.limit - haul__limited_overhead(a) - a->stats.allocated - (int64_t)block->bytes;
    const bool    leaves = !a->stats.limit || left >= room;
    haul__spin_unlock(&a->lock);
    return leaves;
}

bool haul__spill_return_ahead(haul__storage *storage, int64_t room)
{
    haul__error_record before;
    if (haul__is_dry())
        haul__dry_run_foresee(storage->device, storage,
                              &(haul__program_foresight){.kind = HAUL__FORESEES_RETURN, .room = room});
    if (haul__is_dry() || haul__is_followed()) /* no command would copy the elements */
        return true;
    if (!storage->uses || !atomic_load_explicit(&storage->uses->away, memory_order_acquire))
        return true;
    const bool taken = haul__residency_take();
    haul__error_save(&before);
    haul__residency_stop();
    const bool works = !atomic_load(&storage->uses->away) || storage->block->copy->elsewhere ||
                       (leaves_room(storage->block, room) && !haul__move_back(storage->block, true));
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
    HAUL__ASSERT(bytes <= a->stats.allocated);
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

void haul__spill_tiers_room(const haul_device *device, int64_t *host, int64_t *file)
{
    struct haul__allocator *a = atomic_load_explicit(&device->allocator, memory_order_acquire);
    *host = -1;
    *file = 0;
    if (!a)
        return;
    const bool taken = haul__residency_take();
    haul__residency_stop();
    haul__spin_lock(&a->lock);
    *host = a->tiers.host_is_limited ? a->tiers.host_limit : -1;
    haul__spin_unlock(&a->lock);
    *file = a->tiers.file ? haul__spill_file_room(a->tiers.file) : 0;
    if (taken)
        haul__residency_give();
}

void haul__spill_drop_copies(struct haul__allocator *a)
{
    if (!haul__may_spill())
        return;
    const bool taken = haul__residency_take();
    haul__residency_stop();
    haul__spill_copies_drop(a);
    if (taken)
        haul__residency_give();
}

void haul__spill_watch(void)
{
    haul__residency_use(bring_back);
}

void haul__spill_begin(struct haul__allocator *a)
{
    haul__spill_watch();
    atomic_store(&any, true);
    atomic_store(&a->spills, true);
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
    if (on)
        haul__spill_begin(a);
    else
        atomic_store(&a->spills, false);
    return HAUL_OK;
}
