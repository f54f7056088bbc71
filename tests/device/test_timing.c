/* The times of commands, on a late device whose clock the test sets: how they are mapped to the host's clock, and that
 * each timing is freed. */
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
#include <time.h>

#include "base/alloc.h"
#include "base/system/clock.h"
#include "device/timing.h"
#include "memory/allocator.h"
#include "support/commands.h"
#include "support/devices/late.h"

enum { MS = 1000000 };

/* ---- a late device with a clock ---- */

typedef struct timing {
    int64_t at, duration;
} timing;

static haul__backend        backend;
static const haul__backend *original;
static int                  alive;
static timing               next; /* of the next command */
static bool                 begin_fails, end_fails, read_fails, submit_fails;

static haul_status fail_if(bool wrong)
{
    return wrong ? haul__fail(HAUL_BACKEND, "driver", NULL, "the driver refused") : HAUL_OK;
}

static haul_status timing_begin(haul__stream *s, void **out)
{
    timing *t = begin_fails ? NULL : malloc(sizeof *t);
    (void)s;
    if (!t)
        return fail_if(true);
    *t = next;
    *out = t;
    alive++;
    return HAUL_OK;
}

static haul_status timing_end(haul__stream *s, void *t)
{
    (void)s;
    (void)t;
    return fail_if(end_fails);
}

static haul_status timing_read(haul_device *device, void *of, void *origin, int64_t *after, int64_t *duration)
{
    const timing *t = of, *from = origin;
    (void)device;
    *after = t->at - from->at;
    *duration = t->duration;
    return fail_if(read_fails);
}

static void timing_free(haul_device *device, void *t)
{
    (void)device;
    free(t);
    alive--;
}

static haul_status submit(haul__stream *s, const haul__command *c)
{
    return submit_fails ? fail_if(true) : original->submit(s, c);
}

static haul_device   *device;
static haul__storage *memory;

/* ---- a subscriber ---- */

typedef struct kept {
    int64_t time, duration;
    char    label[16], origin[16];
} kept;

typedef struct heard {
    int  submitted_count, started_count, done_count;
    kept submitted[16], started[16], done[16];
} heard;

static void hear(const haul_event *e, void *context)
{
    heard *h = context;
    kept  *k = e->kind == HAUL_EVENT_COMMAND_SUBMITTED ? &h->submitted[h->submitted_count++ % 16]
               : e->kind == HAUL_EVENT_COMMAND_STARTED ? &h->started[h->started_count++ % 16]
                                                       : &h->done[h->done_count++ % 16];
    k->time = e->time;
    k->duration = e->duration;
    snprintf(k->label, sizeof k->label, "%s", e->label);
    snprintf(k->origin, sizeof k->origin, "%s", e->origin);
}

static heard   h;
static int64_t subscription;

static int listen(void **state)
{
    (void)state;
    original = late_device(0)->backend;
    backend = *original;
    backend.submit = submit;
    backend.timing_begin = timing_begin;
    backend.timing_end = timing_end;
    backend.timing_read = timing_read;
    backend.timing_free = timing_free;
    device = late_device_new();
    device->backend = &backend;
    memory = haul__storage_alloc(device, 64, "test");
    h = (heard){.done_count = 0};
    next = (timing){0, 0};
    subscription = haul_events_subscribe(hear, .kinds = HAUL_EVENT_COMMAND, .context = &h);
    return memory && subscription > 0 ? 0 : -1;
}

/* The last command of the device that was reported keeps its timing. */
static int stop(void **state)
{
    (void)state;
    haul_events_unsubscribe(subscription);
    haul__object_release(memory);
    haul__timing_drop(device);
    const int left = alive;
    alive = 0;
    return left;
}

static void fill_at(int64_t at, int64_t duration)
{
    next = (timing){at, duration};
    assert_int_equal(submit_fill(memory, 64, 1), HAUL_OK);
}

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * MS}, NULL);
}

/* ---- the host's clock ---- */

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static void test_timing__commands_begin_when_they_were_submitted_or_later(void **state)
{
    (void)state;
    fill_at(5000 * (int64_t)MS, 1 * MS);
    fill_at(5010 * (int64_t)MS, 2 * MS);
    sleep_ms(20);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(h.done_count, 2);
    assert_int_equal(alive, 1);
    assert_true(h.started[0].time == later(h.submitted[0].time, h.submitted[1].time - 10 * MS));
    assert_true(h.started[1].time == h.started[0].time + 10 * MS);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(h.done[i].duration, (i + 1) * MS);
        assert_true(h.done[i].time == h.started[i].time + h.done[i].duration);
    }
    fill_at(5030 * (int64_t)MS, 1 * MS); /* as long after the last one as on the device's clock */
    sleep_ms(40);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    if (haul__now_ns() - h.started[1].time < 900 * MS) /* clocks drift, so an older one says nothing */
        assert_true(h.started[2].time == later(h.submitted[2].time, h.started[1].time + 20 * MS));
    assert_int_equal(alive, 1);
}

