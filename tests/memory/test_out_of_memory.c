/* Running out of memory in a training step: each call that fails leaves everything as it was, so that the program can
 * go on with a smaller batch, with the same result as without the failure.
 *
 * ctest: cuda; sim; labels=slow */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "support/devices/each.h"
#include "support/failure.h"

enum { BATCH = 16, SMALLER = 4, CLASSES = 3, SIDE = 6, MOST_VALUES = 20000, MOST_TENSORS = 64 };

static haul_device *device;

/* ---- a training ---- */

typedef enum optimizer { MOMENTUM, ADAM, OPTIMIZERS } optimizer;

typedef struct training {
    haul_scope     *scope;
    haul_module    *net;
    haul_optimizer *optimizer;
} training;

/* Twelve parameters, more than one operation of the optimizer changes; the state of the optimizer is made in the first
 * step. */
static training begin(optimizer kind)
{
    training t = {.scope = haul_scope_push()};
    haul_manual_seed(7);
    haul_set_device(device);
    t.net = HAUL_SEQUENTIAL(haul_nn_conv2d(1, 4, 3), haul_nn_layer_norm(SIDE - 2), haul_nn_relu(), haul_nn_flatten(1),
                            haul_nn_linear(4 * (SIDE - 2) * (SIDE - 2), 20), haul_nn_relu(), haul_nn_dropout(0.25),
                            haul_nn_linear(20, 10), haul_nn_relu(), haul_nn_linear(10, 8), haul_nn_relu(),
                            haul_nn_linear(8, CLASSES));
    t.optimizer = kind == ADAM ? haul_adam(t.net, 0.01) : haul_sgd(t.net, 0.1, .momentum = 0.9);
    assert_non_null(t.optimizer);
    return t;
}

static void end(training *t)
{
    haul_scope_pop(t->scope);
}

/* How far a step came. */
typedef enum phase { FORWARD, BACKWARD, STEP, DONE } phase;

static phase step(const training *t, int batch)
{
    static float pixels[BATCH * SIDE * SIDE];
    int64_t      labels[BATCH];
    haul_scope  *scope = haul_scope_push();
    phase        reached = FORWARD;
    for (int i = 0; i < BATCH * SIDE * SIDE; i++)
        pixels[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < BATCH; i++)
        labels[i] = i * 5 % CLASSES;
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(batch, 1, SIDE, SIDE), pixels);
    haul_tensor *y = haul_from_host(HAUL_I64, HAUL_SHAPE(batch), labels);
    haul_tensor *loss = haul_cross_entropy(haul_call(t->net, x), y);
    if (haul_tensor_is_valid(loss)) {
        reached = BACKWARD;
        if (!haul_backward(loss))
            reached = haul_optimizer_step(t->optimizer) ? STEP : DONE;
    }
    haul_scope_pop(scope);
    return reached;
}

/* ---- everything that a step may change ---- */

typedef struct values {
    float   at[MOST_VALUES];
    int     count;
    int64_t steps;
} values;

typedef struct situation {
    values  weights, state, gradients;
    int64_t allocated[2], live_blocks[2]; /* of the device and of the CPU */
} situation;

static void add(values *v, haul_tensor *t)
{
    const int64_t count = haul_tensor_count(t);
    assert_true(v->count + count <= MOST_VALUES);
    assert_int_equal(haul_read(t, v->at + v->count, (size_t)count * sizeof(float)), HAUL_OK);
    v->count += (int)count;
}

static void add_all(values *v, const haul_named_tensor *tensors, int count)
{
    assert_true(count >= 0 && count <= MOST_TENSORS);
    for (int i = 0; i < count; i++)
        add(v, tensors[i].tensor);
}

static void observe(const training *t, situation *out)
{
    haul_named_tensor tensors[MOST_TENSORS];
    haul_device      *devices[2] = {device, haul_cpu()};
    haul_scope       *scope = haul_scope_push();
    memset(out, 0, sizeof *out);
    add_all(&out->state, tensors, haul_optimizer_state(t->optimizer, tensors, MOST_TENSORS));
    out->state.steps = haul_optimizer_steps(t->optimizer);
    const int count = haul_module_tensors(t->net, tensors, MOST_TENSORS);
    add_all(&out->weights, tensors, count);
    for (int i = 0; i < count; i++) {
        haul_tensor *g = haul_tensor_grad(tensors[i].tensor);
        if (haul_tensor_is_valid(g) && g != HAUL_NONE)
            add(&out->gradients, g);
    }
    haul_scope_pop(scope);
    for (int i = 0; i < 2; i++) {
        haul_memory_stats s;
        haul_memory_stats_get(devices[i], &s);
        out->allocated[i] = s.allocated;
        out->live_blocks[i] = s.live_blocks;
    }
}

