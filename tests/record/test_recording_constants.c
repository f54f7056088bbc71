/* Values that are the same in every followed step: their calls compute once, and everything that could change them is
 * seen.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/bits.h"
#include "support/conformance/conformance.h"
#include "support/devices/program.h"

enum { ROWS = 6, LARGE = 200 };

typedef struct training {
    haul_device *device;
    haul_tensor *w, *x, *out;
    double       fill;
    int64_t      size;
    bool         writes, reads;
} training;

/* A mask that is made of constants, and a constant that may be written. */
static haul_status step(void *context)
{
    training    *t = context;
    haul_status  status = haul_set_device(t->device);
    haul_tensor *row = haul_unsqueeze(haul_arange_i64(0, t->size, 1), 1), *column = haul_arange_i64(0, t->size, 1);
    haul_tensor *mask = haul_cast(haul_ge(row, column), HAUL_F32),
                *sum = haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, t->fill);
    haul_tensor *y = haul_matmul(haul_matmul(mask, t->x), t->w);
    if (!status && t->writes)
        status = haul_add_into(sum, sum, haul_detach(haul_mean(y)));
    if (!status)
        status = haul_backward(haul_mul(haul_sum(haul_square(y)), sum), .once = true);
    if (!status)
        status = haul_copy_into(t->out, sum);
    if (t->reads && haul_item(t->out) < 0)
        return HAUL_STATE;
    return status ? status
                  : haul_sub_into(haul_detach(t->w), haul_detach(t->w), haul_mul_scalar(haul_tensor_grad(t->w), 1e-4));
}

static training make(haul_device *device)
{
    haul_set_device(device);
    haul_manual_seed(11);
    training t = {.device = device, .fill = 0.5, .size = ROWS};
    t.w = haul_set_requires_grad(haul_normal(HAUL_F32, HAUL_SHAPE(3, 3), 0, 1), true);
    t.out = haul_zeros(HAUL_F32, HAUL_SCALAR_SHAPE);
    return t;
}

typedef struct counts {
    int all, constant;
} counts;

static void count(const haul_event *event, void *context)
{
    static const char *const names[] = {"haul_arange_i64", "haul_ge", "haul_full", "haul_cast"};
    counts                  *c = context;
    c->all++;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        c->constant += event->operation && !strcmp(event->operation, names[i]);
}

/* One step of both; returns what the recorded one submitted. */
static counts run_both(training *eager, training *recorded, haul_recording *r)
{
    counts      c = {0, 0};
    haul_scope *scope = haul_scope_push();
    eager->x = recorded->x = haul_normal(HAUL_F32, HAUL_SHAPE(eager->size, 3), 0, 1);
    if (step(eager))
        fail_msg("as it is: %s", haul_error_message());
    const int64_t id = haul_events_subscribe(count, .context = &c, .kinds = HAUL_EVENT_COMMAND);
    if (haul_recording_run(r))
        fail_msg("recorded: %s", haul_error_message());
    haul_events_unsubscribe(id);
    assert_same_bits(eager->w, recorded->w, "w");
    assert_same_bits(eager->out, recorded->out, "out");
    haul_scope_pop(scope);
    return c;
}

static void test_are_computed_once(void **state)
{
    (void)state;
    haul_device *devices[8];
    const int    device_count = test_devices(devices, 8);
    for (int d = 0; d < device_count; d++) {
        haul_scope     *scope = haul_scope_push();
        training        eager = make(devices[d]), recorded = make(devices[d]);
        haul_recording *r = haul_recording_new(step, &recorded);
        const int       as_it_is = run_both(&eager, &recorded, r).constant;
        assert_true(as_it_is >= 4);
        assert_int_equal(run_both(&eager, &recorded, r).constant, as_it_is);
        for (int i = 0; i < 4; i++) {
            const counts c = run_both(&eager, &recorded, r);
            assert_int_equal(c.constant, 0);
            assert_true(c.all > 0);
        }
        assert_int_equal(report_of(r).followed, 5);
        haul_scope_pop(scope);
    }
}

/* Another value, a larger one, one that is written: none of them is what an earlier step has computed. */
static void test_changes(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    training        eager = make(haul_cpu()), recorded = make(haul_cpu());
    haul_recording *r = haul_recording_new(step, &recorded, .variants = 8);
    for (int i = 0; i < 24; i++) {
        eager.fill = recorded.fill = i / 3 % 2 ? 0.25 : 0.5;
        eager.writes = recorded.writes = i / 6 % 2;
        eager.size = recorded.size = i / 12 % 2 ? LARGE : ROWS;
        run_both(&eager, &recorded, r);
    }
    assert_int_equal(report_of(r).followed, 23);
    haul_scope_pop(scope);
}

