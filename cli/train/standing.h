/* Where a training stands, beyond what the library's checkpoint says: what adds up between two lines and two epochs. It
 * is kept in each checkpoint, so that a stopped training logs the same as any other. */
#ifndef CLI_TRAIN_STANDING_H
#define CLI_TRAIN_STANDING_H

#include <cjson/cJSON.h>
#include <haul/haul.h>
#include <stdbool.h>

typedef struct standing {
    int64_t log_bytes;
    int64_t window_batches, epoch_batches, epoch_hits, epoch_answers;
    int64_t best_epoch, stalled;
    double  window_loss, epoch_loss, epoch_start, lr, momentum, best_loss, elapsed;
} standing;

/* NULL when memory is exhausted. */
cJSON *standing_to_json(const standing *s);
/* False if a member is missing, or is not a number of its kind. */
bool standing_from_json(const cJSON *object, standing *out);

/* What a training with its data and its options can have. */
typedef struct standing_limits {
    int64_t epochs;  /* that the run has been asked for */
    int64_t batches; /* in an epoch */
    int64_t group;   /* mini-batches whose gradients add up: a training is saved between two groups only */
} standing_limits;

/* Updates of the parameters in an epoch, and until a position. */
int64_t standing_epoch_updates(const standing_limits *limits);
int64_t standing_updates(const standing_limits *limits, const haul_training_position *at);

/* True if the position is within the epochs of the training, between two groups. The second also compares it with the
 * sums so far. False after a complaint about `path`, which names the value and the expected one. */
bool standing_check_position(const standing_limits *limits, const haul_training_position *at, const char *path);
bool standing_check(const standing *s, const haul_training_position *at, const char *path);

/* True if the data has this mini-batch. Prints nothing. */
bool standing_has_batch(const standing_limits *limits, int64_t batch);

#endif
