/* Negative logarithms of likelihoods of Poisson and normal distributions, composed of operations with PyTorch's
 * formulas. */
#include "core/option.h"
#include "engine/copy.h"
#include "ops/loss/loss.h"

typedef struct likelihood_attributes {
    haul_reduction reduction;
    bool           no_log, full;
    bool           reserved[2];
    double         eps;
} likelihood_attributes;

#define LOG_OF_2_PI 1.8378770664093453

/* ---- haul_poisson_nll_loss ---- */

/* Stirling's approximation of log(target!), and 0 where the target is at most 1. */
static haul_tensor *stirling(haul_tensor *target)
{
    haul_tensor *t = haul_maximum_scalar(target, 1), *log_t = haul_log(t);
    haul_tensor *y = haul_add(haul_sub(haul_mul(t, log_t), t), haul_affine(log_t, 0.5, LOG_OF_2_PI / 2));
    return haul_masked_fill(y, haul_le_scalar(target, 1), 0);
}

static haul_status poisson_nll_loss(haul__call *c)
{
    const likelihood_attributes *a = haul__attributes(c);
    if (haul__check_reduction(c, a->reduction, false) || haul__check_pair(c))
        return haul_error_status();
    if (!(a->eps >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "eps", "eps is %g; 0 or more is expected", a->eps);
    haul_tensor *x = haul__widened(c->operands[0]), *target = haul__widened(c->operands[1]);
    haul_tensor *rate = a->no_log ? x : haul_exp(x), *log_rate = a->no_log ? haul_log(haul_add_scalar(x, a->eps)) : x;
    haul_tensor *losses = haul_sub(rate, haul_mul(target, log_rate));
    return haul__give_reduced(c, a->reduction, a->full ? haul_add(losses, stirling(target)) : losses);
}

HAUL__OPERATION(poisson_nll_loss) = {
    .name = "haul_poisson_nll_loss",
    .operands = {{"x"}, {"target"}},
    .results = {{"loss"}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(likelihood_attributes),
    .compose = poisson_nll_loss,
};

haul_tensor *haul_poisson_nll_loss_with(haul_tensor *x, const haul_poisson_nll_loss_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_poisson_nll_loss);
    likelihood_attributes a = {
        .reduction = o->reduction, .no_log = o->no_log, .full = o->full, .eps = haul__option(o->eps, 1e-8)};
    return HAUL__APPLY(poisson_nll_loss, &a, x, o->target);
}

/* ---- haul_gaussian_nll_loss ---- */

/* The variances with x's number of dimensions; NULL if the shape does not fit. */
static haul_tensor *variances(haul__call *c)
{
    haul_tensor *var = c->operands[2];
    haul_shape   shape = c->operands[0]->shape;
    if (haul__shape_equal(&var->shape, &shape))
        return haul__widened(var);
    if (shape.ndim) {
        shape.dims[shape.ndim - 1] = 1;
        if (haul__shape_equal(&var->shape, &shape))
            return haul__widened(var);
        shape.ndim--;
        if (haul__shape_equal(&var->shape, &shape))
            return haul_unsqueeze(haul__widened(var), -1);
    }
    haul__refuse_shape(c, 2, "the shape of x is expected, or that with a last dimension of 1, or without the last one");
    return NULL;
}

/* max(var, eps), with a gradient of 1 everywhere. */
static haul_tensor *at_least(haul_tensor *var, double eps)
{
    haul_tensor *fixed = haul_detach(var);
    return haul_add(var, haul_masked_fill(haul_affine(fixed, -1, eps), haul_ge_scalar(fixed, eps), 0));
}

static haul_status gaussian_nll_loss(haul__call *c)
{
    const likelihood_attributes *a = haul__attributes(c);
    haul_tensor                 *var;
    if (haul__check_reduction(c, a->reduction, false) || haul__check_pair(c) || !(var = variances(c)))
        return haul_error_status();
    if (!(a->eps > 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "eps", "eps is %g; a number above 0 is expected",
                          a->eps);
    haul_tensor *v = at_least(var, a->eps);
    haul_tensor *square = haul_square(haul_sub(haul__widened(c->operands[0]), haul__widened(c->operands[1])));
    haul_tensor *losses = haul_affine(haul_add(haul_div(square, v), haul_log(v)), 0.5, a->full ? LOG_OF_2_PI / 2 : 0);
    return haul__give_reduced(c, a->reduction, losses);
}

HAUL__OPERATION(gaussian_nll_loss) = {
    .name = "haul_gaussian_nll_loss",
    .operands = {{"x"}, {"target"}, {"var"}},
    .results = {{"loss"}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(likelihood_attributes),
    .compose = gaussian_nll_loss,
};

haul_tensor *haul_gaussian_nll_loss_with(haul_tensor *x, haul_tensor *target, const haul_gaussian_nll_loss_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_gaussian_nll_loss);
    likelihood_attributes a = {.reduction = o->reduction, .full = o->full, .eps = haul__option(o->eps, 1e-6)};
    return HAUL__APPLY(gaussian_nll_loss, &a, x, target, o->var);
}
