/* The parts of cuSOLVER that Haul uses, declared as in ../api.h; the same in CUDA 12 and 13. With HAUL_CUDA_HEADERS
 * NVIDIA's own headers are included instead, for tests/backends/cuda_declarations_cusolver.sh. */
#ifndef HAUL_BACKENDS_CUDA_CUSOLVER_API_H
#define HAUL_BACKENDS_CUDA_CUSOLVER_API_H

#ifdef HAUL_CUDA_HEADERS
#include <cusolverDn.h>
#else

/* Enums of the original headers are ints here, which is the same in calls. */
typedef int                       cusolverStatus_t, cusolverEigMode_t, cublasFillMode_t;
typedef struct CUstream_st       *cudaStream_t;
typedef struct cusolverDnContext *cusolverDnHandle_t;

enum haul__cusolver_constants {
#define X(name, value) name = value,
#include "backends/cuda/cusolver/constants.def"
#undef X
};
#endif

/* The library's functions, set when it is opened. */
typedef struct haul__cusolver_functions {
#define X(name, symbol, arguments) cusolverStatus_t(*name) arguments;
#include "backends/cuda/cusolver/cusolver.def"
#undef X
} haul__cusolver_functions;

#endif
