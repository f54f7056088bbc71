/* Virtual time: commands of the CPU advance it when they are done, those of a simulated device when the host waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>

#include "base/system/clock.h"
#include "core/error.h"
#include "device/speeds.h"
#include "memory/allocator.h"
#include "support/commands.h"

enum { BYTES = 4 << 20 };

static void test_virtual_time__advances_by_commands_of_the_cpu(void **state)
{
    haul_device   *sim = haul_device_get("sim:h200");
    haul__storage *here = haul__storage_alloc(haul_cpu(), BYTES, "test"), *there;
    (void)state;
    assert_true(haul_device_is_valid(sim));
    there = haul__storage_alloc(sim, BYTES, "test");
    assert_true(here && there && haul__clock_is_virtual());
    const int64_t begin = haul__clock_ps();
    assert_int_equal(submit_fill(there, BYTES, 1), HAUL_OK);
    assert_true(haul__clock_ps() == begin);
    assert_int_equal(haul_device_sync(sim), HAUL_OK);
    const int64_t waited = haul__clock_ps();
    assert_true(waited > begin);
    assert_int_equal(submit_fill(here, BYTES, 1), HAUL_OK);
    assert_true(haul__clock_ps() > waited);
    haul__object_release(here);
    haul__object_release(there);
}

static void test_virtual_time__speeds_are_those_of_the_machine(void **state)
{
    const haul_device *sim = haul_device_get("sim:h200");
    const haul__speeds own = haul__speeds_of(sim), cpu = haul__speeds_of(haul_cpu());
    (void)state;
    assert_true(own.machine && !own.assumed && !cpu.assumed);
    assert_ptr_equal(own.machine, cpu.machine);
    assert_int_equal(cpu.number, 0);
    assert_true(own.number > 0);
    assert_true(haul__speeds_copy_time(haul_cpu(), sim, BYTES, true) ==
                haul__machine_copy_time(own.machine, 0, own.number, BYTES, true));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_virtual_time__advances_by_commands_of_the_cpu),
        cmocka_unit_test(test_virtual_time__speeds_are_those_of_the_machine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
