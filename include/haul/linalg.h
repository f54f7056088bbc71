/* Linear algebra: factorisations of matrices, linear systems, determinants, and sums over named axes.
 *
 * The last two axes of an operand are its matrices, row-major: [..., m, n]. All matrices of a batch are computed side
 * by side. Factorisations compute in f32 and f64; integers become f32 first, and f16 and bf16 are refused outside of
 * autocast, which makes them f32. All are differentiable, to any order.
 *
 * Results depend only on the shape: they are bit-identical for any number of threads, and each time.
 *
 * A matrix that cannot be factored, because it is singular or not positive definite, is an error
 * (HAUL_INVALID_ARGUMENT) that names the matrix and its place in the batch. Matrices count from 0, in the order of
 * memory. On the CPU the call itself fails. On other devices the next call that gives values to the host or waits for
 * the device fails, as for an index out of range. Only exact zeros count as singular; haul_slogdet and the diagonal of
 * haul_qr show how near a matrix is to that. */
#ifndef HAUL_LINALG_H
#define HAUL_LINALG_H

#include <haul/base.h>
#include <haul/custom.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* ---- Linear systems ---- */

/* x with a x = b, by LU factorisation with partial pivoting. The result has the shape of b, after leading axes of a and
 * b were broadcast. Fails for a singular matrix.
 *
 * - a: [..., n, n]
 * - b: [..., n, k], or one vector [n], which counts as a column */
HAUL_API haul_tensor *haul_solve(haul_tensor *a, haul_tensor *b);

typedef struct HAUL__DESIGNATED haul_solve_triangular_options {
    haul_tensor *b; /* [..., n, k], or one vector [n]; positional */
    HAUL__GUARD(upper)
    bool upper;      /* a is upper triangular, and elements below its diagonal are not read; default lower */
    bool transposed; /* solve with the transposed a */
    bool unit;       /* elements of the diagonal count as 1 and are not read */
} haul_solve_triangular_options;

/* x with a x = b for a triangular matrix: haul_solve_triangular(a, b, .upper = true). Leading axes broadcast. Fails if
 * an element of the diagonal is 0.
 *
 * - a: [..., n, n] */
#define haul_solve_triangular(a, ...)                                                                                  \
    haul_solve_triangular_with(a, HAUL__OPTIONS(haul_solve_triangular_options, .b = __VA_ARGS__))
HAUL_API haul_tensor *haul_solve_triangular_with(haul_tensor *a, const haul_solve_triangular_options *options);

/* x for which the sum of squares of a x - b is smallest, by haul_qr. If a has fewer rows than columns, a x = b has many
 * solutions, and the one with the smallest sum of squares is returned. Leading axes broadcast. Fails if the rank is
 * less than the smaller of m and n, which shows as a 0 on the diagonal of R.
 *
 * - a: [..., m, n]
 * - b: [..., m, k], or one vector [m] */
HAUL_API haul_tensor *haul_lstsq(haul_tensor *a, haul_tensor *b);

/* The inverse of each matrix. Fails for a singular matrix. haul_solve(a, b) takes less time than haul_inverse(a) times
 * b, and is more accurate.
 *
 * - a: [..., n, n] */
HAUL_API haul_tensor *haul_inverse(haul_tensor *a);

/* ---- Factorisations ---- */

/* The lower triangular l with l l^T = a. Only elements on and below the diagonal of a are read; the gradient counts a
 * as symmetric. Fails for a matrix that is not positive definite, NaN included.
 *
 * - a: [..., n, n], symmetric */
HAUL_API haul_tensor *haul_cholesky(haul_tensor *a);

/* LU factorisation with partial pivoting: row i of L U is row order[i] of a. *lu has U on and above the diagonal, and
 * below it L, whose diagonal is 1. For a singular matrix U has a 0 on its diagonal. On failure both
 * results are failed tensors.
 *
 * - a: [..., n, n]
 * - lu: gets the factors, [..., n, n]
 * - order: gets the order of rows, [..., n], i64 */
HAUL_API haul_status haul_lu(haul_tensor *a, haul_tensor **lu, haul_tensor **order);

/* a = q r, where the columns of q are orthonormal and r is upper triangular, by Householder reflections. k is the
 * smaller of m and n. Elements on the diagonal of r may be negative, as in LAPACK. On failure both results are failed
 * tensors. The gradient needs the first k columns of a to be independent.
 *
 * - a: [..., m, n]
 * - q: gets [..., m, k]
 * - r: gets [..., k, n] */
HAUL_API haul_status haul_qr(haul_tensor *a, haul_tensor **q, haul_tensor **r);

