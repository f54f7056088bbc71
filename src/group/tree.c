/* Which rank has which nodes of the tree over the pieces, and the additions of the tree. */
#include "group/tree.h"

#include "base/assert.h"

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
    HAUL__ASSERT(0 <= piece && piece < t->pieces && rank < t->ranks);
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

typedef struct folding {
    const haul__tree *tree;
    void (*add)(void *context, int a, int b);
    void *context;
    int   rank;  /* whose nodes are next */
    int   taken; /* nodes of all ranks that were used */
} folding;

/* The sum of a node: one of the given ones, if the node's pieces are those of one rank, else the sum of its halves. The
 * nodes are used in the order of their pieces. */
static int sum_of(folding *f, haul__tree_node node)
{
    while (haul__tree_first(f->tree, f->rank + 1) <= node.from)
        f->rank++;
    if (node.to <= haul__tree_first(f->tree, f->rank + 1))
        return f->taken++;
    HAUL__ASSERT(f->rank < f->tree->ranks && node.to - node.from > 1); /* a piece is of one rank */
    const int middle = haul__tree_middle(node);
    const int sum = sum_of(f, (haul__tree_node){node.from, middle});
    f->add(f->context, sum, sum_of(f, (haul__tree_node){middle, node.to}));
    return sum;
}

int haul__tree_fold(const haul__tree *t, void (*add)(void *context, int a, int b), void *context)
{
    return sum_of(&(folding){.tree = t, .add = add, .context = context}, (haul__tree_node){0, t->pieces});
}

typedef struct addition {
    haul_dtype   dtype;
    void *const *sums;
    int64_t      count;
} addition;

static void add_in_memory(void *context, int a, int b)
{
    const addition *s = context;
    haul__tree_add(s->dtype, s->sums[a], s->sums[b], s->count);
}

void *haul__tree_sum(const haul__tree *t, haul_dtype dtype, void *const *sums, int64_t count)
{
    return sums[haul__tree_fold(t, add_in_memory, &(addition){.dtype = dtype, .sums = sums, .count = count})];
}
