/* haul_index, haul_index_put, scatters, diagonals, windows and grids: forms, edges, order, gradients and errors.
 *
 * ctest: cuda; labels=threads; cuda-labels=none; ptx */
#include <string.h>

#include "support/failure.h"
#include "support/into.h"

static haul_tensor *counting(haul_device *device, haul_dtype dtype, haul_shape shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    return haul_reshape(haul_to(haul_arange(dtype, 0, (double)count, 1), device), shape);
}

static haul_tensor *integers(haul_device *device, int64_t count, const int64_t *values)
{
    return haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(count), values), device);
}

static void assert_shape(haul_tensor *t, haul_shape want, const char *what)
{
    haul_shape got = haul_tensor_shape(t);
    if (got.ndim != want.ndim)
        fail_msg("%s: %d dimensions, not %d; %s", what, got.ndim, want.ndim, haul_error_message());
    for (int d = 0; d < want.ndim; d++)
        assert_int_equal(got.dims[d], want.dims[d]);
}

/* ---- haul_index ---- */

static void views(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_F32, HAUL_SHAPE(2, 3, 4));
    assert_equal_bits(haul_index(x, HAUL_ALL), x, "all");
    assert_equal_bits(haul_index(x, 1), haul_select(x, 0, 1), "a number");
    assert_equal_bits(haul_index(x, HAUL_REST, -1), haul_select(x, 2, -1), "the rest");
    assert_equal_bits(haul_index(x, HAUL_ALL, HAUL_RANGE(1, HAUL_OPEN, 1), HAUL_RANGE(-3, -1, 1)),
                      haul_slice(haul_slice(x, 1, 1, 3, 1), 2, 1, 3, 1), "ranges");
    assert_shape(haul_index(x, HAUL_NEW, HAUL_REST, HAUL_NEW), HAUL_SHAPE(1, 2, 3, 4, 1), "new axes");
    assert_shape(haul_index(x, 0, HAUL_NEW, 2), HAUL_SHAPE(1, 4), "between numbers");
    assert_int_equal(haul_tensor_ndim(haul_index(x, 1, 2, 3)), 0);
    assert_true(haul_item(haul_index(x, 1, 2, 3)) == 23);
    haul_tensor *row = counting(device, HAUL_F32, HAUL_SHAPE(5));
    assert_close(haul_index(row, HAUL_RANGE(HAUL_OPEN, HAUL_OPEN, -1)), (double[]){4, 3, 2, 1, 0}, 5, 0, "[::-1]");
    assert_close(haul_index(row, HAUL_RANGE(HAUL_OPEN, 1, -2)), (double[]){4, 2}, 2, 0, "[:1:-2]");
    assert_close(haul_index(row, HAUL_RANGE(3, HAUL_OPEN, -2)), (double[]){3, 1}, 2, 0, "[3::-2]");
    assert_close(haul_index(row, HAUL_RANGE(-2, -9, -3)), (double[]){3, 0}, 2, 0, "[-2:-9:-3]");
    assert_close(haul_index(row, HAUL_RANGE(9, 2, -1)), (double[]){4, 3}, 2, 0, "[9:2:-1]");
    assert_close(haul_index(row, HAUL_RANGE(1, 3, -1)), NULL, 0, 0, "[1:3:-1]");
    assert_close(haul_index(row, HAUL_RANGE(HAUL_OPEN, HAUL_OPEN, INT64_MIN)), (double[]){4}, 1, 0, "a long step");
    assert_close(haul_index(haul_slice(row, 0, 0, 0, 1), HAUL_RANGE(HAUL_OPEN, HAUL_OPEN, -1)), NULL, 0, 0, "empty");
}

static void test_index_call__views(void **state)
{
    (void)state;
    on_devices(views);
}

