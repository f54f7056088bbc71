/* Anomaly detection names the operation that makes the first NaN, on every device. torch.autograd.detect_anomaly names
 * the same operations and operands for the graphs of test_anomaly__names_what_pytorch_names (PyTorch 2: "Function
 * 'SqrtBackward0' returned nan values in its 0th output.").
 *
 * ctest: cuda; sim */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/conformance/conformance.h"

/* Calls `play` on every device, each in a scope of its own. */
static void on_each_device(void (*play)(haul_device *device))
{
    haul_device *devices[8];
    haul_scope  *all = haul_scope_push();
    int          n = test_devices(devices, 8);
    for (int d = 0; d < n; d++) {
        haul_scope *scope = haul_scope_push();
        haul_set_device(devices[d]);
        haul_set_anomaly_detection(HAUL_ANOMALY_BACKWARD);
        play(devices[d]);
        haul_scope_pop(scope);
        assert_int_equal(haul_anomaly_detection(), HAUL_ANOMALY_OFF);
    }
    haul_scope_pop(all);
}

static haul_tensor *leaf(double a, double b)
{
    return haul_set_requires_grad(haul_from_host(HAUL_F64, HAUL_SHAPE(2), (double[]){a, b}), true);
}

static haul_tensor *where_positive(haul_tensor *x, haul_tensor *y)
{
    return haul_sum(haul_where(haul_gt_scalar(x, 0), y, haul_zeros_like(haul_detach(y))));
}

/* Checks the failure of a call; `pieces` ends with NULL. */
static void assert_named(haul_status status, haul_status want, const char *operation, const char *const *pieces)
{
    if (status != want || strcmp(haul_error_operation(), operation) != 0)
        fail_msg("%d, %s: %s", (int)status, haul_error_operation(), haul_error_message());
    for (; *pieces; pieces++)
        if (!strstr(haul_error_message(), *pieces))
            fail_msg("no \"%s\" in: %s", *pieces, haul_error_message());
    haul_error_clear();
}
#define NAMED(status, want, operation, ...) assert_named(status, want, operation, (const char *[]){__VA_ARGS__, NULL})

/* ---- backward ---- */

static void play_names(haul_device *device)
{
    (void)device;
    haul_tensor *x = leaf(1, 0), *y = leaf(1, 0);
    NAMED(haul_backward(haul_sum(haul_mul_scalar(haul_sqrt(x), 0))), HAUL_GRAPH, "haul_sqrt", "first NaN", "operand 0",
          "f64[2]");
    assert_true(haul_tensor_grad(x) == HAUL_NONE);
    NAMED(haul_backward(where_positive(x, haul_log(x))), HAUL_GRAPH, "haul_log", "first NaN", "operand 0");
    NAMED(haul_backward(where_positive(y, haul_div(x, y))), HAUL_GRAPH, "haul_div", "first NaN", "operand 0");
    assert_int_equal(haul_backward(haul_sum(haul_mul_scalar(haul_exp(x), 0))), HAUL_OK);
    haul_tensor *inputs[] = {x}, *results[1];
    NAMED(haul_grad(where_positive(x, haul_log(x)), inputs, 1, results), HAUL_GRAPH, "haul_log", "first NaN");
}

static void test_anomaly__names_what_pytorch_names(void **state)
{
    (void)state;
    on_each_device(play_names);
}

/* Infinities of both signs meet where gradients of two uses are added. */
static void play_sums(haul_device *device)
{
    (void)device;
    haul_tensor *x = leaf(1, 0), *y = haul_mul_scalar(x, 1);
    haul_tensor *z = haul_sub(haul_sqrt(y), haul_mul_scalar(haul_sqrt(y), 2));
    NAMED(haul_backward(haul_sum(z)), HAUL_GRAPH, "haul_mul_scalar", "a sum of gradients");
    haul_tensor *seed = haul_from_host(HAUL_F64, HAUL_SHAPE(2), (double[]){1, NAN});
    NAMED(haul_backward(haul_exp(x), .seed = seed), HAUL_GRAPH, "haul_backward", "from which the pass begins");
}

static void test_anomaly__sums_and_seeds(void **state)
{
    (void)state;
    on_each_device(play_sums);
}

/* ---- where it ran ---- */

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    (void)m;
    return haul_mul_scalar(haul_sqrt(args->x[0]), 0);
}

static void play_places(haul_device *device)
{
    (void)device;
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_identity(), haul_module_new("root", forward));
    haul_tensor *x = leaf(1, 0);
    haul_label_begin("epoch 3");
    haul_tensor *y = haul_sum(haul_call(net, x));
    haul_label_end();
    NAMED(haul_backward(y), HAUL_GRAPH, "haul_sqrt", "in '1'", "label 'epoch 3'", "x f64[2]");
}

static void test_anomaly__names_the_module_and_the_label(void **state)
{
    (void)state;
    on_each_device(play_places);
}

/* ---- forward ---- */

static haul_status status_of(const haul_tensor *t)
{
    return haul_tensor_is_valid(t) ? HAUL_OK : haul_error_status();
}

