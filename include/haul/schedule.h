/* Schedules: changing the learning rate from step to step.
 *
 *     haul_schedule *warm_up = haul_schedule_warm_up(sgd, 100);
 *     haul_schedule *cosine = haul_schedule_cosine(sgd, 900);
 *     haul_schedule *both = haul_schedule_chain((haul_schedule *const[]){warm_up, cosine}, (const int64_t[]){100}, 2);
 *
 * and in each step of the training
 *
 *     haul_optimizer_step(sgd);
 *     haul_schedule_step(both);
 *
 * A schedule sets the rates of its step 0 when it is made. The rates are functions of the step t and of each group's
 * base, the rate that the group had when its first schedule was made. haul_optimizer_set(..., "lr", ...) gives
 * schedules that are made afterwards another base. The formulas are those of torch.optim.lr_scheduler, in double.
 *
 * A schedule changes the groups that its optimizer has when it is made, or those of .groups. It belongs to a scope and
 * holds the optimizer. In an estimate (estimate.h) steps of schedules do nothing. */
#ifndef HAUL_SCHEDULE_H
#define HAUL_SCHEDULE_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/optim.h>

HAUL_BEGIN

/* A schedule of learning rates. */
typedef struct haul_schedule haul_schedule;

/* Multiply the rate by a factor after every `every` steps: base factor^floor(t / every). It is PyTorch's StepLR; with
 * every = 1, ExponentialLR. */
