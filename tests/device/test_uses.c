/* Uses of memory and the points of streams: which are remembered, which are awaited, and what failures leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <string.h>

#include "base/alloc.h"
#include "device/residency.h"
#include "device/stream.h"
#include "events/events.h"
#include "memory/allocator.h"
#include "support/commands.h"
#include "support/devices/late.h"

/* ---- a late device whose events may fail ---- */

static haul__backend        backend;
static const haul__backend *original;
static bool                 events_fail;

static haul_status record_event(haul__stream *s, void **event)
{
    return events_fail ? haul__fail(HAUL_BACKEND, "event_record", NULL, "no more events")
                       : original->event_record(s, event);
}

static haul_device *device_new(void)
{
    haul_device *device = late_device_new();
    original = late_device(0)->backend;
    backend = *original;
    backend.event_record = record_event;
    device->backend = &backend;
    return device;
}

static void fail_before(void)
{
    haul__fail(HAUL_IO, "before", NULL, "an earlier error");
}

static void assert_error_stays(void)
{
    assert_string_equal(haul_error_operation(), "before");
    haul_error_clear();
}

static int points_of(const haul__stream *s)
{
    int count = 0;
    for (int i = 0; i < HAUL__MAX_POINTS; i++)
        count += s->points[i] != NULL;
    return count;
}

/* ---- uses ---- */

static void test_uses__a_stream_is_remembered_once(void **state)
{
    haul__use  a = {late_device(0)->compute, 0}, b = {late_device(0)->upload, 0};
    haul__uses uses, whole, after;
    (void)state;
    memset(&uses, 0xff, sizeof uses);
    haul__uses_init(&uses);
    haul__uses_init(&whole);
    haul__uses_init(&after);
    assert_true(!uses.any && !uses.away && uses.read_count == 0 && !uses.whole && !uses.write.stream);
    a.ticket = haul__stream_advance(a.stream).ticket;
    haul__uses_mark(&uses, a, false);
    a.ticket = haul__stream_advance(a.stream).ticket;
    haul__uses_mark(&uses, a, false);
    assert_int_equal(uses.read_count, 1);
    assert_int_equal(uses.reads[0].ticket, a.ticket);
    b.ticket = haul__stream_advance(b.stream).ticket;
    uses.whole = &whole;
    haul__uses_mark(&uses, b, false);
    assert_int_equal(uses.read_count, 2);
    assert_int_equal(whole.read_count, 1);
    assert_ptr_equal(whole.reads[0].stream, b.stream);
    haul__uses_mark(&uses, (haul__use){NULL, 1}, true); /* no use */
    haul__uses_mark(NULL, a, true);
    assert_int_equal(uses.read_count, 2);
    haul__uses_follow(&uses, &uses); /* adds nothing to itself */
    assert_int_equal(uses.read_count, 2);
    haul__uses_follow(&after, &uses);
    assert_int_equal(after.read_count, 2);
    assert_null(after.write.stream);
    haul__uses_mark(&uses, a, true); /* a write comes after all reads */
    assert_int_equal(uses.read_count, 0);
    assert_int_equal(whole.read_count, 2);
    haul__uses_follow(&after, &uses);
    assert_int_equal(after.read_count, 2);
    assert_int_equal(haul__uses_wait(NULL, NULL, true, "test"), HAUL_OK);
    assert_false(haul__uses_settled(&uses));
    assert_int_equal(haul__uses_wait(&after, NULL, true, "test"), HAUL_OK);
    assert_true(haul__uses_settled(&uses));
}

/* The reads of more streams than are remembered: the oldest is waited for. */
static void test_uses__more_readers_than_places(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "test"), *copies[HAUL__MAX_READS + 2];
    (void)state;
    memset(host->buffer.host, 3, 64);
    for (int i = 0; i < HAUL__MAX_READS + 2; i++) {
        copies[i] = haul__storage_alloc(late_device_new(), 64, "test");
        for (int k = 0; k <= (i == 1); k++) /* tickets of streams differ */
            assert_int_equal(submit_write(copies[i], NULL, host, 64), HAUL_OK);
    }
    assert_int_equal(host->uses->read_count, HAUL__MAX_READS);
    assert_true(haul__use_done(copies[0]->uses->write));
    for (int i = 2; i < HAUL__MAX_READS + 2; i++) { /* each of the others is remembered */
        bool found = haul__use_done(copies[i]->uses->write);
        for (int k = 0; k < HAUL__MAX_READS; k++)
            found |= host->uses->reads[k].stream == copies[i]->uses->write.stream;
        assert_true(found);
    }
    assert_int_equal(haul__host_before(host, true, "test"), HAUL_OK);
    memset(host->buffer.host, 4, 64);
    for (int i = 0; i < HAUL__MAX_READS + 2; i++) {
        char back[64];
        assert_int_equal(submit_read(back, NULL, copies[i], 64), HAUL_OK);
        assert_int_equal(back[63], 3);
        haul__object_release(copies[i]);
    }
    haul__object_release(host);
}

