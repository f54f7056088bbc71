/* Loss scaling against the algorithm written out by hand: overflow skips and backs off, good steps grow the scale, on
 * one device and on several, with one optimizer and with two; nothing waits; checkpoints go on bit for bit.
 *
 * ctest: cuda */
#include <haul/haul.h>
#include <math.h>

#include "base/alloc.h"
#include "support/devices/optimizers.h"
#include "support/devices/pair.h"
#include "support/failure.h"

/* What the scale is after each step, by hand. */
typedef struct model {
    double scale;
    int    good, interval;
    double growth, backoff;
} model;

static void model_update(model *m, bool bad)
{
    if (bad) {
        m->scale *= m->backoff;
        m->good = 0;
    } else if (++m->good == m->interval) {
        m->scale *= m->growth;
        m->good = 0;
    }
}

/* ---- the algorithm ---- */

static const double pattern[] = {INFINITY, 0, 0, NAN, 0, 0, 0, 0, -INFINITY, 0, 0, 0, 0};
enum { STEPS = sizeof pattern / sizeof *pattern };

/* A rig whose steps are scaled, and a twin that makes the good ones only. */
static void check_algorithm(haul_device *first, haul_device *second, new_optimizer *make, double error,
                            const char *what)
{
    rig               r = rig_on(first, second, make), twin = rig_on(first, second, make);
    haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer, .growth_interval = 3);
    model             m = {.scale = 65536, .interval = 3, .growth = 2, .backoff = 0.5};
    int               made = 0;
    assert_non_null(scaler);
    for (int step = 0; step < STEPS; step++) {
        bool bad = pattern[step] != 0;
        assert_true(haul_grad_scaler_factor(scaler) == m.scale);
        set_gradients(&r, step, m.scale, pattern[step]);
        assert_int_equal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_OK);
        assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
        if (!bad) {
            set_gradients(&twin, step, 1, 0);
            assert_int_equal(haul_optimizer_step(twin.optimizer), HAUL_OK);
            made++;
        }
        model_update(&m, bad);
        assert_same(r.a, twin.a, error, what, step);
        assert_same(r.b, twin.b, error, what, step);
        assert_int_equal(haul_optimizer_steps(r.optimizer), made);
    }
    assert_true(m.scale == 65536 / 2.0 / 2 * 2 / 2 * 2); /* the pattern does all there is to do */

    set_gradients(&r, 1, 1, 0); /* a plain step goes on from there */
    set_gradients(&twin, 1, 1, 0);
    assert_int_equal(haul_optimizer_step(r.optimizer), HAUL_OK);
    assert_int_equal(haul_optimizer_step(twin.optimizer), HAUL_OK);
    assert_same(r.a, twin.a, error, what, STEPS);
    assert_int_equal(haul_optimizer_steps(r.optimizer), made + 1);
}

