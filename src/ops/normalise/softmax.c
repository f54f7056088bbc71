/* softmax and log_softmax over any axis, and their gradients.
 *
 * A row along the axis is a work item: its largest element, then the sum of exponentials, in SUM_LANES lanes if the
 * axis is innermost. Otherwise adjacent rows are computed side by side, each summed in order. In causal attention a row
 * sees its first elements only: the others do not change the result, in which they are zeros. */
#include "ops/normalise/softmax.h"
#include "base/assert.h"
#include "ops/attributes.h"

#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
#include "ops/reduce/rows_kernel.h"

typedef struct softmax_params {
    I64 items;         /* rows: outer times inner */
    I64 length, inner; /* elements of a row, and the distance between them */
    I64 offsets[3];    /* of the buffers */
    I64 zeros;         /* softmax of rows along the innermost axis: without a finite element they are zeros, not NaN */
    I64 rows, first;   /* likewise: row i of `rows` sees its elements 0 to first + i; if `rows` is 0, all of them */
} softmax_params;

enum { SOFTMAX_WIDTH = 256 }; /* neighbouring rows that are taken side by side */

#if defined(HAUL_KERNEL) && IS_FLOAT
/* A largest element of -infinity becomes 0, so that all exponentials are 0, and then their sum becomes 1. */
FUNC A softmax_max(A m, I64 zeros) { return zeros && m < 0 && m - m != 0 ? LIT(0.0) : m; }
FUNC A softmax_sum(A s, I64 zeros) { return zeros && s == 0 ? LIT(1.0) : s; }

/* The number of item i among the rows of its matrix, and the elements that a row of that number sees. */
FUNC I64 softmax_row(I64 i, const softmax_params p) { return p.rows ? REMAINDER(i, p.rows) : 0; }
FUNC I64 softmax_seen(I64 row, const softmax_params p)
{
    const I64 seen = p.rows ? p.first + row + 1 : p.length;
    return seen < p.length ? seen : p.length;
}

/* The elements of item i for which loops run: those that it sees and others that fill the lanes of a sum. Short rows
 * are taken whole, since a branch for each would cost more than it saves. */
FUNC I64 softmax_filled(I64 i, const softmax_params p)
{
    const I64 filled = p.rows && p.length >= SHORT_ROW
                       ? (softmax_seen(softmax_row(i, p), p) + SUM_LANES - 1) & ~(I64)(SUM_LANES - 1) : p.length;
    return filled < p.length ? filled : p.length;
}

/* y = exp(x - m) of the first `seen` elements, zeros up to n, and the sum of that. */
FUNC A softmax_powers(GLOBAL T *y, GLOBAL const T *x, I64 seen, I64 n, A m)
{
    EACH_OF_ROW(j, n) STORE(y, j, j < seen ? EXP_BELOW(LOAD(x, j) - m) : 0);
    return ROW_SUM(y, n) + NAN_IF_NOT_FINITE(m);
}

/* Rows along the innermost axis: m = max x, s = sum exp(x - m), y = exp(x - m) / s. The exponentials stay in y until
 * their sum is known, except in half precision, which would round them. */
KERNEL2(softmax, softmax_params, T, out, const T, in)
{
    const I64 n = p.length;
    FOR_ROWS(i) {
        GLOBAL const T *x = in + p.offsets[1] + i * n;
        GLOBAL T *y = out + p.offsets[0] + i * n;
        const I64 seen = softmax_seen(softmax_row(i, p), p), filled = softmax_filled(i, p);
        const A m = softmax_max(ROW_MAX(x, seen), p.zeros);
        const A s = softmax_sum(IS_HALF ? ROW_EXP_SUM(x, seen, m) : softmax_powers(y, x, seen, filled, m), p.zeros);
        EACH_OF_ROW(j, filled) STORE(y, j, (!IS_HALF ? LOAD(y, j) : j < seen ? EXP_BELOW(LOAD(x, j) - m) : 0) / s);
        EACH_OF_ROW(j, n - filled) STORE(y, filled + j, 0);
    }
}

/* y = x - m - log s. */
KERNEL2(log_softmax, softmax_params, T, out, const T, in)
{
    const I64 n = p.length;
    FOR_ROWS(i) {
        GLOBAL const T *x = in + p.offsets[1] + i * n;
        GLOBAL T *y = out + p.offsets[0] + i * n;
        const A m = ROW_MAX(x, n), log_s = M_LOG(ROW_EXP_SUM(x, n, m));
        EACH_OF_ROW(j, n) STORE(y, j, LOAD(x, j) - m - log_s);
    }
}

