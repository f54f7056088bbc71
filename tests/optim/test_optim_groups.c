/* Groups of parameters: which parameters they have, their settings, lists without a module, and what a step over
 * several groups leaves when it fails.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/conformance/conformance.h"

static haul_scope *scope;

static int setup(void **state)
{
    (void)state;
    haul_error_clear();
    scope = haul_scope_push();
    haul_manual_seed(1);
    return !scope;
}

static int teardown(void **state)
{
    (void)state;
    haul_scope_pop(scope);
    return 0;
}

static haul_module *trunk_and_head(void)
{
    haul_module *net = haul_nn_sequential(
        (haul_module *const[]){haul_nn_linear(3, 4, .relu = true), haul_nn_batch_norm(4), haul_nn_linear(4, 2)}, 3);
    assert_non_null(net);
    return net;
}

static void set_gradients(haul_module *net, int step)
{
    haul_named_tensor all[16];
    int               count = haul_module_tensors(net, all, 16);
    assert_in_range(count, 1, 16);
    for (int i = 0; i < count; i++)
        if (!all[i].is_buffer)
            assert_int_equal(
                haul_set_grad(all[i].tensor, haul_full_like(haul_detach(all[i].tensor), 0.25 * (i + step + 1))),
                HAUL_OK);
}

static void assert_says(const char *what)
{
    if (!strstr(haul_error_message(), what))
        fail_msg("\"%s\" does not say \"%s\"", haul_error_message(), what);
    haul_error_clear();
}

static void assert_group(haul_optimizer *o, int group, const char *names)
{
    haul_named_tensor list[16];
    char              have[256] = "";
    int               count = haul_optimizer_parameters(o, group, list, 16);
    assert_in_range(count, 0, 16);
    for (int i = 0; i < count; i++) {
        strcat(have, i ? " " : "");
        strcat(have, list[i].name);
    }
    assert_string_equal(have, names);
}

/* ---- selecting ---- */

static void test_optim_groups__take_parameters_out_of_others(void **state)
{
    (void)state;
    haul_module    *net = trunk_and_head();
    haul_optimizer *o = haul_sgd(net, 0.1, .momentum = 0.5);
    assert_int_equal(haul_optimizer_group_count(o), 1);
    assert_int_equal(haul_optimizer_add_group(o, .module = haul_module_child(net, "2"), .lr = 0.5), 1);
    assert_group(o, 0, "0.weight 0.bias 1.weight 1.bias");
    assert_group(o, 1, "2.weight 2.bias");
    assert_int_equal(haul_optimizer_add_group(o, .names = "*.bias, 1.*", .weight_decay = 0.25, .momentum = HAUL_ZERO),
                     2);
    assert_group(o, 0, "0.weight");
    assert_group(o, 1, "2.weight");
    assert_group(o, 2, "0.bias 1.weight 1.bias 2.bias");
    assert_group(o, HAUL_ALL_GROUPS, "0.weight 2.weight 0.bias 1.weight 1.bias 2.bias");
    assert_int_equal(haul_optimizer_group_count(o), 3);
    assert_true(haul_optimizer_get(o, 1, "lr") == 0.5 && haul_optimizer_get(o, 2, "lr") == 0.1);
    assert_true(haul_optimizer_get(o, 1, "momentum") == 0.5 && haul_optimizer_get(o, 2, "momentum") == 0);
    assert_true(haul_optimizer_get(o, 2, "weight_decay") == 0.25);
}

