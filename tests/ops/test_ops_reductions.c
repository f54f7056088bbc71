/* Products, any, all, variances, norms and logsumexp where it is hard: zeros, infinities, NaN, far means, nothing to
 * reduce, many elements, targets.
 *
 * ctest: cuda */
#include "base/alloc.h"
#include "support/failure.h"
#include "support/into.h"

static haul_tensor *floats(haul_device *device, haul_shape shape, const float *values)
{
    return haul_to(haul_from_host(HAUL_F32, shape, values), device);
}

static double item(haul_tensor *t)
{
    assert_valid(t);
    return haul_item(t);
}

static void assert_nan(haul_tensor *t)
{
    assert_true(isnan(item(t)));
}

/* ---- products ---- */

static haul_tensor *product(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    haul_reduce_options o = {.x = in[0]};
    o.haul__axes.count = 1;
    o.haul__axes.axes[0] = *(const int *)context;
    return haul_prod_with(&o);
}

static haul_tensor *squared_gradient(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *g;
    if (haul_grad(haul_sum(haul_square(product(in, count, context))), in, 1, &g, .create_graph = true))
        return NULL;
    return haul_square(g);
}

static void products(haul_device *device)
{
    static const float rows[] = {2, 3, 4, 2, 0, 4, 0, 0, 5};
    haul_tensor       *x = haul_set_requires_grad(floats(device, HAUL_SHAPE(3, 3), rows), true), *g;
    haul_tensor       *y = haul_prod(x, HAUL_AXES(1));
    assert_close(y, (double[]){24, 0, 0}, 3, 0, "products");
    assert_succeeded(haul_grad(haul_sum(y), &x, 1, &g), "gradient");
    assert_close(g, (double[]){12, 8, 6, 0, 8, 0, 0, 0, 0}, 9, 0, "one zero, and two");
    assert_succeeded(haul_grad(haul_sum(haul_prod(x, HAUL_AXES(1))), &x, 1, &g, .create_graph = true), "gradient");
    assert_close(g, (double[]){12, 8, 6, 0, 8, 0, 0, 0, 0}, 9, 0, "without divisions");
    assert_float_equal(item(haul_prod(haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0)), device))), 1, 0);
    assert_int_equal(haul_tensor_dtype(haul_prod(haul_cast(haul_detach(x), HAUL_U8))), HAUL_I64);
    haul_tensor *many = haul_to(haul_full(HAUL_F64, HAUL_SHAPE(100000), 1 + 1e-5), device);
    assert_float_equal(item(haul_prod(many)), exp(100000 * log(1 + 1e-5)), 1e-9);
}

static void test_reductions__products(void **state)
{
    (void)state;
    on_devices(products);
}

static void test_reductions__second_gradients_of_products(void **state)
{
    (void)state;
    haul_scope         *scope = haul_scope_push();
    static const double rows[] = {2, 3, 0.5, 2, 0, 4, 0, 0, 5};
    haul_tensor        *x = haul_from_host(HAUL_F64, HAUL_SHAPE(3, 3), rows);
    for (int axis = 0; axis < 2; axis++)
        if (haul_grad_check(product, &x, 1, &axis) || haul_grad_check(squared_gradient, &x, 1, &axis))
            fail_msg("%s", haul_error_message());
    haul_scope_pop(scope);
}

/* ---- any and all ---- */

static void truths(haul_device *device)
{
    static const float rows[] = {0, NAN, 0, 0, 1, -2};
    haul_tensor       *x = floats(device, HAUL_SHAPE(3, 2), rows),
                *none = haul_to(haul_zeros(HAUL_I32, HAUL_SHAPE(0)), device);
    assert_close(haul_any(x, HAUL_AXES(1)), (double[]){1, 0, 1}, 3, 0, "any");
    assert_close(haul_all(x, HAUL_AXES(1)), (double[]){0, 0, 1}, 3, 0, "all");
    assert_int_equal(haul_tensor_dtype(haul_any(x)), HAUL_BOOL);
    assert_false(haul_requires_grad(haul_all(haul_set_requires_grad(haul_clone(x), true))));
    assert_float_equal(item(haul_any(none)), 0, 0);
    assert_float_equal(item(haul_all(none)), 1, 0);
    haul_tensor *many = haul_to(haul_zeros(HAUL_U8, HAUL_SHAPE(300001)), device);
    assert_float_equal(item(haul_any(many)), 0, 0);
    assert_succeeded(haul_fill_into(haul_slice(many, 0, 299999, 300000, 1), 4), "fill");
    assert_float_equal(item(haul_any(many)), 1, 0);
    assert_float_equal(item(haul_all(many)), 0, 0);
}

static void test_reductions__any_and_all(void **state)
{
    (void)state;
    on_devices(truths);
}

/* ---- variances ---- */

