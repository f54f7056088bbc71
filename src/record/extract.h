/* A range of the log of a dry run as a program. */
#ifndef HAUL_RECORD_EXTRACT_H
#define HAUL_RECORD_EXTRACT_H

#include "program/program.h"
#include "record/order.h"

/* Where the elements of a program are in the log. */
typedef struct haul__program_links {
    int64_t            *stores; /* of the log's stores: their number in the program, -1 for those that are not in it */
    haul__program_order order;  /* its items are the operations */
    bool *constants; /* of the program's stores: their values are the same in every run, and they are in no arena */
} haul__program_links;

/* `*out` is empty, and becomes the program; it stays empty on failure. follows: as in a followed step, updates of
 * parameters go where they free memory early (record/order.h), and pointwise operations are fused (record/fuse.h).
 * links: NULL, or must be freed by the caller, also on failure; with them the arenas are those of a followed step, in
 * which what outlives it has memory of its own. */
haul_status haul__program_extract(const haul__program *log, const haul__program_range *range, bool follows,
                                  haul_program *out, haul__program_links *links);
void        haul__program_links_free(haul__program_links *links);

#endif