/* The first one began later than it was submitted, because the second one began soon after it. */
static void test_timing__a_later_command_tells_when_an_earlier_one_began(void **state)
{
    (void)state;
    fill_at(0, 0);
    sleep_ms(10);
    fill_at(2 * MS, 0);
    sleep_ms(10);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_true(h.started[0].time == h.submitted[1].time - 2 * MS);
    assert_true(h.started[1].time == h.submitted[1].time);
}

static void test_timing__no_command_ends_in_the_future(void **state)
{
    (void)state;
    fill_at(0, 50 * MS); /* longer than the host knows of it */
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_true(h.done[0].time <= haul__now_ns());
    assert_true(h.done[0].time == h.started[0].time + 50 * MS);
    fill_at(100 * MS, 200 * MS); /* nor one behind another that ends in time */
    fill_at(110 * MS, 500 * MS);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_true(h.done[2].time <= haul__now_ns());
}

static void test_timing__no_command_ends_before_it_begins(void **state)
{
    (void)state;
    fill_at(0, -1 * MS); /* as the driver says */
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(h.done[0].duration, 0);
    assert_true(h.done[0].time == h.started[0].time && h.done[0].time <= haul__now_ns());
}

static void test_timing__no_command_begins_in_the_future(void **state)
{
    (void)state;
    fill_at(0, 0);
    fill_at(50 * MS, 0); /* later than now */
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_true(h.done[1].time <= haul__now_ns());
    assert_true(h.started[1].time == h.started[0].time + 50 * MS);
}

/* ---- failures ---- */

static void test_timing__failures_of_timings_are_not_those_of_commands(void **state)
{
    bool *const wrong[] = {&begin_fails, &end_fails, &read_fails};
    (void)state;
    for (int i = 0; i < 3; i++) {
        haul__fail(HAUL_IO, "before", NULL, "an earlier error");
        *wrong[i] = true;
        fill_at(0, 1 * MS);
        assert_string_equal(haul_error_operation(), "before");
        assert_int_equal(haul_device_sync(device), HAUL_OK);
        *wrong[i] = false;
        assert_string_equal(haul_error_operation(), "before");
        haul_error_clear();
        assert_int_equal(h.done_count, i + 1);
        assert_int_equal(h.done[i].duration, 0);
        assert_int_equal(alive, 0);
    }
}

static void test_timing__refused_commands_have_none(void **state)
{
    (void)state;
    submit_fails = true;
    assert_int_equal(submit_fill(memory, 64, 1), HAUL_BACKEND);
    submit_fails = false;
    haul_error_clear();
    assert_int_equal(alive, 0);
    assert_int_equal(h.submitted_count, 0);
    begin_fails = submit_fails = true; /* without a timing to free */
    assert_int_equal(submit_fill(memory, 64, 1), HAUL_BACKEND);
    begin_fails = submit_fails = false;
    haul_error_clear();
    assert_int_equal(alive, 0);
}

/* Without memory for its entry a command runs, and only its submission is reported. */
static void test_timing__commands_run_without_memory_for_events(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        begin_fails = i;
        haul__fault_plan(HAUL__FAULT_HOST, 1);
        assert_int_equal(submit_fill(memory, 64, 1), HAUL_OK);
        haul__fault_plan(0, 0);
        begin_fails = false;
        assert_int_equal(alive, 0);
        assert_int_equal(h.submitted_count, i + 1);
    }
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(h.done_count, 0);
    haul_error_clear();
}

static void test_timing__a_lost_device_keeps_none(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "test");
    (void)state;
    fill_at(0, 1 * MS);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(alive, 1);
    fill_at(2 * MS, 1 * MS);
    assert_int_equal(submit_write(memory, NULL, host, 64), HAUL_OK); /* on the upload stream */
    assert_int_equal(alive, 3);
    late_fail_wait();
    assert_int_equal(haul_device_sync(device), HAUL_BACKEND);
    haul_error_clear();
    assert_int_equal(alive, 0);
    haul__object_release(host);
}

/* ---- what events say, and when ---- */

static haul_tensor *fill_within(haul_module *module, haul_args *args)
{
    (void)module;
    fill_at(h.submitted_count * (int64_t)MS, 0);
    return args->x[0];
}

static haul_tensor *call_children(haul_module *module, haul_args *args)
{
    return haul_call_child(module, "two", haul_call_child(module, "one", args->x[0]));
}

