/* Spilling in little memory: a network of many equal layers trains in a half and in a quarter of what it takes.
 * ctest: cuda; sim; env=POCL_DEVICES=pthread pthread; labels=threads */
#include "memory/allocator.h"
#include "support/devices/spilling.h"

enum { LAYERS = 24, WIDTH = 96, BATCH = 96, STEPS = 4 };

typedef struct trained {
    float   losses[STEPS];
    float   weights[WIDTH * WIDTH]; /* of the first layer */
    int64_t peak, spilled;
} trained;

static haul_module *network(void)
{
    haul_module *layers[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        layers[2 * i] = haul_nn_linear(WIDTH, WIDTH);
        layers[2 * i + 1] = haul_nn_tanh();
    }
    return haul_nn_sequential(layers, 2 * LAYERS);
}

static void run_steps(trained *out)
{
    haul_module    *net = network();
    haul_optimizer *sgd = haul_sgd(net, 0.01, .momentum = 0.9);
    for (int i = 0; i < STEPS; i++) {
        haul_scope  *step = haul_scope_push();
        haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(BATCH, WIDTH), 0, 1);
        haul_optimizer_zero_grad(sgd);
        haul_tensor *loss = haul_mse_loss(haul_call(net, x), x);
        haul_backward(loss);
        haul_optimizer_step(sgd);
        out->losses[i] = (float)haul_item(loss);
        haul_scope_pop(step);
    }
    haul_read(haul_module_parameter(net, "0.weight"), out->weights, sizeof out->weights);
}

/* With a limit of 0 without one. */
static void train(haul_device *device, int64_t limit, trained *out)
{
    haul_scope *part = haul_scope_push();
    train_begin(device, limit);
    const int64_t spilled = stats_of(device).spilled_total;
    run_steps(out);
    if (haul_error_status())
        fail_msg("%s with a limit of %lld: %s", haul_device_name(device), (long long)limit, haul_error_message());
    out->peak = stats_of(device).peak_reserved;
    out->spilled = stats_of(device).spilled_total - spilled;
    haul_scope_pop(part);
    haul_memory_release_cached(device);
    end_limit(device);
}

static void test_spill_deep__half_and_quarter(void **state)
{
    static trained plain, limited;
    (void)state;
    for (int d = 1; d < device_count; d++) {
        train(devices[d], 0, &plain);
        for (int part = 2; part <= 4; part += 2) {
            train(devices[d], plain.peak / part, &limited);
            assert_memory_equal(plain.losses, limited.losses, sizeof plain.losses);
            assert_memory_equal(plain.weights, limited.weights, sizeof plain.weights);
            assert_true(limited.peak <= plain.peak / part);
            assert_true(limited.spilled > 0);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_spill_deep__half_and_quarter, begin, end),
    };
    return run_moves("spill_deep", tests, sizeof tests / sizeof tests[0]);
}
