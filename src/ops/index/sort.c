/* Stable sorting along an axis: the elements in order, and their indices.
 *
 * Elements of a short row are put where their ranks say: the numbers of elements that precede them.
 *
 * Of a long row, the sorted items combine an element's key and its index in one number. A key is an unsigned integer in
 * the order of the elements. No two items of a row are equal, because their indices differ. Blocks of a row are sorted
 * first: on processors by radix, on GPUs, where a block is small, by insertion. Then runs are merged in pairs. A work
 * item of a merge makes one chunk of the result and finds by bisection where the chunk begins in both runs (Odeh,
 * Green, Mwassi, Shmueli, Birk 2012). */
#include "ops/index/sort.h"
#include "base/assert.h"
#include "ops/attributes.h"

#include "base/numbers.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/index/index.h"
#include "ops/pointwise/unsigned.h"

// clang-format off
/* kernel text begins */
#include "ops/index/sort_kernel.h"

/* Up to so many elements of a row are put where their ranks say. */
enum { SORT_FEW = 64 };

typedef struct sort_params {
    I64 items;
    I64 length;     /* of a row */
    I64 run;        /* elements of a block, or of a run that is in order */
    I64 chunk;      /* elements that an item of a merge makes: a part of a run */
    I64 parts;      /* blocks or chunks of a row */
    I64 offsets[3]; /* of x, values and indices; items begin where their memory does */
    I32 descending, values;
} sort_params;

#ifdef HAUL_KERNEL
/* An item is a key with the element's index. */
#if defined(HAUL_KERNEL_DTYPE_f64) || defined(HAUL_KERNEL_DTYPE_i64)
typedef struct sort_item {
    U64 key, index;
} sort_item;
FUNC U32 sort_digit(sort_item item, int d) { return (U32)(item.key >> 8 * d) & 255u; }
FUNC I64 sort_index(sort_item item) { return (I64)item.index; }
FUNC sort_item sort_item_of(sort_key key, I64 index) { const sort_item item = {key, (U64)index}; return item; }
FUNC I32 sort_less(sort_item a, sort_item b) { return a.key < b.key || (a.key == b.key && a.index < b.index); }
#else
typedef U64 sort_item;
FUNC U32 sort_digit(sort_item item, int d) { return (U32)(item >> (32 + 8 * d)) & 255u; }
FUNC I64 sort_index(sort_item item) { return (I64)(item & 0xffffffffu); }
FUNC sort_item sort_item_of(sort_key key, I64 index) { return (U64)key << 32 | (U64)index; }
FUNC I32 sort_less(sort_item a, sort_item b) { return a < b; }
#endif

/* The rank of an element in its row is the number of those that precede it. Keys with a sign, as not all processors have
 * vectors of numbers without; the index is in them where there is room for both. */
#if defined(HAUL_KERNEL_DTYPE_f64) || defined(HAUL_KERNEL_DTYPE_i64)
FUNC I64 sort_with_index(sort_key key, I64 j) { (void)j; return (I64)sort_sign_changed(key); }
FUNC I64 sort_precedes(I64 a, I64 k, I64 b, I64 j) { return (I64)(a < b) | ((I64)(a == b) & (I64)(k < j)); }
#else
FUNC I64 sort_with_index(sort_key key, I64 j) { return (I64)((U64)sort_sign_changed(key) << 32 | (U64)j); }
FUNC I64 sort_precedes(I64 a, I64 k, I64 b, I64 j) { (void)k, (void)j; return (I64)(a < b); }
#endif
FUNC I64 sort_ranked(A x, I64 j, I32 descending)
{
    const sort_key key = sort_key_of(x);
    return sort_with_index(descending ? (sort_key)~key : key, j);
}
#if CHUNKED
FUNC void sort_rank(PRIVATE I64 *keys, PRIVATE I64 *ranks, I64 n)
{
    const I64 padded = (n + 7) & ~(I64)7;
    for (I64 j = n; j < padded; j++) keys[j] = 0x7fffffffffffffff;
    for (I64 e = 0; e < padded; e += 8) {
        BLOCK_LOOP for (int l = 0; l < 8; l++) ranks[e + l] = 0;
    }
    for (I64 k = 0; k < n; k += 4) { /* four at once, as each pass reads and writes the ranks */
        const I64 a = keys[k], b = keys[k + 1], c = keys[k + 2], d = keys[k + 3];
        for (I64 e = 0; e < padded; e += 8) {
            PRIVATE const I64 *key = keys + e;
            PRIVATE I64 *rank = ranks + e;
            BLOCK_LOOP for (int l = 0; l < 8; l++)
                rank[l] += sort_precedes(a, k, key[l], e + l) + sort_precedes(b, k + 1, key[l], e + l) +
                           sort_precedes(c, k + 2, key[l], e + l) + sort_precedes(d, k + 3, key[l], e + l);
        }
    }
}
FUNC void sort_rank_few(PRIVATE const I64 *keys, PRIVATE I64 *ranks, I64 n)
{
    for (I64 j = 0; j < n; j++) {
        I64 rank = 0;
        for (I64 k = 0; k < n; k++) rank += sort_precedes(keys[k], k, keys[j], j);
        ranks[j] = rank;
    }
}
#endif
FUNC void sort_put(const sort_params *p, GLOBAL T *values, GLOBAL I64 *indices, GLOBAL const T *row, I64 first, I64 j, I64 rank)
{
    indices[p->offsets[2] + first + rank] = j;
    if (p->values) values[p->offsets[1] + first + rank] = row[j];
}

