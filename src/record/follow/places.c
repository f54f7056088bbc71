/* Who had the bytes of an arena last: a list of segments for each arena. */
#include "record/follow/places.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "memory/dry_run/dry_run.h"

bool haul__places_apart(const haul__variant *v, const haul__arenas *arenas)
{
    return v->needed.count > 1 && !arenas->given && !v->in_blocks && !haul__is_dry();
}

void haul__place_uses(haul__inside *s, const haul__storage *arena, bool apart)
{
    haul__storage *own = &s->own;
    own->uses = arena->uses;
    if (!apart)
        return;
    haul__uses_init(&own->own_uses);
    own->own_uses.whole = arena->uses;
    own->uses = &own->own_uses;
}

void haul__places_forget(haul__variant *v)
{
    for (int i = 0; i < v->needed.count; i++)
        v->segments[i].count = 0;
}

static haul_status no_memory(size_t count)
{
    return haul__fail_memory("haul_recording_run", count * sizeof(haul__segment));
}

/* All bytes follow all uses of the arena. */
static haul_status begin_anew(haul__segments *s, const haul__arena *a)
{
    if (!haul__grow(&s->items, &s->room, 1, sizeof *s->items))
        return no_memory(1);
    HAUL__ASSERT(a->bytes > 0);
    s->items[0] = (haul__segment){a->bytes, a->storage->uses};
    s->count = 1;
    return HAUL_OK;
}

haul_status haul__places_begin(haul__variant *v, haul__arenas *arenas)
{
    haul_status status = HAUL_OK;
    for (int i = 0; i < v->needed.count && !status; i++) {
        haul__segments *s = &v->segments[i];
        haul__arena    *a = haul__arenas_of(arenas, v->needed.items[i].device);
        if (!a || !a->storage)
            continue;
        if (v->apart && !haul__is_dry() && (!s->count || a->ran != v))
            status = begin_anew(s, a);
        a->ran = v;
    }
    return status;
}

/* The first segment that ends behind the offset. */
static size_t find(const haul__segments *s, int64_t offset)
{
    size_t from = 0, to = s->count;
    while (from < to) {
        const size_t middle = from + (to - from) / 2;
        if (s->items[middle].end <= offset)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

/* The segments `from` to `to` become at most three: the rest of the first one, the store, the rest of the last one. */
static void replace(haul__segments *s, size_t from, size_t to, const haul__inside *store, haul__uses *uses)
{
    const int64_t begin = from ? s->items[from - 1].end : 0, end = store->offset + store->bytes;
    HAUL__ASSERT(from <= to && to < s->count && begin <= store->offset && end <= s->items[to].end);
    haul__segment fresh[3];
    size_t        count = 0;
    if (begin < store->offset)
        fresh[count++] = (haul__segment){store->offset, s->items[from].uses};
    fresh[count++] = (haul__segment){end, uses};
    if (s->items[to].end > end)
        fresh[count++] = s->items[to];
    memmove(s->items + from + count, s->items + to + 1, (s->count - to - 1) * sizeof *s->items);
    memcpy(s->items + from, fresh, count * sizeof *fresh);
    s->count += count - (to - from + 1);
    for (size_t i = 1; HAUL__ASSERTS && i < s->count; i++)
        HAUL__ASSERT(s->items[i - 1].end < s->items[i].end);
}

static haul_status make(haul__variant *v, haul__inside *store)
{
    haul__uses *uses = &store->own.own_uses;
    int         number = 0;
    if (store->storage != &store->own || store->own.uses != uses || !store->bytes)
        return HAUL_OK;
    while (number < v->needed.count && v->needed.items[number].device != store->device)
        number++;
    haul__segments *s = &v->segments[number];
    HAUL__ASSERT(number < v->needed.count && s->count && store->offset >= 0);
    const int64_t end = store->offset + store->bytes;
    size_t        from = find(s, store->offset), to = from;
    HAUL__ASSERT(from < s->count && s->items[s->count - 1].end >= end);
    if (s->items[from].uses == uses && s->items[from].end >= end)
        return HAUL_OK;
    if (!haul__grow(&s->items, &s->room, s->count + 2, sizeof *s->items))
        return no_memory(s->count + 2);
    haul__uses_follow(uses, s->items[from].uses);
    while (s->items[to].end < end)
        haul__uses_follow(uses, s->items[++to].uses);
    replace(s, from, to, store, uses);
    return HAUL_OK;
}

static haul__inside *inside_of(haul__variant *v, const haul__storage *storage)
{
    const char *begin = (const char *)v->insides, *at = (const char *)storage;
    if (at < begin || at >= (const char *)(v->insides + v->inside_count))
        return NULL;
    HAUL__ASSERT(storage == &v->insides[(size_t)(at - begin) / sizeof *v->insides].own);
    return &v->insides[(size_t)(at - begin) / sizeof *v->insides];
}

static haul_status make_storage(haul__variant *v, const haul__storage *storage)
{
    haul__inside *s = storage ? inside_of(v, storage) : NULL;
    return s ? make(v, s) : HAUL_OK;
}

haul_status haul__places_make(haul__variant *v, const haul__replayed *r)
{
    haul_status status = HAUL_OK;
    HAUL__ASSERT(r->scratch + (size_t)r->scratch_count <= v->scratch_count);
    if (!v->apart || haul__is_dry())
        return HAUL_OK;
    for (int i = 0; i < r->result_count && !status; i++) {
        const haul_tensor *t = v->tensors[r->tensors + (size_t)(r->count + i)];
        status = make_storage(v, t ? t->storage : NULL);
    }
    for (int i = 0; i < r->scratch_count && !status; i++)
        status = make_storage(v, v->scratch[r->scratch + (size_t)i]);
    return status;
}

void haul__places_free(haul__variant *v)
{
    for (int i = 0; i < HAUL__MAX_DEVICES; i++)
        haul__free(v->segments[i].items);
}
