/* Optimizers that keep their state in host memory: the same bits, less memory of the device.
 *
 * ctest: cuda; sim */
#include <string.h>

#include "support/devices/optimizers.h"
#include "support/devices/spilling.h"

enum { WIDTH = 256, ROWS = 16, STEPS = 5, WEIGHT = WIDTH * WIDTH };

typedef haul_optimizer *make_optimizer(haul_module *net);

static haul_optimizer *make_sgd(haul_module *net)
{
    return haul_sgd(net, 0.05, .momentum = 0.9);
}

static haul_optimizer *make_plain_sgd(haul_module *net)
{
    return haul_sgd(net, 0.05);
}

static haul_optimizer *make_adamw(haul_module *net)
{
    return haul_adamw(net, 0.01);
}

static haul_optimizer *make_rmsprop(haul_module *net)
{
    return haul_rmsprop(net, 0.01, .momentum = 0.9, .centered = true);
}

typedef struct training {
    haul_module    *net;
    haul_optimizer *optimizer;
    haul_tensor    *x, *y;
} training;

static training make_training(make_optimizer *make)
{
    haul_module *layers[4];
    for (int i = 0; i < 4; i++)
        layers[i] = haul_nn_linear(WIDTH, WIDTH);
    training t = {.net = haul_nn_sequential(layers, 4)};
    t.optimizer = make(t.net);
    t.x = haul_normal(HAUL_F32, HAUL_SHAPE(ROWS, WIDTH), 0, 1);
    t.y = haul_normal(HAUL_F32, HAUL_SHAPE(ROWS, WIDTH), 0, 1);
    return t;
}

static haul_status step(void *context)
{
    training    *t = context;
    haul_tensor *loss = haul_mse_loss(haul_call(t->net, t->x), t->y);
    if (haul_backward(loss) || haul_optimizer_step(t->optimizer))
        return haul_error_status();
    return haul_optimizer_zero_grad(t->optimizer);
}

typedef struct result {
    float   weights[2][WEIGHT];
    int64_t held; /* bytes of the device after the training */
    int64_t followed;
} result;

static void read_weights(haul_module *net, result *out)
{
    assert_int_equal(haul_read(haul_module_parameter(net, "0.weight"), out->weights[0], sizeof out->weights[0]),
                     HAUL_OK);
    assert_int_equal(haul_read(haul_module_parameter(net, "1.weight"), out->weights[1], sizeof out->weights[1]),
                     HAUL_OK);
}

/* offloads: from which step on, and from which one on no longer. */
static void train(haul_device *device, make_optimizer *make, int from, int until, bool records, result *out)
{
    haul_scope *part = haul_scope_push();
    train_begin(device, 0);
    const int64_t         before = stats_of(device).allocated;
    training              t = make_training(make);
    haul_recording       *r = haul_recording_new(step, &t);
    haul_recording_report report = {.followed = 0};
    for (int i = 0; i < STEPS; i++) {
        haul_scope *inner = haul_scope_push();
        assert_int_equal(haul_optimizer_set_offload(t.optimizer, i >= from && i < until), HAUL_OK);
        if (records ? haul_recording_run(r) : step(&t))
            fail_msg("%s", haul_error_message());
        haul_scope_pop(inner);
    }
    read_weights(t.net, out);
    assert_int_equal(haul_recording_report_get(r, &report), HAUL_OK);
    out->followed = report.followed;
    haul_drop(r);
    out->held = stats_of(device).allocated - before;
    haul_scope_pop(part);
    haul_set_device(haul_cpu());
}

static void assert_same(const result *a, const result *b)
{
    assert_memory_equal(a->weights, b->weights, sizeof a->weights);
}

static void test_optim_offload__same_bits_with_less_memory(void **state)
{
    static const struct {
        make_optimizer *make;
        int             states;
    } kinds[] = {{make_plain_sgd, 0},     {make_sgd, 1},           {make_adamw, 2},
                 {make_rmsprop, 3},       {optimizer_amsgradw, 3}, {optimizer_adagrad_all, 1},
                 {optimizer_adadelta, 2}, {optimizer_nadam, 2},    {optimizer_radam, 2},
                 {optimizer_lion, 1}};
    static result plain, offloaded, followed;
    (void)state;
    for (int d = 0; d < device_count; d++)
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            train(devices[d], kinds[k].make, STEPS, STEPS, false, &plain);
            train(devices[d], kinds[k].make, 0, STEPS, false, &offloaded);
            assert_same(&plain, &offloaded);
            const int64_t least = devices[d] == haul_cpu() ? 0 : (int64_t)kinds[k].states * 4 * WEIGHT * 4;
            assert_true(plain.held - offloaded.held >= least && (least || plain.held == offloaded.held));
            train(devices[d], kinds[k].make, 0, STEPS, true, &followed);
            assert_same(&plain, &followed);
            assert_int_equal(followed.followed, STEPS - 1);
        }
}

