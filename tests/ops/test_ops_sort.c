/* Sorting: order, stability, NaN and zeros, long rows, axes, gradients.
 *
 * ctest: cuda; labels=threads; cuda-labels=none */
#include "support/failure.h"
#include "support/into.h"

static void by_hand(haul_device *device)
{
    static const float v[] = {3, 1, 2, 3, 1, 2};
    haul_tensor       *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), v), device), *values, *indices;
    assert_succeeded(haul_sort(x, 1, false, &values, &indices), "rows");
    assert_close(values, (double[]){1, 2, 3, 1, 2, 3}, 6, 0, "rows");
    assert_close(indices, (double[]){1, 2, 0, 1, 2, 0}, 6, 0, "rows");
    assert_succeeded(haul_sort(haul_flatten(x, 0), 0, true, &values, &indices), "equal ones");
    assert_close(values, (double[]){3, 3, 2, 2, 1, 1}, 6, 0, "equal ones");
    assert_close(indices, (double[]){0, 3, 2, 5, 1, 4}, 6, 0, "equal ones keep their order");
    assert_close(haul_argsort(haul_transpose(x, 0, 1), 0, true), (double[]){0, 0, 2, 2, 1, 1}, 6, 0,
                 "columns of a view");
    assert_close(haul_argsort(haul_gt_scalar(x, 1), 1, false), (double[]){1, 0, 2, 1, 0, 2}, 6, 0, "bools");
    assert_succeeded(haul_sort(haul_select(haul_flatten(x, 0), 0, 2), -1, true, &values, &indices), "0-d");
    assert_close(values, (double[]){2}, 1, 0, "0-d");
    assert_close(indices, (double[]){0}, 1, 0, "0-d");
    assert_close(haul_argsort(haul_slice(x, 1, 0, 0, 1), 1, false), NULL, 0, 0, "nothing");
    assert_close(haul_argsort(haul_slice(x, 1, 0, 0, 1), 0, false), NULL, 0, 0, "of nothing");
}

static void test_sort__by_hand(void **state)
{
    (void)state;
    on_devices(by_hand);
}

static void special(haul_device *device)
{
    static const double v[] = {0.0, NAN, -0.0, INFINITY, -INFINITY, -NAN, 0.0, -5e-324};
    static const struct {
        haul_dtype dtype;
        double     up[8], down[8];
    } rows[] = {{HAUL_F64, {4, 7, 0, 2, 6, 3, 1, 5}, {1, 5, 3, 0, 2, 6, 7, 4}},
                {HAUL_F32, {4, 0, 2, 6, 7, 3, 1, 5}, {1, 5, 3, 0, 2, 6, 7, 4}},
                {HAUL_F16, {4, 0, 2, 6, 7, 3, 1, 5}, {1, 5, 3, 0, 2, 6, 7, 4}}};
    for (int i = 0; i < 3; i++) {
        haul_tensor *x = haul_to(haul_cast(haul_from_host(HAUL_F64, HAUL_SHAPE(8), v), rows[i].dtype), device), *order;
        assert_close(haul_argsort(x, 0, false), rows[i].up, 8, 0, "ascending");
        assert_close(haul_argsort(x, 0, true), rows[i].down, 8, 0, "descending");
        assert_succeeded(haul_sort(x, 0, false, &x, &order), "values");
        assert_true(signbit(haul_item(haul_select(x, 0, i ? 2 : 3)))); /* -0 is still one */
    }
    haul_tensor *ends =
        haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(4), (int64_t[]){-1, INT64_MAX, INT64_MIN, 0}), device);
    assert_close(haul_argsort(ends, 0, false), (double[]){2, 0, 3, 1}, 4, 0, "i64");
    assert_close(
        haul_argsort(haul_to(haul_from_host(HAUL_I8, HAUL_SHAPE(3), (int8_t[]){0, -128, 127}), device), 0, true),
        (double[]){2, 0, 1}, 3, 0, "i8");
}

static void test_sort__nan_zeros_and_ends(void **state)
{
    (void)state;
    on_devices(special);
}

/* ---- against qsort ---- */

typedef struct element {
    double  value;
    int64_t index;
} element;

static int by_value(const void *a, const void *b)
{
    const element *p = a, *q = b;
    return p->value != q->value ? (p->value > q->value) - (p->value < q->value)
                                : (p->index > q->index) - (p->index < q->index);
}

