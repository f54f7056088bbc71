/* Optimizers: against PyTorch's numbers on every device, their state, and what a failing step leaves.
 *
 * ctest: cuda; sim; labels=threads; ptx */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "support/conformance/conformance.h"
#include "support/conformance/golden.h"
#include "support/scope.h"

enum { SIZE = 6, STEPS = 5 };

static cJSON *golden;

static int load_golden(void **state)
{
    (void)state;
    golden = read_golden_json("optimizers.json");
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
    float        values[SIZE];
    haul_module *m = haul_module_new("one", identity);
    const cJSON *start = item(golden, "start");
    for (int i = 0; i < SIZE; i++)
        values[i] = (float)cJSON_GetArrayItem(start, i)->valuedouble;
    haul_tensor *p = haul_cast(haul_from_host(HAUL_F32, HAUL_SHAPE(SIZE), values), dtype);
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

static void read_p(haul_module *m, double *out)
{
    haul_tensor *p = haul_to(haul_detach(haul_module_parameter(m, "p")), haul_cpu(), .dtype = HAUL_F64);
    assert_int_equal(haul_read(p, out, SIZE * sizeof *out), HAUL_OK);
}

static haul_optimizer *make(const char *name, haul_module *m)
{
    if (!strcmp(name, "sgd"))
        return haul_sgd(m, 0.1);
    if (!strcmp(name, "sgd momentum"))
        return haul_sgd(m, 0.1, .momentum = 0.9);
    if (!strcmp(name, "sgd dampening"))
        return haul_sgd(m, 0.1, .momentum = 0.9, .dampening = 0.5);
    if (!strcmp(name, "sgd nesterov"))
        return haul_sgd(m, 0.1, .momentum = 0.9, .nesterov = true);
    if (!strcmp(name, "sgd decay"))
        return haul_sgd(m, 0.1, .momentum = 0.9, .weight_decay = 0.01);
    if (!strcmp(name, "adam"))
        return haul_adam(m, 0.01);
    if (!strcmp(name, "adam betas"))
        return haul_adam(m, 0.01, .betas = {0.8, 0.95}, .eps = 1e-4);
    if (!strcmp(name, "adam decay"))
        return haul_adam(m, 0.01, .weight_decay = 0.1);
    if (!strcmp(name, "adamw"))
        return haul_adamw(m, 0.01, .weight_decay = 0.1);
    if (!strcmp(name, "adamw default"))
        return haul_adamw(m, 0.01);
    if (!strcmp(name, "rmsprop"))
        return haul_rmsprop(m, 0.01);
    if (!strcmp(name, "rmsprop alpha"))
        return haul_rmsprop(m, 0.01, .alpha = 0.9, .eps = 1e-4);
    if (!strcmp(name, "rmsprop momentum"))
        return haul_rmsprop(m, 0.01, .momentum = 0.9);
    if (!strcmp(name, "rmsprop centered"))
        return haul_rmsprop(m, 0.01, .centered = true);
    if (!strcmp(name, "rmsprop all"))
        return haul_rmsprop(m, 0.01, .alpha = 0.95, .momentum = 0.5, .centered = true, .weight_decay = 0.1);
    return NULL;
}

/* ---- against PyTorch ---- */

static void check_golden(const cJSON *want, haul_dtype dtype, double tolerance)
{
    haul_scope     *inner = haul_scope_push();
    haul_module    *m = module_with_p(dtype);
    haul_optimizer *o = make(want->string, m);
    assert_non_null(o);
    for (int step = 0; step < STEPS; step++) {
        double got[SIZE];
        set_gradient(m, step);
        assert_int_equal(haul_optimizer_step(o), HAUL_OK);
        read_p(m, got);
        for (int i = 0; i < SIZE; i++) {
            double wanted = cJSON_GetArrayItem(cJSON_GetArrayItem(want, step), i)->valuedouble;
            if (fabs(got[i] - wanted) > tolerance * fmax(fabs(wanted), 1))
                fail_msg("%s, step %d, element %d: %.9g, PyTorch has %.9g", want->string, step, i, got[i], wanted);
        }
    }
    haul_scope_pop(inner);
}

static void test_optim__follows_pytorch(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8), cases = 0;
    const cJSON *want;
    (void)state;
    assert_true(count >= 1);
    for (int d = 0; d < count; d++) {
        assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
        cJSON_ArrayForEach(want, item(golden, "after"))
        {
            check_golden(want, HAUL_F32, 2.5e-7); /* about two units in the last place: PyTorch fuses some steps */
            check_golden(want, HAUL_F64, 2e-6);
            cases += 2;
        }
    }
    assert_true(cases >= 30);
}

