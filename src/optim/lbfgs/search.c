/* The line search of L-BFGS: a bracket of the minimum along the direction (Nocedal, Wright 2006, algorithm 3.5), which
 * is made smaller until a point fulfils the strong Wolfe conditions (algorithm 3.6). The next length is the minimum of
 * the cubic polynomial with the losses and slopes of two points. The constants are those of torch.optim.LBFGS. */
#include <math.h>

#include "base/assert.h"
#include "optim/lbfgs/lbfgs.h"

static const double decrease = 1e-4, curvature = 0.9;

typedef struct search {
    haul__lbfgs_step *step;
    haul__lbfgs_point start, fresh, bracket[2];
    int64_t           tries, most_tries;
    bool              done; /* bracket[0] fulfils the conditions */
} search;

static double smaller(double a, double b)
{
    return b < a ? b : a;
}

static double larger(double a, double b)
{
    return b > a ? b : a;
}

/* The minimum of the cubic polynomial through two points, within the bounds. */
static double interpolate(const haul__lbfgs_point *a, const haul__lbfgs_point *b, double low, double high)
{
    const double d1 = a->slope + b->slope - 3 * (a->loss - b->loss) / (a->t - b->t);
    const double square = d1 * d1 - a->slope * b->slope;
    if (!(square >= 0))
        return (low + high) / 2;
    const double d2 = sqrt(square);
    const double at = a->t <= b->t ? b->t - (b->t - a->t) * ((b->slope + d2 - d1) / (b->slope - a->slope + 2 * d2))
                                   : a->t - (a->t - b->t) * ((a->slope + d2 - d1) / (a->slope - b->slope + 2 * d2));
    return smaller(larger(at, low), high);
}

static haul_status try(search *x, double t)
{
    haul_status status = haul__lbfgs_move(x->step, t);
    return status ? status : haul__lbfgs_evaluate(x->step, t, &x->fresh);
}

static void bracket(search *x, const haul__lbfgs_point *a, const haul__lbfgs_point *b)
{
    haul__lbfgs_put_point(&x->bracket[0], a);
    haul__lbfgs_put_point(&x->bracket[1], b);
}

static bool is_too_high(const search *x)
{
    return x->fresh.loss > x->start.loss + decrease * x->fresh.t * x->start.slope;
}

static bool is_flat(const search *x)
{
    return fabs(x->fresh.slope) <= -curvature * x->start.slope;
}

/* Goes along the direction until two points enclose a minimum. */
static haul_status enclose(search *x)
{
    haul__lbfgs_point before = {0};
    haul_status       status = try(x, x->step->m->t);
    haul__lbfgs_put_point(&before, &x->start);
    HAUL__ASSERT(x->start.gradient && x->start.t == 0);
    while (!status && x->tries < x->most_tries) {
        if (is_too_high(x) || (x->tries > 1 && x->fresh.loss >= before.loss)) {
            bracket(x, &before, &x->fresh);
            break;
        }
        if (is_flat(x)) {
            bracket(x, &x->fresh, &x->fresh);
            x->done = true;
            break;
        }
        if (x->fresh.slope >= 0) {
            bracket(x, &before, &x->fresh);
            break;
        }
        const double t = x->fresh.t;
        const double next = interpolate(&before, &x->fresh, t + 0.01 * (t - before.t), t * 10);
        haul__lbfgs_put_point(&before, &x->fresh);
        status = try(x, next);
        x->tries++;
    }
    HAUL__ASSERT(x->tries <= x->most_tries);
    if (!status && x->tries == x->most_tries)
        bracket(x, &x->start, &x->fresh);
    haul__lbfgs_put_point(&before, &(haul__lbfgs_point){0});
    return status;
}

/* The next length within the bracket. It keeps away from the ends if the last one was near an end, too. */
static double choose(const search *x, bool *was_near)
{
    const double a = x->bracket[0].t, b = x->bracket[1].t, low = smaller(a, b), high = larger(a, b);
    const double t = interpolate(&x->bracket[0], &x->bracket[1], low, high), margin = 0.1 * (high - low);
    const bool   is_near = smaller(high - t, t - low) < margin;
    if (is_near && (*was_near || t >= high || t <= low)) {
        *was_near = false;
        return fabs(t - high) < fabs(t - low) ? high - margin : low + margin;
    }
    *was_near = is_near;
    return t;
}

/* Makes the bracket smaller. Returns the number of its lower point. */
static haul_status narrow(search *x, double most, int *low)
{
    const double tolerance = x->step->o->groups->values[HAUL__LBFGS_TOLERANCE_CHANGE];
    bool         was_near = false;
    haul_status  status = HAUL_OK;
    HAUL__ASSERT(x->bracket[0].gradient && x->bracket[1].gradient);
    *low = x->bracket[0].loss <= x->bracket[1].loss ? 0 : 1;
    while (!status && !x->done && x->tries < x->most_tries) {
        if (fabs(x->bracket[1].t - x->bracket[0].t) * most < tolerance)
            break;
        status = try(x, choose(x, &was_near));
        if (status)
            break;
        x->tries++;
        HAUL__ASSERT(x->fresh.gradient);
        haul__lbfgs_point *lower = &x->bracket[*low], *higher = &x->bracket[1 - *low];
        if (is_too_high(x) || x->fresh.loss >= lower->loss) {
            haul__lbfgs_put_point(higher, &x->fresh);
            *low = x->bracket[0].loss <= x->bracket[1].loss ? 0 : 1;
            continue;
        }
        x->done = is_flat(x);
        if (!x->done && x->fresh.slope * (higher->t - lower->t) >= 0)
            haul__lbfgs_put_point(higher, lower);
        haul__lbfgs_put_point(lower, &x->fresh);
    }
    return status;
}

haul_status haul__lbfgs_search(haul__lbfgs_step *s, haul__lbfgs_point *now, double most)
{
    search x = {.step = s, .most_tries = (int64_t)s->o->groups->values[HAUL__LBFGS_MAX_EVAL] - s->evaluations};
    int    low = 0;
    haul__lbfgs_put_point(&x.start, now);
    haul_status status = enclose(&x);
    if (!status)
        status = narrow(&x, most, &low);
    if (!status)
        status = haul__lbfgs_move(s, x.bracket[low].t);
    HAUL__ASSERT(status || x.bracket[low].gradient);
    if (!status)
        haul__lbfgs_put_point(now, &x.bracket[low]);
    haul__lbfgs_point *all[] = {&x.start, &x.fresh, &x.bracket[0], &x.bracket[1]};
    for (int i = 0; i < 4; i++)
        haul__lbfgs_put_point(all[i], &(haul__lbfgs_point){0});
    return status;
}
