/* What the host waits for: operations, training steps and the allocator do not; what does is counted once, and reported
 * with its place.
 * ctest: cuda; exports; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/failure.h"
#include "support/moves.h"

/* ---- a sink that remembers ---- */

enum { KEPT = 64 };

typedef struct kept {
    haul_sync_kind     kind;
    char               operation[64], action[64], stream[16], module[64], place[256], line[512];
    const haul_device *device;
    int64_t            bytes;
    double             microseconds;
    int                frames;
} kept;

static kept log_of[KEPT];
static int  logged;

static void keep(const haul_sync_event *e, void *context)
{
    assert_ptr_equal(context, log_of);
    if (logged < KEPT) {
        kept *k = &log_of[logged];
        k->kind = e->kind;
        snprintf(k->operation, sizeof k->operation, "%s", e->operation);
        snprintf(k->action, sizeof k->action, "%s", e->action);
        snprintf(k->stream, sizeof k->stream, "%s", e->stream);
        snprintf(k->module, sizeof k->module, "%s", e->module);
        snprintf(k->place, sizeof k->place, "%s", e->place);
        snprintf(k->line, sizeof k->line, "%s", e->line);
        k->device = e->device;
        k->bytes = e->bytes;
        k->microseconds = e->microseconds;
        k->frames = e->frame_count;
    }
    logged++;
}

static void listen(void)
{
    logged = 0;
    haul_sync_report_to(keep, log_of);
}

static int silence(void **state)
{
    haul_sync_report(false);
    return end(state);
}

static haul_sync_stats stats(void)
{
    haul_sync_stats s;
    assert_int_equal(haul_sync_stats_get(&s), HAUL_OK);
    return s;
}

static void assert_says(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("\"%s\" does not say \"%s\"", text, part);
}

/* ---- what waits ---- */

/* Not static, so that its name is known. */
double sync_test_item(haul_tensor *t) __attribute__((noinline));
double sync_test_item(haul_tensor *t)
{
    volatile double value = haul_item(t); /* no tail call */
    return value;
}

static void test_sync__item_waits_once_and_says_where(void **state)
{
    haul_tensor *x = haul_to(iota(1, 4), late_device(0));
    int64_t      before = haul_sync_count();
    (void)state;
    assert_true(late_pending() > 0);
    listen();
    assert_true(sync_test_item(view_of(x, &HAUL_SHAPE(1), (int64_t[]){1}, 2)) == 2);
    haul_sync_report(false);
    assert_int_equal(haul_sync_count() - before, 1);
    int waits = 0;
    for (int i = 0; i < logged; i++) {
        if (log_of[i].kind == HAUL_SYNC_DRIVER)
            continue;
        waits++;
        assert_int_equal(log_of[i].kind, HAUL_SYNC_WAIT);
        assert_string_equal(log_of[i].operation, "haul_item");
        assert_string_equal(log_of[i].action, "waited");
        assert_string_equal(log_of[i].stream, "download");
        assert_ptr_equal(log_of[i].device, late_device(0));
        assert_int_equal(log_of[i].bytes, 4);
        assert_string_equal(log_of[i].module, "");
        assert_true(log_of[i].frames > 2);
        if (!strstr(log_of[i].place, "test_sync.c:")) /* without debug information, or libdw */
            assert_says(log_of[i].place, "test_sync");
        assert_says(log_of[i].line, "haul_item waited ");
        assert_says(log_of[i].line, " us for late:0 (download, 4 bytes) at ");
    }
    assert_int_equal(waits, 1);
}

