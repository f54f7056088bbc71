/* The implementation "cublaslt": describes matrices in cuBLASLt's terms, and calls it. */
#include <string.h>

#include "backends/cuda/cublaslt/cublaslt.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

/* ---- the problem ---- */

/* The largest power of two, up to 256, that divides the address. */
static int64_t alignment_of(CUdeviceptr address)
{
    int64_t alignment = 256;
    while (alignment > 1 && address % (CUdeviceptr)alignment != 0)
        alignment /= 2;
    return alignment;
}

/* A row-major matrix of `rows` x `columns` is its transpose in column-major terms. Returns false for strides that a
 * leading dimension cannot express: both larger than 1, or overlapping rows. The stride of an axis of size 1 does not
 * matter. */
static bool describe(haul__lt_matrix *out, int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    HAUL__ASSERT(rows > 0 && columns > 0);
    if ((column == 1 || columns == 1) && (row >= columns || rows == 1)) {
        *out = (haul__lt_matrix){.rows = columns, .columns = rows, .ld = rows == 1 ? columns : row};
        out->transposed = CUBLAS_OP_N;
        return true;
    }
    if ((row == 1 || rows == 1) && (column >= rows || columns == 1)) {
        *out = (haul__lt_matrix){.rows = rows, .columns = columns, .ld = columns == 1 ? rows : column};
        out->transposed = CUBLAS_OP_T;
        return true;
    }
    return false;
}

/* The addresses of the first elements. */
typedef struct operands {
    CUdeviceptr a, b, c, bias;
} operands;

static CUdeviceptr element(const haul__buffer *buffer, int64_t offset, haul_dtype dtype)
{
    return haul__cuda_address(buffer) + (CUdeviceptr)offset * haul__dtype_size(dtype);
}

static operands addresses(const haul__gemm *call)
{
    return (operands){
        .a = element(call->a, call->a_offset, call->dtype),
        .b = element(call->b, call->b_offset, call->dtype),
        .c = element(call->c, call->c_offset, call->dtype),
        .bias = call->bias ? element(call->bias, call->bias_offset, call->dtype) : 0,
    };
}

static bool has_library_dtype(haul_dtype dtype)
{
    return dtype == HAUL_F32 || dtype == HAUL_F64 || dtype == HAUL_F16 || dtype == HAUL_BF16;
}

