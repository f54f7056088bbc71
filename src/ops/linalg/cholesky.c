/* haul_cholesky: A = L L^T.
 *
 * An item factors a block of the diagonal: it works on rows of L^T, because they are dense. Larger matrices go over
 * blocks of HAUL__SMALL columns: below a block, L = A L^-T is a product with the block's inverse, and products subtract
 * L L^T from the columns on the right. */
#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/linalg/linalg.h"
#include "ops/matmul/gemm.h"
#include "ops/move/triangle.h"

// clang-format off
/* kernel text begins */
#include "ops/linalg/linalg_kernel.h"

typedef struct cholesky_params {
    I64 items, n;      /* rows of the block */
    I64 at, row, batch;
    I64 first;         /* for faults: the number of its first row */
    U32 check, unused;
} cholesky_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
KERNEL2(cholesky, cholesky_params, T, matrices, U32, fault)
{
    FOR_ITEMS(m) {
        GLOBAL T *a = matrices + p.at + m * p.batch;
        for (I64 i = 0; i < p.n; i++)
            for (I64 j = 0; j < i; j++) a[j * p.row + i] = a[i * p.row + j];
        for (I64 k = 0; k < p.n; k++) {
            GLOBAL T *top = a + k * p.row;
            const A pivot = top[k], root = M_SQRT(pivot);
            if (!(pivot > LIT(0.0))) CHECKED_INDEX(fault, p.check, m, -1 - (p.first + k), p.items);
            for (I64 j = k; j < p.n; j++) top[j] /= root;
            for (I64 i = k + 1; i < p.n; i++) linalg_subtract(a + i * p.row, top, top[i], i, p.n);
        }
        for (I64 i = 0; i < p.n; i++)
            for (I64 j = 0; j < i; j++) {
                a[i * p.row + j] = a[j * p.row + i];
                a[j * p.row + i] = LIT(0.0);
            }
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 8192 };

static haul_status infer(haul__call *c)
{
    if (haul__check_square(c, 0))
        return haul_error_status();
    return haul__describe(c, 0, c->operands[0]->dtype, &c->operands[0]->shape);
}

static haul_status factor_block(const haul__call *c, haul__part l, int64_t first)
{
    HAUL__ASSERT(0 < l.rows && l.rows <= HAUL__SMALL && l.rows == l.columns && haul__part_is_within(&l));
    cholesky_params p = {.items = l.count,
                         .n = l.rows,
                         .at = haul__part_offset(&l),
                         .row = l.row,
                         .batch = l.batch,
                         .first = first,
                         .check = haul__index_check(HAUL__CHECK_cholesky, 0)};
    return haul__launch_kernel(c, HAUL__K_cholesky, l.t->dtype, HAUL__OUT(l.t), HAUL__PARAMS(p),
                               .grain = 1 + GRAIN / (p.n * p.n), .checks = true);
}

/* The rows below a block of columns, whose diagonal part is `top`: L = A L^-T, of which minus is left in `minus`. */
static haul_status update_below(const haul__call *c, haul__part top, haul__part below, haul__part *minus,
                                haul__part inverse)
{
    HAUL__ASSERT(top.rows == top.columns && below.columns == top.columns && top.rows <= inverse.rows);
    inverse = haul__part_of(inverse, 0, 0, top.rows, top.rows);
    if (haul__invert_triangle(c, top, inverse, (haul__triangle){.upper = false}) || haul__negate(c, minus, below) ||
        haul__multiply(c, below, false, *minus, haul__part_transposed(inverse)))
        return haul_error_status();
    return haul__negate(c, minus, below);
}

/* The columns on the right of a block, whose rows below are l and -minus: A -= L L^T, in blocks of columns. */
static haul_status update_right(const haul__call *c, haul__part a, haul__part l, haul__part minus)
{
    HAUL__ASSERT(a.rows == a.columns && a.rows == l.rows && l.rows == minus.rows && l.columns == minus.columns);
    for (int64_t at = 0; at < a.rows; at += HAUL__SMALL) {
        const int64_t columns = a.rows - at < HAUL__SMALL ? a.rows - at : HAUL__SMALL, rows = a.rows - at;
        if (haul__multiply(c, haul__part_of(a, at, at, rows, columns), true,
                           haul__part_of(minus, at, 0, rows, l.columns),
                           haul__part_transposed(haul__part_of(l, at, 0, columns, l.columns))))
            return haul_error_status();
    }
    return HAUL_OK;
}

static haul_status factor_large(const haul__call *c, haul__part a)
{
    haul__part inverse = haul__temporary_part(c, a.t->dtype, a.count, HAUL__SMALL, HAUL__SMALL);
    haul__part minus = haul__temporary_part(c, a.t->dtype, a.count, a.rows, HAUL__SMALL);
    if (!inverse.t || !minus.t)
        return haul_error_status();
    HAUL__ASSERT(a.rows == a.columns);
    for (int64_t at = 0; at < a.rows; at += HAUL__SMALL) {
        const int64_t    width = a.rows - at < HAUL__SMALL ? a.rows - at : HAUL__SMALL, next = at + width;
        const haul__part top = haul__part_of(a, at, at, width, width);
        const haul__part below = haul__part_of(a, next, at, a.rows - next, width);
        if (factor_block(c, top, at))
            return haul_error_status();
        if (below.rows && (update_below(c, top, below, &minus, inverse) ||
                           update_right(c, haul__part_of(a, next, next, below.rows, below.rows), below, minus)))
            return haul_error_status();
    }
    return HAUL_OK;
}

static haul_status compute(haul__call *c)
{
    haul_tensor *a = c->operands[0], *l = c->results[0];
    haul__part   m = haul__matrices(l);
    if (m.rows <= HAUL__SMALL)
        return haul__copy_elements(l, a, c->operation->name) ? haul_error_status() : factor_block(c, m, 0);
    return haul__tril_into(l, a) ? haul_error_status() : factor_large(c, m);
}

static haul__cost cost(const haul__call *c)
{
    const haul_tensor *a = c->operands[0];
    return (haul__cost){.flops = (double)a->count * (double)a->shape.dims[a->shape.ndim - 1] / 3,
                        .bytes = haul__call_bytes(c)};
}

/* L^-T S L^-1, where S is the symmetric part of tril(L^T g) with half of the diagonal. */
static void gradient(haul__gradient *g)
{
    haul_tensor *l = g->saved_results[0], *inner = haul_matmul(haul__adjoint(l), g->results[0]);
    haul_tensor *half = haul_add(haul_tril(inner, 0), haul_tril(inner, -1));
    haul_tensor *s = haul_mul_scalar(haul_add(half, haul__adjoint(half)), 0.25);
    haul_tensor *left = haul_solve_triangular(l, s, .transposed = true);
    g->operands[0] = haul_solve_triangular(l, haul__adjoint(left), .transposed = true);
}

HAUL__OPERATION(cholesky) = {
    .name = "haul_cholesky",
    .operands = {{"a"}},
    .results = {{"l", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .infer = infer,
    .compute = compute,
    .implementations = &haul__gemm_implementations,
    .gradient = gradient,
    .cost = cost,
};

haul_tensor *haul_cholesky(haul_tensor *a)
{
    return HAUL__APPLY(cholesky, NULL, a);
}
