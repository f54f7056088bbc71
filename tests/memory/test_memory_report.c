/* Reports on allocations that failed: their figures, and that they go with their errors. */
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
#include "core/error.h"
#include "memory/allocator.h"
#include "support/devices/late.h"
#include "support/failure.h"
#include "transfer/copy.h"

enum { KIB = 1024, MIB = 1024 * 1024 };

static haul_memory_report report_now(void)
{
    haul_memory_report r;
    if (haul_memory_report_get(&r))
        fail_msg("no report: %s", haul_error_message());
    return r;
}

static void assert_no_report(void)
{
    haul_memory_report r = {.requested = 7};
    assert_int_equal(haul_memory_report_get(&r), HAUL_STATE);
    assert_int_equal(r.requested, 7);
}

static int end(void **state)
{
    (void)state;
    haul__fault_plan(0, 0);
    haul_memory_set_limit(haul_cpu(), 0);
    haul_memory_record(false);
    haul_error_clear();
    late_set_room(-1);
    return 0;
}

/* ---- figures ---- */

static void test_memory_report__of_a_limit(void **state)
{
    haul_device   *device = late_device_new();
    haul__storage *held[10];
    char           name[HAUL_MEMORY_REPORT_ORIGINS + 2][8];
    (void)state;
    haul_memory_set_limit(device, MIB);
    for (int i = 0; i < 10; i++) {
        snprintf(name[i], sizeof name[i], "op%d", i);
        held[i] = haul__storage_alloc(device, (size_t)512 << i, name[i]);
        assert_non_null(held[i]);
    }
    haul__object_release(haul__storage_alloc(device, 100 * KIB, "cached"));
    haul_memory_stats s;
    haul_memory_stats_get(device, &s);
    assert_null(haul__storage_alloc(device, 900 * KIB, "haul_matmul"));
    haul_memory_report r = report_now();
    assert_ptr_equal(r.device, device);
    assert_string_equal(r.operation, "haul_matmul");
    assert_string_equal(r.module, "");
    assert_false(r.of_scope);
    assert_string_equal(r.scope, "");
    assert_int_equal(r.requested, 900 * KIB);
    assert_int_equal(r.block, MIB);
    assert_int_equal(r.allocated, s.allocated);
    assert_int_equal(r.reserved, s.allocated); /* the cache was given back */
    assert_int_equal(r.scope_allocated, 0);
    assert_int_equal(r.limit, MIB);
    assert_int_equal(r.free, -1); /* this device does not know */
    assert_int_equal(r.room, MIB - s.allocated);
    assert_false(r.by_module);
    assert_int_equal(r.origin_count, HAUL_MEMORY_REPORT_ORIGINS);
    for (int i = 0; i < HAUL_MEMORY_REPORT_ORIGINS; i++) {
        assert_string_equal(r.origins[i].name, name[9 - i]);
        assert_int_equal(r.origins[i].bytes, held[9 - i]->block->bytes);
        assert_int_equal(r.origins[i].blocks, 1);
    }
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    for (int i = 0; i < 10; i++)
        haul__object_release(held[i]);
}

static void test_memory_report__what_spilling_would_cost(void **state)
{
    haul_device *device = late_device_new();
    char        *values = calloc(2, MIB), text[1000];
    (void)state;
    assert_non_null(values);
    haul_memory_set_limit(device, 4 * MIB);
    haul__storage *held[] = {haul__storage_alloc(device, 2 * MIB, "first"), haul__storage_alloc(device, MIB, "second")};
    const haul__copy write = {
        .operation = "write", .to = {held[0], 0}, .from_host = values, .bytes = 2 * MIB, .fresh = true};
    assert_null(haul__storage_alloc(device, 3 * MIB, "haul_matmul"));
    assert_int_equal(report_now().spill_bytes, 2 * MIB);  /* 3 are asked for, and 1 is left */
    assert_int_equal(report_now().spill_nanoseconds, -1); /* no copy was timed */
    haul_memory_report r = report_now();
    haul_memory_report_text(&r, text, sizeof text);
    assert_non_null(
        strstr(text, "\n  spilling   would move 2.0 MiB to host memory and back for this allocation alone\n"));
    assert_int_equal(haul__transfer(&write), HAUL_OK);
    assert_null(haul__storage_alloc(device, 3 * MIB, "haul_matmul"));
    assert_true(report_now().spill_nanoseconds > 0);
    assert_null(haul__storage_alloc(device, 5 * MIB, "haul_matmul"));
    assert_int_equal(report_now().spill_bytes, 0); /* more than all that is there */
    haul_memory_set_spill(device, true);
    assert_null(haul__storage_alloc(device, 5 * MIB, "haul_matmul"));
    assert_int_equal(report_now().spill_bytes, 0);
    haul_memory_set_spill(device, false);
    haul_error_clear();
    for (int i = 0; i < 2; i++)
        haul__object_release(held[i]);
    free(values);
}

