/* Pointwise operations on vectors of 4 Mi and 16 Mi floats. */
#include "support/operation.h"

static haul_tensor *other, *out;

static haul_tensor *exp_into(haul_tensor *x)
{
    haul_exp_into(out, x);
    return out;
}

static haul_tensor *add(haul_tensor *x)
{
    return haul_add(x, other);
}

static haul_tensor *add_into(haul_tensor *x)
{
    haul_add_into(out, x, other);
    return out;
}

static haul_tensor *twice_plus_one(haul_tensor *x)
{
    return haul_add_scalar(haul_mul_scalar(x, 2), 1);
}

static haul_tensor *fill(haul_tensor *x)
{
    haul_fill_into(x, 1);
    return x;
}

static haul_tensor *ones(haul_tensor *x)
{
    return haul_ones_like(x);
}

/* ---- operands ---- */

static haul_tensor *positive(haul_tensor *x)
{
    return haul_add_scalar(haul_abs(x), 1e-6);
}

static haul_tensor *with_out(haul_tensor *x)
{
    out = haul_zeros_like(x);
    return x;
}

static haul_tensor *with_other(haul_tensor *x)
{
    other = haul_full_like(x, 0.5);
    return with_out(x);
}

enum { M = 1 << 20 };
#define COPY_4M .limit = "limit copy, 4 M"

static const operation table[] = {
    {"exp", {4 * M}, haul_exp, .bytes = 8, COPY_4M},
    {"exp into", {4 * M}, exp_into, .bytes = 8, .prepare = with_out, COPY_4M},
    {"log", {4 * M}, haul_log, .bytes = 8, .prepare = positive, COPY_4M},
    {"tanh", {4 * M}, haul_tanh, .bytes = 8, COPY_4M},
    {"sigmoid", {4 * M}, haul_sigmoid, .bytes = 8, COPY_4M},
    {"erf", {4 * M}, haul_erf, .bytes = 8, COPY_4M},
    {"sin", {4 * M}, haul_sin, .bytes = 8, COPY_4M},
    {"cos", {4 * M}, haul_cos, .bytes = 8, COPY_4M},
    {"silu", {4 * M}, haul_silu, .bytes = 8, COPY_4M},
    {"softplus", {4 * M}, haul_softplus, .bytes = 8, COPY_4M},
    {"gelu", {4 * M}, haul_gelu, .bytes = 8, COPY_4M},
    {"gelu with gradient", {4 * M}, haul_gelu, .bytes = 20, .gradient = true, COPY_4M},
    {"tanh with gradient", {4 * M}, haul_tanh, .bytes = 20, .gradient = true, COPY_4M},
    {"relu", {16 * M}, haul_relu, .bytes = 8, .limit = "limit copy, 16 M"},
    {"add", {16 * M}, add, .bytes = 12, .prepare = with_other, .limit = "limit add, 16 M"},
    {"add into", {16 * M}, add_into, .bytes = 12, .prepare = with_other, .limit = "limit add, 16 M"},
    {"a*2+1", {16 * M}, twice_plus_one, .bytes = 8, .limit = "limit copy, 16 M", .variants = {"fused"}},
    {"fill", {16 * M}, fill, .bytes = 4, .limit = "limit fill, 16 M"},
    {"ones", {16 * M}, ones, .bytes = 4, .limit = "limit fill, 16 M"},
};

int main(int argc, char **argv)
{
    return operation_main(argc, argv, table, (int)(sizeof table / sizeof table[0]));
}
