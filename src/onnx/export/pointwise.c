/* Pointwise operations as nodes. Operands have one dtype, because conversions are calls before. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <haul/dtype.h>

#include "onnx/export/families.h"
#include "ops/attributes.h"

#define NODE         HAUL__ONNX_NODE
#define UNARY(T, a)  NODE(c->g, T, a)
#define TWO(T, a, b) NODE(c->g, T, a, b)
/* A number of the first operand's dtype. */
#define NUMBER(value) haul__onnx_add_number(c->g, c->in[0].dtype, value)

static const haul__number_attributes *numbers_of(const haul__onnx_saving *c)
{
    return c->attributes;
}

static bool is_whole(double s)
{
    return floor(s) == s && fabs(s) < 0x1p53;
}

/* The operation's number in the dtype of its operand, which may be one of integers. */
static int number(haul__onnx_saving *c, double s)
{
    const haul_dtype dtype = c->in[0].dtype;
    if (haul_dtype_is_float(dtype) || (is_whole(s) && haul__dtype_holds(dtype, s)))
        return NUMBER(s);
    return haul__onnx_cannot(c, "its number is not one of the tensor's dtype");
}

/* ---- shared ---- */

int haul__onnx_save_node(haul__onnx_saving *c)
{
    return haul__onnx_add_node(c->g, c->row->type, c->x, c->count);
}

int haul__onnx_save_not_node(haul__onnx_saving *c)
{
    return UNARY("Not", haul__onnx_save_node(c));
}

int haul__onnx_save_number(haul__onnx_saving *c)
{
    const int s = number(c, numbers_of(c)->s0);
    return c->why ? s : TWO(c->row->type, c->x[0], s);
}

int haul__onnx_save_not_number(haul__onnx_saving *c)
{
    return UNARY("Not", haul__onnx_save_number(c));
}

int haul__onnx_save_number_first(haul__onnx_saving *c)
{
    const int s = number(c, numbers_of(c)->s0);
    return c->why ? s : TWO(c->row->type, s, c->x[0]);
}

/* Of bool it is "or" or "and". */
int haul__onnx_save_either(haul__onnx_saving *c)
{
    if (c->in[0].dtype != HAUL_BOOL)
        return haul__onnx_save_node(c);
    return TWO(strcmp(c->row->type, "Add") ? "And" : "Or", c->x[0], c->x[1]);
}

int haul__onnx_save_bits(haul__onnx_saving *c)
{
    return haul__onnx_add_node(c->g, c->row->type + (c->in[0].dtype == HAUL_BOOL ? strlen("Bitwise") : 0), c->x,
                               c->count);
}

/* Operands that are not 0. */
int haul__onnx_save_truth(haul__onnx_saving *c)
{
    int x[2] = {HAUL__ONNX_ABSENT, HAUL__ONNX_ABSENT};
    for (int i = 0; i < c->count && i < 2; i++)
        x[i] = c->in[i].dtype == HAUL_BOOL ? c->x[i] : haul__onnx_add_cast(c->g, c->x[i], HAUL_BOOL);
    return haul__onnx_add_node(c->g, c->row->type, x, c->count);
}

int haul__onnx_save_alpha(haul__onnx_saving *c)
{
    const int y = haul__onnx_save_node(c);
    haul__onnx_set_float(c->g, "alpha", numbers_of(c)->s0);
    return y;
}

/* ---- exponentials and logarithms ---- */

int haul__onnx_save_power_of(haul__onnx_saving *c)
{
    return TWO("Pow", NUMBER(atoi(c->row->type)), c->x[0]);
}

int haul__onnx_save_logarithm(haul__onnx_saving *c)
{
    return TWO("Mul", UNARY("Log", c->x[0]), NUMBER(1 / log(atoi(c->row->type))));
}

int haul__onnx_save_expm1(haul__onnx_saving *c)
{
    return TWO("Sub", UNARY("Exp", c->x[0]), NUMBER(1));
}

int haul__onnx_save_log1p(haul__onnx_saving *c)
{
    return UNARY("Log", TWO("Add", c->x[0], NUMBER(1)));
}