static void tensors(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_F32, HAUL_SHAPE(2, 3, 4)), *i = integers(device, 3, (int64_t[]){1, 0, 1});
    haul_tensor *j = haul_reshape(integers(device, 2, (int64_t[]){3, 2}), HAUL_SHAPE(2, 1));
    assert_equal_bits(haul_index(x, i), haul_index_select(x, 0, i), "one");
    assert_shape(haul_index(x, HAUL_ALL, haul_sub_scalar(j, 1)), HAUL_SHAPE(2, 2, 1, 4), "of two dimensions");
    assert_close(haul_index(x, i, i, i), (double[]){17, 0, 17}, 3, 0, "for all axes");
    assert_shape(haul_index(x, HAUL_ALL, i, j), HAUL_SHAPE(2, 2, 3), "neighbours");
    assert_close(haul_index(x, 1, i, j), (double[]){19, 15, 19, 18, 14, 18}, 6, 0, "values of neighbours");
    assert_shape(haul_index(x, i, HAUL_ALL, j), HAUL_SHAPE(2, 3, 3), "apart: first of all");
    assert_close(haul_index(x, haul_select(i, 0, 0), 2, HAUL_ALL), (double[]){20, 21, 22, 23}, 4, 0, "no dimensions");
    assert_shape(haul_index(x, haul_slice(i, 0, 0, 0, 1)), HAUL_SHAPE(0, 3, 4), "none");
    haul_tensor *mask = haul_gt_scalar(x, 20), *rows = haul_index(mask, 1, HAUL_ALL, 3);
    assert_close(haul_index(x, mask), (double[]){21, 22, 23}, 3, 0, "a mask");
    assert_close(haul_index(x, 0, rows, 1), (double[]){9}, 1, 0, "a mask of rows");
    assert_shape(haul_index(x, HAUL_ALL, haul_index(mask, 1)), HAUL_SHAPE(2, 3), "a mask of two axes");
    assert_shape(haul_index(x, haul_index(mask, HAUL_ALL, HAUL_ALL, 3)), HAUL_SHAPE(1, 4), "a mask of the first axes");
    assert_close(haul_index(x, i, 0, haul_gt_scalar(haul_index(x, 0, 0), 0)), (double[]){13, 2, 15}, 3, 0,
                 "and indices");
}

static void test_index_call__tensors(void **state)
{
    (void)state;
    on_devices(tensors);
}

static void puts_(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_F32, HAUL_SHAPE(2, 3)), *i = integers(device, 3, (int64_t[]){1, 0, 1});
    haul_tensor *v = haul_add_scalar(counting(device, HAUL_F32, HAUL_SHAPE(3)), 10), *one = haul_index(v, 0);
    assert_close(haul_index_put(x, v, 1), (double[]){0, 1, 2, 10, 11, 12}, 6, 0, "a row");
    assert_close(haul_index_put(x, one, HAUL_ALL, HAUL_RANGE(HAUL_OPEN, HAUL_OPEN, -2)),
                 (double[]){10, 1, 10, 10, 4, 10}, 6, 0, "a number backwards");
    assert_close(haul_index_put(x, v, 0, i), (double[]){11, 12, 2, 3, 4, 5}, 6, 0, "the last one wins");
    assert_close(haul_index_put_add(x, v, 0, i), (double[]){11, 23, 2, 3, 4, 5}, 6, 0, "added");
    assert_close(haul_index_put(x, one, haul_gt_scalar(x, 3)), (double[]){0, 1, 2, 3, 10, 10}, 6, 0, "a mask");
    assert_close(haul_index_put(x, v, haul_gt_scalar(x, 2)), (double[]){0, 1, 2, 10, 11, 12}, 6, 0, "to a mask");
    assert_close(haul_index_put(haul_transpose(x, 0, 1), one, 2), (double[]){0, 3, 1, 4, 10, 10}, 6, 0, "of a view");
    assert_int_equal(haul_tensor_dtype(haul_index_put(haul_cast(x, HAUL_I32), v, 1)), HAUL_F32);
}

static void test_index_call__puts(void **state)
{
    (void)state;
    on_devices(puts_);
}

/* ---- scatters ---- */

