/* The OpenCL backend through its table: kernels, the binary cache, streams and events, memory, and what it says when
 * something is missing. Runs on two devices of PoCL where the environment does not say otherwise.
 *
 * ctest: labels=threads */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <haul/haul.h>

#include "haul_config.h"

#ifdef HAUL_HAVE_OPENCL

#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/opencl/opencl.h"
#include "base/alloc.h"
#include "files/disk_cache.h"
#include "support/devices/opencl_kernels.h"

static int program_count(const haul_device *device)
{
    int count = 0;
    for (const haul__cl_program *p = haul__cl_of(device)->programs; p; p = p->next)
        count++;
    return count;
}

/* ---- devices ---- */

static void test_opencl__describes_its_devices(void **state)
{
    haul_device_properties p;
    haul_device           *device = device_at(0);
    (void)state;
    OK(haul_device_describe(device, &p));
    assert_string_equal(p.name, "opencl:0");
    assert_string_equal(p.backend, "opencl");
    assert_true(strlen(p.model) > 0 && strlen(p.driver) > 0);
    assert_true(p.compute_units > 0);
    assert_true(p.memory_bytes > 0);
    if (haul__cl_of(device)->platform->is_pocl) {
        assert_int_equal(p.kind, HAUL_KIND_CPU);
        assert_true(p.shares_host_memory);
        assert_false(device->strided);
    }
}

static void test_opencl__refuses_devices_beyond_the_last(void **state)
{
    char        why[256];
    int         count = table->count(why, sizeof why);
    haul_device device = {.name = "opencl:9"};
    (void)state;
    assert_int_equal(table->open(&device, count), HAUL_DEVICE);
    assert_non_null(strstr(haul_error_message(), "fewer devices"));
}

/* ---- compiling ---- */

static void test_opencl__names_the_kernel_that_does_not_compile(void **state)
{
    haul_device *device = device_at(0);
    haul__unit   unit = {.name = "test_bad", .text = "no_such_type x;\n", .kernel = "bad", .dtype = HAUL_F32};
    haul__kernel kernel;
    (void)state;
    assert_int_equal(table->compile(device, &unit, &kernel), HAUL_BACKEND);
    assert_non_null(strstr(haul_error_message(), "opencl:0"));
    assert_non_null(strstr(haul_error_message(), "kernel bad does not compile"));
    assert_non_null(strstr(haul_error_message(), "no_such_type")); /* the compiler's own words */
    assert_null(strchr(haul_error_message(), '\n'));
}

static void test_opencl__names_the_kernel_that_is_missing(void **state)
{
    haul_device *device = device_at(0);
    haul__unit   unit = {.name = "test_axpy", .text = axpy_text, .kernel = "ypxa", .dtype = HAUL_I32};
    haul__kernel kernel;
    (void)state;
    assert_int_equal(table->compile(device, &unit, &kernel), HAUL_BACKEND);
    assert_non_null(strstr(haul_error_message(), "k_ypxa_i32"));
}

static void test_opencl__kernels_of_a_unit_share_a_program(void **state)
{
    haul_device *device = device_at(0);
    haul__kernel first = kernel_of(device, "axpy"), second;
    int          programs = program_count(device);
    (void)state;
    second = kernel_of(device, "count_up");
    assert_int_equal(program_count(device), programs);
    kernel_free(&first);
    kernel_free(&second);
}

/* Where the driver compiles all of a program at once, it has the kernel that is wanted alone, in both of its forms. */
static void test_opencl__a_program_of_one_kernel(void **state)
{
    haul_device     *device = device_at(0);
    haul__cl_device *d = haul__cl_of(device);
    const bool       late = d->late, llvmpipe = d->llvmpipe;
    (void)state;
    d->late = false;
    for (int apart = 0; apart < 2; apart++) {
        d->llvmpipe = apart;
        for (int i = 0; i < 2; i++) {
            haul__unit unit = {
                .name = "test_one", .text = axpy_text, .kernel = i ? "count_up" : "axpy", .dtype = HAUL_I32};
            haul__kernel kernel;
            size_t       count = 0;
            char         names[64] = "";
            OK(table->compile(device, &unit, &kernel));
            const cl_program program = d->programs->program;
            assert_int_equal(haul__cl.GetProgramInfo(program, CL_PROGRAM_NUM_KERNELS, sizeof count, &count, NULL),
                             CL_SUCCESS);
            assert_int_equal(haul__cl.GetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, sizeof names, names, NULL),
                             CL_SUCCESS);
            assert_int_equal(count, 1);
            assert_string_equal(names, i ? "k_count_up_i32" : "k_axpy_i32");
            kernel_free(&kernel);
        }
    }
    d->late = late;
    d->llvmpipe = llvmpipe;
}