/* max + log(1 + exp(-|a - b|)) */
int haul__onnx_save_logaddexp(haul__onnx_saving *c)
{
    const int apart = UNARY("Abs", TWO("Sub", c->x[0], c->x[1]));
    return TWO("Add", TWO("Max", c->x[0], c->x[1]), UNARY("Softplus", UNARY("Neg", apart)));
}

int haul__onnx_save_softplus_beta(haul__onnx_saving *c)
{
    const int beta = NUMBER(numbers_of(c)->s0), steep = TWO("Mul", c->x[0], beta);
    const int curve = TWO("Div", UNARY("Softplus", steep), beta);
    return NODE(c->g, "Where", TWO("Greater", steep, NUMBER(numbers_of(c)->s1)), c->x[0], curve);
}

/* ---- other functions ---- */

int haul__onnx_save_square(haul__onnx_saving *c)
{
    return TWO("Mul", c->x[0], c->x[0]);
}

int haul__onnx_save_rsqrt(haul__onnx_saving *c)
{
    return UNARY("Reciprocal", UNARY("Sqrt", c->x[0]));
}

int haul__onnx_save_hypot(haul__onnx_saving *c)
{
    return UNARY("Sqrt", TWO("Add", TWO("Mul", c->x[0], c->x[0]), TWO("Mul", c->x[1], c->x[1])));
}

int haul__onnx_save_silu(haul__onnx_saving *c)
{
    return TWO("Mul", c->x[0], UNARY("Sigmoid", c->x[0]));
}

int haul__onnx_save_erfc(haul__onnx_saving *c)
{
    return TWO("Sub", NUMBER(1), UNARY("Erf", c->x[0]));
}

/* x (1 + erf(x / sqrt(2))) / 2, or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)) */
static int gelu_of_nodes(haul__onnx_saving *c)
{
    const int x = c->x[0];
    int       inner;
    if (strcmp(c->row->type, "tanh")) {
        inner = UNARY("Erf", TWO("Mul", x, NUMBER(0.70710678118654752)));
    } else {
        const int cube = TWO("Mul", x, TWO("Mul", x, x));
        inner = TWO("Add", x, TWO("Mul", cube, NUMBER(0.044715)));
        inner = UNARY("Tanh", TWO("Mul", inner, NUMBER(0.79788456080286536)));
    }
    return TWO("Mul", TWO("Mul", x, NUMBER(0.5)), TWO("Add", inner, NUMBER(1)));
}

int haul__onnx_save_gelu(haul__onnx_saving *c)
{
    if (c->g->opset < 20)
        return gelu_of_nodes(c);
    const int y = UNARY("Gelu", c->x[0]);
    if (strcmp(c->row->type, "none"))
        haul__onnx_set_text(c->g, "approximate", c->row->type);
    return y;
}

int haul__onnx_save_hardsigmoid(haul__onnx_saving *c)
{
    const int y = UNARY("HardSigmoid", c->x[0]);
    haul__onnx_set_float(c->g, "alpha", 1.0 / 6);
    haul__onnx_set_float(c->g, "beta", 0.5);
    return y;
}

int haul__onnx_save_selu(haul__onnx_saving *c)
{
    const int y = UNARY("Selu", c->x[0]);
    haul__onnx_set_float(c->g, "alpha", 1.6732632423543772);
    haul__onnx_set_float(c->g, "gamma", 1.0507009873554805);
    return y;
}

int haul__onnx_save_affine(haul__onnx_saving *c)
{
    const haul__number_attributes *a = numbers_of(c);
    return TWO("Add", TWO("Mul", c->x[0], NUMBER(a->s0)), NUMBER(a->s1));
}

/* Bounds that no element exceeds are left out; a number between two of integers is rounded inwards. */
int haul__onnx_save_clamp(haul__onnx_saving *c)
{
    const haul_dtype dtype = c->in[0].dtype;
    const bool       whole = !haul_dtype_is_float(dtype);
    const double     low = whole ? ceil(numbers_of(c)->s0) : numbers_of(c)->s0;
    const double     high = whole ? floor(numbers_of(c)->s1) : numbers_of(c)->s1;
    const bool       has_low = low > -INFINITY, has_high = high < INFINITY;
    if ((has_low && !haul__dtype_holds(dtype, low)) || (has_high && !haul__dtype_holds(dtype, high)))
        return haul__onnx_cannot(c, "a bound is not a number of the tensor's dtype");
    return NODE(c->g, "Clip", c->x[0], has_low ? NUMBER(low) : HAUL__ONNX_ABSENT,
                has_high ? NUMBER(high) : HAUL__ONNX_ABSENT);
}

