/* Commands: what reaches a device, in which order, and for whose sake; recordings and their replay.
 *
 * ctest: cuda */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/recording.h"
#include "memory/allocator.h"
#include "support/commands.h"
#include "support/failure.h"
#include "support/late.h"

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
    refused_for("haul_conv2d", haul_conv2d(x, w, HAUL_NONE));
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

/* ---- recordings ---- */

enum { COUNT = 1000, STEPS = 10 };

/* A parameter that learns to be a target. */
typedef struct model {
    haul_tensor    *parameter, *target;
    haul_optimizer *optimizer;
} model;

static haul_tensor *ramp(double from, double by)
{
    float values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(from + by * i);
    return haul_from_host(HAUL_F32, HAUL_SHAPE(COUNT), values);
}

static haul_tensor *same(haul_module *self, haul_args *args)
{
    (void)self;
    return args->x[0];
}

static haul_module *module_with(haul_tensor *parameter)
{
    haul_module *module = haul_module_new("test", same);
    assert_int_equal(haul_module_add_parameter(module, "p", parameter), HAUL_OK);
    return module;
}

static model model_new(void)
{
    haul_module *module = module_with(ramp(-1, 0.003));
    model        m = {haul_module_parameter(module, "p"), ramp(0.5, -0.001), haul_sgd(module, 0.1, .momentum = 0.9)};
    assert_non_null(m.optimizer);
    return m;
}

static haul_status step(const model *m, double lr)
{
    haul_scope *scope = haul_scope_push();
    haul_status status = haul_optimizer_set(m->optimizer, 0, "lr", lr);
    if (!status)
        status = haul_backward(haul_sum(haul_square(haul_sub(m->parameter, m->target))), HAUL_NONE);
    if (!status)
        status = haul_optimizer_step(m->optimizer);
    haul_optimizer_zero_grad(m->optimizer);
    haul_scope_pop(scope);
    return status;
}

static double rate_of(int i)
{
    return 0.1 / (1 + i);
}

static haul__slot_values rate(double lr)
{
    haul__slot_values values = {.given = {false}};
    assert_int_equal(haul__slot_set_real(&values, HAUL__SLOT_learning_rate, lr), HAUL_OK);
    return values;
}

static void assert_same(haul_tensor *a, haul_tensor *b)
{
    float x[COUNT], y[COUNT];
    assert_int_equal(haul_read(a, x, sizeof x), HAUL_OK);
    assert_int_equal(haul_read(b, y, sizeof y), HAUL_OK);
    assert_memory_equal(x, y, sizeof x);
}

/* Of a step, after one that was not recorded: then there is a velocity. */
static haul__recording *record_step(const model *m, double lr)
{
    assert_int_equal(step(m, rate_of(0)), HAUL_OK);
    assert_int_equal(haul__recording_begin("test"), HAUL_OK);
    assert_int_equal(step(m, lr), HAUL_OK);
    haul__recording *r = haul__recording_end();
    assert_non_null(r);
    return r;
}

static void replay_equals_eager(haul_device *device)
{
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_set_device(device), HAUL_OK);
    model            eager = model_new(), replayed = model_new();
    haul__recording *r = record_step(&replayed, rate_of(1));
    assert_int_equal(haul__recording_captured(r), device == haul_cpu());
    int count = haul__recording_count(r);
    assert_string_equal(haul__recording_command(r, 0)->operation, "haul_sub");
    assert_string_equal(haul__recording_command(r, count - 1)->operation, "haul_sgd");
    for (int i = 0; i < 2; i++)
        assert_int_equal(step(&eager, rate_of(i)), HAUL_OK);
    for (int i = 2; i < STEPS + 2; i++) {
        haul__slot_values values = rate(rate_of(i));
        uint64_t          version = atomic_load(&replayed.parameter->storage->version);
        assert_int_equal(step(&eager, rate_of(i)), HAUL_OK);
        assert_int_equal(haul__recording_replay(r, &values), HAUL_OK);
        assert_true(atomic_load(&replayed.parameter->storage->version) > version);
        assert_same(eager.parameter, replayed.parameter);
    }
    /* without values it is the recorded step */
    assert_int_equal(step(&eager, rate_of(1)), HAUL_OK);
    assert_int_equal(haul__recording_replay(r, NULL), HAUL_OK);
    assert_same(eager.parameter, replayed.parameter);
    haul__recording_free(r);
    haul_scope_pop(scope);
}

