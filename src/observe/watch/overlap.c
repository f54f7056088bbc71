/* Each lane keeps its last spans in a ring. A new span is compared with the lanes of the other kind, so that each pair
 * is found once, by the one that comes later. */
#include "observe/watch/overlap.h"

#include "base/alloc.h"
#include "base/assert.h"

enum { SPANS = 4096 }; /* of a lane; a power of two */

typedef struct lane {
    haul__span spans[SPANS];
    uint64_t   count; /* so many were added; the last SPANS of them are there */
} lane;

typedef struct haul__tracks tracks;
struct haul__tracks {
    tracks            *next;
    const haul_device *device;
    lane               lanes[HAUL__LANES];
};

static tracks *tracks_of(haul__overlaps *o, const haul_device *device)
{
    for (tracks *t = o->tracks; t; t = t->next)
        if (t->device == device)
            return t;
    tracks *t = haul__calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->device = device;
    t->next = o->tracks;
    o->tracks = t;
    return t;
}

static const haul__span *at(const lane *l, uint64_t i)
{
    return &l->spans[i % SPANS];
}

/* The first span that ends after `begin`. */
static uint64_t first_after(const lane *l, int64_t begin)
{
    uint64_t low = l->count > SPANS ? l->count - SPANS : 0, high = l->count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (at(l, middle)->end > begin)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void compare(const lane *others, haul__span s, void (*found)(void *context, uint64_t copy, int64_t ns),
                    void *context)
{
    for (uint64_t i = first_after(others, s.begin); i < others->count && at(others, i)->begin < s.end; i++) {
        const haul__span *other = at(others, i);
        HAUL__ASSERT(others->count - i <= SPANS);
        const int64_t begin = other->begin > s.begin ? other->begin : s.begin;
        const int64_t end = other->end < s.end ? other->end : s.end;
        if (end > begin)
            found(context, s.copy ? s.copy : other->copy, end - begin);
    }
}

void haul__overlap_add(haul__overlaps *o, const haul_device *device, haul__lane where, haul__span span,
                       void (*found)(void *context, uint64_t copy, int64_t ns), void *context)
{
    HAUL__ASSERT((unsigned)where < HAUL__LANES);
    tracks *t = tracks_of(o, device);
    if (!t || span.end <= span.begin)
        return;
    if (where == HAUL__COMPUTING) {
        compare(&t->lanes[HAUL__UPLOADING], span, found, context);
        compare(&t->lanes[HAUL__AHEAD], span, found, context);
        compare(&t->lanes[HAUL__DOWNLOADING], span, found, context);
    } else {
        compare(&t->lanes[HAUL__COMPUTING], span, found, context);
    }
    lane *l = &t->lanes[where];
    l->spans[l->count++ % SPANS] = span;
}

void haul__overlap_free(haul__overlaps *o)
{
    for (tracks *t = o->tracks, *next; t; t = next) {
        next = t->next;
        haul__free(t);
    }
    o->tracks = NULL;
}
