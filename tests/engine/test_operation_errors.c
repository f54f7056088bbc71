/* Operations refuse bad operands by name, on every device: the error has the operation, the operand and its fault.
 * Faults that only the values show, as indices out of range, appear at the call on the CPU and at the next wait
 * elsewhere.
 *
 * ctest: cuda; cuda-labels=none */
#include "support/linalg.h"

typedef haul_tensor *bad_call(void);

typedef struct bad {
    const char *operation;
    bad_call   *call;
    haul_status status;
    const char *words;
} bad;

#define F(...)     haul_ones(HAUL_F32, HAUL_SHAPE(__VA_ARGS__))
#define EMPTY(...) haul_slice(F(__VA_ARGS__), -1, 0, 0, 1)
#define BAD(name, call)                                                                                                \
    static haul_tensor *name(void)                                                                                     \
    {                                                                                                                  \
        haul_tensor *v[4] = {NULL};                                                                                    \
        (void)v;                                                                                                       \
        return call;                                                                                                   \
    }

static haul_tensor *at(int64_t a, int64_t b)
{
    return haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(2), (int64_t[]){a, b}), haul_current_device());
}

static haul_tensor *f2(float a, float b)
{
    return haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2), (float[]){a, b}), haul_current_device());
}

/* A mask of floats that has a NaN: masks are bool. */
static haul_tensor *nan_mask(void)
{
    return f2(1, NAN);
}

/* ---- linear algebra ---- */

BAD(inverse_singular, haul_inverse(F(2, 2)))
BAD(inverse_wide, haul_inverse(F(2, 3)))
BAD(inverse_integer, haul_inverse(haul_ones(HAUL_I64, HAUL_SHAPE(2, 2))))
BAD(solve_singular, haul_solve(F(2, 2), F(2, 1)))
BAD(solve_rows, haul_solve(haul_eye(HAUL_F32, 2, 2), F(3, 1)))
BAD(cholesky_indefinite, haul_cholesky(haul_neg(haul_eye(HAUL_F32, 2, 2))))
BAD(cholesky_nan, haul_cholesky(haul_full(HAUL_F32, HAUL_SHAPE(2, 2), NAN)))
BAD(triangular_zero, haul_solve_triangular(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 2)), F(2, 1)))
BAD(lu_wide, (haul_lu(F(2, 3), &v[0], &v[1]), v[0]))
BAD(qr_vector, (haul_qr(F(3), &v[0], &v[1]), v[0]))
BAD(svd_vector, (haul_svd(F(3), &v[0], &v[1], &v[2]), v[0]))
BAD(svd_half, (haul_svd(haul_ones(HAUL_F16, HAUL_SHAPE(2, 2)), &v[0], &v[1], &v[2]), v[0]))
BAD(eigh_wide, (haul_eigh(F(2, 3), &v[0], &v[1]), v[0]))
BAD(slogdet_wide, (haul_slogdet(F(2, 3), &v[0], &v[1]), v[0]))
BAD(det_vector, haul_det(F(3)))
BAD(lstsq_rows, haul_lstsq(F(3, 2), F(4, 1)))
BAD(matrix_power_singular, haul_matrix_power(F(2, 2), -1))
BAD(trace_vector, haul_trace(F(3)))
BAD(einsum_letters, haul_einsum("ij,jk->iz", (haul_tensor *[]){F(2, 3), F(3, 2)}, 2))
BAD(outer_matrix, haul_outer(F(2, 2), F(2)))
BAD(cov_volume, haul_cov(F(2, 2, 2)))

/* ---- shapes ---- */

BAD(diagonal_axes, haul_diagonal(F(2, 3), 0, 1, 1))
BAD(diag_embed_scalar, haul_diag_embed(haul_scalar(1), 0))
BAD(tril_vector, haul_tril(F(3), 0))
BAD(windows_long, haul_windows(F(3), 0, 4, 1))
BAD(windows_step, haul_windows(F(3), 0, 2, 0))
BAD(unfold_rows, haul_unfold(F(3, 3), 2))
BAD(unfold_large, haul_unfold(F(1, 1, 2, 2), 3))
BAD(fold_columns, haul_fold(F(1, 4, 5), 3, 3, 2))
BAD(meshgrid_matrix, (haul_meshgrid((haul_tensor *[]){F(2, 2)}, 1, v), v[0]))
BAD(pixel_shuffle_channels, haul_pixel_shuffle(F(1, 3, 2, 2), 2))
BAD(pixel_unshuffle_rows, haul_pixel_unshuffle(F(1, 1, 3, 2), 2))
BAD(eye_negative, haul_eye(HAUL_F32, -1, 2))
BAD(linspace_negative, haul_linspace(HAUL_F32, 0, 1, -1))
BAD(linspace_integer, haul_linspace(HAUL_I64, 0, 1, 5))

