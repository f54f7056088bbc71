/* How fast a training goes: what the progress bar shows of it. Nothing here waits for a device. */
#ifndef CLI_TRAIN_LOG_PACE_H
#define CLI_TRAIN_LOG_PACE_H

#include <haul/haul.h>

struct trainer;

/* All times are seconds of clock_seconds(). */
typedef struct pace {
    double      began;                    /* when this process began to train */
    int64_t     first;                    /* mini-batches that were trained before */
    double      epoch_began;              /* when it began with this epoch, or when all kernels were compiled, */
    int64_t     epoch_first;              /* after so many mini-batches */
    double      known_at;                 /* when the device was last known to have done ... */
    int64_t     known;                    /* ... so many mini-batches of the epoch */
    double      loss, accuracy;           /* in this epoch, when they were last known; NaN before */
    double      last_loss, last_accuracy; /* the same, and in the beginning of an epoch those of the one before */
    double      passes; /* seconds that this epoch's passes without training took; 0 before the first */
    double      pass_began;
    const char *pass; /* "tests", "validates" */
    int64_t     pass_batches;
    int64_t     compiled;     /* kernels */
    bool        slowed;       /* kernels were compiled since the sums were read */
    int64_t     subscription; /* to compilations */
} pace;

/* Around a training on this thread. */
haul_status pace_begin(struct trainer *t);
void        pace_end(struct trainer *t);

/* An epoch begins, or goes on after what a checkpoint holds. */
void pace_epoch(struct trainer *t);

/* After a step. */
void pace_step(struct trainer *t);

/* Before the sums of the epoch are read, for which the host waits, and after that. */
void pace_wait(struct trainer *t);
void pace_read(struct trainer *t, int64_t hits);

/* The means of an epoch that has ended. */
void pace_epoch_end(struct trainer *t, double loss, double accuracy);

/* A pass over `batches` mini-batches without training begins; `name` says what it does ("tests"). The second is the
 * go_on of its network_watch, the context being the trainer. The third ends it. */
void pace_pass_begin(struct trainer *t, const char *name, int64_t batches);
bool pace_pass_step(int64_t done, void *trainer);
void pace_pass_end(struct trainer *t);

#endif
