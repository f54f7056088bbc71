/* What the conformance tests of pointwise rows do not reach, for bits and shifts, steps of floats, whole quotients, and
 * the operations of three tensors: special values, dtypes, gradients at bounds, and refusals.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"

static haul_tensor *of(haul_device *device, haul_dtype dtype, const double *values, int64_t count)
{
    haul_tensor *x = haul_from_host(HAUL_F64, HAUL_SHAPE(count), values);
    return haul_to(haul_cast(x, dtype), device);
}

#define OF(device, dtype, ...)                                                                                         \
    of(device, dtype, (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

static void bits(haul_device *device)
{
    haul_tensor *a = OF(device, HAUL_I16, 12, -1, 255, -32768), *b = OF(device, HAUL_I16, 10, 7, -256, 1);
    assert_close(haul_bitwise_and(a, b), (double[]){8, 7, 0, 0}, 4, 0, "and");
    assert_close(haul_bitwise_or(a, b), (double[]){14, -1, -1, -32767}, 4, 0, "or");
    assert_close(haul_bitwise_xor(a, b), (double[]){6, -8, -1, -32767}, 4, 0, "xor");
    assert_close(haul_bitwise_not(a), (double[]){-13, 0, -256, 32767}, 4, 0, "not");
    assert_close(haul_bitwise_and_scalar(a, 6), (double[]){4, 6, 6, 0}, 4, 0, "and with a number");
    haul_tensor *t = OF(device, HAUL_BOOL, 1, 1, 0, 0), *u = OF(device, HAUL_BOOL, 1, 0, 1, 0);
    assert_int_equal(haul_tensor_dtype(haul_bitwise_not(t)), HAUL_BOOL);
    assert_close(haul_bitwise_not(t), (double[]){0, 0, 1, 1}, 4, 0, "not of bool");
    assert_close(haul_bitwise_xor(t, u), (double[]){0, 1, 1, 0}, 4, 0, "xor of bool");
    haul_tensor *bytes = OF(device, HAUL_U8, 0, 1, 200, 255);
    assert_close(haul_bitwise_not(bytes), (double[]){255, 254, 55, 0}, 4, 0, "not of u8");
    haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(4)), device);
    assert_refused(haul_bitwise_and(x, x), HAUL_DTYPE, "f32");
    haul_error_clear();
    assert_refused(haul_bitwise_not(x), HAUL_DTYPE, "f32");
    haul_error_clear();
    assert_refused(haul_bitwise_or_scalar(a, 0.5), HAUL_INVALID_ARGUMENT, "s is 0.5; a whole number is expected");
    haul_error_clear();
    assert_refused(haul_bitwise_or_scalar(a, 70000), HAUL_INVALID_ARGUMENT, "70000");
    haul_error_clear();
}

static void test_elementwise__bits(void **state)
{
    (void)state;
    on_devices(bits);
}

static void shifts(haul_device *device)
{
    haul_tensor *a = OF(device, HAUL_I8, 1, 1, 1, -1, -128, 127, 3, -3),
                *b = OF(device, HAUL_I8, 0, 7, 8, 1, 7, 1, -1, 100);
    assert_close(haul_left_shift(a, b), (double[]){1, -128, 0, -2, 0, -2, 0, 0}, 8, 0, "left");
    assert_close(haul_right_shift(a, b), (double[]){1, 0, 0, -1, -1, 63, 0, -1}, 8, 0, "right");
    haul_tensor *wide = OF(device, HAUL_I64, 1, -1), *by = OF(device, HAUL_I64, 62, 63);
    assert_close(haul_left_shift(wide, by), (double[]){0x1p62, -0x1p63}, 2, 0, "left of i64");
    assert_close(haul_right_shift(haul_left_shift(wide, by), by), (double[]){1, -1}, 2, 0, "back");
    haul_tensor *bytes = OF(device, HAUL_U8, 200, 255);
    assert_close(haul_right_shift_scalar(bytes, 3), (double[]){25, 31}, 2, 0, "right of u8");
    assert_close(haul_left_shift_scalar(bytes, 1), (double[]){144, 254}, 2, 0, "left of u8");
    haul_tensor *t = OF(device, HAUL_BOOL, 1, 0);
    assert_refused(haul_left_shift(t, t), HAUL_DTYPE, "bool");
    haul_error_clear();
}

static void test_elementwise__shifts(void **state)
{
    (void)state;
    on_devices(shifts);
}

/* One step of the dtype, also of half precision, through 0, to infinity and from it. */
static void steps(haul_device *device)
{
    const struct {
        haul_dtype dtype;
        double     epsilon, least, most;
    } kinds[] = {{HAUL_F16, 0x1p-10, 0x1p-24, 65504},
                 {HAUL_BF16, 0x1p-7, 0x1p-133, 0x1.fep127},
                 {HAUL_F32, 0x1p-23, 0x1p-149, 0x1.fffffep127},
                 {HAUL_F64, 0x1p-52, 0x1p-1074, 0x1.fffffffffffffp1023}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        const double e = kinds[i].epsilon, least = kinds[i].least, most = kinds[i].most;
        haul_tensor *a = OF(device, kinds[i].dtype, 1, 1, -1, 0, 0, -least, most, INFINITY, 2, NAN);
        haul_tensor *b = OF(device, kinds[i].dtype, 2, 0, 0, 1, -1, 1, INFINITY, 0, 2, 1);
        haul_tensor *y = haul_nextafter(a, b);
        assert_close(haul_slice(y, 0, 0, 6, 1), (double[]){1 + e, 1 - e / 2, -1 + e / 2, least, -least, 0}, 6, 0,
                     haul_dtype_name(kinds[i].dtype));
        double got[10];
        assert_int_equal(read_values(y, got, 10), HAUL_OK);
        assert_true(isinf(got[6]) && got[7] == most && got[8] == 2 && isnan(got[9]));
    }
}