/* The code of a device that shares the host's memory is not in memory of its own. */
static void test_opencl__counts_the_code_of_programs(void **state)
{
    haul_device    *device = device_at(0);
    const bool      shares = device->properties.shares_host_memory;
    const long long before = atomic_load(&device->overhead);
    (void)state;
    for (int apart = 0; apart < 2; apart++) {
        haul__unit unit = {
            .name = apart ? "test_apart" : "test_shared", .text = axpy_text, .kernel = "axpy", .dtype = HAUL_I32};
        haul__kernel kernel;
        device->properties.shares_host_memory = !apart;
        OK(table->compile(device, &unit, &kernel));
        kernel_free(&kernel);
        const long long now = atomic_load(&device->overhead);
        assert_true(apart ? now > before + 100 && now < before + (1 << 20) : now == before);
    }
    device->properties.shares_host_memory = shares;
    atomic_store(&device->overhead, before);
}

/* Also where only an operand of the kernel has the dtype. */
static void test_opencl__refuses_f64_where_there_is_none(void **state)
{
    const haul__unit units[] = {{.name = "test_axpy", .text = axpy_text, .kernel = "axpy", .dtype = HAUL_F64},
                                {.name = "test_axpy", .text = axpy_text, .kernel = "cast_f64", .dtype = HAUL_F32}};
    haul_device     *device = device_at(0);
    const bool       has = device->properties.has_f64;
    haul__kernel     kernel;
    (void)state;
    device->properties.has_f64 = false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        assert_int_equal(table->compile(device, &units[i], &kernel), HAUL_DTYPE);
        assert_non_null(strstr(haul_error_message(), "does not compute in f64"));
        haul_error_clear();
    }
    device->properties.has_f64 = has;
}

/* Exhausted host memory anywhere on the way is an error, and earlier allocations are given back. */
static void test_opencl__compiling_survives_each_failed_allocation(void **state)
{
    haul_device *device = device_at(0);
    haul__unit   unit = {.name = "test_faults", .text = axpy_text, .kernel = "axpy", .dtype = HAUL_I32};
    haul__kernel kernel;
    haul_status  status = HAUL_OUT_OF_MEMORY;
    int          tries = 0;
    (void)state;
    while (status) {
        int64_t before = haul__host_blocks();
        int     programs = program_count(device);

        assert_true(++tries < 100);
        haul__fault_plan(HAUL__FAULT_HOST, tries);
        status = table->compile(device, &unit, &kernel);
        haul__fault_plan(0, 0);
        if (status) {
            assert_int_equal(status, HAUL_OUT_OF_MEMORY);
            assert_int_equal(haul__host_blocks(), before + program_count(device) - programs);
        }
    }
    assert_true(tries > 3);
    kernel_free(&kernel);
}

/* ---- the binary cache ---- */

static const char plain_source[] = "__kernel void plain(__global int *x) { x[get_global_id(0)] += 7; }\n";

/* Build; says whether the cache served, and checks that the program works. */
static bool build_plain(haul_device *device)
{
    bool         cached = true;
    cl_program   program;
    cl_kernel    kernel;
    cl_int       code, value = 35;
    size_t       one = 1;
    haul__buffer x;
    haul__stream s = {.device = device};
    OK(haul__cl_build(device, "plain", plain_source, &cached, &program));
    kernel = haul__cl.CreateKernel(program, "plain", &code);
    assert_int_equal(code, CL_SUCCESS);
    OK(table->alloc(device, sizeof value, NULL, &x));
    OK(table->stream_open(device, &s.queue));
    OK(table_write(table, &s, &x, 0, &value, sizeof value));
    assert_int_equal(haul__cl.SetKernelArg(kernel, 0, sizeof(cl_mem), &x.handle), CL_SUCCESS);
    assert_int_equal(
        haul__cl.EnqueueNDRangeKernel(((haul__cl_queue *)s.queue)->queue, kernel, 1, NULL, &one, &one, 0, NULL, NULL),
        CL_SUCCESS);
    OK(table_read(table, &s, &value, &x, 0, sizeof value));
    OK(table->sync(&s, NULL));
    assert_int_equal(value, 42);
    table->stream_close(device, s.queue);
    table->free(device, &x);
    haul__cl.ReleaseKernel(kernel);
    haul__cl.ReleaseProgram(program);
    return cached;
}

