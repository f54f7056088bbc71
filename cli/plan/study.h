/* Where the operations of a training step should run on a machine: the best placement, its rivals, and reasons. */
#ifndef CLI_PLAN_STUDY_H
#define CLI_PLAN_STUDY_H

#include "cli/train/trainer.h"
#include "machine/machine.h"
#include "plan/place/place.h"
#include "plan/place/step.h"
#include "plan/place/why.h"

enum { MOST_PINS = 32, MOST_CANDIDATES = 3 };

/* The options; the machine and the pins are there before the step is known. */
typedef struct study_request {
    haul__machine  *machine;                      /* to haul__free */
    int             device;                       /* of the machine, the second one of the plan */
    double          percent[HAUL__PLACE_DEVICES]; /* limits as shares of what the device needs alone; 0: in bytes */
    int64_t         limit[HAUL__PLACE_DEVICES];
    haul__place_pin pins[MOST_PINS];
    int             pin_count;
    char           *texts[3]; /* of devices, limits and pins, to free */
} study_request;

typedef struct candidate {
    int                    device; /* of everything; -1: the best placement */
    const haul__placement *placement;
    bool                   fits;
    int64_t                link_bytes;
    double                 seconds; /* of a step, measured; NaN: it was not */
    int                    copies;
} candidate;

typedef struct study {
    const study_request *request;
    const char          *devices[HAUL__PLACE_DEVICES];
    haul_program         program;
    haul__place_graph    graph;
    haul__placement      best, single[HAUL__PLACE_DEVICES];
    candidate            candidates[MOST_CANDIDATES];        /* the fastest first */
    int64_t              needs[HAUL__PLACE_ROLES];           /* of one device at its peak, by role */
    int64_t              timed, learnt[HAUL__PLACE_DEVICES]; /* operations that take time; with learnt times */
    int64_t              pays_some, pays_all; /* batches from which the second device does; 0: none that was tried */
    struct plan_row     *rows;                /* of the best placement */
    size_t               row_count, row_room;
    int                  row_depth; /* parts of paths in the names of rows */
    struct plan_edge    *edges;
    size_t               edge_count, edge_room;
} study;

/* A module, or modules that have the beginning of their paths in common, on one device. */
typedef struct plan_row {
    char            name[80];
    char            label[96]; /* the name, with the part of the step if another row has the rest of it */
    unsigned        sections;  /* a bit for each section with an operation */
    int             device;
    int64_t         ps, aside; /* of its operations there; of others, which are few, on the other device */
    haul__place_why why;
} plan_row;

/* Tensors that one row makes and another one uses. */
typedef struct plan_edge {
    size_t  from, to;
    int64_t bytes, copied;
} plan_edge;

/* Plans the step of the training. False after a complaint; study_free is due in any case. */
bool study_make(study *s, trainer *t, const study_request *request);
void study_free(study *s);

/* Makes steps with each candidate that fits, on this computer, and takes the median of their times. False after a
 * complaint. */
bool study_measure(study *s, const trainer *t);

/* Finds rows, edges and reasons of the best placement. False after a complaint. */
bool study_find_rows(study *s);

/* The row of an operation; SIZE_MAX: none, since it costs nothing. */
size_t study_row_of(const study *s, const haul__place_operation *o);

/* "0.31 ms here, 0.02 ms on cuda:0, but its input would cost 0.61 ms to move". */
void study_reason(const study *s, int device, const haul__place_why *why, char *out, size_t size);

/* A placement's device for the operation. */
int study_device_of(const study *s, const haul__place_operation *o);

const char *study_role_name(int role);

/* "all on cuda:0"; `best` for the best placement. In a buffer that the next call reuses. */
const char *study_candidate_name(const study *s, const candidate *c, const char *best);

#endif
