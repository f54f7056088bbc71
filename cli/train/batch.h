/* --batch auto: the largest batch that fits, and the fastest one. */
#ifndef CLI_TRAIN_BATCH_H
#define CLI_TRAIN_BATCH_H

#include <haul/haul.h>

enum { MOST_BATCH_TRIALS = 24 };

/* A batch with which the training ran for a moment. */
typedef struct batch_trial {
    int64_t batch;      /* examples */
    int64_t peak_bytes; /* what the training needs, by the dry run */
    double  per_second; /* examples */
} batch_trial;

typedef struct batch_choice {
    int64_t     room_bytes; /* the batch had to fit in these; 0: it was given */
    int64_t     largest;    /* examples that fit; 0: not even 1 */
    int         count;
    batch_trial trials[MOST_BATCH_TRIALS]; /* by batch, the smallest first */
} batch_choice;

/* The trial of that batch; NULL if there was none. */
const batch_trial *batch_choice_find(const batch_choice *c, int64_t batch);

/* The largest batch that is as fast as any: the speeds of short runs differ by 5% without a cause. 0: no trials. */
int64_t batch_choice_fastest(const batch_choice *c);

/* What a training with some batch takes. */
typedef struct batch_need {
    int64_t bytes; /* at its peak, without spilling */
    bool    fits;  /* are these within the limit, or is spilling on and suffices? */
} batch_need;

struct trainer;
struct network_parts;

/* The training's need with this batch and way to recompute, if nothing of this one is allocated. The parts that would
 * run again go to `parts` unless it is NULL. The error is cleared. */
haul_status batch_find_need(struct trainer *t, int64_t batch, const char *recompute, int64_t limit, batch_need *need,
                            struct network_parts *parts);

/* The largest batch below `bound` that fits, and its need; 0: none does. */
int64_t batch_largest(struct trainer *t, int64_t bound, int64_t limit, batch_need *need);

/* Time the training with powers of two and with the largest batch, for some seconds altogether. Only those that fit
 * are timed, and those that fail although they should fit are left out. Nothing of it remains. */
void batch_time(struct trainer *t, batch_choice *c);

#endif
