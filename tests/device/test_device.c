/* Devices: their names, what invalid ones say, the current device, waiting and marking, the disk cache.
 *
 * ctest: cuda; labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "device/stream.h"
#include "files/disk_cache.h"
#include "kernels/kernels.h"
#include "memory/allocator.h"
#include "support/commands.h"
#include "support/devices/late.h"
#include "support/failure.h"

/* ---- names ---- */

static void test_device__spellings(void **state)
{
    static const char *const spellings[][2] = {
        {"cpu", "cpu"},
        {"cpu:0", "cpu"},
        {"CPU", "cpu"},
        {"Cpu:0", "cpu"},
        {"/CPU:0", "cpu"},
        {"/cpu:0", "cpu"},
        {"/device:CPU:0", "cpu"},
        {"device:cpu", "cpu"},
        {"/job:localhost/replica:0/task:0/device:CPU:0", "cpu"},
        {"/job:localhost/device:CPU:0", "cpu"},
        {"meta", "meta"},
        {"META:0", "meta"},
        {"cpu:1", "invalid"},
        {"meta:1", "invalid"},
        {"tpu:0", "invalid"},
        {"tpu", "invalid"},
        {"opencl:100000", "invalid"},
        {"opencl:99999999999999999999", "invalid"},
        {"", "invalid"},
        {" cpu", "invalid"},
        {"cpu ", "invalid"},
        {"cpu:", "invalid"},
        {"cpu:x", "invalid"},
        {"cpu:-1", "invalid"},
        {"cpu:0:0", "invalid"},
        {":0", "invalid"},
        {"//cpu", "invalid"},
        {"/job:worker/task:1/device:CPU:0", "invalid"},
        {"auto:0", "invalid"},
        {"aVeryLongNameOfADeviceThatFitsNowhere:0", "invalid"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof spellings / sizeof spellings[0]; i++) {
        haul_device *device = haul_device_get(spellings[i][0]);
        assert_non_null(device);
        if (strcmp(haul_device_name(device), spellings[i][1]) != 0)
            fail_msg("\"%s\" gives %s, not %s", spellings[i][0], haul_device_name(device), spellings[i][1]);
        assert_int_equal(haul_device_is_valid(device), strcmp(spellings[i][1], "invalid") != 0);
    }
    assert_ptr_equal(haul_device_get("CPU:0"), haul_cpu());
    assert_non_null(haul_device_get(NULL));
    assert_false(haul_device_is_valid(haul_device_get(NULL)));
    assert_false(haul_device_is_valid(NULL));
    assert_int_equal(haul_error_status(), HAUL_OK); /* asking does not fail */
}

static void test_device__gpu_and_auto(void **state)
{
    haul_device_properties properties;
    haul_device           *gpu = haul_device_get("gpu"), *chosen = haul_device_get("auto");
    (void)state;
    assert_true(haul_device_is_valid(chosen));
    assert_ptr_equal(haul_device_get("AUTO"), chosen);
    assert_ptr_equal(haul_device_get("/GPU:0"), haul_device_is_valid(gpu) ? gpu : haul_device_get("/GPU:0"));
    if (haul_device_is_valid(gpu)) {
        assert_int_equal(haul_device_describe(gpu, &properties), HAUL_OK);
        assert_int_equal(properties.kind, HAUL_KIND_GPU);
        assert_ptr_equal(chosen, gpu);
    } else {
        assert_ptr_equal(chosen, haul_cpu());
        assert_int_equal(haul_set_device(gpu), HAUL_DEVICE);
        assert_non_null(strstr(haul_error_message(), "no GPU was found"));
        haul_error_clear();
    }
    assert_false(haul_device_is_valid(haul_device_get("gpu:31")));
    haul_device           *first = haul_device_get("cuda:0"), *second = haul_device_get("cuda:1");
    haul_device_properties other;
    if (!haul_device_is_valid(first) || !haul_device_is_valid(second))
        return;
    assert_int_equal(haul_device_describe(first, &properties), HAUL_OK);
    assert_int_equal(haul_device_describe(second, &other), HAUL_OK);
    if (properties.compute_units != other.compute_units || properties.memory_bytes != other.memory_bytes)
        return;
    assert_ptr_equal(gpu, first); /* equal ones, in the order of their numbers */
    assert_ptr_equal(haul_device_get("gpu:0"), first);
    assert_ptr_equal(haul_device_get("gpu:1"), second);
}

static void test_device__invalid_says_why(void **state)
{
    haul_device_properties properties;
    haul_memory_stats      stats;
    haul_device           *tpu = haul_device_get("tpu:0");
    (void)state;
    assert_int_equal(haul_error_status(), HAUL_OK); /* asking for it does not fail */
    assert_string_equal(haul_device_name(tpu), "invalid");
    assert_int_equal(haul_set_device(tpu), HAUL_DEVICE);
    assert_non_null(strstr(haul_error_message(), "no device \"tpu:0\": this build has no tpu backend; available: cpu"));
    haul_error_clear();
    assert_int_equal(haul_device_describe(tpu, &properties), HAUL_DEVICE);
    assert_int_equal(haul_device_sync(tpu), HAUL_DEVICE);
    assert_int_equal(haul_memory_stats_get(tpu, &stats), HAUL_DEVICE);
    assert_int_equal(haul_memory_set_limit(tpu, 1), HAUL_DEVICE);
    haul_error_clear();
    haul_scope *scope = haul_scope_push();
    assert_failed(haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(1), &(float){1}), tpu));
    assert_int_equal(haul_error_status(), HAUL_DEVICE);
    assert_non_null(strstr(haul_error_message(), "this build has no tpu backend"));
    assert_string_equal(haul_error_operation(), "haul_to");
    haul_error_clear();
    haul_scope_pop(scope);
    assert_int_equal(haul_set_device(NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

static void test_device__wrong_names_say_what_is_right(void **state)
{
    static const char *const names[][2] = {
        {"gpu0", "no device \"gpu0\"; did you mean \"gpu:0\"? Available: cpu"},
        {"cpu12", "no device \"cpu12\"; did you mean \"cpu:12\"? Available: cpu"},
        {"cpux", "no device \"cpux\": this build has no cpux backend; available: cpu"},
        {"gpus", "this build has no gpus backend"},
        {"tpu0", "this build has no tpu0 backend"},
        {"cpu:1", "no device \"cpu:1\": there is one cpu, called \"cpu\"; available: cpu"},
        {"meta:1", "no device \"meta:1\": there is one meta, called \"meta\"; available: cpu"},
        {"gpu:40", "available: cpu"},
        {"sim:nothing", "no device \"sim:nothing\": behind \"sim:\" one of these is expected: "},
        {"sim:", "behind \"sim:\" one of these is expected: "},
        {"cpu:", "\"cpu:\" is no name of a device; names are like"},
        {"cpu:x", "\"cpu:x\" is no name of a device; names are like"},
        {":0", "\":0\" is no name of a device; names are like"},
        {"abcdefghijklmnopqrstuvw", "this build has no abcdefghijklmnopqrstuvw backend"},
        {"abcdefghijklmnopqrstuvwx", "\"abcdefghijklmnopqrstuvwx\" is no name of a device"},
        {"/job:localhostcpu:0", "is no name of a device"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(haul_set_device(haul_device_get(names[i][0])), HAUL_DEVICE);
        if (!strstr(haul_error_message(), names[i][1]))
            fail_msg("%s: %s", names[i][0], haul_error_message());
        haul_error_clear();
    }
    assert_int_equal(haul_set_device(haul_device_get(NULL)), HAUL_DEVICE);
    assert_non_null(strstr(haul_error_message(), "haul_device_get was called with the name NULL"));
    haul_error_clear();
}

static void test_device__wrong_names_cost_no_memory(void **state)
{
    char name[40];
    (void)state;
    assert_ptr_equal(haul_device_get("nothing:1"), haul_device_get("nothing:1"));
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "wrong%d", i);
        assert_false(haul_device_is_valid(haul_device_get(name)));
    }
    int64_t before = haul__host_blocks();
    for (int i = 100; i < 2000; i++) {
        snprintf(name, sizeof name, "wrong%d", i);
        haul_device *device = haul_device_get(name);
        assert_non_null(device);
        assert_int_equal(haul_set_device(device), HAUL_DEVICE);
    }
    assert_int_equal(haul__host_blocks(), before);
    haul_error_clear();
    assert_true(haul_device_is_valid(haul_device_get("cpu")));
}

static void test_device__list(void **state)
{
    haul_device_report reports[40];
    bool               cpu = false, meta = false;
    int                count = haul_device_list(reports, 40);
    (void)state;
    assert_in_range(count, 2, 40);
    assert_int_equal(haul_device_list(NULL, 0), count);
    for (int i = 0; i < count; i++) {
        haul_device *device = haul_device_get(reports[i].name);
        assert_int_equal(haul_device_is_valid(device), reports[i].usable);
        assert_int_equal(reports[i].reason[0] == '\0', reports[i].usable);
        if (reports[i].usable)
            assert_string_equal(haul_device_name(device), reports[i].name);
        cpu |= strcmp(reports[i].name, "cpu") == 0;
        meta |= strcmp(reports[i].name, "meta") == 0;
    }
    assert_true(cpu && meta);
    haul_device_report one = {.name = "unchanged"}, two[2] = {{.name = ""}, {.name = "unchanged"}};
    assert_int_equal(haul_device_list(&one, 0), count);
    assert_string_equal(one.name, "unchanged");
    haul_device_list(two, 1);
    assert_string_equal(two[0].name, "cpu");
    assert_string_equal(two[1].name, "unchanged");
}

static void test_device__describe(void **state)
{
    haul_device_properties p;
    (void)state;
    assert_int_equal(haul_device_describe(haul_cpu(), &p), HAUL_OK);
    assert_string_equal(p.name, "cpu");
    assert_string_equal(p.backend, "cpu");
    assert_int_equal(p.kind, HAUL_KIND_CPU);
    assert_true(p.compute_units > 0 && p.memory_bytes > 0 && p.has_f64 && p.shares_host_memory);
    assert_true(strlen(p.model) > 0 && strlen(p.driver) > 0);
    assert_int_equal(haul_device_describe(haul_device_get("meta"), &p), HAUL_OK);
    assert_int_equal(p.kind, HAUL_KIND_META);
    assert_int_equal(haul_device_describe(haul_cpu(), NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

/* ---- the current device ---- */

static void *current_elsewhere(void *out)
{
    *(haul_device **)out = haul_current_device();
    return NULL;
}

static void test_device__scope_restores_current(void **state)
{
    haul_device *meta = haul_device_get("meta"), *elsewhere = NULL;
    pthread_t    thread;
    (void)state;
    assert_ptr_equal(haul_current_device(), haul_cpu());
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_set_device(meta), HAUL_OK);
    assert_ptr_equal(haul_current_device(), meta);
    assert_ptr_equal(haul_tensor_device(haul_from_host(HAUL_F32, HAUL_SHAPE(2), (float[]){1, 2})), meta);
    assert_int_equal(haul_set_device(haul_device_get("tpu:0")), HAUL_DEVICE);
    assert_ptr_equal(haul_current_device(), meta);
    haul_error_clear();
    assert_int_equal(pthread_create(&thread, NULL, current_elsewhere, &elsewhere), 0);
    pthread_join(thread, NULL);
    assert_ptr_equal(elsewhere, haul_cpu());
    haul_scope_pop(scope);
    assert_ptr_equal(haul_current_device(), haul_cpu());
}

static void *get_all(void *out)
{
    haul_device **devices = out;
    devices[0] = haul_device_get("opencl:0");
    devices[1] = haul_cpu();
    devices[2] = haul_device_get("gpu");
    return NULL;
}

static void test_device__threads_get_the_same(void **state)
{
    pthread_t    threads[8];
    haul_device *devices[8][3];
    (void)state;
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, get_all, devices[i]), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < 8; i++)
        assert_memory_equal(devices[i], devices[0], sizeof devices[0]);
}

/* ---- waiting and marking ---- */

static void write_to(haul__storage *to, const void *from, haul__storage *owner, size_t bytes)
{
    assert_int_equal(submit_write(to, from, owner, bytes), HAUL_OK);
}

static void test_stream__synchronous_devices_leave_no_marks(void **state)
{
    haul__storage *s = haul__storage_alloc(haul_cpu(), 64, "test");
    char           data[64] = {1};
    (void)state;
    write_to(s, data, NULL, sizeof data);
    assert_false(s->uses->any);
    haul__object_release(s);
}

static void test_stream__reads_wait_for_the_write(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "test"),
                  *s = haul__storage_alloc(late_device(0), 64, "t");
    char back[64] = {0};
    (void)state;
    memset(host->buffer.host, 5, 64);
    write_to(s, host->buffer.host, host, 64);
    assert_true(late_pending() > 0); /* it was submitted, not run */
    assert_int_equal(submit_read(back, NULL, s, 64), HAUL_OK);
    assert_int_equal(back[63], 5);
    haul__object_release(s);
    haul__object_release(host);
}