static void test_elementwise__steps(void **state)
{
    (void)state;
    on_devices(steps);
}

static void quotients(haul_device *device)
{
    haul_tensor *a = OF(device, HAUL_I32, 7, -7, 7, -7, 5, -2147483648.0),
                *b = OF(device, HAUL_I32, 2, 2, -2, -2, 0, -1);
    assert_close(haul_trunc_div(a, b), (double[]){3, -3, -3, 3, 0, -2147483648.0}, 6, 0, "trunc_div");
    assert_close(haul_fmod(a, b), (double[]){1, -1, 1, -1, 0, 0}, 6, 0, "fmod");
    assert_close(haul_rfloor_div(b, 7), (double[]){3, 3, -4, -4, 0, -7}, 6, 0, "rfloor_div");
    assert_close(haul_rremainder(b, 7), (double[]){1, 1, -1, -1, 0, 0}, 6, 0, "rremainder");
    assert_close(haul_rsub(OF(device, HAUL_U8, 1, 255), 3), (double[]){2, 4}, 2, 0, "rsub of u8");
    assert_close(haul_rpow(OF(device, HAUL_I64, 3, 0, -1), 2), (double[]){8, 1, 0}, 3, 0, "rpow of i64");
    haul_tensor *half = haul_rsub(OF(device, HAUL_I32, 1, 2), 0.5);
    assert_int_equal(haul_tensor_dtype(half), HAUL_F32);
    assert_close(half, (double[]){-0.5, -1.5}, 2, 0, "rsub of a fraction");
    assert_refused(haul_rsub(OF(device, HAUL_U8, 1), 256), HAUL_INVALID_ARGUMENT, "256");
    haul_error_clear();
}

static void test_elementwise__whole_quotients(void **state)
{
    (void)state;
    on_devices(quotients);
}

/* Orders that are not whole numbers of at least 1 give NaN; whole numbers below 1 are poles. */
static void gammas(haul_device *device)
{
    haul_tensor *x = OF(device, HAUL_F64, 0, -1, -2.5, 1);
    double       got[4];
    assert_int_equal(read_values(haul_polygamma(x, 1), got, 4), HAUL_OK);
    assert_true(isinf(got[0]) && isinf(got[1]));
    assert_true(fabs(got[2] - 9.53924664498912) < 1e-12 && fabs(got[3] - 1.6449340668482264) < 1e-14);
    for (double order = 0; order < 2; order += 0.5)
        if (order != 1)
            assert_int_equal(haul_item(haul_sum(haul_cast(haul_isnan(haul_polygamma(x, order)), HAUL_F32))), 4);
    assert_int_equal(read_values(haul_lgamma(x), got, 4), HAUL_OK);
    assert_true(isinf(got[0]) && got[0] > 0 && isinf(got[1]) && fabs(got[2] + 0.056243716497674054) < 1e-14 &&
                got[3] == 0);
}

