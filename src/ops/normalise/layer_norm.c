/* Layer normalisation over the last axis. One work item computes a row: first the mean, then the squared deviations.
 * The gradient has a kernel; if it is to be differentiated again, it is composed of operations. */
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

typedef struct layer_norm_params {
    I64 items, n, at[6]; /* rows, elements of a row, offsets of the buffers: -1 for one that is absent */
    U64 eps;
} layer_norm_params;
#if defined(HAUL_KERNEL) && IS_FLOAT
FUNC A layer_norm_bias(GLOBAL const T *bias, I64 at, I64 j, A d) { return at < 0 ? d : d + LOAD(bias, at + j); }

/* 1 if the variance and eps of this scale are outside of the range. */
FUNC I32 layer_norm_is_lost(A scale) { return (I32) !(scale > 0) | (I32) !(scale * scale <= LIT(1.0) / squares_least()); }

FUNC A layer_norm_square(A e, A mean, A factor) { return (e - mean) * factor * ((e - mean) * factor); }
/* The scale of row v with this plain mean, and its mean, where one of both is outside of the range. */
RARE_FUNC A layer_norm_mended(GLOBAL const T *v, const layer_norm_params p, PRIVATE A *mean)
{
    EXPAND(row_sum, lower, p.n, LOAD(v, j) * range_lower())
    *mean = is_finite(*mean) ? *mean : lower / (A)p.n / range_lower();
    EXPAND(row_sum, plain, p.n, layer_norm_square(LOAD(v, j), *mean, LIT(1.0)))
    const A factor = is_outside(plain / (A)p.n + SCALAR(p.eps), squares_least()) ? range_factor(plain / (A)p.n) : LIT(1.0);
    EXPAND(row_sum, squares, p.n, layer_norm_square(LOAD(v, j), *mean, factor))
    return factor / M_SQRT(squares / (A)p.n + SCALAR(p.eps) * factor * factor);
}

/* y = (x - mean) scale weight + bias, where scale = 1 / sqrt(variance + eps). */
KERNEL5(layer_norm, layer_norm_params, T, out, ACC, stats, const T, in, const T, w, const T, bias)
{
    FOR_ROWS(i) {
        GLOBAL const T *x = in + p.at[2] + i * p.n;
        GLOBAL T *y = out + p.at[0] + i * p.n;
        EXPAND(row_sum, sum, p.n, LOAD(x, j))
        const A plain = sum / (A)p.n;
        EXPAND(row_sum, squares, p.n, (LOAD(x, j) - plain) * (LOAD(x, j) - plain))
        A mean = plain, scale = LIT(1.0) / M_SQRT(squares / (A)p.n + SCALAR(p.eps));
        if (layer_norm_is_lost(scale)) scale = layer_norm_mended(x, p, &mean);
        EACH_OF_ROW(j, p.n) {
            const A normal = (LOAD(x, j) - mean) * scale;
            STORE(y, j, layer_norm_bias(bias, p.at[4], j, normal * norm_weight(w, p.at[3], j)));
        }
        if (p.at[1] >= 0 && IS_FIRST_LANE) { stats[p.at[1] + 2 * i] = mean; stats[p.at[1] + 2 * i + 1] = scale; }
    }
}

/* With h = g weight and the normalised x^: dx = scale (h - mean(h) - x^ mean(h x^)), and gx = g x^. */
KERNEL6(layer_norm_backward, layer_norm_params, T, out, ACC, gx, const T, in, const T, w, const T, in_g, const ACC, stats)
{
    FOR_ROWS(i) {
        GLOBAL const T *x = in + p.at[2] + i * p.n, *g = in_g + p.at[4] + i * p.n;
        GLOBAL T *dx = out + p.at[0] + i * p.n;
        const A mean = stats[p.at[5] + 2 * i], scale = stats[p.at[5] + 2 * i + 1];
        EXPAND(row_sum, sum, p.n, LOAD(g, j) * norm_weight(w, p.at[3], j))
        EXPAND(row_sum, product, p.n, LOAD(g, j) * norm_weight(w, p.at[3], j) * ((LOAD(x, j) - mean) * scale))
        const A mean_h = sum / (A)p.n, mean_product = product / (A)p.n;
        EACH_OF_ROW(j, p.n) {
            const A h = LOAD(g, j) * norm_weight(w, p.at[3], j), normal = (LOAD(x, j) - mean) * scale;
            STORE(dx, j, scale * (h - mean_h - normal * mean_product));
        }
        if (p.at[1] >= 0)
            EACH_OF_ROW(j, p.n) gx[p.at[1] + i * p.n + j] = LOAD(g, j) * ((LOAD(x, j) - mean) * scale);
    }
}
#endif
/* kernel text ends */
// clang-format on
enum { X, WEIGHT, BIAS };
#define ROW_MEAN(x) haul_mean(x, HAUL_AXES(-1), .keepdim = true)
#define SAVED       .saved_for = HAUL__FOR_ALL

