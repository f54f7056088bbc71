/* haul_qr by Householder reflections, and haul_lstsq.
 *
 * An item reduces a block of columns of a matrix. Its reflections together are I - V T V^T (Schreiber, Van Loan 1989),
 * so products apply them to the columns on the right, and to the identity for Q. */
#include "base/assert.h"
#include "base/numbers.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/linalg/linalg.h"
#include "ops/matmul/gemm.h"

// clang-format off
/* kernel text begins */
#include "ops/linalg/linalg_kernel.h"

typedef struct qr_params {
    I64 items, rows;         /* of a matrix */
    I64 first, width;        /* columns of the block, and its first row */
    I64 a_at, a_row, a_batch;
    I64 v_at, v_row, v_batch;
    I64 t_at, t_batch;
} qr_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* The reflection that makes a column 0 below its first element. The column becomes the vector, whose first element, a 1,
 * is left out: that place gets the element that remains. Returns the factor, 0 for no reflection. */
FUNC A qr_reflection(GLOBAL T *column, I64 n, I64 step)
{
    A below = LIT(0.0);
    for (I64 i = 1; i < n; i++) {
        const A size = M_ABS(column[i * step]);
        below = size > below || size != size ? size : below;
    }
    if (below == LIT(0.0)) return LIT(0.0);
    const A alpha = column[0], scale = M_MAX(below, M_ABS(alpha));
    A sum = LIT(0.0);
    for (I64 i = 0; i < n; i++) {
        const A part = column[i * step] / scale;
        sum += part * part;
    }
    const A norm = scale * M_SQRT(sum), beta = alpha < LIT(0.0) ? norm : -norm;
    for (I64 i = 1; i < n; i++) column[i * step] /= alpha - beta;
    column[0] = beta;
    return (beta - alpha) / beta;
}

/* Columns `first` to `first + width`, from row `first` on. v gets the vectors, as columns, and t [width, width], with rows
 * of SIDE_COLUMNS, gets -T. */
