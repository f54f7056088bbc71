#include "memory/allocator_check.h"

#ifdef HAUL_HOSTILE
#include "base/assert.h"
#include "memory/spill/copy.h"
#include "memory/split.h"

/* Blocks that a call visits on average. */
enum { VISITS = 64 };

/* What a walk counts. */
typedef struct counts {
    int64_t blocks, live, live_bytes, away_bytes, pinned_bytes, free_bytes, parts;
} counts;

static void check_neighbours(const struct haul__allocator *a, const haul__block *b, counts *c)
{
    HAUL__ASSERT(b->owner == a && b->pinned == a->pinned && b->bytes > 0);
    HAUL__ASSERT(!b->before || (b->before->after == b && b->before->owner == a));
    HAUL__ASSERT(!b->after || (b->after->before == b && b->after->owner == a));
    if (b->before && b->before->buffer.host && b->buffer.host) /* one that returns has none yet */
        HAUL__ASSERT((char *)b->before->buffer.host + b->before->bytes == (char *)b->buffer.host);
    if (b->before && b->sub_buffer.address.handle)
        HAUL__ASSERT(haul__block_address(b->before).offset + b->before->bytes == b->sub_buffer.address.offset);
    c->parts += b->before != NULL;
    c->blocks++;
}

static void check_live(const struct haul__allocator *a, counts *c)
{
    for (const haul__block *b = a->live.next; b != &a->live; b = b->next) {
        const bool away = atomic_load(&b->uses.away);
        HAUL__ASSERT(b->next->prev == b && b->prev->next == b); /* 1 */
        HAUL__ASSERT(b->bytes == haul__bin_bytes(b->bin) && b->own.bytes <= b->bytes);
        HAUL__ASSERT(!a->pinned || !b->scope_limit); /* 6 */
        HAUL__ASSERT(!away || (b->copy && !b->moving && !b->pins && !b->before && !b->after));
        check_neighbours(a, b, c);
        c->live++;
        c->pinned_bytes += b->pins ? (int64_t)b->bytes : 0;
        if (!away || !b->copy->elsewhere)
            *(away ? &c->away_bytes : &c->live_bytes) += (int64_t)b->bytes;
    }
}

static void check_free(const struct haul__allocator *a, const haul__block *first, int bin, counts *c)
{
    size_t last = SIZE_MAX;
    for (const haul__block *b = first; b; b = b->next) {
        HAUL__ASSERT(!b->prev && !b->copy && !b->moving && !b->pins); /* 2 */
        HAUL__ASSERT(bin < 0 ? b->bytes <= last : b->bin == bin && b->bytes == haul__bin_bytes(bin));
        check_neighbours(a, b, c);
        c->free_bytes += (int64_t)b->bytes;
        last = b->bytes;
    }
}

static void check_counts(const struct haul__allocator *a, const counts *c)
{
    const haul_memory_stats *s = &a->stats;
    const bool               is_quiet = a->begun == a->ended && !a->has_lost; /* no block is between two lists */
    HAUL__ASSERT(c->live == s->live_blocks);                                  /* 4 */
    HAUL__ASSERT(c->live_bytes == s->allocated && c->away_bytes == s->spilled);
    HAUL__ASSERT(c->pinned_bytes == s->pinned && s->spilled_to_file <= s->spilled);
    HAUL__ASSERT(c->live_bytes + c->free_bytes <= s->reserved && c->parts <= a->pieces);
    HAUL__ASSERT(!is_quiet || (c->live_bytes + c->free_bytes == s->reserved && c->parts == a->pieces)); /* 7 */
    HAUL__ASSERT(s->allocated <= s->peak_allocated && s->reserved >= 0);
}

void haul__allocator_check(const struct haul__allocator *a)
{
    static _Thread_local int64_t wait;
    counts                       c = {.blocks = 0};
    if (!haul__is_hostile(HAUL__HOSTILE_CHECKS) || --wait > 0)
        return;
    check_live(a, &c);
    for (int bin = 0; bin < HAUL__BINS; bin++)
        check_free(a, a->bins[bin], bin, &c);
    check_free(a, a->rests, -1, &c);
    check_counts(a, &c);
    wait = c.blocks / VISITS;
}
#endif