static haul_status infer(haul__call *c)
{
    const haul_tensor *x = c->operands[X];
    haul_shape         shape = x->shape;
    bool               forward = c->operation->results[1].hidden; /* result 1 is the statistics of rows, else gx */
    const haul__layer_norm_attributes *a = haul__attributes(c);
    if (!shape.ndim)
        return haul__refuse_shape(c, X, "at least one dimension is expected");
    if (!(a->eps >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "eps", "eps is %g; 0 or more is expected", a->eps);
    for (int i = WEIGHT; i <= BIAS && forward; i++)
        if (haul__check_vector(c, i, shape.ndim - 1))
            return haul_error_status();
    shape.dims[shape.ndim - 1] = forward ? 2 : a->without_gx ? 0 : shape.dims[shape.ndim - 1];
    return haul__describe(c, 1, haul__sum_dtype(x->dtype), &shape) ? haul_error_status()
                                                                   : haul__describe(c, 0, x->dtype, &x->shape);
}

/* For both kernels: they take two results and then the operands, with any buffer in place of an absent one. */
static haul_status compute(haul__call *c)
{
    haul_tensor      *x = c->operands[X], *buffers[6];
    layer_norm_params p = {.n = x->shape.dims[x->shape.ndim - 1]};
    p.items = x->count ? x->count / p.n : 0;
    HAUL__ASSERT(c->count + 2 <= (int)(sizeof buffers / sizeof *buffers) && c->results[0]->count == p.items * p.n);
    p.eps = haul__scalar_bits(x->dtype, ((const haul__layer_norm_attributes *)haul__attributes(c))->eps);
    for (int i = 0; i < 2 + c->count; i++) {
        buffers[i] = i < 2 ? c->results[i] : c->operands[i - 2];
        p.at[i] = !buffers[i] || haul__is_none(buffers[i]) || !buffers[i]->count ? -1 : buffers[i]->offset;
        if (p.at[i] < 0)
            buffers[i] = i < 2 ? c->results[0] : x;
    }
    return haul__launch_kernel(c, c->operation->kernel, x->dtype, .outs = buffers, .out_count = 2, .ins = buffers + 2,
                               .in_count = c->count, HAUL__PARAMS(p), .grain = haul__whole_sides(1 + 4096 / (p.n + 1)));
}

HAUL__OPERATION(layer_norm_backward) = {
    .name = "haul_layer_norm_backward",
    .operands = {{"x"}, {"weight", .optional = true}, {"g"}, {"stats", .accepts = HAUL__FLOATS}},
    .results = {{"dx"}, {"gx"}},
    .dtypes = HAUL__FLOATS,
    .kernel = HAUL__K_layer_norm_backward,
    .attributes_size = HAUL__ATTRIBUTES(haul__layer_norm_attributes),
    .infer = infer,
    .compute = compute,
    .flops = 13,
};

/* Gradients of weight and bias have x's shape here; the caller sums the rows. */
static void gradient(haul__gradient *c)
{
    haul_tensor *x = c->saved[X], *w = c->saved[WEIGHT], *g = c->operands[BIAS] = c->results[0];
    if (!haul__differentiated(c)) {
        haul__layer_norm_attributes a = *(const haul__layer_norm_attributes *)c->attributes;
        haul_tensor                *made[HAUL__MAX_RESULTS] = {NULL};
        a.without_gx = !haul__wanted(c, WEIGHT);
        haul__apply(&haul__operation_layer_norm_backward, &a, HAUL__OPERANDS(x, w, g, c->saved_results[1]), made);
        c->operands[X] = made[0];
        c->operands[WEIGHT] = a.without_gx ? HAUL_NONE : made[1];
        return;
    }
    haul_tensor *centred = haul_sub(x, ROW_MEAN(x)), *h = haul__is_none(w) ? g : haul_mul(g, w);
    haul_tensor *scale = haul_rsqrt(
        haul_add_scalar(ROW_MEAN(haul_square(centred)), ((const haul__layer_norm_attributes *)c->attributes)->eps));
    haul_tensor *normal = haul_mul(centred, scale), *along = haul_mul(normal, ROW_MEAN(haul_mul(h, normal)));
    c->operands[X] = haul_mul(scale, haul_sub(haul_sub(h, ROW_MEAN(h)), along));
    c->operands[WEIGHT] = haul_mul(g, normal);
}

HAUL__OPERATION(layer_norm) = {
    .name = "haul_layer_norm",
    .operands = {{"x", SAVED}, {"weight", .optional = true, SAVED}, {"bias", .optional = true}},
    .results = {{"y"}, {"stats", .hidden = true, SAVED}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .kernel = HAUL__K_layer_norm,
    .attributes_size = HAUL__ATTRIBUTES(haul__layer_norm_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 8,
};

HAUL__FUNCTIONS_WITH(layer_norm, haul__layer_norm_attributes, {.eps = haul__option(o->eps, 1e-5)},
                     (const haul_layer_norm_options *o), o->x, haul__optional(o->weight), haul__optional(o->bias))