/* ---- indices and masks ---- */

BAD(index_select_out, haul_index_select(F(3, 2), 0, at(0, 3)))
BAD(index_select_negative, haul_index_select(F(3, 2), 0, at(-1, 0)))
BAD(gather_out, haul_gather(F(3), 0, at(0, 3)))
BAD(scatter_out, haul_scatter(F(3), 0, at(0, 3), F(2)))
BAD(scatter_shape, haul_scatter(F(3), 0, at(0, 1), F(3)))
BAD(scatter_float, haul_scatter(F(3), 0, F(2), F(2)))
BAD(scatter_add_out, haul_scatter_add(F(3), 0, at(-1, 0), F(2)))
BAD(scatter_reduce_out, haul_scatter_reduce(F(3), 0, at(0, 3), F(2), HAUL_SCATTER_MAX))
BAD(index_add_out, haul_index_add(F(3), 0, at(0, 3), F(2)))
BAD(index_add_rows, haul_index_add(F(3), 0, at(0, 1), F(3)))
BAD(index_copy_out, haul_index_copy(F(3), 0, at(0, 3), F(2)))
BAD(index_fill_out, haul_index_fill(F(3), 0, at(0, 3), 1))
BAD(index_put_out, haul_index_put(F(3), F(2), at(0, 3)))
BAD(index_put_add_out, haul_index_put_add(F(3), F(2), at(0, 3)))
BAD(one_hot_out, haul_one_hot(at(0, 3), 3))
BAD(bincount_negative, haul_bincount(at(0, -1), .size = 4))
BAD(bincount_float, haul_bincount(F(2)))
BAD(masked_select_nan, haul_masked_select(F(2), nan_mask()))
BAD(masked_scatter_nan, haul_masked_scatter(F(2), nan_mask(), F(2)))
BAD(masked_fill_nan, haul_masked_fill(F(2), nan_mask(), 1))
BAD(where_nan, haul_where(nan_mask(), F(2), F(2)))
BAD(masked_select_shape, haul_masked_select(F(2), haul_gt_scalar(F(3), 0)))
BAD(searchsorted_rows, haul_searchsorted(F(2, 3), F(3, 2), false))
BAD(bucketize_matrix, haul_bucketize(F(3), F(2, 2), false))
BAD(histogram_bins, haul_histogram(F(3), .bins = -1))
BAD(histogram_bounds, haul_histogram(F(3), .low = 2, .high = 1))
BAD(unique_size, haul_unique(F(3), .size = -1))

/* ---- along axes ---- */

BAD(cummax_axis, (haul_cummax(F(3), 1, &v[0], &v[1]), v[0]))
BAD(cummin_axis, (haul_cummin(F(3), 1, &v[0], &v[1]), v[0]))
BAD(median_empty, (haul_median(EMPTY(2, 3), 1, false, &v[0], &v[1]), v[0]))
BAD(most_common_empty, (haul_most_common(EMPTY(2, 3), 1, false, &v[0], &v[1]), v[0]))
BAD(max_empty, haul_max(EMPTY(2, 3)))
BAD(argmax_empty, haul_argmax(EMPTY(2, 3), 1, false))
BAD(quantile_above, haul_quantile(F(3), 1.5))
BAD(quantile_empty, haul_quantile(EMPTY(2, 3), 0.5))
BAD(trapezoid_places, haul_trapezoid(F(3), .x = F(4)))
BAD(cosine_shapes, haul_cosine_similarity(F(2, 3), F(2, 4), 1))
BAD(normalize_axis, haul_normalize(F(2, 3), 2))
BAD(cdist_width, haul_cdist(F(2, 3), F(2, 4)))

/* ---- layers and losses ---- */

