/* Snapshots at the moment of a failure: what the device held when an allocation failed.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "memory/allocator.h"
#include "support/devices/late.h"
#include "support/failure.h"

enum { KIB = 1024, MIB = 1024 * 1024, MOST = 512 };

static int end(void **state)
{
    (void)state;
    haul__fault_plan(0, 0);
    haul_memory_set_limit(haul_cpu(), 0);
    haul_memory_record(false);
    haul_error_clear();
    return 0;
}

/* A device of 1 MiB, of which `held` has 300 KiB, with a name and a label. */
static haul_device *filled_device(haul__storage *held[2])
{
    haul_device *device = late_device_new();
    haul_memory_set_limit(device, MIB);
    assert_int_equal(haul_memory_record(true), HAUL_OK);
    held[0] = haul__storage_alloc(device, 100 * KIB, "haul_exp");
    haul_label_begin("the second");
    held[1] = haul__storage_alloc(device, 200 * KIB, "haul_add");
    haul_label_end();
    assert_true(held[0] && held[1]);
    return device;
}

static void let_go(haul_device *device, haul__storage *held[2])
{
    haul__object_release(held[0]);
    haul__object_release(held[1]);
    haul_memory_release_cached(device);
}

static void fail_on(haul_device *device)
{
    assert_null(haul__storage_alloc(device, MIB, "haul_matmul"));
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
}

/* No snapshot is kept for the thread's error, which stays. */
static void assert_none(void)
{
    const haul_status before = haul_error_status();
    haul_memory_block row = {.bytes = 7};
    assert_int_equal(haul_memory_report_snapshot(&row, 1), -1);
    assert_int_equal(row.bytes, 7);
    assert_int_equal(haul_error_status(), before ? before : HAUL_STATE);
    assert_int_equal(haul_memory_report_snapshot_json(NULL, 0), -1);
    if (!before)
        haul_error_clear();
}

/* ---- rows ---- */

/* They stay those of the failure, whatever becomes of the memory. */
static void test_memory_failure__lists_the_blocks_of_that_moment(void **state)
{
    haul__storage    *held[2];
    haul_memory_block rows[4] = {{.bytes = 0}};
    (void)state;
    haul_device *device = filled_device(held);
    fail_on(device);
    let_go(device, held);
    assert_int_equal(haul_memory_snapshot(device, NULL, 0), 0);
    assert_int_equal(haul_memory_report_snapshot(NULL, 0), 2);
    assert_int_equal(haul_memory_report_snapshot(rows, 1), 2);
    assert_int_equal(rows[1].bytes, 0);
    assert_int_equal(haul_memory_report_snapshot(rows, 4), 2);
    const haul_memory_block *first = &rows[0], *second = &rows[1];
    assert_string_equal(first->operation, "haul_exp");
    assert_string_equal(first->label, "");
    assert_string_equal(second->operation, "haul_add");
    assert_string_equal(second->label, "the second");
    assert_int_equal(first->requested, 100 * KIB);
    assert_int_equal(second->requested, 200 * KIB);
    assert_int_equal(first->age, 1);
    assert_int_equal(second->age, 0);
    for (int i = 0; i < 2; i++)
        assert_true(rows[i].live && rows[i].recorded && !rows[i].spilled && rows[i].nanoseconds > 0);
    assert_true(first->nanoseconds >= second->nanoseconds);
    assert_int_equal(rows[2].bytes, 0);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
}

/* A scope's limit leaves the cache as it is. */
static void test_memory_failure__names_modules_and_cached_blocks(void **state)
{
    static haul_memory_block rows[MOST];
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(64, 512), haul_nn_relu(), haul_nn_linear(512, 4096));
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(64, 64));
    haul_memory_release_cached(haul_cpu());
    haul_memory_record(true);
    haul_drop(haul_full(HAUL_F32, HAUL_SHAPE(100), 1));
    haul_scope *limited = haul_scope_push();
    haul_scope_set_memory_limit(limited, haul_cpu(), 512 * KIB);
    assert_failed(haul_call(net, x));
    haul_scope_pop(limited);
    const int count = haul_memory_report_snapshot(rows, MOST);
    int       relu = 0, cached = 0, before = 0;
    assert_true(count > 0 && count <= MOST);
    for (int i = 0; i < count; i++) {
        relu += rows[i].live && !strcmp(rows[i].module, "1") && rows[i].bytes == 64 * 512 * 4;
        cached += !rows[i].live && !strcmp(rows[i].operation, "haul_full");
        before += rows[i].live && !rows[i].recorded; /* the parameters */
    }
    assert_int_equal(relu, 1);
    assert_int_equal(cached, 1);
    assert_true(before >= 4);
    haul_scope_pop(scope);
}

