/* The schedules, by those formulas of torch.optim.lr_scheduler that give the rate of a step t directly. */
#include <math.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

static const double pi = 3.14159265358979323846;

static haul_status set_rates(haul_schedule *s, double (*rate)(const double *numbers, double base, double t))
{
    for (int k = 0; k < s->group_count; k++)
        haul__schedule_set_rate(s, k, rate(s->numbers, s->bases[k], (double)s->count));
    return HAUL_OK;
}

static haul_status check_steps(int64_t steps, const char *operation, const char *argument)
{
    if (steps >= 1)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, argument, "%s is %lld; at least 1 is expected", argument,
                      (long long)steps);
}

/* The same options go by the same names. */
#define TARGET(o) (&(haul__schedule_target){(o)->optimizer, (o)->groups, (o)->count})

/* ---- staircase ---- */

enum { EVERY, FACTOR };

static double staircase_rate(const double *n, double base, double t)
{
    return base * pow(n[FACTOR], floor(t / n[EVERY]));
}

static haul_status apply_staircase(haul_schedule *s)
{
    return set_rates(s, staircase_rate);
}

static const haul__schedule_kind staircase = {.name = "staircase", .apply = apply_staircase};

haul_schedule *haul_schedule_staircase_with(const haul_schedule_staircase_options *o)
{
    static const char operation[] = "haul_schedule_staircase";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const double n[] = {[EVERY] = (double)o->every, [FACTOR] = haul__option(o->factor, 0.1)};
    if (check_steps(o->every, operation, "every") || haul__schedule_number(n[FACTOR], 0, true, 1, operation, "factor"))
        return NULL;
    return haul__schedule_new(&staircase, TARGET(o), n, 2, operation);
}

/* ---- cosine ---- */

enum { TOTAL, MINIMUM };

static double cosine_rate(const double *n, double base, double t)
{
    return n[MINIMUM] + (base - n[MINIMUM]) * (1 + cos(pi * t / n[TOTAL])) / 2;
}

static haul_status apply_cosine(haul_schedule *s)
{
    return set_rates(s, cosine_rate);
}

static const haul__schedule_kind cosine = {.name = "cosine", .apply = apply_cosine};

haul_schedule *haul_schedule_cosine_with(const haul_schedule_cosine_options *o)
{
    static const char operation[] = "haul_schedule_cosine";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const double n[] = {[TOTAL] = (double)o->total, [MINIMUM] = o->minimum};
    if (check_steps(o->total, operation, "total") ||
        haul__schedule_number(o->minimum, 0, false, INFINITY, operation, "minimum"))
        return NULL;
    return haul__schedule_new(&cosine, TARGET(o), n, 2, operation);
}

/* ---- warm-up ---- */

enum { STEPS, FROM };

static double warm_up_rate(const double *n, double base, double t)
{
    return base * (n[FROM] + (1 - n[FROM]) * fmin(t, n[STEPS]) / n[STEPS]);
}

static haul_status apply_warm_up(haul_schedule *s)
{
    return set_rates(s, warm_up_rate);
}

static const haul__schedule_kind warm_up = {.name = "warm_up", .apply = apply_warm_up};

haul_schedule *haul_schedule_warm_up_with(const haul_schedule_warm_up_options *o)
{
    static const char operation[] = "haul_schedule_warm_up";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const double n[] = {[STEPS] = (double)o->steps, [FROM] = haul__option(o->from, 1.0 / 3)};
    if (check_steps(o->steps, operation, "steps") || haul__schedule_number(n[FROM], 0, false, 1, operation, "from"))
        return NULL;
    return haul__schedule_new(&warm_up, TARGET(o), n, 2, operation);
}

/* ---- one cycle ---- */

enum { CYCLE, PEAK, RISE, DIVISOR, FINAL_DIVISOR, LEAST_MOMENTUM, MOST_MOMENTUM, FLAGS };
enum { LINEAR = 1, THREE_PHASES = 2, FIXED_MOMENTUM = 4 };

