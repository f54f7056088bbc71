/* The host's own memory as a tensor, and a tensor's memory for the host.
 * ctest: cuda; env=POCL_DEVICES=pthread pthread; labels=threads */
#include "support/failure.h"
#include "support/moves.h"

/* ---- wrapped memory ---- */

static int deleted;

static void count_deletion(void *context)
{
    assert_ptr_equal(context, &deleted);
    deleted++;
}

static void test_wrap_host__shares_and_deletes_once(void **state)
{
    float data[4] = {1, 2, 3, 4};
    (void)state;
    deleted = 0;
    haul_scope  *inner = haul_scope_push();
    haul_tensor *t = haul_wrap_host(HAUL_F32, HAUL_SHAPE(4), data, count_deletion, &deleted);
    haul_tensor *view = haul_to(t, haul_cpu());
    assert_non_null(view);
    data[2] = 30;
    assert_true(haul_item(view_of(t, &HAUL_SHAPE(1), (int64_t[]){1}, 2)) == 30);
    assert_int_equal(haul_write(t, (float[]){5, 6, 7, 8}, 16), HAUL_OK);
    assert_true(data[0] == 5);
    assert_int_equal(haul_drop(t), HAUL_OK);
    assert_int_equal(deleted, 0); /* the view holds it */
    haul_scope_pop(inner);
    assert_int_equal(deleted, 1);
}

static void test_wrap_host__deletes_when_refused(void **state)
{
    float data[4] = {0};
    (void)state;
    deleted = 0;
    assert_failed(haul_wrap_host(HAUL_F32, HAUL_SHAPE(4), NULL, count_deletion, &deleted));
    assert_error(HAUL_INVALID_ARGUMENT, "data");
    assert_failed(haul_wrap_host(HAUL_F32, HAUL_SHAPE(1), (char *)data + 1, count_deletion, &deleted));
    assert_error(HAUL_INVALID_ARGUMENT, "aligned");
    assert_failed(haul_wrap_host((haul_dtype)77, HAUL_SHAPE(4), data, count_deletion, &deleted));
    assert_error(HAUL_DTYPE, "bf16");
    assert_failed(haul_wrap_host(HAUL_F32, HAUL_SHAPE(-4), data, count_deletion, &deleted));
    assert_int_equal(deleted, 4);
    for (int nth = 1; nth <= 3; nth++) {
        deleted = 0;
        haul_scope *inner = haul_scope_push();
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul_wrap_host(HAUL_F32, HAUL_SHAPE(4), data, count_deletion, &deleted);
        haul__fault_plan(0, 0);
        haul_scope_pop(inner);
        assert_int_equal(deleted, 1);
    }
    haul_error_clear();
}

static float *watched;

static void check_then_count(void *context)
{
    watched[0] = -1; /* later reads would see it */
    count_deletion(context);
}

static void test_wrap_host__deleter_waits_for_readers(void **state)
{
    float data[4] = {1, 2, 3, 4}, back[4];
    (void)state;
    deleted = 0;
    watched = data;
    haul_tensor *t = haul_wrap_host(HAUL_F32, HAUL_SHAPE(4), data, check_then_count, &deleted);
    haul_tensor *y = haul_to(t, late_device(0));
    assert_true(late_pending() > 0);
    assert_int_equal(haul_drop(t), HAUL_OK);
    assert_int_equal(deleted, 1);
    assert_int_equal(haul_read(y, back, sizeof back), HAUL_OK);
    assert_true(back[0] == 1 && back[3] == 4);
}

typedef struct crossings {
    int pinned, pageable;
} crossings;

static void count_crossing(const haul_event *e, void *context)
{
    crossings *c = context;
    c->pinned += strcmp(e->text, "pinned") == 0;
    c->pageable += strcmp(e->text, "pageable") == 0;
}

/* Memory that another library pinned: wrapped, written from and read into. */
static void moves_foreign_memory(haul_device *gpu)
{
    enum { COUNT = 50000 };
    crossings c = {0};
    void     *memory = NULL, *handle = NULL;
    assert_int_equal(gpu->backend->host_alloc(gpu, COUNT * sizeof(float), &memory, &handle), HAUL_OK);
    float *data = memory;
    for (int i = 0; i < COUNT; i++)
        data[i] = (float)i;
    const int64_t id = haul_events_subscribe(count_crossing, .kinds = HAUL_EVENT_COPY, .context = &c);
    haul_scope   *inner = haul_scope_push();
    haul_tensor  *wrapped = haul_wrap_host(HAUL_F32, HAUL_SHAPE(COUNT), data, NULL, NULL);
    haul_tensor  *there = haul_to(wrapped, gpu);
    assert_true(gpu != late_device(0) || late_pending() > 0); /* asynchronous */
    assert_true(gpu == late_device(0) || haul_tensor_is_pinned(wrapped));
    assert_int_equal(haul_device_sync(gpu), HAUL_OK);
    assert_int_equal(c.pinned, 1);
    assert_int_equal(haul_fill_into(wrapped, 0), HAUL_OK);
    assert_int_equal(haul_copy_into(wrapped, there), HAUL_OK);
    assert_int_equal(haul_device_sync(gpu), HAUL_OK);
    assert_int_equal(c.pinned, 2);
    assert_true(data[1] == 1 && data[COUNT - 1] == COUNT - 1);
    memset(data, 0, COUNT * sizeof(float));
    assert_int_equal(haul_read(there, data, COUNT * sizeof(float)), HAUL_OK);
    assert_true(data[1] == 1 && data[COUNT - 1] == COUNT - 1);
    assert_int_equal(haul_write(there, data, COUNT * sizeof(float)), HAUL_OK);
    assert_int_equal(c.pinned, 4);
    assert_int_equal(c.pageable, 0);
    float *own = calloc(COUNT, sizeof *own);
    assert_non_null(own);
    assert_int_equal(haul_read(there, own, COUNT * sizeof(float)), HAUL_OK);
    assert_true(own[COUNT - 1] == COUNT - 1);
    assert_int_equal(c.pageable, 1);
    haul_tensor *ordinary = haul_wrap_host(HAUL_F32, HAUL_SHAPE(COUNT), own, free, own);
    assert_false(haul_tensor_is_pinned(ordinary));
    haul_scope_pop(inner);
    haul_events_unsubscribe(id);
    gpu->backend->host_free(gpu, memory, handle);
}

