/* Eigenvalues and singular values of the cuda backend by cuSOLVER, on the stand-ins for the driver and the library:
 * shapes, batches and gradients, without copies to the CPU and without waits; matrices that are not finite, faults that
 * name the matrix, scratch memory, and what computes where the library is missing or does not start. */
#include "support/choice.h"
#include "support/devices/standin.h"
#include "support/failure.h"
#include "support/into.h"
#include "support/linalg.h"

#include <sys/wait.h>
#include <unistd.h>

static long (*solver_count)(const char *);
static int (*solver_fail)(const char *);
static int64_t (*driver_pending)(void);

static void find_standin(void)
{
    *(void **)&solver_count = symbol_of("libcusolver.so.12", "standin_count");
    *(void **)&solver_fail = symbol_of("libcusolver.so.12", "standin_fail");
    *(void **)&driver_pending = symbol_of("libcuda.so.1", "standin_pending");
}

static int open_scope(void **state)
{
    *state = haul_scope_push();
    haul_error_clear();
    return *state == NULL || haul_set_device(gpu()) != HAUL_OK;
}

static int close_scope(void **state)
{
    haul_error_clear();
    return (int)haul_scope_pop(*state);
}

static long computed(void)
{
    return solver_count("cusolverDnSsyevd") + solver_count("cusolverDnDsyevd") + solver_count("cusolverDnSgesvd") +
           solver_count("cusolverDnDgesvd");
}

static haul_tensor *adjoint(haul_tensor *x)
{
    return haul_transpose(x, -2, -1);
}

static haul_tensor *symmetric(haul_dtype dtype, int64_t batch, int64_t n, unsigned seed)
{
    haul_tensor *x = sample_tensor(gpu(), dtype, HAUL_SHAPE(batch, n, n), seed, NULL);
    return haul_add(x, adjoint(x));
}

static haul_tensor *with_columns(haul_tensor *vectors, haul_tensor *factors)
{
    return haul_mul(vectors, haul_unsqueeze(factors, -2));
}

static haul_tensor *identity(haul_tensor *like)
{
    return haul_triu(haul_tril(haul_ones_like(like), 0), 0);
}

/* In units of the dtype's precision and of the largest element of b. */
static void assert_near(haul_tensor *a, haul_tensor *b, double units, const char *what)
{
    if (!haul_tensor_is_valid(a) || !haul_tensor_is_valid(b))
        fail_msg("%s: %s", what, haul_error_message());
    const double precision = haul_tensor_dtype(a) == HAUL_F32 ? 0x1p-23 : 0x1p-52;
    const double most = haul_item(haul_max(haul_abs(b))), off = haul_item(haul_max(haul_abs(haul_sub(a, b))));
    if (!(off <= units * precision * most))
        fail_msg("%s: off by %g, which is %g units of %g", what, off, off / precision / most, most);
}

/* ---- results ---- */

static void check_eigenvalues(haul_dtype dtype, int64_t batch, int64_t n)
{
    haul_scope  *scope = haul_scope_push();
    const long   before = computed();
    haul_tensor *a = symmetric(dtype, batch, n, (unsigned)n), *w, *v, *same, *again;
    assert_succeeded(haul_eigh(a, &w, &v), "eigh");
    assert_int_equal(computed() - before, batch);
    assert_near(haul_matmul(with_columns(v, w), adjoint(v)), a, 400, "v w v^T");
    assert_near(haul_matmul(adjoint(v), v), identity(a), 400, "v^T v");
    assert_true(haul_item(haul_min(haul_sub(haul_slice(w, -1, 1, n, 1), haul_slice(w, -1, 0, n - 1, 1)))) >= 0);
    haul_tensor *lower = haul_add(haul_tril(a, 0), haul_triu(haul_full_like(a, NAN), 1));
    assert_succeeded(haul_eigh(lower, &same, &again), "eigh");
    assert_equal_bits(same, w, "what is above the diagonal does not count");
    haul_scope_pop(scope);
}

