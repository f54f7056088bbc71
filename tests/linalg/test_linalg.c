/* Linear algebra: residuals of matrices of all sizes, orthonormal vectors, the same bits for any number of threads,
 * faults that name the matrix, empty matrices and errors. The samples compare values and gradients with PyTorch's.
 *
 * ctest: cuda; labels=threads */
#include "support/into.h"
#include "support/linalg.h"

enum { NO_BATCH = 0 };

/* A random matrix whose diagonal makes it regular. */
static haul_tensor *regular(haul_device *device, haul_dtype dtype, haul_shape shape, unsigned seed)
{
    haul_tensor  *x = sample_tensor(device, dtype, shape, seed, NULL);
    const int64_t n = shape.dims[shape.ndim - 1];
    haul_tensor  *one = haul_triu(haul_tril(haul_ones_like(x), 0), 0);
    return haul_add(x, haul_mul_scalar(one, 2.0 * sqrt((double)n) + 1));
}

static haul_tensor *adjoint(haul_tensor *x)
{
    return haul_transpose(x, -1, -2);
}

/* The largest difference of two tensors, in units of the dtype's precision and of the largest element of b. */
static void assert_near(haul_tensor *a, haul_tensor *b, double units, const char *what)
{
    if (!haul_tensor_is_valid(a) || !haul_tensor_is_valid(b))
        fail_msg("%s: %s", what, haul_error_message());
    const double precision = haul_tensor_dtype(a) == HAUL_F32 ? 0x1p-23 : 0x1p-52;
    const double most = haul_item(haul_max(haul_abs(b))), off = haul_item(haul_max(haul_abs(haul_sub(a, b))));
    if (!(off <= units * precision * most))
        fail_msg("%s: off by %g, which is %g units of %g", what, off, off / precision / most, most);
}

static const int64_t sizes[] = {1, 2, 17, 33, 64, 65, 96, 130};
enum { SIZES = sizeof sizes / sizeof sizes[0] };
static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64};

/* ---- residuals ---- */

static void factorisations(haul_device *device)
{
    for (int i = 0; i < SIZES; i++)
        for (int d = 0; d < 2; d++) {
            haul_scope   *scope = haul_scope_push();
            const int64_t n = sizes[i];
            const double  units = 8.0 * (double)n + 64;
            haul_tensor  *a = regular(device, dtypes[d], HAUL_SHAPE(3, n, n), 1), *lu, *order, *q, *r;
            haul_tensor  *square = haul_matmul(a, adjoint(a)), *l = haul_cholesky(square);
            assert_near(haul_matmul(l, adjoint(l)), square, units, "l l^T");
            assert_equal_bits(haul_tril(l, 0), l, "l is lower triangular");
            assert_succeeded(haul_lu(a, &lu, &order), "lu");
            haul_tensor *lower = haul_add(haul_tril(lu, -1), haul_triu(haul_tril(haul_ones_like(lu), 0), 0));
            haul_tensor *rows = haul_expand(haul_unsqueeze(order, -1), haul_tensor_shape(a));
            assert_near(haul_matmul(lower, haul_triu(lu, 0)), haul_gather(a, 1, rows), units, "l u");
            assert_true(haul_item(haul_max(haul_abs(haul_tril(lu, -1)))) <= 1);
            assert_succeeded(haul_qr(a, &q, &r), "qr");
            assert_near(haul_matmul(q, r), a, units, "q r");
            assert_near(haul_matmul(adjoint(q), q), haul_triu(haul_tril(haul_ones_like(a), 0), 0), units, "q^T q");
            assert_equal_bits(haul_triu(r, 0), r, "r is upper triangular");
            haul_scope_pop(scope);
        }
}

static void test_linalg__factors_multiply_to_the_matrix(void **state)
{
    (void)state;
    on_devices(factorisations);
}