/* Short rows: a row an item where work is CHUNKED, else an element. */
KERNEL3(sort_few, sort_params, T, values, I64, indices, const T, x)
{
    FOR_ITEMS(i) {
#if CHUNKED
        const I64 n = p.length, first = i * n, whole = n & ~(I64)7;
        GLOBAL const T *row = x + p.offsets[0] + first;
        I64 keys[SORT_FEW], ranks[SORT_FEW];
        for (I64 e = 0; e < whole; e += 8) {
            BLOCK_LOOP for (int l = 0; l < 8; l++) keys[e + l] = sort_ranked(LOAD(row, e + l), e + l, p.descending);
        }
        for (I64 j = whole; j < n; j++) keys[j] = sort_ranked(LOAD(row, j), j, p.descending);
        if (HAS_VECTORS && n > 6) sort_rank(keys, ranks, n);
        else sort_rank_few(keys, ranks, n);
        for (I64 j = 0; j < n; j++) sort_put(&p, values, indices, row, first, j, ranks[j]);
#else
        const I64 line = QUOTIENT(i, p.length), first = line * p.length, j = i - first;
        GLOBAL const T *row = x + p.offsets[0] + first;
        const I64 own = sort_ranked(LOAD(row, j), j, p.descending);
        I64 rank = 0;
        for (I64 k = 0; k < p.length; k++) {
            const I64 key = sort_ranked(LOAD(row, k), k, p.descending);
            rank += sort_precedes(key, k, own, j);
        }
        sort_put(&p, values, indices, row, first, j, rank);
#endif
    }
}

#if CHUNKED
/* By the digits of the keys, the lowest first; those in which all keys agree are left out. */
FUNC void sort_radix(GLOBAL sort_item *items, GLOBAL sort_item *other, I64 n)
{
    U32 counts[SORT_DIGITS][256];
    GLOBAL sort_item *from = items, *to = other;
    for (int d = 0; d < SORT_DIGITS; d++)
        for (int k = 0; k < 256; k++) counts[d][k] = 0;
    for (I64 j = 0; j < n; j++)
        for (int d = 0; d < SORT_DIGITS; d++) counts[d][sort_digit(items[j], d)]++;
    for (int d = 0; d < SORT_DIGITS; d++) {
        U32 *place = counts[d], sum = 0;
        if (place[sort_digit(from[0], d)] == (U32)n) continue;
        for (int k = 0; k < 256; k++) {
            const U32 count = place[k];
            place[k] = sum;
            sum += count;
        }
        for (I64 j = 0; j < n; j++) to[place[sort_digit(from[j], d)]++] = from[j];
        GLOBAL sort_item *last = from;
        from = to;
        to = last;
    }
    if (from == other)
        for (I64 j = 0; j < n; j++) items[j] = other[j];
}
#endif

/* items = those of x, each block in order: an item of work is a block. */
KERNEL3(sort_blocks, sort_params, sort_item, items, sort_item, other, const T, x)
{
    FOR_ITEMS(i) {
        const I64 row = QUOTIENT(i, p.parts), first = (i - row * p.parts) * p.run, at = row * p.length + first;
        const I64 n = least(p.length - first, p.run);
        GLOBAL sort_item *own = items + at;
        for (I64 j = 0; j < n; j++) {
            const sort_key key = sort_key_of(LOAD(x, p.offsets[0] + at + j));
            const sort_item item = sort_item_of(p.descending ? (sort_key)~key : key, first + j);
            I64 k = j;
            for (; !CHUNKED && k > 0 && sort_less(item, own[k - 1]); k--) own[k] = own[k - 1];
            own[k] = item;
        }
#if CHUNKED
        sort_radix(own, other + at, n);
#endif
    }
}

