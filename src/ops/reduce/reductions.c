/* haul_sum, haul_mean, haul_max, haul_min, haul_prod, haul_any, haul_all. */
#include <math.h>

#include "base/assert.h"
#include "ops/pointwise/unsigned.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/reductions.h"

/* The differences between the operations. */
typedef struct kind {
    const haul__reduction *by;
    bool                   divides; /* divided by their number */
    bool                   chooses; /* one of the elements, so there must be at least one */
    bool                   tests;   /* the result is bool */
} kind;

static const kind sum = {&haul__reduce_sum, .divides = false};
static const kind mean = {&haul__reduce_sum, .divides = true};
static const kind max = {&haul__reduce_max, .chooses = true};
static const kind min = {&haul__reduce_min, .chooses = true};
static const kind prod = {&haul__reduce_prod, .divides = false};
static const kind any = {&haul__reduce_any, .tests = true};
static const kind all = {&haul__reduce_all, .tests = true};

/* ---- the call ---- */

haul__reduce_attributes haul__reduce_attributes_of(const haul_axes *axes, bool keepdim, double number)
{
    haul__reduce_attributes a = {.count = axes->count, .keepdim = keepdim, .number = number};
    for (int i = 0; i < a.count && i < HAUL_MAX_DIMS; i++)
        a.axes[i] = axes->axes[i];
    return a;
}

haul_shape haul__reduce_kept(const haul__reduce_attributes *a)
{
    return haul__shape_of_attribute(&a->kept);
}

/* Sets the result's shape, with the reduced axes and without them, and the number of elements for each output. */
static haul_status find_shapes(const haul__call *c, haul__reduce_attributes *a, haul_shape *result)
{
    const haul_shape *x = &c->operands[0]->shape;
    int64_t           outputs = 1; /* like `each` a product of some dims of x, which is checked only as a whole */
    haul__shape_to_attribute(&a->kept, x);
    a->each = 1;
    *result = (haul_shape){0};
    for (int d = 0; d < x->ndim; d++) {
        if (!haul__mul_size(a->reduced[d] ? a->each : outputs, x->dims[d], a->reduced[d] ? &a->each : &outputs))
            return haul__refuse_shape(c, 0, "dims whose product fits in 64 bits are expected");
        if (a->reduced[d])
            a->kept.dims[d] = 1;
        else
            result->dims[result->ndim++] = x->dims[d];
    }
    HAUL__ASSERT(a->each * outputs == c->operands[0]->count);
    HAUL__ASSERT(result->ndim <= x->ndim);
    if (a->keepdim)
        *result = haul__reduce_kept(a);
    return HAUL_OK;
}

haul_status haul__reduce_infer(haul__call *c, haul_dtype dtype)
{
    haul_shape               shape;
    haul__reduce_attributes *a = haul__attributes(c);
    if (haul__call_axes(c, a->axes, a->count, a->reduced) || find_shapes(c, a, &shape))
        return haul_error_status();
    return haul__describe(c, 0, dtype, &shape);
}

static bool has_no_elements(const haul__attribute_shape *shape)
{
    for (int d = 0; d < shape->ndim; d++)
        if (shape->dims[d] == 0)
            return true;
    return false;
}

static haul_status infer(haul__call *c)
{
    const kind                    *how = c->operation->extra;
    const haul__reduce_attributes *a = haul__attributes(c);
    const haul_tensor             *x = c->operands[0];
    bool                           counts = how->by->adds && !haul_dtype_is_float(x->dtype);
    haul_dtype                     dtype = how->tests ? HAUL_BOOL : counts ? HAUL_I64 : haul__wide_result(c, x);
    haul_status                    status = haul__reduce_infer(c, dtype);
    if (!status && how->chooses && a->each == 0 && !has_no_elements(&a->kept))
        return haul__refuse_shape(c, 0, "at least one element to choose from is expected");
    return status;
}

static haul_status compute(haul__call *c)
{
    const kind                    *how = c->operation->extra;
    const haul__reduce_attributes *a = haul__attributes(c);
    if (how->divides && a->each == 0)
        return haul_fill_into(c->results[0], NAN);
    HAUL__ASSERT(!how->chooses || a->each > 0);
    haul_tensor *x = haul__in_signed_order(c, c->operands[0]), *y = haul__signed_for(c, c->results[0]);
    if (!x || !y ||
        haul__reduce(c, how->by, y, x, a->reduced, how->divides ? HAUL__DIVIDED((double)a->each) : HAUL__AS_IT_IS))
        return haul_error_status();
    return haul__from_signed_order(c, c->results[0], y);
}

