/* What the conformance tests of pointwise operations do not reach, on every device: gradients at points where formulas
 * divide by zero, exact remainders, dtypes of results, bounds in the wrong order.
 *
 * ctest: cuda */
#include "base/hostile.h"
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
    assert_int_equal(haul_backward(haul_sum(real)), HAUL_OK);
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
    assert_int_equal(haul_backward(haul_sum(haul_pow_scalar(a, 0))), HAUL_OK);
    assert_gradient(a, zero, "of exponent 0");
    assert_int_equal(haul_backward(haul_sum(haul_pow_scalar(b, 1))), HAUL_OK);
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

/* ---- remainders ---- */

enum { PAIRS = 20000 };

/* Quotients around whole numbers, and of any size. */
static void make_pairs(float *a, float *b)
{
    for (int i = 0; i < PAIRS; i++) {
        b[i] = ldexpf((float)(rand() % 16777215 + 1), rand() % (i % 2 ? 8 : 200) - 100);
        a[i] = i % 2 ? b[i] * (float)(rand() % 100000) : ldexpf((float)(rand() % 16777215 + 1), rand() % 200 - 100);
        if (i % 3)
            a[i] = nextafterf(a[i], i % 3 == 1 ? INFINITY : -INFINITY);
        a[i] = i % 5 < 2 ? -a[i] : a[i];
        b[i] = i % 7 < 3 ? -b[i] : b[i];
    }
}

static void exact_remainders(haul_device *device)
{
    static float a[PAIRS], b[PAIRS], r[PAIRS], q[PAIRS];
    srand(1);
    make_pairs(a, b);
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(PAIRS), a), device);
    haul_tensor *y = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(PAIRS), b), device);
    assert_int_equal(haul_read(haul_remainder(x, y), r, sizeof r), HAUL_OK);
    assert_int_equal(haul_read(haul_floor_div(x, y), q, sizeof q), HAUL_OK);
    for (int i = 0; i < PAIRS; i++) {
        float  left = fmodf(a[i], b[i]), want = left != 0 && signbit(left) != signbit(b[i]) ? left + b[i] : left;
        double quotient = floor((double)a[i] / (double)b[i]);
        if (r[i] != want || signbit(r[i]) != signbit(want))
            fail_msg("%a mod %a is %a, not %a", (double)a[i], (double)b[i], (double)r[i], (double)want);
        if (fabs(quotient) < 0x1p22 && (double)q[i] != quotient)
            fail_msg("%a divided by %a, rounded down, is %a, not %a", (double)a[i], (double)b[i], (double)q[i],
                     quotient);
    }
}

static void test_remainder__is_exact(void **state)
{
    (void)state;
    on_devices(exact_remainders);
}

/* ---- piecewise constant functions ---- */

static haul_tensor *rounded_down(haul_tensor *x)
{
    return haul_floor_div_scalar(x, 1);
}

static haul_tensor *relu_slope(haul_tensor *x)
{
    haul_tensor *slope = NULL;
    assert_int_equal(haul_grad(haul_sum(haul_relu(x)), &x, 1, &slope, .create_graph = true), HAUL_OK);
    return slope;
}

/* The gradient is zeros, as in PyTorch: a step with a weight decay of 0.5 and a rate of 0.1 shrinks x. */
static void steps_go_on(haul_device *device)
{
    static haul_tensor *(*const functions[])(haul_tensor * x) = {haul_floor, haul_ceil,    haul_round,
                                                                 haul_sign,  rounded_down, relu_slope};
    double shrunk[COUNT];
    for (int i = 0; i < COUNT; i++)
        shrunk[i] = (double)BASE[i] * 0.95;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        haul_tensor      *x = leaf(device, BASE), *y = haul_sum(functions[i](x));
        haul_named_tensor list[] = {{.name = "x", .tensor = x}};
        haul_optimizer   *sgd = haul_sgd(NULL, 0.1, .weight_decay = 0.5, .parameters = list, .count = 1);
        assert_int_equal(haul_backward(y), HAUL_OK);
        assert_gradient(x, (const float[COUNT]){0}, "the function's");
        assert_int_equal(haul_optimizer_step(sgd), HAUL_OK);
        assert_close(x, shrunk, COUNT, 1e-6, "after a step");
    }
}

