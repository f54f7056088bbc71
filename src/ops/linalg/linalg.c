/* Parts of matrices, their products, and checks of operands, for the operations of linear algebra. */
#include "ops/linalg/linalg.h"

#include <string.h>

#include "base/assert.h"
#include "engine/copy.h"
#include "kernels/kernels.h"
#include "kernels/types.h"
#include "ops/matmul/gemm.h"

// clang-format off
/* kernel text begins */
typedef struct part_params {
    I64 items, rows, columns; /* rows of all parts, and those of one */
    I64 y_at, y_row, y_batch;
    I64 x_at, x_row, x_column, x_batch;
} part_params;

#if defined(HAUL_KERNEL) && IS_FLOAT && !IS_HALF
KERNEL2(part_negate, part_params, T, y, const T, x)
{
    FOR_ITEMS(i) {
        const I64 m = QUOTIENT(i, p.rows), r = i - m * p.rows;
        GLOBAL T *o = y + p.y_at + m * p.y_batch + r * p.y_row;
        GLOBAL const T *v = x + p.x_at + m * p.x_batch + r * p.x_row;
        for (I64 j = 0; j < p.columns; j++) o[j] = -v[j * p.x_column];
    }
}

KERNEL1(part_identity, part_params, T, y)
{
    FOR_ITEMS(i) {
        const I64 m = QUOTIENT(i, p.rows), r = i - m * p.rows;
        GLOBAL T *o = y + p.y_at + m * p.y_batch + r * p.y_row;
        for (I64 j = 0; j < p.columns; j++) o[j] = j == r ? LIT(1.0) : LIT(0.0);
    }
}
#endif
/* kernel text ends */
// clang-format on

enum { GRAIN = 8192 };

/* ---- parts ---- */

haul__part haul__matrices(haul_tensor *t)
{
    HAUL__ASSERT(t->shape.ndim >= 2 && t->contiguous);
    const int64_t *last = &t->shape.dims[t->shape.ndim - 2];
    haul__part     m = {.t = t, .count = 1, .rows = last[0], .columns = last[1], .row = last[1], .column = 1};
    for (int d = 0; d < t->shape.ndim - 2; d++)
        m.count *= t->shape.dims[d];
    m.batch = m.count == 1 ? 0 : m.rows * m.columns;
    return m;
}

haul__part haul__part_of(haul__part m, int64_t row, int64_t column, int64_t rows, int64_t columns)
{
    HAUL__ASSERT(0 <= row && 0 <= rows && row + rows <= m.rows);
    HAUL__ASSERT(0 <= column && 0 <= columns && column + columns <= m.columns);
    m.at += row * m.row + column * m.column;
    m.rows = rows;
    m.columns = columns;
    return m;
}

haul__part haul__temporary_part(const haul__call *c, haul_dtype dtype, int64_t count, int64_t rows, int64_t columns)
{
    haul_tensor *t = haul__temporary(c, dtype, &HAUL_SHAPE(count, rows, columns));
    return t ? haul__matrices(t) : (haul__part){.t = NULL};
}

haul_status haul__multiply(const haul__call *c, haul__part y, bool add, haul__part a, haul__part b)
{
    HAUL__ASSERT(a.rows == y.rows && b.columns == y.columns && a.columns == b.rows && y.column == 1);
    HAUL__ASSERT((a.count == y.count || !a.batch) && (b.count == y.count || !b.batch));
    HAUL__ASSERT(haul__part_is_within(&y) && haul__part_is_within(&a) && haul__part_is_within(&b));
    haul__gemm g = {
        .batch = y.count,
        .m = y.rows,
        .n = y.columns,
        .k = a.columns,
        .a_offset = a.at,
        .b_offset = b.at,
        .c_offset = y.at,
        .a_row = y.rows == 1 ? a.columns * a.column : a.row,
        .a_col = a.column,
        .a_batch = a.batch,
        .b_row = b.row,
        .b_col = b.column,
        .b_batch = b.batch,
        .c_row = y.row,
        .c_batch = y.batch,
        .accumulate = add,
    };
    if (!y.rows || !y.columns || !y.count)
        return HAUL_OK;
    return haul__gemm_run(c, &g, y.t, a.t, b.t, NULL);
}

