/* Clipping of gradients by their norm and by value, on one device and over two.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <math.h>

#include "support/devices/pair.h"

static void check_clip(haul_device *first, haul_device *second)
{
    rig    r = rig_on(first, second, new_sgd);
    double sum = 0, g[SIZE], b[3];
    assert_true(haul_item(haul_clip_grad_norm(r.net, 1)) == 0); /* no gradients */
    set_gradients(&r, 1, 1, 0);
    assert_int_equal(read_values(haul_tensor_grad(r.a), g, SIZE), HAUL_OK);
    assert_int_equal(read_values(haul_tensor_grad(r.b), b, 3), HAUL_OK);
    for (int i = 0; i < SIZE; i++)
        sum += g[i] * g[i];
    for (int i = 0; i < 3; i++)
        sum += b[i] * b[i];
    double norm = sqrt(sum);
    assert_true(fabs(haul_item(haul_clip_grad_norm(r.net, 1e6)) - norm) < 1e-5 * norm);
    assert_close(haul_tensor_grad(r.b), b, 3, 0, "not clipped");
    assert_true(fabs(haul_item(haul_clip_grad_norm(r.net, 2)) - norm) < 1e-5 * norm);
    for (int i = 0; i < SIZE; i++)
        g[i] *= 2 / (norm + 1e-6);
    for (int i = 0; i < 3; i++)
        b[i] *= 2 / (norm + 1e-6);
    assert_close(haul_tensor_grad(r.a), g, SIZE, 1e-7, "clipped");
    assert_close(haul_tensor_grad(r.b), b, 3, 1e-7, "clipped");
    assert_true(fabs(haul_item(haul_clip_grad_norm(r.net, 1)) - 2) < 1e-4);
}

static void check_clip_here(haul_device *device)
{
    check_clip(device, device);
    check_clip(haul_cpu(), device);

    haul_module *net = haul_module_new("half", forward);
    haul_tensor *p = haul_set_requires_grad(haul_to(haul_ones(HAUL_F16, HAUL_SHAPE(4)), device), true);
    assert_int_equal(haul_module_add_parameter(net, "p", p), HAUL_OK);
    haul_tensor *one = haul_to(haul_full(HAUL_F16, HAUL_SHAPE(1), 2), device);
    assert_int_equal(haul_set_grad(p, haul_expand(one, HAUL_SHAPE(4))), HAUL_OK); /* gets memory of its own */
    assert_true(haul_item(haul_clip_grad_norm(net, 2)) == 4);
    assert_close(haul_tensor_grad(p), (double[]){1, 1, 1, 1}, 4, 0.01, "expanded");
    assert_true(haul_item(one) == 2);
    assert_int_equal(haul_set_grad(p, haul_full_like(p, 1024)), HAUL_OK); /* whose square f16 does not hold */
    assert_true(haul_item(haul_clip_grad_norm(net, 4)) == 2048);
    assert_close(haul_tensor_grad(p), (double[]){2, 2, 2, 2}, 4, 0.01, "f16");
}

static void check_factors(haul_device *device, haul_dtype dtype, int64_t count, double value, double limit, double norm)
{
    haul_tensor      *p = haul_set_requires_grad(haul_to(haul_ones(dtype, HAUL_SHAPE(count)), device), true);
    haul_named_tensor list[] = {{.name = "p", .tensor = p}};
    assert_int_equal(haul_set_grad(p, haul_full_like(p, value)), HAUL_OK);
    double measured = haul_item(haul_clip_grad_norm(NULL, limit, .parameters = list, .count = 1));
    assert_true(fabs(measured - norm) < 1e-5 * norm);
    double first = haul_item(haul_slice(haul_tensor_grad(p), 0, 0, 1, 1)),
           want = value * fmin(1, limit / (norm + 1e-6));
    assert_true(fabs(first - want) < (dtype == HAUL_F16 || dtype == HAUL_BF16 ? 4e-3 : 1e-5) * want);
}

/* The squares of gradients, or the factor, are beyond their dtype. */
static void check_range_here(haul_device *device)
{
    check_factors(device, HAUL_F32, 100, 1e20, 1, 1e21);
    check_factors(device, HAUL_F32, 10000, 1e30, 3, 1e32);
    check_factors(device, HAUL_F32, 100, 1e-30, 1, 1e-29);
    check_factors(device, HAUL_F64, 100, 1e300, 1, 1e301);
    check_factors(device, HAUL_BF16, 100, ldexp(1, 80), 1, 10 * ldexp(1, 80));
    check_factors(device, HAUL_F16, 1000000, 32768, 100, 32768000);
}

static void test_clip_grad__squares_do_not_overflow(void **state)
{
    (void)state;
    on_devices(check_range_here);
}