static void test_stream__host_writes_wait_for_reads(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "test"),
                  *s = haul__storage_alloc(late_device(0), 64, "t");
    char back[64] = {0};
    (void)state;
    memset(host->buffer.host, 1, 64);
    write_to(s, host->buffer.host, host, 64);
    assert_int_equal(haul__host_before(host, false, "test"), HAUL_OK);
    assert_true(late_pending() > 0); /* a second reader needs no wait */
    assert_int_equal(haul__host_before(host, true, "test"), HAUL_OK);
    assert_int_equal(late_pending(), 0);
    memset(host->buffer.host, 2, 64);
    assert_int_equal(submit_read(back, NULL, s, 64), HAUL_OK);
    assert_int_equal(back[0], 1);
    haul__object_release(s);
    haul__object_release(host);
}

static void test_stream__devices_wait_for_each_other(void **state)
{
    haul__storage *a = haul__storage_alloc(late_device(0), 64, "t"), *b = haul__storage_alloc(late_device(1), 64, "t");
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "t");
    char           back[64] = {0};
    (void)state;
    assert_int_equal(submit_fill(a, 64, 7), HAUL_OK);                       /* late:0's compute stream */
    assert_int_equal(submit_read(host->buffer.host, host, a, 64), HAUL_OK); /* its download stream */
    write_to(b, host->buffer.host, host, 64);                               /* late:1's upload stream */
    assert_int_equal(submit_fill(a, 64, 8), HAUL_OK);                       /* must not overtake the read */
    assert_true(late_pending() >= 4);
    assert_int_equal(submit_read(back, NULL, b, 64), HAUL_OK);
    assert_int_equal(back[0], 7);
    assert_int_equal(submit_read(back, NULL, a, 64), HAUL_OK);
    assert_int_equal(back[0], 8);
    haul__object_release(a);
    haul__object_release(b);
    haul__object_release(host);
}

