/* Covariances and correlation coefficients: products of centred rows. */
#include <haul/statistics.h>
#include <math.h>

#include "base/assert.h"
#include "core/option.h"
#include "engine/operation.h"

static haul_status give(haul__call *c, haul_tensor *y)
{
    c->results[0] = y;
    return haul__status_of(y);
}

typedef struct cov_attributes {
    double correction;
} cov_attributes;

static haul_status compose_cov(haul__call *c)
{
    const cov_attributes *a = haul__attributes(c);
    haul_tensor          *x = c->operands[0];
    if (x->shape.ndim != 1 && x->shape.ndim != 2)
        return haul__refuse_shape(c, 0, "[variables, observations] or [observations] is expected");
    haul_tensor *rows = x->shape.ndim == 1 ? haul_unsqueeze(x, 0) : x;
    const double n = (double)x->shape.dims[x->shape.ndim - 1];
    haul_tensor *centred = haul_sub(rows, haul_mean(rows, HAUL_AXES(1), .keepdim = true));
    haul_tensor *products = haul_matmul(centred, haul_transpose(centred, 0, 1));
    haul_tensor *y = haul_div_scalar(products, fmax(n - a->correction, 0));
    return give(c, x->shape.ndim == 1 ? haul_reshape(y, HAUL_SCALAR_SHAPE) : y);
}

HAUL__OPERATION(cov) = {
    .name = "haul_cov",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .attributes_size = HAUL__ATTRIBUTES(cov_attributes),
    .compose = compose_cov,
};

haul_tensor *haul_cov_with(const haul_cov_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_cov);
    return HAUL__APPLY(cov, (&(cov_attributes){haul__option(o->correction, 1)}), o->x);
}

/* The covariances of rows of length 1: the bounds hold also where they are rounded. */
static haul_status compose_corrcoef(haul__call *c)
{
    haul_tensor *x = c->operands[0], *y = haul_cov(x);
    if (haul__failed(y) || haul_set_device(c->device)) /* the call's scope restores the device */
        return haul_error_status();
    if (y->shape.ndim == 0)
        return give(c, haul_div(y, y));
    const int64_t n = y->shape.dims[0];
    HAUL__ASSERT(y->shape.ndim == 2 && y->shape.dims[1] == n);
    haul_tensor *at = haul_mul_scalar(haul_arange_i64(0, n, 1), (double)(n + 1)); /* of the diagonal */
    haul_tensor *deviation = haul_sqrt(haul_index_select(haul_reshape(y, HAUL_SHAPE(n * n)), 0, at));
    y = haul_div(haul_div(y, haul_unsqueeze(deviation, 1)), haul_unsqueeze(deviation, 0));
    return give(c, haul_clamp(y, -1, 1));
}

HAUL__OPERATION(corrcoef) = {
    .name = "haul_corrcoef",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .compose = compose_corrcoef,
};

haul_tensor *haul_corrcoef(haul_tensor *x)
{
    return HAUL__APPLY(corrcoef, NULL, x);
}
