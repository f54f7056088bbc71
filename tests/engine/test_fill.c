/* Fills of every short length, at every distance from a cache line's start, and of a length that threads share: each
 * element, and those before and after. */
#include "support/linalg.h"

enum { ROOM = 160, LONG = 3 * 1000 * 1000 };

static const haul_dtype dtypes[] = {HAUL_BOOL, HAUL_U8, HAUL_I16, HAUL_F16, HAUL_I32, HAUL_F32, HAUL_I64, HAUL_F64};

/* x is 0 except for elements from `first` to `last`, which are 1. */
static void assert_filled(haul_tensor *x, int64_t first, int64_t last)
{
    const int64_t count = haul_tensor_count(x);
    uint8_t      *got = malloc((size_t)count);
    assert_non_null(got);
    assert_int_equal(haul_read(haul_cast(x, HAUL_U8), got, (size_t)count), HAUL_OK);
    for (int64_t i = 0; i < count; i++)
        if (got[i] != (i >= first && i < last))
            fail_msg("%s, %lld to %lld: element %lld is %d", haul_dtype_name(haul_tensor_dtype(x)), (long long)first,
                     (long long)last, (long long)i, got[i]);
    free(got);
}

static void fill_part(haul_device *device, haul_dtype dtype, int64_t count, int64_t first, int64_t last)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_to(haul_zeros(dtype, HAUL_SHAPE(count)), device);
    assert_int_equal(haul_fill_into(haul_slice(x, 0, first, last, 1), 1), HAUL_OK);
    assert_filled(x, first, last);
    haul_scope_pop(scope);
}

static void fill_parts(haul_device *device)
{
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
        for (int64_t length = 0; length <= 80; length++)
            fill_part(device, dtypes[d], ROOM, length * 7 % 64, length * 7 % 64 + length);
        fill_part(device, dtypes[d], LONG, 5, LONG - 3);
    }
}

static void test_fill__each_length(void **state)
{
    (void)state;
    on_devices(fill_parts);
}

/* A fill needs no memory that a limit could refuse. */
static void fill_at_the_limit(haul_device *device)
{
    haul_scope       *scope = haul_scope_push();
    haul_tensor      *x = haul_to(haul_empty(HAUL_F32, HAUL_SHAPE(4 << 20)), device);
    haul_memory_stats stats;
    assert_non_null(x);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    assert_int_equal(haul_memory_set_tensor_limit(device, stats.reserved), HAUL_OK);
    assert_int_equal(haul_fill_into(x, 2), HAUL_OK);
    assert_int_equal(haul_memory_set_tensor_limit(device, 0), HAUL_OK);
    assert_float_equal(haul_item(haul_sum(x)), 2.0 * (4 << 20), 0);
    haul_scope_pop(scope);
}

static void test_fill__at_the_limit_of_memory(void **state)
{
    (void)state;
    on_devices(fill_at_the_limit);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fill__each_length),
        cmocka_unit_test(test_fill__at_the_limit_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