/* More streams read than there are places for. */
static void test_stream__many_readers(void **state)
{
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "t"), *copies[7];
    char           back[64];
    (void)state;
    memset(host->buffer.host, 3, 64);
    for (int i = 0; i < 7; i++) {
        copies[i] = haul__storage_alloc(late_device_new(), 64, "t");
        write_to(copies[i], host->buffer.host, host, 64);
    }
    assert_int_equal(haul__host_before(host, true, "test"), HAUL_OK);
    memset(host->buffer.host, 4, 64);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(submit_read(back, NULL, copies[i], 64), HAUL_OK);
        assert_int_equal(back[0], 3);
        haul__object_release(copies[i]);
    }
    haul__object_release(host);
}

/* Who waits for one upload must not wait for a later one. */
static void test_stream__uploads_are_waited_for_one_by_one(void **state)
{
    haul_device   *device = late_device_new();
    haul__storage *host = haul__storage_alloc(haul_cpu(), 64, "t"), *a = haul__storage_alloc(device, 64, "t");
    haul__storage *b = haul__storage_alloc(device, 64, "t");
    (void)state;
    write_to(a, host->buffer.host, host, 64);
    write_to(b, host->buffer.host, host, 64);
    assert_int_equal(haul__uses_wait(a->uses, NULL, false, "test"), HAUL_OK);
    assert_true(haul__use_done(a->uses->write));
    assert_false(haul__use_done(b->uses->write));
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_true(haul__use_done(b->uses->write));
    haul__object_release(a);
    haul__object_release(b);
    haul__object_release(host);
}

