/* Initial values: their distributions, and arguments that are refused. */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static double moment(haul_tensor *t, double mean, int power)
{
    haul_tensor *x = haul_add_scalar(haul_cast(t, HAUL_F64), -mean);
    return haul_item(haul_mean(power == 1 ? x : haul_mul(x, x)));
}

/* The largest element of m m^T - gain^2 I, where m has more columns than rows. */
static double from_orthogonal(haul_tensor *m, double gain)
{
    haul_tensor *x = haul_reshape(haul_cast(m, HAUL_F64), HAUL_SHAPE(haul_tensor_shape(m).dims[0], -1));
    if (haul_tensor_shape(x).dims[0] > haul_tensor_shape(x).dims[1])
        x = haul_transpose(x, 0, 1);
    haul_tensor *unit =
        haul_mul_scalar(haul_eye(HAUL_F64, haul_tensor_shape(x).dims[0], haul_tensor_shape(x).dims[0]), gain * gain);
    return haul_item(haul_max(haul_abs(haul_sub(haul_matmul(x, haul_transpose(x, 0, 1)), unit))));
}

static void test_init__distributions(void **state)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *w = haul_module_parameter(haul_nn_linear(300, 200), "weight");
    (void)state;
    haul_manual_seed(3);
    assert_int_equal(haul_init_kaiming_normal(w, 0), HAUL_OK);
    haul_set_grad_enabled(false);
    assert_true(fabs(moment(w, 0, 2) * 300 / 2 - 1) < 0.02);
    assert_int_equal(haul_init_xavier_normal(w, 3), HAUL_OK);
    assert_true(fabs(moment(w, 0, 2) * 500 / 2 / 9 - 1) < 0.02);
    /* Between -1 and 2 deviations: mean 0.2296, variance 0.5198 deviations. */
    assert_int_equal(haul_init_truncated_normal(w, 10, 2, 8, 14), HAUL_OK);
    assert_true(haul_item(haul_min(w)) >= 8 && haul_item(haul_max(w)) <= 14);
    assert_true(fabs(moment(w, 10, 1) - 2 * 0.2296) < 0.02);
    assert_true(fabs(moment(w, 10 + 2 * 0.2296, 2) - 4 * 0.5198) < 0.03);
    haul_shape shapes[] = {HAUL_SHAPE(4, 4), HAUL_SHAPE(3, 7), HAUL_SHAPE(20, 3), HAUL_SHAPE(4, 3, 3, 3)};
    for (int i = 0; i < 4; i++) {
        haul_tensor *t = haul_zeros(HAUL_F64, shapes[i]), *half = haul_zeros(HAUL_F16, shapes[i]);
        assert_int_equal(haul_init_orthogonal(t, 1.5), HAUL_OK);
        assert_int_equal(haul_init_orthogonal(half, 1), HAUL_OK);
        assert_true(from_orthogonal(t, 1.5) < 1e-14);
        assert_true(from_orthogonal(half, 1) < 4e-3);
    }
    haul_scope_pop(scope);
}

static double largest(haul_tensor *x)
{
    return haul_item(haul_max(haul_abs(x)));
}

