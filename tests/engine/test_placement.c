/* HAUL_PLACE_CURRENT: operations compute on the current device, wherever their operands are.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/placement/placing.h"
#include "support/conformance/conformance.h"

static haul_device *other;

static haul_tensor *ramp(haul_device *device)
{
    return haul_to(haul_arange(HAUL_F32, 0, 6, 1), device);
}

static void note(const char *line, void *context)
{
    strncat(context, line, 400);
    strncat(context, "\n", 2);
}

/* The scope in which operations compute on the other device. */
static haul_scope *begin(void)
{
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_set_device(other), HAUL_OK);
    assert_int_equal(haul_set_placement_policy(HAUL_PLACE_CURRENT), HAUL_OK);
    assert_int_equal(haul_placement_policy(), HAUL_PLACE_CURRENT);
    return scope;
}

static void expect_device(haul_tensor *t, haul_device *device)
{
    if (haul_tensor_check(t))
        fail_msg("%s", haul_error_message());
    assert_ptr_equal(haul_tensor_device(t), device);
}

static void test_operands_move(void **state)
{
    (void)state;
    char         log[1000] = "";
    haul_scope  *outer = haul_scope_push();
    haul_tensor *a = ramp(haul_cpu()), *b = ramp(other), *c = ramp(haul_cpu());
    haul_scope  *scope = begin();
    haul_placement_log_to(note, log);
    haul_tensor *one = haul_sqrt(a), *two = haul_add(a, b), *three = haul_add(a, c), *sum = haul_sum(c);
    haul_placement_log_to(NULL, NULL);
    expect_device(one, other);
    expect_device(two, other);
    expect_device(three, other);
    expect_device(sum, other);
    assert_true(haul_item(haul_sum(two)) == 30 && haul_item(sum) == 15);
    assert_non_null(strstr(log, "haul_sqrt: x moves from cpu to "));
    assert_non_null(strstr(log, "haul_add: a moves from cpu to "));
    assert_non_null(strstr(log, "haul_add: b moves from cpu to "));
    assert_null(strstr(log, "runs on"));
    haul_scope_pop(scope);
    expect_device(haul_sqrt(a), haul_cpu()); /* the policy ends with its scope */
    haul_scope_pop(outer);
}

/* Views do not compute, and a tensor that is written stays on its device. */
static void test_what_stays(void **state)
{
    (void)state;
    haul_scope  *outer = haul_scope_push();
    haul_tensor *a = ramp(haul_cpu()), *b = ramp(other), *out = haul_zeros_like(a);
    haul_scope  *scope = begin();
    expect_device(haul_reshape(a, HAUL_SHAPE(2, 3)), haul_cpu());
    expect_device(haul_slice(a, 0, 1, 4, 1), haul_cpu());
    expect_device(haul_detach(a), haul_cpu());
    expect_device(haul_to(b, haul_cpu()), haul_cpu());
    assert_int_equal(haul_fill_into(a, 2), HAUL_OK);
    assert_int_equal(haul_copy_into(a, b), HAUL_OK);
    assert_int_equal(haul_add_into(out, a, b), HAUL_OK);
    assert_int_equal(haul_add_into(out, out, b), HAUL_OK);
    expect_device(a, haul_cpu());
    expect_device(out, haul_cpu());
    haul_scope_pop(scope);
    assert_true(haul_item(haul_sum(out)) == 45);
    haul_scope_pop(outer);
}

/* The forward pass of a module on the CPU computes on the other device. Gradients arrive on the CPU, and the
 * optimizer's step is made there. */
static void test_training(void **state)
{
    (void)state;
    haul_scope       *outer = haul_scope_push();
    haul_module      *net = haul_model_new("dense");
    haul_optimizer   *sgd = haul_sgd(net, 0.1, .momentum = 0.9);
    haul_grad_scaler *scaler = haul_grad_scaler_new(sgd, .init_scale = 4);
    haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(4, 10), 0, 1), *weight = haul_module_parameter(net, "fc1.weight");
    const double before = haul_item(haul_sum(haul_detach(weight)));
    haul_scope  *scope = begin();
    haul_tensor *loss = haul_mean(haul_square(haul_call(net, x)));
    expect_device(loss, other);
    assert_int_equal(haul_backward(haul_grad_scaler_scale(scaler, loss)), HAUL_OK);
    expect_device(haul_tensor_grad(weight), haul_cpu());
    assert_int_equal(haul_grad_scaler_unscale(scaler, sgd), HAUL_OK);
    expect_device(haul_clip_grad_norm(net, 1), haul_cpu());
    assert_int_equal(haul_grad_scaler_step(scaler, sgd), HAUL_OK);
    assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
    expect_device(weight, haul_cpu());
    haul_scope_pop(scope);
    assert_int_equal(haul_optimizer_steps(sgd), 1);
    assert_true(haul_item(haul_sum(haul_detach(weight))) != before);
    haul_scope_pop(outer);
}

static void test_module_device(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_module *net = haul_model_new("dense"), *plain = haul_nn_relu();
    assert_ptr_equal(haul_module_device(net), haul_cpu());
    assert_int_equal(haul_module_to(haul_module_child(net, "fc2"), other), HAUL_OK);
    assert_null(haul_module_device(net));
    assert_ptr_equal(haul_module_device(haul_module_child(net, "fc2")), other);
    assert_null(haul_module_device(plain));
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_null(haul_module_device(NULL));
    assert_int_not_equal(haul_error_status(), HAUL_OK);
    haul_error_clear();
    haul_scope_pop(scope);
}

/* The copy that a tensor keeps as its gradient is made where the tensor is. The plan in force does
 * not place it. */
static void test_kept_gradients_stay(void **state)
{
    (void)state;
    haul_scope    *scope = haul_scope_push();
    haul_tensor   *w = haul_set_requires_grad(ramp(haul_cpu()), true);
    haul__placing *plan = haul__placing_new(1, "test");
    strcpy(plan->items->name, "haul_to_order");
    plan->items->device = other;
    assert_int_equal(haul__placing_begin(plan, "test"), HAUL_OK);
    assert_int_equal(haul_set_placement_policy(HAUL_PLACE_AUTO), HAUL_OK);
    assert_int_equal(haul_backward(haul_sum(w)), HAUL_OK);
    expect_device(haul_tensor_grad(w), haul_cpu());
    assert_int_equal(haul_placement_policy(), HAUL_PLACE_AUTO);
    haul__object_release(plan);
    haul_scope_pop(scope);
}

static void test_bad_policy(void **state)
{
    (void)state;
    assert_int_equal(haul_set_placement_policy((haul_policy)7), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "HAUL_PLACE_CURRENT or HAUL_PLACE_AUTO"));
    haul_error_clear();
}

int main(void)
{
    other = test_second_device();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bad_policy),    cmocka_unit_test(test_operands_move),
        cmocka_unit_test(test_what_stays),    cmocka_unit_test(test_training),
        cmocka_unit_test(test_module_device), cmocka_unit_test(test_kept_gradients_stay),
    };
    if (!other)
        return 77; /* it needs a second device */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
