/* RMS normalisation over the last axis: layer normalisation without the mean. The gradient has a kernel; if it is to be
 * differentiated again, it is composed of operations. */
#include "base/assert.h"
#include "core/option.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/attributes.h"
#include "ops/normalise/vector.h"

// clang-format off
/* kernel text begins */
#include "ops/normalise/norm_kernel.h"
#include "ops/reduce/range_kernel.h"

typedef struct rms_norm_params {
    I64 items, n, at[6]; /* rows, elements of a row, offsets of the buffers: -1 for one that is absent */
    U64 eps;
} rms_norm_params;
#if defined(HAUL_KERNEL) && IS_FLOAT
/* The scale of row x, whose mean square and eps make this total, which is outside of the range. */
RARE_FUNC A rms_norm_mended(GLOBAL const T *x, const rms_norm_params p, const A total)
{
    const A factor = range_factor(total);
    EXPAND(row_sum, squares, p.n, LOAD(x, j) * factor * (LOAD(x, j) * factor))
    return factor / M_SQRT(squares / (A)p.n + SCALAR(p.eps) * factor * factor);
}

/* y = x scale weight, where scale = 1 / sqrt(mean square + eps). */
KERNEL4(rms_norm, rms_norm_params, T, out, ACC, scales, const T, in, const T, w)
{
    FOR_ROWS(i) {
        GLOBAL const T *x = in + p.at[2] + i * p.n;
        GLOBAL T *y = out + p.at[0] + i * p.n;
        EXPAND(row_sum, squares, p.n, LOAD(x, j) * LOAD(x, j))
        const A total = squares / (A)p.n + SCALAR(p.eps), plain = LIT(1.0) / M_SQRT(total);
        const A scale = is_outside(total, squares_least()) ? rms_norm_mended(x, p, total) : plain;
        EACH_OF_ROW(j, p.n) STORE(y, j, LOAD(x, j) * scale * norm_weight(w, p.at[3], j));
        if (p.at[1] >= 0 && IS_FIRST_LANE) scales[p.at[1] + i] = scale;
    }
}

