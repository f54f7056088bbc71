/* RMSprop (Tieleman, Hinton 2012), centered (Graves 2013) and with momentum. The order of roundings is that of
 * torch.optim.RMSprop:
 *
 *     s = alpha s + (1 - alpha) g g
 *     centered: a = alpha a + (1 - alpha) g, d = sqrt(max(s - a a, u s)) + eps; else d = sqrt(s) + eps
 *     momentum: b = momentum b + g / d, p -= lr b; else p -= lr g / d
 *
 * u is the rounding error of the state. It is not in PyTorch, where s - a a becomes negative, and then NaN, if
 * gradients hardly change. */
#include <math.h>

#include "base/assert.h"
#include "core/error.h"
#include "core/option.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "optim/optimizer.h"

// clang-format off
/* kernel text begins */
#include "optim/rules/fade_kernel.h"

/* Scalars are bits of type A; rest is 1 - alpha. Offsets of states that are not there are -1. */
typedef struct rmsprop_params {
    I64 items;
    I64 p_at, s_at, a_at, b_at, g_at;
    I64 found_at; /* of the guarded form */
    U64 lr, alpha, rest, eps, momentum, decay;
} rmsprop_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
/* The relative error of a rounding to T. */
FUNC A rmsprop_rounding(void)
{
#if defined(HAUL_KERNEL_DTYPE_f64)
    return 1.1102230246251565e-16;
#elif defined(HAUL_KERNEL_DTYPE_f32)
    return 5.96046448e-8f;
#elif defined(HAUL_KERNEL_DTYPE_f16)
    return 4.8828125e-4f;
#else
    return 3.90625e-3f;
#endif
}
TEMPLATE(rmsprop_steps)
    const A lr = SCALAR(p.lr), alpha = SCALAR(p.alpha), rest = SCALAR(p.rest), eps = SCALAR(p.eps);
    const A momentum = SCALAR(p.momentum), decay = SCALAR(p.decay);
    FOR_ITEMS(i) {
        const A w = LOAD(value, p.p_at + i);
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        const A s = alpha * LOAD(square_avg, p.s_at + i) + rest * g * g;
        A spread = s;
        STORE(square_avg, p.s_at + i, s);
        if (p.a_at >= 0) {
            const A a = fading_mean(alpha * LOAD(grad_avg, p.a_at + i) + rest * g);
            STORE(grad_avg, p.a_at + i, a);
            spread = M_MAX(s - a * a, s * rmsprop_rounding());
        }
        A step = (p.b_at >= 0 ? g : lr * g) / (M_SQRT(spread) + eps);
        if (p.b_at >= 0) {
            const A b = fading_mean(momentum * LOAD(buffer, p.b_at + i) + step);
            STORE(buffer, p.b_at + i, b);
            step = lr * b;
        }
        STORE(value, p.p_at + i, w - step);
    }
END_TEMPLATE

KERNEL5(rmsprop, rmsprop_params, T, value, T, square_avg, T, grad_avg, T, buffer, const T, grad)
{
    EXPAND(rmsprop_steps)
}

