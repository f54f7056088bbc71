/* Pointwise operations of three operands, and of two with a number: clamp between tensors, lerp, addcmul, addcdiv, and
 * rounding to decimals. They use the loops of haul_where and of the rows of pointwise.def. */
#include <haul/elementwise.h>
#include <math.h>

#include "base/assert.h"
#include "engine/layout/layout.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "ops/attributes.h"
#include "ops/pointwise/masked_fill.h"

// clang-format off
/* kernel text begins */
#ifdef HAUL_KERNEL
#if !defined(HAUL_KERNEL_DTYPE_bool)
EXPAND(select, clamp_between, T, A, LOAD, a > b || b != b ? b : c < a || a != a ? a : c > b ? b : c)
#endif
#if IS_FLOAT
/* From the end that is nearer, so that both ends are exact. */
FUNC A lerp_of(A from, A to, A weight)
{
    const A way = to - from;
    return M_ABS(weight) < LIT(0.5) ? from + weight * way : to - way * (LIT(1.0) - weight);
}
/* Numbers whose product leaves the range stay as they are. */
FUNC A round_decimals_of(A x, A power, A negative)
{
    const A scaled = negative > 0 ? x / power : x * power, whole = M_RINT(scaled);
    return scaled - scaled != 0 ? x : negative > 0 ? whole * power : whole / power;
}
EXPAND(select, lerp, T, A, LOAD, lerp_of(c, a, b))
EXPAND(select, lerp_scalar, T, A, LOAD, ((void)b, lerp_of(c, a, SCALAR(p.scalars[0]))))
EXPAND(select, addcmul, T, A, LOAD, c + SCALAR(p.scalars[0]) * a * b)
EXPAND(select, addcdiv, T, A, LOAD, c + SCALAR(p.scalars[0]) * a / b)
EXPAND(pointwise1, round_decimals, T, STORE, T, A, LOAD, x, round_decimals_of(x, s0, s1), NEVER, round_decimals_of(x, s0, s1), 1)
#endif
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 16384 };

/* Launches over operands that broadcast to result 0. A kernel of three operands reads the last one twice if there are
 * two. */
static haul_status compute(haul__call *c)
{
    const bool                     three = c->operation->operands[1].name != NULL;
    haul_tensor                   *y = c->results[0], *last = c->operands[c->count - 1];
    haul_tensor                   *ins[] = {c->operands[0], three ? c->operands[1] : last, last};
    haul_tensor                   *operands[] = {y, ins[0], ins[1], ins[2]};
    const int                      count = three ? 3 : 1;
    const haul__number_attributes *a = haul__attributes(c);
    const bool                     numbers = c->operation->attributes_size > 0;
    pointwise_params               p;
    HAUL__ASSERT(0 < c->count && c->count <= count);
    haul__layout(&p, &y->shape, operands, 1 + count);
    p.scalars[0] = haul__scalar_bits(y->dtype, numbers ? a->s0 : 0);
    p.scalars[1] = haul__scalar_bits(y->dtype, numbers ? a->s1 : 0);
    if (count == 1)
        haul__layout_stores(&p, operands, 1 + count);
    haul__layout_packs(&p, c->device, y->dtype, 1 + count);
    return haul__launch_kernel(c, c->operation->kernel, y->dtype, HAUL__OUT(y), .ins = ins, .in_count = count,
                               HAUL__PARAMS(p), .grain = GRAIN);
}

static haul_status infer(haul__call *c)
{
    return haul__describe_pointwise(c, c->operands[0]->dtype);
}

static double number(const haul__gradient *c)
{
    return ((const haul__number_attributes *)c->attributes)->s0;
}

/* g where the condition holds, else 0. */
static haul_tensor *only(haul_tensor *g, haul_tensor *condition)
{
    return haul_where_scalar(condition, g, 0);
}

#define OPERAND(name)                                                                                                  \
    {                                                                                                                  \
        name, .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_ALL                                                  \
    }
#define READ_ONCE(name)                                                                                                \
    {                                                                                                                  \
        name, .layout = HAUL__ANY_STRIDES                                                                              \
    }

/* ---- clamp_between ---- */

static void clamp_gradient(haul__gradient *c)
{
    haul_tensor *g = c->results[0], *x = c->saved[0], *low = c->saved[1], *high = c->saved[2];
    if (haul__wanted(c, 0))
        c->operands[0] = only(g, haul_logical_and(haul_ge(x, low), haul_le(x, high)));
    if (haul__wanted(c, 1))
        c->operands[1] = only(g, haul_logical_and(haul_lt(x, low), haul_lt(low, high)));
    if (haul__wanted(c, 2))
        c->operands[2] = only(g, haul_logical_or(haul_gt(x, high), haul_lt(high, low)));
}

HAUL__OPERATION(clamp_between) = {
    .name = "haul_clamp_between",
    .operands = {OPERAND("x"), OPERAND("low"), OPERAND("high")},
    .results = {{"y"}},
    .dtypes = HAUL__NUMBERS,
    .rule = HAUL__PROMOTED,
    .elementwise = true,
    .kernel = HAUL__K_clamp_between,
    .infer = infer,
    .compute = compute,
    .gradient = clamp_gradient,
    .flops = 2,
};

HAUL__FUNCTIONS(clamp_between, NULL, (haul_tensor * x, haul_tensor *low, haul_tensor *high), x, low, high)

/* ---- lerp ---- */

static void lerp_gradient(haul__gradient *c)
{
    haul_tensor *g = c->results[0], *weight = c->saved[2];
    if (haul__wanted(c, 0))
        c->operands[0] = haul_mul(g, haul_affine(weight, -1, 1));
    if (haul__wanted(c, 1))
        c->operands[1] = haul_mul(g, weight);
    if (haul__wanted(c, 2))
        c->operands[2] = haul_mul(g, haul_sub(c->saved[1], c->saved[0]));
}

