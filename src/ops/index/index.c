/* index_select and its gradient, without atomics.
 *
 * The gradient adds up the rows of g that were taken from the same row of x. A first kernel threads a list through the
 * indices for each row of x, in ascending order: with one work item, or on GPUs with one for each index, after a sort.
 * A second kernel follows the lists, so that one item computes each element of the result, in an order that the indices
 * fix. Where indices are few, processors sort them and only look at the rows that they point at, among zeros. */
#include "ops/index/index.h"
#include "base/assert.h"
#include "ops/attributes.h"

#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/index/sort.h"

// clang-format off
/* kernel text begins */
typedef struct index_params {
    I64 items;
    I64 outer, size, inner; /* x is [outer, size, inner], row-major */
    I64 count;              /* of indices */
    I64 offsets[4];         /* of the buffers */
    I64 skip;               /* an index whose elements are 0 and are not added; -1 for none */
    U32 check, unused;      /* haul__index_check */
} index_params;

/* The same for x of any strides. dims are those of out, whose neighbours are merged where x allows it. */
typedef struct index_pick_params {
    I64 items;
    I64 size, along, skip;    /* elements of x along the axis, their distance, and as above */
    I64 dims[8], strides[8];  /* of out, and of x: 0 at the axis */
    I64 offsets[3];           /* of the buffers */
    I32 ndim, axis;           /* of dims */
    U32 check, unused;
} index_pick_params;

#ifdef HAUL_KERNEL
#if IS_BITS
/* out[o, i, k] = x[o, index[i], k], or 0 for an index out of range or to be skipped */
KERNEL4(index_select, index_params, T, out, const T, x, const I64, index, U32, fault)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 r = QUOTIENT(i, p.inner), k = i - r * p.inner, o = QUOTIENT(r, p.count);
        const I64 row = CHUNKED ? M_MIN_OF(p.inner - k, ITEMS_END - i) : 1, at = r - o * p.count;
        const I64 from = CHECKED_INDEX(fault, p.check, at, index[p.offsets[2] + at], p.size);
        GLOBAL T *y = out + p.offsets[0] + i;
        GLOBAL const T *v = x + p.offsets[1] + (o * p.size + M_MAX_OF(from, 0)) * p.inner + k;
        if (from >= 0 && from != p.skip) {
            VECTOR_LOOP for (I64 j = 0; j < row; j++) y[j] = v[j];
        } else {
            for (I64 j = 0; j < row; j++) y[j] = 0;
        }
        i += ITEMS_STEP(row);
    }
}

/* out[.., i, ..] = x[.., index[i], ..], or 0 for an index out of range or to be skipped */
KERNEL4(index_pick, index_pick_params, T, out, const T, x, const I64, index, U32, fault)
{
    const int last = p.ndim - 1;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64 rest = i, at = 0, from = p.offsets[1], room = 0;
        for (int d = last; d >= 0; d--) {
            const I64 next = QUOTIENT(rest, p.dims[d]), c = rest - next * p.dims[d];
            if (d == last) room = p.dims[d] - c;
            if (d == p.axis) at = c;
            from += c * p.strides[d];
            rest = next;
        }
        const I64 row = CHUNKED && p.axis != last ? M_MIN_OF(room, ITEMS_END - i) : 1, step = p.strides[last];
        const I64 which = CHECKED_INDEX(fault, p.check, at, index[p.offsets[2] + at], p.size);
        GLOBAL const T *v = x + from + M_MAX_OF(which, 0) * p.along;
        GLOBAL T *y = out + p.offsets[0] + i;
        for (I64 j = 0; j < row; j++) y[j] = which < 0 || which == p.skip ? 0 : v[j * step];
        i += ITEMS_STEP(row);
    }
}

#endif

#if defined(HAUL_KERNEL_DTYPE_bool)
/* Only looks at the indices. */
KERNEL2(index_check, index_params, const I64, index, U32, fault)
{
    FOR_ITEMS(i) CHECKED_INDEX(fault, p.check, i, index[p.offsets[0] + i], p.size);
}

/* links[row] becomes the first i with index[i] == row, links[size + i] the next one after i; -1 ends a list. An index
 * out of range is in none. */