static void play_forward(haul_device *device)
{
    (void)device;
    haul_tensor *x = leaf(1, -1), *y = haul_log(x);
    assert_true(haul_tensor_is_valid(y));
    haul_set_anomaly_detection(HAUL_ANOMALY_ALL);
    assert_int_equal(haul_anomaly_detection(), HAUL_ANOMALY_ALL);
    NAMED(status_of(haul_log(x)), HAUL_STATE, "haul_log", "the first NaN", "f64[2]");
    NAMED(status_of(haul_add(x, y)), HAUL_STATE, "haul_add", "as operand 1");
    NAMED(haul_log_into(haul_detach(x), haul_detach(x)), HAUL_STATE, "haul_log", "the first NaN");
    assert_true(haul_tensor_is_valid(haul_isnan(y)));
    /* what an operation computes on its way is not searched */
    haul_tensor *rows = haul_from_host(HAUL_F64, HAUL_SHAPE(1, 2), (double[]){1, 2});
    assert_true(haul_tensor_is_valid(haul_softmax(rows, -1)));
}

static void test_anomaly__forward(void **state)
{
    (void)state;
    on_each_device(play_forward);
}

static void play_steps(haul_device *device)
{
    (void)device;
    haul_tensor      *p = leaf(1, 2);
    haul_named_tensor list[] = {{"p", p, false}};
    haul_optimizer   *sgd = haul_sgd(NULL, 0.1, .parameters = list, .count = 1);
    haul_tensor      *g = haul_from_host(HAUL_F64, HAUL_SHAPE(2), (double[]){1, NAN});
    assert_int_equal(haul_set_grad(p, g), HAUL_OK);
    haul_set_anomaly_detection(HAUL_ANOMALY_ALL);
    NAMED(haul_optimizer_step(sgd), HAUL_STATE, "haul_sgd", "wrote a NaN to parameter");
}

static void test_anomaly__steps_of_optimizers(void **state)
{
    (void)state;
    on_each_device(play_steps);
}

/* ---- what it costs ---- */

static void play_waits(haul_device *device)
{
    haul_tensor  *x = leaf(1, 2), *y = haul_sum(haul_exp(x));
    const int64_t before = haul_sync_count();
    assert_int_equal(haul_backward(y), HAUL_OK); /* the seed, the gradients of haul_sum and of haul_exp */
    const int64_t waits = haul_sync_count() - before;
    assert_true(haul_device_get("cpu") == device ? waits == 0 : waits <= 3);
    haul_device *meta = haul_device_get("meta");
    haul_tensor *unknown = haul_set_requires_grad(haul_to(haul_detach(x), meta), true);
    assert_int_equal(haul_backward(haul_sum(haul_exp(unknown))), HAUL_OK);
}

static void test_anomaly__waits(void **state)
{
    (void)state;
    on_each_device(play_waits);
}

/* ---- recordings ---- */

static haul_status step(void *context)
{
    haul_tensor *x = context;
    haul_set_grad(x, HAUL_NONE);
    return haul_backward(haul_sum(haul_mul_scalar(haul_sqrt(x), 0)));
}

static haul_status step_that_switches(void *context)
{
    return haul_set_anomaly_detection(HAUL_ANOMALY_BACKWARD) ? haul_error_status() : step(context);
}

static void test_anomaly__recorded_steps_run_as_they_are(void **state)
{
    (void)state;
    haul_scope           *scope = haul_scope_push();
    haul_tensor          *x = leaf(1, 0), *fine = leaf(1, 4);
    haul_recording       *r = haul_recording_new(step, x), *other = haul_recording_new(step_that_switches, fine);
    haul_recording_report report;
    for (int i = 0; i < 4; i++)
        assert_int_equal(haul_recording_run(r), HAUL_OK);
    haul_set_anomaly_detection(HAUL_ANOMALY_BACKWARD);
    NAMED(haul_recording_run(r), HAUL_GRAPH, "haul_sqrt", "first NaN");
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_string_equal(report.reason, "anomaly detection reads values");
    haul_set_anomaly_detection(HAUL_ANOMALY_OFF);
    for (int i = 0; i < 4; i++)
        assert_int_equal(haul_recording_run(other), HAUL_OK);
    assert_int_equal(haul_recording_report_get(other, &report), HAUL_OK);
    assert_non_null(strstr(report.reason, "haul_set_anomaly_detection"));
    assert_int_equal(report.followed, 0);
    haul_scope_pop(scope);
}

static void test_anomaly__refuses_other_values(void **state)
{
    (void)state;
    assert_int_equal(haul_set_anomaly_detection((haul_anomaly)3), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "HAUL_ANOMALY_BACKWARD"));
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_anomaly__names_what_pytorch_names),
        cmocka_unit_test(test_anomaly__sums_and_seeds),
        cmocka_unit_test(test_anomaly__names_the_module_and_the_label),
        cmocka_unit_test(test_anomaly__forward),
        cmocka_unit_test(test_anomaly__steps_of_optimizers),
        cmocka_unit_test(test_anomaly__waits),
        cmocka_unit_test(test_anomaly__recorded_steps_run_as_they_are),
        cmocka_unit_test(test_anomaly__refuses_other_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
