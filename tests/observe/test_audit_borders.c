/* The audit names the layer at which a network is split, on a simulated device. */
#include <string.h>

#include "support/scope.h"

enum { STEPS = 4, FOUND = 32 };

static haul_device *gpu;

static haul_tensor *forward(haul_module *m, haul_args *args)
{
    return haul_call_child(m, "last", haul_call_child(m, "first", args->x[0]));
}

/* The first layer is on the device, the last one on the CPU. */
static haul_module *split_network(void)
{
    haul_module *net = haul_module_new("net", forward);
    haul_module_add(net, "first", haul_nn_linear(256, 256));
    haul_module_add(net, "last", haul_nn_linear(256, 256));
    haul_module_place(haul_module_child(net, "first"), gpu);
    haul_module_place(haul_module_child(net, "last"), haul_cpu());
    return net;
}

static void step(haul_module *net, haul_profile *profile)
{
    haul_scope *inner = haul_scope_push();
    haul_call(net, haul_ones(HAUL_F32, HAUL_SHAPE(512, 256)));
    haul_device_sync(gpu);
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    if (profile)
        assert_int_equal(haul_profile_step(profile), HAUL_OK);
}

/* The finding about this layer; `what` of the others does not have its name. */
static haul_finding finding_about(haul_profile *profile, haul_finding_kind kind, const char *layer)
{
    haul_finding all[FOUND], found = {.ms_per_step = 0};
    const int    count = haul_profile_audit(profile, all, FOUND);
    assert_in_range(count, 1, FOUND);
    for (int i = 0; i < count; i++)
        if (all[i].kind == kind && strstr(all[i].what, layer))
            found = all[i];
    return found;
}

static void test_audit_borders__name_the_layer_that_waits(void **state)
{
    (void)state;
    haul_module *net = split_network();
    step(net, NULL);
    haul_profile *profile = haul_profile_begin(.everywhere = false);
    for (int i = 0; i < STEPS; i++)
        step(net, profile);
    assert_int_equal(haul_profile_end(profile), HAUL_OK);
    const haul_finding f = finding_about(profile, HAUL_FINDING_WAIT_PER_STEP, "'last'");
    assert_string_equal(f.what, "In each step the host waits for sim:laptop-4g:0 once: the layer 'last' is on the CPU, "
                                "and 'x' is not.");
    assert_non_null(strstr(f.fix, "haul_module_place(layer, haul_device_get(\"sim:laptop-4g:0\")); /* 'last' */"));
    assert_int_equal(f.bytes_per_step, 512 * 256 * 4);
    assert_true(f.planned_ms_per_step == 0);
}

/* Other waits name no layer. */
static void test_audit_borders__are_not_all_waits(void **state)
{
    (void)state;
    haul_profile *profile = haul_profile_begin(.everywhere = false);
    for (int i = 0; i < STEPS; i++) {
        haul_scope *inner = haul_scope_push();
        haul_set_device(gpu);
        haul_item(haul_sum(haul_ones(HAUL_F32, HAUL_SHAPE(1024, 1024))));
        haul_scope_pop(inner);
        haul_profile_step(profile);
    }
    assert_int_equal(haul_profile_end(profile), HAUL_OK);
    assert_non_null(finding_about(profile, HAUL_FINDING_WAIT_PER_STEP, "in haul_item").fix);
    assert_true(finding_about(profile, HAUL_FINDING_WAIT_PER_STEP, "layer").ms_per_step == 0);
    assert_true(finding_about(profile, HAUL_FINDING_WAIT_PER_STEP, "in haul_item").ms_per_step > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_audit_borders__name_the_layer_that_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_audit_borders__are_not_all_waits, setup, teardown),
    };
    gpu = haul_device_get("sim:laptop-4g");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
