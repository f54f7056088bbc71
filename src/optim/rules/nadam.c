/* NAdam (Dozat 2016), with the formulas and roundings of torch.optim.NAdam:
 *
 *     m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g;  d = sqrt(v / (1 - beta2^t)) + eps
 *     mu_t = beta1 (1 - 0.96^(t momentum_decay) / 2)
 *     p -= lr (1 - mu_t) / (1 - mu_1 ... mu_t) * g / d + lr mu_(t+1) / (1 - mu_1 ... mu_(t+1)) * m / d
 *
 * PyTorch keeps the product as state. Here it follows from the settings and the number of steps, as Adam's corrections
 * do. */
#include <math.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "optim/optimizer.h"
#include "optim/rules/rule.h"

// clang-format off
/* kernel text begins */
#include "optim/rules/fade_kernel.h"
#include "optim/rules/rule_kernel.h"

/* The scalars; rest is 1 - beta, shrink what the parameter is multiplied by, fade is log(0.96) momentum_decay. The last
 * ones are those of the guarded form, from which it has the two rates and the correction. */
enum {
    NADAM_GRAD_RATE, NADAM_MEAN_RATE, NADAM_CORRECTION, NADAM_BETA1, NADAM_BETA2, NADAM_REST1, NADAM_REST2, NADAM_EPS,
    NADAM_DECAY, NADAM_SHRINK, NADAM_LR, NADAM_FADE
};

#ifdef HAUL_KERNEL
#if IS_FLOAT
TEMPLATE(nadam_steps)
    const A beta1 = SCALAR(p.scalars[NADAM_BETA1]), beta2 = SCALAR(p.scalars[NADAM_BETA2]);
    const A rest1 = SCALAR(p.scalars[NADAM_REST1]), rest2 = SCALAR(p.scalars[NADAM_REST2]);
    const A eps = SCALAR(p.scalars[NADAM_EPS]), decay = SCALAR(p.scalars[NADAM_DECAY]);
    const A shrink = SCALAR(p.scalars[NADAM_SHRINK]);
    FOR_ITEMS(i) {
        const A w = LOAD(value, p.p_at + i) * shrink;
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        const A m = fading_mean(beta1 * LOAD(exp_avg, p.s_at[0] + i) + rest1 * g);
        const A v = beta2 * LOAD(exp_avg_sq, p.s_at[1] + i) + rest2 * g * g;
        const A d = M_SQRT(v / correction) + eps;
        STORE(exp_avg, p.s_at[0] + i, m);
        STORE(exp_avg_sq, p.s_at[1] + i, v);
        STORE(value, p.p_at + i, w - grad_rate * g / d - mean_rate * m / d);
    }
END_TEMPLATE

KERNEL4(nadam, rule_params, T, value, T, exp_avg, T, exp_avg_sq, const T, grad)
{
    const A grad_rate = SCALAR(p.scalars[NADAM_GRAD_RATE]), mean_rate = SCALAR(p.scalars[NADAM_MEAN_RATE]);
    const A correction = SCALAR(p.scalars[NADAM_CORRECTION]);
    EXPAND(nadam_steps)
}

