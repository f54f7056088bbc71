/* Subscribers to events: what they may do while they run, which threads they hear, and how they come and go.
 * ctest: cuda; labels=concurrency,threads; processors=2; env=POCL_DEVICES=pthread pthread */
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/failure.h"
#include "support/ledger.h"
#include "support/record.h"

/* ---- what subscribers may do ---- */

static int64_t computed;

static void compute(const haul_event *e, void *context)
{
    haul_scope  *inner = haul_scope_push();
    haul_tensor *t = haul_add_scalar(haul_ones(HAUL_F32, HAUL_SHAPE(3)), 1);
    double       sum = haul_item(haul_sum(device_count > 1 ? haul_to(t, devices[1]) : t));
    haul_tensor *apart = haul_to(t, devices[device_count - 1]);
    float       *data = haul_map(apart, HAUL_READ);
    sum = data && data[2] == 2 && haul_unmap(apart) == HAUL_OK ? sum : 0;
    (void)e;
    computed += sum == 6;
    haul_add(NULL, t); /* an error of its own */
    haul_scope_pop(inner);
    ++*(int *)context;
}

static void test_event_subscribers__a_subscriber_at_work_makes_no_events(void **state)
{
    static record r;
    int           calls = 0;
    (void)state;
    haul_tensor    *x = iota(2, 2);
    haul_sync_stats before, after;
    int64_t         id = haul_events_subscribe(compute, .context = &calls), other = listen_to(&r, HAUL_EVENT_ALL);
    assert_int_equal(haul_sync_stats_get(&before), HAUL_OK);
    computed = 0;
    haul_drop(haul_relu(x));
    assert_int_equal(haul_error_status(), HAUL_OK); /* the subscriber's error is its own */
    assert_int_equal(haul_sync_stats_get(&after), HAUL_OK);
    stop(id);
    stop(other);
    assert_true(calls >= 4);
    assert_int_equal(calls, r.count);
    assert_int_equal(computed, calls);
    assert_int_equal(count_of(&r, HAUL_EVENT_OPERATION), 2); /* of haul_relu alone */
    assert_int_equal(count_of(&r, HAUL_EVENT_MEMORY_ALLOCATED), 1);
    assert_int_equal(count_of(&r, HAUL_EVENT_MEMORY_FREED), 1);
    assert_int_equal(count_of(&r, HAUL_EVENT_WAIT), 0);
    if (device_count > 1) /* waits are counted all the same */
        assert_true(after.waits + after.ready > before.waits + before.ready);
}

/* Memory under pressure, maps, waits under the stream's lock: whatever is emitted there finds the library usable. */
static void test_event_subscribers__no_lock_is_held_while_a_subscriber_runs(void **state)
{
    int calls = 0;
    (void)state;
    for (int d = 0; d < device_count; d++) {
        int64_t      id = haul_events_subscribe(compute, .context = &calls, .everywhere = true);
        haul_tensor *x = haul_to(iota(6, 6), devices[d]);
        float       *data = haul_map(x, HAUL_READ | HAUL_WRITE);
        assert_non_null(data);
        data[0] = 1;
        assert_int_equal(haul_unmap(x), HAUL_OK);
        haul_conv2d(haul_reshape(x, HAUL_SHAPE(1, 1, 6, 6)),
                    haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 3, 3)), devices[d]));
        assert_int_equal(haul_memory_release_cached(devices[d]), HAUL_OK);
        assert_int_equal(haul_device_sync(devices[d]), HAUL_OK);
        stop(id);
        assert_int_equal(haul_error_status(), HAUL_OK);
    }
    assert_true(calls > 0);
}

/* Compiles a kernel in the event of another one's compilation. */
static void compile_more(const haul_event *e, void *context)
{
    haul_scope *inner = haul_scope_push();
    haul_set_device((haul_device *)e->device);
    *(bool *)context = haul_tensor_is_valid(haul_cos(haul_ones(HAUL_F32, HAUL_SHAPE(3))));
    haul_scope_pop(inner);
}

static void test_event_subscribers__one_may_compile_within_a_compilation(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++) {
        bool         compiled = false;
        haul_tensor *x = haul_to(iota(2, 2), devices[d]);
        int64_t id = haul_events_subscribe(compile_more, .kinds = HAUL_EVENT_KERNEL_COMPILED, .context = &compiled);
        assert_valid(haul_sin(x));
        stop(id);
        assert_true(compiled);
    }
}

static int64_t own_id;

static void once(const haul_event *e, void *context)
{
    (void)e;
    ++*(int *)context;
    assert_int_equal(haul_events_unsubscribe(own_id), HAUL_OK);
}

