/* Measuring this computer: classes, links, the cache, and its damaged files. Only one test times what it measures, and
 * all sizes of it. In the others each work runs once and counts as 200 ms, so that its first size is enough. */
/* ctest: labels=slow; wraps=haul__probe_seconds */
#include <dirent.h>
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "core/error.h"
#include "files/disk_cache.h"
#include "plan/here.h"
#include "plan/probe.h"

static char         folder[] = "calibrate-XXXXXX";
static haul_scope  *scope;
static haul_device *device; /* another one than the CPU, if there is one */

static bool         repeats;
static haul_device *failing; /* its works fail; NULL: none do */

double __real_haul__probe_seconds(const haul__probe *p, double budget);
double __wrap_haul__probe_seconds(const haul__probe *p, double budget);
double __wrap_haul__probe_seconds(const haul__probe *p, double budget)
{
    if (repeats)
        return __real_haul__probe_seconds(p, budget);
    haul_scope *runs = haul_scope_push();
    const bool  failed = p->device == failing
                             ? haul__fail(HAUL_BACKEND, "test", NULL, "its compiler refuses the kernel") != HAUL_OK
                             : p->run(p->context) || haul_device_sync(p->device);
    haul_scope_pop(runs);
    return failed ? NAN : 0.2;
}

static int setup(void **state)
{
    (void)state;
    haul_error_clear();
    scope = haul_scope_push();
    haul_device *all[8];
    const int    count = haul__here_devices(all, 8);
    assert_true(count > 0 && all[0] == haul_cpu());
    device = count > 1 ? all[1] : haul_cpu();
    return !scope;
}

static int teardown(void **state)
{
    (void)state;
    haul_scope_pop(scope);
    return 0;
}

static haul__machine *here(haul__here_mode mode)
{
    haul__machine *m = NULL;
    haul_status    status = haul__machine_here("test", &device, 1, mode, &m);
    if (status != HAUL_OK && mode != HAUL__HERE_CACHED)
        fail_msg("%s", haul_error_message());
    return m;
}

/* ---- the files of the cache ---- */

/* Calls change for each file of the cache; returns how many there are. */
static int each_file(void (*change)(const char *path))
{
    int            count = 0;
    DIR           *all = opendir(folder);
    struct dirent *entry;
    assert_non_null(all);
    while ((entry = readdir(all))) {
        char path[512];
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (entry->d_name[0] == '.')
            continue;
        change(path);
        count++;
    }
    closedir(all);
    return count;
}

static void damage(const char *path)
{
    FILE *file = fopen(path, "r+");
    assert_non_null(file);
    fseek(file, -2, SEEK_END);
    const int byte = fgetc(file);
    fseek(file, -2, SEEK_END);
    fputc(byte ^ 1, file);
    fclose(file);
}

/* ---- tests ---- */

static void test_calibrate__needs_a_calibration(void **state)
{
    (void)state;
    assert_null(here(HAUL__HERE_CACHED));
    assert_int_equal(haul_error_status(), HAUL_STATE);
    assert_non_null(strstr(haul_error_message(), "run haul calibrate"));
    haul_device_speeds speeds = {.bytes_per_second = 7};
    assert_int_equal(haul_device_speed(haul_cpu(), HAUL_F32, &speeds), HAUL_STATE);
    assert_true(speeds.bytes_per_second == 7);
    haul_link_speeds link = {.latency = 7};
    assert_int_equal(haul_link_speed(haul_cpu(), haul_cpu(), &link), HAUL_INVALID_ARGUMENT);
    if (device != haul_cpu())
        assert_int_equal(haul_link_speed(haul_cpu(), device, &link), HAUL_STATE);
    assert_true(link.latency == 7);
}

static void test_calibrate__measures_all_classes(void **state)
{
    (void)state;
    haul_manual_seed(5);
    haul_random_state before = haul_random_state_get();
    haul__machine    *m = here(HAUL__HERE_MISSING);
    haul_random_state after = haul_random_state_get();
    assert_memory_equal(&before, &after, sizeof before);
    assert_ptr_equal(haul_current_device(), haul_cpu());
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_int_equal(m->device_count, device == haul_cpu() ? 1 : 2);
    assert_false(m->described);
    for (int i = 0; i < m->device_count; i++)
        for (haul__work_class c = 0; c < HAUL__WORK_OTHER; c++)
            if (!haul__machine_measures(m, i, c, HAUL_F32))
                fail_msg("%s has no rate for %s", m->devices[i].name, haul__work_class_name(c));
    for (int i = 0; i < m->device_count; i++)
        assert_true(m->devices[i].launch_ns > 0 && m->devices[i].bytes_per_second > 1);
    if (device != haul_cpu())
        assert_true(haul__machine_copy_time(m, 0, 1, 1 << 20, true) > 0);
    haul__free(m);
}