static void assert_sorted(haul_device *device, haul_dtype dtype, int64_t rows, int64_t n, bool descending)
{
    double      *v;
    haul_tensor *x = sample_tensor(haul_cpu(), dtype, HAUL_SHAPE(rows, n), (unsigned)n, &v), *values, *indices;
    if (dtype == HAUL_I64) { /* many equal ones */
        x = haul_cast(haul_mul_scalar(sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(rows, n), 3, NULL), 40), dtype);
        assert_int_equal(read_values(x, v, rows * n), HAUL_OK);
    }
    element *want = calloc((size_t)(rows * n), sizeof *want);
    double  *got = calloc((size_t)(rows * n), sizeof *got), *at = calloc((size_t)(rows * n), sizeof *at);
    assert_true(want && got && at);
    for (int64_t i = 0; i < rows * n; i++)
        want[i] = (element){descending ? -v[i] : v[i], i % n};
    for (int64_t r = 0; r < rows; r++)
        qsort(want + r * n, (size_t)n, sizeof *want, by_value);
    assert_succeeded(haul_sort(haul_to(x, device), 1, descending, &values, &indices), "sort");
    assert_int_equal(read_values(values, got, rows * n), HAUL_OK);
    assert_int_equal(read_values(indices, at, rows * n), HAUL_OK);
    for (int64_t i = 0; i < rows * n; i++)
        if (got[i] != (descending ? -want[i].value : want[i].value) || (int64_t)at[i] != want[i].index)
            fail_msg("%lld rows of %lld: element %lld", (long long)rows, (long long)n, (long long)i);
    assert_equal_bits(haul_argsort(haul_to(x, device), 1, descending), indices, "argsort");
    free(v);
    free(want);
    free(got);
    free(at);
}

static void long_rows(haul_device *device)
{
    static const int64_t lengths[] = {1, 6, 7, 15, 16, 40, 64, 65, 1000, 4097};
    for (int i = 0; i < 10; i++) {
        assert_sorted(device, HAUL_F32, 3, lengths[i], i % 2);
        assert_sorted(device, HAUL_F64, 2, lengths[i], i % 2);
        assert_sorted(device, HAUL_I64, 2, lengths[i], i % 2);
    }
    assert_sorted(device, HAUL_F32, 2, 200003, false); /* several blocks on every device */
    assert_sorted(device, HAUL_I64, 1, 150000, true);
}

static void test_sort__long_rows(void **state)
{
    (void)state;
    on_devices(long_rows);
}

/* ---- gradients, targets, errors ---- */

static haul_tensor *weighted(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *values, *indices;
    (void)count;
    if (haul_sort(in[0], *(const int *)context, true, &values, &indices))
        return NULL;
    return haul_mul(haul_square(values), haul_cumsum(values, 0));
}

static haul_tensor *squared_gradient(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *g;
    if (haul_grad(haul_sum(weighted(in, count, context)), in, 1, &g, .create_graph = true))
        return NULL;
    return haul_square(g);
}

static void test_sort__gradients(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(4, 5), 3, NULL);
    for (int axis = 0; axis < 2; axis++)
        if (haul_grad_check(weighted, &x, 1, &axis) || haul_grad_check(squared_gradient, &x, 1, &axis, .step = 1e-4))
            fail_msg("%s", haul_error_message());
    assert_false(haul_requires_grad(haul_argsort(haul_set_requires_grad(x, true), 0, false)));
    haul_scope_pop(scope);
}

static void errors(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 5), 1, NULL), *values;
    assert_refused(haul_argsort(x, 2, false), HAUL_INVALID_ARGUMENT, "haul_argsort");
    haul_error_clear();
    assert_int_equal(haul_sort(x, 1, false, &values, NULL), HAUL_INVALID_ARGUMENT);
    assert_failed(values);
    haul_error_clear();
}

static void test_sort__errors(void **state)
{
    (void)state;
    on_devices(errors);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sort__by_hand),   cmocka_unit_test(test_sort__nan_zeros_and_ends),
        cmocka_unit_test(test_sort__long_rows), cmocka_unit_test(test_sort__gradients),
        cmocka_unit_test(test_sort__errors),
    };
    return cmocka_run_group_tests_name("ops_sort", tests, NULL, NULL);
}
