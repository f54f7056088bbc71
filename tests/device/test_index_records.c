/* The records of index faults on a late device, whose memory the test writes as a kernel would: copies, and failures of
 * the commands that copy and clear. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <string.h>

#include "backends/index_check.h"
#include "base/alloc.h"
#include "device/index_fault.h"
#include "device/stream.h"
#include "memory/allocator.h"
#include "support/commands.h"
#include "support/devices/late.h"

/* ---- a late device that counts, and may refuse ---- */

static haul__backend        backend;
static const haul__backend *original;
static int                  copies, clears;
static bool                 copies_fail, clears_fail;

static haul_status submit(haul__stream *s, const haul__command *c)
{
    if (c->operation == haul__index_fault_operation) {
        assert_int_equal(c->buffer_count, 1);
        assert_int_equal(c->write_count, c->kind == HAUL__COMMAND_FILL);
        if (c->kind == HAUL__COMMAND_FILL ? clears_fail : copies_fail)
            return haul__fail(HAUL_BACKEND, "submit", NULL, "the driver refused");
        *(c->kind == HAUL__COMMAND_FILL ? &clears : &copies) += 1;
    }
    return original->submit(s, c);
}

static haul_device *device_new(void)
{
    haul_device *device = late_device_new();
    original = late_device(0)->backend;
    backend = *original;
    backend.submit = submit;
    device->backend = &backend;
    copies = clears = 0;
    return device;
}

static uint32_t *record_of(haul_device *device)
{
    const haul__buffer *buffer = NULL;
    assert_int_equal(haul__index_fault_buffer(device, "test", &buffer), HAUL_OK);
    assert_non_null(buffer);
    return buffer->handle;
}

/* As a kernel does which finds `value` in the place of an index of an axis of 10 elements. */
static void note(haul_device *device, uint32_t value)
{
    uint32_t *record = record_of(device);
    late_run(device);
    if (record[FAULT_CHECK])
        return; /* the first one stays */
    record[FAULT_CHECK] = haul__index_check(HAUL__CHECK_index_select, 0);
    record[FAULT_VALUE] = value;
    record[FAULT_BOUND] = 10;
}

/* A command that checks indices. */
static void launch(haul__storage *to)
{
    const haul__buffer *record = NULL;
    assert_int_equal(haul__index_fault_buffer(to->device, "test", &record), HAUL_OK);
    assert_int_equal(submit_apart(&(haul__command){.kind = HAUL__COMMAND_FILL,
                                                   .operation = "test",
                                                   .device = to->device,
                                                   .buffers = &(haul__region){to, 0},
                                                   .write_count = 1,
                                                   .buffer_count = 1,
                                                   .bytes = 64,
                                                   .pattern_size = 1,
                                                   .record = record}),
                     HAUL_OK);
}

static void wait_for(haul__stream *s)
{
    assert_int_equal(haul__use_wait_host((haul__use){s, atomic_load(&s->submitted)}, "test"), HAUL_OK);
}

static void assert_fault(haul_status status, const char *value)
{
    assert_int_equal(status, HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_operation(), "haul_index_select");
    assert_non_null(strstr(haul_error_message(), value));
    haul_error_clear();
}

/* ---- making a record ---- */

static void test_index_records__failures_leave_nothing(void **state)
{
    haul_device  *device = device_new();
    const int64_t held = late_held(), pinned = late_pinned_held();
    (void)state;
    const haul__buffer *buffer = NULL;
    clears_fail = true;
    assert_int_equal(haul__index_fault_buffer(device, "test", &buffer), HAUL_BACKEND);
    clears_fail = false;
    assert_non_null(strstr(haul_error_message(), "records wrong indices cannot be cleared"));
    haul_error_clear();
    assert_null(buffer);
    assert_int_equal(late_held(), held);
    late_set_pinned_room(0);
    for (int nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        const haul_status status = haul__index_fault_buffer(device, "test", &buffer);
        haul__fault_plan(0, 0);
        if (!status)
            break;
        assert_int_equal(status, HAUL_OUT_OF_MEMORY);
        assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
        assert_string_equal(haul_error_operation(), "test");
        haul_error_clear();
        late_run(device);
        assert_int_equal(late_held(), held);
    }
    late_set_pinned_room(-1);
    assert_int_equal(haul_error_status(), HAUL_OK); /* pageable memory is used */
    assert_int_equal(late_pinned_held(), pinned);
    assert_non_null(buffer);
    haul__storage *a = haul__storage_alloc(device, 64, "test");
    launch(a);
    wait_for(device->compute);
    assert_int_equal(copies, 1);
    assert_int_equal(haul__index_faults_raise(device), HAUL_OK);
    haul__object_release(a);
    haul_device *other = device_new();
    late_set_pinned_room(0);
    haul__fail(HAUL_IO, "before", NULL, "an earlier error");
    assert_int_equal(haul__index_fault_buffer(other, "test", &buffer), HAUL_OK);
    late_set_pinned_room(-1);
    assert_string_equal(haul_error_operation(), "before");
    haul_error_clear();
}