/* The label and the layer of a command are those in which it was submitted. */
static void test_timing__late_events_name_where_commands_come_from(void **state)
{
    static const char *const texts[] = {"first", "second", "third"};
    char                     label[16];
    haul_scope              *scope = haul_scope_push();
    haul_module             *net = haul_module_new("net", call_children);
    (void)state;
    for (int i = 0; i < 3; i++) {
        snprintf(label, sizeof label, "%s", texts[i]);
        haul_label_begin(label);
        fill_at(i * MS, 0);
        haul_label_end();
    }
    snprintf(label, sizeof label, "none");
    assert_int_equal(haul_module_add(net, "one", haul_module_new("a", fill_within)), HAUL_OK);
    assert_int_equal(haul_module_add(net, "two", haul_module_new("b", fill_within)), HAUL_OK);
    haul_call(net, haul_scalar(1));
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(haul_error_status(), HAUL_OK);
    int found = 0;
    for (int i = 0; i < h.done_count; i++) {
        found += i < 16 && strcmp(h.done[i].origin, "one") == 0;
        found += i < 16 && strcmp(h.done[i].origin, "two") == 0 ? 10 : 0;
        for (int k = 0; k < 3; k++)
            found += i < 16 && strcmp(h.done[i].label, texts[k]) == 0 ? 100 : 0;
    }
    assert_int_equal(found, 311);
    haul_scope_pop(scope);
}

static void note_depth(const haul_event *e, void *context)
{
    if (e->kind & HAUL_EVENT_COMMAND)
        *(int *)context = e->depth;
}

static void test_timing__commands_are_within_what_is_open(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "test");
    int            depth = -1;
    (void)state;
    const int64_t id =
        haul_events_subscribe(note_depth, .kinds = HAUL_EVENT_COMMAND | HAUL_EVENT_LABEL, .context = &depth);
    for (int i = 0; i < 2; i++) {
        haul__storage *to = i ? host : memory;
        depth = -1;
        haul_label_begin("open");
        assert_int_equal(submit_fill(to, 64, 1), HAUL_OK);
        haul_label_end();
        assert_int_equal(depth, 1);
    }
    haul_events_unsubscribe(id);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    haul__object_release(host);
}

/* A stream without recorded commands is not asked. */
static void test_timing__nothing_is_asked_without_subscribers(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "test");
    (void)state;
    haul_events_unsubscribe(subscription);
    assert_int_equal(submit_write(memory, NULL, host, 64), HAUL_OK);
    assert_int_equal(original->sync(device->upload, NULL), HAUL_OK);
    haul__timing_emit(device);
    assert_int_equal(atomic_load(&device->upload->completed), 0);
    haul__object_release(host);
    subscription = haul_events_subscribe(hear, .kinds = HAUL_EVENT_COMMAND, .context = &h);
}

static pthread_barrier_t turn;

/* Its own subscriber hears of its command when this thread waits. */
static void *submit_apart_and_wait(void *context)
{
    heard        *own = context;
    const int64_t id = haul_events_subscribe(hear, .kinds = HAUL_EVENT_COMMAND_DONE, .context = own);
    submit_fill(memory, 64, 1);
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    haul_device_sync(device);
    haul_events_unsubscribe(id);
    return NULL;
}

/* The first of two entries stays, because another thread's subscriber waits for it; the next comes behind it. */
static void test_timing__entries_of_other_threads_stay(void **state)
{
    static heard other;
    pthread_t    thread;
    (void)state;
    pthread_barrier_init(&turn, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, submit_apart_and_wait, &other), 0);
    pthread_barrier_wait(&turn);
    for (int i = 0; i < 3; i++) {
        fill_at(0, 0);
        assert_int_equal(haul_device_sync(device), HAUL_OK);
        assert_int_equal(h.done_count, i + 1);
        assert_int_equal(atomic_load(&device->compute->timed_count), 1);
    }
    pthread_barrier_wait(&turn);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_barrier_destroy(&turn);
    haul__timing_emit(device);
    assert_int_equal(atomic_load(&device->compute->timed_count), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, listen, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_timing__commands_begin_when_they_were_submitted_or_later),
        TEST(test_timing__a_later_command_tells_when_an_earlier_one_began),
        TEST(test_timing__no_command_ends_in_the_future),
        TEST(test_timing__no_command_ends_before_it_begins),
        TEST(test_timing__no_command_begins_in_the_future),
        TEST(test_timing__failures_of_timings_are_not_those_of_commands),
        TEST(test_timing__refused_commands_have_none),
        TEST(test_timing__commands_run_without_memory_for_events),
        TEST(test_timing__a_lost_device_keeps_none),
        TEST(test_timing__late_events_name_where_commands_come_from),
        TEST(test_timing__commands_are_within_what_is_open),
        TEST(test_timing__nothing_is_asked_without_subscribers),
        TEST(test_timing__entries_of_other_threads_stay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
