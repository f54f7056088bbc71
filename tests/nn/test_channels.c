/* Normalisation of groups of channels, pixels from channels, and distances of vectors, where the samples of the
 * conformance tests do not go: zeros, empty tensors, half precision, integers, and refusals.
 *
 * ctest: cuda; sim */
#include "support/failure.h"
#include "support/into.h"

#define REFUSED(call, status, words)                                                                                   \
    do {                                                                                                               \
        assert_refused(call, status, words);                                                                           \
        haul_error_clear();                                                                                            \
    } while (0)

static haul_tensor *counted(haul_device *device, haul_dtype dtype, haul_shape shape)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    return haul_to(haul_cast(haul_reshape(haul_arange_i64(0, count, 1), shape), dtype), device);
}

static void groups(haul_device *device)
{
    haul_tensor *x = counted(device, HAUL_I32, HAUL_SHAPE(1, 4, 1));
    haul_tensor *y = haul_group_norm(x, 2, .eps = HAUL_ZERO);
    assert_int_equal(haul_tensor_dtype(y), HAUL_F32);
    assert_close(y, (double[]){-1, 1, -1, 1}, 4, 1e-6, "group norm of integers");
    haul_tensor *half = haul_group_norm(haul_cast(x, HAUL_F16), 1);
    assert_int_equal(haul_tensor_dtype(half), HAUL_F16);
    assert_close(half, (double[]){-1.3416, -0.4472, 0.4472, 1.3416}, 4, 1e-3, "group norm of f16");
    haul_tensor *weight = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(4), (float[]){1, 2, 3, 4}), device);
    assert_close(haul_group_norm(x, 4, .bias = weight), (double[]){1, 2, 3, 4}, 4, 0, "groups of one element");
    assert_int_equal(haul_tensor_count(haul_group_norm(haul_slice(x, 0, 0, 0, 1), 2)), 0);
    assert_close(haul_instance_norm(haul_reshape(x, HAUL_SHAPE(1, 2, 2)), .eps = HAUL_ZERO), (double[]){-1, 1, -1, 1},
                 4, 1e-6, "instance norm");
    REFUSED(
        haul_group_norm(x, 3), HAUL_INVALID_ARGUMENT,
        "haul_group_norm: groups is 3, and x of shape [1,4,1] has 4 channels; a number that divides them is expected");
    REFUSED(haul_group_norm(x, 0), HAUL_INVALID_ARGUMENT, "groups is 0");
    REFUSED(haul_group_norm(x, 2, .eps = -1), HAUL_INVALID_ARGUMENT, "eps is -1; 0 or more is expected");
    REFUSED(haul_group_norm(weight, 1), HAUL_SHAPE, "[N, C, ...] is expected");
    REFUSED(haul_group_norm(x, 2, .weight = haul_slice(weight, 0, 0, 3, 1)), HAUL_SHAPE,
            "weight has shape [3]; [4] is expected for x of shape [1,4,1]");
    REFUSED(haul_instance_norm(haul_reshape(x, HAUL_SHAPE(1, 4))), HAUL_SHAPE, "[N, C, L ...] is expected");
    REFUSED(haul_instance_norm(x, .bias = x), HAUL_SHAPE, "is expected for x of shape");
}

static void test_channels__groups(void **state)
{
    (void)state;
    on_devices(groups);
}

static void pixels(haul_device *device)
{
    haul_tensor *x = counted(device, HAUL_U8, HAUL_SHAPE(4, 1, 2)), *y = haul_pixel_shuffle(x, 2);
    assert_int_equal(haul_tensor_dtype(y), HAUL_U8);
    assert_close(y, (double[]){0, 2, 1, 3, 4, 6, 5, 7}, 8, 0, "pixel_shuffle");
    assert_equal_bits(haul_pixel_unshuffle(y, 2), x, "and back");
    assert_equal_bits(haul_pixel_shuffle(x, 1), x, "by 1");
    const haul_shape none = haul_tensor_shape(haul_pixel_shuffle(haul_slice(x, 1, 0, 0, 1), 2));
    assert_true(none.dims[0] == 1 && none.dims[1] == 0 && none.dims[2] == 4);
    REFUSED(haul_pixel_shuffle(x, 3), HAUL_SHAPE,
            "and 4 channels; a multiple of the square of the factor, 9, is expected");
    REFUSED(haul_pixel_shuffle(x, 0), HAUL_INVALID_ARGUMENT, "factor is 0");
    REFUSED(haul_pixel_shuffle(x, (int64_t)1 << 40), HAUL_INVALID_ARGUMENT, "it must be from 1 to 2^31 - 1");
    REFUSED(haul_pixel_shuffle(haul_select(x, 0, 0), 2), HAUL_SHAPE, "[..., C, H, W] is expected");
    REFUSED(haul_pixel_unshuffle(x, 2), HAUL_SHAPE,
            "rows and columns that are multiples of the factor, 2, are expected");
}