/* ---- copies ---- */

/* One for each point, though more points than copies fit were made, and the last one was not asked about. */
static void test_index_records__each_point_has_a_copy(void **state)
{
    haul_device   *device = device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "test");
    (void)state;
    for (int i = 1; i <= 40; i++) {
        launch(a);
        if (i % 2)
            launch(a);
        wait_for(device->compute);
        assert_int_equal(copies, i);
        wait_for(device->compute);
    }
    note(device, 11); /* its copy has the first place, an older one the second */
    launch(a);
    wait_for(device->compute);
    assert_fault(haul__index_faults_raise(device), "is 11");
    assert_int_equal(haul__index_faults_raise(device), HAUL_OK);
    assert_int_equal(clears, 2);
    haul__object_release(a);
}

/* Points without a waiter: all copies are in flight, and a later one makes up for those without a place. */
static void test_index_records__copies_are_made_up_for(void **state)
{
    haul_device   *device = device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "test"), *b = haul__storage_alloc(device, 64, "test");
    (void)state;
    for (int round = 0; round < 3; round++) {
        const int before = copies;
        for (int i = 0; i < 20; i++) { /* another stream reads what the commands write */
            launch(a);
            assert_int_equal(submit_write(b, NULL, a, 0), HAUL_OK);
            assert_int_equal(haul__use_wait_stream(device->download, a->uses->write, "test"), HAUL_OK);
        }
        assert_int_equal(copies, before + 16);
        note(device, 20 + (uint32_t)round);
        launch(a);
        wait_for(device->compute);
        char text[16] = "is 2?";
        text[4] = (char)('0' + round);
        assert_fault(haul__index_faults_raise(NULL), text); /* all copies have a place again */
    }
    wait_for(device->compute);
    assert_int_equal(haul__index_faults_raise(device), HAUL_OK);
    haul__object_release(a);
    haul__object_release(b);
}

/* A copy or a clear that fails is made later, and the error before it stays. */
static void test_index_records__commands_that_fail_are_repeated(void **state)
{
    haul_device   *device = device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "test");
    (void)state;
    note(device, 30);
    launch(a);
    haul__fail(HAUL_IO, "before", NULL, "an earlier error");
    copies_fail = true;
    wait_for(device->compute);
    assert_string_equal(haul_error_operation(), "before");
    haul_error_clear();
    assert_int_equal(haul__index_faults_raise(device), HAUL_OK); /* not known yet */
    assert_int_equal(copies, 0);
    copies_fail = false;
    clears_fail = true;
    assert_fault(haul__index_faults_raise(device), "is 30");
    clears_fail = false;
    assert_int_equal(copies, 1);
    assert_int_equal(clears, 1);
    assert_int_equal(haul__index_faults_raise(device), HAUL_OK);
    haul__object_release(a);
}

/* ---- when a fault is known ---- */

/* A query of another stream, which ran after the command, is as good as a wait. */
static void test_index_records__are_read_through_other_streams(void **state)
{
    haul_device   *device = device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "test"), *host = haul__storage_alloc(haul_cpu(), 64, "test");
    (void)state;
    note(device, 40);
    launch(a);
    assert_int_equal(submit_read(NULL, host, a, 64), HAUL_OK);
    assert_int_equal(haul__index_faults_raise(device), HAUL_OK);
    late_run(device);
    assert_true(haul__uses_reached(host->uses));
    assert_int_equal(atomic_load(&device->compute->completed), 0);
    assert_fault(haul__index_faults_raise(device), "is 40");
    haul__object_release(a);
    haul__object_release(host);
}

/* Nor is an event needed: a wait for the whole stream comes with a copy. */
static void test_index_records__are_read_before_waits_without_events(void **state)
{
    haul_device   *device = device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "test");
    (void)state;
    note(device, 50);
    backend.event_record = NULL;
    launch(a);
    assert_int_equal(copies, 0);
    wait_for(device->compute);
    assert_int_equal(copies, 1);
    assert_fault(haul__index_faults_raise(device), "is 50");
    haul__object_release(a);
}

/* Copies of records are on neither side of the ledger. */
static int begin(void **state)
{
    (void)state;
    ledger_stop();
    return 0;
}

static int end(void **state)
{
    (void)state;
    ledger_go_on();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_records__failures_leave_nothing),
        cmocka_unit_test(test_index_records__each_point_has_a_copy),
        cmocka_unit_test(test_index_records__copies_are_made_up_for),
        cmocka_unit_test(test_index_records__commands_that_fail_are_repeated),
        cmocka_unit_test(test_index_records__are_read_through_other_streams),
        cmocka_unit_test(test_index_records__are_read_before_waits_without_events),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
