/* Matrix products of large square matrices: f32 throughout, f32 that may be rounded to TF32, and bf16. */
#include "support/bench.h"

typedef struct kind {
    haul_dtype     dtype;
    haul_precision precision;
} kind;

static const kind f32 = {HAUL_F32, HAUL_PRECISION_HIGHEST}, tf32 = {HAUL_F32, HAUL_PRECISION_HIGH},
                  bf16 = {HAUL_BF16, HAUL_PRECISION_HIGHEST};

static haul_tensor *a, *b;

static bool open_product(const bench_case *c)
{
    const kind *k = c->context;
    if (haul_set_matmul_precision(k->precision))
        return false;
    a = haul_cast(haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, c->size), -0.5, 0.5), k->dtype);
    b = haul_cast(haul_uniform(HAUL_F32, HAUL_SHAPE(c->size, c->size), -0.5, 0.5), k->dtype);
    return !haul_error_status();
}

static bool run_product(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_drop(haul_matmul(a, b));
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

#define PRODUCT(what, n)                                                                                               \
    {                                                                                                                  \
        .name = "matmul " #what " " #n, .unit = "TF/s", .amount = 2e-12 * (n) * (n) * (n),                             \
        .peers = "torch:matmul " #what " " #n, .open = open_product, .run = run_product, .size = n, .context = &(what) \
    }

static const bench_case cases[] = {
    PRODUCT(bf16, 8192), PRODUCT(tf32, 8192), PRODUCT(f32, 4096),  PRODUCT(bf16, 4096),
    PRODUCT(tf32, 4096), PRODUCT(f32, 8192),  PRODUCT(bf16, 2048), PRODUCT(tf32, 2048),
    PRODUCT(f32, 2048),  PRODUCT(bf16, 1024), PRODUCT(tf32, 1024), PRODUCT(f32, 1024),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
