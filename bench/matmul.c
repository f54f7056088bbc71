/* Matrix products: square, with transposed operands, tall, wide, batched, in half precision, and those of the small
 * CIFAR-10 network's layers. */
#include "support/bench.h"

typedef struct product {
    int64_t    m, n, k;
    bool       a_transposed, b_transposed;
    int64_t    batch; /* 0: none */
    haul_dtype dtype; /* f32 unless given */
} product;

static haul_tensor *a, *b, *out;

static haul_tensor *operand(const product *p, int64_t rows, int64_t columns, bool transposed)
{
    int64_t      first = transposed ? columns : rows, second = transposed ? rows : columns;
    haul_shape   shape = p->batch ? HAUL_SHAPE(p->batch, first, second) : HAUL_SHAPE(first, second);
    haul_tensor *t = haul_cast(haul_uniform(HAUL_F32, shape, -1, 1), p->dtype ? p->dtype : HAUL_F32);
    return transposed ? haul_transpose(t, -2, -1) : t;
}

static bool open_product(const bench_case *c)
{
    const product *p = c->context;
    a = operand(p, p->m, p->k, p->a_transposed);
    b = operand(p, p->k, p->n, p->b_transposed);
    return !haul_error_status();
}

static bool open_into(const bench_case *c)
{
    const product *p = c->context;
    out = haul_zeros(HAUL_F32, HAUL_SHAPE(p->m, p->n));
    return open_product(c);
}

static bool run_product(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_drop(haul_matmul(a, b));
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

static bool run_into(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_matmul_into(out, a, b);
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

#define CASE(label, count, family, type, m, n, k, at, bt)                                                              \
    {                                                                                                                  \
        .name = label, .unit = "GF/s", .amount = 2e-9 * ((count) ? (count) : 1) * (m) * (n) * (k),                     \
        .peers = "torch:" family #m " " #n " " #k " " #at " " #bt " " #count, .open = open_product,                    \
        .run = run_product, .limit = "limit multiply-add", .context = &(const product)                                 \
        {                                                                                                              \
            m, n, k, at, bt, count, type                                                                               \
        }                                                                                                              \
    }
#define PRODUCT(label, ...)      CASE(label, 0, "matmul ", HAUL_F32, __VA_ARGS__)
#define BATCH(label, count, ...) CASE(label, count, "matmul ", HAUL_F32, __VA_ARGS__)

static const bench_case cases[] = {
    PRODUCT("matmul 64", 64, 64, 64, 0, 0),
    PRODUCT("matmul 128", 128, 128, 128, 0, 0),
    PRODUCT("matmul 256", 256, 256, 256, 0, 0),
    PRODUCT("matmul 256, A transposed", 256, 256, 256, 1, 0),
    PRODUCT("matmul 256, B transposed", 256, 256, 256, 0, 1),
    PRODUCT("matmul 256, both transposed", 256, 256, 256, 1, 1),
    PRODUCT("matmul 512", 512, 512, 512, 0, 0),
    PRODUCT("matmul 1000", 1000, 1000, 1000, 0, 0),
    PRODUCT("matmul 1024", 1024, 1024, 1024, 0, 0),
    PRODUCT("matmul 1024, A transposed", 1024, 1024, 1024, 1, 0),
    PRODUCT("matmul 1024, B transposed", 1024, 1024, 1024, 0, 1),
    PRODUCT("matmul 1024, both transposed", 1024, 1024, 1024, 1, 1),
    {.name = "matmul into 1024",
     .unit = "GF/s",
     .amount = 2e-9 * 1024 * 1024 * 1024,
     .peers = "torch:matmul_into 1024 1024 1024",
     .open = open_into,
     .run = run_into,
     .limit = "limit multiply-add",
     .context = &(const product){1024, 1024, 1024, 0, 0, 0, HAUL_F32}},
    PRODUCT("matmul 2048", 2048, 2048, 2048, 0, 0),
    PRODUCT("matmul 4096", 4096, 4096, 4096, 0, 0),
    PRODUCT("matmul 4096x64x64", 4096, 64, 64, 0, 0),
    PRODUCT("matmul 64x4096x64", 64, 4096, 64, 0, 0),
    PRODUCT("matmul 64x64x4096", 64, 64, 4096, 0, 0),
    PRODUCT("matmul 333x777x555", 333, 777, 555, 0, 0),
    PRODUCT("matmul 128x3072x768, forward", 128, 3072, 768, 0, 1),
    PRODUCT("matmul 768x3072x128, dw", 768, 3072, 128, 1, 0),
    PRODUCT("matmul 32x1000x512, forward", 32, 1000, 512, 0, 1),
    PRODUCT("matmul 8x1024x1024, forward", 8, 1024, 1024, 0, 1),
    PRODUCT("matmul 1x1024x1024", 1, 1024, 1024, 0, 0),
    PRODUCT("matmul 1x1024x1024, forward", 1, 1024, 1024, 0, 1),
    PRODUCT("matmul 64x120x400, forward", 64, 120, 400, 0, 1),
    PRODUCT("matmul 64x400x120, dx", 64, 400, 120, 0, 0),
    PRODUCT("matmul 120x400x64, dw", 120, 400, 64, 1, 0),
    PRODUCT("matmul 64x84x120, forward", 64, 84, 120, 0, 1),
    PRODUCT("matmul 64x10x84", 64, 10, 84, 0, 1),
    PRODUCT("matmul 32x16x10", 32, 16, 10, 0, 1),
    BATCH("matmul 256 of 32", 256, 32, 32, 32, 0, 0),
    BATCH("matmul 96 of 64", 96, 64, 64, 64, 0, 0),
    BATCH("matmul 96 of 64, B transposed", 96, 64, 64, 64, 0, 1),
    BATCH("matmul 96 of 128x64x128", 96, 128, 64, 128, 0, 0),
    CASE("matmul f16 1024", 0, "matmul f16 ", HAUL_F16, 1024, 1024, 1024, 0, 0),
    CASE("matmul bf16 1024", 0, "matmul bf16 ", HAUL_BF16, 1024, 1024, 1024, 0, 0),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
