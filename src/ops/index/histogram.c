/* Counting: how often each number occurs, and how many elements are in each bin.
 *
 * On processors each part of the elements is counted by one work item in a row of counts of its own, and the rows are
 * added up. On GPUs the elements are sorted, and an item finds where one count begins and ends. */
#include <math.h>

#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/index/index.h"
#include "ops/index/places.h"
#include "ops/index/sort.h"
#include "ops/pointwise/linspace.h"

// clang-format off
/* kernel text begins */
typedef struct histogram_params {
    I64 items;
    I64 count, part;    /* elements, and those of a part */
    I64 size, parts;    /* counts of a row, and rows */
    I64 offsets[3];     /* of the result, the elements, and the edges or their order */
    I32 even;           /* the bins are equally wide */
    U32 check;          /* haul__index_check, or 0: numbers out of range are not counted */
} histogram_params;

#ifdef HAUL_KERNEL
#if defined(HAUL_KERNEL_DTYPE_bool)
/* A row of counts for each part: a part an item. */
KERNEL3(count_numbers, histogram_params, I64, counts, const I64, x, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 first = i * p.part, last = least(first + p.part, p.count);
        GLOBAL I64 *own = counts + p.offsets[0] + i * p.size;
        GLOBAL const I64 *v = x + p.offsets[1];
        for (I64 j = first; j < last; j++) {
            const I64 value = v[j];
            if ((U64)value < (U64)p.size) own[value]++;
            else CHECKED_INDEX(fault, p.check, j, value, p.size);
        }
    }
}

KERNEL2(add_counts, histogram_params, I64, y, const I64, counts)
{
    FOR_ITEMS(k) {
        I64 sum = 0;
        for (I64 i = 0; i < p.parts; i++) sum += counts[p.offsets[1] + i * p.size + k];
        y[p.offsets[0] + k] = sum;
    }
}

/* The number of sorted elements below `value`. */
FUNC I64 count_below(GLOBAL const I64 *sorted, I64 n, I64 value)
{
    I64 first = 0;
    while (n > 0) {
        const I64 some = n / 2;
        const I32 after = sorted[first + some] < value;
        first = after ? first + some + 1 : first;
        n = after ? n - some - 1 : some;
    }
    return first;
}

KERNEL4(count_sorted, histogram_params, I64, y, const I64, sorted, const I64, order, U32, fault)
{
    FOR_ITEMS(k) {
        GLOBAL const I64 *v = sorted + p.offsets[1];
        if (k == 0 && p.check) {
            CHECKED_INDEX(fault, p.check, order[p.offsets[2]], v[0], p.size);
            CHECKED_INDEX(fault, p.check, order[p.offsets[2] + p.count - 1], v[p.count - 1], p.size);
        }
        y[p.offsets[0] + k] = count_below(v, p.count, k + 1) - count_below(v, p.count, k);
    }
}
#endif

#if IS_FLOAT
/* The bin of x: edges[bin] <= x < edges[bin + 1], and the last edge is in the last bin. -1 for none. */
FUNC I64 bin_of(GLOBAL const T *edges, I64 bins, A low, A high, A scale, A x)
{
    if (!(x >= low && x <= high)) return -1;
    I64 bin = 0;
    if (scale > 0) {
        bin = least((I64)((x - low) * scale), bins - 1);
        while (bin > 0 && x < LOAD(edges, bin)) bin--;
        while (bin + 1 < bins && x >= LOAD(edges, bin + 1)) bin++;
        return bin;
    }
    for (I64 n = bins; n > 1;) { /* among the n bins from `bin` on */
        const I64 some = n / 2;
        const I32 after = x >= LOAD(edges, bin + some);
        bin = after ? bin + some : bin;
        n = after ? n - some : some;
    }
    return bin;
}
FUNC A bin_scale(const histogram_params *p, A low, A high)
{
    const A scale = p->even && high > low ? (A)p->size / (high - low) : LIT(0.0);
    return scale - scale == 0 ? scale : LIT(0.0); /* not infinite */
}

KERNEL3(count_bins, histogram_params, I64, counts, const T, x, const T, edges)
{
    FOR_ITEMS(i) {
        const I64 first = i * p.part, last = least(first + p.part, p.count);
        GLOBAL I64 *own = counts + p.offsets[0] + i * p.size;
        GLOBAL const T *at = edges + p.offsets[2], *v = x + p.offsets[1];
        const A low = LOAD(at, 0), high = LOAD(at, p.size), scale = bin_scale(&p, low, high);
        for (I64 j = first; j < last; j++) {
            const I64 bin = bin_of(at, p.size, low, high, scale, LOAD(v, j));
            if (bin >= 0) own[bin]++;
        }
    }
}