static part_params params_of(const haul__part *y)
{
    HAUL__ASSERT(y->column == 1 && haul__part_is_within(y));
    return (part_params){.items = y->count * y->rows,
                         .rows = y->rows,
                         .columns = y->columns,
                         .y_at = haul__part_offset(y),
                         .y_row = y->row,
                         .y_batch = y->batch};
}

haul_status haul__negate(const haul__call *c, haul__part *y, haul__part x)
{
    *y = (haul__part){.t = y->t,
                      .count = x.count,
                      .rows = x.rows,
                      .columns = x.columns,
                      .row = x.columns,
                      .column = 1,
                      .batch = x.count == 1 ? 0 : x.rows * x.columns};
    HAUL__ASSERT(y->t != x.t && haul__part_is_within(&x));
    part_params p = params_of(y);
    p.x_at = haul__part_offset(&x);
    p.x_row = x.row;
    p.x_column = x.column;
    p.x_batch = x.batch;
    return haul__launch_kernel(c, HAUL__K_part_negate, x.t->dtype, HAUL__OUT(y->t), HAUL__IN(x.t), HAUL__PARAMS(p),
                               .grain = 1 + GRAIN / (p.columns + 1));
}

haul_status haul__identity(const haul__call *c, haul__part y)
{
    part_params p = params_of(&y);
    return haul__launch_kernel(c, HAUL__K_part_identity, y.t->dtype, HAUL__OUT(y.t), HAUL__PARAMS(p),
                               .grain = 1 + GRAIN / (p.columns + 1));
}

haul_tensor *haul__turned(const haul__call *c, haul_tensor *t)
{
    haul_shape shape = t->shape;
    int64_t    strides[HAUL_MAX_DIMS];
    const int  last = shape.ndim - 1;
    HAUL__ASSERT(last >= 1);
    for (int d = 0; d <= last; d++)
        strides[d] = t->strides[d];
    shape.dims[last] = t->shape.dims[last - 1];
    shape.dims[last - 1] = t->shape.dims[last];
    strides[last] = t->strides[last - 1];
    strides[last - 1] = t->strides[last];
    return haul__view_as(c, t, &shape, strides, t->offset);
}

/* ---- checks ---- */

haul_status haul__check_square(const haul__call *c, int i)
{
    const haul_shape *s = &c->operands[i]->shape;
    if (s->ndim < 2 || s->dims[s->ndim - 1] != s->dims[s->ndim - 2])
        return haul__refuse_shape(c, i, "square matrices [..., n, n] are expected");
    return HAUL_OK;
}

/* True if the device has more than the kernel for it. */
static bool has_library(const haul__call *c, haul_device *device)
{
    const char *name = "kernel";
    haul__list_implementations(c->operation, device, &name, 1);
    return strcmp(name, "kernel") != 0;
}

haul_status haul__check_jacobi(const haul__call *c, int64_t n)
{
    HAUL__ASSERT(n >= 0);
    if (n <= HAUL__JACOBI_MOST || has_library(c, haul_cpu()) || has_library(c, c->device))
        return HAUL_OK;
    return haul__fail(
        HAUL_UNSUPPORTED, c->operation->name, "a",
        "the smaller size of the matrices is %lld, and without LAPACK at most %d are supported; install a "
        "LAPACK library (Debian: libopenblas0-pthread), or name one: HAUL_LAPACK=/path/liblapack.so.3",
        (long long)n, (int)HAUL__JACOBI_MOST);
}

haul_tensor *haul__for_jacobi(const haul__operation *operation, haul_tensor *a, haul_device **back)
{
    *back = NULL;
    if (!haul_tensor_is_valid(a) || haul_tensor_ndim(a) < 2)
        return a;
    const int64_t m = haul_tensor_dim(a, -2), n = haul_tensor_dim(a, -1);
    haul_device  *device = haul_tensor_device(a);
    if (m <= HAUL__SMALL || n <= HAUL__SMALL || device == haul_cpu() || !haul__device_computes(device) ||
        haul__spectrum_takes(operation, device, a->dtype == HAUL_F64 ? HAUL_F64 : HAUL_F32, m, n))
        return a;
    *back = device;
    return haul_to(a, haul_cpu());
}

