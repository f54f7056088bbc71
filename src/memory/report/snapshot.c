/* Snapshots: every block of a device as a row, and as JSON. */
#include "memory/report/snapshot.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/system/clock.h"
#include "base/text/utf8.h"
#include "memory/report/block_origin.h"
#include "memory/report/origins.h"

static haul_memory_block row_of(const struct haul__allocator *a, const haul__block *block, bool live, int64_t now)
{
    const haul__block_origin *origin = haul__block_origin_of(block);
    HAUL__ASSERT(block->born <= a->stats.allocations && block->own.bytes <= block->bytes);
    haul_memory_block row = {.role = haul__origin_role(block),
                             .bytes = (int64_t)block->bytes,
                             .requested = (int64_t)block->own.bytes,
                             .age = a->stats.allocations - block->born,
                             .nanoseconds = origin && now > origin->time ? now - origin->time : 0,
                             .live = live,
                             .spilled = haul__block_is_away(block),
                             .recorded = origin != NULL};
    haul__utf8_copy(row.operation, sizeof row.operation, block->origin);
    if (origin) {
        haul__utf8_copy(row.module, sizeof row.module, origin->module);
        haul__utf8_copy(row.label, sizeof row.label, origin->label);
    }
    return row;
}

/* The caller holds the lock. */
static int take_rows(const struct haul__allocator *a, haul_memory_block *out, int capacity)
{
    const int64_t now = haul__now_ns();
    int           count = 0;
    for (const haul__block *block = a->live.next; block != &a->live; block = block->next, count++)
        if (count < capacity)
            out[count] = row_of(a, block, true, now);
    const haul__block *rest = a->rests;
    for (int bin = HAUL__BINS - 1; bin >= 0; bin--) {
        for (; rest && rest->bytes > haul__bin_bytes(bin); rest = rest->next, count++)
            if (count < capacity)
                out[count] = row_of(a, rest, false, now);
        for (const haul__block *block = a->bins[bin]; block; block = block->next, count++)
            if (count < capacity)
                out[count] = row_of(a, block, false, now);
    }
    HAUL__ASSERT(!rest); /* every rest belongs to a class */
    return count;
}

int haul_memory_snapshot(const haul_device *device, haul_memory_block *out, int capacity)
{
    struct haul__allocator *a = haul__allocator_checked(device, "haul_memory_snapshot");
    if (!a)
        return -1;
    if (!out && capacity > 0) {
        haul__fail_null("haul_memory_snapshot", "out");
        return -1;
    }
    haul__spin_lock(&a->lock);
    int count = take_rows(a, out, capacity);
    haul__spin_unlock(&a->lock);
    return count;
}

int haul__live_roles(const haul_device *device, haul__live_role *out, int capacity)
{
    struct haul__allocator *a = haul__allocator_of((haul_device *)device, false);
    int                     count = 0;
    if (!a)
        return -1;
    haul__spin_lock(&a->lock);
    for (const haul__block *b = a->live.next; b != &a->live; b = b->next) {
        const uint64_t storage = atomic_load_explicit(&b->storage, memory_order_relaxed);
        if (storage && count++ < capacity)
            out[count - 1] = (haul__live_role){storage, haul__storage_role(&b->own)};
    }
    haul__spin_unlock(&a->lock);
    return count;
}

/* ---- JSON ---- */

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

int haul__snapshot_rows(const haul__snapshot *s)
{
    return smaller(s->count, s->block_room);
}

void haul__snapshot_take(struct haul__allocator *a, haul__snapshot *s)
{
    static haul__origin_of *const of[HAUL__SNAPSHOT_SUMS] = {haul__origin_operation, haul__origin_module,
                                                             haul__origin_role};
    haul__spin_lock(&a->lock);
    s->device = a->device;
    s->stats = a->stats;
    s->stats.overhead = (int64_t)atomic_load(&a->device->overhead);
    s->count = take_rows(a, s->blocks, s->block_room);
    for (int i = 0; i < HAUL__SNAPSHOT_SUMS; i++)
        s->counts[i] = haul__sum_origins(&a->live, NULL, of[i], s->origins[i], s->origin_room);
    HAUL__ASSERT(s->counts[0] <= s->count); /* no more origins than blocks */
    haul__spin_unlock(&a->lock);
}

