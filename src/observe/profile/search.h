/* Searching in sorted items. */
#ifndef HAUL_OBSERVE_PROFILE_SEARCH_H
#define HAUL_OBSERVE_PROFILE_SEARCH_H

#include <stddef.h>

/* The index of the first item that is not before `key`, in the order that qsort would use; `count` if there is none. */
size_t haul__first_from(const void *items, size_t count, size_t size, const void *key,
                        int (*order)(const void *, const void *));

#endif
