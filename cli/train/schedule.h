/* How the learning rate changes in a training: what --schedule says, and the library's schedule for it. */
#ifndef CLI_TRAIN_SCHEDULE_H
#define CLI_TRAIN_SCHEDULE_H

#include <haul/haul.h>

typedef enum schedule_kind { SCHEDULE_CONSTANT, SCHEDULE_STEP, SCHEDULE_COSINE, SCHEDULE_ONE_CYCLE } schedule_kind;

typedef struct schedule_plan {
    schedule_kind kind;
    int64_t       every;   /* epochs; of step */
    double        factor;  /* of step */
    double        warm_up; /* epochs; of cosine */
} schedule_plan;

/* "constant", "step:EVERY:FACTOR", "cosine", "cosine:WARMUP", "onecycle". False after a complaint. */
bool schedule_parse(const char *text, schedule_plan *out);

/* True if the plan depends on the number of epochs. */
bool schedule_is_laid_over_epochs(const schedule_plan *plan);

/* True if warming up leaves room for the rest. False after a complaint. */
bool schedule_fits(const schedule_plan *plan, int64_t epochs);

/* What the schedule is made of. One step of it is one step of the optimizer. */
typedef struct schedule_span {
    int64_t epochs, steps;  /* of each epoch */
    double  lr;             /* the top rate */
    bool    fixed_momentum; /* one cycle leaves the momentum alone */
} schedule_span;

/* Into *out, which becomes NULL for a constant rate. */
haul_status schedule_make(const schedule_plan *plan, const schedule_span *span, haul_optimizer *optimizer,
                          haul_schedule **out);

#endif
