/* Stochastic gradient descent. The order of roundings is that of torch.optim.SGD, whose steps are several passes:
 * g += decay p; v = momentum v; v += (1 - dampening) g; p += -lr v. */
#include <math.h>

#include "core/error.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "optim/optimizer.h"

// clang-format off
/* kernel text begins */
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
        const A v = IS_FIRST ? g : momentum * LOAD(velocity, p.v_at + i) + keep * g;
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
    bool   nesterov;
    bool   first; /* the velocity begins as the gradient; with a guard that is where no step was made */
    int    from;  /* of the guard */
} sgd_settings;

/* ---- a step ---- */

static int kernel_of(const sgd_settings *s, bool guarded)
{
    if (guarded)
        return s->momentum != 0 ? HAUL__K_sgd_momentum_guarded : HAUL__K_sgd_plain_guarded;
    return s->momentum != 0 ? HAUL__K_sgd_momentum : HAUL__K_sgd_plain;
}

static haul_status sgd_prepare(const haul_tensor *parameter, const sgd_settings *settings, bool guarded)
{
    haul_device *device = parameter->storage->device;

    if (!haul__device_computes(device))
        return HAUL_OK;
    return haul__kernel_for(device, kernel_of(settings, guarded), parameter->dtype) ? HAUL_OK : haul_error_status();
}

enum { PARAMETER, VELOCITY, MADE, GRAD, FOUND, OPERANDS };
_Static_assert((int)HAUL__MAX_UPDATES *(int)OPERANDS <= (int)HAUL__OWN_OPERANDS, "a step takes no memory");

/* What is the same for all parameters. */
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

static haul_status step_one(const haul__call *c, const sgd_settings *s, haul_tensor *const *in, sgd_params *params)
{
    haul_tensor         *value = in[PARAMETER];
    haul_dtype           dtype = value->dtype;
    bool                 momentum = !haul__is_none(in[VELOCITY]), guarded = !haul__is_none(in[FOUND]);
    haul_tensor         *outs[] = {value, in[VELOCITY], in[MADE]}, *ins[] = {in[GRAD], in[FOUND]};
    const haul__slot_use slots[] = {HAUL__SLOT_SCALAR(learning_rate, sgd_params, lr, dtype),
                                    HAUL__SLOT_INTEGER(step_parity, sgd_params, from)};
    params->items = value->count;
    params->p_at = value->offset;
    params->v_at = momentum ? in[VELOCITY]->offset : 0;
    params->g_at = in[GRAD]->offset;
    params->found_at = guarded ? in[FOUND]->offset : 0;
    params->made_at = momentum && guarded ? in[MADE]->offset : 0;
    return haul__launch_with_slots(c, kernel_of(s, guarded), dtype, outs, 1 + momentum + (momentum && guarded), ins,
                                   1 + guarded, params, sizeof *params, slots, 2, params->items, 16384);
}

static haul_status compute(haul__call *c)
{
    const sgd_settings *s = haul__attributes(c);
    sgd_params          params = params_of(s, c->operands[PARAMETER]->dtype);
    haul_status         status = HAUL_OK;
    for (int i = 0; i < c->count && !status; i += OPERANDS)
        status = step_one(c, s, c->operands + i, &params);
    return status;
}

/* A step of some parameters, which all have a velocity where momentum is not 0, `found` where there is a guard, and
 * `made` where there are both. */
HAUL__OPERATION(sgd) = {
    .name = "haul_sgd",
    .operands = {{"parameter", .written = true},
                 {"velocity", .written = true, .optional = true},
                 {"made", .written = true, .optional = true, .accepts = HAUL__ONLY(HAUL_I64)},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(sgd_settings),
    .repeat = OPERANDS,
    .infer = haul__infer_step,
    .compute = compute,
    .cost = haul__step_cost,
    .flops = 6,
};

/* ---- the optimizer ---- */

static sgd_settings settings_of(const haul_optimizer *o)
{
    sgd_settings s = *(const sgd_settings *)o->settings;

    s.lr = o->lr;
    return s;
}

static bool has_state(const haul_optimizer *o)
{
    return settings_of(o).momentum != 0;
}

static haul_status prepare(haul_optimizer *o, haul__optimizer_entry *e, bool guarded)
{
    sgd_settings s = settings_of(o);

    return sgd_prepare(e->parameter, &s, guarded);
}

static haul_status update(haul_optimizer *o, const haul__update *updates, int count)
{
    haul_tensor *operands[HAUL__MAX_UPDATES * OPERANDS], **in = operands;
    sgd_settings s = settings_of(o);
    bool         momentum = s.momentum != 0, guarded = updates->guard.found != NULL;

    s.first = updates->first;
    s.from = guarded ? updates->guard.from : 0;
    for (int i = 0; i < count; i++, in += OPERANDS) {
        const haul__update *u = &updates[i];
        in[PARAMETER] = u->entry->parameter;
        in[VELOCITY] = momentum ? u->entry->states[0] : HAUL_NONE;
        in[MADE] = momentum && guarded ? u->guard.made : HAUL_NONE;
        in[GRAD] = u->grad;
        in[FOUND] = guarded ? u->guard.found : HAUL_NONE;
    }
    return haul__apply(&haul__operation_sgd, &s, operands, count * OPERANDS, NULL);
}

static const haul__optimizer_kind kind = {
    .name = "sgd",
    .state_count = 1,
    .state_names = {"momentum"},
    .has_state = has_state,
    .prepare = prepare,
    .update = update,
};

haul_optimizer *haul_sgd_with(const haul_sgd_options *options)
{
    static const char operation[] = "haul_sgd";

    if (!options) {
        haul__fail_null(operation, "options");
        return NULL;
    }
    if (haul__optimizer_number(options->lr, 0, INFINITY, operation, "lr") ||
        haul__optimizer_number(options->momentum, 0, INFINITY, operation, "momentum") ||
        haul__optimizer_number(options->dampening, -INFINITY, INFINITY, operation, "dampening") ||
        haul__optimizer_number(options->weight_decay, 0, INFINITY, operation, "weight_decay"))
        return NULL;
    if (options->nesterov && (options->momentum == 0 || options->dampening != 0)) {
        haul__fail(HAUL_INVALID_ARGUMENT, operation, "nesterov", "nesterov needs a momentum above 0 and no dampening");
        return NULL;
    }
    sgd_settings s = {.momentum = options->momentum,
                      .dampening = options->dampening,
                      .weight_decay = options->weight_decay,
                      .nesterov = options->nesterov};
    return haul__optimizer_new(&kind, options->module, options->lr, &s, sizeof s, operation);
}