static void test_calibrate__keeps_measurements(void **state)
{
    (void)state;
    haul__machine *m = here(HAUL__HERE_MISSING), *again = here(HAUL__HERE_CACHED);
    assert_non_null(again);
    assert_memory_equal(m, again, sizeof *m);
    haul_set_num_threads(haul_num_threads() + 1);
    assert_null(here(HAUL__HERE_CACHED));
    haul_set_num_threads(0);
    haul_error_clear();
    haul__free(again);
    haul__free(m);
}

static void test_calibrate__gives_speeds(void **state)
{
    (void)state;
    haul_device_speeds speeds;
    haul__free(here(HAUL__HERE_MISSING));
    assert_int_equal(haul_device_speed(device, HAUL_F32, &speeds), HAUL_OK);
    assert_true(speeds.flops_per_second > 0 && speeds.bytes_per_second > 0 && speeds.launch > 0);
    assert_int_equal(haul_device_speed(device, HAUL_I32, &speeds), HAUL_OK);
    assert_true(speeds.flops_per_second == 0 && speeds.bytes_per_second > 0);
    assert_int_equal(haul_device_speed(device, HAUL_F32, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_device_speed(device, (haul_dtype)99, &speeds), HAUL_DTYPE);
    assert_int_equal(haul_device_speed(haul_device_get("meta"), HAUL_F32, &speeds), HAUL_DEVICE);
    assert_int_equal(haul_device_speed(haul_device_get("nowhere"), HAUL_F32, &speeds), HAUL_DEVICE);
    if (device == haul_cpu())
        return;
    haul_link_speeds up, down;
    assert_int_equal(haul_link_speed(haul_cpu(), device, &up), HAUL_OK);
    assert_int_equal(haul_link_speed(device, haul_cpu(), &down), HAUL_OK);
    assert_true(up.latency > 0 && up.pinned_bytes_per_second > 0 && down.pageable_bytes_per_second > 0);
    assert_int_equal(haul_link_speed(device, device, &down), HAUL_INVALID_ARGUMENT);
}

/* Only the CPU, which takes less time than all devices. */
static void test_calibrate__measures_again_what_is_damaged(void **state)
{
    (void)state;
    haul__free(here(HAUL__HERE_MISSING));
    device = haul_cpu();
    assert_true(each_file(damage) > 0);
    assert_null(here(HAUL__HERE_CACHED));
    haul__free(here(HAUL__HERE_MISSING));
    haul__machine *m = here(HAUL__HERE_CACHED);
    assert_non_null(m);
    haul__free(m);
}

static void test_calibrate__measures_anew(void **state)
{
    (void)state;
    device = haul_cpu();
    const int64_t before = haul__cache_counts().stored;
    repeats = true;
    haul__machine *m = here(HAUL__HERE_ANEW);
    repeats = false;
    assert_true(haul__cache_counts().stored > before);
    haul__free(m);
}

static void test_calibrate__refuses_a_device_without_values(void **state)
{
    (void)state;
    haul__machine *m = NULL;
    haul_device   *meta = haul_device_get("meta");
    assert_int_equal(haul__machine_here("test", &meta, 1, HAUL__HERE_MISSING, &m), HAUL_DEVICE);
    assert_null(m);
    assert_non_null(strstr(haul_error_message(), "computes nothing"));
}

static char left_out_device[64], left_out_why[256];

static void note_left_out(const char *name, const char *why)
{
    snprintf(left_out_device, sizeof left_out_device, "%s", name);
    snprintf(left_out_why, sizeof left_out_why, "%s", why);
}

/* One device that fails does not keep the others from being measured. */
static void test_calibrate__a_device_that_fails_is_left_out(void **state)
{
    haul__machine *m = NULL;
    (void)state;
    if (device == haul_cpu())
        skip();
    failing = device;
    assert_int_equal(haul__machine_of_all("test", HAUL__HERE_ANEW, note_left_out, &m), HAUL_OK);
    assert_int_equal(haul_error_status(), HAUL_OK);
    assert_true(haul__machine_find(m, "cpu") == 0 && haul__machine_find(m, haul_device_name(device)) < 0);
    assert_string_equal(left_out_device, haul_device_name(device));
    assert_non_null(strstr(left_out_why, "its compiler refuses the kernel"));
    haul__free(m);
    failing = haul_cpu();
    assert_int_equal(haul__machine_of_all("test", HAUL__HERE_ANEW, note_left_out, &m), HAUL_BACKEND);
    assert_null(m);
    haul_error_clear();
    failing = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_calibrate__needs_a_calibration, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibrate__measures_all_classes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibrate__keeps_measurements, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibrate__gives_speeds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibrate__measures_again_what_is_damaged, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibrate__measures_anew, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibrate__refuses_a_device_without_values, setup, teardown),
        cmocka_unit_test_setup_teardown(test_calibrate__a_device_that_fails_is_left_out, setup, teardown),
    };
    if (!mkdtemp(folder) || setenv("HAUL_CACHE_DIR", folder, 1))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