/* Runs of `items` in pairs to `merged`. */
KERNEL2(sort_merge, sort_params, sort_item, merged, const sort_item, items)
{
    FOR_ITEMS(i) {
        const I64 row = QUOTIENT(i, p.parts), first = (i - row * p.parts) * p.chunk;
        const I64 last = least(first + p.chunk, p.length), begin = QUOTIENT(first, 2 * p.run) * 2 * p.run;
        const I64 middle = least(begin + p.run, p.length), end = least(begin + 2 * p.run, p.length), n = first - begin;
        GLOBAL const sort_item *v = items + row * p.length;
        GLOBAL sort_item *w = merged + row * p.length;
        I64 low = M_MAX_OF(n - (end - middle), 0), high = least(n, middle - begin);
        while (low < high) { /* finds how many of the first n come from the first run */
            const I64 some = (low + high) / 2;
            if (sort_less(v[begin + some], v[middle + n - 1 - some])) low = some + 1;
            else high = some;
        }
        I64 one = begin + low, two = middle + n - low;
        for (I64 j = first; j < last; j++) {
            const I32 takes = two >= end || (one < middle && sort_less(v[one], v[two]));
            w[j] = v[takes ? one : two];
            one += takes;
            two += !takes;
        }
    }
}

/* What the items stand for. */
KERNEL4(sort_finish, sort_params, T, values, I64, indices, const sort_item, items, const T, x)
{
    FOR_ITEMS(i) {
        const I64 index = sort_index(items[i]);
        indices[p.offsets[2] + i] = index;
        if (p.values) values[p.offsets[1] + i] = x[p.offsets[0] + QUOTIENT(i, p.length) * p.length + index];
    }
}
#endif
/* kernel text ends */
// clang-format on

/* Elements of a block on processors and on GPUs, and of a chunk. A processor's block stays in its caches. */
enum { BLOCK = 1 << 16, SMALL_BLOCK = 16, CHUNK = 1 << 12, SMALL_CHUNK = 16, GRAIN = 4096 };

static haul_status merge(const haul__call *c, haul_tensor *merged, haul_tensor *items, haul_dtype dtype, sort_params *p)
{
    HAUL__ASSERT(p->parts > 0 && p->items % p->parts == 0 && p->run < p->length);
    int64_t rows = p->items / p->parts;
    p->parts = haul__ceil_div(p->length, p->chunk);
    p->items = rows * p->parts;
    return haul__launch_kernel(c, HAUL__K_sort_merge, dtype, HAUL__OUT(merged), HAUL__IN(items), HAUL__PARAMS(*p),
                               .grain = 1 + GRAIN / p->chunk);
}

/* Short rows, by one kernel. */
static haul_status sort_few(const haul__call *c, haul_tensor *values, haul_tensor *indices, haul_tensor *x,
                            sort_params *p)
{
    HAUL__ASSERT(0 < p->length && p->length <= SORT_FEW && x->count % p->length == 0);
    bool strided = c->device->strided;
    p->items = strided ? x->count : x->count / p->length;
    return haul__launch_kernel(c, HAUL__K_sort_few, x->dtype, HAUL__OUT(values ? values : indices, indices),
                               HAUL__IN(x), HAUL__PARAMS(*p), .grain = 1 + GRAIN / (p->length + 1));
}

haul_status haul__sort_rows(const haul__call *c, haul_tensor *values, haul_tensor *indices, haul_tensor *x,
                            int64_t length, bool descending)
{
    HAUL__ASSERT(indices->dtype == HAUL_I64 && indices->count == x->count && (length == 0 || x->count % length == 0));
    HAUL__ASSERT(!values || (values->dtype == x->dtype && values->count == x->count));
    int64_t words, rows = length ? x->count / length : 0;
    bool    strided = c->device->strided;
    if (!haul__mul_size(x->count, haul__dtype_size(x->dtype) > 4 ? 2 : 1, &words))
        return haul__fail(HAUL_SHAPE, c->operation->name, "x", "the size of what is sorted overflows");
    sort_params p = {.length = length,
                     .run = strided ? SMALL_BLOCK : BLOCK,
                     .chunk = strided ? SMALL_CHUNK : CHUNK,
                     .offsets = {x->offset, values ? values->offset : 0, indices->offset},
                     .descending = descending,
                     .values = values != NULL};
    if (length <= SORT_FEW)
        return x->count ? sort_few(c, values, indices, x, &p) : HAUL_OK;
    haul_tensor *items = haul__temporary(c, HAUL_I64, &HAUL_SHAPE(words));
    haul_tensor *other = items ? haul__temporary(c, HAUL_I64, &HAUL_SHAPE(words)) : NULL;
    if (!other || !x->count)
        return other ? HAUL_OK : haul_error_status();
    p.parts = haul__ceil_div(length, p.run);
    p.items = rows * p.parts;
    haul_status status =
        haul__launch_kernel(c, HAUL__K_sort_blocks, x->dtype, HAUL__OUT(items, other), HAUL__IN(x), HAUL__PARAMS(p),
                            .grain = 1 + GRAIN / ((length < p.run ? length : p.run) + 1));
    for (; !status && p.run < length; p.run *= 2) {
        haul_tensor *merged = other;
        status = merge(c, merged, items, x->dtype, &p);
        other = items;
        items = merged;
    }
    p.items = x->count;
    return status ? status
                  : haul__launch_kernel(c, HAUL__K_sort_finish, x->dtype, HAUL__OUT(values ? values : indices, indices),
                                        HAUL__IN(items, x), HAUL__PARAMS(p), .grain = GRAIN);
}

