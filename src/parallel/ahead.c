#include "parallel/ahead.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

_Atomic int64_t haul__ahead_taken, haul__ahead_dropped;

/* A history has room for so many times the number of parameters: forward and backward passes of 8 mini-batches. */
enum { NONE = -1, PASSES = 16 };

/* Parameters in the order in which they came. */
typedef struct history {
    int *items;
    int  count;
} history;

struct haul__ahead {
    history     now, last[2]; /* last[1]: of a step */
    int         most;         /* that a history has */
    bool        step;
    int         at;   /* in last[step]: the item that is expected */
    haul__work *work; /* on its way */
    int         item; /* the parameter */
    size_t      bytes;
    char       *elements; /* in memory that stays */
    size_t      room;
};

haul__ahead *haul__ahead_new(int count)
{
    const size_t bytes = (size_t)count * PASSES * sizeof(int);
    haul__ahead *a = haul__calloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (haul__ahead){.now = {.items = haul__malloc(bytes)},
                       .last = {{.items = haul__malloc(bytes)}, {.items = haul__malloc(bytes)}},
                       .most = count * PASSES};
    if (a->now.items && a->last[0].items && a->last[1].items)
        return a;
    haul__ahead_free(a);
    return NULL;
}

void haul__ahead_free(haul__ahead *a)
{
    if (!a)
        return;
    haul__ahead_stop(a, false);
    haul__free(a->now.items);
    haul__free(a->last[0].items);
    haul__free(a->last[1].items);
    haul__free(a->elements);
    haul__free(a);
}

/* ---- what comes next ---- */

/* Where `item` is in the history, from `at` on, and then from its beginning on; NONE: nowhere. */
static int find(const history *h, int at, int item)
{
    for (int i = 0; i < h->count; i++)
        if (h->items[(at + i) % h->count] == item)
            return (at + i) % h->count;
    return NONE;
}

int haul__ahead_note(haul__ahead *a, int item)
{
    const history *h = &a->last[a->step];
    if (a->now.count < a->most)
        a->now.items[a->now.count++] = item;
    HAUL__ASSERT(a->now.count <= a->most && 0 <= a->at && a->at <= h->count);
    const int  found = find(h, a->at, item);
    const bool expected = found != NONE && found == a->at % h->count;
    if (found != NONE)
        a->at = found + 1;
    return expected && a->at < h->count ? h->items[a->at] : NONE;
}

/* ---- fetching ---- */

static bool make_room(haul__ahead *a, size_t bytes)
{
    if (a->room >= bytes)
        return true;
    haul__free(a->elements);
    a->elements = haul__malloc(bytes);
    a->room = a->elements ? bytes : 0;
    return a->elements;
}

void haul__ahead_begin(haul__ahead *a, haul__offer *offer, const haul__group_call *call, int from, int item,
                       size_t bytes)
{
    haul__error_record before;
    HAUL__ASSERT(!a->work); /* one is on its way at a time */
    haul__error_save(&before);
    if (make_room(a, bytes) && (a->work = haul__offer_get_begin(offer, call, from, item, a->elements, bytes))) {
        a->item = item;
        a->bytes = bytes;
    }
    haul__error_restore(&before);
}

/* True if something was on its way, and has come. An error comes again when the parameter is used. */
static bool arrive(haul__ahead *a)
{
    haul__error_record before;
    if (!a->work)
        return false;
    haul__error_save(&before);
    const bool came = haul__work_wait(a->work) == HAUL_OK;
    haul__error_restore(&before);
    a->work = NULL;
    return came;
}

bool haul__ahead_take(haul__ahead *a, int item, void *to, size_t bytes)
{
    const bool came = arrive(a), taken = came && a->item == item && a->bytes == bytes;
    HAUL__ASSERT(!a->work && (!taken || bytes <= a->room));
    if (taken)
        memcpy(to, a->elements, bytes);
    haul__ahead_taken += taken;
    haul__ahead_dropped += came && !taken;
    return taken;
}

void haul__ahead_stop(haul__ahead *a, bool step)
{
    haul__ahead_dropped += arrive(a);
    if (a->now.count) {
        const history over = a->now;
        a->now = (history){.items = a->last[a->step].items};
        a->last[a->step] = over;
    }
    HAUL__ASSERT(!a->now.count && !a->work);
    a->step = step;
    a->at = 0;
}
