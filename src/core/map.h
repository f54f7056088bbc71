/* A hash map from pointers to pointers, for small short-lived tables. */
#ifndef HAUL_CORE_MAP_H
#define HAUL_CORE_MAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct haul__map_entry {
    const void *key; /* NULL: free */
    void       *value;
} haul__map_entry;

/* All zero is an empty map. Callers may iterate over the entries; their order has no meaning. */
typedef struct haul__map {
    haul__map_entry *entries;
    size_t           capacity, count; /* capacity is a power of two */
} haul__map;

/* The entry of a key, or NULL. Entries are valid until the next insertion. */
haul__map_entry *haul__map_find(const haul__map *map, const void *key);

/* The entry of a key; a new one has the value NULL. Returns NULL, without recording an error, if memory is
 * exhausted. */
haul__map_entry *haul__map_insert(haul__map *map, const void *key, bool *is_new);

/* Frees the map itself; the caller owns the values. */
void haul__map_free(haul__map *map);

#endif