/* ---- state ---- */

static void steps(haul_module *m, haul_optimizer *o, int first, int last)
{
    for (int i = first; i < last; i++) {
        set_gradient(m, i);
        assert_int_equal(haul_optimizer_step(o), HAUL_OK);
    }
}

/* In f64, how far centered RMSprop moves a parameter in this many steps with gradient 1. */
static double centred_way(int steps_made)
{
    double s = 0, a = 0, way = 0;
    for (int i = 0; i < steps_made; i++) {
        s = 0.99 * s + 0.01;
        a = 0.99 * a + 0.01;
        way += 0.01 / (sqrt(s - a * a) + 1e-8);
    }
    return way;
}

/* Constant gradients, whose variance soon is less than its rounding error. */
static void check_constant_gradients(haul_device *device, haul_dtype dtype)
{
    enum { EARLY = 300, LATE = 3000 };
    static const float sizes[] = {1, -1, 3e-4f, 0.7f, 100, 1.0f / 3};
    haul_tensor       *g = haul_to(haul_cast(haul_from_host(HAUL_F32, HAUL_SHAPE(SIZE), sizes), dtype), device);
    haul_tensor       *p = haul_set_requires_grad(haul_zeros_like(g), true);
    haul_named_tensor  list[] = {{.name = "p", .tensor = p}}, state[3];
    haul_optimizer    *o = haul_rmsprop(NULL, 0.01, .centered = true, .parameters = list, .count = 1);
    double             at[SIZE];
    assert_int_equal(haul_set_grad(p, g), HAUL_OK);
    for (int step = 1; step <= LATE; step++) {
        assert_int_equal(haul_optimizer_step(o), HAUL_OK);
        if (step != EARLY || dtype != HAUL_F32)
            continue;
        assert_int_equal(read_values(p, at, SIZE), HAUL_OK);
        for (int i = 0; i < SIZE; i++)
            assert_true(fabs(at[i] * (i == 1 ? 1 : -1) - centred_way(EARLY)) < 1e-2 * centred_way(EARLY));
    }
    assert_true(haul_item(haul_all(haul_isfinite(p))));
    assert_int_equal(haul_optimizer_state(o, state, 3), 2);
    assert_true(haul_item(haul_all(haul_isfinite(state[0].tensor))));
    /* a step goes against the gradient, by at most lr / sqrt(rounding error) */
    double most = 0.01 * sqrt(dtype == HAUL_F32 ? 16777216 : dtype == HAUL_F64 ? 9007199254740992.0 : 2048) * 1.01;
    haul_tensor *before = haul_clone(haul_detach(p));
    assert_int_equal(haul_optimizer_step(o), HAUL_OK);
    assert_int_equal(read_values(haul_mul(haul_sub(before, haul_detach(p)), haul_sign(g)), at, SIZE), HAUL_OK);
    for (int i = 0; i < SIZE; i++)
        assert_true(at[i] >= 0 && (at[i] <= most || dtype == HAUL_F16 || dtype == HAUL_BF16));
}

static void test_optim__centred_variance_is_not_negative(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    for (int i = 0; i < count; i++) {
        check_constant_gradients(devices[i], HAUL_F32);
        check_constant_gradients(devices[i], HAUL_F64);
        check_constant_gradients(devices[i], HAUL_F16);
        check_constant_gradients(devices[i], HAUL_BF16);
    }
}

