/* Statistics on every device: order statistics with NaN, ties and single elements, dtypes, and refusals. The samples of
 * tests/conformance compare them with PyTorch.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"

static haul_tensor *of(haul_device *device, haul_dtype dtype, haul_shape shape, const double *values)
{
    return haul_to(haul_cast(haul_from_host(HAUL_F64, shape, values), dtype), device);
}

typedef haul_status choice(haul_tensor *x, int axis, bool keepdim, haul_tensor **values, haul_tensor **indices);

static void assert_chosen(choice *call, haul_tensor *x, int axis, const double *values, const double *indices,
                          int64_t n, const char *what)
{
    haul_tensor *got[2];
    double       v[8], i[8];
    assert_succeeded(call(x, axis, false, &got[0], &got[1]), what);
    assert_int_equal(haul_tensor_count(got[0]), n);
    assert_int_equal(haul_tensor_dtype(got[1]), HAUL_I64);
    assert_int_equal(read_values(got[0], v, n), HAUL_OK);
    assert_int_equal(read_values(got[1], i, n), HAUL_OK);
    for (int64_t k = 0; k < n; k++)
        if (!(v[k] == values[k] || (isnan(v[k]) && isnan(values[k]))) || i[k] != indices[k])
            fail_msg("%s: element %lld is %g at %g, not %g at %g", what, (long long)k, v[k], i[k], values[k],
                     indices[k]);
}

static void medians(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_F32, HAUL_SHAPE(3, 4), (double[]){4, 1, 3, 2, 5, NAN, 1, 7, NAN, NAN, NAN, NAN});
    assert_chosen(haul_median, x, 1, (double[]){2, NAN, NAN}, (double[]){3, 1, 0}, 3, "median");
    assert_chosen(haul_nanmedian, x, -1, (double[]){2, 5, NAN}, (double[]){3, 0, 0}, 3, "nanmedian");
    haul_tensor *bytes = of(device, HAUL_U8, HAUL_SHAPE(5), (double[]){200, 3, 3, 255, 0});
    assert_chosen(haul_median, bytes, 0, (double[]){3}, (double[]){2}, 1, "median of u8");
    assert_chosen(haul_median, haul_select(bytes, 0, 3), 0, (double[]){255}, (double[]){0}, 1, "median of one");
    haul_tensor *none = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0)), device), *got[2];
    check_refused(haul_median(none, 1, false, &got[0], &got[1]) != HAUL_OK, HAUL_SHAPE, "haul_median");
    haul_error_clear();
    assert_true(is_failed(got[0]) && is_failed(got[1]));
    check_refused(haul_median(x, 2, false, &got[0], &got[1]) != HAUL_OK, HAUL_INVALID_ARGUMENT, "axis");
    haul_error_clear();
    check_refused(haul_nanmedian(NULL, 0, false, &got[0], &got[1]) != HAUL_OK, HAUL_INVALID_ARGUMENT, "haul_nanmedian");
    haul_error_clear();
}

/* Medians of long lines are looked for without sorting them: the element and the index are those of a stable sort. */
static void long_medians(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_I8};
    enum { LINES = 3, LONG = 1801 };
    double *v = calloc(LINES * LONG, sizeof *v);
    assert_non_null(v);
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
        for (int spread = 3; spread < 2000; spread *= 400) {
            const bool floats = haul_dtype_is_float(dtypes[d]);
            for (int i = 0; i < LINES * LONG; i++)
                v[i] = floats ? (i * 7919 % spread - spread / 2) / 8.0 : i * 7919 % spread % 100;
            v[1] = v[4] = -0.0;
            if (floats) /* the second line has NaN, and infinities */
                v[LONG + 8] = v[LONG + 900] = NAN, v[LONG + 5] = -INFINITY, v[LONG] = INFINITY;
            haul_tensor *x = of(device, dtypes[d], HAUL_SHAPE(LINES, LONG), v), *sorted, *order, *most, *at;
            assert_succeeded(haul_sort(x, 1, false, &sorted, &order), "sort");
            const int64_t middle = (LONG - 1) / 2;
            for (int flipped = 0; flipped < 2; flipped++) {
                haul_tensor *y = flipped ? haul_contiguous(haul_transpose(x, 0, 1)) : x;
                for (int skips = 0; skips < 2; skips++) {
                    choice *call = skips ? haul_nanmedian : haul_median;
                    assert_succeeded(call(y, !flipped, false, &most, &at), "median");
                    for (int line = 0; line < LINES; line++) {
                        const bool    nan = floats && line == 1;
                        const int64_t place = !nan ? middle : skips ? (LONG - 3) / 2 : LONG - 2;
                        haul_tensor  *wanted = haul_select(haul_select(order, 0, line), 0, place);
                        assert_int_equal(haul_item_i64(haul_select(at, 0, line)), haul_item_i64(wanted));
                        const double m = haul_item(haul_cast(haul_select(most, 0, line), HAUL_F64));
                        const double w =
                            haul_item(haul_cast(haul_select(haul_select(sorted, 0, line), 0, place), HAUL_F64));
                        assert_true(m == w || (isnan(m) && isnan(w)));
                    }
                }
            }
        }
    free(v);
}

