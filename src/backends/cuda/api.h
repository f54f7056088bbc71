/* The parts of NVIDIA's interfaces that Haul uses, in its own declarations, so that the backend is part of every build
 * and needs nothing from NVIDIA at build time. Names, values and layouts are facts of the CUDA driver API, of NVRTC and
 * of NVML. tests/backends/cuda_declarations.sh compares them with the toolkit's headers if those are installed
 * (HAUL_CUDA_HEADERS makes this file include them instead). */
#ifndef HAUL_BACKENDS_CUDA_API_H
#define HAUL_BACKENDS_CUDA_API_H

#include <stddef.h>

#ifdef HAUL_CUDA_HEADERS
#include <cuda.h>
#include <nvrtc.h>
#else

/* Enums of the original headers are ints here, which is the same in calls. */
typedef int                   CUresult, CUdevice, CUdevice_attribute, CUfunction_attribute, CUpointer_attribute;
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

typedef struct nvmlMemory_st {
    unsigned long long total, free, used; /* bytes */
} nvmlMemory_t;

/* The libraries' functions, set when the libraries are opened. */
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
