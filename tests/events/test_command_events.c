/* Events of commands: submission, start, end, and their subscribers.
 *
 * ctest: cuda; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <pthread.h>

#include "support/commands.h"
#include "support/record.h"

static record r, other;

/* The command's event of a kind; fails unless there is exactly one. */
static const kept *find(const record *from, haul_event_kind kind, uint64_t command)
{
    const kept *found = NULL;
    for (int i = 0; i < from->count && i < KEPT; i++) {
        if (from->events[i].e.kind != kind || from->events[i].e.command != command)
            continue;
        assert_null(found);
        found = &from->events[i];
    }
    assert_non_null(found);
    return found;
}

/* All commands that were heard have three events that fit together. */
static void assert_complete(const record *from)
{
    int at = 0;
    assert_true(from->count > 0 && from->count <= KEPT && from->count % 3 == 0);
    for (int i = 0; i < from->count / 3; i++) {
        const kept *submitted = next(from, &at, HAUL_EVENT_COMMAND_SUBMITTED);
        const kept *started = find(from, HAUL_EVENT_COMMAND_STARTED, submitted->e.command);
        const kept *done = find(from, HAUL_EVENT_COMMAND_DONE, submitted->e.command);
        const kept *later[] = {started, done};
        assert_true(submitted < started && started < done);
        assert_true(submitted->e.time <= started->e.time && started->e.time <= done->e.time);
        assert_true(done->e.duration >= 0 && started->e.time + done->e.duration <= done->e.time + 1);
        assert_int_equal(submitted->e.duration, 0);
        assert_int_equal(started->e.duration, 0);
        for (int k = 0; k < 2; k++) {
            assert_string_equal(later[k]->operation, submitted->operation);
            assert_string_equal(later[k]->text, submitted->text);
            assert_string_equal(later[k]->stream, submitted->stream);
            assert_string_equal(later[k]->origin, submitted->origin);
            assert_string_equal(later[k]->label, submitted->label);
            assert_ptr_equal(later[k]->e.device, submitted->e.device);
            assert_int_equal(later[k]->e.bytes, submitted->e.bytes);
            assert_int_equal(later[k]->e.thread, submitted->e.thread);
            assert_int_equal(later[k]->e.depth, submitted->e.depth);
        }
    }
}

static void test_command_events__a_synchronous_device_is_done_at_once(void **state)
{
    haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(64, 64), 1);
    int          at = 0;
    (void)state;
    int64_t id = listen_to(&r, HAUL_EVENT_COMMAND);
    haul_softmax(x, -1);
    stop(id);
    assert_complete(&r);
    const kept *k = next(&r, &at, HAUL_EVENT_COMMAND_SUBMITTED);
    assert_string_equal(k->operation, "haul_softmax");
    assert_string_equal(k->text, "launch");
    assert_string_equal(k->stream, "compute");
    assert_ptr_equal(k->e.device, haul_cpu());
    assert_int_equal(k->e.bytes, 2 * 64 * 64 * 4);
    assert_true(k->e.command > 0);
    assert_true(next(&r, &at, HAUL_EVENT_COMMAND_DONE)->e.duration > 0);
}

static void test_command_events__kinds_are_named(void **state)
{
    haul_tensor *x = iota(4, 4);
    int          at = 0;
    (void)state;
    int64_t id = listen_to(&r, HAUL_EVENT_COMMAND_SUBMITTED);
    assert_int_equal(submit_fill(x->storage, 64, 0), HAUL_OK);
    haul_matmul(iota(64, 64), iota(64, 64));
    stop(id);
    const kept *k = next(&r, &at, HAUL_EVENT_COMMAND);
    assert_string_equal(k->text, "fill");
    assert_string_equal(k->operation, "test");
    assert_int_equal(k->e.bytes, 64);
    while (strcmp(k->text, "library call"))
        k = next(&r, &at, HAUL_EVENT_COMMAND);
    assert_string_equal(k->operation, "haul_matmul");
}

