/* Pointwise operations: a row of pointwise.def becomes a descriptor, or two if the second operand may be a scalar. */
#include "ops/pointwise/pointwise.h"
#include "ops/attributes.h"

#include <math.h>

#include "base/assert.h"
#include "engine/copy.h"
#include "engine/layout/layout.h"
#include "engine/operation.h"
#include "kernels/kernels.h"
#include "ops/pointwise/internal.h"
#include "ops/pointwise/numbers.h"
#include "ops/pointwise/unsigned.h"

/* ---- gradients: the rows' expressions as functions ---- */

/* d/dx of silu'(x) and gelu'(x), for second derivatives. Both are 0 well within the bounds, which keep infinity times 0
 * away. */
static haul_tensor *haul__silu_second(haul_tensor *x)
{
    haul_tensor *s = haul_sigmoid(x), *ds = haul_mul(s, haul_affine(s, -1, 1));
    /* s' (2 + x (1 - 2 s)) */
    return haul_mul(ds, haul_add_scalar(haul_mul(haul_clamp(x, -1e4, 1e4), haul_affine(s, -2, 1)), 2));
}

static haul_tensor *haul__gelu_second(haul_tensor *x)
{
    haul_tensor *square = haul_square(haul_clamp(x, -100, 100));
    haul_tensor *pdf = haul_mul_scalar(haul_exp(haul_mul_scalar(square, -0.5)), 0.39894228040143268);
    return haul_mul(pdf, haul_affine(square, -1, 2)); /* phi(x) (2 - x^2) */
}

/* d/da a^b = b a^(b - 1), and 0 where b is 0, even at a = 0. */
static haul_tensor *haul__pow_by_base(haul_tensor *a, haul_tensor *b)
{
    haul_tensor *slope = haul_mul(b, haul_pow(a, haul_sub_scalar(b, 1)));
    return haul_where(haul_eq_scalar(b, 0), haul_zeros_like(b), slope);
}

/* d/db a^b = a^b log(a), and 0 at a = 0 where b is not negative. */
static haul_tensor *haul__pow_by_exponent(haul_tensor *a, haul_tensor *b, haul_tensor *y)
{
    haul_tensor *flat = haul_logical_and(haul_eq_scalar(a, 0), haul_ge_scalar(b, 0));
    return haul_where(flat, haul_zeros_like(y), haul_mul(y, haul_log(a)));
}

/* d/dx s^x = s^x log(s), and 0 at s = 0 where x is not negative. */
static haul_tensor *haul__rpow_slope(haul_tensor *g, haul_tensor *x, haul_tensor *y, double s)
{
    haul_tensor *slope = haul_mul_scalar(haul_mul(g, y), log(s));
    return s == 0 ? haul_masked_fill(slope, haul_ge_scalar(x, 0), 0) : slope;
}

/* d/dx of gelu_tanh: with s = sigmoid(2 u) it is s + x s (1 - s) 2 u'. Beyond the bounds s is 0 or 1. */
static haul_tensor *haul__gelu_tanh_slope(haul_tensor *x)
{
    haul_tensor *t = haul_clamp(haul__widened(x), -30, 30), *square = haul_square(t);
    haul_tensor *s = haul_sigmoid(haul_mul(t, haul_affine(square, 0.044715 * 1.5957691216057308, 1.5957691216057308)));
    haul_tensor *inner = haul_mul(t, haul_affine(square, 3 * 0.044715 * 1.5957691216057308, 1.5957691216057308));
    return haul_add(s, haul_mul(haul_mul(s, haul_affine(s, -1, 1)), inner));
}

/* g sigmoid(beta x), and g beyond the threshold. */
static haul_tensor *haul__softplus_beta_slope(haul_tensor *g, haul_tensor *x, double beta, double threshold)
{
    haul_tensor *steep = haul_mul_scalar(x, beta);
    return haul_where(haul_gt_scalar(steep, threshold), g, haul_mul(g, haul_sigmoid(steep)));
}