static void scatters(haul_device *device)
{
    enum { MANY = 5000 };
    haul_tensor *x = counting(device, HAUL_F32, HAUL_SHAPE(4)), *i = integers(device, 3, (int64_t[]){2, 0, 2});
    haul_tensor *v = haul_add_scalar(counting(device, HAUL_F32, HAUL_SHAPE(3)), 10);
    assert_close(haul_scatter(x, 0, i, v), (double[]){11, 1, 12, 3}, 4, 0, "the last one wins");
    assert_close(haul_index_copy(x, 0, i, v), (double[]){11, 1, 12, 3}, 4, 0, "of parts, too");
    assert_close(haul_index_fill(x, 0, i, -1), (double[]){-1, 1, -1, 3}, 4, 0, "filled");
    assert_close(haul_index_add(x, 0, i, v), (double[]){11, 1, 24, 3}, 4, 0, "added");
    assert_close(haul_index_add(haul_cast(x, HAUL_I32), 0, i, haul_cast(v, HAUL_I32)), (double[]){11, 1, 24, 3}, 4, 0,
                 "integers");
    haul_tensor *none = haul_slice(i, 0, 0, 0, 1), *nothing = haul_slice(v, 0, 0, 0, 1);
    assert_equal_bits(haul_scatter(x, 0, none, nothing), x, "nothing");
    assert_equal_bits(haul_index_copy(x, 0, none, nothing), x, "nothing copied");
    assert_equal_bits(haul_scatter_reduce(x, 0, none, nothing, HAUL_SCATTER_MAX, .exclude_self = true), x,
                      "no extreme");
    haul_tensor *nan = haul_masked_fill(v, haul_eq_scalar(v, 10), NAN);
    assert_true(isnan(haul_item(haul_index(haul_scatter_reduce(x, 0, i, nan, HAUL_SCATTER_MAX), 2))));
    assert_true(isnan(haul_item(haul_index(haul_scatter_reduce(x, 0, i, nan, HAUL_SCATTER_MIN), 2))));
    /* a long line, which GPUs sort */
    haul_tensor *at =
        haul_cast(haul_floor(haul_abs(haul_mul_scalar(sample_tensor(device, HAUL_F32, HAUL_SHAPE(MANY), 3, NULL), 50))),
                  HAUL_I64);
    haul_tensor *values = counting(device, HAUL_F32, HAUL_SHAPE(MANY));
    haul_tensor *zeros = haul_zeros_like(haul_index(values, HAUL_RANGE(0, 300, 1)));
    assert_equal_bits(haul_scatter(zeros, 0, at, values), haul_scatter_reduce(zeros, 0, at, values, HAUL_SCATTER_MAX),
                      "the last of rising values is the largest");
}

static void test_index_call__scatters(void **state)
{
    (void)state;
    on_devices(scatters);
}

/* The gradient of a source goes to the element that won. */
static void winners(haul_device *device)
{
    haul_tensor *v = haul_set_requires_grad(haul_detach(counting(device, HAUL_F32, HAUL_SHAPE(3))), true), *g;
    haul_tensor *x = haul_set_requires_grad(haul_detach(counting(device, HAUL_F32, HAUL_SHAPE(4))), true), *gx;
    haul_tensor *i = integers(device, 3, (int64_t[]){2, 0, 2}), *both[] = {v, x}, *grads[2];
    haul_tensor *y = haul_sum(haul_mul(haul_scatter(x, 0, i, v), haul_add_scalar(haul_detach(x), 1)));
    assert_succeeded(haul_grad(y, both, 2, grads), "gradients");
    g = grads[0];
    gx = grads[1];
    assert_close(g, (double[]){0, 1, 3}, 3, 0, "of the source");
    assert_close(gx, (double[]){0, 2, 0, 4}, 4, 0, "of x");
    y = haul_sum(haul_mul(haul_index_put(x, v, i), haul_add_scalar(haul_detach(x), 1)));
    assert_succeeded(haul_grad(y, both, 2, grads), "gradients of haul_index_put");
    assert_close(grads[0], (double[]){0, 1, 3}, 3, 0, "of the values");
    assert_close(grads[1], (double[]){0, 2, 0, 4}, 4, 0, "of x, too");
}

