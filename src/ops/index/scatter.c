/* Writing elements where indices point: they replace the elements there, or are combined with them.
 *
 * As in a sum (gather.c), a work item handles one line along the axis in the order of the indices, or, if a GPU has few
 * lines, the indices are sorted and an item handles all that are equal. So of several elements for one place the last
 * one stays, on every device. */
#include <math.h>

#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/attributes.h"
#include "ops/index/gather.h"
#include "ops/index/index.h"
#include "ops/index/sort.h"

// clang-format off
/* kernel text begins */
#include "ops/index/gather_kernel.h"

enum { FOLD_PROD, FOLD_MAX, FOLD_MIN };

typedef struct scatter_params {
    I64 items;
    gather_params at; /* without its own items */
    I64 how;
} scatter_params;

#ifdef HAUL_KERNEL
#if IS_BITS
/* y[.., index[.., i, ..], ..] = source[.., i, ..]: a line an item. */
KERNEL4(scatter_put, gather_params, T, y, const I64, index, const T, source, U32, fault)
{
    FOR_ITEMS(i) {
        I64 at[3];
        gather_at(&p, i, at);
        for (I64 k = 0; k < p.length; k++) {
            const I64 place = at[1] - p.offsets[1] + k * p.along[1];
            const I64 to = CHECKED_INDEX(fault, p.check, place, index[at[1] + k * p.along[1]], p.size);
            if (to >= 0) y[at[0] + to * p.along[0]] = source[at[2] + k * p.along[2]];
        }
    }
}

/* The same of dense lines whose indices are sorted; `order` says where in their line they were. */
KERNEL5(scatter_put_runs, gather_params, T, y, const I64, sorted, const I64, order, const T, source, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 line = QUOTIENT(i, p.length), first = line * p.length, value = sorted[i];
        if (i + 1 < first + p.length && sorted[i + 1] == value) continue;
        const I64 to = CHECKED_INDEX(fault, p.check, first + order[i], value, p.size);
        if (to < 0) continue;
        I64 at[3];
        gather_at(&p, line, at);
        y[at[0] + to * p.along[0]] = source[at[2] + order[i] * p.along[2]];
    }
}
#endif

FUNC I32 scatter_is_nan(A x)
{
#if IS_FLOAT
    return x != x;
#else
    return (I32)(x - x);
#endif
}

/* The two together; a NaN stays. */
FUNC A scatter_step(I64 how, A a, A b)
{
    if (how == FOLD_PROD) return a * b;
    if (how == FOLD_MAX) return a > b || scatter_is_nan(a) ? a : b;
    return a < b || scatter_is_nan(a) ? a : b;
}

KERNEL4(scatter_fold, scatter_params, T, y, const I64, index, const T, source, U32, fault)
{
    FOR_ITEMS(i) {
        I64 at[3];
        gather_at(&p.at, i, at);
        for (I64 k = 0; k < p.at.length; k++) {
            const I64 place = at[1] - p.at.offsets[1] + k * p.at.along[1];
            const I64 index_at = CHECKED_INDEX(fault, p.at.check, place, index[at[1] + k * p.at.along[1]], p.at.size);
            const I64 to = at[0] + index_at * p.at.along[0];
            if (index_at >= 0) STORE(y, to, scatter_step(p.how, LOAD(y, to), LOAD(source, at[2] + k * p.at.along[2])));
        }
    }
}

KERNEL5(scatter_fold_runs, scatter_params, T, y, const I64, sorted, const I64, order, const T, source, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 line = QUOTIENT(i, p.at.length), first = line * p.at.length, value = sorted[i];
        if (i > first && sorted[i - 1] == value) continue;
        const I64 index_at = CHECKED_INDEX(fault, p.at.check, first + order[i], value, p.at.size);
        if (index_at < 0) continue;
        I64 at[3];
        gather_at(&p.at, line, at);
        const I64 to = at[0] + index_at * p.at.along[0];
        A s = LOAD(y, to);
        for (I64 j = i; j < first + p.at.length && sorted[j] == value; j++)
            s = scatter_step(p.how, s, LOAD(source, at[2] + order[j] * p.at.along[2]));
        STORE(y, to, s);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 8192, X = 0, INDEX = 1, SOURCE = 2 };

/* ---- launches ---- */

typedef struct work {
    haul_tensor *y, *index, *source;
    int          axis;
    uint32_t     check;
} work;

/* The indices in order, and where they were. */
static bool sort_lines(const haul__call *c, haul_tensor *index, int64_t length, haul_tensor **sorted,
                       haul_tensor **order)
{
    HAUL__ASSERT(length > 0 && index->count % length == 0);
    *sorted = haul__temporary(c, HAUL_I64, &index->shape);
    *order = *sorted ? haul__temporary(c, HAUL_I64, &index->shape) : NULL;
    return *order && !haul__sort_rows(c, *sorted, *order, index, length, false);
}