/* Convolutions with it give their input, as far as there are channels. */
static void test_init__dirac(void **state)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_normal(HAUL_F64, HAUL_SHAPE(2, 4, 7, 5), 0, 1), *line = haul_flatten(x, 2);
    haul_tensor *w = haul_ones(HAUL_F64, HAUL_SHAPE(4, 4, 3, 5)), *grouped = haul_ones(HAUL_F16, HAUL_SHAPE(6, 2, 4));
    (void)state;
    assert_int_equal(haul_init_dirac(w, 1), HAUL_OK);
    assert_true(largest(haul_sub(haul_conv2d(x, w, .same = true), x)) == 0);
    /* two groups of three results of two channels; an even window has its middle behind the half, as in PyTorch */
    assert_int_equal(haul_init_dirac(grouped, 2), HAUL_OK);
    haul_tensor *y = haul_conv1d(line, haul_cast(grouped, HAUL_F64), .padding = 2, .groups = 2);
    for (int group = 0; group < 2; group++) {
        haul_tensor *own = haul_slice(y, 1, 3 * group, 3 * group + 2, 1),
                    *of = haul_slice(line, 1, 2 * group, 2 * group + 2, 1);
        assert_true(largest(haul_sub(haul_slice(own, 2, 0, 35, 1), of)) == 0);
        assert_true(largest(haul_slice(y, 1, 3 * group + 2, 3 * group + 3, 1)) == 0);
    }
    assert_int_equal(haul_init_dirac(haul_ones(HAUL_F32, HAUL_SHAPE(2, 0, 3)), 2), HAUL_OK);
    assert_int_equal(haul_init_dirac(haul_ones(HAUL_F32, HAUL_SHAPE(2, 2, 0)), 1), HAUL_OK);
    assert_int_equal(haul_init_dirac(haul_ones(HAUL_F32, HAUL_SHAPE(2, 2)), 1), HAUL_SHAPE);
    assert_int_equal(haul_init_dirac(w, 3), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_init_dirac(w, 0), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_init_dirac(haul_ones(HAUL_I32, HAUL_SHAPE(2, 2, 3)), 1), HAUL_DTYPE);
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_init__sparse_and_fan_out(void **state)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *w = haul_zeros(HAUL_F32, HAUL_SHAPE(101, 300)), *zeros;
    (void)state;
    haul_manual_seed(4);
    assert_int_equal(haul_init_sparse(w, 0.1, 0.5), HAUL_OK);
    zeros = haul_sum(haul_cast(haul_eq_scalar(w, 0), HAUL_I64), HAUL_AXES(0));
    assert_true(haul_item(haul_min(zeros)) == 11 && haul_item(haul_max(zeros)) == 11);
    assert_true(fabs(moment(w, 0, 2) * 101 / 90 / 0.25 - 1) < 0.04);
    assert_int_equal(haul_init_sparse(w, 1, 1), HAUL_OK);
    assert_true(largest(w) == 0);
    assert_int_equal(haul_init_sparse(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), 0.5, 1), HAUL_OK);
    haul_tensor *conv = haul_zeros(HAUL_F32, HAUL_SHAPE(40, 7, 5, 5));
    assert_int_equal(haul_init_kaiming_normal_fan_out(conv, 1), HAUL_OK);
    assert_true(fabs(moment(conv, 0, 2) * 40 * 25 - 1) < 0.06);
    assert_int_equal(haul_init_kaiming_uniform_fan_out(conv, 1), HAUL_OK);
    assert_true(fabs(moment(conv, 0, 2) * 40 * 25 - 1) < 0.06);
    assert_true(largest(conv) <= sqrt(3.0 / (40 * 25)));
    assert_int_equal(haul_init_sparse(conv, 0.5, 1), HAUL_SHAPE);
    assert_int_equal(haul_init_sparse(w, 1.5, 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_init_sparse(w, NAN, 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_init_kaiming_uniform_fan_out(haul_zeros(HAUL_F32, HAUL_SHAPE(3)), 0), HAUL_SHAPE);
    assert_int_not_equal(haul_init_kaiming_normal_fan_out(NULL, 0), HAUL_OK);
    haul_error_clear();
    haul_scope_pop(scope);
}

static void test_init__refuses(void **state)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *w = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 2));
    (void)state;
    assert_int_equal(haul_init_orthogonal(haul_zeros(HAUL_F32, HAUL_SHAPE(3)), 1), HAUL_SHAPE);
    assert_int_equal(haul_init_orthogonal(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), 1), HAUL_OK);
    assert_int_equal(haul_init_truncated_normal(w, 0, 1, 2, 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_init_truncated_normal(w, 0, 0, -1, 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_init_kaiming_normal(haul_zeros(HAUL_I32, HAUL_SHAPE(2, 2)), 0), HAUL_DTYPE);
    assert_int_equal(haul_init_truncated_normal(w, 0, 1, 50, 60), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_init_truncated_normal(w, NAN, 1, -1, 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_init_orthogonal(w, INFINITY), HAUL_INVALID_ARGUMENT);
    assert_int_not_equal(haul_init_orthogonal(NULL, 1), HAUL_OK);
    assert_int_not_equal(haul_init_truncated_normal(NULL, 0, 1, -1, 1), HAUL_OK);
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init__distributions),
        cmocka_unit_test(test_init__dirac),
        cmocka_unit_test(test_init__sparse_and_fan_out),
        cmocka_unit_test(test_init__refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
