/* A stand-in for cuBLASLt, as far as the backend uses it: descriptors with attributes of given sizes, heuristics that
 * answer for what the library can do, products as work on the driver's streams. It is strict where the real one may be
 * lucky: an algorithm is good for the problem it was found for, addresses are as aligned as was promised, matrices are
 * inside allocations, and the contents of a workspace are lost. */
#include "cublaslt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HANDLE = 0x4C744861, OPERATION, LAYOUT, PREFERENCE, MOST_ATTRIBUTES = 32 };

/* What all descriptors are: the values given to create, and attributes by their number. */
typedef struct bag {
    unsigned kind;
    int      type, scale;
    uint64_t rows, columns;
    int64_t  ld;
    uint64_t values[MOST_ATTRIBUTES];
} bag;

typedef struct attribute {
    int    kind, number;
    size_t size;
} attribute;

static const attribute attributes[] = {
    {OPERATION, CUBLASLT_MATMUL_DESC_TRANSA, 4},
    {OPERATION, CUBLASLT_MATMUL_DESC_TRANSB, 4},
    {OPERATION, CUBLASLT_MATMUL_DESC_EPILOGUE, 4},
    {OPERATION, CUBLASLT_MATMUL_DESC_BIAS_POINTER, 8},
    {LAYOUT, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, 4},
    {LAYOUT, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, 8},
    {PREFERENCE, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, 8},
    {PREFERENCE, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, 4},
    {PREFERENCE, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 4},
    {PREFERENCE, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 4},
    {PREFERENCE, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 4},
    {PREFERENCE, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 4},
};

struct cublasLtContext {
    unsigned  kind;
    CUcontext context;
};

/* ---- descriptors ---- */

static cublasStatus_t create(void **out, unsigned kind)
{
    bag *made = calloc(1, sizeof *made);
    if (!made)
        return CUBLAS_STATUS_ALLOC_FAILED;
    made->kind = kind;
    *out = made;
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(void *descriptor, unsigned kind)
{
    bag *b = descriptor;
    if (!b || b->kind != kind)
        return CUBLAS_STATUS_INVALID_VALUE;
    b->kind = 0;
    free(b);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t set(void *descriptor, unsigned kind, int number, const void *value, size_t size)
{
    bag *b = descriptor;
    for (size_t i = 0; b && b->kind == kind && value && i < sizeof attributes / sizeof attributes[0]; i++) {
        const attribute *a = &attributes[i];
        if ((unsigned)a->kind != kind || a->number != number || a->size != size)
            continue;
        b->values[number] = 0;
        memcpy(&b->values[number], value, size);
        return CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType scale)
{
    void          *made = NULL;
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtMatmulDescCreate);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = create(&made, OPERATION);
    if (code == CUBLAS_STATUS_SUCCESS) {
        ((bag *)made)->type = compute;
        ((bag *)made)->scale = scale;
        ((bag *)made)->values[CUBLASLT_MATMUL_DESC_EPILOGUE] = CUBLASLT_EPILOGUE_DEFAULT;
        *out = made;
    }
    return code;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t ld)
{
    void          *made = NULL;
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtMatrixLayoutCreate);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = create(&made, LAYOUT);
    if (code == CUBLAS_STATUS_SUCCESS) {
        bag *b = made;
        b->type = type;
        b->rows = rows;
        b->columns = columns;
        b->ld = ld;
        b->values[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] = 1;
        *out = made;
    }
    return code;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    void          *made = NULL;
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtMatmulPreferenceCreate);
    if (code == CUBLAS_STATUS_SUCCESS)
        code = create(&made, PREFERENCE);
    if (code == CUBLAS_STATUS_SUCCESS) {
        bag *b = made;
        b->values[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] = 7;
        for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES; i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++)
            b->values[i] = 256;
        *out = made;
    }
    return code;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    (void)standin_call(CALL_cublasLtMatmulDescDestroy);
    return destroy(d, OPERATION);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t d)
{
    (void)standin_call(CALL_cublasLtMatrixLayoutDestroy);
    return destroy(d, LAYOUT);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t d)
{
    (void)standin_call(CALL_cublasLtMatmulPreferenceDestroy);
    return destroy(d, PREFERENCE);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t number,
                                              const void *value, size_t size)
{
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtMatmulDescSetAttribute);
    return code ? code : set(d, OPERATION, number, value, size);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t d, cublasLtMatrixLayoutAttribute_t number,
                                                const void *value, size_t size)
{
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtMatrixLayoutSetAttribute);
    return code ? code : set(d, LAYOUT, number, value, size);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t           d,
                                                    cublasLtMatmulPreferenceAttributes_t number, const void *value,
                                                    size_t size)
{
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtMatmulPreferenceSetAttribute);
    return code ? code : set(d, PREFERENCE, number, value, size);
}

