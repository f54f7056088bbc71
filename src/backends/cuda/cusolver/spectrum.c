/* The implementation "cusolver": eigenvalues of symmetric matrices by syevd and singular values by gesvd, one matrix of
 * a batch after the other on the stream. Haul does not wait here; whether the library does is open. Whether a matrix
 * converged is read from `info` later. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "backends/cuda/cuda.h"
#include "backends/cuda/cusolver/api.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "core/error.h"

/* Sizes of matrices and of the work array are ints. */
enum { MOST_RANK = 16384, MOST_ELEMENTS = INT32_MAX };

enum { VERSION_OF_12_0 = 11402 }; /* CUDA 11 has the same name of the file, libcusolver.so.11 */

/* cuSOLVER on one GPU. The device's solver_lock guards it, because a handle is for one thread at a time. */
typedef struct haul__cuda_solver {
    cusolverDnHandle_t handle; /* NULL: it does not start on this GPU */
    bool               unfit;  /* a call found that the library has no code for this GPU */
} haul__cuda_solver;

static haul__cusolver_functions solver;

/* ---- opening ---- */

/* Its text is the reason why it is not used. */
static haul__cuda_library library = {.once = PTHREAD_ONCE_INIT};

#define X(name, symbol, arguments) HAUL__CUDA_SYMBOL(solver, name, symbol)
static const haul__cuda_symbol functions[] = {
#include "backends/cuda/cusolver/cusolver.def"
};
#undef X

/* Version 11 is that of CUDA 12, and version 12 that of CUDA 13. */
static void load(void)
{
    static const char *const of_13[] = {"libcusolver.so.12", "libcusolver.so.11", "libcusolver.so", NULL};
    static const char *const of_12[] = {"libcusolver.so.11", "libcusolver.so", NULL};
    void                    *opened = haul__cuda_open_library(haul__cuda_driver_version() >= 13000 ? of_13 : of_12);
    int                      version = 0;
    if (!opened)
        snprintf(library.text, sizeof library.text, "it was not found");
    else if (HAUL__CUDA_FIND(opened, functions))
        snprintf(library.text, sizeof library.text, "the one that was found is too old");
    else if (solver.GetVersion(&version) != CUSOLVER_STATUS_SUCCESS || version < VERSION_OF_12_0)
        snprintf(library.text, sizeof library.text, "version %d.%d.%d is too old", version / 1000, version / 100 % 10,
                 version % 100);
    else
        library.usable = true;
}

