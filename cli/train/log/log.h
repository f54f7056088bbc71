/* The log of a training: JSON lines, or lines and charts for people; and the same events in the run's log. */
#ifndef CLI_TRAIN_LOG_LOG_H
#define CLI_TRAIN_LOG_LOG_H

#include <haul/haul.h>

#include "cli/model/source.h"
#include "cli/run_folder/folder.h"
#include "cli/shared/chart.h"
#include "cli/shared/progress.h"
#include "cli/train/log/observation.h"
#include "cli/train/log/tensorboard.h"
#include "plan/batch.h"

typedef struct report {
    bool         json, text; /* the form of the output: JSON lines, lines for people, or nothing */
    run_folder  *run;
    progress_bar bar;
    chart        losses;
    double       last_loss;     /* of the last mini-batches with a line; NaN before the first */
    double       last_accuracy; /* as each epoch is measured; NaN before the first */
    double       last_speed;    /* examples a second, in the last epoch */
    seen_epochs  seen;
    int          classes;
    int64_t      epochs;
    int64_t      batches;       /* in an epoch */
    bool         validation;    /* epochs are measured on validation data, not on test data */
    bool         started;       /* the start was logged */
    bool         head_told;     /* the table of epochs has its head */
    double       first_epoch;   /* seconds; the column of times has its digits */
    bool         writes_events; /* the start opens a file for TensorBoard in the run's folder */
    tensorboard  events;
    double       began; /* seconds; clock_seconds() less what the run had trained before */
} report;

void report_init(report *r, bool json, bool quiet, run_folder *run, int64_t batches);
void report_close(report *r);

/* True if the files that are written line by line still have their names; false after a complaint. */
bool report_is_kept(const report *r);

/* Seconds of training in this run so far, also in processes before this one. */
double report_elapsed(const report *r);

/* Continue a run that had trained for `elapsed` seconds: the chart's points come from its log. */
void report_restore(report *r, double elapsed);

struct haul__fit_result;
typedef struct report_start {
    haul_device *device;
    const struct haul__fit_result
               *step; /* the figures of a step; the network's layers are logged if the training is new */
    const char *model, *data, *train_name, *optimizer, *precision, *schedule;
    const char *test_name, *augment, *init; /* NULL: none */
    int64_t     head;                       /* outputs of a new last layer; 0: it is that of `init` */
    const char *head_name, *left_out;       /* the last layer, and its tensors in the file: "fc.weight [9,16]" */
    bool        frozen;                     /* all but the last layer, which has so many parameters: */
    int64_t     trained;
    const char *place;  /* modules that are on devices of their own; "": none */
    const char *chosen; /* what --device auto chose, and why; "": nothing */
    int64_t     parameters, train_count, validation_count, test_count, epochs, steps, batch, accumulate, pieces, seed;
    int         ranks;                  /* that train together */
    int64_t     stages;                 /* of the network, one on each rank; 0: none */
    const char *cuts;                   /* where they begin */
    const char *rank_devices;           /* of ranks that are threads, "cpu,opencl:0"; else NULL */
    const haul__batch_choice *choice;   /* of --batch auto */
    int64_t                   patience; /* 0: none */
    double                    lr, weight_decay;
    double                    momentum;   /* NaN: the optimizer has none */
    double                    validation; /* the fraction; 0: none */
    int                       classes;
    example_size              size; /* what pictures were resized to; 0 x 0: nothing */
    bool                      shuffle, resumed;
    bool                      recomputes; /* --recompute auto: the parts are those of `step` */
    int64_t     stored_epochs;            /* where the schedule of a resumed training covers other epochs now; else 0 */
    int64_t     epoch, done;              /* where a resumed training stands */
    const char *data_check;               /* of a resumed training: "same", "changed", "unknown" */
    const char *data_change;              /* what differs from the data before; "": nothing */
    bool        begins_anew;              /* and the epoch therefore begins again */
} report_start;

/* The mini-batches since the last of these lines. */
typedef struct report_line {
    int64_t epoch, batch;
    double  loss, lr;
    double  momentum;      /* beta1 of adam and adamw */
    int64_t spilled_bytes; /* since the training began; -1: without --spill on */
} report_line;

