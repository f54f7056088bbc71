/* haul_lu: LU factorisation with partial pivoting, and what other operations need of it.
 *
 * An item factors a block of columns of a matrix. For matrices of up to HAUL__SMALL rows the block is the matrix. For
 * larger ones, the rows of the other columns are exchanged after each block, and the columns on its right updated. */
#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/linalg/linalg.h"
#include "ops/matmul/gemm.h"

// clang-format off
/* kernel text begins */
#include "ops/linalg/linalg_kernel.h"

typedef struct lu_params {
    I64 items, n;      /* rows and columns of a matrix */
    I64 first, width;  /* columns of the block */
    I64 at, row, batch;
    I64 order_at, pivots_at;
    U32 check, unused; /* 0: pivots of 0 are allowed */
} lu_params;

typedef struct lu_rows_params {
    I64 items, n, columns;
    I64 y_at, y_row, y_batch;
    I64 x_at, x_row, x_column, x_batch;
    I64 order_at, order_batch;
    I32 back, unused;
} lu_rows_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
FUNC void lu_exchange(GLOBAL T *a, GLOBAL T *b, I64 n)
{
    for (I64 j = 0; j < n; j++) {
        const T t = a[j];
        a[j] = b[j];
        b[j] = t;
    }
}

/* Rows and columns `first` to `first + width` of each matrix become L and U; rows below get their part of L. */
KERNEL4(lu, lu_params, T, matrices, I64, order, I64, pivots, U32, fault)
{
    FOR_ITEMS(m) {
        GLOBAL T *a = matrices + p.at + m * p.batch;
        GLOBAL I64 *rows = order + p.order_at + m * p.n;
        GLOBAL I64 *chosen = pivots + p.pivots_at + m * p.n;
        const I64 end = p.first + p.width;
        for (I64 i = 0; i < (p.first ? 0 : p.n); i++) rows[i] = i;
        for (I64 k = p.first; k < end; k++) {
            GLOBAL T *top = a + k * p.row;
            I64 best = k;
            A most = M_ABS(top[k]);
            for (I64 i = k + 1; i < p.n; i++) {
                const A size = M_ABS(a[i * p.row + k]);
                best = size > most ? i : best;
                most = size > most ? size : most;
            }
            chosen[k] = best;
            if (best != k) {
                const I64 row = rows[k];
                rows[k] = rows[best];
                rows[best] = row;
                lu_exchange(top + p.first, a + best * p.row + p.first, p.width);
            }
            const A pivot = top[k];
            if (pivot == LIT(0.0)) {
                if (p.check) CHECKED_INDEX(fault, p.check, m, -1 - k, p.items);
                continue;
            }
            const A inverse = LIT(1.0) / pivot; /* infinite for a pivot near 0 */
            const I32 divides = inverse - inverse != LIT(0.0);
            for (I64 i = k + 1; i < p.n; i++) {
                GLOBAL T *row = a + i * p.row;
                const A f = divides ? row[k] / pivot : row[k] * inverse;
                linalg_subtract(row + p.first, top + p.first, f, k + 1 - p.first, p.width);
                row[k] = f; /* last: processors read a vector slowly just after a part of it was written */
            }
        }
    }
}

/* Exchanges the rows of columns that are not in the block. An item takes SIDE_COLUMNS columns. */
KERNEL2(lu_exchange_rows, lu_params, T, matrices, const I64, pivots)
{
    const I64 parts = QUOTIENT(p.n + SIDE_COLUMNS - 1, SIDE_COLUMNS);
    FOR_ITEMS(i) {
        const I64 m = QUOTIENT(i, parts), c = (i - m * parts) * SIDE_COLUMNS, w = M_MIN_OF(p.n - c, (I64)SIDE_COLUMNS);
        GLOBAL T *a = matrices + p.at + m * p.batch + c;
        GLOBAL const I64 *chosen = pivots + p.pivots_at + m * p.n;
        for (I64 k = p.first; k < p.first + p.width && (c < p.first || c >= p.first + p.width); k++)
            if (chosen[k] != k) lu_exchange(a + k * p.row, a + chosen[k] * p.row, w);
    }
}

