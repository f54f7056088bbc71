/* One step of a training, for subcommands that look at it: of a model as haul train has it, of a run, or of haul train
 * with any options. */
#ifndef CLI_TRAIN_ONE_STEP_H
#define CLI_TRAIN_ONE_STEP_H

#include "cli/model/network.h"
#include "cli/options/options.h"
#include "cli/train/planner.h"
#include "cli/train/train_options.h"

typedef struct one_step {
    const char  *model, *run; /* one of them; the other is NULL; both, if `train` has options */
    operand_list train;       /* options of haul train */
    const char  *device;      /* NULL: that of the run, or the best one */
    const char  *precision;   /* NULL: that of the run, or f32 */
    int64_t      batch;       /* of a run, or with `train`, only if it was given */
    bool         batch_given;
    bool         finds_batch; /* a batch of 0 is one that the subcommand finds */
    int64_t      threads;
} one_step;

/* Rows of the options for a step. It is the member `step` of the subcommand's struct. */
#define ONE_STEP_MODEL_HELP "The network, for the data and with the optimizer that haul train has by default"
#define ONE_STEP_MODEL_ROW(group_, struct_, argument_)                                                                 \
    {                                                                                                                  \
        .group = group_, .name = "model", OPTION_TEXT_AT(struct_, step.model), .argument = argument_,                  \
        .help = ONE_STEP_MODEL_HELP, .choices = NETWORK_CHOICES                                                        \
    }
#define ONE_STEP_RUN_ROW(group_, struct_, step_)                                                                       \
    {                                                                                                                  \
        .group = group_, .name = "run", OPTION_TEXT_AT(struct_, step.run), .argument = "DIR",                          \
        .help = step_ " of the training in this folder, with its model, data, optimizer and precision",                \
        .complete = COMPLETE_FOLDER                                                                                    \
    }
#define ONE_STEP_BATCH_ROW(group_, struct_)                                                                            \
    {                                                                                                                  \
        .group = group_, .name = "batch", OPTION_INTEGER_AT(struct_, step.batch), .argument = "N",                     \
        .help = "Examples in a mini-batch; of a run as many as it trains with, unless given", .initial = "64",         \
        .low = 1, .high = MOST_BATCH                                                                                   \
    }

/* True if a model, a run or options of haul train are given, and only one of them. Otherwise complains: `both` names
 * the two, and `how` says how one of them is given. */
#define ONE_STEP_BOTH "--model and --run"
bool one_step_is_named(const one_step *s, const char *both, const char *how);

/* The training whose step it is: its options and data are there. */
typedef struct one_training {
    struct trainer      *trainer;
    planner             *planner;
    train_options       *options;
    const option_values *values; /* the same options by their names */
    const char          *config; /* the file with the options of the run; NULL: there is none */
    haul_device         *device;
    const haul_dataset  *data;
} one_training;

/* Looks at a step. Returns an exit code. */
typedef int one_step_use(const one_training *t, void *context);

/* Calls use(training, context) in a scope. Returns its exit code, or another one after a complaint of the subcommand.
 */
int one_step_open(const one_step *s, const char *subcommand, one_step_use *use, void *context);

/* The training as words for haul train: the options that were given, but for those in `without` (ended by NULL), or
 * what
 * --model and --run stand for. Begins with a space. To free; NULL when memory is exhausted. */
char *one_step_words(const one_training *t, const char *const *without);

/* Builds the training and takes its first mini-batch. */
haul_status one_step_build(struct trainer *t, const haul_batch **batch);

/* Makes a step with it: as it is, and by the recording if there is one. */
haul_status one_step_make(struct trainer *t, const haul_batch *batch);
haul_status one_step_follow(struct trainer *t, const haul_batch *batch);

#endif
