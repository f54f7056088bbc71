/* The parts of cuBLASLt that Haul uses, declared as in ../api.h; the same in CUDA 12 and 13. With HAUL_CUDA_HEADERS
 * NVIDIA's own headers are included instead, for tests/backends/cuda_declarations.sh. */
#ifndef HAUL_BACKENDS_CUDA_CUBLASLT_API_H
#define HAUL_BACKENDS_CUDA_CUBLASLT_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef HAUL_CUDA_HEADERS
#include <cublasLt.h>
#else

/* Enums of the original headers are ints here, which is the same in calls. */
typedef int cublasStatus_t, cudaDataType, cublasComputeType_t;
typedef int cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t;
typedef struct CUstream_st          *cudaStream_t;
typedef struct cublasLtContext      *cublasLtHandle_t;
typedef struct cublasLtDesc         *cublasLtMatmulDesc_t;
typedef struct cublasLtMatrixLayout *cublasLtMatrixLayout_t;
typedef struct cublasLtPreference   *cublasLtMatmulPreference_t;

typedef struct cublasLtMatmulAlgo_t {
    uint64_t data[8];
} cublasLtMatmulAlgo_t;

typedef struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t               workspaceSize; /* bytes that the algorithm needs */
    cublasStatus_t       state;
    float                wavesCount;
    int                  reserved[4];
} cublasLtMatmulHeuristicResult_t;

enum haul__cublaslt_constants {
#define X(name, value) name = value,
#include "backends/cuda/cublaslt/constants.def"
#undef X
};
#endif

/* The library's functions, set when it is opened. */
typedef struct haul__cublaslt_functions {
#define X(name, symbol, arguments) cublasStatus_t(*name) arguments;
#include "backends/cuda/cublaslt/cublaslt.def"
#undef X
    size_t (*GetVersion)(void); /* 130100 for 13.1.0 */
    const char *(*GetStatusName)(cublasStatus_t);
} haul__cublaslt_functions;

#endif
