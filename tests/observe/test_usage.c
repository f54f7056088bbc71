/* What a device's hardware does: files of /sys and /proc that the test writes, and NVIDIA's library as the stand-in has
 * it. */
/* ctest: cuda; env=STANDIN_SENSORS=1; labels=threads */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "observe/usage/sensors.h"
#include "support/datasets.h"

static char root[] = "usage-XXXXXX";

/* Writes a file below the root, with its folders. */
static void put(const char *path, const char *text)
{
    char full[512];
    snprintf(full, sizeof full, "%s%s", root, path);
    for (char *slash = strchr(full, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(full, 0700);
        *slash = '/';
    }
    write_text(full, text);
}

static int setup(void **state)
{
    (void)state;
    return !mkdtemp(root) || setenv("HAUL_SENSORS_ROOT", root, 1) != 0;
}

static haul_usage usage_of(const char *name)
{
    haul_usage out;
    if (haul_device_usage(haul_device_get(name), &out))
        fail_msg("%s", haul_error_message());
    return out;
}

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * fabs(b)))
        fail_msg("%.17g is not %.17g", a, b);
}

/* ---- the CPU ---- */

static void put_package(const char *joules_0, const char *joules_1)
{
    put("/sys/class/powercap/intel-rapl:0/name", "package-0\n");
    put("/sys/class/powercap/intel-rapl:0/max_energy_range_uj", "262143328850\n");
    put("/sys/class/powercap/intel-rapl:0/energy_uj", joules_0);
    put("/sys/class/powercap/intel-rapl:1/name", "package-1\n");
    put("/sys/class/powercap/intel-rapl:1/max_energy_range_uj", "262143328850\n");
    put("/sys/class/powercap/intel-rapl:1/energy_uj", joules_1);
    put("/sys/class/powercap/intel-rapl:2/name", "psys\n");
    put("/sys/class/powercap/intel-rapl:2/energy_uj", "999000000\n");
}