static const struct {
    const char    *name;
    new_optimizer *make;
    double         error; /* to steps that the host counts */
} kinds[] = {{"sgd", new_sgd, 0},
             {"momentum", new_momentum, 0},
             {"adam", new_adam, 3e-6},
             {"adamw", new_adamw, 3e-6},
             {"amsgrad", optimizer_amsgradw, 3e-6},
             {"adagrad", optimizer_adagrad_all, 3e-6},
             {"adadelta", optimizer_adadelta, 0},
             {"nadam", optimizer_nadam, 3e-6},
             {"radam", optimizer_radam, 3e-6},
             {"lion", optimizer_lion, 0}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void check_one_device(haul_device *device)
{
    for (int k = 0; k < KINDS; k++)
        check_algorithm(device, device, kinds[k].make, kinds[k].error, kinds[k].name);
}

static void test_grad_scaler__skips_backs_off_and_grows(void **state)
{
    (void)state;
    on_devices(check_one_device);
}

static void test_grad_scaler__devices_agree(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    for (int i = 0; i < count; i++)
        for (int j = 0; j < count; j++) {
            haul_scope *scope = haul_scope_push();
            if (i != j)
                check_algorithm(devices[i], devices[j], j % 2 ? new_momentum : new_adam, j % 2 ? 0 : 3e-6,
                                "two devices");
            assert_int_equal(haul_error_status(), HAUL_OK);
            haul_scope_pop(scope);
        }
}

static void check_unscaling(haul_device *device)
{
    rig               r = rig_on(device, device, new_sgd), twin = rig_on(device, device, new_sgd);
    haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer, .init_scale = 1024);
    haul_tensor      *loss = haul_sum(haul_mul(r.a, r.a));
    haul_tensor      *scaled = haul_grad_scaler_scale(scaler, loss);
    assert_true(haul_item(scaled) == 1024 * haul_item(loss));
    assert_int_equal(haul_backward(scaled), HAUL_OK);
    assert_int_equal(haul_backward(haul_sum(haul_mul(twin.a, twin.a))), HAUL_OK);
    assert_int_equal(haul_grad_scaler_unscale(scaler, r.optimizer), HAUL_OK);
    assert_same(haul_tensor_grad(r.a), haul_tensor_grad(twin.a), 0, "unscaled", 0);
    assert_int_equal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_OK); /* does not unscale again */
    assert_int_equal(haul_optimizer_step(twin.optimizer), HAUL_OK);
    assert_same(r.a, twin.a, 0, "stepped", 0);
    assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);

    /* a gradient that repeats one element is made a tensor of its own first */
    haul_tensor *one = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(1), 2048), device);
    assert_int_equal(haul_set_grad(r.b, haul_expand(one, HAUL_SHAPE(3))), HAUL_OK);
    set_gradient(r.a, 0, 1024, 0);
    assert_int_equal(haul_grad_scaler_unscale(scaler, r.optimizer), HAUL_OK);
    assert_close(haul_tensor_grad(r.b), (double[]){2, 2, 2}, 3, 0, "expanded");
    assert_true(haul_item(one) == 2048);
}

static void test_grad_scaler__unscales_once(void **state)
{
    (void)state;
    on_devices(check_unscaling);
}

static void check_largest_scale(haul_device *device)
{
    rig               r = rig_on(device, device, new_sgd);
    haul_grad_scaler *scaler =
        haul_grad_scaler_new(r.optimizer, .init_scale = 3e38, .growth_interval = 1, .growth = 4, .backoff = 0.25);
    for (int step = 0; step < 2; step++) { /* what would be infinite does not grow */
        set_gradients(&r, 0, 1, 0);
        assert_int_equal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_OK);
        assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
        assert_true(haul_grad_scaler_factor(scaler) == (double)3e38f);
    }
    set_gradients(&r, 0, 1, NAN);
    assert_int_equal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_OK);
    assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
    assert_true(haul_grad_scaler_factor(scaler) == (double)(3e38f / 4));
}

static void test_grad_scaler__the_scale_stays_finite(void **state)
{
    (void)state;
    on_devices(check_largest_scale);
}

static void make_step(rig *r, haul_grad_scaler *scaler, double scale, double bad)
{
    set_gradients(r, 0, scale, bad);
    assert_int_equal(haul_grad_scaler_step(scaler, r->optimizer), HAUL_OK);
    assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
}

/* However many steps are skipped, the scale stays, and the first good step is made; the check says what happens. */
static void check_least_scale(haul_device *device)
{
    static const double first[] = {4, 0.5};
    for (int k = 0; k < 2; k++) {
        rig               r = rig_on(device, device, new_sgd);
        double            least = first[k] < 1 ? first[k] : 1;
        haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer, .init_scale = first[k], .growth_interval = 2);
        for (int step = 0; step < 2 + 19 && first[k] > 1; step++)
            make_step(&r, scaler, 1, INFINITY);
        for (int step = 0; step < 19 && first[k] < 1; step++)
            make_step(&r, scaler, 1, INFINITY);
        assert_true(haul_grad_scaler_factor(scaler) == least);
        assert_int_equal(haul_grad_scaler_check(scaler), HAUL_OK);
        for (int step = 0; step < 200; step++) {
            make_step(&r, scaler, 1, NAN);
            assert_int_equal(haul_grad_scaler_check(scaler), HAUL_STATE);
            haul_error_clear();
        }
        check_refused(haul_grad_scaler_check(scaler) != HAUL_OK, HAUL_STATE, "the last 219 steps were skipped");
        assert_true(haul_grad_scaler_factor(scaler) == least);
        assert_int_equal(haul_optimizer_steps(r.optimizer), 0);
        make_step(&r, scaler, least, 0);
        assert_int_equal(haul_optimizer_steps(r.optimizer), 1);
        assert_int_equal(haul_grad_scaler_check(scaler), HAUL_OK);
        make_step(&r, scaler, least, 0);
        assert_true(haul_grad_scaler_factor(scaler) == 2 * least);
    }
}

