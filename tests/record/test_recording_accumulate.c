/* Gradients that add up over the runs of a recording: the same bits as without one, and one set of gradients. */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/bits.h"
#include "support/conformance/conformance.h"

enum { WIDTH = 256, BATCH = 8, PARTS = 4 };

typedef struct training {
    haul_device    *device;
    haul_module    *net;
    haul_optimizer *optimizer;
    haul_tensor    *x, *kept;
    haul_step_part  part;
    int             passes;
    bool            keeps; /* the first gradient, before the second pass adds to it */
} training;

static haul_tensor *weight_of(const training *t)
{
    return haul_module_parameter(t->net, "0.weight");
}

static void keep_gradient(training *t, haul_tensor *g)
{
    haul_release(t->kept);
    t->kept = haul_keep(g);
}

static haul_status step(void *context)
{
    training   *t = context;
    haul_status status = haul_set_device(t->device);
    for (int i = 0; i < t->passes && !status; i++) {
        haul_tensor *y = haul_call(t->net, t->x);
        status = haul_train_step(t->optimizer, haul_mean(haul_square(y)), .part = &t->part);
        if (t->keeps && !i && !status)
            keep_gradient(t, haul_tensor_grad(weight_of(t)));
    }
    return !status && t->part.last ? haul_optimizer_zero_grad(t->optimizer) : status;
}

static training make(haul_device *device)
{
    haul_manual_seed(5);
    haul_set_device(device);
    training t = {.device = device, .passes = 1};
    t.net = haul_nn_sequential((haul_module *[]){haul_nn_linear(WIDTH, WIDTH), haul_nn_linear(WIDTH, WIDTH)}, 2);
    assert_int_equal(haul_module_to(t.net, device), HAUL_OK);
    t.optimizer = haul_sgd(t.net, 0.05, .momentum = 0.9);
    return t;
}

static haul_status run(training *t, haul_recording *r)
{
    return r ? haul_recording_run(r) : step(t);
}

/* A group of mini-batches. Returns the most bytes that its steps had at once beyond those before. */
static int64_t run_group(training *t, haul_recording *r, unsigned seed)
{
    haul_memory_stats before, after;
    haul_scope       *scope = haul_scope_push();
    haul_manual_seed(seed);
    t->x = haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, WIDTH), 0, 1);
    haul_memory_stats_get(t->device, &before);
    haul_memory_reset_peak(t->device);
    for (int i = 0; i < PARTS; i++) {
        t->part = (haul_step_part){.weight = 1.0 / PARTS, .first = i == 0, .last = i == PARTS - 1};
        if (run(t, r))
            fail_msg("part %d: %s", i, haul_error_message());
    }
    haul_memory_stats_get(t->device, &after);
    haul_scope_pop(scope);
    return after.peak_allocated - before.allocated;
}

static void expect_same(const training *a, const training *b)
{
    for (int i = 0; i < 2; i++) {
        const char *name = i ? "1.weight" : "0.weight";
        assert_same_bits(haul_module_parameter(a->net, name), haul_module_parameter(b->net, name), name);
    }
}

/* Followed, the parts of a step need as much memory as they are, on the device, and at most a vector more. */
static void test_one_set_of_gradients(void **state)
{
    (void)state;
    enum { GROUPS = 4 };
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    for (int d = 0; d < count; d++) {
        haul_scope     *scope = haul_scope_push();
        training        eager = make(devices[d]), recorded = make(devices[d]);
        haul_recording *r = haul_recording_new(step, &recorded, .variants = 8);
        int64_t         plain = 0, followed = 0;
        for (unsigned k = 0; k < GROUPS; k++) {
            plain = run_group(&eager, NULL, k);
            followed = run_group(&recorded, r, k);
            expect_same(&eager, &recorded);
        }
        haul_recording_report report;
        haul_recording_report_get(r, &report);
        assert_int_equal(report.eager, 1);
        assert_int_equal(report.followed, GROUPS * PARTS - 1);
        if (followed > plain + WIDTH * WIDTH)
            fail_msg("%s: %lld bytes followed, %lld as it is", haul_device_name(devices[d]), (long long)followed,
                     (long long)plain);
        haul_scope_pop(scope);
    }
}

/* A gradient that the program holds in some steps stays as it is. */
static void test_held_gradients(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    training        eager = make(haul_cpu()), recorded = make(haul_cpu());
    haul_recording *r = haul_recording_new(step, &recorded, .variants = 8);
    eager.passes = recorded.passes = 2;
    for (unsigned k = 0; k < 8; k++) {
        eager.keeps = recorded.keeps = k / 2 % 2;
        run_group(&eager, NULL, k);
        run_group(&recorded, r, k);
        expect_same(&eager, &recorded);
        if (eager.keeps)
            assert_same_bits(eager.kept, recorded.kept, "the gradient that is held");
    }
    haul_recording_report report;
    haul_recording_report_get(r, &report);
    assert_int_equal(report.eager, 1);
    haul_release(eager.kept);
    haul_release(recorded.kept);
    haul_scope_pop(scope);
}

/* Between two runs. */
static void test_gradients_held_between_runs(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    training        t = make(haul_cpu());
    haul_recording *r = haul_recording_new(step, &t);
    t.x = haul_ones(HAUL_F32, HAUL_SHAPE(BATCH, WIDTH));
    t.part = (haul_step_part){.weight = 1, .last = false};
    for (int i = 0; i < 6; i++) {
        haul_tensor *held = i ? haul_keep(haul_tensor_grad(weight_of(&t))) : NULL;
        haul_tensor *copy = i ? haul_clone(held) : NULL;
        if (i % 2) {
            haul_release(held);
            held = NULL;
        }
        assert_int_equal(haul_recording_run(r), HAUL_OK);
        if (held)
            assert_same_bits(held, copy, "a gradient that is held");
        haul_release(held);
    }
    haul_recording_report report;
    haul_recording_report_get(r, &report);
    assert_int_equal(report.eager, 1);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_set_of_gradients),
        cmocka_unit_test(test_held_gradients),
        cmocka_unit_test(test_gradients_held_between_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