static void test_index_call__gradients_of_winners(void **state)
{
    (void)state;
    on_devices(winners);
}

/* ---- views, grids, windows ---- */

static void shapes(haul_device *device)
{
    haul_tensor *x = counting(device, HAUL_F32, HAUL_SHAPE(3, 4)), *grids[3];
    assert_close(haul_diagonal(x, 0, 0, 1), (double[]){0, 5, 10}, 3, 0, "main");
    assert_close(haul_diagonal(x, 1, -2, -1), (double[]){1, 6, 11}, 3, 0, "above");
    assert_close(haul_diagonal(x, -2, 0, 1), (double[]){8}, 1, 0, "below");
    assert_close(haul_diagonal(x, 4, 0, 1), NULL, 0, 0, "outside");
    assert_close(haul_diagonal(x, INT64_MIN, 0, 1), NULL, 0, 0, "far outside");
    assert_shape(haul_diag_embed(haul_slice(x, 1, 0, 0, 1), 2), HAUL_SHAPE(3, 2, 2), "a diagonal without elements");
    assert_shape(haul_windows(x, 1, 4, 9), HAUL_SHAPE(3, 1, 4), "one window");
    assert_succeeded(
        haul_meshgrid((haul_tensor *[]){haul_index(x, 0), haul_index(x, 1, 1), haul_index(x, 2)}, 3, grids), "grids");
    assert_shape(grids[1], HAUL_SHAPE(4, 1, 4), "a grid");
    haul_tensor *lines = haul_linspace(HAUL_F32, 0.1, 0.7, 7);
    assert_true(haul_item(haul_index(lines, 0)) == 0.1F && haul_item(haul_index(lines, 6)) == 0.7F);
    assert_close(haul_linspace(HAUL_F32, 3, 5, 1), (double[]){3}, 1, 0, "one number");
    assert_close(haul_linspace(HAUL_F32, 3, 5, 0), NULL, 0, 0, "none");
    assert_close(haul_eye(HAUL_BOOL, 2, 2), (double[]){1, 0, 0, 1}, 4, 0, "bools");
    assert_shape(haul_eye(HAUL_F32, 0, 3), HAUL_SHAPE(0, 3), "no rows");
}

static void test_index_call__shapes(void **state)
{
    (void)state;
    on_devices(shapes);
}

/* ---- errors ---- */

static void assert_says(haul_tensor *t, const char *text)
{
    assert_failed(t);
    if (!strstr(haul_error_message(), text))
        fail_msg("'%s' is not in '%s'", text, haul_error_message());
    haul_error_clear();
}

