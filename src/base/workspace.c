/* Workspaces: users get memory one behind the other; all of it is free again when the last one leaves. */
#include "base/workspace.h"

#include <stdint.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { ALIGNMENT = 64 };

static _Thread_local haul__workspace *current;

haul__workspace *haul__workspace_set(haul__workspace *workspace)
{
    haul__workspace *before = current;
    current = workspace;
    return before;
}

void *haul__work_alloc(size_t bytes)
{
    haul__workspace *w = current;
    if (!w || bytes > PTRDIFF_MAX / 4)
        return haul__malloc(bytes);
    HAUL__ASSERT(w->used % ALIGNMENT == 0 && (w->users > 0 || w->used == 0));
    HAUL__ASSERT(!w->memory == !w->room);
    const size_t begin = w->used, end = begin + (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    w->most = end > w->most ? end : w->most;
    void *p = end <= w->room ? w->memory + begin : haul__malloc(bytes);
    if (p) {
        w->used = end;
        w->users++;
    }
    return p;
}

void haul__work_free(void *p)
{
    haul__workspace *w = current;
    if (!p)
        return;
    HAUL__ASSERT(!w || w->users > 0);
    if (w && --w->users == 0)
        w->used = 0;
    if (!w || !w->memory || (uintptr_t)p - (uintptr_t)w->memory >= w->room)
        haul__free(p);
}

static char *aligned(void *block)
{
    return (char *)(((uintptr_t)block + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
}

bool haul__workspace_grow(haul__workspace *w)
{
    HAUL__ASSERT(w->users == 0 && w->used == 0);
    if (w->most <= w->room)
        return true;
    const size_t room = w->most;
    haul__workspace_free(w);
    w->block = haul__malloc_large(room + ALIGNMENT);
    if (!w->block)
        return false;
    w->memory = aligned(w->block);
    HAUL__ASSERT(w->memory - (char *)w->block < ALIGNMENT);
    w->room = room;
    return true;
}

void haul__workspace_free(haul__workspace *w)
{
    haul__free(w->block);
    *w = (haul__workspace){.most = w->most};
}
