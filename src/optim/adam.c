/* Adam (Kingma, Ba 2015), and AdamW (Loshchilov, Hutter 2019), which differ in the effect of weight decay. The order of
 * roundings is that of torch.optim:
 *
 *     m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g
 *     p -= lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps) */
#include <math.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "optim/amsgrad.h"
#include "optim/optimizer.h"

// clang-format off
/* kernel text begins */
#include "optim/adam_kernel.h"
#include "optim/rules/fade_kernel.h"

#ifdef HAUL_KERNEL
#if IS_FLOAT
/* The steps of all items, with step_size and correction. */
TEMPLATE(adam_steps)
    const A beta1 = SCALAR(p.beta1), beta2 = SCALAR(p.beta2), rest1 = SCALAR(p.rest1), rest2 = SCALAR(p.rest2);
    const A eps = SCALAR(p.eps), decay = SCALAR(p.decay), shrink = SCALAR(p.shrink);
    FOR_ITEMS(i) {
        const A w = LOAD(value, p.p_at + i) * shrink;
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        const A m = fading_mean(beta1 * LOAD(exp_avg, p.m_at + i) + rest1 * g);
        const A v = beta2 * LOAD(exp_avg_sq, p.v_at + i) + rest2 * g * g;
        const A divisor = M_SQRT(v) / correction + eps;
        STORE(exp_avg, p.m_at + i, m);
        STORE(exp_avg_sq, p.v_at + i, v);
        STORE(value, p.p_at + i, w - step_size * m / divisor);
    }
END_TEMPLATE

KERNEL4(adam, adam_params, T, value, T, exp_avg, T, exp_avg_sq, const T, grad)
{
    const A step_size = SCALAR(p.step_size), correction = SCALAR(p.correction);
    EXPAND(adam_steps)
}

/* How many steps were made is known here only: 1 - beta^t is -expm1(t log(beta)). The piece that has item 0 counts; all
 * read the number of before. */