static void rectangles(haul_device *device)
{
    static const int64_t shapes[][2] = {{1, 5}, {5, 1}, {40, 70}, {70, 40}, {33, 100}, {100, 33}};
    for (int i = 0; i < 6; i++) {
        haul_tensor  *a = sample_tensor(device, HAUL_F64, HAUL_SHAPE(2, shapes[i][0], shapes[i][1]), 3, NULL), *q, *r;
        const int64_t k = shapes[i][0] < shapes[i][1] ? shapes[i][0] : shapes[i][1];
        assert_succeeded(haul_qr(a, &q, &r), "qr");
        assert_int_equal(haul_tensor_dim(q, -1), k);
        assert_near(haul_matmul(q, r), a, 1000, "q r");
        haul_tensor *one = haul_triu(haul_tril(haul_ones(HAUL_F64, HAUL_SHAPE(k, k)), 0), 0);
        assert_near(haul_matmul(adjoint(q), q),
                    haul_add(haul_to(one, device), haul_mul_scalar(haul_matmul(adjoint(q), q), 0)), 1000, "q^T q");
    }
}

static void test_linalg__qr_of_rectangles(void **state)
{
    (void)state;
    on_devices(rectangles);
}

static void systems(haul_device *device)
{
    for (int i = 0; i < SIZES; i++)
        for (int d = 0; d < 2; d++) {
            haul_scope   *scope = haul_scope_push();
            const int64_t n = sizes[i], columns = i % 2 ? 1 : 37;
            const double  units = 8.0 * (double)n + 64;
            haul_tensor  *a = regular(device, dtypes[d], HAUL_SHAPE(2, n, n), 5);
            haul_tensor  *b = sample_tensor(device, dtypes[d], HAUL_SHAPE(2, n, columns), 6, NULL);
            assert_near(haul_matmul(a, haul_solve(a, b)), b, units * 4, "a x");
            haul_tensor *one = haul_triu(haul_tril(haul_ones_like(a), 0), 0), *upper = haul_triu(a, 0);
            assert_near(haul_matmul(a, haul_inverse(a)), one, units * 4, "a a^-1");
            assert_near(haul_matmul(upper, haul_solve_triangular(a, b, .upper = true)), b, units * 4, "upper");
            assert_near(haul_matmul(adjoint(upper), haul_solve_triangular(a, b, .upper = true, .transposed = true)), b,
                        units * 4, "transposed");
            assert_near(haul_matmul(haul_tril(a, 0), haul_solve_triangular(a, b)), b, units * 4, "lower");
            haul_tensor *column = haul_select(haul_select(b, 0, 0), -1, 0), *x = haul_solve(a, column);
            assert_near(haul_squeeze(haul_matmul(a, haul_unsqueeze(x, -1)), -1), haul_expand(column, HAUL_SHAPE(2, n)),
                        units * 4, "a vector for several matrices");
            haul_scope_pop(scope);
        }
}

static void test_linalg__solutions_solve(void **state)
{
    (void)state;
    on_devices(systems);
}

/* ---- eigenvalues and singular values ---- */

static haul_tensor *with_columns(haul_tensor *vectors, haul_tensor *factors)
{
    return haul_mul(vectors, haul_unsqueeze(factors, -2));
}

static haul_tensor *identity(haul_tensor *like)
{
    return haul_triu(haul_tril(haul_ones_like(like), 0), 0);
}

static void assert_rises(haul_tensor *w, const char *what)
{
    const int64_t n = haul_tensor_dim(w, -1);
    if (n > 1 && haul_item(haul_min(haul_sub(haul_slice(w, -1, 1, n, 1), haul_slice(w, -1, 0, n - 1, 1)))) < 0)
        fail_msg("%s are not in order", what);
}

/* The columns of q are orthonormal. */
static void assert_orthonormal(haul_tensor *q, const char *what)
{
    haul_tensor *gram = haul_matmul(adjoint(q), q);
    assert_near(gram, identity(gram), 300, what);
}

