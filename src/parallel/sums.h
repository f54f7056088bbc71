/* Sums over the pieces of a global batch, in a binary tree whose leaves are the pieces. Pieces are a power of two, so a
 * node of the tree is a range of pieces whose first number is a multiple of its length. However ranges of pieces are
 * divided among processes, the sum is the same: sums are added only where the tree adds them. */
#ifndef HAUL_PARALLEL_SUMS_H
#define HAUL_PARALLEL_SUMS_H

#include <haul/tensor.h>

/* A range of up to HAUL_MAX_PIECES pieces is the union of at most so many nodes, and one more is added at a time. */
enum { HAUL__PIECE_SUMS = 2 * 12 + 1 };

/* The sum of some pieces. */
typedef struct haul__piece_sum {
    haul_tensor *sum; /* a dense tensor that nothing else uses; holds a reference */
    int          first, count;
} haul__piece_sum;

/* The largest nodes of the pieces that were added so far, in their order. All zeros: none. */
typedef struct haul__piece_sums {
    haul__piece_sum nodes[HAUL__PIECE_SUMS];
    int             count;
} haul__piece_sums;

/* Adds the sum of the node [first, first + count), which follows those before it. Takes over the caller's reference,
 * also on failure. Sums are added in place where both halves of a node are there. */
haul_status haul__piece_sums_add(haul__piece_sums *sums, haul_tensor *sum, int first, int count);

/* Releases all sums. */
void haul__piece_sums_clear(haul__piece_sums *sums);

#endif