static void test_command_events__a_refused_command_makes_none(void **state)
{
    haul_device *device = late_device(0);
    haul_tensor *x = iota(2, 2), *y = haul_to(x, device);
    (void)state;
    int64_t id = listen_to(&r, HAUL_EVENT_COMMAND);
    for (int i = 0; i < 2; i++) {
        haul__fault_plan(HAUL__FAULT_COPY, 1);
        assert_int_equal(submit_fill((i ? x : y)->storage, 16, 0), HAUL_BACKEND);
        haul__fault_plan(0, 0);
        haul_error_clear();
    }
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    stop(id);
    assert_int_equal(r.count, 0);
}

/* Without times of the device: submissions are reported at once, the rest when the host waits. */
static void test_command_events__others_are_done_when_the_host_knows(void **state)
{
    haul_device *device = late_device(0);
    haul_tensor *x = iota(1, 4);
    int          at = 0;
    (void)state;
    int64_t id = listen_to(&r, HAUL_EVENT_COMMAND);
    haul_label_begin("upload");
    haul_tensor *y = haul_to(x, device);
    haul_label_end();
    assert_int_equal(count_of(&r, HAUL_EVENT_COMMAND_STARTED | HAUL_EVENT_COMMAND_DONE), 0);
    const kept *k = next(&r, &at, HAUL_EVENT_COMMAND);
    assert_string_equal(k->operation, "haul_to");
    assert_string_equal(k->text, "copy");
    assert_string_equal(k->stream, "upload");
    assert_string_equal(k->label, "upload");
    assert_int_equal(k->e.bytes, 16);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_complete(&r);
    assert_int_equal(r.count, 3);
    assert_int_equal(next(&r, &at, HAUL_EVENT_COMMAND_DONE)->e.duration, 0);
    assert_true(haul_item(view_of(y, &HAUL_SHAPE(1), (int64_t[]){1}, 2)) == 2); /* a wait other than a sync */
    stop(id);
    assert_complete(&r);
    assert_true(r.count > 3);
}

/* A wait for one stream reports the commands that it had waited for on another. */
static void test_command_events__waits_reach_over_streams(void **state)
{
    haul_device *device = late_device(0);
    haul_tensor *y = haul_to(iota(1, 4), device);
    (void)state;
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    int64_t id = listen_to(&r, HAUL_EVENT_COMMAND_DONE);
    for (int i = 0; i < 3; i++)
        assert_int_equal(submit_fill(y->storage, 16, 0), HAUL_OK);
    assert_true(haul_item(view_of(y, &HAUL_SHAPE(1), (int64_t[]){1}, 2)) == 0);
    stop(id);
    assert_int_equal(r.count, 4);
    assert_string_equal(r.events[0].text, "fill");
    assert_string_equal(r.events[3].stream, "download");
}

/* Devices that have a clock. */
static void test_command_events__devices_tell_times(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        int          at = 0;
        int64_t      before = haul__now_ns(), busy = 0;
        int64_t      id = listen_to(&r, HAUL_EVENT_COMMAND);
        haul_tensor *x = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(256, 256), 1), devices[d]);
        for (int i = 0; i < 4; i++)
            x = haul_matmul(x, x);
        assert_int_equal(haul_device_sync(devices[d]), HAUL_OK);
        stop(id);
        int64_t after = haul__now_ns();
        assert_complete(&r);
        for (int i = 0; i < count_of(&r, HAUL_EVENT_COMMAND_DONE); i++) {
            const kept *done = next(&r, &at, HAUL_EVENT_COMMAND_DONE);
            if (done->e.device != devices[d])
                continue;
            assert_true(done->e.time - done->e.duration >= before);
            assert_true(done->e.time <= after);
            busy += done->e.duration;
        }
        assert_true(busy > 0 && busy <= after - before);
    }
}