KERNEL3(qr, qr_params, T, matrices, T, vectors, T, factors)
{
    FOR_ITEMS(m) {
        const I64 n = p.rows - p.first;
        const I32 width = (I32)p.width;
        GLOBAL T *a = matrices + p.a_at + m * p.a_batch + p.first * p.a_row + p.first;
        GLOBAL T *v = vectors + p.v_at + m * p.v_batch + p.first * p.v_row + p.first;
        GLOBAL T *t = factors + p.t_at + m * p.t_batch + p.first * SIDE_COLUMNS;
        for (I32 k = 0; k < width; k++) {
            GLOBAL T *top = a + k * p.a_row;
            const A tau = qr_reflection(top + k, n - k, p.a_row);
            A sums[SIDE_COLUMNS]; /* of the vector times each column; on the left those are vectors */
            BLOCK_LOOP for (int l = 0; l < SIDE_COLUMNS; l++) sums[l] = l < width ? top[l] : LIT(0.0);
            for (I64 i = k + 1; i < n; i++) {
                GLOBAL const T *row = a + i * p.a_row;
                const A f = row[k];
                BLOCK_LOOP for (int l = 0; l < SIDE_COLUMNS; l++) sums[l] += f * (l < width ? row[l] : LIT(0.0));
            }
            BLOCK_LOOP for (int l = 0; l < SIDE_COLUMNS; l++) sums[l] *= tau;
            for (int l = 0; l < SIDE_COLUMNS; l++) {
                if (l > k && l < width) top[l] -= sums[l];
                if (l < k) t[l * SIDE_COLUMNS + k] = -sums[l];
                if (l < k) t[k * SIDE_COLUMNS + l] = LIT(0.0);
            }
            for (I64 i = k + 1; i < n; i++) {
                GLOBAL T *row = a + i * p.a_row;
                const A f = row[k];
                for (int l = 0; l < SIDE_COLUMNS; l++)
                    if (l > k && l < width) row[l] -= f * sums[l];
            }
            t[k * SIDE_COLUMNS + k] = -tau;
            for (I32 r = 0; r < k; r++) {
                A sum = LIT(0.0);
                for (I32 q = r; q < k; q++) sum += t[r * SIDE_COLUMNS + q] * t[q * SIDE_COLUMNS + k];
                t[r * SIDE_COLUMNS + k] = sum;
            }
        }
        for (I64 i = 0; i < n; i++)
            for (I32 l = 0; l < width; l++) {
                v[i * p.v_row + l] = i > l ? a[i * p.a_row + l] : i == l ? LIT(1.0) : LIT(0.0);
                if (i > l) a[i * p.a_row + l] = LIT(0.0);
            }
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 8192 };
enum { Q, R };

/* [..., m, n] gives Q [..., m, k] and R [..., k, n], where k is the smaller of m and n. */
static haul_status infer(haul__call *c)
{
    const haul_tensor *a = c->operands[0];
    haul_shape         lead = a->shape;
    if (lead.ndim < 2)
        return haul__refuse_shape(c, 0, "matrices [..., m, n] are expected");
    lead.ndim -= 2;
    const int64_t    m = a->shape.dims[lead.ndim], n = a->shape.dims[lead.ndim + 1], k = smaller(m, n);
    const haul_shape q = haul__shape_with(&lead, m, k), r = haul__shape_with(&lead, k, n);
    return haul__describe(c, Q, a->dtype, &q) ? haul_error_status() : haul__describe(c, R, a->dtype, &r);
}

/* The reflections: V [m, k], -T of each block [k, SIDE_COLUMNS], and two workspaces of products. */
typedef struct reflections {
    haul__part v, t, once, twice;
} reflections;

static haul_status make_reflections(const haul__call *c, const haul__part *a, reflections *h)
{
    const int64_t k = smaller(a->rows, a->columns);
    HAUL__ASSERT(k > 0);
    h->v = haul__temporary_part(c, a->t->dtype, a->count, a->rows, k);
    h->t = haul__temporary_part(c, a->t->dtype, a->count, k, SIDE_COLUMNS);
    h->once = haul__temporary_part(c, a->t->dtype, a->count, SIDE_COLUMNS, a->columns);
    h->twice = haul__temporary_part(c, a->t->dtype, a->count, SIDE_COLUMNS, a->columns);
    return h->v.t && h->t.t && h->once.t && h->twice.t ? HAUL_OK : haul_error_status();
}

static haul_status factor_block(const haul__call *c, haul__part a, const reflections *h, int64_t first, int64_t width)
{
    HAUL__ASSERT(0 < width && width <= SIDE_COLUMNS && first + width <= smaller(a.rows, a.columns));
    HAUL__ASSERT(h->v.rows == a.rows && h->v.count == a.count && haul__part_is_within(&a));
    qr_params p = {.items = a.count,
                   .rows = a.rows,
                   .first = first,
                   .width = width,
                   .a_at = haul__part_offset(&a),
                   .a_row = a.row,
                   .a_batch = a.batch,
                   .v_at = haul__part_offset(&h->v),
                   .v_row = h->v.row,
                   .v_batch = h->v.batch,
                   .t_at = haul__part_offset(&h->t),
                   .t_batch = h->t.batch};
    return haul__launch_kernel(c, HAUL__K_qr, a.t->dtype, HAUL__OUT(a.t, h->v.t, h->t.t), HAUL__PARAMS(p),
                               .grain = 1 + GRAIN / (p.rows * width * 4 + 1));
}

/* x += V -T V^T x for a block of reflections, or with T^T: `turned`. x begins at the block's first row. */
static haul_status reflect(const haul__call *c, haul__part x, const reflections *h, int64_t first, int64_t width,
                           bool turned)
{
    HAUL__ASSERT(first + x.rows == h->v.rows && width <= SIDE_COLUMNS && x.columns <= h->once.columns);
    const haul__part v = haul__part_of(h->v, first, first, x.rows, width),
                     t = haul__part_of(h->t, first, 0, width, width);
    const haul__part once = haul__part_of(h->once, 0, 0, width, x.columns);
    const haul__part twice = haul__part_of(h->twice, 0, 0, width, x.columns);
    if (haul__multiply(c, once, false, haul__part_transposed(v), x) ||
        haul__multiply(c, twice, false, turned ? haul__part_transposed(t) : t, once))
        return haul_error_status();
    return haul__multiply(c, x, true, v, twice);
}

static haul_status compute(haul__call *c)
{
    haul_tensor *given = c->operands[0], *q = c->results[Q], *r = c->results[R];
    haul_tensor *work = haul__temporary(c, given->dtype, &given->shape);
    reflections  h;
    if (!work || haul__copy_elements(work, given, c->operation->name))
        return haul_error_status();
    const haul__part a = haul__matrices(work), whole_q = haul__matrices(q);
    const int64_t    k = smaller(a.rows, a.columns);
    if (make_reflections(c, &a, &h))
        return haul_error_status();
    for (int64_t at = 0; at < k; at += SIDE_COLUMNS) {
        const int64_t width = smaller(k - at, SIDE_COLUMNS), next = at + width;
        if (factor_block(c, a, &h, at, width) ||
            (next < a.columns &&
             reflect(c, haul__part_of(a, at, next, a.rows - at, a.columns - next), &h, at, width, true)))
            return haul_error_status();
    }
    HAUL__ASSERT(whole_q.rows == a.rows && whole_q.columns == k);
    haul_tensor *top = haul__view_as(c, work, &r->shape, work->strides, work->offset);
    if (!top || haul__copy_elements(r, top, c->operation->name) || haul__identity(c, whole_q))
        return haul_error_status();
    for (int64_t at = (k - 1) / SIDE_COLUMNS * SIDE_COLUMNS; at >= 0; at -= SIDE_COLUMNS)
        if (reflect(c, haul__part_of(whole_q, at, at, a.rows - at, k - at), &h, at, smaller(k - at, SIDE_COLUMNS),
                    false))
            return haul_error_status();
    return HAUL_OK;
}

static haul__cost cost(const haul__call *c)
{
    const haul_tensor *q = c->results[Q], *r = c->results[R];
    const double       k = (double)q->shape.dims[q->shape.ndim - 1];
    return (haul__cost){.flops = 2 * k * ((double)q->count + (double)c->operands[0]->count) - k * (double)r->count,
                        .bytes = haul__call_bytes(c)};
}

/* For a matrix of at least as many rows as columns: (gQ + Q (tril(M) + tril(M, -1)^T)) R^-T with M = R gR^T - gQ^T Q.
 */
static haul_tensor *gradient_of(haul_tensor *q, haul_tensor *r, haul_tensor *gq, haul_tensor *gr)
{
    haul_tensor *of_q = haul_matmul(haul__adjoint(gq), q), *of_r = haul_matmul(r, haul__adjoint(gr));
    haul_tensor *m = haul_sub(of_r, of_q);
    haul_tensor *both = haul_add(haul_tril(m, 0), haul__adjoint(haul_tril(m, -1)));
    haul_tensor *b = haul_add(gq, haul_matmul(q, both));
    return haul__adjoint(haul_solve_triangular(r, haul__adjoint(b), .upper = true));
}

/* A wide matrix is [X, Y], where X is square, and R is [U, V]: Y = Q V. */
static void gradient(haul__gradient *g)
{
    haul_tensor  *q = g->saved_results[Q], *r = g->saved_results[R];
    haul_tensor  *gq = haul__is_none(g->results[Q]) ? haul_zeros_like(q) : g->results[Q];
    haul_tensor  *gr = haul__is_none(g->results[R]) ? haul_zeros_like(r) : g->results[R];
    const int64_t m = r->shape.dims[r->shape.ndim - 2], n = r->shape.dims[r->shape.ndim - 1];
    HAUL__ASSERT(m <= n);
    if (m == n) {
        g->operands[0] = gradient_of(q, r, gq, gr);
        return;
    }
    haul_tensor *u = haul_slice(r, -1, 0, m, 1), *v = haul_slice(r, -1, m, n, 1);
    haul_tensor *gu = haul_slice(gr, -1, 0, m, 1), *gv = haul_slice(gr, -1, m, n, 1);
    gq = haul_add(gq, haul_matmul(haul_matmul(q, v), haul__adjoint(gv)));
    haul_tensor *parts[] = {gradient_of(q, u, gq, gu), haul_matmul(q, gv)};
    g->operands[0] = haul_cat(parts, 2, -1);
}

HAUL__OPERATION(qr) = {
    .name = "haul_qr",
    .operands = {{"a"}},
    .results = {{"q", .saved_for = HAUL__FOR_0}, {"r", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .infer = infer,
    .compute = compute,
    .implementations = &haul__gemm_implementations,
    .gradient = gradient,
    .cost = cost,
};

haul_status haul_qr(haul_tensor *a, haul_tensor **q, haul_tensor **r)
{
    return haul__apply_two(&haul__operation_qr, NULL, HAUL__OPERANDS(a), q, r);
}

/* ---- haul_lstsq ---- */

/* Tall: x = R^-1 Q^T b. Wide, with A^T = Q R: x = Q R^-T b, the smallest solution. */
static haul_status lstsq(haul__call *c)
{
    haul_tensor *a = c->operands[0], *b = c->operands[1], *q, *r, *x;
    haul__system s;
    if (haul__check_system(c, &s))
        return haul_error_status();
    b = s.vector ? haul_unsqueeze(b, -1) : b;
    if (haul_qr(s.m < s.n ? haul__adjoint(a) : a, &q, &r))
        return haul_error_status();
    if (s.m >= s.n)
        x = haul__solve_triangular_for(r, haul_matmul(haul__adjoint(q), b), true, false, HAUL__SINGULAR(lstsq));
    else
        x = haul_matmul(q, haul__solve_triangular_for(r, b, true, true, HAUL__SINGULAR(lstsq)));
    HAUL__ASSERT(haul__failed(x) || x->shape.dims[x->shape.ndim - 2] == s.n);
    c->results[0] = s.vector ? haul_squeeze(x, -1) : x;
    return HAUL_OK;
}

HAUL__OPERATION(lstsq) = {
    .name = "haul_lstsq",
    .operands = {{"a"}, {"b"}},
    .results = {{"x"}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .compose = lstsq,
};

haul_tensor *haul_lstsq(haul_tensor *a, haul_tensor *b)
{
    return HAUL__APPLY(lstsq, NULL, a, b);
}
