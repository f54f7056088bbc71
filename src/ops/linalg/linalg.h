/* What the operations of linear algebra share: parts of matrices, their products, and the factorisations on which
 * other operations build.
 *
 * A factorisation of small matrices is a kernel with one item for each matrix. That of larger ones goes over blocks of
 * columns: kernels factor a block, and products (ops/matmul/gemm.h) update the rest. Both orders depend on the shape
 * only, so results are bit-identical for any number of threads. */
#ifndef HAUL_OPS_LINALG_LINALG_H
#define HAUL_OPS_LINALG_LINALG_H

#include "backends/index_check.h"
#include "engine/implementation.h"
#include "engine/operation.h"

/* The dtypes of factorisations; products before and after them have more. */
#define HAUL__WHOLE_FLOATS (HAUL__ONLY(HAUL_F32) | HAUL__ONLY(HAUL_F64))

/* ---- parts of matrices ---- */

/* The same part of each of `count` matrices. Strides and `at`, the first element after the tensor's own offset, are in
 * elements. With batch 0 there is one matrix, which counts for all. */
typedef struct haul__part {
    haul_tensor *t;
    int64_t      count, rows, columns;
    int64_t      at, row, column, batch;
} haul__part;

/* All of a row-major [..., rows, columns]. */
haul__part haul__matrices(haul_tensor *t);

/* Rows and columns from some on. */
haul__part haul__part_of(haul__part m, int64_t row, int64_t column, int64_t rows, int64_t columns);

static inline haul__part haul__part_transposed(haul__part m)
{
    return (haul__part){m.t, m.count, m.columns, m.rows, m.at, m.column, m.row, m.batch};
}

/* The offset of the first element in the storage. */
static inline int64_t haul__part_offset(const haul__part *m)
{
    return m->t->offset + m->at;
}

/* True if the elements are among those of the tensor, which has them without gaps. */
static inline bool haul__part_is_within(const haul__part *m)
{
    return !m->count || !m->rows || !m->columns ||
           (m->at >= 0 &&
            m->at + (m->count - 1) * m->batch + (m->rows - 1) * m->row + (m->columns - 1) * m->column < m->t->count);
}

/* y = a b, or y += a b. The columns of y are dense, and it shares no element with a or b. */
haul_status haul__multiply(const haul__call *c, haul__part y, bool add, haul__part a, haul__part b);

/* y = -x, where y is the first elements of a row-major temporary, which it becomes. */
haul_status haul__negate(const haul__call *c, haul__part *y, haul__part x);

/* y = the identity, or its first columns. */
haul_status haul__identity(const haul__call *c, haul__part y);

/* A view with the last two axes exchanged. */
haul_tensor *haul__turned(const haul__call *c, haul_tensor *t);

/* [count, rows, columns] as a temporary; t is NULL on failure. */
haul__part haul__temporary_part(const haul__call *c, haul_dtype dtype, int64_t count, int64_t rows, int64_t columns);

/* ---- checks and operands ---- */

/* Fails unless operand i is [..., n, n]. */
haul_status haul__check_square(const haul__call *c, int i);

/* Fails if n, the smaller size of the matrices, is more than Jacobi's method takes and there is no LAPACK library. */
haul_status haul__check_jacobi(const haul__call *c, int64_t n);

/* For public functions: a, or its copy on the CPU if its matrices are larger than one item of another device can take
 * in a short time, and the device has no library for them. Then *back is a's device, else NULL. haul__from_jacobi moves
 * results back. */
haul_tensor *haul__for_jacobi(const haul__operation *operation, haul_tensor *a, haul_device **back);
haul_status  haul__from_jacobi(haul_status status, haul_tensor **results, int count, haul_device *back);

/* Shapes of a and b, where a is [..., m, n] and b is [..., m, k], or [m] (`vector`): leading axes broadcast to `lead`.
 * a_lead: those of the matrices that are factored, which are a's own if it has only
 * one. */
typedef struct haul__system {
    haul_shape lead, a_lead;
    int64_t    m, n, k;
    bool       vector;
} haul__system;
haul_status haul__check_system(const haul__call *c, haul__system *out);

/* shape with one or two more dimensions. */
haul_shape haul__shape_with(const haul_shape *lead, int64_t rows, int64_t columns);

/* A temporary copy of x, with its leading axes broadcast to `lead`; `own` axes are its own. NULL on failure. */
haul_tensor *haul__copy_matrices(const haul__call *c, haul_tensor *x, const haul_shape *lead, int own);

/* ---- triangular systems (triangular.c) ---- */

typedef struct haul__triangle {
    bool     upper; /* after transposition */
    bool     unit;  /* the diagonal counts as 1 and is not read */
    uint32_t check; /* of a 0 on the diagonal; 0: none */
} haul__triangle;

/* x = t^-1 x, in place. The columns of x are dense. t.count is x.count, or t.batch is 0. */
haul_status haul__solve_triangle(const haul__call *c, haul__part t, haul__part x, haul__triangle how);

/* x = the inverse of t, times -1; up to HAUL__SMALL rows. */
haul_status haul__invert_triangle(const haul__call *c, haul__part t, haul__part x, haul__triangle how);

/* haul_solve_triangular for other operations, whose check it makes. */
haul_tensor *haul__solve_triangular_for(haul_tensor *a, haul_tensor *b, bool upper, bool transposed, uint32_t check);

/* ---- LU (lu.c) ---- */

enum {
    HAUL__SMALL = HAUL__SPECTRUM_SMALL, /* rows and columns that one item takes */
    HAUL__JACOBI_MOST = 512             /* rows that Jacobi's method takes */
};

/* lu, in place: L below the diagonal and U. order [count, n]: row i of L U is row order[i] of the matrix. pivots
 * [count, n]: row i was exchanged with this one, in turn. */
haul_status haul__factor_lu(const haul__call *c, haul__part lu, haul_tensor *order, haul_tensor *pivots,
                            uint32_t check);

/* The rows of x in another order: row i of y is row order[i] of x; with `back`, row order[i] of y is row i of x. */
haul_status haul__order_rows(const haul__call *c, haul__part y, haul__part x, haul_tensor *order, bool back);

/* The check of a call that factors the matrices of `a`. */
#define HAUL__SINGULAR(id) haul__index_check(HAUL__CHECK_##id, 0)

/* ---- spectra (spectrum.c) ---- */

/* The results of haul_eigh (w, v) or haul_svd (u, s, vt) of the call's dense operand, by the device's library for large
 * matrices, or else by `jacobi`. */
extern const haul__implementations haul__spectrum_implementations;
haul_status                        haul__spectrum_compute(haul__call *c, haul_status (*jacobi)(haul__call *c));

/* True if a library of a GPU computes matrices [m, n] for haul_eigh or haul_svd there. */
bool haul__spectrum_takes(const haul__operation *operation, haul_device *device, haul_dtype dtype, int64_t m,
                          int64_t n);

/* ---- for public functions and gradients ---- */

/* Applies an operation with two results; on failure both are failed tensors. */
haul_status haul__apply_two(const haul__operation *operation, const void *attributes, haul_tensor *const *operands,
                            int count, haul_tensor **first, haul_tensor **second);

static inline haul_tensor *haul__adjoint(haul_tensor *x)
{
    return haul_transpose(x, -2, -1);
}

#endif
