/* Tensors as text. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "core/tensor.h"
#include "support/failure.h"
#include "support/scope.h"

static void check(haul_tensor *t, const char *wanted)
{
    char text[8192];
    assert_valid(t);
    int length = haul_tensor_format(t, text, sizeof text);
    assert_string_equal(text, wanted);
    assert_int_equal(length, strlen(wanted));
}

/* The numbers 0, step, 2 step ... */
static haul_tensor *numbers(haul_shape shape, float step)
{
    float   values[4000];
    int64_t count = 1;
    for (int i = 0; i < shape.ndim; i++)
        count *= shape.dims[i];
    assert_true(count <= 4000);
    for (int64_t i = 0; i < count; i++)
        values[i] = (float)i * step;
    return haul_from_host(HAUL_F32, shape, values);
}

static haul_tensor *view(haul_tensor *t, haul_shape shape, const int64_t *strides, int64_t offset)
{
    return haul__own(haul__tensor_wrap(t->storage, t->dtype, &shape, strides, offset), "view");
}

static void test_print__nests_brackets(void **state)
{
    (void)state;
    check(numbers(HAUL_SCALAR_SHAPE, 1), "0. f32[] on cpu");
    check(numbers(HAUL_SHAPE(3), 1), "[0., 1., 2.] f32[3] on cpu");
    check(numbers(HAUL_SHAPE(2, 2), 1), "[[0., 1.],\n [2., 3.]] f32[2,2] on cpu");
    check(numbers(HAUL_SHAPE(2, 1, 2), 1), "[[[0., 1.]],\n\n [[2., 3.]]] f32[2,1,2] on cpu");
    check(numbers(HAUL_SHAPE(1, 2, 1, 2), 1), "[[[[0., 1.]],\n\n  [[2., 3.]]]] f32[1,2,1,2] on cpu");
    check(numbers(HAUL_SHAPE(2, 0), 1), "[] f32[2,0] on cpu");
}

static void test_print__chooses_a_notation_for_floats(void **state)
{
    (void)state;
    check(numbers(HAUL_SHAPE(3), 0.25f), "[0.0000, 0.2500, 0.5000] f32[3] on cpu");
    check(haul_from_host(HAUL_F32, HAUL_SHAPE(2), (float[]){-1, 10}), "[-1., 10.] f32[2] on cpu");
    check(haul_from_host(HAUL_F32, HAUL_SHAPE(2), (float[]){0.5f, 4096}), "[5.0000e-01, 4.0960e+03] f32[2] on cpu");
    check(haul_from_host(HAUL_F64, HAUL_SHAPE(2), (double[]){1e-300, 0}), "[1.0000e-300,  0.0000e+00] f64[2] on cpu");
    check(haul_from_host(HAUL_F32, HAUL_SHAPE(4), (float[]){NAN, INFINITY, -INFINITY, 1.5f}),
          "[   nan,    inf,   -inf, 1.5000] f32[4] on cpu");
}

static void test_print__shows_every_dtype(void **state)
{
    (void)state;
    check(haul_from_host(HAUL_BOOL, HAUL_SHAPE(2), (uint8_t[]){1, 0}), "[ true, false] bool[2] on cpu");
    check(haul_from_host(HAUL_U8, HAUL_SHAPE(2), (uint8_t[]){7, 255}), "[  7, 255] u8[2] on cpu");
    check(haul_from_host(HAUL_I8, HAUL_SHAPE(2), (int8_t[]){-128, 127}), "[-128,  127] i8[2] on cpu");
    check(haul_from_host(HAUL_I16, HAUL_SHAPE(1), (int16_t[]){INT16_MIN}), "[-32768] i16[1] on cpu");
    check(haul_from_host(HAUL_I32, HAUL_SHAPE(1), (int32_t[]){INT32_MAX}), "[2147483647] i32[1] on cpu");
    check(haul_from_host(HAUL_I64, HAUL_SHAPE(1), (int64_t[]){INT64_MAX}), "[9223372036854775807] i64[1] on cpu");
    check(haul_from_host(HAUL_F64, HAUL_SHAPE(1), (double[]){0.125}), "[0.1250] f64[1] on cpu");
}

static void test_print__breaks_long_rows(void **state)
{
    (void)state;
    check(numbers(HAUL_SHAPE(2, 12), 0.5f),
          "[[ 0.0000,  0.5000,  1.0000,  1.5000,  2.0000,  2.5000,  3.0000,  3.5000,\n"
          "   4.0000,  4.5000,  5.0000,  5.5000],\n"
          " [ 6.0000,  6.5000,  7.0000,  7.5000,  8.0000,  8.5000,  9.0000,  9.5000,\n"
          "  10.0000, 10.5000, 11.0000, 11.5000]] f32[2,12] on cpu");
}

