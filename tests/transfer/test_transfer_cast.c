/* Converting: every pair of dtypes, and copies into tensors that are there.
 * ctest: cuda; env=POCL_DEVICES=pthread pthread; labels=threads */
#include <math.h>

#include "base/half.h"
#include "support/failure.h"
#include "support/moves.h"

/* ---- casts ---- */

static const double cast_values[] = {
    0,       -0.0,   0.5,    -0.5,         0.99,         -0.99,         1.5,           -1.5,  127,    127.9,
    128,     -128,   -128.9, -129,         255,          255.9,         256,           300,   32767,  32767.9,
    32768,   -32768, -32769, 2147483647.0, 2147483648.0, -2147483648.0, -2147483649.0, 1e10,  -1e10,  9.3e18,
    -9.3e18, 1e30,   -1e30,  INFINITY,     -INFINITY,    NAN,           16777217.0,    1e-40, 3.4e38, 1e39};
enum { CAST_VALUES = sizeof cast_values / sizeof cast_values[0] };

static void put(haul_dtype dtype, void *array, int i, double value)
{
    int64_t integer = value >= 9e18 ? INT64_MAX : value <= -9e18 ? INT64_MIN : isnan(value) ? 0 : (int64_t)value;
    switch (dtype) {
    case HAUL_BOOL: ((uint8_t *)array)[i] = value != 0; break;
    case HAUL_U8: ((uint8_t *)array)[i] = (uint8_t)integer; break;
    case HAUL_I8: ((int8_t *)array)[i] = (int8_t)integer; break;
    case HAUL_I16: ((int16_t *)array)[i] = (int16_t)integer; break;
    case HAUL_I32: ((int32_t *)array)[i] = (int32_t)integer; break;
    case HAUL_I64: ((int64_t *)array)[i] = integer; break;
    case HAUL_F16:
    case HAUL_BF16: ((uint16_t *)array)[i] = haul__half_encode(dtype, value); break;
    case HAUL_F32: ((float *)array)[i] = (float)value; break;
    default: ((double *)array)[i] = value; break;
    }
}

static double float_of(haul_dtype dtype, const void *array, int i)
{
    if (haul__is_half(dtype))
        return haul__half_decode(dtype, ((const uint16_t *)array)[i]);
    return dtype == HAUL_F32 ? (double)((const float *)array)[i] : ((const double *)array)[i];
}

static int64_t integer_of(haul_dtype dtype, const void *array, int i)
{
    switch (dtype) {
    case HAUL_BOOL: return ((const uint8_t *)array)[i] != 0;
    case HAUL_U8: return ((const uint8_t *)array)[i];
    case HAUL_I8: return ((const int8_t *)array)[i];
    case HAUL_I16: return ((const int16_t *)array)[i];
    case HAUL_I32: return ((const int32_t *)array)[i];
    default: return ((const int64_t *)array)[i];
    }
}

static double clamp(double value, double low, double high)
{
    return isnan(value) ? 0 : value < low ? low : value > high ? high : trunc(value);
}

/* What element i of `in` must become. */
static void cast_reference(haul_dtype from, const void *in, haul_dtype to, void *out, int i)
{
    if (!haul_dtype_is_float(from)) {
        int64_t v = integer_of(from, in, i);
        switch (to) { /* integers wrap around */
        case HAUL_BOOL: ((uint8_t *)out)[i] = v != 0; break;
        case HAUL_F16:
        case HAUL_BF16: ((uint16_t *)out)[i] = haul__half_encode(to, (double)v); break;
        case HAUL_F32: ((float *)out)[i] = (float)v; break;
        case HAUL_F64: ((double *)out)[i] = (double)v; break;
        case HAUL_U8: ((uint8_t *)out)[i] = (uint8_t)v; break;
        case HAUL_I8: ((int8_t *)out)[i] = (int8_t)v; break;
        case HAUL_I16: ((int16_t *)out)[i] = (int16_t)v; break;
        case HAUL_I32: ((int32_t *)out)[i] = (int32_t)v; break;
        default: ((int64_t *)out)[i] = v; break;
        }
        return;
    }
    double v = float_of(from, in, i);
    switch (to) {
    case HAUL_U8: v = clamp(v, 0, 255); break;
    case HAUL_I8: v = clamp(v, -128, 127); break;
    case HAUL_I16: v = clamp(v, -32768, 32767); break;
    case HAUL_I32: v = clamp(v, -2147483648.0, 2147483647.0); break;
    case HAUL_I64:
        ((int64_t *)out)[i] = isnan(v) ? 0 : v >= 0x1p63 ? INT64_MAX : v <= -0x1p63 ? INT64_MIN : (int64_t)v;
        return;
    default: break;
    }
    put(to, out, i, v);
}

