/* The stores of a step on a device that spills: each has a block of its own from its first use to its last, because
 * parts of an arena cannot be spilled. The allocator knows when each block is used next. */
#ifndef HAUL_RECORD_FOLLOW_BLOCKS_H
#define HAUL_RECORD_FOLLOW_BLOCKS_H

#include "record/follow/variant.h"

/* Finds out when the calls use the stores, if that is not known yet, and gives stores on devices that spill a storage
 * without memory, for the tensors of the program. */
haul_status haul__blocks_prepare(haul__variant *v);

/* A run of a variant whose stores have blocks: begin, then before and after each call, then end. */
void        haul__blocks_begin(haul__variant *v);
haul_status haul__blocks_before(haul__variant *v, size_t call);
void        haul__blocks_after(haul__variant *v, size_t call);
void        haul__blocks_end(haul__variant *v);

#endif
