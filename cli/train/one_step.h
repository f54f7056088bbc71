/* One step of a training, for subcommands that look at it: of a model as haul train has it, or of a run. */
#ifndef CLI_TRAIN_ONE_STEP_H
#define CLI_TRAIN_ONE_STEP_H

#include "cli/train/trainer.h"

typedef struct one_step {
    const char *model, *run; /* one of them; the other is NULL */
    const char *device;      /* NULL: that of the run, or the best one */
    const char *precision;   /* NULL: that of the run, or f32 */
    int64_t     batch;       /* 0: that of the run */
    int64_t     threads;
} one_step;

/* Fills in the options of haul train and opens the data. `stored` has the texts of the options as long as they are
 * used. False after a complaint of the subcommand. */
bool one_step_open(const one_step *s, const char *subcommand, trainer *t, option_values *values, cJSON **stored);

/* Builds the training and takes its first mini-batch. */
haul_status one_step_build(trainer *t, const haul_batch **batch);

/* Makes a step with it. */
haul_status one_step_make(trainer *t, const haul_batch *batch);

#endif
