/* Open addressing with linear probing; at least half of the entries are free. */
#include "core/map.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/small_blocks.h"

enum { LEAST = 16 };

/* The entry that has the key, or the free entry where it belongs; the map has free entries. */
static haul__map_entry *slot_of(const haul__map *map, const void *key)
{
    size_t at = (size_t)((uint64_t)(uintptr_t)key * 0x9E3779B97F4A7C15u >> 32);
    for (;; at++) {
        haul__map_entry *e = &map->entries[at & (map->capacity - 1)];
        if (e->key == key || !e->key)
            return e;
    }
}

static bool grow(haul__map *map)
{
    haul__map larger = {.capacity = map->capacity ? 2 * map->capacity : LEAST, .count = map->count};
    HAUL__ASSERT((map->capacity & (map->capacity - 1)) == 0 && map->count <= map->capacity);
    larger.entries = haul__small_alloc(larger.capacity * sizeof *larger.entries);
    if (!larger.entries)
        return false;
    memset(larger.entries, 0, larger.capacity * sizeof *larger.entries);
    for (size_t i = 0; i < map->capacity; i++)
        if (map->entries[i].key)
            *slot_of(&larger, map->entries[i].key) = map->entries[i];
    haul__map_free(map);
    *map = larger;
    return true;
}

haul__map_entry *haul__map_find(const haul__map *map, const void *key)
{
    haul__map_entry *e = map->capacity ? slot_of(map, key) : NULL;
    return e && e->key ? e : NULL;
}

haul__map_entry *haul__map_insert(haul__map *map, const void *key, bool *is_new)
{
    if (2 * map->count >= map->capacity && !grow(map))
        return NULL;
    HAUL__ASSERT(key);
    haul__map_entry *e = slot_of(map, key);
    *is_new = !e->key;
    e->key = key;
    map->count += *is_new;
    HAUL__ASSERT(2 * map->count <= map->capacity);
    return e;
}

void haul__map_free(haul__map *map)
{
    haul__small_free(map->entries, map->capacity * sizeof *map->entries);
    *map = (haul__map){0};
}