/* ---- the library ---- */

STANDIN_EXPORT size_t      cublasLtGetVersion(void);
STANDIN_EXPORT const char *cublasLtGetStatusName(cublasStatus_t code);
CUresult                   cuCtxGetCurrent(CUcontext *out);

size_t cublasLtGetVersion(void)
{
    const char *version = getenv("STANDIN_CUBLASLT");
    return version ? (size_t)strtol(version, NULL, 10) : 130100;
}

const char *cublasLtGetStatusName(cublasStatus_t code)
{
    switch (code) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED: return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED: return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR: return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "cublasStatus_t unknown";
    }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    CUcontext      context = NULL;
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtCreate);
    if (code != CUBLAS_STATUS_SUCCESS)
        return code;
    if (cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *out = calloc(1, sizeof **out);
    if (!*out)
        return CUBLAS_STATUS_ALLOC_FAILED;
    **out = (struct cublasLtContext){HANDLE, context};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtDestroy);
    if (code == CUBLAS_STATUS_SUCCESS && (!handle || handle->kind != HANDLE))
        code = CUBLAS_STATUS_NOT_INITIALIZED;
    if (code == CUBLAS_STATUS_SUCCESS) {
        handle->kind = 0;
        free(handle);
    }
    return code;
}

/* ---- problems ---- */

/* What an algorithm was found for, kept in its eight words. */
typedef struct found {
    uint64_t hash;
    uint32_t alignment[4]; /* of A, B, C, D */
    uint64_t workspace;
    int64_t  pieces;
} found;

_Static_assert(sizeof(found) <= sizeof(cublasLtMatmulAlgo_t), "an algorithm's description fits");

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * 0x9E3779B97F4A7C15ull + 1;
}

static const bag *as(const void *descriptor, unsigned kind)
{
    const bag *b = descriptor;
    return b && b->kind == kind ? b : NULL;
}

static bool fits(const bag *layout, uint64_t rows, uint64_t columns, uint64_t batch)
{
    return layout->rows == rows && layout->columns == columns &&
           layout->values[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT] == batch && layout->ld >= (int64_t)layout->rows;
}

/* Sizes, leading dimensions and batches that do not fit together are invalid, types that are not computed with are
 * not supported. */
static cublasStatus_t check(const bag *op, const bag *a, const bag *b, const bag *c, const bag *d)
{
    bool     ta = op && op->values[CUBLASLT_MATMUL_DESC_TRANSA], tb = op && op->values[CUBLASLT_MATMUL_DESC_TRANSB];
    uint64_t depth, batch, epilogue;
    bool     f64;
    if (!op || !a || !b || !c || !d)
        return CUBLAS_STATUS_INVALID_VALUE;
    depth = ta ? a->rows : a->columns;
    batch = d->values[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT];
    epilogue = op->values[CUBLASLT_MATMUL_DESC_EPILOGUE];
    if (depth == 0 || d->rows == 0 || d->columns == 0 || batch == 0 ||
        !fits(a, ta ? depth : d->rows, ta ? d->rows : depth, batch) ||
        !fits(b, tb ? d->columns : depth, tb ? depth : d->columns, batch) || !fits(c, d->rows, d->columns, batch) ||
        !fits(d, d->rows, d->columns, batch))
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_RELU &&
         epilogue != CUBLASLT_EPILOGUE_BIAS && epilogue != CUBLASLT_EPILOGUE_RELU_BIAS) ||
        (epilogue & CUBLASLT_EPILOGUE_BIAS && !op->values[CUBLASLT_MATMUL_DESC_BIAS_POINTER]))
        return CUBLAS_STATUS_INVALID_VALUE;
    f64 = a->type == CUDA_R_64F;
    if (lt_size(a->type) == 0 || a->type != b->type || a->type != c->type || a->type != d->type ||
        op->scale != (f64 ? CUDA_R_64F : CUDA_R_32F) ||
        !(f64 ? op->type == CUBLAS_COMPUTE_64F
              : op->type == CUBLAS_COMPUTE_32F || op->type == CUBLAS_COMPUTE_32F_FAST_TF32))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

