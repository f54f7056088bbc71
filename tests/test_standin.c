/* The stand-in for NVIDIA's libraries (tests/standin), used as the backend uses it: it must run kernels rightly, and
 * show the mistakes it is there to show.
 *
 * ctest: timeout=120 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cuda/api.h"

static haul__cuda_driver cu;
static haul__cuda_nvrtc  rtc;
static haul__cuda_nvml   ml;
static void (*restart)(void);
static int (*plan_faults)(const char *);
static int (*plan_compiler_faults)(const char *);
static long (*count_calls)(const char *);
static int64_t (*live)(int);
static int64_t (*pending)(void);
static long (*implicit_waits)(void);

static void *lib(const char *name)
{
    char  path[1024];
    void *library;

    snprintf(path, sizeof path, "%s/tests/standin/%s", HAUL_BUILD, name);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        fail_msg("%s", dlerror());
    return library;
}

static void *symbol(void *library, const char *name)
{
    void *at = dlsym(library, name);

    if (!at)
        fail_msg("%s", dlerror());
    return at;
}

static int load(void **unused)
{
    void *cuda = lib("libcuda.so.1"), *nvrtc = lib("libnvrtc.so.13"), *nvml = lib("libnvidia-ml.so.1");

    (void)unused;
#define X(name, function, arguments) *(void **)&cu.name = symbol(cuda, #function);
#include "backends/cuda/driver.def"
#undef X
#define X(name, function, arguments) *(void **)&rtc.name = symbol(nvrtc, #function);
#include "backends/cuda/nvrtc.def"
#undef X
#define X(name, function, arguments) *(void **)&ml.name = symbol(nvml, #function);
#include "backends/cuda/nvml.def"
#undef X
    *(void **)&restart = symbol(cuda, "standin_restart");
    *(void **)&plan_faults = symbol(cuda, "standin_fail");
    *(void **)&plan_compiler_faults = symbol(nvrtc, "standin_fail");
    *(void **)&count_calls = symbol(cuda, "standin_count");
    *(void **)&live = symbol(cuda, "standin_live");
    *(void **)&pending = symbol(cuda, "standin_pending");
    *(void **)&implicit_waits = symbol(cuda, "standin_implicit_waits");
    return 0;
}

/* --- each test begins anew
 * ---------------------------------------------------------------------------------------------- */

static const char *const variables[] = {"STANDIN_ORDER", "STANDIN_DEVICES", "STANDIN_MEMORY",    "STANDIN_FAIL",
                                        "STANDIN_PEER",  "STANDIN_FOREIGN", "STANDIN_NO_DEVICE", "STANDIN_INIT",
                                        "STANDIN_SEED",  "STANDIN_DRIVER",  "STANDIN_CAPABILITY"};

static int clean(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    plan_compiler_faults(NULL);
    restart();
    return 0;
}

static void set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
    restart();
}

static CUcontext contexts[2];
static CUstream  streams[2];

