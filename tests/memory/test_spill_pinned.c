/* Memory that is pinned against spilling.
 * ctest: cuda; sim */
#include <stdio.h>

#include "support/devices/spilling.h"

static haul_memory_report report(void)
{
    haul_memory_report r;
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_int_equal(haul_memory_report_get(&r), HAUL_OK);
    return r;
}

static void test_spill_pinned__stays_until_it_is_unpinned_as_often(void **state)
{
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_limit(device, 2 * BYTES);
        haul_tensor *a = on(device, 1), *view = haul_slice(a, 0, 3, 5, 1);
        assert_int_equal(haul_memory_pin(a), HAUL_OK);
        assert_int_equal(haul_memory_pin(view), HAUL_OK); /* the same memory */
        assert_int_equal(stats_of(device).pinned, BYTES);
        haul_tensor *t[6];
        for (int i = 0; i < 6; i++) {
            t[i] = on(device, (float)(2 + i));
            assert_false(is_away(a));
        }
        assert_int_equal(haul_memory_unpin(view), HAUL_OK);
        assert_filled(t[0], 2);
        assert_false(is_away(a));
        assert_int_equal(stats_of(device).pinned, BYTES);
        assert_int_equal(haul_memory_unpin(a), HAUL_OK);
        assert_int_equal(stats_of(device).pinned, 0);
        assert_filled(t[1], 3);
        assert_true(is_away(a));
        assert_filled(a, 1);
        assert_int_equal(haul_memory_unpin(a), HAUL_STATE);
        assert_error(HAUL_STATE, "is not pinned");
        haul_scope_pop(part);
        end_limit(device);
    }
}

static void test_spill_pinned__comes_back_first(void **state)
{
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_limit(device, 2 * BYTES);
        haul_tensor *t[3];
        fill_each(t, 3, device);
        assert_true(is_away(t[0]));
        assert_int_equal(haul_memory_pin(t[0]), HAUL_OK);
        assert_false(is_away(t[0]));
        assert_int_equal(haul_memory_pin(t[1]), HAUL_OK);
        assert_int_equal(haul_memory_pin(t[2]), HAUL_OUT_OF_MEMORY); /* the other two fill the device */
        assert_error(HAUL_OUT_OF_MEMORY, "haul_memory_pin keeps 128.0 KiB there");
        assert_int_equal(stats_of(device).pinned, 2 * BYTES);
        assert_int_equal(haul_memory_unpin(t[2]), HAUL_STATE);
        haul_error_clear();
        assert_each_filled(t, 0, 2);
        assert_int_equal(haul_memory_unpin(t[1]), HAUL_OK);
        assert_filled(t[2], 2);
        haul_scope_pop(part);
        end_limit(device);
    }
}

static void test_spill_pinned__is_named_where_an_allocation_fails(void **state)
{
    char text[2048], json[4096];
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_device *device = devices[d];
        haul_scope  *part = haul_scope_push();
        begin_limit(device, 3 * BYTES);
        haul_tensor *a = on(device, 1), *b = on(device, 2), *source = filled(3);
        assert_int_equal(haul_memory_pin(a), HAUL_OK);
        assert_int_equal(haul_memory_pin(b), HAUL_OK);
        haul_tensor *c = haul_to(source, device);
        assert_valid(c);
        assert_false(haul_tensor_is_valid(haul_add(c, c))); /* its operand and its result */
        const haul_memory_report r = report();
        assert_int_equal(r.pinned, 2 * BYTES);
        assert_true(haul_memory_report_text(&r, text, sizeof text) > 0);
        assert_non_null(strstr(text, "pinned"));
        assert_true(haul_memory_report_json(&r, json, sizeof json) > 0);
        assert_non_null(strstr(json, "\"pinned\":131072"));
        assert_error(HAUL_OUT_OF_MEMORY, "haul_memory_pin keeps 128.0 KiB there");
        assert_int_equal(haul_memory_unpin(a), HAUL_OK);
        assert_filled(haul_add(c, c), 6);
        assert_true(is_away(a));
        haul_scope_pop(part);
        end_limit(device);
    }
}