static void check_singular_values(haul_dtype dtype, int64_t batch, int64_t m, int64_t n)
{
    haul_scope  *scope = haul_scope_push();
    const long   before = computed();
    haul_tensor *a = sample_tensor(gpu(), dtype, HAUL_SHAPE(batch, m, n), (unsigned)(m + n), NULL), *u, *s, *vt;
    assert_succeeded(haul_svd(a, &u, &s, &vt), "svd");
    const int64_t k = haul_tensor_dim(s, -1);
    assert_int_equal(computed() - before, batch);
    assert_near(haul_matmul(with_columns(u, s), vt), a, 400, "u s vt");
    haul_tensor *of_u = haul_matmul(adjoint(u), u), *of_v = haul_matmul(vt, adjoint(vt));
    assert_near(of_u, identity(of_u), 400, "u^T u");
    assert_near(of_v, identity(of_v), 400, "vt v");
    assert_true(haul_item(haul_max(haul_sub(haul_slice(s, -1, 1, k, 1), haul_slice(s, -1, 0, k - 1, 1)))) <= 0);
    haul_scope_pop(scope);
}

static void test_spectrum__shapes_and_batches(void **state)
{
    static const int64_t shapes[][2] = {{65, 65}, {65, 100}, {100, 65}, {130, 66}};
    (void)state;
    for (int d = 0; d < 2; d++) {
        const haul_dtype dtype = d ? HAUL_F64 : HAUL_F32;
        check_eigenvalues(dtype, 3, 65);
        check_eigenvalues(dtype, 1, d ? 130 : 96);
        for (int i = 0; i < 4; i++)
            check_singular_values(dtype, i ? 1 : 3, shapes[i][0], shapes[i][1]);
    }
}

/* With more than one leading axis, and of views that are not dense. */
static void test_spectrum__leading_axes_and_views(void **state)
{
    static const int64_t axes[][4] = {{2, 3, 80, 66}, {1, 2, 66, 80}, {1, 2, 66, 66}};
    (void)state;
    for (int i = 0; i < 6; i++) {
        const haul_dtype dtype = i < 3 ? HAUL_F64 : HAUL_F32;
        haul_scope      *scope = haul_scope_push();
        haul_shape       shape = {4, {0}};
        memcpy(shape.dims, axes[i % 3], sizeof axes[0]);
        shape.dims[0] += 1;
        haul_tensor *whole = sample_tensor(gpu(), dtype, shape, (unsigned)i, NULL);
        haul_tensor *a = haul_transpose(haul_slice(whole, 0, 1, shape.dims[0], 1), 0, 1), *u, *s, *vt, *w, *v;
        assert_succeeded(haul_svd(a, &u, &s, &vt), "svd");
        assert_near(haul_matmul(with_columns(u, s), vt), a, 400, "u s vt");
        assert_near(haul_matmul(vt, adjoint(vt)), identity(haul_matmul(vt, adjoint(vt))), 400, "vt v");
        if (i % 3 == 2) {
            a = haul_add(a, adjoint(a));
            assert_succeeded(haul_eigh(haul_transpose(a, 0, 1), &w, &v), "eigh");
            assert_near(haul_matmul(with_columns(v, w), adjoint(v)), haul_transpose(a, 0, 1), 400, "v w v^T");
        }
        haul_scope_pop(scope);
    }
}

/* Small matrices are the kernel's, so they have the bits of every device without a library. */
static void test_spectrum__small_matrices_go_to_the_kernel(void **state)
{
    const long   before = computed();
    haul_tensor *w, *v, *u, *s, *vt;
    (void)state;
    assert_succeeded(haul_eigh(symmetric(HAUL_F32, 2, 64, 1), &w, &v), "eigh");
    assert_succeeded(haul_svd(haul_ones(HAUL_F64, HAUL_SHAPE(3, 200)), &u, &s, &vt), "svd");
    assert_int_equal(computed(), before);
}

/* Zero, equal and missing values have orthonormal vectors; no matrices have none. */
static void test_spectrum__singular_and_empty(void **state)
{
    haul_tensor *ones = haul_ones(HAUL_F64, HAUL_SHAPE(80, 70)), *u, *s, *vt, *w, *v;
    (void)state;
    assert_succeeded(haul_svd(ones, &u, &s, &vt), "rank 1");
    assert_near(haul_matmul(with_columns(u, s), vt), ones, 400, "u s vt");
    assert_near(haul_matmul(adjoint(u), u), identity(haul_matmul(adjoint(u), u)), 400, "u^T u");
    assert_near(haul_slice(s, 0, 0, 1, 1), haul_full(HAUL_F64, HAUL_SHAPE(1), sqrt(80.0 * 70)), 400, "the only value");
    assert_succeeded(haul_eigh(haul_zeros(HAUL_F32, HAUL_SHAPE(70, 70)), &w, &v), "zeros");
    assert_true(haul_item(haul_max(haul_abs(w))) == 0);
    assert_near(haul_matmul(adjoint(v), v), identity(v), 400, "v^T v");
    assert_succeeded(haul_svd(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 70, 80)), &u, &s, &vt), "no matrix");
    assert_int_equal(haul_tensor_count(s), 0);
    assert_int_equal(haul_tensor_dim(vt, 2), 80);
}