/* Memory that is freed is waited for without an event, too. */
static void test_uses__are_finished_without_events(void **state)
{
    haul_device   *device = device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "test");
    (void)state;
    const int64_t pending = late_pending();
    assert_int_equal(submit_fill(a, 64, 1), HAUL_OK);
    assert_int_equal(late_pending(), pending + 1);
    fail_before();
    events_fail = true;
    haul__uses_finish(a->uses, "test");
    events_fail = false;
    assert_error_stays();
    assert_int_equal(late_pending(), pending);
    assert_false(haul__events_are_held());
    haul__object_release(a);
}

/* ---- points ---- */

static void test_points__a_copy_without_its_event_succeeds(void **state)
{
    haul_device   *device = device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "test"), *host = haul__storage_alloc(haul_cpu(), 64, "test");
    (void)state;
    fail_before();
    events_fail = true;
    assert_int_equal(submit_write(a, NULL, host, 64), HAUL_OK);
    events_fail = false;
    assert_error_stays();
    assert_int_equal(points_of(device->upload), 0);
    assert_int_equal(haul__host_before(host, true, "test"), HAUL_OK); /* records another */
    assert_int_equal(points_of(device->upload), 1);
    haul__object_release(a);
    haul__object_release(host);
}

static void test_points__streams_are_asked_how_far_they_are(void **state)
{
    haul_device   *device = device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "test"), *host = haul__storage_alloc(haul_cpu(), 64, "test");
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(submit_write(a, NULL, host, 64), HAUL_OK);
    haul__stream_ask(device->upload, 1, false);
    assert_int_equal(atomic_load(&device->upload->completed), 0);
    late_run(device);
    assert_int_equal(submit_fill(a, 64, 1), HAUL_OK);
    haul__stream_ask(device->upload, 1, false);
    assert_int_equal(atomic_load(&device->upload->completed), 2);
    haul__stream_ask(device->compute, 1, false); /* has no event */
    assert_int_equal(points_of(device->compute), 0);
    fail_before();
    events_fail = true;
    haul__stream_ask(device->compute, 1, true);
    events_fail = false;
    assert_error_stays();
    haul__stream_ask(device->compute, 1, true); /* for the next query */
    assert_int_equal(points_of(device->compute), 1);
    assert_int_equal(atomic_load(&device->compute->completed), 0);
    late_run(device);
    haul__stream_ask(device->compute, 1, false);
    assert_int_equal(atomic_load(&device->compute->completed), 1);
    backend.event_query = NULL;
    assert_int_equal(submit_fill(a, 64, 1), HAUL_OK);
    haul__stream_ask(device->compute, 2, true); /* nothing could be asked */
    assert_int_equal(points_of(device->compute), 1);
    haul__object_release(a);
    haul__object_release(host);
}

/* ---- memory that is not there ---- */

static int            brought;
static haul__storage *away;

static haul_status bring_back(const haul__command *c)
{
    assert_true(haul__residency_is_taken());
    assert_int_equal(c->buffer_count, 1);
    assert_ptr_equal(c->buffers[0].storage, away);
    assert_string_equal(c->operation, "test");
    brought++;
    atomic_store(&away->uses->away, false);
    return HAUL_OK;
}

static void test_residency__an_access_of_the_host_brings_memory_back(void **state)
{
    (void)state;
    away = haul__storage_alloc(haul_cpu(), 64, "test");
    haul__residency_use(bring_back);
    for (int i = 1; i < 3; i++) {
        atomic_store(&away->uses->away, true);
        assert_int_equal(haul__host_before(away, false, "test"), HAUL_OK);
        assert_int_equal(brought, i);
        assert_false(haul__residency_is_taken());
        assert_false(haul__events_are_held());
        assert_int_equal(haul__host_before(away, true, "test"), HAUL_OK);
        assert_int_equal(brought, i);
    }
    haul__storage bare; /* memory that only the host uses */
    haul__storage_embed(&bare, haul_cpu());
    bare.uses = NULL;
    assert_int_equal(haul__host_before(&bare, true, "test"), HAUL_OK);
    away->planned = true; /* in a dry run, which is over */
    assert_int_equal(haul__host_before(away, false, "test"), HAUL_STATE);
    haul_error_clear();
    away->planned = false;
    haul__object_release(away);
}

/* ---- streams ---- */

/* The last test: there are no more streams then. */
static void test_streams__are_limited(void **state)
{
    static haul_device devices[HAUL__MAX_STREAMS + 1];
    int                opened = 0;
    (void)state;
    for (; opened <= HAUL__MAX_STREAMS; opened++) {
        devices[opened].backend = late_device(0)->backend;
        if (haul__streams_open(&devices[opened]))
            break;
    }
    assert_int_equal(haul_error_status(), HAUL_UNSUPPORTED);
    assert_non_null(strstr(haul_error_message(), "there are too many streams"));
    haul_error_clear();
    assert_true(opened < HAUL__MAX_STREAMS);
    assert_null(devices[opened].compute);
    for (int i = 0; i < opened; i++)
        assert_true(devices[i].ahead->id < HAUL__MAX_STREAMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uses__a_stream_is_remembered_once),
        cmocka_unit_test(test_uses__more_readers_than_places),
        cmocka_unit_test(test_uses__are_finished_without_events),
        cmocka_unit_test(test_points__a_copy_without_its_event_succeeds),
        cmocka_unit_test(test_points__streams_are_asked_how_far_they_are),
        cmocka_unit_test(test_residency__an_access_of_the_host_brings_memory_back),
        cmocka_unit_test(test_streams__are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
