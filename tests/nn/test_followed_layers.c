/* Layers that are compositions, in followed steps: trained weights are those of steps without a recording.
 *
 * ctest: cuda; sim */
#include <haul/recording.h>

#include "support/failure.h"
#include "support/into.h"

enum { STEPS = 6 };

typedef struct training {
    haul_module    *nets[3];
    haul_optimizer *optimizers[3];
    haul_tensor    *volume, *steps, *lengths;
} training;

static haul_status step(void *context)
{
    training    *t = context;
    haul_scope  *scope = haul_scope_push();
    haul_status  status = HAUL_OK;
    haul_tensor *y = haul_call(t->nets[0], t->volume);
    haul_tensor *z = haul_call(t->nets[1], t->steps, HAUL_NONE, HAUL_NONE, t->lengths);
    haul_tensor *h = haul_call(t->nets[2], haul_select(z, 1, 0));
    haul_tensor *loss = haul_add(haul_mean(haul_square(y)), haul_add(haul_mean(haul_square(z)), haul_mean(h)));
    for (int i = 0; i < 3 && !status; i++)
        status = haul_optimizer_zero_grad(t->optimizers[i]);
    status = status ? status : haul_backward(loss);
    for (int i = 0; i < 3 && !status; i++)
        status = haul_optimizer_step(t->optimizers[i]);
    haul_scope_pop(scope);
    return status;
}

static training make(haul_device *device)
{
    haul_manual_seed(3);
    training t = {.nets = {HAUL_SEQUENTIAL(haul_nn_conv3d(2, 3, 2, .same = true), haul_nn_max_pool3d(2),
                                           haul_nn_conv_transpose3d(3, 2, 2), haul_nn_adaptive_avg_pool3d(2, 1, 3)),
                           haul_nn_lstm(3, 4, .layers = 2, .bidirectional = true), haul_nn_gru_cell(8, 3)},
                  .volume = haul_to(haul_uniform(HAUL_F32, HAUL_SHAPE(2, 2, 4, 4, 5), -1, 1), device),
                  .steps = haul_to(haul_uniform(HAUL_F32, HAUL_SHAPE(3, 4, 3), -1, 1), device),
                  .lengths = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(3), (int64_t[]){2, 4, 1}), device)};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(haul_module_place(t.nets[i], device), HAUL_OK);
        t.optimizers[i] = haul_sgd(t.nets[i], 0.1, .momentum = 0.9);
        assert_non_null(t.optimizers[i]);
    }
    return t;
}

static void follow(haul_device *device)
{
    haul_recording_report report;
    assert_int_equal(haul_set_device(device), HAUL_OK);
    training        plain = make(device), recorded = make(device);
    haul_recording *r = haul_recording_new(step, &recorded);
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(step(&plain), HAUL_OK);
        if (haul_recording_run(r))
            fail_msg("%s", haul_error_message());
    }
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    assert_true(report.followed >= STEPS - 3);
    for (int i = 0; i < 3; i++) {
        haul_named_tensor a[32], b[32];
        int               n = haul_module_tensors(plain.nets[i], a, 32);
        assert_true(n > 0 && haul_module_tensors(recorded.nets[i], b, 32) == n);
        for (int k = 0; k < n; k++)
            assert_equal_bits(haul_detach(b[k].tensor), haul_detach(a[k].tensor), a[k].name);
    }
}

static void test_followed_layers__equal_other_steps(void **state)
{
    (void)state;
    on_devices(follow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_followed_layers__equal_other_steps)};
    return cmocka_run_group_tests_name("followed_layers", tests, NULL, NULL);
}
