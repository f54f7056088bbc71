/* Ordinary memory on its way through pinned memory: every size, both directions, short memory, failures, threads.
 * ctest: cuda; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <pthread.h>

#include "core/object.h"
#include "memory/allocator.h"
#include "support/failure.h"
#include "support/moves.h"
#include "transfer/staging.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

/* Sizes around those at which something changes. */
static const size_t sizes[] = {1,       3,           4096,        256 * KIB - 1, 256 * KIB + 1, 512 * KIB,
                               MIB + 5, 4 * MIB - 1, 4 * MIB + 1, 9 * MIB + 3,   33 * MIB + 7};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static uint8_t *pattern(size_t bytes, unsigned seed)
{
    uint8_t *data = malloc(bytes);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i += 8) {
        const uint64_t eight = (i + seed + 1) * UINT64_C(0x9E3779B97F4A7C15);
        memcpy(data + i, &eight, bytes - i < 8 ? bytes - i : 8);
    }
    return data;
}

static haul_tensor *bytes_of(const uint8_t *data, size_t bytes)
{
    return haul_from_host(HAUL_U8, HAUL_SHAPE((int64_t)bytes), data);
}

static haul_memory_stats pinned(int index)
{
    haul_memory_stats s;
    assert_int_equal(haul_pinned_stats_get(late_device(index), &s), HAUL_OK);
    return s;
}

static haul_memory_stats on(haul_device *device)
{
    haul_memory_stats s;
    assert_int_equal(haul_memory_stats_get(device, &s), HAUL_OK);
    return s;
}

/* ---- there and back ---- */

static void there_and_back(void)
{
    for (int k = 0; k < SIZES; k++) {
        haul_scope *inner = haul_scope_push();
        size_t      bytes = sizes[k];
        uint8_t    *data = pattern(bytes, (unsigned)k), *want = pattern(bytes, (unsigned)k), *back = malloc(bytes);
        assert_non_null(back);
        haul_set_device(late_device(0));
        haul_tensor *x = bytes_of(data, bytes);
        memset(data, 0xEE, bytes); /* bytes that were not copied yet would be seen */
        memset(back, 0, bytes);
        assert_int_equal(haul_read(x, back, bytes), HAUL_OK);
        assert_memory_equal(back, want, bytes);
        assert_int_equal(haul_write(x, data, bytes), HAUL_OK);
        memset(data, 0, bytes);
        assert_int_equal(haul_read(x, back, bytes), HAUL_OK);
        memset(want, 0xEE, bytes);
        assert_memory_equal(back, want, bytes);
        haul_scope_pop(inner);
        free(data);
        free(want);
        free(back);
    }
}

static void test_staging__every_size_through_pinned_memory(void **state)
{
    int64_t pageable = late_pageable();
    (void)state;
    there_and_back();
    assert_int_equal(late_pageable(), pageable);
    assert_int_equal(pinned(0).live_blocks, 0);
    assert_int_equal(late_pinned_held(), pinned(0).reserved + pinned(1).reserved);
}

static void test_staging__less_pinned_memory_than_wanted(void **state)
{
    static const int64_t rooms[] = {0, 4096, 600 * KIB, 5 * MIB, 9 * MIB};
    (void)state;
    for (size_t i = 0; i < sizeof rooms / sizeof rooms[0]; i++) {
        haul_memory_release_cached(late_device(0));
        haul_memory_release_cached(late_device(1));
        late_set_pinned_room(rooms[i]);
        int64_t pageable = late_pageable();
        there_and_back();
        assert_true(rooms[i] >= 5 * MIB || late_pageable() > pageable); /* where no chunk fits it is copied directly */
        assert_int_equal(haul_error_status(), HAUL_OK);
    }
    haul_memory_release_cached(late_device(0));
    late_set_pinned_room(-1);
}

