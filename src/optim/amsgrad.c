/* AMSGrad (Reddi, Kale, Kumar 2018), the form of Adam and AdamW whose denominator never becomes smaller, with the
 * roundings of torch.optim:
 *
 *     m = beta1 m + (1 - beta1) g;  v = beta2 v + (1 - beta2) g g;  n = max(n, v)
 *     p -= lr / (1 - beta1^t) * m / (sqrt(n) / sqrt(1 - beta2^t) + eps)
 *
 * One operation changes the states, the other one the parameter: an operation has not enough operands for both. */
#include "optim/amsgrad.h"

#include "base/assert.h"
#include "core/error.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
#include "optim/adam_kernel.h"
#include "optim/rules/fade_kernel.h"

#ifdef HAUL_KERNEL
#if IS_FLOAT
TEMPLATE(amsgrad_moments)
    const A beta1 = SCALAR(p.beta1), beta2 = SCALAR(p.beta2), rest1 = SCALAR(p.rest1), rest2 = SCALAR(p.rest2);
    const A decay = SCALAR(p.decay);
    FOR_ITEMS(i) {
        A g = LOAD(grad, p.g_at + i);
        if (decay != 0) g = g + decay * LOAD(value, p.p_at + i);
        const A m = fading_mean(beta1 * LOAD(exp_avg, p.m_at + i) + rest1 * g);
        const A v = beta2 * LOAD(exp_avg_sq, p.v_at + i) + rest2 * g * g;
        STORE(exp_avg, p.m_at + i, m);
        STORE(exp_avg_sq, p.v_at + i, v);
        STORE(most, p.n_at + i, M_MAX(LOAD(most, p.n_at + i), v));
    }
END_TEMPLATE

TEMPLATE(amsgrad_step)
    const A eps = SCALAR(p.eps), shrink = SCALAR(p.shrink);
    FOR_ITEMS(i) {
        const A divisor = M_SQRT(LOAD(most, p.n_at + i)) / correction + eps;
        STORE(value, p.p_at + i, LOAD(value, p.p_at + i) * shrink - step_size * LOAD(exp_avg, p.m_at + i) / divisor);
    }
END_TEMPLATE

KERNEL5(amsgrad_moments, adam_params, T, exp_avg, T, exp_avg_sq, T, most, const T, value, const T, grad)
{
    EXPAND(amsgrad_moments)
}

KERNEL6(amsgrad_moments_guarded, adam_params, T, exp_avg, T, exp_avg_sq, T, most, const T, value, const T, grad,
        const F32, found)
{
    if (found[p.found_at] == 0) {
        EXPAND(amsgrad_moments)
    }
}

KERNEL3(amsgrad, adam_params, T, value, const T, exp_avg, const T, most)
{
    const A step_size = SCALAR(p.step_size), correction = SCALAR(p.correction);
    EXPAND(amsgrad_step)
}

