/* The speeds of devices: assumed ones, measured and learnt ones of the cache on disk, and copies between devices. */
#include <dirent.h>
#include <haul/haul.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/error.h"
#include "device/speeds.h"
#include "support/devices/late.h"

static char folder[] = "/tmp/haul-test-speeds-XXXXXX";

static int begin(void **state)
{
    (void)state;
    return mkdtemp(folder) ? setenv("HAUL_CACHE_DIR", folder, 1) : -1;
}

static int end(void **state)
{
    DIR *open = opendir(folder);
    (void)state;
    for (struct dirent *entry; open && (entry = readdir(open));) {
        char path[400];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] != '.')
            unlink(path);
    }
    if (open)
        closedir(open);
    return rmdir(folder);
}

static void test_speeds__without_measurements_they_are_assumed(void **state)
{
    const haul__speeds cpu = haul__speeds_of(haul_cpu()), own = haul__speeds_of(late_device(0));
    (void)state;
    assert_true(cpu.assumed && own.assumed);
    assert_int_equal(cpu.number, 0);
    assert_int_equal(own.number, 1);
    assert_ptr_equal(cpu.machine, own.machine);
    const haul__machine *m = own.machine;
    assert_string_equal(m->name, "assumed");
    assert_true(m->described);
    assert_int_equal(m->device_count, 2);
    assert_int_equal(m->link_count, 2);
    assert_string_equal(m->devices[0].name, "cpu");
    assert_string_equal(m->devices[1].name, "device");
    assert_true(m->devices[0].launch_ns == 500 && m->devices[1].launch_ns == 10000);
    assert_true(m->devices[0].bytes_per_second == 20000000000 && m->devices[1].bytes_per_second == 200000000000);
    const haul__machine_link *up = haul__machine_link_of(m, 0, 1), *down = haul__machine_link_of(m, 1, 0);
    haul__machine_link        pcie;
    assert_true(haul__machine_named_link("pcie4", &pcie));
    assert_true(up && down && up != down);
    assert_int_equal(up->pinned, pcie.pinned);
    assert_int_equal(down->pageable, pcie.pageable);
    haul_device *shared = late_device_new(); /* has the host's memory */
    shared->properties.shares_host_memory = true;
    const haul__speeds s = haul__speeds_of(shared);
    assert_true(s.assumed && s.number == 1 && s.machine != m);
    assert_int_equal(s.machine->devices[1].bytes_per_second, 20000000000);
    for (int i = 0; i < 2; i++) {
        const haul__machine_link *link = haul__machine_link_of(s.machine, i, 1 - i);
        assert_true(link && link->pinned == 10000000000 && link->pageable == 10000000000);
    }
}

static void test_speeds__copies_between_machines_go_through_the_host(void **state)
{
    haul_device *own = late_device(0), *shared = late_device_new();
    (void)state;
    shared->properties.shares_host_memory = true;
    const haul__machine *a = haul__speeds_of(own).machine, *b = haul__speeds_of(shared).machine;
    for (int pinned = 0; pinned < 2; pinned++) {
        const int64_t down = haul__machine_copy_time(a, 1, 0, 1 << 20, pinned);
        const int64_t up = haul__machine_copy_time(b, 0, 1, 1 << 20, pinned);
        assert_true(down > 0 && up > 0);
        assert_true(haul__speeds_copy_time(own, haul_cpu(), 1 << 20, pinned) == down);
        assert_true(haul__speeds_copy_time(own, shared, 1 << 20, pinned) == down + up);
        assert_true(haul__speeds_copy_time(haul_cpu(), shared, 1 << 20, pinned) == up);
        assert_true(haul__speeds_copy_time(shared, haul_cpu(), 1 << 20, pinned) ==
                    haul__machine_copy_time(b, 1, 0, 1 << 20, pinned));
        assert_true(haul__speeds_copy_time(shared, shared, 1 << 20, pinned) ==
                    haul__machine_copy_time(b, 1, 1, 1 << 20, pinned));
    }
    assert_true(haul__speeds_copy_time(own, shared, INT64_MAX / 4, true) == HAUL__MACHINE_MOST_PS);
}

/* Both are assumed to be the accelerator of the same kind of computer, and are two devices all the same. */
static void test_speeds__devices_without_measurements_are_apart(void **state)
{
    const haul_device   *one = late_device(0), *other = late_device(1);
    const haul__machine *m = haul__speeds_of(one).machine;
    (void)state;
    assert_ptr_equal(haul__speeds_of(other).machine, m);
    assert_true(haul__speeds_copy_time(one, other, 1 << 20, true) ==
                haul__machine_copy_time(m, 1, 0, 1 << 20, true) + haul__machine_copy_time(m, 0, 1, 1 << 20, true));
    assert_true(haul__speeds_copy_time(one, one, 1 << 20, true) == haul__machine_copy_time(m, 1, 1, 1 << 20, true));
    assert_true(haul__speeds_copy_time(haul_cpu(), haul_cpu(), 1 << 20, true) ==
                haul__machine_copy_time(m, 0, 0, 1 << 20, true));
}

static int entries(void)
{
    DIR *open = opendir(folder);
    int  count = 0;
    for (struct dirent *entry; open && (entry = readdir(open));)
        count += entry->d_name[0] != '.';
    if (open)
        closedir(open);
    return count;
}

