/* The k largest or smallest elements along an axis, in order, and their indices.
 *
 * One work item computes a row along the axis. It keeps the best elements so far in order, in the results themselves,
 * and inserts each element of the row that is better than the last of them. If that would take longer than sorting, the
 * rows are sorted. */
#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/attributes.h"
#include "ops/index/index.h"
#include "ops/index/sort.h"
#include "ops/pointwise/unsigned.h"

// clang-format off
/* kernel text begins */
typedef struct topk_params {
    I64 items;
    I64 length, k, inner; /* elements of a row of x and of a row of results; the distance between the latter */
    I64 along;            /* the distance between the elements of a row of x */
    I64 dims[8];          /* of the rows */
    I64 strides[8];       /* of the rows in x */
    I64 offsets[3];       /* of the buffers */
    I32 largest, ndim;
} topk_params;

#ifdef HAUL_KERNEL
/* True if a is better than b. NaN is the largest, and an element is not better than its equal. */
#if IS_FLOAT
FUNC I32 topk_more(A a, A b) { return a > b || (a != a && b == b); }
#else
FUNC I32 topk_more(A a, A b) { return a > b; }
#endif
FUNC I32 topk_better(A a, A b, I32 largest) { return largest ? topk_more(a, b) : topk_more(b, a); }

KERNEL3(topk, topk_params, T, values, I64, indices, const T, x)
{
    FOR_ITEMS(i) {
        const I64 row = QUOTIENT(i, p.inner), side = i - row * p.inner;
        I64 rest = i, first = p.offsets[2];
        for (int d = p.ndim - 1; d >= 0; d--) {
            const I64 next = QUOTIENT(rest, p.dims[d]);
            first += (rest - next * p.dims[d]) * p.strides[d];
            rest = next;
        }
        GLOBAL const T *v = x + first;
        GLOBAL T *best = values + p.offsets[0] + row * p.k * p.inner + side;
        GLOBAL I64 *from = indices + p.offsets[1] + row * p.k * p.inner + side;
        for (I64 j = 0; j < p.length; j++) {
            const A a = LOAD(v, j * p.along);
            I64 at = M_MIN_OF(j, p.k); /* where it goes: behind all that it is not better than */
            while (at > 0 && topk_better(a, LOAD(best, (at - 1) * p.inner), p.largest)) {
                at--;
                if (at + 1 < p.k) {
                    best[(at + 1) * p.inner] = best[at * p.inner];
                    from[(at + 1) * p.inner] = from[at * p.inner];
                }
            }
            if (at < p.k) {
                best[at * p.inner] = v[j * p.along];
                from[at * p.inner] = j;
            }
        }
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { FEW = 64, FEW_ROWS = 4096 };

static haul_status infer(haul__call *c)
{
    haul__topk_attributes *a = haul__attributes(c);
    const haul_tensor     *x = c->operands[0];
    haul_shape             shape = x->shape;
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    a->length = x->shape.ndim ? x->shape.dims[a->axis] : 1;
    if (a->k < 0 || a->k > a->length)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "k",
                          "k is %lld, but axis %d of x has %lld elements; 0 to %lld is expected", (long long)a->k,
                          a->axis, (long long)a->length, (long long)a->length);
    if (!x->shape.ndim && a->k != 1)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "k", "k is 0, but x is 0-d; 1 is expected");
    shape.dims[a->axis] = a->k;
    haul_status status = haul__describe(c, 0, x->dtype, &shape);
    return status ? status : haul__describe(c, 1, HAUL_I64, &shape);
}

/* Copies the first k elements of t along the axis to `result`. */
static haul_status take_first(const haul__call *c, haul_tensor *result, haul_tensor *t)
{
    HAUL__ASSERT(result->dtype == t->dtype && result->shape.ndim == t->shape.ndim && result->count <= t->count);
    haul_tensor *first = haul__view_as(c, t, &result->shape, t->strides, t->offset);
    return first ? haul__copy_elements(result, first, c->operation->name) : haul_error_status();
}

