/* Keeping a sequence of operations on the device: one transfer each way, compared with transfers for every operation.
 *
 *     sequence [DEVICE] */
#include <haul/haul.h>
#include <stdio.h>
#include <time.h>

#define COUNT (1 << 20)
#define STEPS 10

static double now(void)
{
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* x is moved once, all steps run on the device, and the result is moved back once. */
static haul_tensor *stay(haul_tensor *x, haul_device *device)
{
    haul_tensor *y = haul_to(x, device);
    for (int i = 0; i < STEPS; i++)
        y = haul_tanh(haul_add_scalar(haul_mul_scalar(y, 2), 1));
    return haul_to(y, haul_cpu());
}

/* Every result is moved to the host and back. */
static haul_tensor *commute(haul_tensor *x, haul_device *device)
{
    haul_tensor *y = x;
    for (int i = 0; i < STEPS; i++) {
        y = haul_to(haul_mul_scalar(haul_to(y, device), 2), haul_cpu());
        y = haul_to(haul_add_scalar(haul_to(y, device), 1), haul_cpu());
        y = haul_to(haul_tanh(haul_to(y, device)), haul_cpu());
    }
    return y;
}

static void run(const char *what, haul_tensor *(*f)(haul_tensor *, haul_device *), haul_tensor *x, haul_device *device,
                int64_t trips)
{
    haul_scope *scope = haul_scope_push();
    haul_budget(.h2d_bytes = 2 * trips * COUNT * 4, .d2h_bytes = 2 * trips * COUNT * 4, .waits = 1); /* the sum */
    f(x, device); /* a first, untimed call: kernels are compiled on first use */
    haul_transfer_stats stats;
    haul_transfer_stats_reset();
    double       start = now();
    haul_tensor *y = f(x, device);
    double       sum = haul_item(haul_sum(y)), seconds = now() - start;
    haul_transfer_stats_get(&stats);
    printf("%-22s %7.2f ms, %3lld transfers, %6.1f MB, sum %.1f\n", what, seconds * 1e3,
           (long long)(stats.h2d_count + stats.d2h_count), (double)(stats.h2d_bytes + stats.d2h_bytes) / 1e6, sum);
    haul_scope_pop(scope);
}

int main(int argc, char **argv)
{
    haul_scope  *program = haul_scope_push();
    haul_device *device = haul_device_get(argc > 1 ? argv[1] : "auto");
    haul_tensor *x = haul_pin(haul_uniform(HAUL_F32, HAUL_SHAPE(COUNT), -1, 1), device); /* moves make nobody wait */
    run("one transfer each way", stay, x, device, 1);
    run("one per operation", commute, x, device, 3 * STEPS);
    haul_scope_pop(program);
    if (haul_error_status())
        fprintf(stderr, "%s\n", haul_error_message());
    return haul_error_status() != HAUL_OK;
}
