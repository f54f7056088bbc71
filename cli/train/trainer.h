/* A training under way: data, network, optimizer, and where it stands. */
#ifndef CLI_TRAIN_TRAINER_H
#define CLI_TRAIN_TRAINER_H

#include <haul/haul.h>

#include "cli/model/network.h"
#include "cli/options/memory_limit.h"
#include "cli/run_folder/folder.h"
#include "cli/run_folder/profile.h"
#include "cli/train/log/log.h"
#include "cli/train/log/pace.h"
#include "cli/train/place/place.h"
#include "cli/train/schedule.h"
#include "cli/train/standing.h"
#include "cli/train/train_options.h"
#include "cli/train/training_data.h"
#include "plan/batch.h"
#include "plan/fit.h"

/* What the texts of --schedule, --augment, --memory-limit, --spill-host and --spill-file mean. */
typedef struct train_plans {
    schedule_plan        schedule;
    augmentation         augment;
    haul__training_limit limit;
    int64_t              spill_host, spill_file; /* bytes */
} train_plans;

/* Seconds that steps took, for their median. */
typedef struct samples {
    double *values;
    size_t  count, room;
} samples;

/* What went to host memory and to a file, and of this what went to the file. */
typedef struct spilled_bytes {
    int64_t all, to_file;
    int64_t file_ns; /* that the training waited for the file */
} spilled_bytes;

/* Of a resumed run: whether its data is that of its checkpoint. */
typedef enum data_check {
    DATA_SAME,
    DATA_VARIED,  /* the same, but the run has gone on with other data before, or may have */
    DATA_CHANGED, /* --allow-changed-data */
    DATA_UNKNOWN  /* the checkpoint is of a version that did not keep it */
} data_check;

/* What the run had stored, if the training resumes it. */
typedef struct resumed_run {
    int64_t    epochs; /* that it was to have; 0: it is not resumed */
    data_check data_check;
    char       data_change[800];  /* what differs; "": nothing */
    bool       begins_epoch_anew; /* where the training stood is not in the data as it is now */
} resumed_run;

/* What the ranks of a training agreed on before a step. */
typedef struct ranks_agreement {
    bool stops, saves, unheard;
} ranks_agreement;

/* The processes or threads that train together. */
typedef struct training_ranks {
    haul_group     *group; /* NULL: this process alone */
    int             count;
    bool            silent;   /* a rank other than 0: it prints and writes nothing */
    bool            threads;  /* the ranks are threads of this process */
    bool            has_turn; /* of ranks that are threads: this one opens the data, the others wait */
    bool            guest;    /* a rank other than 0 in the process of rank 0, which keeps what a process has once */
    ranks_agreement agreed;
    int64_t         state_bytes; /* of the optimizer on this rank, with --shard; 0: not known yet */
} training_ranks;

/* The mini-batches since the last line of the log. What adds up on the device is read only when a line is due. */
typedef struct training_window {
    haul_tensor *loss;   /* their sum, f32 */
    haul_tensor *finite; /* after how many of them it was finite, i64 */
    int64_t      batches, steps;
    double       began; /* seconds */
} training_window;

/* This epoch so far. */
typedef struct training_epoch {
    haul_tensor *hits; /* right answers, i64 */
    int64_t      answers;
    double       loss; /* of the mini-batches whose lines were printed */
    int64_t      batches;
    double       start;   /* report_elapsed when it began */
    double       seconds; /* in this process, as the following: */
    double       wait;    /* for mini-batches */
    int64_t      examples, steps;
} training_epoch;

/* What this process has done. */
typedef struct training_counts {
    int64_t updates; /* of the parameters */
    int64_t mini_batches, tried_steps;
    int64_t peak_bytes, step_peak_bytes; /* most that was allocated on the device, at all and in a step, from the
                                          * third on */
    samples       seconds;               /* of the steps */
    int64_t       waits_before;          /* haul_sync_count before the training, and the spilled bytes: */
    spilled_bytes spilled_before;
} training_counts;

typedef struct trainer {
    train_options       *options;
    train_plans          plans;
    const option_values *values; /* the same options by their names: saved with the run */
    run_folder           run;
    report               report;

    haul_device       *device;
    haul_device       *metrics;     /* where loss and accuracy are computed; NULL: where the network ends */
    place_list         places;      /* of modules on other devices */
    char               chosen[400]; /* what --device auto chose, and why; "": nothing */
    haul_ledger       *ledger;      /* NULL: nothing is kept */
    run_profile        profile;
    training_data      data;
    char              *data_identity; /* JSON of data_identity.h, to keep with a run; else NULL */
    haul__fit_result   expected;      /* what the training takes */
    haul__batch_choice choice;        /* of --batch auto */
    struct planner    *planner;       /* of planner.h; NULL until the data is open */

    haul_module      *net;
    haul_optimizer   *optimizer;
    haul_dtype        lower;    /* what autocast computes in; HAUL_DTYPE_NONE: there is none */
    haul_grad_scaler *scaler;   /* of f16, else NULL */
    haul_schedule    *schedule; /* NULL: the rate is constant */
    haul_loader      *loader;
    haul_parallel    *parallel; /* with --pieces, else NULL */
    const char       *cuts;     /* where stages begin; NULL: there are none: */
    char              chosen_cuts[1024];
    training_ranks    ranks;
    resumed_run       resumed;

    bool              trains;    /* not only tries steps */
    bool              follows;   /* it records its steps and follows them: */
    haul_recording   *recording; /* of the step, or of a piece of it; NULL: it runs as it is */
    const haul_batch *batch;     /* of the step under way, or its piece, and its part: */
    haul_step_part    part;

    /* Where it stands. */
    haul_training_position position;
    training_window        window;
    training_epoch         epoch;
    double                 lr, momentum; /* of the last mini-batch */
    haul_early_stop        stop;         /* by the measured loss, with --patience */
    haul_best_weights     *best_weights; /* where no file has them and they are needed; else NULL */

    training_counts counts;
    pace            pace;
    bool            waits; /* the device has finished when a step returns */
    double          saved_at;
    bool            unheard;  /* a line could not be written: training ends with the group of mini-batches */
    bool            diverged; /* a loss, or a value about to be saved, was not finite: */
    report_diverged divergence;
} trainer;