static void test_optim_groups__wrong_selections_are_refused(void **state)
{
    (void)state;
    haul_module    *net = trunk_and_head();
    haul_optimizer *o = haul_sgd(net, 0.1);
    assert_int_equal(haul_optimizer_add_group(o, .lr = 1), -1);
    assert_says("one of .module, .parameters and .names, and none is given");
    assert_int_equal(haul_optimizer_add_group(o, .module = net, .names = "*"), -1);
    assert_says("more are given");
    assert_int_equal(haul_optimizer_add_group(o, .names = "*.gain"), -1);
    assert_says("no parameter's name fits '*.gain'; the first parameter is called '0.weight'");
    assert_int_equal(haul_optimizer_add_group(o, .names = "*", .eps = 1), -1);
    assert_says("this optimizer (sgd) has no setting 'eps'; it has lr, momentum, dampening, weight_decay, nesterov");
    assert_int_equal(haul_optimizer_add_group(o, .names = "*", .lr = -1), -1);
    assert_says("lr is -1");
    assert_int_equal(haul_optimizer_add_group(o, .module = haul_nn_relu()), -1);
    assert_says("found no parameters to train");
    assert_int_equal(haul_optimizer_add_group(o, .module = trunk_and_head()), -1);
    assert_says("two parameters are called '0.bias'");
    assert_int_equal(haul_optimizer_group_count(o), 1);
    assert_group(o, 0, "0.weight 0.bias 1.weight 1.bias 2.weight 2.bias");
}

static void test_optim_groups__settings_by_name(void **state)
{
    (void)state;
    haul_optimizer *o = haul_adamw(trunk_and_head(), 0.1, .betas = {0.8, 0.9});
    assert_int_equal(haul_optimizer_add_group(o, .names = "*bias", .betas = {HAUL_ZERO, 0.5}, .eps = HAUL_ZERO), 1);
    assert_true(haul_optimizer_get(o, 0, "weight_decay") == 0.01);
    assert_true(haul_optimizer_get(o, 0, "beta1") == 0.8 && haul_optimizer_get(o, 1, "beta1") == 0);
    assert_true(haul_optimizer_get(o, 0, "eps") == 1e-8 && haul_optimizer_get(o, 1, "eps") == 0);
    assert_int_equal(haul_optimizer_set(o, 1, "lr", 0.5), HAUL_OK);
    assert_true(haul_optimizer_get(o, 0, "lr") == 0.1 && haul_optimizer_get(o, 1, "lr") == 0.5);
    assert_int_equal(haul_optimizer_set(o, HAUL_ALL_GROUPS, "weight_decay", 0.125), HAUL_OK);
    assert_true(haul_optimizer_get(o, 0, "weight_decay") == 0.125 && haul_optimizer_get(o, 1, "weight_decay") == 0.125);
    assert_true(isnan(haul_optimizer_get(o, 2, "lr")));
    assert_says("group is 2, but the optimizer has 2 groups; a number from 0 to 1 is expected");
    assert_true(isnan(haul_optimizer_get(o, HAUL_ALL_GROUPS, "lr")));
    assert_says("group is -1");
    assert_true(isnan(haul_optimizer_get(o, 0, "momentum")));
    assert_says("has no setting 'momentum'; it has lr, beta1, beta2, eps, weight_decay");
    assert_int_equal(haul_optimizer_set(o, 0, "beta1", 1), HAUL_INVALID_ARGUMENT);
    assert_says("beta1 is 1; it must be at least 0 and below 1");
    haul_optimizer *sgd = haul_sgd(trunk_and_head(), 0.1, .momentum = 0.9, .nesterov = true);
    assert_int_equal(haul_optimizer_set(sgd, 0, "momentum", 0), HAUL_INVALID_ARGUMENT);
    assert_says("nesterov needs a momentum");
    assert_int_equal(haul_optimizer_set(sgd, 0, "nesterov", 0.5), HAUL_INVALID_ARGUMENT);
    assert_says("0 or 1 is expected");
    assert_true(haul_optimizer_get(sgd, 0, "nesterov") == 1);
}

/* ---- lists ---- */

