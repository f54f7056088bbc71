/* The order of additions that makes sums over ranks independent of the number of ranks.
 *
 * The pieces of a sum are numbered from 0. Their number is fixed, and each rank has a range of them. The tree over
 * the pieces [a, b) adds the sum of its first half to that of its second half, and so on down to single pieces. A rank
 * can add up the subtrees that it has all pieces of. The largest of these are its *nodes*: the sum of all pieces
 * follows from the nodes of all ranks, and every addition has the same operands whoever makes it. */
#ifndef HAUL_GROUP_TREE_H
#define HAUL_GROUP_TREE_H

#include <haul/dtype.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct haul__tree {
    int pieces, ranks; /* at least 1, and no more ranks than pieces */
} haul__tree;

/* The sum of the pieces [from, to). */
typedef struct haul__tree_node {
    int from, to;
} haul__tree_node;

/* More than a rank can have: two for each level of the tree. */
enum { HAUL__TREE_NODES = 64 };

/* The first piece of a rank; of rank `ranks`, the number of pieces. */
static inline int haul__tree_first(const haul__tree *t, int rank)
{
    return (int)((int64_t)t->pieces * rank / t->ranks);
}

/* The piece at which the second half of a node begins. */
static inline int haul__tree_middle(haul__tree_node node)
{
    return node.from + (node.to - node.from + 1) / 2;
}

/* The nodes of a rank, in the order of their pieces. Returns how many there are. */
int haul__tree_nodes(const haul__tree *t, int rank, haul__tree_node nodes[HAUL__TREE_NODES]);

/* For a rank that adds up its pieces one after the other, on a stack: how many times it replaces the two topmost sums
 * by their sum (the lower one plus the upper one) after it has put the sum of `piece` on it. After the last
 * piece the stack has the rank's nodes. */
int haul__tree_joins(const haul__tree *t, int rank, int piece);

/* a += b, for f32, f64, i32 and i64. Integers wrap around. */
void haul__tree_add(haul_dtype dtype, void *a, const void *b, int64_t count);

/* Makes the additions of the nodes of all ranks, in the order of ranks: add(context, a, b) adds node b to node a.
 * Returns the node that then has the sum of all pieces. */
int haul__tree_fold(const haul__tree *t, void (*add)(void *context, int a, int b), void *context);

/* Adds up the nodes of all ranks, in the order of ranks: sums[i] has `count` elements. All but the result may be
 * changed. Returns the array that then has the sum of all pieces. */
void *haul__tree_sum(const haul__tree *t, haul_dtype dtype, void *const *sums, int64_t count);

#endif