/* Open everything the options name; with --resume from the run's checkpoint. -1, or an exit code after a complaint. */
int trainer_open(trainer *t);

/* The parts of opening: device, data and the model's name (false after a complaint); loader, network and optimizer. */
bool        trainer_open_data(trainer *t);
haul_status trainer_build(trainer *t);

/* What the training will need, by a dry run; with --batch auto, of the fastest batch that fits, and with --estimate,
 * which computes nothing, of the largest. An exit code after a complaint, else -1. */
int trainer_expect(trainer *t);

/* Limit the device's memory: a size counts everything, a share the tensors. */
haul_status trainer_set_limit(const trainer *t);

/* True if that is within --memory-limit. */
bool trainer_is_within_limit(const trainer *t);

/* True if that fits in --memory-limit, or the rest can be spilled. Where a refusal would not be certain, the training
 * has to show it. */
bool trainer_fits(const trainer *t);

/* For dry runs: make what holds the best weights, if the training keeps them in memory; measure an epoch as far as one
 * mini-batch; and do what saving does with memory. */
haul_status trainer_hold_best(trainer *t);
haul_status trainer_try_measuring(trainer *t);
haul_status trainer_try_saving(trainer *t);

/* Complain that memory does not suffice, with the request and settings that would fit; also in the log if the training
 * has begun. `exhausted`: it was tried, and the library's complaint was printed. Returns an exit code. */
int trainer_tell_memory(trainer *t, bool exhausted);

/* One mini-batch of training, without waiting for the device: as it is, and by the recording if there is one. */
haul_status trainer_step(trainer *t, const haul_batch *batch, const haul_step_part *part);
haul_status trainer_follow(trainer *t, const haul_batch *batch, const haul_step_part *part);

/* Make the recording of the step. */
haul_status trainer_begin_recording(trainer *t);

/* Free the memory that the recording keeps between steps, for work that comes between them. */
void trainer_rest(const trainer *t);

/* What the training's data and options allow. */
standing_limits trainer_limits(const trainer *t);

/* The schedule of the learning rate, at step 0. */
haul_status trainer_make_schedule(trainer *t);

/* True if the run is resumed with another number of epochs than before, and the schedule depends on it. */
bool trainer_covers_other_epochs(const trainer *t);

/* One epoch's steps, from where the training stands. False after a complaint. */
bool trainer_train_epoch(trainer *t);

/* Read what the mini-batches since the last line lost. */
haul_status trainer_read_window(trainer *t, double *mean);

/* The most that was allocated on the device. */
int64_t trainer_peak_bytes(const trainer *t);

/* The bytes moved to host memory or a file, each move counted. */
spilled_bytes trainer_spilled(const trainer *t);

/* Copies, waits and spilled bytes so far, of short runs that try something, do not count as the training's. */
void trainer_count_anew(trainer *t);

/* Note that since mini-batch `batch` of this epoch something ("loss") is not finite. Only the first one counts. */
void trainer_note_divergence(trainer *t, const char *what, int64_t batch);

/* Measure the trained epoch, log it, and save: checkpoint, weights, and the best weights if these are. An interruption
 * leaves the epoch where it is. False after a complaint. */
bool trainer_end_epoch(trainer *t);

/* With --validation and test data: measure the best weights, which become the network's, on the test data. False after
 * a complaint. */
bool trainer_test_best(trainer *t, report_done *out);

/* Keep the network's weights as the best ones. False after a complaint. */
bool trainer_keep_best(trainer *t);

/* Print what a step costs, and train nothing. An exit code. */
int trainer_estimate(trainer *t);

/* With --run: end the ledger and the profile and save what they found, with what memory held if it ran out and the
 * error stands. Does nothing before the run's log is open, or the second time. False after a complaint. */
bool trainer_save_account(trainer *t);

/* Train until the end, Ctrl-C, or a loss that is not finite. Returns an exit code. */
int trainer_run(trainer *t);

/* Write checkpoint and, if asked, weights into the run folder, if there is one. A training that has diverged is not
 * saved: then `diverged` is set, and earlier files stay. False after a complaint. */
bool trainer_save(trainer *t, bool weights);

/* Sets out->finished if the run that the checkpoint is of has come to its end. False after a complaint. */
bool trainer_find_end(const trainer *t, report_end *out);

/* With --run: what the data is, to keep it with the run; of a resumed run, compared with what its checkpoint says.
 * False after a complaint, also if the data has changed without --allow-changed-data. */
bool trainer_identify_data(trainer *t);

/* Continue from the checkpoint. Nothing of the run is changed before all of it is found to fit. */
bool trainer_load(trainer *t);

void trainer_close(trainer *t);

void   samples_add(samples *s, double value);
double samples_median(samples *s); /* 0 when there are none */

#endif