static void test_command_events__nothing_stays_of_who_went_away(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        haul_device *device = d ? devices[d] : late_device(0);
        haul_tensor *x = iota(4, 4);
        int64_t      blocks[2];
        for (int i = 0; i < 20; i++) { /* the first ten make what stays */
            int64_t      id = listen_to(&r, HAUL_EVENT_COMMAND_DONE);
            haul_tensor *y = haul_to(x, device);
            stop(id);
            assert_int_equal(haul_device_sync(device), HAUL_OK);
            assert_int_equal(atomic_load(&device->upload->timed_count), 0);
            haul_drop(y);
            blocks[i / 10] = haul__host_blocks();
        }
        assert_int_equal(blocks[0], blocks[1]);
        assert_int_equal(r.count, 0);
    }
}

/* Without waits the device is asked. */
static void test_command_events__what_is_noted_does_not_grow(void **state)
{
    haul_device *device = late_device(0);
    haul_tensor *y = haul_to(iota(4, 4), device);
    (void)state;
    int64_t id = listen_to(&r, HAUL_EVENT_COMMAND_DONE);
    for (int i = 0; i < 4096; i++) {
        assert_int_equal(submit_fill(y->storage, 64, (unsigned char)i), HAUL_OK);
        if (i % 64 == 0)
            late_run_all();
    }
    stop(id);
    assert_true(r.count > 3000);
    assert_true(atomic_load(&device->compute->timed_count) < 1024);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
}

static void test_command_events__a_lost_device_is_done_with_nothing(void **state)
{
    haul_device *device = late_device_new();
    haul_tensor *y = haul_to(iota(4, 4), device);
    (void)state;
    int64_t id = listen_to(&r, HAUL_EVENT_COMMAND_STARTED | HAUL_EVENT_COMMAND_DONE);
    assert_int_equal(submit_fill(y->storage, 64, 1), HAUL_OK);
    late_fail_wait();
    assert_int_not_equal(haul_device_sync(device), HAUL_OK);
    haul_error_clear();
    stop(id);
    assert_int_equal(r.count, 0);
    assert_int_equal(atomic_load(&device->compute->timed_count) + atomic_load(&device->upload->timed_count), 0);
}

static void *wait_for_device(void *device)
{
    haul_device_sync(device);
    return NULL;
}

static void *submit_and_end(void *tensor)
{
    int64_t id = haul_events_subscribe(keep, .kinds = HAUL_EVENT_COMMAND_DONE, .context = &other);
    return id && submit_fill(((haul_tensor *)tensor)->storage, 64, 1) == HAUL_OK ? tensor : NULL;
}

static void *run_apart(void *(*run)(void *), void *context)
{
    pthread_t thread;
    void     *result;
    assert_int_equal(pthread_create(&thread, NULL, run, context), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    return result;
}

/* A thread's own subscriber hears of its commands, though another thread waited for them; all threads' subscribers hear
 * of those of a thread that ended. */
static void test_command_events__each_hears_its_own(void **state)
{
    haul_device *device = late_device(0);
    haul_tensor *y = haul_to(iota(4, 4), device);
    (void)state;
    int64_t id = listen_to(&r, HAUL_EVENT_COMMAND_DONE);
    assert_int_equal(submit_fill(y->storage, 64, 1), HAUL_OK);
    run_apart(wait_for_device, device);
    assert_int_equal(r.count, 0);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_int_equal(r.count, 1);
    stop(id);

    other.count = 0;
    id = haul_events_subscribe(keep, .kinds = HAUL_EVENT_COMMAND_DONE, .context = &r, .everywhere = true);
    r.count = 0;
    assert_non_null(run_apart(submit_and_end, y));
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    stop(id);
    assert_int_equal(other.count, 0);
    assert_int_equal(r.count, 1);
    assert_int_not_equal(r.events[0].e.thread, 1);
}

enum { THREADS = 4, TIMES = 200 };

static void *submit_and_wait(void *device)
{
    static record     kept_here[THREADS];
    static atomic_int taken;
    record           *mine = &kept_here[atomic_fetch_add(&taken, 1)];
    haul_scope       *own = haul_scope_push();
    haul_tensor      *y = haul_to(iota(4, 4), device);
    int64_t           done = 0;
    for (int i = 0; i < TIMES; i++) {
        int64_t id = haul_events_subscribe(keep, .kinds = HAUL_EVENT_COMMAND_DONE, .context = mine);
        mine->count = 0;
        submit_fill(y->storage, 64, (unsigned char)i);
        if (i % 3)
            haul_device_sync(device);
        done += mine->count;
        haul_events_unsubscribe(id);
    }
    haul_scope_pop(own);
    return (void *)(intptr_t)done;
}

static void test_command_events__threads_submit_at_once(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, submit_and_wait, late_device(0)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *done;
        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_true((intptr_t)done >= TIMES / 3 * 2);
    }
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
    assert_int_equal(atomic_load(&late_device(0)->compute->timed_count), 0);
}

