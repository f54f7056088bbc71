/* A reduction at the end of a chain: each tile has whole rows, or whole parts of one row, which are reduced while they
 * are in the caches, in the order of the operation's own kernel. */
#ifndef HAUL_RECORD_FOLLOW_CHAIN_END_H
#define HAUL_RECORD_FOLLOW_CHAIN_END_H

#include "engine/collect.h"

typedef struct haul__chain_end {
    haul__collected_passes passes; /* two: the first one leaves a number for each part of the only row */
    haul_tensor           *x, *y;  /* operand and result; borrowed */
    int64_t                each;   /* elements that are reduced at once */
    void                  *partial;
} haul__chain_end;

/* Learns what the call, which has begun, would launch. */
haul_status haul__chain_end_learn(haul__chain_end *end, haul__call *c);
void        haul__chain_end_free(haul__chain_end *end); /* and its memory; NULL is ignored */

/* Reduces elements first .. last - 1, of which element `first` is at `tile`; NULL: they are in the operand's memory. */
void haul__chain_end_run_tile(const haul__chain_end *end, void *tile, int64_t first, int64_t last);

/* After all tiles. */
void haul__chain_end_finish(const haul__chain_end *end);

#endif
