/* haul_det and haul_slogdet: products of the diagonal of an LU factorisation. */
#include <math.h>

#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/linalg/linalg.h"
#include "ops/matmul/gemm.h"

// clang-format off
/* kernel text begins */
typedef struct determinant_params {
    I64 items, n;
    I64 at[2]; /* of the results */
    I64 lu_at, pivots_at;
} determinant_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
/* -1 for an odd number of exchanges */
FUNC A determinant_sign(GLOBAL const I64 *pivots, I64 n)
{
    I64 exchanges = 0;
    for (I64 i = 0; i < n; i++) exchanges += pivots[i] != i;
    return exchanges % 2 ? LIT(-1.0) : LIT(1.0);
}

KERNEL3(determinant, determinant_params, T, y, const T, lu, const I64, pivots)
{
    FOR_ITEMS(m) {
        GLOBAL const T *u = lu + p.lu_at + m * p.n * p.n;
        A product = determinant_sign(pivots + p.pivots_at + m * p.n, p.n);
        for (I64 i = 0; i < p.n; i++) product *= u[i * (p.n + 1)];
        y[p.at[0] + m] = product;
    }
}

KERNEL4(determinant_log, determinant_params, T, sign, T, log, const T, lu, const I64, pivots)
{
    FOR_ITEMS(m) {
        GLOBAL const T *u = lu + p.lu_at + m * p.n * p.n;
        A s = determinant_sign(pivots + p.pivots_at + m * p.n, p.n), sum = LIT(0.0);
        for (I64 i = 0; i < p.n; i++) {
            const A d = u[i * (p.n + 1)];
            s *= M_SIGN(d);
            sum += M_LOG(M_ABS(d));
        }
        sign[p.at[0] + m] = s;
        log[p.at[1] + m] = sum;
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 64 };
enum { SIGN, LOG };

/* A temporary factorisation of the operand. */
static haul_status factor(const haul__call *c, haul_tensor **lu, haul_tensor **pivots)
{
    haul_tensor *a = c->operands[0];
    haul_shape   rows = a->shape;
    rows.ndim--;
    HAUL__ASSERT(a->shape.ndim >= 2 && a->count > 0);
    haul_tensor *order = haul__temporary(c, HAUL_I64, &rows);
    *lu = haul__temporary(c, a->dtype, &a->shape);
    *pivots = haul__temporary(c, HAUL_I64, &rows);
    if (!order || !*lu || !*pivots || haul__copy_elements(*lu, a, c->operation->name))
        return haul_error_status();
    return haul__factor_lu(c, haul__matrices(*lu), order, *pivots, 0);
}

static determinant_params params_of(const haul__call *c, const haul_tensor *lu, const haul_tensor *pivots)
{
    determinant_params p = {.items = c->results[0]->count,
                            .n = lu->shape.dims[lu->shape.ndim - 1],
                            .lu_at = lu->offset,
                            .pivots_at = pivots->offset};
    HAUL__ASSERT(pivots->count == p.items * p.n && lu->count == pivots->count * p.n);
    p.at[0] = c->results[0]->offset;
    p.at[1] = c->results[1] ? c->results[1]->offset : 0;
    return p;
}

static haul__cost cost(const haul__call *c)
{
    const haul_tensor *a = c->operands[0];
    return (haul__cost){.flops = 2.0 / 3 * (double)a->count * (double)a->shape.dims[a->shape.ndim - 1],
                        .bytes = haul__call_bytes(c)};
}

static haul_tensor *as_matrices(haul_tensor *t)
{
    return haul_unsqueeze(haul_unsqueeze(t, -1), -1);
}

/* ---- haul_det ---- */

static haul_status det_infer(haul__call *c)
{
    haul_shape shape = c->operands[0]->shape;
    if (haul__check_square(c, 0))
        return haul_error_status();
    shape.ndim -= 2;
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

static haul_status det_compute(haul__call *c)
{
    haul_tensor *lu, *pivots, *y = c->results[0];
    if (!c->operands[0]->count)
        return haul__fill_elements(y, 1, c->operation->name);
    if (factor(c, &lu, &pivots))
        return haul_error_status();
    determinant_params p = params_of(c, lu, pivots);
    return haul__launch_kernel(c, HAUL__K_determinant, y->dtype, HAUL__OUT(y), HAUL__IN(lu, pivots), HAUL__PARAMS(p),
                               .grain = GRAIN);
}

static void det_gradient(haul__gradient *g)
{
    haul_tensor *scale = as_matrices(haul_mul(g->results[0], g->saved_results[0]));
    g->operands[0] = haul_mul(scale, haul__adjoint(haul_inverse(g->saved[0])));
}

HAUL__OPERATION(det) = {
    .name = "haul_det",
    .operands = {{"a", .saved_for = HAUL__FOR_0}},
    .results = {{"y", .saved_for = HAUL__FOR_0}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .infer = det_infer,
    .compute = det_compute,
    .implementations = &haul__gemm_implementations,
    .gradient = det_gradient,
    .cost = cost,
};

haul_tensor *haul_det(haul_tensor *a)
{
    return HAUL__APPLY(det, NULL, a);
}

/* ---- haul_slogdet ---- */

static haul_status slogdet_infer(haul__call *c)
{
    haul_shape shape = c->operands[0]->shape;
    haul_dtype dtype = c->operands[0]->dtype;
    if (haul__check_square(c, 0))
        return haul_error_status();
    shape.ndim -= 2;
    return haul__describe(c, SIGN, dtype, &shape) ? haul_error_status() : haul__describe(c, LOG, dtype, &shape);
}

static haul_status slogdet_compute(haul__call *c)
{
    haul_tensor *lu, *pivots, *sign = c->results[SIGN], *log = c->results[LOG];
    if (!c->operands[0]->count)
        return haul__fill_elements(sign, 1, c->operation->name) ? haul_error_status()
                                                                : haul__fill_elements(log, 0, c->operation->name);
    if (factor(c, &lu, &pivots))
        return haul_error_status();
    determinant_params p = params_of(c, lu, pivots);
    return haul__launch_kernel(c, HAUL__K_determinant_log, sign->dtype, HAUL__OUT(sign, log), HAUL__IN(lu, pivots),
                               HAUL__PARAMS(p), .grain = GRAIN);
}

/* The sign is constant. */
static void slogdet_gradient(haul__gradient *g)
{
    if (!haul__is_none(g->results[LOG]))
        g->operands[0] = haul_mul(as_matrices(g->results[LOG]), haul__adjoint(haul_inverse(g->saved[0])));
}

HAUL__OPERATION(slogdet) = {
    .name = "haul_slogdet",
    .operands = {{"a", .saved_for = HAUL__FOR_0}},
    .results = {{"sign"}, {"log"}},
    .dtypes = HAUL__WHOLE_FLOATS,
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .infer = slogdet_infer,
    .compute = slogdet_compute,
    .implementations = &haul__gemm_implementations,
    .gradient = slogdet_gradient,
    .cost = cost,
};

haul_status haul_slogdet(haul_tensor *a, haul_tensor **sign, haul_tensor **log)
{
    return haul__apply_two(&haul__operation_slogdet, NULL, HAUL__OPERANDS(a), sign, log);
}