static void eigenvalues(haul_device *device)
{
    static const int64_t rows[] = {1, 2, 7, 33, 64, 65, 90};
    for (int i = 0; i < 7; i++)
        for (int d = 0; d < 2; d++) {
            haul_tensor *x = sample_tensor(device, dtypes[d], HAUL_SHAPE(2, rows[i], rows[i]), 4, NULL), *w, *v;
            haul_tensor *a = haul_add(x, adjoint(x)), *again, *same;
            assert_succeeded(haul_eigh(a, &w, &v), "eigh");
            assert_near(haul_matmul(with_columns(v, w), adjoint(v)), a, 300, "v diag(w) v^T");
            assert_orthonormal(v, "eigenvectors");
            assert_rises(w, "eigenvalues");
            assert_succeeded(haul_eigh(haul_tril(a, 0), &again, &same), "eigh");
            assert_equal_bits(again, w, "only the lower triangle is read");
        }
    haul_tensor *w, *v, *equal = haul_to(haul_from_host(HAUL_F64, HAUL_SHAPE(2, 2), (double[]){0, 1, 1, 0}), device);
    assert_succeeded(haul_eigh(equal, &w, &v), "eigh");
    assert_close(w, (double[]){-1, 1}, 2, 1e-15, "eigenvalues of equal size");
    assert_succeeded(haul_eigh(haul_full_like(equal, NAN), &w, &v), "NaN");
    assert_true(isnan(haul_item(haul_select(w, 0, 0))) && isnan(haul_item(haul_select(haul_select(v, 0, 1), 0, 0))));
}

static void singular_values(haul_device *device)
{
    static const int64_t shapes[][2] = {{1, 1}, {1, 5}, {6, 1}, {17, 40}, {100, 33}, {64, 64}, {64, 90}, {70, 66}};
    for (int i = 0; i < 8; i++)
        for (int d = 0; d < 2; d++) {
            haul_tensor *a = sample_tensor(device, dtypes[d], HAUL_SHAPE(2, shapes[i][0], shapes[i][1]), 4, NULL);
            haul_tensor *u, *s, *vt, *p = haul_pinv(a, 0);
            assert_succeeded(haul_svd(a, &u, &s, &vt), "svd");
            assert_near(haul_matmul(with_columns(u, s), vt), a, 300, "u diag(s) vt");
            assert_orthonormal(u, "left vectors");
            assert_orthonormal(adjoint(vt), "right vectors");
            assert_rises(haul_neg(s), "singular values");
            assert_near(haul_matmul(haul_matmul(a, p), a), a, 3000, "a pinv(a) a");
        }
}

/* More rows than independent columns, several of which are equal: the lengths of the rows that vanish are rounding
 * errors of rounding errors. */
static void vanishing_rows(haul_device *device)
{
    for (unsigned seed = 1; seed < 30; seed++) {
        haul_tensor *x = sample_tensor(device, dtypes[seed % 2], HAUL_SHAPE(5, 3), seed, NULL), *u, *s, *vt;
        haul_tensor *a = haul_cat((haul_tensor *[]){x, haul_mul_scalar(x, 2)}, 2, 1);
        assert_succeeded(haul_svd(a, &u, &s, &vt), "svd");
        assert_orthonormal(u, "left vectors");
        assert_orthonormal(adjoint(vt), "right vectors");
        assert_near(haul_matmul(with_columns(u, s), vt), a, 300, "u diag(s) vt");
    }
}

