/* Training in bf16, and in f16 with its loss scaled, ends close to training in f32.
 *
 * ctest: cuda; labels=threads */
#include <haul/haul.h>
#include <math.h>

#include "support/linalg.h"

enum { POINTS = 64, TRAINING = 60 };

/* The loss after training a small network to separate two rings of points. */
static double trained(haul_device *device, haul_dtype dtype)
{
    float   points[POINTS][2];
    int64_t labels[POINTS];
    double  last = NAN;
    for (int i = 0; i < POINTS; i++) {
        double angle = 0.41 * i, radius = i % 2 ? 0.5 : 1.5;
        points[i][0] = (float)(radius * cos(angle));
        points[i][1] = (float)(radius * sin(angle));
        labels[i] = i % 2;
    }
    haul_scope *scope = haul_scope_push();
    haul_manual_seed(7);
    haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(2, 32), haul_nn_relu(), haul_nn_linear(32, 2));
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(POINTS, 2), points), device);
    haul_tensor *y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(POINTS), labels), device);
    assert_int_equal(haul_module_to(net, device), HAUL_OK);
    haul_optimizer   *adam = haul_adam(net, 0.03);
    haul_grad_scaler *scaler = dtype == HAUL_F16 ? haul_grad_scaler_new(adam, .init_scale = 1 << 24) : NULL;
    for (int step = 0; step < TRAINING; step++) {
        haul_scope         *inner = haul_scope_push();
        haul_autocast_state before = haul_autocast_begin("all", dtype);
        haul_tensor        *logits = haul_call(net, x), *loss = haul_cross_entropy(logits, y);
        assert_int_equal(haul_tensor_dtype(logits), dtype ? dtype : HAUL_F32);
        assert_int_equal(haul_autocast_end(before), HAUL_OK);
        assert_int_equal(haul_optimizer_zero_grad(adam), HAUL_OK);
        assert_int_equal(haul_backward(scaler ? haul_grad_scaler_scale(scaler, loss) : loss), HAUL_OK);
        assert_int_equal(scaler ? haul_grad_scaler_step(scaler, adam) : haul_optimizer_step(adam), HAUL_OK);
        if (scaler)
            assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
        if (step == TRAINING - 1)
            last = haul_item(loss);
        haul_scope_pop(inner);
    }
    if (scaler) { /* it began too high: steps were skipped, and it found a scale that does */
        assert_true(haul_grad_scaler_factor(scaler) < 1 << 24);
        assert_true(haul_optimizer_steps(adam) < TRAINING && haul_optimizer_steps(adam) > TRAINING - 20);
    }
    haul_scope_pop(scope);
    return last;
}

static void check_training(haul_device *device)
{
    double full = trained(device, HAUL_DTYPE_NONE), bf16 = trained(device, HAUL_BF16), f16 = trained(device, HAUL_F16);
    assert_true(full < 0.15);
    if (!(fabs(bf16 - full) < 0.05 && fabs(f16 - full) < 0.1))
        fail_msg("the loss is %g in f32, %g in bf16, %g in f16", full, bf16, f16);
}

static void test_mixed_precision__training_is_close_to_f32(void **state)
{
    (void)state;
    on_devices(check_training);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mixed_precision__training_is_close_to_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
