/* The graph of a backward pass: the nodes that it visits, newest first, and the gradients that it computes. */
#ifndef HAUL_AUTOGRAD_PASS_GRAPH_H
#define HAUL_AUTOGRAD_PASS_GRAPH_H

#include "core/map.h"
#include "engine/node.h"

typedef struct haul__pass_graph {
    const char  *operation;
    haul__node **nodes; /* reachable nodes, newest first, without references: the result holds them */
    size_t       count, capacity;
    size_t       at;       /* the node that is visited */
    uint64_t     before;   /* the order of the newest node when the pass began; the pass holds later nodes */
    bool         counts;   /* gradients of leaves are used as soon as they are complete */
    bool         selects;  /* only gradients of some tensors are wanted */
    haul__map    of_nodes; /* the nodes, and their results with the gradients that arrived, which it holds */
    haul__map    wanted;   /* if it selects: leaves, and results of nodes with their gradients, which it holds */
    haul__map    leading;  /* if it selects: the nodes that depend on wanted tensors */
    haul__map    uses;     /* if it counts: leaves, with the number of edges to them that are left */
} haul__pass_graph;

/* A node's result as a key: nodes are aligned to more bytes than they have results. */
static inline const void *haul__pass_key(const haul__node *node, int result)
{
    return (const char *)node + result;
}

/* The only tensors whose gradients are wanted; NULL: those of all leaves. */
haul_status haul__pass_want(haul__pass_graph *g, haul_tensor *const *inputs, int count);

/* Collects the nodes that can be reached from `root`. Fails if an earlier pass has freed one that must be
 * differentiated. */
haul_status haul__pass_collect(haul__pass_graph *g, haul__node *root);

/* Adds the graph of a function that ran again to the nodes that remain to be visited. `before` is the newest node
 * before the second run. */
haul_status haul__pass_add(haul__pass_graph *g, haul_tensor *const *results, int count, uint64_t before);

/* True if the gradient of a wanted tensor depends on that of the node's operands. The pass does not differentiate other
 * nodes. */
static inline bool haul__pass_leads(const haul__pass_graph *g, const haul__node *node)
{
    return !g->selects || node->order > g->before || haul__map_find(&g->leading, node);
}

/* True if the gradient that an edge takes is wanted, or leads to one that is. */
static inline bool haul__pass_wants(const haul__pass_graph *g, const haul__edge *edge)
{
    if (!g->selects)
        return true;
    if (!edge->node)
        return edge->leaf && haul__map_find(&g->wanted, edge->leaf);
    return haul__pass_leads(g, edge->node) || haul__map_find(&g->wanted, haul__pass_key(edge->node, edge->result));
}

/* Releases the gradients of a map, and the map. */
void haul__gradients_release(haul__map *map);

/* Releases what the graph holds. The nodes of second runs end here, so that until then another node cannot be at the
 * address of one. */
void haul__pass_graph_free(haul__pass_graph *g);

#endif
