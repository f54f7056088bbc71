/* Spilling, and what sums, statistics and reports on failures say of it.
 * ctest: cuda; env=POCL_DEVICES=pthread pthread; labels=threads */
#include "memory/allocator.h"
#include "support/devices/spilling.h"
#include "support/record.h"

/* The bytes in all rows, of which there are at most 32. */
static int64_t sum_of(int (*list)(const haul_device *, haul_memory_origin *, int), const haul_device *device)
{
    haul_memory_origin rows[32];
    const int          count = list(device, rows, 32);
    int64_t            bytes = 0;
    assert_true(count >= 0 && count <= 32);
    for (int i = 0; i < count; i++)
        bytes += rows[i].bytes;
    return bytes;
}

static void assert_sums(const haul_device *device)
{
    assert_int_equal(sum_of(haul_memory_by_origin, device), stats_of(device).allocated);
    assert_int_equal(sum_of(haul_memory_by_module, device), stats_of(device).allocated);
}

/* What has returned counts again, even though host memory keeps a copy of it. */
static void test_spill_reports__sums_are_what_is_allocated(void **state)
{
    enum { COUNT = 6, FIT = 3 };
    static float values[SIDE * SIDE];
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope  *part = haul_scope_push();
        haul_tensor *t[COUNT];
        begin_limit(device, FIT * BYTES);
        for (int i = 0; i < COUNT; i++) {
            t[i] = on(device, (float)i);
            assert_sums(device);
        }
        assert_int_equal(stats_of(device).spilled, (COUNT - FIT) * BYTES);
        for (int i = 0; i < 2 * COUNT; i++) {
            assert_int_equal(haul_read(t[i % COUNT], values, sizeof values), HAUL_OK);
            assert_sums(device);
        }
        haul_scope_pop(part);
        assert_sums(device);
        end_limit(device);
    }
}

static haul_memory_report failed_report(haul_device *device, size_t bytes)
{
    haul_memory_report r;
    assert_null(haul__storage_alloc(device, bytes, "haul_test"));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_int_equal(haul_memory_report_get(&r), HAUL_OK);
    haul_error_clear();
    return r;
}

/* What exceeds the limit by itself. Its report still names who holds memory on the device. */
static void test_spill_reports__what_exceeds_the_limit_moves_nothing(void **state)
{
    enum { COUNT = 4, FIT = 3 };
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_limit(device, FIT * BYTES);
        for (int i = 0; i < COUNT; i++)
            on(device, (float)i);
        const haul_memory_stats  before = stats_of(device);
        const haul_memory_report r = failed_report(device, (size_t)before.limit + 1);
        const haul_memory_stats  after = stats_of(device);
        assert_int_equal(before.spilled, (COUNT - FIT) * BYTES);
        assert_int_equal(after.spilled, before.spilled);
        assert_int_equal(after.spilled_total, before.spilled_total);
        assert_int_equal(after.allocated, before.allocated);
        assert_int_equal(r.spilled, before.spilled);
        assert_int_equal(r.allocated, before.allocated);
        assert_true(r.origin_count > 0 && r.origins[0].bytes >= FIT * BYTES);
        haul_scope_pop(part);
        end_limit(device);
    }
}

/* There is no limit, but the device's size is known. */
static void test_spill_reports__what_exceeds_the_device_moves_nothing(void **state)
{
    enum { MIB = 1 << 20 };
    haul_device *device = late_device_new();
    (void)state;
    device->properties.memory_bytes = 4 * (int64_t)MIB;
    assert_int_equal(haul_memory_set_spill(device, true), HAUL_OK);
    late_set_room(2 * MIB);
    haul__storage *held[3];
    for (int i = 0; i < 3; i++)
        assert_non_null(held[i] = haul__storage_alloc(device, MIB, "haul_test"));
    assert_int_equal(stats_of(device).spilled, MIB); /* the device is full */
    const haul_memory_report r = failed_report(device, 5 * MIB);
    assert_int_equal(r.limit, 0);
    assert_int_equal(r.spilled, MIB);
    assert_int_equal(r.allocated, 2 * MIB);
    assert_int_equal(stats_of(device).spilled, MIB);
    late_set_room(-1);
    for (int i = 0; i < 3; i++)
        haul__object_release(held[i]);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
}

/* A copy that needs room moves other tensors, and brings its own back. Their commands do not belong to it. */
static void test_spill_reports__moved_tensors_are_no_part_of_a_copy(void **state)
{
    enum { COUNT = 4, FIT = 2 };
    static record r;
    static float  values[SIDE * SIDE];
    haul_device  *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope  *part = haul_scope_push();
        haul_tensor *t[COUNT];
        int          moved = 0, read = 0;
        begin_limit(device, FIT * BYTES);
        fill_each(t, COUNT, device);
        const int64_t id = listen_to(&r, HAUL_EVENT_COMMAND_SUBMITTED);
        for (int i = 0; i < COUNT; i++)
            assert_int_equal(haul_read(t[i], values, sizeof values), HAUL_OK);
        stop(id);
        for (int i = 0; i < r.count; i++) {
            const bool spills = strcmp(r.events[i].operation, "spill") == 0;
            moved += spills;
            read += !spills;
            assert_true(spills == (r.events[i].e.copy == 0));
        }
        assert_true(r.count < KEPT && moved > 0 && read > 0);
        haul_scope_pop(part);
        end_limit(device);
    }
}

#define SPILL_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPILL_TEST(test_spill_reports__sums_are_what_is_allocated),
        SPILL_TEST(test_spill_reports__what_exceeds_the_limit_moves_nothing),
        SPILL_TEST(test_spill_reports__what_exceeds_the_device_moves_nothing),
        SPILL_TEST(test_spill_reports__moved_tensors_are_no_part_of_a_copy),
    };
    return run_moves("spill_reports", tests, sizeof tests / sizeof tests[0]);
}