KERNEL3(index_link, index_params, I64, links, const I64, index, U32, fault)
{
    FOR_ITEMS(only)
    {
        GLOBAL I64 *head = links + p.offsets[0];
        for (I64 r = only; r < p.size; r++) head[r] = -1;
        for (I64 i = p.count - 1; i >= 0; i--) {
            const I64 r = CHECKED_INDEX(fault, p.check, i, index[p.offsets[1] + i], p.size);
            if (r < 0) continue;
            head[p.size + i] = head[r];
            head[r] = i;
        }
    }
}

/* The same lists from sorted indices, an index an item; `order` says where they stand, and links is -1 so far. */
KERNEL4(index_link_sorted, index_params, I64, links, const I64, sorted, const I64, order, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 at = order[i], value = sorted[i], r = CHECKED_INDEX(fault, p.check, at, value, p.size);
        if (r < 0) continue;
        if (i == 0 || sorted[i - 1] != value) links[p.offsets[0] + r] = at;
        if (i + 1 < p.count && sorted[i + 1] == value) links[p.offsets[0] + p.size + at] = order[i + 1];
    }
}

#endif

#if IS_FLOAT
enum { INDEX_WIDTH = CHUNKED ? 256 : 1 };
/* out[o, r, k] = the sum of g[o, i, k] over the list of r, or 0 for the one to be skipped */
KERNEL3(index_sum, index_params, T, out, const T, g, const I64, links)
{
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 r = QUOTIENT(i, p.inner), k = i - r * p.inner, o = p.outer == 1 ? 0 : QUOTIENT(r, p.size);
        const I64 room = CHUNKED ? M_MIN_OF(p.inner - k, ITEMS_END - i) : 1;
        const int row = (int)M_MIN_OF(room, (I64)INDEX_WIDTH);
        GLOBAL const I64 *head = links + p.offsets[2];
        GLOBAL T *y = out + p.offsets[0] + i;
        const I64 first = r - o * p.size == p.skip ? -1 : head[r - o * p.size];
        const I64 from = p.offsets[1] + o * p.count * p.inner + k; /* g has no memory where no index is */
        if (first < 0) {
            for (int j = 0; j < row; j++) STORE(y, j, LIT(0.0));
        } else if (head[p.size + first] < 0) {
            GLOBAL const T *v = g + from + first * p.inner;
            VECTOR_LOOP for (int j = 0; j < row; j++) STORE(y, j, LIT(0.0) + LOAD(v, j));
        } else {
            A s[INDEX_WIDTH];
            for (int j = 0; j < row; j++) s[j] = 0;
            for (I64 at = first; at >= 0; at = head[p.size + at]) {
                GLOBAL const T *v = g + from + at * p.inner;
                for (int j = 0; j < row; j++) s[j] += LOAD(v, j);
            }
            for (int j = 0; j < row; j++) STORE(y, j, s[j]);
        }
        i += ITEMS_STEP(row);
    }
}

/* The same from sorted indices, of which `order` says where they stand: an index an item, of which the first among equal
 * ones adds up a row of out. The others are 0 so far. */
KERNEL5(index_sum_runs, index_params, T, out, const T, g, const I64, sorted, const I64, order, U32, fault)
{
    FOR_ITEMS(i) {
        const I64 o = p.outer == 1 ? 0 : QUOTIENT(i, p.count), first = i - o * p.count, value = sorted[first];
        if (first > 0 && sorted[first - 1] == value) continue;
        const I64 r = CHECKED_INDEX(fault, p.check, order[first], value, p.size);
        if (r < 0 || r == p.skip) continue;
        for (I64 k = 0; k < p.inner; k += INDEX_WIDTH) {
            const int row = (int)M_MIN_OF(p.inner - k, (I64)INDEX_WIDTH);
            GLOBAL T *y = out + p.offsets[0] + (o * p.size + r) * p.inner + k;
            A s[INDEX_WIDTH];
            for (int j = 0; j < row; j++) s[j] = 0;
            for (I64 at = first; at < p.count && sorted[at] == value; at++) {
                GLOBAL const T *v = g + p.offsets[1] + (o * p.count + order[at]) * p.inner + k;
                for (int j = 0; j < row; j++) s[j] += LOAD(v, j);
            }
            for (int j = 0; j < row; j++) STORE(y, j, s[j]);
        }
    }
}
#endif
#endif
/* kernel text ends */
// clang-format on

/* Indices are few if there is one for FEW rows at most. */
enum { GRAIN = 16384, FEW = 16 };

