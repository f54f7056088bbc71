/* A stand-in for cuSOLVER, as far as the backend uses it: spectra as work on the driver's streams. It is strict where
 * the real one may be lucky: sizes and leading dimensions fit, tall matrices only, all arrays are inside allocations of
 * the stream's device, the workspace is as large as was asked for, and its contents and those of A are lost. A matrix
 * with NaN or an infinity loses the context: what the library does then is not known. */
#include "cusolver/cusolver.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

CUresult cuCtxGetCurrent(CUcontext *out);

enum { HANDLE = 0x50171E, CODES = 1000 };

struct cusolverDnContext {
    unsigned     kind;
    CUcontext    context;
    cudaStream_t stream;
};

cusolverStatus_t cusolverGetVersion(int *version)
{
    const char *given = getenv("STANDIN_CUSOLVER");
    *version = given ? (int)strtol(given, NULL, 10) : 12000;
    return (cusolverStatus_t)standin_call(CALL_cusolverGetVersion);
}

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *out)
{
    CUcontext        context = NULL;
    cusolverStatus_t code = (cusolverStatus_t)standin_call(CALL_cusolverDnCreate);
    if (code != CUSOLVER_STATUS_SUCCESS)
        return code;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    *out = calloc(1, sizeof **out);
    if (!*out)
        return CUSOLVER_STATUS_ALLOC_FAILED;
    **out = (struct cusolverDnContext){.kind = HANDLE, .context = context};
    return CUSOLVER_STATUS_SUCCESS;
}

/* The handle is one of the current context. */
static cusolverStatus_t check(cusolverDnHandle_t handle)
{
    CUcontext context = NULL;
    if (!handle || handle->kind != HANDLE || cuCtxGetCurrent(&context) != CUDA_SUCCESS || context != handle->context)
        return CUSOLVER_STATUS_NOT_INITIALIZED;
    return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream)
{
    cusolverStatus_t code = (cusolverStatus_t)standin_call(CALL_cusolverDnSetStream);
    if (code == CUSOLVER_STATUS_SUCCESS)
        code = check(handle);
    if (code == CUSOLVER_STATUS_SUCCESS)
        handle->stream = stream;
    return code;
}

/* ---- sizes of workspaces ---- */

static int syevd_elements(int n)
{
    return 2 * n * n + 6 * n + 33;
}

static int gesvd_elements(int m, int n)
{
    return m + 5 * n + 17;
}

static cusolverStatus_t ask_syevd(int code, cusolverDnHandle_t handle, cusolverEigMode_t jobz, cublasFillMode_t uplo,
                                  int n, int lda, int *elements)
{
    const bool overflows = code >= CODES;
    if (code == CUSOLVER_STATUS_SUCCESS || overflows)
        code = check(handle);
    if (code == CUSOLVER_STATUS_SUCCESS &&
        (jobz != CUSOLVER_EIG_MODE_VECTOR || uplo != CUBLAS_FILL_MODE_UPPER || n < 1 || lda < n))
        code = CUSOLVER_STATUS_INVALID_VALUE;
    if (code == CUSOLVER_STATUS_SUCCESS)
        *elements = overflows ? INT_MIN : syevd_elements(n);
    return code;
}

cusolverStatus_t cusolverDnSsyevd_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t jobz, cublasFillMode_t uplo,
                                             int n, const float *a, int lda, const float *w, int *elements)
{
    (void)a, (void)w;
    return ask_syevd(standin_call(CALL_cusolverDnSsyevd_bufferSize), handle, jobz, uplo, n, lda, elements);
}

cusolverStatus_t cusolverDnDsyevd_bufferSize(cusolverDnHandle_t handle, cusolverEigMode_t jobz, cublasFillMode_t uplo,
                                             int n, const double *a, int lda, const double *w, int *elements)
{
    (void)a, (void)w;
    return ask_syevd(standin_call(CALL_cusolverDnDsyevd_bufferSize), handle, jobz, uplo, n, lda, elements);
}

static cusolverStatus_t ask_gesvd(int code, cusolverDnHandle_t handle, int m, int n, int *elements)
{
    const bool overflows = code >= CODES;
    if (code == CUSOLVER_STATUS_SUCCESS || overflows)
        code = check(handle);
    if (code == CUSOLVER_STATUS_SUCCESS && (n < 1 || m < n))
        code = CUSOLVER_STATUS_INVALID_VALUE;
    if (code == CUSOLVER_STATUS_SUCCESS)
        *elements = overflows ? INT_MIN : gesvd_elements(m, n);
    return code;
}

cusolverStatus_t cusolverDnSgesvd_bufferSize(cusolverDnHandle_t handle, int m, int n, int *elements)
{
    return ask_gesvd(standin_call(CALL_cusolverDnSgesvd_bufferSize), handle, m, n, elements);
}

cusolverStatus_t cusolverDnDgesvd_bufferSize(cusolverDnHandle_t handle, int m, int n, int *elements)
{
    return ask_gesvd(standin_call(CALL_cusolverDnDgesvd_bufferSize), handle, m, n, elements);
}

/* ---- calls ---- */

