/* Free host memory: the least of what the machine, control groups and limits of the process leave, read from files that
 * these tests make. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/system/free_memory.h"

enum { MIB = 1 << 20 };

static char root[64];

/* A file below the root, and the folders that it is in. */
static void put(const char *path, const char *text)
{
    char  name[512];
    int   length = snprintf(name, sizeof name, "%s%s", root, path);
    FILE *file;
    for (int i = 1; i < length; i++)
        if (name[i] == '/') {
            name[i] = 0;
            mkdir(name, 0700);
            name[i] = '/';
        }
    file = fopen(name, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static int64_t mib_free(void)
{
    const int64_t bytes = haul__free_memory(root);
    return bytes < 0 ? -1 : bytes / MIB;
}

static int begin(void **state)
{
    static const char meminfo[] = "MemTotal:       33554432 kB\nMemFree:  1024 kB\nMemAvailable:   10240000 kB\n";
    (void)state;
    strcpy(root, "root-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("/proc/meminfo", meminfo);
    return 0;
}

static void test_free_memory__of_the_machine(void **state)
{
    (void)state;
    assert_int_equal(mib_free(), 10000);
    put("/proc/self/cgroup", "0::/none\n");
    assert_int_equal(mib_free(), 10000);
    put("/proc/meminfo", "MemTotal: 33554432 kB\nxMemAvailable: 7 kB\n");
    assert_int_equal(mib_free(), -1);
    put("/proc/meminfo", "MemAvailable: many\n");
    assert_int_equal(mib_free(), -1);
    put("/proc/meminfo", "MemAvailable: 99999999999999999 kB\n");
    assert_true(haul__free_memory(root) == INT64_MAX);
}

/* The group's own limits, and those of the groups that it is in. */
static void test_free_memory__of_groups(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "0::/a.slice/b.scope\n");
    put("/sys/fs/cgroup/a.slice/b.scope/memory.max", "max\n");
    put("/sys/fs/cgroup/a.slice/b.scope/memory.high", "max\n");
    put("/sys/fs/cgroup/a.slice/b.scope/memory.current", "104857600\n");
    put("/sys/fs/cgroup/a.slice/memory.max", "max\n");
    assert_int_equal(mib_free(), 10000);
    put("/sys/fs/cgroup/a.slice/b.scope/memory.max", "1073741824\n");
    assert_int_equal(mib_free(), 1024 - 100);
    put("/sys/fs/cgroup/a.slice/b.scope/memory.stat",
        "anon 60000000\nfile 50000000\ninactive_anon 7\nactive_file 1\ninactive_file 41943040\nunevictable 0\n");
    assert_int_equal(mib_free(), 1024 - 100 + 40);
    put("/sys/fs/cgroup/a.slice/b.scope/memory.high", "536870912\n");
    assert_int_equal(mib_free(), 512 - 60);
    put("/sys/fs/cgroup/a.slice/memory.max", "268435456\n");
    put("/sys/fs/cgroup/a.slice/memory.current", "125829120\n");
    assert_int_equal(mib_free(), 256 - 120);
    put("/sys/fs/cgroup/memory.max", "104857600\n"); /* of a container, whose files begin there */
    put("/sys/fs/cgroup/memory.current", "10485760\n");
    assert_int_equal(mib_free(), 90);
    put("/sys/fs/cgroup/memory.current", "115343360\n");
    assert_int_equal(mib_free(), 0);
    put("/proc/self/cgroup", "0::/../other\n");
    put("/sys/fs/cgroup/memory.current", "0\n");
    assert_int_equal(mib_free(), 100);
    put("/proc/self/cgroup", "0::/\n");
    assert_int_equal(mib_free(), 100);
}

static void test_free_memory__of_groups_of_version_1(void **state)
{
    (void)state;
    put("/proc/self/cgroup", "12:cpu,cpuacct:/x\n5:hugetlb,memory:/docker/1f\n3:memoryx:/y\n0::/z\n");
    put("/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(mib_free(), 10000);
    put("/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "209715200\n");
    put("/sys/fs/cgroup/memory/docker/1f/memory.usage_in_bytes", "104857600\n");
    put("/sys/fs/cgroup/memory/docker/1f/memory.stat", "inactive_file 1\ntotal_inactive_file 31457280\n");
    assert_int_equal(mib_free(), 200 - 70);
    put("/proc/self/cgroup", "5:memory:/elsewhere\n"); /* within a container it is the root's */
    put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "52428800\n");
    assert_int_equal(mib_free(), 50);
}

/* A number that no process reaches stands for the limit, and files say how much of it is used. */
static void test_free_memory__of_limits(void **state)
{
    static const struct {
        int         resource;
        const char *key;
    } limits[] = {{RLIMIT_AS, "VmSize"}, {RLIMIT_DATA, "VmData"}};
    char text[128];
    (void)state;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
        struct rlimit before, limit;
        const int64_t most = (int64_t)1 << 55;
        assert_int_equal(getrlimit(limits[i].resource, &before), 0);
        limit = (struct rlimit){.rlim_cur = (rlim_t)most, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(limits[i].resource, &limit), 0);
        snprintf(text, sizeof text, "Name:\tx\n%s:\t%lld kB\nVmLck: 0 kB\n", limits[i].key,
                 (long long)(most / 1024 - 700 * 1024));
        put("/proc/self/status", text);
        assert_int_equal(mib_free(), 700);
        snprintf(text, sizeof text, "%s:\t%lld kB\n", limits[i].key, (long long)(most / 1024 + 1));
        put("/proc/self/status", text);
        assert_int_equal(mib_free(), 0);
        put("/proc/self/status", "");
        assert_int_equal(mib_free(), 10000);
        assert_int_equal(setrlimit(limits[i].resource, &before), 0);
    }
}

static int64_t statistic(void)
{
    int64_t bytes = 0;
    assert_int_equal(haul_stat_get("memory.cpu.free", &bytes), HAUL_OK);
    return bytes;
}

/* The statistic and a report of memory that runs out name what the process may still have. */
static void test_free_memory__is_reported(void **state)
{
    struct rlimit before, limit;
    char          line[256];
    long long     size = 0;
    FILE         *file = fopen("/proc/self/status", "r");
    (void)state;
    while (file && fgets(line, sizeof line, file) && sscanf(line, "VmSize: %lld", &size) != 1) {}
    assert_true(file && !fclose(file) && size > 0);
    haul_scope *scope = haul_scope_push();
    haul_ones(HAUL_F32, HAUL_SHAPE(1)); /* makes what stays */
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    limit = (struct rlimit){.rlim_cur = (rlim_t)size * 1024 + 64 * MIB, .rlim_max = before.rlim_max};
    if (statistic() < 256 * MIB || setrlimit(RLIMIT_AS, &limit))
        skip();
    const int64_t left = statistic();
    haul_empty(HAUL_U8, HAUL_SHAPE(96 * MIB));
    const haul_status  status = haul_error_status();
    haul_memory_report report = {.requested = 0};
    const haul_status  reported = haul_memory_report_get(&report);
    setrlimit(RLIMIT_AS, &before);
    assert_true(left >= 0 && left <= 64 * MIB);
    assert_int_equal(status, HAUL_OUT_OF_MEMORY);
    assert_int_equal(reported, HAUL_OK);
    assert_true(report.free >= 0 && report.free <= 64 * MIB && report.room <= 64 * MIB);
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_free_memory__of_the_machine, begin),
        cmocka_unit_test_setup(test_free_memory__of_groups, begin),
        cmocka_unit_test_setup(test_free_memory__of_groups_of_version_1, begin),
        cmocka_unit_test_setup(test_free_memory__of_limits, begin),
        cmocka_unit_test(test_free_memory__is_reported),
    };
    return cmocka_run_group_tests_name("free_memory", tests, NULL, NULL);
}
