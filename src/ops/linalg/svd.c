/* haul_svd, by one-sided Jacobi rotations (Hestenes 1958), and haul_pinv.
 *
 * An item takes a matrix with at least as many columns as rows, or the transposed matrix. It rotates pairs of rows
 * until all are orthogonal: their lengths are the singular values, and the rotations the vectors of the other side. */
#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/linalg/linalg.h"

// clang-format off
/* kernel text begins */
#include "ops/linalg/linalg_kernel.h"

typedef struct svd_params {
    I64 items, k, length; /* rows, and elements of each */
    I64 s_at, a_at, v_at;
} svd_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* The squares of rows that are at most this long, where the largest element is 1, are too small to be exact. */
FUNC A svd_vanishing(void)
{
    const A t = LIT(1e-18);
    return A_IS_F32 ? t : t * t * t * t * t * t * t * t;
}

/* Makes row i a unit vector that is orthogonal to the rows before it. */
FUNC void svd_complete(GLOBAL T *a, I64 i, I64 length)
{
    GLOBAL T *row = a + i * length;
    for (I64 axis = 0; axis < length; axis++) {
        for (I64 j = 0; j < length; j++) row[j] = j == axis ? LIT(1.0) : LIT(0.0);
        for (I64 again = 0; again < 2; again++)
            for (I64 r = 0; r < i; r++)
                linalg_subtract(row, a + r * length, linalg_dot(row, a + r * length, length), 0, length);
        const A size = M_SQRT(linalg_dot(row, row, length));
        if (size * size * (A)(2 * length) > LIT(1.0)) { /* one axis is at least as far from the other rows */
            for (I64 j = 0; j < length; j++) row[j] /= size;
            return;
        }
    }
}

