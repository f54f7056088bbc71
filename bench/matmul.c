/* Matrix products: large, small, and those of the small CIFAR-10 network's layers. */
#include "support/bench.h"

typedef struct product {
    int64_t m, n, k;
    bool    a_transposed, b_transposed;
} product;

static haul_tensor *a, *b;

static haul_tensor *operand(int64_t rows, int64_t columns, bool transposed)
{
    haul_tensor *t = haul_uniform(HAUL_F32, transposed ? HAUL_SHAPE(columns, rows) : HAUL_SHAPE(rows, columns), -1, 1);
    return transposed ? haul_transpose(t, 0, 1) : t;
}

static bool open_product(const bench_case *c)
{
    const product *p = c->context;

    a = operand(p->m, p->k, p->a_transposed);
    b = operand(p->k, p->n, p->b_transposed);
    return !haul_error_status();
}

static bool run_product(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        haul_drop(haul_matmul(a, b));
    return !haul_error_status() && !haul_device_sync(haul_current_device());
}

#define PRODUCT(label, m, n, k, at, bt)                                                                                \
    {                                                                                                                  \
        .name = label, .unit = "GF/s", .amount = 2e-9 * (m) * (n) * (k),                                               \
        .peers = "torch:matmul " #m " " #n " " #k " " #at " " #bt, .open = open_product, .run = run_product,           \
        .threads = 2, .context = &(const product)                                                                      \
        {                                                                                                              \
            m, n, k, at, bt                                                                                            \
        }                                                                                                              \
    }

static const bench_case cases[] = {
    PRODUCT("matmul 1024", 1024, 1024, 1024, 0, 0),
    PRODUCT("matmul 1024, A transposed", 1024, 1024, 1024, 1, 0),
    PRODUCT("matmul 1024, B transposed", 1024, 1024, 1024, 0, 1),
    PRODUCT("matmul 256", 256, 256, 256, 0, 0),
    PRODUCT("matmul 64", 64, 64, 64, 0, 0),
    PRODUCT("matmul 64x120x400, forward", 64, 120, 400, 0, 1),
    PRODUCT("matmul 64x400x120, dx", 64, 400, 120, 0, 0),
    PRODUCT("matmul 120x400x64, dw", 120, 400, 64, 1, 0),
    PRODUCT("matmul 64x10x84", 64, 10, 84, 0, 1),
    PRODUCT("matmul 32x16x10", 32, 16, 10, 0, 1),
    PRODUCT("matmul 1x1024x1024", 1, 1024, 1024, 0, 0),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