/* As adam_guarded. */
KERNEL5(amsgrad_guarded, adam_params, T, value, I64, made, const T, exp_avg, const T, most, const F32, found)
{
    const I64 before = made[p.made_at + p.from];
    const int skip = found[p.found_at] != 0;
    if (ITEMS_BEGIN == 0) made[p.made_at + 1 - p.from] = before + !skip;
    if (!skip) {
        const A t = (A)(before + 1), step_size = SCALAR(p.lr) / -M_EXPM1(t * SCALAR(p.log_beta1));
        const A correction = M_SQRT(-M_EXPM1(t * SCALAR(p.log_beta2)));
        EXPAND(amsgrad_step)
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* ---- the states ---- */

enum { EXP_AVG, EXP_AVG_SQ, MOST, MOMENTS_FROM, MOMENTS_GRAD, MOMENTS_FOUND, MOMENTS_OPERANDS };
enum { PARAMETER, MADE, MEAN, LARGEST, FOUND, OPERANDS };
_Static_assert((int)HAUL__MAX_UPDATES *(int)MOMENTS_OPERANDS <= (int)HAUL__OWN_OPERANDS, "a step takes no memory");

static haul_status change_moments(const haul__call *c, haul_tensor *const *in, void *of_all)
{
    adam_params *params = of_all;
    const bool   guarded = !haul__is_none(in[MOMENTS_FOUND]);
    HAUL__ASSERT(in[EXP_AVG]->count == in[MOST]->count && in[EXP_AVG]->count == in[MOMENTS_GRAD]->count);
    params->items = in[EXP_AVG]->count;
    params->m_at = in[EXP_AVG]->offset;
    params->v_at = in[EXP_AVG_SQ]->offset;
    params->n_at = in[MOST]->offset;
    params->p_at = in[MOMENTS_FROM]->offset;
    params->g_at = in[MOMENTS_GRAD]->offset;
    params->found_at = guarded ? in[MOMENTS_FOUND]->offset : 0;
    return haul__launch_kernel(c, guarded ? HAUL__K_amsgrad_moments_guarded : HAUL__K_amsgrad_moments,
                               in[EXP_AVG]->dtype, .outs = in, .out_count = 3, .ins = in + MOMENTS_FROM,
                               .in_count = 2 + guarded, HAUL__PARAMS(*params), .grain = 8192);
}

static haul_status compute_moments(haul__call *c)
{
    adam_params params = haul__adam_params(haul__attributes(c), c->operands[0]->dtype);
    return haul__step_each(c, change_moments, &params);
}

HAUL__OPERATION(amsgrad_moments) = {
    .name = "haul_amsgrad_moments",
    .operands = {{"exp_avg", .written = true},
                 {"exp_avg_sq", .written = true},
                 {"max_exp_avg_sq", .written = true},
                 {"parameter", .layout = HAUL__ANY_STRIDES},
                 {"grad", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    .dtypes = HAUL__FLOATS,
    .varies = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__amsgrad_settings),
    .repeat = MOMENTS_OPERANDS,
    .infer = haul__infer_step,
    .compute = compute_moments,
    .cost = haul__step_cost,
    .flops = 8,
};

/* ---- the parameter ---- */

static haul_status step_one(const haul__call *c, haul_tensor *const *in, void *of_all)
{
    adam_params *params = of_all;
    const bool   guarded = !haul__is_none(in[FOUND]);
    HAUL__ASSERT(guarded == !haul__is_none(in[MADE]));
    HAUL__ASSERT(in[PARAMETER]->count == in[MEAN]->count && in[PARAMETER]->count == in[LARGEST]->count);
    params->items = in[PARAMETER]->count;
    params->p_at = in[PARAMETER]->offset;
    params->m_at = in[MEAN]->offset;
    params->n_at = in[LARGEST]->offset;
    params->made_at = guarded ? in[MADE]->offset : 0;
    params->found_at = guarded ? in[FOUND]->offset : 0;
    return haul__launch_kernel(c, guarded ? HAUL__K_amsgrad_guarded : HAUL__K_amsgrad, in[PARAMETER]->dtype, .outs = in,
                               .out_count = 1 + guarded, .ins = in + MEAN, .in_count = 2 + guarded,
                               HAUL__PARAMS(*params), .grain = 8192);
}

static haul_status compute_step(haul__call *c)
{
    adam_params params = haul__adam_params(haul__attributes(c), c->operands[PARAMETER]->dtype);
    return haul__step_each(c, step_one, &params);
}

HAUL__OPERATION(amsgrad) = {
    .name = "haul_amsgrad",
    .operands = {{"parameter", .written = true},
                 {"made", .written = true, .optional = true, .accepts = HAUL__ONLY(HAUL_I64)},
                 {"exp_avg", .layout = HAUL__ANY_STRIDES},
                 {"max_exp_avg_sq", .layout = HAUL__ANY_STRIDES},
                 {"found", .optional = true, .accepts = HAUL__ONLY(HAUL_F32)}},
    .dtypes = HAUL__FLOATS,
    .varies = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__amsgrad_settings),
    .repeat = OPERANDS,
    .infer = haul__infer_step,
    .compute = compute_step,
    .cost = haul__step_cost,
    .flops = 6,
};

/* ---- the optimizer ---- */

int haul__amsgrad_kernel(bool guarded, int number)
{
    static const int kernels[2][2] = {{HAUL__K_amsgrad_moments, HAUL__K_amsgrad},
                                      {HAUL__K_amsgrad_moments_guarded, HAUL__K_amsgrad_guarded}};
    return number < 2 ? kernels[guarded][number] : -1;
}

haul_status haul__amsgrad_update(const haul__amsgrad_settings *s, const haul__update *updates, int count)
{
    haul_tensor *moments[HAUL__MAX_UPDATES * MOMENTS_OPERANDS], *operands[HAUL__MAX_UPDATES * OPERANDS];
    const bool   guarded = updates->guard.found != NULL;
    HAUL__ASSERT(count > 0 && count <= HAUL__MAX_UPDATES);
    for (int i = 0; i < count; i++) {
        const haul__update *u = &updates[i];
        haul_tensor **first = moments + (ptrdiff_t)i * MOMENTS_OPERANDS, **second = operands + (ptrdiff_t)i * OPERANDS;
        HAUL__ASSERT(u->states[0] && u->states[1] && u->states[2] && !u->guard.found == !guarded);
        first[EXP_AVG] = second[MEAN] = u->states[0];
        first[EXP_AVG_SQ] = u->states[1];
        first[MOST] = second[LARGEST] = u->states[2];
        first[MOMENTS_FROM] = second[PARAMETER] = u->parameter;
        first[MOMENTS_GRAD] = u->grad;
        first[MOMENTS_FOUND] = second[FOUND] = guarded ? u->guard.found : HAUL_NONE;
        second[MADE] = guarded ? u->guard.made : HAUL_NONE;
    }
    haul_status status = haul__apply(&haul__operation_amsgrad_moments, s, moments, count * MOMENTS_OPERANDS, NULL);
    return status ? status : haul__apply(&haul__operation_amsgrad, s, operands, count * OPERANDS, NULL);
}