KERNEL6(rmsprop_guarded, rmsprop_params, T, value, T, square_avg, T, grad_avg, T, buffer, const T, grad,
        const F32, found)
{
    if (found[p.found_at] == 0) {
        EXPAND(rmsprop_steps)
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

typedef struct rmsprop_settings {
    double lr, alpha, eps, momentum, weight_decay;
} rmsprop_settings;

/* ---- a step ---- */

enum { PARAMETER, SQUARE_AVG, GRAD_AVG, BUFFER, GRAD, FOUND, OPERANDS };
_Static_assert((int)HAUL__MAX_UPDATES *(int)OPERANDS <= (int)HAUL__OWN_OPERANDS, "a step takes no memory");

static rmsprop_params params_of(const rmsprop_settings *s, haul_dtype dtype)
{
    return (rmsprop_params){.lr = haul__scalar_bits(dtype, s->lr),
                            .alpha = haul__scalar_bits(dtype, s->alpha),
                            .rest = haul__scalar_bits(dtype, 1 - s->alpha),
                            .eps = haul__scalar_bits(dtype, s->eps),
                            .momentum = haul__scalar_bits(dtype, s->momentum),
                            .decay = haul__scalar_bits(dtype, s->weight_decay)};
}

static haul_status step_one(const haul__call *c, haul_tensor *const *in, void *of_all)
{
    rmsprop_params *params = of_all;
    haul_dtype      dtype = in[PARAMETER]->dtype;
    bool            guarded = !haul__is_none(in[FOUND]), centered = !haul__is_none(in[GRAD_AVG]);
    bool            momentum = !haul__is_none(in[BUFFER]);
    haul_tensor    *any = in[SQUARE_AVG]; /* stands in for an absent state */
    haul_tensor    *outs[] = {in[PARAMETER], any, centered ? in[GRAD_AVG] : any, momentum ? in[BUFFER] : any};
    HAUL__ASSERT(!haul__is_none(any) && in[PARAMETER]->count == any->count);
    HAUL__ASSERT(in[PARAMETER]->count == in[GRAD]->count);
    params->items = in[PARAMETER]->count;
    params->p_at = in[PARAMETER]->offset;
    params->s_at = in[SQUARE_AVG]->offset;
    params->a_at = centered ? in[GRAD_AVG]->offset : -1;
    params->b_at = momentum ? in[BUFFER]->offset : -1;
    params->g_at = in[GRAD]->offset;
    params->found_at = guarded ? in[FOUND]->offset : 0;
    return haul__launch_kernel(c, guarded ? HAUL__K_rmsprop_guarded : HAUL__K_rmsprop, dtype, .outs = outs,
                               .out_count = 4, .ins = in + GRAD, .in_count = 1 + guarded, HAUL__PARAMS(*params),
                               .grain = 8192);
}

static haul_status compute(haul__call *c)
{
    rmsprop_params params = params_of(haul__attributes(c), c->operands[PARAMETER]->dtype);
    return haul__step_each(c, step_one, &params);
}

/* A step of some parameters. grad_avg exists for centered steps, momentum_buffer with momentum. */
HAUL__OPERATION(rmsprop) = {
    .name = "haul_rmsprop",
    .operands = {{"parameter", .written = true},
                 {"square_avg", .written = true},
                 {"grad_avg", .written = true, .optional = true},
                 {"momentum_buffer", .written = true, .optional = true},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    .dtypes = HAUL__FLOATS,
    .varies = true,
    .attributes_size = HAUL__ATTRIBUTES(rmsprop_settings),
    .repeat = OPERANDS,
    .infer = haul__infer_step,
    .compute = compute,
    .cost = haul__step_cost,
    .flops = 12,
};

/* ---- the optimizer ---- */

enum { LR, ALPHA, EPS, MOMENTUM, WEIGHT_DECAY, CENTERED };

static unsigned states(const double *values)
{
    return 1u | (values[CENTERED] != 0 ? 2u : 0) | (values[MOMENTUM] != 0 ? 4u : 0);
}

static int kernel(const haul__optimizer_kind *kind, const double *values, bool guarded, int number)
{
    (void)kind;
    (void)values;
    return number ? -1 : guarded ? HAUL__K_rmsprop_guarded : HAUL__K_rmsprop;
}

static haul_status update(const haul__optimizer_kind *kind, const double *values, const haul__update *updates,
                          int count)
{
    (void)kind;
    haul_tensor           *operands[HAUL__MAX_UPDATES * OPERANDS], **in = operands;
    const unsigned         used = states(values);
    const rmsprop_settings s = {.lr = values[LR],
                                .alpha = values[ALPHA],
                                .eps = values[EPS],
                                .momentum = values[MOMENTUM],
                                .weight_decay = values[WEIGHT_DECAY]};
    HAUL__ASSERT(count > 0 && count <= HAUL__MAX_UPDATES);
    for (int i = 0; i < count; i++, in += OPERANDS) {
        const haul__update *u = &updates[i];
        HAUL__ASSERT(!u->guard.found == !updates->guard.found);
        in[PARAMETER] = u->parameter;
        for (int k = 0; k < 3; k++)
            in[SQUARE_AVG + k] = used & 1u << k ? u->states[k] : HAUL_NONE;
        in[GRAD] = u->grad;
        in[FOUND] = u->guard.found ? u->guard.found : HAUL_NONE;
    }
    return haul__apply(&haul__operation_rmsprop, &s, operands, count * OPERANDS, NULL);
}

static const haul__optimizer_kind rmsprop = {
    .name = "rmsprop",
    .settings = {{"lr", 0, INFINITY, false},
                 {"alpha", 0, INFINITY, false},
                 {"eps", 0, INFINITY, false},
                 {"momentum", 0, INFINITY, false},
                 {"weight_decay", 0, INFINITY, false},
                 {"centered", 0, 2, true}},
    .momentum = MOMENTUM,
    .state_count = 3,
    .state_names = {"square_avg", "grad_avg", "momentum_buffer"},
    .states = states,
    .kernel = kernel,
    .update = update,
};

haul_optimizer *haul_rmsprop_with(const haul_rmsprop_options *o)
{
    static const char operation[] = "haul_rmsprop";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const double values[HAUL__MAX_SETTINGS] = {[LR] = o->lr,
                                               [ALPHA] = haul__option(o->alpha, 0.99),
                                               [EPS] = haul__option(o->eps, 1e-8),
                                               [MOMENTUM] = o->momentum,
                                               [WEIGHT_DECAY] = o->weight_decay,
                                               [CENTERED] = o->centered};
    return haul__optimizer_new(&rmsprop, &(haul__optimizer_source){o->module, o->parameters, o->count}, values,
                               operation);
}
