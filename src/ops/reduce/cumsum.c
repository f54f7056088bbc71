/* Running sums, products, extremes and logarithms of sums along an axis.
 *
 * A line along the axis is cut into blocks of CUMSUM_BLOCK elements. A work item sums one block. If a line has several
 * blocks, each then adds the sum of the blocks before it, from the running sums of the blocks' totals, which the same
 * kernels compute. So only the shape decides the order of additions. Products, extremes and the others take the place
 * of sums. */
#include <haul/statistics.h>
#include <math.h>

#include "base/assert.h"
#include "base/numbers.h"
#include "engine/copy.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/attributes.h"
#include "ops/reduce/statistics.h"

// clang-format off
/* kernel text begins */
enum { CUMSUM_BLOCK = 1024 };
/* Neighbouring lines that an item takes. */
enum { CUMSUM_WIDTH = 64 };

typedef struct cumsum_params {
    I64 items;
    I64 length, blocks, inner; /* x is [outer, length, inner], totals are [outer, blocks, inner] */
    I64 offsets[3];            /* of the buffers */
    I32 reverse, reserved;     /* reverse: from the end of each line */
} cumsum_params;

#ifdef HAUL_KERNEL
/* y = the running sums of each block, totals = the last of them; an item is an element of totals. STEP puts together a
 * and b, the sum so far and what comes, and FIRST is the sum of nothing. */
TEMPLATE(scan, NAME, FIRST, STEP)
KERNEL3(NAME, cumsum_params, T, y, T, totals, const T, x)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 r = QUOTIENT(i, p.inner), o = QUOTIENT(r, p.blocks), k = i - r * p.inner, block = r - o * p.blocks;
        const int row = NEIGHBOURS(p.inner - k, ITEMS_END - i, CUMSUM_WIDTH);
        const I64 first = block * CUMSUM_BLOCK, n = least(p.length - first, CUMSUM_BLOCK);
        const I64 from = p.reverse ? p.length - 1 - first : first, stride = p.reverse ? -p.inner : p.inner;
        GLOBAL const T *v = x + p.offsets[2] + (o * p.length + from) * p.inner + k;
        GLOBAL T *w = y + p.offsets[0] + (o * p.length + from) * p.inner + k;
        A s[CHUNKED ? CUMSUM_WIDTH : 1], all = FIRST;
        for (int j = 0; j < row; j++) s[j] = all;
        if (!CHUNKED || row == 1) {
            for (I64 l = 0; l < n; l++) {
                const A a = all, b = LOAD(v, l * stride);
                all = STEP;
                STORE(w, l * stride, all);
            }
            s[0] = all;
        } else {
            for (I64 l = 0; l < n; l++, v += stride, w += stride)
                VECTOR_LOOP for (int j = 0; j < row; j++) {
                    const A a = s[j], b = LOAD(v, j);
                    s[j] = STEP;
                    STORE(w, j, s[j]);
                }
        }
        if (p.blocks > 1)
            for (int j = 0; j < row; j++) STORE(totals, p.offsets[1] + i + j, s[j]);
        i += ITEMS_STEP(row);
    }
}
END_TEMPLATE

/* y += the running sum of totals up to the block before; an item is an element of y. */
TEMPLATE(scan_add, NAME, STEP)
KERNEL2(NAME, cumsum_params, T, y, const T, before)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 r = QUOTIENT(i, p.inner), o = QUOTIENT(r, p.length), k = i - r * p.inner;
        const I64 place = p.reverse ? p.length - 1 - (r - o * p.length) : r - o * p.length;
        const I64 before_it = place / CUMSUM_BLOCK, in = place % CUMSUM_BLOCK;
        const I64 left = p.reverse ? in + 1 : least(CUMSUM_BLOCK - in, p.length - place); /* of the block, in memory */
        const I64 room = p.inner > 1 ? p.inner - k : left, row = CHUNKED ? least(room, ITEMS_END - i) : 1;
        GLOBAL const T *v = before + p.offsets[1] + (o * p.blocks + before_it - 1) * p.inner + k;
        GLOBAL T *w = y + p.offsets[0] + i;
        if (before_it && p.inner > 1) {
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                const A a = LOAD(v, j), b = LOAD(w, j);
                STORE(w, j, STEP);
            }
        } else if (before_it) {
            const A a = LOAD(v, 0);
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                const A b = LOAD(w, j);
                STORE(w, j, STEP);
            }
        }
        i += ITEMS_STEP(row);
    }
}
END_TEMPLATE