static int64_t epilogue_of(const haul__gemm *call)
{
    if (call->relu)
        return call->bias ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_RELU;
    return call->bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

/* Returns false if cuBLASLt cannot take it. Sizes above 2^31 are left to the kernels. */
static bool translate(const haul__gemm *call, const operands *at, haul__lt_problem *out)
{
    memset(out, 0, sizeof *out);
    HAUL__ASSERT(call->batch > 0 && !call->bias_of_rows);
    if (!has_library_dtype(call->dtype) || call->k == 0 || call->m > INT32_MAX || call->n > INT32_MAX ||
        call->k > INT32_MAX || call->batch > INT32_MAX || call->inner)
        return false;
    if (!describe(&out->left, call->k, call->n, call->b_row, call->b_col) ||
        !describe(&out->right, call->m, call->k, call->a_row, call->a_col) ||
        !describe(&out->out, call->m, call->n, call->c_row, 1) || out->out.transposed)
        return false;
    HAUL__ASSERT(out->left.ld >= out->left.rows && out->right.ld >= out->right.rows && out->out.ld >= out->out.rows);
    if (call->batch > 1) {
        out->left.batch = call->b_batch;
        out->right.batch = call->a_batch;
        out->out.batch = call->c_batch;
    }
    out->left.alignment = alignment_of(at->b);
    out->right.alignment = alignment_of(at->a);
    out->out.alignment = alignment_of(at->c);
    out->bias_alignment = call->bias ? alignment_of(at->bias) : 0;
    out->batch = call->batch;
    out->dtype = call->dtype;
    out->tf32 = call->tf32;
    out->accumulate = call->accumulate;
    out->epilogue = epilogue_of(call);
    return true;
}

/* ---- the library on a device ---- */

/* The caller holds blas_lock, and the context is current. HAUL_UNSUPPORTED if cuBLASLt does not work on this GPU. */
static haul_status start(haul_device *device, haul__cuda_device *d)
{
    haul__cuda_blas *blas;
    cublasStatus_t   code;
    if (d->blas)
        return d->blas->handle ? HAUL_OK : HAUL_UNSUPPORTED;
    blas = haul__calloc(1, sizeof *blas);
    if (!blas)
        return haul__fail_memory(device->name, sizeof *blas);
    const haul__cuda_spending spent = haul__cuda_spend_begin(device);
    code = haul__lt.Create(&blas->handle);
    haul__cuda_spend_end(device, &spent);
    if (code == CUBLAS_STATUS_ALLOC_FAILED) { /* the next attempt may succeed */
        haul__free(blas);
        return haul__cublaslt_check(device, "cublasLtCreate", code);
    }
    if (code != CUBLAS_STATUS_SUCCESS)
        blas->handle = NULL;
    d->blas = blas;
    return blas->handle ? HAUL_OK : HAUL_UNSUPPORTED;
}

typedef struct session {
    haul__cuda_device *d;
    haul__cuda_scope   scope;
} session;

static haul_status enter(haul_device *device, session *s)
{
    CUresult    code;
    haul_status status;
    s->d = haul__cuda_of(device);
    code = haul__cuda_enter(s->d, &s->scope);
    if (code != CUDA_SUCCESS)
        return haul__cuda_check(device, "cuCtxSetCurrent", code);
    pthread_mutex_lock(&s->d->blas_lock);
    status = start(device, s->d);
    if (status) {
        pthread_mutex_unlock(&s->d->blas_lock);
        haul__cuda_leave(&s->scope);
    }
    HAUL__ASSERT(status || (s->d->blas && s->d->blas->handle));
    return status;
}

static void leave(const session *s)
{
    pthread_mutex_unlock(&s->d->blas_lock);
    haul__cuda_leave(&s->scope);
}

/* ---- the implementation ---- */

/* Fails if there is no plan for it; *scratch is the memory that it wants. It records no errors, because the run
 * meets them again and reports them. */
static haul_status look_up(haul_device *device, const haul__gemm *call, haul__lt_problem *problem, size_t *scratch)
{
    operands           at = addresses(call);
    haul__error_record before;
    haul__lt_plan     *plan = NULL;
    session            s;
    haul_status        status;
    haul__error_save(&before);
    problem->scratch = (int64_t)HAUL__LT_SCRATCH;
    status = enter(device, &s);
    if (status == HAUL_OK) {
        status = haul__lt_plan_get(device, s.d->blas, problem, at.bias, &plan);
        if (status == HAUL_OK)
            *scratch = plan->scratch;
        leave(&s);
    }
    if (status)
        haul__error_restore(&before);
    return status;
}

const char *haul__cublaslt_refuses(haul_device *device, const void *problem)
{
    const haul__gemm *call = problem;
    haul__lt_problem  translated;
    size_t            scratch = 0;
    operands          at;
    if (!haul__cublaslt_load(NULL, 0))
        return "it was not found, or cannot be used";
    if (!call)
        return NULL;
    if (!has_library_dtype(call->dtype))
        return "it takes floats only";
    at = addresses(call);
    if (!translate(call, &at, &translated))
        return "it cannot express these sizes or strides";
    return look_up(device, call, &translated, &scratch) == HAUL_UNSUPPORTED
               ? "it does not start on this GPU, or has no algorithm for this"
               : NULL;
}

size_t haul__cublaslt_scratch(haul_device *device, const void *problem)
{
    const haul__gemm *call = problem;
    operands          at = addresses(call);
    haul__lt_problem  translated;
    size_t            scratch = 0;
    if (translate(call, &at, &translated))
        look_up(device, call, &translated, &scratch);
    return scratch;
}

static cublasStatus_t multiply(const session *s, const haul__lt_plan *plan, const haul__gemm *call, const operands *at,
                               CUstream stream)
{
    float  one = 1, beta = call->accumulate ? 1 : 0;
    double one_f64 = 1, beta_f64 = beta;
    bool   f64 = call->dtype == HAUL_F64;
    HAUL__ASSERT(plan->usable && plan->scratch <= call->scratch_bytes);
    HAUL__ASSERT(!at->bias == !call->bias && !call->scratch_bytes == !call->scratch);
    CUdeviceptr    scratch = plan->scratch ? haul__cuda_address(call->scratch) : 0;
    uintptr_t      bias = (uintptr_t)at->bias;
    cublasStatus_t code = CUBLAS_STATUS_SUCCESS;
    if (at->bias)
        code = haul__lt.MatmulDescSetAttribute(plan->operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    if (code != CUBLAS_STATUS_SUCCESS)
        return code;
    return haul__lt.Matmul(s->d->blas->handle, plan->operation, f64 ? (const void *)&one_f64 : &one,
                           (const void *)(uintptr_t)at->b, plan->left, (const void *)(uintptr_t)at->a, plan->right,
                           f64 ? (const void *)&beta_f64 : &beta, (const void *)(uintptr_t)at->c, plan->out,
                           (void *)(uintptr_t)at->c, plan->out, &plan->algorithm, (void *)(uintptr_t)scratch,
                           plan->scratch, stream);
}

/* Uses the scratch memory that was asked for or, if there was none, an algorithm that needs none. */
haul_status haul__cublaslt_run(haul__stream *stream, const void *problem)
{
    const haul__gemm *call = problem;
    operands          at = addresses(call);
    haul__lt_problem  translated;
    haul__lt_plan    *plan = NULL;
    session           s;
    haul_status       status;
    if (!translate(call, &at, &translated))
        return HAUL_UNSUPPORTED;
    status = enter(stream->device, &s);
    if (status)
        return status;
    translated.scratch = (int64_t)HAUL__LT_SCRATCH;
    status = haul__lt_plan_get(stream->device, s.d->blas, &translated, at.bias, &plan);
    if (status == HAUL_OK && plan->scratch > call->scratch_bytes) {
        translated.scratch = 0;
        status = haul__lt_plan_get(stream->device, s.d->blas, &translated, at.bias, &plan);
    }
    if (status == HAUL_OK) {
        cublasStatus_t code = multiply(&s, plan, call, &at, haul__cuda_stream(stream));

        plan->usable = code != CUBLAS_STATUS_NOT_SUPPORTED;
        status = plan->usable ? haul__cublaslt_check(stream->device, "cublasLtMatmul", code) : HAUL_UNSUPPORTED;
    }
    leave(&s);
    return status;
}
