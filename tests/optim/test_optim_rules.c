/* Optimizers of src/optim/rules, AMSGrad, and optimizers of the program: against the newest PyTorch's numbers on every
 * device, their states, and their settings.
 *
 * ctest: cuda; sim; ptx */
#include "support/devices/optimizers.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/conformance/conformance.h"
#include "support/conformance/golden.h"
#include "support/failure.h"
#include "support/scope.h"

enum { SIZE = 6, STEPS = 12 };

static cJSON *golden;

/* ---- optimizers of the program ---- */

static haul_status sign_sgd(const haul_optimizer_update *u, void *context)
{
    haul_tensor *p = u->parameter, *m = u->states[0];
    (void)context;
    assert_true(u->states[1] == HAUL_NONE && u->step >= 1);
    if (haul_lerp_scalar_into(m, u->gradient, m, u->settings[1]))
        return haul_error_status();
    return haul_sub_into(p, p, haul_mul_scalar(haul_sign(m), u->settings[0]));
}

static haul_optimizer *make_sign_sgd(haul_module *net)
{
    return haul_optimizer_new("sign_sgd", sign_sgd, .module = net,
                              .settings = {{"lr", 0.01}, {"momentum", 0.9, .below = 1}}, .states = {"momentum"});
}

enum { ADAM_LR, ADAM_BETA1, ADAM_BETA2, ADAM_EPS };

static haul_status own_adam(const haul_optimizer_update *u, void *context)
{
    const double *s = u->settings, b1 = 1 - pow(s[ADAM_BETA1], (double)u->step);
    const double  b2 = 1 - pow(s[ADAM_BETA2], (double)u->step);
    haul_tensor  *p = u->parameter, *m = u->states[0], *v = u->states[1], *g = u->gradient;
    (void)context;
    haul_lerp_scalar_into(m, m, g, 1 - s[ADAM_BETA1]);
    haul_lerp_scalar_into(v, v, haul_mul(g, g), 1 - s[ADAM_BETA2]);
    haul_tensor *d = haul_add_scalar(haul_mul_scalar(haul_sqrt(v), 1 / sqrt(b2)), s[ADAM_EPS]);
    return haul_sub_into(p, p, haul_mul_scalar(haul_div(m, d), s[ADAM_LR] / b1));
}

static haul_optimizer *make_own_adam(haul_module *net)
{
    return haul_optimizer_new("own_adam", own_adam, .module = net,
                              .settings = {{"lr", 0.01}, {"beta1", 0.9, 0, 1}, {"beta2", 0.999, 0, 1}, {"eps", 1e-8}},
                              .states = {"exp_avg", "exp_avg_sq"});
}

OPTIMIZER_CASE(lamb, haul_lamb(net, 0.01))
OPTIMIZER_CASE(lamb_all, haul_lamb(net, 0.01, .betas = {0.8, 0.95}, .eps = 1e-4, .weight_decay = 0.1))

/* They make their steps with operations. */
static const optimizer_case own_cases[] = {{"sign sgd", make_sign_sgd, 1},
                                           {"adam", make_own_adam, 2},
                                           {"lamb", optimizer_lamb, 2},
                                           {"lamb all", optimizer_lamb_all, 2}};
enum { CASES = OPTIMIZER_CASES + sizeof own_cases / sizeof *own_cases };

static const optimizer_case *case_at(int k)
{
    return k < OPTIMIZER_CASES ? &optimizer_cases[k] : &own_cases[k - OPTIMIZER_CASES];
}

/* ---- the golden run ---- */

