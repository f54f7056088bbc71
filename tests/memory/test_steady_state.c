/* A training that is under way lives from the allocator's cache: after its third step it obtains nothing more from the
 * device, with batches that come from a loader, whatever the number of workers.
 *
 * ctest: cuda; labels=threads */
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "support/conformance/conformance.h"

enum { STEPS = 20, BATCH = 16 };

static int64_t device_allocations(haul_device *device)
{
    haul_memory_stats stats = {0};
    assert_int_equal(haul_memory_stats_get(device, &stats), HAUL_OK);
    return stats.device_allocations;
}

static void step(haul_module *net, haul_optimizer *sgd, const haul_batch *batch)
{
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_optimizer_zero_grad(sgd), HAUL_OK);
    assert_int_equal(haul_backward(haul_cross_entropy(haul_call(net, batch->x), batch->y)), HAUL_OK);
    assert_int_equal(haul_optimizer_step(sgd), HAUL_OK);
    haul_scope_pop(scope);
}

/* Two epochs, so that the loader starts anew on the way. */
static void check_training(const char *name, int workers)
{
    haul_scope  *scope = haul_scope_push();
    haul_device *device = haul_device_get(name);
    int64_t      after_three = 0;
    int          done = 0;
    assert_int_equal(haul_set_device(device), HAUL_OK);
    haul_memory_release_cached(device);
    haul_loader    *loader = haul_loader_new(haul_dataset_map(haul_shapes(STEPS / 2 * BATCH), haul_normalise("x")),
                                             .batch = BATCH, .shuffle = true, .workers = workers);
    haul_module    *net = haul_model_new("simplecnn");
    haul_optimizer *sgd = haul_sgd(net, 0.01, .momentum = 0.9);
    for (int epoch = 1; epoch <= 2; epoch++) {
        assert_int_equal(haul_loader_start(loader, epoch), HAUL_OK);
        for (const haul_batch *batch; (batch = haul_loader_next(loader));) {
            step(net, sgd, batch);
            if (++done == 3)
                after_three = device_allocations(device);
            if (done > 3 && device_allocations(device) != after_three)
                fail_msg("%s, %d workers: step %d obtained memory from the device", name, workers, done);
        }
        assert_int_equal(haul_error_status(), HAUL_OK);
    }
    assert_int_equal(done, STEPS);
    assert_true(after_three > 0);
    haul_scope_pop(scope);
}

static void test_steady_state__every_device(void **state)
{
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    (void)state;
    assert_true(count > 0);
    for (int d = 0; d < count; d++)
        for (int workers = 0; workers <= 2; workers++)
            check_training(haul_device_name(devices[d]), workers);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steady_state__every_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