/* Singular values of 0, to which any orthonormal vectors belong. */
static void low_rank(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F64, HAUL_SHAPE(6, 2), 4, NULL), *u, *s, *vt;
    haul_tensor *matrices[] = {haul_matmul(x, adjoint(x)), haul_mul_scalar(haul_matmul(x, adjoint(x)), 0)};
    for (int i = 0; i < 2; i++) {
        assert_succeeded(haul_svd(matrices[i], &u, &s, &vt), "svd");
        assert_orthonormal(u, "left vectors");
        assert_orthonormal(adjoint(vt), "right vectors");
        assert_true(haul_item(haul_max(haul_slice(s, 0, 2, 6, 1))) < 1e-12);
    }
    haul_tensor *p = haul_pinv(matrices[0], 1e-10);
    assert_near(haul_matmul(haul_matmul(p, matrices[0]), p), p, 10000, "pinv(a) a pinv(a)");
    assert_true(haul_item(haul_max(haul_abs(haul_pinv(matrices[1], 0)))) == 0);
    assert_succeeded(haul_svd(haul_full_like(x, INFINITY), &u, &s, &vt), "infinities");
    assert_true(isnan(haul_item(haul_select(s, 0, 0))));
    assert_refused(haul_pinv(x, -1), HAUL_INVALID_ARGUMENT, "cutoff is -1");
}

/* A matrix with NaN in the batch changes no other one. */
static void large_with_nan(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F64, HAUL_SHAPE(3, 80, 80), 4, NULL), *a = haul_add(x, adjoint(x));
    haul_tensor *parts[] = {haul_select(a, 0, 0), haul_full_like(haul_select(a, 0, 1), NAN), haul_select(a, 0, 2)};
    haul_tensor *mixed = haul_stack(parts, 3, 0), *w, *v, *u, *s, *vt, *all_w, *all_v, *all_u, *all_s, *all_vt;
    assert_succeeded(haul_eigh(a, &all_w, &all_v), "eigh");
    assert_succeeded(haul_svd(a, &all_u, &all_s, &all_vt), "svd");
    assert_succeeded(haul_eigh(mixed, &w, &v), "eigh");
    assert_succeeded(haul_svd(mixed, &u, &s, &vt), "svd");
    haul_tensor *some[] = {w, v, s, u, vt}, *all[] = {all_w, all_v, all_s, all_u, all_vt};
    for (int i = 0; i < 5; i++) {
        assert_equal_bits(haul_select(some[i], 0, 0), haul_select(all[i], 0, 0), "the matrix before");
        assert_equal_bits(haul_select(some[i], 0, 2), haul_select(all[i], 0, 2), "the matrix after");
        if (i < 3)
            assert_true(isnan(haul_item(haul_sum(haul_select(some[i], 0, 1)))));
    }
}

/* Matrices that are computed on the CPU: results and gradients are on the device of a. */
static void moved(haul_device *device)
{
    haul_tensor *x = haul_set_requires_grad(sample_tensor(device, HAUL_F64, HAUL_SHAPE(66, 66), 4, NULL), true);
    haul_tensor *w, *v, *u, *s, *vt, *g, *own;
    assert_succeeded(haul_eigh(haul_add(x, adjoint(x)), &w, &v), "eigh");
    assert_succeeded(haul_svd(x, &u, &s, &vt), "svd");
    haul_tensor *results[] = {w, v, u, s, vt};
    for (int i = 0; i < 5; i++)
        assert_ptr_equal(haul_tensor_device(results[i]), device);
    /* the sum of eigenvalues is the trace, here of x + x^T */
    assert_succeeded(haul_grad(haul_sum(w), &x, 1, &g), "the gradient");
    assert_ptr_equal(haul_tensor_device(g), device);
    own = haul_mul_scalar(identity(g), 2);
    assert_near(g, own, 300, "the gradient of the trace");
}

static bool has_lapack(void)
{
    const char *name = "";
    haul_operation_implementations(haul_operation_find("haul_svd"), haul_cpu(), &name, 1);
    return strcmp(name, "lapack") == 0;
}