static void test_elementwise__gamma_functions(void **state)
{
    (void)state;
    on_devices(gammas);
}

static haul_tensor *leaf(haul_tensor *x)
{
    return haul_set_requires_grad(haul_detach(x), true);
}

/* At a bound the gradient is that of x; behind bounds in the wrong order it is that of high. */
static void bounds(haul_device *device)
{
    haul_tensor *x = leaf(OF(device, HAUL_F32, -3, 1, 2, 5, 0, NAN, 0)),
                *low = leaf(OF(device, HAUL_F32, -1, 1, 0, 0, 4, 0, NAN)),
                *high = leaf(OF(device, HAUL_F32, 3, 3, 2, 4, 2, 1, 1)), *y = haul_clamp_between(x, low, high);
    double got[7];
    assert_close(haul_slice(y, 0, 0, 5, 1), (double[]){-1, 1, 2, 4, 2}, 5, 0, "clamp_between");
    assert_int_equal(read_values(y, got, 7), HAUL_OK);
    assert_true(isnan(got[5]) && isnan(got[6]));
    assert_succeeded(haul_backward(haul_sum(haul_slice(y, 0, 0, 5, 1))), "backward");
    assert_close(haul_tensor_grad(x), (double[]){0, 1, 1, 0, 0, 0, 0}, 7, 0, "gradient of x");
    assert_close(haul_tensor_grad(low), (double[]){1, 0, 0, 0, 0, 0, 0}, 7, 0, "gradient of low");
    assert_close(haul_tensor_grad(high), (double[]){0, 0, 0, 1, 1, 0, 0}, 7, 0, "gradient of high");
    haul_tensor *i = OF(device, HAUL_I32, -3, 9), *flags = haul_gt_scalar(i, 0), *odd = OF(device, HAUL_F32, 1, 2, 3);
    assert_int_equal(haul_tensor_dtype(haul_clamp_between(i, i, i)), HAUL_I32);
    assert_refused(haul_clamp_between(flags, flags, flags), HAUL_DTYPE, "bool");
    haul_error_clear();
    assert_refused(haul_clamp_between(i, i, odd), HAUL_SHAPE, "haul_clamp_between");
    haul_error_clear();
    assert_refused(haul_clamp_between(i, NULL, i), HAUL_INVALID_ARGUMENT, "low");
    haul_error_clear();
}

static void test_elementwise__bounds(void **state)
{
    (void)state;
    on_devices(bounds);
}

static void three(haul_device *device)
{
    haul_tensor *a = OF(device, HAUL_F32, 1, 0.1, -1e30), *b = OF(device, HAUL_F32, 3, 0.7, 1e30);
    assert_equal_bits(haul_lerp_scalar(a, b, 0), a, "a weight of 0");
    assert_equal_bits(haul_lerp_scalar(a, b, 1), b, "a weight of 1");
    assert_close(haul_lerp(a, b, OF(device, HAUL_F32, 0.5)), (double[]){2, 0.4, 0}, 3, 1e-7, "the middle");
    haul_tensor *i = OF(device, HAUL_I32, 1, 2, 4);
    assert_int_equal(haul_tensor_dtype(haul_addcdiv(i, i, i, 0.5)), HAUL_F32);
    assert_close(haul_addcdiv(i, i, i, 0.5), (double[]){1.5, 2.5, 4.5}, 3, 0, "addcdiv of i32");
    assert_close(haul_addcmul(i, i, i, -1), (double[]){0, -2, -12}, 3, 0, "addcmul of i32");
    assert_refused(haul_lerp(a, OF(device, HAUL_F32, 1, 2), a), HAUL_SHAPE, "haul_lerp");
    haul_error_clear();
    assert_refused(haul_addcmul(a, HAUL_NONE, a, 1), HAUL_INVALID_ARGUMENT, "haul_addcmul");
    haul_error_clear();
}

static void test_elementwise__three_tensors(void **state)
{
    (void)state;
    on_devices(three);
}

