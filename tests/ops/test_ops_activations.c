/* Activations and their gradients at infinite operands: the limits, in every floating dtype on every device, alone and
 * in vectors. Activations as layers, and those of two tensors: shapes, dtypes and refusals.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"

typedef haul_tensor *function(haul_tensor *x);

enum { MOST = 33 };

static haul_tensor *elu(haul_tensor *x)
{
    return haul_elu(x, 2);
}

static haul_tensor *celu(haul_tensor *x)
{
    return haul_celu(x, 2);
}

/* A function of x, which tends to `y` with the slope `slope`; `second` says that its second derivative tends to 0. */
static const struct limit {
    const char *name;
    function   *f;
    double      x, y, slope;
    bool        second;
} limits[] = {
    {"silu", haul_silu, -INFINITY, 0, 0, true},
    {"silu", haul_silu, INFINITY, INFINITY, 1, true},
    {"gelu", haul_gelu, -INFINITY, 0, 0, true},
    {"gelu", haul_gelu, INFINITY, INFINITY, 1, true},
    {"relu", haul_relu, -INFINITY, 0, 0, true},
    {"relu", haul_relu, INFINITY, INFINITY, 1, true},
    {"softplus", haul_softplus, -INFINITY, 0, 0, true},
    {"softplus", haul_softplus, INFINITY, INFINITY, 1, true},
    {"sigmoid", haul_sigmoid, -INFINITY, 0, 0, true},
    {"sigmoid", haul_sigmoid, INFINITY, 1, 0, true},
    {"tanh", haul_tanh, -INFINITY, -1, 0, true},
    {"tanh", haul_tanh, INFINITY, 1, 0, true},
    {"erf", haul_erf, -INFINITY, -1, 0, false},
    {"erf", haul_erf, INFINITY, 1, 0, false},
    {"exp", haul_exp, -INFINITY, 0, 0, true},
    {"expm1", haul_expm1, -INFINITY, -1, 0, true},
    {"log1p", haul_log1p, INFINITY, INFINITY, 0, true},
    {"sqrt", haul_sqrt, INFINITY, INFINITY, 0, true},
    {"rsqrt", haul_rsqrt, INFINITY, 0, 0, true},
    {"reciprocal", haul_reciprocal, -INFINITY, 0, 0, true},
    {"reciprocal", haul_reciprocal, INFINITY, 0, 0, true},
    /* large enough for the limits, and finite */
    {"silu", haul_silu, -60000, 0, 0, true},
    {"silu", haul_silu, 57344, 57344, 1, true},
    {"gelu", haul_gelu, -60000, 0, 0, true},
    {"gelu", haul_gelu, 57344, 57344, 1, true},
    {"softplus", haul_softplus, 57344, 57344, 1, true},
    {"mish", haul_mish, 57344, 57344, 1, true},
    {"mish", haul_mish, -60000, 0, 0, true},
    {"elu", elu, -INFINITY, -2, 0, true},
    {"elu", elu, INFINITY, INFINITY, 1, true},
    {"celu", celu, -INFINITY, -2, 0, true},
    {"celu", celu, INFINITY, INFINITY, 1, true},
    {"hardswish", haul_hardswish, -INFINITY, 0, 0, true},
    {"hardswish", haul_hardswish, INFINITY, INFINITY, 1, true},
    {"hardsigmoid", haul_hardsigmoid, -INFINITY, 0, 0, false},
    {"hardsigmoid", haul_hardsigmoid, INFINITY, 1, 0, false},
};
enum { LIMITS = sizeof limits / sizeof limits[0] };

static void check(haul_tensor *t, int count, double want, const struct limit *l, haul_dtype dtype, const char *what)
{
    double got[MOST];
    if (!haul_tensor_is_valid(t))
        fail_msg("%s of %s at %g: %s", what, l->name, l->x, haul_error_message());
    haul_tensor *wide = haul_cast(t, HAUL_F64);
    assert_int_equal(haul_read(haul_to(wide, haul_cpu()), got, (size_t)count * sizeof *got), HAUL_OK);
    for (int i = 0; i < count; i++)
        if (!(got[i] == want))
            fail_msg("%s of %s at %g, %s, element %d of %d, is %g; %g is wanted", what, l->name, l->x,
                     haul_dtype_name(dtype), i, count, got[i], want);
}

static void limits_of(haul_device *device, const struct limit *l, haul_dtype dtype, int count)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_to(haul_cast(haul_full(HAUL_F32, HAUL_SHAPE(count), l->x), dtype), device), *g, *second;
    haul_set_requires_grad(x, true);
    haul_tensor *y = l->f(x);
    check(y, count, l->y, l, dtype, "the value");
    assert_int_equal(haul_grad(y, &x, 1, &g, .seed = haul_ones_like(y), .create_graph = true), HAUL_OK);
    check(g, count, l->slope, l, dtype, "the gradient");
    if (l->second) {
        assert_int_equal(haul_grad(g, &x, 1, &second, .seed = haul_ones_like(g)), HAUL_OK);
        check(second, count, 0, l, dtype, "the second derivative");
    }
    haul_scope_pop(scope);
}

static void all_limits(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16};
    for (int i = 0; i < LIMITS; i++)
        for (int d = 0; d < 4; d++) {
            limits_of(device, &limits[i], dtypes[d], 1);
            limits_of(device, &limits[i], dtypes[d], MOST);
        }
}