static void test_sync__what_is_done_is_no_wait(void **state)
{
    haul_tensor    *x = haul_to(iota(1, 4), late_device(0));
    haul_sync_stats before, after;
    (void)state;
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK);
    before = stats();
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK); /* known to be done: not even asked */
    after = stats();
    assert_int_equal(after.waits, before.waits);
    assert_int_equal(after.ready, before.ready);
    haul_tensor *y = haul_to(x, haul_cpu());
    late_run_all();
    assert_true(haul_item(view_of(y, &HAUL_SHAPE(1), (int64_t[]){1}, 3)) == 3);
    after = stats();
    assert_int_equal(after.waits, before.waits);
    assert_int_equal(after.ready, before.ready + 1); /* asked, and found done */
    assert_int_equal(haul_sync_stats_get(NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

static void test_sync__device_sync_waits(void **state)
{
    int64_t before = haul_sync_count();
    (void)state;
    haul_to(iota(1, 4), late_device(1));
    listen();
    assert_int_equal(haul_device_sync(late_device(1)), HAUL_OK);
    assert_int_equal(haul_sync_count() - before, 1);
    assert_int_equal(logged, 1);
    assert_string_equal(log_of[0].operation, "haul_device_sync");
    assert_string_equal(log_of[0].stream, "upload");
    assert_true(log_of[0].microseconds >= 0);
}

static void test_sync__moves_do_not_wait(void **state)
{
    int64_t before = haul_sync_count();
    (void)state;
    haul_tensor *x = haul_to(iota(10, 10), late_device(0));
    haul_tensor *y = haul_identity(x, late_device(0)), *z = haul_to(y, late_device(1));
    haul_tensor *home = haul_to(z, haul_cpu());
    assert_int_equal(haul_sync_count() - before, 0);
    assert_true(haul_item(view_of(home, &HAUL_SHAPE(1), (int64_t[]){1}, 42)) == 42);
    assert_true(haul_sync_count() > before);
}

/* ---- threads ---- */

static void *count_apart(void *context)
{
    int64_t    *found = context;
    haul_scope *inner = haul_scope_push();
    found[0] = haul_sync_count();
    haul_to(iota(1, 4), late_device(0));
    haul_device_sync(late_device(0));
    found[1] = haul_sync_count();
    haul_scope_pop(inner);
    return NULL;
}

static void test_sync__counts_belong_to_threads(void **state)
{
    int64_t   before, found[2] = {-1, -1};
    pthread_t thread;
    (void)state;
    assert_int_equal(haul_device_sync(late_device(0)), HAUL_OK); /* what other tests left */
    before = haul_sync_count();
    assert_int_equal(pthread_create(&thread, NULL, count_apart, found), 0);
    pthread_join(thread, NULL);
    assert_int_equal(found[0], 0);
    assert_int_equal(found[1], 1);
    assert_int_equal(haul_sync_count(), before);
}

/* ---- drivers ---- */

static void test_sync__memory_under_pressure_is_reported(void **state)
{
    haul_device    *device = late_device(1);
    haul_sync_stats before;
    int             obtained = 0, given = 0;
    (void)state;
    haul_memory_release_cached(device);
    listen();
    before = stats();
    haul_drop(haul_to(iota(64, 64), device));
    for (int i = 0; i < logged; i++)
        obtained += log_of[i].kind == HAUL_SYNC_DRIVER && log_of[i].device == device &&
                    strcmp(log_of[i].action, "obtained memory") == 0 && log_of[i].bytes == 64 * 64 * 4;
    assert_int_equal(obtained, 1);
    logged = 0;
    haul_drop(haul_to(iota(64, 64), device)); /* from the cache */
    for (int i = 0; i < logged; i++)
        assert_false(log_of[i].device == device && strstr(log_of[i].action, "obtained memory"));
    logged = 0;
    assert_int_equal(haul_memory_release_cached(device), HAUL_OK);
    for (int i = 0; i < logged; i++)
        if (log_of[i].kind == HAUL_SYNC_DRIVER && strstr(log_of[i].action, "gave memory back")) {
            given++;
            assert_string_equal(log_of[i].operation, "haul_memory_release_cached");
            assert_says(log_of[i].line, "haul_memory_release_cached gave memory back, ");
            assert_says(log_of[i].line, "in the driver of late:1");
        }
    assert_int_equal(given, 1);
    assert_true(stats().driver_calls > before.driver_calls);
}

/* ---- modules ---- */

static haul_tensor *peek(haul_module *module, haul_args *args)
{
    haul_tensor *x = args->x[0];
    (void)module;
    haul_item(view_of(x, &HAUL_SHAPE(1), (int64_t[]){1}, 0));
    return x;
}

static haul_tensor *outer(haul_module *module, haul_args *args)
{
    return haul_call_child(module, "inner", args->x[0]);
}

static void test_sync__names_the_layer(void **state)
{
    haul_module *net = haul_module_new("net", outer), *middle = haul_module_new("middle", outer);
    (void)state;
    assert_int_equal(haul_module_add(net, "inner", middle), HAUL_OK);
    assert_int_equal(haul_module_add(middle, "inner", haul_module_new("peek", peek)), HAUL_OK);
    haul_tensor *x = haul_to(iota(1, 4), late_device(0));
    listen();
    assert_valid(haul_call(net, x));
    bool found = false;
    for (int i = 0; i < logged; i++) {
        if (log_of[i].kind == HAUL_SYNC_DRIVER)
            continue;
        found = true;
        assert_string_equal(log_of[i].module, "inner.inner");
        assert_says(log_of[i].line, " in layer 'inner.inner'");
    }
    assert_true(found);
}

/* ---- training ---- */

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    return haul_call_child(m, "fc2", haul_relu(haul_call_child(m, "fc1", args->x[0])));
}

static void step(haul_module *net, haul_optimizer *sgd, haul_tensor *x, haul_tensor *y, haul_tensor *running)
{
    haul_scope  *inner = haul_scope_push();
    haul_tensor *loss = haul_cross_entropy(haul_call(net, x), y);
    haul_optimizer_zero_grad(sgd);
    haul_backward(loss);
    haul_optimizer_step(sgd);
    haul_add_into(running, running, haul_detach(loss));
    haul_scope_pop(inner);
}

/* On every device that there is: a step of training waits for nothing, reading its loss once. */
static void test_sync__a_training_step_does_not_wait(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        int64_t targets[8] = {0, 1, 2, 3, 0, 1, 2, 3};
        haul_set_device(devices[d]);
        haul_module    *net = haul_module_new("net", forward);
        haul_optimizer *sgd;
        haul_module_add(net, "fc1", haul_nn_linear(16, 32));
        haul_module_add(net, "fc2", haul_nn_linear(32, 4));
        sgd = haul_sgd(net, 0.01, .momentum = 0.9);
        haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(8, 16), 0, 1), *running = haul_scalar(0);
        haul_tensor *y = haul_from_host(HAUL_I64, HAUL_SHAPE(8), targets);
        for (int i = 0; i < 3; i++)
            step(net, sgd, x, y, running);
        assert_int_equal(haul_error_status(), HAUL_OK);
        haul_sync_stats before = stats();
        for (int i = 0; i < 10; i++)
            step(net, sgd, x, y, running);
        haul_sync_stats after = stats();
        assert_int_equal(haul_error_status(), HAUL_OK);
        assert_int_equal(after.waits + after.ready, before.waits + before.ready);
        assert_int_equal(after.driver_calls, before.driver_calls); /* the allocator served from its cache */
        assert_true(haul_item(running) > 0);
        assert_int_equal(haul_sync_count() - after.waits - after.ready, d == 0 ? 0 : 1);
    }
}

#define QUIET_TEST(name) cmocka_unit_test_setup_teardown(name, begin, silence)

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUIET_TEST(test_sync__item_waits_once_and_says_where),
        QUIET_TEST(test_sync__what_is_done_is_no_wait),
        QUIET_TEST(test_sync__device_sync_waits),
        QUIET_TEST(test_sync__moves_do_not_wait),
        QUIET_TEST(test_sync__counts_belong_to_threads),
        QUIET_TEST(test_sync__memory_under_pressure_is_reported),
        QUIET_TEST(test_sync__names_the_layer),
        QUIET_TEST(test_sync__a_training_step_does_not_wait),
    };
    return run_moves("sync", tests, sizeof tests / sizeof tests[0]);
}
