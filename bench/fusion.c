/* Chains of pointwise operations, one with a mean at its end: each step by itself, and followed, where its operations
 * are fused. */
#include <haul/recording.h>

#include "record/follow/device_chain.h"
#include "support/bench.h"

static haul_tensor    *x, *out;
static haul_recording *recording;
static int             length;

static haul_status step(void *context)
{
    (void)context;
    if (!length)
        return haul_mean_into(out, haul_square(haul_sub_scalar(x, 1)));
    haul_tensor *y = haul_mul_scalar(x, 2);
    if (length == 5)
        y = haul_mul(haul_relu(haul_add_scalar(y, 1)), x);
    return haul_add_scalar_into(out, y, 1);
}

static bool open_chain(const bench_case *c)
{
    length = *(const int *)c->context;
    x = haul_normal(HAUL_F32, HAUL_SHAPE(c->size), 0, 1);
    out = length ? haul_zeros_like(x) : haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE);
    return !haul_tensor_check(out);
}

static bool run_chain(const bench_case *c, int64_t times)
{
    (void)c;
    return bench_steps(step, times);
}

static bool open_followed(const bench_case *c)
{
    haul__chain_patience = 0;
    if (!open_chain(c))
        return false;
    recording = haul_recording_new(step, NULL, .strict = true);
    return recording && !haul_recording_run(recording) && !haul_recording_run(recording);
}

static bool run_followed(const bench_case *c, int64_t times)
{
    (void)c;
    return bench_followed(recording, times);
}

static const int two = 2, five = 5, with_mean = 0;

#define TORCH(numbers) "torch:chain " numbers ",torch:chain compiled " numbers

#define CHAIN(name, count, label, n, numbers)                                                                          \
    {name ", " label,   .unit = "us", .peers = TORCH(numbers), .open = open_chain, .run = run_chain,                   \
     .context = &count, .size = n},                                                                                    \
    {                                                                                                                  \
        name ", " label ", followed", .unit = "us", .open = open_followed, .run = run_followed, .context = &count,     \
                                      .size = n, .peers = name ", " label "," TORCH(numbers)                           \
    }

static const bench_case cases[] = {
    CHAIN("a*2+1 into", two, "16 M", 16 << 20, "2 16777216"),
    CHAIN("a*2+1 into", two, "64 K", 64 << 10, "2 65536"),
    CHAIN("five operations", five, "16 M", 16 << 20, "5 16777216"),
    CHAIN("five operations", five, "64 K", 64 << 10, "5 65536"),
    CHAIN("five operations", five, "1 K", 1 << 10, "5 1024"),
    CHAIN("mean of squares", with_mean, "16 M", 16 << 20, "0 16777216"),
    CHAIN("mean of squares", with_mean, "64 K", 64 << 10, "0 65536"),
};

int main(int argc, char **argv)
{
    return bench_main(argc, argv, cases, (int)(sizeof cases / sizeof cases[0]));
}