static haul_status sort_first(haul__call *c, const haul__topk_attributes *a, haul_tensor *y, haul_tensor *x)
{
    haul_tensor *values = haul__temporary(c, x->dtype, &x->shape);
    haul_tensor *indices = haul__temporary(c, HAUL_I64, &x->shape);
    if (!values || !indices || haul__sort_axis(c, values, indices, x, a->axis, a->largest) || take_first(c, y, values))
        return haul_error_status();
    return take_first(c, c->results[1], indices);
}

/* On a GPU, a few long rows; elsewhere, many elements in a row. */
static bool sorts(const haul__call *c, const haul__topk_attributes *a, int64_t rows)
{
    if (a->length > HAUL__SORT_MOST)
        return false;
    if (c->device->strided)
        return a->length > FEW && rows < FEW_ROWS;
    return a->k > FEW && a->k > a->length / a->k;
}

/* Adds a dimension of the rows, the innermost so far, or merges it into the last one. */
static void add_dimension(topk_params *p, int64_t dim, int64_t stride)
{
    if (p->ndim && p->strides[p->ndim - 1] == dim * stride)
        p->dims[p->ndim - 1] *= dim; /* a part of the number of rows */
    else
        p->dims[p->ndim++] = dim;
    p->strides[p->ndim - 1] = stride;
    HAUL__ASSERT(p->ndim <= HAUL_MAX_DIMS);
}

static haul_status choose(haul__call *c, haul_tensor *y, haul_tensor *x)
{
    const haul__topk_attributes *a = haul__attributes(c);
    HAUL__ASSERT(a->k > 0 && y->count % a->k == 0 && c->results[1]->count == y->count);
    if (y->count && sorts(c, a, y->count / a->k))
        return sort_first(c, a, y, x);
    topk_params p = {.items = y->count / a->k, /* k is not 0, because there are results */
                     .length = a->length,
                     .k = a->k,
                     .inner = 1,
                     .along = x->shape.ndim ? x->strides[a->axis] : 1,
                     .offsets = {y->offset, c->results[1]->offset, x->offset},
                     .largest = a->largest};
    for (int d = 0; d < x->shape.ndim; d++) {
        if (d != a->axis && x->shape.dims[d] != 1)
            add_dimension(&p, x->shape.dims[d], x->strides[d]);
        p.inner *= d > a->axis ? x->shape.dims[d] : 1; /* part of a product that was checked */
    }
    HAUL__ASSERT(x->count == p.items * p.length);
    return haul__launch_kernel(c, HAUL__K_topk, x->dtype, HAUL__OUT(y, c->results[1]), HAUL__IN(x), HAUL__PARAMS(p),
                               .grain = 1 + 4096 / (a->length + 1));
}

static haul_status compute(haul__call *c)
{
    haul_tensor *x = haul__in_signed_order(c, c->operands[0]), *y = haul__signed_for(c, c->results[0]);
    return !x || !y || choose(c, y, x) ? haul_error_status() : haul__from_signed_order(c, c->results[0], y);
}

static void gradient(haul__gradient *g)
{
    g->operands[0] = haul__gather_backward(g->results[0], ((const haul__topk_attributes *)g->attributes)->axis,
                                           g->saved_results[1], haul__operand_shape(g, 0), true);
}

HAUL__OPERATION(topk) = {
    .name = "haul_topk",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"values"}, {"indices", .saved_for = HAUL__FOR_ALL}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__topk_attributes),
    .kernel = HAUL__K_topk,
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 2,
};

haul_status haul_topk(haul_tensor *x, int64_t k, int axis, bool largest, haul_tensor **values, haul_tensor **indices)
{
    haul__topk_attributes a = {.k = k, .axis = axis, .largest = largest};
    return haul__apply_pair(&haul__operation_topk, &a, x, values, indices);
}