/* Without LAPACK matrices of more than 512 rows are refused. */
static void too_large(haul_device *device)
{
    haul_tensor *a = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(513, 513)), device), *u, *s, *vt;
    if (has_lapack()) {
        assert_succeeded(haul_eigh(a, &s, &u), "eigh");
        assert_near(haul_slice(s, 0, 512, 513, 1), haul_full_like(haul_slice(s, 0, 512, 513, 1), 513), 300, "513");
        assert_ptr_equal(haul_tensor_device(u), device);
    } else {
        assert_int_equal(haul_eigh(a, &u, &s), HAUL_UNSUPPORTED);
        check_refused(has_failed(u) && has_failed(s), HAUL_UNSUPPORTED, "at most 512");
        assert_int_equal(haul_svd(a, &u, &s, &vt), HAUL_UNSUPPORTED);
        check_refused(has_failed(u) && has_failed(s) && has_failed(vt), HAUL_UNSUPPORTED, "is 513");
    }
    assert_int_equal(haul_svd(a, &u, NULL, &vt), HAUL_INVALID_ARGUMENT);
    check_refused(has_failed(u) && has_failed(vt), HAUL_INVALID_ARGUMENT, "s is NULL");
    assert_int_equal(haul_svd(haul_slice(a, 0, 0, 0, 1), &u, &s, &vt), HAUL_OK);
    assert_int_equal(haul_tensor_dim(vt, 1), 513);
}

static void test_linalg__eigenvalues_and_singular_values(void **state)
{
    (void)state;
    on_devices(eigenvalues);
    on_devices(singular_values);
    on_devices(low_rank);
    on_devices(vanishing_rows);
    on_devices(large_with_nan);
    on_devices(moved);
    on_devices(too_large);
}

/* ---- bits ---- */

typedef struct subject {
    haul_dtype dtype;
    int64_t    batch, n;
    int        what;
} subject;

static haul_tensor *compute(void *context)
{
    const subject *s = context;
    haul_tensor   *a = regular(haul_cpu(), s->dtype, HAUL_SHAPE(s->batch, s->n, s->n), 9), *x = NULL, *y = NULL, *z;
    switch (s->what) {
    case 0: return haul_cholesky(haul_matmul(a, adjoint(a)));
    case 1: return haul_solve(a, haul_slice(a, -1, 0, 5, 1));
    case 2: return haul_lu(a, &x, &y) ? NULL : x;
    case 3: return haul_qr(a, &x, &y) ? NULL : x;
    case 4: return haul_inverse(a);
    case 6: return haul_eigh(haul_add(a, adjoint(a)), &x, &y) ? NULL : y;
    case 7: return haul_svd(a, &x, &y, &z) ? NULL : x;
    default: return haul_solve_triangular(a, a, .transposed = true);
    }
}

static void test_linalg__threads_change_no_bit(void **state)
{
    (void)state;
    for (int what = 0; what < 8; what++) {
        subject small = {HAUL_F32, 300, 16, what};
        assert_same_for_threads(compute, &small);
    }
    for (int what = 0; what < 6; what++) {
        subject large = {HAUL_F64, 1, 200, what}, both = {HAUL_F32, 3, 150, what};
        assert_same_for_threads(compute, &large);
        assert_same_for_threads(compute, &both);
    }
    for (int what = 6; what < 8; what++) {
        subject one = {HAUL_F64, 1, 130, what}, several = {HAUL_F32, 5, 80, what};
        assert_same_for_threads(compute, &one);
        assert_same_for_threads(compute, &several);
    }
}

/* ---- faults ---- */

/* Of the call on the CPU, and of the next wait elsewhere. */
static void assert_fault(haul_device *device, haul_tensor *y, const char *operation, const char *words)
{
    if (haul_tensor_is_valid(y))
        assert_int_equal(haul_device_sync(device), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_tensor_is_valid(y), device != haul_cpu());
    assert_int_equal(haul_error_status(), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_operation(), operation);
    if (!strstr(haul_error_message(), words))
        fail_msg("the message is \"%s\", it should contain \"%s\"", haul_error_message(), words);
    haul_error_clear();
    assert_int_equal(haul_device_sync(device), HAUL_OK); /* only once */
}