KERNEL6(adam_guarded, adam_params, T, value, T, exp_avg, T, exp_avg_sq, I64, made, const T, grad, const F32, found)
{
    const I64 before = made[p.made_at + p.from];
    const int skip = found[p.found_at] != 0;
    if (ITEMS_BEGIN == 0) made[p.made_at + 1 - p.from] = before + !skip;
    if (!skip) {
        const A t = (A)(before + 1), step_size = SCALAR(p.lr) / -M_EXPM1(t * SCALAR(p.log_beta1));
        const A correction = M_SQRT(-M_EXPM1(t * SCALAR(p.log_beta2)));
        EXPAND(adam_steps)
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* ---- a step ---- */

enum { PARAMETER, EXP_AVG, EXP_AVG_SQ, MADE, GRAD, FOUND, OPERANDS };
_Static_assert((int)HAUL__MAX_UPDATES *(int)OPERANDS <= (int)HAUL__OWN_OPERANDS, "a step takes no memory");

adam_params haul__adam_params(const haul__amsgrad_settings *s, haul_dtype dtype)
{
    double steps = (double)s->step, decay = s->weight_decay;
    return (adam_params){.step_size = haul__scalar_bits(dtype, s->lr / (1 - pow(s->beta1, steps))),
                         .beta1 = haul__scalar_bits(dtype, s->beta1),
                         .beta2 = haul__scalar_bits(dtype, s->beta2),
                         .rest1 = haul__scalar_bits(dtype, 1 - s->beta1),
                         .rest2 = haul__scalar_bits(dtype, 1 - s->beta2),
                         .correction = haul__scalar_bits(dtype, sqrt(1 - pow(s->beta2, steps))),
                         .eps = haul__scalar_bits(dtype, s->eps),
                         .decay = haul__scalar_bits(dtype, s->decoupled ? 0 : decay),
                         .shrink = haul__scalar_bits(dtype, s->decoupled ? 1 - s->lr * decay : 1),
                         .lr = haul__scalar_bits(dtype, s->lr),
                         .log_beta1 = haul__scalar_bits(dtype, log(s->beta1)),
                         .log_beta2 = haul__scalar_bits(dtype, log(s->beta2)),
                         .from = s->from};
}

static haul_status step_one(const haul__call *c, haul_tensor *const *in, void *of_all)
{
    adam_params *params = of_all;
    haul_dtype   dtype = in[PARAMETER]->dtype;
    bool         guarded = !haul__is_none(in[FOUND]);
    HAUL__ASSERT(in[PARAMETER]->count == in[EXP_AVG]->count && in[PARAMETER]->count == in[GRAD]->count);
    HAUL__ASSERT(guarded == !haul__is_none(in[MADE]));
    params->items = in[PARAMETER]->count;
    params->p_at = in[PARAMETER]->offset;
    params->m_at = in[EXP_AVG]->offset;
    params->v_at = in[EXP_AVG_SQ]->offset;
    params->g_at = in[GRAD]->offset;
    params->made_at = guarded ? in[MADE]->offset : 0;
    params->found_at = guarded ? in[FOUND]->offset : 0;
    return haul__launch_kernel(c, guarded ? HAUL__K_adam_guarded : HAUL__K_adam, dtype, .outs = in,
                               .out_count = 3 + guarded, .ins = in + GRAD, .in_count = 1 + guarded,
                               HAUL__PARAMS(*params), .grain = 8192);
}

static haul_status compute(haul__call *c)
{
    adam_params params = haul__adam_params(haul__attributes(c), c->operands[PARAMETER]->dtype);
    return haul__step_each(c, step_one, &params);
}

/* A step of some parameters. With a guard there are also `made` and `found`. */
HAUL__OPERATION(adam) = {
    .name = "haul_adam",
    .operands = {{"parameter", .written = true},
                 {"exp_avg", .written = true},
                 {"exp_avg_sq", .written = true},
                 {"made", .written = true, .optional = true, .accepts = HAUL__ONLY(HAUL_I64)},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    .dtypes = HAUL__FLOATS,
    .varies = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__amsgrad_settings),
    .repeat = OPERANDS,
    .infer = haul__infer_step,
    .compute = compute,
    .cost = haul__step_cost,
    .flops = 14,
};

/* ---- the optimizers ---- */

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, AMSGRAD };

static unsigned states(const double *values)
{
    return values[AMSGRAD] != 0 ? 7 : 3;
}

static int kernel(const haul__optimizer_kind *kind, const double *values, bool guarded, int number)
{
    (void)kind;
    if (values[AMSGRAD] != 0)
        return haul__amsgrad_kernel(guarded, number);
    return number ? -1 : guarded ? HAUL__K_adam_guarded : HAUL__K_adam;
}

static haul_status update_by(const haul__amsgrad_settings *s, const haul__update *updates, int count)
{
    haul_tensor *operands[HAUL__MAX_UPDATES * OPERANDS], **in = operands;
    bool         guarded = updates->guard.found != NULL;
    HAUL__ASSERT(count > 0 && count <= HAUL__MAX_UPDATES);
    for (int i = 0; i < count; i++, in += OPERANDS) {
        const haul__update *u = &updates[i];
        HAUL__ASSERT(u->states[0] && u->states[1] && !u->guard.found == !guarded);
        in[PARAMETER] = u->parameter;
        in[EXP_AVG] = u->states[0];
        in[EXP_AVG_SQ] = u->states[1];
        in[MADE] = guarded ? u->guard.made : HAUL_NONE;
        in[GRAD] = u->grad;
        in[FOUND] = guarded ? u->guard.found : HAUL_NONE;
    }
    return haul__apply(&haul__operation_adam, s, operands, count * OPERANDS, NULL);
}

static haul_status update(const double *values, const haul__update *updates, int count, bool decoupled)
{
    HAUL__ASSERT(updates->entry->steps > 0);
    const haul__amsgrad_settings s = {.lr = values[LR],
                                      .beta1 = values[BETA1],
                                      .beta2 = values[BETA2],
                                      .eps = values[EPS],
                                      .weight_decay = values[WEIGHT_DECAY],
                                      .decoupled = decoupled,
                                      .step = updates->entry->steps,
                                      .from = updates->guard.found ? updates->guard.from : 0};
    return values[AMSGRAD] != 0 ? haul__amsgrad_update(&s, updates, count) : update_by(&s, updates, count);
}

static haul_status update_adam(const haul__optimizer_kind *kind, const double *values, const haul__update *updates,
                               int count)
{
    (void)kind;
    return update(values, updates, count, false);
}

static haul_status update_adamw(const haul__optimizer_kind *kind, const double *values, const haul__update *updates,
                                int count)
{
    (void)kind;
    return update(values, updates, count, true);
}

#define ADAM_SETTINGS                                                                                                  \
    {                                                                                                                  \
        {"lr", 0, INFINITY, false}, {"beta1", 0, 1, false}, {"beta2", 0, 1, false}, {"eps", 0, INFINITY, false},       \
            {"weight_decay", 0, INFINITY, false},                                                                      \
        {                                                                                                              \
            "amsgrad", 0, 2, true                                                                                      \
        }                                                                                                              \
    }

static const haul__optimizer_kind adam = {
    .name = "adam",
    .settings = ADAM_SETTINGS,
    .momentum = BETA1,
    .former_settings = AMSGRAD,
    .state_count = 3,
    .state_names = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .saves_steps = true,
    .states = states,
    .kernel = kernel,
    .update = update_adam,
};

static const haul__optimizer_kind adamw = {
    .name = "adamw",
    .settings = ADAM_SETTINGS,
    .momentum = BETA1,
    .former_settings = AMSGRAD,
    .state_count = 3,
    .state_names = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"},
    .saves_steps = true,
    .states = states,
    .kernel = kernel,
    .update = update_adamw,
};

/* Adam and AdamW have the same options, except for the default of weight decay, which is read already. */
static haul_optimizer *make(const haul__optimizer_kind *kind, const haul_adam_options *o, const char *operation)
{
    double values[HAUL__MAX_SETTINGS] = {
        [LR] = o->lr, [EPS] = haul__option(o->eps, 1e-8), [WEIGHT_DECAY] = o->weight_decay, [AMSGRAD] = o->amsgrad};
    if (haul__optimizer_read_betas(values + BETA1, o->betas, 0.999, operation))
        return NULL;
    return haul__optimizer_new(kind, &(haul__optimizer_source){o->module, o->parameters, o->count}, values, operation);
}

haul_optimizer *haul_adam_with(const haul_adam_options *options)
{
    static const char operation[] = "haul_adam";
    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    return make(&adam, options, operation);
}

haul_optimizer *haul_adamw_with(const haul_adamw_options *o)
{
    static const char operation[] = "haul_adamw";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const haul_adam_options options = {.module = o->module,
                                       .lr = o->lr,
                                       .betas = {o->betas[0], o->betas[1]},
                                       .eps = o->eps,
                                       .weight_decay = haul__option(o->weight_decay, 0.01),
                                       .amsgrad = o->amsgrad,
                                       .parameters = o->parameters,
                                       .count = o->count};
    return make(&adamw, &options, operation);
}
