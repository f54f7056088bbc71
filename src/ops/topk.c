/* The k largest or smallest elements along an axis, in order, and where they are.
 *
 * A row along the axis is the work of one item. It keeps the best elements so far in order, in the results themselves,
 * and inserts each element of the row that is better than the last of them. */
#include "engine/copy.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"

// clang-format off
/* kernel text begins */
typedef struct topk_params {
    I64 items;
    I64 length, k, inner; /* elements of a row of x and of a row of results; the distance between them */
    I64 offsets[3];       /* of the buffers */
    I32 largest, reserved;
} topk_params;

#ifdef HAUL_KERNEL
/* Is a better than b? NaN is the largest, and an element is not better than its equal. */
#if IS_FLOAT
#define TOPK_MORE(a, b) ((a) > (b) || ((a) != (a) && (b) == (b)))
#else
#define TOPK_MORE(a, b) ((a) > (b))
#endif
FUNC I32 topk_better(A a, A b, I32 largest) { return largest ? TOPK_MORE(a, b) : TOPK_MORE(b, a); }

KERNEL3(topk, topk_params, T, values, I64, indices, const T, x)
{
    FOR_ITEMS(i) {
        const I64 row = QUOTIENT(i, p.inner), side = i - row * p.inner;
        GLOBAL const T *v = x + p.offsets[2] + row * p.length * p.inner + side;
        GLOBAL T *best = values + p.offsets[0] + row * p.k * p.inner + side;
        GLOBAL I64 *from = indices + p.offsets[1] + row * p.k * p.inner + side;
        for (I64 j = 0; j < p.length; j++) {
            const A a = LOAD(v, j * p.inner);
            I64 at = M_MIN_OF(j, p.k); /* where it goes: behind all that it is not better than */
            while (at > 0 && topk_better(a, LOAD(best, (at - 1) * p.inner), p.largest)) {
                at--;
                if (at + 1 < p.k) {
                    best[(at + 1) * p.inner] = best[at * p.inner];
                    from[(at + 1) * p.inner] = from[at * p.inner];
                }
            }
            if (at < p.k) {
                best[at * p.inner] = v[j * p.inner];
                from[at * p.inner] = j;
            }
        }
    }
}

#if IS_FLOAT
/* The element of x that element i of the results is. */
#define TOPK_FROM(i, index) ((QUOTIENT(i, p.k * p.inner) * p.length + (index)) * p.inner + REMAINDER(i, p.inner))

/* dx, which is 0 so far: an element of g a work item. */
KERNEL3(topk_backward, topk_params, T, dx, const T, g, const I64, indices)
{
    FOR_ITEMS(i) dx[p.offsets[0] + TOPK_FROM(i, indices[p.offsets[2] + i])] = g[p.offsets[1] + i];
}

KERNEL3(topk_pick, topk_params, T, y, const T, x, const I64, indices)
{
    FOR_ITEMS(i) y[p.offsets[0] + i] = x[p.offsets[1] + TOPK_FROM(i, indices[p.offsets[2] + i])];
}
#endif
#endif
/* kernel text ends */
// clang-format on

typedef struct topk_attributes {
    int64_t k, length; /* of the axis */
    int     axis;
    bool    largest;
} topk_attributes;

/* Result i: `like` with so many elements along the axis. */
static haul_status describe(haul__call *c, int i, haul_dtype dtype, const haul_tensor *like, int64_t length)
{
    haul_shape shape = like->shape;
    shape.dims[((const topk_attributes *)haul__attributes(c))->axis] = length;
    return haul__describe(c, i, dtype, &shape);
}

static haul_status infer(haul__call *c)
{
    topk_attributes   *a = haul__attributes(c);
    const haul_tensor *x = c->operands[0];
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    a->length = x->shape.dims[a->axis];
    if (a->k < 0 || a->k > a->length)
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "k",
                          "k is %lld, but axis %d of x has %lld elements; 0 to %lld is expected", (long long)a->k,
                          a->axis, (long long)a->length, (long long)a->length);
    haul_status status = describe(c, 0, x->dtype, x, a->k);
    return status ? status : describe(c, 1, HAUL_I64, x, a->k);
}

static haul_status infer_backward(haul__call *c)
{
    return describe(c, 0, c->operands[0]->dtype, c->operands[0], ((topk_attributes *)haul__attributes(c))->length);
}

static haul_status infer_pick(haul__call *c)
{
    return describe(c, 0, c->operands[0]->dtype, c->operands[0], ((topk_attributes *)haul__attributes(c))->k);
}