static void test_clip_grad__by_the_norm(void **state)
{
    (void)state;
    on_devices(check_clip_here);
    haul_scope *scope = haul_scope_push();
    rig         r = rig_on(haul_cpu(), haul_cpu(), new_sgd);
    assert_refused(haul_clip_grad_norm(NULL, 1), HAUL_INVALID_ARGUMENT, "module");
    assert_refused(haul_clip_grad_norm(r.net, -1), HAUL_INVALID_ARGUMENT, "the limit is -1");
    assert_refused(haul_clip_grad_norm(r.net, NAN), HAUL_INVALID_ARGUMENT, "the limit is nan");
    haul_scope_pop(scope);
}

static void check_value_here(haul_device *device)
{
    rig    r = rig_on(haul_cpu(), device, new_sgd);
    double g[SIZE], b[3];
    set_gradients(&r, 1, 1, NAN);
    assert_int_equal(read_values(haul_tensor_grad(r.a), g, SIZE), HAUL_OK);
    assert_int_equal(read_values(haul_tensor_grad(r.b), b, 3), HAUL_OK);
    assert_int_equal(haul_clip_grad_value(r.net, 0.5), HAUL_OK);
    for (int i = 0; i < SIZE; i++)
        g[i] = fmin(fmax(g[i], -0.5), 0.5);
    for (int i = 0; i < 2; i++)
        b[i] = fmin(fmax(b[i], -0.5), 0.5);
    assert_close(haul_tensor_grad(r.a), g, SIZE, 0, "clamped");
    double after[3];
    assert_int_equal(read_values(haul_tensor_grad(r.b), after, 3), HAUL_OK);
    assert_true(after[0] == b[0] && after[1] == b[1] && isnan(after[2]));
}

static void test_clip_grad__by_value(void **state)
{
    (void)state;
    on_devices(check_value_here);
    haul_scope *scope = haul_scope_push();
    rig         r = rig_on(haul_cpu(), haul_cpu(), new_sgd);
    assert_int_equal(haul_clip_grad_value(r.net, -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_clip_grad_value(NULL, 1), HAUL_INVALID_ARGUMENT);
    haul_scope_pop(scope);
}

/* The gradients of a list and of an optimizer are others than those of the module. */
static void test_clip_grad__of_lists_and_optimizers(void **state)
{
    (void)state;
    haul_scope       *scope = haul_scope_push();
    rig               r = rig_on(haul_cpu(), haul_cpu(), new_sgd);
    haul_named_tensor list[] = {{"b", r.b, false}, {"b", r.b, false}};
    haul_optimizer   *of_b = haul_sgd(NULL, 1, .parameters = list, .count = 2);
    for (int i = 0; i < 2; i++) {
        double a[SIZE], b[3];
        set_gradients(&r, 1, 1, 0);
        assert_int_equal(read_values(haul_tensor_grad(r.a), a, SIZE), HAUL_OK);
        assert_int_equal(read_values(haul_tensor_grad(r.b), b, 3), HAUL_OK);
        double       norm = sqrt(b[0] * b[0] + b[1] * b[1] + b[2] * b[2]);
        haul_tensor *before = i ? haul_clip_grad_norm(NULL, 0.5, .optimizer = of_b)
                                : haul_clip_grad_norm(NULL, 0.5, .parameters = list, .count = 2);
        assert_true(fabs(haul_item(before) - norm) < 1e-6);
        for (int k = 0; k < 3; k++)
            b[k] *= 0.5 / (norm + 1e-6);
        assert_close(haul_tensor_grad(r.a), a, SIZE, 0, "not in the list");
        assert_close(haul_tensor_grad(r.b), b, 3, 1e-7, "in the list");
    }
    assert_refused(haul_clip_grad_norm(r.net, 1, .optimizer = of_b), HAUL_INVALID_ARGUMENT, "one of the module");
    haul_scope_pop(scope);
}

/* Without a scope nothing could own the norm: this is known before a gradient is scaled. */
static void test_clip_grad__without_a_scope_changes_nothing(void **state)
{
    (void)state;
    double      a[SIZE];
    haul_scope *scope = haul_scope_push();
    rig         r = rig_on(haul_cpu(), haul_cpu(), new_sgd);
    set_gradients(&r, 1, 1, 0);
    assert_int_equal(read_values(haul_tensor_grad(r.a), a, SIZE), HAUL_OK);
    haul_module *net = haul_keep(r.net);
    haul_tensor *p = haul_keep(r.a);
    haul_scope_pop(scope);
    assert_refused(haul_clip_grad_norm(net, 1e-3), HAUL_STATE, "no scope is open");
    scope = haul_scope_push();
    assert_close(haul_tensor_grad(p), a, SIZE, 0, "not scaled");
    haul_scope_pop(scope);
    haul_release(net);
    haul_release(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clip_grad__by_the_norm),
        cmocka_unit_test(test_clip_grad__squares_do_not_overflow),
        cmocka_unit_test(test_clip_grad__by_value),
        cmocka_unit_test(test_clip_grad__of_lists_and_optimizers),
        cmocka_unit_test(test_clip_grad__without_a_scope_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
