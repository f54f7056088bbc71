#include "observe/profile/stacks.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { MOST = 1024 };

static uint64_t hash_of(void *const *frames, int count)
{
    uint64_t hash = (uint64_t)count;
    for (int i = 0; i < count; i++)
        hash = (hash ^ (uintptr_t)frames[i]) * 0x9e3779b97f4a7c15u;
    return hash;
}

uint32_t haul__stacks_number(haul__stacks *s, void *const *frames, int count, uint32_t operation)
{
    count = count < HAUL__STACK_FRAMES ? count : HAUL__STACK_FRAMES;
    if (count <= 0)
        return 0;
    const uint64_t hash = hash_of(frames, count);
    const size_t   bytes = (size_t)count * sizeof *frames;
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i].hash == hash && s->items[i].count == count && !memcmp(s->items[i].frames, frames, bytes))
            return (uint32_t)i + 1;
    if (s->count == MOST || !haul__grow(&s->items, &s->room, s->count + 1, sizeof *s->items))
        return 0;
    HAUL__ASSERT(s->count < s->room && s->count < MOST);
    haul__stack *new = &s->items[s->count++];
    *new = (haul__stack){.hash = hash, .operation = operation, .count = count};
    memcpy(new->frames, frames, bytes);
    return (uint32_t)s->count;
}

void haul__stacks_close(haul__stacks *s)
{
    haul__free(s->items);
    *s = (haul__stacks){.items = NULL};
}