/* Deviations of 1 around a mean of 1e6, in few and in many elements, along rows and columns. */
static void far_means(haul_device *device)
{
    haul_tensor *x = haul_reshape(haul_arange(HAUL_F32, 0, 200000, 1), HAUL_SHAPE(100000, 2));
    x = haul_to(haul_add_scalar(haul_remainder_scalar(haul_floor(haul_mul_scalar(x, 0.5)), 2), 1e6), device);
    assert_close(haul_var(x, HAUL_AXES(0), .correction = HAUL_ZERO), (double[]){0.25, 0.25}, 2, 1e-6, "columns");
    assert_close(haul_std(haul_transpose(x, 0, 1), HAUL_AXES(1), .correction = HAUL_ZERO), (double[]){0.5, 0.5}, 2,
                 1e-6, "rows");
    assert_float_equal(item(haul_var(x, .correction = HAUL_ZERO)), 0.25, 1e-6);
    haul_tensor *outlier = floats(device, HAUL_SHAPE(4), (float[]){1e8f, 1, 2, 3});
    assert_float_equal(item(haul_var(outlier)) / 2.4999999e15, 1, 1e-6);
}

static void test_reductions__far_means_cost_no_digits(void **state)
{
    (void)state;
    on_devices(far_means);
}

static void edges_of_variances(haul_device *device)
{
    haul_tensor *one = floats(device, HAUL_SHAPE(1), (float[]){3}), *g;
    haul_tensor *same = haul_set_requires_grad(haul_to(haul_full(HAUL_F32, HAUL_SHAPE(3), 2), device), true);
    assert_nan(haul_var(one));
    assert_float_equal(item(haul_var(one, .correction = HAUL_ZERO)), 0, 0);
    assert_nan(haul_std(haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0)), device)));
    assert_nan(haul_var(floats(device, HAUL_SHAPE(3), (float[]){1, INFINITY, 2})));
    assert_float_equal(item(haul_var(floats(device, HAUL_SHAPE(2), (float[]){1, 3}), .correction = 2)), INFINITY, 0);
    assert_succeeded(haul_grad(haul_std(same), &same, 1, &g), "gradient");
    assert_close(g, (double[]){0, 0, 0}, 3, 0, "gradient of a deviation of 0");
    assert_refused(haul_var(haul_cast(one, HAUL_I32)), HAUL_DTYPE, "haul_var");
}

static void test_reductions__edges_of_variances(void **state)
{
    (void)state;
    on_devices(edges_of_variances);
}

/* ---- logsumexp ---- */

static void exponentials(haul_device *device)
{
    static const float rows[] = {1000, 1000, -INFINITY, -INFINITY, INFINITY, 1, -1000, -INFINITY, NAN, 1};
    haul_tensor       *x = haul_set_requires_grad(floats(device, HAUL_SHAPE(5, 2), rows), true), *y, *g;
    y = haul_logsumexp(x, HAUL_AXES(1));
    assert_close(haul_slice(y, 0, 0, 1, 1), (double[]){1000 + log(2)}, 1, 1e-4, "large ones");
    assert_float_equal(item(haul_select(y, 0, 1)), -INFINITY, 0);
    assert_float_equal(item(haul_select(y, 0, 2)), INFINITY, 0);
    assert_float_equal(item(haul_select(y, 0, 3)), -1000, 1e-3);
    assert_nan(haul_select(y, 0, 4));
    assert_succeeded(haul_grad(haul_sum(haul_slice(y, 0, 0, 2, 1)), &x, 1, &g), "gradient");
    assert_close(haul_slice(g, 0, 0, 2, 1), (double[]){0.5, 0.5, 0, 0}, 4, 1e-4, "gradient");
    assert_float_equal(item(haul_logsumexp(haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0)), device))), -INFINITY, 0);
    haul_tensor *many = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(300000), 90), device);
    assert_float_equal(item(haul_logsumexp(many)), 90 + log(300000), 2e-5);
    assert_float_equal(item(haul_logsumexp(haul_cast(many, HAUL_F16))), 102.625, 0.0626);
    assert_int_equal(haul_tensor_dtype(haul_logsumexp(haul_cast(many, HAUL_I32))), HAUL_F32);
}

static void test_reductions__logsumexp(void **state)
{
    (void)state;
    on_devices(exponentials);
}

/* ---- norms ---- */