static void test_memory_failure__marks_what_is_spilled(void **state)
{
    haul_device      *device = late_device_new();
    haul__storage    *held[3];
    haul_memory_block rows[4];
    (void)state;
    haul_memory_set_limit(device, 2 * MIB);
    haul_memory_set_spill(device, true);
    haul_memory_record(true);
    for (int i = 0; i < 3; i++)
        assert_non_null(held[i] = haul__storage_alloc(device, MIB, "haul_test"));
    assert_null(haul__storage_alloc(device, 4 * MIB, "haul_matmul"));
    assert_int_equal(haul_memory_report_snapshot(rows, 4), 3);
    assert_true(rows[0].spilled && !rows[1].spilled && !rows[2].spilled);
    for (int i = 0; i < 3; i++)
        haul__object_release(held[i]);
    haul_memory_release_cached(device);
}

/* The rows that there is no room for are counted, and are in the sums. */
static void test_memory_failure__leaves_out_the_youngest(void **state)
{
    enum { COUNT = HAUL_MEMORY_REPORT_BLOCKS + 9, SIZE = 1 << 22 };
    haul_device       *device = late_device_new();
    haul__storage    **held = calloc(COUNT, sizeof *held);
    haul_memory_block *rows = calloc(COUNT, sizeof *rows);
    char              *text = malloc(SIZE), sum[100];
    (void)state;
    assert_true(held && rows && text);
    haul_memory_set_limit(device, MIB);
    haul_memory_record(true);
    for (int i = 0; i < COUNT; i++)
        assert_non_null(held[i] = haul__storage_alloc(device, 64, i < HAUL_MEMORY_REPORT_BLOCKS ? "old" : "young"));
    fail_on(device);
    assert_int_equal(haul_memory_report_snapshot(rows, COUNT), COUNT);
    for (int i = 0; i < COUNT; i++)
        assert_string_equal(rows[i].operation, i < HAUL_MEMORY_REPORT_BLOCKS ? "old" : "");
    assert_in_range(haul_memory_report_snapshot_json(text, SIZE), 1, SIZE - 1);
    snprintf(sum, sizeof sum, "{\"name\":\"young\",\"bytes\":%d,\"blocks\":9}", 9 * 64);
    assert_non_null(strstr(text, sum));
    assert_non_null(strstr(text, "],\"left_out\":9}"));
    for (int i = 0; i < COUNT; i++)
        haul__object_release(held[i]);
    haul_memory_release_cached(device);
    free(held);
    free(rows);
    free(text);
}

/* ---- JSON ---- */

/* Takes out the values that depend on the time. */
static void drop_times(char *text)
{
    for (char *at; (at = strstr(text, "\"nanoseconds\":"));) {
        const char *rest = strchr(at, ',') + 1;
        memmove(at, rest, strlen(rest) + 1);
    }
}

/* Nothing has changed since, so both texts say the same. */
static void test_memory_failure__json(void **state)
{
    static char    text[4000], now[4000];
    char           part[50];
    haul__storage *held[2];
    (void)state;
    haul_device *device = filled_device(held);
    fail_on(device);
    const int64_t length = haul_memory_report_snapshot_json(text, sizeof text);
    assert_in_range(length, 1, sizeof text - 1);
    assert_int_equal(strlen(text), length);
    assert_int_equal(haul_memory_report_snapshot_json(NULL, 0), length);
    assert_int_equal(haul_memory_report_snapshot_json(part, sizeof part), length);
    assert_int_equal(strlen(part), sizeof part - 1);
    assert_int_equal(strncmp(part, text, sizeof part - 1), 0);
    assert_in_range(haul_memory_snapshot_json(device, now, sizeof now), 1, sizeof now - 20);
    drop_times(text);
    drop_times(now);
    strcpy(strrchr(now, '}'), ",\"left_out\":0}");
    assert_string_equal(text, now);
    let_go(device, held);
}

/* ---- with the error ---- */

static void test_memory_failure__goes_with_its_error(void **state)
{
    haul__storage *held[2], *other[2];
    (void)state;
    haul_device *device = filled_device(held), *second = filled_device(other);
    assert_none();
    fail_on(device);
    assert_int_equal(haul_memory_report_snapshot(NULL, 1), -1);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    haul_error_clear();
    assert_none();
    fail_on(device);
    assert_null(haul__scratch_alloc(second, MIB, NULL, 0)); /* does without, and takes no other's place */
    assert_int_equal(haul_memory_report_snapshot(NULL, 0), 2);
    haul__object_release(other[1]);
    other[1] = NULL;
    fail_on(second);
    assert_int_equal(haul_memory_report_snapshot(NULL, 0), 1);
    let_go(device, held);
    let_go(second, other);
}

static void *fail_on_thread(void *device)
{
    fail_on(device);
    return NULL;
}

