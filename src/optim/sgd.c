/* Stochastic gradient descent. The order of roundings is that of torch.optim.SGD, whose steps are several passes:
 * g += decay p; v = momentum v; v += (1 - dampening) g; p += -lr v. */
#include <math.h>

#include "base/assert.h"
#include "core/error.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "optim/optimizer.h"

// clang-format off
/* kernel text begins */
#include "optim/rules/fade_kernel.h"

/* Scalars are bits of type A; keep is 1 - dampening. */
typedef struct sgd_params {
    I64 items;
    I64 p_at, v_at, g_at;
    I64 found_at, made_at; /* of the guarded forms */
    U64 lr, momentum, keep, decay;
    I32 nesterov, first;
    I32 from, reserved;
} sgd_params;

#ifdef HAUL_KERNEL
#if IS_FLOAT
TEMPLATE(sgd_plain)
    const A lr = SCALAR(p.lr), decay = SCALAR(p.decay);
    FOR_ITEMS(i) {
        const A w = LOAD(value, p.p_at + i);
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        STORE(value, p.p_at + i, w - lr * g);
    }
END_TEMPLATE

TEMPLATE(sgd_momentum, IS_FIRST)
    const A lr = SCALAR(p.lr), momentum = SCALAR(p.momentum), keep = SCALAR(p.keep), decay = SCALAR(p.decay);
    FOR_ITEMS(i) {
        const A w = LOAD(value, p.p_at + i);
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * w;
        const A v = fading_mean(IS_FIRST ? g : momentum * LOAD(velocity, p.v_at + i) + keep * g);
        STORE(velocity, p.v_at + i, v);
        STORE(value, p.p_at + i, w - lr * (p.nesterov ? g + momentum * v : v));
    }
END_TEMPLATE

KERNEL2(sgd_plain, sgd_params, T, value, const T, grad)
{
    EXPAND(sgd_plain)
}

KERNEL3(sgd_momentum, sgd_params, T, value, T, velocity, const T, grad)
{
    EXPAND(sgd_momentum, p.first)
}

KERNEL3(sgd_plain_guarded, sgd_params, T, value, const T, grad, const F32, found)
{
    if (found[p.found_at] == 0) {
        EXPAND(sgd_plain)
    }
}