static haul_status launch_put(const haul__call *c, const work *w)
{
    HAUL__ASSERT(w->y->dtype == w->source->dtype);
    haul_tensor  *sorted, *order;
    gather_params p = haul__gather_describe(w->y, w->index, w->source, w->axis, true);
    p.check = w->check;
    if (!haul__has_few_lines(c, &p))
        return haul__launch_kernel(c, HAUL__K_scatter_put, w->y->dtype, HAUL__OUT(w->y), HAUL__IN(w->index, w->source),
                                   HAUL__PARAMS(p), .grain = 1 + GRAIN / (p.length + 1), .checks = true);
    if (!sort_lines(c, w->index, p.length, &sorted, &order))
        return haul_error_status();
    HAUL__ASSERT(sorted->count == w->index->count && order->count == sorted->count);
    p.items = w->index->count;
    return haul__launch_kernel(c, HAUL__K_scatter_put_runs, w->y->dtype, HAUL__OUT(w->y),
                               HAUL__IN(sorted, order, w->source), HAUL__PARAMS(p), .grain = GRAIN, .checks = true);
}

static haul_status launch_fold(const haul__call *c, const work *w, int how)
{
    HAUL__ASSERT(HAUL_SCATTER_PROD <= how && how <= HAUL_SCATTER_MIN && w->y->dtype == w->source->dtype);
    haul_tensor     *sorted, *order;
    static const I64 folds[] = {
        [HAUL_SCATTER_PROD] = FOLD_PROD, [HAUL_SCATTER_MAX] = FOLD_MAX, [HAUL_SCATTER_MIN] = FOLD_MIN};
    scatter_params p = {.at = haul__gather_describe(w->y, w->index, w->source, w->axis, true), .how = folds[how]};
    p.at.check = w->check;
    p.items = p.at.items;
    if (!haul__has_few_lines(c, &p.at))
        return haul__launch_kernel(c, HAUL__K_scatter_fold, w->y->dtype, HAUL__OUT(w->y), HAUL__IN(w->index, w->source),
                                   HAUL__PARAMS(p), .grain = 1 + GRAIN / (p.at.length + 1), .checks = true);
    if (!sort_lines(c, w->index, p.at.length, &sorted, &order))
        return haul_error_status();
    HAUL__ASSERT(sorted->count == w->index->count && order->count == sorted->count);
    p.items = w->index->count;
    return haul__launch_kernel(c, HAUL__K_scatter_fold_runs, w->y->dtype, HAUL__OUT(w->y),
                               HAUL__IN(sorted, order, w->source), HAUL__PARAMS(p), .grain = GRAIN, .checks = true);
}

/* ---- haul_scatter ---- */

static haul_status infer(haul__call *c)
{
    haul__scatter_attributes *a = haul__attributes(c);
    if (haul__check_index_shapes(c, &a->axis))
        return haul_error_status();
    if (!haul__shape_equal(&c->operands[SOURCE]->shape, &c->operands[INDEX]->shape))
        return haul__refuse_shape(c, SOURCE, "the shape of index is expected");
    return haul__describe(c, 0, c->operands[X]->dtype, &c->operands[X]->shape);
}

/* y becomes x; an index out of range fails before that, where it fails the call. */
static haul_status begin(haul__call *c, haul_tensor *y, uint32_t check)
{
    const haul__scatter_attributes *a = haul__attributes(c);
    haul_tensor                    *x = c->operands[X];
    HAUL__ASSERT(haul__shape_equal(&y->shape, &x->shape));
    if (haul__check_indices(c, c->operands[INDEX], x->shape.ndim ? x->shape.dims[a->axis] : 1, check))
        return haul_error_status();
    return haul__copy_elements(y, x, c->operation->name);
}

static haul_status compute(haul__call *c)
{
    const haul__scatter_attributes *a = haul__attributes(c);
    const uint32_t                  check = haul__index_check(HAUL__CHECK_scatter, a->axis);
    const work                      w = {c->results[0], c->operands[INDEX], c->operands[SOURCE], a->axis, check};
    return begin(c, w.y, check) ? haul_error_status() : launch_put(c, &w);
}

/* Where each index stands along the axis, in the shape of index. */
static haul_tensor *positions(haul_tensor *index, int axis)
{
    return index->shape.ndim ? haul_sub_scalar(haul_cumsum(haul_ones_like(index), axis), 1) : haul_zeros_like(index);
}

