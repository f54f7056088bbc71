/* The nodes that a backward pass visits, and the gradients that it computes. */
#include "autograd/pass_graph.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

/* ---- nodes ---- */

static bool add_node(haul__pass_graph *g, haul__node *node)
{
    bool is_new;
    if (!haul__map_insert(&g->of_nodes, node, &is_new) ||
        (is_new && !haul__grow(&g->nodes, &g->capacity, g->count + 1, sizeof(haul__node *))))
        return false;
    if (is_new)
        g->nodes[g->count++] = node;
    HAUL__ASSERT(g->count <= g->of_nodes.count && g->count <= g->capacity);
    return true;
}

static int newest_first(const void *a, const void *b)
{
    uint64_t x = (*(haul__node *const *)a)->order, y = (*(haul__node *const *)b)->order;
    return (x < y) - (x > y);
}

/* A chain of operations is found in the right order already. */
static bool is_sorted(const haul__pass_graph *g)
{
    for (size_t i = 1; i < g->count; i++)
        if (g->nodes[i - 1]->order < g->nodes[i]->order)
            return false;
    return true;
}

/* Adds the nodes that can be reached from those at `first` and later. */
static bool add_reachable(haul__pass_graph *g, size_t first)
{
    bool ok = true;
    for (size_t i = first; ok && i < g->count; i++)
        for (int k = 0; ok && k < g->nodes[i]->edge_count; k++)
            if (g->nodes[i]->edges[k].node)
                ok = add_node(g, g->nodes[i]->edges[k].node);
    return ok;
}

/* Counts the edges to leaves of the nodes at `first` and later, if complete gradients are used at once. */
static bool count_uses(haul__pass_graph *g, size_t first)
{
    for (size_t i = first; g->counts && i < g->count; i++)
        for (int k = 0; k < g->nodes[i]->edge_count; k++) {
            bool         is_new;
            haul_tensor *leaf = g->nodes[i]->edges[k].leaf;
            HAUL__ASSERT(!leaf || !g->nodes[i]->edges[k].node);
            haul__map_entry *e = leaf ? haul__map_insert(&g->uses, leaf, &is_new) : NULL;
            if (leaf && !e)
                return false;
            if (e)
                e->value = (void *)((uintptr_t)e->value + 1);
        }
    return true;
}

/* ---- wanted gradients ---- */

haul_status haul__pass_want(haul__pass_graph *g, haul_tensor *const *inputs, int count)
{
    bool is_new;
    g->selects = inputs != NULL;
    for (int i = 0; i < count; i++) {
        const haul__edge to = haul__edge_to(inputs[i]);
        HAUL__ASSERT(to.node || to.leaf);
        if (!haul__map_insert(&g->wanted, to.node ? haul__pass_key(to.node, to.result) : to.leaf, &is_new))
            return haul__fail_memory(g->operation, sizeof(haul__map_entry));
    }
    return HAUL_OK;
}

/* Operands come before results: oldest first. */
static haul_status find_leading(haul__pass_graph *g)
{
    for (size_t i = g->selects ? g->count : 0; i--;) {
        const haul__node *node = g->nodes[i];
        bool              is_new, is_leading = false;
        HAUL__ASSERT(i == 0 || g->nodes[i - 1]->order > node->order);
        for (int k = 0; !is_leading && k < node->edge_count; k++)
            is_leading = haul__pass_wants(g, &node->edges[k]);
        if (is_leading && !haul__map_insert(&g->leading, node, &is_new))
            return haul__fail_memory(g->operation, sizeof(haul__map_entry));
    }
    return HAUL_OK;
}

/* Fails before anything changes if an earlier pass has freed a part of the graph. */
static haul_status check_not_used_up(const haul__pass_graph *g)
{
    for (size_t i = 0; i < g->count; i++)
        if (g->nodes[i]->bare == haul__bare_used && haul__pass_leads(g, g->nodes[i]))
            return haul__node_refuse(g->nodes[i]);
    return HAUL_OK;
}

/* ---- collecting ---- */

haul_status haul__pass_collect(haul__pass_graph *g, haul__node *root)
{
    HAUL__ASSERT(!g->count && root->order <= g->before);
    if (!add_node(g, root) || !add_reachable(g, 0) || !count_uses(g, 0))
        return haul__fail_memory(g->operation, g->count * sizeof(haul__node *));
    if (!is_sorted(g))
        qsort(g->nodes, g->count, sizeof(haul__node *), newest_first);
    HAUL__ASSERT(is_sorted(g) && g->nodes[0] == root);
    return find_leading(g) ? haul_error_status() : check_not_used_up(g);
}

/* Nodes newer than the function's node and older than its second run are behind the pass. */
static haul_status check_order(const haul__pass_graph *g, const haul__node *node, uint64_t before)
{
    const haul__node *function = g->nodes[g->at];
    if (!node || node->order < function->order || node->order > before)
        return HAUL_OK;
    return haul__fail(HAUL_GRAPH, function->operation->name, NULL,
                      "a function that ran again used a result of %s that was computed after its first run; it must "
                      "compute the same both times",
                      node->operation->name);
}

static haul_status check_orders(const haul__pass_graph *g, size_t first, uint64_t before)
{
    haul_status status = HAUL_OK;
    for (size_t i = first; i < g->count && !status; i++)
        for (int k = 0; k < g->nodes[i]->edge_count && !status; k++)
            status = check_order(g, g->nodes[i]->edges[k].node, before);
    return status;
}

haul_status haul__pass_add(haul__pass_graph *g, haul_tensor *const *results, int count, uint64_t before)
{
    const size_t first = g->count;
    bool         ok = true;
    haul_status  status = HAUL_OK;
    HAUL__ASSERT(g->at < g->count && before >= g->before);
    for (int k = 0; ok && !status && k < count; k++) {
        haul__node *root = haul__is_none(results[k]) ? NULL : results[k]->node;
        status = check_order(g, root, before);
        ok = status || !root || add_node(g, root);
    }
    ok = ok && add_reachable(g, first) && count_uses(g, first);
    for (size_t i = first; i < g->count; i++)
        if (g->nodes[i]->order > g->before)
            haul__object_keep(g->nodes[i]);
    if (!ok)
        return haul__fail_memory(g->operation, g->count * sizeof(haul__node *));
    if (!status)
        status = check_orders(g, first, before);
    qsort(g->nodes + g->at + 1, g->count - g->at - 1, sizeof(haul__node *), newest_first);
    return status;
}

/* ---- the end ---- */

void haul__gradients_release(haul__map *map)
{
    for (size_t i = 0; i < map->capacity; i++)
        haul__object_release(map->entries[i].value);
    haul__map_free(map);
}

void haul__pass_graph_free(haul__pass_graph *g)
{
    HAUL__ASSERT(g->count <= g->capacity);
    haul__gradients_release(&g->of_nodes);
    haul__gradients_release(&g->wanted);
    haul__map_free(&g->leading);
    haul__map_free(&g->uses);
    for (size_t i = 0; i < g->count; i++)
        if (g->nodes[i]->order > g->before)
            haul__object_release(g->nodes[i]);
    haul__free(g->nodes);
}
