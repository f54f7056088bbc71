/* A training under way: data, network, optimizer, and where it stands. */
#ifndef CLI_TRAINER_H
#define CLI_TRAINER_H

#include <haul/haul.h>

#include "options.h"
#include "report.h"
#include "run_folder.h"
#include "source.h"

typedef struct train_options {
    const char *model, *data, *device, *optimizer, *precision, *init, *run;
    int64_t     epochs, batch, seed, workers, threads, log_every;
    double      lr, momentum, weight_decay, save_every;
    bool        shuffle, resume, json, sync_report, estimate;
} train_options;

/* Seconds that steps took, for their median. */
typedef struct samples {
    double *values;
    size_t  count, room;
} samples;

typedef struct trainer {
    train_options    *options;
    const option_set *set; /* where the options come from: saved with the run */
    run_folder        run;
    double            stored_lr; /* of a resumed run whose --lr was given anew; else 0 */
    report            report;

    haul_device      *device;
    haul_dataset     *train_data, *test_data;
    data_spec         spec;
    haul_module      *net;
    haul_optimizer   *optimizer;
    haul_dtype        lower;  /* what autocast computes in; HAUL_DTYPE_NONE: there is none */
    haul_grad_scaler *scaler; /* of f16, else NULL */
    haul_loader      *loader;

    /* Where it stands. What adds up on the device is read only when a line is due. */
    haul_training_position position;
    haul_tensor           *window_loss; /* of the mini-batches since the last line, f32 */
    int64_t                window_batches;
    haul_tensor           *epoch_hits; /* right answers in this epoch, i64 */
    int64_t                epoch_answers;
    double                 epoch_loss; /* of the mini-batches whose lines were printed */
    int64_t                epoch_batches;

    /* The most that was allocated on the device at a time, at all and in a step, from the third on. */
    int64_t peak_bytes, step_peak_bytes;
    int64_t made_steps; /* in this process */

    samples steps;
    bool    waits;        /* the device has finished when a step returns */
    double  window_began; /* seconds */
    int64_t window_steps;
    double  epoch_seconds; /* of this epoch, in this process */
    int64_t epoch_examples;
    double  saved_at;
    bool    diverged; /* a loss, or a value about to be saved, was not finite */
} trainer;

/* Open everything the options name; with --resume from the run's checkpoint. False after a complaint. */
bool trainer_open(trainer *t);

/* The parts of opening: device, data and the model's name (false after a complaint); loader, network and optimizer. */
bool        trainer_open_data(trainer *t);
haul_status trainer_build(trainer *t);

/* One step of training, without waiting for the device. */
haul_status trainer_step(trainer *t, const haul_batch *batch);

/* Print what a step costs, and train nothing. An exit code. */
int trainer_estimate(trainer *t);

/* Train until the end, Ctrl-C, or a loss that is not finite. Returns an exit code. */
int trainer_run(trainer *t);

/* Write checkpoint and, if asked, weights into the run folder, if there is one. A training that has diverged is not
 * saved: then `diverged` is set, and what was saved before stays. False after a complaint. */
bool trainer_save(trainer *t, bool weights);

/* Continue from the checkpoint. */
bool trainer_load(trainer *t);

void trainer_close(trainer *t);

void   samples_add(samples *s, double value);
double samples_median(samples *s); /* 0 when there are none */

#endif
