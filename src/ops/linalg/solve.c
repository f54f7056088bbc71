/* haul_solve and haul_inverse, by LU factorisation with partial pivoting. */
#include "base/assert.h"
#include "engine/copy.h"
#include "ops/linalg/linalg.h"
#include "ops/matmul/gemm.h"

enum { A, B };
enum { X, LU, ORDER };

/* ---- with a factorisation ---- */

/* x = the solutions for b, whose matrices are as many as x's or one. */
static haul_status solve_factored(const haul__call *c, haul__part lu, haul_tensor *order, haul__part x, haul__part b,
                                  haul_tensor *work)
{
    HAUL__ASSERT(lu.rows == x.rows && b.rows == x.rows && b.columns == x.columns);
    HAUL__ASSERT(!work || work->count >= x.count * x.rows * x.columns);
    if (!work)
        return haul__order_rows(c, x, b, order, false) ||
                       haul__solve_triangle(c, lu, x, (haul__triangle){.unit = true}) ||
                       haul__solve_triangle(c, lu, x, (haul__triangle){.upper = true})
                   ? haul_error_status()
                   : HAUL_OK;
    const haul__part turned = haul__part_transposed(lu);
    haul__part       y = x;
    y.t = work;
    y.at = 0;
    return haul__solve_triangle(c, turned, y, (haul__triangle){.upper = false}) ||
                   haul__solve_triangle(c, turned, y, (haul__triangle){.upper = true, .unit = true}) ||
                   haul__order_rows(c, x, y, order, true)
               ? haul_error_status()
               : HAUL_OK;
}

/* ---- the transposed system, for gradients ---- */

static haul_status transposed_infer(haul__call *c)
{
    return haul__describe(c, 0, c->operands[2]->dtype, &c->operands[2]->shape);
}

static haul_status transposed_compute(haul__call *c)
{
    haul_tensor *b = c->operands[2], *x = c->results[0], *work = haul__temporary(c, b->dtype, &b->shape);
    if (!work || haul__copy_elements(work, b, c->operation->name))
        return haul_error_status();
    return solve_factored(c, haul__matrices(c->operands[0]), c->operands[1], haul__matrices(x), haul__matrices(work),
                          work);
}