/* a = v diag(w) v^T for symmetric matrices: eigenvalues in ascending order, and orthonormal eigenvectors as the columns
 * of v, whose signs are arbitrary. Only elements on and below the diagonal of a are read. The gradient through v needs
 * distinct eigenvalues. NaN or an infinity makes the results of its matrix NaN. On failure both results are failed
 * tensors.
 *
 * Up to n = 64 Jacobi's method computes them on the device of a. For n above 64 NVIDIA's GPUs use cuSOLVER's syevd, if
 * it is installed: a matrix for which it does not converge is an error at the next wait, which names the matrix, and a
 * limit that refuses its work array is HAUL_OUT_OF_MEMORY. Otherwise it computes on the CPU, in one thread for each
 * matrix: an a on another device is copied there, and the results back, as events and ledgers count. LAPACK's syevd
 * serves, if there is a LAPACK library (`haul devices`, `$HAUL_LAPACK`). Without one, some hundreds of rows take
 * seconds, and n above 512 fails with HAUL_UNSUPPORTED.
 *
 * - a: [..., n, n], symmetric
 * - w: gets the eigenvalues, [..., n]
 * - v: gets the eigenvectors, [..., n, n] */
HAUL_API haul_status haul_eigh(haul_tensor *a, haul_tensor **w, haul_tensor **v);

/* a = u diag(s) vt: singular values in descending order, orthonormal columns of u and rows of vt, whose signs are
 * arbitrary. k is the smaller of m and n. The gradient through u and vt needs distinct singular values other than 0.
 * NaN or an infinity makes the singular values of its matrix NaN. On failure the results are failed tensors.
 *
 * Up to k = 64 one-sided Jacobi rotations compute them on the device of a. For k above 64 NVIDIA's GPUs use cuSOLVER's
 * gesvd, and the CPU LAPACK's gesdd, as in haul_eigh. Without these k above 512 fails with HAUL_UNSUPPORTED.
 *
 * - a: [..., m, n]
 * - u: gets [..., m, k]
 * - s: gets the singular values, [..., k]
 * - vt: gets [..., k, n] */
HAUL_API haul_status haul_svd(haul_tensor *a, haul_tensor **u, haul_tensor **s, haul_tensor **vt);

/* The pseudo-inverse (Moore, Penrose) by haul_svd: [..., n, m]. Its gradient needs the rank to stay the same.
 *
 * - a: [..., m, n]; if the smaller of both is above 64, it computes on the CPU, as haul_svd
 * - cutoff: singular values of at most this times the largest one count as 0; 0: the larger of m and n times the
 * dtype's precision, 2^-23 or 2^-52 */
HAUL_API haul_tensor *haul_pinv(haul_tensor *a, double cutoff);

/* ---- Determinants, powers and traces ---- */

/* The determinant of each matrix; that of an empty matrix is 1. It overflows easily; haul_slogdet does not. The
 * gradient fails for a singular matrix.
 *
 * - a: [..., n, n] */
HAUL_API haul_tensor *haul_det(haul_tensor *a);

/* The sign of the determinant, 1, -1 or 0, and the logarithm of its absolute value, -infinity for a singular matrix.
 * The gradient fails for a singular matrix. On failure both results are failed tensors.
 *
 * - a: [..., n, n]
 * - sign, log: get the results, [...] */
HAUL_API haul_status haul_slogdet(haul_tensor *a, haul_tensor **sign, haul_tensor **log);

/* The n-th power of each matrix, by squaring. For n < 0 it is a power of the inverse, and for 0 the identity. Dtypes
 * are those of haul_matmul.
 *
 * - a: [..., m, m] */
HAUL_API haul_tensor *haul_matrix_power(haul_tensor *a, int64_t n);

/* The sum of the main diagonal of each matrix. Dtypes are those of haul_sum.
 *
 * - x: [..., m, n] */
HAUL_API haul_tensor *haul_trace(haul_tensor *x);

/* ---- Sums over named axes ---- */

/* Einstein's sum convention, as in NumPy and PyTorch: haul_einsum("bij,bjk->bik", HAUL_TENSORS(a, b)). The formula has
 * a letter for each axis of each operand. Axes with one letter have one size, or size 1, which broadcasts. They are
 * multiplied together, and summed over unless the result has the letter. A letter that an operand has twice means the
 * diagonal. "..." stands for all axes without a letter. Without "->", the result has the letters that occur once, in
 * alphabetical order, capital letters first, after the axes of an ellipsis.
 *
 * Operands are multiplied from left to right, as products of matrices where axes are summed. Dtypes are those of
 * haul_matmul and haul_mul. The result of one operand may be a view of it.
 *
 * - formula: at most 199 characters; spaces are ignored
 * - xs: count operands, 1 to 64 */
HAUL_API haul_tensor *haul_einsum(const char *formula, haul_tensor *const *xs, int count);

/* A list of tensors and their number, for haul_einsum and others that take both. */
#define HAUL_TENSORS(...) HAUL__TENSORS(__VA_ARGS__), HAUL__COUNT(haul_tensor *, __VA_ARGS__)

/* The sum of products over some axes of a and as many of b, in pairs: axis axes_a[i] of a with axis axes_b[i] of b,
 * which are equally long. The result has the other axes of a, then those of b. Dtypes are those of haul_matmul.
 *
 * - axes_a, axes_b: count axes each; NULL for none */
HAUL_API haul_tensor *haul_tensordot(haul_tensor *a, haul_tensor *b, const int *axes_a, const int *axes_b, int count);

HAUL_END

#endif
