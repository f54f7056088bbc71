/* The integer division of kernels on NVIDIA GPUs, which is no instruction there: CUDA's prelude read as C. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>

#define __device__
#define __forceinline__       inline
#define HAUL_KERNEL_DTYPE_f32 1
#define HAUL_KERNEL_SUFFIX    f32
#include "ops/kernel/prelude_cuda.h"

static uint64_t state = 1;

/* Numbers of every length. */
static int64_t random_number(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state ^ state >> 29) >> (1 + (state >> 58) % 63));
}

static void test_division__quotients_of_any_length(void **unused)
{
    (void)unused;
    for (int i = 0; i < 200000; i++) {
        int64_t a = random_number(), b = random_number();
        b += b == 0;
        assert_int_equal(QUOTIENT(a, b), a / b);
        assert_int_equal(REMAINDER(a, b), a % b);
    }
    for (int64_t b = 1; b > 0 && b < INT64_MAX / 2; b *= 2)
        for (int64_t a = b - 1; a <= b + 1; a++) {
            assert_int_equal(QUOTIENT(a, b), a / b);
            assert_int_equal(QUOTIENT(INT64_MAX, b), INT64_MAX / b);
            assert_int_equal(QUOTIENT(INT64_MAX, b + 1), INT64_MAX / (b + 1));
        }
    assert_int_equal(QUOTIENT(INT64_MAX, INT64_MAX), 1);
}

/* What lies before an edge: the result is not used, but it ends soon. */
static void test_division__negative_numbers_give_nothing(void **unused)
{
    (void)unused;
    assert_int_equal(QUOTIENT(-1, 3), 0);
    assert_int_equal(QUOTIENT(INT64_MIN, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_division__quotients_of_any_length),
        cmocka_unit_test(test_division__negative_numbers_give_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
