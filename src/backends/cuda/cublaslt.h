/* Matrix products by cuBLASLt: what gemm.c and gemm_plan.c share. */
#ifndef HAUL_BACKENDS_CUDA_CUBLASLT_H
#define HAUL_BACKENDS_CUDA_CUBLASLT_H

#include "backends/cuda/api_cublaslt.h"
#include "backends/cuda/cuda.h"

extern haul__cublaslt_functions haul__lt; /* filled by haul__cublaslt_load */

/* Scratch memory an algorithm may ask for: what NVIDIA advises for its largest GPUs. */
#define HAUL__LT_SCRATCH ((size_t)32 << 20)

/* A matrix in cuBLASLt's words: column-major, `ld` elements from a column to the next. */
typedef struct haul__lt_matrix {
    int64_t rows, columns, ld, batch; /* batch: elements from a matrix to the next */
    int64_t transposed;               /* CUBLAS_OP_N or CUBLAS_OP_T */
    int64_t alignment;                /* of its first element, in bytes: a power of two up to 256 */
} haul__lt_matrix;

/* All that an algorithm's choice depends on. Row-major C = A B is computed as C^T = B^T A^T, where C^T is what
 * row-major C is called in column-major words; a bias along C's columns then lies along rows, as cuBLASLt wants it.
 * Fields of one size, so that problems can be hashed and compared as bytes. */
typedef struct haul__lt_problem {
    haul__lt_matrix left, right, out; /* of B, of A, of C */
    int64_t         batch, dtype, tf32, accumulate, epilogue, bias_alignment;
    int64_t         scratch; /* bytes it may use */
} haul__lt_problem;

/* An algorithm for a problem, and the descriptors to call it with. */
typedef struct haul__lt_plan {
    struct haul__lt_plan  *next;
    haul__lt_problem       problem;
    bool                   usable; /* else cuBLASLt has no algorithm for it */
    cublasLtMatmulDesc_t   operation;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulAlgo_t   algorithm;
    size_t                 scratch; /* bytes it needs */
} haul__lt_plan;

/* cuBLASLt on one GPU. What is in it is guarded by the device's blas_lock. */
enum { HAUL__LT_BINS = 256, HAUL__LT_MOST_PLANS = 2048 };
typedef struct haul__cuda_blas {
    cublasLtHandle_t handle;
    haul__lt_plan   *plans[HAUL__LT_BINS];
    int              plan_count;
} haul__cuda_blas;

/* cublaslt.c: the library is opened once; false, with the reason in words, where it cannot be used. */
bool haul__cublaslt_load(char *why, size_t why_size);
/* HAUL_OK, or the recorded error "cuda:0: cublasLtMatmul failed: CUBLAS_STATUS_...". */
haul_status haul__cublaslt_check(const haul_device *device, const char *call, cublasStatus_t code);

/* gemm_plan.c. The plan for a problem, made on first sight; HAUL_UNSUPPORTED, with nothing recorded, where there is no
 * algorithm. Called with blas_lock held and the device's context current; the plan lives until the lock is given up. */
haul_status haul__lt_plan_get(const haul_device *device, haul__cuda_blas *blas, const haul__lt_problem *problem,
                              CUdeviceptr bias, haul__lt_plan **out);

#endif
