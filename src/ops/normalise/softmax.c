/* softmax and log_softmax over any axis, and their gradients.
 *
 * A row along the axis is a work item: its largest element, then the sum of exponentials, in SUM_LANES lanes if the
 * axis is innermost. Otherwise adjacent rows are computed side by side, each summed in order. */
#include "ops/normalise/softmax.h"

#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
typedef struct softmax_params {
    I64 items;         /* rows: outer times inner */
    I64 length, inner; /* elements of a row, and the distance between them */
    I64 offsets[3];    /* of the buffers */
    I64 zeros;         /* softmax of rows along the innermost axis: without a finite element they are zeros, not NaN */
} softmax_params;

#define SOFTMAX_WIDTH 256 /* neighbouring rows that are taken side by side */

#if defined(HAUL_KERNEL) && IS_FLOAT
/* With y the result: dx = y (g - sum(g y)), and for the logarithm g - exp(y) sum(g). */
FUNC A softmax_part(A g, A y, int is_log) { return is_log ? g : g * y; }
FUNC A softmax_dx(A g, A y, A sum, int is_log) { return is_log ? g - M_EXP(y) * sum : y * (g - sum); }
/* A largest element of -infinity becomes 0, so that all exponentials are 0, and then their sum becomes 1. */
FUNC A softmax_top(A most, I64 zeros) { return zeros && most < 0 && most - most != 0 ? LIT(0.0) : most; }
FUNC A softmax_sum(A sum, I64 zeros) { return zeros && sum == 0 ? LIT(1.0) : sum; }

TEMPLATE(softmax, NAME, IS_LOG)
/* Rows along the innermost axis. */
KERNEL2(NAME, softmax_params, T, out, const T, x)
{
    const I64 n = p.length;
#if HAS_SIDES
    const I64 whole = n - n % SUM_LANES;
    const int rest = (int)(n - whole);
    if (n < SHORT_ROW) FOR_SIDES(i) {
        GLOBAL const T *rows = x + p.offsets[1] + i * n;
        A sides[SIDE_ROWS][SIDE_ROWS], most[SIDE_ROWS], sum[SIDE_ROWS], powers[SIDE_ROWS][SHORT_ROW];
        for (int r = 0; r < SIDE_ROWS; r++) {
            GLOBAL const T *v = rows + r * n;
            A low[SIDE_ROWS], high[SIDE_ROWS];
            EACH_SIDE(l) low[l] = LOAD(v, 0);
            EACH_SIDE(l) high[l] = LOAD(v, 0);
            for (I64 k = 0; k < whole; k += SUM_LANES) {
                EACH_SIDE(l) low[l] = M_MAX(low[l], LOAD(v, k + l));
                EACH_SIDE(l) high[l] = M_MAX(high[l], LOAD(v, k + l + SIDE_ROWS));
            }
            if (rest) {
                EACH_SIDE(l) low[l] = l < rest ? M_MAX(low[l], LOAD(v, whole + l)) : low[l];
                EACH_SIDE(l) high[l] = l + SIDE_ROWS < rest ? M_MAX(high[l], LOAD(v, whole + l + SIDE_ROWS)) : high[l];
            }
            EACH_SIDE(l) sides[r][l] = M_MAX(low[l], high[l]);
        }
        SIDE_TREE(A, sides, M_MAX)
        EACH_SIDE(r) most[r] = softmax_top(sides[0][r], p.zeros);
        for (int r = 0; r < SIDE_ROWS; r++) {
            GLOBAL const T *v = rows + r * n;
            const A top = most[r];
            A low[SIDE_ROWS], high[SIDE_ROWS];
            EACH_SIDE(l) low[l] = 0;
            EACH_SIDE(l) high[l] = 0;
            for (I64 k = 0; k < n; k += SIDE_ROWS) { /* the zeros behind a row change no sum */
                const int left = (int)(n - k);
                EACH_SIDE(l) {
                    const A power = EXP_BELOW((l < left ? LOAD(v, k + l) : top) - top);
                    powers[r][k + l] = l < left ? power : 0;
                }
            }
            for (I64 k = 0; k < n; k += SUM_LANES) EACH_SIDE(l) low[l] += powers[r][k + l];
            for (I64 k = SIDE_ROWS; k < n; k += SUM_LANES) EACH_SIDE(l) high[l] += powers[r][k + l];
            EACH_SIDE(l) sides[r][l] = low[l] + high[l];
        }
        SIDE_TREE(A, sides, SUM_OF)
        EACH_SIDE(r) sum[r] = softmax_sum(sides[0][r] + NAN_IF_NOT_FINITE(most[r]), p.zeros);
        if (IS_LOG) EACH_SIDE(r) sum[r] = M_LOG(sum[r]);
        for (int r = 0; r < SIDE_ROWS; r++) {
            GLOBAL const T *v = rows + r * n;
            GLOBAL T *o = out + p.offsets[0] + (i + r) * n;
            const A top = most[r], all = sum[r];
            EACH_OF_ROW(j, n) STORE(o, j, IS_LOG ? LOAD(v, j) - top - all : powers[r][j] / all);
        }
    }
#endif
    FOR_ROWS(i) {
        GLOBAL const T *v = x + p.offsets[1] + i * n;
        GLOBAL T *o = out + p.offsets[0] + i * n;
        const A most = softmax_top(ROW_MAX(v, n), p.zeros);
        if (!IS_LOG && !IS_HALF) { /* the exponentials stay in the result, until their sum is known */
            EACH_OF_ROW(j, n) STORE(o, j, EXP_BELOW(LOAD(v, j) - most));
            const A sum = softmax_sum(ROW_SUM(o, n) + NAN_IF_NOT_FINITE(most), p.zeros);
            EACH_OF_ROW(j, n) STORE(o, j, LOAD(o, j) / sum);
            continue;
        }
        const A sum = softmax_sum(ROW_EXP_SUM(v, n, most), p.zeros), log_sum = IS_LOG ? M_LOG(sum) : 0;
        EACH_OF_ROW(j, n) {
            const A d = LOAD(v, j) - most;
            STORE(o, j, IS_LOG ? d - log_sum : EXP_BELOW(d) / sum);
        }
    }
}

