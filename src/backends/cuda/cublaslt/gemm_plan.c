/* The algorithm of cuBLASLt for a matrix product: chosen once per problem, and kept with its descriptors. */
#include <string.h>

#include "backends/cuda/cublaslt/cublaslt.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/hostile.h"
#include "core/error.h"

static cudaDataType data_type(int64_t dtype)
{
    switch (dtype) {
    case HAUL_F64: return CUDA_R_64F;
    case HAUL_F16: return CUDA_R_16F;
    case HAUL_BF16: return CUDA_R_16BF;
    default: return CUDA_R_32F;
    }
}

static cublasComputeType_t compute_type(const haul__lt_problem *p)
{
    if (p->dtype == HAUL_F64)
        return CUBLAS_COMPUTE_64F;
    return p->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

/* ---- descriptors ---- */

static cublasStatus_t make_layout(cublasLtMatrixLayout_t *out, const haul__lt_problem *p, const haul__lt_matrix *m)
{
    int32_t count = (int32_t)p->batch;
    HAUL__ASSERT(0 < p->batch && p->batch <= INT32_MAX);
    HAUL__ASSERT(m->rows > 0 && m->columns > 0 && m->ld >= m->rows);
    cublasStatus_t code =
        haul__lt.MatrixLayoutCreate(out, data_type(p->dtype), (uint64_t)m->rows, (uint64_t)m->columns, m->ld);
    if (code == CUBLAS_STATUS_SUCCESS && p->batch > 1)
        code = haul__lt.MatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count);
    if (code == CUBLAS_STATUS_SUCCESS && p->batch > 1)
        code = haul__lt.MatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->batch,
                                                 sizeof m->batch);
    return code;
}

static cublasStatus_t make_operation(haul__lt_plan *plan, CUdeviceptr bias)
{
    const haul__lt_problem *p = &plan->problem;
    int32_t                 left = (int32_t)p->left.transposed, right = (int32_t)p->right.transposed;
    uint32_t                epilogue = (uint32_t)p->epilogue;
    uintptr_t               address = (uintptr_t)bias;
    HAUL__ASSERT(!bias == !p->bias_alignment && !p->out.transposed);
    cublasStatus_t code =
        haul__lt.MatmulDescCreate(&plan->operation, compute_type(p), p->dtype == HAUL_F64 ? CUDA_R_64F : CUDA_R_32F);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = haul__lt.MatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = haul__lt.MatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
    if (code == CUBLAS_STATUS_SUCCESS && epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        code =
            haul__lt.MatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    if (code == CUBLAS_STATUS_SUCCESS && bias)
        code = haul__lt.MatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &address,
                                               sizeof address);
    return code;
}

/* ---- choosing ---- */

static cublasStatus_t prefer(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t what,
                             int64_t value)
{
    uint32_t small = (uint32_t)value;
    return haul__lt.MatmulPreferenceSetAttribute(preference, what, &small, sizeof small);
}

/* With a split sum, the partial sums must be combined in the computing type, in a second step of fixed order; other
 * schemes would round in between. */
static cublasStatus_t set_preferences(cublasLtMatmulPreference_t preference, const haul__lt_problem *p)
{
    uint64_t       scratch = (uint64_t)p->scratch;
    cublasStatus_t code = haul__lt.MatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                                &scratch, sizeof scratch);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                      CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
    HAUL__ASSERT(p->left.alignment > 0 && p->right.alignment > 0 && p->out.alignment > 0);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, p->left.alignment);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, p->right.alignment);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, p->out.alignment);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, p->out.alignment);
    return code;
}

/* The first answer is the best one, by NVIDIA's own model; nothing is measured, so the choice is the same every time.
 */
