/* NVIDIA's interfaces as far as they are used: our own declarations, so that nothing of NVIDIA's is needed to build and
 * the backend is part of every build. The names, values and layouts are facts of the CUDA driver API, of NVRTC and of
 * NVML; tests/cuda_declarations.sh compares them with the toolkit's headers where those are installed
 * (HAUL_CUDA_HEADERS makes this file include them instead). */
#ifndef HAUL_BACKENDS_CUDA_API_H
#define HAUL_BACKENDS_CUDA_API_H

#include <stddef.h>

#ifdef HAUL_CUDA_HEADERS
#include <cuda.h>
#include <nvrtc.h>
#else

/* The enums of the headers are ints here: the same in calls. */
typedef int                   CUresult, CUdevice, CUdevice_attribute, CUfunction_attribute;
typedef unsigned long long    CUdeviceptr;
typedef struct CUctx_st      *CUcontext;
typedef struct CUmod_st      *CUmodule;
typedef struct CUfunc_st     *CUfunction;
typedef struct CUstream_st   *CUstream;
typedef struct CUevent_st    *CUevent;
typedef int                   nvrtcResult;
typedef struct _nvrtcProgram *nvrtcProgram;

enum haul__cuda_constants {
#define X(name, value) name = value,
#include "backends/cuda/constants.def"
#undef X
};
#endif

/* NVML's header is not part of every toolkit. */
typedef int                   nvmlReturn_t; /* 0 is success */
typedef struct nvmlDevice_st *nvmlDevice_t;
typedef struct nvmlProcessInfo_st {
    unsigned           pid;
    unsigned long long usedGpuMemory; /* bytes */
    unsigned           gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

/* The libraries' functions, filled when they are opened. */
typedef struct haul__cuda_driver {
#define X(name, symbol, arguments) CUresult(*name) arguments;
#include "backends/cuda/driver.def"
#undef X
} haul__cuda_driver;

typedef struct haul__cuda_nvrtc {
#define X(name, symbol, arguments) nvrtcResult(*name) arguments;
#include "backends/cuda/nvrtc.def"
#undef X
} haul__cuda_nvrtc;

typedef struct haul__cuda_nvml {
#define X(name, symbol, arguments) nvmlReturn_t(*name) arguments;
#include "backends/cuda/nvml.def"
#undef X
} haul__cuda_nvml;

#endif
