/* What the audit says of copies whose data are converted on the wrong side, on a simulated device. */
#include <string.h>

#include "support/scope.h"

enum { STEPS = 4, FOUND = 32, WIDTH = 1 << 18, REPEATED = 64 };

static haul_device *gpu;

/* Data are made smaller on the device after they were copied, with each element `repeated` times. */
static void step(haul_tensor *x, int64_t repeated, haul_profile *profile)
{
    haul_scope *inner = haul_scope_push();
    haul_cast(haul_expand(haul_to(x, gpu), HAUL_SHAPE(repeated, WIDTH)), HAUL_F16);
    haul_device_sync(gpu);
    assert_int_equal(haul_scope_pop(inner), HAUL_OK);
    assert_int_equal(haul_profile_step(profile), HAUL_OK);
}

static haul_finding wrong_side(int64_t repeated)
{
    haul_finding  all[FOUND], found = {.ms_per_step = 0};
    haul_tensor  *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(1, WIDTH)), haul_cpu());
    haul_profile *profile = haul_profile_begin(.everywhere = false);
    for (int i = 0; i < STEPS; i++)
        step(x, repeated, profile);
    assert_int_equal(haul_profile_end(profile), HAUL_OK);
    const int count = haul_profile_audit(profile, all, FOUND);
    assert_in_range(count, 1, FOUND);
    for (int i = 0; i < count; i++)
        if (all[i].kind == HAUL_FINDING_WRONG_SIDE)
            found = all[i];
    return found;
}

/* The bytes of a copy count once, however often its elements are repeated on the device. */
static void test_audit_conversions__count_bytes_once(void **state)
{
    (void)state;
    const haul_finding once = wrong_side(1), often = wrong_side(REPEATED);
    assert_int_equal(once.bytes_per_step, 2 * WIDTH);
    assert_int_equal(often.bytes_per_step, 2 * WIDTH);
    assert_true(once.ms_per_step > 0);
    assert_true(often.ms_per_step < 1.5 * once.ms_per_step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_audit_conversions__count_bytes_once, setup, teardown),
    };
    gpu = haul_device_get("sim:laptop-4g");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
