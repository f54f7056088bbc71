/* haul_var and haul_std, in two passes over memory: the mean, then the squared deviations from it. Both measure from
 * the first element of each output, so that a large mean costs no digits. */
#include <math.h>

#include "base/assert.h"
#include "base/half.h"
#include "core/option.h"
#include "ops/reduce/reduce.h"

static double degrees(const haul__reduce_attributes *a)
{
    return fmax(0, (double)a->each - a->number);
}

static haul_status infer(haul__call *c)
{
    return haul__reduce_infer(c, haul__wide_result(c, c->operands[0]));
}

static haul_status compute_to(haul__call *c, haul__finish finish)
{
    const haul__reduce_attributes *a = haul__attributes(c);
    haul_tensor                   *x = c->operands[0], *y = c->results[0];
    if (a->each == 0)
        return haul_fill_into(y, NAN);
    HAUL__ASSERT(a->each > 0);
    finish.divisor = degrees(a);
    finish.centre = haul__temporary(c, haul__sum_dtype(x->dtype), &y->shape);
    if (!finish.centre ||
        haul__reduce(c, &haul__reduce_offsets, finish.centre, x, a->reduced, HAUL__DIVIDED(2 * (double)a->each)))
        return haul_error_status();
    return haul__reduce(c, &haul__reduce_deviations, y, x, a->reduced, finish);
}

static haul_status compute_var(haul__call *c)
{
    return compute_to(c, (haul__finish){.what = HAUL__FINISH_DIVIDE});
}

static haul_status compute_std(haul__call *c)
{
    return compute_to(c, (haul__finish){.what = HAUL__FINISH_ROOT});
}

extern const haul__operation haul__operation_std;

/* x - mean, of half precision in f32: factors of it may be too large or too small for half precision. */
static haul_tensor *centred(const haul__gradient *c)
{
    haul_tensor *x = c->saved[0], *wide = haul__is_half(x->dtype) ? haul_cast(x, HAUL_F32) : x;
    return haul_sub(wide, haul__reduce_again(c, &haul__operation_mean, wide));
}

static haul_tensor *kept(const haul__gradient *c, haul_tensor *t)
{
    haul_tensor *wide = haul__is_half(c->saved[0]->dtype) ? haul_cast(t, HAUL_F32) : t;
    return haul_reshape(wide, haul__reduce_kept(c->attributes));
}

/* 2 (x - mean) / degrees */
static void var_gradient(haul__gradient *c)
{
    haul_tensor *g = haul_mul_scalar(kept(c, c->results[0]), 2 / degrees(c->attributes));
    c->operands[0] = haul_mul(centred(c), g);
}

/* (x - mean) / (degrees y), and 0 where all elements are equal. */
static void std_gradient(haul__gradient *c)
{
    haul_tensor *x = c->saved[0], *y = kept(c, c->saved_results[0]);
    if (haul__is_half(x->dtype))
        y = haul__reduce_again(c, &haul__operation_std, haul_cast(x, HAUL_F32));
    haul_tensor *slope = haul_masked_fill(y, haul_eq_scalar(y, 0), 1);
    haul_tensor *g = haul_mul_scalar(haul_div(kept(c, c->results[0]), slope), 1 / degrees(c->attributes));
    c->operands[0] = haul_mul(centred(c), g);
}

HAUL__OPERATION(var) = {
    .name = "haul_var",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .autocast = HAUL__WIDE_RESULT,
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .infer = infer,
    .compute = compute_var,
    .gradient = var_gradient,
    .flops = 6,
};

HAUL__OPERATION(std) = {
    .name = "haul_std",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__FLOATS,
    .autocast = HAUL__WIDE_RESULT,
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .infer = infer,
    .compute = compute_std,
    .gradient = std_gradient,
    .flops = 6,
};

HAUL__FUNCTIONS_WITH(var, haul__reduce_attributes,
                     haul__reduce_attributes_of(&o->haul__axes, o->keepdim, haul__option(o->correction, 1)),
                     (const haul_var_options *o), o->x)
HAUL__FUNCTIONS_WITH(std, haul__reduce_attributes,
                     haul__reduce_attributes_of(&o->haul__axes, o->keepdim, haul__option(o->correction, 1)),
                     (const haul_var_options *o), o->x)