static void test_print__summarises_past_a_thousand(void **state)
{
    (void)state;
    check(numbers(HAUL_SHAPE(2000), 1), "[   0.,    1.,    2., ..., 1997., 1998., 1999.] f32[2000] on cpu");
    check(numbers(HAUL_SHAPE(2, 600), 1), "[[   0.,    1.,    2., ...,  597.,  598.,  599.],\n"
                                          " [ 600.,  601.,  602., ..., 1197., 1198., 1199.]] f32[2,600] on cpu");
    check(numbers(HAUL_SHAPE(500, 3), 1), "[[   0.,    1.,    2.],\n"
                                          " [   3.,    4.,    5.],\n"
                                          " [   6.,    7.,    8.],\n"
                                          " ...,\n"
                                          " [1491., 1492., 1493.],\n"
                                          " [1494., 1495., 1496.],\n"
                                          " [1497., 1498., 1499.]] f32[500,3] on cpu");
    check(numbers(HAUL_SHAPE(7, 1, 300), 1), "[[[   0.,    1.,    2., ...,  297.,  298.,  299.]],\n\n"
                                             " [[ 300.,  301.,  302., ...,  597.,  598.,  599.]],\n\n"
                                             " [[ 600.,  601.,  602., ...,  897.,  898.,  899.]],\n\n"
                                             " ...,\n\n"
                                             " [[1200., 1201., 1202., ..., 1497., 1498., 1499.]],\n\n"
                                             " [[1500., 1501., 1502., ..., 1797., 1798., 1799.]],\n\n"
                                             " [[1800., 1801., 1802., ..., 2097., 2098., 2099.]]]"
                                             " f32[7,1,300] on cpu");
}

static void test_print__a_thousand_are_shown_in_full(void **state)
{
    (void)state;
    char text[20000];
    assert_true(haul_tensor_format(numbers(HAUL_SHAPE(1000), 1), text, sizeof text) > 0);
    assert_null(strstr(text, "..."));
    assert_non_null(strstr(text, "500."));
}

static void test_print__follows_strides(void **state)
{
    (void)state;
    haul_tensor *t = numbers(HAUL_SHAPE(2, 3), 1), *big = numbers(HAUL_SHAPE(3, 1000), 1);
    check(view(t, HAUL_SHAPE(3, 2), (int64_t[]){1, 3}, 0), "[[0., 3.],\n [1., 4.],\n [2., 5.]] f32[3,2] on cpu");
    check(view(t, HAUL_SHAPE(2, 2), (int64_t[]){0, 2}, 3), "[[3., 5.],\n [3., 5.]] f32[2,2] on cpu");
    check(view(big, HAUL_SHAPE(1000, 2), (int64_t[]){1, 1000}, 1000), "[[1000., 2000.],\n"
                                                                      " [1001., 2001.],\n"
                                                                      " [1002., 2002.],\n"
                                                                      " ...,\n"
                                                                      " [1997., 2997.],\n"
                                                                      " [1998., 2998.],\n"
                                                                      " [1999., 2999.]] f32[1000,2] on cpu");
}

static void test_print__meta_has_no_data(void **state)
{
    (void)state;
    haul_shape     shape = HAUL_SHAPE(64, 10);
    haul__storage *storage = haul__storage_new(haul_device_get("meta"));
    haul_tensor   *t = haul__own(haul__tensor_wrap(storage, HAUL_F32, &shape, NULL, 0), "test");
    haul__object_release(storage);
    check(t, "(no data) f32[64,10] on meta");
}

static void test_print__fits_the_buffer_as_snprintf_does(void **state)
{
    (void)state;
    char         buffer[64];
    haul_tensor *t = numbers(HAUL_SHAPE(3), 1);
    const char  *whole = "[0., 1., 2.] f32[3] on cpu";
    for (size_t size = 1; size <= strlen(whole) + 1; size++) {
        memset(buffer, 'x', sizeof buffer);
        assert_int_equal(haul_tensor_format(t, buffer, size), strlen(whole));
        assert_int_equal(strlen(buffer), size - 1);
        assert_memory_equal(buffer, whole, size - 1);
    }
    assert_int_equal(haul_tensor_format(t, NULL, 0), strlen(whole));
    assert_int_equal(haul_tensor_format(t, NULL, 10), -1);
    assert_string_equal(haul_error_argument(), "buffer");
    haul_error_clear();
}

static void test_print__null_is_an_error_and_none_is_not(void **state)
{
    (void)state;
    char text[32] = "untouched";
    assert_true(haul_tensor_format(NULL, text, sizeof text) < 0);
    assert_string_equal(text, "");
    assert_string_equal(haul_error_operation(), "haul_tensor_format");
    haul_error_clear();
    assert_int_equal(haul_print(NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    assert_true(haul_tensor_format(HAUL_NONE, text, sizeof text) > 0);
    assert_string_equal(text, "HAUL_NONE");
}

/* Each allocation on the way fails in turn: an error, and nothing left behind. */
static void test_print__without_memory(void **state)
{
    (void)state;
    char         text[256];
    haul_tensor *t = numbers(HAUL_SHAPE(2, 600), 1);
    int64_t      before = haul__host_blocks();
    bool         done = false;
    for (int nth = 1; !done && nth < 100; nth++) {
        haul_error_clear();
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        int length = haul_tensor_format(t, text, sizeof text);
        done = haul__fault_count() < nth;
        haul__fault_plan(0, 0);
        assert_int_equal(length < 0, !done);
        assert_int_equal(haul_error_status(), done ? HAUL_OK : HAUL_OUT_OF_MEMORY);
        assert_int_equal(haul__host_blocks(), before);
    }
    assert_true(done);
}

#define TEST(name) cmocka_unit_test_setup_teardown(test_print__##name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nests_brackets),
        TEST(chooses_a_notation_for_floats),
        TEST(shows_every_dtype),
        TEST(breaks_long_rows),
        TEST(summarises_past_a_thousand),
        TEST(a_thousand_are_shown_in_full),
        TEST(follows_strides),
        TEST(meta_has_no_data),
        TEST(fits_the_buffer_as_snprintf_does),
        TEST(null_is_an_error_and_none_is_not),
        TEST(without_memory),
    };
    return cmocka_run_group_tests_name("print", tests, NULL, NULL);
}
