/* haul_matrix_power and haul_trace, of other operations. */
#include "base/assert.h"
#include "ops/linalg/linalg.h"

/* ---- haul_matrix_power ---- */

typedef struct power_attributes {
    int64_t n;
} power_attributes;

/* By squaring. */
static haul_status matrix_power(haul__call *c)
{
    const power_attributes *at = haul__attributes(c);
    haul_tensor            *square = c->operands[0], *result = NULL;
    uint64_t                left = at->n < 0 ? -(uint64_t)at->n : (uint64_t)at->n;
    if (haul__check_square(c, 0))
        return haul_error_status();
    if (!left)
        result = haul_triu(haul_tril(haul_ones_like(square), 0), 0);
    else if (at->n < 0)
        square = haul_inverse(square);
    for (; left; left /= 2) {
        if (left % 2)
            result = result ? haul_matmul(result, square) : square;
        if (left > 1)
            square = haul_matmul(square, square);
        if (haul__failed(square))
            return haul_error_status();
    }
    HAUL__ASSERT(result);
    if (result == c->operands[0])
        result = haul_view(result, result->shape); /* with a gradient of its own */
    c->results[0] = result;
    return haul__failed(result) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(matrix_power) = {
    .name = "haul_matrix_power",
    .operands = {{"a"}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(power_attributes),
    .compose = matrix_power,
};

haul_tensor *haul_matrix_power(haul_tensor *a, int64_t n)
{
    return HAUL__APPLY(matrix_power, &(power_attributes){n}, a);
}

/* ---- haul_trace ---- */

/* The elements of the diagonal are a row's length and one apart. */
static haul_status trace(haul__call *c)
{
    haul_tensor *x = c->operands[0];
    haul_shape   shape = x->shape;
    if (shape.ndim < 2)
        return haul__refuse_shape(c, 0, "matrices [..., m, n] are expected");
    const int64_t m = shape.dims[shape.ndim - 2], n = shape.dims[shape.ndim - 1], k = m < n ? m : n;
    shape.ndim--;
    shape.dims[shape.ndim - 1] = m * n;
    haul_tensor *diagonal = haul_slice(haul_reshape(x, shape), -1, 0, k ? (k - 1) * (n + 1) + 1 : 0, n + 1);
    c->results[0] = haul_sum(diagonal, HAUL_AXES(-1));
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(trace) = {
    .name = "haul_trace",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .compose = trace,
};

haul_tensor *haul_trace(haul_tensor *x)
{
    return HAUL__APPLY(trace, NULL, x);
}
