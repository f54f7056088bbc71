#include "memory/split.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "memory/allocator_check.h"
#include "memory/trim.h"
#include "memory/under_way.h"

/* Smaller requests take little memory, and would cut large blocks into crumbs. */
enum { LEAST = 32 << 10 };

/* Classes of at least LEAST, and so the places of all pieces, are multiples of this. */
_Static_assert((int)HAUL__SUB_BUFFER_ALIGNMENT == LEAST / HAUL__CLASS_STEPS, "places of pieces");

static bool is_free(const haul__block *block)
{
    return block && !block->prev;
}

void haul__split_replace(haul__block *to, haul__block *from)
{
    HAUL__ASSERT(to->owner == from->owner && !to->before && !to->after);
    HAUL__ASSERT(to->bytes == from->bytes && to->bin == from->bin);
    to->before = from->before;
    to->after = from->after;
    if (to->before)
        to->before->after = to;
    if (to->after)
        to->after->before = to;
    from->before = from->after = NULL;
    to->sub_buffer = from->sub_buffer;
    from->sub_buffer = (haul__sub_buffer){.handle = NULL};
}

/* ---- uses ---- */

static haul__use later(haul__use a, haul__use b)
{
    return b.stream && (!a.stream || b.ticket > a.ticket) ? b : a;
}

/* Adds a use that is not over; false if it is on another stream than the last one. */
static bool add_use(haul__use *last, haul__use use)
{
    if (haul__use_done(use))
        return true;
    if (last->stream && last->stream != use.stream)
        return false;
    *last = later(*last, use);
    return true;
}

/* True if the uses that are not over are on one stream. Then *out is the last of them; its stream is NULL if there are
 * none. The block is free, so that uses are not marked. Only host memory is asked which uses are over. Other devices
 * would need the lock of a stream, which a thread that wants memory may hold. */
static bool last_use(const struct haul__allocator *a, haul__uses *uses, haul__use *out)
{
    bool one = true;
    HAUL__ASSERT(0 <= uses->read_count && uses->read_count <= HAUL__MAX_READS);
    *out = (haul__use){NULL, 0};
    if (!atomic_load_explicit(&uses->any, memory_order_acquire) ||
        (haul__device_is_host(a->device) && haul__uses_reached(uses)))
        return true;
    one = add_use(out, uses->write);
    for (int i = 0; i < uses->read_count; i++)
        one = one && add_use(out, uses->reads[i]);
    return one;
}

static void set_use(haul__uses *uses, haul__use last)
{
    uses->write = last;
    uses->read_count = 0;
    atomic_store_explicit(&uses->any, last.stream != NULL, memory_order_release);
}

/* ---- handles of pieces ---- */

/* The block uses the handle for its address: a buffer that is whole again, its own handle. False if that must be made
 * first. The caller holds the lock. */
static bool use_handle(haul__block *block)
{
    const haul__sub_buffer *sub = &block->sub_buffer;
    if (!sub->address.handle) /* it was never a part, or parts need no handles */
        return true;
    if (haul__is_piece(block) && (!sub->handle || sub->bytes != block->bytes))
        return false;
    block->buffer.handle = block->own.buffer.handle = haul__is_piece(block) ? sub->handle : sub->address.handle;
    return true;
}

void haul__split_drop_handle(haul__block *block)
{
    if (block->sub_buffer.handle)
        haul__device_sub_buffer_free(block->owner->device, block->sub_buffer.handle);
    block->sub_buffer.handle = NULL;
}

/* Makes the handle of a piece that was taken, without the lock. Does not record an error. */
static bool make_handle(haul__block *block)
{
    haul__sub_buffer  *sub = &block->sub_buffer;
    haul__error_record before;
    HAUL__ASSERT(block->prev == block && sub->address.handle); /* it is taken, and a part */
    haul__split_drop_handle(block);
    haul__error_save(&before);
    if (haul__device_sub_buffer_alloc(block->owner->device, block->bytes, sub->address, &sub->handle)) {
        haul__error_restore(&before);
        return false;
    }
    sub->bytes = block->bytes;
    block->buffer.handle = block->own.buffer.handle = sub->handle;
    return true;
}

