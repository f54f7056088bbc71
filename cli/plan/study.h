/* Where the operations of a training step should run on a machine: the best placement, its rivals, and reasons. */
#ifndef CLI_PLAN_STUDY_H
#define CLI_PLAN_STUDY_H

#include "cli/train/one_step.h"
#include "plan/place/plan.h"

enum { MOST_LIMITS = 8, MOST_PINS = 32 };

/* The options; the devices and the pins are there before the step is known. */
typedef struct study_request {
    haul__plan_request plan;
    haul__place_pin    pins[MOST_PINS];
    char              *texts[2]; /* of limits and pins, to free */
} study_request;

typedef struct study {
    haul_plan *plan;
    int64_t    timed, learnt[HAUL__PLACE_DEVICES]; /* operations that take time; with learnt times */
    /* The batches from which some and all of the other devices pay; 0: none that was tried, or a plan in stages. */
    int64_t           pays_some, pays_all;
    struct plan_row  *rows; /* of the best placement */
    size_t            row_count, row_room;
    int               row_depth; /* parts of paths in the names of rows */
    struct plan_edge *edges;
    size_t            edge_count, edge_room;
} study;

/* A module, or modules that have the beginning of their paths in common, on one device. */
typedef struct plan_row {
    char            name[80];
    char            label[96]; /* the name, with the part of the step if another row has the rest of it */
    unsigned        sections;  /* a bit for each section with an operation */
    int             device;
    int64_t         ps, aside; /* of its operations there; of others, which are few, elsewhere */
    haul__place_why why;
} plan_row;

/* Tensors that one row makes and another one uses. */
typedef struct plan_edge {
    size_t  from, to;
    int64_t bytes, copied;
} plan_edge;

/* Plans the step of the training; the plan takes over the request's machine. False after a complaint; study_free is due
 * in any case. */
bool study_make(study *s, const one_training *t, study_request *request);
void study_free(study *s);

/* Finds rows, edges and reasons of the best placement. False after a complaint. */
bool study_find_rows(study *s);

/* The row of an operation; SIZE_MAX: none, since it costs nothing. */
size_t study_row_of(const study *s, const haul__place_operation *o);

/* The time of the operations that the plan has on the device, in picoseconds. */
int64_t study_work_of(const study *s, int device);

/* The time of a planned step whose devices and links work at the same time. */
int64_t study_makespan(const study *s);

const char *study_role_name(int role);

/* "all on cuda:0"; `best` for the best placement. */
const char *study_candidate_name(const haul__plan_way *c, const char *best);

#endif