#if IS_FLOAT
FUNC A scan_lowest(void) { return M_LOG(LIT(0.0)); }
#else
FUNC A scan_lowest(void) { return -0x7fffffffffffffff - 1; }
#endif
#if defined(HAUL_KERNEL_DTYPE_f32) || defined(HAUL_KERNEL_DTYPE_f64) || defined(HAUL_KERNEL_DTYPE_i64)
EXPAND(scan, cumsum, 0, a + b)
EXPAND(scan_add, cumsum_add, a + b)
EXPAND(scan, cumprod, 1, a * b)
EXPAND(scan_add, cumprod_add, a * b)
EXPAND(scan, cummax, scan_lowest(), M_MAX(a, b))
EXPAND(scan_add, cummax_add, M_MAX(a, b))
EXPAND(scan, cummin, -(scan_lowest() + 1), M_MIN(a, b))
EXPAND(scan_add, cummin_add, M_MIN(a, b))
#endif
#if IS_FLOAT && !IS_HALF
EXPAND(scan, logcumsumexp, scan_lowest(), M_LOGADDEXP(a, b))
EXPAND(scan_add, logcumsumexp_add, M_LOGADDEXP(a, b))
#endif
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

static haul_status infer(haul__call *c)
{
    const haul_tensor *x = c->operands[0];
    if (haul__call_axis(c, 0, &((haul__cumsum_attributes *)haul__attributes(c))->axis))
        return haul_error_status();
    return haul__describe(c, 0, haul_dtype_is_float(x->dtype) ? x->dtype : HAUL_I64, &x->shape);
}

/* The kernels of an operation. */
typedef struct scan_kernels {
    int scan, add;
} scan_kernels;

/* y = the running sums of x; both have p's shape, are row-major, and may be the same tensor. */
static haul_status scan(const haul__call *c, haul_tensor *y, haul_tensor *x, cumsum_params p, int64_t outer)
{
    const scan_kernels *kernels = c->operation->extra;
    p.blocks = haul__ceil_div(p.length, CUMSUM_BLOCK);
    p.items = outer * p.blocks * p.inner; /* no more than there are elements */
    HAUL__ASSERT(p.items > 0 && y->count == outer * p.length * p.inner && x->count == y->count && y->dtype == x->dtype);
    haul_tensor *totals = p.blocks > 1 ? haul__temporary(c, x->dtype, &HAUL_SHAPE(p.items)) : y;
    if (!totals)
        return haul_error_status();
    HAUL__ASSERT((p.blocks - 1) * CUMSUM_BLOCK < p.length);
    p.offsets[0] = y->offset;
    p.offsets[1] = totals->offset;
    p.offsets[2] = x->offset;
    haul_status status = haul__launch_kernel(c, kernels->scan, x->dtype, HAUL__OUT(y, totals), HAUL__IN(x),
                                             HAUL__PARAMS(p), .grain = 1 + GRAIN / (x->count / p.items + 1));
    if (status || p.blocks == 1)
        return status;
    cumsum_params of_totals = {.length = p.blocks, .inner = p.inner};
    status = scan(c, totals, totals, of_totals, outer);
    p.items = y->count;
    return status ? status
                  : haul__launch_kernel(c, kernels->add, y->dtype, HAUL__OUT(y), HAUL__IN(totals), HAUL__PARAMS(p),
                                        .grain = GRAIN);
}