static void test_grad_scaler__the_scale_stays_positive(void **state)
{
    (void)state;
    on_devices(check_least_scale);
}

/* Two optimizers share a scaler: only the one whose gradients overflowed is held back, and the scale backs off once. */
static void check_shared(haul_device *device)
{
    rig               one = rig_on(device, device, new_sgd), two = rig_on(device, device, new_adam);
    rig               still = rig_on(device, device, new_sgd);
    haul_grad_scaler *scaler = haul_grad_scaler_new(one.optimizer);
    set_gradients(&one, 1, 65536, INFINITY);
    set_gradients(&two, 1, 65536, 0);
    assert_int_equal(haul_grad_scaler_step(scaler, one.optimizer), HAUL_OK);
    assert_int_equal(haul_grad_scaler_step(scaler, two.optimizer), HAUL_OK);
    assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
    assert_true(haul_grad_scaler_factor(scaler) == 32768);
    assert_same(one.a, still.a, 0, "held back", 0);
    assert_int_equal(haul_optimizer_steps(one.optimizer), 0);
    assert_int_equal(haul_optimizer_steps(two.optimizer), 1);
    assert_true(fabs(haul_item(haul_select(two.b, 0, 0)) - haul_item(haul_select(still.b, 0, 0))) > 0.1);
}

static void test_grad_scaler__optimizers_share_it(void **state)
{
    (void)state;
    on_devices(check_shared);
}

/* A parameter without a gradient in a step that is skipped has made the steps it made. */
static void check_absent_gradients(haul_device *device)
{
    rig               r = rig_on(device, device, new_adam), twin = rig_on(device, device, new_adam);
    haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer);
    for (int step = 0; step < 6; step++) {
        assert_int_equal(haul_optimizer_zero_grad(r.optimizer), HAUL_OK);
        assert_int_equal(haul_optimizer_zero_grad(twin.optimizer), HAUL_OK);
        double scale = haul_grad_scaler_factor(scaler);
        set_gradient(r.a, step, scale, step == 2 ? NAN : 0);
        if (step != 2)
            set_gradient(twin.a, step, 1, 0);
        if (step > 2) {
            set_gradient(r.b, step, scale, 0);
            set_gradient(twin.b, step, 1, 0);
        }
        assert_int_equal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_OK);
        assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
        assert_int_equal(haul_optimizer_step(twin.optimizer), HAUL_OK);
        assert_same(r.a, twin.a, 3e-6, "a", step);
        assert_same(r.b, twin.b, 3e-6, "b", step);
    }
}

static void test_grad_scaler__counts_steps_of_each_parameter(void **state)
{
    (void)state;
    on_devices(check_absent_gradients);
}

/* The module, and what goes with it, moves in the middle of a training. */
static void check_moved(haul_device *device)
{
    rig               r = rig_on(haul_cpu(), haul_cpu(), new_adam), twin = rig_on(haul_cpu(), haul_cpu(), new_adam);
    haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer, .init_scale = 8, .growth_interval = 2);
    for (int step = 0; step < 4; step++) {
        if (step == 2)
            assert_int_equal(haul_module_to(r.net, device), HAUL_OK);
        set_gradients(&r, step, haul_grad_scaler_factor(scaler), step == 1 ? INFINITY : 0);
        assert_int_equal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_OK);
        assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
        if (step != 1) {
            set_gradients(&twin, step, 1, 0);
            assert_int_equal(haul_optimizer_step(twin.optimizer), HAUL_OK);
        }
        assert_same(r.a, twin.a, 3e-6, "moved", step);
    }
    assert_true(haul_grad_scaler_factor(scaler) == 8);
}

