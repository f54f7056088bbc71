/* Large copies between devices whose elements are gathered or converted on the way, from the CPU in parts: the right
 * bytes, one copy in all counts, no waits, and failures in any part.
 * ctest: cuda; labels=threads */
#include "support/moves.h"

enum { ROWS = 1037, COLUMNS = 1031 }; /* 4.3 MB of f32 */

/* Rows of a matrix with gaps between them; the same transposed; another dtype; a dimension of one row. */
static haul_tensor *make(haul_device *device, int form)
{
    assert_int_equal(haul_set_device(device), HAUL_OK);
    haul_tensor *wide = haul_to(iota(ROWS, 2 * COLUMNS), device);
    haul_tensor *x = haul_slice(wide, 1, 0, 2 * COLUMNS, 2);
    return form == 0 ? x : form == 1 ? transposed(x) : form == 2 ? haul_contiguous(wide) : haul_unsqueeze(x, 0);
}

static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F32, HAUL_BF16, HAUL_F32};
enum { FORMS = sizeof dtypes / sizeof dtypes[0] };

/* As bytes of the CPU; the caller frees them. */
static void *bytes_of(haul_tensor *t, size_t *size)
{
    *size = haul_tensor_bytes(t);
    void *bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(haul_read(t, bytes, *size), HAUL_OK);
    return bytes;
}

static void assert_same(haul_tensor *a, haul_tensor *b)
{
    size_t size_a, size_b;
    void  *bytes_a = bytes_of(a, &size_a), *bytes_b = bytes_of(b, &size_b);
    assert_int_equal(size_a, size_b);
    assert_memory_equal(bytes_a, bytes_b, size_a);
    free(bytes_a);
    free(bytes_b);
}

static void test_transfer_ranges__right_bytes_one_copy_no_wait(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        if (!haul__device_is_apart(devices[d]))
            continue;
        for (int form = 0; form < FORMS; form++) {
            haul_scope  *inner = haul_scope_push();
            haul_tensor *here = make(haul_cpu(), form), *there = make(devices[d], form);
            haul_tensor *expected = haul_cast(haul_contiguous(here), dtypes[form]);
            assert_int_equal(haul_device_sync(devices[d]), HAUL_OK);
            haul_transfer_stats_reset();
            const int64_t waits = haul_sync_count();
            haul_tensor  *up = haul_to(here, devices[d], .dtype = dtypes[form]);
            haul_tensor  *down = haul_to(there, haul_cpu(), .dtype = dtypes[form]);
            assert_valid(up);
            assert_valid(down);
            assert_int_equal(haul_sync_count(), waits);
            assert_int_equal(ledger().h2d_count, 1);
            assert_int_equal(ledger().d2h_count, 1);
            assert_int_equal(ledger().h2d_bytes, haul_tensor_bytes(expected));
            assert_int_equal(ledger().d2h_bytes, haul_tensor_bytes(expected));
            assert_same(up, expected);
            assert_same(down, expected);
            haul_scope_pop(inner);
        }
    }
}

/* The commands of the parts are there: a device with its own memory has several, and a failure of any is an error. */
static void test_transfer_ranges__each_part_may_fail(void **state)
{
    (void)state;
    haul_tensor *here = make(haul_cpu(), 0);
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
    haul_tensor *up = haul_to(here, late_device(0));
    assert_valid(up);
    const int64_t parts = late_pending();
    assert_true(parts > 1);
    assert_same(up, haul_contiguous(here));
    for (int64_t part = 1; part <= parts; part++) {
        haul_transfer_stats_reset();
        haul__fault_plan(HAUL__FAULT_COPY, part);
        assert_false(haul_tensor_is_valid(haul_to(here, late_device(0))));
        assert_error(HAUL_BACKEND, "fault injected");
        assert_int_equal(ledger().h2d_count, 0);
        haul__fault_plan(0, 0);
    }
    haul__fault_plan(HAUL__FAULT_COPY, parts + 1);
    assert_valid(haul_to(here, late_device(0)));
    haul__fault_plan(0, 0);
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_transfer_ranges__right_bytes_one_copy_no_wait),
        TEST(test_transfer_ranges__each_part_may_fail),
    };
    return run_moves("transfer_ranges", tests, sizeof tests / sizeof tests[0]);
}