static haul_device *second_device(void)
{
    haul_device *device = haul_device_get("opencl:0");
    if (!haul_device_is_valid(device))
        device = haul_device_get("cuda:0");
    if (!haul_device_is_valid(device))
        skip();
    return device;
}

static void test_command__replay_equals_eager_on_the_cpu(void **state)
{
    (void)state;
    replay_equals_eager(haul_cpu());
}

static void test_command__replay_equals_eager_on_a_queued_device(void **state)
{
    (void)state;
    replay_equals_eager(second_device());
}

/* Draws move on by what the steps in between took. */
static void test_command__random_offsets_move_on(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    haul_set_grad_enabled(false);
    haul_tensor *x = ramp(1, 0), *dropped = haul_zeros(HAUL_F32, HAUL_SHAPE(COUNT));
    haul_tensor *noise = haul_zeros(HAUL_F32, HAUL_SHAPE(COUNT));
    haul_manual_seed(7);
    assert_int_equal(haul__recording_begin("test"), HAUL_OK);
    haul_scope *inner = haul_scope_push();
    assert_int_equal(haul_copy_into(dropped, haul_dropout(x, 0.5, true)), HAUL_OK);
    assert_int_equal(haul_copy_into(noise, haul_normal(HAUL_F32, HAUL_SHAPE(COUNT), 0, 1)), HAUL_OK);
    haul_scope_pop(inner);
    haul__recording *r = haul__recording_end();
    assert_non_null(r);
    int64_t used = (int64_t)haul_random_state_get().offset;
    assert_true(used > 0);
    for (int i = 1; i < 4; i++) {
        haul__slot_values values = {.given = {false}};
        assert_int_equal(haul__slot_set_integer(&values, HAUL__SLOT_random_offset, i * used), HAUL_OK);
        assert_int_equal(haul__recording_replay(r, &values), HAUL_OK);
        haul_random_state_set((haul_random_state){.seed = 7, .offset = (uint64_t)(i * used)});
        assert_same(haul_dropout(x, 0.5, true), dropped);
        assert_same(haul_normal(HAUL_F32, HAUL_SHAPE(COUNT), 0, 1), noise);
    }
    haul__recording_free(r);
    haul_scope_pop(scope);
}

/* Minimise |a p - 1|^2 by four steps of Adam, in f64: each is called, or the last two replay the second. The first
 * makes the state, which no replay should. */
static void fit(bool replays, double *out, size_t bytes)
{
    haul_scope *scope = haul_scope_push();
    haul_manual_seed(3);
    haul_tensor     *a = haul_normal(HAUL_F64, HAUL_SHAPE(16, 16), 0, 1);
    haul_module     *module = module_with(haul_zeros(HAUL_F64, HAUL_SHAPE(16, 16)));
    haul_tensor     *p = haul_module_parameter(module, "p");
    haul_optimizer  *optimizer = haul_adam(module, 0.01, .betas = {0.9, 0.99});
    haul__recording *r = NULL;
    for (int i = 1; i <= 4; i++) {
        if (r) {
            haul__slot_values values = {.given = {false}};
            double            size = 0.01 / (1 - pow(0.9, i)), correction = sqrt(1 - pow(0.99, i));
            assert_int_equal(haul__slot_set_real(&values, HAUL__SLOT_step_size, size), HAUL_OK);
            assert_int_equal(haul__slot_set_real(&values, HAUL__SLOT_bias_correction, correction), HAUL_OK);
            assert_int_equal(haul__recording_replay(r, &values), HAUL_OK);
            continue;
        }
        haul_scope *inner = haul_scope_push();
        if (replays && i == 2)
            assert_int_equal(haul__recording_begin("test"), HAUL_OK);
        haul_tensor *one = haul_full(HAUL_F64, HAUL_SHAPE(16, 16), 1), *b = haul_zeros(HAUL_F64, HAUL_SHAPE(16, 16));
        assert_int_equal(haul_copy_into(b, one), HAUL_OK);
        haul_tensor *loss = haul_sum(haul_square(haul_sub(haul_matmul(a, p), b)));
        assert_int_equal(haul_backward(loss, HAUL_NONE), HAUL_OK);
        assert_int_equal(haul_optimizer_step(optimizer), HAUL_OK);
        haul_optimizer_zero_grad(optimizer);
        if (replays && i == 2)
            assert_non_null(r = haul__recording_end());
        haul_scope_pop(inner);
    }
    assert_int_equal(haul_read(p, out, bytes), HAUL_OK);
    bool kinds[HAUL__COMMAND_CALLBACK + 1] = {false};
    for (int i = 0; r && i < haul__recording_count(r); i++)
        kinds[haul__recording_command(r, i)->kind] = true;
    assert_true(!r || (kinds[HAUL__COMMAND_LAUNCH] && kinds[HAUL__COMMAND_LIBRARY] && kinds[HAUL__COMMAND_FILL] &&
                       kinds[HAUL__COMMAND_COPY]));
    haul__recording_free(r);
    haul_scope_pop(scope);
}

