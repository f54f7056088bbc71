/* Places of a thread, which are taken one after the other. */
#include "memory/places.h"

static _Thread_local haul__places *current;

haul__places *haul__places_set(haul__places *places)
{
    haul__places *before = current;
    current = places;
    return before;
}

static haul__storage *take(haul__places *p, const haul_device *device, size_t bytes)
{
    for (int i = 0; i < p->count; i++) {
        haul__storage *s = p->items[i];
        if (s->device != device || s->bytes != bytes)
            continue;
        p->items += i + 1;
        p->count -= i + 1;
        haul__object_keep(s);
        return s;
    }
    return NULL;
}

haul__storage *haul__places_take(const haul_device *device, size_t bytes, bool *refused)
{
    haul__places *p = current;
    *refused = false;
    haul__storage *s = p && bytes ? take(p, device, bytes) : NULL;
    if (s || !p || !bytes)
        return s;
    p->missed++;
    p->bytes = bytes;
    *refused = p->refuses;
    return NULL;
}
