/* Adagrad (Duchi, Hazan, Singer 2011), with the formulas and roundings of torch.optim.Adagrad:
 *
 *     s = s + g g;  p -= lr / (1 + (t - 1) lr_decay) * g / (sqrt(s) + eps)
 *
 * s begins as initial_accumulator_value. */
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

/* The scalars; lr and its decay are those of the guarded form, from which it has the rate. */
enum { ADAGRAD_RATE, ADAGRAD_LR, ADAGRAD_LR_DECAY, ADAGRAD_EPS, ADAGRAD_DECAY, ADAGRAD_INITIAL };

#ifdef HAUL_KERNEL
#if IS_FLOAT
TEMPLATE(adagrad_steps, IS_FIRST)
    const A eps = SCALAR(p.scalars[ADAGRAD_EPS]), decay = SCALAR(p.scalars[ADAGRAD_DECAY]);
    const A initial = SCALAR(p.scalars[ADAGRAD_INITIAL]);
    FOR_ITEMS(i) {
        const A w = LOAD(value, p.p_at + i);
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        const A s = (IS_FIRST ? initial : LOAD(sum, p.s_at[0] + i)) + g * g;
        STORE(sum, p.s_at[0] + i, s);
        STORE(value, p.p_at + i, w - rate * g / (M_SQRT(s) + eps));
    }
END_TEMPLATE

KERNEL3(adagrad, rule_params, T, value, T, sum, const T, grad)
{
    const A rate = SCALAR(p.scalars[ADAGRAD_RATE]);
    EXPAND(adagrad_steps, p.first)
}

/* How many steps were made is known here only. The piece that has item 0 counts; all read the number of before. */
KERNEL5(adagrad_guarded, rule_params, T, value, T, sum, I64, made, const T, grad, const F32, found)
{
    const I64 before = made[p.made_at + p.from];
    const int skip = found[p.found_at] != 0;
    if (ITEMS_BEGIN == 0) made[p.made_at + 1 - p.from] = before + !skip;
    if (!skip) {
        const A slower = LIT(1.0) + (A)before * SCALAR(p.scalars[ADAGRAD_LR_DECAY]);
        const A rate = SCALAR(p.scalars[ADAGRAD_LR]) / slower;
        EXPAND(adagrad_steps, (before == 0))
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

HAUL__OPERATION(adagrad) = {
    .name = "haul_adagrad",
    .operands = {{"parameter", .written = true},
                 {"sum", .written = true},
                 {"made", .written = true, .optional = true, .accepts = HAUL__ONLY(HAUL_I64)},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    HAUL__RULE_STEP(kind, OPERANDS),
    .flops = 8,
};

/* ---- the optimizer ---- */

enum { LR, LR_DECAY, WEIGHT_DECAY, INITIAL, EPS };

static void scalars(const double *values, double step, double *out)
{
    out[ADAGRAD_RATE] = values[LR] / (1 + (step - 1) * values[LR_DECAY]);
    out[ADAGRAD_LR] = values[LR];
    out[ADAGRAD_LR_DECAY] = values[LR_DECAY];
    out[ADAGRAD_EPS] = values[EPS];
    out[ADAGRAD_DECAY] = values[WEIGHT_DECAY];
    out[ADAGRAD_INITIAL] = values[INITIAL];
}

static const haul__optimizer_kind kind = {
    .name = "adagrad",
    .settings = {{"lr", 0, INFINITY, false},
                 {"lr_decay", 0, INFINITY, false},
                 {"weight_decay", 0, INFINITY, false},
                 {"initial_accumulator_value", 0, INFINITY, false},
                 {"eps", 0, INFINITY, false}},
    .momentum = -1,
    .state_count = 1,
    .state_names = {"sum"},
    .saves_steps = true,
    .states = haul__rule_one_state,
    .kernel = haul__rule_kernel,
    .update = haul__rule_update,
    .operation = &haul__operation_adagrad,
    .kernels = {HAUL__K_adagrad, HAUL__K_adagrad_guarded},
    .scalars = scalars,
};

haul_optimizer *haul_adagrad_with(const haul_adagrad_options *o)
{
    static const char operation[] = "haul_adagrad";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const double values[HAUL__MAX_SETTINGS] = {[LR] = o->lr,
                                               [LR_DECAY] = o->lr_decay,
                                               [WEIGHT_DECAY] = o->weight_decay,
                                               [INITIAL] = o->initial_accumulator_value,
                                               [EPS] = haul__option(o->eps, 1e-10)};
    return haul__optimizer_new(&kind, &(haul__optimizer_source){o->module, o->parameters, o->count}, values, operation);
}
