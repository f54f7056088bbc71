/* haul_logsumexp, in two passes over memory: the largest element of each output, and the sum of exponentials of the
 * distances from it. */
#include <math.h>

#include "base/assert.h"
#include "base/half.h"
#include "ops/reduce/reduce.h"

static haul_status infer(haul__call *c)
{
    return haul__reduce_infer(c, c->operands[0]->dtype);
}

static haul_status compute(haul__call *c)
{
    const haul__reduce_attributes *a = haul__attributes(c);
    haul_tensor                   *x = c->operands[0], *y = c->results[0];
    if (a->each == 0)
        return haul_fill_into(y, -INFINITY);
    HAUL__ASSERT(x->count == y->count * a->each);
    haul_tensor *most = haul__temporary(c, x->dtype, &y->shape);
    if (!most || haul__reduce(c, &haul__reduce_max, most, x, a->reduced, HAUL__AS_IT_IS))
        return haul_error_status();
    haul__finish finish = {HAUL__FINISH_LOG, .centre = haul__as_dtype(c, most, haul__sum_dtype(x->dtype))};
    if (haul__failed(finish.centre))
        return haul_error_status();
    HAUL__ASSERT(finish.centre->count == y->count);
    return haul__reduce(c, &haul__reduce_exponentials, y, x, a->reduced, finish);
}

/* exp(x - y), and 0 if all of x is -infinity. For half precision y is rounded too much for that: there the exponentials
 * are divided by their sum. */
static void gradient(haul__gradient *c)
{
    const haul_shape kept = haul__reduce_kept(c->attributes);
    haul_tensor     *y = haul_reshape(c->saved_results[0], kept), *g = haul_reshape(c->results[0], kept);
    haul_tensor     *e = haul_exp(haul_sub(c->saved[0], haul_masked_fill(y, haul_eq_scalar(y, -INFINITY), 0)));
    if (haul__is_half(c->saved[0]->dtype)) {
        haul_tensor *sum = haul__reduce_again(c, &haul__operation_sum, e);
        g = haul_div(g, haul_masked_fill(sum, haul_eq_scalar(sum, 0), 1));
    }
    c->operands[0] = haul_mul(g, e);
}

HAUL__OPERATION(logsumexp) = {
    .name = "haul_logsumexp",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(haul__reduce_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 4,
};

HAUL__FUNCTIONS_WITH(logsumexp, haul__reduce_attributes, haul__reduce_attributes_of(&o->haul__axes, o->keepdim, 0),
                     (const haul_reduce_options *o), o->x)