static void test_command__all_kinds_are_replayed(void **state)
{
    double replayed[256], eager[256];
    (void)state;
    fit(false, eager, sizeof eager);
    fit(true, replayed, sizeof replayed);
    assert_memory_equal(replayed, eager, sizeof eager);
}

static void test_command__recordings_hold_their_storages(void **state)
{
    haul_memory_stats before, during, after;
    haul_scope       *scope = haul_scope_push();
    (void)state;
    haul__recording *r;
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &before), HAUL_OK);
    haul_scope *inner = haul_scope_push();
    model       m = model_new();
    r = record_step(&m, 0.1);
    haul_scope_pop(inner);
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &during), HAUL_OK);
    assert_true(during.live_blocks - before.live_blocks >= 4); /* parameter, target, gradient, momentum */
    haul_zeros(HAUL_F32, HAUL_SHAPE(COUNT));                   /* must not be given one of them */
    assert_int_equal(haul__recording_replay(r, NULL), HAUL_OK);
    haul__recording_free(r);
    assert_int_equal(haul_memory_stats_get(haul_cpu(), &after), HAUL_OK);
    assert_int_equal(after.live_blocks - before.live_blocks, 1);
    haul_scope_pop(scope);
}

static void refused(haul_status status, const char *operation, const char *what)
{
    assert_int_equal(status, HAUL_STATE);
    assert_string_equal(haul_error_operation(), operation);
    assert_non_null(strstr(haul_error_message(), what));
    assert_non_null(strstr(haul_error_message(), "end the recording (test) first"));
    haul_error_clear();
}

static void test_command__what_cannot_be_repeated_is_refused(void **state)
{
    haul_device *devices[] = {haul_cpu(), late_device(0)};
    float        value = 1;
    (void)state;
    for (int i = 0; i < 2; i++) {
        haul_scope *scope = haul_scope_push();
        haul_set_device(devices[i]);
        haul_tensor *t = haul_zeros(HAUL_F32, HAUL_SHAPE(1));
        assert_int_equal(haul__recording_begin("test"), HAUL_OK);
        refused(haul__recording_begin("again"), "again", "is already recording");
        refused(haul_read(t, &value, sizeof value), "haul_read", "cannot be recorded");
        refused(haul_write(t, &value, sizeof value), "haul_write", "cannot be recorded");
        refused(haul_device_sync(devices[i]), "haul_device_sync", "waiting for a device cannot be recorded");
        assert_null(haul_map(t, HAUL_READ));
        refused(haul_error_status(), "haul_map", "cannot be recorded");
        assert_int_equal(haul_fill_into(t, 2), HAUL_OK); /* the recording goes on */
        haul__recording *r = haul__recording_end();
        assert_int_equal(haul__recording_count(r), 1);
        assert_int_equal(haul_zero_into(t), HAUL_OK);
        assert_int_equal(haul__recording_replay(r, NULL), HAUL_OK);
        assert_int_equal(haul_read(t, &value, sizeof value), HAUL_OK);
        assert_true(value == 2);
        haul__recording_free(r);
        haul_scope_pop(scope);
    }
    assert_null(haul__recording_end());
    assert_int_equal(haul_error_status(), HAUL_STATE);
    haul_error_clear();
}

static int launches_of(const haul__recording *r)
{
    int count = 0;
    for (int i = 0; i < haul__recording_count(r); i++)
        count += haul__recording_command(r, i)->kind == HAUL__COMMAND_LAUNCH;
    return count;
}