/* a [k, length] becomes its right singular vectors, as rows, and v [k, k] the left ones, as rows. */
KERNEL3(svd, svd_params, T, values, T, matrices, T, others)
{
    FOR_ITEMS(m) {
        const I64 k = p.k, n = p.length;
        GLOBAL T *a = matrices + p.a_at + m * k * n;
        GLOBAL T *v = others + p.v_at + m * k * k;
        GLOBAL T *s = values + p.s_at + m * k;
        A most = LIT(0.0), finite = LIT(0.0);
        for (I64 i = 0; i < k * n; i++) {
            most = M_ABS(a[i]) > most ? M_ABS(a[i]) : most;
            finite += a[i] - a[i]; /* NaN for NaN and infinities */
        }
        const A scale = most > LIT(0.0) ? most : LIT(1.0);
        for (I64 i = 0; i < k * n; i++) a[i] /= scale;
        for (I64 i = 0; i < k; i++)
            for (I64 j = 0; j < k; j++) v[i * k + j] = i == j ? LIT(1.0) : LIT(0.0);
        for (I32 round = 0, turns = finite == LIT(0.0); round < JACOBI_ROUNDS && turns; round++) {
            turns = 0;
            for (I64 i = 0; i < k; i++)
                for (I64 j = i + 1; j < k; j++) {
                    GLOBAL T *x = a + i * n;
                    GLOBAL T *y = a + j * n;
                    const A xx = linalg_dot(x, x, n), yy = linalg_dot(y, y, n), xy = linalg_dot(x, y, n);
                    if (!(M_ABS(xy) > linalg_near() * M_SQRT(xx) * M_SQRT(yy))) continue;
                    const A t = linalg_tangent((yy - xx) / (LIT(2.0) * xy)), c = LIT(1.0) / M_SQRT(t * t + LIT(1.0));
                    linalg_rotate(x, y, c, t * c, n);
                    linalg_rotate(v + i * k, v + j * k, c, t * c, k);
                    turns = 1;
                }
        }
        for (I64 i = 0; i < k; i++) s[i] = M_SQRT(linalg_dot(a + i * n, a + i * n, n));
        for (I64 i = 0; i < k; i++) {
            I64 largest = i;
            for (I64 j = i + 1; j < k; j++) largest = s[j] > s[largest] ? j : largest;
            const A value = s[largest];
            s[largest] = s[i];
            s[i] = value;
            for (I64 j = 0; j < n && largest != i; j++) {
                const A x = a[largest * n + j];
                a[largest * n + j] = a[i * n + j];
                a[i * n + j] = x;
            }
            for (I64 j = 0; j < k && largest != i; j++) {
                const A x = v[largest * k + j];
                v[largest * k + j] = v[i * k + j];
                v[i * k + j] = x;
            }
            if (value > svd_vanishing()) {
                for (I64 j = 0; j < n; j++) a[i * n + j] /= value;
            } else {
                svd_complete(a, i, n);
            }
            s[i] = value * scale + finite;
        }
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { U, S, VT };

static haul_status infer(haul__call *c)
{
    const haul_tensor *a = c->operands[0];
    haul_shape         lead = a->shape;
    if (lead.ndim < 2)
        return haul__refuse_shape(c, 0, "matrices [..., m, n] are expected");
    lead.ndim -= 2;
    const int64_t m = a->shape.dims[lead.ndim], n = a->shape.dims[lead.ndim + 1], k = m < n ? m : n;
    if (haul__check_jacobi(c, k))
        return haul_error_status();
    const haul_shape u = haul__shape_with(&lead, m, k), s = haul__shape_with(&lead, k, -1),
                     vt = haul__shape_with(&lead, k, n);
    return haul__describe(c, U, a->dtype, &u) || haul__describe(c, S, a->dtype, &s) ||
                   haul__describe(c, VT, a->dtype, &vt)
               ? haul_error_status()
               : HAUL_OK;
}

/* The rows that are rotated are those of a wide matrix, which become vt, or those of the transposed tall one, which
 * become u^T. The rotations are the vectors of the other side, as rows. */
static haul_status jacobi(haul__call *c)
{
    haul_tensor *a = c->operands[0], *u = c->results[U], *s = c->results[S], *vt = c->results[VT];
    const int    last = a->shape.ndim - 1;
    const bool   tall = a->shape.dims[last - 1] > a->shape.dims[last];
    haul_tensor *from = tall ? haul__turned(c, a) : a, *rows = from ? haul__temporary(c, a->dtype, &from->shape) : NULL;
    haul_shape   square = a->shape;
    square.dims[last - 1] = square.dims[last] = s->shape.dims[last - 1];
    haul_tensor *others = haul__temporary(c, a->dtype, &square);
    if (!rows || !others || haul__copy_elements(rows, from, c->operation->name))
        return haul_error_status();
    svd_params p = {.k = s->shape.dims[last - 1],
                    .length = rows->shape.dims[last],
                    .s_at = s->offset,
                    .a_at = rows->offset,
                    .v_at = others->offset};
    HAUL__ASSERT(p.k <= p.length && p.k == rows->shape.dims[last - 1]);
    p.items = haul__matrices(rows).count;
    HAUL__ASSERT(p.items * p.k * p.length == rows->count);
    if (haul__launch_kernel(c, HAUL__K_svd, a->dtype, HAUL__OUT(s, rows, others), HAUL__PARAMS(p),
                            .grain = 1 + 16384 / (p.k * p.k * p.length + 1)))
        return haul_error_status();
    haul_tensor *for_u = haul__turned(c, tall ? rows : others);
    return !for_u || haul__copy_elements(u, for_u, c->operation->name) ||
                   haul__copy_elements(vt, tall ? others : rows, c->operation->name)
               ? haul_error_status()
               : HAUL_OK;
}

static haul_status compute(haul__call *c)
{
    return haul__spectrum_compute(c, jacobi);
}

static haul__cost cost(const haul__call *c)
{
    const haul_tensor *s = c->results[S];
    return (haul__cost){.flops = 96 * (double)c->operands[0]->count * (double)s->shape.dims[s->shape.ndim - 1],
                        .bytes = haul__call_bytes(c)};
}

static haul_tensor *identity_like(haul_tensor *x)
{
    return haul_triu(haul_tril(haul_ones_like(x), 0), 0);
}

/* (X - X^T) / E */
static haul_tensor *skew_over(haul_tensor *x, haul_tensor *e)
{
    return haul_div(haul_sub(x, haul__adjoint(x)), e);
}

/* U ((skew(U^T gU) / E) S + S (skew(V^T gV) / E) + diag(gS)) V^T, where E[i][j] = s[j]^2 - s[i]^2, and for each side
 * with more elements than singular values the part of its gradient that is orthogonal to its vectors. */
static void gradient(haul__gradient *g)
{
    haul_tensor *u = g->saved_results[U], *s = g->saved_results[S], *vt = g->saved_results[VT], *v = haul__adjoint(vt);
    haul_tensor *gu = haul__is_none(g->results[U]) ? haul_zeros_like(u) : g->results[U];
    haul_tensor *gs = haul__is_none(g->results[S]) ? haul_zeros_like(s) : g->results[S];
    haul_tensor *gv = haul__is_none(g->results[VT]) ? haul_zeros_like(v) : haul__adjoint(g->results[VT]);
    haul_tensor *row = haul_unsqueeze(s, -2), *column = haul_unsqueeze(s, -1);
    haul_tensor *ut = haul__adjoint(u), *of_u = haul_matmul(ut, gu), *of_v = haul_matmul(vt, gv);
    haul_tensor *one = identity_like(of_u);
    haul_tensor *diagonal = haul_mul(one, haul_unsqueeze(gs, -1)), *inner = diagonal;
    if (!haul__is_none(g->results[U]) || !haul__is_none(g->results[VT])) {
        haul_tensor *e = haul_add(haul_mul(haul_sub(row, column), haul_add(row, column)), one);
        inner = haul_add(haul_mul(skew_over(of_u, e), row), haul_mul(column, skew_over(of_v, e)));
        inner = haul_add(inner, diagonal);
    }
    haul_tensor  *all = haul_matmul(haul_matmul(u, inner), vt);
    const int64_t m = u->shape.dims[u->shape.ndim - 2], n = vt->shape.dims[vt->shape.ndim - 1];
    const int64_t k = s->shape.dims[s->shape.ndim - 1];
    HAUL__ASSERT(k == (m < n ? m : n));
    if (m > k && !haul__is_none(g->results[U]))
        all = haul_add(all, haul_matmul(haul_div(haul_sub(gu, haul_matmul(u, of_u)), row), vt));
    if (n > k && !haul__is_none(g->results[VT]))
        all = haul_add(all, haul_matmul(haul_div(u, row), haul__adjoint(haul_sub(gv, haul_matmul(v, of_v)))));
    g->operands[0] = all;
}

HAUL__OPERATION(svd) = {
    .name = "haul_svd",
    .operands = {{"a"}},
    .results = {{"u", .saved_for = HAUL__FOR_0}, {"s", .saved_for = HAUL__FOR_0}, {"vt", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .infer = infer,
    .compute = compute,
    .implementations = &haul__spectrum_implementations,
    .gradient = gradient,
    .cost = cost,
};

haul_status haul_svd(haul_tensor *a, haul_tensor **u, haul_tensor **s, haul_tensor **vt)
{
    haul_device  *back;
    haul_tensor  *made[HAUL__MAX_RESULTS], *on = haul__for_jacobi(&haul__operation_svd, a, &back);
    haul_tensor **outs[] = {u, s, vt};
    haul_status   status = u && s && vt ? haul__apply(&haul__operation_svd, NULL, HAUL__OPERANDS(on), made)
                                        : haul__fail_null("haul_svd", !u   ? "u"
                                                                      : !s ? "s"
                                                                           : "vt");
    status = haul__from_jacobi(status, made, 3, back);
    for (int i = 0; i < 3; i++)
        if (outs[i])
            *outs[i] = status ? haul__failed_tensor() : made[i];
    return status;
}

/* ---- haul_pinv ---- */

typedef struct pinv_attributes {
    double cutoff;
} pinv_attributes;

/* V diag(1 / s, or 0 for those that count as 0) U^T. */
static haul_status pinv(haul__call *c)
{
    const pinv_attributes *at = haul__attributes(c);
    haul_tensor           *a = c->operands[0], *u, *s, *vt;
    if (!(at->cutoff >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "cutoff", "cutoff is %g; 0 or more is expected",
                          at->cutoff);
    if (haul_svd(a, &u, &s, &vt))
        return haul_error_status();
    const int64_t m = u->shape.dims[u->shape.ndim - 2], n = vt->shape.dims[vt->shape.ndim - 1];
    const double  precision = s->dtype == HAUL_F32 ? 0x1p-23 : 0x1p-52, longer = (double)(m > n ? m : n);
    HAUL__ASSERT(s->shape.dims[s->shape.ndim - 1] == (m < n ? m : n));
    if (!s->count) {
        haul_shape shape = a->shape;
        shape.dims[shape.ndim - 2] = n;
        shape.dims[shape.ndim - 1] = m;
        c->results[0] = haul_zeros_like(haul_reshape(a, shape));
        return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
    }
    haul_tensor *least = haul_mul_scalar(haul_slice(s, -1, 0, 1, 1), at->cutoff ? at->cutoff : precision * longer);
    haul_tensor *inverse = haul_masked_fill(haul_div(haul_ones_like(s), s), haul_le(s, least), 0);
    c->results[0] = haul_matmul(haul_mul(haul__adjoint(vt), haul_unsqueeze(inverse, -2)), haul__adjoint(u));
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

/* -P^T g P^T + (I - A P) g^T P P^T + P^T P g^T (I - P A) (Golub, Pereyra 1973) */
static void pinv_gradient(haul__gradient *g)
{
    haul_tensor *a = g->saved[0], *y = g->saved_results[0], *yt = haul__adjoint(y), *gt = haul__adjoint(g->results[0]);
    haul_tensor *right = haul_matmul(gt, haul_matmul(y, yt)), *left = haul_matmul(haul_matmul(yt, y), gt);
    haul_tensor *first = haul_neg(haul_matmul(haul_matmul(yt, g->results[0]), yt));
    haul_tensor *second = haul_sub(right, haul_matmul(a, haul_matmul(y, right)));
    haul_tensor *third = haul_sub(left, haul_matmul(haul_matmul(left, y), a));
    g->operands[0] = haul_add(haul_add(first, second), third);
}

HAUL__OPERATION(pinv) = {
    .name = "haul_pinv",
    .operands = {{"a", .saved_for = HAUL__FOR_0}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .attributes_size = HAUL__ATTRIBUTES(pinv_attributes),
    .compose = pinv,
    .gradient = pinv_gradient,
};

haul_tensor *haul_pinv(haul_tensor *a, double cutoff)
{
    return HAUL__APPLY(pinv, &(pinv_attributes){cutoff}, a);
}