static void test_staging__limit_of_pinned_memory(void **state)
{
    int64_t usual = pinned(0).limit;
    (void)state;
    assert_true(usual > 0);
    assert_int_equal(haul_pinned_set_limit(late_device(0), 3 * MIB), HAUL_OK);
    there_and_back();
    assert_true(pinned(0).reserved <= 3 * MIB);
    assert_int_equal(haul_pinned_set_limit(late_device(0), -1), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "bytes is -1");
    assert_int_equal(haul_pinned_set_limit(late_device(0), usual), HAUL_OK);
    assert_int_equal(haul_pinned_stats_get(late_device(0), NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

/* ---- waits ---- */

static void test_staging__uploads_return_before_the_device_has_copied(void **state)
{
    size_t   bytes = 2 * MIB;
    uint8_t *data = pattern(bytes, 1);
    (void)state;
    haul_device_sync(late_device(0));
    haul_set_device(late_device(0));
    int64_t      waits = haul_sync_count(), before = late_pending();
    haul_tensor *x = bytes_of(data, bytes);
    assert_valid(x);
    assert_int_equal(haul_sync_count(), waits);
    assert_int_equal(late_pending() - before, haul__staged_chunks(bytes));
    assert_true(haul__staged_chunks(bytes) > 1);
    free(data);
}

static void test_staging__a_copy_in_chunks_is_one_wait(void **state)
{
    size_t   bytes = 33 * MIB;
    uint8_t *data = pattern(bytes, 2), *back = malloc(bytes);
    (void)state;
    assert_non_null(back);
    haul_set_device(late_device(0));
    haul_tensor *x = bytes_of(data, bytes);
    int64_t      waits = haul_sync_count();
    assert_int_equal(haul_read(x, back, bytes), HAUL_OK);
    assert_int_equal(haul_sync_count() - waits, 1);
    assert_memory_equal(back, data, bytes);
    free(data);
    free(back);
}

/* ---- pinned tensors ---- */

static void test_staging__results_on_the_host_are_pinned_and_move_freely(void **state)
{
    size_t   bytes = 6 * MIB + 1;
    uint8_t *data = pattern(bytes, 3), *back = malloc(bytes);
    (void)state;
    assert_non_null(back);
    haul_set_device(late_device(0));
    haul_tensor *x = bytes_of(data, bytes);
    haul_device_sync(late_device(0));
    int64_t      waits = haul_sync_count(), pageable = late_pageable();
    haul_tensor *home = haul_to(x, haul_cpu());
    assert_true(haul_tensor_is_pinned(home));
    assert_false(haul_tensor_is_pinned(x));
    haul_tensor *again = haul_to(home, late_device(0)), *other = haul_to(home, late_device(1));
    assert_int_equal(haul_sync_count(), waits); /* not even for the download: the streams wait for each other */
    assert_int_equal(late_pageable(), pageable);
    assert_true(late_pending() >= 3);
    haul_drop(home);
    assert_int_equal(haul_read(again, back, bytes), HAUL_OK);
    assert_memory_equal(back, data, bytes);
    assert_int_equal(haul_read(other, back, bytes), HAUL_OK);
    assert_memory_equal(back, data, bytes);
    free(data);
    free(back);
}

static void test_pin__copies_once(void **state)
{
    float        back[12];
    haul_tensor *x = iota(3, 4), *p = haul_pin(transposed(x), late_device(0));
    (void)state;
    assert_valid(p);
    assert_true(haul_tensor_is_pinned(p));
    assert_false(haul_tensor_is_pinned(x));
    assert_ptr_equal(haul_pin(p, late_device(1))->storage, p->storage);
    assert_ptr_equal(haul_pin(x, haul_cpu())->storage, x->storage); /* gains nothing */
    haul_tensor *y = haul_to(p, late_device(0));
    assert_int_equal(haul_write(p, (float[12]){0}, 48), HAUL_OK); /* waits until the device has read it */
    assert_int_equal(haul_read(haul_to(y, haul_cpu()), back, sizeof back), HAUL_OK);
    for (int i = 0; i < 12; i++)
        assert_true(back[i] == (float)(i % 3 * 4 + i / 3));
    assert_failed(haul_pin(y, late_device(0)));
    assert_error(HAUL_DEVICE, "x is on late:0");
    assert_failed(haul_pin(NULL, late_device(0)));
    assert_failed(haul_pin(x, NULL));
    haul_error_clear();
    assert_false(haul_tensor_is_pinned(NULL));
    assert_error(HAUL_INVALID_ARGUMENT, "haul_tensor_is_pinned: t is NULL");
    assert_false(haul_tensor_is_pinned(HAUL_NONE));
    assert_error(HAUL_INVALID_ARGUMENT, "haul_tensor_is_pinned: t is HAUL_NONE");
    haul_tensor *g = haul_set_requires_grad(iota(2, 2), true);
    assert_int_equal(haul_backward(haul_sum(haul_pin(g, late_device(0)))), HAUL_OK);
    assert_true(haul_item(haul_sum(haul_tensor_grad(g))) == 4);
}

static void test_pin__keeps_the_memory_format(void **state)
{
    haul_tensor *x = haul_to_memory_format(haul_reshape(iota(6, 4), HAUL_SHAPE(2, 3, 2, 2)), HAUL_CHANNELS_LAST);
    haul_tensor *p = haul_pin(x, late_device(0)), *moved = haul_pin(transposed(iota(3, 4)), late_device(0));
    (void)state;
    assert_true(haul_tensor_is_pinned(p));
    assert_true(haul_tensor_is_channels_last(p));
    assert_false(haul_tensor_is_contiguous(p));
    assert_true(haul_item(haul_sum(haul_ne(p, x))) == 0);
    assert_int_equal(haul_tensor_stride(moved, 0), 1);
}

static void test_pin__is_counted_for_the_device(void **state)
{
    haul_memory_stats before = pinned(0), s, cpu;
    (void)state;
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &cpu), HAUL_OK);
    haul_tensor *x = haul_from_host(HAUL_U8, HAUL_SHAPE(4), "abc"), *p;
    int64_t      live = cpu.live_blocks + 1;
    p = haul_pin(x, late_device(0));
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &cpu), HAUL_OK);
    assert_int_equal(cpu.live_blocks, live);
    assert_int_equal(pinned(0).live_blocks, before.live_blocks + 1);
    haul_drop(p);
    assert_true(pinned(0).peak_allocated > before.allocated);
    assert_int_equal(haul_memory_reset_peak(late_device(0)), HAUL_OK);
    assert_int_equal(pinned(0).peak_allocated, pinned(0).allocated);
    assert_int_equal(pinned(0).peak_reserved, pinned(0).reserved);
    assert_true(pinned(0).limit > 0);
    assert_int_equal(haul_pinned_stats_get(haul_cpu(), &s), HAUL_OK); /* pins nothing */
    assert_int_equal(s.limit + s.allocated + s.reserved, 0);
}

