/* Layer normalisation over the last axis. One work item computes a row: first the mean, then the squared deviations.
 * The gradient has a kernel; if it is to be differentiated again, it is composed of operations. */
#include "core/option.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
#include "ops/reduce/range_kernel.h"

typedef struct layer_norm_params {
    I64 items, n, at[6]; /* rows, elements of a row, offsets of the buffers: -1 for one that is absent */
    U64 eps;
} layer_norm_params;
#if defined(HAUL_KERNEL) && IS_FLOAT
/* MEAN, that of TERM, an expression of j, over a row. S is what the lanes have. */
TEMPLATE(layer_norm_mean, MEAN, S, TERM)
        LANE_VALUES(A, S);
        EACH_LANE(l, SUM_LANES) OF_LANE(S, l) = 0;
        for (I64 k = 0; k + SUM_LANES <= p.n; k += SUM_LANES)
            EACH_LANE(l, SUM_LANES) { const I64 j = k + l; OF_LANE(S, l) += TERM; }
        EACH_REST(l, p.n % SUM_LANES) { const I64 j = p.n - p.n % SUM_LANES + l; OF_LANE(S, l) = IN_REST(l, p.n % SUM_LANES, OF_LANE(S, l) + TERM, OF_LANE(S, l)); }
        LANE_TREE(A, S, SUM_OF)
        const A MEAN = OF_FIRST_LANE(S) / (A)p.n;
END_TEMPLATE

#define LAYER_NORM_SCALED ((LOAD(v, j) - *mean) * factor)
/* The scale of row v with this plain mean, and its mean, where one of both is outside of the range. */
RANGE_RARE A layer_norm_mended(GLOBAL const T *v, const layer_norm_params p, PRIVATE A *mean)
{
    EXPAND(layer_norm_mean, lower, s, LOAD(v, j) * RANGE_LOWER)
    *mean = IS_FINITE(*mean) ? *mean : lower / RANGE_LOWER;
    A factor = LIT(1.0);
    EXPAND(layer_norm_mean, plain, t, LAYER_NORM_SCALED * LAYER_NORM_SCALED)
    factor = IS_OUTSIDE(plain + SCALAR(p.eps), SQUARES_LEAST) ? RANGE_FACTOR(plain) : factor;
    EXPAND(layer_norm_mean, var, u, LAYER_NORM_SCALED * LAYER_NORM_SCALED)
    return factor / M_SQRT(var + SCALAR(p.eps) * factor * factor);
}

/* SUMS[0], the sums of TERM over each of SIDE_ROWS rows, which may use `mean`, the row's MEAN. */
TEMPLATE(layer_norm_sides, SUMS, MEAN, TERM)
        A SUMS[SIDE_ROWS][SIDE_ROWS];
        for (int r = 0; r < SIDE_ROWS; r++) {
            GLOBAL const T *v = x + p.at[2] + (i + r) * p.n;
            const A mean = MEAN;
            A low[SIDE_ROWS], high[SIDE_ROWS];
            EACH_SIDE(l) low[l] = 0;
            EACH_SIDE(l) high[l] = 0;
            for (I64 k = 0; k < whole; k += SUM_LANES) {
                EACH_SIDE(l) { const I64 j = k + l; low[l] += TERM; }
                EACH_SIDE(l) { const I64 j = k + l + SIDE_ROWS; high[l] += TERM; }
            }
            if (rest) {
                EACH_SIDE(l) { const I64 j = whole + l; low[l] = l < rest ? low[l] + TERM : low[l]; }
                EACH_SIDE(l) { const I64 j = whole + l + SIDE_ROWS; high[l] = l + SIDE_ROWS < rest ? high[l] + TERM : high[l]; }
            }
            EACH_SIDE(l) SUMS[r][l] = low[l] + high[l];
            (void)mean;
        }
        SIDE_TREE(A, SUMS, SUM_OF)
END_TEMPLATE

