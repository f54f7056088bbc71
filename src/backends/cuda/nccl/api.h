/* The parts of NCCL that Haul uses, declared as in ../api.h. With HAUL_CUDA_HEADERS
 * NVIDIA's own header is included instead, for tests/backends/cuda_declarations_nccl.sh. */
#ifndef HAUL_BACKENDS_CUDA_NCCL_API_H
#define HAUL_BACKENDS_CUDA_NCCL_API_H

#include <stddef.h>

#ifdef HAUL_CUDA_HEADERS
#include <nccl.h>
#else

/* Enums of the original header are ints here, which is the same in calls. */
typedef int                 ncclResult_t, ncclDataType_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct ncclComm    *ncclComm_t;

typedef struct ncclUniqueId {
    char internal[128];
} ncclUniqueId;

enum haul__nccl_constants {
#define X(name, value) name = value,
#include "backends/cuda/nccl/constants.def"
#undef X
};
#endif

/* The library's functions, set when it is opened. */
typedef struct haul__nccl_functions {
#define X(name, symbol, arguments) ncclResult_t(*name) arguments;
#include "backends/cuda/nccl/nccl.def"
#undef X
    const char *(*GetErrorString)(ncclResult_t);
    const char *(*GetLastError)(ncclComm_t);
} haul__nccl_functions;

#endif