static void test_memory_report__of_a_full_device(void **state)
{
    (void)state;
    late_set_room(64 * KIB);
    assert_null(haul__storage_alloc(late_device(0), MIB, "haul_exp"));
    haul_memory_report r = report_now();
    assert_int_equal(r.limit, 0);
    assert_int_equal(r.room, -1);
    haul_error_clear();
    haul_scope *scope = haul_scope_push();                             /* the CPU knows */
    assert_failed(haul_zeros(HAUL_F32, HAUL_SHAPE(1 << 29, 1 << 29))); /* more than a process can address */
    r = report_now();
    assert_int_equal(r.requested, (int64_t)1 << 60);
    assert_int_equal(r.spill_bytes, 0); /* it has nowhere to spill */
    assert_true(r.free > MIB && r.free < (int64_t)1 << 60);
    assert_int_equal(r.room, r.free);
    haul_scope_pop(scope);
}

static void test_memory_report__of_a_scope(void **state)
{
    haul_scope *outer = haul_scope_push();
    (void)state;
    haul_tensor *outside = haul_zeros(HAUL_F32, HAUL_SHAPE(1024));
    haul_scope  *scope = haul_scope_push_named("request 7");
    haul_scope_set_memory_limit(scope, haul_cpu(), 64 * KIB);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(8 * KIB));
    assert_failed(haul_exp(haul_sin(x)));
    haul_memory_report r = report_now();
    assert_true(r.of_scope);
    assert_string_equal(r.scope, "request 7");
    assert_string_equal(r.operation, "haul_exp");
    assert_int_equal(r.limit, 64 * KIB);
    assert_int_equal(r.scope_allocated, 64 * KIB);
    assert_int_equal(r.room, 0);
    assert_true(r.allocated >= 64 * KIB + 4096);
    assert_int_equal(r.origin_count, 2); /* of the scope only */
    assert_int_equal(r.origins[0].bytes + r.origins[1].bytes, 64 * KIB);
    haul_scope_pop(scope);
    assert_string_equal(report_now().scope, "request 7"); /* a copy */
    assert_valid(outside);
    haul_scope_pop(outer);
}

static void test_memory_report__by_module(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    haul_module      *net = HAUL_SEQUENTIAL(haul_nn_linear(64, 512), haul_nn_relu(), haul_nn_linear(512, 4096));
    haul_tensor      *x = haul_ones(HAUL_F32, HAUL_SHAPE(64, 64));
    haul_memory_stats s;
    haul_memory_record(true);
    haul_memory_release_cached(haul_cpu());
    haul_memory_stats_get(haul_cpu(), &s);
    haul_memory_set_limit(haul_cpu(), s.allocated + 512 * KIB);
    assert_failed(haul_call(net, x));
    haul_memory_report r = report_now();
    assert_true(r.by_module);
    assert_string_equal(r.operation, "haul_linear");
    assert_string_equal(r.module, "2");
    assert_int_equal(r.requested, 64 * 4096 * 4);
    assert_string_equal(r.origins[0].name, "(not recorded)"); /* the parameters */
    bool relu = false;
    for (int i = 0; i < r.origin_count; i++)
        relu = relu || (!strcmp(r.origins[i].name, "1") && r.origins[i].bytes == 64 * 512 * 4);
    assert_true(relu);
    haul_scope_pop(scope);
}

/* ---- with the error ---- */

static haul_tensor *fail_with(int64_t elements)
{
    haul_memory_stats s;
    haul_memory_release_cached(haul_cpu());
    haul_memory_stats_get(haul_cpu(), &s);
    haul_memory_set_limit(haul_cpu(), s.reserved + 4 * KIB);
    haul_tensor *t = haul_zeros(HAUL_F32, HAUL_SHAPE(elements));
    haul_memory_set_limit(haul_cpu(), 0);
    assert_failed(t);
    return t;
}

