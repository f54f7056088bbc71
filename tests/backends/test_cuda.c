/* The CUDA backend in bad states, on the stand-in driver: nothing there, too old, full, refusing, lost. A process finds
 * its GPUs once, so each case is a child of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <haul/haul.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cuda/cuda.h"
#include "support/devices/standin.h"

enum { MIB = 1 << 20 };

/* ---- children ---- */

typedef bool child_fn(void);

/* Run in a child with "NAME=value" set; what it prints is shown when it fails. */
static void in_child(child_fn *run, const char *const *settings)
{
    int   status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("HAUL_CUDA_LIBRARIES", STANDIN, 1);
        for (; settings && *settings; settings++) {
            char setting[1024];
            snprintf(setting, sizeof setting, "%s", *settings);
            char *value = strchr(setting, '=');
            *value = '\0';
            setenv(setting, value + 1, 1);
        }
        fflush(stdout);
        bool good = run();
        if (!good)
            printf("the last error: %s\n", haul_error_message());
        fflush(stdout);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("the child %s %d", WIFEXITED(status) ? "answered" : "was ended by signal",
                 WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

#define IN_CHILD(run, ...) in_child((run), (const char *const[]){__VA_ARGS__, NULL})

static const char *expected; /* of the children below: words of a message */

static bool says(const char *message, const char *words)
{
    if (strstr(message, words))
        return true;
    printf("\"%s\" does not say \"%s\"\n", message, words);
    return false;
}

/* cuda offers no usable device, says why, and everything else works. */
static bool has_no_gpu(void)
{
    haul_device_report reports[32];
    int                count = haul_device_list(reports, 32);
    bool               found = false;
    for (int i = 0; i < count; i++)
        if (strncmp(reports[i].name, "cuda", 4) == 0)
            found = !reports[i].usable && says(reports[i].reason, expected);
    haul_scope *scope = haul_scope_push();
    bool        refused = haul_set_device(gpu()) != HAUL_OK && says(haul_error_message(), expected);
    haul_error_clear();
    bool computes = haul_item(haul_sum(haul_ones(HAUL_F32, HAUL_SHAPE(3)))) == 3;
    haul_scope_pop(scope);
    return found && refused && computes && !haul_device_is_valid(gpu());
}

static void test_cuda__nothing_there(void **state)
{
    (void)state;
    expected =
        "no NVIDIA driver (libcuda.so.1 was not found in $HAUL_CUDA_LIBRARIES, the only folder that is searched)";
    IN_CHILD(has_no_gpu, "HAUL_CUDA_LIBRARIES=/nonexistent");
    expected = "the NVIDIA driver finds no GPU";
    IN_CHILD(has_no_gpu, "STANDIN_NO_DEVICE=1");
    expected = "stub";
    IN_CHILD(has_no_gpu, "STANDIN_INIT=34");
    expected = "cuInit failed: CUDA_ERROR_NOT_INITIALIZED (error 3): a child of fork() cannot use the GPU";
    IN_CHILD(has_no_gpu, "STANDIN_INIT=3");
    expected = "other processes use all GPUs exclusively";
    IN_CHILD(has_no_gpu, "STANDIN_INIT=46");
    expected = "run systemctl start nvidia-fabricmanager";
    IN_CHILD(has_no_gpu, "STANDIN_INIT=802");
    expected = "restart the machine after the update";
    IN_CHILD(has_no_gpu, "STANDIN_INIT=803");
    expected = "cuda-compat supports only data centre GPUs";
    IN_CHILD(has_no_gpu, "STANDIN_INIT=804");
    expected = "load it again with modprobe";
    IN_CHILD(has_no_gpu, "STANDIN_INIT=999");
    expected = "made for CUDA 11.4, and 12.0 is needed";
    IN_CHILD(has_no_gpu, "STANDIN_DRIVER=11040");
    expected = "is newer than the NVIDIA driver, which is made for CUDA 12.8";
    IN_CHILD(has_no_gpu, "STANDIN_DRIVER=12080");
    expected = "compute mode \"prohibited\"";
    IN_CHILD(has_no_gpu, "STANDIN_COMPUTE_MODE=2");
    expected = "compute capability 7.0, but Haul needs at least 7.5";
    IN_CHILD(has_no_gpu, "STANDIN_CAPABILITY=7.0");
}

/* A driver without a compiler, as on machines that only run compiled programs. */
static void test_cuda__no_compiler(void **state)
{
    (void)state;
    assert_int_equal(mkdir("driver-only", 0700), 0);
    assert_int_equal(symlink(STANDIN "/libcuda.so.1", "driver-only/libcuda.so.1"), 0);
    expected = "no NVRTC, CUDA's run-time compiler";
    IN_CHILD(has_no_gpu, "HAUL_CUDA_LIBRARIES=driver-only");
}

/* ---- a GPU that works ---- */

static haul_tensor *ramp(haul_device *device, int64_t count)
{
    haul_set_device(device);
    haul_tensor *x = haul_arange(HAUL_F32, 0, (double)count, 1);
    haul_set_device(haul_cpu());
    return x;
}

/* 2 * (0 + 1 + ... + 99) */
static bool computes(const char *name)
{
    haul_scope *scope = haul_scope_push();
    double      sum = haul_item(haul_sum(haul_mul_scalar(ramp(haul_device_get(name), 100), 2)));
    haul_scope_pop(scope);
    if (sum != 9900)
        printf("%s: the sum is %g (%s)\n", name, sum, haul_error_message());
    return sum == 9900;
}

static bool describes_itself(void)
{
    haul_device_properties p = {0};
    return haul_device_describe(haul_device_get("cuda:0"), &p) == HAUL_OK && p.kind == HAUL_KIND_GPU &&
           says(p.driver, "NVRTC") && says(p.driver, "compute capability 9.0") && p.memory_bytes == 1 << 30 &&
           haul_device_get("auto") == haul_device_get("cuda:0") && computes("cuda:0");
}

static void test_cuda__describes_itself(void **state)
{
    (void)state;
    IN_CHILD(describes_itself, "STANDIN_CAPABILITY=9.0", "STANDIN_MEMORY=1073741824");
}

/* Newer than the compiler: portable code, which the driver translates. */
static bool newer_gpu_computes(void)
{
    return computes("cuda:0");
}

static void test_cuda__a_gpu_newer_than_the_compiler(void **state)
{
    (void)state;
    IN_CHILD(newer_gpu_computes, "STANDIN_CAPABILITY=19.0");
}

static bool both_compute(void)
{
    haul_scope  *scope = haul_scope_push();
    haul_device *one = haul_device_get("cuda:0"), *two = haul_device_get("cuda:1");
    haul_tensor *x = ramp(one, 1000);
    haul_tensor *y = haul_to(haul_add_scalar(haul_to(x, two), 1), one);
    double       sum = haul_item(haul_sum(haul_sub(y, x)));
    haul_scope_pop(scope);
    return sum == 1000 && computes("cuda:0") && computes("cuda:1") && !haul_device_is_valid(haul_device_get("cuda:2"));
}

static void test_cuda__two_gpus(void **state)
{
    (void)state;
    IN_CHILD(both_compute, "STANDIN_DEVICES=2", "STANDIN_PEER=1");
    IN_CHILD(both_compute, "STANDIN_DEVICES=2", "STANDIN_PEER=0");
    IN_CHILD(both_compute, "STANDIN_DEVICES=2", "STANDIN_ORDER=random", "STANDIN_SEED=7");
    IN_CHILD(both_compute, "STANDIN_DEVICES=2", "STANDIN_ORDER=early");
}

/* Listing and comparing GPUs takes nothing of them: a context each would be hundreds of MiB. */
static bool only_used_gpus_start(void)
{
    long (*count)(const char *);
    haul_device_report reports[8];
    *(void **)&count = symbol_of("libcuda.so.1", "standin_count");
    haul_device_list(reports, 8);
    bool none = count("cuDevicePrimaryCtxRetain") == 0;
    bool first = haul_device_get("auto") == haul_device_get("cuda:0") && count("cuDevicePrimaryCtxRetain") == 1;
    return none && first && computes("cuda:1") && count("cuDevicePrimaryCtxRetain") == 2;
}

static void test_cuda__only_used_gpus_start(void **state)
{
    (void)state;
    IN_CHILD(only_used_gpus_start, "STANDIN_DEVICES=3");
}

/* The next GPU takes the place of one that cannot be used. */
static bool takes_the_next(void)
{
    haul_device *device = haul_device_get("auto");
    return strcmp(haul_device_name(device), "cuda:1") == 0 && haul_device_get("gpu") == device &&
           !haul_device_is_valid(haul_device_get("cuda:0")) && computes("auto");
}

static void test_cuda__auto_takes_one_that_starts(void **state)
{
    (void)state;
    IN_CHILD(takes_the_next, "STANDIN_DEVICES=2", "STANDIN_FAIL=cuDevicePrimaryCtxRetain:1:46");
}

/* ---- full ---- */

static bool survives_a_full_gpu(void)
{
    haul_scope *scope = haul_scope_push();
    haul_set_device(gpu());
    haul_tensor *large = haul_zeros(HAUL_F32, HAUL_SHAPE(64 << 20));
    bool         refused = !haul_tensor_is_valid(large) && haul_error_status() == HAUL_OUT_OF_MEMORY &&
                   says(haul_error_message(), "free") && says(haul_error_message(), "process 4242");
    haul_error_clear();
    haul_scope_pop(scope);
    return refused && computes("cuda:0");
}

/* In a container NVML lists this process under another number: it is not "another process". */
static bool knows_no_process(void)
{
    haul_scope *scope = haul_scope_push();
    haul_set_device(gpu());
    haul_zeros(HAUL_U8, HAUL_SHAPE(16 * MIB));
    const bool refused = !haul_tensor_is_valid(haul_zeros(HAUL_U8, HAUL_SHAPE(64 * MIB))) &&
                         says(haul_error_message(), "other processes hold 0.03 GiB") &&
                         !strstr(haul_error_message(), "(process");
    haul_error_clear();
    haul_scope_pop(scope);
    return refused;
}

/* The driver has no memory for a kernel's code while our cache holds some. */
static bool gives_the_cache_back_for_code(void)
{
    int (*plan)(const char *);
    haul_memory_stats before, after;
    *(void **)&plan = symbol_of("libcuda.so.1", "standin_fail");
    haul_scope  *outer = haul_scope_push();
    haul_tensor *x = ramp(gpu(), 16);
    haul_scope  *inner = haul_scope_push();
    ramp(gpu(), 1 << 20);
    haul_scope_pop(inner);
    haul_memory_stats_get(gpu(), &before);
    if (!plan("cuModuleLoadData:1:2"))
        return false;
    haul_tensor *y = haul_sqrt(x);
    haul_memory_stats_get(gpu(), &after);
    bool good = haul_tensor_is_valid(y) && haul_error_status() == HAUL_OK;
    haul_scope_pop(outer);
    return good && before.reserved - before.allocated >= 4 << 20 && after.reserved - after.allocated < 4 << 20;
}

static void test_cuda__full(void **state)
{
    (void)state;
    IN_CHILD(survives_a_full_gpu, "STANDIN_MEMORY=67108864", "STANDIN_FOREIGN=33554432");
    IN_CHILD(knows_no_process, "STANDIN_MEMORY=67108864", "STANDIN_FOREIGN=33554432", "STANDIN_CONTAINER=16777216");
    IN_CHILD(gives_the_cache_back_for_code, "HAUL_CACHE_DIR=not-made-yet");
}

/* ---- the cache on disk ---- */

static void test_cuda__cache_in_bad_states(void **state)
{
    (void)state;
    FILE *file = fopen("not-a-folder", "w");
    assert_non_null(file);
    fclose(file);
    IN_CHILD(newer_gpu_computes, "HAUL_CACHE_DIR=not-a-folder/cache");
    IN_CHILD(newer_gpu_computes, "HAUL_CACHE_DIR=cache");
    /* Entries of the right form whose content the driver refuses are compiled again. */
    assert_int_equal(system("test -n \"$(find cache -type f)\" && find cache -type f -exec sh -c "
                            "'head -c 100 /dev/urandom >\"$1\"' _ {} \\;"),
                     0);
    IN_CHILD(newer_gpu_computes, "HAUL_CACHE_DIR=cache");
    IN_CHILD(newer_gpu_computes, "HAUL_CACHE_DIR=cache", "STANDIN_FAIL=cuModuleLoadData:1");
}

/* ---- refusing ---- */

static bool first_compile_fails(void)
{
    haul_scope *scope = haul_scope_push();
    bool        failed = haul_tensor_check(haul_sqrt(ramp(haul_device_get("cuda:0"), 8))) &&
                  haul_error_status() == HAUL_BACKEND && says(haul_error_message(), "does not compile");
    haul_error_clear();
    haul_scope_pop(scope);
    return failed && computes("cuda:0");
}

static void test_cuda__a_kernel_that_does_not_compile(void **state)
{
    (void)state;
    IN_CHILD(first_compile_fails, "HAUL_CACHE_DIR=none-yet", "STANDIN_FAIL=nvrtcCompileProgram:1");
}

/* A kernel that went wrong takes the GPU with it: every later use says so, and the CPU goes on. */
static bool is_lost(void)
{
    haul_scope *scope = haul_scope_push();
    double      value = haul_item(haul_sum(ramp(gpu(), 100)));
    bool        failed = value != value && haul_error_status() == HAUL_BACKEND &&
                  says(haul_error_message(), "CUDA_ERROR_LAUNCH_FAILED") && says(haul_error_message(), "checkpoint");
    haul_error_clear();
    bool refused = haul_device_sync(gpu()) != HAUL_OK;
    haul_error_clear();
    bool still = haul_tensor_check(haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(3)), gpu()));
    haul_error_clear();
    haul_scope_pop(scope);
    return failed && refused && still && computes("cpu");
}