KERNEL3(find_bins, histogram_params, I64, y, const T, x, const T, edges)
{
    FOR_ITEMS(i) {
        GLOBAL const T *at = edges + p.offsets[2];
        const A low = LOAD(at, 0), high = LOAD(at, p.size);
        y[p.offsets[0] + i] = bin_of(at, p.size, low, high, bin_scale(&p, low, high), LOAD(x, p.offsets[1] + i));
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* A part has at least PART elements and a fair share of those that its row of counts takes; MOST parts keep processors
 * busy. */
enum { PART = 1 << 15, MOST = 16, GRAIN = 16384 };

static void choose_parts(histogram_params *p)
{
    HAUL__ASSERT(p->count > 0 && p->size > 0);
    const int64_t least_part = p->size > PART ? p->size : PART;
    p->part = p->count / MOST + 1 > least_part ? p->count / MOST + 1 : least_part;
    p->parts = p->count / p->part + (p->count % p->part != 0);
    HAUL__ASSERT(p->parts <= MOST && (p->parts - 1) * p->part < p->count && p->count <= p->parts * p->part);
}

/* Adds up rows of counts. */
static haul_status add_counts(const haul__call *c, haul_tensor *rows, histogram_params p)
{
    haul_tensor *y = c->results[0];
    HAUL__ASSERT(y->count == p.size && rows->count == p.parts * p.size);
    p.items = p.size;
    p.offsets[0] = y->offset;
    p.offsets[1] = rows->offset;
    return haul__launch_kernel(c, HAUL__K_add_counts, HAUL_BOOL, HAUL__OUT(y), HAUL__IN(rows), HAUL__PARAMS(p),
                               .grain = GRAIN / (p.parts + 1) + 1);
}

/* Rows of zeros; the result itself if there is one row. */
static haul_tensor *zero_rows(const haul__call *c, const histogram_params *p)
{
    HAUL__ASSERT(p->parts > 0 && c->results[0]->count == p->size);
    haul_tensor *rows = p->parts == 1 ? c->results[0] : haul__temporary(c, HAUL_I64, &HAUL_SHAPE(p->parts, p->size));
    return rows && !haul__fill_elements(rows, 0, c->operation->name) ? rows : NULL;
}

/* y[k] = how many elements of the i64 tensor x are k. */
static haul_status count_sorted(const haul__call *c, haul_tensor *x, histogram_params p)
{
    HAUL__ASSERT(x->dtype == HAUL_I64 && x->count == p.count && c->results[0]->count == p.size);
    haul_tensor *y = c->results[0], *sorted = haul__temporary(c, HAUL_I64, &x->shape);
    haul_tensor *order = sorted ? haul__temporary(c, HAUL_I64, &x->shape) : NULL;
    if (!order || haul__sort_rows(c, sorted, order, x, x->count, false))
        return haul_error_status();
    p.items = p.size;
    p.offsets[0] = y->offset;
    p.offsets[1] = sorted->offset;
    p.offsets[2] = order->offset;
    return haul__launch_kernel(c, HAUL__K_count_sorted, HAUL_BOOL, HAUL__OUT(y), HAUL__IN(sorted, order),
                               HAUL__PARAMS(p), .grain = GRAIN, .checks = true);
}

static bool sorts(const haul__call *c, const haul_tensor *x)
{
    return c->device->strided && x->count <= HAUL__SORT_MOST;
}

/* ---- counts of numbers ---- */

typedef struct numbers_attributes {
    int64_t size, minlength;
} numbers_attributes;

static haul_status numbers_infer(haul__call *c)
{
    return haul__describe(c, 0, HAUL_I64, &HAUL_SHAPE(((const numbers_attributes *)haul__attributes(c))->size));
}

static haul_status numbers_compute(haul__call *c)
{
    haul_tensor     *x = c->operands[0], *y = c->results[0];
    histogram_params p = {.count = x->count, .size = y->count, .offsets = {0, x->offset}};
    p.check = haul__index_check(HAUL__CHECK_bincount, 0);
    if (!x->count)
        return haul__fill_elements(y, 0, c->operation->name);
    if (sorts(c, x))
        return count_sorted(c, x, p);
    choose_parts(&p);
    haul_tensor *rows = zero_rows(c, &p);
    if (!rows)
        return haul_error_status();
    HAUL__ASSERT(p.parts > 0 && rows->count == p.parts * p.size);
    p.items = p.parts;
    p.offsets[0] = rows->offset;
    if (haul__launch_kernel(c, HAUL__K_count_numbers, HAUL_BOOL, HAUL__OUT(rows), HAUL__IN(x), HAUL__PARAMS(p),
                            .grain = 1, .checks = true))
        return haul_error_status();
    return rows == y ? HAUL_OK : add_counts(c, rows, p);
}

HAUL__OPERATION(count_numbers) = {
    .name = "haul_count_numbers",
    .operands = {{"x", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(numbers_attributes),
    .infer = numbers_infer,
    .compute = numbers_compute,
    .flops = 1,
};

/* One more than the largest number, at least minlength. */
static haul_status find_size(haul__call *c, haul_tensor *x, numbers_attributes *a)
{
    int64_t most = -1;
    if (x->count) {
        haul_tensor *largest = haul_max(x);
        if (haul__failed(largest) || haul__read_count(c, largest, "the largest number", &most))
            return haul_error_status();
        if (most < 0 || most >= INT64_MAX / (int64_t)sizeof(int64_t))
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "x",
                              "the largest number in x is %lld; numbers from 0 on can be counted", (long long)most);
    }
    a->size = most + 1 > a->minlength ? most + 1 : a->minlength;
    HAUL__ASSERT(a->size > most && a->size >= 0);
    return HAUL_OK;
}

static haul_status bincount(haul__call *c)
{
    numbers_attributes *a = haul__attributes(c);
    haul_tensor        *x = haul_reshape(c->operands[0], HAUL_SHAPE(-1)), *weights = c->operands[1];
    if (haul__bounded_size(c, &a->size))
        return haul_error_status();
    if (a->minlength < 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "minlength",
                          "minlength is %lld; it must not be negative", (long long)a->minlength);
    if (haul__has(c, 1) && !haul__shape_equal(&weights->shape, &c->operands[0]->shape))
        return haul__refuse_shape(c, 1, "the shape of x is expected");
    if (a->size < 0 && find_size(c, x, a))
        return haul_error_status();
    HAUL__ASSERT(a->size >= 0);
    if (a->size == 0 && x->count > 0)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "size", "x has elements, so size must be above 0");
    if (haul__has(c, 1))
        c->results[0] = haul__gather_backward(haul_reshape(weights, HAUL_SHAPE(-1)), 0, x, &HAUL_SHAPE(a->size), false);
    else
        c->results[0] = HAUL__APPLY(count_numbers, a, x);
    HAUL__ASSERT(haul__failed(c->results[0]) || c->results[0]->count == a->size);
    return haul__failed(c->results[0]) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(bincount) = {
    .name = "haul_bincount",
    .operands = {{"x", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64},
                 {"weights", .optional = true, .accepts = HAUL__FLOATS}},
    .results = {{"y"}},
    .attributes_size = HAUL__ATTRIBUTES(numbers_attributes),
    .compose = bincount,
};

haul_tensor *haul_bincount_with(const haul_bincount_options *o)
{
    if (!o)
        return haul__no_options(&haul__operation_bincount);
    return HAUL__APPLY(bincount, (&(numbers_attributes){.size = o->size, .minlength = o->minlength}), o->x,
                       haul__optional(o->weights));
}

/* ---- counts of bins ---- */

typedef struct bins_attributes {
    bool even, reserved[7];
} bins_attributes;

static haul_status bins_infer(haul__call *c)
{
    HAUL__ASSERT(c->operands[1]->count >= 2); /* the ends of a bin */
    return haul__describe(c, 0, HAUL_I64, &HAUL_SHAPE(c->operands[1]->count - 1));
}

/* Sorted bins. */
static haul_status sort_bins(const haul__call *c, histogram_params p)
{
    HAUL__ASSERT(c->operands[1]->count == p.size + 1);
    haul_tensor *x = c->operands[0], *bins = haul__temporary(c, HAUL_I64, &HAUL_SHAPE(x->count));
    if (!bins)
        return haul_error_status();
    p.items = x->count;
    p.offsets[0] = bins->offset;
    if (haul__launch_kernel(c, HAUL__K_find_bins, x->dtype, HAUL__OUT(bins), HAUL__IN(x, c->operands[1]),
                            HAUL__PARAMS(p), .grain = GRAIN))
        return haul_error_status();
    return count_sorted(c, bins, p);
}

static haul_status bins_compute(haul__call *c)
{
    haul_tensor     *x = c->operands[0], *edges = c->operands[1], *y = c->results[0];
    histogram_params p = {.count = x->count, .size = y->count, .offsets = {0, x->offset, edges->offset}};
    HAUL__ASSERT(edges->count == p.size + 1);
    p.even = ((const bins_attributes *)haul__attributes(c))->even;
    if (!x->count)
        return haul__fill_elements(y, 0, c->operation->name);
    if (sorts(c, x))
        return sort_bins(c, p);
    choose_parts(&p);
    haul_tensor *rows = zero_rows(c, &p);
    if (!rows)
        return haul_error_status();
    HAUL__ASSERT(p.parts > 0 && rows->count == p.parts * p.size);
    p.items = p.parts;
    p.offsets[0] = rows->offset;
    if (haul__launch_kernel(c, HAUL__K_count_bins, x->dtype, HAUL__OUT(rows), HAUL__IN(x, edges), HAUL__PARAMS(p),
                            .grain = 1))
        return haul_error_status();
    return rows == y ? HAUL_OK : add_counts(c, rows, p);
}

HAUL__OPERATION(count_bins) = {
    .name = "haul_count_bins",
    .operands = {{"x"}, {"edges"}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__FLOATED,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(bins_attributes),
    .infer = bins_infer,
    .compute = bins_compute,
    .flops = 4,
};

typedef struct histogram_attributes {
    int64_t bins;
    double  low, high;
} histogram_attributes;

/* Edges of equal bins: within the given limits, or those of the elements. */
static haul_tensor *even_edges(haul_tensor *x, const histogram_attributes *a)
{
    if (a->low != a->high || !x->count)
        return haul__linspace_on(x->storage->device, x->dtype, a->low, a->low == a->high ? a->low + 1 : a->high,
                                 a->bins + 1);
    return haul__even_edges(haul_min(x), haul_max(x), a->bins + 1);
}

static haul_status check_histogram(haul__call *c, histogram_attributes *a)
{
    a->low = a->low == HAUL_ZERO ? 0 : a->low;
    a->high = a->high == HAUL_ZERO ? 0 : a->high;
    if (haul__has(c, 1)) {
        if (a->bins || a->low != 0 || a->high != 0)
            return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "edges",
                              "edges say which bins there are; omit bins, low and high");
        if (c->operands[1]->shape.ndim != 1 || c->operands[1]->count < 2)
            return haul__refuse_shape(c, 1, "one dimension with at least two edges is expected");
        return HAUL_OK;
    }
    a->bins = a->bins ? a->bins : 100;
    if (a->bins < 1 || a->bins > INT32_MAX)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "bins", "bins is %lld; 1 to 2^31 - 1 is expected",
                          (long long)a->bins);
    if (!(isfinite(a->low) && isfinite(a->high) && a->low <= a->high))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "low",
                          "low is %g and high is %g; low must be below high, and both finite", a->low, a->high);
    return HAUL_OK;
}

/* In f32 at least: few numbers of half precision are edges of equal bins. */
static haul_status histogram(haul__call *c)
{
    histogram_attributes *a = haul__attributes(c);
    if (check_histogram(c, a))
        return haul_error_status();
    const bool            given = haul__has(c, 1);
    const bins_attributes how = {.even = !given};
    haul_tensor          *x = haul__widened(haul_reshape(c->operands[0], HAUL_SHAPE(-1)));
    if (haul__failed(x))
        return haul_error_status();
    haul_tensor *edges = given ? haul__widened(c->operands[1]) : even_edges(x, a);
    HAUL__ASSERT(haul__failed(edges) || edges->shape.ndim == 1);
    c->results[0] = HAUL__APPLY(count_bins, &how, x, edges);
    c->results[1] = edges;
    return haul__failed(c->results[0]) || haul__failed(edges) ? haul_error_status() : HAUL_OK;
}

HAUL__OPERATION(histogram) = {
    .name = "haul_histogram",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}, {"edges", .optional = true}},
    .results = {{"counts"}, {"edges"}},
    .dtypes = HAUL__FLOATS,
    .rule = HAUL__FLOATED,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(histogram_attributes),
    .compose = histogram,
};

haul_tensor *haul_histogram_with(const haul_histogram_options *o)
{
    haul_tensor *made[HAUL__MAX_RESULTS] = {NULL};
    if (!o)
        return haul__no_options(&haul__operation_histogram);
    const histogram_attributes a = {.bins = o->bins, .low = o->low, .high = o->high};
    const haul_status          status =
        haul__apply(&haul__operation_histogram, &a, HAUL__OPERANDS(o->x, haul__optional(o->edges)), made);
    if (o->made_edges)
        *o->made_edges = status ? haul__failed_tensor() : made[1];
    return status ? haul__failed_tensor() : made[0];
}
