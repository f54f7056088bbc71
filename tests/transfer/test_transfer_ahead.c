/* Copies that can wait, as those of a loader: copies with a waiter pass them, and the order of accesses to the same
 * memory stays.
 *
 * ctest: cuda; sim; labels=threads */
#include "core/object.h"
#include "memory/allocator.h"
#include "support/moves.h"
#include "transfer/copy.h"

enum { MIB = 1 << 20, LARGE = 17 * MIB, PIECES = 5 };

static haul_status copy_ahead(haul__storage *to, haul__storage *from, size_t bytes)
{
    return haul__transfer(&(haul__copy){
        .operation = "test", .to = {to, 0}, .from = {from, 0}, .bytes = bytes, .fresh = true, .ahead = true});
}

/* A copy of `bytes` of this value to `to`, without a waiter; from pinned memory if `pinned`, else from the heap. */
static void send_ahead(haul__storage *to, size_t bytes, uint8_t value, bool pinned)
{
    haul__storage *from =
        pinned ? haul__pinned_alloc(to->device, bytes, "test") : haul__storage_alloc(haul_cpu(), bytes, "test");
    assert_non_null(from);
    assert_int_equal(haul__host_before(from, true, "test"), HAUL_OK);
    memset(from->buffer.host, value, bytes);
    assert_int_equal(copy_ahead(to, from, bytes), HAUL_OK);
    haul__object_release(from);
}

static haul_tensor *room_for(haul_device *device, size_t bytes)
{
    assert_int_equal(haul_set_device(device), HAUL_OK);
    haul_tensor *t = haul_empty(HAUL_U8, HAUL_SHAPE((int64_t)bytes));
    assert_valid(t);
    return t;
}

static void assert_all(const haul_tensor *t, size_t bytes, uint8_t value)
{
    uint8_t *got = calloc(1, bytes);
    assert_non_null(got);
    assert_int_equal(haul_read(t, got, bytes), HAUL_OK);
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(got[i], value);
    free(got);
}

/* late:0 runs a command only when a thread waits for one behind it on its stream. So copies that are pending after a
 * wait were not in the way. */
static void test_transfer_ahead__others_pass(void **state)
{
    (void)state;
    haul_device *device = late_device(0);
    haul_tensor *large = room_for(device, LARGE), *small = room_for(device, 4);
    send_ahead(large->storage, LARGE, 7, true);
    assert_int_equal(late_pending(), PIECES); /* one engine of copies can take others between them */
    assert_int_equal(haul_write(small, (uint8_t[]){1, 2, 3, 4}, 4), HAUL_OK);
    uint8_t got[4] = {0};
    assert_int_equal(haul_read(small, got, 4), HAUL_OK);
    assert_memory_equal(got, ((uint8_t[]){1, 2, 3, 4}), 4);
    assert_int_equal(late_pending(), PIECES);
    assert_all(large, LARGE, 7);
    assert_int_equal(late_pending(), 0);
}

/* Nothing passes a copy of the same memory. */
static void test_transfer_ahead__order_of_accesses_stays(void **state)
{
    (void)state;
    haul_device *device = late_device(0);
    for (int pinned = 0; pinned < 2; pinned++) {
        haul_tensor *t = room_for(device, LARGE);
        uint8_t     *data = malloc(LARGE);
        assert_non_null(data);
        memset(data, 9, LARGE);
        send_ahead(t->storage, LARGE, 7, pinned);
        assert_int_equal(haul_write(t, data, LARGE), HAUL_OK);
        assert_all(t, LARGE, 9);
        send_ahead(t->storage, LARGE, 8, pinned);
        assert_all(t, LARGE, 8);
        send_ahead(t->storage, LARGE, 5, pinned);
        haul_tensor *copy = haul_clone(t);
        send_ahead(t->storage, LARGE, 6, pinned);
        assert_all(copy, LARGE, 5);
        assert_all(t, LARGE, 6);
        free(data);
    }
}

static void test_transfer_ahead__a_copy_in_pieces_counts_once(void **state)
{
    (void)state;
    haul_tensor *large = room_for(late_device(0), LARGE);
    haul_transfer_stats_reset();
    send_ahead(large->storage, LARGE, 3, true);
    assert_int_equal(ledger().h2d_count, 1);
    assert_int_equal(ledger().h2d_bytes, LARGE);
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
    assert_int_equal(late_pending(), 0); /* haul_device_sync waits for these copies, too */
}

static void test_transfer_ahead__a_piece_that_fails_is_an_error(void **state)
{
    (void)state;
    haul_tensor   *large = room_for(late_device(0), LARGE);
    haul__storage *from = haul__pinned_alloc(late_device(0), LARGE, "test");
    assert_non_null(from);
    haul_transfer_stats_reset();
    haul__fault_plan(HAUL__FAULT_COPY, 3);
    assert_int_equal(copy_ahead(large->storage, from, LARGE), HAUL_BACKEND);
    assert_error(HAUL_BACKEND, "fault injected");
    assert_int_equal(ledger().h2d_count, 0);
    haul__object_release(from);
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
}

/* Batches go ahead; the program's own copies do not. */
static void test_transfer_ahead__batches_go_ahead(void **state)
{
    (void)state;
    for (int i = 0; i < device_count; i++) {
        haul_device *device = devices[i];
        if (!haul__device_is_apart(device))
            continue;
        assert_int_equal(haul_set_device(haul_cpu()), HAUL_OK);
        haul_dataset *data = haul_dataset_from_tensors(iota(16, 3), haul_zeros(HAUL_I64, HAUL_SHAPE(16)));
        haul_loader  *l = haul_loader_new(data, .batch = 8, .workers = 1, .device = device);
        assert_non_null(l);
        const uint64_t ahead = atomic_load(&device->ahead->submitted), up = atomic_load(&device->upload->submitted);
        float          got[24];
        assert_int_equal(haul_loader_start(l, 0), HAUL_OK);
        for (int batch = 0; batch < 2; batch++) {
            const haul_batch *b = haul_loader_next(l);
            assert_non_null(b);
            assert_int_equal(haul_read(b->x, got, sizeof got), HAUL_OK);
            for (int k = 0; k < 24; k++)
                assert_true(got[k] == (float)(24 * batch + k));
        }
        assert_int_equal(atomic_load(&device->ahead->submitted), ahead + 4);
        assert_int_equal(atomic_load(&device->upload->submitted), up);
        assert_valid(haul_to(iota(2, 2), device));
        assert_int_equal(atomic_load(&device->upload->submitted), up + 1);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_transfer_ahead__others_pass),
        TEST(test_transfer_ahead__order_of_accesses_stays),
        TEST(test_transfer_ahead__a_copy_in_pieces_counts_once),
        TEST(test_transfer_ahead__a_piece_that_fails_is_an_error),
        TEST(test_transfer_ahead__batches_go_ahead),
    };
    return run_moves("transfer_ahead", tests, sizeof tests / sizeof tests[0]);
}