static void decimals(haul_device *device)
{
    haul_tensor *x = OF(device, HAUL_F64, 2.345, -2.345, 1e300, 25, 1234);
    assert_close(haul_round_decimals(x, 1), (double[]){2.3, -2.3, 1e300, 25, 1234}, 5, 0, "one place");
    assert_close(haul_round_decimals(x, 0), (double[]){2, -2, 1e300, 25, 1234}, 5, 0, "no place");
    assert_close(haul_slice(haul_round_decimals(x, -1), 0, 3, 5, 1), (double[]){20, 1230}, 2, 0, "tens");
    assert_close(haul_slice(haul_round_decimals(x, 20), 0, 2, 3, 1), (double[]){1e300}, 1, 0, "a product out of range");
    assert_refused(haul_round_decimals(x, 301), HAUL_INVALID_ARGUMENT, "decimals");
    haul_error_clear();
}

static void test_elementwise__decimals(void **state)
{
    (void)state;
    on_devices(decimals);
}

static void numbers(haul_device *device)
{
    haul_tensor *i = OF(device, HAUL_U8, 1, 2, 3), *odd = haul_ne_scalar(i, 2);
    assert_close(haul_where_scalar(odd, i, 9), (double[]){1, 9, 3}, 3, 0, "where_scalar");
    assert_int_equal(haul_tensor_dtype(haul_where_scalar(odd, i, 9)), HAUL_U8);
    assert_refused(haul_where_scalar(odd, i, 256), HAUL_INVALID_ARGUMENT, "256");
    haul_error_clear();
    assert_refused(haul_where_scalar(i, i, 1), HAUL_DTYPE, "bool");
    haul_error_clear();
    haul_tensor *x = OF(device, HAUL_F32, NAN, INFINITY, -INFINITY, 2);
    assert_close(haul_nan_to_num(x, 0.5, 7), (double[]){0.5, 7, -7, 2}, 4, 0, "nan_to_num");
    assert_close(haul_nan_to_num(i, 0, 5), (double[]){1, 2, 3}, 3, 0, "nan_to_num of u8");
}

static void test_elementwise__numbers(void **state)
{
    (void)state;
    on_devices(numbers);
}

static haul_status where_scalar_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_where_scalar_into(out, haul_gt_scalar(in[0], 0), in[0], -1);
}

static haul_status clamp_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_clamp_between_into(out, in[0], in[1], in[2]);
}

static haul_status lerp_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_lerp_into(out, in[0], in[1], in[2]);
}

static haul_status lerp_scalar_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_lerp_scalar_into(out, in[0], in[1], 0.25);
}

static haul_status addcmul_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_addcmul_into(out, in[0], in[1], in[2], 2);
}

static haul_status addcdiv_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_addcdiv_into(out, in[0], in[1], in[2], 2);
}

static haul_status round_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_round_decimals_into(out, in[0], 1);
}

static void into(haul_device *device)
{
    haul_tensor *in[3];
    for (unsigned i = 0; i < 3; i++)
        in[i] = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 5), 1 + i, NULL);
    assert_into("where_scalar", where_scalar_into, haul_where_scalar(haul_gt_scalar(in[0], 0), in[0], -1), in, 1, 0);
    assert_into("clamp_between", clamp_into, haul_clamp_between(in[0], in[1], in[2]), in, 3, 0);
    assert_into("lerp", lerp_into, haul_lerp(in[0], in[1], in[2]), in, 3, 0);
    assert_into("lerp_scalar", lerp_scalar_into, haul_lerp_scalar(in[0], in[1], 0.25), in, 2, 0);
    assert_into("addcmul", addcmul_into, haul_addcmul(in[0], in[1], in[2], 2), in, 3, 0);
    assert_into("addcdiv", addcdiv_into, haul_addcdiv(in[0], in[1], in[2], 2), in, 3, 0);
    assert_into("round_decimals", round_into, haul_round_decimals(in[0], 1), in, 1, 0);
}

static void test_elementwise__into(void **state)
{
    (void)state;
    on_devices(into);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise__bits),
        cmocka_unit_test(test_elementwise__shifts),
        cmocka_unit_test(test_elementwise__steps),
        cmocka_unit_test(test_elementwise__whole_quotients),
        cmocka_unit_test(test_elementwise__gamma_functions),
        cmocka_unit_test(test_elementwise__bounds),
        cmocka_unit_test(test_elementwise__three_tensors),
        cmocka_unit_test(test_elementwise__decimals),
        cmocka_unit_test(test_elementwise__numbers),
        cmocka_unit_test(test_elementwise__into),
    };
    return cmocka_run_group_tests_name("ops_elementwise", tests, NULL, NULL);
}