/* ---- between devices ---- */

static void test_staging__between_devices(void **state)
{
    (void)state;
    for (int k = 0; k < SIZES; k++) {
        haul_scope *inner = haul_scope_push();
        size_t      bytes = sizes[k];
        uint8_t    *data = pattern(bytes, 9), *back = malloc(bytes);
        assert_non_null(back);
        haul_set_device(late_device(0));
        haul_tensor *x = bytes_of(data, bytes);
        haul_device_sync(late_device(0));
        int64_t      waits = haul_sync_count();
        haul_tensor *y = haul_to(x, late_device(1));
        assert_int_equal(haul_sync_count(), waits);
        haul_drop(x);
        assert_int_equal(haul_read(y, back, bytes), HAUL_OK);
        assert_memory_equal(back, data, bytes);
        if (device_count > 1) { /* another backend: the host waits for the chunks, which is one wait */
            waits = haul_sync_count();
            haul_tensor *z = haul_to(y, devices[1]);
            assert_in_range(haul_sync_count() - waits, 0, 1);
            assert_int_equal(haul_read(z, back, bytes), HAUL_OK);
            assert_memory_equal(back, data, bytes);
            haul_tensor *w = haul_to(z, late_device(0));
            assert_int_equal(haul_read(w, back, bytes), HAUL_OK);
            assert_memory_equal(back, data, bytes);
        }
        haul_scope_pop(inner);
        free(data);
        free(back);
    }
}