/* ---- joining ---- */

/* The link of a free block: the list of its class, or that of the rests, the largest first. */
static haul__block **home_of(struct haul__allocator *a, haul__block *block)
{
    const int bin = haul__bin_of(block->bytes);
    if (haul__bin_bytes(bin) == block->bytes && use_handle(block)) {
        block->bin = bin;
        return &a->bins[bin];
    }
    haul__block **link = &a->rests;
    while (*link && (*link)->bytes > block->bytes)
        link = &(*link)->next;
    HAUL__ASSERT(haul__is_piece(block) || block->sub_buffer.address.handle); /* others have a class's size */
    return link;
}

static void put_home(struct haul__allocator *a, haul__block *block)
{
    haul__block **home = home_of(a, block);
    block->next = *home;
    *home = block;
}

/* Moves the blocks of a list that have a free neighbour to another list. */
static void take_neighbours(haul__block **list, haul__block **out)
{
    while (*list) {
        haul__block *block = *list;
        if (!is_free(block->before) && !is_free(block->after)) {
            list = &block->next;
            continue;
        }
        HAUL__ASSERT(is_free(block) && haul__is_piece(block));
        *list = block->next;
        block->next = *out;
        *out = block;
    }
}

/* The block after it becomes part of it, if one use can stand for those of both. */
static bool join(const struct haul__allocator *a, haul__block *block, haul__block **left_over)
{
    haul__block *after = block->after;
    haul__use    mine, its;
    if (!is_free(after) || !last_use(a, &block->uses, &mine) || !last_use(a, &after->uses, &its) ||
        (mine.stream && its.stream && mine.stream != its.stream))
        return false;
    HAUL__ASSERT(after->before == block && after->owner == block->owner && block->bytes > 0 && after->bytes > 0);
    set_use(&block->uses, later(mine, its));
    block->bytes += after->bytes;
    after->bytes = 0;
    block->after = after->after;
    if (block->after)
        block->after->before = block;
    after->next = *left_over;
    *left_over = after;
    return true;
}

haul__block *haul__split_join(struct haul__allocator *a)
{
    haul__block *found = NULL, *first = NULL, *left_over = NULL;
    if (!a->pieces)
        return NULL;
    for (int bin = 0; bin < HAUL__BINS; bin++)
        take_neighbours(&a->bins[bin], &found);
    take_neighbours(&a->rests, &found);
    for (haul__block *block = found, *next; block; block = next) { /* those that begin a row of free blocks */
        next = block->next;
        if (!is_free(block->before)) {
            block->next = first;
            first = block;
        }
    }
    for (haul__block *block = first, *next; block; block = next) {
        next = block->next;
        for (haul__block *piece = block; is_free(piece);) {
            haul__block *after = piece->after;
            if (join(a, piece, &left_over)) {
                a->pieces--;
                HAUL__ASSERT(a->pieces >= 0);
                continue;
            }
            put_home(a, piece);
            piece = after;
        }
    }
    return left_over;
}

/* ---- splitting ---- */

/* Host memory whose last uses are not over is not cut, because the host would wait for it. */
static bool can_split(const struct haul__allocator *a, haul__block *block)
{
    haul__use last;
    return last_use(a, &block->uses, &last) && (!last.stream || !haul__device_is_host(a->device));
}

/* The first of the list that can be cut. */
static haul__block **find(struct haul__allocator *a, haul__block **link, bool only_pieces)
{
    while (*link && ((only_pieces && !haul__is_piece(*link)) || !can_split(a, *link)))
        link = &(*link)->next;
    return link;
}

/* Takes the smallest free block that suffices out of its list: a larger one, or a piece of that size without a handle.
 * With a limit only pieces are cut: whole blocks must be able to go one by one, so that what fits by its size does
 * fit. */
