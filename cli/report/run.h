/* What `haul report` reads of a run: its log as numbers, and its other files as JSON. Whatever is damaged or missing is
 * left out; damage is complained of with its file and line. */
#ifndef CLI_REPORT_RUN_H
#define CLI_REPORT_RUN_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

/* Values that the log does not have are NaN. */
typedef struct page_epoch {
    double epoch, train_loss, train_accuracy, loss, accuracy, lr, seconds, speed; /* loss, accuracy: as measured */
    bool   best;
} page_epoch;

typedef struct page_batch {
    double epoch, batch, loss, lr;
} page_batch;

typedef struct page_run {
    const char *path;
    char       *name;       /* the last part of the path */
    cJSON      *start;      /* the last process's */
    cJSON      *network;    /* NULL: the log has none; so with all of these */
    cJSON      *done, *end; /* end: stopped, diverged, out_of_memory or early_stop, whichever came last */
    cJSON      *profile, *audit, *ledger, *memory;
    page_epoch *epochs;
    page_batch *batches;
    size_t      epoch_count, epoch_room, batch_count, batch_room;
    double      epoch_batches; /* mini-batches of an epoch */
    bool        validation;    /* epochs were measured on validation data, not on test data */
    bool        damaged;       /* something was complained of */
    bool        program;       /* no run of haul train: a program saved a profile */
} page_run;

/* False after a complaint: the folder has neither a log that can be read nor a profile. page_run_free is needed in
 * either case. */
bool page_run_read(page_run *run, const char *path);
void page_run_free(page_run *run);

/* The place of a mini-batch on the axis of epochs. */
double page_run_position(const page_run *run, const page_batch *batch);

/* The best epoch; NULL if none has a loss that is finite. */
const page_epoch *page_run_best(const page_run *run);

#endif