static void check_cast(haul_device *device, haul_dtype from, haul_dtype to)
{
    unsigned char in[CAST_VALUES * 8], want[CAST_VALUES * 8], got[CAST_VALUES * 8];
    size_t        bytes = CAST_VALUES * haul__dtype_size(to);
    for (int i = 0; i < CAST_VALUES; i++)
        put(from, in, i, cast_values[i]);
    for (int i = 0; i < CAST_VALUES; i++)
        cast_reference(from, in, to, want, i);
    haul_tensor *x = haul_to(haul_from_host(from, HAUL_SHAPE(CAST_VALUES), in), device);
    haul_tensor *y = haul_cast(x, to);
    assert_valid(y);
    assert_int_equal(haul_tensor_dtype(y), to);
    assert_int_equal(haul_read(y, got, sizeof got), HAUL_OK);
    for (int i = 0; i < CAST_VALUES; i++) {
        size_t size = bytes / CAST_VALUES, at = (size_t)i * size;
        bool   nan = haul_dtype_is_float(to) && isnan(float_of(to, want, i)) && isnan(float_of(to, got, i));
        if (!nan && memcmp(got + at, want + at, size) != 0)
            fail_msg("%s: %g from %s to %s gives the wrong value", haul_device_name(device), cast_values[i],
                     haul_dtype_name(from), haul_dtype_name(to));
    }
}

static void test_cast__every_pair_of_dtypes(void **state)
{
    haul_device_properties p;
    (void)state;
    for (int d = 0; d < device_count && d < 2; d++) { /* a second one like the first would compile as long again */
        assert_int_equal(haul_device_describe(devices[d], &p), HAUL_OK);
        for (int from = 0; from < test_dtype_count; from++)
            for (int to = 0; to < test_dtype_count; to++)
                if (p.has_f64 || (test_dtypes[from] != HAUL_F64 && test_dtypes[to] != HAUL_F64))
                    check_cast(devices[d], test_dtypes[from], test_dtypes[to]);
    }
}

static void test_cast__bools_that_are_not_one(void **state)
{
    uint8_t data[3] = {0, 2, 255};
    float   back[3];
    (void)state;
    haul_tensor *x = haul_wrap_host(HAUL_BOOL, HAUL_SHAPE(3), data, NULL, NULL);
    assert_int_equal(haul_read(haul_cast(x, HAUL_F32), back, sizeof back), HAUL_OK);
    assert_true(back[0] == 0 && back[1] == 1 && back[2] == 1);
}

/* ---- copies of columns ---- */

/* Every `step`-th column from the fourth on, copied; every element of x is its number. */
static void assert_columns(haul_tensor *x, int64_t step)
{
    int64_t      rows = haul_tensor_dim(x, 0), columns = haul_tensor_dim(x, 1);
    haul_tensor *first = haul_arange(HAUL_I32, 0, (double)(rows * columns), (double)columns);
    haul_tensor *want = haul_arange(HAUL_I32, 3, (double)columns, (double)step);
    want = haul_add(haul_reshape(first, HAUL_SHAPE(rows, 1)), want);
    haul_tensor *copy = haul_to(haul_contiguous(haul_slice(x, 1, 3, columns, step)), haul_cpu());
    assert_true(haul_item(haul_max(haul_abs(haul_sub(copy, want)))) == 0);
}

static void test_copy__columns(void **state)
{
    static const uint8_t bytes[] = {0, 1, 1, 0, 1, 0, 1, 0, 0, 1};
    (void)state;
    for (int d = 0; d < device_count; d++) {
        uint8_t      back[10];
        haul_tensor *x = haul_to(haul_reshape(haul_arange(HAUL_I32, 0, 1015, 1), HAUL_SHAPE(5, 203)), devices[d]);
        for (int64_t step = 1; step < 5; step++)
            assert_columns(x, step);
        haul_tensor *row = haul_contiguous(haul_expand(haul_slice(x, 1, 1, 2, 1), HAUL_SHAPE(5, 40)));
        assert_true(haul_item(haul_sum(row)) == 40 * (1 + 204 + 407 + 610 + 813));
        for (int i = 0; i < test_dtype_count; i++) {
            haul_tensor *y = haul_to(haul_from_host(HAUL_U8, HAUL_SHAPE(2, 5), bytes), devices[d]);
            if (test_dtypes[i] == HAUL_F64)
                continue; /* not on every device */
            y = haul_contiguous(haul_slice(haul_cast(y, test_dtypes[i]), 1, 0, 5, 2));
            assert_int_equal(haul_read(haul_cast(y, HAUL_U8), back, 6), HAUL_OK);
            assert_memory_equal(back, ((uint8_t[]){0, 1, 1, 0, 0, 1}), 6);
        }
    }
}