/* of / (a^2 + b^2). */
static haul_tensor *haul__atan2_slope(haul_tensor *of, haul_tensor *a, haul_tensor *b)
{
    return haul_div(of, haul_add(haul_square(a), haul_square(b)));
}

/* g log(b), and 0 where a is 0 and b is not positive. */
static haul_tensor *haul__xlogy_slope(haul_tensor *g, haul_tensor *a, haul_tensor *b)
{
    haul_tensor *flat = haul_logical_and(haul_eq_scalar(a, 0), haul_le_scalar(b, 0));
    return haul_masked_fill(haul_xlogy(g, b), flat, 0);
}

/* g where x > 0, else g scale exp(x / width): of haul_elu, haul_celu and haul_selu. The exponential is of x at most 0,
 * so that it does not become infinite where it is not used. */
static haul_tensor *haul__elu_slope(haul_tensor *g, haul_tensor *x, double scale, double width)
{
    haul_tensor *below = haul_exp(haul_mul_scalar(haul_clamp(x, -INFINITY, 0), 1 / width));
    return haul_where(haul_gt_scalar(x, 0), g, haul_mul(haul_mul_scalar(g, scale), below));
}

/* d/dx of mish: with t = tanh(softplus(x)) it is t + x sigmoid(x) (1 - t^2). Beyond the bounds the second term is 0. */
static haul_tensor *haul__mish_slope(haul_tensor *x)
{
    haul_tensor *near = haul_clamp(haul__widened(x), -1000, 1000), *t = haul_tanh(haul_softplus(near));
    return haul_add(t, haul_mul(haul_mul(near, haul_sigmoid(near)), haul_affine(haul_square(t), -1, 1)));
}

static haul_tensor *haul__hardsigmoid_slope(haul_tensor *g, haul_tensor *x)
{
    return haul_masked_fill(haul_mul_scalar(g, 1.0 / 6), haul_ge_scalar(haul_abs(x), 3), 0);
}

static haul_tensor *haul__hardswish_slope(haul_tensor *g, haul_tensor *x)
{
    haul_tensor *inner = haul_mul(g, haul_affine(haul_clamp(x, -3, 3), 1.0 / 3, 0.5));
    return haul_where(haul_ge_scalar(x, 3), g, haul_masked_fill(inner, haul_le_scalar(x, -3), 0));
}

static haul_tensor *haul__prelu_slope(haul_tensor *g, haul_tensor *x, haul_tensor *weight)
{
    return haul_where(haul_gt_scalar(x, 0), g, haul_mul(g, weight));
}

static haul_tensor *haul__prelu_weight_slope(haul_tensor *g, haul_tensor *x)
{
    return haul_masked_fill(haul_mul(g, x), haul_gt_scalar(x, 0), 0);
}

#define NOTHING 0
#define SAVE_X  HAUL__SAVE_A
#define SAVE_A  HAUL__SAVE_A
#define SAVE_B  HAUL__SAVE_B
#define SAVE_Y  HAUL__SAVE_Y
#define ZEROS   haul_zeros_like(g)

#define CONTEXT_UNARY                                                                                                  \
    haul_tensor *g = c->g, *x = c->a, *y = c->y;                                                                       \
    const double s0 = c->s0, s1 = c->s1;                                                                               \
    (void)g, (void)x, (void)y, (void)s0, (void)s1;
#define CONTEXT_BINARY                                                                                                 \
    haul_tensor *g = c->g, *a = c->a, *b = c->b, *y = c->y;                                                            \
    (void)g, (void)a, (void)b, (void)y;

#define HAUL_UNARY(name, dtypes, formula, saves, gx, low, high)                                                        \
    static haul_tensor *gradient_##name(const haul__row_context *c)                                                    \
    {                                                                                                                  \
        CONTEXT_UNARY return gx;                                                                                       \
    }
