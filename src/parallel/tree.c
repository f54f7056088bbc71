#include "parallel/tree.h"

#include <haul/ops.h>
#include <string.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/object.h"

/* ---- ranges ---- */

/* The largest node that begins with piece `first` and has at most `most` pieces. */
static int largest(int first, int most)
{
    int size = 1;
    while (2 * size <= most && first % (2 * size) == 0)
        size *= 2;
    return size;
}

int haul__tree_count(int first, int count)
{
    int n = 0;
    for (const int end = first + count; first < end; n++)
        first += largest(first, end - first);
    return n;
}

haul__tree_node haul__tree_node_of(int first, int count, int i)
{
    const int end = first + count;
    for (; i > 0; i--)
        first += largest(first, end - first);
    return (haul__tree_node){.first = first, .count = largest(first, end - first)};
}

/* ---- sums ---- */

/* Both halves of a node of the tree. */
static bool are_halves(const haul__tree_node *left, const haul__tree_node *right)
{
    return left->count == right->count && left->first + left->count == right->first &&
           left->first % (2 * left->count) == 0;
}

/* Adds the last two sums if they are halves; *more is then true. */
static haul_status join(haul__tree *tree, bool *more)
{
    haul__tree_node *right = &tree->nodes[tree->count - 1], *left = right - 1;
    *more = tree->count > 1 && are_halves(left, right);
    if (!*more)
        return HAUL_OK;
    haul_status status = haul_add_into(left->sum, left->sum, right->sum);
    haul__object_release(right->sum);
    left->count *= 2;
    tree->count--;
    return status;
}

haul_status haul__tree_add(haul__tree *tree, haul_tensor *sum, int first, int count)
{
    haul_status status = HAUL_OK;
    bool        more = true;
    HAUL__ASSERT(tree->count < HAUL__TREE_NODES);
    tree->nodes[tree->count++] = (haul__tree_node){.sum = sum, .first = first, .count = count};
    while (more && !status)
        status = join(tree, &more);
    return status;
}

void haul__tree_clear(haul__tree *tree)
{
    for (int i = 0; i < tree->count; i++)
        haul__object_release(tree->nodes[i].sum);
    tree->count = 0;
}