/* x where it is above, or NaN */
int haul__onnx_save_threshold(haul__onnx_saving *c)
{
    const int limit = number(c, numbers_of(c)->s0), other = number(c, numbers_of(c)->s1);
    return c->why ? limit : NODE(c->g, "Where", TWO("LessOrEqual", c->x[0], limit), other, c->x[0]);
}

int haul__onnx_save_trunc(haul__onnx_saving *c)
{
    if (!haul_dtype_is_float(c->in[0].dtype))
        return c->x[0];
    return TWO("Mul", UNARY("Sign", c->x[0]), UNARY("Floor", UNARY("Abs", c->x[0])));
}

/* The quotient rounded downwards, or towards 0, as ONNX divides integers. */
int haul__onnx_save_quotient(haul__onnx_saving *c)
{
    const int  y = TWO("Div", c->x[0], c->x[1]);
    const bool whole = !haul_dtype_is_float(c->in[0].dtype);
    if (!strcmp(c->row->type, "Floor"))
        return whole ? haul__onnx_cannot(c, "ONNX divides integers towards 0") : UNARY("Floor", y);
    return whole ? y : TWO("Mul", UNARY("Sign", y), UNARY("Floor", UNARY("Abs", y)));
}

int haul__onnx_save_remainder(haul__onnx_saving *c)
{
    if (!haul_dtype_is_float(c->in[0].dtype))
        return TWO("Mod", c->x[0], c->x[1]);
    return TWO("Sub", c->x[0], TWO("Mul", c->x[1], UNARY("Floor", TWO("Div", c->x[0], c->x[1]))));
}

int haul__onnx_save_fmod(haul__onnx_saving *c)
{
    const int y = TWO("Mod", c->x[0], c->x[1]);
    haul__onnx_set_int(c->g, "fmod", 1);
    return y;
}

int haul__onnx_save_isfinite(haul__onnx_saving *c)
{
    return UNARY("Not", TWO("Or", UNARY("IsNaN", c->x[0]), UNARY("IsInf", c->x[0])));
}

int haul__onnx_save_nan_to_num(haul__onnx_saving *c)
{
    const haul__number_attributes *a = numbers_of(c);
    if (!haul_dtype_is_float(c->in[0].dtype))
        return c->x[0];
    const int large = UNARY("IsInf", c->x[0]);
    const int signs = TWO("Mul", UNARY("Sign", c->x[0]), NUMBER(a->s1));
    const int finite = NODE(c->g, "Where", large, signs, c->x[0]);
    return NODE(c->g, "Where", UNARY("IsNaN", c->x[0]), NUMBER(a->s0), finite);
}

/* ---- three operands ---- */

int haul__onnx_save_where_scalar(haul__onnx_saving *c)
{
    const double s = ((const haul__where_scalar_attributes *)c->attributes)->s;
    return NODE(c->g, "Where", c->x[0], c->x[1], haul__onnx_add_number(c->g, c->in[1].dtype, s));
}

int haul__onnx_save_masked_fill(haul__onnx_saving *c)
{
    return NODE(c->g, "Where", c->x[1], NUMBER(((const haul__masked_fill_attributes *)c->attributes)->value), c->x[0]);
}

/* a + weight (b - a) */
int haul__onnx_save_lerp(haul__onnx_saving *c)
{
    const int weight = c->count > 2 ? c->x[2] : NUMBER(numbers_of(c)->s0);
    return TWO("Add", c->x[0], TWO("Mul", TWO("Sub", c->x[1], c->x[0]), weight));
}

/* x + s a b, or x + s a / b */
int haul__onnx_save_addc(haul__onnx_saving *c)
{
    return TWO("Add", c->x[0], TWO("Mul", TWO(c->row->type, c->x[1], c->x[2]), NUMBER(numbers_of(c)->s0)));
}