typedef struct HAUL__DESIGNATED haul_schedule_staircase_options {
    haul_optimizer *optimizer; /* the optimizer; positional */
    int64_t         every;     /* steps between two changes; positional */
    HAUL__GUARD(factor)
    double     factor; /* factor of the rate; default 0.1 */
    const int *groups; /* numbers of the groups to change; default all groups */
    int        count;  /* the number of .groups */
} haul_schedule_staircase_options;
#define haul_schedule_staircase(optimizer_, ...)                                                                       \
    haul_schedule_staircase_with(                                                                                      \
        HAUL__OPTIONS(haul_schedule_staircase_options, .optimizer = optimizer_, .every = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_staircase_with(const haul_schedule_staircase_options *options);

/* Half a cosine from the base to a minimum, in `total` steps: minimum + (base - minimum) (1 + cos(pi t / total)) / 2.
 * It is PyTorch's CosineAnnealingLR (Loshchilov, Hutter 2017). After these steps the rate rises again, as in PyTorch.
 */
typedef struct HAUL__DESIGNATED haul_schedule_cosine_options {
    haul_optimizer *optimizer; /* the optimizer; positional */
    int64_t         total;     /* steps to the minimum; positional */
    HAUL__GUARD(minimum)
    double     minimum; /* the least rate */
    const int *groups;  /* numbers of the groups to change; default all groups */
    int        count;   /* the number of .groups */
} haul_schedule_cosine_options;
#define haul_schedule_cosine(optimizer_, ...)                                                                          \
    haul_schedule_cosine_with(                                                                                         \
        HAUL__OPTIONS(haul_schedule_cosine_options, .optimizer = optimizer_, .total = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_cosine_with(const haul_schedule_cosine_options *options);

/* A line from base times `from` to the base, in `steps` steps, and then the base. It is PyTorch's LinearLR. */
typedef struct HAUL__DESIGNATED haul_schedule_warm_up_options {
    haul_optimizer *optimizer; /* the optimizer; positional */
    int64_t         steps;     /* steps to the base; positional */
    HAUL__GUARD(from)
    double     from;   /* first rate as a part of the base, at most 1; default 1/3; HAUL_ZERO for zero */
    const int *groups; /* numbers of the groups to change; default all groups */
    int        count;  /* the number of .groups */
} haul_schedule_warm_up_options;
#define haul_schedule_warm_up(optimizer_, ...)                                                                         \
    haul_schedule_warm_up_with(                                                                                        \
        HAUL__OPTIONS(haul_schedule_warm_up_options, .optimizer = optimizer_, .steps = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_warm_up_with(const haul_schedule_warm_up_options *options);

/* One cycle (Smith, Topin 2019), PyTorch's OneCycleLR: from max_lr / divisor up to max_lr, and then down to max_lr /
 * divisor / final_divisor. With .three_phases it goes down to max_lr / divisor in as many steps as it rose, and from
 * there to the end.
 *
 * The optimizer's momentum, or beta1, goes the other way between the two values of .momentum, unless .fixed_momentum is
 * set. Groups with other peaks need schedules of their own. A step after `total` is an error. */
typedef struct HAUL__DESIGNATED haul_schedule_one_cycle_options {
    haul_optimizer *optimizer; /* the optimizer; positional */
    double          max_lr;    /* the highest rate; positional */
    int64_t         total;     /* all steps of the cycle; positional */
    HAUL__GUARD(rise)
    double rise; /* part of the steps in which the rate rises, below 1; default 0.3 */
    /* divisor: of the highest rate, for the first one; default 25. final_divisor: of the first rate, for the last one;
     * default 1e4 */
    double divisor, final_divisor;
    double momentum[2]; /* {least, most} momentum; default {0.85, 0.95} */
    bool   linear;      /* lines instead of half cosines */
    /* three_phases: go down in two parts, as above; fixed_momentum: leave the momentum as it is */
    bool       three_phases, fixed_momentum;
    const int *groups; /* numbers of the groups to change; default all groups */
    int        count;  /* the number of .groups */
} haul_schedule_one_cycle_options;
#define haul_schedule_one_cycle(optimizer_, max_lr_, ...)                                                              \
    haul_schedule_one_cycle_with(HAUL__OPTIONS(haul_schedule_one_cycle_options, .optimizer = optimizer_,               \
                                               .max_lr = max_lr_, .total = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_one_cycle_with(const haul_schedule_one_cycle_options *options);

/* Multiply the rate by a factor when a metric has not become better for more than .patience steps. It is PyTorch's
 * ReduceLROnPlateau. Its steps are haul_schedule_step_metric.
 *
 * A metric is better if it is less than best (1 - threshold), or with .absolute less than best - threshold. With
 * .rising it must be more than best (1 + threshold), or best + threshold. */
typedef struct HAUL__DESIGNATED haul_schedule_plateau_options {
    haul_optimizer *optimizer; /* the optimizer; positional */
    HAUL__GUARD(factor)
    double     factor;           /* factor of the rate, below 1; default 0.1 */
    int64_t    patience;         /* steps without progress that are accepted; default 10; HAUL_ZERO for zero */
    double     threshold;        /* the least progress that counts; default 1e-4; HAUL_ZERO for zero */
    double     minimum;          /* the least rate */
    double     eps;              /* changes of at most this are not made; default 1e-8; HAUL_ZERO for zero */
    int64_t    cooldown;         /* steps after a reduction that do not count */
    bool       absolute, rising; /* absolute: the threshold is absolute, as above; rising: larger metrics are better */
    const int *groups;           /* numbers of the groups to change; default all groups */
    int        count;            /* the number of .groups */
} haul_schedule_plateau_options;
#define haul_schedule_plateau(...)                                                                                     \
    haul_schedule_plateau_with(HAUL__OPTIONS(haul_schedule_plateau_options, .optimizer = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_plateau_with(const haul_schedule_plateau_options *options);

/* Several schedules one after the other, PyTorch's SequentialLR: the first up to step milestones[0], then the second,
 * which begins with its step 0 there, up to milestones[1], and so on. The rates become those of the first one's step 0.
 * The chain holds the schedules and makes their steps. At most 32 chains may be within each other.
 *
 * - milestones: count - 1 steps, each larger than the one before
 * - count: the number of `schedules` */
HAUL_API haul_schedule *haul_schedule_chain(haul_schedule *const *schedules, const int64_t *milestones, int count);

/* Make the next step. haul_schedule_plateau needs a metric, for example the loss of a validation; other schedules
 * ignore it. */
HAUL_API haul_status haul_schedule_step(haul_schedule *schedule);
HAUL_API haul_status haul_schedule_step_metric(haul_schedule *schedule, double metric);

/* The kind of a schedule: "cosine", "chain" ...; "" on failure. */
HAUL_API const char *haul_schedule_kind(const haul_schedule *schedule);

HAUL_API int64_t haul_schedule_steps(const haul_schedule *schedule); /* the steps made so far; -1 on failure */

/* The state of a schedule as numbers, which checkpoints hold. Loading is for a schedule that was made in the same way.
 * Reading returns how many numbers there are, -1 on failure, and fills at most `capacity` of `out`. Rates are settings
 * of the optimizer and are not part of the state. */
HAUL_API int         haul_schedule_state(const haul_schedule *schedule, double *out, int capacity);
HAUL_API haul_status haul_schedule_load_state(haul_schedule *schedule, const double *state, int count);

HAUL_END

#endif