static void test_grad_scaler__moves_with_the_module(void **state)
{
    (void)state;
    on_devices(check_moved);
}

/* ---- waiting ---- */

static void check_no_waits(haul_device *device)
{
    haul_module      *net = HAUL_SEQUENTIAL(haul_nn_linear(8, 16), haul_nn_relu(), haul_nn_linear(16, 4));
    haul_tensor      *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(32, 8), 1, NULL);
    haul_tensor      *y = haul_to(haul_zeros(HAUL_I64, HAUL_SHAPE(32)), device);
    haul_optimizer   *both[2];
    haul_grad_scaler *scaler = NULL;
    int64_t           waits = 0;
    assert_int_equal(haul_module_to(net, device), HAUL_OK);
    both[0] = haul_sgd(net, 0.1, .momentum = 0.9);
    both[1] = haul_adam(net, 0.01);
    for (int k = 0; k < 2; k++) {
        scaler = haul_grad_scaler_new(both[k], .growth_interval = 2);
        for (int step = 0; step < 6; step++) {
            if (step == 3) /* memory is there and kernels are compiled */
                waits = haul_sync_count();
            haul_scope         *scope = haul_scope_push();
            haul_autocast_state before = haul_autocast_begin("all", HAUL_F16);
            haul_tensor        *loss = haul_cross_entropy(haul_call(net, x), y);
            assert_int_equal(haul_autocast_end(before), HAUL_OK);
            assert_int_equal(haul_optimizer_zero_grad(both[k]), HAUL_OK);
            assert_int_equal(haul_backward(haul_grad_scaler_scale(scaler, loss)), HAUL_OK);
            assert_int_equal(haul_grad_scaler_unscale(scaler, both[k]), HAUL_OK);
            assert_valid(haul_clip_grad_norm(net, 1));
            assert_int_equal(haul_grad_scaler_step(scaler, both[k]), HAUL_OK);
            assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
            haul_scope_pop(scope);
        }
        assert_int_equal(haul_sync_count() - waits, 0);
        assert_true(haul_grad_scaler_factor(scaler) > 1);
    }
}

static void test_grad_scaler__a_step_does_not_wait(void **state)
{
    (void)state;
    on_devices(check_no_waits);
}

/* Two devices of one backend agree among themselves. */
static void check_pair_does_not_wait(haul_device *first, haul_device *second)
{
    rig               r = rig_on(first, second, new_adam);
    haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer, .growth_interval = 2);
    haul_tensor      *a = sample_tensor(first, HAUL_F32, HAUL_SHAPE(SIZE), 3, NULL);
    haul_tensor      *b = sample_tensor(second, HAUL_F32, HAUL_SHAPE(3), 4, NULL);
    int64_t           waits = 0;
    for (int step = 0; step < 6; step++) {
        if (step == 3)
            waits = haul_sync_count();
        haul_scope *scope = haul_scope_push();
        assert_int_equal(haul_set_grad(r.a, haul_clone(a)), HAUL_OK);
        assert_int_equal(haul_set_grad(r.b, haul_clone(b)), HAUL_OK);
        assert_int_equal(haul_grad_scaler_unscale(scaler, r.optimizer), HAUL_OK);
        assert_valid(haul_clip_grad_norm(r.net, 1));
        assert_int_equal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_OK);
        assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
        haul_scope_pop(scope);
    }
    assert_int_equal(haul_sync_count() - waits, 0);
    assert_true(haul_grad_scaler_factor(scaler) == 8 * 65536);
}

static void test_grad_scaler__devices_of_one_backend_do_not_wait(void **state)
{
    haul_device           *devices[8];
    haul_device_properties one, two;
    int                    count = test_devices(devices, 8);
    (void)state;
    for (int i = 0; i + 1 < count; i++) {
        assert_int_equal(haul_device_describe(devices[i], &one), HAUL_OK);
        assert_int_equal(haul_device_describe(devices[i + 1], &two), HAUL_OK);
        if (strcmp(one.backend, two.backend) != 0)
            continue;
        haul_scope *scope = haul_scope_push();
        check_pair_does_not_wait(devices[i], devices[i + 1]);
        haul_scope_pop(scope);
    }
}

