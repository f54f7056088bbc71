/* Plans an arena: items are placed one after another, each at the lowest offset that is free during its time. Of two
 * orders of placing, by size and by time, the one with the smaller arena is taken. */
#include "program/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

typedef struct plan {
    haul__arena_item  *items;
    haul__arena_item **order;  /* in which they are placed */
    haul__arena_item **placed; /* by offset */
    size_t             count, placed_count;
    int64_t            alignment;
} plan;

static int64_t rounded(const plan *p, int64_t bytes)
{
    return (bytes + p->alignment - 1) & ~(p->alignment - 1);
}

static int compare(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int largest_first(const void *a, const void *b)
{
    const haul__arena_item *x = *(haul__arena_item *const *)a, *y = *(haul__arena_item *const *)b;
    const int               by_size = compare(y->bytes, x->bytes), by_time = compare(x->first, y->first);
    return by_size ? by_size : by_time ? by_time : compare(x - y, 0);
}

static int earliest_first(const void *a, const void *b)
{
    const haul__arena_item *x = *(haul__arena_item *const *)a, *y = *(haul__arena_item *const *)b;
    const int               by_time = compare(x->first, y->first), by_size = compare(y->bytes, x->bytes);
    return by_time ? by_time : by_size ? by_size : compare(x - y, 0);
}

static bool at_one_time(const haul__arena_item *a, const haul__arena_item *b)
{
    return a->first <= b->last && b->first <= a->last;
}

/* The lowest offset at which the item fits between the placed ones of its time. */
static int64_t find_offset(const plan *p, const haul__arena_item *item)
{
    int64_t offset = 0;
    for (size_t i = 0; i < p->placed_count; i++) {
        const haul__arena_item *other = p->placed[i];
        const int64_t           end = other->offset + rounded(p, other->bytes);
        if (!at_one_time(item, other) || end <= offset)
            continue;
        if (offset + rounded(p, item->bytes) <= other->offset)
            return offset;
        offset = end;
    }
    return offset;
}

/* Returns the item's end. */
static int64_t place(plan *p, haul__arena_item *item)
{
    item->offset = find_offset(p, item);
    size_t at = p->placed_count++;
    for (; at && p->placed[at - 1]->offset > item->offset; at--)
        p->placed[at] = p->placed[at - 1];
    p->placed[at] = item;
    return item->offset + rounded(p, item->bytes);
}

static int64_t place_all(plan *p, int (*order)(const void *, const void *))
{
    int64_t size = 0;
    p->placed_count = 0;
    for (size_t i = 0; i < p->count; i++)
        p->order[i] = &p->items[i];
    qsort(p->order, p->count, sizeof *p->order, order);
    for (size_t i = 0; i < p->count; i++) {
        const int64_t end = place(p, p->order[i]);
        size = end > size ? end : size;
    }
    return size;
}

/* The most bytes at one time: at the beginning of an item. */
static int64_t most_at_once(plan *p)
{
    int64_t most = 0;
    for (size_t i = 0; i < p->count; i++) {
        int64_t now = 0;
        for (size_t k = 0; k < p->count; k++)
            if (p->items[k].first <= p->items[i].first && p->items[i].first <= p->items[k].last)
                now += rounded(p, p->items[k].bytes);
        most = now > most ? now : most;
    }
    return most;
}

/* Items of one time have no byte in common. */
static void check_apart(const plan *p, size_t number, int64_t size)
{
    const haul__arena_item *a = &p->items[number];
    HAUL__ASSERT(a->offset >= 0 && a->offset % p->alignment == 0 && a->offset + a->bytes <= size);
    for (size_t i = 0; i < number; i++) {
        const haul__arena_item *b = &p->items[i];
        HAUL__ASSERT(!at_one_time(a, b) || a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset);
    }
}

int64_t haul__arena_plan(haul__arena_item *items, size_t count, int64_t alignment, int64_t *least)
{
    plan p = {.items = items, .count = count, .alignment = alignment};
    HAUL__ASSERT(alignment > 0 && (alignment & (alignment - 1)) == 0);
    p.order = haul__malloc((2 * count + 1) * sizeof *p.order);
    if (!p.order)
        return -1;
    p.placed = p.order + count;
    *least = most_at_once(&p);
    const int64_t by_time = place_all(&p, earliest_first);
    int64_t       size = place_all(&p, largest_first);
    if (by_time < size)
        size = place_all(&p, earliest_first);
    HAUL__ASSERT(size >= *least);
    for (size_t i = 0; HAUL__ASSERTS && i < count; i++)
        check_apart(&p, i, size);
    haul__free(p.order);
    return size;
}