static void norms(haul_device *device)
{
    static const float  values[] = {3, -4, 0, 0};
    haul_tensor        *x = haul_set_requires_grad(floats(device, HAUL_SHAPE(2, 2), values), true), *g;
    static const double powers[] = {1, 2, 3, 1.5, INFINITY};
    assert_close(haul_norm(x, HAUL_AXES(1)), (double[]){5, 0}, 2, 1e-6, "p = 2");
    assert_close(haul_norm(x, HAUL_AXES(1), .p = HAUL_ZERO), (double[]){2, 0}, 2, 0, "p = 0");
    assert_close(haul_norm(x, .p = -INFINITY), (double[]){0}, 1, 0, "p = -infinity");
    for (int i = 0; i < 5; i++) {
        assert_succeeded(haul_grad(haul_sum(haul_norm(x, HAUL_AXES(1), .p = powers[i])), &x, 1, &g), "gradient");
        assert_close(haul_select(g, 0, 1), (double[]){0, 0}, 2, 0, "gradient where the norm is 0");
    }
    haul_tensor *with_zero = haul_set_requires_grad(floats(device, HAUL_SHAPE(3), (float[]){1, 0, 3}), true);
    for (int p = -2; p < 0; p++) {
        assert_succeeded(haul_grad(haul_norm(with_zero, .p = p), &with_zero, 1, &g), "gradient");
        assert_close(g, (double[]){0, 0, 0}, 3, 0, "gradient of a norm of negative p that is 0");
    }
    assert_nan(haul_norm(floats(device, HAUL_SHAPE(2), (float[]){1, NAN}), .p = INFINITY));
    haul_tensor *none = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0)), device);
    assert_float_equal(item(haul_norm(none, .p = INFINITY)), 0, 0);
    assert_refused(haul_norm(none, .p = -1), HAUL_SHAPE, "haul_norm");
    assert_refused(haul_norm(x, .p = NAN), HAUL_INVALID_ARGUMENT, "p is NaN");
    haul_tensor *half = haul_to(haul_full(HAUL_F16, HAUL_SHAPE(70000), 0.5), device);
    assert_float_equal(item(haul_norm(half)), sqrt(70000.0) / 2, 0.07);
    assert_float_equal(item(haul_norm(half, .p = 4)), 0.5 * pow(70000, 0.25), 0.01);
    assert_float_equal(item(haul_norm(haul_cast(haul_detach(x), HAUL_I32), .p = 1)), 7, 0);
}

static void test_reductions__norms(void **state)
{
    (void)state;
    on_devices(norms);
}

/* ---- targets ---- */

#define INTO(name, ...)                                                                                                \
    static haul_status name##_into(haul_tensor *out, haul_tensor *const *in)                                           \
    {                                                                                                                  \
        return haul_##name##_into(out, in[0], __VA_ARGS__);                                                            \
    }
INTO(prod, HAUL_AXES(1))
INTO(var, HAUL_AXES(0))
INTO(std, HAUL_AXES(1))
INTO(norm, HAUL_AXES(1), .p = 3)
INTO(logsumexp, HAUL_AXES(0))

static void targets(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 5), 1, NULL);
    assert_into("prod", prod_into, haul_prod(x, HAUL_AXES(1)), &x, 1, 0);
    assert_into("var", var_into, haul_var(x, HAUL_AXES(0)), &x, 1, 0);
    assert_into("std", std_into, haul_std(x, HAUL_AXES(1)), &x, 1, 0);
    assert_into("norm", norm_into, haul_norm(x, HAUL_AXES(1), .p = 3), &x, 1, 0);
    assert_into("logsumexp", logsumexp_into, haul_logsumexp(x, HAUL_AXES(0)), &x, 1, 0);
    haul_tensor *bools = haul_to(haul_zeros(HAUL_BOOL, HAUL_SHAPE(5)), device);
    assert_succeeded(haul_any_into(bools, x, HAUL_AXES(0)), "any");
    assert_equal_bits(bools, haul_any(x, HAUL_AXES(0)), "any");
    assert_succeeded(haul_all_into(bools, x, HAUL_AXES(0)), "all");
    assert_equal_bits(bools, haul_all(x, HAUL_AXES(0)), "all");
}

static void test_reductions__targets(void **state)
{
    (void)state;
    on_devices(targets);
}

/* The norm of a half tensor is computed in f32, for which memory may run out. */
static void test_reductions__norms_without_memory(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *half = haul_full(HAUL_F16, HAUL_SHAPE(6, 5), 0.5);
    haul_norm(half, .p = 3); /* kernels are ready */
    int failures = 0;
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE, nth);
        const bool failed = is_failed(haul_norm(half, .p = 3)), reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!reached)
            break;
        haul_error_clear();
        failures += failed;
    }
    assert_true(failures > 3);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reductions__products),
        cmocka_unit_test(test_reductions__second_gradients_of_products),
        cmocka_unit_test(test_reductions__any_and_all),
        cmocka_unit_test(test_reductions__far_means_cost_no_digits),
        cmocka_unit_test(test_reductions__edges_of_variances),
        cmocka_unit_test(test_reductions__logsumexp),
        cmocka_unit_test(test_reductions__norms),
        cmocka_unit_test(test_reductions__norms_without_memory),
        cmocka_unit_test(test_reductions__targets),
    };
    return cmocka_run_group_tests_name("ops_reductions", tests, NULL, NULL);
}