static void test_statistics__long_medians(void **state)
{
    (void)state;
    on_devices(long_medians);
}

static void test_statistics__medians(void **state)
{
    (void)state;
    on_devices(medians);
}

static void modes(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_I32, HAUL_SHAPE(2, 5), (double[]){3, 1, 3, 1, 2, -7, 9, 9, 9, -7});
    assert_chosen(haul_most_common, x, 1, (double[]){1, 9}, (double[]){3, 3}, 2, "mode");
    assert_chosen(haul_most_common, x, 0, (double[]){-7, 1, 3, 1, -7}, (double[]){1, 0, 0, 0, 1}, 5, "mode of columns");
    assert_chosen(haul_most_common, haul_flatten(haul_select(haul_select(x, 0, 0), 0, 1), 0), 0, (double[]){1},
                  (double[]){0}, 1, "mode of one");
    haul_tensor *none = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0)), device), *got[2];
    check_refused(haul_most_common(none, 0, false, &got[0], &got[1]) != HAUL_OK, HAUL_SHAPE, "haul_most_common");
    haul_error_clear();
}

static void test_statistics__modes(void **state)
{
    (void)state;
    on_devices(modes);
}

/* NaN stays from where it is; of equals the last counts. */
static void extremes(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_F32, HAUL_SHAPE(6), (double[]){1, 3, 3, 2, NAN, 9}), *values, *indices;
    double       v[6];
    assert_succeeded(haul_cummax(x, 0, &values, &indices), "cummax");
    assert_close(indices, (double[]){0, 1, 2, 2, 4, 4}, 6, 0, "indices");
    assert_int_equal(read_values(values, v, 6), HAUL_OK);
    assert_true(v[0] == 1 && v[1] == 3 && v[2] == 3 && v[3] == 3 && isnan(v[4]) && isnan(v[5]));
    assert_succeeded(haul_cummin(x, 0, &values, &indices), "cummin");
    assert_close(indices, (double[]){0, 0, 0, 0, 4, 4}, 6, 0, "indices");
    haul_tensor *bytes = of(device, HAUL_U8, HAUL_SHAPE(3), (double[]){200, 255, 7});
    assert_succeeded(haul_cummax(bytes, 0, &values, &indices), "cummax of u8");
    assert_int_equal(haul_tensor_dtype(values), HAUL_U8);
    assert_close(values, (double[]){200, 255, 255}, 3, 0, "cummax of u8");
    haul_tensor *none = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0)), device);
    assert_succeeded(haul_cummin(none, 1, &values, &indices), "cummin of nothing");
    assert_int_equal(haul_tensor_count(values), 0);
    check_refused(haul_cummax(x, 1, &values, &indices) != HAUL_OK, HAUL_INVALID_ARGUMENT, "haul_cummax");
    haul_error_clear();
}

static void test_statistics__running_extremes(void **state)
{
    (void)state;
    on_devices(extremes);
}

