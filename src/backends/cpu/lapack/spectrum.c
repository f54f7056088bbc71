/* The implementation "lapack": eigenvalues of symmetric matrices by syevd and singular values by gesdd, which divide
 * and conquer (Cuppen 1981; Gu, Eisenstat 1995).
 *
 * Haul's threads share the matrices of a batch, and the library computes each one in one thread. Its operands are
 * copies at multiples of 64 bytes, because libraries may round differently for another alignment. LAPACK's matrices are
 * column-major, so it gets the transposed matrices. */
#include <stdatomic.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/lapack/library.h"
#include "base/assert.h"
#include "base/workspace.h"
#include "core/pool.h"
#include "core/tensor.h"
#include "haul_config.h"

#if !defined(HAUL_SMALL)
/* Sizes of LAPACK's matrices and work arrays are integers of 32 bits. */
enum { MOST_RANK = 16384, MOST_ELEMENTS = INT32_MAX, ALIGNMENT = 64 };

/* An integer argument of either size. */
#define INTEGER(n)                                                                                                     \
    (const int32_t[])                                                                                                  \
    {                                                                                                                  \
        (int32_t)(n), 0                                                                                                \
    }

/* The memory of one part of the batch, in bytes from its beginning. */
typedef struct slot {
    size_t a, left, right, values, work, integers, bytes;
} slot;

typedef struct run {
    const haul__spectrum         *s;
    const haul__lapack_functions *l;
    int64_t                       parts;
    int32_t                       work, integers; /* elements of the work arrays */
    slot                          at;
    char                         *memory;
    atomic_bool                   failed;
} run;

static size_t element(const haul__spectrum *s)
{
    return haul__dtype_size(s->dtype);
}

const char *haul__cpu_lapack_refuses(haul_device *device, const void *problem)
{
    const haul__spectrum *s = problem;
    const char           *reason;
    (void)device;
    if (s && haul__spectrum_rank(s) <= HAUL__SPECTRUM_SMALL)
        return "the kernel takes matrices of up to 64 rows or columns";
    if (s && (haul__spectrum_rank(s) > MOST_RANK || s->m > MOST_ELEMENTS / s->n))
        return "its integers have 32 bits, which are too few for matrices of this size";
    if (s && s->turned)
        return "it takes matrices as they are";
    return haul__lapack(&reason) ? NULL : reason;
}

/* ---- one matrix ---- */

/* `work` elements of the work array, `integers` of the other one; -1 asks for both numbers. Returns LAPACK's info. */
static int32_t eigh(const run *r, char *memory, int32_t work, int32_t integers)
{
    const slot    *at = &r->at;
    const int64_t  n = r->s->n;
    int32_t        info[2] = {0, 0};
    void          *a = memory + at->a, *w = memory + at->values, *room = memory + at->work;
    int32_t       *iwork = (int32_t *)(void *)(memory + at->integers);
    const int32_t *rows = INTEGER(n), *lwork = INTEGER(work), *liwork = INTEGER(integers);
    HAUL__ASSERT(!r->s->svd && r->s->m == n);
    if (r->s->dtype == HAUL_F64)
        r->l->dsyevd("V", "U", rows, a, rows, w, room, lwork, iwork, liwork, info, 1, 1);
    else
        r->l->ssyevd("V", "U", rows, a, rows, w, room, lwork, iwork, liwork, info, 1, 1);
    return info[0];
}

/* Of the transposed matrix: its left vectors are the rows of vt, its right ones the rows of u. */
static int32_t svd(const run *r, char *memory, int32_t work)
{
    const slot    *at = &r->at;
    int32_t        info[2] = {0, 0};
    void          *a = memory + at->a, *s = memory + at->values, *u = memory + at->left, *vt = memory + at->right;
    void          *room = memory + at->work;
    int32_t       *iwork = (int32_t *)(void *)(memory + at->integers);
    const int32_t *m = INTEGER(r->s->n), *n = INTEGER(r->s->m), *k = INTEGER(haul__spectrum_rank(r->s)),
                  *lwork = INTEGER(work);
    HAUL__ASSERT(r->s->svd);
    if (r->s->dtype == HAUL_F64)
        r->l->dgesdd("S", m, n, a, m, s, vt, m, u, k, room, lwork, iwork, info, 1);
    else
        r->l->sgesdd("S", m, n, a, m, s, vt, m, u, k, room, lwork, iwork, info, 1);
    return info[0];
}