/* Three matrices, of which the second has equal columns `column` and the next. */
static haul_tensor *with_a_singular_one(haul_device *device, int64_t n, int64_t column)
{
    haul_tensor *a = regular(haul_cpu(), HAUL_F32, HAUL_SHAPE(3, n, n), 2), *parts[3];
    for (int i = 0; i < 3; i++)
        parts[i] = haul_select(a, 0, i);
    haul_tensor *zero = haul_mul_scalar(haul_slice(parts[1], 1, 0, 1, 1), 0);
    haul_tensor *columns[] = {haul_slice(parts[1], 1, 0, column, 1), zero, haul_slice(parts[1], 1, column + 1, n, 1)};
    parts[1] = haul_cat(columns, 3, 1);
    return haul_to(haul_stack(parts, 3, 0), device);
}

static void faults(haul_device *device)
{
    haul_tensor *a = with_a_singular_one(device, 6, 4), *b = haul_ones(HAUL_F32, HAUL_SHAPE(6, 1)), *q, *r, *sign, *log;
    haul_tensor *large = with_a_singular_one(device, 90, 77), *second = haul_select(a, 0, 1);
    b = haul_to(b, device);
    assert_fault(device, haul_solve(a, b), "haul_solve",
                 "matrix 1 of 3 (from 0) in a is singular: column 4 has no nonzero pivot");
    assert_fault(device, haul_solve(second, b), "haul_solve", "the matrix in a is singular: column 4");
    assert_fault(device, haul_inverse(a), "haul_inverse", "matrix 1 of 3");
    assert_fault(device, haul_inverse(large), "haul_inverse", "column 77");
    assert_fault(device, haul_solve_triangular(a, b), "haul_solve_triangular", "matrix 1 of 3");
    assert_fault(device, haul_solve_triangular(large, haul_ones_like(large), .upper = true), "haul_solve_triangular",
                 "column 77");
    assert_fault(device, haul_lstsq(second, b), "haul_lstsq", "has not full rank");
    assert_fault(device, haul_cholesky(haul_neg(haul_slice(a, 0, 2, 3, 1))), "haul_cholesky",
                 "the matrix in a is not positive definite: column 0 has no positive pivot");
    assert_fault(device, haul_cholesky(haul_matmul(large, adjoint(haul_mul_scalar(large, -1)))), "haul_cholesky",
                 "in a is not positive definite");
    /* these are values */
    assert_float_equal(haul_item(haul_select(haul_det(a), 0, 1)), 0, 0);
    assert_succeeded(haul_slogdet(a, &sign, &log), "slogdet");
    assert_float_equal(haul_item(haul_select(sign, 0, 1)), 0, 0);
    assert_true(haul_item(haul_select(log, 0, 1)) == -INFINITY);
    assert_succeeded(haul_lu(a, &q, &r), "lu");
    assert_succeeded(haul_qr(a, &q, &r), "qr");
    assert_near(haul_matmul(q, r), a, 1000, "q r of a singular matrix");
    assert_true(isnan(haul_item(haul_select(haul_select(haul_solve(haul_full_like(second, NAN), b), 0, 0), 0, 0))));
}

static void test_linalg__faults_name_the_matrix(void **state)
{
    (void)state;
    on_devices(faults);
}

/* ---- empty matrices ---- */

static void empty(haul_device *device)
{
    haul_tensor *none = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0, 0)), device), *q, *r;
    haul_tensor *no_batch = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(NO_BATCH, 3, 3)), device);
    haul_tensor *wide = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), device);
    assert_close(haul_det(none), (double[]){1, 1}, 2, 0, "the determinant of nothing");
    assert_succeeded(haul_slogdet(none, &q, &r), "slogdet");
    assert_close(q, (double[]){1, 1}, 2, 0, "its sign");
    assert_close(r, (double[]){0, 0}, 2, 0, "its logarithm");
    assert_close(haul_trace(none), (double[]){0, 0}, 2, 0, "its trace");
    assert_int_equal(haul_tensor_count(haul_solve(none, none)), 0);
    assert_int_equal(haul_tensor_count(haul_inverse(no_batch)), 0);
    assert_int_equal(haul_tensor_count(haul_cholesky(no_batch)), 0);
    assert_int_equal(haul_tensor_count(haul_det(no_batch)), 0);
    assert_succeeded(haul_qr(wide, &q, &r), "qr");
    assert_int_equal(haul_tensor_dim(r, 1), 3);
    assert_succeeded(haul_qr(haul_transpose(wide, 0, 1), &q, &r), "qr");
    assert_int_equal(haul_tensor_dim(q, 0), 3);
    assert_close(haul_einsum("ij,jk->ik", HAUL_TENSORS(haul_transpose(wide, 0, 1), wide)),
                 (double[]){0, 0, 0, 0, 0, 0, 0, 0, 0}, 9, 0, "a sum of nothing");
}

