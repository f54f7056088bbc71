/* What a training tells: JSON lines, or lines and charts for people; and the same events in the run's log. */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include <haul/haul.h>

#include "chart.h"
#include "progress.h"
#include "run_folder.h"

typedef struct report {
    bool         json;
    run_folder  *run;
    progress_bar bar;
    chart        losses;
    double       last_loss;
    double       last_accuracy; /* on test data; NaN before the first */
    double       last_speed;    /* examples a second, in the last epoch */
    int64_t      batches;       /* in an epoch */
} report;

void report_init(report *r, bool json, run_folder *run, int64_t batches);
void report_close(report *r);

/* Take the chart's points from the log of the part that was trained before. */
void report_restore(report *r);

typedef struct report_start {
    haul_device *device;
    const char  *model, *train_name, *test_name, *optimizer, *precision;
    int64_t      parameters, train_count, test_count, epochs, batch, seed;
    double       lr;
    int          classes;
    bool         resumed;
    double       stored_lr;   /* where a resumed training has another lr now; else 0 */
    int64_t      epoch, done; /* where a resumed training stands */
} report_start;

typedef struct report_epoch {
    int64_t epoch, epochs;
    double  train_loss, train_accuracy, test_loss, test_accuracy, images_per_second;
} report_epoch;

typedef struct report_done {
    haul_device *device;
    double       step_seconds, seconds; /* step: the median */
    int64_t      epochs;
    int64_t      peak_bytes, step_peak_bytes; /* of the device's memory; 0: there were too few steps to tell */
} report_done;

/* Each tells one event. False after a complaint. */
bool report_started(report *r, const report_start *s);
bool report_batch(report *r, int64_t epoch, int64_t batch, double loss);
bool report_epoch_end(report *r, const report_epoch *e);
bool report_finished(report *r, const report_done *d);
bool report_stopped(report *r, int64_t epoch, int64_t batch);

/* Says also what to try. */
void report_diverged(report *r, int64_t epoch, int64_t batch, double lr);

/* A run that is resumed after its last epoch. Its log stays as it is. */
bool report_nothing_left(const char *run, bool json, int64_t epochs);

#endif
