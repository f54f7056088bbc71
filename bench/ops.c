/* Single operations on the CPU: what a tiny one costs, and how fast big ones go. */
#include "support/bench.h"

static haul_tensor *a, *b;

static bool open_tiny(const bench_case *c)
{
    (void)c;
    a = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 1);
    b = haul_full(HAUL_F32, HAUL_SHAPE(1, 1), 2);
    return !haul_error_status();
}

/* A scope for every thousand results. */
static bool run_tiny_in_scopes(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times;) {
        haul_scope *scope = haul_scope_push();
        for (int64_t end = i + 1000 < times ? i + 1000 : times; i < end; i++)
            haul_add(a, b);
        haul_scope_pop(scope);
    }
    return !haul_error_status();
}

static bool run_tiny_dropped(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_drop(haul_add(a, b));
    return !haul_error_status();
}

static bool run_tiny_into(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_add_into(a, a, b);
    return !haul_error_status();
}

static bool open_vector(const bench_case *c)
{
    a = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size), -1, 1);
    return !haul_error_status();
}

static bool run_vector(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++) {
        haul_scope *scope = haul_scope_push();
        c->op(a);
        haul_scope_pop(scope);
    }
    return !haul_error_status();
}

static haul_tensor *twice_plus_one(haul_tensor *x)
{
    return haul_add_scalar(haul_mul_scalar(x, 2), 1);
}

static haul_tensor *sum(haul_tensor *x)
{
    return haul_sum(x);
}

/* Rows, columns and inner size of the products, as `size` in the table counts them. */
static const int64_t products[][3] = {{1024, 1024, 1024}, {64, 120, 400}, {32, 16, 10}};

static bool open_product(const bench_case *c)
{
    const int64_t *p = products[c->size];

    a = haul_uniform(HAUL_F32, HAUL_SHAPE(p[0], p[2]), -1, 1);
    b = haul_uniform(HAUL_F32, HAUL_SHAPE(p[2], p[1]), -1, 1);
    return !haul_error_status();
}

static bool run_product(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_drop(haul_matmul(a, b));
    return !haul_error_status();
}

enum { M = 1 << 20 };

#define TINY(label, how, who) {.name = label, .unit = "ns", .peers = who, .open = open_tiny, .run = how, .threads = 2}
#define VECTOR(label, what, n, bytes, who)                                                                             \
    {                                                                                                                  \
        .name = label, .unit = "GB/s", .amount = (double)(n) * (bytes)*1e-9, .peers = who, .open = open_vector,        \
        .run = run_vector, .threads = 2, .size = n, .op = what                                                         \
    }
#define PRODUCT(label, which, flops, who)                                                                              \
    {                                                                                                                  \
        .name = label, .unit = "GF/s", .amount = (flops)*1e-9, .peers = who, .open = open_product, .run = run_product, \
        .threads = 2, .size = which                                                                                    \
    }

static const bench_case cases[] = {
    TINY("add 1x1, scopes of 1000", run_tiny_in_scopes, "torch:add 1x1,torch:add 1x1 script"),
    TINY("add 1x1, each dropped", run_tiny_dropped, "torch:add 1x1,torch:add 1x1 script"),
    TINY("add 1x1, in place", run_tiny_into, "torch:add_ 1x1"),
    VECTOR("a*2+1, 16 M", twice_plus_one, 16 * M, 8, "torch:affine 16 M"),
    VECTOR("exp, 4 M", haul_exp, 4 * M, 8, "torch:exp 4 M"),
    VECTOR("tanh, 4 M", haul_tanh, 4 * M, 8, "torch:tanh 4 M"),
    VECTOR("gelu, 4 M", haul_gelu, 4 * M, 8, "torch:gelu 4 M"),
    VECTOR("sum, 16 M", sum, 16 * M, 4, "torch:sum 16 M"),
    PRODUCT("matmul 1024", 0, 2.0 * 1024 * 1024 * 1024, "torch:matmul 1024 1024 1024"),
    PRODUCT("matmul 64x120x400", 1, 2.0 * 64 * 120 * 400, "torch:matmul 64 120 400"),
    PRODUCT("matmul 32x16x10", 2, 2.0 * 32 * 16 * 10, "torch:matmul 32 16 10"),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