/* How many steps were made is known here only. The piece that has item 0 counts; all read the number of before. */
KERNEL6(nadam_guarded, rule_params, T, value, T, exp_avg, T, exp_avg_sq, I64, made, const T, grad, const F32, found)
{
    const I64 before = made[p.made_at + p.from];
    const int skip = found[p.found_at] != 0;
    if (ITEMS_BEGIN == 0) made[p.made_at + 1 - p.from] = before + !skip;
    if (!skip) {
        const A beta = SCALAR(p.scalars[NADAM_BETA1]), lr = SCALAR(p.scalars[NADAM_LR]);
        const A fade = SCALAR(p.scalars[NADAM_FADE]), t = (A)(before + 1);
        const A mu = beta * (LIT(1.0) - LIT(0.5) * M_EXP(t * fade));
        const A next = beta * (LIT(1.0) - LIT(0.5) * M_EXP((t + LIT(1.0)) * fade));
        A product = LIT(1.0); /* below 2^-60 it does not change 1 - product */
        for (I64 k = 1; k <= before + 1 && product > LIT(8.673617379884035e-19); k++)
            product = product * (beta * (LIT(1.0) - LIT(0.5) * M_EXP((A)k * fade)));
        const A grad_rate = lr * (LIT(1.0) - mu) / (LIT(1.0) - product);
        const A mean_rate = lr * next / (LIT(1.0) - product * next);
        const A correction = -M_EXPM1(t * M_LOG(SCALAR(p.scalars[NADAM_BETA2])));
        EXPAND(nadam_steps)
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* ---- the operation ---- */

static const haul__optimizer_kind kind;

enum { OPERANDS = 6 };
_Static_assert((int)HAUL__MAX_UPDATES *(int)OPERANDS <= (int)HAUL__OWN_OPERANDS, "a step takes no memory");

HAUL__OPERATION(nadam) = {
    .name = "haul_nadam",
    .operands = {{"parameter", .written = true},
                 {"exp_avg", .written = true},
                 {"exp_avg_sq", .written = true},
                 {"made", .written = true, .optional = true, .accepts = HAUL__ONLY(HAUL_I64)},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    HAUL__RULE_STEP(kind, OPERANDS),
    .flops = 18,
};

/* ---- the optimizer ---- */

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, MOMENTUM_DECAY, DECOUPLED };

/* mu_t */
static double momentum_of(const double *values, double step)
{
    return values[BETA1] * (1 - 0.5 * pow(0.96, step * values[MOMENTUM_DECAY]));
}

static void scalars(const double *values, double step, double *out)
{
    const double decay = values[WEIGHT_DECAY], mu = momentum_of(values, step), next = momentum_of(values, step + 1);
    const bool   decoupled = values[DECOUPLED] != 0;
    double       product = 1; /* below 2^-60 it does not change 1 - product */
    for (double k = 1; k <= step && product > 0x1p-60; k++)
        product *= momentum_of(values, k);
    HAUL__ASSERT(step >= 1 && product < 1);
    out[NADAM_GRAD_RATE] = values[LR] * (1 - mu) / (1 - product);
    out[NADAM_MEAN_RATE] = values[LR] * next / (1 - product * next);
    out[NADAM_CORRECTION] = 1 - pow(values[BETA2], step);
    out[NADAM_BETA1] = values[BETA1];
    out[NADAM_BETA2] = values[BETA2];
    out[NADAM_REST1] = 1 - values[BETA1];
    out[NADAM_REST2] = 1 - values[BETA2];
    out[NADAM_EPS] = values[EPS];
    out[NADAM_DECAY] = decoupled ? 0 : decay;
    out[NADAM_SHRINK] = decoupled ? 1 - values[LR] * decay : 1;
    out[NADAM_LR] = values[LR];
    out[NADAM_FADE] = log(0.96) * values[MOMENTUM_DECAY];
}

static const haul__optimizer_kind kind = {
    .name = "nadam",
    .settings = {{"lr", 0, INFINITY, false},
                 {"beta1", 0, 1, false},
                 {"beta2", 0, 1, false},
                 {"eps", 0, INFINITY, false},
                 {"weight_decay", 0, INFINITY, false},
                 {"momentum_decay", 0, INFINITY, false},
                 {"decoupled_weight_decay", 0, 2, true}},
    .momentum = BETA1,
    .state_count = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .saves_steps = true,
    .states = haul__rule_two_states,
    .kernel = haul__rule_kernel,
    .update = haul__rule_update,
    .operation = &haul__operation_nadam,
    .kernels = {HAUL__K_nadam, HAUL__K_nadam_guarded},
    .scalars = scalars,
};

haul_optimizer *haul_nadam_with(const haul_nadam_options *o)
{
    static const char operation[] = "haul_nadam";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    double values[HAUL__MAX_SETTINGS] = {[LR] = o->lr,
                                         [EPS] = haul__option(o->eps, 1e-8),
                                         [WEIGHT_DECAY] = o->weight_decay,
                                         [MOMENTUM_DECAY] = haul__option(o->momentum_decay, 4e-3),
                                         [DECOUPLED] = o->decoupled_weight_decay};
    if (haul__optimizer_read_betas(values + BETA1, o->betas, 0.999, operation))
        return NULL;
    return haul__optimizer_new(&kind, &(haul__optimizer_source){o->module, o->parameters, o->count}, values, operation);
}
