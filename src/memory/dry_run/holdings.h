/* What a dry run's memory is used for at the peak: by operation and module. */
#ifndef HAUL_MEMORY_DRY_RUN_HOLDINGS_H
#define HAUL_MEMORY_DRY_RUN_HOLDINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What one operation allocated in one module. */
typedef struct haul__holding {
    const char *origin;     /* the operation; lives as long as the process */
    char        module[80]; /* the path of the module under way; "" outside of modules */
    int64_t     bytes;      /* now */
    int64_t     at_peak;
} haul__holding;

/* All zero is empty. Entries stay where they are. */
typedef struct haul__holdings {
    haul__holding *items;
    size_t         count, capacity;
    bool           at_peak; /* the present is the peak; `at_peak` of the items is not filled in yet */
} haul__holdings;

/* The number of the entry of an operation in the module under way; SIZE_MAX, without an error, if memory is exhausted.
 */
size_t haul__holdings_find(haul__holdings *h, const char *origin);

/* Entry i has `bytes` more, which may be negative. `is_peak`: never was more in use than now. */
void haul__holdings_add(haul__holdings *h, size_t i, int64_t bytes, bool is_peak);

/* Fills in at_peak of all entries, if that is due. */
void haul__holdings_settle(haul__holdings *h);

void haul__holdings_free(haul__holdings *h);

#endif
