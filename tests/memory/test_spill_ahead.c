/* Spilling ahead of time: the next storages to go are copied before, and the next ones used return before their use.
 * ctest: cuda; sim; env=POCL_DEVICES=pthread pthread; labels=threads */
#include "support/devices/spilling.h"

static bool is_copied(const haul_tensor *t)
{
    return t->storage->uses->copied;
}

/* What goes next is copied, but stays; its copy is valid until it is written. */
static void test_spill__copies_what_goes_next(void **state)
{
    haul_device *device;
    (void)state;
    for (int d = 0; (device = spilling(d)); d++) {
        haul_scope  *part = haul_scope_push();
        haul_tensor *t[6];
        begin_limit(device, 3 * BYTES);
        fill_each(t, 4, device);
        assert_true(is_away(t[0]) && is_copied(t[1]) && !is_away(t[1]) && !is_copied(t[2]));
        assert_int_equal(haul_copy_into(t[1], filled(7)), HAUL_OK);
        assert_false(is_copied(t[1]));
        t[4] = on(device, 4); /* t[2] is the oldest now */
        assert_true(is_away(t[2]) && !is_away(t[1]));
        t[5] = on(device, 5);
        for (int i = 0; i < 6; i++)
            assert_filled(t[i], i == 1 ? 7 : (float)i);
        haul_scope_pop(part);
        end_limit(device);
    }
}

static int64_t downloads(const haul_device *device)
{
    return (int64_t)atomic_load(&device->download->submitted);
}

/* A second time away costs no copy, unless a command wrote to it; releasing the cache releases the host's memory. */
static void test_spill__keeps_copies_until_they_are_written(void **state)
{
    haul_device *device = late_device(0);
    haul_tensor *a, *b;
    (void)state;
    begin_limit(device, BYTES);
    assert_valid(a = haul_to(filled(1), device));
    assert_valid(b = haul_to(filled(2), device));
    assert_filled(a, 1);
    assert_filled(b, 2);
    assert_true(is_away(a) && is_copied(b));
    int64_t before = downloads(device);
    assert_filled(a, 1);
    assert_filled(b, 2);
    assert_int_equal(downloads(device), before + 2); /* those of the two reads */
    assert_int_equal(haul_copy_into(b, filled(3)), HAUL_OK);
    before = downloads(device);
    assert_filled(a, 1);
    assert_int_equal(downloads(device), before + 2); /* b and the read */
    assert_filled(b, 3);
    haul_memory_stats pinned;
    assert_int_equal(haul_pinned_stats_get(device, &pinned), HAUL_OK);
    assert_int_equal(pinned.allocated, 2 * BYTES);
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    assert_int_equal(haul_pinned_stats_get(device, &pinned), HAUL_OK);
    assert_int_equal(pinned.allocated, BYTES);
    assert_filled(a, 1);
    assert_filled(b, 3);
    haul_drop(a);
    haul_drop(b);
    end_limit(device);
}

/* What a launch was ordered behind when it was submitted, against the newest copy that goes ahead. */
typedef struct order {
    haul_device *device;
    uint64_t     seen;    /* the newest of these copies at the last launch */
    int          beside;  /* launches that a copy was submitted before, for which they do not wait */
    int          returns; /* copies back that were not announced before */
} order;

static void watch(const haul_event *e, void *context)
{
    order              *o = context;
    const haul__stream *compute = o->device->compute, *ahead = o->device->ahead;
    const uint64_t      newest = atomic_load(&ahead->submitted);
    if (e->device != o->device)
        return;
    o->returns += strcmp(e->operation, "spill") == 0 && strcmp(e->stream, "upload") == 0;
    if (strcmp(e->stream, "compute") != 0)
        return;
    o->beside += newest > o->seen && atomic_load(&compute->after[ahead->id]) < newest;
    o->seen = newest;
}

