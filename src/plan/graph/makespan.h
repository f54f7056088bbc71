/* The time of a placed step whose devices and links work at the same time: its makespan.
 *
 * Each device computes, and each link copies in each direction, in the order of the operations. The host submits them
 * in that order and waits for what it computes itself. A copy is submitted with the first operation that uses it. So
 * the makespan is that of the run, in which nothing is reordered. */
#ifndef HAUL_PLAN_GRAPH_MAKESPAN_H
#define HAUL_PLAN_GRAPH_MAKESPAN_H

#include "plan/graph/graph.h"

/* What placements of one graph have in common; haul__makespan_free is due, also after a failure. */
typedef struct haul__makespan {
    const haul__place_graph *graph;
    int                     *inputs, *input; /* tensors by the operation that uses them; where those of each begin */
    int                     *makes, *made;   /* the same by the operation that makes them */
    int64_t                 *ready;          /* of tensors on each device; -1: not there */
    int64_t                 *number;         /* of each tensor's maker among the operations of its device */
} haul__makespan;

haul_status haul__makespan_new(const haul__place_graph *g, haul__makespan *out);
void        haul__makespan_free(haul__makespan *s);

/* The makespan of a placement; *waits becomes the time in which a device is free and waits for copies, unless NULL. */
int64_t haul__makespan_of(haul__makespan *s, const uint8_t *place, int64_t *waits);

/* The number of steps that a makespan takes, for limits of effort. */
int64_t haul__makespan_effort(const haul__makespan *s);

/* The priority of each operation, into `out`: the time of the longest way from its begin to the end of the step. Times
 * are means: of an operation on all devices, of a copy between all of them (Topcuoglu, Hariri and Wu,
 * "Performance-effective and low-complexity task scheduling for heterogeneous computing", IEEE TPDS 2002). */
void haul__makespan_ranks(const haul__makespan *s, double *out);

#endif
