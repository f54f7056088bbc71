/* The gradient of batch normalisation: an operation with its own kernels and, if it is to be differentiated again, a
 * composition of operations. */
#include "base/assert.h"
#include "ops/normalise/batch_norm.h"

enum { X, WEIGHT, BIAS }; /* operands of the operation */

/* ---- with kernels ---- */

static haul_status infer(haul__call *c)
{
    const haul__batch_norm_backward *a = haul__attributes(c);
    const haul_tensor               *x = c->operands[X];
    if (!a->wants_dx)
        haul__leave_out(c, 0);
    else if (haul__describe_like(c, 0, x->dtype, &x->shape, x))
        return haul_error_status();
    return haul__describe(c, 1, haul__sum_dtype(x->dtype), &HAUL_SHAPE(2, x->shape.dims[1]));
}

/* x and g are read for the sums, and again for dx. */
static haul__cost cost(const haul__call *c)
{
    const haul__batch_norm_backward *a = haul__attributes_of(c);
    const haul_tensor               *x = c->operands[X];
    return (haul__cost){.flops = (a->wants_dx ? 11.0 : 5.0) * (double)x->count,
                        .bytes = haul__call_bytes(c) + (a->wants_dx ? 2 * (int64_t)haul_tensor_bytes(x) : 0)};
}

HAUL__OPERATION(batch_norm_backward) = {
    .name = "haul_batch_norm_backward",
    .operands = {{"x", .layout = HAUL__BATCH_FORMAT},
                 {"g", .layout = HAUL__ANY_STRIDES},
                 {"stats", .accepts = HAUL__FLOATS},
                 {"weight", .optional = true, .accepts = HAUL__FLOATS}},
    .results = {{"dx"}, {"sums"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__batch_norm_backward),
    .infer = infer,
    .compute = haul__batch_norm_compute_backward,
    .cost = cost,
};

/* ---- composed ---- */

/* The sum or mean over all axes but 1, which are kept with size 1. */
static haul_tensor *over_channels(haul_tensor *x, bool mean)
{
    haul_reduce_options options = {.x = x, .keepdim = true};
    haul_axes          *axes = &options.haul__axes;
    if (haul__failed(x))
        return NULL;
    for (int d = 0; d < x->shape.ndim; d++)
        if (d != 1)
            axes->axes[axes->count++] = d;
    return mean ? haul_mean_with(&options) : haul_sum_with(&options);
}

/* [C] as [1, C, 1 ...]. */
static haul_tensor *per_channel(haul_tensor *t, int ndim)
{
    haul_shape shape = {.ndim = ndim};
    HAUL__ASSERT(2 <= ndim && ndim <= HAUL_MAX_DIMS);
    for (int d = 0; d < ndim; d++)
        shape.dims[d] = d == 1 ? -1 : 1;
    return haul_reshape(t, shape);
}

/* Outside training the mean and 1 / sqrt(var + eps) are constants: the first rows of the saved statistics. */
static void composed(haul__gradient *c, bool training, double eps)
{
    haul_tensor *x = c->saved[X], *weight = c->saved[WEIGHT];
    int          ndim = x->shape.ndim;
    HAUL__ASSERT(ndim >= 2 && (training || !haul__is_none(c->saved_results[1])));
    haul_shape   channels = HAUL_SHAPE(x->shape.dims[1]);
    haul_tensor *g = c->results[0], *given = training ? NULL : haul_detach(c->saved_results[1]);
    haul_tensor *mean = training ? over_channels(x, true) : per_channel(haul_select(given, 0, 0), ndim);
    haul_tensor *centred = haul_sub(x, mean), *scale;
    if (training)
        scale = haul_rsqrt(haul_add_scalar(over_channels(haul_square(centred), true), eps));
    else
        scale = per_channel(haul_select(given, 0, 1), ndim);
    haul_tensor *normal = haul_mul(centred, scale);
    haul_tensor *gw = haul__is_none(weight) ? g : haul_mul(g, per_channel(weight, ndim));
    if (training)
        gw = haul_sub(haul_sub(gw, over_channels(gw, true)),
                      haul_mul(normal, over_channels(haul_mul(gw, normal), true)));
    HAUL__ASSERT(haul__failed(normal) || normal->count == x->count);
    c->operands[X] = haul_mul(gw, scale);
    if (haul__wanted(c, WEIGHT))
        c->operands[WEIGHT] = haul_reshape(over_channels(haul_mul(g, normal), false), channels);
    if (haul__wanted(c, BIAS))
        c->operands[BIAS] = haul_reshape(over_channels(g, false), channels);
}

void haul__batch_norm_gradient(haul__gradient *c)
{
    const haul__batch_norm   *a = c->attributes;
    haul__batch_norm_backward b = {.training = a->training, .wants_dx = haul__wanted(c, X)};
    haul_tensor              *made[HAUL__MAX_RESULTS] = {NULL};
    if (haul__differentiated(c)) {
        composed(c, a->training, a->eps);
        return;
    }
    haul__apply(&haul__operation_batch_norm_backward, &b,
                HAUL__OPERANDS(c->saved[X], c->results[0], c->saved_results[1], c->saved[WEIGHT]), made);
    HAUL__ASSERT(haul__failed(made[1]) || made[1]->shape.dims[0] == 2);
    c->operands[X] = made[0];
    if (haul__wanted(c, WEIGHT))
        c->operands[WEIGHT] = haul_select(made[1], 0, 1);
    if (haul__wanted(c, BIAS))
        c->operands[BIAS] = haul_select(made[1], 0, 0);
}
