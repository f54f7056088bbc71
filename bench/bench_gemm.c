/* Matrix products: median time and GF/s, a line for each shape. Usage: bench_gemm [DEVICE ...], cpu if none is given.
 */
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct shape {
    const char *name;
    int64_t     m, n, k;
    bool        a_transposed, b_transposed;
} shape;

static const shape shapes[] = {
    {"square 1024", 1024, 1024, 1024, false, false},
    {"square 1024, A transposed", 1024, 1024, 1024, true, false},
    {"square 1024, B transposed", 1024, 1024, 1024, false, true},
    {"square 256", 256, 256, 256, false, false},
    {"square 64", 64, 64, 64, false, false},
    {"fc 400-120 forward", 64, 120, 400, false, true},
    {"fc 400-120, dx", 64, 400, 120, false, false},
    {"fc 400-120, dw", 120, 400, 64, true, false},
    {"fc 84-10 forward", 64, 10, 84, false, true},
    {"dense 10-16, batch 32", 32, 16, 10, false, true},
    {"vector times matrix", 1, 1024, 1024, false, false},
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static haul_tensor *operand(int64_t rows, int64_t columns, bool transposed)
{
    haul_tensor *t = haul_ones(HAUL_F32, transposed ? HAUL_SHAPE(columns, rows) : HAUL_SHAPE(rows, columns));
    return transposed ? haul_transpose(t, 0, 1) : t;
}

#define RUNS 15

/* Seconds for one product: the median of RUNS measurements of at least 2 ms each. */
static double measure(const shape *s, haul_device *device)
{
    haul_tensor *a = operand(s->m, s->k, s->a_transposed), *b = operand(s->k, s->n, s->b_transposed);
    double       seconds[RUNS], flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
    int          repeat = flops < 1e8 ? (int)(1e8 / flops) + 1 : 1;
    if (repeat > 2000)
        repeat = 2000;
    for (int run = -2; run < RUNS; run++) {
        double start = now();
        for (int i = 0; i < repeat; i++)
            haul_drop(haul_matmul(a, b));
        haul_device_sync(device);
        if (run >= 0)
            seconds[run] = (now() - start) / repeat;
    }
    qsort(seconds, RUNS, sizeof seconds[0], ascending);
    return seconds[RUNS / 2];
}

static void run_device(const char *name)
{
    haul_device *device = haul_device_get(name);
    if (haul_set_device(device))
        return;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const shape *s = &shapes[i];
        haul_scope  *scope = haul_scope_push();
        double       seconds = measure(s, device), flops = 2.0 * (double)s->m * (double)s->n * (double)s->k;
        haul_scope_pop(scope);
        printf("gemm  %-9s %-26s %5lld x %5lld x %5lld  %10.1f us  %7.1f GF/s\n", name, s->name, (long long)s->m,
               (long long)s->n, (long long)s->k, seconds * 1e6, flops / seconds / 1e9);
    }
}

int main(int argc, char **argv)
{
    haul_scope *scope = haul_scope_push();
    for (int i = 1; i < argc; i++)
        run_device(argv[i]);
    if (argc < 2)
        run_device("cpu");
    haul_status status = haul_error_status();
    if (status)
        fprintf(stderr, "bench_gemm: %s\n", haul_error_message());
    haul_scope_pop(scope);
    return status != HAUL_OK;
}
