/* L-BFGS: against the newest PyTorch's numbers on every device, its state, its closures, and what it refuses.
 *
 * ctest: cuda; sim; ptx */
#include <cjson/cJSON.h>
#include <haul/haul.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/conformance/conformance.h"
#include "support/conformance/golden.h"
#include "support/failure.h"
#include "support/scope.h"

enum { MOST = 25, STEPS = 5 };

static cJSON *golden;

static int load_golden(void **state)
{
    (void)state;
    golden = read_golden_json("lbfgs.json");
    return !golden;
}

static int free_golden(void **state)
{
    (void)state;
    cJSON_Delete(golden);
    return 0;
}

/* ---- the problems of tools/golden/lbfgs.py ---- */

typedef struct problem {
    haul_named_tensor p[3];
    int               count;
    haul_tensor      *x, *y; /* of the network; else NULL */
    haul_optimizer   *optimizer;
    int               calls, fails_at; /* fails_at: 0: never */
    bool              returns_none;
} problem;

static haul_tensor *waves(haul_shape shape, haul_dtype dtype, double frequency)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    haul_tensor *t = haul_mul_scalar(haul_arange(HAUL_F64, 1, (double)count + 1, 1), frequency);
    return haul_cast(haul_reshape(haul_sin(t), shape), dtype);
}

static void add(problem *x, const char *name, haul_tensor *t)
{
    x->p[x->count++] = (haul_named_tensor){name, haul_set_requires_grad(haul_detach(t), true), false};
}

static problem rosenbrock(haul_dtype dtype)
{
    problem x = {.count = 0};
    add(&x, "p", haul_cast(haul_from_host(HAUL_F64, HAUL_SHAPE(2), (double[]){-1.5, 2}), dtype));
    return x;
}

static problem network(haul_dtype dtype)
{
    problem x = {.x = waves(HAUL_SHAPE(8, 3), dtype, 0.9), .y = waves(HAUL_SHAPE(8, 1), dtype, 0.7)};
    add(&x, "w", waves(HAUL_SHAPE(5, 3), dtype, 1.7));
    add(&x, "b", waves(HAUL_SHAPE(5), dtype, 2.3));
    add(&x, "v", waves(HAUL_SHAPE(1, 5), dtype, 3.1));
    return x;
}

static haul_tensor *loss_of(const problem *x)
{
    if (x->x) {
        haul_tensor *h = haul_add(haul_matmul(x->x, haul_transpose(x->p[0].tensor, 0, 1)), x->p[1].tensor);
        haul_tensor *y = haul_matmul(haul_tanh(h), haul_transpose(x->p[2].tensor, 0, 1));
        return haul_mean(haul_square(haul_sub(y, x->y)));
    }
    haul_tensor *a = haul_select(x->p[0].tensor, 0, 0), *b = haul_select(x->p[0].tensor, 0, 1);
    haul_tensor *bend = haul_square(haul_sub(b, haul_square(a)));
    return haul_add(haul_square(haul_affine(a, -1, 1)), haul_mul_scalar(bend, 10));
}

static haul_tensor *closure(void *context)
{
    problem *x = context;
    if (++x->calls == x->fails_at) {
        haul_error_set(HAUL_INTERRUPTED, "the program", NULL, "stops here");
        return NULL;
    }
    haul_optimizer_zero_grad(x->optimizer);
    haul_tensor *loss = loss_of(x);
    haul_backward(loss);
    return x->returns_none ? NULL : loss;
}

#define LBFGS(problem, rate, ...)                                                                                      \
    ((problem)->optimizer = haul_lbfgs(NULL, rate, .parameters = (problem)->p, .count = (problem)->count, __VA_ARGS__))

