/* Products and grids of tensors by broadcasting views: outer and Kronecker products, and coordinates of a grid. */
#include "base/assert.h"
#include "engine/operation.h"

/* ---- haul_outer ---- */

static haul_status outer(haul__call *c)
{
    for (int i = 0; i < 2; i++)
        if (c->operands[i]->shape.ndim != 1)
            return haul__refuse_shape(c, i, "one dimension is expected");
    c->results[0] = haul_mul(haul_unsqueeze(c->operands[0], 1), c->operands[1]);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(outer) = {
    .name = "haul_outer",
    .operands = {{"a", .layout = HAUL__ANY_STRIDES}, {"b", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__NUMBERS,
    .rule = HAUL__PROMOTED,
    .compose = outer,
};

haul_tensor *haul_outer(haul_tensor *a, haul_tensor *b)
{
    return HAUL__APPLY(outer, NULL, a, b);
}

/* ---- haul_kron ---- */

/* x with an axis of size 1 after each of its axes, or before it, and enough axes of size 1 in front. */
static haul_tensor *spread(haul_tensor *x, int ndim, bool after)
{
    const int  missing = ndim - x->shape.ndim;
    haul_shape shape = {.ndim = 2 * ndim};
    for (int d = 0; d < ndim; d++) {
        shape.dims[2 * d + (after ? 0 : 1)] = d < missing ? 1 : x->shape.dims[d - missing];
        shape.dims[2 * d + (after ? 1 : 0)] = 1;
    }
    return haul_reshape(x, shape);
}

static haul_status kron(haul__call *c)
{
    const int ndim = c->operands[0]->shape.ndim > c->operands[1]->shape.ndim ? c->operands[0]->shape.ndim
                                                                             : c->operands[1]->shape.ndim;
    if (2 * ndim > HAUL_MAX_DIMS)
        return haul__refuse_shape(c, c->operands[0]->shape.ndim == ndim ? 0 : 1, "at most 4 dimensions are expected");
    haul_tensor *y = haul_mul(spread(c->operands[0], ndim, true), spread(c->operands[1], ndim, false));
    if (haul__failed(y))
        return haul_error_status();
    HAUL__ASSERT(y->shape.ndim == 2 * ndim);
    haul_shape shape = {.ndim = ndim};
    for (int d = 0; d < ndim; d++)
        shape.dims[d] = y->shape.dims[2 * d] * y->shape.dims[2 * d + 1]; /* a part of y's count, or of no elements */
    c->results[0] = haul_reshape(y, shape);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(kron) = {
    .name = "haul_kron",
    .operands = {{"a", .layout = HAUL__ANY_STRIDES}, {"b", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__NUMBERS,
    .rule = HAUL__PROMOTED,
    .compose = kron,
};

haul_tensor *haul_kron(haul_tensor *a, haul_tensor *b)
{
    return HAUL__APPLY(kron, NULL, a, b);
}

/* ---- haul_meshgrid ---- */

static haul_status grids(haul_tensor *const *xs, int count, haul_tensor **out)
{
    static const char name[] = "haul_meshgrid";
    HAUL__ASSERT(count <= HAUL_MAX_DIMS);
    haul_shape shape = {.ndim = count};
    for (int i = 0; i < count; i++) {
        if (haul__check_tensor(name, "xs", xs[i]))
            return haul_error_status();
        if (xs[i]->shape.ndim > 1)
            return haul__fail(HAUL_SHAPE, name, "xs", "tensor %d has %d dimensions; one is expected", i,
                              xs[i]->shape.ndim);
        shape.dims[i] = xs[i]->count;
    }
    for (int i = 0; i < count; i++) {
        haul_shape own = {.ndim = count};
        for (int d = 0; d < count; d++)
            own.dims[d] = d == i ? shape.dims[d] : 1;
        out[i] = haul_expand(haul_reshape(xs[i], own), shape);
        if (haul__failed(out[i]))
            return haul__fail_within(name);
    }
    return HAUL_OK;
}

haul_status haul_meshgrid(haul_tensor *const *xs, int count, haul_tensor **out)
{
    static const char name[] = "haul_meshgrid";
    haul_tensor      *made[HAUL_MAX_DIMS];
    haul_status       status = HAUL_OK;
    if (count < 1 || count > HAUL_MAX_DIMS)
        return haul__fail(HAUL_INVALID_ARGUMENT, name, "count", "count is %d; 1 to %d tensors are expected", count,
                          HAUL_MAX_DIMS);
    if (!xs || !out)
        status = haul__fail_null(name, xs ? "grids" : "xs");
    if (!status)
        status = grids(xs, count, made);
    for (int i = 0; i < count && out; i++)
        out[i] = status ? haul__failed_tensor() : made[i];
    return status;
}
