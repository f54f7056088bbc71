/* Commands: what reaches a device, in which order, and for whose sake.
 *
 * ctest: cuda */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "memory/allocator.h"
#include "support/commands.h"
#include "support/conformance/conformance.h"
#include "support/devices/late.h"
#include "support/failure.h"

/* ---- callbacks ---- */

typedef struct look {
    int64_t pending; /* commands of the late devices, not done when the callback ran */
    int     calls;
} look;

/* The params hold the address of a look. */
static haul_status look_around(haul__stream *stream, const haul__command *command)
{
    look *l = *(look *const *)command->params;
    (void)stream;
    l->pending = late_pending();
    l->calls++;
    return HAUL_OK;
}

static haul_status refuse(haul__stream *stream, const haul__command *command)
{
    (void)stream;
    return haul__fail(HAUL_STATE, command->operation, NULL, "not today");
}

static haul_status call_back(haul_device *device, haul__storage *storage, look *l,
                             haul_status (*run)(haul__stream *, const haul__command *))
{
    return haul__submit(&(haul__command){.kind = HAUL__COMMAND_CALLBACK,
                                         .operation = "test",
                                         .device = device,
                                         .buffers = &(haul__region){storage, 0},
                                         .buffer_count = storage ? 1 : 0,
                                         .params = &l,
                                         .params_size = sizeof l,
                                         .run = run});
}

static void test_command__a_callback_runs_at_once_on_a_synchronous_device(void **state)
{
    look l = {.calls = 0};
    (void)state;
    assert_int_equal(call_back(haul_cpu(), NULL, &l, look_around), HAUL_OK);
    assert_int_equal(l.calls, 1);
}

static void test_command__a_callback_comes_after_its_stream(void **state)
{
    haul__storage *a = haul__storage_alloc(late_device(0), 64, "test");
    look           l = {.pending = -1};
    (void)state;
    assert_int_equal(submit_fill(a, 64, 3), HAUL_OK);
    assert_int_equal(late_pending(), 1);
    assert_int_equal(call_back(late_device(0), NULL, &l, look_around), HAUL_OK);
    assert_int_equal(l.calls, 1);
    assert_int_equal(l.pending, 0);
    haul__object_release(a);
}

/* Its buffers may be in use on another stream. */
static void test_command__a_callback_waits_for_its_buffers(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "test");
    haul__storage *a = haul__storage_alloc(late_device(0), 64, "test");
    look           l = {.pending = -1};
    (void)state;
    assert_int_equal(submit_write(a, NULL, host, 64), HAUL_OK); /* the upload stream */
    assert_int_equal(late_pending(), 1);
    assert_int_equal(call_back(late_device(0), NULL, &l, look_around), HAUL_OK);
    assert_int_equal(l.pending, 1);
    assert_int_equal(call_back(late_device(0), a, &l, look_around), HAUL_OK);
    assert_int_equal(l.pending, 0);
    haul__object_release(a);
    haul__object_release(host);
}

static void test_command__a_callback_may_fail(void **state)
{
    haul__storage *a = haul__storage_alloc(late_device(0), 64, "test");
    (void)state;
    assert_int_equal(call_back(late_device(0), a, NULL, refuse), HAUL_STATE);
    haul_error_clear();
    assert_int_equal(submit_fill(a, 64, 3), HAUL_OK); /* nothing is locked */
    haul__object_release(a);
}

static void test_command__nothing_is_called_on_meta(void **state)
{
    look l = {.calls = 0};
    (void)state;
    assert_int_equal(call_back(haul_device_get("meta"), NULL, &l, look_around), HAUL_OK);
    assert_int_equal(l.calls, 0);
}

/* ---- names ---- */

static void refused_for(const char *operation, haul_tensor *result)
{
    haul__fault_plan(0, 0);
    assert_failed(result);
    assert_int_equal(haul_error_status(), HAUL_BACKEND);
    assert_string_equal(haul_error_operation(), operation);
    haul_error_clear();
}

