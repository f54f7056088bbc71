/* Convolution layers whose results have the size of the input, and pooling layers with dilation, ceil_mode and
 * divisors: they give what the operations give, and refuse what those refuse. */
#include "support/linalg.h"
#include "support/random.h"

#include <haul/haul.h>

static void assert_equal(haul_tensor *a, haul_tensor *b)
{
    static double x[4096], y[4096];
    assert_true(haul_tensor_count(b) <= 4096);
    assert_int_equal(haul_tensor_count(a), haul_tensor_count(b));
    assert_int_equal(read_values(a, x, haul_tensor_count(a)), HAUL_OK);
    assert_int_equal(read_values(b, y, haul_tensor_count(b)), HAUL_OK);
    assert_memory_equal(x, y, (size_t)haul_tensor_count(a) * sizeof *x);
}

static void test_layer_forms__convolutions_of_the_same_size(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_uniform(HAUL_F32, HAUL_SHAPE(2, 3, 5, 6), -1, 1), *line = haul_flatten(x, 2);
    haul_module *conv = haul_nn_conv2d(3, 4, 2, .kernel_w = 3, .same = true, .dilation = {1, 2});
    haul_module *conv_line = haul_nn_conv1d(3, 4, 4, .same = true, .no_bias = true);
    haul_tensor *y = haul_call(conv, x), *z = haul_call(conv_line, line);
    assert_int_equal(haul_tensor_dim(y, 2), 5);
    assert_int_equal(haul_tensor_dim(y, 3), 6);
    assert_int_equal(haul_tensor_dim(z, 2), 30);
    assert_equal(y, haul_conv2d(x, haul_module_parameter(conv, "weight"), .bias = haul_module_parameter(conv, "bias"),
                                .same = true, .dilation = {1, 2}));
    assert_equal(z, haul_conv1d(line, haul_module_parameter(conv_line, "weight"), .same = true));
    assert_refused(haul_call(haul_nn_conv2d(3, 4, 2, .same = true, .stride = {2, 2}), x), HAUL_INVALID_ARGUMENT,
                   "stride must be 1");
    haul_scope_pop(scope);
}

static void test_layer_forms__pooling(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_uniform(HAUL_F32, HAUL_SHAPE(2, 3, 7, 9), -1, 1), *line = haul_flatten(x, 2);
    haul_tensor *volume = haul_unsqueeze(x, 1);
    assert_equal(haul_call(haul_nn_max_pool2d(2, .dilation = {3, 1}, .padding = {2, 1}, .ceil_mode = true), x),
                 haul_max_pool2d(x, 2, .dilation = {3, 1}, .padding = {2, 1}, .ceil_mode = true));
    assert_equal(haul_call(haul_nn_avg_pool2d(2, .divisor = 3, .ceil_mode = true), x),
                 haul_avg_pool2d(x, 2, .divisor = 3, .ceil_mode = true));
    assert_equal(haul_call(haul_nn_max_pool1d(3, .dilation = 4, .padding = 4), line),
                 haul_max_pool1d(line, 3, .dilation = 4, .padding = 4));
    assert_equal(haul_call(haul_nn_avg_pool3d(2, .divisor = 3, .ceil_mode = true), volume),
                 haul_avg_pool3d(volume, 2, .divisor = 3, .ceil_mode = true));
    assert_equal(haul_call(haul_nn_max_pool3d(2, .dilation = {1, 2, 2}, .stride = {1, 1, 1}), volume),
                 haul_max_pool3d(volume, 2, .dilation = {1, 2, 2}, .stride = {1, 1, 1}));
    assert_null(haul_nn_max_pool1d(2, .dilation = -1));
    assert_null(haul_nn_max_pool1d(INT64_MAX, .dilation = INT64_MAX));
    assert_null(haul_nn_max_pool2d(2, .dilation = {0, 1}));
    assert_null(haul_nn_max_pool3d(2, .dilation = {1, 2, -1}));
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_forms__convolutions_of_the_same_size),
        cmocka_unit_test(test_layer_forms__pooling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