static void test_optim_groups__lists_need_no_module(void **state)
{
    (void)state;
    haul_tensor      *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3)), true);
    haul_tensor      *b = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2)), true);
    haul_named_tensor saved[4], list[] = {{"w", w, false}, {NULL, b, false}, {"w", w, false}, {"mean", w, true}};
    haul_optimizer   *o = haul_sgd(NULL, 0.5, .momentum = 0.5, .parameters = list, .count = 4);
    assert_non_null(o);
    assert_null(haul_optimizer_module(o));
    assert_group(o, 0, "w 1");
    assert_int_equal(haul_backward(haul_sum(haul_mul_scalar(w, 2))), HAUL_OK);
    assert_int_equal(haul_optimizer_step(o), HAUL_OK);
    float got[3];
    assert_int_equal(haul_read(haul_detach(w), got, sizeof got), HAUL_OK);
    assert_true(got[0] == 0 && got[2] == 0);
    assert_int_equal(haul_optimizer_state(o, saved, 4), 1);
    assert_string_equal(saved[0].name, "w.momentum");
    haul_tensor      *more = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2)), true);
    haul_named_tensor second[] = {{"more", more, false}, {"w", w, false}};
    assert_int_equal(haul_optimizer_add_group(o, .parameters = second, .count = 2, .lr = 0.25), 1);
    assert_group(o, 0, "1");
    assert_group(o, 1, "w more");

    assert_null(haul_sgd(NULL, 0.5));
    assert_says("module is NULL");
    assert_null(haul_sgd(NULL, 0.5, .parameters = list, .count = 0));
    assert_says("the list has no parameters to train");
    assert_null(haul_sgd(NULL, 0.5, .count = 3));
    haul_error_clear();
    haul_named_tensor twice[] = {{"w", w, false}, {"w", b, false}};
    assert_null(haul_sgd(NULL, 0.5, .parameters = twice, .count = 2));
    assert_says("two parameters are called 'w'");
    haul_named_tensor computed[] = {{"y", haul_mul_scalar(w, 2), false}};
    assert_null(haul_sgd(NULL, 0.5, .parameters = computed, .count = 1));
    assert_says("'y' was computed from tensors that require a gradient");
    haul_named_tensor whole[] = {{"n", haul_ones(HAUL_I32, HAUL_SHAPE(2)), false}};
    assert_null(haul_sgd(NULL, 0.5, .parameters = whole, .count = 1));
    assert_says("the parameter 'n' is i32");
    haul_named_tensor none[] = {{"n", HAUL_NONE, false}};
    assert_null(haul_sgd(NULL, 0.5, .parameters = none, .count = 1));
    haul_error_clear();
}

/* ---- a step ---- */

/* Groups with different settings are as optimizers of their own. */
static void check_two_groups(haul_device *device)
{
    assert_int_equal(haul_set_device(device), HAUL_OK);
    haul_manual_seed(3);
    haul_module *a = trunk_and_head();
    haul_manual_seed(3);
    haul_module      *b = trunk_and_head();
    haul_named_tensor heads[8], trunks[8], all_a[16], all_b[16];
    int               head_count = haul_module_tensors(haul_module_child(b, "2"), heads, 8);
    haul_optimizer   *grouped = haul_rmsprop(a, 0.01, .momentum = 0.5);
    assert_int_equal(haul_optimizer_add_group(grouped, .module = haul_module_child(a, "2"), .lr = 0.1, .alpha = 0.5,
                                              .momentum = HAUL_ZERO),
                     1);
    haul_optimizer *head = haul_rmsprop(b, 0.1, .alpha = 0.5, .parameters = heads, .count = head_count);
    int             trunk_count = haul_module_tensors(haul_module_child(b, "0"), trunks, 8);
    trunk_count += haul_module_tensors(haul_module_child(b, "1"), trunks + trunk_count, 8 - trunk_count);
    haul_optimizer *trunk = haul_rmsprop(b, 0.01, .momentum = 0.5, .parameters = trunks, .count = trunk_count);
    assert_group(head, 0, "2.weight 2.bias");
    for (int step = 0; step < 3; step++) {
        set_gradients(a, step);
        set_gradients(b, step);
        assert_int_equal(haul_optimizer_step(grouped), HAUL_OK);
        assert_int_equal(haul_optimizer_step(head), HAUL_OK);
        assert_int_equal(haul_optimizer_step(trunk), HAUL_OK);
    }
    int count = haul_module_tensors(a, all_a, 16);
    assert_int_equal(haul_module_tensors(b, all_b, 16), count);
    for (int i = 0; i < count; i++)
        assert_true(
            haul_item(haul_max(haul_abs(haul_sub(haul_detach(all_a[i].tensor), haul_detach(all_b[i].tensor))))) == 0);
}