/* The next failure takes its place, on whatever thread. */
static void test_memory_failure__the_last_one_is_kept(void **state)
{
    haul__storage *held[2];
    pthread_t      thread;
    (void)state;
    haul_device *device = filled_device(held);
    fail_on(device);
    assert_int_equal(haul_memory_report_snapshot(NULL, 0), 2);
    assert_int_equal(pthread_create(&thread, NULL, fail_on_thread, device), 0);
    pthread_join(thread, NULL);
    assert_none();
    haul_memory_report r;
    assert_int_equal(haul_memory_report_get(&r), HAUL_OK); /* which is kept longer */
    let_go(device, held);
}

/* ---- recording ---- */

static void test_memory_failure__only_while_memory_is_recorded(void **state)
{
    haul__storage *held[2];
    (void)state;
    haul_device *device = filled_device(held);
    fail_on(device);
    assert_int_equal(haul_memory_record(true), HAUL_OK); /* goes on */
    assert_int_equal(haul_memory_report_snapshot(NULL, 0), 2);
    assert_int_equal(haul_memory_record(false), HAUL_OK);
    assert_none();
    fail_on(device);
    assert_none();
    let_go(device, held);
}

static void test_memory_failure__recording_needs_memory(void **state)
{
    (void)state;
    assert_int_equal(haul_memory_record(true), HAUL_OK); /* objects made once */
    assert_int_equal(haul_memory_record(false), HAUL_OK);
    const int64_t before = haul__host_blocks();
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    assert_int_equal(haul_memory_record(true), HAUL_OUT_OF_MEMORY);
    haul__fault_plan(0, 0);
    assert_string_equal(haul_error_operation(), "haul_memory_record");
    haul_error_clear();
    assert_int_equal(haul__host_blocks(), before);
    assert_int_equal(haul_memory_record(true), HAUL_OK);
    assert_int_equal(haul_memory_record(false), HAUL_OK);
    assert_int_equal(haul__host_blocks(), before);
}

/* How often host memory is asked for when an allocation fails. */
static int64_t requests_of_failure(haul_device *device)
{
    haul__fault_plan(HAUL__FAULT_HOST, INT64_MAX);
    fail_on(device);
    return haul__fault_count();
}

/* With a snapshot no more than without; and none when it is read. */
static void test_memory_failure__makes_no_allocation(void **state)
{
    static char       text[4000];
    haul_memory_block rows[4];
    haul__storage    *held[2];
    (void)state;
    haul_device  *device = filled_device(held);
    const int64_t with = requests_of_failure(device);
    assert_int_equal(haul_memory_report_snapshot(rows, 4), 2);
    assert_in_range(haul_memory_report_snapshot_json(text, sizeof text), 1, sizeof text - 1);
    assert_int_equal(haul__fault_count(), with);
    haul_memory_record(false);
    assert_int_equal(requests_of_failure(device), with);
    let_go(device, held);
}

/* ---- threads ---- */

enum { THREADS = 3, ROUNDS = 200 };

/* Another thread's failure, or the end of the recording, may take the snapshot away at any time. */
static void *fail_often(void *device)
{
    static _Thread_local char text[4000];
    for (int i = 0; i < ROUNDS; i++) {
        haul_memory_block rows[4];
        fail_on(device);
        const int     count = haul_memory_report_snapshot(rows, 4);
        const int64_t length = haul_memory_report_snapshot_json(text, sizeof text);
        if ((count != -1 && count != 2) || length >= (int64_t)sizeof text)
            return device;
        haul_error_clear();
    }
    return NULL;
}

static void test_memory_failure__threads(void **state)
{
    haul__storage *held[2];
    pthread_t      threads[THREADS];
    void          *wrong;
    (void)state;
    haul_device *device = filled_device(held);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fail_often, device), 0);
    for (int i = 0; i < ROUNDS; i++)
        assert_int_equal(haul_memory_record(i % 2), HAUL_OK);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
    let_go(device, held);
}

#define TEST(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_memory_failure__lists_the_blocks_of_that_moment),
        TEST(test_memory_failure__names_modules_and_cached_blocks),
        TEST(test_memory_failure__marks_what_is_spilled),
        TEST(test_memory_failure__leaves_out_the_youngest),
        TEST(test_memory_failure__json),
        TEST(test_memory_failure__goes_with_its_error),
        TEST(test_memory_failure__the_last_one_is_kept),
        TEST(test_memory_failure__only_while_memory_is_recorded),
        TEST(test_memory_failure__recording_needs_memory),
        TEST(test_memory_failure__makes_no_allocation),
        TEST(test_memory_failure__threads),
    };
    haul_scope *scope = haul_scope_push();
    int         failed = cmocka_run_group_tests_name("memory_failure", tests, NULL, NULL);
    haul_scope_pop(scope);
    return failed;
}