/* The library never sees NaN; its matrix alone becomes NaN. */
static void test_spectrum__not_finite(void **state)
{
    static const double values[] = {NAN, INFINITY, -INFINITY};
    haul_tensor        *a = symmetric(HAUL_F64, 1, 70, 4), *u, *s, *vt, *w, *v, *alone, *first, *rest;
    (void)state;
    assert_succeeded(haul_eigh(a, &alone, &v), "alone");
    for (int i = 0; i < 3; i++) {
        haul_tensor *one = haul_triu(haul_tril(haul_full_like(a, values[i]), -3), -3);
        haul_tensor *bad =
            haul_where(haul_ne(haul_triu(haul_tril(haul_ones_like(a), -3), -3), haul_zeros_like(a)), one, a);
        haul_tensor *both[] = {a, bad}, *batch = haul_cat(both, 2, 0);
        assert_succeeded(haul_eigh(batch, &w, &v), "eigh");
        assert_succeeded(haul_svd(batch, &u, &s, &vt), "svd");
        haul_tensor *all[] = {w, v, u, s, vt};
        for (int r = 0; r < 5; r++) {
            first = haul_isnan(haul_select(all[r], 0, 0));
            rest = haul_isnan(haul_select(all[r], 0, 1));
            assert_true(haul_item(haul_sum(haul_cast(first, HAUL_F32))) == 0);
            assert_true(haul_item(haul_mean(haul_cast(rest, HAUL_F32))) == 1);
        }
        assert_equal_bits(haul_select(w, 0, 0), haul_select(alone, 0, 0), "the other matrix");
    }
}

/* As on the CPU, up to the signs of vectors, of which these sums are free. */
static haul_tensor *objective(haul_tensor *x)
{
    haul_tensor *w, *v, *u, *s, *vt;
    assert_succeeded(haul_eigh(haul_add(x, adjoint(x)), &w, &v), "eigh");
    assert_succeeded(haul_svd(x, &u, &s, &vt), "svd");
    haul_tensor *of_v = haul_sum(haul_mul(haul_mul(v, v), haul_unsqueeze(w, -2)));
    haul_tensor *of_u = haul_sum(haul_mul(haul_square(u), haul_unsqueeze(s, -2)));
    haul_tensor *first = haul_mul(haul_slice(u, -1, 0, 1, 1), haul_slice(vt, -2, 0, 1, 1));
    return haul_add(haul_add(of_v, of_u), haul_add(haul_sum(haul_mul(first, x)), haul_sum(haul_square(s))));
}

static void test_spectrum__gradients_are_those_of_the_cpu(void **state)
{
    haul_tensor *x = haul_set_requires_grad(sample_tensor(gpu(), HAUL_F64, HAUL_SHAPE(66, 66), 8, NULL), true), *g, *h;
    haul_tensor *y = haul_set_requires_grad(haul_to(haul_detach(x), haul_cpu()), true);
    const long   before = computed();
    (void)state;
    assert_succeeded(haul_grad(objective(x), &x, 1, &g), "the gradient");
    assert_int_equal(computed() - before, 2);
    assert_succeeded(haul_grad(objective(y), &y, 1, &h), "the CPU's");
    assert_int_equal(computed() - before, 2);
    assert_near(haul_to(g, haul_cpu()), h, 1e6, "the gradient");
}

/* ---- waits and copies ---- */

