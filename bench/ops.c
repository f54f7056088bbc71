/* Pointwise operations and a sum: what a tiny one costs, and how fast big ones go. */
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
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static haul_tensor *twice_plus_one(haul_tensor *x)
{
    return haul_add_scalar(haul_mul_scalar(x, 2), 1);
}

static haul_tensor *sum(haul_tensor *x)
{
    return haul_sum(x);
}

enum { M = 1 << 20 };

#define TINY(label, how, who)                                                                                          \
    {                                                                                                                  \
        .name = label, .unit = "ns", .peers = who, .open = open_tiny, .run = how, .threads = 2                         \
    }
#define VECTOR(label, what, n, bytes, who)                                                                             \
    {                                                                                                                  \
        .name = label, .unit = "GB/s", .amount = (double)(n) * (bytes)*1e-9, .peers = who, .open = open_vector,        \
        .run = run_vector, .threads = 2, .size = n, .op = what                                                         \
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
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
