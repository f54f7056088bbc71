/* LAMB (You et al. 2020, "Large Batch Optimization for Deep Learning: Training BERT in 76 minutes", algorithm 2, with
 * phi(x) = x):
 *
 *     m, v as in Adam;  r = m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + eps) + weight_decay p
 *     p -= lr |p| / |r| r,  or p -= lr r where one of the norms is 0
 *
 * The norms are those of a whole parameter, so a step is made of operations. They compute in f32 or f64. */
#include <haul/autograd.h>
#include <haul/elementwise.h>
#include <haul/ops.h>
#include <haul/scope.h>
#include <haul/transfer.h>
#include <math.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "core/scope.h"
#include "core/tensor.h"
#include "optim/optimizer.h"

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY };

static unsigned states(const double *values)
{
    (void)values;
    return 3;
}

static int kernel(const haul__optimizer_kind *kind, const double *values, bool guarded, int number)
{
    (void)kind;
    (void)values;
    (void)guarded;
    (void)number;
    return -1;
}

/* |p| / |r|, 1 where one of them is 0. */
static haul_tensor *trust(haul_tensor *p, haul_tensor *r)
{
    haul_tensor *of_p = haul_norm(p), *of_r = haul_norm(r), *ratio = haul_div(of_p, of_r);
    haul_tensor *neither = haul_gt_scalar(haul_mul(haul_sign(of_p), haul_sign(of_r)), 0);
    return haul_where_scalar(neither, ratio, 1);
}

/* The direction r. The states get their new values. */
static haul_tensor *direction(const haul__update *u, const double *s, haul_tensor *p, haul_tensor *g)
{
    HAUL__ASSERT(u->states[0] && u->states[1] && u->entry->steps > 0);
    const double step = (double)u->entry->steps;
    haul_dtype   dtype = u->parameter->dtype;
    haul_tensor *m = haul_lerp_scalar(haul_cast(u->states[0], g->dtype), g, 1 - s[BETA1]);
    haul_tensor *v = haul_lerp_scalar(haul_cast(u->states[1], g->dtype), haul_mul(g, g), 1 - s[BETA2]);
    if (haul_copy_into(u->states[0], haul_cast(m, dtype)) || haul_copy_into(u->states[1], haul_cast(v, dtype)))
        return haul__failed_tensor();
    haul_tensor *d = haul_add_scalar(haul_sqrt(haul_mul_scalar(v, 1 / (1 - pow(s[BETA2], step)))), s[EPS]);
    haul_tensor *r = haul_div(haul_mul_scalar(m, 1 / (1 - pow(s[BETA1], step))), d);
    return s[WEIGHT_DECAY] != 0 ? haul_add(r, haul_mul_scalar(p, s[WEIGHT_DECAY])) : r;
}

static haul_status update_one(const haul__update *u, const double *s)
{
    haul_scope scope;
    HAUL__ASSERT(u->parameter->count == u->grad->count);
    haul_status status = haul__scope_open(&scope, "haul_optimizer_step");
    if (status)
        return status;
    const haul_dtype sums = haul__sum_dtype(u->parameter->dtype);
    haul_tensor     *p = haul_cast(haul_detach(u->parameter), sums), *g = haul_cast(u->grad, sums);
    haul_tensor     *r = direction(u, s, p, g);
    haul_tensor     *next = haul_sub(p, haul_mul(r, haul_mul_scalar(trust(p, r), s[LR])));
    status = haul__status_of(next);
    if (!status)
        status = haul_copy_into(u->parameter, haul_cast(next, u->parameter->dtype));
    haul__scope_close(&scope);
    return status;
}

static haul_status update(const haul__optimizer_kind *kind, const double *values, const haul__update *updates,
                          int count)
{
    haul_status status = HAUL_OK;
    (void)kind;
    HAUL__ASSERT(count > 0 && updates[count - 1].entry->group == updates->entry->group);
    for (int i = 0; i < count && !status; i++)
        status = update_one(&updates[i], values);
    return status;
}

static const haul__optimizer_kind kind = {
    .name = "lamb",
    .settings = {{"lr", 0, INFINITY, false},
                 {"beta1", 0, 1, false},
                 {"beta2", 0, 1, false},
                 {"eps", 0, INFINITY, false},
                 {"weight_decay", 0, INFINITY, false}},
    .momentum = BETA1,
    .state_count = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .saves_steps = true,
    .by_operations = true,
    .states = states,
    .kernel = kernel,
    .update = update,
};

haul_optimizer *haul_lamb_with(const haul_lamb_options *o)
{
    static const char operation[] = "haul_lamb";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    double values[HAUL__MAX_SETTINGS] = {
        [LR] = o->lr, [EPS] = haul__option(o->eps, 1e-6), [WEIGHT_DECAY] = o->weight_decay};
    if (haul__optimizer_read_betas(values + BETA1, o->betas, 0.999, operation))
        return NULL;
    return haul__optimizer_new(&kind, &(haul__optimizer_source){o->module, o->parameters, o->count}, values, operation);
}
