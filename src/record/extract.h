/* A range of the log of a dry run as a program. */
#ifndef HAUL_RECORD_EXTRACT_H
#define HAUL_RECORD_EXTRACT_H

#include "program/program.h"

/* Where a range begins, which goes to the end of the log: numbers of described calls, values, stores, commands and
 * changes. */
typedef struct haul__program_range {
    size_t call, value, store, command, change;
} haul__program_range;

/* `*out` is empty, and becomes the program; it stays empty on failure. stores: NULL, or becomes the number in the
 * program of each store of the log, -1 for those that are not in it; the caller must free it, also on failure. */
haul_status haul__program_extract(const haul__program *log, const haul__program_range *range, haul_program *out,
                                  int64_t **stores);

#endif