/* A subscriber may wait for the device whose command is reported. */
static void wait_within(const haul_event *e, void *context)
{
    keep(e, context);
    if (haul_device_sync(late_device(0)))
        fail();
}

static void test_command_events__a_subscriber_may_wait(void **state)
{
    haul_tensor *y = haul_to(iota(4, 4), late_device(0));
    (void)state;
    r.count = 0;
    int64_t id = haul_events_subscribe(wait_within, .kinds = HAUL_EVENT_COMMAND, .context = &r);
    assert_int_equal(submit_fill(y->storage, 64, 1), HAUL_OK);
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
    stop(id);
    assert_complete(&r);
    assert_int_equal(r.count, 3);
}

static haul_status multiply(void *context)
{
    haul_tensor *const *t = context;
    return haul_matmul_into(t[0], t[1], t[1]);
}

/* Events of commands do not keep a step from being followed. */
static void test_command_events__followed_library_calls_are_named(void **state)
{
    haul_recording_report report;
    haul_tensor          *t[] = {haul_zeros(HAUL_F32, HAUL_SHAPE(64, 64)), haul_full(HAUL_F32, HAUL_SHAPE(64, 64), 1)};
    haul_recording       *recording = haul_recording_new(multiply, t);
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(haul_recording_run(recording), HAUL_OK);
    int64_t id = listen_to(&r, HAUL_EVENT_COMMAND_SUBMITTED);
    assert_int_equal(haul_recording_run(recording), HAUL_OK);
    stop(id);
    assert_int_equal(haul_recording_report_get(recording, &report), HAUL_OK);
    assert_int_equal(report.followed, 2);
    assert_int_equal(r.count, 1);
    assert_string_equal(r.events[0].text, "library call");
    assert_string_equal(r.events[0].operation, "haul_matmul");
    assert_string_equal(r.events[0].kernel, "tiles");
}

int main(void)
{
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
    const struct CMUnitTest tests[] = {
        EVENT_TEST(test_command_events__a_synchronous_device_is_done_at_once),
        EVENT_TEST(test_command_events__kinds_are_named),
        EVENT_TEST(test_command_events__a_refused_command_makes_none),
        EVENT_TEST(test_command_events__others_are_done_when_the_host_knows),
        EVENT_TEST(test_command_events__waits_reach_over_streams),
        EVENT_TEST(test_command_events__devices_tell_times),
        EVENT_TEST(test_command_events__nothing_stays_of_who_went_away),
        EVENT_TEST(test_command_events__what_is_noted_does_not_grow),
        EVENT_TEST(test_command_events__a_lost_device_is_done_with_nothing),
        EVENT_TEST(test_command_events__each_hears_its_own),
        EVENT_TEST(test_command_events__threads_submit_at_once),
        EVENT_TEST(test_command_events__a_subscriber_may_wait),
        EVENT_TEST(test_command_events__followed_library_calls_are_named),
    };
    return run_moves("command events", tests, sizeof tests / sizeof *tests);
}
