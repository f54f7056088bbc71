/* RMS normalisation against its formula written in operations, its edges and errors; and the layers of normalisation,
 * activation and softmax against their operations.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"

static haul_tensor *composed(haul_tensor *x, haul_tensor *weight, double eps)
{
    haul_tensor *square = haul_mean(haul_square(x), HAUL_AXES(-1), .keepdim = true);
    return haul_mul(haul_mul(x, haul_rsqrt(haul_add_scalar(square, eps))), weight);
}

static void compare(haul_tensor *got, haul_tensor *want, double error, const char *what)
{
    int64_t count = haul_tensor_count(want);
    double *v = calloc((size_t)count + 1, sizeof *v);
    assert_non_null(v);
    assert_int_equal(read_values(want, v, count), HAUL_OK);
    assert_close(got, v, count, error, what);
    free(v);
}

static void compare_with_formula(haul_device *device, haul_dtype dtype, int64_t n, double error)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *in[] = {sample_tensor(device, dtype, HAUL_SHAPE(2, 5, n), 1, NULL),
                         sample_tensor(device, dtype, HAUL_SHAPE(n), 2, NULL)};
    haul_tensor *seed = sample_tensor(device, dtype, HAUL_SHAPE(2, 5, n), 4, NULL), *wide[2], *got[2], *want[2];
    for (int i = 0; i < 2; i++) {
        wide[i] = haul_cast(in[i], HAUL_F64);
        assert_valid(haul_set_requires_grad(in[i], true));
        assert_valid(haul_set_requires_grad(wide[i], true));
    }
    haul_tensor *y = haul_rms_norm(in[0], .weight = in[1], .eps = 1e-3), *exact = composed(wide[0], wide[1], 1e-3);
    assert_int_equal(haul_tensor_dtype(y), dtype);
    compare(y, exact, error, "rms_norm");
    assert_succeeded(haul_grad(y, in, 2, got, .seed = seed), "gradient");
    assert_succeeded(haul_grad(exact, wide, 2, want, .seed = haul_cast(seed, HAUL_F64)), "gradient");
    compare(got[0], want[0], 40 * error, "gradient of x");
    compare(got[1], want[1], 20 * error, "gradient of weight");
    haul_scope_pop(scope);
}

static void by_formula(haul_device *device)
{
    static const int64_t lengths[] = {1, 2, 31, 32, 33, 100, 700};
    for (int i = 0; i < 7; i++) {
        compare_with_formula(device, HAUL_F64, lengths[i], 1e-11);
        compare_with_formula(device, HAUL_F32, lengths[i], 2e-5);
        compare_with_formula(device, HAUL_F16, lengths[i], 2e-2);
        compare_with_formula(device, HAUL_BF16, lengths[i], 1e-1);
    }
}

static void test_rms_norm__equals_its_formula(void **state)
{
    (void)state;
    on_devices(by_formula);
}

static haul_status into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_rms_norm_into(out, in[0], .weight = in[1]);
}

static void targets(haul_device *device)
{
    haul_tensor *in[] = {sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 5), 1, NULL),
                         sample_tensor(device, HAUL_F32, HAUL_SHAPE(5), 2, NULL)};
    assert_into("rms_norm", into, haul_rms_norm(in[0], .weight = in[1]), in, 2, 0);
    haul_tensor *none = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 5)), device);
    assert_int_equal(haul_tensor_count(haul_rms_norm(none, .weight = in[1])), 0);
    assert_close(haul_rms_norm(haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(3)), device)), (double[3]){0}, 3, 0,
                 "a row of zeros");
}

static void test_rms_norm__targets_and_edges(void **state)
{
    (void)state;
    on_devices(targets);
}

/* The gradient of x is the same whether weight has one or not. */
static void one_gradient(haul_device *device)
{
    haul_tensor *in[] = {haul_set_requires_grad(sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 5), 1, NULL), true),
                         haul_set_requires_grad(sample_tensor(device, HAUL_F32, HAUL_SHAPE(5), 2, NULL), true)};
    haul_tensor *both[2], *one;
    assert_succeeded(haul_grad(haul_sum(haul_rms_norm(in[0], .weight = in[1])), in, 2, both), "both");
    assert_succeeded(haul_grad(haul_sum(haul_rms_norm(in[0], .weight = haul_detach(in[1]))), in, 1, &one), "of x");
    assert_equal_bits(one, both[0], "the gradient of x alone");
    assert_succeeded(haul_grad(haul_sum(haul_rms_norm(haul_detach(in[0]), .weight = in[1])), in + 1, 1, &one),
                     "of weight");
    assert_equal_bits(one, both[1], "the gradient of weight alone");
}

static void test_rms_norm__one_gradient(void **state)
{
    (void)state;
    on_devices(one_gradient);
}

static void test_rms_norm__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(2));
    assert_refused(haul_rms_norm(x, .weight = w), HAUL_SHAPE,
                   "weight has shape [2]; [3] is expected for x of shape [2,3]");
    assert_refused(haul_rms_norm(x, .eps = -1), HAUL_INVALID_ARGUMENT, "haul_rms_norm: eps is -1");
    assert_refused(haul_rms_norm(x, .eps = NAN), HAUL_INVALID_ARGUMENT, "eps is nan");
    assert_refused(haul_layer_norm(x, .eps = -1), HAUL_INVALID_ARGUMENT, "haul_layer_norm: eps is -1");
    assert_refused(haul_rms_norm(haul_scalar(1)), HAUL_SHAPE, "at least one dimension");
    assert_refused(haul_nn_layer_norm(0), HAUL_INVALID_ARGUMENT, "haul_nn_layer_norm");
    assert_refused(haul_nn_rms_norm(3, .eps = -1), HAUL_INVALID_ARGUMENT, "haul_nn_rms_norm: eps is -1");
    haul_scope_pop(scope);
}

static void layer(haul_module *m, haul_tensor *x, haul_tensor *want, int parameters)
{
    haul_named_tensor list[4];
    assert_equal_bits(haul_call(m, x), want, haul_module_kind(m));
    assert_int_equal(haul_module_tensors(m, list, 4), parameters);
}

static void test_rms_norm__layers_are_their_operations(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(4, 6), 1, NULL);
    layer(haul_nn_layer_norm(6), x, haul_layer_norm(x), 2);
    layer(haul_nn_layer_norm(6, .eps = 0.5, .no_bias = true), x, haul_layer_norm(x, .eps = 0.5), 1);
    layer(haul_nn_layer_norm(6, .no_weight = true), x, haul_layer_norm(x), 0);
    layer(haul_nn_rms_norm(6, .eps = 0.5), x, haul_rms_norm(x, .eps = 0.5), 1);
    layer(haul_nn_rms_norm(6, .no_weight = true), x, haul_rms_norm(x), 0);
    layer(haul_nn_silu(), x, haul_silu(x), 0);
    layer(haul_nn_leaky_relu(0.2), x, haul_leaky_relu(x, 0.2), 0);
    layer(haul_nn_softmax(0), x, haul_softmax(x, 0), 0);
    layer(haul_nn_log_softmax(-1), x, haul_log_softmax(x, -1), 0);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rms_norm__equals_its_formula),
        cmocka_unit_test(test_rms_norm__targets_and_edges),
        cmocka_unit_test(test_rms_norm__one_gradient),
        cmocka_unit_test(test_rms_norm__errors),
        cmocka_unit_test(test_rms_norm__layers_are_their_operations),
    };
    return cmocka_run_group_tests_name("ops_rms_norm", tests, NULL, NULL);
}