static void test_cuda__lost(void **state)
{
    (void)state;
    IN_CHILD(is_lost, "STANDIN_FAIL=cuLaunchKernel:1:719");
    IN_CHILD(is_lost, "STANDIN_FAIL=cuEventSynchronize:1:719,cuStreamSynchronize:1:719");
}

/* ---- every call of the driver fails in turn ---- */

static bool step(haul_module *net, haul_optimizer *sgd, haul_device *device)
{
    haul_scope *scope = haul_scope_push();
    haul_set_device(device);
    haul_manual_seed(1);
    haul_tensor *x = haul_to(haul_normal(HAUL_F32, HAUL_SHAPE(4, 2, 6, 6), 0, 1), device);
    haul_tensor *y = haul_zeros(HAUL_I64, HAUL_SHAPE(4));
    haul_tensor *loss = haul_cross_entropy(haul_call(net, x), y);
    haul_optimizer_zero_grad(sgd);
    haul_backward(loss);
    haul_optimizer_step(sgd);
    double value = haul_item(loss);
    haul_scope_pop(scope);
    return value == value && haul_error_status() == HAUL_OK;
}

/* Either the step works (the fault hit an optional call, or none), or an error names the call that failed. */
static bool trains_or_tells(void)
{
    haul_device *device = haul_device_get("cuda:0");
    if (!haul_device_is_valid(device))
        return haul_set_device(device) != HAUL_OK && haul_error_message()[0];
    haul_scope *scope = haul_scope_push();
    haul_set_device(device);
    haul_module    *net = HAUL_SEQUENTIAL(haul_nn_conv2d(2, 3, 3), haul_nn_relu(), haul_nn_max_pool2d(2),
                                          haul_nn_flatten(1), haul_nn_linear(12, 2));
    haul_optimizer *sgd = haul_sgd(net, 0.1, .momentum = 0.9);
    bool            good = net && sgd && step(net, sgd, device) && step(net, sgd, device);
    if (!good && (haul_error_status() == HAUL_OK || !haul_error_message()[0])) {
        printf("failed without an error\n");
        return false;
    }
    haul_error_clear();
    haul_scope_pop(scope);
    return true;
}

