/* haul_where and the operations that gradients of maximum, minimum and clamp need: a choice between operands, element
 * by element, with the loop of the rows of pointwise.def. */
#include "base/assert.h"
#include "engine/layout/layout.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "ops/attributes.h"
#include "ops/pointwise/internal.h"
#include "ops/pointwise/masked_fill.h"

// clang-format off
/* kernel text begins */
#ifdef HAUL_KERNEL
/* FORMULA is one of c, an element of type S that READ turns into a V, and of the elements a and b. */
TEMPLATE(select, NAME, S, V, READ, FORMULA)
KERNEL4(NAME, pointwise_params, T, out, const S, in0, const T, in1, const T, in2)
{
    const int last = p.ndim - 1;
    const I64 t0 = p.strides[0].of[last], t1 = p.strides[1].of[last], t2 = p.strides[2].of[last], t3 = p.strides[3].of[last];
#if CHUNKED
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END;) {
        I64 at[4];
        const I64 row = pointwise_row(&p, i, ITEMS_END - i, 4, at);
        GLOBAL T *o = out + at[0];
        GLOBAL const S *v0 = in0 + at[1];
        GLOBAL const T *v1 = in1 + at[2], *v2 = in2 + at[3];
        if (t0 == 1 && t1 == 1 && t2 == 1 && t3 == 1)
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                EXPAND(READ##_at, V, c, v0, j)
                const A a = LOAD(v1, j), b = LOAD(v2, j);
                STORE(o, j, FORMULA);
            }
        else
            VECTOR_LOOP for (I64 j = 0; j < row; j++) {
                EXPAND(READ##_at, V, c, v0, j * t1)
                const A a = LOAD(v1, j * t2), b = LOAD(v2, j * t3);
                STORE(o, j * t0, FORMULA);
            }
        i += ITEMS_STEP(row);
    }
#else
    for (I64 i = ITEMS_BEGIN; i < ITEMS_END; i += ITEMS_STEP(1)) {
        I64 at[4];
        const int n = pointwise_pack(&p, i, 4, at);
        GLOBAL T *o = out + at[0];
        GLOBAL const S *v0 = in0 + at[1];
        GLOBAL const T *v1 = in1 + at[2], *v2 = in2 + at[3];
        if (pointwise_is_whole(&p, n)) {
            pack_T y;
            EXPAND(pack_load, S, w0, v0, t1)
            EXPAND(pack_load, T, w1, v1, t2)
            EXPAND(pack_load, T, w2, v2, t3)
            PACK_LOOP for (int j = 0; j < PACK; j++) {
                EXPAND(READ##_at, V, c, w0.of, j)
                const A a = LOAD(w1.of, j), b = LOAD(w2.of, j);
                STORE(y.of, j, FORMULA);
            }
            EXPAND(pack_store, T, o, y)
        } else {
            PACK_REST for (int j = 0; j < n; j++) {
                EXPAND(READ##_at, V, c, v0, j * t1)
                const A a = LOAD(v1, j * t2), b = LOAD(v2, j * t3);
                STORE(o, j * t0, FORMULA);
            }
        }
    }
#endif
}
END_TEMPLATE

#if IS_BITS
EXPAND(select, where, U8, I32, RAW_LOAD, c ? a : b)
#endif
#if IS_FLOAT
EXPAND(select, select_ge, T, A, LOAD, a > b ? c : a == b ? c * LIT(0.5) : LIT(0.0))
EXPAND(pointwise2, clamp_backward, T, STORE, b >= s0 && b <= s1 ? a : LIT(0.0), 1)
#endif
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

/* Launches over operands that broadcast to result 0. */
static haul_status launch(const haul__call *c, int kernel, haul_tensor *const *ins, int count, double s0, double s1)
{
    haul_tensor     *y = c->results[0], *operands[4] = {y, ins[0], ins[1], count > 2 ? ins[2] : NULL};
    pointwise_params p;
    HAUL__ASSERT(count == 2 || count == 3);
    haul__layout(&p, &y->shape, operands, 1 + count);
    p.scalars[0] = haul__scalar_bits(y->dtype, s0);
    p.scalars[1] = haul__scalar_bits(y->dtype, s1);
    haul__layout_packs(&p, c->device, y->dtype, 1 + count);
    return haul__launch_kernel(c, kernel, y->dtype, HAUL__OUT(y), .ins = ins, .in_count = count, HAUL__PARAMS(p),
                               .grain = GRAIN);
}

/* The result has the dtype of operand 0. */
static haul_status infer(haul__call *c)
{
    return haul__describe_pointwise(c, c->operands[0]->dtype);
}

/* ---- where ---- */

typedef enum branch { BRANCH_A = 1, BRANCH_B } branch; /* the operands of haul_where */

static haul_status where_backward_compute(haul__call *c)
{
    const branch *to = haul__attributes(c);
    return haul__fill_where(c, c->operands[0], c->operands[1], *to == BRANCH_B, 0);
}

static void where_second(haul__gradient *c);

/* g where the condition chose that operand, else 0. */
HAUL__OPERATION(where_backward) = {
    .name = "haul_where_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES},
                 {"condition", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__ONLY(HAUL_BOOL),
                  .saved_for = HAUL__FOR_0}},
    .results = {{"dx"}},
    .dtypes = HAUL__EVERY,
    .elementwise = true,
    .attributes_size = HAUL__ATTRIBUTES(branch),
    .infer = infer,
    .compute = where_backward_compute,
    .gradient = where_second,
};

static void where_second(haul__gradient *c)
{
    c->operands[0] = HAUL__APPLY(where_backward, c->attributes, c->results[0], c->saved[1]);
}

static haul_status where_infer(haul__call *c)
{
    return haul__describe_pointwise(c, c->operands[1]->dtype);
}

static haul_status where_compute(haul__call *c)
{
    return launch(c, HAUL__K_where, c->operands, 3, 0, 0);
}

static void where_gradient(haul__gradient *c)
{
    for (branch to = BRANCH_A; to <= BRANCH_B; to++)
        if (haul__wanted(c, (int)to))
            c->operands[to] = HAUL__APPLY(where_backward, &to, c->results[0], c->saved[0]);
}

HAUL__OPERATION(where) = {
    .name = "haul_where",
    .operands = {{"condition", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__ONLY(HAUL_BOOL),
                  .saved_for = HAUL__FOR_1 | HAUL__FOR_2},
                 {"a", .layout = HAUL__ANY_STRIDES},
                 {"b", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .rule = HAUL__PROMOTED,
    .elementwise = true,
    .infer = where_infer,
    .compute = where_compute,
    .gradient = where_gradient,
};

HAUL__FUNCTIONS(where, NULL, (haul_tensor * condition, haul_tensor *a, haul_tensor *b), condition, a, b)

/* ---- where_scalar ---- */

static haul_status where_scalar_infer(haul__call *c)
{
    const double s = ((const haul__where_scalar_attributes *)haul__attributes(c))->s;
    haul_dtype   dtype = c->operands[1]->dtype;
    if (!haul__dtype_holds(dtype, s))
        return haul__refuse_number(c->operation->name, "s", dtype, s, "cast a to another dtype with haul_cast");
    return haul__describe_pointwise(c, dtype);
}

static haul_status where_scalar_compute(haul__call *c)
{
    return haul__fill_where(c, c->operands[1], c->operands[0], false,
                            ((const haul__where_scalar_attributes *)haul__attributes(c))->s);
}

static void where_scalar_gradient(haul__gradient *c)
{
    branch to = BRANCH_A;
    if (haul__wanted(c, 1))
        c->operands[1] = HAUL__APPLY(where_backward, &to, c->results[0], c->saved[0]);
}

HAUL__OPERATION(where_scalar) = {
    .name = "haul_where_scalar",
    .operands = {{"condition", .layout = HAUL__ANY_STRIDES, .accepts = HAUL__ONLY(HAUL_BOOL), .saved_for = HAUL__FOR_1},
                 {"a", .layout = HAUL__ANY_STRIDES}},
    .results = {{"y"}},
    .dtypes = HAUL__EVERY,
    .elementwise = true,
    .attributes_size = HAUL__ATTRIBUTES(haul__where_scalar_attributes),
    .infer = where_scalar_infer,
    .compute = where_scalar_compute,
    .gradient = where_scalar_gradient,
};

HAUL__FUNCTIONS(where_scalar, &(haul__where_scalar_attributes){s}, (haul_tensor * condition, haul_tensor *a, double s),
                condition, a)

/* ---- select_ge ---- */

static haul_status select_ge_compute(haul__call *c)
{
    return launch(c, HAUL__K_select_ge, c->operands, 3, 0, 0);
}

/* Piecewise constant in a and b. */
static void select_ge_gradient(haul__gradient *c)
{
    if (haul__wanted(c, 0))
        c->operands[0] = haul__select_ge(c->results[0], c->saved[1], c->saved[2]);
}

HAUL__OPERATION(select_ge) = {
    .name = "haul_select_ge",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES},
                 {"a", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0},
                 {"b", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .elementwise = true,
    .infer = infer,
    .compute = select_ge_compute,
    .gradient = select_ge_gradient,
    .flops = 2,
};

haul_tensor *haul__select_ge(haul_tensor *g, haul_tensor *a, haul_tensor *b)
{
    return HAUL__APPLY(select_ge, NULL, g, a, b);
}

/* ---- clamp_backward ---- */

typedef struct clamp_attributes {
    double low, high;
} clamp_attributes;

static haul_status clamp_backward_compute(haul__call *c)
{
    const clamp_attributes *a = haul__attributes(c);
    return launch(c, HAUL__K_clamp_backward, c->operands, 2, a->low, a->high);
}

/* Piecewise constant in x. */
static void clamp_backward_gradient(haul__gradient *c)
{
    if (haul__wanted(c, 0))
        c->operands[0] = haul__apply1(c->operation, c->attributes, (haul_tensor *[]){c->results[0], c->saved[1]}, 2);
}

HAUL__OPERATION(clamp_backward) = {
    .name = "haul_clamp_backward",
    .operands = {{"g", .layout = HAUL__ANY_STRIDES}, {"x", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .elementwise = true,
    .attributes_size = HAUL__ATTRIBUTES(clamp_attributes),
    .infer = infer,
    .compute = clamp_backward_compute,
    .gradient = clamp_backward_gradient,
    .flops = 2,
};

haul_tensor *haul__clamp_backward(haul_tensor *g, haul_tensor *x, double low, double high)
{
    return HAUL__APPLY(clamp_backward, (&(clamp_attributes){low, high}), g, x);
}
