/* A hash map from pointers to pointers, for small tables that come and go. */
#ifndef HAUL_CORE_MAP_H
#define HAUL_CORE_MAP_H

#include <stdbool.h>
#include <stddef.h>

typedef struct haul__map_entry {
    const void *key; /* NULL: free */
    void       *value;
} haul__map_entry;

/* All zero is an empty map. Its entries can be walked over; their order means nothing. */
typedef struct haul__map {
    haul__map_entry *entries;
    size_t           capacity, count; /* capacity is a power of two */
} haul__map;

/* The entry of a key; NULL if there is none. Entries are valid until the next insertion. */
haul__map_entry *haul__map_find(const haul__map *map, const void *key);

/* The entry of a key, made with the value NULL if it is new. NULL, with nothing recorded, when memory is exhausted. */
haul__map_entry *haul__map_insert(haul__map *map, const void *key, bool *is_new);

/* The memory of the map itself; what the values are is the caller's. */
void haul__map_free(haul__map *map);

#endif
