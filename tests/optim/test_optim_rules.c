/* Optimizers of src/optim/rules and AMSGrad: against the newest PyTorch's numbers on every device, their states, and
 * their settings.
 *
 * ctest: cuda; sim; ptx */
#include "support/devices/optimizers.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/conformance/conformance.h"
#include "support/failure.h"
#include "support/scope.h"

enum { SIZE = 6, STEPS = 12 };

static cJSON *golden;

static int load_golden(void **state)
{
    static char text[60000];
    FILE       *f = fopen(HAUL_SOURCE "/tests/golden/optimizers_f64.json", "r");
    size_t      size = f ? fread(text, 1, sizeof text - 1, f) : 0;
    (void)state;
    if (f)
        fclose(f);
    text[size] = 0;
    golden = cJSON_Parse(text);
    return !golden;
}

static int free_golden(void **state)
{
    (void)state;
    cJSON_Delete(golden);
    return 0;
}

static const cJSON *item(const cJSON *object, const char *name)
{
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(object, name);
    assert_non_null(found);
    return found;
}

static haul_tensor *identity(haul_module *m, haul_args *args)
{
    (void)m;
    return args->x[0];
}

/* A module with the golden run's parameter "p". */
static haul_module *module_with_p(haul_dtype dtype)
{
    double       values[SIZE];
    haul_module *m = haul_module_new("one", identity);
    for (int i = 0; i < SIZE; i++)
        values[i] = cJSON_GetArrayItem(item(golden, "start"), i)->valuedouble;
    haul_tensor *p = haul_cast(haul_from_host(HAUL_F64, HAUL_SHAPE(SIZE), values), dtype);
    assert_int_equal(haul_module_add_parameter(m, "p", haul_detach(p)), HAUL_OK);
    return m;
}

static void set_gradient(haul_module *m, int step)
{
    float        values[SIZE];
    haul_tensor *p = haul_module_parameter(m, "p");
    for (int i = 0; i < SIZE; i++)
        values[i] = (float)((i * 7 + step * 5) % 11 - 5) / 4;
    haul_tensor *g = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(SIZE), values), haul_tensor_device(p),
                             .dtype = haul_tensor_dtype(p));
    assert_int_equal(haul_set_grad(p, g), HAUL_OK);
}

static void steps(haul_module *m, haul_optimizer *o, int first, int last)
{
    for (int i = first; i < last; i++) {
        set_gradient(m, i);
        if (haul_optimizer_step(o))
            fail_msg("%s", haul_error_message());
    }
}

static void read_p(haul_module *m, double *out)
{
    assert_int_equal(read_values(haul_module_parameter(m, "p"), out, SIZE), HAUL_OK);
}

/* ---- against PyTorch ---- */

/* The tolerance is one of each step, relative to numbers of at least 1. */
static void check_golden(const optimizer_case *c, haul_dtype dtype, double tolerance)
{
    haul_scope     *inner = haul_scope_push();
    haul_module    *m = module_with_p(dtype);
    haul_optimizer *o = c->make(m);
    const cJSON    *want = item(item(golden, "after"), c->name);
    assert_non_null(o);
    for (int step = 0; step < STEPS; step++) {
        double got[SIZE];
        steps(m, o, step, step + 1);
        read_p(m, got);
        for (int i = 0; i < SIZE; i++) {
            double wanted = cJSON_GetArrayItem(cJSON_GetArrayItem(want, step), i)->valuedouble;
            if (!(fabs(got[i] - wanted) <= tolerance * (step + 1) * fmax(fabs(wanted), 1)))
                fail_msg("%s, step %d, element %d: %.17g, PyTorch has %.17g", c->name, step, i, got[i], wanted);
        }
    }
    haul_scope_pop(inner);
}

static void test_optim_rules__follow_pytorch(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    assert_true(count >= 1);
    for (int d = 0; d < count; d++)
        for (int k = 0; k < OPTIMIZER_CASES; k++) {
            assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
            check_golden(&optimizer_cases[k], HAUL_F64, 4e-16);
            check_golden(&optimizer_cases[k], HAUL_F32, 2e-7);
            check_golden(&optimizer_cases[k], HAUL_F16, 2e-3);
            check_golden(&optimizer_cases[k], HAUL_BF16, 2e-2);
        }
    haul_set_device(haul_cpu());
}

/* ---- state ---- */

static void test_optim_rules__continue_from_saved_state(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    for (int d = 0; d < count; d++)
        for (int k = 0; k < OPTIMIZER_CASES; k++) {
            double            want[SIZE], got[SIZE];
            haul_named_tensor saved[8];
            assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
            haul_module    *a = module_with_p(HAUL_F32), *b = module_with_p(HAUL_F32);
            haul_optimizer *whole = optimizer_cases[k].make(a), *first = optimizer_cases[k].make(b);
            haul_optimizer *second = optimizer_cases[k].make(b);
            steps(a, whole, 0, STEPS);
            read_p(a, want);
            steps(b, first, 0, 7);
            const int states = haul_optimizer_state(first, saved, 8);
            assert_in_range(states, optimizer_cases[k].states, optimizer_cases[k].states + 1);
            assert_int_equal(haul_optimizer_load_state(second, saved, states, 7), HAUL_OK);
            steps(b, second, 7, STEPS);
            read_p(b, got);
            assert_memory_equal(want, got, sizeof want);
        }
    haul_set_device(haul_cpu());
}