static void products(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_U8, HAUL_SHAPE(2, 3), (double[]){2, 3, 200, 1, 0, 5});
    assert_int_equal(haul_tensor_dtype(haul_cumprod(x, 1)), HAUL_I64);
    assert_close(haul_cumprod(x, 1), (double[]){2, 6, 1200, 1, 0, 0}, 6, 0, "cumprod of u8");
    assert_close(haul_cumprod(haul_gt_scalar(x, 0), 0), (double[]){1, 1, 1, 1, 0, 1}, 6, 0, "cumprod of bool");
    assert_refused(haul_cumprod(x, 2), HAUL_INVALID_ARGUMENT, "haul_cumprod");
    haul_error_clear();
    haul_tensor *far = of(device, HAUL_F32, HAUL_SHAPE(4), (double[]){-INFINITY, -1000, 1000, 1000});
    double       got[4];
    assert_int_equal(read_values(haul_logcumsumexp(far, 0), got, 4), HAUL_OK);
    assert_true(isinf(got[0]) && got[1] == -1000 && got[2] == 1000 && fabs(got[3] - 1000.693) < 1e-3);
    assert_refused(haul_logcumsumexp(far, -2), HAUL_INVALID_ARGUMENT, "haul_logcumsumexp");
    haul_error_clear();
}

static haul_status cumprod_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_cumprod_into(out, in[0], 1);
}

static haul_status logcumsumexp_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_logcumsumexp_into(out, in[0], 1);
}

static void products_into(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 5), 1, NULL);
    assert_into("cumprod", cumprod_into, haul_cumprod(x, 1), &x, 1, 0);
    assert_into("logcumsumexp", logcumsumexp_into, haul_logcumsumexp(x, 1), &x, 1, 0);
}

static void test_statistics__running_products(void **state)
{
    (void)state;
    on_devices(products);
    on_devices(products_into);
}

static void differences(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_I32, HAUL_SHAPE(4), (double[]){1, 4, 9, 16}), *flags = haul_gt_scalar(x, 2);
    assert_close(haul_diff(x, 1, 0), (double[]){3, 5, 7}, 3, 0, "diff");
    assert_close(haul_diff(x, 2, -1), (double[]){2, 2}, 2, 0, "diff of diff");
    assert_close(haul_diff(x, 0, 0), (double[]){1, 4, 9, 16}, 4, 0, "no diff");
    assert_close(haul_diff(x, 9, 0), NULL, 0, 0, "too many");
    assert_refused(haul_diff(x, -1, 0), HAUL_INVALID_ARGUMENT, "n is -1");
    haul_error_clear();
    assert_refused(haul_diff(flags, 1, 0), HAUL_DTYPE, "bool");
    haul_error_clear();
    assert_refused(haul_diff(x, 1, 1), HAUL_INVALID_ARGUMENT, "haul_diff");
    haul_error_clear();
    assert_close(haul_trapezoid(x), (double[]){21.5}, 1, 0, "trapezoid of i32");
    assert_close(haul_trapezoid(haul_slice(x, 0, 0, 1, 1)), (double[]){0}, 1, 0, "of one point");
    assert_refused(haul_trapezoid(x, .x = haul_slice(x, 0, 0, 3, 1)), HAUL_SHAPE, "haul_trapezoid");
    haul_error_clear();
}

static void test_statistics__differences(void **state)
{
    (void)state;
    on_devices(differences);
}

