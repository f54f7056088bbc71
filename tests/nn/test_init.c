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
        cmocka_unit_test(test_init__refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
