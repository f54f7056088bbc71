/* Matrix products by cuBLASLt: declarations shared by gemm.c and gemm_plan.c. */
#ifndef HAUL_BACKENDS_CUDA_CUBLASLT_CUBLASLT_H
#define HAUL_BACKENDS_CUDA_CUBLASLT_CUBLASLT_H

#include "backends/cuda/cublaslt/api.h"
#include "backends/cuda/cuda.h"

extern haul__cublaslt_functions haul__lt; /* filled by haul__cublaslt_load */

/* The most scratch memory for an algorithm: NVIDIA's recommendation for its largest GPUs. */
#define HAUL__LT_SCRATCH ((size_t)32 << 20)

/* A matrix in cuBLASLt's terms: column-major, `ld` elements from one column to the next. */
typedef struct haul__lt_matrix {
    int64_t rows, columns, ld, batch; /* for batches: elements from one matrix to the next */
    int64_t transposed;               /* CUBLAS_OP_N or CUBLAS_OP_T */
    int64_t alignment;                /* alignment of its first element in bytes: a power of two up to 256 */
} haul__lt_matrix;

/* Everything that the choice of an algorithm depends on. Row-major C = A B is computed as C^T = B^T A^T, where
 * row-major C is C^T in column-major terms; a bias along C's columns is then along rows, as cuBLASLt requires. All
 * fields have one size, so that problems can be hashed and compared as bytes. */
typedef struct haul__lt_problem {
    haul__lt_matrix left, right, out; /* of B, of A, of C */
    int64_t         batch, dtype, tf32, accumulate, epilogue, bias_alignment;
    int64_t         scratch; /* bytes of scratch memory that it may use */
} haul__lt_problem;

/* An algorithm for a problem, and the descriptors for its call. */
typedef struct haul__lt_plan {
    struct haul__lt_plan  *next;
    haul__lt_problem       problem;
    bool                   usable; /* false: cuBLASLt has no algorithm for it */
    cublasLtMatmulDesc_t   operation;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulAlgo_t   algorithm;
    size_t                 scratch; /* bytes it needs */
} haul__lt_plan;

/* cuBLASLt on one GPU. The device's blas_lock guards the contents. */
enum { HAUL__LT_BINS = 256, HAUL__LT_MOST_PLANS = 2048 };
typedef struct haul__cuda_blas {
    cublasLtHandle_t handle;
    haul__lt_plan   *plans[HAUL__LT_BINS];
    int              plan_count;
} haul__cuda_blas;

/* cublaslt.c: opens the library once; returns false, with the reason, if it cannot be used. */
bool haul__cublaslt_load(char *why, size_t why_size);
/* HAUL_OK, or the recorded error "cuda:0: cublasLtMatmul failed: CUBLAS_STATUS_...". */
haul_status haul__cublaslt_check(const haul_device *device, const char *call, cublasStatus_t code);

/* gemm_plan.c. The plan for a problem, made when the problem first occurs; HAUL_UNSUPPORTED, without recording an
 * error, if there is no algorithm. The caller holds blas_lock, and the device's context is current; the plan is valid
 * until the lock is released. */
haul_status haul__lt_plan_get(const haul_device *device, haul__cuda_blas *blas, const haul__lt_problem *problem,
                              CUdeviceptr bias, haul__lt_plan **out);

#endif
