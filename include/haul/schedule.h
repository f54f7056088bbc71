/* Schedules: they change the learning rates of an optimizer's groups from step to step.
 *
 *     haul_schedule *warm_up = haul_schedule_warm_up(sgd, 100);
 *     haul_schedule *cosine = haul_schedule_cosine(sgd, 900);
 *     haul_schedule *both = haul_schedule_chain((haul_schedule *const[]){warm_up, cosine}, (const int64_t[]){100}, 2);
 *     ...
 *     haul_optimizer_step(sgd);
 *     haul_schedule_step(both);
 *
 * A schedule sets the rates of its step 0 when it is made. The rates are functions of the step and of each group's
 * base, which is the rate that the group had when its first schedule was made. haul_optimizer_set(..., "lr", ...) gives
 * schedules that are made afterwards another base. The formulas are those of torch.optim.lr_scheduler, in double.
 *
 * A schedule has the groups that its optimizer has when it is made, or those of the list .groups, which has .count
 * numbers. It holds the optimizer. In an estimate steps of schedules do nothing. */
#ifndef HAUL_SCHEDULE_H
#define HAUL_SCHEDULE_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/optim.h>

HAUL_BEGIN

typedef struct haul_schedule haul_schedule;

/* Times `factor` after every so many steps (StepLR; ExponentialLR with every = 1): base factor^floor(t / every). */
typedef struct HAUL__DESIGNATED haul_schedule_staircase_options {
    haul_optimizer *optimizer; /* positional */
    int64_t         every;     /* positional */
    HAUL__GUARD
    double     factor; /* default 0.1 */
    const int *groups;
    int        count;
} haul_schedule_staircase_options;
#define haul_schedule_staircase(optimizer_, ...)                                                                       \
    haul_schedule_staircase_with(                                                                                      \
        HAUL__OPTIONS(haul_schedule_staircase_options, .optimizer = optimizer_, .every = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_staircase_with(const haul_schedule_staircase_options *options);

/* Half a cosine from the base to `minimum` in `total` steps (CosineAnnealingLR; Loshchilov, Hutter 2017):
 * minimum + (base - minimum) (1 + cos(pi t / total)) / 2. After these steps the rate rises again, as in PyTorch. */
typedef struct HAUL__DESIGNATED haul_schedule_cosine_options {
    haul_optimizer *optimizer; /* positional */
    int64_t         total;     /* positional */
    HAUL__GUARD
    double     minimum;
    const int *groups;
    int        count;
} haul_schedule_cosine_options;
#define haul_schedule_cosine(optimizer_, ...)                                                                          \
    haul_schedule_cosine_with(                                                                                         \
        HAUL__OPTIONS(haul_schedule_cosine_options, .optimizer = optimizer_, .total = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_cosine_with(const haul_schedule_cosine_options *options);

/* A line from base times `from` to the base in `steps` steps, then the base (LinearLR). */
typedef struct HAUL__DESIGNATED haul_schedule_warm_up_options {
    haul_optimizer *optimizer; /* positional */
    int64_t         steps;     /* positional */
    HAUL__GUARD
    double     from; /* default 1/3, at most 1; HAUL_ZERO for zero */
    const int *groups;
    int        count;
} haul_schedule_warm_up_options;
#define haul_schedule_warm_up(optimizer_, ...)                                                                         \
    haul_schedule_warm_up_with(                                                                                        \
        HAUL__OPTIONS(haul_schedule_warm_up_options, .optimizer = optimizer_, .steps = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_warm_up_with(const haul_schedule_warm_up_options *options);

/* One cycle (OneCycleLR; Smith, Topin 2019): from max_lr / divisor up to max_lr in the part `rise` of all steps, then
 * down to max_lr / divisor / final_divisor. With .three_phases it goes down to max_lr / divisor in as many steps as it
 * rose, then to the end. The optimizer's momentum, or beta1, goes the other way between the two of `momentum`, unless
 * .fixed_momentum. Groups with peaks of their own have schedules of their own. A step after `total` is an error. */
typedef struct HAUL__DESIGNATED haul_schedule_one_cycle_options {
    haul_optimizer *optimizer; /* positional */
    double          max_lr;    /* positional */
    int64_t         total;     /* positional */
    HAUL__GUARD
    double     rise;                   /* default 0.3; below 1 */
    double     divisor, final_divisor; /* default 25 and 1e4 */
    double     momentum[2];            /* default {0.85, 0.95} */
    bool       linear;                 /* lines in place of half cosines */
    bool       three_phases, fixed_momentum;
    const int *groups;
    int        count;
} haul_schedule_one_cycle_options;
#define haul_schedule_one_cycle(optimizer_, max_lr_, ...)                                                              \
    haul_schedule_one_cycle_with(HAUL__OPTIONS(haul_schedule_one_cycle_options, .optimizer = optimizer_,               \
                                               .max_lr = max_lr_, .total = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_one_cycle_with(const haul_schedule_one_cycle_options *options);

/* Times `factor` when a metric has not become better for more than `patience` steps (ReduceLROnPlateau). Better is less
 * than best (1 - threshold), or with .absolute less than best - threshold; with .rising it is more than best
 * (1 + threshold), or best + threshold. After a reduction `cooldown` steps do not count. Rates stay at least `minimum`;
 * a change of at most eps is not made. Its steps are haul_schedule_step_metric. */
typedef struct HAUL__DESIGNATED haul_schedule_plateau_options {
    haul_optimizer *optimizer; /* positional */
    HAUL__GUARD
    double     factor;    /* default 0.1; below 1 */
    int64_t    patience;  /* default 10; HAUL_ZERO for zero */
    double     threshold; /* default 1e-4; HAUL_ZERO for zero */
    double     minimum;
    double     eps; /* default 1e-8; HAUL_ZERO for zero */
    int64_t    cooldown;
    bool       absolute, rising;
    const int *groups;
    int        count;
} haul_schedule_plateau_options;
#define haul_schedule_plateau(...)                                                                                     \
    haul_schedule_plateau_with(HAUL__OPTIONS(haul_schedule_plateau_options, .optimizer = __VA_ARGS__))
HAUL_API haul_schedule *haul_schedule_plateau_with(const haul_schedule_plateau_options *options);

/* One after the other (SequentialLR): the first of `count` schedules up to step milestones[0], then the second, which
 * begins with its step 0 there, up to milestones[1], and so on. There are count - 1 milestones, which rise. The chain
 * makes the steps of the schedules and holds them; rates become those of the first one's step 0. */
HAUL_API haul_schedule *haul_schedule_chain(haul_schedule *const *schedules, const int64_t *milestones, int count);

/* The next step. That of a plateau needs a metric, such as the loss of a validation; other schedules ignore it. */
HAUL_API haul_status haul_schedule_step(haul_schedule *schedule);
HAUL_API haul_status haul_schedule_step_metric(haul_schedule *schedule, double metric);

HAUL_API const char *haul_schedule_kind(const haul_schedule *schedule);  /* "cosine", "chain" ...; "" on failure */
HAUL_API int64_t     haul_schedule_steps(const haul_schedule *schedule); /* made so far; -1 on failure */

/* The state as numbers, for a schedule that was made in the same way; checkpoints hold it. Reading returns how many
 * there are, -1 on failure, and fills at most `capacity`. Rates are the optimizer's settings and not in it. */
HAUL_API int         haul_schedule_state(const haul_schedule *schedule, double *out, int capacity);
HAUL_API haul_status haul_schedule_load_state(haul_schedule *schedule, const double *state, int count);

HAUL_END

#endif