/* An epoch is measured on the validation data, and without --validation on the test data. */
typedef struct report_epoch {
    int64_t epoch, epochs;
    double  train_loss, train_accuracy, measured_loss, measured_accuracy, images_per_second;
    double  lr;      /* of the last mini-batch */
    double  seconds; /* of training and measuring, in this process */
    /* of a mini-batch in this process, and of waiting for its data; 0: unknown */
    double  step_seconds, wait_seconds;
    bool    validation; /* measured on validation data, not on test data */
    bool    best;       /* the lowest measured loss so far */
    int64_t best_epoch;
    double  best_loss;
} report_epoch;

typedef struct report_early_stop {
    int64_t epoch, patience, best_epoch;
    double  best_loss;
    bool    validation;
} report_early_stop;

typedef struct report_diverged {
    int64_t     epoch, batch; /* the first mini-batch that showed it */
    const char *what;         /* the value that is not finite: "loss", "weights", "validation loss" or "test loss" */
    double      loss_before;  /* the last finite mean that was logged; NaN: none was */
    double      lr;
} report_diverged;

/* Memory was exhausted while training. */
typedef struct report_memory {
    int64_t                   epoch, batch;   /* trained mini-batches of the epoch */
    int64_t                   limit_bytes;    /* 0: none */
    int64_t                   expected_bytes; /* what the dry run expected at the peak */
    const haul_memory_report *failure;        /* the allocation that failed; NULL: it was not one of a tensor */
} report_memory;

typedef struct report_done {
    haul_device  *device;
    double        step_seconds, seconds;       /* step: the median */
    int64_t       epochs;                      /* trained in this run */
    int64_t       peak_bytes, step_peak_bytes; /* of the device's memory; 0: there were too few steps to find out */
    int64_t       limit_bytes;                 /* 0: none */
    int64_t       spilled_bytes;               /* moved to host memory or a file for lack of room */
    int64_t       spilled_to_file_bytes;       /* of these: to the file */
    double        spill_file_seconds;          /* that the training waited for the file */
    int64_t       followed, eager_steps;       /* mini-batches whose recorded step was followed, and the others */
    bool          in_pieces;                   /* these two count the pieces of rank 0 */
    const char   *unfollowed;                  /* why the last step that could have been followed was not; "": it was */
    int           ranks;                       /* that trained together */
    int64_t       group_bytes;                 /* that rank 0 sent to the others */
    double        exchange_seconds;            /* in which rank 0 exchanged gradients */
    double        hidden_share;                /* of them, behind its backward passes; NAN: it exchanged none */
    const double *state_bytes;                 /* of the optimizer's state on each rank, with --shard; else NULL */
    const double *rank_peak_bytes;             /* the peak of each rank's memory; NULL: not known */
    int64_t       waits;                       /* how often the training thread came to wait for a device */
    int64_t       best_epoch;
    double        best_loss;
    bool          validation;
    bool          tested; /* with validation: the best weights were measured on the test data */
    double        test_loss, test_accuracy;
    char          audit[320]; /* what the audit of a profile found, in half a sentence; "": there is no profile */
} report_done;

/* Each logs one event. False after a complaint. */
bool report_tell_start(report *r, const report_start *s);
bool report_tell_line(report *r, const report_line *l);
bool report_tell_epoch(report *r, const report_epoch *e);
bool report_tell_early_stop(report *r, const report_early_stop *s);
bool report_tell_done(report *r, const report_done *d);
bool report_tell_stopped(report *r, int64_t epoch, int64_t batch);

/* Only the event. Does nothing if the start was not logged. */
void report_tell_memory(report *r, const report_memory *m);

/* Also what to try, on standard error. */
void report_tell_diverged(report *r, const report_diverged *d);

/* A run that is resumed after its end. Its log stays as it is. */
typedef struct report_end {
    bool    finished; /* nothing is left to do */
    int64_t epochs;   /* trained */
    int64_t patience; /* that ended it; 0: it has all its epochs */
    double  elapsed;
} report_end;
bool report_nothing_left(const report_end *end, const char *run, bool json);

#endif