static void test_index_call__wrong_arguments(void **state)
{
    (void)state;
    haul_scope            *scope = haul_scope_push();
    haul_tensor           *x = counting(haul_cpu(), HAUL_F32, HAUL_SHAPE(2, 3)), *grids[2];
    haul_tensor           *i = haul_arange_i64(0, 2, 1), *big = haul_arange_i64(2, 4, 1), *row = haul_select(x, 0, 0);
    const haul_index_items wrong = {.count = 1}, many = {.count = 13};
    assert_says(haul_index(x, 2), "haul_index: index 2 is out of range");
    assert_says(haul_index(x, 0, 0, 0), "items for more axes than the 2 of x");
    assert_says(haul_index(x, HAUL_REST, HAUL_REST), "HAUL_REST occurs 2 times");
    assert_says(haul_index(x, HAUL_RANGE(0, 1, 0)), "item 0 is a range with step 0");
    assert_says(haul_index(x, row), "item 0 is f32");
    assert_says(haul_index(x, HAUL_ALL, haul_gt_scalar(haul_slice(row, 0, 0, 2, 1), 0)), "item 1 is a mask");
    assert_says(haul_index(x, i, big), "index[1] is 3, but axis 1 has 3 elements");
    assert_says(haul_index(x, big), "index[0] is 2, but axis 0 has 2 elements");
    assert_says(haul_index(x, haul_index(x, 7)), "index 7 is out of range");
    assert_says(haul_index_with(x, &wrong), "item 0 is none of");
    assert_says(haul_index_with(x, &many), "13 items");
    assert_says(haul_index_with(x, NULL), "haul_index");
    assert_says(haul_index_put(x, row, HAUL_ALL, i), "haul_index_put");
    assert_says(haul_index_put(x, NULL, 0), "haul_index_put");
    assert_says(haul_index_put_add_with(x, row, NULL), "haul_index_put_add");
    assert_says(haul_scatter(row, 0, big, row), "source has shape [3]");
    assert_says(haul_scatter(row, 0, big, haul_slice(row, 0, 0, 2, 1)), "index[1] is 3");
    assert_says(haul_scatter_reduce(row, 0, big, haul_slice(row, 0, 0, 2, 1), HAUL_SCATTER_MAX), "index[1] is 3");
    assert_says(haul_scatter_reduce(i, 0, i, i, HAUL_SCATTER_MEAN), "a mean needs a floating dtype");
    assert_says(haul_scatter_reduce(row, 0, big, row, HAUL_SCATTER_SUM), "source has shape [3]");
    assert_says(haul_index_add(x, 0, i, row), "source has shape [3]");
    assert_says(haul_index_copy(x, 0, big, x), "index[0] is 2");
    assert_says(haul_index_fill(x, 0, x, 1), "haul_index_fill");
    assert_says(haul_linspace(HAUL_I32, 0, 1, 5), "use a floating dtype");
    assert_says(haul_linspace(HAUL_F32, 0, INFINITY, 5), "both must be finite");
    assert_says(haul_linspace(HAUL_F32, 0, 1, -5), "count is -5");
    assert_says(haul_eye(HAUL_F32, -1, 2), "-1 rows");
    assert_says(haul_diagonal(row, 0, 0, 1), "at least two dimensions");
    assert_says(haul_diagonal(x, 0, 1, -1), "both axis 1");
    assert_says(haul_diag_embed(row, INT64_MAX), "overflows");
    assert_says(haul_windows(x, 1, 4, 1), "size is 4");
    assert_says(haul_windows(x, 1, 2, 0), "step is 0");
    assert_says(haul_outer(x, row), "a has shape [2,3]");
    assert_says(haul_kron(haul_reshape(x, HAUL_SHAPE(1, 1, 1, 2, 3)), x), "at most 4 dimensions");
    assert_says(haul_unfold(x, 3), "it must be [N, C, H, W]");
    haul_tensor *picture = haul_reshape(x, HAUL_SHAPE(1, 1, 2, 3));
    assert_says(haul_unfold(picture, 4), "does not fit");
    assert_says(haul_unfold(picture, -1), "a window of -1");
    assert_says(haul_fold(picture, 2, 3, 1), "it must be [N, C size_h size_w, windows]");
    assert_says(haul_fold(haul_reshape(x, HAUL_SHAPE(1, 2, 3)), 4, 4, 2), "a multiple of 4 rows");
    assert_true(haul_meshgrid((haul_tensor *[]){row, x}, 2, grids) == HAUL_SHAPE);
    assert_failed(grids[0]);
    haul_error_clear();
    assert_true(haul_meshgrid(NULL, 2, grids) && haul_meshgrid(&row, 9, grids) && haul_meshgrid(&row, 1, NULL));
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_index_call__views),
        cmocka_unit_test(test_index_call__tensors),
        cmocka_unit_test(test_index_call__puts),
        cmocka_unit_test(test_index_call__scatters),
        cmocka_unit_test(test_index_call__gradients_of_winners),
        cmocka_unit_test(test_index_call__shapes),
        cmocka_unit_test(test_index_call__wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