/* ---- checkpoints ---- */

static void scaled_steps(const rig *r, haul_grad_scaler *scaler, int from, int to)
{
    for (int step = from; step < to; step++) {
        set_gradients(r, step, haul_grad_scaler_factor(scaler), pattern[step]);
        assert_int_equal(haul_grad_scaler_step(scaler, r->optimizer), HAUL_OK);
        assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
    }
}

static void check_checkpoint(haul_device *device)
{
    for (int k = 0; k < KINDS; k++)
        for (int stop = 1; stop < 5; stop++) { /* after one skipped step, and later */
            rig whole = rig_on(device, device, kinds[k].make), half = rig_on(device, device, kinds[k].make);
            rig rest = rig_on(device, device, kinds[k].make);
            haul_grad_scaler      *first = haul_grad_scaler_new(whole.optimizer, .growth_interval = 2);
            haul_grad_scaler      *second = haul_grad_scaler_new(half.optimizer, .growth_interval = 2);
            haul_grad_scaler      *third = haul_grad_scaler_new(rest.optimizer, .growth_interval = 2, .init_scale = 2);
            haul_training_position at = {.epoch = 1, .batch = stop};

            scaled_steps(&whole, first, 0, 8);
            scaled_steps(&half, second, 0, stop);
            assert_int_equal(haul_save_checkpoint("half", half.net, half.optimizer, .position = &at), HAUL_OK);
            assert_int_equal(haul_load_checkpoint("half", rest.net, rest.optimizer, .position = &at), HAUL_OK);
            assert_int_equal(haul_optimizer_steps(rest.optimizer), haul_optimizer_steps(half.optimizer));
            scaled_steps(&rest, third, stop, 8);
            assert_same(rest.a, whole.a, 0, kinds[k].name, stop);
            assert_same(rest.b, whole.b, 0, kinds[k].name, stop);
            assert_true(haul_grad_scaler_factor(third) == haul_grad_scaler_factor(first));
            assert_int_equal(haul_optimizer_steps(rest.optimizer), haul_optimizer_steps(whole.optimizer));
        }
}

static void test_grad_scaler__goes_on_from_checkpoints(void **state)
{
    (void)state;
    on_devices(check_checkpoint);
}

static void check_refusal(haul_status status, haul_status wanted, const char *words)
{
    assert_int_equal(status, wanted);
    assert_int_equal(haul_error_status(), wanted);
    if (!strstr(haul_error_message(), words))
        fail_msg("the message is \"%s\", it should contain \"%s\"", haul_error_message(), words);
    haul_error_clear();
}

static void check_state_errors(haul_device *device)
{
    rig               r = rig_on(device, device, new_sgd), plain = rig_on(device, device, new_sgd);
    haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer);
    haul_named_tensor state[4];
    haul_tensor      *negative = haul_from_host(HAUL_F32, HAUL_SCALAR_SHAPE, &(float){-1});
    assert_int_equal(haul_optimizer_state(r.optimizer, state, 4), 2);
    assert_string_equal(state[0].name, "grad_scaler.scale");
    assert_string_equal(state[1].name, "grad_scaler.growth_tracker");
    check_refusal(haul_optimizer_load_state(plain.optimizer, state, 2, 0), HAUL_INVALID_ARGUMENT,
                  "haul_grad_scaler_new");
    check_refusal(haul_optimizer_load_state(r.optimizer, state, 1, 0), HAUL_INVALID_ARGUMENT,
                  "'grad_scaler.growth_tracker' is missing");
    state[2] = state[0];
    check_refusal(haul_optimizer_load_state(r.optimizer, state, 3, 0), HAUL_INVALID_ARGUMENT, "given twice");
    state[0].tensor = negative;
    check_refusal(haul_optimizer_load_state(r.optimizer, state, 2, 0), HAUL_FORMAT, "is -1");
    state[0].tensor = r.b;
    check_refusal(haul_optimizer_load_state(r.optimizer, state, 2, 0), HAUL_SHAPE, "must be a single f32");
    assert_int_equal(haul_optimizer_load_state(r.optimizer, NULL, 0, 0), HAUL_OK); /* a checkpoint without scaling */
    assert_true(haul_grad_scaler_factor(scaler) == 65536);
}

