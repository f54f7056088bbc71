/* One step of a training, for subcommands that look at it: of a model as haul train has it, or of a run. */
#ifndef CLI_TRAIN_ONE_STEP_H
#define CLI_TRAIN_ONE_STEP_H

#include "cli/train/trainer.h"

typedef struct one_step {
    const char *model, *run; /* one of them; the other is NULL */
    const char *device;      /* NULL: that of the run, or the best one */
    const char *precision;   /* NULL: that of the run, or f32 */
    int64_t     batch;       /* of a run only if it was given */
    bool        batch_given;
    int64_t     threads;
} one_step;

/* Looks at a step, with a training whose options and data are there. Returns an exit code. */
typedef int one_step_use(trainer *t, void *context);

/* Calls use(trainer, context) in a scope. Returns its exit code, or another one after a complaint of the subcommand. */
int one_step_open(const one_step *s, const char *subcommand, one_step_use *use, void *context);

/* Builds the training and takes its first mini-batch. */
haul_status one_step_build(trainer *t, const haul_batch **batch);

/* Makes a step with it. */
haul_status one_step_make(trainer *t, const haul_batch *batch);

#endif