static bool same(const values *a, const values *b)
{
    return a->count == b->count && a->steps == b->steps && memcmp(a->at, b->at, (size_t)a->count * sizeof *a->at) == 0;
}

static void check_memory(const situation *before, const situation *after, const char *when)
{
    for (int i = 0; i < 2; i++)
        if (before->allocated[i] != after->allocated[i] || before->live_blocks[i] != after->live_blocks[i])
            fail_msg("%s: %lld bytes in %lld blocks were in use on %s, and now %lld in %lld", when,
                     (long long)before->allocated[i], (long long)before->live_blocks[i],
                     i ? "cpu" : haul_device_name(device), (long long)after->allocated[i],
                     (long long)after->live_blocks[i]);
}

/* ---- a step that fails ---- */

static situation before, after, wanted;

typedef struct setting {
    optimizer kind;
    int       warm;        /* steps before the one that fails */
    bool      accumulates; /* the gradients of those stay, and the step adds to them */
    bool      host;        /* host memory for the library's structures is exhausted instead */
} setting;

/* The program must forget the gradients of the step, and draw its random numbers again. */
static void forget(const training *t, setting s, haul_random_state random)
{
    haul_error_clear();
    if (!s.accumulates)
        assert_int_equal(haul_optimizer_zero_grad(t->optimizer), HAUL_OK);
    haul_random_state_set(random);
}

/* Compares everything with the time before a step that failed in a phase. `what` says which failure. */
static void check_unchanged(const training *t, setting s, phase failed, const char *what)
{
    char when[200];
    snprintf(when, sizeof when, "%s, phase %d (%s)", what, (int)failed, haul_error_message());
    assert_int_equal(haul_error_status(), HAUL_OUT_OF_MEMORY);
    haul_memory_report report;
    if (haul_memory_report_get(&report) != (s.host ? HAUL_STATE : HAUL_OK))
        fail_msg("%s: the report is %s", when, s.host ? "there" : "missing");
    observe(t, &after);
    if (!same(&before.weights, &after.weights))
        fail_msg("%s: weights have changed", when);
    if (!same(&before.state, &after.state))
        fail_msg("%s: the state of the optimizer has changed", when);
    if (failed == STEP ? after.gradients.count != after.weights.count : !same(&before.gradients, &after.gradients))
        fail_msg("%s: %d values of gradients, %d before", when, after.gradients.count, before.gradients.count);
    if (failed != STEP)
        check_memory(&before, &after, when);
}

static training prepare(setting s, haul_random_state *random)
{
    training t = begin(s.kind);
    for (int i = 0; i < s.warm; i++) {
        assert_int_equal(step(&t, BATCH), DONE);
        if (!s.accumulates)
            haul_optimizer_zero_grad(t.optimizer);
    }
    *random = haul_random_state_get();
    observe(&t, &before); /* the optimizer may make tensors for this; the second time it has them */
    observe(&t, &before);
    return t;
}

/* What a smaller batch gives when nothing fails before. */
static void find_wanted(setting s)
{
    haul_random_state random;
    training          t = prepare(s, &random);
    assert_int_equal(step(&t, SMALLER), DONE);
    observe(&t, &wanted);
    end(&t);
}

static void check_smaller(const training *t, setting s, haul_random_state random, const char *what)
{
    forget(t, s, random);
    observe(t, &after);
    check_memory(&before, &after, what);
    if (step(t, SMALLER) != DONE)
        fail_msg("%s: the smaller batch fails: %s", what, haul_error_message());
    observe(t, &after);
    if (!same(&wanted.weights, &after.weights) || !same(&wanted.state, &after.state) ||
        !same(&wanted.gradients, &after.gradients))
        fail_msg("%s: the smaller batch gives another result than without the failure", what);
    check_memory(&wanted, &after, what);
}

/* Fails the nth allocation of a step. False if it has fewer. */
static bool fail_nth(setting s, int64_t nth, int failures[DONE + 1])
{
    char              what[80];
    haul_random_state random;
    training          t = prepare(s, &random);
    snprintf(what, sizeof what, "%s allocation %lld after %d steps with optimizer %d", s.host ? "host" : "device",
             (long long)nth, s.warm, (int)s.kind);
    haul__fault_plan(s.host ? HAUL__FAULT_HOST : HAUL__FAULT_DEVICE, nth);
    const phase reached = step(&t, BATCH);
    const bool  counted = haul__fault_count() >= nth;
    haul__fault_plan(0, 0);
    if (counted)
        failures[reached]++;
    if (reached != DONE) {
        check_unchanged(&t, s, reached, what);
        check_smaller(&t, s, random, what);
    }
    end(&t);
    return counted;
}