static void test_channels__pixels(void **state)
{
    (void)state;
    on_devices(pixels);
}

static void distances(haul_device *device)
{
    haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 2), (float[]){3, 4, 0, 0}), device), *g;
    assert_close(haul_normalize(x, 1), (double[]){0.6, 0.8, 0, 0}, 4, 1e-6, "normalize, with a row of zeros");
    assert_close(haul_normalize(haul_cast(x, HAUL_F16), 1), (double[]){0.6, 0.8, 0, 0}, 4, 1e-3, "normalize of f16");
    assert_close(haul_normalize(x, 1, .p = HAUL_ZERO), (double[]){1.5, 2, 0, 0}, 4, 1e-6, "by the number of elements");
    assert_close(haul_cosine_similarity(x, x, 1), (double[]){1, 0}, 2, 1e-6, "cosine_similarity");
    assert_close(haul_cosine_similarity(haul_cast(x, HAUL_I64), haul_neg(x), -1), (double[]){-1, 0}, 2, 1e-6,
                 "cosine_similarity of integers");
    haul_set_requires_grad(x, true);
    haul_tensor *d = haul_cdist(x, haul_detach(x));
    assert_close(d, (double[]){0, 5, 5, 0}, 4, 1e-6, "cdist");
    assert_int_equal(haul_grad(haul_sum(d), &x, 1, &g), HAUL_OK);
    assert_close(g, (double[]){0.6, 0.8, -0.6, -0.8}, 4, 1e-6, "its gradient is 0 for equal rows");
    x = haul_detach(x);
    assert_close(haul_cdist(x, x, .p = HAUL_ZERO), (double[]){0, 2, 2, 0}, 4, 0, "cdist, number of differences");
    assert_int_equal(haul_tensor_count(haul_cdist(haul_slice(x, 0, 0, 0, 1), x)), 0);
    REFUSED(haul_normalize(x, 2), HAUL_INVALID_ARGUMENT, "haul_normalize");
    REFUSED(haul_normalize(x, 1, .p = -1), HAUL_INVALID_ARGUMENT, "p is -1; 0 or more, or INFINITY, is expected");
    REFUSED(haul_normalize(x, 1, .p = NAN), HAUL_INVALID_ARGUMENT, "p is");
    REFUSED(haul_normalize(x, 1, .eps = -1), HAUL_INVALID_ARGUMENT, "eps is -1");
    REFUSED(haul_cosine_similarity(x, counted(device, HAUL_F32, HAUL_SHAPE(3)), 1), HAUL_SHAPE,
            "haul_cosine_similarity");
    REFUSED(haul_cosine_similarity(x, x, -3), HAUL_INVALID_ARGUMENT, "haul_cosine_similarity");
    REFUSED(haul_cdist(x, haul_slice(x, 1, 0, 1, 1)), HAUL_SHAPE,
            "haul_cdist: the rows of a have 2 elements and those of b 1; they must have the same number");
    REFUSED(haul_cdist(x, haul_select(x, 0, 0)), HAUL_SHAPE, "[..., R, M] is expected");
    REFUSED(haul_cdist(x, x, .p = -2), HAUL_INVALID_ARGUMENT, "p is -2");
    REFUSED(haul_cdist(x, NULL), HAUL_INVALID_ARGUMENT, "haul_cdist");
}

static void test_channels__distances(void **state)
{
    (void)state;
    on_devices(distances);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_channels__groups),
        cmocka_unit_test(test_channels__pixels),
        cmocka_unit_test(test_channels__distances),
    };
    return cmocka_run_group_tests_name("channels", tests, NULL, NULL);
}
