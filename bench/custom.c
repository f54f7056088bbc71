/* Operations of a program's own against the library's: what a call costs, and how fast a kernel goes that the program's
 * compiler made. */
#include <haul/kernel.h>

#include "support/bench.h"

static haul_tensor *operand;

// clang-format off
HAUL_KERNEL2(silu_kernel, T, y, const T, x, {
    FOR_ITEMS(i) STORE(y, i, LOAD(x, i) * M_SIGMOID(LOAD(x, i)));
});
// clang-format on

static haul_status host_silu(const haul_custom_call *c)
{
    const float *from = c->operands[0].data;
    float       *to = c->results[0].data;
    for (int64_t i = 0; i < c->operands[0].count; i++)
        to[i] = from[i] / (1 + expf(-from[i]));
    return HAUL_OK;
}

static haul_status compose_silu(const haul_custom_call *c, haul_tensor *const *in, haul_tensor **y)
{
    (void)c;
    y[0] = haul_silu(in[0]);
    return HAUL_OK;
}

static haul_custom_operation by_kernel = {
    .name = "bench_kernel", .operands = {{"x"}}, .results = {{"y"}}, .kernel = &silu_kernel};
static haul_custom_operation by_host = {.name = "bench_host",
                                        .operands = {{"x"}},
                                        .results = {{"y"}},
                                        .dtypes = HAUL_DTYPE_BIT(HAUL_F32),
                                        .host = host_silu};
static haul_custom_operation by_operations = {
    .name = "bench_operations", .operands = {{"x"}}, .results = {{"y"}}, .compose = compose_silu};

static haul_tensor *own_kernel(haul_tensor *t)
{
    return haul_apply(&by_kernel, NULL, t);
}

static haul_tensor *own_host(haul_tensor *t)
{
    return haul_apply(&by_host, NULL, t);
}

static haul_tensor *own_operations(haul_tensor *t)
{
    return haul_apply(&by_operations, NULL, t);
}

static bool open(const bench_case *c)
{
    operand = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size), -1, 1);
    return !haul_error_status();
}

static bool run(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        haul_drop(c->op(operand));
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

enum { M = 1 << 20 };

#define TINY(label, what)                                                                                              \
    {                                                                                                                  \
        .name = label, .unit = "ns", .open = open, .run = run, .threads = 2, .size = 1, .op = what                     \
    }
#define VECTOR(label, what)                                                                                            \
    {                                                                                                                  \
        .name = label, .unit = "GB/s", .amount = 4 * M * 8e-9, .open = open, .run = run, .threads = 2, .size = 4 * M,  \
        .op = what                                                                                                     \
    }

static const bench_case cases[] = {
    TINY("silu 1", haul_silu),
    TINY("own silu 1, kernel", own_kernel),
    TINY("own silu 1, host", own_host),
    TINY("own silu 1, operations", own_operations),
    VECTOR("silu, 4 M", haul_silu),
    VECTOR("own silu, 4 M, kernel", own_kernel),
    VECTOR("own silu, 4 M, host", own_host),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