static void test_usage__of_the_cpu(void **state)
{
    (void)state;
    haul_usage u = usage_of("cpu");
    assert_true(isnan(u.joules) && isnan(u.watts) && isnan(u.utilisation) && isnan(u.total) && isnan(u.celsius));

    put("/proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 100 0 100 800\n");
    put("/proc/meminfo", "MemTotal:  1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n");
    put("/sys/class/hwmon/hwmon0/name", "k10temp\n");
    put("/sys/class/hwmon/hwmon0/temp1_input", "84000\n");
    put("/sys/class/hwmon/hwmon0/temp1_max", "95000\n");
    put("/sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "3200000\n");
    put_package("1000000000\n", "262143328000\n");
    u = usage_of("cpu");
    assert_near(u.joules, 0);
    assert_true(isnan(u.watts));
    assert_near(u.total, 1024000);
    assert_near(u.used, 600 * 1024);
    assert_near(u.celsius, 84);
    assert_near(u.celsius_limit, 95);
    assert_near(u.megahertz, 3200);
    assert_true(!u.processes_known && u.process_count == 0);

    put("/proc/stat", "cpu  130 0 130 840 0 0 0 0 0 0\ncpu0 130 0 130 840\n");
    put_package("1012500000\n", "1999150\n"); /* the second starts again at 0: 850 microjoules and 2 joules */
    u = usage_of("cpu");
    assert_near(u.utilisation, 0.6);
    assert_near(u.joules, 12.5 + 2);
    assert_true(u.watts > 0);
}

static void test_usage__without_numbers(void **state)
{
    (void)state;
    put("/proc/stat", "");
    put("/proc/meminfo", "nonsense");
    put_package("permission denied", "");
    const haul_usage u = usage_of("cpu");
    assert_true(isnan(u.utilisation) && isnan(u.total) && isnan(u.joules) && isnan(u.watts));
}

/* A count that falls without a known range starts at 0 and adds nothing. */
static void test_usage__counts(void **state)
{
    (void)state;
    haul__sensor_energy e = {0};
    haul__sensor_count  c = {0};
    assert_near(haul__sensor_energy_add(&e, 100, NAN), 0);
    assert_near(haul__sensor_energy_add(&e, 130, NAN), 30);
    assert_near(haul__sensor_energy_add(&e, 7, NAN), 30);
    assert_near(haul__sensor_energy_add(&e, 9, NAN), 32);
    assert_true(isnan(haul__sensor_energy_add(&e, NAN, NAN)));
    assert_near(haul__sensor_energy_add(&e, 10, 3), 33);
    assert_near(haul__sensor_energy_add(&e, 1, 3), 33); /* a range below the count is wrong */
    assert_true(isnan(haul__sensor_rate(&c, 1, 10)));
    assert_near(haul__sensor_rate(&c, 5, 12), 2);
    assert_true(isnan(haul__sensor_rate(&c, 6, 12)));
    assert_true(isnan(haul__sensor_rate(&c, 4, 13)));
    assert_near(haul__sensor_rate(&c, 5, 14), 1);
    assert_true(haul__same_bus("00000000:0A:00.0", "0000:0a:00.0") && !haul__same_bus("0000:01:00.0", "0000:02:00.0"));
    assert_true(!haul__same_bus("", ""));
}

/* An OpenCL device that is a CPU has the numbers of the CPU. */
static void test_usage__of_opencl(void **state)
{
    (void)state;
    haul_device_properties p;
    haul_device           *device = haul_device_get("opencl:0");
    if (haul_device_describe(device, &p) || p.kind != HAUL_KIND_CPU) {
        haul_error_clear();
        skip();
    }
    put("/proc/meminfo", "MemTotal:  2000 kB\nMemAvailable: 500 kB\n");
    assert_near(usage_of("opencl:0").total, 2048000);
}

/* ---- GPUs ---- */

static void test_usage__of_nvidia(void **state)
{
    (void)state;
    if (!haul_device_is_valid(haul_device_get("cuda:1")))
        skip();
    haul_error_clear();
    haul_usage       u = usage_of("cuda:0");
    const haul_usage other = usage_of("cuda:1");
    assert_near(u.utilisation, 0.93);
    assert_near(u.total, 24.0 * (1 << 30));
    assert_near(u.celsius, 71);
    assert_near(u.watts, 68.1);
    assert_near(u.watts_limit, 72);
    assert_near(u.megahertz, 1980);
    assert_near(u.to_device, 1.42e9);
    assert_true(u.processes_known && u.process_count == 1 && u.processes[0].pid == getpid());
    assert_true(isnan(other.joules) && isnan(other.watts) && other.celsius == 95);
    const double before = u.joules;
    u = usage_of("cuda:0");
    assert_true(u.joules > before && fmod(u.joules, 2.5) == 0);

    setenv("STANDIN_DEVICES", "1", 1); /* as if the driver lost the second */
    haul_usage same = other;
    assert_int_equal(haul_device_usage(haul_device_get("cuda:1"), &same), HAUL_UNSUPPORTED);
    expect("a GPU that is not listed", HAUL_UNSUPPORTED, "cuda:1 (0000:02:00.0) cannot be read: no driver");
    assert_memory_equal(&same, &other, sizeof same);
    setenv("STANDIN_DEVICES", "2", 1);
}

/* ---- refusals ---- */

static void refuse(const char *name, haul_status status, const char *words)
{
    haul_usage out = {.celsius = 7};
    assert_int_equal(haul_device_usage(haul_device_get(name), &out), status);
    assert_near(out.celsius, 7);
    expect(name, status, words);
}

static void test_usage__refusals(void **state)
{
    (void)state;
    refuse("meta", HAUL_UNSUPPORTED, "meta has no hardware");
    refuse("nonsense", HAUL_DEVICE, "nonsense");
    refuse("sim:h200", HAUL_UNSUPPORTED, "sim:h200:0 has no hardware"); /* last: time is virtual from here */
    assert_int_equal(haul_device_usage(haul_cpu(), NULL), HAUL_INVALID_ARGUMENT);
    expect("NULL", HAUL_INVALID_ARGUMENT, "out is NULL");
}

/* ---- threads ---- */

static void *read_often(void *arg)
{
    haul_usage *out = arg;
    for (int i = 0; i < 50; i++)
        if (haul_device_usage(haul_cpu(), out))
            return NULL;
    return out;
}

static void test_usage__from_threads(void **state)
{
    (void)state;
    pthread_t  threads[4];
    haul_usage out[4];
    void      *done;
    put("/proc/meminfo", "MemTotal:  3000 kB\nMemAvailable: 500 kB\n");
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_often, &out[i]), 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], &done), 0);
        assert_ptr_equal(done, &out[i]);
        assert_near(out[i].total, 3072000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_usage__of_the_cpu), cmocka_unit_test(test_usage__without_numbers),
        cmocka_unit_test(test_usage__counts),     cmocka_unit_test(test_usage__of_opencl),
        cmocka_unit_test(test_usage__of_nvidia),  cmocka_unit_test(test_usage__from_threads),
        cmocka_unit_test(test_usage__refusals),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