/* dx = y (g - sum(g y)); y is 0 in the elements that a row does not see. */
KERNEL3(softmax_backward, softmax_params, T, out, const T, in0, const T, in1)
{
    const I64 n = p.length;
    FOR_ROWS(i) {
        GLOBAL const T *g = in0 + p.offsets[1] + i * n, *y = in1 + p.offsets[2] + i * n;
        GLOBAL T *dx = out + p.offsets[0] + i * n;
        const I64 filled = softmax_filled(i, p);
        EXPAND(row_sum, sum, filled, LOAD(g, j) * LOAD(y, j))
        EACH_OF_ROW(j, filled) STORE(dx, j, LOAD(y, j) * (LOAD(g, j) - sum));
        EACH_OF_ROW(j, n - filled) STORE(dx, filled + j, 0);
    }
}

/* dx = g - exp(y) sum(g). */
KERNEL3(log_softmax_backward, softmax_params, T, out, const T, in0, const T, in1)
{
    const I64 n = p.length;
    FOR_ROWS(i) {
        GLOBAL const T *g = in0 + p.offsets[1] + i * n, *y = in1 + p.offsets[2] + i * n;
        GLOBAL T *dx = out + p.offsets[0] + i * n;
        EXPAND(row_sum, sum, n, LOAD(g, j))
        EACH_OF_ROW(j, n) STORE(dx, j, LOAD(g, j) - M_EXP(LOAD(y, j)) * sum);
    }
}

/* Rows along another axis, `step` apart, side by side: the same, with the elements of each row in order. RESULT is an
 * expression of d = x - m and of s, and s is SUM, an expression of the sum of exponentials. */
TEMPLATE(softmax_columns, NAME, SUM, RESULT)
KERNEL2(NAME, softmax_params, T, out, const T, in)
{
    const I64 n = p.length, step = p.inner;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 side = REMAINDER(i, step), at = (i - side) * n + side;
        GLOBAL const T *x = in + p.offsets[1] + at;
        GLOBAL T *y = out + p.offsets[0] + at;
        A maxima[CHUNKED ? SOFTMAX_WIDTH : 1], sums[CHUNKED ? SOFTMAX_WIDTH : 1];
        const int width = NEIGHBOURS(step - side, ITEMS_END - i, SOFTMAX_WIDTH);
        for (int l = 0; l < width; l++) maxima[l] = LOAD(x, l);
        for (I64 j = 1; j < n; j++)
            for (int l = 0; l < width; l++) maxima[l] = M_MAX(maxima[l], LOAD(x, j * step + l));
        for (int l = 0; l < width; l++) sums[l] = 0;
        for (I64 j = 0; j < n; j++)
            for (int l = 0; l < width; l++) sums[l] += M_EXP(LOAD(x, j * step + l) - maxima[l]);
        for (int l = 0; l < width; l++) { const A sum = sums[l]; sums[l] = SUM; }
        for (I64 j = 0; j < n; j++)
            VECTOR_LOOP for (int l = 0; l < width; l++) {
                const A d = LOAD(x, j * step + l) - maxima[l], s = sums[l];
                STORE(y, j * step + l, RESULT);
            }
        i += ITEMS_STEP(width);
    }
}
END_TEMPLATE
EXPAND(softmax_columns, softmax_columns, sum, M_EXP(d) / s)
EXPAND(softmax_columns, log_softmax_columns, M_LOG(sum), d - s)