/* State moves when the setting changes. */
static void test_optim_offload__begins_and_ends_in_a_training(void **state)
{
    static result plain, changed;
    (void)state;
    for (int d = 0; d < device_count; d++) {
        train(devices[d], make_adamw, STEPS, STEPS, false, &plain);
        for (int records = 0; records < 2; records++) {
            train(devices[d], make_adamw, 2, 4, records, &changed);
            assert_same(&plain, &changed);
            assert_int_equal(plain.held, changed.held);
        }
    }
}

/* The state is that of an optimizer without it, and either can load it. */
static void test_optim_offload__state_is_saved_and_loaded(void **state)
{
    enum { MOST = 64 };
    static result     plain, resumed;
    haul_named_tensor saved[MOST];
    (void)state;
    for (int d = 0; d < device_count; d++) {
        train(devices[d], make_adamw, STEPS, STEPS, false, &plain);
        for (int to = 0; to < 2; to++) {
            haul_scope *part = haul_scope_push();
            train_begin(devices[d], 0);
            training t = make_training(make_adamw);
            haul_optimizer_set_offload(t.optimizer, !to);
            for (int i = 0; i < 2; i++)
                assert_int_equal(step(&t), HAUL_OK);
            haul_optimizer *other = make_adamw(t.net);
            const int       count = haul_optimizer_state(t.optimizer, saved, MOST);
            assert_true(count > 0 && count <= MOST);
            haul_optimizer_set_offload(other, to);
            assert_int_equal(haul_optimizer_load_state(other, saved, count, 2), HAUL_OK);
            t.optimizer = other;
            for (int i = 2; i < STEPS; i++)
                assert_int_equal(step(&t), HAUL_OK);
            read_weights(t.net, &resumed);
            assert_same(&plain, &resumed);
            const int again = haul_optimizer_state(other, saved, MOST);
            assert_int_equal(again, count);
            for (int i = 0; i < count; i++) /* "step" is always there */
                if (to)
                    assert_ptr_equal(haul_tensor_device(saved[i].tensor), haul_cpu());
            haul_scope_pop(part);
            haul_set_device(haul_cpu());
        }
    }
}

/* A parameter, the first of three, whose columns are contiguous, and gradients of several sizes. */
static void step_list(haul_device *device, bool offloads, float *out)
{
    haul_scope *part = haul_scope_push();
    train_begin(device, 0);
    haul_tensor *p[3];
    p[0] = haul_detach(
        haul_permute(haul_normal(HAUL_F32, HAUL_SHAPE(WIDTH / 4, 3, 4, WIDTH / 3), 0, 1), (int[]){3, 1, 0, 2}, 4));
    p[1] = haul_normal(HAUL_F32, HAUL_SHAPE(7), 0, 1);
    p[2] = haul_cast(haul_normal(HAUL_F32, HAUL_SHAPE(3, 5), 0, 1), HAUL_BF16);
    for (int k = 0; k < 3; k++)
        haul_set_requires_grad(p[k], true);
    haul_optimizer *o = haul_adamw(
        NULL, 0.01, .parameters = (haul_named_tensor[]){{"a", p[0], false}, {"b", p[1], false}, {"c", p[2], false}},
        .count = 3);
    if (haul_optimizer_set_offload(o, offloads))
        fail_msg("%s", haul_error_message());
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 3; k++)
            assert_int_equal(haul_set_grad(p[k], i == 1 && k == 1 ? HAUL_NONE : haul_sin(haul_detach(p[k]))), HAUL_OK);
        if (haul_optimizer_step(o))
            fail_msg("%s", haul_error_message());
    }
    memset(out, 0, WEIGHT * sizeof *out);
    assert_int_equal(haul_read(p[0], out, WEIGHT * sizeof *out), HAUL_OK);
    assert_int_equal(haul_read(p[1], out, 7 * sizeof *out), HAUL_OK);
    assert_int_equal(haul_read(p[2], out + 8, 15 * 2), HAUL_OK);
    haul_scope_pop(part);
    haul_set_device(haul_cpu());
}

