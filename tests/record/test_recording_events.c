/* What subscribers to events get of followed steps: the commands of a step that runs as it is, in their order, with
 * operations, kernels and modules; modules' calls and labels while the function is called; and no memory.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/conformance/conformance.h"
#include "support/devices/program.h"

enum { ROWS = 5, MOST = 256, LINE = 160 };

typedef struct training {
    haul_device    *device;
    haul_module    *net;
    haul_optimizer *sgd;
    haul_tensor    *x, *y;
} training;

static haul_status step(void *context)
{
    training *t = context;
    haul_label_begin("forward");
    haul_tensor *loss = haul_cross_entropy(haul_call(t->net, t->x), t->y);
    haul_label_end();
    haul_status status = haul_backward(loss);
    if (!status)
        status = haul_optimizer_step(t->sgd);
    return status ? status : haul_optimizer_zero_grad(t->sgd);
}

static training make(haul_device *device)
{
    haul_set_device(device);
    haul_manual_seed(21);
    training t = {.device = device};
    t.net = HAUL_SEQUENTIAL(haul_nn_linear(8, 16), haul_nn_relu(), haul_nn_linear(16, 4));
    t.sgd = haul_sgd(t.net, 0.1);
    t.x = haul_normal(HAUL_F32, HAUL_SHAPE(ROWS, 8), 0, 1);
    t.y = haul_zeros(HAUL_I64, HAUL_SHAPE(ROWS));
    return t;
}

/* Events as lines. */
typedef struct seen {
    char lines[MOST][LINE];
    int  count;

} seen;

static void note(const haul_event *e, void *context)
{
    seen *s = context;
    assert_true(s->count < MOST);
    snprintf(s->lines[s->count++], LINE, "%s %s %s (%s) %s", haul_event_kind_name(e->kind), e->operation, e->kernel,
             e->origin, e->text);
}

static void run_watched(haul_recording *r, training *t, uint32_t kinds, seen *out)
{
    *out = (seen){.count = 0};
    const int64_t id = haul_events_subscribe(note, .kinds = kinds, .context = out);
    assert_true(id > 0);
    if (r ? haul_recording_run(r) : step(t))
        fail_msg("%s", haul_error_message());
    haul_events_unsubscribe(id);
}

static void assert_same_lines(const seen *a, const seen *b)
{
    for (int i = 0; i < a->count && i < b->count; i++)
        assert_string_equal(a->lines[i], b->lines[i]);
    assert_int_equal(a->count, b->count);
}

/* Runs the test on each device, with a recording that follows by now. */
static void on_devices(void (*test)(training *t, haul_recording *r))
{
    haul_device *devices[8];
    const int    count = test_devices(devices, 8);
    for (int d = 0; d < count; d++) {
        haul_scope     *scope = haul_scope_push();
        training        t = make(devices[d]);
        haul_recording *r = haul_recording_new(step, &t);
        for (int i = 0; i < 4; i++)
            assert_int_equal(haul_recording_run(r), HAUL_OK);
        assert_int_equal(report_of(r).followed, 3);
        test(&t, r);
        haul_scope_pop(scope);
    }
}

static void check_commands(training *t, haul_recording *r)
{
    static seen eager, followed;
    run_watched(NULL, t, HAUL_EVENT_COMMAND_SUBMITTED, &eager);
    run_watched(r, t, HAUL_EVENT_COMMAND_SUBMITTED, &followed);
    assert_true(followed.count > 10);
    assert_same_lines(&eager, &followed);
    assert_int_equal(report_of(r).followed, 4);
}

static void test_recording_events__commands_are_those_of_other_steps(void **state)
{
    (void)state;
    on_devices(check_commands);
}

static void check_calls(training *t, haul_recording *r)
{
    static seen eager, followed;
    run_watched(NULL, t, HAUL_EVENT_CALL | HAUL_EVENT_LABEL, &eager);
    run_watched(r, t, HAUL_EVENT_CALL | HAUL_EVENT_LABEL, &followed);
    assert_true(followed.count >= 10);
    assert_same_lines(&eager, &followed);
    assert_int_equal(report_of(r).followed, 4);
}

static void test_recording_events__calls_and_labels_come_with_the_function(void **state)
{
    (void)state;
    on_devices(check_calls);
}

static void check_memory(training *t, haul_recording *r)
{
    static seen followed;
    run_watched(r, t, HAUL_EVENT_MEMORY, &followed);
    assert_int_equal(followed.count, 0);
    assert_int_equal(report_of(r).followed, 4);
}

static void test_recording_events__a_followed_step_allocates_nothing(void **state)
{
    (void)state;
    on_devices(check_memory);
}

static void check_operations(training *t, haul_recording *r)
{
    static seen eager, watched;
    const int   followed = (int)report_of(r).followed;
    run_watched(NULL, t, HAUL_EVENT_OPERATION | HAUL_EVENT_WORK, &eager);
    run_watched(r, t, HAUL_EVENT_OPERATION | HAUL_EVENT_WORK, &watched);
    assert_same_lines(&eager, &watched);
    assert_int_equal(report_of(r).followed, followed);
    assert_string_equal(report_of(r).reason, "a subscriber watches operations");
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(report_of(r).followed, followed + 1);
}

static void test_recording_events__operations_come_from_steps_as_they_are(void **state)
{
    (void)state;
    on_devices(check_operations);
}

/* ---- subscribers that do something ---- */

typedef struct meddler {
    haul_recording *r;
    int64_t         id;
    int             count;
    haul_status     nested;
} meddler;

static void meddle(const haul_event *e, void *context)
{
    meddler *m = context;
    (void)e;
    m->count++;
    haul_tensor *x = haul_add_scalar(haul_ones(HAUL_F32, HAUL_SHAPE(3)), 1);

    assert_true(haul_item(haul_sum(x)) == 6);
    m->nested = haul_recording_run(m->r);
    haul_error_clear();
    assert_int_equal(haul_events_unsubscribe(m->id), HAUL_OK);
}

/* A subscriber to commands computes, reads, tries to run the recording within itself, and ends. */
static void check_meddling(training *t, haul_recording *r)
{
    (void)t;
    meddler m = {.r = r};
    m.id = haul_events_subscribe(meddle, .kinds = HAUL_EVENT_COMMAND_SUBMITTED, .context = &m);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(m.count, 1);
    assert_true(m.nested != HAUL_OK);
    assert_int_equal(report_of(r).followed, 4);
    assert_int_equal(haul_recording_run(r), HAUL_OK);
    assert_int_equal(report_of(r).followed, 5);
}

static void test_recording_events__a_subscriber_may_compute_and_leave(void **state)
{
    (void)state;
    on_devices(check_meddling);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recording_events__commands_are_those_of_other_steps),
        cmocka_unit_test(test_recording_events__calls_and_labels_come_with_the_function),
        cmocka_unit_test(test_recording_events__a_followed_step_allocates_nothing),
        cmocka_unit_test(test_recording_events__operations_come_from_steps_as_they_are),
        cmocka_unit_test(test_recording_events__a_subscriber_may_compute_and_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