/* Half precision is computed in f32, integers in i64. */
static haul_status compute(haul__call *c)
{
    const haul__cumsum_attributes *a = haul__attributes(c);
    haul_tensor                   *y = c->results[0];
    haul_dtype                     dtype = haul_dtype_is_float(y->dtype) ? haul__sum_dtype(y->dtype) : HAUL_I64;
    if (y->count == 0)
        return HAUL_OK;
    haul_tensor  *x = haul__as_dtype(c, c->operands[0], dtype);
    haul_tensor  *sums = y->dtype == dtype ? y : haul__temporary(c, dtype, &y->shape);
    cumsum_params p = {.length = 1, .inner = 1, .reverse = a->reverse};
    int64_t       outer = 1;
    for (int d = 0; d < y->shape.ndim; d++) /* parts of a product that was checked */
        *(d < a->axis ? &outer : d == a->axis ? &p.length : &p.inner) *= y->shape.dims[d];
    HAUL__ASSERT(outer > 0 && p.length > 0 && p.inner > 0);
    if (!x || !sums || scan(c, sums, x, p, outer))
        return haul_error_status();
    return sums == y ? HAUL_OK : haul__copy_elements(y, sums, c->operation->name);
}

/* The running `operation` of x, from the end of each line if `reverse`. */
static haul_tensor *run(const haul__operation *operation, haul_tensor *x, int axis, bool reverse)
{
    return haul__apply1(operation, &(haul__cumsum_attributes){.axis = axis, .reverse = reverse}, &x, 1);
}

#define KERNELS(name) (&(const scan_kernels){HAUL__K_##name, HAUL__K_##name##_add})

/* ---- cumsum ---- */

static void gradient(haul__gradient *c)
{
    const haul__cumsum_attributes *a = c->attributes; /* element i is part of all sums from i on */
    c->operands[0] = run(c->operation, c->results[0], a->axis, !a->reverse);
}

HAUL__OPERATION(cumsum) = {
    .name = "haul_cumsum",
    .operands = {{"x"}},
    .results = {{"y"}},
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(haul__cumsum_attributes),
    .extra = KERNELS(cumsum),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 1,
};

haul_tensor *haul_cumsum(haul_tensor *x, int axis)
{
    return run(&haul__operation_cumsum, x, axis, false);
}

haul_status haul_cumsum_into(haul_tensor *out, haul_tensor *x, int axis)
{
    return HAUL__APPLY_INTO(out, cumsum, &(haul__cumsum_attributes){.axis = axis}, x);
}

/* ---- cumprod ---- */

/* Before the first 0 of a line, element i has the gradient sum(g_j y_j, j >= i) / x_i; the first 0 has the sum of g_j
 * times the product without it; elements behind it have 0. */
static void cumprod_gradient(haul__gradient *c)
{
    const int    axis = ((const haul__cumsum_attributes *)c->attributes)->axis;
    haul_tensor *g = c->results[0], *x = c->saved[0], *zero = haul_eq_scalar(x, 0), *zeros = haul_cumsum(zero, axis);
    haul_tensor *before = haul_eq_scalar(zeros, 0), *first = haul_logical_and(zero, haul_eq_scalar(zeros, 1));
    haul_tensor *products = haul_mul(g, haul_cumprod(haul_masked_fill(x, first, 1), axis));
    haul_tensor *sums = run(&haul__operation_cumsum, haul_where_scalar(before, products, 0), axis, true);
    haul_tensor *at_first = run(&haul__operation_cumsum, haul_masked_fill(products, before, 0), axis, true);
    haul_tensor *slopes = haul_div(sums, haul_masked_fill(x, zero, 1));
    c->operands[0] = haul_where(before, slopes, haul_where_scalar(first, at_first, 0));
}

HAUL__OPERATION(cumprod) = {
    .name = "haul_cumprod",
    .operands = {{"x", .saved_for = HAUL__FOR_ALL}},
    .results = {{"y"}},
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(haul__cumsum_attributes),
    .extra = KERNELS(cumprod),
    .infer = infer,
    .compute = compute,
    .gradient = cumprod_gradient,
    .flops = 1,
};