/* Change a byte in the middle of every file under `folder`; returns how many there were. */
static int damage_files(const char *folder)
{
    DIR           *entries = opendir(folder);
    struct dirent *entry;
    int            count = 0;
    assert_non_null(entries);
    while ((entry = readdir(entries)) != NULL) {
        char        path[512];
        struct stat about;
        FILE       *file;
        int         byte;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        assert_int_equal(stat(path, &about), 0);
        if (S_ISDIR(about.st_mode)) {
            count += damage_files(path);
            continue;
        }
        file = fopen(path, "r+b");
        assert_non_null(file);
        fseek(file, about.st_size / 2, SEEK_SET);
        byte = fgetc(file);
        fseek(file, about.st_size / 2, SEEK_SET);
        fputc(byte ^ 0x55, file);
        assert_int_equal(fclose(file), 0);
        count++;
    }
    closedir(entries);
    return count;
}

static void test_opencl__cached_programs_survive_damage(void **state)
{
    haul_device *device = device_at(0);
    char        *key = haul__cl_cache_key(device, plain_source);
    (void)state;
    assert_non_null(key);
    assert_false(build_plain(device));
    assert_true(build_plain(device));
    assert_true(damage_files("cache") > 0); /* the file itself: the cache notices */
    assert_false(build_plain(device));
    assert_true(build_plain(device));
    haul__cache_store(key, "not a program", 13); /* a sound file that the driver refuses */
    assert_false(build_plain(device));
    assert_true(build_plain(device));
    haul__free(key);
}

static void test_opencl__cache_keys_tell_programs_apart(void **state)
{
    haul_device *device = device_at(0);
    char        *a = haul__cl_cache_key(device, "a"), *b = haul__cl_cache_key(device, "b");
    (void)state;
    assert_string_not_equal(a, b);
    assert_non_null(strstr(a, device->driver));
    assert_non_null(strstr(a, haul__cl_of(device)->options));
    haul__free(a);
    haul__free(b);
}

/* ---- memory and copies ---- */

static void test_opencl__says_that_memory_is_exhausted(void **state)
{
    haul_device *device = device_at(0);
    haul__buffer buffer = {0};
    (void)state;
    assert_int_equal(table->alloc(device, (size_t)1 << 50, NULL, &buffer), HAUL_OUT_OF_MEMORY);
    assert_null(buffer.handle);
}

static void test_opencl__fills_with_patterns_of_all_sizes(void **state)
{
    haul_device        *device = device_at(0);
    haul__stream        s = {.device = device};
    haul__buffer        buffer;
    const unsigned char pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    unsigned char       sentinels[256], got[256];
    (void)state;
    memset(sentinels, 0xee, sizeof sentinels);
    OK(table->alloc(device, sizeof got, NULL, &buffer));
    OK(table->stream_open(device, &s.queue));
    for (size_t size = 1; size <= 8; size *= 2) {
        OK(table_write(table, &s, &buffer, 0, sentinels, sizeof sentinels));
        OK(table_fill(table, &s, &buffer, 16, 64, pattern, size));
        OK(table_fill(table, &s, &buffer, 0, 0, pattern, size)); /* nothing */
        OK(table_read(table, &s, got, &buffer, 0, sizeof got));
        OK(table->sync(&s, NULL));
        for (size_t i = 0; i < sizeof got; i++)
            assert_int_equal(got[i], i >= 16 && i < 80 ? pattern[(i - 16) % size] : 0xee);
    }
    table->stream_close(device, s.queue);
    table->free(device, &buffer);
}