/* Contexts and a stream on each of the devices, the first current. */
static void start(int devices)
{
    if (devices > 1)
        set("STANDIN_DEVICES", "2");
    assert_int_equal(cu.Init(0), CUDA_SUCCESS);
    for (int i = devices - 1; i >= 0; i--) {
        assert_int_equal(cu.DevicePrimaryCtxRetain(&contexts[i], i), CUDA_SUCCESS);
        assert_int_equal(cu.CtxSetCurrent(contexts[i]), CUDA_SUCCESS);
        assert_int_equal(cu.StreamCreate(&streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    }
}

static CUdeviceptr device_memory(size_t bytes)
{
    CUdeviceptr at = 0;

    assert_int_equal(cu.MemAlloc(&at, bytes), CUDA_SUCCESS);
    return at;
}

static void *pinned_memory(size_t bytes)
{
    void *at = NULL;

    assert_int_equal(cu.MemHostAlloc(&at, bytes, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
    return at;
}

/* --- kernels
 * ------------------------------------------------------------------------------------------------------------ */

static const char header[] = "#ifdef __cplusplus\n"
                             "#define KERNEL extern \"C\" __global__ void\n"
                             "#else\n"
                             "#define KERNEL __global__ void\n"
                             "#endif\n"
                             "typedef struct params { long long items; float scale; int offset; } params;\n"
                             "#define AT (blockIdx.x * blockDim.x + threadIdx.x)\n";

static const char kernels[] =
    "#include \"haul_prelude.h\"\n"
    "extern \"C\" __global__ void __launch_bounds__(256) axpy(float *y, const float *x, const params p)\n"
    "{\n"
    "    for (long long i = AT; i < p.items; i += gridDim.x * blockDim.x) y[i + p.offset] += p.scale * x[i];\n"
    "}\n"
    "/* Row sums: a warp's by shuffles, then the block's through shared memory. */\n"
    "KERNEL sum(float *out, const float *x, const params p)\n"
    "{\n"
    "    __shared__ float parts[32];\n"
    "    float s = 0;\n"
    "    for (long long i = threadIdx.x; i < p.items; i += blockDim.x) s += x[blockIdx.x * p.items + i];\n"
    "    for (int w = 16; w; w /= 2) s += __shfl_down_sync(0xffffffffu, s, w);\n"
    "    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        for (unsigned i = 1; i < blockDim.x / 32; i++) s += parts[i];\n"
    "        out[blockIdx.x] = s;\n"
    "    }\n"
    "}\n"
    "/* The same without __syncthreads: parts that were not written yet are NaN. */\n"
    "KERNEL sum_unsafe(float *out, const float *x)\n"
    "{\n"
    "    __shared__ float parts[256];\n"
    "    parts[threadIdx.x] = x[threadIdx.x];\n"
    "    float s = 0;\n"
    "    if (threadIdx.x == 0) for (unsigned i = 0; i < blockDim.x; i++) s += parts[i];\n"
    "    if (threadIdx.x == 0) out[0] = s;\n"
    "}\n"
    "KERNEL words(unsigned *out, const params p)\n"
    "{\n"
    "    unsigned lane = threadIdx.x % 32;\n"
    "    out[threadIdx.x] = __ballot_sync(0xffffffffu, lane < 4) == 15u;\n"
    "    out[threadIdx.x] += __shfl_xor_sync(0xffffffffu, lane, 1) == (lane ^ 1u);\n"
    "    out[threadIdx.x] += __shfl_sync(0xffffffffu, lane, 5) == 5u;\n"
    "    out[threadIdx.x] += __shfl_up_sync(0xffffffffu, lane, 2) == (lane < 2 ? lane : lane - 2);\n"
    "    out[threadIdx.x] += __shfl_down_sync(0xffffffffu, lane, 1, 8) == (lane % 8 == 7 ? lane : lane + 1);\n"
    "    out[threadIdx.x] += __any_sync(0xffffffffu, lane == 9) && !__all_sync(0xffffffffu, lane == 9);\n"
    "    out[threadIdx.x] += __umulhi(0x80000000u, 6u) == 3u && __uint_as_float(0x3f800000u) == 1.0f;\n"
    "}\n"
    "KERNEL count(unsigned *out, const params p)\n"
    "{\n"
    "    if (AT < p.items) { atomicAdd(out, 1u); atomicMax(out + 1, AT); atomicCAS(out + 2, 0xFFFFFFFFu, 7u); }\n"
    "}\n"
    "KERNEL divergent(float *out)\n"
    "{\n"
    "    if (threadIdx.x < 5) __syncthreads();\n"
    "    out[threadIdx.x] = 1;\n"
    "}\n"
    "KERNEL fused(float *out, const float *x) { out[0] = x[0] * x[1] + x[2]; }\n";

typedef struct params {
    long long items;
    float     scale;
    int       offset;
} params;

/* The image of a text; NULL where it does not compile. */
static char *compile(const char *text, const char *target, const char *more)
{
    const char  *texts[] = {header}, *names[] = {"haul_prelude.h"}, *options[] = {target, more};
    nvrtcProgram program = NULL;
    size_t       size = 0;
    char        *image = NULL;
    bool         portable = strstr(target, "compute_") != NULL;

    assert_int_equal(rtc.CreateProgram(&program, text, "test", 1, texts, names), NVRTC_SUCCESS);
    if (rtc.CompileProgram(program, 2, options) == NVRTC_SUCCESS) {
        assert_int_equal(portable ? rtc.GetPTXSize(program, &size) : rtc.GetCUBINSize(program, &size), NVRTC_SUCCESS);
        image = malloc(size);
        assert_non_null(image);
        assert_int_equal(portable ? rtc.GetPTX(program, image) : rtc.GetCUBIN(program, image), NVRTC_SUCCESS);
    }
    assert_int_equal(rtc.DestroyProgram(&program), NVRTC_SUCCESS);
    assert_null(program);
    return image;
}

/* Compiled once for all tests. */
static const char *image(void)
{
    static char *made;

    if (!made)
        made = compile(kernels, "--gpu-architecture=sm_90", "--fmad=false");
    assert_non_null(made);
    return made;
}

static CUfunction kernel(const char *name)
{
    CUmodule   module = NULL;
    CUfunction function = NULL;

    assert_int_equal(cu.ModuleLoadData(&module, image()), CUDA_SUCCESS);
    assert_int_equal(cu.ModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    return function;
}

static CUresult launch(CUfunction f, unsigned grid, unsigned block, CUstream s, void **arguments)
{
    return cu.LaunchKernel(f, grid, 1, 1, block, 1, 1, 0, s, arguments, NULL);
}

static void fill(CUdeviceptr to, const float *values, size_t n)
{
    assert_int_equal(cu.MemcpyHtoDAsync(to, values, n * sizeof *values, streams[0]), CUDA_SUCCESS);
}

static void fetch(void *to, CUdeviceptr from, size_t bytes)
{
    assert_int_equal(cu.MemcpyDtoHAsync(to, from, bytes, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(streams[0]), CUDA_SUCCESS);
}

static void test_standin__a_grid_stride_loop_covers_all_items(void **unused)
{
    float       host[1000], result[1000];
    params      p = {1000, 2, 0};
    CUdeviceptr x, y;
    void       *arguments[] = {&y, &x, &p};

    (void)unused;
    start(1);
    x = device_memory(sizeof host);
    y = device_memory(sizeof host);
    for (int i = 0; i < 1000; i++)
        host[i] = (float)i;
    fill(x, host, 1000);
    fill(y, host, 1000);
    assert_int_equal(launch(kernel("axpy"), 2, 96, streams[0], arguments), CUDA_SUCCESS);
    p.scale = 1e9f; /* the launch has its own copy */
    fetch(result, y, sizeof result);
    for (int i = 0; i < 1000; i++)
        assert_true(result[i] == 3 * (float)i);
}

static void test_standin__barriers_shuffles_and_shared_memory_work_together(void **unused)
{
    enum { ROWS = 3, LENGTH = 700 };
    static float host[ROWS * LENGTH];
    float        result[ROWS];
    params       p = {LENGTH, 0, 0};
    CUdeviceptr  x, out;
    void        *arguments[] = {&out, &x, &p};

    (void)unused;
    start(1);
    x = device_memory(sizeof host);
    out = device_memory(sizeof result);
    for (int i = 0; i < ROWS * LENGTH; i++)
        host[i] = (float)(i % 10);
    fill(x, host, ROWS * LENGTH);
    for (unsigned block = 32; block <= 1024; block *= 2) {
        assert_int_equal(launch(kernel("sum"), ROWS, block, streams[0], arguments), CUDA_SUCCESS);
        fetch(result, out, sizeof result);
        for (int r = 0; r < ROWS; r++)
            assert_true(result[r] == LENGTH / 10 * 45);
    }
}

static void test_standin__a_missing_barrier_shows(void **unused)
{
    float       host[256], result;
    CUdeviceptr x, out;
    void       *arguments[] = {&out, &x};

    (void)unused;
    start(1);
    x = device_memory(sizeof host);
    out = device_memory(sizeof result);
    for (int i = 0; i < 256; i++)
        host[i] = 1;
    fill(x, host, 256);
    assert_int_equal(launch(kernel("sum_unsafe"), 1, 256, streams[0], arguments), CUDA_SUCCESS);
    fetch(&result, out, sizeof result);
    assert_true(result != 256);
}

static void test_standin__the_words_of_warps(void **unused)
{
    unsigned    result[64];
    params      p = {64, 0, 0};
    CUdeviceptr out;
    void       *arguments[] = {&out, &p};

    (void)unused;
    start(1);
    out = device_memory(sizeof result);
    assert_int_equal(launch(kernel("words"), 1, 64, streams[0], arguments), CUDA_SUCCESS);
    fetch(result, out, sizeof result);
    for (int i = 0; i < 64; i++)
        assert_int_equal(result[i], 7);
}

static void test_standin__atomics(void **unused)
{
    unsigned    result[3] = {0, 0, 0xFFFFFFFFu};
    params      p = {300, 0, 0};
    CUdeviceptr out;
    void       *arguments[] = {&out, &p};

    (void)unused;
    start(1);
    out = device_memory(sizeof result);
    assert_int_equal(cu.MemcpyHtoDAsync(out, result, sizeof result, streams[0]), CUDA_SUCCESS);
    assert_int_equal(launch(kernel("count"), 4, 128, streams[0], arguments), CUDA_SUCCESS);
    fetch(result, out, sizeof result);
    assert_int_equal(result[0], 300);
    assert_int_equal(result[1], 299);
    assert_int_equal(result[2], 7);
}

static void test_standin__threads_that_part_ways_lose_the_context(void **unused)
{
    CUdeviceptr out;
    void       *arguments[] = {&out};
    size_t      a, b;

    (void)unused;
    start(2);
    out = device_memory(64 * 4);
    assert_int_equal(launch(kernel("divergent"), 1, 64, streams[0], arguments), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(streams[0]), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.MemGetInfo(&a, &b), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.StreamSynchronize(streams[0]), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.CtxSetCurrent(contexts[1]), CUDA_SUCCESS); /* the other device goes on */
    assert_int_equal(cu.MemGetInfo(&a, &b), CUDA_SUCCESS);
    out = device_memory(64 * 4);
    assert_int_equal(cu.MemsetD32Async(out, 0, 64, streams[1]), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(streams[1]), CUDA_SUCCESS);
}

/* --- order
 * -------------------------------------------------------------------------------------------------------------- */

static void test_standin__pinned_memory_is_read_late(void **unused)
{
    CUdeviceptr x;
    float      *pinned, pageable, result;

    (void)unused;
    start(1);
    x = device_memory(4);
    pinned = pinned_memory(4);
    *pinned = 1;
    assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, streams[0]), CUDA_SUCCESS);
    *pinned = 2; /* too early */
    fetch(&result, x, 4);
    assert_true(result == 2);
    pageable = 3;
    assert_int_equal(cu.MemcpyHtoDAsync(x, &pageable, 4, streams[0]), CUDA_SUCCESS);
    pageable = 4; /* the driver has taken it */
    assert_int_equal(cu.MemcpyDtoHAsync(&result, x, 4, streams[0]), CUDA_SUCCESS);
    assert_true(result == 3); /* into pageable memory: complete when it returns */
    assert_int_equal(cu.MemcpyDtoHAsync(pinned, x, 4, streams[0]), CUDA_SUCCESS);
    assert_true(*pinned == 2); /* into pinned memory: late */
    assert_int_equal(cu.StreamSynchronize(streams[0]), CUDA_SUCCESS);
    assert_true(*pinned == 3);
}

static void test_standin__early_order_runs_at_once(void **unused)
{
    CUdeviceptr x;
    float      *pinned;

    (void)unused;
    set("STANDIN_ORDER", "early");
    start(1);
    x = device_memory(4);
    pinned = pinned_memory(4);
    *pinned = 1;
    assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, streams[0]), CUDA_SUCCESS);
    assert_int_equal(pending(), 0);
    *pinned = 2;
    assert_int_equal(cu.MemcpyDtoHAsync(pinned, x, 4, streams[0]), CUDA_SUCCESS);
    assert_true(*pinned == 1);
}

static void test_standin__a_stream_needs_the_event_of_another(void **unused)
{
    CUdeviceptr x;
    CUstream    other;
    CUevent     event;
    float      *pinned, result;

    (void)unused;
    start(1);
    x = device_memory(4);
    pinned = pinned_memory(4);
    *pinned = 5;
    assert_int_equal(cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    assert_int_equal(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cu.EventQuery(event), CUDA_SUCCESS); /* not recorded: nothing to wait for */
    assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.EventRecord(event, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyDtoHAsync(&result, x, 4, other), CUDA_SUCCESS);
    assert_true(result != 5); /* without waiting */
    assert_int_equal(cu.StreamWaitEvent(other, event, 0), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyDtoHAsync(&result, x, 4, other), CUDA_SUCCESS);
    assert_true(result == 5);
    assert_int_equal(cu.EventSynchronize(event), CUDA_SUCCESS);
    assert_int_equal(cu.EventDestroy(event), CUDA_SUCCESS);
    assert_int_equal(cu.EventDestroy(event), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.EventQuery(event), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.StreamDestroy(other), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(other), CUDA_ERROR_INVALID_HANDLE);
}

static void test_standin__a_loop_of_queries_ends(void **unused)
{
    CUdeviceptr x;
    CUevent     event;
    int         questions = 0;
    CUresult    code;

    (void)unused;
    start(1);
    x = device_memory(4);
    assert_int_equal(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    for (int i = 0; i < 10; i++)
        assert_int_equal(cu.MemsetD8Async(x, 0, 4, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.EventRecord(event, streams[0]), CUDA_SUCCESS);
    while ((code = cu.EventQuery(event)) == CUDA_ERROR_NOT_READY && questions < 100)
        questions++;
    assert_int_equal(code, CUDA_SUCCESS);
    assert_in_range(questions, 1, 20);
}

/* What events order must hold under every seed; what they do not order must come out differently under some. */
static void test_standin__random_order_keeps_events_and_breaks_luck(void **unused)
{
    int lucky = 0, unlucky = 0;

    (void)unused;
    for (int seed = 1; seed <= 20; seed++) {
        char        text[16];
        CUdeviceptr x, y;
        CUstream    other;
        CUevent     event;
        float      *pinned, ordered, luck;
        snprintf(text, sizeof text, "%d", seed);
        assert_int_equal(setenv("STANDIN_ORDER", "random", 1), 0);
        set("STANDIN_SEED", text);
        start(1);
        x = device_memory(4);
        y = device_memory(4);
        pinned = pinned_memory(4);
        *pinned = 1;
        assert_int_equal(cu.StreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
        assert_int_equal(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
        assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, streams[0]), CUDA_SUCCESS);
        assert_int_equal(cu.EventRecord(event, streams[0]), CUDA_SUCCESS);
        assert_int_equal(cu.MemcpyHtoDAsync(y, pinned, 4, streams[0]), CUDA_SUCCESS);
        assert_int_equal(cu.StreamWaitEvent(other, event, 0), CUDA_SUCCESS);
        assert_int_equal(cu.MemcpyDtoHAsync(&ordered, x, 4, other), CUDA_SUCCESS);
        assert_int_equal(cu.MemcpyDtoHAsync(&luck, y, 4, other), CUDA_SUCCESS);
        assert_true(ordered == 1);
        lucky += luck == 1;
        unlucky += luck != 1;
    }
    assert_true(lucky > 0 && unlucky > 0);
}

/* --- memory
 * ------------------------------------------------------------------------------------------------------------- */

static void test_standin__copies_are_checked(void **unused)
{
    char        host[64];
    CUdeviceptr x, y;

    (void)unused;
    start(2);
    memset(host, 0, sizeof host);
    x = device_memory(64);
    assert_int_equal(cu.MemcpyHtoDAsync(x, host, 64, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyHtoDAsync(x + 1, host, 64, streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoHAsync(host, x + 60, 5, streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyHtoDAsync((CUdeviceptr)(uintptr_t)host, host, 4, streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoHAsync((void *)(uintptr_t)x, x, 4, streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyHtoDAsync(x, (void *)(uintptr_t)x, 4, streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoDAsync(x, (CUdeviceptr)(uintptr_t)host, 4, streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyHtoDAsync(x, host, 4, NULL), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.MemsetD32Async(x + 2, 0, 1, streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemsetD16Async(x, 0, 33, streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.CtxSetCurrent(contexts[1]), CUDA_SUCCESS);
    y = device_memory(64);
    assert_int_equal(cu.MemcpyHtoDAsync(x, host, 64, streams[1]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoDAsync(y, x, 64, streams[1]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemFree(x + 4), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemFree(x), CUDA_SUCCESS);
    assert_int_equal(cu.MemFree(x), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyDtoHAsync(host, x, 4, streams[0]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemFree(0), CUDA_SUCCESS);
    assert_int_equal(cu.MemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

static void test_standin__fills_repeat_their_pattern(void **unused)
{
    unsigned char bytes[12];
    uint16_t      halves[2];
    CUdeviceptr   x;

    (void)unused;
    start(1);
    x = device_memory(sizeof bytes);
    fetch(bytes, x, sizeof bytes);
    assert_int_equal(bytes[11], 0xFF); /* new memory is NaN */
    assert_int_equal(cu.MemsetD8Async(x, 7, 12, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemsetD16Async(x + 2, 0x1234, 2, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemsetD32Async(x + 8, 0xA1B2C3D4u, 1, streams[0]), CUDA_SUCCESS);
    fetch(bytes, x, sizeof bytes);
    memcpy(halves, bytes + 2, sizeof halves);
    assert_int_equal(bytes[1], 7);
    assert_int_equal(halves[1], 0x1234);
    assert_int_equal(bytes[6], 7);
    assert_int_equal(bytes[8], 0xD4);
    assert_int_equal(bytes[11], 0xA1);
}

static void test_standin__a_device_has_a_limit(void **unused)
{
    CUdeviceptr x, y;
    size_t      available, total;

    (void)unused;
    assert_int_equal(setenv("STANDIN_FOREIGN", "100000", 1), 0);
    set("STANDIN_MEMORY", "1000000");
    start(2);
    x = device_memory(600000);
    assert_int_equal(cu.MemAlloc(&y, 300001), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cu.MemGetInfo(&available, &total), CUDA_SUCCESS);
    assert_int_equal(available, 300000);
    assert_int_equal(total, 1000000);
    assert_int_equal(live(0), 600000);
    assert_int_equal(cu.CtxSetCurrent(contexts[1]), CUDA_SUCCESS);
    y = device_memory(900000); /* each has its own */
    assert_int_equal(cu.MemFree(y), CUDA_SUCCESS);
    assert_int_equal(cu.MemFree(x), CUDA_SUCCESS);
    assert_int_equal(live(0), 0);
    assert_int_equal(cu.MemAlloc(&y, 0), CUDA_ERROR_INVALID_VALUE);
}

static void test_standin__freeing_memory_in_use_waits_and_is_counted(void **unused)
{
    CUdeviceptr x, y;
    float      *pinned;

    (void)unused;
    start(1);
    x = device_memory(4);
    y = device_memory(4);
    pinned = pinned_memory(4);
    *pinned = 1;
    assert_int_equal(cu.MemcpyHtoDAsync(x, pinned, 4, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyDtoHAsync(pinned, x, 4, streams[0]), CUDA_SUCCESS);
    *pinned = 2;
    assert_int_equal(pending(), 2);
    assert_int_equal(cu.MemFree(y), CUDA_SUCCESS);
    assert_int_equal(implicit_waits(), 0);
    assert_int_equal(pending(), 2);
    assert_int_equal(cu.MemFree(x), CUDA_SUCCESS);
    assert_int_equal(implicit_waits(), 1);
    assert_int_equal(pending(), 0);
    assert_int_equal(cu.MemFreeHost(pinned), CUDA_SUCCESS);
    assert_int_equal(implicit_waits(), 1);
}

/* The host faults on a device address; seen from a child. */
static void test_standin__the_host_cannot_follow_a_device_address(void **unused)
{
    CUdeviceptr x;
    int         status;
    pid_t       child;

    (void)unused;
    start(1);
    x = device_memory(4);
    fflush(NULL);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr)) /* sanitizers have much to say */
            _exit(0);
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        _exit(*(volatile char *)(uintptr_t)x == 1 ? 0 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_false(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* --- devices
 * ------------------------------------------------------------------------------------------------------------ */

static void test_standin__calls_need_a_current_context(void **unused)
{
    CUdeviceptr x;
    CUcontext   current;
    CUevent     event;
    int         count;

    (void)unused;
    assert_int_equal(cu.DeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    start(2);
    assert_int_equal(cu.DeviceGetCount(&count), CUDA_SUCCESS);
    assert_int_equal(count, 2);
    assert_int_equal(cu.CtxSetCurrent(NULL), CUDA_SUCCESS);
    assert_int_equal(cu.MemAlloc(&x, 4), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.EventCreate(&event, 0), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cu.CtxSetCurrent(contexts[1]), CUDA_SUCCESS);
    assert_int_equal(cu.CtxGetCurrent(&current), CUDA_SUCCESS);
    assert_ptr_equal(current, contexts[1]);
}

static void test_standin__contexts_are_not_mixed(void **unused)
{
    CUfunction  f;
    CUdeviceptr x, y;
    CUevent     event;
    params      p = {1, 1, 0};
    void       *arguments[] = {&y, &x, &p};

    (void)unused;
    start(2);
    x = device_memory(4);
    y = device_memory(4);
    f = kernel("axpy");
    assert_int_equal(cu.EventCreate(&event, 0), CUDA_SUCCESS);
    assert_int_equal(launch(f, 1, 32, streams[1], arguments), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.EventRecord(event, streams[1]), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.EventRecord(event, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.StreamWaitEvent(streams[1], event, 0), CUDA_SUCCESS);
    assert_int_equal(cu.CtxSetCurrent(contexts[1]), CUDA_SUCCESS);
    assert_int_equal(launch(f, 1, 32, streams[0], arguments), CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(cu.EventSynchronize(event), CUDA_SUCCESS);
}

static void test_standin__copies_between_devices_and_peer_access(void **unused)
{
    float       value = 3;
    params      p = {1, 2, 0};
    int         can = 0;
    CUdeviceptr x, y;
    CUevent     event;
    void       *arguments[] = {&y, &x, &p};

    (void)unused;
    start(2);
    x = device_memory(4);
    fill(x, &value, 1);
    assert_int_equal(cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    assert_int_equal(cu.EventRecord(event, streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.CtxSetCurrent(contexts[1]), CUDA_SUCCESS);
    y = device_memory(4);
    assert_int_equal(cu.StreamWaitEvent(streams[1], event, 0), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyPeerAsync(y, contexts[0], x, contexts[1], 4, streams[1]), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cu.MemcpyPeerAsync(y, contexts[1], x, contexts[0], 4, streams[1]), CUDA_SUCCESS);
    assert_int_equal(cu.DeviceCanAccessPeer(&can, 1, 0), CUDA_SUCCESS);
    assert_int_equal(can, 1);
    assert_int_equal(cu.CtxEnablePeerAccess(contexts[0], 0), CUDA_SUCCESS);
    assert_int_equal(cu.CtxEnablePeerAccess(contexts[0], 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    assert_int_equal(launch(kernel("axpy"), 1, 32, streams[1], arguments), CUDA_SUCCESS);
    assert_int_equal(cu.MemcpyDtoHAsync(&value, y, 4, streams[1]), CUDA_SUCCESS);
    assert_true(value == 9);
    /* Device 0 may not follow addresses of device 1. */
    assert_int_equal(cu.CtxSetCurrent(contexts[0]), CUDA_SUCCESS);
    assert_int_equal(launch(kernel("axpy"), 1, 32, streams[0], arguments), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.EventQuery(event), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_standin__devices_without_peer_access(void **unused)
{
    int can = 1;

    (void)unused;
    set("STANDIN_PEER", "0");
    start(2);
    assert_int_equal(cu.DeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
    assert_int_equal(can, 0);
    assert_int_not_equal(cu.CtxEnablePeerAccess(contexts[1], 0), CUDA_SUCCESS);
}

static void test_standin__a_kernel_cannot_use_freed_memory(void **unused)
{
    params      p = {1, 1, 0};
    CUdeviceptr x, y;
    void       *arguments[] = {&y, &x, &p};
    CUfunction  f;

    (void)unused;
    start(1);
    x = device_memory(4);
    y = device_memory(4);
    f = kernel("axpy");
    assert_int_equal(cu.MemFree(x), CUDA_SUCCESS);
    assert_int_equal(launch(f, 1, 32, streams[0], arguments), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(streams[0]), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(cu.MemFree(y), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void test_standin__what_devices_say(void **unused)
{
    nvmlProcessInfo_t processes[4];
    nvmlDevice_t      handle;
    char              id[32], name[64];
    const char       *error;
    unsigned          count = 1;
    int               major, minor, version, device;

    (void)unused;
    assert_int_equal(setenv("STANDIN_CAPABILITY", "7.5", 1), 0);
    assert_int_equal(setenv("STANDIN_DRIVER", "12040", 1), 0);
    set("STANDIN_FOREIGN", "4096");
    start(1);
    assert_int_equal(cu.DriverGetVersion(&version), CUDA_SUCCESS);
    assert_int_equal(version, 12040);
    assert_int_equal(cu.DeviceGet(&device, 0), CUDA_SUCCESS);
    assert_int_equal(cu.DeviceGet(&device, 1), CUDA_ERROR_INVALID_DEVICE);
    assert_int_equal(cu.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0), CUDA_SUCCESS);
    assert_int_equal(cu.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0), CUDA_SUCCESS);
    assert_int_equal(major * 10 + minor, 75);
    assert_int_equal(cu.DeviceGetName(name, sizeof name, 0), CUDA_SUCCESS);
    assert_int_equal(cu.DeviceGetPCIBusId(id, sizeof id, 0), CUDA_SUCCESS);
    assert_int_equal(cu.GetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &error), CUDA_SUCCESS);
    assert_string_equal(error, "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_int_equal(cu.GetErrorName((CUresult)123456, &error), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(ml.Init(), 0);
    assert_int_equal(ml.DeviceGetHandleByPciBusId(id, &handle), 0);
    assert_int_equal(ml.DeviceGetComputeRunningProcesses(handle, &count, processes), 7);
    assert_int_equal(count, 2);
    assert_int_equal(ml.DeviceGetComputeRunningProcesses(handle, &count, processes), 0);
    assert_int_equal(processes[1].pid, 4242);
    assert_int_equal(processes[1].usedGpuMemory, 4096);
}

static void test_standin__machines_without_a_device(void **unused)
{
    (void)unused;
    set("STANDIN_NO_DEVICE", "1");
    assert_int_equal(cu.Init(0), CUDA_ERROR_NO_DEVICE);
    unsetenv("STANDIN_NO_DEVICE");
    set("STANDIN_INIT", "803");
    assert_int_equal(cu.Init(0), CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
}

/* --- compiling
 * ---------------------------------------------------------------------------------------------------------- */

static int files_in(const char *folder)
{
    DIR *entries = opendir(folder);
    int  count = 0;

    assert_non_null(entries);
    while (readdir(entries))
        count++;
    closedir(entries);
    return count;
}

static void test_standin__compile_errors_are_told(void **unused)
{
    static const char text[] = "#include \"haul_prelude.h\"\nKERNEL broken(float *x) { x[0] = no_such_function(1); }\n";
    const char       *texts[] = {header}, *names[] = {"haul_prelude.h"}, *options[] = {"--gpu-architecture=sm_90"};
    nvrtcProgram      program;
    char              log[8192];
    size_t            size;
    int               before = files_in(".");

    (void)unused;
    assert_int_equal(rtc.CreateProgram(&program, text, "broken", 1, texts, names), NVRTC_SUCCESS);
    assert_int_equal(rtc.CompileProgram(program, 1, options), NVRTC_ERROR_COMPILATION);
    assert_int_equal(rtc.GetProgramLogSize(program, &size), NVRTC_SUCCESS);
    assert_in_range(size, 2, sizeof log);
    assert_int_equal(rtc.GetProgramLog(program, log), NVRTC_SUCCESS);
    assert_non_null(strstr(log, "no_such_function"));
    assert_int_equal(rtc.GetCUBINSize(program, &size), NVRTC_SUCCESS);
    assert_int_equal(size, 0);
    options[0] = "--no-such-option";
    assert_int_equal(rtc.CompileProgram(program, 1, options), NVRTC_ERROR_INVALID_OPTION);
    options[0] = "--gpu-architecture=sm_70";
    assert_int_equal(rtc.CompileProgram(program, 1, options), NVRTC_ERROR_INVALID_OPTION);
    assert_int_equal(rtc.DestroyProgram(&program), NVRTC_SUCCESS);
    assert_int_equal(files_in("."), before);
}

static void test_standin__options_have_their_effect(void **unused)
{
    float       host[] = {1 + 0x1p-13f, 1 - 0x1p-13f, -1}, result[2];
    char       *images[2] = {compile(kernels, "--gpu-architecture=compute_80", "--fmad=true"),
                             compile(kernels, "-arch=sm_90", "-DUNUSED=1 + 1")};
    CUdeviceptr x, out;
    void       *arguments[] = {&out, &x};
    CUmodule    module;
    CUfunction  f;

    (void)unused;
    start(1);
    x = device_memory(sizeof host);
    out = device_memory(4);
    fill(x, host, 3);
    assert_int_equal(launch(kernel("fused"), 1, 1, streams[0], arguments), CUDA_SUCCESS);
    fetch(&result[0], out, 4);
    for (int i = 0; i < 2; i++) { /* NVRTC fuses unless told not to */
        assert_non_null(images[i]);
        assert_int_equal(cu.ModuleLoadData(&module, images[i]), CUDA_SUCCESS);
        assert_int_equal(cu.ModuleGetFunction(&f, module, "fused"), CUDA_SUCCESS);
        assert_int_equal(launch(f, 1, 1, streams[0], arguments), CUDA_SUCCESS);
        fetch(&result[1], out, 4);
#if defined(__x86_64__)
        assert_true(result[1] != result[0]);
#endif
        assert_int_equal(cu.ModuleUnload(module), CUDA_SUCCESS);
        assert_int_equal(cu.ModuleGetFunction(&f, module, "fused"), CUDA_ERROR_INVALID_HANDLE);
        free(images[i]);
    }
}

static void test_standin__images_fit_devices_and_drivers(void **unused)
{
    char      *portable = compile(kernels, "--gpu-architecture=compute_80", "--fmad=false");
    CUmodule   module;
    CUfunction f;

    (void)unused;
    assert_non_null(portable);
    set("STANDIN_CAPABILITY", "8.6");
    start(1);
    assert_int_equal(cu.ModuleLoadData(&module, image()), CUDA_ERROR_NO_BINARY_FOR_GPU);
    assert_int_equal(cu.ModuleLoadData(&module, portable), CUDA_SUCCESS);
    assert_int_equal(cu.ModuleGetFunction(&f, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cu.ModuleLoadData(&module, "no image"), CUDA_ERROR_INVALID_IMAGE);
    set("STANDIN_DRIVER", "12000");
    start(1);
    assert_int_equal(cu.ModuleLoadData(&module, portable), CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
    free(portable);
}

static void test_standin__what_the_compiler_supports(void **unused)
{
    int archs[16], count, major, minor;

    (void)unused;
    assert_int_equal(rtc.Version(&major, &minor), NVRTC_SUCCESS);
    assert_int_equal(major, 13);
    assert_int_equal(rtc.GetNumSupportedArchs(&count), NVRTC_SUCCESS);
    assert_in_range(count, 1, 16);
    assert_int_equal(rtc.GetSupportedArchs(archs), NVRTC_SUCCESS);
    assert_int_equal(archs[0], 75);
}

/* --- faults
 * ------------------------------------------------------------------------------------------------------------- */

static void test_standin__any_call_can_fail(void **unused)
{
    CUdeviceptr  x;
    nvrtcProgram program;

    (void)unused;
    set("STANDIN_FAIL", "cuMemAlloc_v2:2,cuStreamSynchronize:1:719,nvrtcCreateProgram:1");
    start(1);
    x = device_memory(4);
    assert_int_equal(cu.MemAlloc(&x, 4), CUDA_ERROR_OUT_OF_MEMORY);
    x = device_memory(4);
    assert_int_equal(count_calls("cuMemAlloc_v2"), 3);
    assert_int_equal(count_calls("cuNoSuchCall"), -1);
    assert_int_equal(cu.StreamSynchronize(streams[0]), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cu.MemFree(x), CUDA_ERROR_LAUNCH_FAILED); /* the context is lost */
    assert_true(plan_compiler_faults("nvrtcCreateProgram:0"));
    for (int i = 0; i < 2; i++)
        assert_int_equal(rtc.CreateProgram(&program, "", "", 0, NULL, NULL), NVRTC_ERROR_OUT_OF_MEMORY);
    assert_true(plan_compiler_faults("nvrtcCreateProgram:1:3"));
    assert_int_equal(rtc.CreateProgram(&program, "", "", 0, NULL, NULL), NVRTC_ERROR_INVALID_INPUT);
    assert_false(plan_faults("cuMemAlloc_v2"));
    assert_false(plan_faults("cuMemAlloc_v2:x"));
}

/* --- threads
 * ------------------------------------------------------------------------------------------------------------ */

typedef struct worker {
    pthread_t thread;
    int       device;
    bool      right;
} worker;

static void *work(void *argument)
{
    worker     *w = argument;
    float       host[512], result = 0;
    params      p = {512, 0, 0};
    CUdeviceptr x = 0, out = 0;
    CUmodule    module;
    CUfunction  f;
    CUstream    s;
    void       *arguments[] = {&out, &x, &p};

    for (int i = 0; i < 512; i++)
        host[i] = 1;
    if (cu.CtxSetCurrent(contexts[w->device]) || cu.StreamCreate(&s, CU_STREAM_NON_BLOCKING) ||
        cu.ModuleLoadData(&module, image()) || cu.ModuleGetFunction(&f, module, "sum") ||
        cu.MemAlloc(&x, sizeof host) || cu.MemAlloc(&out, 4))
        return NULL;
    for (int i = 0; i < 20; i++) {
        if (cu.MemcpyHtoDAsync(x, host, sizeof host, s) || launch(f, 1, 128, s, arguments) ||
            cu.MemcpyDtoHAsync(&result, out, 4, s) || result != 512)
            return NULL;
    }
    w->right = cu.MemFree(x) == CUDA_SUCCESS && cu.MemFree(out) == CUDA_SUCCESS && cu.StreamDestroy(s) == CUDA_SUCCESS;
    return NULL;
}

static void test_standin__threads_have_their_own_context(void **unused)
{
    worker workers[4] = {{0}};

    (void)unused;
    start(2);
    (void)image();
    for (int i = 0; i < 4; i++) {
        workers[i].device = i % 2;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_true(workers[i].right);
    }
}

#define TEST(name) cmocka_unit_test_setup(test_standin__##name, clean)

int main(void)
{
    char folder[1024];

    /* The folder in which tests run is their own: what stays behind in it is seen. */
    if (!getcwd(folder, sizeof folder) || setenv("TMPDIR", folder, 1) != 0)
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(a_grid_stride_loop_covers_all_items),
        TEST(barriers_shuffles_and_shared_memory_work_together),
        TEST(a_missing_barrier_shows),
        TEST(the_words_of_warps),
        TEST(atomics),
        TEST(threads_that_part_ways_lose_the_context),
        TEST(pinned_memory_is_read_late),
        TEST(early_order_runs_at_once),
        TEST(a_stream_needs_the_event_of_another),
        TEST(a_loop_of_queries_ends),
        TEST(random_order_keeps_events_and_breaks_luck),
        TEST(copies_are_checked),
        TEST(fills_repeat_their_pattern),
        TEST(a_device_has_a_limit),
        TEST(freeing_memory_in_use_waits_and_is_counted),
        TEST(the_host_cannot_follow_a_device_address),
        TEST(calls_need_a_current_context),
        TEST(contexts_are_not_mixed),
        TEST(copies_between_devices_and_peer_access),
        TEST(devices_without_peer_access),
        TEST(a_kernel_cannot_use_freed_memory),
        TEST(what_devices_say),
        TEST(machines_without_a_device),
        TEST(compile_errors_are_told),
        TEST(options_have_their_effect),
        TEST(images_fit_devices_and_drivers),
        TEST(what_the_compiler_supports),
        TEST(any_call_can_fail),
        TEST(threads_have_their_own_context),
    };
    return cmocka_run_group_tests(tests, load, clean);
}
