/* NVIDIA's interfaces on the stand-in (tests/standin), for tests that call them as the backend does. */
#ifndef HAUL_TESTS_SUPPORT_GPU_H
#define HAUL_TESTS_SUPPORT_GPU_H

#include <stdint.h>

#include "backends/cuda/api.h"

extern haul__cuda_driver cu;
extern haul__cuda_nvrtc  rtc;
extern haul__cuda_nvml   ml;

/* What tests/standin/standin.h offers. */
extern int (*gpu_plan_faults)(const char *);
extern int (*gpu_plan_compiler_faults)(const char *);
extern long (*gpu_count_calls)(const char *);
extern int64_t (*gpu_live)(int);
extern int64_t (*gpu_pending)(void);
extern long (*gpu_implicit_waits)(void);

/* For cmocka: opens the libraries, and TMPDIR becomes the current folder; the driver as if it were loaded anew. */
int gpu_load(void **state);
int gpu_clean(void **state);

/* One of the stand-in's variables, and the driver anew. */
void gpu_set(const char *name, const char *value);

/* Contexts and a stream on each of the devices, of which there are one or two; the first is current. */
void             gpu_start(int devices);
extern CUcontext gpu_contexts[2];
extern CUstream  gpu_streams[2];

CUdeviceptr gpu_device_memory(size_t bytes);
void       *gpu_pinned_memory(size_t bytes);
/* On the first device's stream; gpu_fetch waits. */
void gpu_fill(CUdeviceptr to, const float *values, size_t n);
void gpu_fetch(void *to, CUdeviceptr from, size_t bytes);

/* Kernels for tests; gpu_header is what they include. */
extern const char gpu_header[], gpu_kernels[];
typedef struct gpu_params {
    long long items;
    float     scale;
    int       offset;
} gpu_params;

/* The image of a text, the caller's to free; NULL where it does not compile. */
char *gpu_compile(const char *text, const char *target, const char *more);
/* Of gpu_kernels for sm_90, compiled once; and one of the kernels, loaded into the current context. */
const char *gpu_image(void);
CUfunction  gpu_kernel(const char *name);
CUresult    gpu_launch(CUfunction f, unsigned grid, unsigned block, CUstream s, void **arguments);

#endif
