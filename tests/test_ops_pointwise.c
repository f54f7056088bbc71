/* Gradients of pointwise operations at points where their formulas divide by zero, on every device.
 *
 * ctest: cuda */
#include "support/into.h"

enum { COUNT = 6 };

static const float BASE[COUNT] = {0, 0, 0, 2, -2, 4}, EXPONENT[COUNT] = {0, 1, 2, 0, 3, 0.5f};

static haul_tensor *leaf(haul_device *device, const float *values)
{
    haul_tensor *t = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(COUNT), values), device);
    return haul_set_requires_grad(haul_detach(t), true);
}

static void assert_gradient(haul_tensor *t, const float *wanted, const char *what)
{
    float        got[COUNT];
    haul_tensor *gradient = haul_tensor_grad(t);
    if (!haul_tensor_is_valid(gradient))
        fail_msg("%s: there is no gradient: %s", what, haul_error_message());
    assert_int_equal(haul_read(gradient, got, sizeof got), HAUL_OK);
    for (int i = 0; i < COUNT; i++)
        if (!(fabsf(got[i] - wanted[i]) <= 1e-4f))
            fail_msg("%s: element %d is %g; %g is wanted", what, i, (double)got[i], (double)wanted[i]);
}

/* By the base: 0 where the exponent is 0. By the exponent: 0 where the base is 0. As in PyTorch. */
static void power_of_tensors(haul_device *device)
{
    static const float by_base[COUNT] = {0, 1, 0, 0, 12, 0.25f};
    const float        by_exponent[COUNT] = {0, 0, 0, logf(2), 0, 2 * logf(4)};
    haul_scope        *scope = haul_scope_push();
    haul_tensor       *a = leaf(device, BASE), *b = leaf(device, EXPONENT), *y = haul_pow(a, b);
    /* the logarithm of -2 is NaN in any case */
    haul_tensor *real = haul_where(haul_ge_scalar(a, 0), y, haul_pow(a, haul_detach(b)));
    assert_int_equal(haul_backward(haul_sum(real), HAUL_NONE), HAUL_OK);
    assert_gradient(a, by_base, "the base's");
    float got[COUNT];
    assert_int_equal(haul_read(haul_tensor_grad(b), got, sizeof got), HAUL_OK);
    for (int i = 0; i < COUNT; i++)
        if (BASE[i] >= 0 && !(fabsf(got[i] - by_exponent[i]) <= 1e-4f))
            fail_msg("the exponent's: element %d is %g; %g is wanted", i, (double)got[i], (double)by_exponent[i]);
    haul_scope_pop(scope);
}

static void power_of_numbers(haul_device *device)
{
    static const float zero[COUNT] = {0}, one[COUNT] = {1, 1, 1, 1, 1, 1};
    haul_scope        *scope = haul_scope_push();
    haul_tensor       *a = leaf(device, BASE), *b = leaf(device, BASE);
    assert_int_equal(haul_backward(haul_sum(haul_pow_scalar(a, 0)), HAUL_NONE), HAUL_OK);
    assert_gradient(a, zero, "of exponent 0");
    assert_int_equal(haul_backward(haul_sum(haul_pow_scalar(b, 1)), HAUL_NONE), HAUL_OK);
    assert_gradient(b, one, "of exponent 1");
    haul_scope_pop(scope);
}

static void test_pow__gradients_at_zero(void **state)
{
    (void)state;
    on_devices(power_of_tensors);
}

static void test_pow__gradients_of_fixed_exponents(void **state)
{
    (void)state;
    on_devices(power_of_numbers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pow__gradients_at_zero),
        cmocka_unit_test(test_pow__gradients_of_fixed_exponents),
    };
    return cmocka_run_group_tests_name("ops_pointwise", tests, NULL, NULL);
}
