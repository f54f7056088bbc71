/* Which neighbouring pointwise operations of a program are computed by one command, tile by tile, and which memory that
 * makes unnecessary. */
#ifndef HAUL_RECORD_FUSE_H
#define HAUL_RECORD_FUSE_H

#include "program/program.h"
#include "record/order.h"

/* The most operations of a chain. */
enum { HAUL__MAX_CHAIN = 64 };

/* Sets `fused` and `unfused` of the operations, and `within` of the stores. `p` has its stores with their first and
 * last uses, and its operations, which are the items of the order; `constant` is by store. Afterwards the uses of a
 * store by operations of a chain count for the whole chain. */
haul_status haul__program_fuse(const haul__program *log, const haul__program_order *order, haul_program *p,
                               const bool *constant);

/* The last operation of the chain of operation `at`, which is fused. */
int64_t haul__program_chain_end(const haul_program *p, int64_t at);

/* True if two values have the same elements of memory in the same order. */
bool haul__program_same_form(const haul_program_value *a, const haul_program_value *b);

#endif