/* Rows along another axis, side by side. */
KERNEL2(NAME##_columns, softmax_params, T, out, const T, x)
{
    const I64 n = p.length, step = p.inner;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 side = REMAINDER(i, step), at = (i - side) * n + side;
        GLOBAL const T *v = x + p.offsets[1] + at;
        GLOBAL T *o = out + p.offsets[0] + at;
        A most[CHUNKED ? SOFTMAX_WIDTH : 1], sum[CHUNKED ? SOFTMAX_WIDTH : 1];
        const int width = NEIGHBOURS(step - side, ITEMS_END - i, SOFTMAX_WIDTH);
        for (int l = 0; l < width; l++) most[l] = LOAD(v, l);
        for (I64 j = 1; j < n; j++)
            for (int l = 0; l < width; l++) most[l] = M_MAX(most[l], LOAD(v, j * step + l));
        for (int l = 0; l < width; l++) sum[l] = 0;
        for (I64 j = 0; j < n; j++)
            for (int l = 0; l < width; l++) sum[l] += M_EXP(LOAD(v, j * step + l) - most[l]);
        for (I64 j = 0; j < n; j++)
            VECTOR_LOOP for (int l = 0; l < width; l++) {
                const A d = LOAD(v, j * step + l) - most[l];
                STORE(o, j * step + l, IS_LOG ? d - M_LOG(sum[l]) : M_EXP(d) / sum[l]);
            }
        i += ITEMS_STEP(width);
    }
}

