/* The modules of a training step in the order of the forward pass, with what each of them takes on one device: the
 * pieces that stages of a pipeline are cut from. They are those that compute, or the ones that the caller lists, each
 * with all modules within it. */
#ifndef HAUL_PLAN_CLUSTER_UNITS_H
#define HAUL_PLAN_CLUSTER_UNITS_H

#include <haul/program.h>

#include "machine/machine.h"
#include "plan/graph/graph.h"

typedef struct haul__unit {
    const char *name;                                /* the path of the module; "": the step has none */
    int64_t     forward_ps, backward_ps, update_ps;  /* of its operations */
    int64_t     metrics_ps;                          /* of update_ps what follows the optimizer */
    int64_t     parameters, gradients, state, other; /* bytes; other: buffers */
    int64_t     largest;                             /* bytes of its largest parameter */
    int64_t     count;                               /* of its parameters */
    int64_t     up, down;             /* bytes that the forward and the backward pass bring over the border behind it */
    int64_t     up_count, down_count; /* and in how many tensors */
} haul__unit;

/* A gradient of a parameter. */
typedef struct haul__unit_gradient {
    int     unit, operation; /* of the graph: the last one of the backward pass that writes it */
    int64_t bytes;
} haul__unit_gradient;

/* A phase of the step: haul__units.phase. */
enum { HAUL__UNIT_FORWARD, HAUL__UNIT_BACKWARD, HAUL__UNIT_UPDATE };

typedef struct haul__units {
    haul__place_graph    graph; /* of the host and the device */
    int                  side;  /* the device's number there */
    haul__unit          *items;
    int                  count;
    int                 *of;    /* the unit of each operation of the graph */
    uint8_t             *phase; /* and its phase */
    haul__unit_gradient *gradients;
    int                  gradient_count;
} haul__units;

/* Paths of modules of a network, in the order of the forward pass. NULL: those of all modules that compute. */
typedef struct haul__units_paths {
    const char *const *items;
    int                count;
} haul__units_paths;

/* Of the step of one micro-batch; haul__units_free is due, also after a failure. Fails if the step has no gradients.
 * `paths` must outlive it. */
haul_status haul__units_find(const haul_program *program, const haul__machine *machine, int device,
                             const haul__units_paths *paths, haul__units *out);
void        haul__units_free(haul__units *u);

/* How many stages can have a gradient each. */
int haul__units_most_stages(const haul__units *u);

/* The time of an operation of the graph on the device. */
int64_t haul__units_time(const haul__units *u, int operation);

/* What the step has in memory of the units from `first` to before `end` apart from parameters, gradients and state,
 * with copies of what they use of others: at the end of the forward pass, and at most. `change` has room for all
 * operations of the graph and one more. */
typedef struct haul__units_memory {
    int64_t saved, peak;
} haul__units_memory;

haul__units_memory haul__units_memory_of(const haul__units *u, int first, int end, int64_t *change);

#endif