static void test_grad_scaler__refuses_wrong_state(void **state)
{
    (void)state;
    on_devices(check_state_errors);
}

/* ---- faults ---- */

/* Whatever fails, on the way to a step: it is an error, no parameter has changed, nothing is lost, and the step can be
 * made after all. */
static void test_grad_scaler__faults_change_no_parameter(void **state)
{
    static const unsigned kinds_of_faults[] = {HAUL__FAULT_HOST, HAUL__FAULT_DEVICE};
    (void)state;
    for (int k = 0; k < 2; k++) {
        int  failed = 0;
        bool struck = true;
        for (int64_t at = 1; struck; at++) {
            int64_t     blocks = haul__host_blocks();
            haul_scope *scope = haul_scope_push();
            rig         r = rig_on(haul_cpu(), haul_cpu(), new_adam), twin = rig_on(haul_cpu(), haul_cpu(), new_adam);
            haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer);
            set_gradients(&r, 1, 65536, 0);
            haul__fault_plan(kinds_of_faults[k], at);
            haul_status status = haul_grad_scaler_step(scaler, r.optimizer);
            struck = haul__fault_count() >= at;
            haul__fault_plan(0, 0);
            if (status) {
                assert_int_equal(status, HAUL_OUT_OF_MEMORY);
                failed++;
                assert_same(r.a, twin.a, 0, "after a fault", (int)at);
                haul_error_clear();
                if (haul_grad_scaler_update(scaler)) /* the fault came before anything was looked at */
                    haul_error_clear();
                set_gradients(&r, 1, 65536, 0);
                assert_int_equal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_OK);
            }
            assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
            set_gradients(&twin, 1, 1, 0);
            assert_int_equal(haul_optimizer_step(twin.optimizer), HAUL_OK);
            assert_same(r.a, twin.a, 3e-6, "in the end", (int)at);
            assert_int_equal(haul_optimizer_steps(r.optimizer), 1);
            haul_scope_pop(scope);
            assert_int_equal(haul__host_blocks(), blocks);
        }
        assert_true(failed > 3);
    }
}

/* ---- refused calls ---- */

static void check_order(haul_device *device)
{
    rig               r = rig_on(device, device, new_sgd), none = rig_on(device, device, new_sgd);
    haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer);
    check_refusal(haul_grad_scaler_update(scaler), HAUL_STATE, "haul_grad_scaler_step first");
    check_refusal(haul_grad_scaler_step(scaler, none.optimizer), HAUL_STATE, "no parameter has a gradient");
    set_gradients(&r, 0, 1, 0);
    assert_int_equal(haul_grad_scaler_unscale(scaler, r.optimizer), HAUL_OK);
    check_refusal(haul_grad_scaler_unscale(scaler, r.optimizer), HAUL_STATE, "unscaled already");
    assert_int_equal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_OK);
    check_refusal(haul_grad_scaler_step(scaler, r.optimizer), HAUL_STATE, "made already");
    assert_int_equal(haul_grad_scaler_update(scaler), HAUL_OK);
    check_refusal(haul_grad_scaler_update(scaler), HAUL_STATE, "haul_grad_scaler_step first");

    haul_module *narrow = haul_module_new("narrow", forward);
    haul_tensor *p = haul_set_requires_grad(haul_to(haul_ones(HAUL_F16, HAUL_SHAPE(2)), device), true);
    assert_int_equal(haul_module_add_parameter(narrow, "p", p), HAUL_OK);
    haul_optimizer *sgd = haul_sgd(narrow, 1);
    assert_int_equal(haul_set_grad(p, haul_ones_like(p)), HAUL_OK);
    check_refusal(haul_grad_scaler_step(scaler, sgd), HAUL_DTYPE, "the gradient of 'p' is f16");
}

static void test_grad_scaler__refuses_a_wrong_order(void **state)
{
    (void)state;
    on_devices(check_order);
}