static void test_cuda__every_call_fails_in_turn(void **state)
{
    static const char *const functions[] = {
        "cuDeviceGetCount",     "cuDeviceGet",          "cuDevicePrimaryCtxRetain",
        "cuCtxSetCurrent",      "cuCtxGetCurrent",      "cuMemAlloc_v2",
        "cuMemHostAlloc",       "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
        "cuMemcpyDtoDAsync_v2", "cuMemsetD32Async",     "cuStreamCreate",
        "cuStreamWaitEvent",    "cuEventCreate",        "cuEventRecord",
        "cuEventSynchronize",   "cuModuleLoadData",     "cuModuleGetFunction",
        "cuFuncGetAttribute",   "cuLaunchKernel",       "nvrtcCreateProgram",
        "nvrtcCompileProgram",
    };
    static const int calls[] = {1, 2, 3, 5, 8, 13, 21, 34};
    (void)state;
    IN_CHILD(trains_or_tells, "STANDIN_DEVICES=1"); /* fills the cache */
    for (size_t f = 0; f < sizeof functions / sizeof functions[0]; f++)
        for (size_t n = 0; n < sizeof calls / sizeof calls[0]; n++) {
            char fault[96];
            snprintf(fault, sizeof fault, "STANDIN_FAIL=%s:%d", functions[f], calls[n]);
            IN_CHILD(trains_or_tells, fault);
        }
}