/* The memory is free for others then, without a pin. */
static void test_spill_pinned__ends_with_the_memory(void **state)
{
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope *part = haul_scope_push();
        begin_limit(device, 2 * BYTES);
        for (int i = 0; i < 2; i++) {
            haul_tensor *a = on(device, 1);
            assert_int_equal(haul_memory_pin(a), HAUL_OK);
            haul_drop(a);
            assert_int_equal(stats_of(device).pinned, 0);
        }
        haul_tensor *b = on(device, 2), *c = on(device, 3);
        assert_int_equal(haul_memory_unpin(b), HAUL_STATE);
        haul_error_clear();
        on(device, 4);
        assert_true(is_away(b));
        assert_filled(b, 2);
        assert_filled(c, 3);
        haul_scope_pop(part);
        end_limit(device);
    }
}

static void test_spill_pinned__on_the_cpu_and_meta(void **state)
{
    haul_device *meta = haul_device_get("meta");
    haul_tensor *t = filled(1), *m = haul_to(t, meta);
    (void)state;
    assert_int_equal(haul_memory_pin(t), HAUL_OK);
    assert_int_equal(haul_memory_unpin(t), HAUL_OK);
    assert_int_equal(haul_memory_unpin(t), HAUL_STATE);
    haul_error_clear();
    assert_int_equal(haul_memory_pin(m), HAUL_OK);
    assert_int_equal(haul_memory_unpin(m), HAUL_OK);
    assert_int_equal(haul_memory_pin(NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_memory_unpin(NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

/* Three squares in the room of two. The context is true if the first one is pinned. */
static haul_status squares(void *context)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(SIDE, SIDE)), *y = haul_square(x);
    if (context && haul_memory_pin(y))
        return haul_error_status();
    haul_square(x);
    haul_square(x);
    return context ? haul_memory_unpin(y) : HAUL_OK;
}

static void test_spill_pinned__is_estimated(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_device *device = devices[d];
        haul_set_device(device);
        begin_limit(device, 2 * BYTES);
        for (int pinned = 0; pinned < 2; pinned++) {
            haul_estimate_result r;
            assert_int_equal(haul_estimate(squares, pinned ? &device : NULL, &r), HAUL_OK);
            int64_t spilled = 0, fits = 1;
            for (int i = 0; i < r.device_count; i++)
                if (r.devices[i].device == device) {
                    spilled = r.devices[i].spilled_bytes;
                    fits = r.devices[i].fits;
                }
            haul_estimate_free(&r);
            assert_int_equal(fits, !pinned); /* x and its squares have one place left */
            assert_true(spilled > 0);
        }
        haul_set_device(haul_cpu());
        end_limit(device);
    }
}

/* Nothing has been computed when a followed step would pin. */
static haul_status pin_square(void *context)
{
    haul_tensor *const *t = context;
    haul_tensor        *y = haul_square(t[0]);
    if (haul_memory_pin(y) || haul_mul_scalar_into(t[1], y, 2))
        return haul_error_status();
    return haul_memory_unpin(y);
}

static void test_spill_pinned__in_a_recording_runs_as_it_is(void **state)
{
    haul_recording_report got;
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_scope     *part = haul_scope_push();
        haul_tensor    *t[] = {on(devices[d], 3), on(devices[d], 0)};
        haul_recording *r = haul_recording_new(pin_square, t);
        for (int i = 0; i < 3; i++)
            assert_int_equal(haul_recording_run(r), HAUL_OK);
        assert_filled(t[1], 18);
        assert_int_equal(haul_recording_report_get(r, &got), HAUL_OK);
        assert_true(got.followed == 0 && got.eager == 3);
        assert_non_null(strstr(got.reason, "pins or unpins memory"));
        haul_scope_pop(part);
    }
}

#define PINNED_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PINNED_TEST(test_spill_pinned__stays_until_it_is_unpinned_as_often),
        PINNED_TEST(test_spill_pinned__comes_back_first),
        PINNED_TEST(test_spill_pinned__is_named_where_an_allocation_fails),
        PINNED_TEST(test_spill_pinned__ends_with_the_memory),
        PINNED_TEST(test_spill_pinned__on_the_cpu_and_meta),
        PINNED_TEST(test_spill_pinned__is_estimated),
        PINNED_TEST(test_spill_pinned__in_a_recording_runs_as_it_is),
    };
    return run_moves("spill_pinned", tests, sizeof tests / sizeof tests[0]);
}