static void test_stream__same_stream_needs_no_event(void **state)
{
    haul_device   *device = late_device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "t");
    (void)state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(submit_fill(a, 64, 1), HAUL_OK);
    for (int i = 0; i < HAUL__MAX_POINTS; i++)
        assert_null(device->compute->points[i]);
    assert_int_equal(haul_device_sync(device), HAUL_OK);
    assert_non_null(device->compute->points[0]);
    haul__object_release(a);
}

static void test_stream__a_fault_is_final(void **state)
{
    haul_device   *device = late_device_new();
    haul__storage *a = haul__storage_alloc(device, 64, "t");
    char           back[64];
    (void)state;
    late_fail_wait();
    assert_int_equal(submit_read(back, NULL, a, 64), HAUL_BACKEND);
    assert_non_null(strstr(haul_error_message(), "fell off the bus"));
    haul_error_clear();
    assert_false(haul_device_is_valid(device));
    assert_int_equal(submit_fill(a, 64, 1), HAUL_BACKEND);
    assert_non_null(strstr(haul_error_message(), "cannot be used again"));
    assert_int_equal(haul_device_sync(device), HAUL_BACKEND);
    haul_error_clear();
    haul__object_release(a); /* does not hang */
    assert_int_equal(haul_memory_stats_get(device, &(haul_memory_stats){0}), HAUL_BACKEND);
    haul_error_clear();
}