static void test_optim_offload__of_parameters_of_any_layout_and_dtype(void **state)
{
    static float plain[WEIGHT], offloaded[WEIGHT];
    (void)state;
    for (int d = 0; d < device_count; d++) {
        step_list(devices[d], false, plain);
        step_list(devices[d], true, offloaded);
        assert_memory_equal(plain, offloaded, sizeof plain);
    }
}

static haul_status make_and_step(void *context)
{
    training t = make_training(make_adamw);
    haul_optimizer_set_offload(t.optimizer, *(bool *)context);
    for (int i = 0; i < 3; i++) {
        haul_scope       *inner = haul_scope_push();
        const haul_status status = step(&t);
        haul_scope_pop(inner);
        if (status)
            return status;
    }
    return HAUL_OK;
}

static void test_optim_offload__is_estimated(void **state)
{
    (void)state;
    for (int d = 1; d < device_count; d++)
        for (int offloads = 0; offloads < 2; offloads++) {
            bool                 on = offloads;
            haul_estimate_result r;
            int64_t              expected = -1;
            haul_scope          *part = haul_scope_push();
            train_begin(devices[d], 0);
            const int64_t before = stats_of(devices[d]).allocated;
            assert_int_equal(haul_estimate(make_and_step, &on, &r), HAUL_OK);
            for (int i = 0; i < r.device_count; i++)
                if (r.devices[i].device == devices[d])
                    expected = r.devices[i].peak_bytes - before;
            haul_estimate_free(&r);
            assert_int_equal(make_and_step(&on), HAUL_OK);
            assert_int_equal(stats_of(devices[d]).peak_allocated - before, expected);
            haul_scope_pop(part);
            haul_set_device(haul_cpu());
        }
}

/* A step that has no room for its buffers changes nothing. */
static void test_optim_offload__a_step_without_memory_changes_nothing(void **state)
{
    static result before, after;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        haul_scope *part = haul_scope_push();
        train_begin(devices[d], 0);
        training t = make_training(make_adamw);
        haul_optimizer_set_offload(t.optimizer, true);
        assert_int_equal(step(&t), HAUL_OK);
        assert_int_equal(haul_backward(haul_mse_loss(haul_call(t.net, t.x), t.y)), HAUL_OK);
        read_weights(t.net, &before);
        haul_memory_release_cached(devices[d]);
        assert_int_equal(haul_memory_set_tensor_limit(devices[d], stats_of(devices[d]).reserved + WIDTH), HAUL_OK);
        assert_int_equal(haul_optimizer_step(t.optimizer), HAUL_OUT_OF_MEMORY);
        haul_error_clear();
        assert_int_equal(haul_memory_set_limit(devices[d], 0), HAUL_OK);
        assert_int_equal(haul_optimizer_steps(t.optimizer), 1);
        read_weights(t.net, &after);
        assert_same(&before, &after);
        assert_int_equal(haul_optimizer_step(t.optimizer), HAUL_OK);
        haul_scope_pop(part);
        haul_set_device(haul_cpu());
    }
}

static void test_optim_offload__refuses_what_is_no_optimizer(void **state)
{
    (void)state;
    assert_int_equal(haul_optimizer_set_offload(NULL, true), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

#define OFFLOAD_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OFFLOAD_TEST(test_optim_offload__same_bits_with_less_memory),
        OFFLOAD_TEST(test_optim_offload__begins_and_ends_in_a_training),
        OFFLOAD_TEST(test_optim_offload__state_is_saved_and_loaded),
        OFFLOAD_TEST(test_optim_offload__of_parameters_of_any_layout_and_dtype),
        OFFLOAD_TEST(test_optim_offload__is_estimated),
        OFFLOAD_TEST(test_optim_offload__a_step_without_memory_changes_nothing),
        OFFLOAD_TEST(test_optim_offload__refuses_what_is_no_optimizer),
    };
    return run_moves("optim_offload", tests, sizeof tests / sizeof tests[0]);
}