BAD(conv3d_channels, haul_conv3d(F(1, 2, 3, 3, 3), F(1, 3, 2, 2, 2)))
BAD(conv_transpose3d_channels, haul_conv_transpose3d(F(1, 2, 3, 3, 3), F(3, 1, 2, 2, 2)))
BAD(max_pool3d_large, haul_max_pool3d(F(1, 1, 2, 2, 2), 3))
BAD(max_unpool2d_out, haul_max_unpool2d(F(1, 1, 1, 2), haul_reshape(at(0, 4), HAUL_SHAPE(1, 1, 1, 2)), 2, 2))
BAD(group_norm_groups, haul_group_norm(F(2, 3, 4), 2))
BAD(instance_norm_vector, haul_instance_norm(F(2, 3)))
BAD(ctc_loss_labels, haul_ctc_loss(F(4, 1, 3), haul_reshape(at(1, 3), HAUL_SHAPE(1, 2))))
BAD(nll_loss_out, haul_nll_loss(F(2, 3), at(0, 3)))
BAD(multi_margin_out, haul_multi_margin_loss(F(2, 3), at(0, 3)))
BAD(hinge_shapes, haul_hinge_embedding_loss(F(2), F(3)))
BAD(triplet_shapes, haul_triplet_margin_loss(F(2, 3), F(2, 3), F(2, 4)))