/* 1 if the variance and eps of this scale are outside of the range. */
#define LAYER_NORM_IS_LOST(scale) ((I32) !((scale) > 0) | (I32) !((scale) * (scale) <= LIT(1.0) / SQUARES_LEAST))
#define LAYER_NORM_NORMAL ((LOAD(v, j) - mean) * scale)
/* Row I, whose mean and scale are known. */
TEMPLATE(layer_norm_put, I)
            EACH_OF_ROW(j, p.n) {
                const A d = LAYER_NORM_NORMAL * (p.at[3] < 0 ? LIT(1.0) : LOAD(w, p.at[3] + j));
                STORE(y, p.at[0] + (I) * p.n + j, p.at[4] < 0 ? d : d + LOAD(bias, p.at[4] + j));
            }
            if (p.at[1] >= 0 && IS_FIRST_LANE) { stats[p.at[1] + 2 * (I)] = mean; stats[p.at[1] + 2 * (I) + 1] = scale; }
END_TEMPLATE

#if HAS_SIDES
/* Groups of short rows; where the rest begins. A function of its own, as longer rows become slower in one with it. */
__attribute__((noinline)) static I64 layer_norm_short(T *y, ACC *stats, const T *x, const T *w, const T *bias, const layer_norm_params p, I64 haul_first, I64 haul_last)
{
    const I64 whole = p.n - p.n % SUM_LANES;
    const int rest = (int)(p.n - whole);
    FOR_SIDES(i) {
        A means[SIDE_ROWS], scales[SIDE_ROWS];
        EXPAND(layer_norm_sides, sums, 0, LOAD(v, j))
        EACH_SIDE(r) means[r] = sums[0][r] / (A)p.n;
        EXPAND(layer_norm_sides, squares, means[r], (LOAD(v, j) - mean) * (LOAD(v, j) - mean))
        EACH_SIDE(r) scales[r] = LIT(1.0) / M_SQRT(squares[0][r] / (A)p.n + SCALAR(p.eps));
        int lost = 0;
        EACH_SIDE(r) lost |= LAYER_NORM_IS_LOST(scales[r]);
        for (int r = 0; r < SIDE_ROWS; r++) {
            GLOBAL const T *v = x + p.at[2] + (i + r) * p.n;
            A mean = means[r], scale = scales[r];
            if (lost && LAYER_NORM_IS_LOST(scale)) scale = layer_norm_mended(v, p, &mean);
            EXPAND(layer_norm_put, i + r)
        }
    }
    return haul_first;
}
#endif

KERNEL5(layer_norm, layer_norm_params, T, y, ACC, stats, const T, x, const T, w, const T, bias)
{
#if HAS_SIDES
    if (p.n < SHORT_ROW) haul_first = layer_norm_short(y, stats, x, w, bias, p, haul_first, haul_last);
#endif
    FOR_ROWS(i) {
        GLOBAL const T *v = x + p.at[2] + i * p.n;
        EXPAND(layer_norm_mean, plain, s, LOAD(v, j))
        EXPAND(layer_norm_mean, var, t, (LOAD(v, j) - plain) * (LOAD(v, j) - plain))
        A mean = plain, scale = LIT(1.0) / M_SQRT(var + SCALAR(p.eps));
        if (LAYER_NORM_IS_LOST(scale)) scale = layer_norm_mended(v, p, &mean);
        EXPAND(layer_norm_put, i)
    }
}

/* dx = scale (h - mean(h) - x^ mean(h x^)), where h = g weight and x^ is the normalised x; gx = g x^. */
#define LAYER_NORM_H (LOAD(u, j) * (p.at[3] < 0 ? LIT(1.0) : LOAD(w, p.at[3] + j)))
KERNEL6(layer_norm_backward, layer_norm_params, T, dx, ACC, gx, const T, x, const T, w, const T, g, const ACC, stats)
{
    FOR_ROWS(i) {
        GLOBAL const T *v = x + p.at[2] + i * p.n, *u = g + p.at[4] + i * p.n;
        const A mean = stats[p.at[5] + 2 * i], scale = stats[p.at[5] + 2 * i + 1];
        EXPAND(layer_norm_mean, plain, s, LAYER_NORM_H)
        EXPAND(layer_norm_mean, along, t, LAYER_NORM_H * LAYER_NORM_NORMAL)
        EACH_OF_ROW(j, p.n) STORE(dx, p.at[0] + i * p.n + j, scale * (LAYER_NORM_H - plain - LAYER_NORM_NORMAL * along));
        if (p.at[1] >= 0)
            EACH_OF_ROW(j, p.n) gx[p.at[1] + i * p.n + j] = LOAD(u, j) * LAYER_NORM_NORMAL;
    }
}
#endif
/* kernel text ends */
// clang-format on
typedef struct layer_norm_attributes {
    double eps;
    bool   without_gx; /* of the gradient: weight needs none */
    bool   reserved[7];
} layer_norm_attributes;