/* TERM and RESULT are expressions of elements a of g and b of y, and the latter of the sum of TERM. */
TEMPLATE(softmax_backward_columns, NAME, TERM, RESULT)
KERNEL3(NAME, softmax_params, T, out, const T, in0, const T, in1)
{
    const I64 n = p.length, step = p.inner;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 side = REMAINDER(i, step), at = (i - side) * n + side;
        GLOBAL const T *g = in0 + p.offsets[1] + at, *y = in1 + p.offsets[2] + at;
        GLOBAL T *dx = out + p.offsets[0] + at;
        A sums[CHUNKED ? SOFTMAX_WIDTH : 1];
        const int width = NEIGHBOURS(step - side, ITEMS_END - i, SOFTMAX_WIDTH);
        for (int l = 0; l < width; l++) sums[l] = 0;
        for (I64 j = 0; j < n; j++)
            for (int l = 0; l < width; l++) {
                const A a = LOAD(g, j * step + l), b = LOAD(y, j * step + l);
                (void)b; /* a sum of g alone does not need it */
                sums[l] += TERM;
            }
        for (I64 j = 0; j < n; j++)
            VECTOR_LOOP for (int l = 0; l < width; l++) {
                const A a = LOAD(g, j * step + l), b = LOAD(y, j * step + l), sum = sums[l];
                STORE(dx, j * step + l, RESULT);
            }
        i += ITEMS_STEP(width);
    }
}
END_TEMPLATE
EXPAND(softmax_backward_columns, softmax_backward_columns, a * b, b * (a - sum))
EXPAND(softmax_backward_columns, log_softmax_backward_columns, a, a - M_EXP(b) * sum)
#endif
/* kernel text ends */
// clang-format on

static haul_status infer(haul__call *c)
{
    haul_tensor              *x = c->operands[0];
    haul__softmax_attributes *a = haul__attributes(c);
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    return haul__describe(c, 0, x->dtype, &x->shape);
}

static haul_status compute(haul__call *c)
{
    const haul__kernel_info        *kernel = &haul__kernel_infos[c->operation->kernel];
    const haul_tensor              *y = c->results[0];
    const haul__softmax_attributes *a = haul__attributes(c);
    softmax_params                  p = {.length = 1, .inner = 1, .offsets = {y->offset}, .zeros = a->zeros};
    for (int i = 0; i < c->count; i++)
        p.offsets[1 + i] = c->operands[i]->offset;
    if (y->shape.ndim) {
        p.length = y->shape.dims[a->axis];
        for (int d = a->axis + 1; d < y->shape.ndim; d++)
            p.inner *= y->shape.dims[d]; /* part of a product that was checked */
    }
    HAUL__ASSERT(p.length > 0 && c->operands[c->count - 1]->count == y->count);
    if (a->causal) {
        HAUL__ASSERT(y->shape.ndim >= 2 && a->axis == y->shape.ndim - 1 && a->first >= 0);
        p.rows = y->shape.dims[y->shape.ndim - 2];
        p.first = a->first;
    }
    p.items = y->count / p.length;
    HAUL__ASSERT(p.items * p.length == y->count);
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
    .attributes_size = HAUL__ATTRIBUTES(haul__softmax_attributes),
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
    .attributes_size = HAUL__ATTRIBUTES(haul__softmax_attributes),
    .kernel = HAUL__K_log_softmax_backward,
    .infer = infer,
    .compute = compute,
    .gradient = log_softmax_second,
    .flops = 4,
};

/* f(g, y) = y (g - sum(g y)): df/dg and df/dy, applied to u. */
static void softmax_second(haul__gradient *c)
{
    int          axis = ((const haul__softmax_attributes *)c->attributes)->axis;
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
    int          axis = ((const haul__softmax_attributes *)c->attributes)->axis;
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
    .attributes_size = HAUL__ATTRIBUTES(haul__softmax_attributes),
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
    .attributes_size = HAUL__ATTRIBUTES(haul__softmax_attributes),
    .kernel = HAUL__K_log_softmax,
    .infer = infer,
    .compute = compute,
    .gradient = log_softmax_gradient,
    .flops = 5,
};

HAUL__FUNCTIONS(softmax, (&(haul__softmax_attributes){.axis = axis}), (haul_tensor * x, int axis), x)

HAUL__FUNCTIONS(log_softmax, (&(haul__softmax_attributes){.axis = axis}), (haul_tensor * x, int axis), x)

static haul__softmax_attributes of_attention(int64_t first)
{
    return (haul__softmax_attributes){.axis = -1, .zeros = true, .causal = first >= 0, .first = first < 0 ? 0 : first};
}

haul_tensor *haul__attention_weights(haul_tensor *scores, int64_t first)
{
    const haul__softmax_attributes a = of_attention(first);
    return HAUL__APPLY(softmax, &a, scores);
}

haul_tensor *haul__attention_weights_backward(haul_tensor *g, haul_tensor *weights, int64_t first)
{
    const haul__softmax_attributes a = of_attention(first);
    return HAUL__APPLY(softmax_backward, &a, g, weights);
}