/* A^T x = b [..., n, k], for the factorisation of A. */
HAUL__OPERATION(solve_transposed) = {
    .name = "haul_solve_transposed",
    .operands = {{"lu"}, {"order", .accepts = HAUL__ONLY(HAUL_I64)}, {"b"}},
    .results = {{"x"}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .infer = transposed_infer,
    .compute = transposed_compute,
    .implementations = &haul__gemm_implementations,
    .flops = 2,
};

/* ---- haul_solve ---- */

typedef struct solve_attributes {
    bool vector;
} solve_attributes;

static haul_status solve_infer(haul__call *c)
{
    solve_attributes *a = haul__attributes(c);
    haul__system      s;
    if (haul__check_square(c, A) || haul__check_system(c, &s))
        return haul_error_status();
    HAUL__ASSERT(s.m == s.n);
    a->vector = s.vector;
    const haul_dtype dtype = c->operands[A]->dtype;
    const haul_shape x = haul__shape_with(&s.lead, s.n, s.vector ? -1 : s.k);
    const haul_shape lu = haul__shape_with(&s.a_lead, s.n, s.n), order = haul__shape_with(&s.a_lead, s.n, -1);
    return haul__describe(c, X, dtype, &x) || haul__describe(c, LU, dtype, &lu) ||
                   haul__describe(c, ORDER, HAUL_I64, &order)
               ? haul_error_status()
               : HAUL_OK;
}

/* Vectors are columns. */
static haul__part columns_of(haul_tensor *x, bool vector, int64_t n)
{
    if (!vector)
        return haul__matrices(x);
    HAUL__ASSERT(n > 0 && x->count % n == 0);
    haul__part m = {.t = x, .count = x->count / n, .rows = n, .columns = 1, .row = 1, .column = 1};
    m.batch = m.count == 1 ? 0 : n;
    return m;
}

/* A result, or a temporary in its place. */
static haul_tensor *result_or(const haul__call *c, int i, haul_dtype dtype, const haul_shape *shape)
{
    return c->results[i] ? c->results[i] : haul__temporary(c, dtype, shape);
}

static haul_status solve_compute(haul__call *c)
{
    const solve_attributes *a = haul__attributes(c);
    haul_tensor            *x = c->results[X], *b = c->operands[B];
    haul__system            s;
    if (haul__check_system(c, &s))
        return haul_error_status();
    HAUL__ASSERT(s.m == s.n);
    const haul_shape lu_shape = haul__shape_with(&s.a_lead, s.n, s.n),
                     order_shape = haul__shape_with(&s.a_lead, s.n, -1);
    haul_tensor *lu = result_or(c, LU, x->dtype, &lu_shape), *order = result_or(c, ORDER, HAUL_I64, &order_shape);
    haul_tensor *pivots = haul__temporary(c, HAUL_I64, &order_shape);
    if (!lu || !order || !pivots)
        return haul_error_status();
    HAUL__ASSERT(lu->dtype == c->operands[A]->dtype && b->dtype == x->dtype);
    if (haul__copy_elements(lu, c->operands[A], c->operation->name) ||
        haul__factor_lu(c, haul__matrices(lu), order, pivots, HAUL__SINGULAR(solve)))
        return haul_error_status();
    if (!a->vector && b->count != x->count && b->count != s.n * s.k && !(b = haul__copy_matrices(c, b, &s.lead, 2)))
        return haul_error_status();
    return solve_factored(c, haul__matrices(lu), order, columns_of(x, a->vector, s.n), columns_of(b, a->vector, s.n),
                          NULL);
}

static haul__cost solve_cost(const haul__call *c)
{
    const double n = (double)c->operands[A]->shape.dims[c->operands[A]->shape.ndim - 1];
    return (haul__cost){.flops = 2.0 / 3 * (double)c->operands[A]->count * n + 2 * (double)c->results[X]->count * n,
                        .bytes = haul__call_bytes(c)};
}

/* gB = A^-T g and gA = -gB X^T. */
static void solve_gradient(haul__gradient *g)
{
    const solve_attributes *a = g->attributes;
    haul_tensor            *x = g->saved_results[X], *given = g->results[X], *gb;
    if (a->vector) {
        x = haul_unsqueeze(x, -1);
        given = haul_unsqueeze(given, -1);
    }
    if (haul__differentiated(g))
        gb = haul_solve(haul__adjoint(g->saved[A]), given);
    else
        gb = HAUL__APPLY(solve_transposed, NULL, g->saved_results[LU], g->saved_results[ORDER], given);
    HAUL__ASSERT(haul__failed(gb) || haul__shape_equal(&gb->shape, &given->shape));
    if (haul__wanted(g, A))
        g->operands[A] = haul_neg(haul_matmul(gb, haul__adjoint(x)));
    g->operands[B] = a->vector ? haul_squeeze(gb, -1) : gb;
}

HAUL__OPERATION(solve) = {
    .name = "haul_solve",
    .operands = {{"a", .saved_for = HAUL__FOR_ALL}, {"b"}},
    .results = {{"x", .saved_for = HAUL__FOR_0},
                {"lu", .hidden = true, .saved_for = HAUL__FOR_ALL},
                {"order", .hidden = true, .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(solve_attributes),
    .infer = solve_infer,
    .compute = solve_compute,
    .implementations = &haul__gemm_implementations,
    .gradient = solve_gradient,
    .cost = solve_cost,
};

haul_tensor *haul_solve(haul_tensor *a, haul_tensor *b)
{
    return HAUL__APPLY(solve, (&(solve_attributes){false}), a, b);
}

/* ---- haul_inverse ---- */

static haul_status inverse_infer(haul__call *c)
{
    if (haul__check_square(c, 0))
        return haul_error_status();
    return haul__describe(c, 0, c->operands[0]->dtype, &c->operands[0]->shape);
}

/* A^-1 = U^-1 L^-1 P. */
static haul_status inverse_compute(haul__call *c)
{
    haul_tensor *a = c->operands[0], *x = c->results[0], *lu = haul__temporary(c, a->dtype, &a->shape);
    HAUL__ASSERT(x->count == a->count);
    haul_shape rows = a->shape;
    rows.ndim--;
    haul_tensor *order = haul__temporary(c, HAUL_I64, &rows), *pivots = haul__temporary(c, HAUL_I64, &rows);
    haul_tensor *one = haul__temporary(c, a->dtype, &HAUL_SHAPE(rows.dims[rows.ndim - 1], rows.dims[rows.ndim - 1]));
    if (!lu || !order || !pivots || !one || haul__copy_elements(lu, a, c->operation->name) ||
        haul__factor_lu(c, haul__matrices(lu), order, pivots, HAUL__SINGULAR(inverse)) ||
        haul__identity(c, haul__matrices(one)))
        return haul_error_status();
    return solve_factored(c, haul__matrices(lu), order, haul__matrices(x), haul__matrices(one), NULL);
}

static haul__cost inverse_cost(const haul__call *c)
{
    const haul_tensor *a = c->operands[0];
    return (haul__cost){.flops = 2 * (double)a->count * (double)a->shape.dims[a->shape.ndim - 1],
                        .bytes = haul__call_bytes(c)};
}

static void inverse_gradient(haul__gradient *g)
{
    haul_tensor *turned = haul__adjoint(g->saved_results[0]);
    g->operands[0] = haul_neg(haul_matmul(haul_matmul(turned, g->results[0]), turned));
}

HAUL__OPERATION(inverse) = {
    .name = "haul_inverse",
    .operands = {{"a"}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .infer = inverse_infer,
    .compute = inverse_compute,
    .implementations = &haul__gemm_implementations,
    .gradient = inverse_gradient,
    .cost = inverse_cost,
};

haul_tensor *haul_inverse(haul_tensor *a)
{
    return HAUL__APPLY(inverse, NULL, a);
}