/* The address on the host of `rows` x `columns` elements, column-major. */
static void *place(cudaStream_t stream, const void *at, int rows, int columns, int ld, size_t size)
{
    const size_t elements = (size_t)(columns - 1) * (size_t)ld + (size_t)rows;
    void        *found = (uintptr_t)at % size ? NULL : standin_place(stream, (uintptr_t)at, elements * size);
    if (!found)
        fprintf(stderr, "standin: an array of cuSOLVER is not in one allocation, or not aligned\n");
    return found;
}

static cusolverStatus_t submit(int code, cusolverDnHandle_t handle, bool valid, solver_job *job, const void *a,
                               const void *values, const void *u, const void *vt, const void *work, int needed,
                               const int *info)
{
    const size_t size = job->f64 ? 8 : 4;
    if (code >= CODES) {
        job->code = code - CODES;
        code = CUSOLVER_STATUS_SUCCESS;
    }
    if (code == CUSOLVER_STATUS_SUCCESS)
        code = check(handle);
    if (code != CUSOLVER_STATUS_SUCCESS)
        return code;
    if (!valid || !handle->stream || job->elements < needed)
        return CUSOLVER_STATUS_INVALID_VALUE;
    cudaStream_t stream = handle->stream;
    job->a = place(stream, a, job->m, job->n, job->lda, size);
    job->values = place(stream, values, job->n, 1, job->n, size);
    job->work = place(stream, work, job->elements, 1, job->elements, size);
    job->info = place(stream, info, 1, 1, 1, sizeof *info);
    job->u = u ? place(stream, u, job->m, job->n, job->ldu, size) : NULL;
    job->vt = vt ? place(stream, vt, job->n, job->n, job->ldvt, size) : NULL;
    if (!job->a || !job->values || !job->work || !job->info || !u != !job->u || !vt != !job->vt)
        return CUSOLVER_STATUS_INVALID_VALUE;
    void *places[] = {job->a, job->values, job->work, job->info, job->u, job->vt};
    return standin_submit(stream, solver_run, job, sizeof *job, places, u ? 6 : 4) == CUDA_SUCCESS
               ? CUSOLVER_STATUS_SUCCESS
               : CUSOLVER_STATUS_EXECUTION_FAILED;
}

static cusolverStatus_t syevd(int code, bool f64, cusolverDnHandle_t handle, cusolverEigMode_t jobz,
                              cublasFillMode_t uplo, int n, const void *a, int lda, const void *w, const void *work,
                              int elements, const int *info)
{
    solver_job job = {.f64 = f64, .m = n, .n = n, .lda = lda, .elements = elements};
    const bool valid = jobz == CUSOLVER_EIG_MODE_VECTOR && uplo == CUBLAS_FILL_MODE_UPPER && n > 0 && lda >= n;
    return submit(code, handle, valid, &job, a, w, NULL, NULL, work, syevd_elements(n), info);
}

cusolverStatus_t cusolverDnSsyevd(cusolverDnHandle_t handle, cusolverEigMode_t jobz, cublasFillMode_t uplo, int n,
                                  float *a, int lda, float *w, float *work, int elements, int *info)
{
    return syevd(standin_call(CALL_cusolverDnSsyevd), false, handle, jobz, uplo, n, a, lda, w, work, elements, info);
}

cusolverStatus_t cusolverDnDsyevd(cusolverDnHandle_t handle, cusolverEigMode_t jobz, cublasFillMode_t uplo, int n,
                                  double *a, int lda, double *w, double *work, int elements, int *info)
{
    return syevd(standin_call(CALL_cusolverDnDsyevd), true, handle, jobz, uplo, n, a, lda, w, work, elements, info);
}

static cusolverStatus_t gesvd(int code, cusolverDnHandle_t handle, solver_job *job, signed char jobu, signed char jobvt,
                              const void *a, const void *s, const void *u, const void *vt, const void *work,
                              const int *info)
{
    const bool valid = jobu == 'S' && jobvt == 'S' && job->n > 0 && job->m >= job->n && job->lda >= job->m &&
                       job->ldu >= job->m && job->ldvt >= job->n && u && vt;
    return submit(code, handle, valid, job, a, s, u, vt, work, gesvd_elements(job->m, job->n), info);
}

cusolverStatus_t cusolverDnSgesvd(cusolverDnHandle_t handle, signed char jobu, signed char jobvt, int m, int n,
                                  float *a, int lda, float *s, float *u, int ldu, float *vt, int ldvt, float *work,
                                  int elements, float *rwork, int *info)
{
    (void)rwork; /* optional */
    solver_job job = {false, m, n, lda, ldu, ldvt, elements, .code = 0};
    return gesvd(standin_call(CALL_cusolverDnSgesvd), handle, &job, jobu, jobvt, a, s, u, vt, work, info);
}

cusolverStatus_t cusolverDnDgesvd(cusolverDnHandle_t handle, signed char jobu, signed char jobvt, int m, int n,
                                  double *a, int lda, double *s, double *u, int ldu, double *vt, int ldvt, double *work,
                                  int elements, double *rwork, int *info)
{
    (void)rwork; /* optional */
    solver_job job = {true, m, n, lda, ldu, ldvt, elements, .code = 0};
    return gesvd(standin_call(CALL_cusolverDnDgesvd), handle, &job, jobu, jobvt, a, s, u, vt, work, info);
}