static void quantiles(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_F64, HAUL_SHAPE(2, 3), (double[]){3, 1, 2, 5, NAN, 4});
    double       got[2];
    assert_int_equal(read_values(haul_quantile(x, 0.25, HAUL_AXES(1)), got, 2), HAUL_OK);
    assert_true(got[0] == 1.5 && isnan(got[1]));
    haul_tensor *i = of(device, HAUL_I32, HAUL_SHAPE(4), (double[]){10, -1, 7, 2});
    assert_int_equal(haul_tensor_dtype(haul_quantile(i, 0.5)), HAUL_F32);
    assert_close(haul_quantile(i, 0.5), (double[]){4.5}, 1, 0, "the median");
    assert_close(haul_quantile(i, 0), (double[]){-1}, 1, 0, "the smallest");
    assert_close(haul_quantile(i, 1), (double[]){10}, 1, 0, "the largest");
    assert_close(haul_quantile(haul_select(i, 0, 0), 0.3), (double[]){10}, 1, 0, "of a number");
    assert_refused(haul_quantile(i, 1.5), HAUL_INVALID_ARGUMENT, "q is 1.5");
    haul_error_clear();
    assert_refused(haul_quantile(i, NAN), HAUL_INVALID_ARGUMENT, "q is");
    haul_error_clear();
    assert_refused(haul_quantile(i, 0.5, .interpolation = (haul_quantile_rule)9), HAUL_INVALID_ARGUMENT,
                   "interpolation");
    haul_error_clear();
    assert_refused(haul_quantile(haul_slice(i, 0, 0, 0, 1), 0.5), HAUL_SHAPE, "haul_quantile");
    haul_error_clear();
    assert_refused(haul_quantile(i, 0.5, HAUL_AXES(3)), HAUL_INVALID_ARGUMENT, "haul_quantile");
    haul_error_clear();
}

static void test_statistics__quantiles(void **state)
{
    (void)state;
    on_devices(quantiles);
}

static void sums(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_F32, HAUL_SHAPE(2, 2), (double[]){NAN, 2, NAN, NAN}),
                *i = haul_cast(haul_isnan(x), HAUL_U8);
    double got[2];
    assert_close(haul_nansum(x, HAUL_AXES(1)), (double[]){2, 0}, 2, 0, "nansum");
    assert_close(haul_nansum(i), (double[]){3}, 1, 0, "nansum of u8");
    assert_int_equal(read_values(haul_nanmean(x, HAUL_AXES(1)), got, 2), HAUL_OK);
    assert_true(got[0] == 2 && isnan(got[1]));
    assert_refused(haul_nanmean(i), HAUL_DTYPE, "haul_nanmean");
    haul_error_clear();
    assert_refused(haul_nansum(x, HAUL_AXES(2)), HAUL_INVALID_ARGUMENT, "axis");
    haul_error_clear();
}

static void test_statistics__sums_without_nan(void **state)
{
    (void)state;
    on_devices(sums);
}

static void covariances(haul_device *device)
{
    haul_tensor *x = of(device, HAUL_I32, HAUL_SHAPE(2, 3), (double[]){1, 2, 3, 6, 4, 2});
    assert_close(haul_cov(x), (double[]){1, -2, -2, 4}, 4, 1e-6, "cov");
    assert_close(haul_corrcoef(x), (double[]){1, -1, -1, 1}, 4, 1e-6, "corrcoef");
    assert_close(haul_cov(haul_select(x, 0, 0), .correction = HAUL_ZERO), (double[]){2.0 / 3}, 1, 1e-6, "a vector");
    assert_close(haul_corrcoef(haul_select(x, 0, 0)), (double[]){1}, 1, 0, "corrcoef of a vector");
    assert_refused(haul_cov(haul_unsqueeze(x, 0)), HAUL_SHAPE, "observations");
    haul_error_clear();
    assert_refused(haul_corrcoef(haul_scalar(1)), HAUL_SHAPE, "observations");
    haul_error_clear();
}

static void test_statistics__covariances(void **state)
{
    (void)state;
    on_devices(covariances);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_statistics__long_medians),
        cmocka_unit_test(test_statistics__medians),
        cmocka_unit_test(test_statistics__modes),
        cmocka_unit_test(test_statistics__running_extremes),
        cmocka_unit_test(test_statistics__running_products),
        cmocka_unit_test(test_statistics__differences),
        cmocka_unit_test(test_statistics__quantiles),
        cmocka_unit_test(test_statistics__sums_without_nan),
        cmocka_unit_test(test_statistics__covariances),
    };
    return cmocka_run_group_tests_name("ops_statistics", tests, NULL, NULL);
}
