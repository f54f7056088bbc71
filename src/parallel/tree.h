/* Sums over the pieces of a global batch, in a binary tree whose leaves are the pieces. Pieces are a power of two, so a
 * node of the tree is a range of pieces whose first number is a multiple of its length. A range of pieces in any order
 * of ownership has the same sum: sums are added only where the tree adds them. */
#ifndef HAUL_PARALLEL_TREE_H
#define HAUL_PARALLEL_TREE_H

#include <haul/tensor.h>

/* A range of up to HAUL_MAX_PIECES pieces is the union of at most so many nodes, and one more is added at a time. */
enum { HAUL__TREE_NODES = 2 * 12 + 1 };

/* The sum of some pieces. */
typedef struct haul__tree_node {
    haul_tensor *sum; /* a dense tensor that nothing else uses; the tree holds it */
    int          first, count;
} haul__tree_node;

/* The largest nodes of the pieces that were added so far, in their order. All zeros: none. */
typedef struct haul__tree {
    haul__tree_node nodes[HAUL__TREE_NODES];
    int             count;
} haul__tree;

/* Adds the sum of the node [first, first + count), which follows those before it. Takes over the caller's reference,
 * also on failure. Sums are added in place where both halves of a node are there. */
haul_status haul__tree_add(haul__tree *tree, haul_tensor *sum, int first, int count);

/* Releases all sums. */
void haul__tree_clear(haul__tree *tree);

/* The number of largest nodes that the pieces [first, first + count) form, and node number i of them, without sum. */
int             haul__tree_count(int first, int count);
haul__tree_node haul__tree_node_of(int first, int count, int i);

#endif
