/* The largest batch of a training that fits, and the fastest one. */
#ifndef HAUL_PLAN_BATCH_H
#define HAUL_PLAN_BATCH_H

#include "plan/recompute.h"
#include "plan/training.h"

/* The training to plan, and what it may use. */
typedef struct haul__batch_request {
    const haul__training *training;
    int64_t               limit; /* bytes for the tensors of the training */
    int64_t               start; /* of these, those that are in use on the device before the training */
    bool                  spill, recompute;
} haul__batch_request;

/* What a training with some batch takes. */
typedef struct haul__batch_need {
    int64_t bytes;   /* at its peak, without spilling */
    bool    fits;    /* these are within the limit, or spilling is on and suffices */
    bool    follows; /* it follows its steps then */
} haul__batch_need;

/* The training's need with this batch. The error is cleared. */
haul_status haul__batch_find_need(const haul__batch_request *r, int64_t batch, haul__batch_need *need);

/* The sizes that were tried, and the segments that would run again with them. All zero: none.
 *
 * Each size takes one dry run. A size that spills takes a second one that is not counted. */
enum {
    HAUL__MOST_BATCH_RUNS = 12,
    HAUL__MOST_BATCH_SIZES = HAUL__MOST_BATCH_RUNS /* so while a dry run is left, there is room for a size */
};
typedef struct haul__batch_size {
    int64_t          batch;
    haul__batch_need need; /* .bytes is 0 if the dry run failed */
    uint64_t         on;   /* bits of `segments` */
} haul__batch_size;
typedef struct haul__batch_sizes {
    haul__batch_size items[HAUL__MOST_BATCH_SIZES];
    int              count;
    int              runs; /* dry runs */
    haul__segments   segments;
} haul__batch_sizes;

/* The largest batch below `bound` that fits, and its need; 0: none does. A few sizes are tried, each where the needs of
 * those around it lead to. A batch up to 5% larger may fit. */
int64_t haul__batch_largest(const haul__batch_request *r, int64_t bound, haul__batch_sizes *sizes,
                            haul__batch_need *need);

enum { HAUL__MOST_BATCH_TRIALS = 24 };

/* A batch with which the training ran for a moment. */
typedef struct haul__batch_trial {
    int64_t batch;      /* examples */
    int64_t peak_bytes; /* what the training needs at most, by a dry run of this or a larger batch */
    double  per_second; /* examples */
} haul__batch_trial;

typedef struct haul__batch_choice {
    int64_t           room_bytes; /* the batch had to fit in these; 0: it was given */
    int64_t           largest;    /* examples that fit; 0: not even 1 */
    int               count;
    haul__batch_trial trials[HAUL__MOST_BATCH_TRIALS]; /* by batch, the smallest first */
    haul__batch_sizes sizes;
} haul__batch_choice;

/* The trial of that batch; NULL if there was none. */
const haul__batch_trial *haul__batch_find_trial(const haul__batch_choice *c, int64_t batch);

/* The largest batch that is as fast as any: the speeds of short runs differ by 5% without a cause. 0: no trials. */
int64_t haul__batch_fastest(const haul__batch_choice *c);

/* Called by haul__batch_time. */
typedef struct haul__batch_watch {
    void (*begins)(void *context, int64_t batch); /* before a batch is timed */
    bool (*go_on)(void *context);                 /* before each step; false ends the timing */
    void *context;
} haul__batch_watch;

/* Time the training with powers of two and with the largest batch, c->largest, for some seconds altogether. Only those
 * that fit are timed, and those that fail although they should fit are left out. A batch has a dry run of its own,
 * until HAUL__MOST_BATCH_SIZES have one; others count as the next larger one. Nothing of it remains. */
void haul__batch_time(const haul__batch_request *r, const haul__batch_watch *watch, haul__batch_choice *c);

#endif