/* A backward pass brings back what the next nodes saved before it submits the commands of this one. */
static void test_spill__returns_ahead_of_use(void **state)
{
    enum { LAYERS = 16, FIT = 8 };
    static float expected[SIDE * SIDE], values[SIDE * SIDE];
    (void)state;
    for (int d = 1; d < device_count; d++) {
        for (int limited = 0; limited < 2; limited++) {
            haul_scope *part = haul_scope_push();
            if (limited)
                begin_limit(devices[d], FIT * BYTES);
            haul_tensor *x = haul_to(filled(0.5F), devices[d]), *y;
            haul_set_requires_grad(x, true);
            y = x;
            for (int i = 0; i < LAYERS; i++)
                assert_valid(y = haul_tanh(y));
            y = haul_sum(y);
            order         o = {.device = devices[d], .seen = atomic_load(&devices[d]->ahead->submitted)};
            const int64_t before = (int64_t)o.seen;
            const int64_t id = haul_events_subscribe(watch, .kinds = HAUL_EVENT_COMMAND_SUBMITTED, .context = &o);
            assert_true(id > 0);
            assert_int_equal(haul_backward(y), HAUL_OK);
            haul_events_unsubscribe(id);
            assert_int_equal(haul_read(haul_tensor_grad(x), limited ? values : expected, sizeof values), HAUL_OK);
            const int64_t ahead = (int64_t)atomic_load(&devices[d]->ahead->submitted) - before;
            if (limited)
                assert_true(ahead >= LAYERS - FIT && o.beside >= ahead / 2 && o.returns <= 2);
            else
                assert_true(ahead == 0 && o.returns == 0);
            haul_scope_pop(part);
            if (limited)
                end_limit(devices[d]);
        }
        assert_memory_equal(values, expected, sizeof values);
    }
}

/* Takes all memory within the limit, and gives it back. */
static void push_all_out(haul_device *device, int64_t bytes)
{
    haul_scope *part = haul_scope_push();
    for (int64_t i = 0; i < bytes / BYTES; i++)
        assert_valid(haul_to(filled(0), device));
    haul_scope_pop(part);
}

/* An optimizer step brings back what its next update uses while the device computes this one. */
static void test_spill__returns_ahead_in_steps(void **state)
{
    enum { COUNT = 24, GROUP = 8, EACH = 3 }; /* parameter, gradient, momentum; those of a group change at once */
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_scope       *part = haul_scope_push();
        haul_named_tensor list[COUNT] = {{0}};
        for (int i = 0; i < COUNT; i++) {
            list[i].tensor = haul_set_requires_grad(haul_to(filled((float)i), devices[d]), true);
            assert_int_equal(haul_set_grad(list[i].tensor, haul_to(filled(1), devices[d])), HAUL_OK);
        }
        haul_optimizer *sgd = haul_sgd(NULL, 1, .momentum = 0.5, .parameters = list, .count = COUNT);
        assert_int_equal(haul_optimizer_step(sgd), HAUL_OK);
        begin_limit(devices[d], 0);
        push_all_out(devices[d], COUNT * EACH * BYTES);
        for (int i = 0; i < COUNT; i++)
            assert_true(is_away(list[i].tensor));
        const uint64_t ahead = atomic_load(&devices[d]->ahead->submitted);
        const uint64_t up = atomic_load(&devices[d]->upload->submitted);
        assert_int_equal(haul_optimizer_step(sgd), HAUL_OK);
        assert_int_equal(atomic_load(&devices[d]->upload->submitted) - up, GROUP * EACH);
        assert_int_equal(atomic_load(&devices[d]->ahead->submitted) - ahead, (COUNT - GROUP) * EACH);
        for (int i = 0; i < COUNT; i++)
            assert_filled(list[i].tensor, (float)i - 2.5F); /* -1, then -(0.5 + 1) */
        haul_scope_pop(part);
        end_limit(devices[d]);
    }
}

#define SPILL_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SPILL_TEST(test_spill__copies_what_goes_next),
        SPILL_TEST(test_spill__keeps_copies_until_they_are_written),
        SPILL_TEST(test_spill__returns_ahead_of_use),
        SPILL_TEST(test_spill__returns_ahead_in_steps),
    };
    return run_moves("spill_ahead", tests, sizeof tests / sizeof tests[0]);
}
