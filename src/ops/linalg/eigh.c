/* haul_eigh: eigenvalues and eigenvectors of symmetric matrices, by Jacobi's method.
 *
 * An item takes a matrix. It makes the elements off the diagonal 0, pair by pair, until a whole round finds none that
 * matters. Rows are rotated in full; so are columns, as the matrix stays symmetric. */
#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/linalg/linalg.h"

// clang-format off
/* kernel text begins */
#include "ops/linalg/linalg_kernel.h"

typedef struct eigh_params {
    I64 items, n;
    I64 w_at, v_at, a_at, turned_at;
} eigh_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* Rows p and q of the symmetric a, and its columns, so that element (p, q) becomes 0, and rows p and q of v. */
FUNC void eigh_rotate(GLOBAL T *a, GLOBAL T *v, I64 n, I64 p, I64 q)
{
    const A theta = (a[q * n + q] - a[p * n + p]) / (LIT(2.0) * a[p * n + q]);
    const A t = linalg_tangent(theta), c = LIT(1.0) / M_SQRT(t * t + LIT(1.0)), s = t * c;
    linalg_rotate(a + p * n, a + q * n, c, s, n);
    for (I64 i = 0; i < n; i++) {
        const A x = a[i * n + p], y = a[i * n + q];
        a[i * n + p] = c * x - s * y;
        a[i * n + q] = s * x + c * y;
    }
    a[p * n + q] = LIT(0.0);
    a[q * n + p] = LIT(0.0);
    linalg_rotate(v + p * n, v + q * n, c, s, n);
}

/* True if an element that is not 0 changes neither of two others when 1/64 of it is added. */
FUNC I32 eigh_is_lost(A x, A a, A b)
{
    const A part = M_ABS(x) / LIT(64.0);
    return M_ABS(a) + part == M_ABS(a) && M_ABS(b) + part == M_ABS(b);
}