static haul_optimizer *make(problem *x, const char *name)
{
    if (!strcmp(name, "fixed"))
        return LBFGS(x, 0.1, .line_search = HAUL_LBFGS_NONE);
    if (!strcmp(name, "fixed history"))
        return LBFGS(x, 0.2, .history_size = 3, .max_iter = 7, .tolerance_change = 1e-12);
    if (!strcmp(name, "wolfe"))
        return LBFGS(x, 1, .line_search = HAUL_LBFGS_STRONG_WOLFE, .max_iter = 5);
    if (!strcmp(name, "wolfe history"))
        return LBFGS(x, 0.5, .line_search = HAUL_LBFGS_STRONG_WOLFE, .history_size = 2, .max_iter = 6, .max_eval = 9);
    if (!strcmp(name, "wolfe long"))
        return LBFGS(x, 4, .line_search = HAUL_LBFGS_STRONG_WOLFE, .max_iter = 4);
    assert_string_equal(name, "wolfe few");
    return LBFGS(x, 1, .line_search = HAUL_LBFGS_STRONG_WOLFE, .max_iter = 8, .max_eval = 3);
}

static int read_all(const problem *x, double *out)
{
    int at = 0;
    for (int i = 0; i < x->count; i++) {
        assert_int_equal(read_values(x->p[i].tensor, out + at, MOST - at), HAUL_OK);
        at += (int)haul_tensor_count(x->p[i].tensor);
    }
    return at;
}

static haul_tensor *step(problem *x)
{
    haul_tensor *loss = haul_optimizer_step_closure(x->optimizer, closure, x);
    if (has_failed(loss))
        fail_msg("%s", haul_error_message());
    return loss;
}

/* ---- against PyTorch ---- */

/* Rounding errors grow with the number of evaluations. */
static void check_near(const char *name, int step, int calls, double got, double want)
{
    if (!(fabs(got - want) <= (calls <= 45 ? 1e-9 : 1e-7) * fmax(fabs(want), 1)))
        fail_msg("%s, step %d: %.17g, PyTorch has %.17g", name, step, got, want);
}

static double field(const cJSON *object, const char *name)
{
    return cJSON_GetObjectItemCaseSensitive(object, name)->valuedouble;
}

static void check_case(const cJSON *want)
{
    haul_scope *inner = haul_scope_push();
    const bool  is_network = !strncmp(want->string, "network ", 8);
    problem     x = is_network ? network(HAUL_F64) : rosenbrock(HAUL_F64);
    assert_non_null(make(&x, strchr(want->string, ' ') + 1));
    for (int i = 0; i < STEPS; i++) {
        const cJSON *wanted = cJSON_GetArrayItem(want, i), *p = cJSON_GetObjectItemCaseSensitive(wanted, "p");
        double       got[MOST];
        const double loss = haul_item(step(&x));
        check_near(want->string, i, x.calls, loss, field(wanted, "loss"));
        assert_int_equal(x.calls, (int)field(wanted, "evaluations"));
        assert_int_equal(read_all(&x, got), cJSON_GetArraySize(p));
        for (int k = 0; k < cJSON_GetArraySize(p); k++)
            check_near(want->string, i, x.calls, got[k], cJSON_GetArrayItem(p, k)->valuedouble);
    }
    assert_int_equal(haul_optimizer_steps(x.optimizer), STEPS);
    haul_scope_pop(inner);
}

static void test_lbfgs__follows_pytorch(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    for (int d = 0; d < count; d++) {
        assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
        for (const cJSON *c = cJSON_GetObjectItemCaseSensitive(golden, "steps")->child; c; c = c->next)
            check_case(c);
    }
    haul_set_device(haul_cpu());
}

/* In other dtypes the loss becomes small, too. */
static void test_lbfgs__other_dtypes(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    for (int d = 0; d < count; d++) {
        const haul_dtype dtypes[] = {HAUL_F32, HAUL_F16, HAUL_BF16};
        assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
        for (int i = 0; i < 3; i++) {
            problem x = network(dtypes[i]);
            make(&x, "wolfe");
            const double first = haul_item(step(&x));
            step(&x);
            step(&x);
            assert_true(haul_item(loss_of(&x)) < 0.5 * first);
        }
    }
    haul_set_device(haul_cpu());
}

/* ---- state ---- */