static void check_continues(const char *kind)
{
    double            want[SIZE], got[SIZE];
    haul_named_tensor saved[4];
    haul_module      *a = module_with_p(HAUL_F32), *b = module_with_p(HAUL_F32);
    haul_optimizer   *whole = make(kind, a), *first = make(kind, b), *second = make(kind, b);
    steps(a, whole, 0, STEPS);
    read_p(a, want);
    steps(b, first, 0, 2);
    int count = haul_optimizer_state(first, saved, 4);
    assert_in_range(count, 1, 3);
    assert_int_equal(haul_optimizer_load_state(second, saved, count, haul_optimizer_steps(first)), HAUL_OK);
    assert_int_equal(haul_optimizer_steps(second), 2);
    haul_zero_into(saved[0].tensor); /* it was copied: this does not reach the second */
    steps(b, second, 2, STEPS);
    read_p(b, got);
    assert_memory_equal(want, got, sizeof want);
}

static void test_optim__continues_from_saved_state(void **state)
{
    (void)state;
    check_continues("sgd momentum");
    check_continues("adam");
    check_continues("adamw");
    check_continues("rmsprop all");
}

static void test_optim__state_is_named_by_parameter(void **state)
{
    haul_named_tensor saved[4];
    haul_module      *m = module_with_p(HAUL_F32);
    haul_optimizer   *o = make("adam", m);
    (void)state;
    assert_int_equal(haul_optimizer_state(o, saved, 4), 0);
    steps(m, o, 0, 3);
    assert_int_equal(haul_optimizer_state(o, saved, 4), 3);
    assert_string_equal(saved[0].name, "p.exp_avg");
    assert_string_equal(saved[1].name, "p.exp_avg_sq");
    assert_string_equal(saved[2].name, "p.step");
    assert_true(haul_item(saved[2].tensor) == 3);

    haul_optimizer *plain = make("sgd", m);
    steps(m, plain, 0, 1);
    assert_int_equal(haul_optimizer_state(plain, saved, 4), 0);
    haul_optimizer *momentum = make("sgd momentum", m);
    steps(m, momentum, 0, 1);
    assert_int_equal(haul_optimizer_state(momentum, saved, 4), 1);
    assert_string_equal(saved[0].name, "p.momentum");
}

static void test_optim__wrong_state_is_refused_and_changes_nothing(void **state)
{
    haul_named_tensor saved[4];
    haul_module      *m = module_with_p(HAUL_F32);
    haul_optimizer   *o = make("adam", m);
    (void)state;
    steps(m, o, 0, 2);
    assert_int_equal(haul_optimizer_state(o, saved, 4), 3);
    assert_int_equal(haul_optimizer_load_state(o, saved, 2, 2), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "'p.step' is missing"));
    haul_named_tensor wrong[] = {{"p.exp_average", saved[0].tensor, true}};
    assert_int_equal(haul_optimizer_load_state(o, wrong, 1, 2), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "p.exp_average"));
    haul_named_tensor twice[] = {saved[0], saved[0]};
    assert_int_equal(haul_optimizer_load_state(o, twice, 2, 2), HAUL_INVALID_ARGUMENT);
    haul_named_tensor small[] = {{"p.exp_avg", haul_zeros(HAUL_F32, HAUL_SHAPE(2)), true}, saved[1], saved[2]};
    assert_int_equal(haul_optimizer_load_state(o, small, 3, 2), HAUL_SHAPE);
    assert_int_equal(haul_optimizer_load_state(o, saved, 3, -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_optimizer_load_state(o, saved, 3, INT64_MAX), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "steps is 9223372036854775807; 0 to 9000000000000000 is expected"));
    assert_int_equal(haul_optimizer_steps(o), 2);
    haul_named_tensor after[4];
    assert_int_equal(haul_optimizer_state(o, after, 4), 3);
    assert_ptr_equal(after[0].tensor, saved[0].tensor);
}

/* ---- a step ---- */