static void snapshot_free(haul__snapshot *s)
{
    haul__free(s->blocks);
    for (int i = 0; i < HAUL__SNAPSHOT_SUMS; i++)
        haul__free(s->origins[i]);
}

/* Allocates without the lock. The number of blocks may grow meanwhile; there are no more origins than blocks. */
static haul_status snapshot_make(struct haul__allocator *a, haul__snapshot *s)
{
    *s = (haul__snapshot){.count = 0};
    haul__snapshot_take(a, s);
    while (s->count > s->block_room) {
        const int room = s->count + s->count / 8 + 8;
        snapshot_free(s);
        *s = (haul__snapshot){
            .blocks = haul__calloc((size_t)room, sizeof *s->blocks), .block_room = room, .origin_room = room};
        bool fine = s->blocks != NULL;
        for (int i = 0; i < HAUL__SNAPSHOT_SUMS && fine; i++)
            fine = (s->origins[i] = haul__calloc((size_t)room, sizeof **s->origins)) != NULL;
        if (!fine) {
            snapshot_free(s);
            return haul__fail_memory("haul_memory_snapshot_json", (size_t)room * sizeof *s->blocks);
        }
        haul__snapshot_take(a, s);
    }
    return HAUL_OK;
}

static void put_block(haul__json_text *t, const haul_memory_block *b)
{
    haul__json_begin(t, NULL, '{');
    haul__json_string(t, "operation", b->operation);
    haul__json_string(t, "role", b->role);
    if (b->recorded) {
        haul__json_string(t, "module", b->module);
        haul__json_string(t, "label", b->label);
        haul__json_integer(t, "nanoseconds", b->nanoseconds);
    }
    haul__json_integer(t, "bytes", b->bytes);
    haul__json_integer(t, "requested", b->requested);
    haul__json_integer(t, "age", b->age);
    haul__json_bool(t, "live", b->live);
    haul__json_bool(t, "spilled", b->spilled);
    haul__json_end(t, '}');
}

void haul__snapshot_json(haul__json_text *t, const haul__snapshot *s)
{
    static const char *const names[HAUL__SNAPSHOT_SUMS] = {"by_operation", "by_module", "by_role"};
    haul__json_string(t, "device", s->device->name);
    haul__json_integer(t, "allocated", s->stats.allocated);
    haul__json_integer(t, "reserved", s->stats.reserved);
    haul__json_integer(t, "peak_allocated", s->stats.peak_allocated);
    haul__json_integer(t, "limit", s->stats.limit);
    haul__json_integer(t, "spilled", s->stats.spilled);
    haul__json_integer(t, "overhead", s->stats.overhead);
    for (int i = 0; i < HAUL__SNAPSHOT_SUMS; i++)
        haul__json_origins(t, names[i], s->origins[i], smaller(s->counts[i], s->origin_room));
    haul__json_begin(t, "blocks", '[');
    for (int i = 0; i < haul__snapshot_rows(s); i++)
        put_block(t, &s->blocks[i]);
    haul__json_end(t, ']');
}

int64_t haul_memory_snapshot_json(const haul_device *device, char *out, size_t size)
{
    static const char       operation[] = "haul_memory_snapshot_json";
    struct haul__allocator *a = haul__allocator_checked(device, operation);
    haul__json_text         t = {.out = out, .size = size};
    haul__snapshot          s;
    if (!a)
        return -1;
    if (!out && size) {
        haul__fail_null(operation, "out");
        return -1;
    }
    if (snapshot_make(a, &s))
        return -1;
    haul__json_begin(&t, NULL, '{');
    haul__snapshot_json(&t, &s);
    haul__json_end(&t, '}');
    snapshot_free(&s);
    return haul__json_finish(&t);
}
