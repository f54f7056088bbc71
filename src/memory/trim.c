#include "memory/trim.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "device/stream.h"
#include "events/events.h"
#include "memory/block_events.h"
#include "memory/split.h"
#include "memory/under_way.h"

/* ---- taking ---- */

/* True if all known uses of a free block are over. */
static bool is_over(const haul__uses *uses)
{
    bool over = !atomic_load_explicit(&uses->any, memory_order_acquire) || haul__use_done(uses->write);
    for (int i = 0; i < uses->read_count && over; i++)
        over = haul__use_done(uses->reads[i]);
    return over;
}

static bool can_go(const haul__block *block, bool only_ready)
{
    return !haul__is_piece(block) && (!only_ready || is_over(&block->uses));
}

static haul__block *take(struct haul__allocator *a, int64_t wanted, bool only_ready)
{
    haul__block *taken = NULL;
    for (int bin = HAUL__BINS - 1; bin >= 0 && wanted > 0; bin--) {
        for (haul__block **link = &a->bins[bin], *block; wanted > 0 && (block = *link);) {
            if (!can_go(block, only_ready)) {
                link = &block->next;
                continue;
            }
            HAUL__ASSERT(!block->prev && block->bin == bin && !haul__is_piece(block));
            *link = block->next;
            a->stats.reserved -= (int64_t)block->bytes;
            haul__under_way_begin(a);
            wanted -= (int64_t)block->bytes;
            block->next = taken;
            taken = block;
        }
    }
    HAUL__ASSERT(a->stats.reserved >= a->stats.allocated);
    return taken;
}

/* All but the block that was freed last. */
haul__block *haul__trim_class(struct haul__allocator *a, int bin)
{
    haul__block *taken = NULL, *first = a->bins[bin];
    for (haul__block **link = first ? &first->next : NULL, *block; link && (block = *link);) {
        if (haul__is_piece(block)) {
            link = &block->next;
            continue;
        }
        HAUL__ASSERT(!block->prev && block->bin == bin && block != first);
        *link = block->next;
        a->stats.reserved -= (int64_t)block->bytes;
        haul__under_way_begin(a);
        block->next = taken;
        taken = block;
    }
    HAUL__ASSERT(a->stats.reserved >= a->stats.allocated);
    return taken;
}

haul__block *haul__allocator_take(struct haul__allocator *a, int64_t wanted)
{
    haul__block *chain = haul__split_join(a), **end = &chain; /* handles of parts go before the whole */
    while (*end)
        end = &(*end)->next;
    *end = take(a, wanted, false);
    return chain;
}

/* ---- returning ---- */

static void give_back(haul__block *block, const char *origin)
{
    HAUL__ASSERT(!haul__is_piece(block) && !block->sub_buffer.handle); /* a device gets whole buffers back */
    haul__uses_finish(&block->uses, origin);
    const bool    watched = haul__watched(HAUL_EVENT_MEMORY_RETURNED);
    const int64_t start = watched ? haul__now_ns() : 0;
    if (block->pinned)
        haul__device_host_free(block->owner->device, block->buffer.host, block->pin, block->bytes, origin);
    else
        haul__device_free(block->owner->device, &block->buffer, block->bytes, origin);
    if (watched)
        haul__emit_block(HAUL_EVENT_MEMORY_RETURNED, block, block->owner->device, origin, start);
    haul__under_way_end(block->owner);
}

void haul__blocks_free(haul__block *blocks, const char *origin)
{
    while (blocks) {
        haul__block *next = blocks->next;
        HAUL__ASSERT(!blocks->copy && !blocks->moving && !blocks->pins);
        haul__split_drop_handle(blocks);
        if (blocks->bytes > 0)
            give_back(blocks, origin);
        haul__free(blocks->recorded);
        haul__free(blocks);
        blocks = next;
    }
}

/* ---- blocks that need no wait ---- */

static int64_t ready_bytes(const struct haul__allocator *a)
{
    int64_t bytes = 0;
    for (int bin = 0; bin < HAUL__BINS; bin++)
        for (const haul__block *block = a->bins[bin]; block; block = block->next)
            bytes += can_go(block, true) ? (int64_t)block->bytes : 0;
    HAUL__ASSERT(bytes <= a->stats.reserved - a->stats.allocated);
    return bytes;
}

static int64_t over_limit(const struct haul__allocator *a, int64_t bytes)
{
    return a->stats.reserved + haul__limited_overhead(a) + bytes - a->stats.limit;
}

/* Which uses are over is known only after a query. This takes the locks of streams, so the caller has none. */
static void ask(const haul_device *device)
{
    haul__stream *streams[HAUL__DEVICE_STREAMS];
    haul__device_streams(device, streams);
    for (int i = 0; i < HAUL__DEVICE_STREAMS; i++)
        haul__stream_ask(streams[i], atomic_load(&streams[i]->completed) + 1, streams[i] == device->compute);
}

bool haul__trim_ready(struct haul__allocator *a, int64_t bytes, const char *origin)
{
    haul__block *taken = NULL;
    haul__spin_lock(&a->lock);
    const bool limited = a->stats.limit > 0;
    int64_t    over = over_limit(a, bytes);
    haul__spin_unlock(&a->lock);
    if (!limited || over <= 0)
        return limited;
    ask(a->device);
    haul__spin_lock(&a->lock);
    over = over_limit(a, bytes);
    const bool fits = over <= 0 || ready_bytes(a) >= over;
    if (fits)
        taken = take(a, over, true);
    haul__spin_unlock(&a->lock);
    haul__blocks_free(taken, origin);
    return fits;
}