static void test_event_subscribers__a_subscriber_may_end_itself(void **state)
{
    (void)state;
    ledger_stop();
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        int calls = 0;
        own_id =
            haul_events_subscribe(once, .kinds = HAUL_EVENT_OPERATION, .context = &calls, .everywhere = everywhere);
        assert_true(own_id > 0);
        haul_relu(iota(1, 1));
        haul_relu(iota(1, 1));
        assert_int_equal(calls, 1);
        assert_int_equal(haul_events_unsubscribe(own_id), HAUL_INVALID_ARGUMENT);
        haul_error_clear();
        assert_int_equal(atomic_load(&haul__tls.watch), 0);
    }
    ledger_go_on();
}

static void test_event_subscribers__arguments_are_checked(void **state)
{
    (void)state;
    assert_int_equal(haul_events_subscribe_with(NULL), 0);
    haul_error_clear();
    assert_int_equal(haul_events_subscribe(NULL), 0);
    haul_error_clear();
    assert_int_equal(haul_events_subscribe(keep, .kinds = 1u << 31), 0);
    assert_error(HAUL_INVALID_ARGUMENT, "expected values of haul_event_kind");
    assert_int_equal(haul_events_unsubscribe(0), HAUL_OK);
    assert_int_equal(haul_events_unsubscribe(123456), HAUL_INVALID_ARGUMENT);
    assert_error(HAUL_INVALID_ARGUMENT, "123456 is not a subscription");
    haul__fault_plan(HAUL__FAULT_HOST, 1);
    assert_int_equal(haul_events_subscribe(keep, .kinds = 1), 0);
    haul__fault_plan(0, 0);
    assert_error(HAUL_OUT_OF_MEMORY, "haul_events_subscribe");
    assert_string_equal(haul_event_kind_name(HAUL_EVENT_WAITED), "waited");
    assert_string_equal(haul_event_kind_name(HAUL_EVENT_LABEL_END), "label ended");
    assert_string_equal(haul_event_kind_name((haul_event_kind)HAUL_EVENT_COPY), "invalid");
}

static void count_frames(const haul_event *e, void *context)
{
    *(int *)context = e->frames ? e->frame_count : -1;
}

static void test_event_subscribers__the_stack_is_for_those_who_ask(void **state)
{
    int     asked = 0, not_asked = 0;
    int64_t one = haul_events_subscribe(count_frames, .kinds = HAUL_EVENT_OPERATION, .context = &not_asked);
    int64_t two = haul_events_subscribe(count_frames, .kinds = HAUL_EVENT_OPERATION, .context = &asked,
                                        .frames = HAUL_EVENT_OPERATION_END);
    (void)state;
    haul_relu(iota(1, 1));
    stop(one);
    stop(two);
    assert_int_equal(not_asked, -1);
    assert_true(asked > 2);
}

/* ---- threads ---- */

typedef struct heard {
    int       events, threads[2]; /* of the main thread, and of others */
    pthread_t main;
} heard;

static void hear(const haul_event *e, void *context)
{
    heard *h = context;
    (void)e;
    h->events++;
    h->threads[!pthread_equal(pthread_self(), h->main)]++;
}

static void *relu_apart(void *context)
{
    haul_scope *inner = haul_scope_push();
    haul_relu(iota(2, 2));
    haul_scope_pop(inner);
    return context;
}

/* The library does not know this thread before. */
static void *only_label_once(void *context)
{
    haul_label_begin("apart");
    haul_label_end();
    return context;
}

static void run_apart(void *(*run)(void *), void *context)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, context), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_event_subscribers__own_and_all_threads(void **state)
{
    heard   own = {.main = pthread_self()}, all = own;
    int64_t one = haul_events_subscribe(hear, .kinds = HAUL_EVENT_OPERATION_END, .context = &own);
    int64_t two = haul_events_subscribe(hear, .kinds = HAUL_EVENT_OPERATION_END | HAUL_EVENT_LABEL_END, .context = &all,
                                        .everywhere = true);
    (void)state;
    haul_relu(iota(2, 2));
    run_apart(relu_apart, NULL); /* a thread that starts after the subscription */
    run_apart(only_label_once, NULL);
    stop(one);
    stop(two);
    run_apart(relu_apart, NULL);
    assert_int_equal(own.events, 1);
    assert_int_equal(own.threads[0], 1);
    assert_int_equal(all.events, 3);
    assert_int_equal(all.threads[0], 1);
    assert_int_equal(all.threads[1], 2);
}

/* A thread's subscription ends with it; the number means nothing to others. */
static void *subscribe_and_go(void *context)
{
    int64_t *id = context;
    *id = haul_events_subscribe(hear, .kinds = HAUL_EVENT_OPERATION, .context = &(heard){.events = 0});
    relu_apart(NULL);
    return NULL;
}