/* ---- gradients ---- */

haul_tensor *haul__reduce_again(const haul__gradient *g, const haul__operation *operation, haul_tensor *x)
{
    haul__reduce_attributes a = *(const haul__reduce_attributes *)g->attributes;
    a.keepdim = true;
    return haul__apply1(operation, &a, &x, 1);
}

static void sum_gradient(haul__gradient *c)
{
    const haul__reduce_attributes *a = c->attributes;
    const kind                    *how = c->operation->extra;
    haul_tensor                   *g = c->results[0];
    if (how->divides && a->each > 1)
        g = haul_mul_scalar(g, 1.0 / (double)a->each);
    if (!haul__failed(g) && g->dtype != haul__operand_dtype(c, 0)) /* under autocast: narrow it before it is expanded */
        g = haul_cast(g, haul__operand_dtype(c, 0));
    c->operands[0] = haul_expand(haul_reshape(g, haul__reduce_kept(a)), *haul__operand_shape(c, 0));
}

/* Elements that equal the extremum share its gradient. Half precision need not hold their number. */
static void extremum_gradient(haul__gradient *c)
{
    const haul_shape kept = haul__reduce_kept(c->attributes);
    haul_tensor     *g = c->results[0], *y = haul_reshape(c->saved_results[0], kept);
    haul_tensor     *hit = haul_cast(haul_eq(c->saved[0], y), haul__sum_dtype(g->dtype));
    haul_tensor     *share = haul_cast(haul_div(haul_reshape(g, kept), haul__sum_to(hit, &kept)), g->dtype);
    c->operands[0] = haul_mul(haul_cast(hit, g->dtype), share);
}

HAUL__OPERATION(sum) = {
    .name = "haul_sum",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .autocast = HAUL__WIDE_RESULT,
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .extra = &sum,
    .infer = infer,
    .compute = compute,
    .gradient = sum_gradient,
    .flops = 1,
};

HAUL__OPERATION(mean) = {
    .name = "haul_mean",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .autocast = HAUL__WIDE_RESULT,
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .extra = &mean,
    .infer = infer,
    .compute = compute,
    .gradient = sum_gradient,
    .flops = 1,
};

HAUL__OPERATION(max) = {
    .name = "haul_max",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .extra = &max,
    .infer = infer,
    .compute = compute,
    .gradient = extremum_gradient,
    .flops = 1,
};

HAUL__OPERATION(min) = {
    .name = "haul_min",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .extra = &min,
    .infer = infer,
    .compute = compute,
    .gradient = extremum_gradient,
    .flops = 1,
};

HAUL__OPERATION(prod) = {
    .name = "haul_prod",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .autocast = HAUL__WIDE_RESULT,
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .extra = &prod,
    .infer = infer,
    .compute = compute,
    .gradient = haul__prod_gradient,
    .flops = 1,
};

HAUL__OPERATION(any) = {
    .name = "haul_any",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__EVERY, .becomes = HAUL_BOOL}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .extra = &any,
    .infer = infer,
    .compute = compute,
    .flops = 1,
};

HAUL__OPERATION(all) = {
    .name = "haul_all",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__EVERY, .becomes = HAUL_BOOL}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .extra = &all,
    .infer = infer,
    .compute = compute,
    .flops = 1,
};

/* ---- public ---- */

/* A reduction with its form that writes into a tensor. */
#define FUNCTIONS(id)                                                                                                  \
    HAUL__FUNCTIONS_WITH(id, haul__reduce_attributes, haul__reduce_attributes_of(&o->haul__axes, o->keepdim, 0),       \
                         (const haul_reduce_options *o), o->x)
FUNCTIONS(sum)
FUNCTIONS(mean)
FUNCTIONS(max)
FUNCTIONS(min)
FUNCTIONS(prod)
FUNCTIONS(any)
FUNCTIONS(all)

haul_tensor *haul__sum_to(haul_tensor *g, const haul_shape *shape)
{
    if (haul__failed(g) || haul__shape_equal(&g->shape, shape))
        return g;
    haul_reduce_options options = {.x = g, .keepdim = true};
    haul_axes          *axes = &options.haul__axes;
    int                 lead = g->shape.ndim - shape->ndim;
    HAUL__ASSERT(lead >= 0);
    for (int d = 0; d < g->shape.ndim; d++)
        if (d < lead || (shape->dims[d - lead] == 1 && g->shape.dims[d] != 1))
            axes->axes[axes->count++] = d;
    if (axes->count == 0)
        return haul_view(g, *shape);
    return haul_reshape(haul_sum_with(&options), *shape);
}