static void test_steps__have_zero_gradients(void **state)
{
    (void)state;
    on_devices(steps_go_on);
}

/* ---- dtypes and bounds ---- */

static void logic(haul_device *device)
{
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(COUNT), BASE), device);
    haul_tensor *y = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(COUNT), EXPONENT), device);
    haul_tensor *all[] = {haul_logical_and(x, y), haul_logical_or(x, y), haul_logical_xor(x, haul_cast(y, HAUL_I64)),
                          haul_logical_and_scalar(haul_cast(x, HAUL_U8), 300), haul_logical_not(x)};
    const double want[][COUNT] = {
        {0, 0, 0, 0, 1, 1}, {0, 1, 1, 1, 1, 1}, {0, 1, 1, 1, 0, 1}, {0, 0, 0, 1, 0, 1}, {1, 1, 1, 0, 0, 0}};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(haul_tensor_dtype(all[i]), HAUL_BOOL);
        assert_close(all[i], want[i], COUNT, 0, "logic");
    }
}

static void test_logic__gives_bool(void **state)
{
    (void)state;
    on_devices(logic);
}

/* As in PyTorch. */
static void bounds(haul_device *device)
{
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(COUNT), BASE), device), *nan[2];
    assert_close(haul_clamp(x, 2, 1), (double[]){1, 1, 1, 1, 1, 1}, COUNT, 0, "low above high");
    assert_close(haul_clamp(haul_cast(x, HAUL_I16), 2, 1), (double[]){1, 1, 1, 1, 1, 1}, COUNT, 0, "of integers");
    nan[0] = haul_clamp(x, NAN, 1);
    nan[1] = haul_clamp(x, 1, NAN);
    for (int i = 0; i < 2; i++)
        assert_close(haul_isnan(nan[i]), (double[]){1, 1, 1, 1, 1, 1}, COUNT, 0, "a bound that is NaN");
}

static void test_clamp__bounds_in_the_wrong_order(void **state)
{
    (void)state;
    on_devices(bounds);
}

/* The gradient of an operation with a number needs the number as a tensor. It is made on the operand's device, and
 * nothing is copied, whatever device is current. */
static void numbers_of_gradients(haul_device *device)
{
    static haul_tensor *(*const operations[])(haul_tensor *, double) = {haul_mul_scalar, haul_div_scalar,
                                                                        haul_pow_scalar, haul_maximum_scalar};
    haul_transfer_stats stats;
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        haul_tensor *x = leaf(device, BASE), *y = haul_sum(operations[i](x, 3));
        assert_int_equal(haul_set_device(haul_cpu()), HAUL_OK);
        haul_transfer_stats_reset();
        assert_int_equal(haul_backward(y), HAUL_OK);
        assert_int_equal(haul_transfer_stats_get(&stats), HAUL_OK);
        if (!haul__is_hostile(HAUL__HOSTILE_SPILLS)) /* copies of spilled tensors count */
            assert_int_equal(stats.h2d_count + stats.d2h_count + stats.d2d_count, 0);
        assert_ptr_equal(haul_current_device(), haul_cpu());
        assert_ptr_equal(haul_tensor_device(haul_tensor_grad(x)), device);
    }
}

static void test_numbers__of_gradients_are_made_on_the_device(void **state)
{
    (void)state;
    on_devices(numbers_of_gradients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pow__gradients_at_zero),
        cmocka_unit_test(test_pow__gradients_of_fixed_exponents),
        cmocka_unit_test(test_remainder__is_exact),
        cmocka_unit_test(test_steps__have_zero_gradients),
        cmocka_unit_test(test_logic__gives_bool),
        cmocka_unit_test(test_clamp__bounds_in_the_wrong_order),
        cmocka_unit_test(test_numbers__of_gradients_are_made_on_the_device),
    };
    return cmocka_run_group_tests_name("ops_pointwise", tests, NULL, NULL);
}