/* The gradient gy where the index is the last one for its place, else 0. */
static haul_tensor *of_last(haul_tensor *gy, int axis, haul_tensor *index)
{
    haul_tensor *at = positions(index, axis), *none = haul_cast(haul_full_like(gy, -1), HAUL_I64);
    haul_tensor *last = haul_scatter(none, axis, index, at);
    return haul_masked_fill(haul_gather(gy, axis, index), haul_ne(haul_gather(last, axis, index), at), 0);
}

static void gradient(haul__gradient *g)
{
    const haul__scatter_attributes *a = g->attributes;
    haul_tensor                    *index = g->saved[INDEX], *gy = g->results[0];
    if (haul__wanted(g, X))
        g->operands[X] = haul_scatter(gy, a->axis, index, haul_cast(haul_zeros_like(index), gy->dtype));
    if (haul__wanted(g, SOURCE))
        g->operands[SOURCE] = of_last(gy, a->axis, index);
}

HAUL__OPERATION(scatter) = {
    .name = "haul_scatter",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_0 | HAUL__FOR_2},
                 {"source", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(haul__scatter_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
};

HAUL__FUNCTIONS(scatter, &(haul__scatter_attributes){.axis = axis},
                (haul_tensor * x, int axis, haul_tensor *index, haul_tensor *source), x, index, source)

/* ---- products and extremes: x with the elements ---- */

static haul_status fold_compute(haul__call *c)
{
    const haul__scatter_attributes *a = haul__attributes(c);
    haul_tensor                    *y = c->results[0];
    const uint32_t                  check = haul__index_check(HAUL__CHECK_scatter_reduce, a->axis);
    haul_dtype                      dtype = haul_dtype_is_float(y->dtype) ? haul__sum_dtype(y->dtype) : y->dtype;
    const work w = {dtype == y->dtype ? y : haul__temporary(c, dtype, &y->shape), c->operands[INDEX],
                    haul__as_dtype(c, c->operands[SOURCE], dtype), a->axis, check};
    if (!w.y || !w.source || begin(c, w.y, check) || launch_fold(c, &w, a->how))
        return haul_error_status();
    return w.y == y ? HAUL_OK : haul__copy_elements(y, w.y, c->operation->name);
}

static haul_tensor *fold(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source, int how);

/* Places with the extreme share its gradient equally. */
static void extreme_gradient(haul__gradient *g, haul_tensor *y)
{
    const haul__scatter_attributes *a = g->attributes;
    haul_tensor                    *x = g->saved[X], *index = g->saved[INDEX], *source = g->saved[SOURCE];
    haul_tensor                    *own = haul_cast(haul_eq(x, y), y->dtype);
    haul_tensor                    *other = haul_cast(haul_eq(source, haul_gather(y, a->axis, index)), y->dtype);
    haul_tensor                    *share = haul_div(g->results[0], haul_scatter_add(own, a->axis, index, other));
    if (haul__wanted(g, X))
        g->operands[X] = haul_mul(share, own);
    if (haul__wanted(g, SOURCE))
        g->operands[SOURCE] = haul_mul(haul_gather(share, a->axis, index), other);
}

/* The product without one factor: by division, and where that factor is the only 0, by a product without it. */
static void product_gradient(haul__gradient *g, haul_tensor *y)
{
    const haul__scatter_attributes *a = g->attributes;
    haul_tensor *x = g->saved[X], *index = g->saved[INDEX], *source = g->saved[SOURCE], *gy = g->results[0];
    if (haul__wanted(g, X)) {
        haul_tensor *whole = haul_masked_fill(x, haul_eq_scalar(x, 0), 1);
        g->operands[X] = haul_mul(gy, haul_div(fold(whole, a->axis, index, source, HAUL_SCATTER_PROD), whole));
    }
    if (!haul__wanted(g, SOURCE))
        return;
    haul_tensor *zero = haul_eq_scalar(source, 0);
    haul_tensor *zeros = haul_scatter_add(haul_zeros_like(x), a->axis, index, haul_cast(zero, x->dtype));
    HAUL__ASSERT(haul__failed(zeros) || haul__shape_equal(&zeros->shape, &x->shape));
    haul_tensor *only = haul_logical_and(zero, haul_eq_scalar(haul_gather(zeros, a->axis, index), 1));
    haul_tensor *rest = fold(x, a->axis, index, haul_masked_fill(source, only, 1), HAUL_SCATTER_PROD);
    haul_tensor *divided = haul_div(haul_gather(haul_mul(gy, y), a->axis, index), haul_masked_fill(source, zero, 1));
    g->operands[SOURCE] = haul_where(only, haul_gather(haul_mul(gy, rest), a->axis, index), divided);
}

static void fold_gradient(haul__gradient *g)
{
    if (((const haul__scatter_attributes *)g->attributes)->how == HAUL_SCATTER_PROD)
        product_gradient(g, g->saved_results[0]);
    else
        extreme_gradient(g, g->saved_results[0]);
}

HAUL__OPERATION(scatter_fold) = {
    .name = "haul_scatter_fold",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_ALL},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_ALL},
                 {"source", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_ALL}},
    .results = {{"y", .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__NUMBERS,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(haul__scatter_attributes),
    .infer = infer,
    .compute = fold_compute,
    .gradient = fold_gradient,
    .flops = 1,
};

static haul_tensor *fold(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source, int how)
{
    return HAUL__APPLY(scatter_fold, (&(haul__scatter_attributes){.axis = axis, .how = how}), x, index, source);
}

/* ---- haul_scatter_reduce ---- */

/* x with a number at the places of the indices. */
static haul_tensor *with_number(haul_tensor *x, int axis, haul_tensor *index, double value)
{
    haul_tensor *filled = haul_full_like(haul_cast(index, x->dtype), value);
    return haul_scatter(x, axis, index, filled);
}

/* Without x itself, places that elements go to begin with the neutral element. An integer extreme begins with one of
 * the elements. */
static haul_tensor *neutral(haul__call *c, const haul__scatter_attributes *a)
{
    haul_tensor *x = c->operands[X], *index = c->operands[INDEX];
    if (!a->exclude_self || !index->count)
        return x;
    if (a->how == HAUL_SCATTER_PROD)
        return with_number(x, a->axis, index, 1);
    if (a->how == HAUL_SCATTER_SUM || a->how == HAUL_SCATTER_MEAN)
        return with_number(x, a->axis, index, 0);
    if (haul_dtype_is_float(x->dtype))
        return with_number(x, a->axis, index, a->how == HAUL_SCATTER_MAX ? -HUGE_VAL : HUGE_VAL);
    return haul_scatter(x, a->axis, index, c->operands[SOURCE]);
}

/* How many elements each sum has: at least one, for those that none was added to. */
static haul_tensor *counts(haul__call *c, const haul__scatter_attributes *a)
{
    haul_tensor *x = c->operands[X], *index = c->operands[INDEX];
    haul_tensor *each = haul_ones_like(haul_cast(index, HAUL_F32));
    haul_tensor *own = haul_full_like(haul_cast(haul_detach(x), HAUL_F32), a->exclude_self ? 0 : 1);
    haul_tensor *sum = haul_scatter_add(own, a->axis, index, each);
    return haul_cast(a->exclude_self ? haul_clamp(sum, 1, HUGE_VAL) : sum, x->dtype);
}

static haul_status reduce(haul__call *c)
{
    haul__scatter_attributes *a = haul__attributes(c);
    haul_tensor              *index = c->operands[INDEX], *source = c->operands[SOURCE];
    if (a->how < HAUL_SCATTER_SUM || a->how > HAUL_SCATTER_MIN)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "how", "%d is not one of haul_scatter_how",
                          a->how);
    if (haul__check_index_shapes(c, &a->axis))
        return haul_error_status();
    if (!haul__shape_equal(&source->shape, &index->shape))
        return haul__refuse_shape(c, SOURCE, "the shape of index is expected");
    if (a->how == HAUL_SCATTER_MEAN && !haul_dtype_is_float(c->operands[X]->dtype))
        return haul__refuse_dtype(c, X, "a mean needs a floating dtype");
    haul_tensor *base = neutral(c, a);
    const bool   adds = a->how == HAUL_SCATTER_SUM || a->how == HAUL_SCATTER_MEAN;
    haul_tensor *y = adds ? haul_scatter_add(base, a->axis, index, source) : fold(base, a->axis, index, source, a->how);
    c->results[0] = a->how == HAUL_SCATTER_MEAN ? haul_div(y, counts(c, a)) : y;
    HAUL__ASSERT(haul__failed(c->results[0]) || haul__shape_equal(&c->results[0]->shape, &c->operands[X]->shape));
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(scatter_reduce) = {
    .name = "haul_scatter_reduce",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64},
                 {"source", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__NUMBERS,
    .rule = HAUL__PROMOTED,
    .attributes_size = HAUL__ATTRIBUTES(haul__scatter_attributes),
    .compose = reduce,
};

haul_tensor *haul_scatter_reduce_with(haul_tensor *x, int axis, haul_tensor *index, haul_tensor *source,
                                      const haul_scatter_reduce_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_scatter_reduce);
    const haul__scatter_attributes a = {.axis = axis, .how = (int)o->how, .exclude_self = o->exclude_self};
    return HAUL__APPLY(scatter_reduce, &a, x, index, source);
}