static cublasStatus_t choose(const haul__cuda_blas *blas, haul__lt_plan *plan)
{
    cublasLtMatmulHeuristicResult_t found = {.state = CUBLAS_STATUS_NOT_SUPPORTED};
    cublasLtMatmulPreference_t      preference = NULL;
    int                             count = 0;
    cublasStatus_t                  code = haul__lt.MatmulPreferenceCreate(&preference);
    if (code != CUBLAS_STATUS_SUCCESS)
        return code;
    HAUL__ASSERT(plan->operation && plan->left && plan->right && plan->out && !plan->scratch);
    code = set_preferences(preference, &plan->problem);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = haul__lt.MatmulAlgoGetHeuristic(blas->handle, plan->operation, plan->left, plan->right, plan->out,
                                               plan->out, preference, 1, &found, &count);
    haul__lt.MatmulPreferenceDestroy(preference);
    if (code != CUBLAS_STATUS_SUCCESS)
        return code;
    if (count < 1 || found.state != CUBLAS_STATUS_SUCCESS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    plan->algorithm = found.algo;
    plan->scratch = found.workspaceSize;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- keeping ---- */

static void plan_free(haul__lt_plan *plan)
{
    if (plan->operation)
        haul__lt.MatmulDescDestroy(plan->operation);
    if (plan->left)
        haul__lt.MatrixLayoutDestroy(plan->left);
    if (plan->right)
        haul__lt.MatrixLayoutDestroy(plan->right);
    if (plan->out)
        haul__lt.MatrixLayoutDestroy(plan->out);
    haul__free(plan);
}

/* Programs with ever new shapes begin anew from time to time: an algorithm found again is the same. */
static void forget_all(haul__cuda_blas *blas)
{
    for (int i = 0; i < HAUL__LT_BINS; i++) {
        while (blas->plans[i]) {
            haul__lt_plan *plan = blas->plans[i];
            blas->plans[i] = plan->next;
            plan_free(plan);
            blas->plan_count--;
        }
    }
    HAUL__ASSERT(blas->plan_count == 0);
}

static size_t bin_of(const haul__lt_problem *problem)
{
    uint64_t words[sizeof *problem / sizeof(uint64_t)], hash = 0;
    memcpy(words, problem, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15u;
    return hash >> 56;
}

/* Where cuBLASLt does not know the problem the plan says so, for the next time. */
static haul_status plan_make(const haul_device *device, const haul__cuda_blas *blas, const haul__lt_problem *problem,
                             CUdeviceptr bias, haul__lt_plan **out)
{
    haul__lt_plan *plan = haul__calloc(1, sizeof *plan);
    cublasStatus_t code;
    if (!plan)
        return haul__fail_memory(device->name, sizeof *plan);
    plan->problem = *problem;
    code = make_layout(&plan->left, problem, &problem->left);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = make_layout(&plan->right, problem, &problem->right);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = make_layout(&plan->out, problem, &problem->out);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = make_operation(plan, bias);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = choose(blas, plan);
    plan->usable = code == CUBLAS_STATUS_SUCCESS;
    if (!plan->usable && code != CUBLAS_STATUS_NOT_SUPPORTED && code != CUBLAS_STATUS_INVALID_VALUE &&
        code != CUBLAS_STATUS_ARCH_MISMATCH) {
        plan_free(plan);
        return haul__cublaslt_check(device, "cublasLtMatmulAlgoGetHeuristic", code);
    }
    HAUL__ASSERT(!plan->next && (!plan->usable || memcmp(&plan->problem, problem, sizeof *problem) == 0));
    *out = plan;
    return HAUL_OK;
}

haul_status haul__lt_plan_get(const haul_device *device, haul__cuda_blas *blas, const haul__lt_problem *problem,
                              CUdeviceptr bias, haul__lt_plan **out)
{
    HAUL__ASSERT(0 <= problem->scratch && problem->scratch <= (int64_t)HAUL__LT_SCRATCH);
    size_t         bin = bin_of(problem);
    haul__lt_plan *plan = blas->plans[bin];
    haul_status    status = HAUL_OK;
    HAUL__ASSERT(bin < HAUL__LT_BINS && blas->plan_count <= HAUL__LT_MOST_PLANS);
    while (plan && memcmp(&plan->problem, problem, sizeof *problem) != 0)
        plan = plan->next;
    if (!plan) {
        status = plan_make(device, blas, problem, bias, &plan);
        if (status)
            return status;
        if (blas->plan_count == (haul__is_hostile(HAUL__HOSTILE_CACHES) ? 1 : HAUL__LT_MOST_PLANS))
            forget_all(blas);
        plan->next = blas->plans[bin];
        blas->plans[bin] = plan;
        blas->plan_count++;
    }
    *out = plan;
    return plan->usable ? HAUL_OK : HAUL_UNSUPPORTED;
}
