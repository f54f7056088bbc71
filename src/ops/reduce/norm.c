/* haul_norm: vector norms over axes. The norms 1, 2 and infinity take one pass; others are composed. */
#include <math.h>

#include "base/assert.h"
#include "base/half.h"
#include "core/option.h"
#include "ops/reduce/reduce.h"

extern const haul__operation haul__operation_norm;

static double power(const haul__reduce_attributes *a)
{
    return a->number;
}

static haul_status infer(haul__call *c)
{
    const haul__reduce_attributes *a = haul__attributes(c);
    if (a->number != a->number)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "p", "p is NaN; a number or infinity is expected");
    haul_status status = haul__reduce_infer(c, c->operands[0]->dtype);
    if (!status && a->each == 0 && a->number < 0)
        return haul__refuse_shape(c, 0, "at least one element is expected for a negative p");
    return status;
}

/* t, with zeros replaced by 1. */
static haul_tensor *without_zeros(haul_tensor *t)
{
    return haul_masked_fill(t, haul_eq_scalar(t, 0), 1);
}

/* m (sum (|x| / m)^p)^(1/p), where m is the largest |x|, or the smallest for p < 0: powers of large and small elements
 * stay in the range. For p = 0 the number of elements that are not 0; for -infinity m itself. */
static haul_tensor *composed(const haul__reduce_attributes *a, haul_tensor *x)
{
    const double        p = power(a);
    haul_reduce_options o = {.x = p == 0 ? haul_cast(haul_ne_scalar(x, 0), x->dtype) : haul_abs(x), .keepdim = true};
    for (int d = 0; d < x->shape.ndim; d++)
        if (a->reduced[d])
            o.haul__axes.axes[o.haul__axes.count++] = d;
    if (p == 0)
        return haul_sum_with(&o);
    haul_tensor *m = p > 0 ? haul_max_with(&o) : haul_min_with(&o);
    if (isinf(p))
        return m;
    m = without_zeros(haul_masked_fill(m, haul_eq_scalar(m, INFINITY), 1));
    o.x = haul_pow_scalar(haul_div(o.x, m), p);
    return haul_mul(m, haul_pow_scalar(haul_sum_with(&o), 1 / p));
}

static haul_status compute(haul__call *c)
{
    const haul__reduce_attributes *a = haul__attributes(c);
    haul_tensor                   *x = c->operands[0], *y = c->results[0];
    const double                   p = power(a);
    HAUL__ASSERT(x->count == y->count * a->each);
    if (a->each == 0)
        return haul_zero_into(y);
    if (p == 1)
        return haul__reduce(c, &haul__reduce_abs, y, x, a->reduced, HAUL__AS_IT_IS);
    if (p == 2)
        return haul__reduce(c, &haul__reduce_squares, y, x, a->reduced,
                            (haul__finish){HAUL__FINISH_ROOT, .divisor = 1});
    if (p == INFINITY)
        return haul__reduce(c, &haul__reduce_max_abs, y, x, a->reduced, HAUL__AS_IT_IS);
    x = haul__is_half(x->dtype) ? haul__as_dtype(c, x, HAUL_F32) : x;
    haul_tensor *made = x ? composed(a, x) : NULL;
    return haul__failed(made) ? haul_error_status() : haul_copy_into(y, haul_reshape(made, y->shape));
}

/* ---- the gradient ---- */

/* Elements with the largest or smallest |x| share it. */
static haul_tensor *by_extremum(const haul__gradient *c, haul_tensor *x, haul_tensor *y, haul_tensor *g)
{
    haul_tensor *hit = haul_cast(haul_eq(haul_abs(x), y), g->dtype);
    return haul_mul(haul_mul(hit, haul_sign(x)), haul_div(g, haul__reduce_again(c, &haul__operation_sum, hit)));
}

/* sign(x) (|x| / y)^(p - 1), and 0 where x or y is 0. With a negative p a single 0 makes y 0 while the other elements
 * are not. */
static haul_tensor *by_power(haul_tensor *x, haul_tensor *y, haul_tensor *g, double p)
{
    haul_tensor *ratio = haul_masked_fill(haul_div(haul_abs(x), without_zeros(y)), haul_eq_scalar(x, 0), 1);
    haul_tensor *dx = haul_mul(haul_mul(haul_sign(x), haul_pow_scalar(ratio, p - 1)), g);
    return p < 0 ? haul_masked_fill(dx, haul_eq_scalar(y, 0), 0) : dx;
}

/* Half precision holds neither all norms nor their powers and inverses: there it is computed in f32, of a norm that is
 * computed again. */
static void gradient(haul__gradient *c)
{
    const haul__reduce_attributes *a = c->attributes;
    const double                   p = power(a);
    const haul_shape               kept = haul__reduce_kept(a);
    haul_tensor                   *x = c->saved[0], *g = haul_reshape(c->results[0], kept), *y;
    if (haul__failed(g) || p == 0) {
        c->operands[0] = haul__failed(g) ? g : HAUL_NONE;
        return;
    }
    HAUL__ASSERT(x->count == g->count * a->each);
    bool half = haul__is_half(x->dtype);
    x = half ? haul_cast(x, HAUL_F32) : x;
    g = half ? haul_cast(g, HAUL_F32) : g;
    y = half ? haul__reduce_again(c, &haul__operation_norm, x) : haul_reshape(c->saved_results[0], kept);
    if (p == 1)
        c->operands[0] = haul_mul(haul_sign(x), g);
    else if (p == 2)
        c->operands[0] = haul_mul(x, haul_div(g, without_zeros(y)));
    else if (isinf(p))
        c->operands[0] = by_extremum(c, x, y, g);
    else
        c->operands[0] = by_power(x, y, g, p);
}

HAUL__OPERATION(norm) = {
    .name = "haul_norm",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 2,
};

HAUL__FUNCTIONS_WITH(norm, haul__reduce_attributes,
                     haul__reduce_attributes_of(&o->haul__axes, o->keepdim, haul__option(o->p, 2)),
                     (const haul_norm_options *o), o->x)