static void test_lbfgs__continues_from_saved_state(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    for (int d = 0; d < count; d++)
        for (int k = 0; k < 2; k++) {
            double            want[MOST], got[MOST];
            haul_named_tensor saved[64];
            assert_int_equal(haul_set_device(devices[d]), HAUL_OK);
            problem a = network(HAUL_F32), b = network(HAUL_F32);
            make(&a, k ? "wolfe history" : "fixed history");
            make(&b, k ? "wolfe history" : "fixed history");
            for (int i = 0; i < STEPS; i++)
                step(&a);
            assert_int_equal(haul_optimizer_state(b.optimizer, saved, 64), 0);
            step(&b);
            step(&b);
            const int states = haul_optimizer_state(b.optimizer, saved, 64);
            assert_int_equal(states, k ? 7 : 9);
            assert_string_equal(saved[0].name, "lbfgs.d");
            assert_string_equal(saved[2].name, "lbfgs.numbers");
            assert_string_equal(saved[6].name, "lbfgs.old_stps.1");
            make(&b, k ? "wolfe history" : "fixed history");
            assert_int_equal(haul_optimizer_load_state(b.optimizer, saved, states, 2), HAUL_OK);
            for (int i = 2; i < STEPS; i++)
                step(&b);
            assert_int_equal(haul_optimizer_steps(b.optimizer), STEPS);
            assert_int_equal(read_all(&a, want), read_all(&b, got));
            assert_memory_equal(want, got, 23 * sizeof *want);
        }
    haul_set_device(haul_cpu());
}

typedef struct training {
    haul_module    *net;
    haul_optimizer *optimizer;
} training;

static haul_tensor *train(void *context)
{
    const training *t = context;
    haul_optimizer_zero_grad(t->optimizer);
    haul_tensor *y = haul_call(t->net, waves(HAUL_SHAPE(6, 4), HAUL_F32, 0.9));
    haul_tensor *loss = haul_mse_loss(y, waves(HAUL_SHAPE(6, 2), HAUL_F32, 0.3));
    haul_backward(loss);
    return loss;
}

static void test_lbfgs__continues_from_checkpoints(void **state)
{
    float got[2][12];
    (void)state;
    for (int resumed = 0; resumed < 2; resumed++) {
        haul_scope *part = haul_scope_push();
        haul_manual_seed(3);
        training t = {HAUL_SEQUENTIAL(haul_nn_linear(4, 3), haul_nn_tanh(), haul_nn_linear(3, 2)), NULL};
        for (int i = 0; i < 6; i++) {
            if (i == 0 || (resumed && i == 3)) {
                if (i)
                    assert_int_equal(haul_save_checkpoint("lbfgs.ckpt", t.net, t.optimizer), HAUL_OK);
                t.optimizer = haul_lbfgs(t.net, i ? 0.5 : 1, .max_iter = 4, .line_search = HAUL_LBFGS_STRONG_WOLFE);
                if (i)
                    assert_int_equal(haul_load_checkpoint("lbfgs.ckpt", t.net, t.optimizer), HAUL_OK);
            }
            assert_valid(haul_optimizer_step_closure(t.optimizer, train, &t));
        }
        assert_true(haul_optimizer_get(t.optimizer, 0, "lr") == 1);
        assert_int_equal(haul_read(haul_module_parameter(t.net, "0.weight"), got[resumed], sizeof *got), HAUL_OK);
        haul_scope_pop(part);
    }
    remove("lbfgs.ckpt");
    assert_memory_equal(got[0], got[1], sizeof *got);
}

static void refuse_state(haul_optimizer *o, haul_named_tensor *tensors, int count, const char *piece)
{
    assert_true(haul_optimizer_load_state(o, tensors, count, 1) != HAUL_OK);
    if (!strstr(haul_error_message(), piece))
        fail_msg("%s", haul_error_message());
    haul_error_clear();
}