/* True if the first `count` elements of a row are finite. */
static bool is_finite(const char *row, int64_t count, haul_dtype dtype)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        const double x =
            dtype == HAUL_F64 ? ((const double *)(const void *)row)[i] : (double)((const float *)(const void *)row)[i];
        sum += x - x; /* NaN for NaN and infinities */
    }
    return sum == 0;
}

/* Elements of the upper triangle do not count for eigenvalues. */
static bool all_finite(const haul__spectrum *s, const char *a)
{
    for (int64_t i = 0; i < s->m; i++)
        if (!is_finite(a + (size_t)(i * s->n) * element(s), s->svd ? s->n : i + 1, s->dtype))
            return false;
    return true;
}

static void fill_nan(char *to, int64_t count, haul_dtype dtype)
{
    for (int64_t i = 0; i < count; i++)
        if (dtype == HAUL_F64)
            ((double *)(void *)to)[i] = __builtin_nan("");
        else
            ((float *)(void *)to)[i] = __builtin_nanf("");
}

static inline void transpose_elements(char *to, const char *from, int64_t n, size_t size)
{
    enum { BLOCK = 16 };
    for (int64_t i0 = 0; i0 < n; i0 += BLOCK)
        for (int64_t j0 = 0; j0 < n; j0 += BLOCK)
            for (int64_t i = i0; i < n && i < i0 + BLOCK; i++)
                for (int64_t j = j0; j < n && j < j0 + BLOCK; j++)
                    memcpy(to + (size_t)(j * n + i) * size, from + (size_t)(i * n + j) * size, size);
}

static void transpose(char *to, const char *from, int64_t n, haul_dtype dtype)
{
    if (dtype == HAUL_F64)
        transpose_elements(to, from, n, 8);
    else
        transpose_elements(to, from, n, 4);
}

static char *address(const haul__buffer *buffer, int64_t offset, int64_t at, size_t size)
{
    return (char *)buffer->host + (size_t)(offset + at) * size;
}

static void compute_matrix(run *r, int64_t i, char *memory)
{
    const haul__spectrum *s = r->s;
    const size_t          size = element(s);
    const int64_t         k = haul__spectrum_rank(s), of_u = s->m * k, of_vt = s->svd ? k * s->n : 0;
    const char           *a = address(s->a, s->a_offset, i * s->m * s->n, size);
    char                 *values = address(s->values, s->values_offset, i * k, size);
    char                 *left = address(s->left, s->left_offset, i * of_u, size);
    char                 *right = s->svd ? address(s->right, s->right_offset, i * of_vt, size) : NULL;
    HAUL__ASSERT(0 <= i && i < s->count && (s->svd || k == s->n));
    if (!all_finite(s, a)) {
        fill_nan(values, k, s->dtype);
        fill_nan(left, of_u, s->dtype);
        fill_nan(right, of_vt, s->dtype);
        return;
    }
    memcpy(memory + r->at.a, a, (size_t)(s->m * s->n) * size);
    if (s->svd ? svd(r, memory, r->work) : eigh(r, memory, r->work, r->integers)) {
        atomic_store(&r->failed, true);
        return;
    }
    memcpy(values, memory + r->at.values, (size_t)k * size);
    if (!s->svd) {
        transpose(left, memory + r->at.a, k, s->dtype);
        return;
    }
    memcpy(left, memory + r->at.left, (size_t)of_u * size);
    memcpy(right, memory + r->at.right, (size_t)of_vt * size);
}

/* Part p has every parts-th matrix. Results do not depend on how the matrices are shared. */
static void compute_parts(void *context, int64_t first, int64_t last)
{
    run                       *r = context;
    const haul__lapack_threads before = haul__lapack_thread_enter();
    for (int64_t p = first; p < last; p++)
        for (int64_t i = p; i < r->s->count; i += r->parts)
            compute_matrix(r, i, r->memory + (size_t)p * r->at.bytes);
    haul__lapack_thread_leave(before);
}

