/* Binary search in sorted rows: where elements would be inserted, and whether they occur. */
#include "base/assert.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/index/index.h"
#include "ops/pointwise/unsigned.h"

// clang-format off
/* kernel text begins */
typedef struct search_params {
    I64 items;
    I64 count, length; /* values of a row, and sorted elements of one */
    I64 rows;          /* 1: all values are searched in one row */
    I64 offsets[3];    /* of the result, sorted and values */
    I32 right, unused; /* behind equal elements */
} search_params;

#ifdef HAUL_KERNEL
/* NaN is larger than all numbers, and equal to NaN. */
FUNC I32 search_less(A a, A b)
{
#if IS_FLOAT
    return a < b || (b != b && a == a);
#else
    return a < b;
#endif
}
/* The number of elements of a sorted row that are less than x; with `right`, or equal to it. */
FUNC I64 search_row(GLOBAL const T *row, I64 length, A x, I32 right)
{
    I64 first = 0;
    for (I64 n = length; n > 0;) {
        const I64 some = n / 2;
        const A middle = LOAD(row, first + some);
        const I32 after = right ? !search_less(x, middle) : search_less(middle, x);
        first = after ? first + some + 1 : first;
        n = after ? n - some - 1 : some;
    }
    return first;
}

KERNEL3(search_places, search_params, I64, y, const T, sorted, const T, values)
{
    FOR_ITEMS(i) {
        const I64 row = p.rows == 1 ? 0 : QUOTIENT(i, p.count);
        y[p.offsets[0] + i] = search_row(sorted + p.offsets[1] + row * p.length, p.length, LOAD(values, p.offsets[2] + i), p.right);
    }
}

KERNEL3(search_contains, search_params, U8, y, const T, sorted, const T, values)
{
    FOR_ITEMS(i) {
        GLOBAL const T *row = sorted + p.offsets[1];
        const A x = LOAD(values, p.offsets[2] + i);
        const I64 at = search_row(row, p.length, x, 0);
        y[p.offsets[0] + i] = (U8)(at < p.length && LOAD(row, least(at, p.length - 1)) == x);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 2048, SORTED = 0, VALUES = 1 };

typedef struct search_attributes {
    bool right, reserved[7];
} search_attributes;

/* ---- haul_searchsorted ---- */

static haul_status infer(haul__call *c)
{
    const haul_shape *sorted = &c->operands[SORTED]->shape, *values = &c->operands[VALUES]->shape;
    bool              fits = sorted->ndim > 0 && (sorted->ndim == 1 || sorted->ndim == values->ndim);
    for (int d = 0; fits && sorted->ndim > 1 && d < sorted->ndim - 1; d++)
        fits = sorted->dims[d] == values->dims[d];
    if (!fits)
        return haul__refuse_shape(c, SORTED, "one dimension is expected, or those of values but for the last size");
    return haul__describe(c, 0, HAUL_I64, values);
}

static search_params params_of(const haul__call *c, haul_tensor *sorted, haul_tensor *values)
{
    const haul_shape *shape = &sorted->shape;
    HAUL__ASSERT(shape->ndim > 0 && sorted->dtype == values->dtype && values->count == c->results[0]->count);
    search_params p = {.items = values->count, .length = shape->dims[shape->ndim - 1], .rows = 1, .count = 1};
    p.offsets[0] = c->results[0]->offset;
    p.offsets[1] = sorted->offset;
    p.offsets[2] = values->offset;
    if (shape->ndim > 1) {
        p.rows = 2; /* or any other number */
        p.count = values->shape.dims[shape->ndim - 1];
    }
    HAUL__ASSERT(!p.length || !p.count || p.rows == 1 || sorted->count / p.length == values->count / p.count);
    return p;
}

static haul_status compute(haul__call *c)
{
    haul_tensor *sorted = haul__in_signed_order(c, c->operands[SORTED]);
    haul_tensor *values = haul__in_signed_order(c, c->operands[VALUES]);
    if (!sorted || !values)
        return haul_error_status();
    search_params p = params_of(c, sorted, values);
    p.right = ((const search_attributes *)haul__attributes(c))->right;
    return haul__launch_kernel(c, HAUL__K_search_places, values->dtype, HAUL__OUT(c->results[0]),
                               HAUL__IN(sorted, values), HAUL__PARAMS(p), .grain = GRAIN);
}

HAUL__OPERATION(searchsorted) = {
    .name = "haul_searchsorted",
    .operands = {{"sorted"}, {"values"}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .rule = HAUL__PROMOTED,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(search_attributes),
    .infer = infer,
    .compute = compute,
    .flops = 16,
};

haul_tensor *haul_searchsorted(haul_tensor *sorted, haul_tensor *values, bool right)
{
    return HAUL__APPLY(searchsorted, &(search_attributes){.right = right}, sorted, values);
}

static haul_status bucketize(haul__call *c)
{
    const search_attributes *a = haul__attributes(c);
    if (c->operands[1]->shape.ndim != 1)
        return haul__refuse_shape(c, 1, "one dimension is expected");
    c->results[0] = haul_searchsorted(c->operands[1], c->operands[0], a->right);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(bucketize) = {
    .name = "haul_bucketize",
    .operands = {{"x"}, {"edges"}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .rule = HAUL__PROMOTED,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(search_attributes),
    .compose = bucketize,
};

haul_tensor *haul_bucketize(haul_tensor *x, haul_tensor *edges, bool right)
{
    return HAUL__APPLY(bucketize, &(search_attributes){.right = right}, x, edges);
}

/* ---- haul_isin ---- */

static haul_status contains_infer(haul__call *c)
{
    return haul__describe(c, 0, HAUL_BOOL, &c->operands[VALUES]->shape);
}

static haul_status contains_compute(haul__call *c)
{
    haul_tensor *sorted = haul__in_signed_order(c, c->operands[SORTED]);
    haul_tensor *values = haul__in_signed_order(c, c->operands[VALUES]);
    if (!sorted || !values)
        return haul_error_status();
    search_params p = params_of(c, sorted, values);
    return haul__launch_kernel(c, HAUL__K_search_contains, values->dtype, HAUL__OUT(c->results[0]),
                               HAUL__IN(sorted, values), HAUL__PARAMS(p), .grain = GRAIN);
}

HAUL__OPERATION(contains) = {
    .name = "haul_contains",
    .operands = {{"sorted"}, {"values"}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .rule = HAUL__PROMOTED,
    .not_recorded = true,
    .infer = contains_infer,
    .compute = contains_compute,
    .flops = 16,
};

static haul_status isin(haul__call *c)
{
    haul_tensor *sorted, *order, *of = haul_reshape(c->operands[1], HAUL_SHAPE(-1));
    if (haul_sort(of, 0, false, &sorted, &order))
        return haul_error_status();
    c->results[0] = HAUL__APPLY(contains, NULL, sorted, c->operands[0]);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(isin) = {
    .name = "haul_isin",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}, {"of", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .rule = HAUL__PROMOTED,
    .not_recorded = true,
    .compose = isin,
};

haul_tensor *haul_isin(haul_tensor *x, haul_tensor *of)
{
    return HAUL__APPLY(isin, NULL, x, of);
}