/* ---- what the driver takes for itself ---- */

static int64_t stat_of(const char *name)
{
    int64_t value = -2;
    haul_stat_get(name, &value);
    return value;
}

static bool stats_are(int64_t overhead, const char *when)
{
    const int64_t now = stat_of("memory.cuda:0.overhead");
    if (now != overhead)
        printf("%s: the overhead is %lld, not %lld\n", when, (long long)now, (long long)overhead);
    return now == overhead;
}

/* A new module is loaded for each dtype. */
static bool computes_in(haul_dtype dtype)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_full(dtype, HAUL_SHAPE(4), 3);
    const bool   right = haul_item(haul_sum(haul_mul(x, x))) == 36;
    haul_scope_pop(scope);
    return right;
}

/* The context, modules and reserved memory are all memory that is not free. */
static bool counts_overhead(void)
{
    haul_memory_stats s;
    if (haul_set_device(gpu()) || !stats_are(30 * MIB, "with a context"))
        return false;
    if (!computes_in(HAUL_F32) || haul_memory_stats_get(gpu(), &s))
        return false;
    const int64_t modules = (s.overhead - 30 * MIB) / MIB, left = stat_of("memory.cuda:0.free");
    const bool    adds_up = 200 * MIB - 5 * MIB - left - s.overhead - s.reserved < MIB / 4;
    if (modules < 2 || s.overhead % MIB || !adds_up) {
        printf("overhead %lld, reserved %lld, free %lld\n", (long long)s.overhead, (long long)s.reserved,
               (long long)left);
        return false;
    }
    return computes_in(HAUL_F32) && stats_are(s.overhead, "without new modules");
}