/* ---- memory ---- */

static size_t place(size_t *used, int64_t count, size_t size)
{
    const size_t at = *used;
    HAUL__ASSERT(count >= 0 && at % ALIGNMENT == 0);
    *used += ((size_t)count * size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    return at;
}

/* A matrix has at most MOST_ELEMENTS, so no product overflows. */
static void lay_out(run *r)
{
    const haul__spectrum *s = r->s;
    const int64_t         k = haul__spectrum_rank(s);
    const size_t          size = element(s);
    size_t                used = 0;
    HAUL__ASSERT(r->work > 0 && r->integers > 0);
    r->at.a = place(&used, s->m * s->n, size);
    r->at.left = place(&used, s->svd ? s->m * k : 0, size);
    r->at.right = place(&used, s->svd ? k * s->n : 0, size);
    r->at.values = place(&used, k, size);
    r->at.work = place(&used, r->work, size);
    r->at.integers = place(&used, 2 * (int64_t)r->integers, sizeof(int32_t));
    r->at.bytes = used;
}

/* The sizes of work arrays: what the library wants, and at least what LAPACK's documentation says, because a float may
 * round the answer down. */
static bool ask_sizes(run *r)
{
    const haul__spectrum    *s = r->s;
    const int64_t            k = haul__spectrum_rank(s), least = s->svd ? 4 * k * k + 7 * k : 1 + 6 * k + 2 * k * k;
    _Alignas(ALIGNMENT) char answer[4 * ALIGNMENT] = {0};
    HAUL__ASSERT(0 < k && k <= MOST_RANK && least <= INT32_MAX);
    r->at = (slot){.work = ALIGNMENT, .integers = (size_t)2 * ALIGNMENT};
    if (s->svd ? svd(r, answer, -1) : eigh(r, answer, -1, -1))
        return false;
    const double wanted = s->dtype == HAUL_F64 ? *(const double *)(const void *)(answer + ALIGNMENT)
                                               : (double)*(const float *)(const void *)(answer + ALIGNMENT);
    if (!(wanted < INT32_MAX))
        return false;
    r->work = (int32_t)(wanted > (double)least ? wanted : (double)least);
    r->integers = (int32_t)(s->svd ? 8 * k : 3 + 5 * k);
    return true;
}

static haul_status compute(run *r)
{
    size_t bytes;
    lay_out(r);
    if (__builtin_mul_overflow(r->at.bytes, (size_t)r->parts, &bytes) || bytes > SIZE_MAX - ALIGNMENT)
        return haul__fail(HAUL_OUT_OF_MEMORY, NULL, NULL, "LAPACK needs more memory than there are addresses");
    char *block = haul__work_alloc(bytes + ALIGNMENT);
    if (!block)
        return haul__fail(HAUL_OUT_OF_MEMORY, NULL, NULL, "LAPACK needs %zu bytes of host memory, which are not there",
                          bytes);
    r->memory = block + (ALIGNMENT - (uintptr_t)block % ALIGNMENT) % ALIGNMENT;
    HAUL__ASSERT((uintptr_t)r->memory % ALIGNMENT == 0 && r->at.bytes % ALIGNMENT == 0);
    haul__parallel_for(r->parts, 1, compute_parts, r);
    haul__work_free(block);
    return atomic_load(&r->failed) ? HAUL_UNSUPPORTED : HAUL_OK; /* it did not converge */
}

haul_status haul__cpu_lapack(haul__stream *stream, const void *problem)
{
    const haul__spectrum *s = problem;
    const int             threads = haul__pool_threads();
    const char           *reason;
    run                   r = {.s = s, .l = haul__lapack(&reason), .parts = s->count < threads ? s->count : threads};
    haul_status           status = HAUL_UNSUPPORTED;
    (void)stream;
    haul__lapack_enter();
    if (r.l && ask_sizes(&r))
        status = compute(&r);
    haul__lapack_leave();
    return status;
}
#endif