/* ---- kernels ---- */

static void test_kernel__compiled_once_and_after_a_failure(void **state)
{
    haul_device *cpu = haul_cpu();
    (void)state;
    haul__fault_plan(HAUL__FAULT_COMPILE, 1);
    assert_null(haul__kernel_get(cpu, HAUL__K_cast_i16, HAUL_I8));
    haul__fault_plan(0, 0);
    assert_int_equal(haul_error_status(), HAUL_BACKEND);
    haul_error_clear();
    const haul__kernel *kernel = haul__kernel_get(cpu, HAUL__K_cast_i16, HAUL_I8);
    assert_non_null(kernel);
    assert_ptr_equal(haul__kernel_get(cpu, HAUL__K_cast_i16, HAUL_I8), kernel);
    assert_null(haul__kernel_get(cpu, HAUL__K_exp, HAUL_I8)); /* an unknown kernel */
    assert_int_equal(haul_error_status(), HAUL_DTYPE);
    haul_error_clear();
}

/* What only moves elements is compiled once for all dtypes of a size; what has dtypes of its own, once. */
static void test_kernel__dtypes_share_what_does_not_depend_on_them(void **state)
{
    static const struct {
        int        kernel;
        haul_dtype one, other;
    } same[] = {
        {HAUL__K_where, HAUL_BOOL, HAUL_I8},        {HAUL__K_where, HAUL_F16, HAUL_BF16},
        {HAUL__K_masked_fill, HAUL_F32, HAUL_I32},  {HAUL__K_copy_rows, HAUL_F64, HAUL_I64},
        {HAUL__K_transpose, HAUL_F32, HAUL_I32},    {HAUL__K_index_select, HAUL_BF16, HAUL_I16},
        {HAUL__K_gather, HAUL_U8, HAUL_BOOL},       {HAUL__K_remap, HAUL_F32, HAUL_I32},
        {HAUL__K_triangle, HAUL_F64, HAUL_I64},     {HAUL__K_one_hot, HAUL_I64, HAUL_BOOL},
        {HAUL__K_index_check, HAUL_I64, HAUL_BOOL}, {HAUL__K_random_bits, HAUL_I32, HAUL_F32},
    };
    haul_device *cpu = haul_cpu();
    (void)state;
    for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
        const haul__kernel *kernel = haul__kernel_get(cpu, same[i].kernel, same[i].one);
        assert_non_null(kernel);
        assert_ptr_equal(haul__kernel_get(cpu, same[i].kernel, same[i].other), kernel);
    }
    assert_ptr_not_equal(haul__kernel_get(cpu, HAUL__K_where, HAUL_F32),
                         haul__kernel_get(cpu, HAUL__K_where, HAUL_F64));
    assert_ptr_not_equal(haul__kernel_get(cpu, HAUL__K_exp, HAUL_F16), haul__kernel_get(cpu, HAUL__K_exp, HAUL_BF16));
}

