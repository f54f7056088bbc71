#include "support/raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/cuda/cuda.h"

static CUdevice    device;
static CUcontext   context;
static CUstream    stream;
static CUdeviceptr there, there_too;
static void       *here;
static CUmodule    module;
static CUfunction  empty;

static bool ok(const char *call, CUresult code)
{
    char        text[128];
    const char *name = "?";
    if (code == CUDA_SUCCESS)
        return true;
    haul__cu.GetErrorName(code, &name);
    snprintf(text, sizeof text, "%s: %s", call, name);
    return bench_out(text);
}
#define CU(name, ...) ok("cu" #name, haul__cu.name(__VA_ARGS__))

/* Which GPU "cuda:1" is; -1 where BENCH_DEVICE names no CUDA device. */
static int wanted_index(void)
{
    const char *name = getenv("BENCH_DEVICE");
    int         index = 0;
    if (!name || strcmp(name, "cuda") == 0)
        return 0;
    return sscanf(name, "cuda:%d", &index) == 1 ? index : -1;
}

/* The primary context, as Haul has it, and a stream. */
static bool open_gpu(void)
{
    char why[256];
    int  index = wanted_index();
    if (index < 0)
        return bench_out("the device is not one of CUDA");
    if (!haul__cuda_load_driver(why, sizeof why))
        return bench_out(why);
    return CU(DeviceGet, &device, index) && CU(DevicePrimaryCtxRetain, &context, device) &&
           CU(CtxSetCurrent, context) && CU(StreamCreate, &stream, CU_STREAM_NON_BLOCKING);
}

bool raw_open(const bench_case *c)
{
    size_t bytes = (size_t)c->size;
    if (!open_gpu() || !CU(MemAlloc, &there, bytes) || !CU(MemAlloc, &there_too, bytes) ||
        !CU(MemHostAlloc, &here, bytes, CU_MEMHOSTALLOC_PORTABLE))
        return false;
    memset(here, 1, bytes);
    return CU(MemsetD8Async, there, 2, bytes, stream) && CU(MemsetD8Async, there_too, 3, bytes, stream) &&
           CU(StreamSynchronize, stream);
}

void raw_close(void)
{
    bool fine = true;
    if (module)
        fine &= CU(ModuleUnload, module);
    if (there)
        fine &= CU(MemFree, there);
    if (there_too)
        fine &= CU(MemFree, there_too);
    if (here)
        fine &= CU(MemFreeHost, here);
    if (stream)
        fine &= CU(StreamDestroy, stream);
    if (!fine)
        fprintf(stderr, "memory of the driver could not be freed\n");
    module = NULL;
    empty = NULL;
    there = there_too = 0;
    here = NULL;
    stream = NULL;
}

bool raw_run_up(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (!CU(MemcpyHtoDAsync, there, here, (size_t)c->size, stream) || !CU(StreamSynchronize, stream))
            return false;
    return true;
}

bool raw_run_down(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (!CU(MemcpyDtoHAsync, here, there, (size_t)c->size, stream) || !CU(StreamSynchronize, stream))
            return false;
    return true;
}

bool raw_run_copy(const bench_case *c, int64_t times)
{
    for (int64_t i = 0; i < times; i++)
        if (!CU(MemcpyDtoDAsync, there_too, there, (size_t)c->size, stream))
            return false;
    return CU(StreamSynchronize, stream);
}

/* ---- launches ---- */

/* The machine code of an empty kernel, for the GPU. To be freed; NULL if it could not be compiled. */
static char *compile_empty(void)
{
    static const char source[] = "extern \"C\" __global__ void empty(void)\n{\n}\n";
    char              target[64], *code = NULL;
    nvrtcProgram      program = NULL;
    size_t            bytes = 0;
    int               major = 0, minor = 0;
    if (!CU(DeviceGetAttribute, &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ||
        !CU(DeviceGetAttribute, &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
        return NULL;
    snprintf(target, sizeof target, "--gpu-architecture=sm_%d%d", major, minor);
    if (haul__nvrtc.CreateProgram(&program, source, "empty.cu", 0, NULL, NULL) == NVRTC_SUCCESS &&
        haul__nvrtc.CompileProgram(program, 1, (const char *const[]){target}) == NVRTC_SUCCESS &&
        haul__nvrtc.GetCUBINSize(program, &bytes) == NVRTC_SUCCESS && bytes > 0)
        code = malloc(bytes);
    if (code && haul__nvrtc.GetCUBIN(program, code) != NVRTC_SUCCESS) {
        free(code);
        code = NULL;
    }
    if (program)
        haul__nvrtc.DestroyProgram(&program);
    if (!code)
        bench_out("NVRTC did not compile an empty kernel");
    return code;
}

bool raw_open_launch(const bench_case *c)
{
    char why[256];
    (void)c;
    if (!open_gpu())
        return false;
    if (!haul__cuda_load_nvrtc(why, sizeof why))
        return bench_out(why);
    char *code = compile_empty();
    bool  fine = code && CU(ModuleLoadData, &module, code) && CU(ModuleGetFunction, &empty, module, "empty");
    free(code);
    return fine;
}

bool raw_run_launch(const bench_case *c, int64_t times)
{
    (void)c;
    for (int64_t i = 0; i < times; i++)
        if (!CU(LaunchKernel, empty, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL))
            return false;
    return CU(StreamSynchronize, stream);
}