static void test_opencl__copies_ranges_from_host_memory_of_its_own(void **state)
{
    haul_device   *device = device_at(0);
    haul__stream   s = {.device = device};
    haul__buffer   a, b;
    unsigned char  got[64];
    void          *host, *handle;
    unsigned char *bytes;
    bool           shares = device->properties.shares_host_memory;
    (void)state;
    OK(table->alloc(device, 64, NULL, &a));
    OK(table->alloc(device, 64, NULL, &b));
    OK(table->stream_open(device, &s.queue));
    for (int own = 0; own < 2; own++) { /* ordinary memory, then the driver's as for a device with memory of its own */
        device->properties.shares_host_memory = !own;
        OK(table->host_alloc(device, 64, &host, &handle));
        bytes = host;
        for (int i = 0; i < 64; i++)
            bytes[i] = (unsigned char)(i + own);
        OK(table_write(table, &s, &a, 0, host, 64));
        OK(table_fill(table, &s, &b, 0, 64, &(char){0}, 1));
        OK(table_copy(table, &s, &b, 8, &a, 16, 32));
        OK(table_copy(table, &s, &b, 0, &a, 0, 0)); /* nothing */
        OK(table_read(table, &s, got, &b, 4, 40));
        OK(table->sync(&s, NULL));
        for (int i = 0; i < 40; i++)
            assert_int_equal(got[i], i + 4 >= 8 && i + 4 < 40 ? i + 4 - 8 + 16 + own : 0);
        table->host_free(device, host, handle);
    }
    device->properties.shares_host_memory = shares;
    table->stream_close(device, s.queue);
    table->free(device, &a);
    table->free(device, &b);
}

/* ---- through the public interface ---- */

static void test_opencl__tensors_pass_through_two_devices(void **state)
{
    haul_device *first = device_at(0), *second = device_at(1);
    haul_scope  *scope = haul_scope_push();
    float        got[3];
    (void)state;
    haul_tensor *x = haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1, 2, 3});
    haul_tensor *y = haul_add_scalar(haul_to(x, first), 1);
    haul_tensor *z = haul_exp(haul_mul_scalar(haul_to(y, second), 0));
    z = haul_add(haul_to(z, first), y);
    OK(haul_read(z, got, sizeof got));
    assert_true(got[0] == 3 && got[1] == 4 && got[2] == 5);
    haul_scope_pop(scope);
}

/* Each allocation, copy, compilation and launch on the way fails in turn: an error each time, nothing is lost. */
static void test_opencl__each_failure_on_the_way_is_reported(void **state)
{
    static const unsigned kinds[] = {HAUL__FAULT_HOST, HAUL__FAULT_DEVICE, HAUL__FAULT_COPY, HAUL__FAULT_COMPILE,
                                     HAUL__FAULT_LAUNCH};
    haul_device          *device = device_at(0);
    int                   failures[5] = {0};
    (void)state;
    for (int k = 0; k < 5; k++) {
        for (int nth = 1, failed = 1; failed; nth++) {
            haul_scope  *scope = haul_scope_push();
            float        got[4] = {0};
            char         message[256] = "";
            haul_status  status;
            haul_tensor *x;

            assert_non_null(scope);
            haul__fault_plan(kinds[k], nth);
            x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(4), (float[]){2, 2, 2, 2}), device);
            /* remainder: a kernel that no other test has compiled */
            status = haul_read(k == 3 ? haul_remainder_scalar(x, 3) : haul_add_scalar(x, 1), got, sizeof got);
            haul__fault_plan(0, 0);
            failed = status != HAUL_OK;
            failures[k] += failed;
            if (failed)
                assert_true(snprintf(message, sizeof message, "%s", haul_error_message()) > 0);
            else
                assert_true(got[0] == (k == 3 ? 2 : 3));
            haul_error_clear();
            haul_scope_pop(scope);
            if (nth >= 200)
                fail_msg("kind %u fails for ever: %s", kinds[k], message);
        }
        assert_true(failures[k] > 0);
    }
}

/* ---- missing drivers and devices ---- */

/* Run this program again in a changed environment: with --count it prints how many devices there are and why there are
 * none. */
