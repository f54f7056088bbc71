/* The indices of the largest and smallest elements. An output is one work item. If the axis is dense it finds the
 * extremum first, in SUM_LANES lanes, and then the first element that equals it; else neighbouring outputs are found
 * side by side. */
#include "base/assert.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/attributes.h"
#include "ops/pointwise/unsigned.h"

// clang-format off
/* kernel text begins */
typedef struct argreduce_params {
    I64 items; /* outputs: the dims before the axis times those after it */
    I64 out_offset, x_offset;
    I64 length, stride; /* of the axis */
    I64 dims[8], strides[8];
    I32 ndim, reserved;
} argreduce_params;

#ifdef HAUL_KERNEL
/* Where output i's row begins. */
FUNC I64 argreduce_at(const I64 *dims, const I64 *strides, I32 ndim, I64 i)
{
    I64 at = 0;
    for (I32 d = ndim - 1; d >= 0; d--) {
        const I64 next = QUOTIENT(i, dims[d]);
        at += (i - next * dims[d]) * strides[d];
        i = next;
    }
    return at;
}

#if IS_FLOAT
FUNC I32 argreduce_is_nan(A a) { return a != a; }
FUNC I32 argreduce_same(A a, A b) { return a == b || (a != a && b != b); }
#else
FUNC I32 argreduce_is_nan(A a) { (void)a; return 0; }
FUNC I32 argreduce_same(A a, A b) { return a == b; }
#endif

enum { ARGREDUCE_WIDTH = 128 }; /* neighbouring outputs that are taken side by side */

/* BEATS is true if an element e replaces the best one before it, b; the first NaN stays. */
TEMPLATE(argreduce, NAME, STEP, BEATS)
KERNEL2(NAME, argreduce_params, I64, out, const T, x)
{
    const I64 n = p.length, whole = n - n % SUM_LANES;
    FOR_ROWS(i) {
        GLOBAL const T *v = x + argreduce_at(p.dims, p.strides, p.ndim, i) + p.x_offset;
        LANE_VALUES(A, s);
        EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = LOAD(v, 0);
        for (I64 j = 0; j < whole; j += SUM_LANES)
            EACH_LANE(l, SUM_LANES) OF_LANE(s, l) = STEP(OF_LANE(s, l), LOAD(v, j + l));
        EACH_REST(l, n - whole) OF_LANE(s, l) = IN_REST(l, n - whole, STEP(OF_LANE(s, l), LOAD(v, whole + l)), OF_LANE(s, l));
        LANE_TREE(A, s, STEP)
        const A best = OF_FIRST_LANE(s);
        FIND_IN_ROW(found, j, n, argreduce_same(LOAD(v, j), best))
        if (IS_FIRST_LANE) out[p.out_offset + i] = found;
    }
}

KERNEL2(NAME##_columns, argreduce_params, I64, out, const T, x)
{
    const I64 inner = p.ndim ? p.dims[p.ndim - 1] : 1, step = p.ndim ? p.strides[p.ndim - 1] : 1;
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        const I64 column = i - QUOTIENT(i, inner) * inner;
        const int width = NEIGHBOURS(inner - column, ITEMS_END - i, ARGREDUCE_WIDTH);
        GLOBAL const T *v = x + argreduce_at(p.dims, p.strides, p.ndim, i) + p.x_offset;
        A best[CHUNKED ? ARGREDUCE_WIDTH : 1];
        I64 found[CHUNKED ? ARGREDUCE_WIDTH : 1];
        for (int l = 0; l < width; l++) best[l] = LOAD(v, l * step);
        for (int l = 0; l < width; l++) found[l] = 0;
        for (I64 j = 1; j < p.length; j++) {
            GLOBAL const T *row = v + j * p.stride;
            VECTOR_LOOP for (int l = 0; l < width; l++) {
                const A e = LOAD(row, l * step);
                const A b = best[l];
                I32 take = BEATS ? 1 : 0;
                take = argreduce_is_nan(e) ? 1 : take;
                take = argreduce_is_nan(b) ? 0 : take;
                best[l] = take ? e : b;
                found[l] = take ? j : found[l];
            }
        }
        for (int l = 0; l < width; l++) out[p.out_offset + i + l] = found[l];
        i += ITEMS_STEP(width);
    }
}
END_TEMPLATE

