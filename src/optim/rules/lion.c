/* Lion (Chen et al. 2023, "Symbolic Discovery of Optimization Algorithms", program 1), with weight decay decoupled:
 *
 *     p = p (1 - lr weight_decay) - lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g */
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

/* The scalars; rest is 1 - beta, shrink what the parameter is multiplied by. */
enum { LION_LR, LION_BETA1, LION_BETA2, LION_REST1, LION_REST2, LION_SHRINK };

#ifdef HAUL_KERNEL
#if IS_FLOAT
TEMPLATE(lion_steps)
    const A lr = SCALAR(p.scalars[LION_LR]), shrink = SCALAR(p.scalars[LION_SHRINK]);
    const A beta1 = SCALAR(p.scalars[LION_BETA1]), beta2 = SCALAR(p.scalars[LION_BETA2]);
    const A rest1 = SCALAR(p.scalars[LION_REST1]), rest2 = SCALAR(p.scalars[LION_REST2]);
    FOR_ITEMS(i) {
        const A g = LOAD(grad, p.g_at + i), m = LOAD(exp_avg, p.s_at[0] + i);
        STORE(value, p.p_at + i, LOAD(value, p.p_at + i) * shrink - lr * M_SIGN(beta1 * m + rest1 * g));
        STORE(exp_avg, p.s_at[0] + i, fading_mean(beta2 * m + rest2 * g));
    }
END_TEMPLATE

KERNEL3(lion, rule_params, T, value, T, exp_avg, const T, grad)
{
    EXPAND(lion_steps)
}

KERNEL4(lion_guarded, rule_params, T, value, T, exp_avg, const T, grad, const F32, found)
{
    if (found[p.found_at] == 0) {
        EXPAND(lion_steps)
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* ---- the operation ---- */

static const haul__optimizer_kind kind;

enum { OPERANDS = 4 };
_Static_assert((int)HAUL__MAX_UPDATES *(int)OPERANDS <= (int)HAUL__OWN_OPERANDS, "a step takes no memory");

HAUL__OPERATION(lion) = {
    .name = "haul_lion",
    .operands = {{"parameter", .written = true},
                 {"exp_avg", .written = true},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    HAUL__RULE_STEP(kind, OPERANDS),
    .flops = 9,
};

/* ---- the optimizer ---- */

enum { LR, BETA1, BETA2, WEIGHT_DECAY };

static void scalars(const double *values, double step, double *out)
{
    (void)step;
    out[LION_LR] = values[LR];
    out[LION_BETA1] = values[BETA1];
    out[LION_BETA2] = values[BETA2];
    out[LION_REST1] = 1 - values[BETA1];
    out[LION_REST2] = 1 - values[BETA2];
    out[LION_SHRINK] = 1 - values[LR] * values[WEIGHT_DECAY];
}

static const haul__optimizer_kind kind = {
    .name = "lion",
    .settings = {{"lr", 0, INFINITY, false},
                 {"beta1", 0, 1, false},
                 {"beta2", 0, 1, false},
                 {"weight_decay", 0, INFINITY, false}},
    .momentum = BETA1,
    .state_count = 1,
    .state_names = {"exp_avg"},
    .states = haul__rule_one_state,
    .kernel = haul__rule_kernel,
    .update = haul__rule_update,
    .operation = &haul__operation_lion,
    .kernels = {HAUL__K_lion, HAUL__K_lion_guarded},
    .scalars = scalars,
};

haul_optimizer *haul_lion_with(const haul_lion_options *o)
{
    static const char operation[] = "haul_lion";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    double values[HAUL__MAX_SETTINGS] = {[LR] = o->lr, [WEIGHT_DECAY] = o->weight_decay};
    if (haul__optimizer_read_betas(values + BETA1, o->betas, 0.99, operation))
        return NULL;
    return haul__optimizer_new(&kind, &(haul__optimizer_source){o->module, o->parameters, o->count}, values, operation);
}
