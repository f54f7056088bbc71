/* Group and instance normalisation: layer normalisation of rows that are the groups of an example. */
#include "base/assert.h"
#include "core/option.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "ops/normalise/vector.h"

enum { X, WEIGHT, BIAS };

typedef struct group_norm_attributes {
    int64_t groups;
    double  eps;
} group_norm_attributes;

/* [C] as [C, 1, 1 ...], which broadcasts to [N, C, ...]. */
static haul_tensor *of_channels(haul_tensor *t, const haul_shape *x)
{
    haul_shape shape = {.ndim = x->ndim - 1, .dims = {x->dims[1]}};
    for (int d = 1; d < shape.ndim; d++)
        shape.dims[d] = 1;
    return haul_reshape(haul__widened(t), shape);
}

/* Rows are the groups of an example, in f32 for f16 and bf16. */
static haul_status normalised(haul__call *c, int64_t groups, double eps)
{
    haul_tensor     *x = c->operands[X];
    const haul_shape shape = x->shape;
    int64_t          row = groups ? shape.dims[1] / groups : 0;
    for (int i = WEIGHT; i <= BIAS; i++)
        if (haul__check_vector(c, i, 1))
            return haul_error_status();
    if (!(eps >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "eps", "eps is %g; 0 or more is expected", eps);
    HAUL__ASSERT(!groups || shape.dims[1] % groups == 0);
    for (int d = 2; d < shape.ndim; d++)
        if (!haul__mul_size(row, shape.dims[d], &row))
            return haul__refuse_shape(c, X, "fewer elements are expected");
    haul_tensor *rows = haul_reshape(haul__widened(x), HAUL_SHAPE(shape.dims[0], groups, row));
    haul_tensor *y = haul_reshape(haul_layer_norm(rows, .eps = eps == 0 ? HAUL_ZERO : eps), shape);
    if (haul__has(c, WEIGHT))
        y = haul_mul(y, of_channels(c->operands[WEIGHT], &shape));
    if (haul__has(c, BIAS))
        y = haul_add(y, of_channels(c->operands[BIAS], &shape));
    HAUL__ASSERT(haul__failed(y) || y->count == x->count);
    c->results[0] = haul__failed(y) || y->dtype == x->dtype ? y : haul_cast(y, x->dtype);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

static haul_status group_norm(haul__call *c)
{
    const group_norm_attributes *a = haul__attributes(c);
    const haul_shape            *x = &c->operands[X]->shape;
    if (x->ndim < 2)
        return haul__refuse_shape(c, X, "[N, C, ...] is expected");
    if (a->groups < 1 || x->dims[1] % a->groups) {
        char text[96];
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "groups",
                          "groups is %lld, and x of shape %s has %lld channels; a number that divides them is expected",
                          (long long)a->groups, haul__shape_text(x, text, sizeof text), (long long)x->dims[1]);
    }
    return normalised(c, a->groups, a->eps);
}

static haul_status instance_norm(haul__call *c)
{
    const group_norm_attributes *a = haul__attributes(c);
    if (c->operands[X]->shape.ndim < 3)
        return haul__refuse_shape(c, X, "[N, C, L ...] is expected");
    return normalised(c, c->operands[X]->shape.dims[1], a->eps);
}

#define NORM                                                                                                           \
    .operands = {{"x"}, {"weight", .optional = true}, {"bias", .optional = true}}, .results = {{"y"}},                 \
    .rule = HAUL__FLOATED, .autocast = HAUL__WIDE, .attributes_size = HAUL__ATTRIBUTES(group_norm_attributes)

HAUL__OPERATION(group_norm) = {.name = "haul_group_norm", NORM, .compose = group_norm};
HAUL__OPERATION(instance_norm) = {.name = "haul_instance_norm", NORM, .compose = instance_norm};

haul_tensor *haul_group_norm_with(haul_tensor *x, const haul_group_norm_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_group_norm);
    group_norm_attributes a = {o->groups, haul__option(o->eps, 1e-5)};
    return HAUL__APPLY(group_norm, &a, x, haul__optional(o->weight), haul__optional(o->bias));
}

haul_tensor *haul_instance_norm_with(const haul_instance_norm_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_instance_norm);
    group_norm_attributes a = {0, haul__option(o->eps, 1e-5)};
    return HAUL__APPLY(instance_norm, &a, o->x, haul__optional(o->weight), haul__optional(o->bias));
}