EXPAND(argreduce, argmax, M_MAX, e > b)
EXPAND(argreduce, argmin, M_MIN, e < b)
#endif
/* kernel text ends */
// clang-format on

static void describe(argreduce_params *p, const haul_tensor *x, const haul_tensor *y, int axis)
{
    *p = (argreduce_params){.items = y->count,
                            .out_offset = y->offset,
                            .x_offset = x->offset,
                            .length = x->shape.ndim ? x->shape.dims[axis] : 1,
                            .stride = x->shape.ndim ? x->strides[axis] : 1};
    HAUL__ASSERT(x->shape.ndim == 0 || (0 <= axis && axis < x->shape.ndim));
    HAUL__ASSERT(x->count == p->items * p->length);
    for (int d = 0; d < x->shape.ndim; d++) {
        if (d == axis || x->shape.dims[d] == 1)
            continue;
        p->dims[p->ndim] = x->shape.dims[d];
        p->strides[p->ndim++] = x->strides[d];
    }
}

static haul_status infer(haul__call *c)
{
    haul__argreduce_attributes *a = haul__attributes(c);
    const haul_shape           *x = &c->operands[0]->shape;
    haul_shape                  shape = {.ndim = 0};
    bool                        some = true; /* true if there are results */
    if (haul__call_axis(c, 0, &a->axis))
        return haul_error_status();
    for (int d = 0; d < x->ndim; d++) {
        some = some && (d == a->axis || x->dims[d] > 0);
        if (d != a->axis || a->keepdim)
            shape.dims[shape.ndim++] = d == a->axis ? 1 : x->dims[d];
    }
    HAUL__ASSERT(shape.ndim == (a->keepdim || !x->ndim ? x->ndim : x->ndim - 1));
    if (x->ndim && x->dims[a->axis] == 0 && some)
        return haul__refuse_shape(c, 0, "the axis must hold at least one element to choose from");
    return haul__describe(c, 0, HAUL_I64, &shape);
}

/* Rows with fewer elements are not worth lanes. */
enum { FEW = 16 };

static haul_status compute(haul__call *c)
{
    const haul__kernel_info          *kernel = &haul__kernel_infos[c->operation->kernel];
    const haul__argreduce_attributes *a = haul__attributes(c);
    haul_tensor                      *x = haul__in_signed_order(c, c->operands[0]);
    argreduce_params                  p;
    if (!x)
        return haul_error_status();
    describe(&p, x, c->results[0], a->axis);
    return haul__launch_kernel(c, p.stride != 1 || p.length <= FEW ? kernel->columns : c->operation->kernel, x->dtype,
                               .outs = c->results, .out_count = 1, HAUL__IN(x), HAUL__PARAMS(p),
                               .grain = 1 + 32768 / (p.length + 8));
}

HAUL__OPERATION(argmax) = {
    .name = "haul_argmax",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"index"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__argreduce_attributes),
    .kernel = HAUL__K_argmax,
    .infer = infer,
    .compute = compute,
    .flops = 1,
};

HAUL__OPERATION(argmin) = {
    .name = "haul_argmin",
    .operands = {{"x", .layout = HAUL__ANY_STRIDES}},
    .results = {{"index"}},
    .dtypes = HAUL__EVERY,
    .attributes_size = HAUL__ATTRIBUTES(haul__argreduce_attributes),
    .kernel = HAUL__K_argmin,
    .infer = infer,
    .compute = compute,
    .flops = 1,
};

HAUL__FUNCTIONS(argmax, (&(haul__argreduce_attributes){.axis = axis, .keepdim = keepdim}),
                (haul_tensor * x, int axis, bool keepdim), x)

HAUL__FUNCTIONS(argmin, (&(haul__argreduce_attributes){.axis = axis, .keepdim = keepdim}),
                (haul_tensor * x, int axis, bool keepdim), x)