static bool allocates(int64_t bytes)
{
    haul_scope *scope = haul_scope_push();
    const bool  works = haul_tensor_is_valid(haul_empty(HAUL_U8, HAUL_SHAPE(bytes)));
    haul_scope_pop(scope);
    return works;
}

static bool limits_overhead(void)
{
    haul_memory_report r;
    if (haul_set_device(gpu()) || haul_memory_set_limit(gpu(), 34 * MIB) || !allocates(4 * MIB) || allocates(5 * MIB))
        return false;
    if (haul_memory_report_get(&r) || r.overhead != 30 * MIB || r.limit != 34 * MIB || r.room != 4 * MIB)
        return false;
    haul_error_clear();
    if (!allocates(4 * MIB) || !computes_in(HAUL_F32)) /* modules leave less, and cached blocks make room */
        return false;
    haul_memory_stats s;
    haul_memory_stats_get(gpu(), &s);
    if (s.overhead + s.reserved > s.limit || s.overhead < 32 * MIB || allocates(4 * MIB))
        return false;
    haul_error_clear();
    if (haul_memory_set_tensor_limit(gpu(), 4 * MIB) || !allocates(4 * MIB) || allocates(5 * MIB))
        return false;
    return !haul_memory_report_get(&r) && r.overhead == 0 && r.room == 4 * MIB && r.limit == 4 * MIB;
}

static bool knows_no_context(void)
{
    return !haul_set_device(gpu()) && stats_are(0, "without NVML") && computes_in(HAUL_F32) &&
           stat_of("memory.cuda:0.overhead") % MIB == 0 && stat_of("memory.cuda:0.overhead") > 0;
}

/* The driver takes whole pages of 2 MiB, and Haul counts what it takes, in estimates too. */
static bool counts_pages(void)
{
    haul_memory_stats s = {0};
    haul_scope       *scope = haul_scope_push();
    const int64_t     before = haul_set_device(gpu()) ? -1 : stat_of("memory.cuda:0.free");
    for (int i = 0; i < 8; i++)
        haul_empty(HAUL_U8, HAUL_SHAPE(5 * MIB / 2));
    const int64_t taken = before - stat_of("memory.cuda:0.free");
    const bool    good = !haul_memory_stats_get(gpu(), &s) && taken == 32 * MIB && s.reserved == taken &&
                      s.allocated == taken && s.peak_allocated == taken;
    if (!good)
        printf("the driver took %lld, %lld are reserved, %lld allocated\n", (long long)taken, (long long)s.reserved,
               (long long)s.allocated);
    haul_scope_pop(scope);
    return good;
}