static void test_memory_report__goes_with_its_error(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    haul_error_clear();
    assert_no_report();
    assert_non_null(strstr(haul_error_message(), "no allocation has failed"));
    haul_error_clear();
    haul_tensor *failed = fail_with(100 * KIB);
    assert_int_equal(report_now().requested, 400 * KIB);
    haul__fail_within("haul_outer"); /* the error of a function that called it */
    assert_string_equal(haul_error_operation(), "haul_outer");
    assert_int_equal(report_now().requested, 400 * KIB);
    haul_error_clear();
    assert_no_report();
    haul_error_clear();
    assert_failed(haul_exp(failed)); /* brings its error back */
    assert_int_equal(report_now().requested, 400 * KIB);
    assert_failed(haul_reshape(haul_ones(HAUL_F32, HAUL_SHAPE(4)), HAUL_SHAPE(3))); /* another error */
    assert_no_report();
    assert_int_equal(haul_error_status(), HAUL_SHAPE);
    haul_scope_pop(scope);
}

/* An error that says the same of host memory has no report, not even that of the failure before. */
static void test_memory_report__not_of_the_hosts_structures(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    fail_with(100 * KIB);
    haul__fail_memory("haul_test", 10);
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    assert_no_report();
    assert_string_equal(haul_error_operation(), "haul_test");
    haul_scope_pop(scope);
}

/* Attempts that are made again, and go well, leave no report. */
static void test_memory_report__not_of_attempts_that_were_repeated(void **state)
{
    haul_device   *device = late_device(0);
    haul__storage *a;
    (void)state;
    haul_memory_release_cached(device);
    late_set_room(64 * KIB);
    haul__object_release(haul__storage_alloc(device, 48 * KIB, "first")); /* cached, and in the way */
    a = haul__storage_alloc(device, 40 * KIB, "second");
    assert_non_null(a);
    assert_no_report();
    haul_error_clear();
    assert_null(haul__scratch_alloc(device, 60 * KIB, NULL, 0)); /* does without */
    assert_no_report();
    haul__object_release(a);
}

static void *fail_in_thread(void *context)
{
    haul_scope        *scope = haul_scope_push();
    haul_memory_report r;
    haul__error_settle();
    *(bool *)context = haul_memory_report_get(&r) == HAUL_STATE;
    haul_scope_pop(scope);
    return NULL;
}

static void test_memory_report__belongs_to_the_thread(void **state)
{
    haul_scope *scope = haul_scope_push();
    bool        none = false;
    pthread_t   thread;
    (void)state;
    fail_with(10 * KIB);
    assert_int_equal(pthread_create(&thread, NULL, fail_in_thread, &none), 0);
    pthread_join(thread, NULL);
    assert_true(none);
    assert_int_equal(report_now().requested, 40 * KIB);
    haul_scope_pop(scope);
}

static void test_memory_report__the_last_are_kept(void **state)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *failed[20];
    (void)state;
    for (int i = 0; i < 20; i++)
        failed[i] = fail_with((10 + i) * KIB);
    for (int i = 0; i < 20; i++) {
        haul_error_clear();
        haul_exp(failed[i]);
        assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        if (i < 4)
            assert_no_report();
        else
            assert_int_equal(report_now().requested, (10 + i) * 4 * KIB);
    }
    haul_scope_pop(scope);
}

static void test_memory_report__makes_no_allocation(void **state)
{
    haul_scope *scope = haul_scope_push();
    char        text[3000];
    (void)state;
    fail_with(10 * KIB);
    const int64_t before = haul__host_blocks();
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    haul_memory_report r = report_now();
    assert_true(haul_memory_report_text(&r, text, sizeof text) > 0);
    assert_true(haul_memory_report_json(&r, text, sizeof text) > 0);
    assert_int_equal(haul__fault_count(), 0);
    haul__fault_plan(0, 0);
    assert_int_equal(haul__host_blocks(), before);
    haul_scope_pop(scope);
}

/* ---- texts ---- */

static const haul_memory_report *example(void)
{
    static haul_memory_report r;
    r = (haul_memory_report){.device = haul_cpu(),
                             .operation = "haul_conv2d",
                             .module = "features.0",
                             .of_scope = true,
                             .scope = "request 7",
                             .requested = 3 * MIB,
                             .block = 3 * MIB,
                             .allocated = 6 * MIB,
                             .reserved = 7 * MIB,
                             .spilled = 3 * MIB,
                             .scope_allocated = 5 * MIB,
                             .limit = 6 * MIB,
                             .free = -1,
                             .room = MIB,
                             .spill_bytes = 2 * MIB,
                             .spill_nanoseconds = 1250000,
                             .by_module = true,
                             .origin_count = 2,
                             .origins = {{"features.0", 4 * MIB, 2}, {"(no module)", MIB, 1}},
                             .role_count = 1,
                             .roles = {{"activations", 5 * MIB, 3}}};
    return &r;
}

