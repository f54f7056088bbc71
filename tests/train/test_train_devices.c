/* A network whose layers are on all devices in turn trains as it does on one: the same losses, the same weights.
 *
 * ctest: cuda-random; sim; labels=threads */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/conformance/conformance.h"

enum { STEPS = 6, BATCH = 16, MOST_DEVICES = 8, WEIGHTS = 62006 };

/* Layers of simplecnn, neighbours on different devices; those between are on the device of their input. */
static const char *const layers[] = {"conv1", "pool1", "conv2", "fc1", "fc2", "fc3"};
enum { LAYERS = sizeof layers / sizeof layers[0] };

typedef haul_optimizer *maker(haul_module *net);

static haul_optimizer *make_sgd(haul_module *net)
{
    return haul_sgd(net, 0.05, .momentum = 0.9, .weight_decay = 1e-3);
}

static haul_optimizer *make_adamw(haul_module *net)
{
    return haul_adamw(net, 1e-3, .weight_decay = 1e-2);
}

static double step(haul_module *net, haul_optimizer *optimizer, const haul_batch *batch)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_to(batch->x, haul_tensor_device(haul_module_parameter(net, "conv1.weight")));
    haul_tensor *y = haul_call(net, x);
    haul_tensor *loss = haul_cross_entropy(y, haul_to(batch->y, haul_tensor_device(y)));
    assert_int_equal(haul_optimizer_zero_grad(optimizer), HAUL_OK);
    assert_int_equal(haul_backward(loss), HAUL_OK);
    assert_int_equal(haul_optimizer_step(optimizer), HAUL_OK);
    double value = haul_item(loss);
    haul_scope_pop(scope);
    return value;
}

/* Train on these devices in turn; losses [STEPS] and the final weights, one tensor after the other. */
static void train(haul_device *const *devices, int count, maker *make, double *losses, double *weights)
{
    haul_scope *scope = haul_scope_push();
    assert_non_null(scope);
    haul_manual_seed(3);
    haul_module *net = haul_model_new("simplecnn");
    for (int i = 0; i < LAYERS; i++)
        assert_int_equal(haul_module_place(haul_module_child(net, layers[i]), devices[i % count]), HAUL_OK);
    haul_loader    *loader = haul_loader_new(haul_dataset_map(haul_shapes(STEPS * BATCH), haul_normalise("x")),
                                             .batch = BATCH, .shuffle = true, .workers = 1);
    haul_optimizer *optimizer = make(net);
    assert_int_equal(haul_loader_start(loader, 1), HAUL_OK);
    int done = 0;
    for (const haul_batch *batch; (batch = haul_loader_next(loader));)
        losses[done++] = step(net, optimizer, batch);
    if (done != STEPS || haul_error_status())
        fail_msg("%d of %d steps: %s", done, STEPS, haul_error_message());

    haul_named_tensor found[16];
    int               tensors = haul_module_tensors(net, found, 16);
    int64_t           at = 0;
    for (int i = 0; i < tensors; i++) {
        int64_t size = haul_tensor_count(found[i].tensor);
        assert_true(at + size <= WEIGHTS);
        assert_int_equal(read_values(found[i].tensor, weights + at, size), HAUL_OK);
        at += size;
    }
    assert_int_equal(at, WEIGHTS);
    haul_scope_pop(scope);
}

static void check(maker *make, double bound)
{
    static double want_weights[WEIGHTS], weights[WEIGHTS];
    double        want[STEPS], losses[STEPS], worst = 0;
    haul_device  *devices[MOST_DEVICES], *cpu[] = {haul_cpu()};
    int           count = test_devices(devices, MOST_DEVICES);
    if (count < 2)
        skip();
    train(cpu, 1, make, want, want_weights);
    assert_true(want[STEPS - 1] < want[0]);
    train(devices, count, make, losses, weights);
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(losses[i] - want[i]) <= 1e-4 * fabs(want[i])))
            fail_msg("step %d: the loss is %.9g, on the CPU %.9g", i + 1, losses[i], want[i]);
    for (int i = 0; i < WEIGHTS; i++)
        worst = fmax(worst, fabs(weights[i] - want_weights[i]));
    if (!(worst <= bound))
        fail_msg("weights differ by up to %.3g", worst);
}

static void test_train_devices__sgd(void **state)
{
    (void)state;
    check(make_sgd, 1e-4);
}

/* A gradient near 0 whose sign differs moves its weight by lr. */
static void test_train_devices__adamw(void **state)
{
    (void)state;
    check(make_adamw, 2e-3 * STEPS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_train_devices__sgd),
        cmocka_unit_test(test_train_devices__adamw),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
