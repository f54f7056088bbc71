/* haul_tril and haul_triu: matrices with zeros above or below a diagonal. They are linear, and their own gradients. */
#include "ops/move/triangle.h"
#include "base/assert.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/attributes.h"

// clang-format off
/* kernel text begins */
typedef struct triangle_params {
    I64 items, rows, columns;
    I64 diagonal;  /* column minus row: 0 is the main one */
    I64 at[2];     /* offsets of the buffers */
    I32 upper, unused;
} triangle_params;

#if defined(HAUL_KERNEL) && IS_BITS
KERNEL2(triangle, triangle_params, T, y, const T, x)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 q = QUOTIENT(i, p.columns), r = REMAINDER(q, p.rows), c = i - q * p.columns;
        const I64 end = CHUNKED ? M_MIN_OF(p.columns, c + ITEMS_END - i) : c + 1;
        const I64 edge = M_MIN_OF(M_MAX_OF(r + p.diagonal + (p.upper ? 0 : 1), c), end); /* of both parts */
        GLOBAL T *o = y + p.at[0] + q * p.columns;
        GLOBAL const T *v = x + p.at[1] + q * p.columns;
        for (I64 j = c; j < edge; j++) o[j] = p.upper ? (T)0 : v[j];
        for (I64 j = edge; j < end; j++) o[j] = p.upper ? v[j] : (T)0;
        i += ITEMS_STEP(end - c);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

static haul_status infer(haul__call *c)
{
    const haul_tensor *x = c->operands[0];
    if (x->shape.ndim < 2)
        return haul__refuse_shape(c, 0, "at least two dimensions are expected");
    return haul__describe(c, 0, x->dtype, &x->shape);
}

/* A diagonal outside the matrix is clamped to its border, so that no sum with it overflows. */
static int64_t inside(int64_t diagonal, int64_t rows, int64_t columns)
{
    return diagonal < -rows ? -rows : diagonal > columns ? columns : diagonal;
}

static haul_status launch(haul__call *c, bool upper)
{
    const haul__triangle_attributes *a = haul__attributes(c);
    haul_tensor                     *y = c->results[0];
    const int64_t                   *last = &y->shape.dims[y->shape.ndim - 2];
    triangle_params                  p = {.items = y->count, .rows = last[0], .columns = last[1], .upper = upper};
    HAUL__ASSERT(c->operands[0]->count == y->count && c->operands[0]->contiguous);
    p.diagonal = inside(a->diagonal, p.rows, p.columns);
    p.at[0] = y->offset;
    p.at[1] = c->operands[0]->offset;
    return haul__launch_kernel(c, HAUL__K_triangle, y->dtype, HAUL__OUT(y), .ins = c->operands, .in_count = 1,
                               HAUL__PARAMS(p), .grain = GRAIN);
}

static haul_status lower(haul__call *c)
{
    return launch(c, false);
}

static haul_status upper(haul__call *c)
{
    return launch(c, true);
}

static void again(haul__gradient *g)
{
    g->operands[0] = haul__apply1(g->operation, g->attributes, g->results, 1);
}

HAUL__OPERATION(tril) = {
    .name = "haul_tril",
    .operands = {{"x"}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__triangle_attributes),
    .infer = infer,
    .compute = lower,
    .gradient = again,
};

HAUL__OPERATION(triu) = {
    .name = "haul_triu",
    .operands = {{"x"}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__triangle_attributes),
    .infer = infer,
    .compute = upper,
    .gradient = again,
};

HAUL__FUNCTION(tril, &(haul__triangle_attributes){diagonal}, (haul_tensor * x, int64_t diagonal), x)

HAUL__FUNCTION(triu, &(haul__triangle_attributes){diagonal}, (haul_tensor * x, int64_t diagonal), x)

haul_status haul__tril_into(haul_tensor *y, haul_tensor *x)
{
    return HAUL__APPLY_INTO(y, tril, &(haul__triangle_attributes){0}, x);
}
