/* Waits and calls of drivers, on a backend without a device: what it fails with, and which events report it. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "device/stream.h"
#include "device/wait.h"

static bool is_reached, query_fails;

static haul_status query(haul_device *device, void *event, bool *reached)
{
    (void)device;
    (void)event;
    *reached = is_reached;
    return query_fails ? haul__fail(HAUL_BACKEND, "query", NULL, "the driver failed") : HAUL_OK;
}

static haul_status wait_a_little(haul__stream *s, void *event)
{
    (void)s;
    (void)event;
    return nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL) ? HAUL_BACKEND : HAUL_OK;
}

static void free_host(haul_device *device, void *memory, void *handle)
{
    (void)device;
    (void)memory;
    (void)handle;
}

static const haul__backend backend = {
    .name = "fake", .event_query = query, .sync = wait_a_little, .host_free = free_host};
static const haul__backend without_query = {.name = "fake", .sync = wait_a_little};
static struct haul__stream streams[5];
static haul_device         device;

static int setup(void **state)
{
    (void)state;
    device = (haul_device){.backend = &backend,
                           .name = "fake:0",
                           .compute = &streams[0],
                           .upload = &streams[1],
                           .download = &streams[2],
                           .ahead = &streams[3]};
    for (int i = 0; i < 5; i++)
        streams[i].device = &device;
    is_reached = query_fails = false;
    return 0;
}

static void test_wait__streams_have_names(void **state)
{
    static const char *const names[] = {"compute", "upload", "download", "ahead", ""};
    (void)state;
    for (int i = 0; i < 5; i++)
        assert_string_equal(haul__stream_name(&streams[i]), names[i]);
}

/* A query that fails says nothing: the wait reports the failure. The error before it stays. */
static void test_wait__queries_leave_the_error(void **state)
{
    int event;
    (void)state;
    assert_false(haul__event_reached(&device, &event));
    is_reached = true;
    assert_true(haul__event_reached(&device, &event));
    query_fails = true;
    haul_error_clear();
    assert_false(haul__event_reached(&device, &event));
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul__fail(HAUL_IO, "before", NULL, "an earlier error");
    assert_false(haul__event_reached(&device, &event));
    assert_int_equal(haul_error_status(), HAUL_IO);
    assert_non_null(strstr(haul_error_message(), "an earlier error"));
    haul_error_clear();
    device.backend = &without_query;
    assert_false(haul__event_reached(&device, &event));
}

typedef struct seen {
    haul_event_kind kind;
    char            text[40], stream[16];
    int64_t         bytes, duration;
    int             count;
} seen;

static void see(const haul_event *e, void *context)
{
    seen *s = context;
    s->kind = e->kind;
    snprintf(s->text, sizeof s->text, "%s", e->text);
    snprintf(s->stream, sizeof s->stream, "%s", e->stream);
    s->bytes = e->bytes;
    s->duration = e->duration;
    s->count++;
}

/* The waits of a group are one: on the stream of the first, as long as all, and found done only if all were. */
static void test_wait__groups_are_one_event(void **state)
{
    int              event;
    seen             s = {.count = 0};
    haul__wait_group outer, inner;
    (void)state;
    const int64_t id = haul_events_subscribe(see, .kinds = HAUL_EVENT_WAITED | HAUL_EVENT_FOUND_DONE, .context = &s);
    assert_true(id > 0);
    for (int done = 0; done < 2; done++) {
        is_reached = done;
        haul__wait_group_begin(&outer, "test", 7);
        for (int i = 1; i < 3; i++)
            assert_int_equal(haul__wait(&streams[i], &event, "inside"), HAUL_OK);
        haul__wait_group_begin(&inner, "inner", 1);
        haul__wait_group_end(&inner);
        assert_int_equal(outer.waits, done ? 0 : 2);
        assert_int_equal(outer.ready, done ? 2 : 0);
        haul__wait_group_end(&outer);
        assert_int_equal(s.count, done + 1);
        assert_int_equal(s.kind, done ? HAUL_EVENT_FOUND_DONE : HAUL_EVENT_WAITED);
        assert_string_equal(s.stream, "upload");
        assert_int_equal(s.bytes, 7);
        assert_true(s.duration >= 2000000);
    }
    haul_events_unsubscribe(id);
}

static void test_wait__outside_of_groups_no_bytes_are_known(void **state)
{
    seen s = {.count = 0};
    (void)state;
    const int64_t id = haul_events_subscribe(see, .kinds = HAUL_EVENT_WAITED, .context = &s);
    assert_true(id > 0);
    assert_int_equal(haul__wait(&streams[0], NULL, "test"), HAUL_OK);
    haul_events_unsubscribe(id);
    assert_int_equal(s.count, 1);
    assert_int_equal(s.bytes, 0);
    assert_true(s.duration >= 1000000);
}

static void test_wait__reports_freed_host_memory(void **state)
{
    seen s = {.count = 0};
    (void)state;
    const int64_t id = haul_events_subscribe(see, .kinds = HAUL_EVENT_DRIVER_CALLED, .context = &s);
    assert_true(id > 0);
    haul__device_host_free(&device, &s, NULL, 12, "test");
    haul_events_unsubscribe(id);
    assert_int_equal(s.count, 1);
    assert_string_equal(s.text, "gave pinned memory back");
    assert_int_equal(s.bytes, 12);
}

#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_wait__streams_have_names),        TEST(test_wait__queries_leave_the_error),
        TEST(test_wait__groups_are_one_event),      TEST(test_wait__outside_of_groups_no_bytes_are_known),
        TEST(test_wait__reports_freed_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