static uint64_t hash_of(const bag *op, const bag *const *layouts)
{
    uint64_t hash = mix((uint64_t)op->type, op->values[CUBLASLT_MATMUL_DESC_EPILOGUE]);
    hash = mix(hash, op->values[CUBLASLT_MATMUL_DESC_TRANSA] << 1 | op->values[CUBLASLT_MATMUL_DESC_TRANSB]);
    for (int i = 0; i < 4; i++) {
        const bag *l = layouts[i];
        hash = mix(mix(mix(hash, l->rows), l->columns), (uint64_t)l->ld);
        hash = mix(mix(hash, l->values[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT]),
                   l->values[CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET]);
        hash = mix(hash, (uint64_t)l->type);
    }
    return hash;
}

/* Long sums are cut in two where that is allowed, at the cost of a workspace. */
enum { LONG_SUM = 256 };

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t *results, int *count)
{
    const bag     *op = as(operation, OPERATION), *p = as(preference, PREFERENCE);
    const bag     *layouts[] = {as(a, LAYOUT), as(b, LAYOUT), as(c, LAYOUT), as(d, LAYOUT)};
    found          f = {.pieces = 1};
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtMatmulAlgoGetHeuristic);
    uint64_t       depth, need;
    if (code == CUBLAS_STATUS_SUCCESS && (!handle || handle->kind != HANDLE))
        code = CUBLAS_STATUS_NOT_INITIALIZED;
    if (code == CUBLAS_STATUS_SUCCESS && (!p || wanted < 1 || !results || !count))
        code = CUBLAS_STATUS_INVALID_VALUE;
    if (code == CUBLAS_STATUS_SUCCESS)
        code = check(op, layouts[0], layouts[1], layouts[2], layouts[3]);
    if (count)
        *count = 0;
    if (code != CUBLAS_STATUS_SUCCESS)
        return code;
    depth = op->values[CUBLASLT_MATMUL_DESC_TRANSA] ? layouts[0]->rows : layouts[0]->columns;
    need = 2 * lt_size(layouts[3]->type) * layouts[3]->rows * layouts[3]->columns;
    f.hash = hash_of(op, layouts);
    for (int i = 0; i < 4; i++)
        f.alignment[i] = (uint32_t)p->values[CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + i];
    if (depth >= LONG_SUM && need <= p->values[CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES] &&
        p->values[CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK] & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) {
        f.workspace = need;
        f.pieces = 2;
    }
    results[0] = (cublasLtMatmulHeuristicResult_t){
        .workspaceSize = f.workspace, .state = CUBLAS_STATUS_SUCCESS, .wavesCount = 1};
    memcpy(&results[0].algo, &f, sizeof f);
    *count = 1;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products ---- */

/* The addresses of the matrices, checked from the first element to the last one. */
static bool locate(CUstream stream, const bag *l, const void *at, uint32_t alignment, lt_matrix *out)
{
    uint64_t    batch = l->values[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT];
    int64_t     stride = (int64_t)l->values[CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET];
    size_t      size = lt_size(l->type);
    uint64_t    last = (batch - 1) * (uint64_t)stride + (l->columns - 1) * (uint64_t)l->ld + l->rows;
    CUdeviceptr address = (CUdeviceptr)(uintptr_t)at;
    *out = (lt_matrix){.rows = (int64_t)l->rows, .columns = (int64_t)l->columns, .ld = l->ld, .stride = stride};
    out->at = stride >= 0 && address % alignment == 0 ? standin_place(stream, address, last * size) : NULL;
    return out->at != NULL;
}

