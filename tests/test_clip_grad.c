/* Clipping of gradients by their norm, on one device and over two.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <math.h>

#include "support/pair.h"

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
    assert_int_equal(haul_set_grad(p, haul_full_like(p, 1024)), HAUL_OK); /* whose square f16 does not hold */
    assert_true(haul_item(haul_clip_grad_norm(net, 4)) == 2048);
    assert_close(haul_tensor_grad(p), (double[]){2, 2, 2, 2}, 4, 0.01, "f16");
}

static void test_clip_grad__by_the_norm(void **state)
{
    (void)state;
    on_devices(check_clip_here);
    haul_scope *scope = haul_scope_push();
    rig         r = rig_on(haul_cpu(), haul_cpu(), new_sgd);
    assert_refused(haul_clip_grad_norm(NULL, 1), HAUL_INVALID_ARGUMENT, "module");
    assert_refused(haul_clip_grad_norm(r.net, -1), HAUL_INVALID_ARGUMENT, "max_norm is -1");
    assert_refused(haul_clip_grad_norm(r.net, NAN), HAUL_INVALID_ARGUMENT, "max_norm is nan");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clip_grad__by_the_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