/* Results so large that they go past the caches. */
static void test_copy__many_columns(void **state)
{
    (void)state;
    haul_tensor *x = haul_reshape(haul_arange(HAUL_I32, 0, 20000000, 1), HAUL_SHAPE(1000, 20000));
    for (int64_t step = 1; step < 4; step++)
        assert_columns(x, step);
}

/* ---- copy_into ---- */

static void test_copy_into__converts_broadcasts_and_moves(void **state)
{
    (void)state;
    for (int from = 0; from < device_count; from++) {
        for (int to = 0; to < device_count; to++) {
            int32_t      back[12];
            haul_tensor *out = haul_to(iota(3, 4), devices[to], .dtype = HAUL_I32);
            haul_tensor *row =
                haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(4), (float[]){9.9f, 8, 7, 6}), devices[from]);
            uint64_t version = haul_tensor_version(out);
            assert_int_equal(haul_copy_into(out, row), HAUL_OK);
            assert_int_equal(haul_tensor_version(out), version + 1);
            assert_int_equal(haul_read(out, back, sizeof back), HAUL_OK);
            for (int i = 0; i < 12; i++)
                assert_int_equal(back[i], 9 - i % 4);
            haul_tensor *part = transposed(out), *values = haul_to(iota(4, 3), devices[from]);
            assert_int_equal(haul_copy_into(part, values), HAUL_OK);
            assert_int_equal(haul_read(out, back, sizeof back), HAUL_OK);
            for (int i = 0; i < 12; i++)
                assert_int_equal(back[i], i % 4 * 3 + i / 4);
        }
    }
}

static void test_copy_into__overlapping_views(void **state)
{
    (void)state;
    for (int d = 0; d < device_count; d++) {
        float        back[9];
        haul_tensor *x = haul_to(iota(3, 3), devices[d]);
        assert_int_equal(haul_copy_into(x, transposed(x)), HAUL_OK);
        assert_int_equal(haul_read(x, back, sizeof back), HAUL_OK);
        for (int i = 0; i < 9; i++)
            assert_true(back[i] == (float)(i % 3 * 3 + i / 3));
    }
}

static void test_copy_into__refuses(void **state)
{
    haul_tensor *x = iota(3, 4);
    (void)state;
    assert_int_equal(haul_copy_into(NULL, x), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_copy_into(x, NULL), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_copy_into(x, iota(4, 3)), HAUL_SHAPE);
    assert_int_equal(haul_copy_into(iota(1, 4), x), HAUL_SHAPE); /* out is not broadcast */
    assert_int_equal(haul_copy_into(haul_set_requires_grad(iota(3, 4), true), x), HAUL_GRAPH);
    haul_error_clear();
    haul_tensor *w = haul_set_requires_grad(iota(3, 4), true);
    assert_int_equal(haul_copy_into(x, haul_mul_scalar(w, 2)), HAUL_GRAPH); /* a gradient would be lost */
    assert_string_equal(haul_error_argument(), "x");
    assert_non_null(strstr(haul_error_message(), "x requires a gradient, and writing into out cannot"));
    haul_error_clear();
    assert_int_equal(haul_copy_into(x, haul_detach(haul_mul_scalar(w, 2))), HAUL_OK);
    haul_set_grad_enabled(false);
    assert_int_equal(haul_copy_into(x, w), HAUL_OK);
    haul_set_grad_enabled(true);
    assert_int_equal(haul_copy_into(HAUL_NONE, w), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_message(), "haul_copy_into: out is HAUL_NONE, but a tensor is needed here");
    haul_error_clear();
    assert_int_equal(haul_fill_into(HAUL_NONE, 1), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_message(), "haul_fill_into: out is HAUL_NONE, but a tensor is needed here");
    haul_error_clear();
    assert_int_equal(haul_neg_into(HAUL_NONE, x), HAUL_INVALID_ARGUMENT);
    assert_string_equal(haul_error_message(), "haul_neg: out is HAUL_NONE, but a tensor is needed here");
    haul_error_clear();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_cast__every_pair_of_dtypes),
        TEST(test_cast__bools_that_are_not_one),
        TEST(test_copy__columns),
        TEST(test_copy__many_columns),
        TEST(test_copy_into__converts_broadcasts_and_moves),
        TEST(test_copy_into__overlapping_views),
        TEST(test_copy_into__refuses),
    };
    return run_moves("transfer_cast", tests, sizeof tests / sizeof tests[0]);
}