static double between(const double *n, double from, double to, double part)
{
    if ((int)n[FLAGS] & LINEAR)
        return (to - from) * part + from;
    return to + (from - to) / 2 * (1 + cos(pi * part));
}

/* The position in the cycle: the phase, and the completed fraction of it. */
static int phase_of(const double *n, double t, double *part)
{
    const bool   three = (int)n[FLAGS] & THREE_PHASES;
    const double ends[] = {n[RISE] * n[CYCLE] - 1, three ? 2 * n[RISE] * n[CYCLE] - 2 : n[CYCLE] - 1, n[CYCLE] - 1};
    const int    last = three ? 2 : 1;
    int          phase = 0;
    t = fmin(t, n[CYCLE] - 1);
    HAUL__ASSERT(three == 0 || ends[0] <= ends[1]);
    while (phase < last && t > ends[phase])
        phase++;
    double begin = phase ? ends[phase - 1] : 0;
    *part = ends[phase] > begin ? (t - begin) / (ends[phase] - begin) : 1;
    HAUL__ASSERT(*part <= 1);
    return phase;
}

static haul_status apply_one_cycle(haul_schedule *s)
{
    const double *n = s->numbers, low = n[PEAK] / n[DIVISOR], least = low / n[FINAL_DIVISOR];
    const bool    three = (int)n[FLAGS] & THREE_PHASES, cycles = !((int)n[FLAGS] & FIXED_MOMENTUM);
    const double  rates[] = {low, n[PEAK], three ? low : least, least};
    const double  momenta[] = {n[MOST_MOMENTUM], n[LEAST_MOMENTUM], n[MOST_MOMENTUM], n[MOST_MOMENTUM]};
    double        part;
    if ((double)s->count > n[CYCLE])
        return haul__fail(HAUL_STATE, "haul_schedule_step", "schedule",
                          "the cycle has %g steps, which are over; make it with as many steps as the training has",
                          n[CYCLE]);
    HAUL__ASSERT(s->count >= 0 && s->group_count > 0);
    const int phase = phase_of(n, (double)s->count, &part);
    for (int k = 0; k < s->group_count; k++) {
        haul__optimizer_group *g = &s->optimizer->groups[s->groups[k]];
        haul__schedule_set_rate(s, k, between(n, rates[phase], rates[phase + 1], part));
        HAUL__ASSERT(!cycles || s->optimizer->kind->momentum >= 0);
        if (cycles)
            g->values[s->optimizer->kind->momentum] = between(n, momenta[phase], momenta[phase + 1], part);
    }
    return HAUL_OK;
}

static const haul__schedule_kind one_cycle = {.name = "one_cycle", .apply = apply_one_cycle};

/* An optimizer that is not valid is refused later. */
static haul_status check_momentum(const haul_schedule_one_cycle_options *o, const char *operation)
{
    if (o->fixed_momentum || haul__check_optimizer(o->optimizer, operation) || o->optimizer->kind->momentum >= 0)
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "fixed_momentum",
                      "this optimizer (%s) has no momentum that could change; set .fixed_momentum",
                      o->optimizer->kind->name);
}

haul_schedule *haul_schedule_one_cycle_with(const haul_schedule_one_cycle_options *o)
{
    static const char operation[] = "haul_schedule_one_cycle";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    double momentum[2] = {o->momentum[0], o->momentum[1]};
    if (check_steps(o->total, operation, "total") ||
        haul__option_reals(operation, "momentum", momentum, (const double[2]){0.85, 0.95}))
        return NULL;
    const double n[] = {[CYCLE] = (double)o->total,
                        [PEAK] = o->max_lr,
                        [RISE] = haul__option(o->rise, 0.3),
                        [DIVISOR] = haul__option(o->divisor, 25),
                        [FINAL_DIVISOR] = haul__option(o->final_divisor, 1e4),
                        [LEAST_MOMENTUM] = momentum[0],
                        [MOST_MOMENTUM] = momentum[1],
                        [FLAGS] = (o->linear ? LINEAR : 0) + (o->three_phases ? THREE_PHASES : 0) +
                                  (o->fixed_momentum ? FIXED_MOMENTUM : 0)};
    if (haul__schedule_number(o->max_lr, 0, false, INFINITY, operation, "max_lr") ||
        haul__schedule_number(n[RISE], 0, true, o->three_phases ? 0.5 : 1, operation, "rise") ||
        haul__schedule_number(n[DIVISOR], 0, true, INFINITY, operation, "divisor") ||
        haul__schedule_number(n[FINAL_DIVISOR], 0, true, INFINITY, operation, "final_divisor") ||
        haul__optimizer_number(momentum[0], 0, 1, operation, "momentum[0]") ||
        haul__optimizer_number(momentum[1], 0, 1, operation, "momentum[1]") || check_momentum(o, operation))
        return NULL;
    return haul__schedule_new(&one_cycle, TARGET(o), n, 8, operation);
}