/* Groups, a schedule, clipped gradients and a file: as one training that is not interrupted. */
static void test_optim_rules__continue_from_checkpoints(void **state)
{
    (void)state;
    for (int k = 0; k < OPTIMIZER_CASES; k++) {
        double want[2][12], got[2][12];
        for (int resumed = 0; resumed < 2; resumed++) {
            haul_scope *part = haul_scope_push();
            haul_manual_seed(3);
            haul_module    *net = HAUL_SEQUENTIAL(haul_nn_linear(4, 3), haul_nn_linear(3, 2));
            haul_optimizer *o = NULL;
            haul_schedule  *s = NULL;
            for (int step = 0; step < 6; step++) {
                if (step == 0 || (resumed && step == 3)) {
                    haul_training_position position = {0};
                    if (step)
                        assert_int_equal(
                            haul_save_checkpoint("rules.ckpt", net, o, .schedules = &s, .schedule_count = 1), HAUL_OK);
                    o = optimizer_cases[k].make(net);
                    assert_int_equal(haul_optimizer_add_group(o, .names = "*bias", .lr = 0.5), 1);
                    s = haul_schedule_cosine(o, 9);
                    if (step)
                        assert_int_equal(haul_load_checkpoint("rules.ckpt", net, o, .schedules = &s,
                                                              .schedule_count = 1, .position = &position),
                                         HAUL_OK);
                }
                haul_tensor *y = haul_call(net, haul_full(HAUL_F32, HAUL_SHAPE(2, 4), 0.25 * step));
                assert_int_equal(haul_backward(haul_mean(haul_square(y))), HAUL_OK);
                assert_int_equal(haul_tensor_check(haul_clip_grad_norm(NULL, 0.5, .optimizer = o)), HAUL_OK);
                assert_int_equal(haul_optimizer_step(o), HAUL_OK);
                assert_int_equal(haul_optimizer_zero_grad(o), HAUL_OK);
                assert_int_equal(haul_schedule_step(s), HAUL_OK);
            }
            double(*to)[12] = resumed ? got : want;
            assert_int_equal(read_values(haul_module_parameter(net, "0.weight"), to[0], 12), HAUL_OK);
            assert_int_equal(read_values(haul_module_parameter(net, "1.bias"), to[1], 2), HAUL_OK);
            haul_scope_pop(part);
        }
        assert_memory_equal(want[0], got[0], sizeof want[0]);
        assert_memory_equal(want[1], got[1], 2 * sizeof **want);
    }
}

/* ---- settings ---- */

static void test_optim_rules__settings_have_limits(void **state)
{
    (void)state;
    haul_module    *m = module_with_p(HAUL_F32);
    haul_optimizer *o = haul_adadelta(m, 1);
    assert_string_equal(haul_optimizer_kind(o), "adadelta");
    assert_true(haul_optimizer_get(o, 0, "rho") == 0.9 && haul_optimizer_get(o, 0, "eps") == 1e-6);
    assert_int_equal(haul_optimizer_set(o, 0, "rho", 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_optimizer_set(o, 0, "momentum", 0.5), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "(adadelta) has no setting 'momentum'; it has lr, rho, eps"));
    assert_int_equal(haul_optimizer_add_group(o, .names = "p", .rho = 0.5), 1);
    assert_true(haul_optimizer_get(o, 1, "rho") == 0.5);
    assert_null(haul_adagrad(m, 0.1, .initial_accumulator_value = -1));
    assert_non_null(strstr(haul_error_message(), "haul_adagrad: initial_accumulator_value is -1"));
    assert_null(haul_nadam(m, 0.1, .betas = {1, 0.5}));
    assert_null(haul_radam(m, -1));
    assert_null(haul_lion(NULL, 1));
    o = haul_adagrad(m, 0.1);
    assert_null(haul_schedule_one_cycle(o, 0.1, 10));
    assert_non_null(strstr(haul_error_message(), "this optimizer (adagrad) has no momentum"));
    assert_non_null(haul_schedule_one_cycle(o, 0.1, 10, .fixed_momentum = true));
    haul_optimizer *lion = haul_lion(m, 0.1);
    assert_int_equal(haul_schedule_step(haul_schedule_one_cycle(lion, 0.1, 10)), HAUL_OK);
}

/* Without AMSGrad its state is dropped, and with it again it begins anew. */
static void test_optim_rules__amsgrad_is_a_setting(void **state)
{
    haul_named_tensor saved[8];
    (void)state;
    haul_module    *m = module_with_p(HAUL_F32);
    haul_optimizer *o = haul_adam(m, 0.01, .amsgrad = true);
    steps(m, o, 0, 2);
    assert_int_equal(haul_optimizer_state(o, saved, 8), 4);
    assert_string_equal(saved[2].name, "p.max_exp_avg_sq");
    assert_int_equal(haul_optimizer_set(o, 0, "amsgrad", 0), HAUL_OK);
    assert_int_equal(haul_optimizer_state(o, saved, 8), 3);
    steps(m, o, 2, 3);
    assert_int_equal(haul_optimizer_set(o, 0, "amsgrad", 1), HAUL_OK);
    steps(m, o, 3, 4);
    assert_int_equal(haul_optimizer_state(o, saved, 8), 4);
    assert_int_equal(haul_optimizer_set(o, 0, "amsgrad", 2), HAUL_INVALID_ARGUMENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_optim_rules__follow_pytorch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__continue_from_saved_state, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__continue_from_checkpoints, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__settings_have_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__amsgrad_is_a_setting, setup, teardown),
    };
    return cmocka_run_group_tests(tests, load_golden, free_golden);
}
