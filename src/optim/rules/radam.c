/* RAdam (Liu et al. 2020), with the formulas and roundings of torch.optim.RAdam:
 *
 *     m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g
 *     rho_max = 2 / (1 - beta2) - 1;  rho = rho_max - 2 t beta2^t / (1 - beta2^t)
 *     rho > 5: r = sqrt((rho - 4) (rho - 2) rho_max / ((rho_max - 4) (rho_max - 2) rho))
 *              p -= lr r / (1 - beta1^t) * m / (sqrt(v) + eps) * sqrt(1 - beta2^t)
 *     else:    p -= lr / (1 - beta1^t) * m */
#include <math.h>

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

/* The scalars; rest is 1 - beta, shrink what the parameter is multiplied by. The rate is 0
 * where steps do not adapt, and the plain one counts. The guarded form has both from the number of steps and the last
 * scalars; most is rho_max. */
enum {
    RADAM_PLAIN, RADAM_RATE, RADAM_BETA1, RADAM_BETA2, RADAM_REST1, RADAM_REST2, RADAM_EPS, RADAM_DECAY, RADAM_SHRINK,
    RADAM_LR, RADAM_MOST, RADAM_BASE
};

#ifdef HAUL_KERNEL
#if IS_FLOAT
TEMPLATE(radam_steps)
    const A beta1 = SCALAR(p.scalars[RADAM_BETA1]), beta2 = SCALAR(p.scalars[RADAM_BETA2]);
    const A rest1 = SCALAR(p.scalars[RADAM_REST1]), rest2 = SCALAR(p.scalars[RADAM_REST2]);
    const A eps = SCALAR(p.scalars[RADAM_EPS]), decay = SCALAR(p.scalars[RADAM_DECAY]);
    const A shrink = SCALAR(p.scalars[RADAM_SHRINK]);
    FOR_ITEMS(i) {
        const A w = LOAD(value, p.p_at + i) * shrink;
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        const A m = fading_mean(beta1 * LOAD(exp_avg, p.s_at[0] + i) + rest1 * g);
        const A v = beta2 * LOAD(exp_avg_sq, p.s_at[1] + i) + rest2 * g * g;
        STORE(exp_avg, p.s_at[0] + i, m);
        STORE(exp_avg_sq, p.s_at[1] + i, v);
        STORE(value, p.p_at + i, w - (rate != 0 ? rate * m / (M_SQRT(v) + eps) : plain * m));
    }
END_TEMPLATE

KERNEL4(radam, rule_params, T, value, T, exp_avg, T, exp_avg_sq, const T, grad)
{
    const A plain = SCALAR(p.scalars[RADAM_PLAIN]), rate = SCALAR(p.scalars[RADAM_RATE]);
    EXPAND(radam_steps)
}

/* rho without the difference of large numbers: with x = -log(beta2) and y = t x it is base + 2 / x (1 - y / (e^y - 1)),
 * where base is rho_max - 2 / x; the bracket is a series where y is small. */
FUNC A radam_length(A base, A x, A t)
{
    const A y = t * x, square = y * y;
    const A part = y < LIT(0.25) ? y / LIT(2.0) - square / LIT(12.0) + square * square / LIT(720.0)
                                 : LIT(1.0) - y / M_EXPM1(y);
    return base + LIT(2.0) / x * part;
}