static void test_lbfgs__refuses_other_state(void **state)
{
    haul_named_tensor saved[16], wrong[16];
    (void)state;
    problem x = rosenbrock(HAUL_F64), y = network(HAUL_F64);
    make(&x, "fixed history");
    make(&y, "fixed");
    step(&x);
    const int count = haul_optimizer_state(x.optimizer, saved, 16);
    assert_int_equal(count, 9);
    refuse_state(y.optimizer, saved, count, "'lbfgs.d' is f64[2]");
    refuse_state(x.optimizer, saved, count - 1, "do not belong together");
    refuse_state(x.optimizer, saved, 2, "'lbfgs.numbers' is missing");
    memcpy(wrong, saved, sizeof wrong);
    wrong[4] = wrong[3];
    refuse_state(x.optimizer, wrong, count, "'lbfgs.old_stps.0' is missing");
    memcpy(wrong, saved, sizeof wrong);
    wrong[0].name = NULL;
    refuse_state(x.optimizer, wrong, count, "tensors");
    memcpy(wrong, saved, sizeof wrong);
    wrong[2].tensor = haul_mul_scalar(saved[2].tensor, -1);
    refuse_state(x.optimizer, wrong, count, "not a number of iterations");
    assert_int_equal(haul_optimizer_load_state(x.optimizer, saved, count, 1), HAUL_OK);
    assert_int_equal(haul_optimizer_load_state(x.optimizer, NULL, 0, 0), HAUL_OK);
    assert_int_equal(haul_optimizer_state(x.optimizer, saved, 16), 0);
    step(&x);
}

/* ---- closures ---- */

/* After the failure the optimizer goes on, and the search returns to where it began. */
static void test_lbfgs__closures_fail(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++)
        for (int at = 1; at < 8; at++) {
            problem x = rosenbrock(HAUL_F64);
            make(&x, k ? "wolfe" : "fixed");
            x.fails_at = at;
            const double first = haul_item(loss_of(&x));
            for (int i = 0; i < 2; i++) {
                haul_tensor *loss = haul_optimizer_step_closure(x.optimizer, closure, &x);
                if (x.calls != at)
                    continue;
                assert_failed(loss);
                assert_int_equal(haul_error_status(), HAUL_INTERRUPTED);
                assert_non_null(strstr(haul_error_message(), "stops here"));
                haul_error_clear();
                assert_true(haul_item(loss_of(&x)) <= first);
            }
            x.fails_at = 0;
            step(&x);
            assert_true(haul_item(loss_of(&x)) < first);
        }
}

static haul_tensor *vector(void *context)
{
    (void)context;
    return haul_ones(HAUL_F32, HAUL_SHAPE(2));
}

static haul_tensor *unused(void *context)
{
    return haul_sum(haul_square(((const problem *)context)->p[0].tensor));
}

static void expect(haul_status status, haul_status want, const char *piece)
{
    assert_int_equal(status, want);
    if (!strstr(haul_error_message(), piece))
        fail_msg("%s", haul_error_message());
    haul_error_clear();
}

static haul_status status_of(haul_tensor *t)
{
    assert_failed(t);
    return haul_error_status();
}

static void test_lbfgs__refuses(void **state)
{
    (void)state;
    problem         x = network(HAUL_F64);
    haul_optimizer *o = make(&x, "fixed");
    assert_string_equal(haul_optimizer_kind(o), "lbfgs");
    expect(haul_optimizer_step(o), HAUL_UNSUPPORTED, "call haul_optimizer_step_closure");
    expect(haul_optimizer_set_offload(o, true), HAUL_UNSUPPORTED, "lbfgs");
    assert_int_equal(haul_optimizer_add_group(o, .names = "w"), -1);
    expect(haul_error_status(), HAUL_UNSUPPORTED, "one group of parameters");
    expect(status_of(haul_optimizer_step_closure(o, NULL, NULL)), HAUL_INVALID_ARGUMENT, "closure");
    expect(status_of(haul_optimizer_step_closure(NULL, closure, NULL)), HAUL_INVALID_ARGUMENT, "optimizer");
    expect(status_of(haul_optimizer_step_closure(o, vector, NULL)), HAUL_SHAPE, "the closure returned f32[2]");
    x.returns_none = true;
    expect(status_of(haul_optimizer_step_closure(o, closure, &x)), HAUL_INVALID_ARGUMENT, "returned no loss");
    x.returns_none = false;
    expect(haul_optimizer_set(o, 0, "max_iter", 2.5), HAUL_INVALID_ARGUMENT, "max_iter is 2.5; a whole number");
    expect(haul_optimizer_set(o, 0, "line_search", 2), HAUL_INVALID_ARGUMENT, "0 or 1");
    assert_null(LBFGS(&x, -1, .max_iter = 3));
    expect(haul_error_status(), HAUL_INVALID_ARGUMENT, "haul_lbfgs: lr is -1");
    assert_null(LBFGS(&x, 1, .history_size = -3));
    expect(haul_error_status(), HAUL_INVALID_ARGUMENT, "history_size is -3");
    assert_null(haul_lbfgs(NULL, 1));
    haul_error_clear();
    x.p[1].tensor = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(5)), true);
    LBFGS(&x, 1, .max_iter = 3);
    expect(status_of(haul_optimizer_step_closure(x.optimizer, unused, &x)), HAUL_PLACEMENT, "one dtype and one device");
}