static void test_linalg__empty_matrices(void **state)
{
    (void)state;
    on_devices(empty);
}

/* ---- errors ---- */

static void errors(haul_device *device)
{
    haul_tensor *a = regular(device, HAUL_F32, HAUL_SHAPE(2, 3, 3), 1), *wide = haul_slice(a, 1, 0, 2, 1), *q, *r;
    haul_tensor *half = haul_cast(a, HAUL_F16), *v = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(4)), device);
    assert_refused(haul_inverse(wide), HAUL_SHAPE, "square matrices [..., n, n] are expected");
    assert_refused(haul_cholesky(v), HAUL_SHAPE, "square matrices");
    assert_refused(haul_det(wide), HAUL_SHAPE, "square matrices");
    assert_refused(haul_matrix_power(wide, 2), HAUL_SHAPE, "square matrices");
    assert_refused(haul_trace(v), HAUL_SHAPE, "matrices [..., m, n] are expected");
    assert_refused(haul_solve(a, v), HAUL_SHAPE, "b must be [..., 3, k], or a vector [3]");
    assert_refused(haul_solve(a, haul_ones_like(haul_expand(haul_select(a, 0, 0), HAUL_SHAPE(5, 3, 3)))), HAUL_SHAPE,
                   "do not broadcast");
    assert_refused(haul_solve_triangular(a, v), HAUL_SHAPE, "b must be");
    assert_refused(haul_solve_triangular_with(a, NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_lstsq(v, v), HAUL_SHAPE, "matrices");
    assert_refused(haul_inverse(half), HAUL_DTYPE, "f16");
    assert_int_equal(haul_qr(v, &q, &r), HAUL_SHAPE);
    assert_true(has_failed(q) && has_failed(r));
    haul_error_clear(); /* NULL after an error counts as its consequence */
    assert_int_equal(haul_qr(a, NULL, &r), HAUL_INVALID_ARGUMENT);
    assert_failed(r);
    assert_int_equal(haul_lu(a, &q, NULL), HAUL_INVALID_ARGUMENT);
    assert_failed(q);
    haul_error_clear();
    assert_near(haul_inverse(haul_cast(haul_round(a), HAUL_I32)), haul_inverse(haul_round(a)), 0,
                "integers become f32");
}

