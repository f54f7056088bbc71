/* Equal copies of a program: one copy of a tensor on a device is enough for all operations that use it there, until the
 * tensor changes. */
#ifndef HAUL_RECORD_COPIES_H
#define HAUL_RECORD_COPIES_H

#include "program/program.h"
#include "record/order.h"

/* `p` has the items of the order as operations, and its stores with the first and last commands that use them.
 * `of_store` has the number in the log of each store. A copy between devices that an earlier one equals leaves the
 * order, and replaced[its store] becomes the store of the earlier copy; other elements of `replaced` become -1. *any:
 * whether there was one. Then `p` has to be made again. */
haul_status haul__program_merge_copies(const haul__program *log, haul__program_order *order, const haul_program *p,
                                       const int64_t *of_store, int64_t *replaced, bool *any);

#endif