/* ---- the gradient ---- */

static void split(index_params *p, const haul_shape *shape, int axis)
{
    HAUL__ASSERT(axis == 0 || (0 < axis && axis < shape->ndim));
    p->outer = 1;
    p->inner = 1;
    p->size = shape->ndim ? shape->dims[axis] : 1;
    for (int d = 0; d < axis; d++)
        p->outer *= shape->dims[d]; /* parts of a product that was checked */
    for (int d = axis + 1; d < shape->ndim; d++)
        p->inner *= shape->dims[d];
}

static haul_status backward_infer(haul__call *c)
{
    const haul__index_attributes *a = haul__attributes(c);
    haul_shape                    shape = c->operands[0]->shape;
    HAUL__ASSERT(a->size >= 0 && (!shape.ndim || shape.dims[a->axis] == c->operands[1]->count));
    shape.dims[a->axis] = a->size; /* is not looked at if x is 0-d */
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

/* The indices in order, and where they stand. */
static bool sort_indices(const haul__call *c, haul_tensor *index, haul_tensor **sorted, haul_tensor **order)
{
    HAUL__ASSERT(index->contiguous && index->count <= HAUL__SORT_MOST);
    *sorted = haul__temporary(c, HAUL_I64, &index->shape);
    *order = *sorted ? haul__temporary(c, HAUL_I64, &index->shape) : NULL;
    return *order && !haul__sort_rows(c, *sorted, *order, index, index->count, false);
}

/* Makes the lists: by one item, or on GPUs, if that would take long, by many. */
static haul_status link_indices(haul__call *c, haul_tensor *links, haul_tensor *index, haul_dtype dtype, index_params p)
{
    HAUL__ASSERT(links->count == p.size + p.count && index->count == p.count);
    p.offsets[0] = links->offset;
    p.offsets[1] = index->offset;
    p.items = 1;
    if (!c->device->strided || p.count > HAUL__SORT_MOST)
        return haul__launch_kernel(c, HAUL__K_index_link, dtype, HAUL__OUT(links), HAUL__IN(index), HAUL__PARAMS(p),
                                   .grain = 1, .checks = true);
    haul_tensor *sorted, *order;
    if (!sort_indices(c, index, &sorted, &order) || haul__fill_elements(links, -1, c->operation->name))
        return haul_error_status();
    p.items = p.count;
    return haul__launch_kernel(c, HAUL__K_index_link_sorted, dtype, HAUL__OUT(links), HAUL__IN(sorted, order),
                               HAUL__PARAMS(p), .grain = GRAIN, .checks = true);
}

static haul_status sum_few(haul__call *c, haul_tensor *dx, haul_tensor *g, haul_tensor *index, index_params p)
{
    HAUL__ASSERT(p.count > 0 && g->count == p.outer * p.count * p.inner);
    haul_tensor *sorted, *order;
    if (haul__fill_elements(dx, 0, c->operation->name) || !sort_indices(c, index, &sorted, &order))
        return haul_error_status();
    p.items = p.outer * p.count; /* a part of g's count, or less than it */
    p.offsets[0] = dx->offset;
    p.offsets[1] = g->offset;
    return haul__launch_kernel(c, HAUL__K_index_sum_runs, g->dtype, HAUL__OUT(dx), HAUL__IN(g, sorted, order),
                               HAUL__PARAMS(p), .grain = 1 + GRAIN / (p.inner + 1), .checks = true);
}

static haul_status backward_compute(haul__call *c)
{
    haul_tensor                  *g = c->operands[0], *index = c->operands[1], *dx = c->results[0];
    const haul__index_attributes *a = haul__attributes(c);
    index_params                  p = {.count = index->count, .skip = a->skip};
    split(&p, &dx->shape, a->axis);
    HAUL__ASSERT(g->count == p.outer * p.count * p.inner && dx->count == p.outer * p.size * p.inner &&
                 a->skip < p.size);
    p.check = haul__index_check(HAUL__CHECK_index_select_backward, a->axis);
    if (!c->device->strided && p.count > 0 && p.count <= p.size / FEW && p.count <= HAUL__SORT_MOST)
        return sum_few(c, dx, g, index, p);
    haul_tensor *links = haul__temporary(c, HAUL_I64, &HAUL_SHAPE(p.size + p.count));
    if (!links || link_indices(c, links, index, g->dtype, p))
        return haul_error_status();
    p.items = dx->count;
    p.offsets[0] = dx->offset;
    p.offsets[1] = g->offset;
    p.offsets[2] = links->offset;
    return haul__launch_kernel(c, HAUL__K_index_sum, g->dtype, HAUL__OUT(dx), HAUL__IN(g, links), HAUL__PARAMS(p),
                               .grain = GRAIN);
}

static haul__cost backward_cost(const haul__call *c)
{
    const haul_tensor *g = c->operands[0], *index = c->operands[1], *dx = c->results[0];
    int64_t            rows = ((const haul__index_attributes *)(const void *)c->attributes)->size;
    size_t             links = (size_t)(rows + index->count) * sizeof(int64_t); /* are written and read */
    return (haul__cost){(double)g->count,
                        (int64_t)(haul_tensor_bytes(g) + haul_tensor_bytes(index) + haul_tensor_bytes(dx) + 2 * links)};
}

static void backward_gradient(haul__gradient *c);

/* Adds rows of g along the axis where the indices point. */
HAUL__OPERATION(index_select_backward) = {
    .name = "haul_index_select_backward",
    .operands = {{"g"}, {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_0}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(haul__index_attributes),
    .infer = backward_infer,
    .compute = backward_compute,
    .gradient = backward_gradient,
    .cost = backward_cost,
};

/* ---- the operation ---- */

/* index must have one dimension, and elements to point at. */
static haul_status check_indices(const haul__call *c, int64_t size)
{
    const haul_tensor *index = c->operands[1];
    if (index->shape.ndim != 1)
        return haul__refuse_shape(c, 1, "one dimension is expected");
    if (index->count > 0 && size == 0)
        return haul__fail(HAUL_SHAPE, c->operation->name, "index", "no index is valid: that axis has no elements");
    return HAUL_OK;
}

static haul_status infer(haul__call *c)
{
    haul__index_attributes *a = haul__attributes(c);
    haul_shape              shape = c->operands[0]->shape;
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    a->size = shape.ndim ? shape.dims[a->axis] : 1;
    if (check_indices(c, a->size))
        return haul_error_status();
    if (!shape.ndim && c->operands[1]->count != 1)
        return haul__refuse_shape(c, 1, "one index is expected, because x is 0-d");
    shape.dims[a->axis] = c->operands[1]->count;
    return haul__describe(c, 0, c->operands[0]->dtype, &shape);
}

/* Adds a dimension of out, the innermost so far, along which x has this stride, or merges it into the last one. */
static void add_dimension(index_pick_params *p, int64_t dim, int64_t stride)
{
    const int last = p->ndim - 1;
    if (p->ndim && last != p->axis && p->strides[last] == dim * stride)
        p->dims[last] *= dim; /* a part of out's count */
    else
        p->dims[p->ndim++] = dim;
    p->strides[p->ndim - 1] = stride;
    HAUL__ASSERT(p->ndim <= HAUL_MAX_DIMS);
}

static index_pick_params pick_params(const haul_tensor *y, const haul_tensor *x, const haul_tensor *index, int axis,
                                     const index_params *of)
{
    HAUL__ASSERT(0 <= axis && axis < x->shape.ndim);
    index_pick_params p = {.items = y->count,
                           .size = x->shape.dims[axis],
                           .along = x->strides[axis],
                           .skip = of->skip,
                           .offsets = {y->offset, x->offset, index->offset},
                           .axis = -1,
                           .check = of->check};
    for (int d = 0; d < x->shape.ndim; d++) {
        if (d == axis) {
            p.axis = p.ndim++;
            p.dims[p.axis] = index->count;
        } else if (x->shape.dims[d] != 1) {
            add_dimension(&p, x->shape.dims[d], x->strides[d]);
        }
    }
    HAUL__ASSERT(0 <= p.axis && p.axis < p.ndim && p.ndim <= HAUL_MAX_DIMS);
    return p;
}

/* x, or a copy without gaps if it has fewer elements than are picked. */
static haul_tensor *worth_packing(const haul__call *c, haul_tensor *x, int64_t picked)
{
    int64_t strides[HAUL_MAX_DIMS];
    if (x->contiguous || x->count >= picked)
        return x;
    haul__shape_strides(&x->shape, strides);
    return haul__as_strided(c, x, strides);
}

/* x is read where the indices point, whatever its strides. */
static haul_status select_elements(const haul__call *c, haul_tensor *y, haul_tensor *x, haul_tensor *index, int axis,
                                   int64_t skip, uint32_t check)
{
    index_params p = {.items = y->count, .count = index->count, .skip = skip, .check = check};
    split(&p, &x->shape, axis);
    HAUL__ASSERT(y->contiguous && y->dtype == x->dtype && y->count == p.outer * p.count * p.inner);
    if (haul__check_indices(c, index, p.size, check))
        return haul_error_status();
    haul_tensor *in[] = {worth_packing(c, x, y->count), index};
    if (!in[0])
        return haul_error_status();
    if (!in[0]->contiguous) {
        index_pick_params q = pick_params(y, x, index, axis, &p);
        return haul__launch_kernel(c, HAUL__K_index_pick, x->dtype, HAUL__OUT(y), .ins = in, .in_count = 2,
                                   HAUL__PARAMS(q), .grain = GRAIN, .checks = true);
    }
    p.offsets[0] = y->offset;
    p.offsets[1] = in[0]->offset;
    p.offsets[2] = index->offset;
    return haul__launch_kernel(c, HAUL__K_index_select, x->dtype, HAUL__OUT(y), .ins = in, .in_count = 2,
                               HAUL__PARAMS(p), .grain = GRAIN, .checks = true);
}

static haul_status compute(haul__call *c)
{
    const haul__index_attributes *a = haul__attributes(c);
    return select_elements(c, c->results[0], c->operands[0], c->operands[1], a->axis, a->skip,
                           haul__index_check(HAUL__CHECK_index_select, a->axis));
}

/* Only the picked rows are read. */
static haul__cost cost(const haul__call *c)
{
    return (haul__cost){0, (int64_t)(2 * haul_tensor_bytes(c->results[0]) + haul_tensor_bytes(c->operands[1]))};
}

static void gradient(haul__gradient *c)
{
    c->operands[0] = HAUL__APPLY(index_select_backward, c->attributes, c->results[0], c->saved[1]);
}

HAUL__OPERATION(index_select) = {
    .name = "haul_index_select",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES},
                 {"index", .accepts = HAUL__INTEGERS, .becomes = HAUL_I64, .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__index_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .cost = cost,
};

static void backward_gradient(haul__gradient *c)
{
    c->operands[0] = HAUL__APPLY(index_select, c->attributes, c->results[0], c->saved[1]);
}

HAUL__FUNCTIONS(index_select, (&(haul__index_attributes){.axis = axis, .skip = -1}),
                (haul_tensor * x, int axis, haul_tensor *index), x, index)

/* ---- for other operations ---- */

haul_status haul__check_indices(const haul__call *c, haul_tensor *index, int64_t size, uint32_t check)
{
    index_params p = {.items = index->count, .size = size, .offsets = {index->offset}, .check = check};
    if (!c->into || !haul__device_is_synchronous(c->device))
        return HAUL_OK;
    return haul__launch_kernel(c, HAUL__K_index_check, HAUL_I64, HAUL__IN(index), HAUL__PARAMS(p), .grain = GRAIN,
                               .checks = true);
}

haul_status haul__select_elements(const haul__call *c, haul_tensor *y, haul_tensor *x, haul_tensor *index, int axis,
                                  uint32_t check)
{
    return select_elements(c, y, x, index, axis, -1, check);
}

haul_tensor *haul__index_select_backward(haul_tensor *g, int axis, haul_tensor *index, int64_t size, int64_t skip)
{
    haul__index_attributes a = {.axis = axis, .size = size, .skip = skip};
    return HAUL__APPLY(index_select_backward, &a, g, index);
}

haul_status haul__apply_pair(const haul__operation *operation, const void *attributes, haul_tensor *x,
                             haul_tensor **values, haul_tensor **indices)
{
    haul_tensor *made[HAUL__MAX_RESULTS];
    haul_status  status = values && indices ? haul__apply(operation, attributes, HAUL__OPERANDS(x), made)
                                            : haul__fail_null(operation->name, values ? "indices" : "values");
    if (values)
        *values = status ? haul__failed_tensor() : made[0];
    if (indices)
        *indices = status ? haul__failed_tensor() : made[1];
    return status;
}
