/* The functions of f32 that kernel text computes itself: errors against the C library's double precision, over bit
 * patterns of all magnitudes, and the same bits on every device and instruction level.
 *
 * ctest: cuda; ptx */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/conformance/conformance.h"

enum { PATTERNS = 1 << 20, STRIDE = 4093, DEVICES = 8 };

static const uint32_t special[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000, 0x3f800000,
                                   0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000,
                                   0x47c34fff, 0x47c35000, 0xc7c35000, 0x42b17218, 0xc2cff1b5, 0x3f19999a, 0x41118a2f};

static double sigmoid(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

static double silu(double x)
{
    return x == -INFINITY ? 0 : x * sigmoid(x);
}

static double softplus(double x)
{
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double gelu(double x)
{
    return x == -INFINITY ? 0 : 0.5 * x * erfc(-x * 0.70710678118654752440);
}

/* `far` holds for |x| of 1e5 and more. Measured on every 499th float; the table has some room. */
static const struct function {
    const char *name;
    haul_tensor *(*call)(haul_tensor *x);
    double (*exact)(double x);
    double ulps, far;
} functions[] = {
    {"exp", haul_exp, exp, 0.9, 0.9},
    {"log", haul_log, log, 0.9, 0.9},
    {"tanh", haul_tanh, tanh, 1.4, 1.4},
    {"sigmoid", haul_sigmoid, sigmoid, 2.1, 2.1},
    {"erf", haul_erf, erf, 1.0, 1.0},
    {"sin", haul_sin, sin, 1.5, 2.6},
    {"cos", haul_cos, cos, 1.5, 2.6},
    {"silu", haul_silu, silu, 2.3, 2.3},
    {"softplus", haul_softplus, softplus, 1.6, 1.6},
    {"gelu", haul_gelu, gelu, 4.6, 4.6},
    {"exp2", haul_exp2, exp2, 0.9, 0.9},
    {"log2", haul_log2, log2, 1.8, 1.8},
    {"log10", haul_log10, log10, 1.9, 1.9},
    {"tan", haul_tan, tan, 2.5, 4.1},
    {"asin", haul_asin, asin, 1.9, 1.9},
    {"acos", haul_acos, acos, 1.2, 1.2},
    {"atan", haul_atan, atan, 1.3, 1.3},
    {"sinh", haul_sinh, sinh, 1.6, 1.6},
    {"cosh", haul_cosh, cosh, 1.4, 1.4},
    {"asinh", haul_asinh, asinh, 2.0, 2.0},
    {"acosh", haul_acosh, acosh, 1.8, 1.8},
    {"atanh", haul_atanh, atanh, 2.1, 2.1},
    {"erfc", haul_erfc, erfc, 4.0, 4.0},
};
enum { FUNCTIONS = sizeof functions / sizeof functions[0] };

static uint32_t pattern(int i)
{
    const int specials = sizeof special / sizeof special[0];
    return i < specials ? special[i] : (uint32_t)i * STRIDE;
}

/* A fresh tensor of the patterns. */
static haul_tensor *patterns(haul_device *device)
{
    uint32_t *bits = malloc(PATTERNS * sizeof *bits);
    assert_non_null(bits);
    for (int i = 0; i < PATTERNS; i++)
        bits[i] = pattern(i);
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(PATTERNS), bits), device);
    free(bits);
    assert_true(haul_tensor_is_valid(x));
    return x;
}

/* f of all patterns on the device, into `out`. */
static void compute(const struct function *f, haul_device *device, float *out)
{
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_read(f->call(patterns(device)), out, PATTERNS * sizeof *out), HAUL_OK);
    haul_scope_pop(scope);
}

static double error_in_ulps(float got, double want)
{
    if (got != got || want != want)
        return (got != got) == (want != want) ? 0 : INFINITY;
    const float near = fabsf((float)want);
    if (isinf(near) || isinf(got))
        return (double)got == want || (isinf(near) && isinf(got) && !signbit(got) == !signbit(want)) ? 0 : INFINITY;
    return fabs((double)got - want) / (double)(nextafterf(near, INFINITY) - near);
}

