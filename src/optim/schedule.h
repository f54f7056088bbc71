/* Declarations shared by all schedules. */
#ifndef HAUL_OPTIM_SCHEDULE_H
#define HAUL_OPTIM_SCHEDULE_H

#include <haul/schedule.h>

#include "core/object.h"

enum { HAUL__SCHEDULE_NUMBERS = 8 };

typedef struct haul__schedule_kind {
    const char *name;
    bool        needs_metric;
    /* Sets the rates of step s->count, which has just begun. */
    haul_status (*apply)(haul_schedule *s);
    /* Optional: a step's work in place of counting and `apply`. */
    haul_status (*step)(haul_schedule *s, double metric);
} haul__schedule_kind;

struct haul_schedule {
    haul__object               object;
    const haul__schedule_kind *kind;
    haul_optimizer            *optimizer; /* holds a reference; NULL: it is a chain */
    int                       *groups;
    double                    *bases; /* base rates of the groups */
    int                        group_count;
    int64_t                    count;                           /* steps made */
    double                     numbers[HAUL__SCHEDULE_NUMBERS]; /* the parameters of the kind */

    double  best;             /* of a plateau */
    int64_t stalled, cooling; /* steps without a better metric; steps during which those do not count */

    haul_schedule **children; /* the parts of a chain; holds references */
    int64_t        *milestones;
    int             child_count;
    int             levels; /* of chains within each other; 0: it is not a chain */
};

/* The groups of an optimizer. */
typedef struct haul__schedule_target {
    haul_optimizer *optimizer;
    const int      *groups;
    int             count;
} haul__schedule_target;

/* A schedule of these groups at step 0, which is applied; the innermost scope owns it. NULL on failure. */
haul_schedule *haul__schedule_new(const haul__schedule_kind *kind, const haul__schedule_target *target,
                                  const double *numbers, int count, const char *operation);

/* Fails unless the number is finite, at least `low` (or, with `above`, above it), and at most `high`. */
haul_status haul__schedule_number(double value, double low, bool above, double high, const char *operation,
                                  const char *argument);

/* Begins again at step 0. */
haul_status haul__schedule_begin(haul_schedule *s);
haul_status haul__schedule_advance(haul_schedule *s, double metric);
/* What `steps` steps from the beginning would make of it, at once. Fails if one of them needs a metric. */
haul_status haul__schedule_move(haul_schedule *s, int64_t steps);
haul_status haul__schedule_check(const haul_schedule *schedule, const char *operation);
void        haul__schedule_set_rate(const haul_schedule *s, int k, double rate); /* of the k-th group */

#endif