haul_tensor *haul_cumprod(haul_tensor *x, int axis)
{
    return run(&haul__operation_cumprod, x, axis, false);
}

haul_status haul_cumprod_into(haul_tensor *out, haul_tensor *x, int axis)
{
    return HAUL__APPLY_INTO(out, cumprod, &(haul__cumsum_attributes){.axis = axis}, x);
}

/* ---- logcumsumexp ---- */

/* exp(x_i) times the sum of g_j exp(-y_j), j >= i: for positive and negative g as logarithms, so that nothing
 * overflows. */
static void logcumsumexp_gradient(haul__gradient *c)
{
    const haul__cumsum_attributes *a = c->attributes;
    haul_tensor *g = haul__widened(c->results[0]), *x = haul__widened(c->saved[0]), *y = c->saved_results[0], *parts[2];
    if (x != c->saved[0]) /* half precision rounds y too much for differences from it */
        y = run(c->operation, x, a->axis, a->reverse);
    for (int sign = 0; sign < 2; sign++) {
        haul_tensor *part = haul_relu(sign ? haul_neg(g) : g), *some = haul_gt_scalar(part, 0);
        haul_tensor *logs = haul_log(haul_where_scalar(some, part, 1));
        logs = haul_where_scalar(some, haul_sub(logs, y), -INFINITY);
        parts[sign] = haul_exp(haul_add(x, run(c->operation, logs, a->axis, !a->reverse)));
    }
    c->operands[0] = haul_sub(parts[0], parts[1]);
}

HAUL__OPERATION(logcumsumexp) = {
    .name = "haul_logcumsumexp",
    .operands = {{"x", .saved_for = HAUL__FOR_ALL}},
    .results = {{"y", .saved_for = HAUL__FOR_ALL}},
    .rule = HAUL__FLOATED,
    .autocast = HAUL__WIDE,
    .attributes_size = HAUL__ATTRIBUTES(haul__cumsum_attributes),
    .extra = KERNELS(logcumsumexp),
    .infer = infer,
    .compute = compute,
    .gradient = logcumsumexp_gradient,
    .flops = 4,
};

haul_tensor *haul_logcumsumexp(haul_tensor *x, int axis)
{
    return run(&haul__operation_logcumsumexp, x, axis, false);
}

haul_status haul_logcumsumexp_into(haul_tensor *out, haul_tensor *x, int axis)
{
    return HAUL__APPLY_INTO(out, logcumsumexp, &(haul__cumsum_attributes){.axis = axis}, x);
}

/* ---- cummax and cummin ---- */

/* With the dtype of x. */
static haul_status extreme_infer(haul__call *c)
{
    const haul_tensor *x = c->operands[0];
    if (haul__call_axis(c, 0, &((haul__cumsum_attributes *)haul__attributes(c))->axis))
        return haul_error_status();
    return haul__describe(c, 0, x->dtype, &x->shape);
}

/* The extremes alone: haul_cummax and haul_cummin take the elements at their indices, which have gradients. */
HAUL__OPERATION(cummax_values) = {
    .name = "haul_cummax_values",
    .operands = {{"x"}},
    .results = {{"y"}},
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__cumsum_attributes),
    .extra = KERNELS(cummax),
    .infer = extreme_infer,
    .compute = compute,
    .flops = 1,
};

HAUL__OPERATION(cummin_values) = {
    .name = "haul_cummin_values",
    .operands = {{"x"}},
    .results = {{"y"}},
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__cumsum_attributes),
    .extra = KERNELS(cummin),
    .infer = extreme_infer,
    .compute = compute,
    .flops = 1,
};

haul_tensor *haul__running_extremes(haul_tensor *x, int axis, bool largest)
{
    return run(largest ? &haul__operation_cummax_values : &haul__operation_cummin_values, x, axis, false);
}