KERNEL3(NAME##_backward, softmax_params, T, out, const T, g, const T, y)
{
    const I64 n = p.length, whole = n - n % SUM_LANES;
    FOR_ROWS(i) {
        GLOBAL const T *v = g + p.offsets[1] + i * n;
        GLOBAL const T *w = y + p.offsets[2] + i * n;
        GLOBAL T *o = out + p.offsets[0] + i * n;
        LANE_VALUES(A, s);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = 0;
        for (I64 j = 0; j < whole; j += SUM_LANES)
            EACH_LANE(l, SUM_LANES) OF_LANE(s, l) += softmax_part(LOAD(v, j + l), LOAD(w, j + l), IS_LOG);
        EACH_REST(l, n - whole) OF_LANE(s, l) = IN_REST(l, n - whole, OF_LANE(s, l) + softmax_part(LOAD(v, whole + l), LOAD(w, whole + l), IS_LOG), OF_LANE(s, l));
        LANE_TREE(A, s, SUM_OF)
        const A sum = OF_FIRST_LANE(s);
        EACH_OF_ROW(j, n) {
            const A b = LOAD(v, j), c = LOAD(w, j);
            STORE(o, j, softmax_dx(b, c, sum, IS_LOG));
        }
    }
}

KERNEL3(NAME##_backward_columns, softmax_params, T, out, const T, g, const T, y)
{
    const I64 n = p.length, step = p.inner;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 side = REMAINDER(i, step), at = (i - side) * n + side;
        GLOBAL const T *v = g + p.offsets[1] + at;
        GLOBAL const T *w = y + p.offsets[2] + at;
        GLOBAL T *o = out + p.offsets[0] + at;
        A sums[CHUNKED ? SOFTMAX_WIDTH : 1];
        const int width = NEIGHBOURS(step - side, ITEMS_END - i, SOFTMAX_WIDTH);
        for (int l = 0; l < width; l++) sums[l] = 0;
        for (I64 j = 0; j < n; j++)
            for (int l = 0; l < width; l++) sums[l] += softmax_part(LOAD(v, j * step + l), LOAD(w, j * step + l), IS_LOG);
        for (I64 j = 0; j < n; j++)
            VECTOR_LOOP for (int l = 0; l < width; l++) {
                const A b = LOAD(v, j * step + l), c = LOAD(w, j * step + l);
                STORE(o, j * step + l, softmax_dx(b, c, sums[l], IS_LOG));
            }
        i += ITEMS_STEP(width);
    }
}
END_TEMPLATE

EXPAND(softmax, softmax, 0)
EXPAND(softmax, log_softmax, 1)
#endif
/* kernel text ends */
// clang-format on

typedef struct softmax_attributes {
    int  axis;
    bool zeros;
    bool reserved[3];
} softmax_attributes;

static haul_status infer(haul__call *c)
{
    haul_tensor        *x = c->operands[0];
    softmax_attributes *a = haul__attributes(c);
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    return haul__describe(c, 0, x->dtype, &x->shape);
}

static haul_status compute(haul__call *c)
{
    const haul__kernel_info  *kernel = &haul__kernel_infos[c->operation->kernel];
    const haul_tensor        *y = c->results[0];
    const softmax_attributes *a = haul__attributes(c);
    softmax_params            p = {.length = 1, .inner = 1, .offsets = {y->offset}, .zeros = a->zeros};
    for (int i = 0; i < c->count; i++)
        p.offsets[1 + i] = c->operands[i]->offset;
    if (y->shape.ndim) {
        p.length = y->shape.dims[a->axis];
        for (int d = a->axis + 1; d < y->shape.ndim; d++)
            p.inner *= y->shape.dims[d]; /* part of a product that was checked */
    }
    p.items = y->count / p.length;
    int64_t width = p.inner < SOFTMAX_WIDTH ? p.inner : SOFTMAX_WIDTH;
    return haul__launch_kernel(c, p.inner > 1 ? kernel->columns : c->operation->kernel, y->dtype, .outs = c->results,
                               .out_count = 1, .ins = c->operands, .in_count = c->count, HAUL__PARAMS(p),
                               .grain = haul__whole_sides(width * (1 + 4096 / (p.length * width + 1))));
}

/* ---- gradients of gradients ---- */

static haul_tensor *sum_axis(haul_tensor *x, int axis)
{
    return !haul__failed(x) && x->shape.ndim ? haul_sum(x, HAUL_AXES(axis), .keepdim = true) : x;
}

static void softmax_second(haul__gradient *c);
static void log_softmax_second(haul__gradient *c);

HAUL__OPERATION(softmax_backward) = {
    .name = "haul_softmax_backward",
    .operands = {{"g", .saved_for = HAUL__FOR_1}, {"y", .saved_for = HAUL__FOR_ALL}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(softmax_attributes),
    .kernel = HAUL__K_softmax_backward,
    .infer = infer,
    .compute = compute,
    .gradient = softmax_second,
    .flops = 4,
};

HAUL__OPERATION(log_softmax_backward) = {
    .name = "haul_log_softmax_backward",
    .operands = {{"g", .saved_for = HAUL__FOR_1}, {"y", .saved_for = HAUL__FOR_ALL}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(softmax_attributes),
    .kernel = HAUL__K_log_softmax_backward,
    .infer = infer,
    .compute = compute,
    .gradient = log_softmax_second,
    .flops = 4,
};

/* f(g, y) = y (g - sum(g y)): df/dg and df/dy, applied to u. */
static void softmax_second(haul__gradient *c)
{
    int          axis = ((const softmax_attributes *)c->attributes)->axis;
    haul_tensor *u = c->results[0], *g = c->saved[0], *y = c->saved[1];
    if (haul__wanted(c, 0))
        c->operands[0] = HAUL__APPLY(softmax_backward, c->attributes, u, y);
    if (haul__wanted(c, 1)) {
        haul_tensor *direct = haul_mul(u, haul_sub(g, sum_axis(haul_mul(g, y), axis)));
        c->operands[1] = haul_sub(direct, haul_mul(g, sum_axis(haul_mul(u, y), axis)));
    }
}

/* f(g, y) = g - exp(y) sum(g). */
static void log_softmax_second(haul__gradient *c)
{
    int          axis = ((const softmax_attributes *)c->attributes)->axis;
    haul_tensor *u = c->results[0], *ue = haul_mul(u, haul_exp(c->saved[1]));
    if (haul__wanted(c, 0))
        c->operands[0] = haul_sub(u, sum_axis(ue, axis));
    if (haul__wanted(c, 1))
        c->operands[1] = haul_neg(haul_mul(ue, sum_axis(c->saved[0], axis)));
}

/* ---- the operations ---- */

static void softmax_gradient(haul__gradient *c)
{
    c->operands[0] = HAUL__APPLY(softmax_backward, c->attributes, c->results[0], c->saved_results[0]);
}

static void log_softmax_gradient(haul__gradient *c)
{
    c->operands[0] = HAUL__APPLY(log_softmax_backward, c->attributes, c->results[0], c->saved_results[0]);
}

HAUL__OPERATION(softmax) = {
    .name = "haul_softmax",
    .operands = {{"x"}},
    .results = {{"y", .saved_for = HAUL__FOR_ALL}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(softmax_attributes),
    .kernel = HAUL__K_softmax,
    .infer = infer,
    .compute = compute,
    .gradient = softmax_gradient,
    .flops = 5,
};

HAUL__OPERATION(log_softmax) = {
    .name = "haul_log_softmax",
    .operands = {{"x"}},
    .results = {{"y", .saved_for = HAUL__FOR_ALL}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(softmax_attributes),
    .kernel = HAUL__K_log_softmax,
    .infer = infer,
    .compute = compute,
    .gradient = log_softmax_gradient,
    .flops = 5,
};

haul_tensor *haul_softmax(haul_tensor *x, int axis)
{
    return HAUL__APPLY(softmax, (&(softmax_attributes){.axis = axis}), x);
}

haul_tensor *haul_log_softmax(haul_tensor *x, int axis)
{
    return HAUL__APPLY(log_softmax, (&(softmax_attributes){.axis = axis}), x);
}

haul_tensor *haul__attention_weights(haul_tensor *scores)
{
    return HAUL__APPLY(softmax, (&(softmax_attributes){.axis = -1, .zeros = true}), scores);
}

haul_status haul_softmax_into(haul_tensor *out, haul_tensor *x, int axis)
{
    return HAUL__APPLY_INTO(out, softmax, (&(softmax_attributes){.axis = axis}), x);
}

haul_status haul_log_softmax_into(haul_tensor *out, haul_tensor *x, int axis)
{
    return HAUL__APPLY_INTO(out, log_softmax, (&(softmax_attributes){.axis = axis}), x);
}
