/* Options: the functions behind the macros refuse a pointer that is NULL, what NULL members mean, and what 0 means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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
    assert_refused(haul_conv2d_with(x, NULL), "options");
    assert_refused(haul_max_pool2d_with(x, NULL), "options");
    assert_refused(haul_avg_pool2d_with(x, NULL), "options");
    assert_null_options(haul_batch_norm_into_with(x, NULL));
    assert_refused(haul_batch_norm_with(NULL), "options");
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
    assert_refused(haul_mask_folder_with(NULL), "directory");
    assert_refused(haul_text_file_with(NULL), "path");
    assert_refused(haul_read_image_with(NULL), "path");
    assert_refused(haul_shapes_with(NULL), "options");
    assert_refused(haul_blobs_with(NULL), "options");
    assert_refused(haul_scenes_with(NULL), "options");
    assert_refused(haul_sentences_with(NULL), "options");
    assert_refused(haul_loader_new_with(NULL), "options");
}

static void test_options__positional_operands_are_needed(void **state)
{
    (void)state;
    assert_refused(haul_sgd(NULL, 0.1), "module");
    assert_refused(haul_adam(NULL, 0.001), "module");
    assert_refused(haul_loader_new(NULL, .batch = 2), "dataset");
    assert_refused(haul_sum(NULL), "x");
}

static void test_options__none_need_be_given(void **state)
{
    haul_module *net = haul_nn_linear(2, 2);
    (void)state;
    assert_true(haul_optimizer_get(haul_sgd(net, 0.25), 0, "lr") == 0.25);
    assert_true(haul_optimizer_get(haul_adam(net, 0), 0, "lr") == 0);
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

/* ---- pairs ---- */

/* The call failed because of its option `name`, with this message. */
static void check_message(bool refused, const char *name, const char *message)
{
    if (!refused || strcmp(haul_error_message(), message) || strcmp(haul_error_argument(), name))
        fail_msg("%s, %s, but expected: %s", haul_error_argument(), haul_error_message(), message);
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

#define assert_message(result, name, message) check_message(has_failed(result), name, message)

static void test_options__half_a_pair_is_refused(void **state)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 8, 8)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 3, 3));
    (void)state;
    assert_message(
        haul_conv2d(x, w, .padding = {1}), "padding",
        "haul_conv2d: padding is {1, 0}, but a pair needs both values: write .padding = {1, 1} for both, or {1, "
        "HAUL_ZERO} if 0 is meant");
    assert_message(haul_conv2d(x, w, .padding = {0, 2}), "padding",
                   "haul_conv2d: padding is {0, 2}, but a pair needs both values: write .padding = {2, 2} for both, or "
                   "{HAUL_ZERO, 2} if 0 is meant");
    assert_message(haul_conv2d(x, w, .stride = {2}), "stride",
                   "haul_conv2d: stride is {2, 0}, but a pair needs both values: write .stride = {2, 2} for both");
    assert_message(haul_conv2d(x, w, .dilation = {2}), "dilation",
                   "haul_conv2d: dilation is {2, 0}, but a pair needs both values: write .dilation = {2, 2} for both");
    assert_message(haul_conv2d(x, w, .stride = {1, HAUL_ZERO}), "stride",
                   "haul_conv2d: stride is {1, HAUL_ZERO}; both must be at least 1");
    assert_message(
        haul_max_pool2d(x, 3, .padding = {1}), "padding",
        "haul_max_pool2d: padding is {1, 0}, but a pair needs both values: write .padding = {1, 1} for both, or "
        "{1, HAUL_ZERO} if 0 is meant");
    assert_message(haul_avg_pool2d(x, 3, .stride = {2}), "stride",
                   "haul_avg_pool2d: stride is {2, 0}, but a pair needs both values: write .stride = {2, 2} for both");
}

/* Layers refuse it where they are made. */
static void test_options__half_a_pair_is_refused_by_layers(void **state)
{
    haul_module *net = haul_nn_linear(2, 2);
    (void)state;
    assert_message(
        haul_nn_conv2d(1, 1, 3, .padding = {1}), "padding",
        "haul_nn_conv2d: padding is {1, 0}, but a pair needs both values: write .padding = {1, 1} for both, or "
        "{1, HAUL_ZERO} if 0 is meant");
    assert_message(haul_nn_conv2d(1, 1, 3, .stride = {2}), "stride",
                   "haul_nn_conv2d: stride is {2, 0}, but a pair needs both values: write .stride = {2, 2} for both");
    assert_message(haul_nn_conv2d(1, 1, 3, .dilation = {-1, 1}), "dilation",
                   "haul_nn_conv2d: dilation is {-1, 1}; both must be at least 1");
    assert_message(
        haul_nn_max_pool2d(2, .stride = {2}), "stride",
        "haul_nn_max_pool2d: stride is {2, 0}, but a pair needs both values: write .stride = {2, 2} for both");
    assert_message(
        haul_nn_avg_pool2d(2, .padding = {1}), "padding",
        "haul_nn_avg_pool2d: padding is {1, 0}, but a pair needs both values: write .padding = {1, 1} for both, "
        "or {1, HAUL_ZERO} if 0 is meant");
    assert_message(
        haul_adam(net, 0.1, .betas = {0, 0.999}), "betas",
        "haul_adam: betas is {0, 0.999}, but a pair needs both values: write .betas = {0.999, 0.999} for both, or "
        "{HAUL_ZERO, 0.999} if 0 is meant");
}