static void test_activations__limits_at_infinity(void **state)
{
    (void)state;
    on_devices(all_limits);
}

/* ---- gated and learned ---- */

static void gates(haul_device *device)
{
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 4), (float[]){-2, 3, 0, 0, 4, -8, 0, 0}), device);
    assert_close(haul_glu(x, -1), (double[]){-1, 1.5, 2, -4}, 4, 0, "glu of columns");
    assert_refused(haul_glu(haul_slice(x, 1, 0, 3, 1), 1), HAUL_SHAPE,
                   "with 3 elements along axis 1; an even number is expected");
    haul_error_clear();
    assert_refused(haul_glu(x, 2), HAUL_INVALID_ARGUMENT, "haul_glu");
    haul_error_clear();
    assert_refused(haul_glu(haul_select(haul_select(x, 0, 0), 0, 0), 0), HAUL_SHAPE, "at least one dimension");
    haul_error_clear();
    haul_tensor *one = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(1), (float[]){0.5}), device);
    haul_tensor *four = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(4), (float[]){1, 2, 3, 4}), device);
    assert_close(haul_prelu(x, one), (double[]){-1, 3, 0, 0, 4, -4, 0, 0}, 8, 0, "prelu with one slope");
    assert_close(haul_prelu(x, four), (double[]){-2, 3, 0, 0, 4, -16, 0, 0}, 8, 0, "prelu with slopes of channels");
    assert_close(haul_prelu(haul_cast(x, HAUL_I32), one), (double[]){-1, 3, 0, 0, 4, -4, 0, 0}, 8, 0, "of integers");
    haul_tensor *number = haul_prelu(haul_select(haul_select(x, 0, 0), 0, 0), one);
    assert_int_equal(haul_tensor_ndim(number), 0);
    assert_close(number, (double[]){-1}, 1, 0, "prelu of a number");
    assert_refused(haul_prelu(x, haul_slice(four, 0, 0, 3, 1)), HAUL_SHAPE,
                   "weight has shape [3]; [1] is expected, or [4], the channels of x of shape [2,4]");
    haul_error_clear();
    assert_refused(haul_prelu(x, x), HAUL_SHAPE, "weight has shape [2,4]; [1] is expected");
    haul_error_clear();
    assert_refused(haul_prelu(x, HAUL_NONE), HAUL_INVALID_ARGUMENT, "weight");
    haul_error_clear();
}

static void test_activations__gates(void **state)
{
    (void)state;
    on_devices(gates);
}

/* ---- layers ---- */

static void layer(haul_module *m, haul_tensor *x, haul_tensor *want, const char *kind)
{
    double           a[24], b[24];
    haul_tensor     *y = haul_call(m, x);
    const haul_shape shape = haul_tensor_shape(y);
    if (!haul_tensor_is_valid(y))
        fail_msg("%s: %s", kind, haul_error_message());
    assert_string_equal(haul_module_kind(m), kind);
    assert_int_equal(shape.dims[0], haul_tensor_shape(want).dims[0]);
    assert_int_equal(read_values(y, a, (int)haul_tensor_count(y)), HAUL_OK);
    assert_int_equal(read_values(want, b, (int)haul_tensor_count(want)), HAUL_OK);
    assert_memory_equal(a, b, (size_t)haul_tensor_count(y) * sizeof *a);
}

static void test_activations__layers_are_their_operations(void **state)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x =
        haul_reshape(haul_mul_scalar(haul_sub_scalar(haul_arange(HAUL_F32, 0, 24, 1), 12), 0.4), HAUL_SHAPE(2, 4, 3));
    (void)state;
    layer(haul_nn_selu(), x, haul_selu(x), "selu");
    layer(haul_nn_mish(), x, haul_mish(x), "mish");
    layer(haul_nn_hardswish(), x, haul_hardswish(x), "hardswish");
    layer(haul_nn_hardsigmoid(), x, haul_hardsigmoid(x), "hardsigmoid");
    layer(haul_nn_softsign(), x, haul_softsign(x), "softsign");
    layer(haul_nn_elu(1.5), x, haul_elu(x, 1.5), "elu");
    layer(haul_nn_celu(1.5), x, haul_celu(x, 1.5), "celu");
    layer(haul_nn_hardtanh(-1, 2), x, haul_clamp(x, -1, 2), "hardtanh");
    layer(haul_nn_glu(1), x, haul_glu(x, 1), "glu");
    haul_module *prelu = haul_nn_prelu(4, 0.25);
    layer(prelu, x, haul_leaky_relu(x, 0.25), "prelu");
    assert_int_equal(haul_module_parameter_count(prelu), 4);
    assert_int_equal(haul_backward(haul_sum(haul_call(prelu, x))), HAUL_OK);
    assert_int_equal(haul_tensor_count(haul_tensor_grad(haul_module_parameter(prelu, "weight"))), 4);
    assert_null(haul_nn_prelu(0, 0.25));
    assert_non_null(strstr(haul_error_message(), "haul_nn_prelu: count is 0"));
    haul_error_clear();
    assert_null(haul_nn_hardtanh(1, 0));
    assert_non_null(strstr(haul_error_message(), "low is 1 and high 0; low <= high is expected"));
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations__limits_at_infinity),
        cmocka_unit_test(test_activations__gates),
        cmocka_unit_test(test_activations__layers_are_their_operations),
    };
    return cmocka_run_group_tests_name("ops_activations", tests, NULL, NULL);
}
