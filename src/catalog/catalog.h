/* The table of all operations, which the build collects from the files that define them (tools/operations.cmake). */
#ifndef HAUL_CATALOG_CATALOG_H
#define HAUL_CATALOG_CATALOG_H

#include "engine/operation.h"

typedef struct haul__catalog_entry {
    const haul__operation *operation;
    bool                   has_into;
} haul__catalog_entry;

extern const haul__catalog_entry haul__catalog[]; /* sorted by name */
extern const int                 haul__catalog_count;

#endif
