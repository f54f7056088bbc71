#include "observe/profile/intervals.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

bool haul__intervals_add(haul__intervals *all, int64_t begin, int64_t end)
{
    if (end <= begin)
        return true;
    if (!haul__grow(&all->items, &all->room, all->count + 1, sizeof *all->items))
        return false;
    all->items[all->count++] = (haul__interval){begin, end};
    return true;
}

static int by_begin(const void *a, const void *b)
{
    const haul__interval *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

void haul__intervals_join(haul__intervals *all)
{
    size_t kept = 0;
    if (all->count)
        qsort(all->items, all->count, sizeof *all->items, by_begin);
    for (size_t i = 0; i < all->count; i++) {
        const haul__interval x = all->items[i];
        haul__interval      *last = kept ? &all->items[kept - 1] : NULL;
        if (!last || x.begin > last->end)
            all->items[kept++] = x;
        else if (x.end > last->end)
            last->end = x.end;
    }
    HAUL__ASSERT(kept <= all->count && (kept > 0) == (all->count > 0));
    all->count = kept;
}

/* The first one that ends after a time. */
static size_t first_after(const haul__intervals *all, int64_t time)
{
    size_t low = 0, high = all->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (all->items[middle].end <= time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int64_t haul__intervals_covered(const haul__intervals *all, int64_t begin, int64_t end)
{
    int64_t ns = 0;
    for (size_t i = first_after(all, begin); i < all->count && all->items[i].begin < end; i++) {
        const haul__interval *x = &all->items[i];
        ns += (x->end < end ? x->end : end) - (x->begin > begin ? x->begin : begin);
    }
    HAUL__ASSERT(ns <= 0 || ns <= end - begin); /* they are in order and apart */
    return ns;
}

bool haul__intervals_add_rest(haul__intervals *to, int64_t begin, int64_t end, const haul__intervals *without)
{
    for (size_t i = first_after(without, begin); i < without->count && without->items[i].begin < end; i++) {
        if (!haul__intervals_add(to, begin, without->items[i].begin))
            return false;
        begin = without->items[i].end;
    }
    return haul__intervals_add(to, begin, end);
}

int64_t haul__intervals_length(const haul__intervals *all)
{
    int64_t ns = 0;
    for (size_t i = 0; i < all->count; i++)
        ns += all->items[i].end - all->items[i].begin;
    return ns;
}
