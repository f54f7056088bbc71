/* Spilling: what stays in device memory. */
#include <stdlib.h>

#include "device/recording.h"
#include "support/moves.h"

enum { SIDE = 128, BYTES = SIDE * SIDE * 4 }; /* of a tensor: 64 KiB */

static haul_memory_stats stats_of(const haul_device *device)
{
    haul_memory_stats stats;
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    return stats;
}

/* For `count` tensors. */
static void begin_limit(haul_device *device, int64_t count)
{
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(haul_memory_set_spill(device, true), HAUL_OK);
    assert_int_equal(haul_memory_set_tensor_limit(device, stats_of(device).reserved + count * BYTES), HAUL_OK);
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
}

static void end_limit(haul_device *device)
{
    assert_int_equal(haul_memory_set_limit(device, 0), HAUL_OK);
    assert_int_equal(haul_memory_set_spill(device, false), HAUL_OK);
}

/* NULL if there is no memory. */
static haul_tensor *try_tensor_on(haul_device *device, float value)
{
    haul_scope  *part = haul_scope_push();
    haul_tensor *t = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(SIDE, SIDE), value), device);
    if (haul_tensor_is_valid(t))
        return haul_scope_return(part, t);
    haul_scope_pop(part);
    return NULL;
}

static haul_tensor *tensor_on(haul_device *device, float value)
{
    haul_tensor *t = try_tensor_on(device, value);
    if (!t)
        fail_msg("%s", haul_error_message());
    return t;
}

static bool is_filled(haul_tensor *t, float value)
{
    float *values = malloc(BYTES);
    bool   right = values && haul_read(t, values, BYTES) == HAUL_OK;
    for (int i = 0; right && i < SIDE * SIDE; i++)
        right = values[i] == value;
    free(values);
    return right;
}

static bool is_away(const haul_tensor *t)
{
    return atomic_load(&t->storage->uses->away);
}

/* It may bring memory back, which counts. */
static haul_status fill(haul__storage *to, unsigned char value)
{
    haul__command command = {.kind = HAUL__COMMAND_FILL,
                             .operation = "test",
                             .device = to->device,
                             .buffers = &(haul__region){to, 0},
                             .write_count = 1,
                             .buffer_count = 1,
                             .bytes = BYTES,
                             .pattern_size = 1};
    *(unsigned char *)&command.pattern = value;
    return haul__submit(&command);
}

/* ---- recordings ---- */

/* The memory of a recording stays as long as the recording. */
static void test_spill_held__by_recordings(void **state)
{
    haul_device *device = late_device(0);
    (void)state;
    begin_limit(device, 2);
    haul_tensor *a = tensor_on(device, 1), *b = tensor_on(device, 2);
    assert_int_equal(haul__recording_begin("test"), HAUL_OK);
    assert_int_equal(fill(a->storage, 0), HAUL_OK);
    haul__recording *first = haul__recording_end();
    assert_int_equal(haul__recording_begin("test"), HAUL_OK);
    assert_int_equal(fill(a->storage, 0), HAUL_OK);
    haul__recording *second = haul__recording_end();
    assert_true(is_filled(b, 2)); /* a was used longest ago */
    haul_tensor *c = tensor_on(device, 3);
    assert_true(!is_away(a) && is_away(b) && !is_away(c));
    haul__recording_free(first);
    haul_tensor *d = tensor_on(device, 4);
    assert_true(!is_away(a) && is_away(c) && !is_away(d));
    haul__recording_free(second);
    haul_tensor *e = tensor_on(device, 5);
    assert_true(is_away(a) && !is_away(d) && !is_away(e));
    assert_true(is_filled(a, 0) && is_filled(b, 2) && is_filled(c, 3) && is_filled(d, 4) && is_filled(e, 5));
    haul_drop(a);
    haul_drop(b);
    haul_drop(c);
    haul_drop(d);
    haul_drop(e);
    end_limit(device);
}

#define HELD_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HELD_TEST(test_spill_held__by_recordings),
    };
    return run_moves("spill_held", tests, sizeof tests / sizeof tests[0]);
}
