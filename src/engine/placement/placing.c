#include "engine/placement/placing.h"

#include <string.h>

#include "base/alloc.h"
#include "core/error.h"
#include "core/thread.h"

static void destroy(void *object)
{
    haul__placing *s = object;
    for (size_t i = 0; i < s->count; i++)
        haul__free(s->items[i].why);
    haul__free(s->items);
    haul__free(s);
}

static const haul__class placing_class = {.name = "placement in force", .destroy = destroy};

haul__placing *haul__placing_new(size_t count, const char *operation)
{
    haul__placing *s = haul__calloc(1, sizeof *s);
    if (s)
        s->items = haul__calloc(count + 1, sizeof *s->items);
    if (!s || !s->items) {
        haul__free(s);
        haul__fail_memory(operation, count * sizeof *s->items);
        return NULL;
    }
    haul__object_init(&s->object, &placing_class);
    s->count = count;
    return s;
}

const haul__placed *haul__placing_peek(haul__placing *s, const char *name, const char *module)
{
    const size_t first = atomic_load_explicit(&s->next, memory_order_relaxed);
    for (size_t i = 0; i < s->count; i++) {
        const haul__placed *item = &s->items[(first + i) % s->count];
        if (!strcmp(item->name, name) && !strcmp(item->module, module))
            return item;
    }
    return NULL;
}

const haul__placed *haul__placing_find(haul__placing *s, const char *name, const char *module)
{
    const haul__placed *item = haul__placing_peek(s, name, module);
    if (item)
        atomic_store_explicit(&s->next, (size_t)(item - s->items) + 1, memory_order_relaxed);
    return item;
}

haul_status haul__placing_begin(haul__placing *s, const char *operation)
{
    return haul__thread_hold(HAUL__PLAN, s) ? HAUL_OK : haul__fail_memory(operation, 0);
}

haul__placing *haul__placing_now(void)
{
    return haul__thread()->held[HAUL__PLAN];
}