static void test_kernel__none_is_compiled_for_no_dtype(void **state)
{
    (void)state;
    for (int id = 0; id < haul__kernel_count; id++)
        assert_false(haul__kernel_has(&haul__kernel_infos[id], HAUL_DTYPE_NONE));
    assert_true(haul__kernel_has(&haul__kernel_infos[HAUL__K_add], HAUL_BF16));
    assert_true(haul__kernel_has(&haul__kernel_infos[HAUL__K_copy_rows], HAUL_I64));
    assert_false(haul__kernel_has(&haul__kernel_infos[HAUL__K_copy_rows], HAUL_F64));
}

/* ---- the disk cache, in the test's own empty folder ---- */

static char cache_folder[] = "device-cache";

static int with_cache(void **state)
{
    (void)state;
    return setenv("HAUL_CACHE_DIR", cache_folder, 1);
}

static int without_cache(void **state)
{
    (void)state;
    return unsetenv("HAUL_CACHE_DIR");
}

/* The path of the only entry. */
static void only_entry(char *out, size_t size)
{
    DIR *folder = opendir(cache_folder);
    int  found = 0;
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(out, size, "%s/%s", cache_folder, entry->d_name);
        found++;
    }
    closedir(folder);
    assert_int_equal(found, 1);
}

static void test_cache__stores_and_loads(void **state)
{
    static const char data[] = "compiled program";
    char              path[400];
    size_t            size = 0;
    (void)state;
    assert_null(haul__cache_load("some key", &size));
    haul__cache_store("some key", data, sizeof data);
    char *back = haul__cache_load("some key", &size);
    assert_non_null(back);
    assert_int_equal(size, sizeof data);
    assert_string_equal(back, data);
    haul__free(back);
    assert_null(haul__cache_load("some other key", &size));
    haul__cache_store("some key", "new", 4); /* in the place of the old one */
    back = haul__cache_load("some key", &size);
    assert_string_equal(back, "new");
    haul__free(back);
    only_entry(path, sizeof path);
    unlink(path);
}