static double scalar(const bag *op, const void *at)
{
    double d;
    float  f;
    if (op->scale == CUDA_R_64F) {
        memcpy(&d, at, sizeof d);
        return d;
    }
    memcpy(&f, at, sizeof f);
    return (double)f;
}

static bool place_rest(CUstream stream, const bag *op, const found *f, void *workspace, lt_job *job)
{
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)workspace;
    if (op->values[CUBLASLT_MATMUL_DESC_EPILOGUE] & CUBLASLT_EPILOGUE_BIAS) {
        job->bias = standin_place(stream, op->values[CUBLASLT_MATMUL_DESC_BIAS_POINTER],
                                  (size_t)job->d.rows * lt_size(job->type));
        if (!job->bias)
            return false;
    }
    if (f->workspace > 0) {
        job->workspace = at % 256 == 0 ? standin_place(stream, at, f->workspace) : NULL;
        job->workspace_size = f->workspace;
    }
    return f->workspace == 0 || job->workspace;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_size, cudaStream_t stream)
{
    const bag     *op = as(operation, OPERATION);
    const bag     *layouts[] = {as(a_layout, LAYOUT), as(b_layout, LAYOUT), as(c_layout, LAYOUT), as(d_layout, LAYOUT)};
    const void    *addresses[] = {a, b, c, d};
    lt_job         job = {0};
    lt_matrix     *matrices[] = {&job.a, &job.b, &job.c, &job.d};
    found          f;
    cublasStatus_t code = (cublasStatus_t)standin_call(CALL_cublasLtMatmul);
    if (code == CUBLAS_STATUS_SUCCESS && (!handle || handle->kind != HANDLE))
        code = CUBLAS_STATUS_NOT_INITIALIZED;
    if (code == CUBLAS_STATUS_SUCCESS && (!alpha || !beta || !algorithm))
        code = CUBLAS_STATUS_INVALID_VALUE;
    if (code == CUBLAS_STATUS_SUCCESS)
        code = check(op, layouts[0], layouts[1], layouts[2], layouts[3]);
    if (code != CUBLAS_STATUS_SUCCESS)
        return code;
    memcpy(&f, algorithm, sizeof f);
    if (f.hash != hash_of(op, layouts) || workspace_size < f.workspace) {
        fprintf(stderr, "standin: this algorithm is for another problem, or needs a larger workspace\n");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    job.type = layouts[3]->type;
    for (int i = 0; i < 4; i++)
        if (!locate(stream, layouts[i], addresses[i], f.alignment[i], matrices[i])) {
            fprintf(stderr, "standin: matrix %c is not in one allocation, or not aligned to %u bytes as promised\n",
                    "ABCD"[i], f.alignment[i]);
            return CUBLAS_STATUS_INVALID_VALUE;
        }
    if (!place_rest(stream, op, &f, workspace, &job))
        return CUBLAS_STATUS_INVALID_VALUE;
    job.transpose_a = op->values[CUBLASLT_MATMUL_DESC_TRANSA] == CUBLAS_OP_T;
    job.transpose_b = op->values[CUBLASLT_MATMUL_DESC_TRANSB] == CUBLAS_OP_T;
    job.tf32 = op->type == CUBLAS_COMPUTE_32F_FAST_TF32 && job.type == CUDA_R_32F;
    job.relu = (op->values[CUBLASLT_MATMUL_DESC_EPILOGUE] & CUBLASLT_EPILOGUE_RELU) != 0;
    job.batch = (int64_t)layouts[3]->values[CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT];
    job.depth = job.transpose_a ? job.a.rows : job.a.columns;
    job.alpha = scalar(op, alpha);
    job.beta = scalar(op, beta);
    job.pieces = f.pieces;
    char *bias = NULL;
    if (job.bias)
        memcpy(&bias, &job.bias, sizeof bias);
    void *places[] = {job.a.at, job.b.at, job.d.at, job.workspace, bias};
    return standin_submit(stream, lt_run, &job, sizeof job, places, 5) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                                                                       : CUBLAS_STATUS_EXECUTION_FAILED;
}