static void test_memory_report__text(void **state)
{
    static const char wanted[] =
        "out of memory on cpu: haul_conv2d requested 3.0 MiB in module 'features.0' in scope "
        "\"request 7\"\n"
        "  room       1.0 MiB\n"
        "  limit      6.0 MiB\n"
        "  in scope   5.0 MiB\n"
        "  allocated  6.0 MiB\n"
        "  reserved   7.0 MiB\n"
        "  spilled    3.0 MiB\n"
        "  free       unknown\n"
        "  spilling   would move 2.0 MiB to host memory and back for this allocation alone: about "
        "1.25 ms, an estimate\n"
        "memory by module:\n"
        "  4.0 MiB    features.0, 2 blocks\n"
        "  1.0 MiB    (no module), 1 block\n"
        "memory by role:\n"
        "  5.0 MiB    activations, 3 blocks\n";
    char text[1000];
    (void)state;
    assert_int_equal(haul_memory_report_text(example(), text, sizeof text), sizeof wanted - 1);
    assert_string_equal(text, wanted);
    for (size_t size = 0; size < sizeof wanted; size += 7) {
        memset(text, '#', sizeof text);
        assert_int_equal(haul_memory_report_text(example(), text, size), sizeof wanted - 1);
        assert_int_equal(text[size], '#');
        if (size)
            assert_int_equal(strlen(text), size - 1);
        assert_int_equal(strncmp(text, wanted, size ? size - 1 : 0), 0);
    }
    assert_int_equal(haul_memory_report_text(NULL, text, sizeof text), -1);
    assert_int_equal(haul_memory_report_text(example(), NULL, 1), -1);
    assert_int_equal(haul_memory_report_text(example(), NULL, 0), sizeof wanted - 1);
    haul_memory_report damaged = *example();
    damaged.origin_count = HAUL_MEMORY_REPORT_ORIGINS + 1;
    assert_int_equal(haul_memory_report_text(&damaged, text, sizeof text), -1);
    assert_string_equal(haul_error_argument(), "report");
}

static void test_memory_report__json(void **state)
{
    static const char wanted[] =
        "{\"device\":\"cpu\",\"operation\":\"haul_conv2d\",\"module\":\"features.0\",\"of_scope\":true,"
        "\"scope\":\"request "
        "7\",\"requested\":3145728,\"block\":3145728,\"allocated\":6291456,\"reserved\":7340032,\"spilled\":3145728,"
        "\"pinned\":0,\"overhead\":0,\"scope_allocated\":5242880,\"limit\":6291456,\"free\":-1,\"room\":1048576,"
        "\"spill_bytes\":"
        "2097152,\"spill_"
        "nanoseconds\":1250000,\"by_module\":true,\"origins\":["
        "{\"name\":\"features.0\",\"bytes\":4194304,\"blocks\":2},{\"name\":\"(no module)\",\"bytes\":1048576,"
        "\"blocks\":1}],\"roles\":[{\"name\":\"activations\",\"bytes\":5242880,\"blocks\":3}]}";
    char text[1000];
    (void)state;
    assert_int_equal(haul_memory_report_json(example(), text, sizeof text), sizeof wanted - 1);
    assert_string_equal(text, wanted);
    assert_int_equal(haul_memory_report_json(example(), text, 20), sizeof wanted - 1);
    assert_int_equal(strlen(text), 19);
    assert_int_equal(haul_memory_report_json(NULL, text, sizeof text), -1);
    assert_int_equal(haul_memory_report_json(example(), NULL, 1), -1);
    assert_int_equal(haul_memory_report_get(NULL), HAUL_INVALID_ARGUMENT);
}

#define TEST(name) cmocka_unit_test_teardown(name, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_memory_report__of_a_limit),
        TEST(test_memory_report__of_a_full_device),
        TEST(test_memory_report__of_a_scope),
        TEST(test_memory_report__by_module),
        TEST(test_memory_report__goes_with_its_error),
        TEST(test_memory_report__not_of_the_hosts_structures),
        TEST(test_memory_report__not_of_attempts_that_were_repeated),
        TEST(test_memory_report__belongs_to_the_thread),
        TEST(test_memory_report__the_last_are_kept),
        TEST(test_memory_report__makes_no_allocation),
        TEST(test_memory_report__what_spilling_would_cost),
        TEST(test_memory_report__text),
        TEST(test_memory_report__json),
    };
    haul_scope *scope = haul_scope_push();
    int         failed = cmocka_run_group_tests_name("memory_report", tests, NULL, NULL);
    haul_scope_pop(scope);
    return failed;
}
