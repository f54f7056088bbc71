/* The fastest way to keep a training's step within a memory limit: the tensors that are spilled, and the segments that
 * run again. */
#ifndef HAUL_PLAN_KEEP_H
#define HAUL_PLAN_KEEP_H

#include "machine/machine.h"
#include "plan/fit.h"
#include "program/spill_schedule.h"

/* Records the step with these segments running again; with none, they become those of the network, all off. On failure
 * there is nothing to free. haul__fit_record does it for a training. */
typedef haul_status haul__keep_record(void *context, haul__segments *segments, haul__fit_step *out);

typedef struct haul__keep_request {
    haul__keep_record   *record;
    void                *context;
    int64_t              limit; /* bytes that may be allocated on the device */
    const haul__machine *machine;
    int                  number;             /* of the device on the machine */
    bool                 recomputes, spills; /* it may do these */
} haul__keep_request;

/* Times are those of the machine, for the mini-batch that updates the parameters. All zero is empty. */
typedef struct haul__keep {
    bool                 fits;
    haul__segments       segments;           /* those that run again are on */
    haul_program         program;            /* of the step as it is then */
    haul__spill_schedule schedule;           /* of the program */
    int64_t              free_ps, free_peak; /* without a limit: ps and bytes */
    int64_t              ps, peak;
    int64_t              bound;    /* ps: nothing that is allowed and keeps the limit takes less, by the model */
    int64_t              least;    /* bytes: nothing that is allowed needs less; each tensor has one gap */
    int64_t              moved;    /* bytes that are spilled in a step */
    int64_t              spill_ps; /* of all copies of spilled tensors: spilling costs at most that */
} haul__keep;

/* Plans on the program of the step, and tries the plan in a dry run: the peak is that of the step with the segments
 * that run again. Where the dry run exceeds the limit, it plans again for so much less. If nothing fits, .fits is false
 * and the rest is of the plan that comes closest. On failure there is nothing to free. */
haul_status haul__keep_find(const haul__keep_request *r, haul__keep *out);
void        haul__keep_free(haul__keep *k);

#endif