static void test_command__library_calls_name_their_operation(void **state)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *a = haul_zeros(HAUL_F32, HAUL_SHAPE(8, 8)), *x = haul_zeros(HAUL_F32, HAUL_SHAPE(1, 2, 4, 4));
    haul_tensor *w = haul_zeros(HAUL_F32, HAUL_SHAPE(3, 2, 3, 3));
    (void)state;
    haul__fault_plan(HAUL__FAULT_LAUNCH, 1);
    refused_for("haul_matmul", haul_matmul(a, a));
    haul__fault_plan(HAUL__FAULT_LAUNCH, 1);
    refused_for("haul_conv2d", haul_conv2d(x, w));
    haul_scope_pop(scope);
}

static void test_command__peers_that_do_not_reach_each_other_are_refused_quietly(void **state)
{
    haul__storage *a = haul__storage_alloc(haul_cpu(), 64, "test");
    haul__storage *b = haul__storage_alloc(late_device(0), 64, "test");
    (void)state;
    assert_int_equal(haul__submit(&(haul__command){.kind = HAUL__COMMAND_PEER,
                                                   .stream = HAUL__STREAM_UPLOAD,
                                                   .operation = "test",
                                                   .device = b->device,
                                                   .buffers = (haul__region[]){{b, 0}, {a, 0}},
                                                   .write_count = 1,
                                                   .buffer_count = 2,
                                                   .bytes = 64}),
                     HAUL_UNSUPPORTED);
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul__object_release(a);
    haul__object_release(b);
}

/* ---- order and failures ---- */

/* Uses are left by each command: a read on another stream waits for them. */
static void test_command__commands_mark_their_storages(void **state)
{
    haul__storage *a = haul__storage_alloc(late_device(0), 64, "test");
    int64_t        before = late_pending();
    char           back[64];
    (void)state;
    for (unsigned char i = 1; i <= 3; i++)
        assert_int_equal(submit_fill(a, 64, i), HAUL_OK);
    assert_int_equal(late_pending() - before, 3);
    assert_int_equal(submit_read(back, NULL, a, 64), HAUL_OK);
    assert_int_equal(back[63], 3);
    haul__object_release(a);
}

typedef struct pair {
    haul_tensor *x, *y;
} pair;

/* Three launches, of which no two are fused. */
static haul_status square_and_double(void *context)
{
    const pair *p = context;
    return haul_mul_scalar_into(p->y, haul_flip(haul_square(p->x), HAUL_AXES(0)), 2);
}

static void assert_doubled(const pair *p, haul_recording *r)
{
    float y[2];
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(haul_read(p->y, y, sizeof y), HAUL_OK);
    assert_true(y[0] == 32 && y[1] == 18);
}

/* A step that fails halfway says so, and the next one runs; the first runs as it is, the others are followed. */
static void fails_and_goes_on(haul_device *device)
{
    haul_recording_report report;
    haul_scope           *scope = haul_scope_push();
    assert_int_equal(haul_set_device(device), HAUL_OK);
    pair            p = {haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2), ((float[]){3, 4})), device),
                         haul_zeros(HAUL_F32, HAUL_SHAPE(2))};
    haul_recording *r = haul_recording_new(square_and_double, &p);
    for (int i = 0; i < 4; i++) {
        haul__fault_plan(HAUL__FAULT_LAUNCH, 1 + i % 2);
        assert_int_equal(haul_recording_run(r), HAUL_BACKEND);
        haul__fault_plan(0, 0);
        assert_non_null(strstr(haul_error_message(), "refused a launch"));
        haul_error_clear();
        assert_doubled(&p, r);
    }
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_true(report.followed >= 4);
    haul_scope_pop(scope);
}

static void test_command__a_step_that_fails_halfway_leaves_nothing_locked(void **state)
{
    haul_device *second = test_second_device();
    (void)state;
    fails_and_goes_on(haul_cpu());
    if (second)
        fails_and_goes_on(second);
}

int main(void)
{
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_command__a_callback_runs_at_once_on_a_synchronous_device),
        cmocka_unit_test(test_command__a_callback_comes_after_its_stream),
        cmocka_unit_test(test_command__a_callback_waits_for_its_buffers),
        cmocka_unit_test(test_command__a_callback_may_fail),
        cmocka_unit_test(test_command__nothing_is_called_on_meta),
        cmocka_unit_test(test_command__library_calls_name_their_operation),
        cmocka_unit_test(test_command__peers_that_do_not_reach_each_other_are_refused_quietly),
        cmocka_unit_test(test_command__commands_mark_their_storages),
        cmocka_unit_test(test_command__a_step_that_fails_halfway_leaves_nothing_locked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