static void test_spectrum__no_waits_and_no_copies(void **state)
{
    haul_tensor        *a = symmetric(HAUL_F32, 2, 70, 3), *tall, *u, *s, *vt, *w, *v;
    haul_transfer_stats before, after;
    choice              c;
    (void)state;
    tall = haul_slice(a, -1, 0, 66, 1);
    assert_succeeded(haul_svd(tall, &u, &s, &vt), "the first call, which compiles");
    assert_succeeded(haul_eigh(a, &w, &v), "the first call");
    assert_int_equal(haul_device_sync(gpu()), HAUL_OK);
    assert_int_equal(haul_transfer_stats_get(&before), HAUL_OK);
    const int64_t pending = driver_pending(), waits = haul_sync_count();
    listen_for_choices(&c);
    assert_succeeded(haul_svd(tall, &u, &s, &vt), "svd");
    assert_succeeded(haul_eigh(a, &w, &v), "eigh");
    assert_true(driver_pending() > pending);
    assert_int_equal(haul_sync_count(), waits);
    assert_int_equal(haul_transfer_stats_get(&after), HAUL_OK);
    assert_memory_equal(&after, &before, sizeof after);
    haul_events_unsubscribe(c.id);
    assert_string_equal(c.by, "cusolver");
}

/* ---- followed steps ---- */

typedef struct followed {
    haul_tensor *x, *y;
} followed;

static haul_status step(void *context)
{
    const followed *f = context;
    haul_tensor    *w, *v, *u, *s, *vt;
    if (haul_eigh(haul_add(f->x, adjoint(f->x)), &w, &v) || haul_svd(haul_slice(f->x, -1, 0, 66, 1), &u, &s, &vt))
        return haul_error_status();
    haul_tensor *values = haul_add(haul_sum(w), haul_sum(s));
    return haul_copy_into(f->y, haul_mul(values, haul_add(haul_sum(haul_square(v)), haul_sum(haul_abs(u)))));
}

static void test_spectrum__followed_steps(void **state)
{
    haul_tensor          *start = sample_tensor(gpu(), HAUL_F64, HAUL_SHAPE(70, 70), 7, NULL);
    followed              f = {haul_mul_scalar(start, 1), haul_sum(start)};
    haul_recording       *r = haul_recording_new(step, &f);
    haul_recording_report report;
    double                values[2][5];
    (void)state;
    for (int way = 0; way < 2; way++)
        for (int i = 0; i < 5; i++) {
            assert_succeeded(haul_copy_into(f.x, haul_mul_scalar(start, 1 + 0.25 * i)), "another x");
            assert_succeeded(way ? step(&f) : haul_recording_run(r), "a step");
            values[way][i] = haul_item(f.y);
        }
    assert_memory_equal(values[0], values[1], sizeof values[0]);
    assert_true(values[0][0] != values[0][1]);
    assert_succeeded(haul_recording_report_get(r, &report), "the report");
    assert_true(report.followed > 0);
    haul_release(r);
}

/* ---- scratch memory ---- */

static void test_spectrum__scratch_comes_from_the_allocator(void **state)
{
    haul_tensor      *a = symmetric(HAUL_F64, 2, 100, 3), *w, *v;
    haul_memory_stats before, after;
    (void)state;
    assert_succeeded(haul_eigh(a, &w, &v), "eigh");
    assert_int_equal(haul_memory_stats_get(gpu(), &before), HAUL_OK);
    haul_scope *scope = haul_scope_push();
    assert_succeeded(haul_eigh(a, &w, &v), "eigh");
    haul_scope_pop(scope);
    assert_int_equal(haul_memory_stats_get(gpu(), &after), HAUL_OK);
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(after.device_allocations, before.device_allocations);
}

/* No kernel of a GPU takes these matrices in a short time. */
static void test_spectrum__refused_scratch_is_an_error(void **state)
{
    haul_tensor      *a = symmetric(HAUL_F64, 1, 100, 3), *w, *v;
    haul_memory_stats m;
    (void)state;
    assert_valid(a);
    assert_int_equal(haul_device_sync(gpu()), HAUL_OK);
    assert_int_equal(haul_memory_release_cached(gpu()), HAUL_OK);
    haul_scope *scope = haul_scope_push();
    assert_succeeded(haul_eigh(a, &w, &v), "eigh");
    haul_scope_pop(scope);
    assert_int_equal(haul_memory_stats_get(gpu(), &m), HAUL_OK);
    assert_int_equal(haul_memory_release_cached(gpu()), HAUL_OK);
    assert_int_equal(haul_memory_set_tensor_limit(gpu(), m.reserved - 1), HAUL_OK);
    const haul_status status = haul_eigh(a, &w, &v);
    assert_int_equal(haul_memory_set_tensor_limit(gpu(), 0), HAUL_OK);
    assert_int_equal(status, HAUL_OUT_OF_MEMORY);
    if (!strstr(haul_error_message(), "the work array of the library"))
        fail_msg("%s", haul_error_message());
    haul_error_clear();
    assert_succeeded(haul_eigh(a, &w, &v), "eigh");
}