#define HAUL_UNARY1(name, ...) HAUL_UNARY(name, __VA_ARGS__)
#define HAUL_UNARY2(name, ...) HAUL_UNARY(name, __VA_ARGS__)
#define HAUL_UNARY_TO_BOOL(...)
#define HAUL_BINARY(name, dtypes, formula, saves, ga, gb, low, high)                                                   \
    static haul_tensor *gradient_a_##name(const haul__row_context *c)                                                  \
    {                                                                                                                  \
        CONTEXT_BINARY return ga;                                                                                      \
    }                                                                                                                  \
    static haul_tensor *gradient_b_##name(const haul__row_context *c)                                                  \
    {                                                                                                                  \
        CONTEXT_BINARY return gb;                                                                                      \
    }
#define HAUL_INTERNAL(name, ...) HAUL_BINARY(name, __VA_ARGS__)
#define HAUL_COMPARE(...)
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY1
#undef HAUL_UNARY2
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_BINARY
#undef HAUL_COMPARE
#undef HAUL_INTERNAL

/* ---- the table ---- */

#define FN(name) (void (*)(void))(name)
#define ROW(name, formula, form, dtypes, saves, ga, gb, low, high, scalar)                                             \
    {"haul_" #name, formula,         form,   HAUL__ROW_##dtypes,    saves, {ga, gb}, low,                              \
     high,          FN(haul_##name), scalar, FN(haul_##name##_into)},
#define HAUL_UNARY(name, dtypes, formula, saves, gx, low, high)                                                        \
    ROW(name, #formula, HAUL__UNARY, dtypes, saves, gradient_##name, NULL, low, high, NULL)
#define HAUL_UNARY1(name, dtypes, formula, saves, gx, low, high)                                                       \
    ROW(name, #formula, HAUL__UNARY1, dtypes, saves, gradient_##name, NULL, low, high, NULL)
#define HAUL_UNARY2(name, dtypes, formula, saves, gx, low, high)                                                       \
    ROW(name, #formula, HAUL__UNARY2, dtypes, saves, gradient_##name, NULL, low, high, NULL)
#define HAUL_UNARY_TO_BOOL(name, dtypes, formula, low, high)                                                           \
    ROW(name, #formula, HAUL__UNARY_TO_BOOL, dtypes, NOTHING, NULL, NULL, low, high, NULL)
#define HAUL_BINARY(name, dtypes, formula, saves, ga, gb, low, high)                                                   \
    ROW(name, #formula, HAUL__BINARY, dtypes, saves, gradient_a_##name, gradient_b_##name, low, high,                  \
        FN(haul_##name##_scalar))
#define HAUL_COMPARE(name, formula)                                                                                    \
    ROW(name, #formula, HAUL__COMPARE, ANY, NOTHING, NULL, NULL, -2, 2, FN(haul_##name##_scalar))
/* Private: the library calls haul__NAME, and there is no form with a target. */
#define HAUL_INTERNAL(name, dtypes, formula, saves, ga, gb, low, high)                                                 \
    {"haul_" #name,                                                                                                    \
     #formula,                                                                                                         \
     HAUL__BINARY,                                                                                                     \
     HAUL__ROW_##dtypes,                                                                                               \
     saves,                                                                                                            \
     {gradient_a_##name, gradient_b_##name},                                                                           \
     low,                                                                                                              \
     high,                                                                                                             \
     FN(haul__##name),                                                                                                 \
     NULL,                                                                                                             \
     NULL},

const haul__row haul__rows[] = {
#include <haul/pointwise.def>
};
const int haul__row_count = sizeof haul__rows / sizeof haul__rows[0];

#undef HAUL_UNARY
#undef HAUL_UNARY1
#undef HAUL_UNARY2
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_BINARY
#undef HAUL_COMPARE
#undef HAUL_INTERNAL

enum row_index {
#define HAUL_UNARY(name, ...)         ROW_##name,
#define HAUL_UNARY1(name, ...)        ROW_##name,
#define HAUL_UNARY2(name, ...)        ROW_##name,
#define HAUL_UNARY_TO_BOOL(name, ...) ROW_##name,
#define HAUL_BINARY(name, ...)        ROW_##name,
#define HAUL_COMPARE(name, ...)       ROW_##name,
#define HAUL_INTERNAL(name, ...)      ROW_##name,
#include <haul/pointwise.def>
#undef HAUL_UNARY
#undef HAUL_UNARY1
#undef HAUL_UNARY2
#undef HAUL_UNARY_TO_BOOL
#undef HAUL_BINARY
#undef HAUL_COMPARE
#undef HAUL_INTERNAL
};

/* ---- calls ---- */

/* The target of a descriptor's `extra`: its row, and the form. */
typedef struct row_form {
    const haul__row *row;
    bool             scalar; /* the second operand is a scalar */
} row_form;

static const row_form *form_of(const haul__call *c)
{
    return c->operation->extra;
}

static haul__number_attributes attributes_of(const haul__call *c)
{
    return c->operation->attributes_size ? *(const haul__number_attributes *)(const void *)c->attributes
                                         : (haul__number_attributes){0, 0};
}

static bool to_bool(const haul__row *row)
{
    return row->form == HAUL__COMPARE || row->form == HAUL__UNARY_TO_BOOL;
}

static haul__number_use use_of(const haul__row *row)
{
    static const uint8_t uses[] = {[ROW_pow] = HAUL__NUMBER_EXPONENT,
                                   [ROW_eq] = HAUL__NUMBER_EQ,
                                   [ROW_ne] = HAUL__NUMBER_NE,
                                   [ROW_lt] = HAUL__NUMBER_LT,
                                   [ROW_le] = HAUL__NUMBER_LE,
                                   [ROW_gt] = HAUL__NUMBER_GT,
                                   [ROW_ge] = HAUL__NUMBER_GE,
                                   [ROW_logical_and] = HAUL__NUMBER_TRUTH,
                                   [ROW_logical_or] = HAUL__NUMBER_TRUTH,
                                   [ROW_logical_xor] = HAUL__NUMBER_TRUTH,
                                   [ROW_maximum] = HAUL__NUMBER_MAXIMUM,
                                   [ROW_minimum] = HAUL__NUMBER_MINIMUM,
                                   [ROW_clamp] = HAUL__NUMBER_CLAMP,
                                   [ROW_threshold] = HAUL__NUMBER_THRESHOLD,
                                   [sizeof haul__rows / sizeof haul__rows[0]] = 0};
    HAUL__ASSERT(haul__rows <= row && row < haul__rows + haul__row_count);
    return (haul__number_use)uses[row - haul__rows];
}

static bool takes_floats(const haul__row *row)
{
    return row->dtypes != HAUL__ROW_BITWISE && row->dtypes != HAUL__ROW_INTEGER;
}

static haul_dtype refuse_fraction(const haul__call *c, double s)
{
    haul__fail(HAUL_INVALID_ARGUMENT, c->operation->name, "s", "s is %.15g; a whole number is expected", s);
    return HAUL_DTYPE_NONE;
}

static haul_dtype common_dtype(const haul__call *c)
{
    const haul__row        *row = form_of(c)->row;
    haul__number_attributes at = attributes_of(c);
    bool                    numbers = c->operation->attributes_size > 0;
    const double            s[] = {at.s0, at.s1};
    haul_dtype              dtype = c->operands[0]->dtype;
    HAUL__ASSERT(c->count == 1 || (c->count == 2 && !numbers));
    if (c->count == 2)
        dtype = haul__promote(c, dtype, 1);
    if (!dtype || haul_dtype_is_float(dtype) || c->operation->rule == HAUL__FLOATED)
        return dtype;
    if (numbers && !haul__numbers_keep_integers(use_of(row), s))
        return takes_floats(row) ? HAUL_F32 : refuse_fraction(c, s[0]);
    if (numbers && dtype == HAUL_BOOL && row->form != HAUL__COMPARE)
        dtype = HAUL_I64;
    if (numbers && haul__check_numbers(c, use_of(row), dtype, s))
        return HAUL_DTYPE_NONE;
    if (dtype == HAUL_BOOL && row->dtypes != HAUL__ROW_ANY && row->dtypes != HAUL__ROW_BITWISE) {
        const char *name = c->operation->operands[0].name;
        haul__fail(HAUL_DTYPE, c->operation->name, name,
                   "bool operands are not accepted; cast them first, or use haul_logical_not and friends");
        return HAUL_DTYPE_NONE;
    }
    return dtype;
}

static haul_status infer(haul__call *c)
{
    haul_dtype dtype = to_bool(form_of(c)->row) ? HAUL_BOOL : c->operands[0]->dtype;
    return haul__describe_pointwise(c, dtype);
}

/* The kernel and its scalars. With integers a comparison may become another one. */
static int choose_kernel(const haul__call *c, haul_dtype dtype, double *s)
{
    static const int comparisons[] = {
        [HAUL__NUMBER_EQ] = HAUL__K_eq_scalar, [HAUL__NUMBER_NE] = HAUL__K_ne_scalar,
        [HAUL__NUMBER_LT] = HAUL__K_lt_scalar, [HAUL__NUMBER_LE] = HAUL__K_le_scalar,
        [HAUL__NUMBER_GT] = HAUL__K_gt_scalar, [HAUL__NUMBER_GE] = HAUL__K_ge_scalar,
    };
    haul__number_attributes at = attributes_of(c);
    s[0] = at.s0;
    s[1] = at.s1;
    int kernel = c->operation->kernel;
    if (c->operation->attributes_size && !haul_dtype_is_float(dtype)) {
        haul__number_use use = use_of(form_of(c)->row), fitted = haul__fit_numbers(use, dtype, s);
        HAUL__ASSERT((size_t)fitted < sizeof comparisons / sizeof *comparisons || fitted == use);
        kernel = fitted == use ? kernel : comparisons[fitted];
    }
    return haul__is_unsigned(dtype) ? haul__unsigned_kernel(kernel) : kernel;
}

static haul_status compute(haul__call *c)
{
    double     s[2];
    haul_dtype dtype = c->operands[0]->dtype;
    int        kernel = choose_kernel(c, dtype, s);
    HAUL__ASSERT(c->count == 1 || c->count == 2);
    HAUL__ASSERT(c->operands[c->count - 1]->dtype == dtype);
    pointwise_params p;
    haul_tensor     *operands[3] = {c->results[0], c->operands[0], c->operands[c->count - 1]};
    haul__layout(&p, &c->results[0]->shape, operands, 1 + c->count);
    haul__layout_stores(&p, operands, 1 + c->count);
    haul__layout_packs(&p, c->device, dtype, 1 + c->count);
    p.scalars[0] = haul__scalar_bits(dtype, s[0]);
    p.scalars[1] = haul__scalar_bits(dtype, s[1]);
    return haul__launch_kernel(c, kernel, dtype, .outs = c->results, .out_count = 1, .ins = c->operands,
                               .in_count = c->count, HAUL__PARAMS(p), .grain = HAUL__POINTWISE_GRAIN);
}

/* Where the gradient is: the current device may be another one. The scope of the gradient restores it. */
static haul_tensor *number_with(const haul_tensor *g, double value)
{
    return haul_set_device(g->storage->device) ? NULL : haul_full(g->dtype, HAUL_SCALAR_SHAPE, value);
}

static void gradient(haul__gradient *g)
{
    const row_form                *form = g->operation->extra;
    const haul__row               *row = form->row;
    const haul__number_attributes *at = g->attributes;
    bool                           numbers = g->operation->attributes_size > 0;
    HAUL__ASSERT(haul__rows <= row && row < haul__rows + haul__row_count);
    haul__row_context c = {.g = g->results[0],
                           .a = g->saved[0],
                           .b = g->saved[1],
                           .y = g->saved_results[0],
                           .s0 = numbers ? at->s0 : 0,
                           .s1 = numbers ? at->s1 : 0};
    HAUL__ASSERT(!numbers || g->count == 1);
    if (form->scalar && (row->saves & HAUL__SAVE_B))
        c.b = number_with(c.g, c.s0);
    for (int i = 0; i < g->count; i++)
        if (haul__wanted(g, i))
            g->operands[i] = haul__failed(c.b) ? NULL : row->gradient[i](&c);
}

/* ---- descriptors and public functions ---- */

#define SAVED(saves, what)   ((saves)&HAUL__SAVE_##what ? HAUL__FOR_ALL : 0)
#define AUTOCAST_ANY         HAUL__KEEP
#define AUTOCAST_NUMBER      HAUL__KEEP
#define AUTOCAST_NUMBER_WIDE HAUL__WIDE
#define AUTOCAST_FLOAT       HAUL__KEEP
#define AUTOCAST_WIDE        HAUL__WIDE
#define AUTOCAST_BITWISE     HAUL__KEEP
#define AUTOCAST_INTEGER     HAUL__KEEP
/* A scalar makes bool operands integers. */
#define DTYPES_ANY(size)           HAUL__EVERY
#define DTYPES_NUMBER(size)        ((size) ? HAUL__EVERY : HAUL__EVERY & ~HAUL__ONLY(HAUL_BOOL))
#define DTYPES_NUMBER_WIDE(size)   DTYPES_NUMBER(size)
#define DTYPES_FLOAT(size)         HAUL__FLOATS
#define DTYPES_WIDE(size)          HAUL__FLOATS
#define DTYPES_BITWISE(size)       (HAUL__INTEGERS | HAUL__UNSIGNED | HAUL__ONLY(HAUL_BOOL))
#define DTYPES_INTEGER(size)       (HAUL__INTEGERS | HAUL__UNSIGNED | ((size) ? HAUL__ONLY(HAUL_BOOL) : 0))
#define RULE_ANY                   HAUL__PROMOTED
#define RULE_NUMBER                HAUL__PROMOTED
#define RULE_NUMBER_WIDE           HAUL__PROMOTED
#define RULE_FLOAT                 HAUL__FLOATED
#define RULE_WIDE                  HAUL__FLOATED
#define RULE_BITWISE               HAUL__PROMOTED
#define RULE_INTEGER               HAUL__PROMOTED
#define GRADIENT_ANY(last)         last
#define GRADIENT_NUMBER(last)      last
#define GRADIENT_NUMBER_WIDE(last) last
#define GRADIENT_FLOAT(last)       last
#define GRADIENT_WIDE(last)        last
#define GRADIENT_BITWISE(last)     NULL
#define GRADIENT_INTEGER(last)     NULL

#define ROW_FORM(id, row_id, is_scalar) static const row_form form_##id = {&haul__rows[ROW_##row_id], is_scalar};
#define ROW_OPERATION(id, kind, saves, last, bools, size, ...)                                                         \
    HAUL__OPERATION(id) = {.name = "haul_" #id,                                                                        \
                           .operands = {__VA_ARGS__},                                                                  \
                           .results = {{"y", .saved_for = SAVED(saves, Y)}},                                           \
                           .dtypes = DTYPES_##kind(size),                                                              \
                           .rule = RULE_##kind,                                                                        \
                           .autocast = AUTOCAST_##kind,                                                                \
                           .elementwise = true,                                                                        \
                           .pointwise = true,                                                                          \
                           .to_bool = bools,                                                                           \
                           .kernel = HAUL__K_##id,                                                                     \
                           .attributes_size = size,                                                                    \
                           .extra = &form_##id,                                                                        \
                           .common_dtype = common_dtype,                                                               \
                           .infer = infer,                                                                             \
                           .compute = compute,                                                                         \
                           .gradient = GRADIENT_##kind(last),                                                          \
                           .flops = 1};
#define ROW_OPERAND(name, saves, which)                                                                                \
    {                                                                                                                  \
        name, .layout = HAUL__ANY_STRIDES, .saved_for = SAVED(saves, which)                                            \
    }
#define NUMBERS HAUL__ATTRIBUTES(haul__number_attributes)

#define NUMBER_GIVEN (&(haul__number_attributes){s, 0})
#define UNARY(name, dtypes, saves, last, bools)                                                                        \
    ROW_FORM(name, name, false)                                                                                        \
    ROW_OPERATION(name, dtypes, saves, last, bools, 0, ROW_OPERAND("x", saves, A))                                     \
    HAUL__FUNCTIONS(name, NULL, (haul_tensor * x), x)
#define HAUL_UNARY(name, dtypes, formula, saves, gx, low, high) UNARY(name, dtypes, saves, gradient, false)
#define HAUL_UNARY_TO_BOOL(name, dtypes, formula, low, high)    UNARY(name, dtypes, NOTHING, NULL, true)
#define HAUL_UNARY1(name, dtypes, formula, saves, gx, low, high)                                                       \
    ROW_FORM(name, name, false)                                                                                        \
    ROW_OPERATION(name, dtypes, saves, gradient, false, NUMBERS, ROW_OPERAND("x", saves, A))                           \
    HAUL__FUNCTIONS(name, NUMBER_GIVEN, (haul_tensor * x, double s), x)
#define HAUL_UNARY2(name, dtypes, formula, saves, gx, low, high)                                                       \
    ROW_FORM(name, name, false)                                                                                        \
    ROW_OPERATION(name, dtypes, saves, gradient, false, NUMBERS, ROW_OPERAND("x", saves, A))                           \
    HAUL__FUNCTIONS(name, (&(haul__number_attributes){s0, s1}), (haul_tensor * x, double s0, double s1), x)
#define BINARY_OPERATIONS(name, dtypes, saves, last, bools)                                                            \
    ROW_FORM(name, name, false)                                                                                        \
    ROW_FORM(name##_scalar, name, true)                                                                                \
    ROW_OPERATION(name, dtypes, saves, last, bools, 0, ROW_OPERAND("a", saves, A), ROW_OPERAND("b", saves, B))         \
    ROW_OPERATION(name##_scalar, dtypes, saves, last, bools, NUMBERS, ROW_OPERAND("a", saves, A))                      \
    HAUL__FUNCTIONS(name, NULL, (haul_tensor * a, haul_tensor * b), a, b)                                              \
    HAUL__FUNCTIONS(name##_scalar, NUMBER_GIVEN, (haul_tensor * a, double s), a)
#define HAUL_BINARY(name, dtypes, formula, saves, ga, gb, low, high)                                                   \
    BINARY_OPERATIONS(name, dtypes, saves, gradient, false)
#define HAUL_COMPARE(name, formula) BINARY_OPERATIONS(name, ANY, NOTHING, NULL, true)
#define HAUL_INTERNAL(name, dtypes, formula, saves, ga, gb, low, high)                                                 \
    ROW_FORM(name, name, false)                                                                                        \
    ROW_OPERATION(name, dtypes, saves, gradient, false, 0, ROW_OPERAND("a", saves, A), ROW_OPERAND("b", saves, B))     \
    haul_tensor *haul__##name(haul_tensor *a, haul_tensor *b)                                                          \
    {                                                                                                                  \
        return HAUL__APPLY(name, NULL, a, b);                                                                          \
    }
#include <haul/pointwise.def>
