/* Options: the functions behind the macros refuse a pointer that is NULL, and what NULL members mean. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>

#include "support/failure.h"

static int open_scope(void **state)
{
    *state = haul_scope_push();
    haul_error_clear();
    return *state == NULL;
}

static int close_scope(void **state)
{
    haul_error_clear();
    return (int)haul_scope_pop(*state);
}

/* The call failed because its argument `argument` was NULL, and said so; the next one starts afresh. */
static void check_refused(bool refused, const char *argument)
{
    assert_true(refused);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_argument(), argument);
    haul_error_clear();
}

#define assert_refused(result, argument) check_refused(has_failed(result), argument)

static void assert_null_options(haul_status status)
{
    assert_int_equal(status, HAUL_INVALID_ARGUMENT);
    check_refused(true, "options");
}

static void test_options__null_is_refused(void **state)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 4, 4));

    (void)state;
    assert_refused(haul_to_with(x, NULL), "options");
    assert_refused(haul_sum_with(NULL), "options");
    assert_refused(haul_mean_with(NULL), "options");
    assert_refused(haul_max_with(NULL), "options");
    assert_refused(haul_min_with(NULL), "options");
    assert_refused(haul_conv2d_with(x, x, NULL), "options");
    assert_refused(haul_max_pool2d_with(x, NULL), "options");
    assert_refused(haul_avg_pool2d_with(x, NULL), "options");
    assert_null_options(haul_max_pool2d_into_with(x, x, NULL));
    assert_null_options(haul_avg_pool2d_into_with(x, x, NULL));
    assert_null_options(haul_batch_norm_into_with(x, x, NULL));
    assert_refused(haul_batch_norm_with(x, NULL), "options");
    assert_refused(haul_nn_linear_with(3, NULL), "options");
    assert_refused(haul_nn_conv2d_with(3, 3, NULL), "options");
    assert_refused(haul_nn_batch_norm_with(NULL), "options");
    assert_refused(haul_nn_max_pool2d_with(NULL), "options");
    assert_refused(haul_nn_avg_pool2d_with(NULL), "options");
    assert_refused(haul_model_new_with(NULL), "name");
    assert_refused(haul_sgd_with(NULL), "options");
    assert_refused(haul_adam_with(NULL), "options");
    assert_refused(haul_cifar10_with(NULL), "directory");
    assert_refused(haul_image_folder_with(NULL), "directory");
    assert_refused(haul_shapes_with(NULL), "options");
    assert_refused(haul_blobs_with(NULL), "options");
    assert_refused(haul_loader_new_with(NULL), "options");
}

static void test_options__positional_operands_are_needed(void **state)
{
    (void)state;
    assert_refused(haul_sgd(NULL, .lr = 0.1), "module");
    assert_refused(haul_adam(NULL), "module");
    assert_refused(haul_loader_new(NULL, .batch = 2), "dataset");
    assert_refused(haul_sum(NULL), "x");
}

static void test_options__none_need_be_given(void **state)
{
    haul_module *net = haul_nn_linear(2, 2);

    (void)state;
    assert_true(haul_optimizer_lr(haul_sgd(net)) == 0.001);
    assert_true(haul_optimizer_lr(haul_adam(net)) == 0.001);
    assert_int_equal(haul_loader_batches(haul_loader_new(haul_blobs(5))), 5);
}

/* A seed that is NULL because what made it failed must not become the default. */
static void test_options__failed_seed_is_no_default(void **state)
{
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(1)), true);
    haul_tensor *y = haul_square(x), *wrong = haul_ones(HAUL_F32, HAUL_SHAPE(2));
    haul_tensor *g = NULL;

    (void)state;
    assert_int_equal(haul_grad(y, &x, 1, &g, .seed = haul_matmul(wrong, y)), HAUL_SHAPE);
    assert_failed(g);
    haul_error_clear();
    assert_int_equal(haul_grad(y, &x, 1, &g), HAUL_OK);
    assert_true(haul_item(g) == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_options__null_is_refused, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__positional_operands_are_needed, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__none_need_be_given, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__failed_seed_is_no_default, open_scope, close_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