/* With h = g weight and the normalised x^: dx = scale (h - x^ mean(h x^)), and gx = g x^. */
KERNEL6(rms_norm_backward, rms_norm_params, T, out, ACC, gx, const T, in, const T, w, const T, in_g, const ACC, scales)
{
    FOR_ROWS(i) {
        GLOBAL const T *x = in + p.at[2] + i * p.n, *g = in_g + p.at[4] + i * p.n;
        GLOBAL T *dx = out + p.at[0] + i * p.n;
        const A scale = scales[p.at[5] + i];
        EXPAND(row_sum, product, p.n, LOAD(g, j) * norm_weight(w, p.at[3], j) * (LOAD(x, j) * scale))
        const A mean_product = product / (A)p.n;
        EACH_OF_ROW(j, p.n) {
            const A h = LOAD(g, j) * norm_weight(w, p.at[3], j), normal = LOAD(x, j) * scale;
            STORE(dx, j, scale * (h - normal * mean_product));
        }
        if (p.at[1] >= 0)
            EACH_OF_ROW(j, p.n) gx[p.at[1] + i * p.n + j] = LOAD(g, j) * (LOAD(x, j) * scale);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { X, WEIGHT };

static haul_status infer(haul__call *c)
{
    const haul_tensor               *x = c->operands[X];
    haul_shape                       shape = x->shape;
    const haul__rms_norm_attributes *a = haul__attributes(c);
    bool forward = c->operation->results[1].hidden; /* result 1 is the scales of rows, else gx */
    if (!shape.ndim)
        return haul__refuse_shape(c, X, "at least one dimension is expected");
    if (!(a->eps >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "eps", "eps is %g; 0 or more is expected", a->eps);
    if (haul__check_vector(c, WEIGHT, shape.ndim - 1))
        return haul_error_status();
    shape.dims[shape.ndim - 1] = forward ? 1 : a->without_gx ? 0 : shape.dims[shape.ndim - 1];
    haul_status status = haul__describe(c, 1, haul__sum_dtype(x->dtype), &shape);
    return status ? status : haul__describe(c, 0, x->dtype, &x->shape);
}

/* For both kernels: they take two results and then the operands, with any buffer in place of an absent one. */
static haul_status compute(haul__call *c)
{
    haul_tensor    *x = c->operands[X], *buffers[6];
    rms_norm_params p = {.n = x->shape.dims[x->shape.ndim - 1]};
    p.items = x->count ? x->count / p.n : 0;
    HAUL__ASSERT(c->count + 2 <= (int)(sizeof buffers / sizeof *buffers) && c->results[0]->count == p.items * p.n);
    p.eps = haul__scalar_bits(x->dtype, ((const haul__rms_norm_attributes *)haul__attributes(c))->eps);
    for (int i = 0; i < 2 + c->count; i++) {
        buffers[i] = i < 2 ? c->results[i] : c->operands[i - 2];
        p.at[i] = !buffers[i] || haul__is_none(buffers[i]) || !buffers[i]->count ? -1 : buffers[i]->offset;
        if (p.at[i] < 0)
            buffers[i] = i < 2 ? c->results[0] : x;
    }
    return haul__launch_kernel(c, c->operation->kernel, x->dtype, .outs = buffers, .out_count = 2, .ins = buffers + 2,
                               .in_count = c->count, HAUL__PARAMS(p), .grain = 1 + 4096 / (p.n + 1));
}

HAUL__OPERATION(rms_norm_backward) = {
    .name = "haul_rms_norm_backward",
    .operands = {{"x"}, {"weight", .optional = true}, {"g"}, {"scales", .accepts = HAUL__FLOATS}},
    .results = {{"dx"}, {"gx"}},
    .dtypes = HAUL__FLOATS,
    .kernel = HAUL__K_rms_norm_backward,
    .attributes_size = HAUL__ATTRIBUTES(haul__rms_norm_attributes),
    .infer = infer,
    .compute = compute,
    .flops = 10,
};

static haul_tensor *row_mean(haul_tensor *x)
{
    return haul_mean(x, HAUL_AXES(-1), .keepdim = true);
}

/* The gradient of weight has x's shape here; the caller sums the rows. */
static void gradient(haul__gradient *c)
{
    haul_tensor *x = c->saved[X], *w = c->saved[WEIGHT], *g = c->results[0];
    if (!haul__differentiated(c)) {
        haul__rms_norm_attributes a = *(const haul__rms_norm_attributes *)c->attributes;
        haul_tensor              *made[HAUL__MAX_RESULTS] = {NULL};
        a.without_gx = !haul__wanted(c, WEIGHT);
        haul__apply(&haul__operation_rms_norm_backward, &a, HAUL__OPERANDS(x, w, g, c->saved_results[1]), made);
        HAUL__ASSERT(a.without_gx || haul__failed(made[1]) || made[1]->count == x->count);
        c->operands[X] = made[0];
        c->operands[WEIGHT] = a.without_gx ? HAUL_NONE : made[1];
        return;
    }
    haul_tensor *h = haul__is_none(w) ? g : haul_mul(g, w);
    haul_tensor *scale =
        haul_rsqrt(haul_add_scalar(row_mean(haul_square(x)), ((const haul__rms_norm_attributes *)c->attributes)->eps));
    haul_tensor *normal = haul_mul(x, scale);
    HAUL__ASSERT(haul__failed(normal) || normal->count == x->count);
    c->operands[X] = haul_mul(scale, haul_sub(h, haul_mul(normal, row_mean(haul_mul(h, normal)))));
    c->operands[WEIGHT] = haul_mul(g, normal);
}

HAUL__OPERATION(rms_norm) = {
    .name = "haul_rms_norm",
    .operands = {{"x", .saved_for = HAUL__FOR_ALL}, {"weight", .optional = true, .saved_for = HAUL__FOR_ALL}},
    .results = {{"y"}, {"scales", .hidden = true, .saved_for = HAUL__FOR_ALL}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .kernel = HAUL__K_rms_norm,
    .attributes_size = HAUL__ATTRIBUTES(haul__rms_norm_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 5,
};

HAUL__FUNCTIONS_WITH(rms_norm, haul__rms_norm_attributes, {.eps = haul__option(o->eps, 1e-5)},
                     (const haul_rms_norm_options *o), o->x, haul__optional(o->weight))