static haul_status both_spectra(void *context)
{
    haul_tensor *w, *v, *u, *s, *vt, *a = context;
    return haul_eigh(a, &w, &v) ? haul_error_status() : haul_svd(haul_slice(a, -1, 0, 90, 1), &u, &s, &vt);
}

/* The peak, in which scratch memory counts, and no copies between devices. */
static void test_spectrum__estimates_count_it(void **state)
{
    haul_tensor         *a = symmetric(HAUL_F64, 2, 100, 3);
    haul_estimate_result r;
    haul_memory_stats    s;
    haul_scope          *scope;
    (void)state;
    assert_valid(a);
    assert_int_equal(haul_device_sync(gpu()), HAUL_OK);
    assert_int_equal(haul_estimate(both_spectra, a, &r), HAUL_OK);
    assert_int_equal(r.device_count, 1);
    assert_int_equal(r.moved.d2h_bytes + r.moved.h2d_bytes, 0);
    assert_int_equal(haul_memory_reset_peak(gpu()), HAUL_OK);
    scope = haul_scope_push();
    assert_int_equal(both_spectra(a), HAUL_OK);
    haul_scope_pop(scope);
    assert_int_equal(haul_memory_stats_get(gpu(), &s), HAUL_OK);
    assert_int_equal(r.devices[0].peak_bytes, s.peak_allocated);
    haul_estimate_free(&r);
}

/* ---- faults ---- */

static void assert_late(haul_status status, const char *operation, const char *words)
{
    assert_int_equal(status, HAUL_OK);
    assert_int_equal(haul_device_sync(gpu()), HAUL_BACKEND);
    assert_string_equal(haul_error_operation(), operation);
    if (!strstr(haul_error_message(), words))
        fail_msg("the message is \"%s\", it should contain \"%s\"", haul_error_message(), words);
    haul_error_clear();
    assert_int_equal(haul_device_sync(gpu()), HAUL_OK); /* only once */
}

static void test_spectrum__faults_name_the_matrix(void **state)
{
    haul_tensor *a = symmetric(HAUL_F64, 3, 66, 3), *u, *s, *vt, *w, *v;
    (void)state;
    assert_true(solver_fail("cusolverDnDsyevd:2:1001,cusolverDnDgesvd:3:1007"));
    assert_late(haul_eigh(a, &w, &v), "haul_eigh",
                "the device's library did not converge for matrix 1 of 3 (from 0) in a (info 1); with "
                "HAUL_WITHOUT=cusolver");
    assert_late(haul_svd(a, &u, &s, &vt), "haul_svd", "for matrix 2 of 3 (from 0) in a (info 7)");
    assert_true(solver_fail("cusolverDnDgesvd:1:1007"));
    assert_late(haul_svd(haul_select(a, 0, 0), &u, &s, &vt), "haul_svd", "for the matrix in a (info 7)");
    assert_true(solver_fail("cusolverDnDsyevd:2"));
    assert_int_equal(haul_eigh(a, &w, &v), HAUL_BACKEND);
    if (!strstr(haul_error_message(), "cusolverDnSyevd failed: CUSOLVER_STATUS_INTERNAL_ERROR (status 7)"))
        fail_msg("%s", haul_error_message());
    haul_error_clear();
    assert_true(solver_fail("cusolverDnDsyevd:1:2")); /* memory: once more, after the cache was given back */
    assert_succeeded(haul_eigh(a, &w, &v), "eigh");
    assert_near(haul_matmul(with_columns(v, w), adjoint(v)), a, 400, "v w v^T");
    assert_true(solver_fail("cusolverDnDsyevd:2:2")); /* the first matrix was overwritten, so not once more */
    assert_int_equal(haul_eigh(a, &w, &v), HAUL_BACKEND);
    assert_non_null(strstr(haul_error_message(), "CUSOLVER_STATUS_ALLOC_FAILED (status 2) for matrix 1 of 3 (from 0)"));
    haul_error_clear();
    assert_true(solver_fail(NULL));
    assert_succeeded(haul_eigh(a, &w, &v), "eigh");
    assert_int_equal(haul_device_sync(gpu()), HAUL_OK);
}

/* ---- other libraries: a process opens them once, so each case is a child ---- */

static const char *expected;

