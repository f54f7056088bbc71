/* What the figures of an epoch say, in a few words: the loss still falls, the network overfits, the loader is slow. */
#ifndef CLI_TRAIN_LOG_OBSERVATION_H
#define CLI_TRAIN_LOG_OBSERVATION_H

#include <stdint.h>

/* The epochs before. */
typedef struct seen_epochs {
    int64_t count, best_epoch;
    double  best_loss, best_train_loss; /* of the one with the lowest measured loss */
    double  first_train_loss;           /* of the first one */
} seen_epochs;

struct report_epoch; /* of log.h */

enum { OBSERVATION = 96 };

/* Writes the observation, of at most 60 columns, or "" if a loss is not finite. Times are not a part of it. `classes`
 * is 0 for data without classes. */
void observe_epoch(const seen_epochs *seen, const struct report_epoch *e, int classes, char out[OBSERVATION]);

/* Writes what a mini-batch takes and how much of it waits for its data, if that is more than a tenth; else "". */
void observe_wait(const struct report_epoch *e, char out[OBSERVATION]);

/* The epoch becomes one of those before. */
void seen_epoch(seen_epochs *seen, int64_t epoch, double train_loss, double measured_loss);

#endif
