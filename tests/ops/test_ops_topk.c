/* The largest and smallest elements along an axis: order, ties, NaN, gradients and errors.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"

static void assert_topk(haul_tensor *x, int64_t k, int axis, bool largest, const double *want, const double *at,
                        int64_t count, const char *what)
{
    haul_tensor *values, *indices;
    assert_succeeded(haul_topk(x, k, axis, largest, &values, &indices), what);
    assert_int_equal(haul_tensor_dtype(values), haul_tensor_dtype(x));
    assert_int_equal(haul_tensor_dtype(indices), HAUL_I64);
    assert_close(values, want, count, 0, what);
    assert_close(indices, at, count, 0, what);
}

static void by_hand(haul_device *device)
{
    static const float v[] = {3, 1, 2, 3, 1, 2};
    haul_tensor       *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), v), device);
    haul_tensor       *row = haul_reshape(x, HAUL_SHAPE(6)), *columns = haul_transpose(x, 0, 1);
    assert_topk(row, 3, 0, true, (double[]){3, 3, 2}, (double[]){0, 3, 2}, 3, "ties of the largest");
    assert_topk(row, 6, -1, false, (double[]){1, 1, 2, 2, 3, 3}, (double[]){1, 4, 2, 5, 0, 3}, 6, "all the smallest");
    assert_topk(x, 2, 1, true, (double[]){3, 2, 3, 2}, (double[]){0, 2, 0, 2}, 4, "rows");
    assert_topk(x, 1, 0, false, (double[]){3, 1, 2}, (double[]){0, 0, 0}, 3, "columns");
    assert_topk(columns, 1, 0, false, (double[]){1, 1}, (double[]){1, 1}, 2, "a view");
    assert_topk(haul_cast(row, HAUL_U8), 2, 0, true, (double[]){3, 3}, (double[]){0, 3}, 2, "integers");
    assert_topk(haul_eq(row, row), 2, 0, false, (double[]){1, 1}, (double[]){0, 1}, 2, "bools");
    assert_topk(row, 0, 0, true, NULL, NULL, 0, "none");
    assert_topk(haul_slice(x, 0, 0, 0, 1), 2, 1, true, NULL, NULL, 0, "of nothing");
}

static void test_topk__order_and_ties(void **state)
{
    (void)state;
    on_devices(by_hand);
}

/* NaN is the largest, and infinities are where they belong. */
static void with_nan(haul_device *device)
{
    static const float v[] = {1, NAN, INFINITY, -INFINITY, NAN, 0};
    haul_tensor       *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(6), v), device), *values, *indices;
    assert_succeeded(haul_topk(x, 3, 0, true, &values, &indices), "NaN");
    assert_close(indices, (double[]){1, 4, 2}, 3, 0, "the largest");
    assert_true(isnan(haul_item(haul_select(values, 0, 0))) && isnan(haul_item(haul_select(values, 0, 1))));
    assert_succeeded(haul_topk(x, 6, 0, false, &values, &indices), "NaN");
    assert_close(indices, (double[]){3, 5, 0, 2, 1, 4}, 6, 0, "the smallest");
    assert_true(isnan(haul_item(haul_select(values, 0, 5))));
}

static void test_topk__nan_is_the_largest(void **state)
{
    (void)state;
    on_devices(with_nan);
}

/* Against haul_argmax, and a whole sort against its definition. */
static void long_rows(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(7, 300), 3, NULL), *values, *indices, *last;
    assert_succeeded(haul_topk(x, 1, 1, true, &values, &indices), "one");
    assert_equal_bits(indices, haul_argmax(x, 1, true), "the largest one");
    assert_succeeded(haul_topk(x, 300, 1, true, &values, &indices), "all");
    haul_tensor *falls = haul_ge(haul_slice(values, 1, 0, 299, 1), haul_slice(values, 1, 1, 300, 1));
    assert_float_equal(haul_item(haul_min(haul_cast(falls, HAUL_F32))), 1, 0);
    assert_succeeded(haul_topk(indices, 300, 1, false, &indices, &last), "indices");
    assert_equal_bits(haul_select(indices, 0, 6), haul_to(haul_arange(HAUL_I64, 0, 300, 1), device),
                      "every index once");
}

static void test_topk__long_rows(void **state)
{
    (void)state;
    on_devices(long_rows);
}

/* The beginning of a sort, whether rows are long, or k is large. */
static void against_sort(haul_device *device)
{
    haul_tensor *x =
        haul_reshape(sample_tensor(device, HAUL_F32, HAUL_SHAPE(7 * 500 * 2), 3, NULL), HAUL_SHAPE(7, 500, 2));
    haul_tensor *sorted, *order, *values, *indices;
    x = haul_cast(haul_mul_scalar(x, 30), HAUL_I32); /* with many equal ones */
    for (int largest = 0; largest < 2; largest++) {
        assert_succeeded(haul_sort(x, 1, largest, &sorted, &order), "sort");
        for (int64_t k = 5; k <= 500; k += 99) {
            assert_succeeded(haul_topk(x, k, 1, largest, &values, &indices), "topk");
            assert_equal_bits(values, haul_slice(sorted, 1, 0, k, 1), "values");
            assert_equal_bits(indices, haul_slice(order, 1, 0, k, 1), "indices");
        }
    }
}

static void test_topk__is_the_beginning_of_a_sort(void **state)
{
    (void)state;
    on_devices(against_sort);
}

static haul_tensor *weighted(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *values, *indices;
    (void)count;
    if (haul_topk(in[0], 3, *(const int *)context, true, &values, &indices))
        return NULL;
    return haul_mul(haul_square(values), values);
}

static haul_tensor *squared_gradient(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *g;
    if (haul_grad(haul_sum(weighted(in, count, context)), in, 1, &g, .create_graph = true))
        return NULL;
    return haul_square(g);
}

static void test_topk__gradients(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(4, 6), 3, NULL), *values, *indices;
    for (int axis = 0; axis < 2; axis++)
        if (haul_grad_check(weighted, &x, 1, &axis) || haul_grad_check(squared_gradient, &x, 1, &axis))
            fail_msg("%s", haul_error_message());
    assert_valid(haul_set_requires_grad(x, true));
    assert_succeeded(haul_topk(x, 2, 0, true, &values, &indices), "topk");
    assert_true(haul_requires_grad(values));
    assert_false(haul_requires_grad(indices));
    haul_scope_pop(scope);
}

static void test_topk__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), *values = NULL, *indices = NULL;
    assert_int_equal(haul_topk(x, 4, 1, true, &values, &indices), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "haul_topk: k is 4, but axis 1 of x has 3 elements"));
    haul_error_clear();
    assert_int_equal(haul_topk(x, -1, 1, true, &values, &indices), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_topk(x, 1, 2, true, &values, &indices), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_int_equal(haul_topk(x, 1, 0, true, &values, NULL), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "indices"));
    haul_error_clear();
    assert_int_equal(haul_topk(HAUL_NONE, 1, 0, true, &values, &indices), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_failed(values);
    assert_failed(indices);
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_topk__order_and_ties),
        cmocka_unit_test(test_topk__nan_is_the_largest),
        cmocka_unit_test(test_topk__is_the_beginning_of_a_sort),
        cmocka_unit_test(test_topk__long_rows),
        cmocka_unit_test(test_topk__gradients),
        cmocka_unit_test(test_topk__errors),
    };
    return cmocka_run_group_tests_name("ops_topk", tests, NULL, NULL);
}