static haul_tensor *square_first(haul_tensor *const *inputs, int count, void *context)
{
    (void)count;
    (void)context;
    return haul_square(inputs[0]);
}

static void test_options__pairs_given_whole_are_taken(void **state)
{
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 8, 8)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 3, 3));
    haul_tensor *y = haul_conv2d(x, w, .stride = {1, 2}, .padding = {1, HAUL_ZERO});
    haul_module *conv = haul_nn_conv2d(1, 1, 3, .padding = {HAUL_ZERO, 1});
    haul_tensor *in = haul_ones(HAUL_F64, HAUL_SHAPE(2));
    (void)state;
    assert_true(haul_tensor_dim(y, 2) == 8 && haul_tensor_dim(y, 3) == 3);
    y = haul_conv2d(x, w, .stride = {0, 0}, .padding = {0, 0}); /* counts as omitted */
    assert_true(haul_tensor_dim(y, 2) == 6 && haul_tensor_dim(y, 3) == 6);
    y = haul_call(conv, x);
    assert_true(haul_tensor_dim(y, 2) == 6 && haul_tensor_dim(y, 3) == 8);
    y = haul_max_pool2d(x, 2, .padding = {HAUL_ZERO, 1});
    assert_true(haul_tensor_dim(y, 2) == 4 && haul_tensor_dim(y, 3) == 5);
    y = haul_max_pool2d(x, 4, .size_w = 2); /* the stride is the window */
    assert_true(haul_tensor_dim(y, 2) == 2 && haul_tensor_dim(y, 3) == 4);
    assert_int_equal(haul_grad_check(square_first, &in, 1, NULL, .tolerance = {HAUL_ZERO, 1e-3}), HAUL_OK);
    assert_int_equal(haul_grad_check(square_first, &in, 1, NULL, .tolerance = {1e-3}), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

/* ---- zero ---- */

/* One step of Adam from 1 with gradient 2, then one with gradient 0: without a first moment only the first one moves.
 */
static double after_two_steps(double beta1)
{
    haul_module *m = haul_nn_linear(1, 1, .no_bias = true);
    haul_tensor *p = haul_module_parameter(m, "weight");
    haul_fill_into(haul_detach(p), 1);
    haul_optimizer *adam = haul_adam(m, 0.5, .betas = {beta1, 0.5});
    haul_set_grad(p, haul_full_like(p, 2));
    assert_int_equal(haul_optimizer_step(adam), HAUL_OK);
    haul_set_grad(p, haul_zeros_like(p));
    assert_int_equal(haul_optimizer_step(adam), HAUL_OK);
    return haul_item(p);
}

static void test_options__zero_can_be_said(void **state)
{
    float        values[] = {0, 2, 0, 2};
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(4, 1), values), *mean, *var;
    double       last;
    (void)state;
    last = after_two_steps(HAUL_ZERO);
    assert_true(last > 0.4999 && last < 0.5001);
    assert_true(after_two_steps(0.5) < 0.45);
    /* of momentum and eps */
    mean = haul_zeros(HAUL_F32, HAUL_SHAPE(1));
    var = haul_ones(HAUL_F32, HAUL_SHAPE(1));
    haul_tensor *y = haul_batch_norm(x, .running_mean = mean, .running_var = var, .training = true,
                                     .momentum = HAUL_ZERO, .eps = HAUL_ZERO);
    assert_true(haul_item(haul_select(y, 0, 1)) == 1);
    assert_true(haul_item(mean) == 0 && haul_item(var) == 1);
    assert_true(haul_item(haul_select(haul_batch_norm(x, .training = true), 0, 1)) < 1);
    y = haul_layer_norm(haul_reshape(x, HAUL_SHAPE(1, 4)), .eps = HAUL_ZERO);
    assert_true(haul_item(haul_select(y, 1, 1)) == 1);
    assert_message(haul_batch_norm(x, .training = true, .eps = -1), "eps",
                   "haul_batch_norm: momentum is 0.1 and eps is -1; both must be at least 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_options__null_is_refused, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__positional_operands_are_needed, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__none_need_be_given, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__failed_seed_is_no_default, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__half_a_pair_is_refused, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__half_a_pair_is_refused_by_layers, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__pairs_given_whole_are_taken, open_scope, close_scope),
        cmocka_unit_test_setup_teardown(test_options__zero_can_be_said, open_scope, close_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
