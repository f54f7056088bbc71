#include "support/devices/gpu.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <unistd.h>

haul__cuda_driver cu;
haul__cuda_nvrtc  rtc;
haul__cuda_nvml   ml;
static void (*restart)(void);
int (*gpu_plan_faults)(const char *);
int (*gpu_plan_compiler_faults)(const char *);
long (*gpu_count_calls)(const char *);
int64_t (*gpu_live)(int);
int64_t (*gpu_pending)(void);
long (*gpu_implicit_waits)(void);

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

int gpu_load(void **unused)
{
    void *cuda = lib("libcuda.so.1"), *nvrtc = lib("libnvrtc.so.13"), *nvml = lib("libnvidia-ml.so.1");
    char  folder[1024];
    (void)unused;
    if (!getcwd(folder, sizeof folder) || setenv("TMPDIR", folder, 1) != 0)
        return -1;
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
    *(void **)&gpu_plan_faults = symbol(cuda, "standin_fail");
    *(void **)&gpu_plan_compiler_faults = symbol(nvrtc, "standin_fail");
    *(void **)&gpu_count_calls = symbol(cuda, "standin_count");
    *(void **)&gpu_live = symbol(cuda, "standin_live");
    *(void **)&gpu_pending = symbol(cuda, "standin_pending");
    *(void **)&gpu_implicit_waits = symbol(cuda, "standin_implicit_waits");
    return 0;
}

/* ---- each test begins anew ---- */

static const char *const variables[] = {"STANDIN_ORDER", "STANDIN_DEVICES", "STANDIN_MEMORY",    "STANDIN_FAIL",
                                        "STANDIN_PEER",  "STANDIN_FOREIGN", "STANDIN_NO_DEVICE", "STANDIN_INIT",
                                        "STANDIN_SEED",  "STANDIN_DRIVER",  "STANDIN_CAPABILITY"};

int gpu_clean(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    gpu_plan_compiler_faults(NULL);
    restart();
    return 0;
}

void gpu_set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
    restart();
}

CUcontext gpu_contexts[2];
CUstream  gpu_streams[2];

/* Contexts and a stream on each of the devices, the first current. */
void gpu_start(int devices)
{
    if (devices > 1)
        gpu_set("STANDIN_DEVICES", "2");
    assert_int_equal(cu.Init(0), CUDA_SUCCESS);
    for (int i = devices - 1; i >= 0; i--) {
        assert_int_equal(cu.DevicePrimaryCtxRetain(&gpu_contexts[i], i), CUDA_SUCCESS);
        assert_int_equal(cu.CtxSetCurrent(gpu_contexts[i]), CUDA_SUCCESS);
        assert_int_equal(cu.StreamCreate(&gpu_streams[i], CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    }
}

CUdeviceptr gpu_device_memory(size_t bytes)
{
    CUdeviceptr at = 0;
    assert_int_equal(cu.MemAlloc(&at, bytes), CUDA_SUCCESS);
    return at;
}

void *gpu_pinned_memory(size_t bytes)
{
    void *at = NULL;
    assert_int_equal(cu.MemHostAlloc(&at, bytes, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
    return at;
}

/* ---- kernels ---- */

const char gpu_header[] = "#ifdef __cplusplus\n"
                          "#define KERNEL extern \"C\" __global__ void\n"
                          "#else\n"
                          "#define KERNEL __global__ void\n"
                          "#endif\n"
                          "typedef struct params { long long items; float scale; int offset; } params;\n"
                          "#define AT (blockIdx.x * blockDim.x + threadIdx.x)\n";

const char gpu_kernels[] =
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

/* The image of a text; NULL where it does not compile. */
char *gpu_compile(const char *text, const char *target, const char *more)
{
    const char  *texts[] = {gpu_header}, *names[] = {"haul_prelude.h"}, *options[] = {target, more};
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
const char *gpu_image(void)
{
    static char *made;
    if (!made)
        made = gpu_compile(gpu_kernels, "--gpu-architecture=sm_90", "--fmad=false");
    assert_non_null(made);
    return made;
}

CUfunction gpu_kernel(const char *name)
{
    CUmodule   module = NULL;
    CUfunction function = NULL;
    assert_int_equal(cu.ModuleLoadData(&module, gpu_image()), CUDA_SUCCESS);
    assert_int_equal(cu.ModuleGetFunction(&function, module, name), CUDA_SUCCESS);
    return function;
}

CUresult gpu_launch(CUfunction f, unsigned grid, unsigned block, CUstream s, void **arguments)
{
    return cu.LaunchKernel(f, grid, 1, 1, block, 1, 1, 0, s, arguments, NULL);
}

void gpu_fill(CUdeviceptr to, const float *values, size_t n)
{
    assert_int_equal(cu.MemcpyHtoDAsync(to, values, n * sizeof *values, gpu_streams[0]), CUDA_SUCCESS);
}

void gpu_fetch(void *to, CUdeviceptr from, size_t bytes)
{
    assert_int_equal(cu.MemcpyDtoHAsync(to, from, bytes, gpu_streams[0]), CUDA_SUCCESS);
    assert_int_equal(cu.StreamSynchronize(gpu_streams[0]), CUDA_SUCCESS);
}
