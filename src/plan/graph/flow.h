/* Maximum flow and minimum cut, by Boykov and Kolmogorov, "An experimental comparison of min-cut/max-flow algorithms",
 * PAMI 2004. Two search trees grow from the terminals, and are repaired after each augmentation. The flow is kept,
 * since proofs are read from it. */
#ifndef HAUL_PLAN_GRAPH_FLOW_H
#define HAUL_PLAN_GRAPH_FLOW_H

#include <haul/error.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An arc that is in no minimum cut. Sums of finite capacities are far below. */
#define HAUL__FLOW_UNCUTTABLE (INT64_C(1) << 58)

typedef struct haul__flow_node {
    int     first;    /* its first arc; -1: none */
    int     parent;   /* the arc to its parent; or one of the negative values of flow.c */
    int     stamp;    /* when `distance` was found */
    int     distance; /* arcs to the terminal */
    bool    sink;     /* in the sink's tree */
    bool    active;   /* in the queue */
    int64_t excess;   /* what the source can still send into it; negative: what it can still send into the sink */
} haul__flow_node;

/* Arc a ^ 1 leads back. */
typedef struct haul__flow_arc {
    int     head, next;
    int64_t room; /* residual capacity */
} haul__flow_arc;

/* All zero is an empty network. */
typedef struct haul__flow {
    haul__flow_node *nodes;
    haul__flow_arc  *arcs;
    size_t           node_count, node_room, arc_count, arc_room;
    bool             failed; /* memory was exhausted; calls have no effect from then on */
} haul__flow;

int haul__flow_add_node(haul__flow *f);                                /* its number */
int haul__flow_add_arc(haul__flow *f, int from, int to, int64_t room); /* its number */
/* The node costs so much on the sink's side, and so much on the source's. */
void haul__flow_add_costs(haul__flow *f, int node, int64_t on_sink_side, int64_t on_source_side);

/* Fails if memory is exhausted, now or when the network was built. */
haul_status haul__flow_solve(haul__flow *f);

bool    haul__flow_on_sink_side(const haul__flow *f, int node); /* of the cut that is nearest to the source */
int64_t haul__flow_through(const haul__flow *f, int arc);       /* of an arc that was added without a way back */
void    haul__flow_free(haul__flow *f);

#endif
