/* The distinct elements of a tensor: it is sorted, the first element of each run of equal ones is marked, and the marks
 * are a mask that places.c counts. */
#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/index/index.h"
#include "ops/index/places.h"
#include "ops/index/sort.h"

// clang-format off
/* kernel text begins */
#include "ops/index/places_kernel.h"

typedef struct runs_params {
    I64 items;
    I64 count, chunk, chunks; /* elements, and those of a chunk; chunks */
    I64 offsets[4];           /* of the buffers in their order */
} runs_params;

#ifdef HAUL_KERNEL
/* Whether an element differs from the one before it. A NaN does. */
KERNEL2(run_starts, runs_params, U8, marks, const T, x)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 row = CHUNKED ? ITEMS_END - i : 1;
        GLOBAL const T *v = x + p.offsets[1] + i;
        GLOBAL U8 *y = marks + p.offsets[0] + i;
        if (i == 0) y[0] = 1;
        VECTOR_LOOP for (I64 j = i == 0; j < row; j++) y[j] = LOAD(v, j) != LOAD(v, j - 1);
        i += ITEMS_STEP(row);
    }
}

#if defined(HAUL_KERNEL_DTYPE_bool)
/* ranks[order[i]] = the number of the run of element i; a chunk an item. Without an order i itself. */
KERNEL4(run_ranks, runs_params, I64, ranks, const U8, marks, const I64, places, const I64, order)
{
    FOR_ITEMS(i) {
        const I64 first = i * p.chunk, n = least(p.count - first, p.chunk);
        I64 rank = place_of(places + p.offsets[2], i, p.chunks) - 1;
        for (I64 j = first; j < first + n; j++) {
            rank += marks[p.offsets[1] + j];
            ranks[p.offsets[0] + (p.offsets[3] < 0 ? j : order[p.offsets[3] + j])] = rank;
        }
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

/* ---- where runs start ---- */

static haul_status starts_infer(haul__call *c)
{
    return haul__describe(c, 0, HAUL_BOOL, &c->operands[0]->shape);
}

static haul_status starts_compute(haul__call *c)
{
    haul_tensor *x = c->operands[0], *marks = c->results[0];
    runs_params  p = {.items = x->count, .offsets = {marks->offset, x->offset}};
    return haul__launch_kernel(c, HAUL__K_run_starts, x->dtype, HAUL__OUT(marks), HAUL__IN(x), HAUL__PARAMS(p),
                               .grain = GRAIN);
}

HAUL__OPERATION(run_starts) = {
    .name = "haul_run_starts",
    .operands = {{"x"}},
    .results = {{"marks"}},
    .dtypes = HAUL__EVERY,
    .not_recorded = true,
    .infer = starts_infer,
    .compute = starts_compute,
};

/* ---- numbers of runs ---- */

static haul_status ranks_infer(haul__call *c)
{
    if (haul__check_places(c, c->operands[1], c->operands[0]->count))
        return haul_error_status();
    return haul__describe(c, 0, HAUL_I64, &c->operands[0]->shape);
}

static haul_status ranks_compute(haul__call *c)
{
    haul_tensor  *marks = c->operands[0], *places = c->operands[1], *ranks = c->results[0];
    bool          ordered = haul__has(c, 2);
    const int64_t chunk = haul__place_chunk(c->device);
    runs_params   p = {.count = marks->count,
                       .chunk = chunk,
                       .offsets = {ranks->offset, marks->offset, places->offset, ordered ? c->operands[2]->offset : -1}};
    HAUL__ASSERT(ranks->count == marks->count && (!ordered || c->operands[2]->count == marks->count));
    p.items = p.chunks = marks->count / chunk + (marks->count % chunk != 0);
    return haul__launch_kernel(c, HAUL__K_run_ranks, HAUL_BOOL, HAUL__OUT(ranks),
                               HAUL__IN(marks, places, ordered ? c->operands[2] : places), HAUL__PARAMS(p),
                               .grain = c->device->strided ? 16 : 4);
}

HAUL__OPERATION(run_ranks) = {
    .name = "haul_run_ranks",
    .operands = {{"marks", .accepts = HAUL__ONLY(HAUL_BOOL)},
                 {"places", .accepts = HAUL__ONLY(HAUL_I64)},
                 {"order", .optional = true, .accepts = HAUL__ONLY(HAUL_I64)}},
    .results = {{"ranks"}},
    .infer = ranks_infer,
    .compute = ranks_compute,
};

/* ---- haul_unique ---- */

typedef struct unique_attributes {
    int64_t size;
    bool    consecutive, inverse, counts;
    bool    reserved[5];
} unique_attributes;

/* How long each run is: from its start to the next. Runs that are not there start at the end. */
static haul_tensor *lengths(haul_tensor *marks, haul_tensor *places, int64_t size)
{
    HAUL__ASSERT(size >= 0);
    const int64_t count = haul_tensor_count(marks);
    haul_tensor  *starts = haul__true_positions(marks, places, size + 1, count);
    return haul_sub(haul_slice(starts, 0, 1, size + 1, 1), haul_slice(starts, 0, 0, size, 1));
}

/* Places that no distinct element takes repeat the last one, so that the values stay in order. */
static haul_tensor *padded_values(haul_tensor *sorted, haul_tensor *marks, haul_tensor *places, int64_t size)
{
    const int64_t count = haul_tensor_count(sorted);
    if (!count || !size)
        return count ? haul_slice(sorted, 0, 0, 0, 1) : haul__take_true(sorted, marks, places, size);
    return haul_index_select(sorted, 0, haul__true_positions(marks, places, size, count - 1));
}

static haul_status unique(haul__call *c)
{
    unique_attributes *a = haul__attributes(c);
    haul_tensor       *x = haul_reshape(c->operands[0], HAUL_SHAPE(-1)), *sorted = x, *order = HAUL_NONE;
    if (haul__bounded_size(c, &a->size))
        return haul_error_status();
    const bool padded = a->size >= 0;
    if (!a->consecutive && haul_sort(x, 0, false, &sorted, &order))
        return haul_error_status();
    haul_tensor *marks = HAUL__APPLY(run_starts, NULL, sorted);
    haul_tensor *places = haul__true_places(marks);
    if (haul__failed(places) || (!padded && haul__count_true(c, places, &a->size)))
        return haul_error_status();
    HAUL__ASSERT(a->size >= 0);
    c->results[0] =
        padded ? padded_values(sorted, marks, places, a->size) : haul__take_true(sorted, marks, places, a->size);
    c->results[1] = a->inverse ? haul_reshape(HAUL__APPLY(run_ranks, NULL, marks, places, order), c->operands[0]->shape)
                               : c->results[0];
    c->results[2] = a->counts ? lengths(marks, places, a->size) : c->results[0];
    HAUL__ASSERT(haul__failed(c->results[0]) || c->results[0]->count == a->size);
    return haul__failed(c->results[0]) || haul__failed(c->results[1]) || haul__failed(c->results[2])
               ? haul_error_status()
               : HAUL_OK;
}

/* A result that the caller did not ask for stands for the values. */
HAUL__OPERATION(unique) = {
    .name = "haul_unique",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"values"}, {"inverse"}, {"counts"}},
    .dtypes = HAUL__EVERY,
    .not_recorded = true,
    .attributes_size = HAUL__ATTRIBUTES(unique_attributes),
    .compose = unique,
};

haul_tensor *haul_unique_with(const haul_unique_options *o)
{
    haul_tensor *made[HAUL__MAX_RESULTS] = {NULL};
    if (!o)
        return haul__no_options(&haul__operation_unique);
    const unique_attributes a = {
        .size = o->size, .consecutive = o->consecutive, .inverse = o->inverse != NULL, .counts = o->counts != NULL};
    const haul_status status = haul__apply(&haul__operation_unique, &a, HAUL__OPERANDS(o->x), made);
    if (o->inverse)
        *o->inverse = status ? haul__failed_tensor() : made[1];
    if (o->counts)
        *o->counts = status ? haul__failed_tensor() : made[2];
    return status ? haul__failed_tensor() : made[0];
}