/* ---- failures ---- */

static const size_t FAILING = 5 * MIB + 3;

typedef struct attempt {
    haul_tensor *there, *other; /* hold 0x11 */
    uint8_t     *data, *back;
} attempt;

/* Everything that goes in chunks, once. */
static bool all_directions(attempt *a)
{
    haul_scope *inner = haul_scope_push();
    if (!inner)
        return false;
    haul_set_device(late_device(0));
    haul_tensor *x = bytes_of(a->data, FAILING), *y = haul_tensor_is_valid(x) ? haul_to(x, late_device(1)) : NULL;
    haul_tensor *z = haul_tensor_is_valid(y) ? haul_to(y, haul_cpu()) : NULL;
    bool         good =
        haul_tensor_is_valid(z) && haul_read(y, a->back, FAILING) == HAUL_OK && memcmp(a->back, a->data, FAILING) == 0;
    haul_scope_pop(inner);
    return good;
}

static bool is_filled(haul_tensor *t, uint8_t *back, uint8_t value)
{
    assert_int_equal(haul_read(t, back, FAILING), HAUL_OK);
    for (size_t i = 0; i < FAILING; i++)
        if (back[i] != value)
            return false;
    return true;
}

/* In-place targets: written as a whole or not at all. */
static haul_status in_place(attempt *a, int way)
{
    if (way == 0)
        return haul_write(a->there, a->data, FAILING);
    if (way == 1)
        return haul_copy_into(a->there, a->other);
    haul_scope *inner = haul_scope_push();
    haul_set_device(haul_cpu());
    haul_tensor *x = bytes_of(a->data, FAILING);
    haul_status  status = haul_tensor_is_valid(x) ? haul_copy_into(a->there, x) : haul_error_status();
    haul_scope_pop(inner);
    return status;
}

static void test_staging__failures_leave_nothing_behind(void **state)
{
    static const unsigned kinds[] = {HAUL__FAULT_HOST, HAUL__FAULT_DEVICE, HAUL__FAULT_COPY, HAUL__FAULT_PINNED};
    attempt               a = {.data = pattern(FAILING, 5), .back = malloc(FAILING)};
    (void)state;
    assert_non_null(a.back);
    assert_true(all_directions(&a));
    haul_memory_stats before[2] = {on(late_device(0)), on(late_device(1))};
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        haul__fault_plan(kinds[k], INT64_MAX);
        assert_true(all_directions(&a));
        int64_t count = haul__fault_count();
        for (int64_t nth = 1; nth <= count; nth++) {
            haul_error_clear();
            haul__fault_plan(kinds[k], nth);
            bool good = all_directions(&a);
            haul__fault_plan(0, 0);
            assert_true(good ? kinds[k] == HAUL__FAULT_HOST || kinds[k] == HAUL__FAULT_PINNED
                             : haul_error_status() != HAUL_OK);
            assert_true(good || kinds[k] != HAUL__FAULT_PINNED);
        }
    }
    haul_error_clear();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pinned(i).live_blocks, 0);
        assert_int_equal(on(late_device(i)).live_blocks, before[i].live_blocks);
    }
    free(a.data);
    free(a.back);
}