HAUL__OPERATION(lerp) = {
    .name = "haul_lerp",
    .operands = {{"a", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_2},
                 {"b", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_2},
                 {"weight", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_0 | HAUL__FOR_1}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .elementwise = true,
    .kernel = HAUL__K_lerp,
    .infer = infer,
    .compute = compute,
    .gradient = lerp_gradient,
    .flops = 4,
};

HAUL__FUNCTIONS(lerp, NULL, (haul_tensor * a, haul_tensor *b, haul_tensor *weight), a, b, weight)

static void lerp_scalar_gradient(haul__gradient *c)
{
    const double weight = number(c);
    if (haul__wanted(c, 0))
        c->operands[0] = haul_mul_scalar(c->results[0], 1 - weight);
    if (haul__wanted(c, 1))
        c->operands[1] = haul_mul_scalar(c->results[0], weight);
}

HAUL__OPERATION(lerp_scalar) = {
    .name = "haul_lerp_scalar",
    .operands = {READ_ONCE("a"), READ_ONCE("b")},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .elementwise = true,
    .kernel = HAUL__K_lerp_scalar,
    .attributes_size = HAUL__ATTRIBUTES(haul__number_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = lerp_scalar_gradient,
    .flops = 4,
};

HAUL__FUNCTIONS(lerp_scalar, (&(haul__number_attributes){s, 0}), (haul_tensor * a, haul_tensor *b, double s), a, b)

/* ---- addcmul and addcdiv ---- */

static void addcmul_gradient(haul__gradient *c)
{
    haul_tensor *g = c->results[0];
    c->operands[0] = g;
    if (haul__wanted(c, 1))
        c->operands[1] = haul_mul(haul_mul_scalar(g, number(c)), c->saved[2]);
    if (haul__wanted(c, 2))
        c->operands[2] = haul_mul(haul_mul_scalar(g, number(c)), c->saved[1]);
}

static void addcdiv_gradient(haul__gradient *c)
{
    haul_tensor *g = c->results[0];
    c->operands[0] = g;
    if (!haul__wanted(c, 1) && !haul__wanted(c, 2))
        return;
    haul_tensor *by = haul_div(haul_mul_scalar(g, number(c)), c->saved[2]);
    c->operands[1] = by;
    if (haul__wanted(c, 2))
        c->operands[2] = haul_neg(haul_mul(by, haul_div(c->saved[1], c->saved[2])));
}

HAUL__OPERATION(addcmul) = {
    .name = "haul_addcmul",
    .operands = {READ_ONCE("x"),
                 {"a", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_2},
                 {"b", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .elementwise = true,
    .kernel = HAUL__K_addcmul,
    .attributes_size = HAUL__ATTRIBUTES(haul__number_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = addcmul_gradient,
    .flops = 3,
};

HAUL__OPERATION(addcdiv) = {
    .name = "haul_addcdiv",
    .operands = {READ_ONCE("x"),
                 {"a", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_2},
                 {"b", .layout = HAUL__ANY_STRIDES, .saved_for = HAUL__FOR_1 | HAUL__FOR_2}},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .elementwise = true,
    .kernel = HAUL__K_addcdiv,
    .attributes_size = HAUL__ATTRIBUTES(haul__number_attributes),
    .infer = infer,
    .compute = compute,
    .gradient = addcdiv_gradient,
    .flops = 3,
};

HAUL__FUNCTIONS(addcmul, (&(haul__number_attributes){s, 0}),
                (haul_tensor * x, haul_tensor *a, haul_tensor *b, double s), x, a, b)

HAUL__FUNCTIONS(addcdiv, (&(haul__number_attributes){s, 0}),
                (haul_tensor * x, haul_tensor *a, haul_tensor *b, double s), x, a, b)

/* ---- round_decimals ---- */

/* Powers of ten beyond the range of f64 would leave nothing to round. */
enum { MOST_DECIMALS = 300 };

static haul_status round_infer(haul__call *c)
{
    const haul__number_attributes *a = haul__attributes(c);
    if (!(a->s0 - a->s0 == 0))
        return haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "decimals",
                          "decimals is out of range; -%d to %d is "
                          "expected",
                          (int)MOST_DECIMALS, (int)MOST_DECIMALS);
    return infer(c);
}

static void zero_gradient(haul__gradient *c)
{
    c->operands[0] = haul_zeros_like(c->results[0]);
}

HAUL__OPERATION(round_decimals) = {
    .name = "haul_round_decimals",
    .operands = {READ_ONCE("x")},
    .results = {{"y"}},
    .rule = HAUL__FLOATED,
    .elementwise = true,
    .kernel = HAUL__K_round_decimals,
    .attributes_size = HAUL__ATTRIBUTES(haul__number_attributes),
    .infer = round_infer,
    .compute = compute,
    .gradient = zero_gradient,
    .flops = 3,
};

static haul__number_attributes round_attributes(int decimals)
{
    const bool in = decimals >= -MOST_DECIMALS && decimals <= MOST_DECIMALS;
    return (haul__number_attributes){in ? pow(10, fabs((double)decimals)) : INFINITY, decimals < 0};
}

haul_tensor *haul_round_decimals(haul_tensor *x, int decimals)
{
    haul__number_attributes a = round_attributes(decimals);
    return HAUL__APPLY(round_decimals, &a, x);
}

haul_status haul_round_decimals_into(haul_tensor *out, haul_tensor *x, int decimals)
{
    haul__number_attributes a = round_attributes(decimals);
    return HAUL__APPLY_INTO(out, round_decimals, &a, x);
}