/* The kernels take the results and then the operands. */
static haul_status launch(haul__call *c, int64_t items, int64_t grain)
{
    const topk_attributes *a = haul__attributes(c);
    const haul_shape      *shape = &c->operands[0]->shape;
    haul_tensor           *buffers[3];
    topk_params            p = {.items = items, .length = a->length, .k = a->k, .inner = 1, .largest = a->largest};
    for (int i = 0; i < 3; i++) {
        buffers[i] = i < c->result_count ? c->results[i] : c->operands[i - c->result_count];
        p.offsets[i] = buffers[i]->offset;
    }
    for (int d = a->axis + 1; d < shape->ndim; d++)
        p.inner *= shape->dims[d]; /* part of a product that was checked */
    return haul__launch_kernel(c, c->operation->kernel, c->operands[0]->dtype, buffers, c->result_count,
                               buffers + c->result_count, c->count, &p, sizeof p, items, grain);
}

static haul_status compute(haul__call *c)
{
    const topk_attributes *a = haul__attributes(c);
    return launch(c, c->results[0]->count / a->k, 1 + 4096 / (a->length + 1)); /* there are results: k is not 0 */
}

static haul_status compute_backward(haul__call *c)
{
    haul_status status = haul__fill_elements(c->results[0], 0, c->operation->name);
    return status ? status : launch(c, c->operands[1]->count, 4096);
}

static haul_status compute_pick(haul__call *c)
{
    return launch(c, c->results[0]->count, 4096);
}

/* ---- gradients: y = pick(x) and dx = backward(dy) go by the same indices, and are each other's gradients ---- */

static void pick_gradient(haul__gradient *g);
static void backward_gradient(haul__gradient *g);

HAUL__OPERATION(topk_backward) = {
    .name = "haul_topk_backward",
    .operands = {{"g"}, {"indices", .accepts = HAUL__ONLY(HAUL_I64), .saved_for = HAUL__FOR_0}},
    .results = {{"dx"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(topk_attributes),
    .kernel = HAUL__K_topk_backward,
    .infer = infer_backward,
    .compute = compute_backward,
    .gradient = backward_gradient,
};

HAUL__OPERATION(topk_pick) = {
    .name = "haul_topk_pick",
    .operands = {{"x"}, {"indices", .accepts = HAUL__ONLY(HAUL_I64), .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .dtypes = HAUL__FLOATS,
    .attributes_size = HAUL__ATTRIBUTES(topk_attributes),
    .kernel = HAUL__K_topk_pick,
    .infer = infer_pick,
    .compute = compute_pick,
    .gradient = pick_gradient,
};

static void pick_gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(topk_backward, g->attributes, g->results[0], g->saved[1]);
}

static void backward_gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(topk_pick, g->attributes, g->results[0], g->saved[1]);
}

/* ---- the operation ---- */

static void gradient(haul__gradient *g)
{
    g->operands[0] = HAUL__APPLY(topk_backward, g->attributes, g->results[0], g->saved_results[1]);
}

HAUL__OPERATION(topk) = {
    .name = "haul_topk",
    .operands = {{"x"}},
    .results = {{"values"}, {"indices", .saved_for = HAUL__FOR_ALL}},
    .attributes_size = HAUL__ATTRIBUTES(topk_attributes),
    .kernel = HAUL__K_topk,
    .infer = infer,
    .compute = compute,
    .gradient = gradient,
    .flops = 2,
};

haul_status haul_topk(haul_tensor *x, int64_t k, int axis, bool largest, haul_tensor **values, haul_tensor **indices)
{
    topk_attributes a = {.k = k, .axis = axis, .largest = largest};
    haul_tensor    *made[HAUL__MAX_RESULTS];
    haul_status     status = values && indices ? haul__apply(&haul__operation_topk, &a, HAUL__OPERANDS(x), made)
                                               : haul__fail_null(haul__operation_topk.name, values ? "indices" : "values");
    if (values)
        *values = status ? haul__failed_tensor() : made[0];
    if (indices)
        *indices = status ? haul__failed_tensor() : made[1];
    return status;
}

haul_status haul_topk_into(haul_tensor *values, haul_tensor *indices, haul_tensor *x, int64_t k, int axis, bool largest)
{
    topk_attributes a = {.k = k, .axis = axis, .largest = largest};
    haul_tensor    *outs[] = {values, indices};
    return haul__apply_into(outs, &haul__operation_topk, &a, HAUL__OPERANDS(x));
}