static int load_golden(void **state)
{
    (void)state;
    golden = read_golden_json("optimizers_f64.json");
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
        for (int k = 0; k < CASES; k++) {
            assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
            check_golden(case_at(k), HAUL_F64, 4e-16);
            check_golden(case_at(k), HAUL_F32, 2e-7);
            if (case_at(k)->make == make_sign_sgd ||
                case_at(k)->make == make_own_adam) /* operations on halves round after each other */
                continue;
            check_golden(case_at(k), HAUL_F16, 2e-3);
            check_golden(case_at(k), HAUL_BF16, 2e-2);
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
        for (int k = 0; k < CASES; k++) {
            double            want[SIZE], got[SIZE];
            haul_named_tensor saved[8];
            assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
            haul_module    *a = module_with_p(HAUL_F32), *b = module_with_p(HAUL_F32);
            haul_optimizer *whole = case_at(k)->make(a), *first = case_at(k)->make(b);
            haul_optimizer *second = case_at(k)->make(b);
            steps(a, whole, 0, STEPS);
            read_p(a, want);
            steps(b, first, 0, 7);
            const int states = haul_optimizer_state(first, saved, 8);
            assert_in_range(states, case_at(k)->states, case_at(k)->states + 1);
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
    for (int k = 0; k < CASES; k++) {
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
                    o = case_at(k)->make(net);
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

/* ---- optimizers of the program ---- */

static haul_status fail_at_second(const haul_optimizer_update *u, void *context)
{
    return ++*(int *)context == 2 ? HAUL_INTERRUPTED
                                  : haul_sub_into(u->parameter, u->parameter, haul_mul_scalar(u->gradient, 0.5));
}

static void expect(const void *made, haul_status want, const char *piece)
{
    assert_null(made);
    if (haul_error_status() != want || !strstr(haul_error_message(), piece))
        fail_msg("%s", haul_error_message());
    haul_error_clear();
}

static void test_optim_rules__own_optimizers_refuse(void **state)
{
    (void)state;
    haul_module *m = module_with_p(HAUL_F32);
    expect(haul_optimizer_new("a", NULL, .module = m, .settings = {{"lr", 1}}), HAUL_INVALID_ARGUMENT,
           "function is NULL");
    expect(haul_optimizer_new("a b", sign_sgd, .module = m, .settings = {{"lr", 1}}), HAUL_INVALID_ARGUMENT,
           "'a b' is not a name");
    expect(haul_optimizer_new("a", sign_sgd, .module = m), HAUL_INVALID_ARGUMENT, "the first setting is ''");
    expect(haul_optimizer_new("a", sign_sgd, .module = m, .settings = {{"rate", 1}}), HAUL_INVALID_ARGUMENT,
           "the first setting is 'rate'");
    expect(haul_optimizer_new("a", sign_sgd, .module = m, .settings = {{"lr", 1}, {"lr", 1}}), HAUL_INVALID_ARGUMENT,
           "'lr' is there twice");
    expect(haul_optimizer_new("a", sign_sgd, .module = m, .settings = {{"lr", -1}}), HAUL_INVALID_ARGUMENT, "lr is -1");
    expect(haul_optimizer_new("a", sign_sgd, .module = m, .settings = {{"lr", 1}}, .states = {"m", "m"}),
           HAUL_INVALID_ARGUMENT, "'m' is there twice");
    expect(haul_optimizer_new("a", sign_sgd, .module = m, .settings = {{"lr", 1}}, .states = {"step"}),
           HAUL_INVALID_ARGUMENT, "saves itself");
    expect(haul_optimizer_new("a", sign_sgd, .settings = {{"lr", 1}}), HAUL_INVALID_ARGUMENT, "module");
    haul_optimizer *o = make_sign_sgd(m);
    assert_string_equal(haul_optimizer_kind(o), "sign_sgd");
    assert_int_equal(haul_optimizer_set(o, 0, "momentum", 1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_optimizer_set_offload(o, true), HAUL_UNSUPPORTED);
    assert_int_equal(haul_schedule_step(haul_schedule_one_cycle(o, 0.1, 10)), HAUL_OK);
    set_gradient(m, 0);
    assert_int_equal(haul_grad_scaler_step(haul_grad_scaler_new(o), o), HAUL_UNSUPPORTED);
    assert_non_null(strstr(haul_error_message(), "sign_sgd"));
}

/* As many settings and states as there may be. */
static void test_optim_rules__own_optimizers_with_all_parts(void **state)
{
    (void)state;
    haul_optimizer *o = haul_optimizer_new(
        "full", sign_sgd, .module = module_with_p(HAUL_F32),
        .settings = {{"lr", 1}, {"b", 0.5}, {"c"}, {"d"}, {"e"}, {"f"}, {"g"}, {"h"}}, .states = {"x", "y", "z"});
    assert_non_null(o);
    assert_int_equal(haul_optimizer_set(o, 0, "h", 2), HAUL_OK);
}

/* Where a norm is 0, the ratio is 1: the first step of a zero parameter has the size of the rate. */
static void test_optim_rules__lamb_of_zeros(void **state)
{
    (void)state;
    haul_tensor      *p = haul_set_requires_grad(haul_zeros(HAUL_F64, HAUL_SHAPE(2)), true);
    haul_named_tensor list[] = {{"p", p, false}};
    haul_optimizer   *o = haul_lamb(NULL, 0.5, .parameters = list, .count = 1, .eps = HAUL_ZERO);
    assert_string_equal(haul_optimizer_kind(o), "lamb");
    assert_int_equal(haul_set_grad(p, haul_full(HAUL_F64, HAUL_SHAPE(2), 3)), HAUL_OK);
    assert_int_equal(haul_optimizer_step(o), HAUL_OK);
    assert_true(fabs(haul_item(haul_sum(p)) + 1) < 1e-12);
    assert_int_equal(haul_set_grad(p, haul_zeros(HAUL_F64, HAUL_SHAPE(2))), HAUL_OK);
    assert_int_equal(haul_optimizer_step(o), HAUL_OK);
    assert_true(isfinite(haul_item(haul_sum(p))));
    assert_int_equal(haul_optimizer_set_offload(o, true), HAUL_UNSUPPORTED);
    assert_null(haul_lamb(NULL, -1, .parameters = list, .count = 1));
    assert_non_null(strstr(haul_error_message(), "haul_lamb: lr is -1"));
    assert_null(haul_lamb(NULL, 1, .parameters = list, .count = 1, .betas = {1, 0.5}));
}

/* The error of the function comes out of the step, which says for which parameter it failed. */
static void test_optim_rules__own_functions_fail(void **state)
{
    int calls = 0;
    (void)state;
    haul_tensor      *a = haul_ones(HAUL_F32, HAUL_SHAPE(2)), *b = haul_ones(HAUL_F32, HAUL_SHAPE(2));
    haul_named_tensor list[] = {{"a", haul_set_requires_grad(a, true), false},
                                {"b", haul_set_requires_grad(b, true), false}};
    haul_optimizer   *o = haul_optimizer_new("half", fail_at_second, .parameters = list, .count = 2,
                                             .settings = {{"lr", 1}}, .context = &calls);
    assert_int_equal(haul_backward(haul_sum(haul_add(a, b))), HAUL_OK);
    assert_int_equal(haul_optimizer_step(o), HAUL_INTERRUPTED);
    assert_non_null(strstr(haul_error_message(), "(half) failed for 'b' but recorded no error"));
    assert_true(haul_item(haul_sum(a)) == 1 && haul_item(haul_sum(b)) == 2);
    assert_int_equal(haul_optimizer_state(o, NULL, 0), 0);
}

static haul_status recorded(void *context)
{
    haul_optimizer   *o = context;
    haul_named_tensor p[1];
    haul_optimizer_parameters(o, 0, p, 1);
    haul_optimizer_zero_grad(o);
    haul_backward(haul_sum(haul_square(p->tensor)));
    return haul_optimizer_step(o);
}

/* A step is followed while the numbers stay the same, else it runs as it is; both give bit-identical results. */
static void test_optim_rules__own_optimizers_in_recordings(void **state)
{
    (void)state;
    for (int k = OPTIMIZER_CASES; k < CASES; k++) {
        double                want[SIZE], got[SIZE];
        haul_module          *a = module_with_p(HAUL_F32), *b = module_with_p(HAUL_F32);
        haul_optimizer       *plain = case_at(k)->make(a), *other = case_at(k)->make(b);
        haul_recording       *r = haul_recording_new(recorded, other);
        haul_recording_report report;
        haul_set_requires_grad(haul_module_parameter(a, "p"), true);
        haul_set_requires_grad(haul_module_parameter(b, "p"), true);
        for (int step = 0; step < 8; step++) {
            assert_int_equal(recorded(plain), HAUL_OK);
            if (haul_recording_run(r))
                fail_msg("%s", haul_error_message());
        }
        read_p(a, want);
        read_p(b, got);
        assert_memory_equal(want, got, sizeof want);
        assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
        assert_true(k == OPTIMIZER_CASES ? report.followed > 3 : report.eager > 3);
    }
}

/* ---- means that fade ---- */

OPTIMIZER_CASE(sgd_momentum, haul_sgd(net, 0.1, .momentum = 0.9))
OPTIMIZER_CASE(adam, haul_adam(net, 0.1))
OPTIMIZER_CASE(rmsprop_centered, haul_rmsprop(net, 0.1, .momentum = 0.9, .centered = true, .eps = 1))

static void set_all_gradients(haul_module *m, double value)
{
    haul_tensor *p = haul_module_parameter(m, "p");
    assert_int_equal(haul_set_grad(p, haul_full_like(p, value)), HAUL_OK);
}

static void expect_no_subnormals(haul_optimizer *o, const char *name)
{
    haul_named_tensor states[8];
    const int         count = haul_optimizer_state(o, states, 8);
    double            values[SIZE];
    assert_in_range(count, 1, 8);
    for (int i = 0; i < count; i++) {
        if (haul_tensor_count(states[i].tensor) != SIZE)
            continue;
        assert_int_equal(read_values(states[i].tensor, values, SIZE), HAUL_OK);
        for (int k = 0; k < SIZE; k++)
            if (fpclassify((float)values[k]) == FP_SUBNORMAL)
                fail_msg("%s: %s is %g", name, states[i].name, values[k]);
    }
}

/* Without gradients they become zero, and not subnormal numbers, which stay and are slow. */
static void test_optim_rules__means_fade_to_zero(void **state)
{
    static const optimizer_case cases[] = {
        {"sgd", optimizer_sgd_momentum, 1}, {"adam", optimizer_adam, 2},
        {"amsgrad", optimizer_amsgrad, 3},  {"rmsprop", optimizer_rmsprop_centered, 3},
        {"nadam", optimizer_nadam, 2},      {"radam", optimizer_radam, 2},
        {"lion", optimizer_lion, 1},
    };
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    for (int d = 0; d < count; d++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
            haul_module    *m = module_with_p(HAUL_F32);
            haul_optimizer *o = cases[k].make(m);
            for (int step = 0; step < 60; step++) {
                set_all_gradients(m, step ? 0 : 1e-36);
                assert_int_equal(haul_optimizer_step(o), HAUL_OK);
            }
            expect_no_subnormals(o, cases[k].name);
        }
    haul_set_device(haul_cpu());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_optim_rules__follow_pytorch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__continue_from_saved_state, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__continue_from_checkpoints, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__settings_have_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__amsgrad_is_a_setting, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__own_optimizers_refuse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__own_optimizers_with_all_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__lamb_of_zeros, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__own_functions_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__own_optimizers_in_recordings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_optim_rules__means_fade_to_zero, setup, teardown),
    };
    return cmocka_run_group_tests(tests, load_golden, free_golden);
}
