/* A dry run of a training under way, for the files that make one. */
#ifndef HAUL_PLAN_FIT_RUN_H
#define HAUL_PLAN_FIT_RUN_H

#include "plan/fit.h"

/* The memory of a device when a part of the training begins, and the most in it, in bytes. */
typedef struct haul__fit_span {
    int64_t start, peak;
} haul__fit_span;

typedef struct haul__fit_run {
    const haul__training    *training;
    const haul__fit_request *request;
    bool                     follows, as_it_is; /* steps as they are may be tried, too */
    bool                   again; /* it has made its first steps already: only what depends on the step is estimated */
    haul__training_objects objects;
    const haul_batch      *batch;
    haul__fit_result      *out;
    haul_program          *program;       /* of haul__fit_program */
    bool                   moves;         /* likewise */
    haul__fit_step        *step;          /* that is recorded: of haul__fit_record, or for the choice of segments */
    int64_t                made;          /* mini-batches of haul__fit_spilling */
    haul__fit_span         begin, second; /* the first two steps, as they were made last */
    haul__fit_span         plain[2];      /* as the training makes them, with nothing running again */
    int64_t                update;        /* the most in the first step after its backward pass, in bytes */
    int64_t                enough;        /* a try ends where its peak is more, in bytes; 0: at its end */
} haul__fit_run;

/* Mini-batch `index` of `count` of a step, all of which are the one that was taken. */
haul_status haul__fit_part(haul__fit_run *m, bool follows, int64_t index, int64_t count);

/* As many mini-batches of a step as differ from each other: one in the middle finds gradients of the first one, and
 * the next one those of another in the middle. */
int64_t haul__fit_count_parts(const haul__fit_run *m);

/* A step with the next batch. */
haul_status haul__fit_next(haul__fit_run *m);

/* The state of the optimizer, which a training that goes on finds in its first step. */
haul_status haul__fit_state(haul__fit_run *m);

/* Takes a batch, and makes the mini-batches of a step before its last one, as they are. */
haul_status haul__fit_lead(haul__fit_run *m);

/* With accumulation, the mini-batch that computes most, as it is: others came before it, and the parameters are
 * updated. */
haul_status haul__fit_last_part(void *run);

/* Records the step that comes next, as it is, in m->step, with the memory of the device in it. */
haul_status haul__fit_record_step(haul__fit_run *m);

/* One dry run of the training, as haul__fit, with steps followed or not. */
haul_status haul__fit_run_whole(const haul__training *t, const haul__fit_request *r, haul__fit_result *out);

#endif