static void test_event_subscribers__subscriptions_end_with_their_thread(void **state)
{
    int64_t id = 0, blocks = haul__host_blocks();
    (void)state;
    run_apart(subscribe_and_go, &id);
    assert_true(id > 0);
    assert_int_equal(haul_events_unsubscribe(id), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    haul_relu(iota(2, 2));
    assert_true(haul__host_blocks() - blocks < 16); /* nothing of the thread's is left but this test's tensors */
}

enum { THREADS = 4, ROUNDS = 200 };

static atomic_bool quit;

static void count_call(const haul_event *e, void *context)
{
    atomic_llong *calls = context;
    (void)e;
    atomic_fetch_add(calls, 1);
}

static void *subscribe_and_work(void *context)
{
    for (int round = 0; round < ROUNDS; round++) {
        atomic_llong calls = 0, mine = 0;
        int64_t      all =
            haul_events_subscribe(count_call, .kinds = HAUL_EVENT_OPERATION, .context = &calls, .everywhere = true);
        heard   own = {.main = pthread_self()};
        int64_t one = haul_events_subscribe(hear, .kinds = HAUL_EVENT_OPERATION, .context = &own);
        relu_apart(NULL);
        mine = own.events;
        if (mine != 2 || own.threads[1] || atomic_load(&calls) < 2)
            return "a subscriber missed an event of its thread";
        if (haul_events_unsubscribe(all) || haul_events_unsubscribe(one))
            return "a subscription was refused";
        int64_t after = atomic_load(&calls); /* `calls` is about to go: it must not be touched any more */
        if (after != atomic_load(&calls))
            return "a subscriber ran after it was unsubscribed";
    }
    return context;
}

static void *only_work(void *context)
{
    while (!atomic_load(&quit))
        relu_apart(NULL);
    return context;
}

static void test_event_subscribers__threads_subscribe_at_once(void **state)
{
    pthread_t threads[THREADS], worker;
    void     *wrong;
    (void)state;
    ledger_stop();
    atomic_store(&quit, false);
    assert_int_equal(pthread_create(&worker, NULL, only_work, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, subscribe_and_work, NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        if (wrong)
            fail_msg("%s", (const char *)wrong);
    }
    atomic_store(&quit, true);
    assert_int_equal(pthread_join(worker, NULL), 0);
    assert_int_equal(atomic_load(&haul__tls.watch), 0);
    ledger_go_on();
}

static void *only_label(void *context)
{
    while (!atomic_load(&quit)) {
        haul_label_begin("worker");
        haul_label_end();
    }
    return context;
}

/* A child that is forked while other threads emit can subscribe and be heard. */
static void test_event_subscribers__a_forked_child_goes_on(void **state)
{
    pthread_t worker;
    heard     all = {.main = pthread_self()};
    int       status;
    (void)state;
    if (getenv("HAUL_SANITIZE") && strstr(getenv("HAUL_SANITIZE"), "thread"))
        skip(); /* which knows nothing of threads in a child of several */
    atomic_store(&quit, false);
    int64_t id = haul_events_subscribe(hear, .kinds = HAUL_EVENT_LABEL_END, .context = &all, .everywhere = true);
    assert_int_equal(pthread_create(&worker, NULL, only_label, NULL), 0);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        if (child == 0) {
            int before = all.events;
            haul_label_begin("child");
            haul_label_end();
            _exit(all.events == before + 1 && haul_events_unsubscribe(id) == HAUL_OK ? 0 : 1);
        }
        assert_true(child > 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&quit, true);
    assert_int_equal(pthread_join(worker, NULL), 0);
    stop(id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        EVENT_TEST(test_event_subscribers__a_subscriber_at_work_makes_no_events),
        EVENT_TEST(test_event_subscribers__no_lock_is_held_while_a_subscriber_runs),
        EVENT_TEST(test_event_subscribers__one_may_compile_within_a_compilation),
        EVENT_TEST(test_event_subscribers__a_subscriber_may_end_itself),
        EVENT_TEST(test_event_subscribers__arguments_are_checked),
        EVENT_TEST(test_event_subscribers__the_stack_is_for_those_who_ask),
        EVENT_TEST(test_event_subscribers__own_and_all_threads),
        EVENT_TEST(test_event_subscribers__subscriptions_end_with_their_thread),
        EVENT_TEST(test_event_subscribers__threads_subscribe_at_once),
        EVENT_TEST(test_event_subscribers__a_forked_child_goes_on),
    };
    return run_moves("event_subscribers", tests, sizeof tests / sizeof tests[0]);
}