/* A command that fails is not collected; a replay that fails says so, and the next one runs. */
static void fails_and_goes_on(haul_device *device, int64_t nth)
{
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_set_device(device), HAUL_OK);
    model m = model_new();
    assert_int_equal(step(&m, 0.1), HAUL_OK);
    assert_int_equal(haul__recording_begin("test"), HAUL_OK);
    haul__fault_plan(HAUL__FAULT_LAUNCH, 2);
    assert_int_equal(step(&m, 0.1), HAUL_BACKEND);
    haul_error_clear();
    haul__recording *r = haul__recording_end();
    assert_int_equal(launches_of(r), 1);
    haul__recording_free(r);

    r = record_step(&m, 0.1);
    haul__fault_plan(HAUL__FAULT_LAUNCH, nth);
    assert_int_equal(haul__recording_replay(r, NULL), HAUL_BACKEND);
    assert_non_null(strstr(haul_error_message(), "refused a launch"));
    haul_error_clear();
    haul__fault_plan(0, 0);
    assert_int_equal(haul__recording_replay(r, NULL), HAUL_OK);
    assert_int_equal(step(&m, 0.1), HAUL_OK);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    haul__recording_free(r);
    haul_scope_pop(scope);
}

static void test_command__a_failed_replay_leaves_nothing_locked(void **state)
{
    (void)state;
    fails_and_goes_on(haul_cpu(), 1);
}

/* Its second command fails, after the first one was submitted. */
static void test_command__a_replay_that_fails_halfway_leaves_nothing_locked(void **state)
{
    (void)state;
    fails_and_goes_on(second_device(), 2);
}

/* Uses are left by a replay as by the commands: a read on another stream waits for it. */
static void test_command__replays_mark_their_storages(void **state)
{
    haul__storage *a = haul__storage_alloc(late_device(0), 64, "test");
    int64_t        before = late_pending();
    char           back[64];
    (void)state;
    assert_int_equal(haul__recording_begin("test"), HAUL_OK);
    assert_int_equal(submit_fill(a, 64, 3), HAUL_OK);
    haul__recording *r = haul__recording_end();
    assert_int_equal(submit_fill(a, 64, 4), HAUL_OK);
    assert_int_equal(haul__recording_replay(r, NULL), HAUL_OK);
    assert_int_equal(late_pending() - before, 3);
    assert_int_equal(submit_read(back, NULL, a, 64), HAUL_OK);
    assert_int_equal(back[63], 3);
    haul__recording_free(r);
    haul__object_release(a);
}

static void test_command__recordings_fail_where_memory_does(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    model m = model_new();
    assert_int_equal(step(&m, 0.1), HAUL_OK);
    for (int64_t nth = 1, failed = 1; failed; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul_status      status = haul__recording_begin("test");
        haul__recording *r = NULL;
        if (!status) {
            status = step(&m, 0.1);
            r = haul__recording_end();
        }
        failed = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        assert_true(failed || (status == HAUL_OK && r));
        haul_error_clear();
        if (r)
            assert_int_equal(haul__recording_replay(r, NULL), HAUL_OK);
        haul__recording_free(r);
    }
    haul_scope_pop(scope);
}

static void test_command__slots_have_types(void **state)
{
    haul__slot_values values = {.given = {false}};
    (void)state;
    assert_int_equal(haul__slot_set_real(&values, HAUL__SLOT_random_offset, 0.5), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "random_offset holds an integer"));
    assert_int_equal(haul__slot_set_integer(&values, HAUL__SLOT_learning_rate, 1), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "learning_rate holds a real number"));
    haul_error_clear();
    assert_false(values.given[HAUL__SLOT_random_offset] || values.given[HAUL__SLOT_learning_rate]);
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
        cmocka_unit_test(test_command__replay_equals_eager_on_the_cpu),
        cmocka_unit_test(test_command__replay_equals_eager_on_a_queued_device),
        cmocka_unit_test(test_command__random_offsets_move_on),
        cmocka_unit_test(test_command__all_kinds_are_replayed),
        cmocka_unit_test(test_command__recordings_hold_their_storages),
        cmocka_unit_test(test_command__what_cannot_be_repeated_is_refused),
        cmocka_unit_test(test_command__a_failed_replay_leaves_nothing_locked),
        cmocka_unit_test(test_command__a_replay_that_fails_halfway_leaves_nothing_locked),
        cmocka_unit_test(test_command__replays_mark_their_storages),
        cmocka_unit_test(test_command__recordings_fail_where_memory_does),
        cmocka_unit_test(test_command__slots_have_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