enum { X, WEIGHT, BIAS };
#define INPUTS(o)   (o)->x, haul__optional((o)->weight), haul__optional((o)->bias)
#define EPS(o)      (&(layer_norm_attributes){.eps = haul__option((o)->eps, 1e-5)})
#define ROW_MEAN(x) haul_mean(x, HAUL_AXES(-1), .keepdim = true)
#define SAVED       .saved_for = HAUL__FOR_ALL

static haul_status infer(haul__call *c)
{
    const haul_tensor *x = c->operands[X];
    haul_shape         shape = x->shape;
    bool               forward = c->operation->results[1].hidden; /* result 1 is the statistics of rows, else gx */
    const layer_norm_attributes *a = haul__attributes(c);
    if (!shape.ndim)
        return haul__refuse_shape(c, X, "at least one dimension is expected");
    if (!(a->eps >= 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "eps", "eps is %g; 0 or more is expected", a->eps);
    for (int i = WEIGHT; i <= BIAS && forward; i++)
        if (haul__has(c, i) && !haul__shape_equal(&c->operands[i]->shape, &HAUL_SHAPE(shape.dims[shape.ndim - 1])))
            return haul__refuse_shape(c, i, "one dimension is expected, of the size of the last one of x");
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
    p.eps = haul__scalar_bits(x->dtype, ((const layer_norm_attributes *)haul__attributes(c))->eps);
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
    .attributes_size = HAUL__ATTRIBUTES(layer_norm_attributes),
    .infer = infer,
    .compute = compute,
    .flops = 13,
};

/* Gradients of weight and bias have x's shape here; the caller sums the rows. */
static void gradient(haul__gradient *c)
{
    haul_tensor *x = c->saved[X], *w = c->saved[WEIGHT], *g = c->operands[BIAS] = c->results[0];
    if (!haul__differentiated(c)) {
        layer_norm_attributes a = *(const layer_norm_attributes *)c->attributes;
        haul_tensor          *made[HAUL__MAX_RESULTS] = {NULL};
        a.without_gx = !haul__wanted(c, WEIGHT);
        haul__apply(&haul__operation_layer_norm_backward, &a, HAUL__OPERANDS(x, w, g, c->saved_results[1]), made);
        c->operands[X] = made[0];
        c->operands[WEIGHT] = a.without_gx ? HAUL_NONE : made[1];
        return;
    }
    haul_tensor *centred = haul_sub(x, ROW_MEAN(x)), *h = haul__is_none(w) ? g : haul_mul(g, w);
    haul_tensor *scale = haul_rsqrt(
        haul_add_scalar(ROW_MEAN(haul_square(centred)), ((const layer_norm_attributes *)c->attributes)->eps));
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
    .attributes_size = HAUL__ATTRIBUTES(layer_norm_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 8,
};

haul_tensor *haul_layer_norm_with(const haul_layer_norm_options *o)
{
    return o ? HAUL__APPLY(layer_norm, EPS(o), INPUTS(o)) : haul__no_options(&haul__operation_layer_norm);
}

haul_status haul_layer_norm_into_with(haul_tensor *out, const haul_layer_norm_options *o)
{
    return o ? HAUL__APPLY_INTO(out, layer_norm, EPS(o), INPUTS(o)) : haul__fail_null("haul_layer_norm", "options");
}