static void test_optim__parameters_without_a_gradient_are_left_alone(void **state)
{
    double          before[SIZE], after[SIZE];
    haul_module    *m = module_with_p(HAUL_F32);
    haul_optimizer *o = haul_adam(m, 0.001, .weight_decay = 0.1);
    uint64_t        version = haul_tensor_version(haul_module_parameter(m, "p"));
    (void)state;
    read_p(m, before);
    assert_int_equal(haul_optimizer_step(o), HAUL_OK);
    read_p(m, after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(haul_tensor_version(haul_module_parameter(m, "p")), version);
    set_gradient(m, 0);
    assert_int_equal(haul_optimizer_step(o), HAUL_OK);
    assert_true(haul_tensor_version(haul_module_parameter(m, "p")) > version);
    assert_int_equal(haul_optimizer_zero_grad(o), HAUL_OK);
    assert_ptr_equal(haul_tensor_grad(haul_module_parameter(m, "p")), HAUL_NONE);
}

static void test_optim__shared_parameter_is_updated_once(void **state)
{
    double       once[SIZE], twice[SIZE];
    haul_module *a = module_with_p(HAUL_F32), *b = module_with_p(HAUL_F32);
    (void)state;
    assert_int_equal(haul_module_add_parameter(b, "again", haul_module_parameter(b, "p")), HAUL_OK);
    assert_int_equal(haul_module_parameter_count(b), SIZE);
    haul_optimizer *oa = make("sgd momentum", a), *ob = make("sgd momentum", b);
    steps(a, oa, 0, 2);
    steps(b, ob, 0, 2);
    read_p(a, once);
    read_p(b, twice);
    assert_memory_equal(once, twice, sizeof once);
}

/* Every host and device allocation, compile and launch of a first step is made to fail in turn. */
static void test_optim__step_that_cannot_allocate_changes_nothing(void **state)
{
    double before[SIZE], after[SIZE];
    int    failures = 0;
    (void)state;
    for (int64_t nth = 1;; nth++) {
        haul_scope     *inner = haul_scope_push();
        haul_module    *m = module_with_p(HAUL_F32);
        haul_optimizer *o = make("adam", m);
        set_gradient(m, 0);
        read_p(m, before);
        haul__fault_plan(HAUL__FAULT_HOST | HAUL__FAULT_DEVICE, nth);
        haul_status status = haul_optimizer_step(o);
        haul__fault_plan(0, 0);
        if (status == HAUL_OK) {
            haul_scope_pop(inner);
            break;
        }
        failures++;
        haul_error_clear();
        read_p(m, after);
        assert_memory_equal(before, after, sizeof before);
        assert_int_equal(haul_optimizer_steps(o), 0);
        assert_int_equal(haul_optimizer_step(o), HAUL_OK); /* and it can be tried again */
        haul_scope_pop(inner);
    }
    assert_true(failures >= 3);
}

static void test_optim__lr_can_be_changed(void **state)
{
    haul_module    *m = module_with_p(HAUL_F32);
    haul_optimizer *o = make("sgd", m);
    double          before[SIZE], after[SIZE];
    (void)state;
    assert_true(haul_optimizer_get(o, 0, "lr") == 0.1);
    assert_int_equal(haul_optimizer_set(o, 0, "lr", 0), HAUL_OK);
    read_p(m, before);
    steps(m, o, 0, 1);
    read_p(m, after);
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(haul_optimizer_set(o, 0, "lr", -1), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_optimizer_set(o, 0, "lr", NAN), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_optimizer_kind(o), "sgd");
    assert_ptr_equal(haul_optimizer_module(o), m);
}

static void test_optim__bad_settings_are_refused(void **state)
{
    haul_module *m = module_with_p(HAUL_F32);
    (void)state;
    assert_null(haul_sgd(m, -1));
    assert_string_equal(haul_error_argument(), "lr");
    assert_null(haul_sgd(m, 1, .nesterov = true));
    assert_string_equal(haul_error_argument(), "nesterov");
    assert_null(haul_sgd(m, 1, .momentum = NAN));
    assert_null(haul_adam(m, 0.001, .betas = {1, 0.5}));
    assert_string_equal(haul_error_argument(), "beta1");
    assert_null(haul_adam(haul_module_new("empty", identity), 1));
    assert_non_null(strstr(haul_error_message(), "no parameters"));
    haul_error_clear();
    assert_null(haul_sgd(NULL, 1));
    assert_int_equal(haul_optimizer_step(NULL), haul_error_status());
    assert_int_not_equal(haul_error_status(), HAUL_OK);
}

/* Gradients of parts of a batch add up to those of the whole, the same bits where the numbers are exact. */
static void test_optim__gradients_of_parts_add_up(void **state)
{
    (void)state;
    enum { BATCH = 8, PARTS = 4 };
    float x[BATCH * 3], y[BATCH], grads[2][3];
    for (int i = 0; i < BATCH * 3; i++)
        x[i] = (float)(i % 7 - 3) / 4;
    for (int i = 0; i < BATCH; i++)
        y[i] = (float)(i % 3 - 1);
    haul_tensor *all = haul_from_host(HAUL_F32, HAUL_SHAPE(BATCH, 3), x);
    haul_tensor *want = haul_from_host(HAUL_F32, HAUL_SHAPE(BATCH, 1), y);
    for (int parts = 1, k = 0; k < 2; k++, parts = PARTS) {
        haul_module *net = HAUL_SEQUENTIAL(haul_nn_linear(3, 1));
        haul_tensor *w = haul_module_parameter(net, "0.weight"), *b = haul_module_parameter(net, "0.bias");
        assert_int_equal(haul_fill_into(haul_detach(w), 0.5), HAUL_OK);
        assert_int_equal(haul_zero_into(haul_detach(b)), HAUL_OK);
        for (int i = 0, n = BATCH / parts; i < parts; i++) {
            haul_tensor *loss =
                haul_mse_loss(haul_call(net, haul_slice(all, 0, (int64_t)i * n, (int64_t)(i + 1) * n, 1)),
                              haul_slice(want, 0, (int64_t)i * n, (int64_t)(i + 1) * n, 1));
            assert_int_equal(haul_backward(haul_mul_scalar(loss, 1.0 / parts)), HAUL_OK);
        }
        assert_int_equal(haul_read(haul_tensor_grad(w), grads[k], sizeof grads[k]), HAUL_OK);
    }
    assert_memory_equal(grads[0], grads[1], sizeof grads[0]);
    assert_true(grads[0][0] != 0);
}

/* ---- devices ---- */

static void test_optim__state_follows_a_module_that_is_moved(void **state)
{
    haul_device *device = test_second_device();
    double       want[SIZE], got[SIZE];
    (void)state;
    if (!device)
        skip();
    haul_module    *a = module_with_p(HAUL_F32), *b = module_with_p(HAUL_F32);
    haul_optimizer *oa = make("sgd momentum", a), *ob = make("sgd momentum", b);
    steps(a, oa, 0, 4);
    steps(b, ob, 0, 2);
    assert_int_equal(haul_module_to(b, device), HAUL_OK);
    steps(b, ob, 2, 4);
    haul_named_tensor saved[1];
    assert_int_equal(haul_optimizer_state(ob, saved, 1), 1);
    assert_ptr_equal(haul_tensor_device(saved[0].tensor), device);
    read_p(a, want);
    read_p(b, got);
    assert_memory_equal(want, got, sizeof want);
}

static void test_optim__runs_on_meta(void **state)
{
    (void)state;
    assert_int_equal(haul_set_device(haul_device_get("meta")), HAUL_OK);
    haul_module *m = haul_module_new("one", identity);
    haul_tensor *p = haul_empty(HAUL_F32, HAUL_SHAPE(1000, 1000));
    assert_int_equal(haul_module_add_parameter(m, "p", p), HAUL_OK);
    haul_optimizer *o = haul_adam(m, 0.1);
    assert_int_equal(haul_set_grad(p, haul_empty(HAUL_F32, HAUL_SHAPE(1000, 1000))), HAUL_OK);
    assert_int_equal(haul_optimizer_step(o), HAUL_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_optim__##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(follows_pytorch),
        TEST(centred_variance_is_not_negative),
        TEST(continues_from_saved_state),
        TEST(state_is_named_by_parameter),
        TEST(wrong_state_is_refused_and_changes_nothing),
        TEST(parameters_without_a_gradient_are_left_alone),
        TEST(shared_parameter_is_updated_once),
        TEST(step_that_cannot_allocate_changes_nothing),
        TEST(lr_can_be_changed),
        TEST(bad_settings_are_refused),
        TEST(gradients_of_parts_add_up),
        TEST(state_follows_a_module_that_is_moved),
        TEST(runs_on_meta),
    };
    return cmocka_run_group_tests(tests, load_golden, free_golden);
}