/* Other optimizers call the closure once. Without a gradient there is nothing to do. */
static void test_lbfgs__closures_of_other_optimizers(void **state)
{
    (void)state;
    problem x = rosenbrock(HAUL_F64);
    x.optimizer = haul_sgd(NULL, 0.001, .parameters = x.p, .count = 1);
    const double first = haul_item(loss_of(&x));
    assert_true(haul_item(step(&x)) == first);
    assert_true(x.calls == 1 && haul_item(loss_of(&x)) < first);
    make(&x, "fixed");
    haul_optimizer_zero_grad(x.optimizer);
    assert_true(haul_item(haul_optimizer_step_closure(x.optimizer, unused, &x)) > 1);
    assert_int_equal(haul_optimizer_state(x.optimizer, NULL, 0), 0);
}

/* The history follows a setting, and the module to another device. */
static void test_lbfgs__follows_settings_and_moves(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    for (int d = 0; d < count; d++) {
        haul_set_device(haul_cpu());
        training t = {HAUL_SEQUENTIAL(haul_nn_linear(4, 3), haul_nn_tanh(), haul_nn_linear(3, 2)), NULL};
        t.optimizer = haul_lbfgs(t.net, 1, .max_iter = 6, .line_search = HAUL_LBFGS_STRONG_WOLFE);
        const double first = haul_item(haul_optimizer_step_closure(t.optimizer, train, &t));
        assert_int_equal(haul_optimizer_set(t.optimizer, 0, "history_size", 2), HAUL_OK);
        assert_int_equal(haul_module_to(t.net, devices[d]), HAUL_OK);
        haul_set_device(devices[d]);
        assert_valid(haul_optimizer_step_closure(t.optimizer, train, &t));
        assert_int_equal(haul_optimizer_state(t.optimizer, NULL, 0), 7);
        assert_true(haul_item(haul_optimizer_step_closure(t.optimizer, train, &t)) < first);
    }
    haul_set_device(haul_cpu());
}

/* ---- recordings ---- */

static haul_status recorded(void *context)
{
    problem *x = context;
    return haul_tensor_check(haul_optimizer_step_closure(x->optimizer, closure, x));
}

static void test_lbfgs__in_recordings(void **state)
{
    double want[MOST], got[MOST];
    (void)state;
    problem a = network(HAUL_F32), b = network(HAUL_F32);
    make(&a, "wolfe");
    make(&b, "wolfe");
    haul_recording *r = haul_recording_new(recorded, &b);
    for (int i = 0; i < STEPS; i++) {
        step(&a);
        if (haul_recording_run(r))
            fail_msg("%s", haul_error_message());
    }
    assert_int_equal(read_all(&a, want), read_all(&b, got));
    assert_memory_equal(want, got, 23 * sizeof *want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lbfgs__follows_pytorch, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lbfgs__other_dtypes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lbfgs__continues_from_saved_state, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lbfgs__continues_from_checkpoints, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lbfgs__refuses_other_state, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lbfgs__closures_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lbfgs__refuses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lbfgs__closures_of_other_optimizers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lbfgs__follows_settings_and_moves, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lbfgs__in_recordings, setup, teardown),
    };
    return cmocka_run_group_tests(tests, load_golden, free_golden);
}