static void test_staging__failed_writes_change_nothing(void **state)
{
    attempt a = {.data = pattern(FAILING, 6), .back = malloc(FAILING)};
    (void)state;
    assert_non_null(a.back);
    uint8_t *ones = malloc(FAILING), *twos = malloc(FAILING);
    assert_true(ones && twos);
    memset(ones, 0x11, FAILING);
    memset(twos, 0x22, FAILING);
    haul_set_device(late_device(0));
    a.there = bytes_of(ones, FAILING);
    haul_set_device(late_device(1));
    a.other = bytes_of(twos, FAILING);
    for (int way = 0; way < 3; way++) {
        int64_t failures = 0;
        for (int64_t nth = 1;; nth++) {
            haul_transfer_stats before = ledger(), after;
            haul__fault_plan(HAUL__FAULT_COPY, nth);
            haul_status status = in_place(&a, way);
            haul__fault_plan(0, 0);
            if (status == HAUL_OK)
                break;
            after = ledger();
            assert_memory_equal(&after, &before, sizeof after); /* a copy that failed is none */
            assert_int_equal(status, HAUL_BACKEND);
            haul_error_clear();
            failures++;
            assert_true(is_filled(a.there, a.back, 0x11));
        }
        assert_true(failures > haul__staged_chunks(FAILING)); /* each chunk, and the one copy at the end */
        assert_int_equal(haul_read(a.there, a.back, FAILING), HAUL_OK);
        assert_memory_equal(a.back, way == 1 ? twos : a.data, FAILING);
        assert_int_equal(haul_write(a.there, ones, FAILING), HAUL_OK);
    }
    free(ones);
    free(twos);
    free(a.data);
    free(a.back);
}

/* No room on the device for the bytes to gather: they are written directly. */
static void test_staging__in_place_on_a_full_device(void **state)
{
    uint8_t *ones = malloc(FAILING), *back = malloc(FAILING);
    (void)state;
    assert_true(ones && back);
    memset(ones, 0x33, FAILING);
    haul_set_device(late_device(0));
    uint8_t     *data = pattern(FAILING, 8);
    haul_tensor *t = bytes_of(data, FAILING);
    haul_memory_release_cached(late_device(0));
    late_set_room(0);
    assert_int_equal(haul_write(t, ones, FAILING), HAUL_OK);
    late_set_room(-1);
    assert_true(is_filled(t, back, 0x33));
    free(data);
    free(ones);
    free(back);
}

/* ---- threads ---- */

static void *wander(void *context)
{
    unsigned    seed = *(unsigned *)context;
    haul_scope *outer = haul_scope_push();
    bool        good = outer != NULL;
    for (unsigned round = 0; round < 6 && good; round++) {
        haul_scope *inner = haul_scope_push();
        size_t      bytes = MIB * (1 + (seed + round) % 5) + seed;
        uint8_t    *data = pattern(bytes, seed + round), *back = malloc(bytes);
        haul_set_device(late_device((int)(seed + round) % 2));
        haul_tensor *x = bytes_of(data, bytes), *y = haul_to(x, late_device((int)seed % 2));
        good =
            back && haul_tensor_is_valid(y) && haul_read(y, back, bytes) == HAUL_OK && memcmp(back, data, bytes) == 0;
        free(data);
        free(back);
        haul_scope_pop(inner);
    }
    haul_scope_pop(outer);
    *(unsigned *)context = good;
    return NULL;
}

static void test_staging__threads_do_not_disturb_each_other(void **state)
{
    pthread_t threads[4];
    unsigned  context[4];
    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        context[i] = i + 1;
        assert_int_equal(pthread_create(&threads[i], NULL, wander, &context[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(context[i], 1);
    }
    assert_int_equal(pinned(0).live_blocks, 0);
    assert_int_equal(pinned(1).live_blocks, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_staging__every_size_through_pinned_memory),
        TEST(test_staging__less_pinned_memory_than_wanted),
        TEST(test_staging__limit_of_pinned_memory),
        TEST(test_staging__uploads_return_before_the_device_has_copied),
        TEST(test_staging__a_copy_in_chunks_is_one_wait),
        TEST(test_staging__results_on_the_host_are_pinned_and_move_freely),
        TEST(test_pin__copies_once),
        TEST(test_pin__keeps_the_memory_format),
        TEST(test_pin__is_counted_for_the_device),
        TEST(test_staging__between_devices),
        TEST(test_staging__failures_leave_nothing_behind),
        TEST(test_staging__failed_writes_change_nothing),
        TEST(test_staging__in_place_on_a_full_device),
        TEST(test_staging__threads_do_not_disturb_each_other),
    };
    return run_moves("staging", tests, sizeof tests / sizeof tests[0]);
}
