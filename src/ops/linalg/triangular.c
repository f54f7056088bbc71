/* haul_solve_triangular, and triangular systems for other operations.
 *
 * An item solves for SIDE_COLUMNS columns of the right side. Once a row is solved, its part is subtracted from the
 * remaining rows. Systems of more than HAUL__SMALL rows do so with blocks of rows, by products. */
#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/linalg/linalg.h"
#include "ops/matmul/gemm.h"

// clang-format off
/* kernel text begins */
#include "ops/linalg/linalg_kernel.h"

typedef struct triangular_params {
    I64 items, n, columns, parts; /* rows, columns of the right side, items of a matrix */
    I64 t_at, t_row, t_column, t_batch;
    I64 x_at, x_row, x_batch;
    I64 first, count;             /* for faults: number of the first row, and of matrices */
    I32 upper, unit, identity;    /* identity: the right side is minus the identity and x is not read */
    U32 check;
} triangular_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
KERNEL3(triangular, triangular_params, T, x, const T, t, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 m = QUOTIENT(i, p.parts), c = (i - m * p.parts) * SIDE_COLUMNS;
        const I64 w = M_MIN_OF(p.columns - c, (I64)SIDE_COLUMNS);
        GLOBAL const T *a = t + p.t_at + m * p.t_batch;
        GLOBAL T *v = x + p.x_at + m * p.x_batch + c;
        for (I64 r = 0; r < (p.identity ? p.n : 0); r++)
            for (I64 j = 0; j < w; j++) v[r * p.x_row + j] = c + j == r ? LIT(-1.0) : LIT(0.0);
        for (I64 s = 0; s < p.n; s++) {
            const I64 r = p.upper ? p.n - 1 - s : s;
            GLOBAL const T *column = a + r * p.t_column;
            GLOBAL T *known = v + r * p.x_row;
            if (!p.unit) {
                const A d = column[r * p.t_row];
                if (p.check && d == LIT(0.0) && c == 0) CHECKED_INDEX(fault, p.check, m, -1 - (p.first + r), p.count);
                for (I64 j = 0; j < w; j++) known[j] /= d;
            }
            const A one = known[0];
            for (I64 q = s + 1; q < p.n; q++) {
                const I64 k = p.upper ? p.n - 1 - q : q;
                if (w == 1) v[k * p.x_row] -= column[k * p.t_row] * one;
                else linalg_subtract(v + k * p.x_row, known, column[k * p.t_row], 0, w);
            }
        }
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

/* ---- systems ---- */

static haul_status solve_block(const haul__call *c, haul__part t, haul__part x, haul__triangle how, int64_t first,
                               bool identity)
{
    HAUL__ASSERT(t.rows == t.columns && t.rows == x.rows && 0 < x.rows && x.rows <= HAUL__SMALL && x.column == 1);
    HAUL__ASSERT((t.count == x.count || !t.batch) && haul__part_is_within(&t) && haul__part_is_within(&x));
    triangular_params p = {.n = x.rows,
                           .columns = x.columns,
                           .parts = (x.columns + SIDE_COLUMNS - 1) / SIDE_COLUMNS,
                           .t_at = haul__part_offset(&t),
                           .t_row = t.row,
                           .t_column = t.column,
                           .t_batch = t.batch,
                           .x_at = haul__part_offset(&x),
                           .x_row = x.row,
                           .x_batch = x.batch,
                           .first = first,
                           .count = t.batch ? t.count : 1,
                           .upper = how.upper,
                           .unit = how.unit,
                           .identity = identity,
                           .check = how.check};
    p.items = x.count * p.parts;
    return haul__launch_kernel(c, HAUL__K_triangular, x.t->dtype, HAUL__OUT(x.t), HAUL__IN(t.t), HAUL__PARAMS(p),
                               .grain = 1 + GRAIN / (p.n * p.n * SIDE_COLUMNS + 1), .checks = true);
}

haul_status haul__invert_triangle(const haul__call *c, haul__part t, haul__part x, haul__triangle how)
{
    return solve_block(c, t, x, how, 0, true);
}

/* Rows `first` to `first + rows` are solved; the remaining rows get x -= t x of them. */
static haul_status update_rest(const haul__call *c, haul__part t, haul__part x, bool upper, int64_t first, int64_t rows,
                               haul__part work)
{
    const int64_t from = upper ? 0 : first + rows, rest = upper ? first : x.rows - from;
    HAUL__ASSERT(0 <= rest && rows + rest <= x.rows && work.rows >= rows && work.columns == x.columns);
    if (!rest)
        return HAUL_OK;
    if (haul__negate(c, &work, haul__part_of(x, first, 0, rows, x.columns)))
        return haul_error_status();
    return haul__multiply(c, haul__part_of(x, from, 0, rest, x.columns), true,
                          haul__part_of(t, from, first, rest, rows), work);
}

haul_status haul__solve_triangle(const haul__call *c, haul__part t, haul__part x, haul__triangle how)
{
    HAUL__ASSERT(t.rows == t.columns && t.rows == x.rows && (t.count == x.count || !t.batch));
    const int64_t blocks = (x.rows + HAUL__SMALL - 1) / HAUL__SMALL;
    haul__part    work = {.t = NULL};
    if (blocks <= 1)
        return solve_block(c, t, x, how, 0, false);
    work = haul__temporary_part(c, x.t->dtype, x.count, HAUL__SMALL, x.columns);
    if (!work.t)
        return haul_error_status();
    for (int64_t b = 0; b < blocks; b++) {
        const int64_t first = (how.upper ? blocks - 1 - b : b) * HAUL__SMALL;
        const int64_t rows = x.rows - first < HAUL__SMALL ? x.rows - first : HAUL__SMALL;
        HAUL__ASSERT(0 < rows && rows <= HAUL__SMALL);
        if (solve_block(c, haul__part_of(t, first, first, rows, rows), haul__part_of(x, first, 0, rows, x.columns), how,
                        first, false) ||
            update_rest(c, t, x, how.upper, first, rows, work))
            return haul_error_status();
    }
    return HAUL_OK;
}

/* ---- haul_solve_triangular ---- */

typedef struct triangular_attributes {
    bool     upper, transposed, unit, vector;
    uint32_t check;
} triangular_attributes;

static haul_status infer(haul__call *c)
{
    triangular_attributes *a = haul__attributes(c);
    haul__system           s;
    if (haul__check_square(c, 0) || haul__check_system(c, &s))
        return haul_error_status();
    a->vector = s.vector;
    const haul_shape shape = haul__shape_with(&s.lead, s.n, s.vector ? -1 : s.k);
    return haul__describe(c, 0, c->operands[1]->dtype, &shape);
}

/* x as matrices, also where it is a vector or a batch of them. */
static haul__part columns_of(haul_tensor *x, bool vector)
{
    if (!vector)
        return haul__matrices(x);
    const int64_t n = x->shape.dims[x->shape.ndim - 1];
    HAUL__ASSERT(n > 0 && x->count % n == 0);
    haul__part m = {.t = x, .count = x->count / n, .rows = n, .columns = 1, .row = 1, .column = 1};
    m.batch = m.count == 1 ? 0 : n;
    return m;
}

static haul_status compute(haul__call *c)
{
    const triangular_attributes *a = haul__attributes(c);
    haul_tensor                 *t = c->operands[0], *x = c->results[0];
    haul__system                 s;
    if (haul__check_system(c, &s) || haul__copy_elements(x, c->operands[1], c->operation->name))
        return haul_error_status();
    haul_shape lead = t->shape;
    lead.ndim -= 2;
    if (!haul__shape_equal(&lead, &s.a_lead) && !(t = haul__copy_matrices(c, t, &s.a_lead, 2)))
        return haul_error_status();
    haul__part matrices = haul__matrices(t);
    HAUL__ASSERT(matrices.rows == matrices.columns);
    if (a->transposed)
        matrices = haul__part_transposed(matrices);
    return haul__solve_triangle(
        c, matrices, columns_of(x, a->vector),
        (haul__triangle){.upper = a->upper != a->transposed, .unit = a->unit, .check = a->check});
}

static haul__cost cost(const haul__call *c)
{
    const haul_shape *a = &c->operands[0]->shape;
    return (haul__cost){.flops = (double)c->results[0]->count * (double)a->dims[a->ndim - 1],
                        .bytes = haul__call_bytes(c)};
}

/* For A X = B: gB = A^-T g, gA = -gB X^T; for A^T X = B: gB = A^-1 g, gA = -X gB^T. Only the triangle gets its part. */
static void gradient(haul__gradient *g)
{
    const triangular_attributes *a = g->attributes;
    haul_tensor                 *x = g->saved_results[0], *given = g->results[0];
    if (a->vector) {
        x = haul_unsqueeze(x, -1);
        given = haul_unsqueeze(given, -1);
    }
    haul_tensor *gb =
        haul_solve_triangular(g->saved[0], given, .upper = a->upper, .transposed = !a->transposed, .unit = a->unit);
    HAUL__ASSERT(haul__failed(gb) || haul__shape_equal(&gb->shape, &given->shape));
    if (haul__wanted(g, 0)) {
        haul_tensor *all =
            haul_neg(a->transposed ? haul_matmul(x, haul__adjoint(gb)) : haul_matmul(gb, haul__adjoint(x)));
        g->operands[0] = a->upper ? haul_triu(all, a->unit) : haul_tril(all, -(int64_t)a->unit);
    }
    g->operands[1] = a->vector ? haul_squeeze(gb, -1) : gb;
}

HAUL__OPERATION(solve_triangular) = {
    .name = "haul_solve_triangular",
    .operands = {{"a", .saved_for = HAUL__FOR_0 | HAUL__FOR_1}, {"b", .layout = HAUL__ANY_STRIDES}},
    .results = {{"x", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(triangular_attributes),
    .infer = infer,
    .compute = compute,
    .implementations = &haul__gemm_implementations,
    .gradient = gradient,
    .cost = cost,
};

haul_tensor *haul_solve_triangular_with(haul_tensor *a, const haul_solve_triangular_options *options)
{
    if (!options)
        return haul__no_options(&haul__operation_solve_triangular);
    triangular_attributes at = {.upper = options->upper,
                                .transposed = options->transposed,
                                .unit = options->unit,
                                .check = HAUL__SINGULAR(solve_triangular)};
    return HAUL__APPLY(solve_triangular, &at, a, options->b);
}

haul_tensor *haul__solve_triangular_for(haul_tensor *a, haul_tensor *b, bool upper, bool transposed, uint32_t check)
{
    triangular_attributes at = {.upper = upper, .transposed = transposed, .check = check};
    return HAUL__APPLY(solve_triangular, &at, a, b);
}
