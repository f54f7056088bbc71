/* Which rank has which nodes of the tree over the pieces, and the additions of the tree. */
#include "group/tree.h"

/* Appends the nodes below `node` whose pieces are all in [first, last). */
static int nodes_within(haul__tree_node node, int first, int last, haul__tree_node *out, int count)
{
    if (node.to <= first || node.from >= last)
        return count;
    if (first <= node.from && node.to <= last) {
        if (count < HAUL__TREE_NODES)
            out[count] = node;
        return count + 1;
    }
    const int middle = haul__tree_middle(node);
    count = nodes_within((haul__tree_node){node.from, middle}, first, last, out, count);
    return nodes_within((haul__tree_node){middle, node.to}, first, last, out, count);
}

int haul__tree_nodes(const haul__tree *t, int rank, haul__tree_node nodes[HAUL__TREE_NODES])
{
    return nodes_within((haul__tree_node){0, t->pieces}, haul__tree_first(t, rank), haul__tree_first(t, rank + 1),
                        nodes, 0);
}

int haul__tree_joins(const haul__tree *t, int rank, int piece)
{
    const int       first = haul__tree_first(t, rank);
    haul__tree_node node = {0, t->pieces};
    int             joins = 0;
    /* On the way from the root to the piece: a node that ends with the piece and begins at the rank's first one or
     * later is complete, and was joined from its halves. */
    while (node.to - node.from > 1) {
        const int middle = haul__tree_middle(node);
        if (node.to == piece + 1 && node.from >= first)
            joins++;
        if (piece < middle)
            node.to = middle;
        else
            node.from = middle;
    }
    return joins;
}

/* An inner loop of a fixed length is what compilers make vectors of at -O2. */
enum { BLOCK = 16 };

#define ADD(name, type)                                                                                                \
    static void name(type *restrict a, const type *restrict b, int64_t count)                                          \
    {                                                                                                                  \
        int64_t i = 0;                                                                                                 \
        for (; i + BLOCK <= count; i += BLOCK)                                                                         \
            for (int j = 0; j < BLOCK; j++)                                                                            \
                a[i + j] += b[i + j];                                                                                  \
        for (; i < count; i++)                                                                                         \
            a[i] += b[i];                                                                                              \
    }
ADD(add_f32, float)
ADD(add_f64, double)
ADD(add_i32, uint32_t)
ADD(add_i64, uint64_t)

void haul__tree_add(haul_dtype dtype, void *a, const void *b, int64_t count)
{
    if (dtype == HAUL_F32)
        add_f32(a, b, count);
    else if (dtype == HAUL_F64)
        add_f64(a, b, count);
    else if (dtype == HAUL_I32)
        add_i32(a, b, count);
    else if (dtype == HAUL_I64)
        add_i64(a, b, count);
}

typedef struct addition {
    const haul__tree *tree;
    haul_dtype        dtype;
    void *const      *sums;
    int64_t           count;
    int               rank;  /* whose nodes are next */
    int               taken; /* nodes of all ranks that were used */
} addition;

/* The sum of a node: one of the given sums, if the node's pieces are those of one rank, else the sum of its halves. The
 * nodes are used in the order of their pieces. */
static void *sum_of(addition *a, haul__tree_node node)
{
    while (haul__tree_first(a->tree, a->rank + 1) <= node.from)
        a->rank++;
    if (node.to <= haul__tree_first(a->tree, a->rank + 1))
        return a->sums[a->taken++];
    const int middle = haul__tree_middle(node);
    void     *sum = sum_of(a, (haul__tree_node){node.from, middle});
    haul__tree_add(a->dtype, sum, sum_of(a, (haul__tree_node){middle, node.to}), a->count);
    return sum;
}

void *haul__tree_sum(const haul__tree *t, haul_dtype dtype, void *const *sums, int64_t count)
{
    return sum_of(&(addition){.tree = t, .dtype = dtype, .sums = sums, .count = count},
                  (haul__tree_node){0, t->pieces});
}