/* Row r of y is row order[r] of x, or the other way round. */
KERNEL3(lu_order_rows, lu_rows_params, T, y, const T, x, const I64, order)
{
    FOR_ITEMS(i) {
        const I64 m = QUOTIENT(i, p.n), r = i - m * p.n, other = order[p.order_at + m * p.order_batch + r];
        GLOBAL T *o = y + p.y_at + m * p.y_batch + (p.back ? other : r) * p.y_row;
        GLOBAL const T *v = x + p.x_at + m * p.x_batch + (p.back ? r : other) * p.x_row;
        for (I64 j = 0; j < p.columns; j++) o[j] = v[j * p.x_column];
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 8192, BLOCK = 32 };

_Static_assert(BLOCK % SIDE_COLUMNS == 0, "columns that are exchanged together are all in a block or none is");

/* ---- the factorisation ---- */

static lu_params params_of(const haul__part *lu, const haul_tensor *order, const haul_tensor *pivots, uint32_t check)
{
    HAUL__ASSERT(lu->rows == lu->columns && order->count == pivots->count && haul__part_is_within(lu));
    return (lu_params){.n = lu->rows,
                       .at = haul__part_offset(lu),
                       .row = lu->row,
                       .batch = lu->batch,
                       .order_at = order->offset,
                       .pivots_at = pivots->offset,
                       .check = check};
}

static haul_status factor_block(const haul__call *c, lu_params *p, haul__part lu, haul_tensor *order,
                                haul_tensor *pivots)
{
    HAUL__ASSERT(lu.rows == p->n && 0 < p->width && p->first + p->width <= p->n);
    HAUL__ASSERT(order->count == lu.count * lu.rows && pivots->count == order->count);
    p->items = lu.count;
    return haul__launch_kernel(c, HAUL__K_lu, lu.t->dtype, HAUL__OUT(lu.t, order, pivots), HAUL__PARAMS(*p),
                               .grain = 1 + GRAIN / (p->n * p->width + 1), .checks = true);
}

/* The columns on the right of a block: U = L^-1 A above, A -= L U below. */
static haul_status update_right(const haul__call *c, const lu_params *p, haul__part lu, haul__part work)
{
    const int64_t next = p->first + p->width, rest = p->n - next;
    HAUL__ASSERT(0 <= rest && p->width <= work.rows && rest <= work.columns);
    const haul__part u = haul__part_of(lu, p->first, next, p->width, rest);
    if (!rest)
        return HAUL_OK;
    if (haul__solve_triangle(c, haul__part_of(lu, p->first, p->first, p->width, p->width), u,
                             (haul__triangle){.unit = true}) ||
        haul__negate(c, &work, u))
        return haul_error_status();
    return haul__multiply(c, haul__part_of(lu, next, next, rest, rest), true,
                          haul__part_of(lu, next, p->first, rest, p->width), work);
}

static haul_status factor_large(const haul__call *c, lu_params *p, haul__part lu, haul_tensor *order,
                                haul_tensor *pivots)
{
    const int64_t parts = (p->n + SIDE_COLUMNS - 1) / SIDE_COLUMNS;
    HAUL__ASSERT(p->n > HAUL__SMALL);
    haul__part work = haul__temporary_part(c, lu.t->dtype, lu.count, BLOCK, p->n);
    if (!work.t)
        return haul_error_status();
    for (p->first = 0; p->first < p->n; p->first += BLOCK) {
        p->width = p->n - p->first < BLOCK ? p->n - p->first : BLOCK;
        HAUL__ASSERT(0 < p->width && p->width <= BLOCK);
        if (factor_block(c, p, lu, order, pivots))
            return haul_error_status();
        p->items = lu.count * parts;
        if (haul__launch_kernel(c, HAUL__K_lu_exchange_rows, lu.t->dtype, HAUL__OUT(lu.t), HAUL__IN(pivots),
                                HAUL__PARAMS(*p), .grain = 4) ||
            update_right(c, p, lu, work))
            return haul_error_status();
    }
    return HAUL_OK;
}

haul_status haul__factor_lu(const haul__call *c, haul__part lu, haul_tensor *order, haul_tensor *pivots, uint32_t check)
{
    lu_params p = params_of(&lu, order, pivots, check);
    p.width = p.n;
    return p.n <= HAUL__SMALL ? factor_block(c, &p, lu, order, pivots) : factor_large(c, &p, lu, order, pivots);
}

haul_status haul__order_rows(const haul__call *c, haul__part y, haul__part x, haul_tensor *order, bool back)
{
    HAUL__ASSERT(order->count == y.rows || order->count == y.count * y.rows);
    HAUL__ASSERT(x.rows == y.rows && x.columns == y.columns && (x.count == y.count || !x.batch));
    HAUL__ASSERT(y.column == 1 && haul__part_is_within(&y) && haul__part_is_within(&x));
    lu_rows_params p = {.items = y.count * y.rows,
                        .n = y.rows,
                        .columns = y.columns,
                        .y_at = haul__part_offset(&y),
                        .y_row = y.row,
                        .y_batch = y.batch,
                        .x_at = haul__part_offset(&x),
                        .x_row = x.row,
                        .x_column = x.column,
                        .x_batch = x.batch,
                        .order_at = order->offset,
                        .order_batch = order->count == y.rows ? 0 : y.rows,
                        .back = back};
    return haul__launch_kernel(c, HAUL__K_lu_order_rows, y.t->dtype, HAUL__OUT(y.t), HAUL__IN(x.t, order),
                               HAUL__PARAMS(p), .grain = 1 + GRAIN / (p.columns + 1));
}

/* ---- haul_lu ---- */

enum { LU, ORDER };

static haul_status infer(haul__call *c)
{
    const haul_tensor *a = c->operands[0];
    haul_shape         order = a->shape;
    if (haul__check_square(c, 0))
        return haul_error_status();
    order.ndim--;
    return haul__describe(c, ORDER, HAUL_I64, &order) ? haul_error_status()
                                                      : haul__describe(c, LU, a->dtype, &a->shape);
}

static haul_status compute(haul__call *c)
{
    haul_tensor *lu = c->results[LU], *order = c->results[ORDER];
    haul_tensor *pivots = haul__temporary(c, HAUL_I64, &order->shape);
    if (!pivots || haul__copy_elements(lu, c->operands[0], c->operation->name))
        return haul_error_status();
    return haul__factor_lu(c, haul__matrices(lu), order, pivots, 0);
}

static haul__cost cost(const haul__call *c)
{
    const haul_tensor *a = c->operands[0];
    return (haul__cost){.flops = 2.0 / 3 * (double)a->count * (double)a->shape.dims[a->shape.ndim - 1],
                        .bytes = haul__call_bytes(c)};
}

/* With P A = L U: g of P A = L^-T (tril(L^T gL, -1) + triu(gU U^T)) U^-T. */
static void gradient(haul__gradient *g)
{
    haul_tensor *lu = g->saved_results[LU], *order = g->saved_results[ORDER], *given = g->results[LU];
    haul_tensor *ones = haul_triu(haul_tril(haul_ones_like(lu), 0), 0);
    haul_tensor *l = haul_add(haul_tril(lu, -1), ones), *u = haul_triu(lu, 0);
    haul_tensor *below = haul_tril(haul_matmul(haul__adjoint(l), haul_tril(given, -1)), -1);
    haul_tensor *above = haul_triu(haul_matmul(haul_triu(given, 0), haul__adjoint(u)), 0);
    haul_tensor *left = haul_solve_triangular(lu, haul_add(below, above), .transposed = true, .unit = true);
    haul_tensor *rows = haul__adjoint(haul_solve_triangular(lu, haul__adjoint(left), .upper = true));
    haul_tensor *where = haul_unsqueeze(haul_argsort(order, -1, false), -1);
    g->operands[0] = haul_gather(rows, -2, haul_expand(where, *haul__operand_shape(g, 0)));
}

HAUL__OPERATION(lu) = {
    .name = "haul_lu",
    .operands = {{"a"}},
    .results = {{"lu", .saved_for = HAUL__FOR_0}, {"order", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .infer = infer,
    .compute = compute,
    .implementations = &haul__gemm_implementations,
    .gradient = gradient,
    .cost = cost,
};

haul_status haul_lu(haul_tensor *a, haul_tensor **lu, haul_tensor **order)
{
    return haul__apply_two(&haul__operation_lu, NULL, HAUL__OPERANDS(a), lu, order);
}