static void einsum_errors(haul_device *device)
{
    haul_tensor *a = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 4), 1, NULL), *b = haul_transpose(a, 0, 1);
    assert_refused(haul_einsum(NULL, HAUL_TENSORS(a)), HAUL_INVALID_ARGUMENT, "formula");
    assert_refused(haul_einsum("ij", NULL, 1), HAUL_INVALID_ARGUMENT, "");
    assert_refused(haul_einsum("ij,jk", HAUL_TENSORS(a)), HAUL_INVALID_ARGUMENT, "fewer operands");
    assert_refused(haul_einsum("ij", HAUL_TENSORS(a, b)), HAUL_INVALID_ARGUMENT, "more operands");
    assert_refused(haul_einsum("ijk", HAUL_TENSORS(a)), HAUL_SHAPE, "operand 0 has 2 dimensions, but 3 labels");
    assert_refused(haul_einsum("i", HAUL_TENSORS(a)), HAUL_SHAPE, "but 1 labels");
    assert_refused(haul_einsum("i1", HAUL_TENSORS(a)), HAUL_INVALID_ARGUMENT, "\"i1\", character 2: a letter");
    assert_refused(haul_einsum("ij->ik", HAUL_TENSORS(a)), HAUL_INVALID_ARGUMENT, "each label of the result");
    assert_refused(haul_einsum("ij->ii", HAUL_TENSORS(a)), HAUL_INVALID_ARGUMENT, "once in the result");
    assert_refused(haul_einsum("ij->ij,", HAUL_TENSORS(a)), HAUL_INVALID_ARGUMENT, "the end is expected");
    assert_refused(haul_einsum("ij-ij", HAUL_TENSORS(a)), HAUL_INVALID_ARGUMENT, "\"->\" or the end");
    assert_refused(haul_einsum("......", HAUL_TENSORS(a)), HAUL_INVALID_ARGUMENT, "once for each operand");
    assert_refused(haul_einsum("ii", HAUL_TENSORS(a)), HAUL_SHAPE, "label");
    assert_refused(haul_einsum("ij,ij", HAUL_TENSORS(a, b)), HAUL_SHAPE, "axis 0 of operand 1 has 4 elements");
    assert_refused(haul_einsum("abcde,fghij->abcdefghij", HAUL_TENSORS(a, a)), HAUL_SHAPE, "labels");
    haul_tensor *most = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)), device);
    char         formula[128] = "...->";
    memset(formula + strlen(formula), 'a', 59); /* room for one more label, and 8 axes follow */
    assert_refused(haul_einsum(strcat(formula, "..."), HAUL_TENSORS(most)), HAUL_INVALID_ARGUMENT, "too many labels");
    assert_refused(haul_tensordot(a, b, (int[]){0}, (int[]){0}, 1), HAUL_SHAPE, "axis 0 of a has 3 elements");
    assert_refused(haul_tensordot(a, b, (int[]){5}, (int[]){0}, 1), HAUL_INVALID_ARGUMENT, "5");
    assert_refused(haul_tensordot(a, b, (int[]){0, 0}, (int[]){1, 1}, 2), HAUL_INVALID_ARGUMENT, "given twice");
    assert_refused(haul_tensordot(a, b, NULL, NULL, 1), HAUL_INVALID_ARGUMENT, "axes_a");
    assert_refused(haul_tensordot(a, b, NULL, NULL, -1), HAUL_INVALID_ARGUMENT, "count is -1");
    assert_equal_bits(haul_einsum(" i j , j k ", HAUL_TENSORS(a, b)), haul_matmul(a, b), "spaces");
}

static void test_linalg__errors(void **state)
{
    (void)state;
    on_devices(errors);
    on_devices(einsum_errors);
}

/* ---- autocast ---- */

static void test_linalg__autocast_widens(void **state)
{
    (void)state;
    haul_scope         *scope = haul_scope_push();
    haul_tensor        *a = haul_cast(regular(haul_cpu(), HAUL_F32, HAUL_SHAPE(3, 3), 1), HAUL_BF16);
    haul_autocast_state before = haul_autocast_begin("all", HAUL_BF16);
    haul_tensor        *x = haul_inverse(a);
    haul_autocast_end(before);
    assert_valid(x);
    assert_int_equal(haul_tensor_dtype(x), HAUL_F32);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_linalg__factors_multiply_to_the_matrix),
        cmocka_unit_test(test_linalg__qr_of_rectangles),
        cmocka_unit_test(test_linalg__solutions_solve),
        cmocka_unit_test(test_linalg__eigenvalues_and_singular_values),
        cmocka_unit_test(test_linalg__threads_change_no_bit),
        cmocka_unit_test(test_linalg__faults_name_the_matrix),
        cmocka_unit_test(test_linalg__empty_matrices),
        cmocka_unit_test(test_linalg__errors),
        cmocka_unit_test(test_linalg__autocast_widens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
