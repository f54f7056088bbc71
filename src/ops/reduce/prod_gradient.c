/* The gradient of haul_prod: for each element the product of the others. With zeros among the elements this is not y /
 * x. */
#include "base/assert.h"
#include "ops/reduce/reduce.h"
#include "ops/reduce/reductions.h"

/* By division. An element gets the product of the non-zero elements if there is no zero, or if it is the only zero. */
static haul_tensor *by_division(const haul__gradient *c, haul_tensor *x)
{
    haul_tensor *zero = haul_eq_scalar(x, 0), *nonzero = haul_masked_fill(x, zero, 1);
    haul_tensor *others = haul_div(haul__reduce_again(c, &haul__operation_prod, nonzero), nonzero);
    haul_tensor *zeros = haul__reduce_again(c, &haul__operation_sum, zero);
    return haul_masked_fill(others, haul_gt(zeros, haul_cast(zero, HAUL_I64)), 0);
}

/* x shifted by n places along the last axis, to the end or, for negative n, to the start; ones move in. */
static haul_tensor *moved(haul_tensor *x, int64_t n)
{
    return haul_pad(x, HAUL_PADS(n, -n), .value = 1);
}

/* Products of all elements before each one, or of all after it, along the last axis with n elements. */
static haul_tensor *running(haul_tensor *x, int64_t n, int64_t direction)
{
    haul_tensor *y = moved(x, direction);
    for (int64_t step = 1; step < n; step *= 2)
        y = haul_mul(y, moved(y, direction * step));
    return y;
}

/* Without divisions, so that it can be differentiated again where elements are 0: in log(n) passes. */
static haul_tensor *by_products(const haul__gradient *c, haul_tensor *x)
{
    const haul__reduce_attributes *a = c->attributes;
    const haul_shape              *shape = haul__operand_shape(c, 0);
    int                            order[HAUL_MAX_DIMS], back[HAUL_MAX_DIMS], count = 0;
    haul_shape                     moved_shape = {.ndim = shape->ndim};
    for (int last = 0; last < 2; last++)
        for (int d = 0; d < shape->ndim; d++)
            if (a->reduced[d] == (last == 1)) {
                moved_shape.dims[count] = shape->dims[d];
                back[d] = count;
                order[count++] = d;
            }
    HAUL__ASSERT(count == shape->ndim && a->each > 0); /* each axis is in one of both groups */
    haul_tensor *rows = haul_reshape(haul_permute(x, order, count), HAUL_SHAPE(-1, a->each));
    haul_tensor *others = haul_mul(running(rows, a->each, 1), running(rows, a->each, -1));
    HAUL__ASSERT(haul__failed(others) || others->count == x->count);
    return haul_permute(haul_reshape(others, moved_shape), back, count);
}

void haul__prod_gradient(haul__gradient *c)
{
    const haul__reduce_attributes *a = c->attributes;
    haul_tensor                   *x = c->saved[0], *g = c->results[0];
    if (x->count == 0)
        return; /* nothing takes a gradient */
    haul_tensor *others = a->each == 1 ? NULL : haul__differentiated(c) ? by_products(c, x) : by_division(c, x);
    g = haul_reshape(g, haul__reduce_kept(a));
    c->operands[0] = others ? haul_mul(g, others) : g;
}