static void test_optim_groups__have_their_own_settings(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    assert_true(count >= 1);
    for (int i = 0; i < count; i++)
        check_two_groups(devices[i]);
}

static void test_optim_groups__state_moves_with_the_parameter(void **state)
{
    (void)state;
    haul_module      *net = trunk_and_head();
    haul_optimizer   *o = haul_sgd(net, 0.1, .momentum = 0.9);
    haul_named_tensor saved[8];
    set_gradients(net, 0);
    assert_int_equal(haul_optimizer_step(o), HAUL_OK);
    assert_int_equal(haul_optimizer_state(o, saved, 8), 6);
    assert_int_equal(haul_optimizer_add_group(o, .names = "0.*", .lr = 1), 1);
    assert_int_equal(haul_optimizer_state(o, saved, 8), 6);
    assert_string_equal(saved[5].name, "0.bias.momentum");
    assert_int_equal(haul_optimizer_set(o, 1, "momentum", 0), HAUL_OK); /* its state goes */
    assert_int_equal(haul_optimizer_state(o, saved, 8), 4);
    assert_int_equal(haul_optimizer_step(o), HAUL_OK);
    assert_int_equal(haul_optimizer_load_state(o, saved, 4, 2), HAUL_OK);
}

/* Every allocation of adding a group fails in turn. */
static void test_optim_groups__adding_one_that_fails_changes_nothing(void **state)
{
    (void)state;
    haul_module      *net = trunk_and_head();
    haul_optimizer   *o = haul_adam(net, 0.1);
    haul_named_tensor list[] = {{"more", haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2)), true), false},
                                {NULL, haul_module_parameter(net, "2.weight"), false}};
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        int group = haul_optimizer_add_group(o, .parameters = list, .count = 2);
        haul__fault_plan(0, 0);
        if (group == 1)
            break;
        assert_int_equal(group, -1);
        assert_int_equal(haul_optimizer_group_count(o), 1);
        assert_group(o, 0, "0.weight 0.bias 1.weight 1.bias 2.weight 2.bias");
        haul_error_clear();
        assert_true(nth < 100);
    }
    assert_group(o, 1, "2.weight more");
}

/* A launch that fails in the middle of a step: versions of written tensors count, others do not. */
static void test_optim_groups__versions_count_what_a_failing_step_wrote(void **state)
{
    enum { PARAMETERS = 12, FAILING = 10 };
    haul_tensor      *p[PARAMETERS];
    haul_named_tensor list[PARAMETERS];
    uint64_t          before[PARAMETERS];
    (void)state;
    for (int i = 0; i < PARAMETERS; i++) {
        p[i] = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2)), true);
        list[i] = (haul_named_tensor){NULL, p[i], false};
        assert_int_equal(haul_set_grad(p[i], haul_ones(HAUL_F32, HAUL_SHAPE(2))), HAUL_OK);
        before[i] = haul_tensor_version(p[i]);
    }
    haul_optimizer *o = haul_sgd(NULL, 0.5, .parameters = list, .count = PARAMETERS);
    haul__fault_plan(HAUL__FAULT_LAUNCH, FAILING);
    haul_status status = haul_optimizer_step(o);
    haul__fault_plan(0, 0);
    assert_int_not_equal(status, HAUL_OK);
    haul_error_clear();
    for (int i = 0; i < PARAMETERS; i++) {
        bool written = haul_item(haul_select(haul_detach(p[i]), 0, 0)) != 1;
        assert_int_equal(written, i < FAILING - 1);
        assert_int_equal(haul_tensor_version(p[i]) - before[i], written);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_optim_groups__##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(take_parameters_out_of_others),
        TEST(wrong_selections_are_refused),
        TEST(settings_by_name),
        TEST(lists_need_no_module),
        TEST(have_their_own_settings),
        TEST(state_moves_with_the_parameter),
        TEST(adding_one_that_fails_changes_nothing),
        TEST(versions_count_what_a_failing_step_wrote),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