/* v [n, n] gets the eigenvectors as columns; a is lost, and `turned` has them as rows. */
KERNEL4(eigh, eigh_params, T, values, T, vectors, T, matrices, T, rows)
{
    FOR_ITEMS(m) {
        const I64 n = p.n;
        GLOBAL T *a = matrices + p.a_at + m * n * n;
        GLOBAL T *v = rows + p.turned_at + m * n * n;
        GLOBAL T *w = values + p.w_at + m * n;
        GLOBAL T *out = vectors + p.v_at + m * n * n;
        A finite = LIT(0.0);
        for (I64 i = 0; i < n; i++)
            for (I64 j = 0; j < n; j++) {
                if (j > i) a[i * n + j] = a[j * n + i];
                finite += a[i * n + j] - a[i * n + j]; /* NaN for NaN and infinities */
                v[i * n + j] = i == j ? LIT(1.0) : LIT(0.0);
            }
        for (I32 round = 0, turns = 1; round < JACOBI_ROUNDS && turns; round++) {
            turns = 0;
            for (I64 i = 0; i < n; i++)
                for (I64 j = i + 1; j < n; j++)
                    if (a[i * n + j] != LIT(0.0) && !eigh_is_lost(a[i * n + j], a[i * n + i], a[j * n + j]) &&
                        finite == LIT(0.0)) {
                        eigh_rotate(a, v, n, i, j);
                        turns = 1;
                    }
        }
        for (I64 i = 0; i < n; i++) w[i] = a[i * (n + 1)] + finite;
        for (I64 i = 0; i < n; i++) {
            I64 least = i;
            for (I64 j = i + 1; j < n; j++) least = w[j] < w[least] ? j : least;
            const A value = w[least];
            w[least] = w[i];
            w[i] = value;
            for (I64 j = 0; j < n; j++) {
                const A x = v[least * n + j];
                v[least * n + j] = v[i * n + j];
                v[i * n + j] = x;
                out[j * n + i] = x + finite;
            }
        }
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { W, V };

static haul_status infer(haul__call *c)
{
    const haul_tensor *a = c->operands[0];
    haul_shape         values = a->shape;
    if (haul__check_square(c, 0) || haul__check_jacobi(c, a->shape.dims[a->shape.ndim - 1]))
        return haul_error_status();
    values.ndim--;
    return haul__describe(c, W, a->dtype, &values) ? haul_error_status() : haul__describe(c, V, a->dtype, &a->shape);
}

static haul_status jacobi(haul__call *c)
{
    haul_tensor *given = c->operands[0], *w = c->results[W], *v = c->results[V];
    haul_tensor *a = haul__temporary(c, given->dtype, &given->shape),
                *rows = haul__temporary(c, given->dtype, &given->shape);
    if (!a || !rows || haul__copy_elements(a, given, c->operation->name))
        return haul_error_status();
    eigh_params p = {.n = given->shape.dims[given->shape.ndim - 1],
                     .w_at = w->offset,
                     .v_at = v->offset,
                     .a_at = a->offset,
                     .turned_at = rows->offset};
    HAUL__ASSERT(v->count == a->count && w->count * p.n == a->count);
    p.items = haul__matrices(given).count;
    HAUL__ASSERT(p.items * p.n * p.n == a->count);
    return haul__launch_kernel(c, HAUL__K_eigh, a->dtype, HAUL__OUT(w, v, a, rows), HAUL__PARAMS(p),
                               .grain = 1 + 16384 / (p.n * p.n * p.n + 1));
}

static haul_status compute(haul__call *c)
{
    return haul__spectrum_compute(c, jacobi);
}

/* About eight rounds of n^2 / 2 rotations, each of three rows or columns of six operations an element. */
static haul__cost cost(const haul__call *c)
{
    const haul_tensor *a = c->operands[0];
    const double       n = (double)a->shape.dims[a->shape.ndim - 1];
    return (haul__cost){.flops = 72 * (double)a->count * n, .bytes = haul__call_bytes(c)};
}

/* V (diag(gw) + (V^T gV) / E) V^T, where E[i][j] = w[j] - w[i]. */
static void gradient(haul__gradient *g)
{
    haul_tensor *w = g->saved_results[W], *v = g->saved_results[V], *inner = HAUL_NONE;
    haul_tensor *one = haul_triu(haul_tril(haul_ones_like(v), 0), 0);
    HAUL__ASSERT(v->shape.ndim == w->shape.ndim + 1);
    if (!haul__is_none(g->results[V])) {
        haul_tensor *apart = haul_sub(haul_unsqueeze(w, -2), haul_unsqueeze(w, -1));
        haul_tensor *turned = haul_div(haul_matmul(haul__adjoint(v), g->results[V]), haul_add(apart, one));
        inner = haul_sub(turned, haul_mul(turned, one));
    }
    if (!haul__is_none(g->results[W])) {
        haul_tensor *diagonal = haul_mul(one, haul_unsqueeze(g->results[W], -1));
        inner = haul__is_none(inner) ? diagonal : haul_add(inner, diagonal);
    }
    if (!haul__is_none(inner))
        g->operands[0] = haul_matmul(haul_matmul(v, inner), haul__adjoint(v));
}

HAUL__OPERATION(eigh) = {
    .name = "haul_eigh",
    .operands = {{"a"}},
    .results = {{"w", .saved_for = HAUL__FOR_0}, {"v", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .infer = infer,
    .compute = compute,
    .implementations = &haul__spectrum_implementations,
    .gradient = gradient,
    .cost = cost,
};

haul_status haul_eigh(haul_tensor *a, haul_tensor **w, haul_tensor **v)
{
    haul_device  *back;
    haul_tensor  *made[HAUL__MAX_RESULTS], *on = haul__for_jacobi(&haul__operation_eigh, a, &back);
    haul_tensor **outs[] = {w, v};
    haul_status   status = w && v ? haul__apply(&haul__operation_eigh, NULL, HAUL__OPERANDS(on), made)
                                  : haul__fail_null("haul_eigh", w ? "v" : "w");
    status = haul__from_jacobi(status, made, 2, back);
    for (int i = 0; i < 2; i++)
        if (outs[i])
            *outs[i] = status ? haul__failed_tensor() : made[i];
    return status;
}