static void test_wrap_host__memory_pinned_by_others(void **state)
{
    (void)state;
    moves_foreign_memory(late_device(0));
    for (int d = 0; d < device_count; d++) {
        assert_int_equal(haul_device_sync(devices[d]), HAUL_OK);
        if (devices[d]->backend->host_is_pinned)
            moves_foreign_memory(devices[d]);
    }
}

/* ---- mapped memory ---- */

static void test_map__reads_and_writes(void **state)
{
    haul_device *all[18] = {late_device(0)};
    (void)state;
    for (int d = 0; d < device_count; d++)
        all[d + 1] = devices[d];
    for (int d = 0; d <= device_count; d++) {
        haul_tensor *x = haul_to(iota(3, 4), all[d]);
        haul_tensor *rows = view_of(x, &HAUL_SHAPE(2, 4), NULL, 4);
        uint64_t     version = haul_tensor_version(x);
        float       *memory = haul_map(rows, HAUL_READ), back[12];
        assert_non_null(memory);
        assert_true(memory[0] == 4 && memory[7] == 11);
        assert_null(haul_map(x, HAUL_READ));
        assert_error(HAUL_STATE, "haul_unmap");
        assert_int_equal(haul_unmap(rows), HAUL_OK);
        assert_int_equal(haul_tensor_version(x), version);
        memory = haul_map(rows, HAUL_READ | HAUL_WRITE);
        memory[1] = 50;
        assert_int_equal(haul_unmap(rows), HAUL_OK);
        assert_int_equal(haul_tensor_version(x), version + 1);
        memory = haul_map(rows, HAUL_WRITE); /* elements that are not written stay */
        memory[2] = 60;
        assert_int_equal(haul_unmap(rows), HAUL_OK);
        assert_int_equal(haul_read(x, back, sizeof back), HAUL_OK);
        for (int i = 0; i < 12; i++)
            assert_true(back[i] == (float)(i == 5 ? 50 : i == 6 ? 60 : i));
        assert_int_equal(haul_unmap(rows), HAUL_STATE);
        haul_error_clear();
    }
}

static void test_map__refuses(void **state)
{
    haul_tensor *x = iota(3, 4);
    (void)state;
    assert_null(haul_map(x, 0));
    assert_error(HAUL_INVALID_ARGUMENT, "mode is 0");
    assert_null(haul_map(x, 4));
    assert_error(HAUL_INVALID_ARGUMENT, "mode is 4");
    assert_null(haul_map(transposed(x), HAUL_READ));
    assert_error(HAUL_STATE, "haul_contiguous");
    assert_null(haul_map(NULL, HAUL_READ));
    assert_error(HAUL_INVALID_ARGUMENT, "t");
    haul_tensor *empty = haul_from_host(HAUL_F32, HAUL_SHAPE(0), NULL);
    assert_non_null(haul_map(empty, HAUL_READ | HAUL_WRITE));
    assert_int_equal(haul_unmap(empty), HAUL_OK);
}

static void test_map__a_failed_write_back_can_be_tried_again(void **state)
{
    haul_tensor *x = haul_to(iota(1, 4), late_device(0));
    (void)state;
    float *memory = haul_map(x, HAUL_WRITE);
    memory[3] = 33;
    haul__fault_plan(HAUL__FAULT_COPY, 1);
    assert_int_equal(haul_unmap(x), HAUL_BACKEND);
    haul__fault_plan(0, 0);
    assert_int_equal(haul_tensor_version(x), 0);
    haul_error_clear();
    assert_int_equal(haul_unmap(x), HAUL_OK);
    assert_true(haul_item(view_of(x, &HAUL_SHAPE(1), (int64_t[]){1}, 3)) == 33);
}

static void test_map__forgotten_maps_do_not_leak(void **state)
{
    int64_t     blocks = haul__host_blocks();
    haul_scope *inner = haul_scope_push();
    (void)state;
    haul_tensor *x = haul_to(iota(100, 100), late_device(1));
    assert_non_null(haul_map(x, HAUL_READ));
    haul_scope_pop(inner);
    haul_memory_release_cached(late_device(1));
    haul_memory_release_cached(haul_cpu());
    assert_in_range(haul__host_blocks(), 0, blocks + 16); /* scopes and small objects are kept for reuse */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_wrap_host__shares_and_deletes_once),
        TEST(test_wrap_host__deletes_when_refused),
        TEST(test_wrap_host__deleter_waits_for_readers),
        TEST(test_wrap_host__memory_pinned_by_others),
        TEST(test_map__reads_and_writes),
        TEST(test_map__refuses),
        TEST(test_map__a_failed_write_back_can_be_tried_again),
        TEST(test_map__forgotten_maps_do_not_leak),
    };
    return run_moves("transfer_host", tests, sizeof tests / sizeof tests[0]);
}