/* The piece that has item 0 counts; all read the number of before. */
KERNEL5(sgd_momentum_guarded, sgd_params, T, value, T, velocity, I64, made, const T, grad, const F32, found)
{
    const I64 before = made[p.made_at + p.from];
    const int skip = found[p.found_at] != 0;
    if (ITEMS_BEGIN == 0) made[p.made_at + 1 - p.from] = before + !skip;
    if (!skip) {
        EXPAND(sgd_momentum, (before == 0))
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

typedef struct sgd_settings {
    double lr, momentum, dampening, weight_decay;
    int    from; /* the guard's */
    bool   nesterov;
    bool   first; /* the velocity starts as the gradient; with a guard, if no step was made */
    bool   reserved[2];
} sgd_settings;

/* ---- a step ---- */

static int kernel_of(const sgd_settings *s, bool guarded)
{
    if (guarded)
        return s->momentum != 0 ? HAUL__K_sgd_momentum_guarded : HAUL__K_sgd_plain_guarded;
    return s->momentum != 0 ? HAUL__K_sgd_momentum : HAUL__K_sgd_plain;
}

enum { PARAMETER, VELOCITY, MADE, GRAD, FOUND, OPERANDS };
_Static_assert((int)HAUL__MAX_UPDATES *(int)OPERANDS <= (int)HAUL__OWN_OPERANDS, "a step takes no memory");

/* The arguments that all parameters share. */
static sgd_params params_of(const sgd_settings *s, haul_dtype dtype)
{
    return (sgd_params){.lr = haul__scalar_bits(dtype, s->lr),
                        .momentum = haul__scalar_bits(dtype, s->momentum),
                        .keep = haul__scalar_bits(dtype, 1 - s->dampening),
                        .decay = haul__scalar_bits(dtype, s->weight_decay),
                        .nesterov = s->nesterov,
                        .first = s->first,
                        .from = s->from};
}

static haul_status step_one(const haul__call *c, haul_tensor *const *in, void *of_all)
{
    const sgd_settings *s = haul__attributes_of(c);
    sgd_params         *params = of_all;
    haul_tensor        *value = in[PARAMETER];
    haul_dtype          dtype = value->dtype;
    bool                momentum = !haul__is_none(in[VELOCITY]), guarded = !haul__is_none(in[FOUND]);
    haul_tensor        *outs[] = {value, in[VELOCITY], in[MADE]}, *ins[] = {in[GRAD], in[FOUND]};
    HAUL__ASSERT(momentum == (s->momentum != 0));
    HAUL__ASSERT((momentum && guarded) == !haul__is_none(in[MADE]));
    params->items = value->count;
    params->p_at = value->offset;
    params->v_at = momentum ? in[VELOCITY]->offset : 0;
    params->g_at = in[GRAD]->offset;
    params->found_at = guarded ? in[FOUND]->offset : 0;
    params->made_at = momentum && guarded ? in[MADE]->offset : 0;
    return haul__launch_kernel(c, kernel_of(s, guarded), dtype, .outs = outs,
                               .out_count = 1 + momentum + (momentum && guarded), .ins = ins, .in_count = 1 + guarded,
                               HAUL__PARAMS(*params), .grain = 16384);
}

static haul_status compute(haul__call *c)
{
    sgd_params params = params_of(haul__attributes(c), c->operands[PARAMETER]->dtype);
    return haul__step_each(c, step_one, &params);
}

/* A step of some parameters. All have a velocity if momentum is not 0, `found` if there is a guard, and `made` if there
 * are both. */
HAUL__OPERATION(sgd) = {
    .name = "haul_sgd",
    .operands = {{"parameter", .written = true},
                 {"velocity", .written = true, .optional = true},
                 {"made", .written = true, .optional = true, .accepts = HAUL__ONLY(HAUL_I64)},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    .dtypes = HAUL__FLOATS,
    .varies = true,
    .attributes_size = HAUL__ATTRIBUTES(sgd_settings),
    .repeat = OPERANDS,
    .infer = haul__infer_step,
    .compute = compute,
    .cost = haul__step_cost,
    .flops = 6,
};

/* ---- the optimizer ---- */

enum { LR, MOMENTUM, DAMPENING, WEIGHT_DECAY, NESTEROV };

static sgd_settings settings_of(const double *values)
{
    return (sgd_settings){.lr = values[LR],
                          .momentum = values[MOMENTUM],
                          .dampening = values[DAMPENING],
                          .weight_decay = values[WEIGHT_DECAY],
                          .nesterov = values[NESTEROV] != 0};
}

static unsigned states(const double *values)
{
    return values[MOMENTUM] != 0;
}

static haul_status check(const double *values, const char *operation)
{
    if (values[NESTEROV] == 0 || (values[MOMENTUM] != 0 && values[DAMPENING] == 0))
        return HAUL_OK;
    return haul__fail(HAUL_INVALID_ARGUMENT, operation, "nesterov",
                      "nesterov needs a momentum above 0 and no dampening");
}

static int kernel(const haul__optimizer_kind *kind, const double *values, bool guarded, int number)
{
    (void)kind;
    sgd_settings s = settings_of(values);
    return number ? -1 : kernel_of(&s, guarded);
}

static haul_status update(const haul__optimizer_kind *kind, const double *values, const haul__update *updates,
                          int count)
{
    (void)kind;
    haul_tensor *operands[HAUL__MAX_UPDATES * OPERANDS], **in = operands;
    sgd_settings s = settings_of(values);
    bool         momentum = s.momentum != 0, guarded = updates->guard.found != NULL;
    HAUL__ASSERT(count > 0 && count <= HAUL__MAX_UPDATES);
    s.first = updates->first;
    s.from = guarded ? updates->guard.from : 0;
    for (int i = 0; i < count; i++, in += OPERANDS) {
        const haul__update *u = &updates[i];
        HAUL__ASSERT(!u->guard.found == !guarded && u->first == updates->first);
        in[PARAMETER] = u->parameter;
        in[VELOCITY] = momentum ? u->states[0] : HAUL_NONE;
        in[MADE] = momentum && guarded ? u->guard.made : HAUL_NONE;
        in[GRAD] = u->grad;
        in[FOUND] = guarded ? u->guard.found : HAUL_NONE;
    }
    return haul__apply(&haul__operation_sgd, &s, operands, count * OPERANDS, NULL);
}

static const haul__optimizer_kind sgd = {
    .name = "sgd",
    .settings = {{"lr", 0, INFINITY, false},
                 {"momentum", 0, INFINITY, false},
                 {"dampening", -INFINITY, INFINITY, false},
                 {"weight_decay", 0, INFINITY, false},
                 {"nesterov", 0, 2, true}},
    .momentum = MOMENTUM,
    .state_count = 1,
    .state_names = {"momentum"},
    .states = states,
    .check = check,
    .kernel = kernel,
    .update = update,
};

haul_optimizer *haul_sgd_with(const haul_sgd_options *o)
{
    static const char operation[] = "haul_sgd";
    if (!o) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    const double values[HAUL__MAX_SETTINGS] = {[LR] = o->lr,
                                               [MOMENTUM] = o->momentum,
                                               [DAMPENING] = o->dampening,
                                               [WEIGHT_DECAY] = o->weight_decay,
                                               [NESTEROV] = o->nesterov};
    return haul__optimizer_new(&sgd, &(haul__optimizer_source){o->module, o->parameters, o->count}, values, operation);
}
