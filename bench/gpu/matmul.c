/* Matrix products of large square matrices. */
#include "support/bench.h"

static haul_tensor *a, *b;

static bool open_product(const bench_case *c)
{
    a = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, c->size), -0.5, 0.5);
    b = haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, c->size), -0.5, 0.5);
    return !haul_error_status();
}

static bool run_product(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_drop(haul_matmul(a, b));
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

#define PRODUCT(kind, n)                                                                                               \
    {                                                                                                                  \
        .name = "matmul " #kind " " #n, .unit = "TF/s", .amount = 2e-12 * (n) * (n) * (n),                             \
        .peers = "torch:matmul " #kind " " #n, .open = open_product, .run = run_product, .size = n                     \
    }

static const bench_case cases[] = {
    PRODUCT(f32, 4096),
    PRODUCT(f32, 8192),
    PRODUCT(f32, 2048),
    PRODUCT(f32, 1024),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