haul_status haul__from_jacobi(haul_status status, haul_tensor **results, int count, haul_device *back)
{
    HAUL__ASSERT(0 < count && count <= HAUL__MAX_RESULTS);
    for (int i = 0; i < count && !status && back; i++) {
        results[i] = haul_to(results[i], back);
        if (haul__failed(results[i]))
            status = haul_error_status();
    }
    return status;
}

haul_shape haul__shape_with(const haul_shape *lead, int64_t rows, int64_t columns)
{
    HAUL__ASSERT(lead->ndim + 1 + (columns >= 0) <= HAUL_MAX_DIMS && rows >= 0);
    haul_shape shape = *lead;
    shape.dims[shape.ndim++] = rows;
    if (columns >= 0)
        shape.dims[shape.ndim++] = columns;
    return shape;
}

static int64_t matrices_in(const haul_shape *lead)
{
    int64_t count = 1;
    for (int d = 0; d < lead->ndim; d++)
        count *= lead->dims[d]; /* of an operand's shape, which was checked */
    return count;
}

haul_status haul__check_system(const haul__call *c, haul__system *out)
{
    const haul_shape *a = &c->operands[0]->shape, *b = &c->operands[1]->shape;
    haul_shape        lead_a = *a, lead_b = *b;
    char              sa[80], sb[80];
    if (a->ndim < 2)
        return haul__refuse_shape(c, 0, "matrices [..., m, n] are expected");
    out->vector = b->ndim == 1;
    out->m = a->dims[a->ndim - 2];
    out->n = a->dims[a->ndim - 1];
    if (!b->ndim || b->dims[out->vector ? 0 : b->ndim - 2] != out->m)
        return haul__fail(HAUL_SHAPE, c->operation->name, "b",
                          "a is %s and b is %s: b must be [..., %lld, k], or a vector [%lld]",
                          haul__shape_text(a, sa, sizeof sa), haul__shape_text(b, sb, sizeof sb), (long long)out->m,
                          (long long)out->m);
    out->k = out->vector ? 1 : b->dims[b->ndim - 1];
    lead_a.ndim -= 2;
    lead_b.ndim = out->vector ? 0 : lead_b.ndim - 2;
    if (haul__shape_broadcast(&lead_a, &lead_b, c->operation->name, &out->lead))
        return haul_error_status();
    out->a_lead = matrices_in(&lead_a) == 1 ? lead_a : out->lead;
    HAUL__ASSERT(out->lead.ndim + 2 <= HAUL_MAX_DIMS);
    HAUL__ASSERT(out->a_lead.ndim <= out->lead.ndim);
    return HAUL_OK;
}

haul_tensor *haul__copy_matrices(const haul__call *c, haul_tensor *x, const haul_shape *lead, int own)
{
    HAUL__ASSERT(own <= x->shape.ndim && lead->ndim + own <= HAUL_MAX_DIMS);
    haul_shape shape = *lead;
    for (int d = x->shape.ndim - own; d < x->shape.ndim; d++)
        shape.dims[shape.ndim++] = x->shape.dims[d];
    haul_tensor *copy = haul__temporary(c, x->dtype, &shape);
    return copy && haul__copy_elements(copy, x, c->operation->name) == HAUL_OK ? copy : NULL;
}

/* ---- for public functions ---- */

haul_status haul__apply_two(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                            int count, haul_tensor **first, haul_tensor **second)
{
    haul_tensor *made[HAUL__MAX_RESULTS];
    haul_status  status = first && second ? haul__apply(operation, attributes, operands, count, made)
                                          : haul__fail_null(operation->name, operation->results[first ? 1 : 0].name);
    if (first)
        *first = status ? haul__failed_tensor() : made[0];
    if (second)
        *second = status ? haul__failed_tensor() : made[1];
    return status;
}