static void test_cache__damaged_entries_do_not_count(void **state)
{
    char   path[400], data[100], file[400];
    size_t size;
    (void)state;
    memset(data, 9, sizeof data);
    haul__cache_store("key", data, sizeof data);
    only_entry(path, sizeof path);
    int     fd = open(path, O_RDWR);
    ssize_t length = read(fd, file, sizeof file);
    assert_true(length > (ssize_t)sizeof data);
    for (ssize_t i = 0; i < length; i++) { /* each byte in turn */
        char wrong = (char)(file[i] ^ 0x10);
        assert_int_equal(pwrite(fd, &wrong, 1, i), 1);
        assert_null(haul__cache_load("key", &size));
        assert_int_equal(pwrite(fd, &file[i], 1, i), 1);
    }
    void *back = haul__cache_load("key", &size);
    assert_non_null(back);
    haul__free(back);
    for (ssize_t i = 0; i < length; i++) { /* cut off anywhere */
        assert_int_equal(ftruncate(fd, 0), 0);
        assert_int_equal(pwrite(fd, file, (size_t)i, 0), i);
        assert_null(haul__cache_load("key", &size));
    }
    assert_int_equal(pwrite(fd, file, (size_t)length, 0), length);
    assert_int_equal(pwrite(fd, "x", 1, length), 1); /* and too long */
    assert_null(haul__cache_load("key", &size));
    close(fd);
    unlink(path);
    assert_int_equal(haul_error_status(), HAUL_OK);
}

static void test_cache__trouble_is_silent(void **state)
{
    size_t size;
    (void)state;
    setenv("HAUL_CACHE_DIR", "/dev/null/nowhere", 1);
    haul__cache_store("key", "data", 4);
    assert_null(haul__cache_load("key", &size));
    setenv("HAUL_CACHE_DIR", cache_folder, 1);
    for (int nth = 1; nth < 20; nth++) {
        haul__fault_plan(HAUL__FAULT_FILE | HAUL__FAULT_HOST, nth);
        haul__cache_store("key", "data", 4);
        haul__free(haul__cache_load("key", &size));
        haul__fault_plan(0, 0);
    }
    assert_int_equal(haul_error_status(), HAUL_OK);
    void *back = haul__cache_load("key", &size);
    assert_non_null(back);
    haul__free(back);
    char path[400];
    only_entry(path, sizeof path); /* no half-written file is next to it */
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_device__threads_get_the_same),
        cmocka_unit_test(test_device__spellings),
        cmocka_unit_test(test_device__gpu_and_auto),
        cmocka_unit_test(test_device__invalid_says_why),
        cmocka_unit_test(test_device__list),
        cmocka_unit_test(test_device__describe),
        cmocka_unit_test(test_device__scope_restores_current),
        cmocka_unit_test(test_stream__synchronous_devices_leave_no_marks),
        cmocka_unit_test(test_stream__reads_wait_for_the_write),
        cmocka_unit_test(test_stream__host_writes_wait_for_reads),
        cmocka_unit_test(test_stream__devices_wait_for_each_other),
        cmocka_unit_test(test_stream__many_readers),
        cmocka_unit_test(test_stream__uploads_are_waited_for_one_by_one),
        cmocka_unit_test(test_stream__same_stream_needs_no_event),
        cmocka_unit_test(test_stream__a_fault_is_final),
        cmocka_unit_test(test_kernel__compiled_once_and_after_a_failure),
        cmocka_unit_test(test_kernel__dtypes_share_what_does_not_depend_on_them),
        cmocka_unit_test(test_kernel__none_is_compiled_for_no_dtype),
        cmocka_unit_test_setup_teardown(test_cache__stores_and_loads, with_cache, without_cache),
        cmocka_unit_test_setup_teardown(test_cache__damaged_entries_do_not_count, with_cache, without_cache),
        cmocka_unit_test_setup_teardown(test_cache__trouble_is_silent, with_cache, without_cache),
        cmocka_unit_test(test_device__wrong_names_say_what_is_right),
        cmocka_unit_test(test_device__wrong_names_cost_no_memory), /* last: it fills the table of names */
    };
    return cmocka_run_group_tests_name("device", tests, NULL, NULL);
}