static void test_out_of_memory__at_every_allocation_of_a_step(void **state)
{
    static const setting settings[] = {
        {MOMENTUM, .warm = 0}, {MOMENTUM, .warm = 1}, {MOMENTUM, .warm = 1, .accumulates = true},
        {ADAM, .warm = 0},     {ADAM, .warm = 1},     {ADAM, .warm = 0, .host = true}};
    (void)state;
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        int     failures[DONE + 1] = {0};
        int64_t nth = 1;
        find_wanted(settings[i]);
        while (fail_nth(settings[i], nth, failures))
            nth++;
        printf("%s%s, optimizer %d after %d steps: %d failures forward, %d backward, %d in the step; %d did no harm\n",
               haul_device_name(device), settings[i].host ? " (host)" : "", (int)settings[i].kind, settings[i].warm,
               failures[FORWARD], failures[BACKWARD], failures[STEP], failures[DONE]);
        assert_true(failures[FORWARD] > 5 && failures[BACKWARD] > 10);
        assert_true(settings[i].warm || failures[STEP] > 5); /* the first step makes the state */
    }
}

/* ---- limits ---- */

static void test_out_of_memory__at_limits(void **state)
{
    enum { LIMITS = 40 };
    const setting     s = {MOMENTUM, .warm = 0};
    haul_random_state random;
    int               failures[DONE + 1] = {0};
    (void)state;
    find_wanted(s);
    training t = prepare(s, &random);
    haul_memory_reset_peak(device);
    assert_int_equal(step(&t, BATCH), DONE);
    haul_memory_stats stats;
    haul_memory_stats_get(device, &stats);
    end(&t);
    for (int i = 0; i < LIMITS; i++) {
        char what[80];
        t = prepare(s, &random);
        haul_memory_release_cached(device);
        const int64_t limit = before.allocated[0] + (stats.peak_allocated - before.allocated[0]) * i / LIMITS;
        haul_memory_set_tensor_limit(device, limit);
        snprintf(what, sizeof what, "a limit of %lld bytes", (long long)limit);
        const phase        reached = step(&t, BATCH);
        haul_memory_report report = {.limit = 0};
        failures[reached]++;
        if (reached != DONE) {
            assert_int_equal(haul_memory_report_get(&report), HAUL_OK);
            if (report.limit != limit || report.allocated + report.block <= limit || report.room >= report.block)
                fail_msg("%s: limit %lld, allocated %lld, requested %lld, block %lld, room %lld", what,
                         (long long)report.limit, (long long)report.allocated, (long long)report.requested,
                         (long long)report.block, (long long)report.room);
            check_unchanged(&t, s, reached, what);
            haul_memory_set_limit(device, 0);
            check_smaller(&t, s, random, what);
        }
        haul_memory_set_limit(device, 0);
        end(&t);
    }
    printf("%s, limits: %d failures forward, %d backward, %d in the step\n", haul_device_name(device),
           failures[FORWARD], failures[BACKWARD], failures[STEP]);
    assert_true(failures[FORWARD] > 3 && failures[BACKWARD] > 1);
}

/* ---- what stays ---- */

/* Calls of a step that succeeded before the failure are not undone. */
static void test_out_of_memory__calls_that_succeeded_before_stay(void **state)
{
    float        first = 0, later = 0;
    haul_scope  *scope = haul_scope_push();
    haul_module *norm;
    (void)state;
    haul_set_device(device);
    haul_manual_seed(3);
    norm = haul_nn_batch_norm(1);
    haul_named_tensor tensors[5];
    const int         count = haul_module_tensors(norm, tensors, 5);
    haul_tensor      *mean = NULL;
    for (int i = 0; i < count && i < 5; i++)
        mean = strcmp(tensors[i].name, "running_mean") ? mean : tensors[i].tensor;
    assert_non_null(mean);
    haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(4, 1, 3, 3), 5);
    assert_int_equal(haul_read(mean, &first, sizeof first), HAUL_OK);
    haul_tensor *y = haul_call(norm, x);
    haul__fault_plan(HAUL__FAULT_DEVICE, 1);
    haul_tensor *z = haul_dropout(y, 0.5, true);
    haul__fault_plan(0, 0);
    assert_failed(z);
    haul_error_clear();
    assert_int_equal(haul_read(mean, &later, sizeof later), HAUL_OK);
    assert_true(later > first);                          /* the running statistics saw the batch */
    assert_int_equal(haul_random_state_get().offset, 0); /* dropout gave its random numbers back */
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_out_of_memory__at_every_allocation_of_a_step),
        cmocka_unit_test(test_out_of_memory__at_limits),
        cmocka_unit_test(test_out_of_memory__calls_that_succeeded_before_stay),
    };
    return run_on_devices(tests, &device);
}
