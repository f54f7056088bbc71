/* Matrix products and reductions are bit-identical at the instruction levels v3 and v4, whose vectors differ, and sums
 * of many products are accurate.
 *
 * Left out are products of bf16, which may use instructions that only some processors have, and those of 2 to 24 rows
 * with a transposed matrix, whose partial sums are as many as a vector has lanes (decision 019). */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "support/random.h"

/* ---- results of a level ---- */

enum { PRODUCTS = 300, REDUCTIONS = 60, RESULTS = PRODUCTS + REDUCTIONS };

static uint64_t hash_of(haul_tensor *t)
{
    size_t         bytes = (size_t)haul_tensor_count(t) * haul__dtype_size(haul_tensor_dtype(t));
    unsigned char *values = malloc(bytes + 1);
    uint64_t       hash = 14695981039346656037u;
    if (!values || haul_read(t, values, bytes))
        hash = 0;
    for (size_t i = 0; hash && i < bytes; i++)
        hash = (hash ^ values[i]) * 1099511628211u; /* FNV-1a */
    free(values);
    return hash;
}

/* Sizes on both sides of all edges: of vectors, tiles, panels, and parts of k. */
static int64_t any_size(void)
{
    static const int64_t most[] = {2, 9, 40, 140, 700};
    return 1 + below(most[below(5)]);
}

static haul_tensor *matrix(haul_dtype dtype, int64_t rows, int64_t columns)
{
    if (below(2))
        return haul_cast(haul_uniform(HAUL_F32, HAUL_SHAPE(rows, columns), -1, 1), dtype);
    return haul_transpose(haul_cast(haul_uniform(HAUL_F32, HAUL_SHAPE(columns, rows), -1, 1), dtype), 0, 1);
}

static uint64_t product(void)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F32, HAUL_F64, HAUL_F16};
    haul_dtype              dtype = dtypes[below(4)];
    int64_t                 m = any_size(), n = any_size(), k = below(4) ? any_size() : 1000 + below(5000);
    haul_tensor            *a = matrix(dtype, m, k);
    bool                    either = m == 1 || m > 24 || n == 1;
    haul_tensor *b = either ? matrix(dtype, k, n) : haul_cast(haul_uniform(HAUL_F32, HAUL_SHAPE(k, n), -1, 1), dtype);
    return hash_of(haul_matmul(a, b));
}

static uint64_t reduction(void)
{
    haul_tensor *x = matrix(below(2) ? HAUL_F32 : HAUL_F16, any_size(), any_size() * (1 + below(5)));
    int          axis = (int)below(2);
    switch (below(3)) {
    case 0: return hash_of(haul_sum(x, HAUL_AXES(axis)));
    case 1: return hash_of(haul_mean(x, HAUL_AXES(axis)));
    default: return hash_of(haul_softmax(x, axis));
    }
}

static void compute_all(uint64_t *hashes)
{
    haul_manual_seed(1);
    for (int i = 0; i < RESULTS; i++) {
        haul_scope *scope = haul_scope_push();
        hashes[i] = i < PRODUCTS ? product() : reduction();
        haul_scope_pop(scope);
    }
}

/* The results of a process that uses the level. Returns false if it cannot. */
static bool at_level(const char *level, uint64_t hashes[RESULTS])
{
    const size_t bytes = RESULTS * sizeof *hashes;
    int          ends[2], status = 0;
    size_t       got = 0;
    fflush(NULL);
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        setenv("HAUL_CPU_LEVEL", level, 1);
        if (!haul_device_is_valid(haul_cpu()) || !strstr(haul__cpu_level(), level))
            _exit(77);
        compute_all(hashes);
        for (ssize_t more; got < bytes && (more = write(ends[1], (char *)hashes + got, bytes - got)) > 0;)
            got += (size_t)more;
        _exit(got == bytes ? 0 : 1);
    }
    close(ends[1]);
    for (ssize_t more; got < bytes && (more = read(ends[0], (char *)hashes + got, bytes - got)) > 0;)
        got += (size_t)more;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77));
    return WEXITSTATUS(status) == 0;
}

/* Before anything else uses the CPU, since a process chooses its level once. */
static void test_cpu_levels__same_bits(void **unused)
{
    uint64_t v3[RESULTS], v4[RESULTS];
    int      differ = 0;
    (void)unused;
    if (!at_level("v3", v3) || !at_level("v4", v4)) {
        print_message("this build or this processor has only one of the levels v3 and v4\n");
        skip();
    }
    for (int i = 0; i < RESULTS; i++) {
        assert_true(v3[i] != 0 && v4[i] != 0);
        differ += v3[i] != v4[i];
    }
    assert_int_equal(differ, 0);
}

/* ---- accuracy ---- */

/* The largest error of a row of a million elements times a column of ones, laid out as a row or a column, in relation
 * to the sum. */
static double error_of(haul_tensor *row, bool transposed)
{
    const int64_t count = haul_tensor_count(row);
    haul_tensor  *ones = haul_ones(HAUL_F32, transposed ? HAUL_SHAPE(1, count) : HAUL_SHAPE(count, 1));
    haul_tensor  *got =
        haul_matmul(haul_view(row, HAUL_SHAPE(1, count)), transposed ? haul_transpose(ones, 0, 1) : ones);
    const double want = haul_item(haul_sum(haul_cast(row, HAUL_F64)));
    return fabs(haul_item(got) - want) / want;
}

/* One chain of so many f32 would lose two digits of equal numbers. */
static void test_cpu_levels__long_sums_are_accurate(void **unused)
{
    (void)unused;
    for (int transposed = 0; transposed < 2; transposed++) {
        haul_scope *scope = haul_scope_push();
        haul_manual_seed(1);
        assert_true(error_of(haul_full(HAUL_F32, HAUL_SHAPE(1000000), 0.1), transposed) < 2e-5);
        assert_true(error_of(haul_uniform(HAUL_F32, HAUL_SHAPE(1000000), 0, 1), transposed) < 1e-6);
        haul_scope_pop(scope);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu_levels__same_bits),
        cmocka_unit_test(test_cpu_levels__long_sums_are_accurate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