/* A step that runs as it is has the memory of the constants. */
static void test_are_made_again(void **state)
{
    (void)state;
    haul_scope     *scope = haul_scope_push();
    training        eager = make(haul_cpu()), recorded = make(haul_cpu());
    haul_recording *r = haul_recording_new(step, &recorded);
    for (int i = 0; i < 9; i++) {
        eager.reads = recorded.reads = i % 4 == 3;
        const counts c = run_both(&eager, &recorded, r);
        assert_int_equal(c.constant > 0, i < 2 || i % 4 == 3 || (i % 4 == 0));
    }
    assert_int_equal(report_of(r).followed, 6);
    haul_scope_pop(scope);
}

/* ---- weights that the step only reads ---- */

typedef struct tuning {
    haul_device    *device;
    haul_module    *frozen, *head;
    haul_optimizer *sgd;
    haul_tensor    *x, *y;
} tuning;

/* A frozen layer below one that is trained. */
static haul_status tune(void *context)
{
    tuning             *t = context;
    haul_status         status = haul_set_device(t->device);
    haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
    haul_tensor        *y = haul_call(t->head, haul_relu(haul_call(t->frozen, t->x)));
    if (!status)
        status = haul_autocast_end(before);
    if (!status)
        status = haul_backward(haul_mean(haul_square(haul_cast(y, HAUL_F32))), .once = true);
    if (!status)
        status = haul_optimizer_step(t->sgd);
    return status ? status : haul_optimizer_zero_grad(t->sgd);
}

static haul_tensor *weight_of(haul_module *layer)
{
    return haul_module_parameter(layer, "weight");
}

static tuning make_tuning(haul_device *device)
{
    haul_set_device(device);
    haul_manual_seed(12);
    tuning t = {.device = device, .frozen = haul_nn_linear(3, 40), .head = haul_nn_linear(40, 2)};
    haul_set_requires_grad(weight_of(t.frozen), false);
    haul_set_requires_grad(haul_module_parameter(t.frozen, "bias"), false);
    t.sgd = haul_sgd(t.head, 0.01);
    return t;
}

static void count_casts(const haul_event *event, void *context)
{
    *(int *)context += event->operation && !strcmp(event->operation, "haul_cast");
}

/* One step of both; returns the casts that the recorded one submitted. */
static int tune_both(tuning *eager, tuning *recorded, haul_recording *r)
{
    int         casts = 0;
    haul_scope *scope = haul_scope_push();
    eager->x = recorded->x = haul_normal(HAUL_F32, HAUL_SHAPE(5, 3), 0, 1);
    if (tune(eager))
        fail_msg("as it is: %s", haul_error_message());
    const int64_t id = haul_events_subscribe(count_casts, .context = &casts, .kinds = HAUL_EVENT_COMMAND);
    if (haul_recording_run(r))
        fail_msg("recorded: %s", haul_error_message());
    haul_events_unsubscribe(id);
    assert_same_bits(weight_of(eager->head), weight_of(recorded->head), "the trained weight");
    haul_scope_pop(scope);
    return casts;
}

static void scale_weights(tuning *t, double by)
{
    haul_tensor *w = haul_detach(weight_of(t->frozen));
    assert_int_equal(haul_mul_into(w, w, haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, by)), HAUL_OK);
}

/* The same values in other memory, of which that of before is freed. */
static void move_weights(tuning *t)
{
    assert_int_equal(haul_module_cast(t->frozen, HAUL_F16), HAUL_OK);
    assert_int_equal(haul_module_cast(t->frozen, HAUL_F32), HAUL_OK);
}