/* The CPU computes, and its results are on the GPU. */
static bool cpu_serves(void)
{
    const char  *names[2] = {"", ""};
    haul_tensor *a = haul_mul_scalar(identity(haul_ones(HAUL_F64, HAUL_SHAPE(70, 70))), 3), *w, *v, *u, *s, *vt;
    bool         right = !haul_eigh(a, &w, &v) && !haul_svd(a, &u, &s, &vt) && haul_item(haul_sum(w)) == 210 &&
                 haul_item(haul_sum(s)) == 210 && haul_tensor_device(v) == gpu();
    haul_operation_implementations(haul_operation_find("haul_eigh"), gpu(), names, 2);
    return right && strcmp(names[0], expected) == 0 && haul_error_status() == HAUL_OK && computed() == 0;
}

static bool library_serves(void)
{
    haul_tensor *a = haul_mul_scalar(identity(haul_ones(HAUL_F64, HAUL_SHAPE(70, 70))), 3), *w, *v;
    return !haul_eigh(a, &w, &v) && haul_item(haul_sum(w)) == 210 && computed() == 1;
}

/* The first call finds it out, and the later ones go to the CPU. */
static bool cpu_serves_later(void)
{
    haul_tensor *a = haul_mul_scalar(identity(haul_ones(HAUL_F64, HAUL_SHAPE(70, 70))), 3), *w, *v;
    const bool   refused = haul_eigh(a, &w, &v) == HAUL_UNSUPPORTED && computed() == 1;
    haul_error_clear();
    return refused && !haul_eigh(a, &w, &v) && haul_item(haul_sum(w)) == 210 && computed() == 1;
}

static void in_child(bool (*run)(void), const char *name, const char *value)
{
    int   status = 0;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv(name, value, 1);
        find_standin();
        haul_scope *scope = haul_scope_push();
        bool        good = scope && haul_set_device(gpu()) == HAUL_OK && run();
        if (!good)
            printf("%s=%s: the last error: %s\n", name, value, haul_error_message());
        fflush(stdout);
        _exit(good ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void test_spectrum__other_libraries(void **state)
{
    (void)state;
    expected = "kernel";
    in_child(cpu_serves, "HAUL_WITHOUT", "cusolver");
    in_child(cpu_serves, "STANDIN_CUSOLVER", "10200");
    in_child(cpu_serves, "STANDIN_CUSOLVER", "11401"); /* of CUDA 11 */
    in_child(library_serves, "STANDIN_CUSOLVER", "11402");
    expected = "cusolver"; /* it is there, but does not start, or does not say how much memory it needs */
    in_child(cpu_serves, "STANDIN_FAIL", "cusolverDnCreate:0:4");
    in_child(cpu_serves, "STANDIN_FAIL", "cusolverDnDsyevd_bufferSize:0:4,cusolverDnDgesvd_bufferSize:0:4");
    in_child(cpu_serves, "STANDIN_FAIL", "cusolverDnDsyevd_bufferSize:0:1001,cusolverDnDgesvd_bufferSize:0:1001");
    in_child(cpu_serves_later, "STANDIN_FAIL", "cusolverDnDsyevd:0:4");
    in_child(library_serves, "STANDIN_FAIL", "cusolverDnCreate:1:2"); /* no memory: once more */
}

int main(void)
{
    unsetenv("HAUL_WITHOUT"); /* these tests are about what it leaves out */
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    const struct CMUnitTest children[] = {
        cmocka_unit_test(test_spectrum__other_libraries),
    };
    const struct CMUnitTest tests[] = {
        T(test_spectrum__shapes_and_batches),
        T(test_spectrum__leading_axes_and_views),
        T(test_spectrum__small_matrices_go_to_the_kernel),
        T(test_spectrum__singular_and_empty),
        T(test_spectrum__not_finite),
        T(test_spectrum__gradients_are_those_of_the_cpu),
        T(test_spectrum__no_waits_and_no_copies),
        T(test_spectrum__followed_steps),
        T(test_spectrum__scratch_comes_from_the_allocator),
        T(test_spectrum__refused_scratch_is_an_error),
        T(test_spectrum__estimates_count_it),
        T(test_spectrum__faults_name_the_matrix),
    };
    int failed;
    setenv("HAUL_CUDA_LIBRARIES", STANDIN, 1);
    failed = cmocka_run_group_tests(children, NULL, NULL);
    find_standin();
    return failed + cmocka_run_group_tests(tests, NULL, NULL);
}