static void learn(const haul_device *device, const char *operation, int64_t ps)
{
    haul__machine_learnt times[2] = {{.dtype = HAUL_F32, .flops = 10, .bytes = 20, .ps = ps},
                                     {.dtype = HAUL_F32, .flops = 1000, .bytes = 2000, .ps = 2 * ps}};
    for (int i = 0; i < 2; i++)
        snprintf(times[i].operation, sizeof times[i].operation, "%s", operation);
    haul__speeds_learn(device, times, 2);
}

static void test_speeds__measured_and_learnt_ones_are_kept(void **state)
{
    haul_device *devices[] = {haul_cpu(), late_device(0)};
    (void)state;
    for (int i = 0; i < 2; i++) {
        haul_device   *device = devices[i];
        haul__machine *m = haul__calloc(1, sizeof *m);
        assert_non_null(m);
        haul__fail(HAUL_STATE, "before", NULL, "an error that stays");
        assert_true(haul__speeds_of(device).assumed);
        assert_null(haul__speeds_load(device));
        learn(device, "haul_exp", 1000); /* kept, although the device was not measured */
        learn(device, "haul_add", 3000);
        assert_null(haul__speeds_load(device));
        *m = *haul__speeds_of(device).machine;
        snprintf(m->name, sizeof m->name, "measured");
        snprintf(m->devices[1].name, sizeof m->devices[1].name, "%s", late_device(0)->name);
        m->devices[0].memory_bytes = m->devices[1].memory_bytes = 1 << 30;
        haul__speeds_store(device, m);
        haul__free(m);
        m = haul__speeds_load(device);
        assert_non_null(m);
        assert_string_equal(m->name, "measured");
        const haul__machine_device *d = &m->devices[i];
        assert_int_equal(d->learnt_count, 4);
        assert_string_equal(d->learnt[0].operation, "haul_exp");
        assert_string_equal(d->learnt[3].operation, "haul_add");
        assert_int_equal(d->learnt[3].ps, 6000);
        assert_int_equal(m->devices[1 - i].learnt_count, 0);
        haul__free(m);
        const haul__speeds s = haul__speeds_of(device);
        assert_false(s.assumed);
        assert_int_equal(s.number, i);
        assert_string_equal(s.machine->name, "measured");
        assert_ptr_equal(haul__speeds_of(device).machine, s.machine);
        assert_int_equal(haul_error_status(), HAUL_STATE);
        assert_string_equal(haul_error_operation(), "before");
        haul_error_clear();
    }
    assert_true(haul__speeds_of(late_device(1)).assumed);
    haul__machine *other = haul__calloc(1, sizeof *other); /* a measurement that does not have the device is none */
    assert_non_null(other);
    *other = *haul__speeds_of(haul_cpu()).machine;
    other->device_count = 1;
    other->link_count = 0;
    haul__speeds_store(late_device(1), other);
    assert_null(haul__speeds_load(late_device(1)));
    *other = *haul__speeds_of(late_device(0)).machine; /* nor is one that has other devices, too */
    other->devices[2] = other->devices[1];
    snprintf(other->devices[2].name, sizeof other->devices[2].name, "%s", late_device(1)->name);
    other->device_count = 3;
    for (int i = 0; i < 2; i++) {
        haul__machine_link *link = &other->links[other->link_count++];
        *link = other->links[i];
        link->from = link->from ? 2 : 0;
        link->to = link->to ? 2 : 0;
    }
    haul__speeds_store(late_device(1), other);
    assert_null(haul__speeds_load(late_device(1)));
    haul__free(other);
}

static void test_speeds__failures_leave_the_error(void **state)
{
    haul__machine_learnt times = {.operation = "haul_exp", .dtype = HAUL_F32, .flops = 10, .bytes = 20, .ps = 1};
    haul__machine       *m = haul__calloc(1, sizeof *m);
    (void)state;
    assert_non_null(m);
    const int before = entries();
    haul__speeds_learn(haul_device_get("tpu:0"), &times, 1); /* a device that there is not has no entry */
    assert_int_equal(entries(), before);
    assert_int_equal(haul_error_status(), HAUL_OK);
    *m = *haul__speeds_of(haul_cpu()).machine;
    snprintf(m->devices[1].name, sizeof m->devices[1].name, "%s", late_device(1)->name);
    haul__speeds_store(late_device(1), m); /* nothing was learnt of it */
    haul__free(m);
    m = haul__speeds_load(late_device(1));
    assert_non_null(m);
    assert_int_equal(m->devices[1].learnt_count, 0);
    learn(late_device(0), "haul_mul", 500);
    m->device_count = 1; /* learnt times of a device that the machine does not have */
    haul__speeds_add_learnt(late_device(0), m);
    assert_int_equal(m->devices[0].learnt_count, haul__speeds_of(haul_cpu()).machine->devices[0].learnt_count);
    for (int nth = 1; nth < 40; nth++) {
        haul__fail(HAUL_STATE, "before", NULL, "an error that stays");
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul__speeds_add_learnt(haul_cpu(), m);
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul__speeds_learn(haul_cpu(), &times, 1);
        haul__fault_plan(0, 0);
        assert_string_equal(haul_error_operation(), "before");
        haul_error_clear();
    }
    haul__free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speeds__without_measurements_they_are_assumed),
        cmocka_unit_test(test_speeds__copies_between_machines_go_through_the_host),
        cmocka_unit_test(test_speeds__devices_without_measurements_are_apart),
        cmocka_unit_test(test_speeds__measured_and_learnt_ones_are_kept),
        cmocka_unit_test(test_speeds__failures_leave_the_error),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
