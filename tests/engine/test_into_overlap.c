/* Targets that overlap operands in part: the result is as if all operands were read before the target is written. */
#include "support/into.h"

/* Long enough for several threads, and short. */
static const int64_t lengths[] = {10, 1000, 100000};

static haul_tensor *range_on(haul_device *device, int64_t n)
{
    return haul_to(haul_arange(HAUL_F32, 0, (double)n, 1), device);
}

static double at(haul_tensor *x, int64_t i)
{
    return haul_item(haul_select(x, 0, i));
}

/* x[1:] += x[:-1] */
static void shifted_sum(haul_device *device, int64_t n)
{
    haul_tensor *x = range_on(device, n), *to = haul_slice(x, 0, 1, n, 1);
    assert_succeeded(haul_add_into(to, to, haul_slice(x, 0, 0, n - 1, 1)), "a shifted sum");
    assert_true(at(x, 0) == 0 && at(x, 1) == 1 && at(x, 2) == 3 && at(x, n - 1) == 2 * (double)n - 3);
    const double last = (double)(n - 1);
    assert_true(haul_item(haul_sum(haul_cast(x, HAUL_F64))) == last * last);
}

/* x[1:] = x[:-1], and the other way */
static void shift(haul_device *device, int64_t n)
{
    haul_tensor *x = range_on(device, n), *y = range_on(device, n);
    assert_succeeded(haul_copy_into(haul_slice(x, 0, 1, n, 1), haul_slice(x, 0, 0, n - 1, 1)), "a shift");
    assert_true(at(x, 0) == 0 && at(x, 1) == 0 && at(x, n / 2) == (double)(n / 2 - 1) && at(x, n - 1) == (double)n - 2);
    assert_succeeded(haul_neg_into(haul_slice(y, 0, 0, n - 1, 1), haul_slice(y, 0, 1, n, 1)), "a shift");
    assert_true(at(y, 0) == -1 && at(y, n - 2) == 1 - (double)n && at(y, n - 1) == (double)n - 1);
}

static void reversed(haul_device *device, int64_t n)
{
    haul_tensor *x = range_on(device, n);
    assert_succeeded(haul_copy_into(x, haul_flip(x)), "reversed");
    assert_true(at(x, 0) == (double)n - 1 && at(x, n - 1) == 0 && at(x, n / 2) == (double)(n - 1 - n / 2));
}

/* m = m + m.T, matrix products and cumulative sums in place */
static void square(haul_device *device)
{
    enum { SIDE = 70 };
    haul_tensor *m = haul_reshape(range_on(device, SIDE * SIDE), HAUL_SHAPE(SIDE, SIDE));
    haul_tensor *sum = haul_add(m, haul_transpose(m, 0, 1)), *product = haul_matmul(sum, haul_transpose(sum, 0, 1));
    haul_tensor *added = haul_cumsum(product, 0);
    assert_succeeded(haul_add_into(m, m, haul_transpose(m, 0, 1)), "m + m.T");
    assert_equal_bits(m, sum, "m + m.T");
    assert_succeeded(haul_matmul_into(m, m, haul_transpose(m, 0, 1)), "m @ m.T");
    assert_equal_bits(m, product, "m @ m.T");
    assert_succeeded(haul_cumsum_into(m, m, 0), "cumsum");
    assert_equal_bits(m, added, "cumsum");
}

static void test_into_overlap__operands_are_read_first(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_device *devices[16];
    const int    count = test_devices(devices, 16);
    assert_true(count > 0);
    for (int d = 0; d < count; d++) {
        haul_device *device = devices[d];
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            shifted_sum(device, lengths[i]);
            shift(device, lengths[i]);
            reversed(device, lengths[i]);
        }
        square(device);
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_into_overlap__operands_are_read_first)};
    return cmocka_run_group_tests_name("into_overlap", tests, NULL, NULL);
}