static void test_cuda__pages(void **state)
{
    (void)state;
    IN_CHILD(counts_pages, "STANDIN_DEVICES=1");
}

/* A call leaves the thread the context that it had, also if that was none. */
static bool restores_the_context(void)
{
    void *driver = dlopen(STANDIN "/libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *current_of = driver ? dlsym(driver, "cuCtxGetCurrent") : NULL,
         *set = driver ? dlsym(driver, "cuCtxSetCurrent") : NULL;
    int (*get_current)(void **), (*set_current)(void *);
    void *none = &none, *other = NULL, *after = NULL;
    if (!current_of || !set)
        return false;
    memcpy(&get_current, &current_of, sizeof get_current);
    memcpy(&set_current, &set, sizeof set_current);
    if (!computes("cuda:0") || get_current(&none) || none) {
        printf("a context is current that no one made current\n");
        return false;
    }
    haul__cuda_scope scope;
    if (haul__cuda_enter(haul__cuda_of(haul_device_get("cuda:0")), &scope) || get_current(&other) || !other)
        return false;
    return !set_current(other) && computes("cuda:1") && !get_current(&after) && after == other;
}

static void test_cuda__context(void **state)
{
    (void)state;
    IN_CHILD(restores_the_context, "STANDIN_DEVICES=2");
}

/* Many numbers of 8 bytes are filled by a kernel, not as two columns of 4 bytes. */
static bool fills_by_kernel(void)
{
    haul_scope *scope = haul_scope_push();
    bool        good = haul_set_device(gpu()) == HAUL_OK;
    good = good && haul_item(haul_sum(haul_full(HAUL_F64, HAUL_SHAPE(1 << 16), 0.1 + 0.2))) > 19660.8 - 1e-6;
    good = good && haul_item(haul_max(haul_full(HAUL_I64, HAUL_SHAPE(1 << 16), 7))) == 7;
    haul_scope_pop(scope);
    return good;
}

static void test_cuda__fills(void **state)
{
    (void)state;
    IN_CHILD(fills_by_kernel, "STANDIN_FAIL=cuMemsetD2D32Async:0");
}

static void test_cuda__overhead(void **state)
{
    (void)state;
    IN_CHILD(counts_overhead, "STANDIN_CONTEXT=31457280", "STANDIN_MODULE=1048576", "STANDIN_MEMORY=209715200",
             "STANDIN_FOREIGN=5242880");
    IN_CHILD(limits_overhead, "STANDIN_CONTEXT=31457280", "STANDIN_MODULE=1048576");
    IN_CHILD(knows_no_context, "STANDIN_CONTEXT=31457280", "STANDIN_MODULE=1048576", "HAUL_CUDA_WITHOUT=nvml");
    IN_CHILD(knows_no_context, "STANDIN_CONTEXT=31457280", "STANDIN_MODULE=1048576",
             "STANDIN_FAIL=nvmlDeviceGetMemoryInfo:0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cuda__nothing_there),
        cmocka_unit_test(test_cuda__no_compiler),
        cmocka_unit_test(test_cuda__describes_itself),
        cmocka_unit_test(test_cuda__a_gpu_newer_than_the_compiler),
        cmocka_unit_test(test_cuda__two_gpus),
        cmocka_unit_test(test_cuda__only_used_gpus_start),
        cmocka_unit_test(test_cuda__auto_takes_one_that_starts),
        cmocka_unit_test(test_cuda__full),
        cmocka_unit_test(test_cuda__cache_in_bad_states),
        cmocka_unit_test(test_cuda__a_kernel_that_does_not_compile),
        cmocka_unit_test(test_cuda__lost),
        cmocka_unit_test(test_cuda__pages),
        cmocka_unit_test(test_cuda__context),
        cmocka_unit_test(test_cuda__fills),
        cmocka_unit_test(test_cuda__overhead),
        cmocka_unit_test(test_cuda__every_call_fails_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