static haul__block *take_larger(struct haul__allocator *a, int bin)
{
    const size_t  bytes = haul__bin_bytes(bin);
    haul__block **best = NULL;
    for (haul__block **link = &a->rests; *link && (*link)->bytes >= bytes; link = &(*link)->next)
        if ((*link)->bytes == bytes || can_split(a, *link))
            best = link;
    for (int larger = bin + 1; larger < HAUL__BINS && (!best || haul__bin_bytes(larger) < (*best)->bytes); larger++) {
        haul__block **link = find(a, &a->bins[larger], a->stats.limit > 0);
        best = *link ? link : best;
    }
    haul__block *block = best ? *best : NULL;
    HAUL__ASSERT(!block || (is_free(block) && block->bytes >= bytes && block->owner == a));
    if (block)
        *best = block->next;
    return block;
}

/* The block keeps its beginning; the rest becomes a free block with the same uses. */
static void cut(struct haul__allocator *a, haul__block *block, int bin, haul__block *rest)
{
    const size_t bytes = haul__bin_bytes(bin);
    haul__use    last;
    HAUL__ASSERT(block->bytes > bytes && !a->pinned);
    last_use(a, &block->uses, &last);
    set_use(&block->uses, last);
    if (haul__device_has_sub_buffers(a->device) && !haul__is_piece(block))
        block->sub_buffer.address = (haul__buffer_address){block->buffer.handle, 0};
    *rest = (haul__block){
        .owner = a,
        .buffer = haul__device_sub_buffer(a->device, block->buffer, bytes),
        .bytes = block->bytes - bytes,
        .origin = block->origin,
        .born = block->born,
        .before = block,
        .after = block->after,
        .sub_buffer.address = {block->sub_buffer.address.handle, block->sub_buffer.address.offset + bytes}};
    haul__uses_init(&rest->uses);
    set_use(&rest->uses, last);
    rest->uses.last = block->uses.last;
    haul__block_begin(rest, a->device);
    if (rest->after)
        rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    a->pieces++;
    HAUL__ASSERT(rest->bytes > 0 && rest->before == block && (!rest->after || rest->after->before == rest));
    put_home(a, rest);
}

/* A block that was taken goes back to the free ones. */
static void put_back(struct haul__allocator *a, haul__block *block)
{
    haul__spin_lock(&a->lock);
    HAUL__ASSERT(block->prev == block); /* it was taken */
    block->prev = NULL;
    put_home(a, block);
    haul__spin_unlock(&a->lock);
}

haul__block *haul__split_get(struct haul__allocator *a, int bin)
{
    const bool   can = !a->pinned && haul__device_divides(a->device) && haul__bin_bytes(bin) >= LEAST;
    haul__block *rest = can ? haul__malloc(sizeof *rest) : NULL, *left_over = NULL;
    if (!rest)
        return NULL;
    haul__spin_lock(&a->lock);
    haul__block *block = take_larger(a, bin);
    if (!block && (left_over = haul__split_join(a)) != NULL) {
        block = a->bins[bin];
        if (block && can_split(a, block))
            a->bins[bin] = block->next;
        else
            block = take_larger(a, bin);
    }
    if (block && block->bytes > haul__bin_bytes(bin)) {
        cut(a, block, bin, rest);
        rest = NULL;
    }
    if (block) {
        block->bin = bin;
        block->prev = block; /* its neighbours must not take it for free */
        haul__under_way_begin(a);
    }
    const bool ready = !block || use_handle(block);
    HAUL__ASSERT(!block || block->bytes == haul__bin_bytes(bin));
    haul__allocator_check(a);
    haul__spin_unlock(&a->lock);
    haul__blocks_free(left_over, NULL);
    haul__free(rest);
    if (ready || make_handle(block))
        return block;
    put_back(a, block);
    haul__under_way_end(a);
    return NULL;
}