/* How many steps were made is known here only. The piece that has item 0 counts; all read the number of before. */
KERNEL6(radam_guarded, rule_params, T, value, T, exp_avg, T, exp_avg_sq, I64, made, const T, grad, const F32, found)
{
    const I64 before = made[p.made_at + p.from];
    const int skip = found[p.found_at] != 0;
    if (ITEMS_BEGIN == 0) made[p.made_at + 1 - p.from] = before + !skip;
    if (!skip) {
        const A t = (A)(before + 1), x = -M_LOG(SCALAR(p.scalars[RADAM_BETA2])), most = SCALAR(p.scalars[RADAM_MOST]);
        const A plain = SCALAR(p.scalars[RADAM_LR]) / -M_EXPM1(t * M_LOG(SCALAR(p.scalars[RADAM_BETA1])));
        const A rho = radam_length(SCALAR(p.scalars[RADAM_BASE]), x, t);
        A rate = LIT(0.0);
        if (rho > LIT(5.0)) {
            const A part = (rho - LIT(4.0)) / (most - LIT(4.0)) * ((rho - LIT(2.0)) / (most - LIT(2.0))) * (most / rho);
            rate = plain * M_SQRT(part) * M_SQRT(-M_EXPM1(-t * x));
        }
        EXPAND(radam_steps)
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

HAUL__OPERATION(radam) = {
    .name = "haul_radam",
    .operands = {{"parameter", .written = true},
                 {"exp_avg", .written = true},
                 {"exp_avg_sq", .written = true},
                 {"made", .written = true, .optional = true, .accepts = HAUL__ONLY(HAUL_I64)},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    HAUL__RULE_STEP(kind, OPERANDS),
    .flops = 16,
};

/* ---- the optimizer ---- */

enum { LR, BETA1, BETA2, EPS, WEIGHT_DECAY, DECOUPLED };

static void scalars(const double *values, double step, double *out)
{
    const double beta2 = values[BETA2], decay = values[WEIGHT_DECAY], power = pow(beta2, step), rest = 1 - power;
    const double most = 2 / (1 - beta2) - 1, rho = most - 2 * step * power / rest;
    const double plain = values[LR] / (1 - pow(values[BETA1], step));
    const bool   decoupled = values[DECOUPLED] != 0, adapts = rho > 5;
    const double part = (rho - 4) * (rho - 2) * most / ((most - 4) * (most - 2) * rho);
    out[RADAM_PLAIN] = plain;
    out[RADAM_RATE] = adapts ? plain * sqrt(part) * sqrt(rest) : 0;
    out[RADAM_BETA1] = values[BETA1];
    out[RADAM_BETA2] = beta2;
    out[RADAM_REST1] = 1 - values[BETA1];
    out[RADAM_REST2] = 1 - beta2;
    out[RADAM_EPS] = values[EPS];
    out[RADAM_DECAY] = decoupled ? 0 : decay;
    out[RADAM_SHRINK] = decoupled ? 1 - values[LR] * decay : 1;
    out[RADAM_LR] = values[LR];
    out[RADAM_MOST] = most;
    out[RADAM_BASE] = beta2 > 0 ? most + 2 / log(beta2) : most;
}

static const haul__optimizer_kind kind = {
    .name = "radam",
    .settings = {{"lr", 0, INFINITY, false},
                 {"beta1", 0, 1, false},
                 {"beta2", 0, 1, false},
                 {"eps", 0, INFINITY, false},
                 {"weight_decay", 0, INFINITY, false},
                 {"decoupled_weight_decay", 0, 2, true}},
    .momentum = BETA1,
    .state_count = 2,
    .state_names = {"exp_avg", "exp_avg_sq"},
    .saves_steps = true,
    .states = haul__rule_two_states,
    .kernel = haul__rule_kernel,
    .update = haul__rule_update,
    .operation = &haul__operation_radam,
    .kernels = {HAUL__K_radam, HAUL__K_radam_guarded},
    .scalars = scalars,
};

haul_optimizer *haul_radam_with(const haul_radam_options *o)
{
    static const char operation[] = "haul_radam";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    double values[HAUL__MAX_SETTINGS] = {[LR] = o->lr,
                                         [EPS] = haul__option(o->eps, 1e-8),
                                         [WEIGHT_DECAY] = o->weight_decay,
                                         [DECOUPLED] = o->decoupled_weight_decay};
    if (haul__optimizer_read_betas(values + BETA1, o->betas, 0.999, operation))
        return NULL;
    return haul__optimizer_new(&kind, &(haul__optimizer_source){o->module, o->parameters, o->count}, values, operation);
}