static void test_functions__errors_are_small(void **state)
{
    haul_device *devices[DEVICES];
    float       *got = malloc(PATTERNS * sizeof *got);
    (void)state;
    assert_non_null(got);
    test_devices(devices, DEVICES);
    for (const struct function *f = functions; f < functions + FUNCTIONS; f++) {
        double worst[2] = {0, 0};
        float  at[2] = {0, 0};
        compute(f, devices[0], got);
        for (int i = 0; i < PATTERNS; i++) {
            const uint32_t bits = pattern(i);
            float          x;
            memcpy(&x, &bits, sizeof x);
            const int    far = fabsf(x) >= 1e5f;
            const double error = error_in_ulps(got[i], f->exact((double)x));
            if (error > worst[far])
                worst[far] = error, at[far] = x;
        }
        printf("%-9s %.2f ulp at %.9g; beyond 1e5 %.2f at %.9g\n", f->name, worst[0], (double)at[0], worst[1],
               (double)at[1]);
        assert_true(worst[0] <= f->ulps && worst[1] <= f->far);
    }
    free(got);
}

static void test_functions__devices_give_the_same_bits(void **state)
{
    haul_device *devices[DEVICES];
    const int    count = test_devices(devices, DEVICES);
    float       *want = malloc(PATTERNS * sizeof *want), *got = malloc(PATTERNS * sizeof *got);
    (void)state;
    assert_true(want && got);
    for (const struct function *f = functions; f < functions + FUNCTIONS; f++) {
        compute(f, devices[0], want);
        for (int d = 1; d < count; d++) {
            compute(f, devices[d], got);
            for (int i = 0; i < PATTERNS; i++)
                if (memcmp(&got[i], &want[i], sizeof *got) != 0 && !(got[i] != got[i] && want[i] != want[i]))
                    fail_msg("%s of the bits %08x is %.9g on %s and %.9g on %s", f->name, (unsigned)pattern(i),
                             (double)got[i], haul_device_name(devices[d]), (double)want[i],
                             haul_device_name(devices[0]));
        }
    }
    free(want);
    free(got);
}

/* The sum of the results' bits, NaN as one value. */
static uint64_t fingerprint(void)
{
    float   *got = malloc(PATTERNS * sizeof *got);
    uint64_t sum = 14695981039346656037u;
    for (const struct function *f = functions; got && f < functions + FUNCTIONS; f++) {
        compute(f, haul_cpu(), got);
        for (int i = 0; i < PATTERNS; i++) {
            uint32_t bits = 0x7fc00000;
            if (got[i] == got[i])
                memcpy(&bits, &got[i], sizeof bits);
            sum = (sum ^ bits) * 1099511628211u;
        }
    }
    free(got);
    return sum;
}

/* The fingerprint of a process that uses the level; 0 if it cannot. */
static uint64_t at_level(const char *level)
{
    int      ends[2];
    uint64_t sum = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("HAUL_CPU_LEVEL", level, 1);
        if (haul_device_is_valid(haul_cpu()))
            sum = fingerprint();
        _exit(write(ends[1], &sum, sizeof sum) == (ssize_t)sizeof sum ? 0 : 1);
    }
    int status;
    close(ends[1]);
    assert_int_equal(read(ends[0], &sum, sizeof sum), (ssize_t)sizeof sum);
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return sum;
}

/* Before anything else uses the CPU, since a process chooses its level once. */
static void test_functions__levels_give_the_same_bits(void **state)
{
    static const char *const levels[] = {"base", "v3", "v4"};
    uint64_t                 first = 0;
    (void)state;
    for (int i = 0; i < 3; i++) {
        const uint64_t sum = at_level(levels[i]);
        printf("level %-4s %016llx\n", levels[i], (unsigned long long)sum);
        if (sum && first)
            assert_int_equal(sum, first);
        first = sum ? sum : first;
    }
    assert_true(first != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions__levels_give_the_same_bits),
        cmocka_unit_test(test_functions__errors_are_small),
        cmocka_unit_test(test_functions__devices_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
