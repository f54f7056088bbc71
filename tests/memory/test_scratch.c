/* Scratch memory, and the order in which tensors make room: sizes, limits with a driver's share, errors, and the next
 * uses of a step. */
#include "memory/planned_scratch.h"
#include "memory/spill/next_use.h"
#include "program/role.h"
#include "support/devices/spilling.h"

/* Fails for want of memory and leaves the error that was there. */
static void expect_none(haul_device *device, size_t bytes)
{
    haul_error_clear();
    assert_null(haul__scratch_alloc(device, bytes, NULL, 0));
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul__fail(HAUL_IO, "test", NULL, "an earlier error");
    assert_null(haul__scratch_alloc(device, bytes, NULL, 0));
    assert_int_equal(haul_error_status(), HAUL_IO);
    haul_error_clear();
}

static void test_scratch__sizes(void **state)
{
    haul_device *device = late_device(0);
    (void)state;
    expect_none(device, 0);
    expect_none(haul_device_get("meta"), 16);
    begin_limit(device, BYTES);
    expect_none(device, SIZE_MAX / 2);
    for (size_t bytes = 1; bytes <= 2; bytes++) {
        haul__storage *s = haul__scratch_alloc(device, bytes, NULL, 0);
        assert_non_null(s);
        assert_int_equal(atomic_load(&s->role), HAUL__ROLE_WORKSPACE);
        haul__object_release(s);
    }
    end_limit(device);
}

/* A plan may refuse allocations that it does not have. */
static void test_scratch__planned(void **state)
{
    haul_device          *device = late_device(0);
    haul__storage        *own = haul__storage_alloc(device, 512, "test");
    haul__planned_scratch plan = {.items = &own, .count = 1, .refuses = true};
    (void)state;
    haul__planned_scratch *before = haul__planned_scratch_set(&plan);
    haul__storage         *s = haul__scratch_alloc(device, 512, NULL, 0);
    assert_ptr_equal(s, own);
    expect_none(device, 512);
    assert_int_equal(plan.missed, 2);
    plan.refuses = false;
    haul__storage *more = haul__scratch_alloc(device, 512, NULL, 0);
    assert_true(more && more != own);
    haul__planned_scratch_set(before);
    haul__object_release(more);
    haul__object_release(s);
    haul__object_release(own);
}

/* The driver's share counts in a limit. Where the rest cannot suffice, nothing moves. */
static void test_scratch__next_to_the_driver(void **state)
{
    haul_device *device = late_device(0);
    haul_scope  *part = haul_scope_push();
    haul_tensor *t[3];
    (void)state;
    begin_limit(device, 0);
    atomic_fetch_add(&device->overhead, BYTES);
    assert_int_equal(haul_memory_set_limit(device, stats_of(device).reserved + 4 * BYTES), HAUL_OK);
    fill_each(t, 3, device);
    const int64_t spilled = stats_of(device).spilled_total;
    assert_null(haul__scratch_alloc(device, 2 * BYTES, t, 2));
    assert_int_equal(stats_of(device).spilled_total, spilled);
    haul__storage *s = haul__scratch_alloc(device, 2 * BYTES, t, 1);
    assert_non_null(s);
    assert_int_equal(stats_of(device).spilled_total, spilled + 2 * BYTES);
    haul__object_release(s);
    assert_each_filled(t, 0, 3);
    haul_scope_pop(part);
    atomic_fetch_sub(&device->overhead, BYTES);
    end_limit(device);
}

/* A device that is full makes room without a limit, for the smallest size, too. */
static void test_scratch__on_a_full_device(void **state)
{
    haul_device *device = late_device(0);
    haul_scope  *part = haul_scope_push();
    haul_tensor *t[2];
    (void)state;
    haul_memory_release_cached(device);
    assert_int_equal(haul_memory_set_spill(device, true), HAUL_OK);
    late_set_room(2 * BYTES);
    fill_each(t, 2, device);
    for (size_t bytes = 1; bytes <= BYTES; bytes *= BYTES) {
        haul__storage *s = haul__scratch_alloc(device, bytes, &t[1], 1);
        assert_non_null(s);
        assert_true(is_away(t[0]) && !is_away(t[1]));
        haul__object_release(s);
        assert_filled(t[0], 0);
        assert_false(is_away(t[0]));
    }
    haul_scope_pop(part);
    late_set_room(-1);
    end_limit(device);
}

/* ---- the next uses of a step ---- */

/* Memory that no later call uses goes as if it were used at the end of the step. */
static void test_next_use__orders_memory(void **state)
{
    haul_device *device = late_device(0);
    haul_scope  *part = haul_scope_push();
    haul_tensor *t[3];
    (void)state;
    haul__next_use_reach(late_device_new(), 1, 2); /* it has no memory yet */
    fill_each(t, 3, device);
    const uint64_t first = haul__next_use_begin(10);
    haul__next_use_reach(device, first + 2, first + 5);
    haul__next_use_set(NULL, first);
    haul__next_use_set(t[0]->storage, first); /* over */
    haul__next_use_set(t[1]->storage, first + 4);
    haul__next_use_set(t[2]->storage, first + 6); /* in the next step */
    haul__block *over = t[0]->storage->block, *within = t[1]->storage->block, *later = t[2]->storage->block;
    assert_true(haul__goes_before(over, within) && !haul__goes_before(within, over));
    assert_true(haul__goes_before(later, over) && !haul__goes_before(over, later));
    haul__next_use_reach(device, 0, 0);
    assert_true(haul__goes_before(over, within)); /* it was used before */
    haul_scope_pop(part);
}

/* Storages without a block have no next use, in a dry run or outside of one. */
static haul_status set_nothing(void *context)
{
    haul__next_use_set(NULL, 1);
    haul__next_use_set(context, 1);
    return HAUL_OK;
}

static void test_next_use__without_a_block(void **state)
{
    haul__storage       *none = haul__storage_alloc(late_device(0), 0, "test");
    haul_estimate_result r;
    (void)state;
    assert_true(none && !none->block);
    assert_int_equal(set_nothing(none), HAUL_OK);
    assert_int_equal(haul_estimate(set_nothing, NULL, &r), HAUL_OK);
    haul_estimate_free(&r);
    haul__object_release(none);
}

/* A tensor returns within a scope that has a limit, which still holds afterwards. */
static void test_spill__returns_within_a_limit(void **state)
{
    haul_device *device = late_device(0);
    haul_scope  *part = haul_scope_push();
    haul_tensor *t[3];
    (void)state;
    begin_limit(device, 2 * BYTES);
    fill_each(t, 3, device);
    assert_true(is_away(t[0]));
    haul_scope *little = haul_scope_push();
    assert_int_equal(haul_scope_set_memory_limit(little, device, BYTES / 2), HAUL_OK);
    assert_filled(t[0], 0);
    assert_true(!is_away(t[0]));
    assert_false(haul_tensor_is_valid(haul_to(filled(1), device)));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    haul_error_clear();
    haul_scope_pop(little);
    haul_scope_pop(part);
    end_limit(device);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_scratch__sizes),
        TEST(test_scratch__planned),
        TEST(test_scratch__next_to_the_driver),
        TEST(test_scratch__on_a_full_device),
        TEST(test_next_use__orders_memory),
        TEST(test_next_use__without_a_block),
        TEST(test_spill__returns_within_a_limit),
    };
    return run_moves("scratch", tests, sizeof tests / sizeof tests[0]);
}