static const char *name_of(cusolverStatus_t code)
{
#define X(name, value)                                                                                                 \
    if (strncmp(#name, "CUSOLVER_STATUS_", 16) == 0 && code == (value))                                                \
        return #name;
#include "backends/cuda/cusolver/constants.def"
#undef X
    return "an unknown status";
}

static haul_status check(const haul_device *device, const char *call, cusolverStatus_t code)
{
    if (code == CUSOLVER_STATUS_SUCCESS)
        return HAUL_OK;
    return haul__fail(code == CUSOLVER_STATUS_ALLOC_FAILED ? HAUL_OUT_OF_MEMORY : HAUL_BACKEND, device->name, NULL,
                      "%s failed: %s (status %d); with HAUL_WITHOUT=cusolver the CPU computes large matrices", call,
                      name_of(code), (int)code);
}

/* ---- the library on a device ---- */

/* The caller holds solver_lock, and the context is current. HAUL_UNSUPPORTED if cuSOLVER does not work on this GPU. */
static haul_status start(haul_device *device, haul__cuda_device *d)
{
    if (d->solver)
        return d->solver->handle && !d->solver->unfit ? HAUL_OK : HAUL_UNSUPPORTED;
    haul__cuda_solver *made = haul__calloc(1, sizeof *made);
    if (!made)
        return haul__fail_memory(device->name, sizeof *made);
    const haul__cuda_spending spent = haul__cuda_spend_begin(device);
    const cusolverStatus_t    code = solver.Create(&made->handle);
    haul__cuda_spend_end(device, &spent);
    if (code == CUSOLVER_STATUS_ALLOC_FAILED) { /* the next attempt may succeed */
        haul__free(made);
        return check(device, "cusolverDnCreate", code);
    }
    if (code != CUSOLVER_STATUS_SUCCESS)
        made->handle = NULL;
    d->solver = made;
    return made->handle ? HAUL_OK : HAUL_UNSUPPORTED;
}

typedef struct session {
    haul__cuda_device *d;
    haul__cuda_scope   scope;
    cusolverDnHandle_t handle;
} session;

static void leave(const session *s)
{
    pthread_mutex_unlock(&s->d->solver_lock);
    haul__cuda_leave(&s->scope);
}

static haul_status enter(haul_device *device, session *s)
{
    s->d = haul__cuda_of(device);
    const CUresult code = haul__cuda_enter(s->d, &s->scope);
    if (code != CUDA_SUCCESS)
        return haul__cuda_check(device, "cuCtxSetCurrent", code);
    pthread_mutex_lock(&s->d->solver_lock);
    const haul_status status = start(device, s->d);
    if (status)
        leave(s);
    else
        s->handle = s->d->solver->handle;
    return status;
}

/* ---- one matrix ---- */

/* The turned matrix [m, n], m <= n, is n x m in column-major terms. */
static cusolverStatus_t ask_size(const session *s, const haul__spectrum *p, int *elements)
{
    const int  rows = (int)p->n, columns = (int)p->m;
    const bool f64 = p->dtype == HAUL_F64;
    HAUL__ASSERT(p->turned && 0 < p->m && p->m <= p->n && p->n <= MOST_ELEMENTS / p->m);
    if (p->svd)
        return f64 ? solver.Dgesvd_size(s->handle, rows, columns, elements)
                   : solver.Sgesvd_size(s->handle, rows, columns, elements);
    return f64 ? solver.Dsyevd_size(s->handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, rows, NULL, rows, NULL,
                                    elements)
               : solver.Ssyevd_size(s->handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, rows, NULL, rows, NULL,
                                    elements);
}

/* Matrix i of a buffer of matrices of `count` elements. */
static void *matrix(const haul__buffer *buffer, int64_t offset, int64_t i, int64_t count, haul_dtype dtype)
{
    const CUdeviceptr at = (CUdeviceptr)(offset + i * count) * haul__dtype_size(dtype);
    return (void *)(uintptr_t)(haul__cuda_address(buffer) + at);
}

static cusolverStatus_t eigh(const session *s, const haul__spectrum *p, int64_t i, void *work, int elements)
{
    HAUL__ASSERT(p->m == p->n && !p->left && !p->right && 0 <= i && i < p->count);
    const int n = (int)p->n;
    void     *a = matrix(p->a, p->a_offset, i, p->n * p->n, p->dtype),
         *w = matrix(p->values, p->values_offset, i, p->n, p->dtype);
    int *info = matrix(p->info, p->info_offset, i, 1, HAUL_I32);
    if (p->dtype == HAUL_F64)
        return solver.Dsyevd(s->handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n, a, n, w, work, elements,
                             info);
    return solver.Ssyevd(s->handle, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, n, a, n, w, work, elements, info);
}

/* The left vectors of the n x m matrix are the rows of `right`, its right ones the rows of the transposed `left`. */
static cusolverStatus_t svd(const session *s, const haul__spectrum *p, int64_t i, void *work, int elements)
{
    HAUL__ASSERT(p->left && p->right && 0 <= i && i < p->count);
    const int m = (int)p->m, n = (int)p->n;
    void     *a = matrix(p->a, p->a_offset, i, p->m * p->n, p->dtype),
         *values = matrix(p->values, p->values_offset, i, p->m, p->dtype),
         *u = matrix(p->right, p->right_offset, i, p->m * p->n, p->dtype),
         *vt = matrix(p->left, p->left_offset, i, p->m * p->m, p->dtype);
    int *info = matrix(p->info, p->info_offset, i, 1, HAUL_I32);
    if (p->dtype == HAUL_F64)
        return solver.Dgesvd(s->handle, 'S', 'S', n, m, a, n, values, u, n, vt, m, work, elements, NULL, info);
    return solver.Sgesvd(s->handle, 'S', 'S', n, m, a, n, values, u, n, vt, m, work, elements, NULL, info);
}

/* ---- the implementation ---- */

/* The elements of the work array; -1 if the library does not say, or they are more than an int. */
static int work_elements(const session *s, const haul__spectrum *p)
{
    int elements = 0;
    HAUL__ASSERT(s->handle && s->handle == s->d->solver->handle);
    const cusolverStatus_t code = ask_size(s, p, &elements);
    s->d->solver->unfit = code == CUSOLVER_STATUS_ARCH_MISMATCH;
    return code == CUSOLVER_STATUS_SUCCESS && elements >= 0 ? elements : -1;
}

/* Starts the library if that has not happened, and asks for the work array. It records no errors, because the run meets
 * them again. */
static const char *refuses_here(haul_device *device, const haul__spectrum *p)
{
    haul__error_record before;
    session            s;
    const char        *why = NULL;
    HAUL__ASSERT(p->turned && p->m <= p->n);
    haul__error_save(&before);
    const haul_status status = enter(device, &s);
    if (status) {
        haul__error_restore(&before);
        return status == HAUL_UNSUPPORTED ? "it does not start on this GPU" : NULL;
    }
    if (work_elements(&s, p) < 0)
        why = "it has no work array for matrices of this size";
    leave(&s);
    return why;
}

const char *haul__cusolver_refuses(haul_device *device, const void *problem)
{
    const haul__spectrum *p = problem;
    if (p && haul__spectrum_rank(p) <= HAUL__SPECTRUM_SMALL)
        return "the kernel takes matrices of up to 64 rows or columns";
    if (p && (haul__spectrum_rank(p) > MOST_RANK || p->m > MOST_ELEMENTS / p->n))
        return "its integers have 32 bits, which are too few for matrices of this size";
    if (!haul__cuda_load(&library, load, NULL, 0))
        return library.text;
    if (p && !p->turned)
        return "it overwrites matrices, and takes no tall ones";
    return p ? refuses_here(device, p) : NULL;
}

/* In bytes; 0 if the library does not say. */
size_t haul__cusolver_scratch(haul_device *device, const void *problem)
{
    const haul__spectrum *p = problem;
    haul__error_record    before;
    session               s;
    int                   elements = 0;
    HAUL__ASSERT(p->turned && haul__spectrum_rank(p) > HAUL__SPECTRUM_SMALL); /* it was not refused */
    haul__error_save(&before);
    if (enter(device, &s)) {
        haul__error_restore(&before);
        return 0;
    }
    elements = work_elements(&s, p);
    leave(&s);
    return (size_t)(elements > 0 ? elements : 0) * haul__dtype_size(p->dtype);
}

static haul_status compute(haul__stream *stream, const session *s, const haul__spectrum *p)
{
    int     elements = 0;
    int64_t i = 0;
    HAUL__ASSERT(p->dtype == HAUL_F32 || p->dtype == HAUL_F64);
    HAUL__ASSERT(p->info && p->values && !p->scratch == !p->scratch_bytes);
    cusolverStatus_t code = solver.SetStream(s->handle, haul__cuda_stream(stream));
    if (code != CUSOLVER_STATUS_SUCCESS)
        return check(stream->device, "cusolverDnSetStream", code);
    code = ask_size(s, p, &elements);
    if (code != CUSOLVER_STATUS_SUCCESS)
        return check(stream->device, p->svd ? "cusolverDnGesvd_bufferSize" : "cusolverDnSyevd_bufferSize", code);
    if (elements < 0 || (size_t)elements * haul__dtype_size(p->dtype) > p->scratch_bytes)
        return HAUL_UNSUPPORTED;
    void *work = p->scratch ? (void *)(uintptr_t)haul__cuda_address(p->scratch) : NULL;
    for (; i < p->count && code == CUSOLVER_STATUS_SUCCESS; i++)
        code = p->svd ? svd(s, p, i, work, elements) : eigh(s, p, i, work, elements);
    const char *call = p->svd ? "cusolverDnGesvd" : "cusolverDnSyevd";
    if (code == CUSOLVER_STATUS_ARCH_MISMATCH) {
        s->d->solver->unfit = true;
        return i == 1 ? HAUL_UNSUPPORTED : check(stream->device, call, code);
    }
    if (code == CUSOLVER_STATUS_SUCCESS || i == 1)
        return check(stream->device, call, code);
    /* Not HAUL_OUT_OF_MEMORY: another attempt would read the matrices before this one, which are overwritten. */
    return haul__fail(HAUL_BACKEND, stream->device->name, NULL,
                      "%s failed: %s (status %d) for matrix %lld of %lld (from 0); with HAUL_WITHOUT=cusolver the CPU "
                      "computes large matrices",
                      call, name_of(code), (int)code, (long long)i - 1, (long long)p->count);
}

haul_status haul__cusolver_run(haul__stream *stream, const void *problem)
{
    session     s;
    haul_status status = enter(stream->device, &s);
    if (status)
        return status;
    status = compute(stream, &s, problem);
    leave(&s);
    return status;
}