static void test_grad_scaler__scales_nothing_without_a_scope(void **state)
{
    haul_scope       *scope = haul_scope_push();
    rig               r = rig_on(haul_cpu(), haul_cpu(), new_sgd);
    haul_grad_scaler *scaler = haul_take(haul_grad_scaler_new(r.optimizer));
    haul_tensor      *loss = haul_take(haul_ones(HAUL_F32, HAUL_SCALAR_SHAPE));
    (void)state;
    haul_scope_pop(scope);
    assert_refused(haul_grad_scaler_scale(scaler, loss), HAUL_STATE, "scope");
    haul_release(loss);
    haul_release(scaler);
}

static void test_grad_scaler__refuses_wrong_options(void **state)
{
    haul_scope *scope = haul_scope_push();
    rig         r = rig_on(haul_cpu(), haul_cpu(), new_sgd);
    (void)state;
    assert_refused(haul_grad_scaler_new(r.optimizer, .init_scale = -1), HAUL_INVALID_ARGUMENT, "init_scale");
    assert_refused(haul_grad_scaler_new(r.optimizer, .init_scale = 1e39), HAUL_INVALID_ARGUMENT, "more than f32 holds");
    assert_refused(haul_grad_scaler_new(r.optimizer, .growth = 1), HAUL_INVALID_ARGUMENT, "growth is 1");
    assert_refused(haul_grad_scaler_new(r.optimizer, .growth = NAN), HAUL_INVALID_ARGUMENT, "growth is nan");
    assert_refused(haul_grad_scaler_new(r.optimizer, .backoff = 1), HAUL_INVALID_ARGUMENT, "backoff");
    assert_refused(haul_grad_scaler_new(r.optimizer, .growth_interval = -1), HAUL_INVALID_ARGUMENT, "growth_interval");
    assert_refused(haul_grad_scaler_new(NULL), HAUL_INVALID_ARGUMENT, "optimizer");
    haul_grad_scaler *scaler = haul_grad_scaler_new(r.optimizer);
    assert_refused(haul_grad_scaler_scale(scaler, haul_ones(HAUL_I32, HAUL_SCALAR_SHAPE)), HAUL_DTYPE, "floating");
    assert_refused(haul_grad_scaler_scale(NULL, r.a), HAUL_INVALID_ARGUMENT, "scaler");
    check_refusal(haul_grad_scaler_step(scaler, NULL), HAUL_INVALID_ARGUMENT, "optimizer");
    check_refusal(haul_grad_scaler_unscale(NULL, r.optimizer), HAUL_INVALID_ARGUMENT, "scaler");
    check_refusal(haul_grad_scaler_update(NULL), HAUL_INVALID_ARGUMENT, "scaler");
    check_refusal(haul_grad_scaler_check(NULL), HAUL_INVALID_ARGUMENT, "scaler");
    assert_true(isnan(haul_grad_scaler_factor(NULL)));
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grad_scaler__skips_backs_off_and_grows),
        cmocka_unit_test(test_grad_scaler__devices_agree),
        cmocka_unit_test(test_grad_scaler__unscales_once),
        cmocka_unit_test(test_grad_scaler__the_scale_stays_finite),
        cmocka_unit_test(test_grad_scaler__the_scale_stays_positive),
        cmocka_unit_test(test_grad_scaler__optimizers_share_it),
        cmocka_unit_test(test_grad_scaler__counts_steps_of_each_parameter),
        cmocka_unit_test(test_grad_scaler__moves_with_the_module),
        cmocka_unit_test(test_grad_scaler__a_step_does_not_wait),
        cmocka_unit_test(test_grad_scaler__devices_of_one_backend_do_not_wait),
        cmocka_unit_test(test_grad_scaler__goes_on_from_checkpoints),
        cmocka_unit_test(test_grad_scaler__refuses_wrong_state),
        cmocka_unit_test(test_grad_scaler__faults_change_no_parameter),
        cmocka_unit_test(test_grad_scaler__refuses_a_wrong_order),
        cmocka_unit_test(test_grad_scaler__scales_nothing_without_a_scope),
        cmocka_unit_test(test_grad_scaler__refuses_wrong_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