static void test_are_made_of_frozen_weights_once(void **state)
{
    (void)state;
    haul_device *devices[8];
    const int    device_count = test_devices(devices, 8);
    for (int d = 0; d < device_count; d++) {
        haul_scope     *scope = haul_scope_push();
        tuning          eager = make_tuning(devices[d]), recorded = make_tuning(devices[d]);
        haul_recording *r = haul_recording_new(tune, &recorded);
        tune_both(&eager, &recorded, r);
        const int all = tune_both(&eager, &recorded, r), fewer = tune_both(&eager, &recorded, r);
        assert_true(fewer < all);
        assert_int_equal(tune_both(&eager, &recorded, r), fewer);
        scale_weights(&eager, 1.5);
        scale_weights(&recorded, 1.5);
        assert_int_equal(tune_both(&eager, &recorded, r), all);
        assert_int_equal(tune_both(&eager, &recorded, r), fewer);
        for (int i = 0; i < 3; i++) {
            move_weights(&eager);
            move_weights(&recorded);
            assert_int_equal(tune_both(&eager, &recorded, r), all);
            assert_int_equal(tune_both(&eager, &recorded, r), fewer);
        }
        assert_int_equal(report_of(r).followed, 11);
        haul_scope_pop(scope);
    }
}

/* Without gradients all weights are only read. */
static haul_status predict(void *context)
{
    tuning             *t = context;
    haul_scope         *scope = haul_scope_push();
    haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
    haul_set_grad_enabled(false);
    haul_tensor *y = haul_call(t->head, haul_relu(haul_call(t->frozen, t->x)));
    haul_status  status = haul_autocast_end(before);
    if (!status)
        status = haul_copy_into(t->y, haul_cast(y, HAUL_F32));
    haul_scope_pop(scope);
    return status;
}

static int predict_both(tuning *eager, tuning *recorded, haul_recording *r)
{
    int         casts = 0;
    haul_scope *scope = haul_scope_push();
    eager->x = recorded->x = haul_normal(HAUL_F32, HAUL_SHAPE(5, 3), 0, 1);
    if (predict(eager))
        fail_msg("as it is: %s", haul_error_message());
    const int64_t id = haul_events_subscribe(count_casts, .context = &casts, .kinds = HAUL_EVENT_COMMAND_SUBMITTED);
    if (haul_recording_run(r))
        fail_msg("recorded: %s", haul_error_message());
    haul_events_unsubscribe(id);
    assert_same_bits(eager->y, recorded->y, "the prediction");
    haul_scope_pop(scope);
    return casts;
}

static void test_are_made_of_weights_that_are_only_read(void **state)
{
    (void)state;
    enum { OF_VALUES = 2 }; /* the input and the prediction */
    haul_scope     *scope = haul_scope_push();
    tuning          eager = make_tuning(haul_cpu()), recorded = make_tuning(haul_cpu());
    haul_recording *r = haul_recording_new(predict, &recorded);
    eager.y = haul_zeros(HAUL_F32, HAUL_SHAPE(5, 2));
    recorded.y = haul_zeros(HAUL_F32, HAUL_SHAPE(5, 2));
    haul_set_requires_grad(weight_of(eager.frozen), true);
    haul_set_requires_grad(weight_of(recorded.frozen), true);
    for (int i = 0; i < 12; i++) {
        const int casts = predict_both(&eager, &recorded, r);
        assert_true(i < 2 ? casts >= OF_VALUES : i % 4 ? casts == OF_VALUES : casts > OF_VALUES);
        if (i % 4 == 3) {
            scale_weights(&eager, 0.5);
            scale_weights(&recorded, 0.5);
        }
    }
    assert_int_equal(report_of(r).followed, 11);
    haul_scope_pop(scope);
}

/* Weights that are trained change in each step, so nothing is kept for them. */
static void test_are_not_made_of_trained_weights(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    tuning      eager = make_tuning(haul_cpu()), recorded = make_tuning(haul_cpu());
    haul_set_requires_grad(weight_of(eager.frozen), true);
    haul_set_requires_grad(weight_of(recorded.frozen), true);
    haul_set_requires_grad(haul_module_parameter(eager.frozen, "bias"), true);
    haul_set_requires_grad(haul_module_parameter(recorded.frozen, "bias"), true);
    haul_recording *r = haul_recording_new(tune, &recorded);
    tune_both(&eager, &recorded, r);
    const int all = tune_both(&eager, &recorded, r);
    for (int i = 0; i < 3; i++)
        assert_int_equal(tune_both(&eager, &recorded, r), all);
    assert_int_equal(report_of(r).followed, 4);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_are_computed_once),
        cmocka_unit_test(test_changes),
        cmocka_unit_test(test_are_made_again),
        cmocka_unit_test(test_are_made_of_frozen_weights_once),
        cmocka_unit_test(test_are_made_of_weights_that_are_only_read),
        cmocka_unit_test(test_are_not_made_of_trained_weights),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
