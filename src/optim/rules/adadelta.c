/* Adadelta (Zeiler 2012), with the formulas and roundings of torch.optim.Adadelta:
 *
 *     s = rho s + (1 - rho) g g;  d = sqrt(u + eps) / sqrt(s + eps) * g;  u = rho u + (1 - rho) d d;  p -= lr d */
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
#include "optim/rules/rule_kernel.h"

enum { ADADELTA_LR, ADADELTA_RHO, ADADELTA_REST, ADADELTA_EPS, ADADELTA_DECAY }; /* the scalars; rest is 1 - rho */

#ifdef HAUL_KERNEL
#if IS_FLOAT
TEMPLATE(adadelta_steps)
    const A lr = SCALAR(p.scalars[ADADELTA_LR]), rho = SCALAR(p.scalars[ADADELTA_RHO]);
    const A rest = SCALAR(p.scalars[ADADELTA_REST]), eps = SCALAR(p.scalars[ADADELTA_EPS]);
    const A decay = SCALAR(p.scalars[ADADELTA_DECAY]);
    FOR_ITEMS(i) {
        const A w = LOAD(value, p.p_at + i);
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        const A s = rho * LOAD(square_avg, p.s_at[0] + i) + rest * g * g, u = LOAD(acc_delta, p.s_at[1] + i);
        const A d = M_SQRT(u + eps) / M_SQRT(s + eps) * g;
        STORE(square_avg, p.s_at[0] + i, s);
        STORE(acc_delta, p.s_at[1] + i, rho * u + rest * d * d);
        STORE(value, p.p_at + i, w - lr * d);
    }
END_TEMPLATE

KERNEL4(adadelta, rule_params, T, value, T, square_avg, T, acc_delta, const T, grad)
{
    EXPAND(adadelta_steps)
}

KERNEL5(adadelta_guarded, rule_params, T, value, T, square_avg, T, acc_delta, const T, grad, const F32, found)
{
    if (found[p.found_at] == 0) {
        EXPAND(adadelta_steps)
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* ---- the operation ---- */

static const haul__optimizer_kind kind;

enum { OPERANDS = 5 };
_Static_assert((int)HAUL__MAX_UPDATES *(int)OPERANDS <= (int)HAUL__OWN_OPERANDS, "a step takes no memory");

HAUL__OPERATION(adadelta) = {
    .name = "haul_adadelta",
    .operands = {{"parameter", .written = true},
                 {"square_avg", .written = true},
                 {"acc_delta", .written = true},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    HAUL__RULE_STEP(kind, OPERANDS),
    .flops = 14,
};

/* ---- the optimizer ---- */

enum { LR, RHO, EPS, WEIGHT_DECAY };

static void scalars(const double *values, double step, double *out)
{
    (void)step;
    out[ADADELTA_LR] = values[LR];
    out[ADADELTA_RHO] = values[RHO];
    out[ADADELTA_REST] = 1 - values[RHO];
    out[ADADELTA_EPS] = values[EPS];
    out[ADADELTA_DECAY] = values[WEIGHT_DECAY];
}

static const haul__optimizer_kind kind = {
    .name = "adadelta",
    .settings = {{"lr", 0, INFINITY, false},
                 {"rho", 0, 1, false},
                 {"eps", 0, INFINITY, false},
                 {"weight_decay", 0, INFINITY, false}},
    .momentum = -1,
    .state_count = 2,
    .state_names = {"square_avg", "acc_delta"},
    .states = haul__rule_two_states,
    .kernel = haul__rule_kernel,
    .update = haul__rule_update,
    .operation = &haul__operation_adadelta,
    .kernels = {HAUL__K_adadelta, HAUL__K_adadelta_guarded},
    .scalars = scalars,
};

haul_optimizer *haul_adadelta_with(const haul_adadelta_options *o)
{
    static const char operation[] = "haul_adadelta";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const double values[HAUL__MAX_SETTINGS] = {[LR] = o->lr,
                                               [RHO] = haul__option(o->rho, 0.9),
                                               [EPS] = haul__option(o->eps, 1e-6),
                                               [WEIGHT_DECAY] = o->weight_decay};
    return haul__optimizer_new(&kind, &(haul__optimizer_source){o->module, o->parameters, o->count}, values, operation);
}