/* ---- plateau ---- */

enum { REDUCTION, PATIENCE, THRESHOLD, LEAST, EPS, COOLDOWN, ABSOLUTE, RISING };

static haul_status apply_plateau(haul_schedule *s)
{
    (void)s; /* the rates do not change */
    return HAUL_OK;
}

static bool is_better(const haul_schedule *s, double metric)
{
    const double *n = s->numbers, sign = n[RISING] != 0 ? 1 : -1;
    if (isnan(s->best))
        return !isnan(metric);
    double bound = n[ABSOLUTE] != 0 ? s->best + sign * n[THRESHOLD] : s->best * (1 + sign * n[THRESHOLD]);
    return n[RISING] != 0 ? metric > bound : metric < bound;
}

static haul_status step_plateau(haul_schedule *s, double metric)
{
    const double *n = s->numbers;
    HAUL__ASSERT(s->group_count > 0 && s->stalled >= 0 && s->cooling >= 0);
    s->count++;
    if (is_better(s, metric)) {
        s->best = metric;
        s->stalled = 0;
    } else {
        s->stalled++;
    }
    if (s->cooling) {
        s->cooling--;
        s->stalled = 0;
    }
    if ((double)s->stalled <= n[PATIENCE])
        return HAUL_OK;
    for (int k = 0; k < s->group_count; k++) {
        double now = s->optimizer->groups[s->groups[k]].values[HAUL__LR], next = fmax(now * n[REDUCTION], n[LEAST]);
        if (now - next > n[EPS])
            haul__schedule_set_rate(s, k, next);
    }
    s->cooling = (int64_t)n[COOLDOWN];
    s->stalled = 0;
    return HAUL_OK;
}

static const haul__schedule_kind plateau = {
    .name = "plateau", .needs_metric = true, .apply = apply_plateau, .step = step_plateau};

haul_schedule *haul_schedule_plateau_with(const haul_schedule_plateau_options *o)
{
    static const char operation[] = "haul_schedule_plateau";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const double n[] = {[REDUCTION] = haul__option(o->factor, 0.1),
                        [PATIENCE] = haul__option((double)o->patience, 10),
                        [THRESHOLD] = haul__option(o->threshold, 1e-4),
                        [LEAST] = o->minimum,
                        [EPS] = haul__option(o->eps, 1e-8),
                        [COOLDOWN] = (double)o->cooldown,
                        [ABSOLUTE] = o->absolute,
                        [RISING] = o->rising};
    if (haul__optimizer_number(n[REDUCTION], 0, 1, operation, "factor") ||
        haul__schedule_number(n[PATIENCE], 0, false, 9e15, operation, "patience") ||
        haul__schedule_number(n[THRESHOLD], 0, false, INFINITY, operation, "threshold") ||
        haul__schedule_number(n[LEAST], 0, false, INFINITY, operation, "minimum") ||
        haul__schedule_number(n[EPS], 0, false, INFINITY, operation, "eps") ||
        haul__schedule_number(n[COOLDOWN], 0, false, 9e15, operation, "cooldown"))
        return NULL;
    return haul__schedule_new(&plateau, TARGET(o), n, 8, operation);
}
