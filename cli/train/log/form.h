/* The two forms of a training's log: JSON objects, and texts for people. log.c decides what goes where. */
#ifndef CLI_TRAIN_LOG_FORM_H
#define CLI_TRAIN_LOG_FORM_H

#include <cjson/cJSON.h>

#include "cli/train/log/log.h"
#include "plan/recompute.h"

/* One object per event: for the log, and for standard output under --json. `elapsed` is report_elapsed. */
cJSON *form_start(double elapsed, const report_start *s);
cJSON *form_network(double elapsed, const report_start *s);
cJSON *form_line(double elapsed, const report_line *l);
cJSON *form_epoch(double elapsed, const report_epoch *e, const char *observation);
cJSON *form_early_stop(double elapsed, const report_early_stop *s);
cJSON *form_stopped(double elapsed, int64_t epoch, int64_t batch);
cJSON *form_diverged(double elapsed, const report_diverged *d);
cJSON *form_memory(double elapsed, const report_memory *m);
cJSON *form_done(double elapsed, const report_done *d, const haul_transfer_stats *moved);
cJSON *form_finished(const report_end *end);

/* The names of those that are on, as an array of the object. */
void json_segments(cJSON *object, const char *name, const haul__segments *segments);

/* The data on which epochs are measured, "validation" or "test". */
const char *measured_on(bool validation);

/* The same on standard output, for people. */
void print_start(const report *r, const report_start *s);
void print_line(report *r, const report_line *l);
void print_epoch(report *r, const report_epoch *e, const char *observation);
void print_early_stop(const report_early_stop *s);
void print_stopped(const report *r, int64_t epoch, int64_t batch);
void print_done(const report *r, const report_done *d, const haul_transfer_stats *moved);
void print_finished(const report_end *end, const char *run);

/* Those on standard error. */
void complain_diverged(const report_diverged *d, const run_folder *run);

#endif