/* ---- along an axis ---- */

/* Dense strides with the axis innermost. */
static void axis_last(const haul_shape *shape, int axis, int64_t *strides)
{
    HAUL__ASSERT(axis == 0 || (0 < axis && axis < shape->ndim));
    int64_t stride = 1; /* parts of a product that was checked */
    for (int i = -1; i < shape->ndim; i++) {
        int d = i < 0 ? axis : shape->ndim - 1 - i;
        if (d >= shape->ndim || (i >= 0 && d == axis))
            continue;
        strides[d] = stride;
        stride *= shape->dims[d];
    }
}

/* A result, or a temporary that will be copied to it. */
static haul_tensor *target(const haul__call *c, haul_tensor *result, const int64_t *strides)
{
    if (!result || haul__shape_same_strides(&result->shape, result->strides, strides))
        return result;
    return haul__temporary_strided(c, result->dtype, &result->shape, strides);
}

haul_status haul__sort_axis(const haul__call *c, haul_tensor *values, haul_tensor *indices, haul_tensor *x, int axis,
                            bool descending)
{
    int64_t           strides[HAUL_MAX_DIMS] = {0};
    const haul_shape *shape = &indices->shape;
    HAUL__ASSERT(haul__shape_equal(&x->shape, shape) && (!values || haul__shape_equal(&values->shape, shape)));
    axis_last(shape, axis, strides);
    haul_tensor *lines = haul__as_strided(c, x, strides);
    haul_tensor *sorted = target(c, values, strides), *order = target(c, indices, strides);
    if (!lines || !order || (values && !sorted) ||
        haul__sort_rows(c, sorted, order, lines, shape->ndim ? shape->dims[axis] : 1, descending))
        return haul_error_status();
    if (sorted != values && haul__copy_elements(values, sorted, c->operation->name))
        return haul_error_status();
    return order == indices ? HAUL_OK : haul__copy_elements(indices, order, c->operation->name);
}

/* ---- the operations ---- */

/* The last result is the indices; haul_argsort has only that one. */
static haul_status infer(haul__call *c)
{
    haul__sort_attributes *a = haul__attributes(c);
    const haul_tensor     *x = c->operands[0];
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    if (x->shape.ndim && x->shape.dims[a->axis] > HAUL__SORT_MOST) /* an item has 32 bits for the index */
        return haul__refuse_shape(c, 0, "at most 4294967295 elements along the axis are expected");
    if (c->result_count > 1 && haul__describe(c, 0, x->dtype, &x->shape))
        return haul_error_status();
    return haul__describe(c, c->result_count - 1, HAUL_I64, &x->shape);
}

static haul_status compute(haul__call *c)
{
    const haul__sort_attributes *a = haul__attributes(c);
    haul_tensor                 *x = haul__in_signed_order(c, c->operands[0]);
    HAUL__ASSERT(c->result_count == 1 || c->result_count == 2);
    haul_tensor *values = c->result_count > 1 ? c->results[0] : NULL, *sorted = haul__signed_for(c, values);
    if (!x || (values && !sorted) ||
        haul__sort_axis(c, sorted, c->results[c->result_count - 1], x, a->axis, a->descending))
        return haul_error_status();
    return haul__from_signed_order(c, values, sorted);
}

static void gradient(haul__gradient *g)
{
    g->operands[0] = haul__gather_backward(g->results[0], ((const haul__sort_attributes *)g->attributes)->axis,
                                           g->saved_results[1], haul__operand_shape(g, 0), true);
}

HAUL__OPERATION(sort) = {
    .name = "haul_sort",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"values"}, {"indices", .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__sort_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 20,
};

HAUL__OPERATION(argsort) = {
    .name = "haul_argsort",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"indices"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__sort_attributes),
    .infer = infer,
    .compute = compute,
    .flops = 20,
};

haul_status haul_sort(haul_tensor *x, int axis, bool descending, haul_tensor **values, haul_tensor **indices)
{
    return haul__apply_pair(&haul__operation_sort, (&(haul__sort_attributes){.axis = axis, .descending = descending}),
                            x, values, indices);
}

haul_tensor *haul_argsort(haul_tensor *x, int axis, bool descending)
{
    return HAUL__APPLY(argsort, (&(haul__sort_attributes){.axis = axis, .descending = descending}), x);
}