static void run_with(const char *variable, const char *value, const char *option, char *out, size_t size)
{
    int     ends[2], status;
    pid_t   child;
    size_t  length = 0;
    ssize_t got;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        setenv(variable, value, 1);
        execl("/proc/self/exe", "test_opencl", option, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    while (length + 1 < size && (got = read(ends[0], out + length, size - 1 - length)) > 0)
        length += (size_t)got;
    out[length] = '\0';
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int print_count(void)
{
    struct sigaction before, after;
    char             why[256] = "";
    int              count;
    sigaction(SIGFPE, NULL, &before);
    count = table->count(why, sizeof why);
    sigaction(SIGFPE, NULL, &after);
    printf("%d %s\n", count, after.sa_handler == before.sa_handler ? why : "SIGFPE has another handler");
    return 0;
}

/* A driver's handler would make the whole program continue behind its divisions by zero. */
static void test_opencl__leaves_signal_handlers_alone(void **state)
{
    char text[512];
    (void)state;
    device_at(0);
    run_with("POCL_DEVICES", "pthread", "--count", text, sizeof text);
    assert_string_not_equal(text, "0 \n");
    assert_null(strstr(text, "SIGFPE"));
}

/* The loader's own number of platforms, without Haul. */
static int print_platforms(void)
{
    void                         *loader = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
    cl_uint                       count = 0;
    __typeof__(&clGetPlatformIDs) get;
    *(void **)&get = loader ? dlsym(loader, "clGetPlatformIDs") : NULL;
    if (get && get(0, NULL, &count) != CL_SUCCESS)
        count = 0;
    printf("%u\n", count);
    return 0;
}

/* Loaders of some vendors find drivers elsewhere, whatever the variable says. */
static void test_opencl__says_that_no_driver_is_installed(void **state)
{
    char text[512];
    (void)state;
    run_with("OCL_ICD_VENDORS", "/nonexistent", "--platforms", text, sizeof text);
    if (strcmp(text, "0\n") != 0)
        skip();
    run_with("OCL_ICD_VENDORS", "/nonexistent", "--count", text, sizeof text);
    assert_string_equal(text, "0 the loader found no platform; install a driver, for example pocl-opencl-icd\n");
}

static void test_opencl__says_that_no_loader_is_installed(void **state)
{
    char  text[512], folder[256];
    FILE *file;
    (void)state;
    assert_int_equal(mkdir("empty", 0777), 0);
    file = fopen("empty/libOpenCL.so.1", "w"); /* hides the real one and cannot be opened */
    assert_non_null(file);
    fclose(file);
    assert_non_null(getcwd(folder, sizeof folder - 8));
    strcat(folder, "/empty");
    run_with("LD_LIBRARY_PATH", folder, "--count", text, sizeof text);
    assert_string_equal(text, "0 no OpenCL loader (libOpenCL.so.1); install ocl-icd-libopencl1\n");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_opencl__describes_its_devices),
        cmocka_unit_test(test_opencl__refuses_devices_beyond_the_last),
        cmocka_unit_test(test_opencl__names_the_kernel_that_does_not_compile),
        cmocka_unit_test(test_opencl__names_the_kernel_that_is_missing),
        cmocka_unit_test(test_opencl__kernels_of_a_unit_share_a_program),
        cmocka_unit_test(test_opencl__a_program_of_one_kernel),
        cmocka_unit_test(test_opencl__counts_the_code_of_programs),
        cmocka_unit_test(test_opencl__refuses_f64_where_there_is_none),
        cmocka_unit_test(test_opencl__compiling_survives_each_failed_allocation),
        cmocka_unit_test(test_opencl__cached_programs_survive_damage),
        cmocka_unit_test(test_opencl__cache_keys_tell_programs_apart),
        cmocka_unit_test(test_opencl__says_that_memory_is_exhausted),
        cmocka_unit_test(test_opencl__fills_with_patterns_of_all_sizes),
        cmocka_unit_test(test_opencl__copies_ranges_from_host_memory_of_its_own),
        cmocka_unit_test(test_opencl__tensors_pass_through_two_devices),
        cmocka_unit_test(test_opencl__each_failure_on_the_way_is_reported),
        cmocka_unit_test(test_opencl__leaves_signal_handlers_alone),
        cmocka_unit_test(test_opencl__says_that_no_driver_is_installed),
        cmocka_unit_test(test_opencl__says_that_no_loader_is_installed),
    };
    setenv("POCL_DEVICES", "pthread pthread", 0);
    setenv("HAUL_CACHE_DIR", "cache", 1); /* an empty one: tests run in a scratch folder */
    if (argc > 1 && strcmp(argv[1], "--count") == 0)
        return print_count();
    if (argc > 1 && strcmp(argv[1], "--platforms") == 0)
        return print_platforms();
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

static void test_opencl__says_that_headers_were_missing(void **state)
{
    haul_device *device = haul_device_get("opencl:0");
    (void)state;
    assert_false(haul_device_is_valid(device));
    assert_int_equal(haul_set_device(device), HAUL_DEVICE);
    assert_non_null(strstr(haul_error_message(), "built without OpenCL headers"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_opencl__says_that_headers_were_missing)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