static const bad rows[] = {
    {"haul_inverse", inverse_singular, HAUL_INVALID_ARGUMENT,
     "the matrix in a is singular: column 1 has no nonzero pivot"},
    {"haul_inverse", inverse_wide, HAUL_SHAPE, "a has shape [2,3], but square matrices [..., n, n] are expected"},
    {"haul_inverse", inverse_integer, HAUL_INVALID_ARGUMENT,
     "the matrix in a is singular: column 1 has no nonzero pivot"},
    {"haul_solve", solve_singular, HAUL_INVALID_ARGUMENT, "the matrix in a is singular: column 1 has no nonzero pivot"},
    {"haul_solve", solve_rows, HAUL_SHAPE, "a is [2,2] and b is [3,1]: b must be [..., 2, k], or a vector [2]"},
    {"haul_cholesky", cholesky_indefinite, HAUL_INVALID_ARGUMENT,
     "the matrix in a is not positive definite: column 0 has no"},
    {"haul_cholesky", cholesky_nan, HAUL_INVALID_ARGUMENT, "the matrix in a is not positive definite: column 0 has no"},
    {"haul_solve_triangular", triangular_zero, HAUL_INVALID_ARGUMENT,
     "the matrix in a is singular: column 0 has no nonzero pivot"},
    {"haul_lu", lu_wide, HAUL_SHAPE, "a has shape [2,3], but square matrices [..., n, n] are expected"},
    {"haul_qr", qr_vector, HAUL_SHAPE, "a has shape [3], but matrices [..., m, n] are expected"},
    {"haul_svd", svd_vector, HAUL_SHAPE, "a has shape [3], but matrices [..., m, n] are expected"},
    {"haul_svd", svd_half, HAUL_DTYPE, "a is f16, but f32 or f64 is expected"},
    {"haul_eigh", eigh_wide, HAUL_SHAPE, "a has shape [2,3], but square matrices [..., n, n] are expected"},
    {"haul_slogdet", slogdet_wide, HAUL_SHAPE, "a has shape [2,3], but square matrices [..., n, n] are expected"},
    {"haul_det", det_vector, HAUL_SHAPE, "a has shape [3], but square matrices [..., n, n] are expected"},
    {"haul_lstsq", lstsq_rows, HAUL_SHAPE, "a is [3,2] and b is [4,1]: b must be [..., 3, k], or a vector [3]"},
    {"haul_matrix_power", matrix_power_singular, HAUL_INVALID_ARGUMENT,
     "the matrix in a is singular: column 1 has no nonzero pivot"},
    {"haul_trace", trace_vector, HAUL_SHAPE, "x has shape [3], but matrices [..., m, n] are expected"},
    {"haul_einsum", einsum_letters, HAUL_INVALID_ARGUMENT,
     "\"ij,jk->iz\", character 10: each label of the result must be in an"},
    {"haul_outer", outer_matrix, HAUL_SHAPE, "a has shape [2,2], but one dimension is expected"},
    {"haul_cov", cov_volume, HAUL_SHAPE, "x has shape [2,2,2], but [variables, observations] or"},
    {"haul_diagonal", diagonal_axes, HAUL_INVALID_ARGUMENT, "rows and columns are both axis 1"},
    {"haul_diag_embed", diag_embed_scalar, HAUL_SHAPE,
     "x has shape [], but 1 to 7 dimensions are expected: the result"},
    {"haul_tril", tril_vector, HAUL_SHAPE, "x has shape [3], but at least two dimensions are expected"},
    {"haul_windows", windows_long, HAUL_INVALID_ARGUMENT, "size is 4 and step is 1, but axis 0 of x has 3 elements"},
    {"haul_windows", windows_step, HAUL_INVALID_ARGUMENT, "size is 2 and step is 0, but axis 0 of x has 3 elements"},
    {"haul_unfold", unfold_rows, HAUL_SHAPE, "x has shape [3,3], but it must be [N, C, H, W]"},
    {"haul_unfold", unfold_large, HAUL_SHAPE, "a window with its dilation does not fit into 2 x 2 elements with"},
    {"haul_fold", fold_columns, HAUL_SHAPE, "x is [1, 4, 5]"},
    {"haul_meshgrid", meshgrid_matrix, HAUL_SHAPE, "tensor 0 has 2 dimensions"},
    {"haul_pixel_shuffle", pixel_shuffle_channels, HAUL_SHAPE, "x has shape [1,3,2,2] and 3 channels"},
    {"haul_pixel_unshuffle", pixel_unshuffle_rows, HAUL_SHAPE, "x has shape [1,1,3,2]"},
    {"haul_eye", eye_negative, HAUL_SHAPE, "-1 rows and 2 columns"},
    {"haul_linspace", linspace_negative, HAUL_INVALID_ARGUMENT, "count is -1"},
    {"haul_linspace", linspace_integer, HAUL_DTYPE, "i64 holds no fractions"},
    {"haul_index_select", index_select_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but axis 0 has 3 elements"},
    {"haul_index_select", index_select_negative, HAUL_INVALID_ARGUMENT, "index[0] is -1, but axis 0 has 3 elements"},
    {"haul_gather", gather_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but axis 0 has 3 elements"},
    {"haul_scatter", scatter_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but axis 0 has 3 elements"},
    {"haul_scatter", scatter_shape, HAUL_SHAPE, "source has shape [3], but the shape of index is expected"},
    {"haul_scatter", scatter_float, HAUL_DTYPE,
     "index is f32, but indices are integers: i64, i32 or u8; convert it with haul_cast"},
    {"haul_scatter_add", scatter_add_out, HAUL_INVALID_ARGUMENT, "index[0] is -1, but axis 0 has 3 elements"},
    {"haul_scatter_reduce", scatter_reduce_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but axis 0 has 3 elements"},
    {"haul_index_add", index_add_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but axis 0 has 3 elements"},
    {"haul_index_add", index_add_rows, HAUL_SHAPE, "source has shape [3], but the shape of x is expected, with the"},
    {"haul_index_copy", index_copy_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but axis 0 has 3 elements"},
    {"haul_index_fill", index_fill_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but axis 0 has 3 elements"},
    {"haul_index_put", index_put_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but axis 0 has 3 elements"},
    {"haul_index_put_add", index_put_add_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but axis 0 has 3 elements"},
    {"haul_one_hot", one_hot_out, HAUL_INVALID_ARGUMENT, "index[1] is 3, but there are 3 classes"},
    {"haul_bincount", bincount_negative, HAUL_INVALID_ARGUMENT,
     "x[1] is -1, but there are 4 counts, of numbers from 0 on"},
    {"haul_bincount", bincount_float, HAUL_DTYPE,
     "x is f32, but indices are integers: i64, i32 or u8; convert it with haul_cast"},
    {"haul_masked_select", masked_select_nan, HAUL_DTYPE, "mask is f32, but a bool is expected, as comparisons give"},
    {"haul_masked_scatter", masked_scatter_nan, HAUL_DTYPE, "mask is f32, but a bool is expected, as comparisons give"},
    {"haul_masked_fill", masked_fill_nan, HAUL_DTYPE, "mask is f32, but a bool is expected, as comparisons give"},
    {"haul_where", where_nan, HAUL_DTYPE, "condition is f32, but a bool is expected, as comparisons give"},
    {"haul_masked_select", masked_select_shape, HAUL_SHAPE,
     "shapes [2] and [3] do not broadcast: dimension 1 from the end is"},
    {"haul_searchsorted", searchsorted_rows, HAUL_SHAPE,
     "sorted has shape [2,3], but one dimension is expected, or those"},
    {"haul_bucketize", bucketize_matrix, HAUL_SHAPE, "edges has shape [2,2], but one dimension is expected"},
    {"haul_histogram", histogram_bins, HAUL_INVALID_ARGUMENT, "bins is -1"},
    {"haul_histogram", histogram_bounds, HAUL_INVALID_ARGUMENT, "low is 2 and high is 1"},
    {"haul_unique", unique_size, HAUL_INVALID_ARGUMENT, "size is -1"},
    {"haul_cummax", cummax_axis, HAUL_INVALID_ARGUMENT, "axis 1 of a tensor of 1 dimensions"},
    {"haul_cummin", cummin_axis, HAUL_INVALID_ARGUMENT, "axis 1 of a tensor of 1 dimensions"},
    {"haul_median", median_empty, HAUL_SHAPE, "x has shape [2,0], but the axis must hold at least one element to"},
    {"haul_most_common", most_common_empty, HAUL_SHAPE,
     "x has shape [2,0], but the axis must hold at least one element to"},
    {"haul_max", max_empty, HAUL_SHAPE, "x has shape [2,0], but at least one element to choose from is"},
    {"haul_argmax", argmax_empty, HAUL_SHAPE, "x has shape [2,0], but the axis must hold at least one element to"},
    {"haul_quantile", quantile_above, HAUL_INVALID_ARGUMENT, "q is 1.5"},
    {"haul_quantile", quantile_empty, HAUL_SHAPE, "x has shape [2,0], but the axes must hold at least one element to"},
    {"haul_trapezoid", trapezoid_places, HAUL_SHAPE, "x has shape [4], but a shape that broadcasts to that of y is"},
    {"haul_cosine_similarity", cosine_shapes, HAUL_SHAPE,
     "shapes [2,3] and [2,4] do not broadcast: dimension 1 from the end"},
    {"haul_normalize", normalize_axis, HAUL_INVALID_ARGUMENT, "axis 2 of a tensor of 2 dimensions"},
    {"haul_cdist", cdist_width, HAUL_SHAPE, "the rows of a have 3 elements and those of b 4"},
    {"haul_conv3d", conv3d_channels, HAUL_SHAPE, "x is [1,2,3,3,3] and weight is [1,3,2,2,2] with 1 group(s)"},
    {"haul_conv_transpose3d", conv_transpose3d_channels, HAUL_SHAPE,
     "x is [1,2,3,3,3] and weight is [3,1,2,2,2] with 1 group(s)"},
    {"haul_max_pool3d", max_pool3d_large, HAUL_SHAPE, "the window is 3 x 3 x 3, but x has 2 x 2 x 2 elements"},
    {"haul_max_unpool2d", max_unpool2d_out, HAUL_INVALID_ARGUMENT,
     "indices[1] is 4, but a channel of the result has 4 elements"},
    {"haul_group_norm", group_norm_groups, HAUL_INVALID_ARGUMENT, "groups is 2, and x of shape [2,3,4] has 3 channels"},
    {"haul_instance_norm", instance_norm_vector, HAUL_SHAPE, "x has shape [2,3], but [N, C, L ...] is expected"},
    {"haul_ctc_loss", ctc_loss_labels, HAUL_INVALID_ARGUMENT, "targets[1] is 3, but there are 3 classes"},
    {"haul_nll_loss", nll_loss_out, HAUL_INVALID_ARGUMENT, "y[1] is 3, but there are 3 classes"},
    {"haul_multi_margin_loss", multi_margin_out, HAUL_INVALID_ARGUMENT, "y[1] is 3, but there are 3 classes"},
    {"haul_hinge_embedding_loss", hinge_shapes, HAUL_SHAPE, "target has shape [3], x has [2]"},
    {"haul_triplet_margin_loss", triplet_shapes, HAUL_SHAPE, "negative has shape [2,4], anchor has [2,3]"},
};

static void refuses(haul_device *device)
{
    haul_set_device(device);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const bad  *row = &rows[i];
        haul_scope *scope = haul_scope_push();
        const bool  late = !has_failed(row->call());
        if (late && device == haul_cpu())
            fail_msg("row %zu: %s accepts it", i, row->operation);
        if (late && !haul_device_sync(device))
            fail_msg("row %zu: %s accepts it on %s", i, row->operation, device->name);
        if (haul_error_status() != row->status || strcmp(haul_error_operation(), row->operation) ||
            !strstr(haul_error_message(), row->words))
            fail_msg("row %zu on %s: \"%s\" of %s; \"%s\" of %s is expected", i, device->name, haul_error_message(),
                     haul_error_operation(), row->words, row->operation);
        haul_error_clear();
        assert_int_equal(haul_device_sync(device), HAUL_OK);
        haul_scope_pop(scope);
    }
}

static void test_operation_errors__say_what_is_wrong(void **state)
{
    (void)state;
    on_devices(refuses);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operation_errors__say_what_is_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
