/* Planned scratch memory of a thread, which is taken piece by piece. */
#include "memory/planned_scratch.h"

static _Thread_local haul__planned_scratch *current;

haul__planned_scratch *haul__planned_scratch_set(haul__planned_scratch *scratch)
{
    haul__planned_scratch *before = current;
    current = scratch;
    return before;
}

static haul__storage *take(haul__planned_scratch *p, const haul_device *device, size_t bytes)
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

haul__storage *haul__planned_scratch_take(const haul_device *device, size_t bytes, bool *refused)
{
    haul__planned_scratch *p = current;
    *refused = false;
    haul__storage *s = p && bytes ? take(p, device, bytes) : NULL;
    if (s || !p || !bytes)
        return s;
    p->missed++;
    p->bytes = bytes;
    *refused = p->refuses;
    return NULL;
}
