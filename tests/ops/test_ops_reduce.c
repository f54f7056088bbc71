/* Reductions against plain loops: every choice of axes, long ones that take several passes, ties, NaN, nothing to
 * reduce.
 *
 * ctest: cuda; labels=threads; cuda-labels=none; ptx */
#include <math.h>

#include "support/failure.h"
#include "support/into.h"

typedef enum kind { SUM, MEAN, MAX, MIN, KINDS } kind;

static haul_tensor *reduce(kind what, const haul_reduce_options *options)
{
    haul_tensor *(*const functions[KINDS])(const haul_reduce_options *) = {haul_sum_with, haul_mean_with, haul_max_with,
                                                                           haul_min_with};
    return functions[what](options);
}

/* The reduction of row-major values over the axes in `mask`. Returns the number of results. */
static int64_t reference(kind what, const double *x, const haul_shape *shape, unsigned mask, double *out)
{
    int64_t count = 1, results = 1, each = 1;
    for (int d = 0; d < shape->ndim; d++) {
        count *= shape->dims[d];
        *(mask >> d & 1 ? &each : &results) *= shape->dims[d];
    }
    for (int64_t i = 0; i < results; i++)
        out[i] = what == MAX ? -INFINITY : what == MIN ? INFINITY : 0;
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, at = 0, step = 1;
        for (int d = shape->ndim - 1; d >= 0; d--) {
            int64_t c = rest % shape->dims[d];
            rest /= shape->dims[d];
            if (!(mask >> d & 1)) {
                at += c * step;
                step *= shape->dims[d];
            }
        }
        if (what == SUM || what == MEAN)
            out[at] += x[i];
        else
            out[at] = what == MAX ? fmax(out[at], x[i]) : fmin(out[at], x[i]);
    }
    for (int64_t i = 0; i < results && what == MEAN; i++)
        out[i] /= (double)each;
    return results;
}

static haul_reduce_options options_of(haul_tensor *x, unsigned mask, bool keepdim)
{
    haul_reduce_options o = {.x = x, .keepdim = keepdim};
    for (int d = 0; d < HAUL_MAX_DIMS; d++)
        if (mask >> d & 1)
            o.haul__axes.axes[o.haul__axes.count++] = d;
    return o;
}

static void compare(haul_device *device, haul_dtype dtype, haul_shape shape, unsigned mask, double error)
{
    haul_scope  *scope = haul_scope_push();
    double      *values;
    haul_tensor *x = sample_tensor(device, dtype, shape, 3, &values);
    double      *want = calloc((size_t)haul_tensor_count(x) + 1, sizeof *want);
    char         what[80];
    assert_non_null(want);
    for (kind k = SUM; k < KINDS; k++) {
        int64_t             results = reference(k, values, &shape, mask, want);
        haul_reduce_options o = options_of(x, mask, mask & 1);
        snprintf(what, sizeof what, "reduction %d of axes %#x, %s on %s", (int)k, mask, haul_dtype_name(dtype),
                 haul_device_name(device));
        haul_tensor *y = reduce(k, &o);
        assert_close(y, want, results, k >= MAX ? 0 : error, what);
        assert_int_equal(haul_tensor_ndim(y), mask & 1 ? shape.ndim : shape.ndim - o.haul__axes.count);
    }
    free(values);
    free(want);
    haul_scope_pop(scope);
}

static void every_choice_of_axes(haul_device *device)
{
    for (unsigned mask = 1; mask < 32; mask++) {
        compare(device, HAUL_F64, HAUL_SHAPE(3, 1, 5, 2, 37), mask, 1e-12);
        compare(device, HAUL_F32, HAUL_SHAPE(3, 1, 5, 2, 37), mask, 1e-4);
    }
}

static void test_reduce__every_choice_of_axes(void **state)
{
    (void)state;
    on_devices(every_choice_of_axes);
}

/* The sizes around which rows and columns are cut into pieces and passes. */
static void long_ones(haul_device *device)
{
    static const int64_t lengths[] = {31, 32, 33, 2047, 2048, 2049, 32768, 32769, 70001, 300007};
    for (int i = 0; i < (int)(sizeof lengths / sizeof lengths[0]); i++) {
        compare(device, HAUL_F64, HAUL_SHAPE(lengths[i]), 1, 1e-9);
        compare(device, HAUL_F64, HAUL_SHAPE(2, lengths[i]), 2, 1e-9);
        compare(device, HAUL_F64, HAUL_SHAPE(lengths[i], 3), 1, 1e-9);
    }
    compare(device, HAUL_F64, HAUL_SHAPE(64, 6, 28, 28), 13, 1e-9);
    compare(device, HAUL_F64, HAUL_SHAPE(40, 6, 3, 3000), 13, 1e-9);
    compare(device, HAUL_F64, HAUL_SHAPE(700, 300), 1, 1e-9);
    compare(device, HAUL_F64, HAUL_SHAPE(50, 3, 700), 3, 1e-9);
}

static void test_reduce__long_ones_by_definition(void **state)
{
    (void)state;
    on_devices(long_ones);
}

static void rounding(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_full(HAUL_F32, HAUL_SHAPE(1 << 20), 0.1);
    assert_float_equal(haul_item(haul_mean(x)), 0.1f, 1e-7);
    double columns[] = {0.1f, 0.1f, 0.1f, 0.1f};
    assert_close(haul_mean(haul_reshape(x, HAUL_SHAPE(1 << 18, 4)), HAUL_AXES(0)), columns, 4, 5e-7, "columns");
}

static void test_reduce__rounding_errors_do_not_grow_with_the_length(void **state)
{
    (void)state;
    on_devices(rounding);
}

static void layouts(haul_device *device)
{
    static const layout all[] = {LAYOUT_transposed, LAYOUT_sliced, LAYOUT_stepped, LAYOUT_broadcast};
    haul_shape          shape = HAUL_SHAPE(4, 6, 33);
    for (int i = 0; i < 4; i++)
        for (unsigned mask = 1; mask < 8; mask++) {
            double values[4 * 6 * 33], want[4 * 6 * 33];
            sample_values(values, 4 * 6 * 33, HAUL_F64, -2, 2, 5);
            haul_tensor        *x = make_operand(device, HAUL_F64, shape, all[i], values);
            haul_reduce_options o = options_of(x, mask, false);
            int64_t             results = reference(SUM, values, &shape, mask, want);
            assert_close(haul_sum_with(&o), want, results, 1e-12, layout_names[all[i]]);
            results = reference(MIN, values, &shape, mask, want);
            assert_close(haul_min_with(&o), want, results, 0, layout_names[all[i]]);
        }
}

static void test_reduce__any_layout(void **state)
{
    (void)state;
    on_devices(layouts);
}

static void integers(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *bytes = haul_full(HAUL_U8, HAUL_SHAPE(100, 1000), 255), *s = haul_sum(bytes);
    assert_int_equal(haul_tensor_dtype(s), HAUL_I64);
    assert_int_equal(haul_item_i64(s), 25500000);
    assert_int_equal(haul_item_i64(haul_sum(haul_full(HAUL_I32, HAUL_SHAPE(3), INT32_MAX))), INT64_C(3) * INT32_MAX);
    assert_int_equal(haul_item_i64(haul_sum(haul_full(HAUL_BOOL, HAUL_SHAPE(40000), 1))), 40000);
    haul_tensor *most = haul_max(haul_arange(HAUL_I64, 0, 100, 1));
    assert_int_equal(haul_tensor_dtype(most), HAUL_I64);
    assert_int_equal(haul_item_i64(most), 99);
    assert_int_equal(haul_item_i64(haul_min(haul_full(HAUL_I8, HAUL_SHAPE(7), -128))), -128);
    assert_int_equal(haul_tensor_dtype(haul_max(haul_full(HAUL_BOOL, HAUL_SHAPE(7), 0))), HAUL_BOOL);
}

static void test_reduce__integers(void **state)
{
    (void)state;
    on_devices(integers);
}

static void nan_wins(haul_device *device)
{
    static const int at[] = {0, 1, 31, 32, 63, 64, 69};
    for (int i = 0; i < 7; i++) {
        float values[70];
        for (int j = 0; j < 70; j++)
            values[j] = (float)j;
        values[at[i]] = NAN;
        haul_tensor *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(70), values), device);
        assert_true(isnan(haul_item(haul_max(x))));
        assert_true(isnan(haul_item(haul_min(x))));
        assert_int_equal(haul_item_i64(haul_argmax(x, 0, false)), at[i]);
        assert_int_equal(haul_item_i64(haul_argmin(x, 0, false)), at[i]);
        haul_tensor *columns = haul_reshape(haul_slice(x, 0, 0, 70, 1), HAUL_SHAPE(35, 2));
        haul_tensor *most = haul_max(columns, HAUL_AXES(0));
        assert_true(isnan(haul_item(haul_select(most, 0, at[i] % 2))));
        assert_false(isnan(haul_item(haul_select(most, 0, 1 - at[i] % 2))));
    }
}

static void test_reduce__nan_wins(void **state)
{
    (void)state;
    on_devices(nan_wins);
}

static void nothing(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(3, 0)), *s = haul_sum(x, HAUL_AXES(1));
    assert_close(s, (double[]){0, 0, 0}, 3, 0, "sum of nothing");
    haul_tensor *m = haul_mean(x, HAUL_AXES(1));
    assert_int_equal(haul_tensor_count(m), 3);
    assert_true(isnan(haul_item(haul_select(m, 0, 2))));
    assert_int_equal(haul_tensor_count(haul_max(x, HAUL_AXES(0))), 0); /* no result, so nothing is missing */
    assert_refused(haul_max(x), HAUL_SHAPE, "haul_max: x has shape [3,0]");
    assert_refused(haul_min(x, HAUL_AXES(1)), HAUL_SHAPE, "at least one element");
    assert_refused(haul_argmax(x, 1, false), HAUL_SHAPE, "at least one element");
    haul_tensor *one = haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, 7);
    assert_float_equal(haul_item(haul_sum(one)), 7, 0);
    assert_float_equal(haul_item(haul_max(one)), 7, 0);
}

static void test_reduce__nothing_to_reduce(void **state)
{
    (void)state;
    on_devices(nothing);
}

static void arguments(haul_device *device)
{
    static const float values[] = {1, 5, 5, 2, -3, -3, 0, 5, 5};
    haul_tensor       *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(3, 3), values), device);
    assert_close(haul_argmax(x, 1, false), (double[]){1, 0, 1}, 3, 0, "argmax of rows");
    assert_close(haul_argmax(x, -2, true), (double[]){1, 0, 0}, 3, 0, "argmax of columns");
    assert_close(haul_argmin(x, 0, false), (double[]){2, 1, 1}, 3, 0, "argmin of columns");
    assert_int_equal(haul_tensor_ndim(haul_argmax(x, 0, true)), 2);
    assert_int_equal(haul_tensor_ndim(haul_argmax(x, 0, false)), 1);
    double      *many;
    haul_tensor *long_row = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 1001), 9, &many);
    double       want[2] = {0, 0};
    for (int r = 0; r < 2; r++)
        for (int j = 0; j < 1001; j++)
            if (many[r * 1001 + j] > many[r * 1001 + (int)want[r]])
                want[r] = j;
    assert_close(haul_argmax(long_row, 1, false), want, 2, 0, "argmax of long rows");
    assert_close(haul_argmax(haul_contiguous(haul_transpose(long_row, 0, 1)), 0, false), want, 2, 0, "of long columns");
    free(many);
}

static void test_reduce__arguments_are_the_first_of_equals(void **state)
{
    (void)state;
    on_devices(arguments);
}

static void ties(haul_device *device)
{
    static const float values[] = {1, 5, 5, 2, 2, 2};
    haul_tensor       *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), values), device), *g;
    haul_set_requires_grad(x, true);
    assert_int_equal(haul_grad(haul_sum(haul_max(x, HAUL_AXES(1))), &x, 1, &g), HAUL_OK);
    assert_close(g, (double[]){0, 0.5, 0.5, 1.0 / 3, 1.0 / 3, 1.0 / 3}, 6, 1e-6, "gradient of a tied maximum");
}

static void test_reduce__ties_share_the_gradient(void **state)
{
    (void)state;
    on_devices(ties);
}

static haul_tensor *mixed(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    (void)context;
    haul_tensor *mean = haul_mean(in[0], HAUL_AXES(0, 2), .keepdim = true);
    haul_tensor *spread = haul_sum(haul_square(haul_sub(in[0], mean)), HAUL_AXES(-1));
    return haul_mul(spread, haul_max(in[0], HAUL_AXES(2)));
}

static void test_reduce__gradients(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(3, 4, 5), 4, NULL);
    if (haul_grad_check(mixed, &x, 1, NULL))
        fail_msg("%s", haul_error_message());
    haul_scope_pop(scope);
}

static haul_tensor *several(void *context)
{
    haul_tensor *const *x = context, *flat = haul_sum(x[0]), *rows = haul_mean(x[1], HAUL_AXES(1));
    haul_tensor        *columns = haul_sum(x[1], HAUL_AXES(0));
    return haul_cat((haul_tensor *[]){haul_reshape(flat, HAUL_SHAPE(1)), rows, columns}, 3, 0);
}

/* All devices add in the same order. */
static void test_reduce__same_bits_for_threads_and_devices(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(300007), 1, NULL);
    haul_tensor *in[] = {x, haul_reshape(haul_slice(x, 0, 0, 300000, 1), HAUL_SHAPE(3000, 100))};
    assert_same_for_threads((haul_tensor * (*)(void *)) several, in);
    float *first = NULL;
    for (int i = 0; i < count; i++) {
        haul_tensor *there[] = {haul_to(in[0], devices[i]), haul_to(in[1], devices[i])};
        haul_tensor *y = several(there);
        float       *got = malloc(haul_tensor_bytes(y));
        assert_non_null(got);
        assert_int_equal(haul_read(y, got, haul_tensor_bytes(y)), HAUL_OK);
        if (first)
            assert_memory_equal(got, first, haul_tensor_bytes(y));
        else
            first = got;
        if (got != first)
            free(got);
    }
    free(first);
    haul_scope_pop(scope);
}

static haul_status sum_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_sum_into(out, in[0], HAUL_AXES(1));
}

static haul_status mean_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_mean_into(out, in[0], HAUL_AXES(0), .keepdim = true);
}

static haul_status max_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_max_into(out, in[0]);
}

static haul_status min_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_min_into(out, in[0], HAUL_AXES(-1));
}

static haul_status argmax_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_argmax_into(out, in[0], 1, false);
}

static haul_status argmin_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_argmin_into(out, in[0], -2, true);
}

static void into_targets(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(5, 70), 8, NULL);
    haul_tensor *whole = haul_cast(haul_mul_scalar(x, 10), HAUL_I64);
    assert_into("sum", sum_into, haul_sum(x, HAUL_AXES(1)), &x, 1, 0);
    assert_into("mean", mean_into, haul_mean(x, HAUL_AXES(0), .keepdim = true), &x, 1, 0);
    assert_into("max", max_into, haul_max(x), &x, 1, 0);
    assert_into("min", min_into, haul_min(x, HAUL_AXES(-1)), &x, 1, 0);
    assert_into("argmax", argmax_into, haul_argmax(whole, 1, false), &whole, 1, 0);
    assert_into("argmin", argmin_into, haul_argmin(whole, -2, true), &whole, 1, 0);

    haul_tensor *nothing = haul_slice(x, 0, 0, 0, 1), *out = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(1, 70)), device);
    assert_int_equal(mean_into(out, &nothing), HAUL_OK);
    assert_true(isnan(haul_item(haul_select(haul_select(out, 0, 0), 0, 69))));
    assert_int_equal(haul_sum_into_with(out, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

static void test_reduce__into_a_target(void **state)
{
    (void)state;
    on_devices(into_targets);
}

/* Axis 0 or -1 of a 0-d tensor is its only element, as in PyTorch and NumPy. */
static void scalars_have_an_axis(haul_device *device)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x =
        haul_set_requires_grad(haul_detach(haul_to(haul_full(HAUL_F32, HAUL_SCALAR_SHAPE, 3), device)), true);
    haul_tensor *results[] = {haul_sum(x, HAUL_AXES(0)), haul_mean(x, HAUL_AXES(-1), .keepdim = true),
                              haul_max(x, HAUL_AXES(0)), haul_transpose(x, 0, -1)};
    for (int i = 0; i < 4; i++) {
        assert_valid(results[i]);
        assert_int_equal(haul_tensor_ndim(results[i]), 0);
        assert_true(haul_item(results[i]) == 3);
    }
    assert_true(haul_item(haul_argmax(x, 0, false)) == 0);
    assert_int_equal(haul_tensor_ndim(haul_argmin(x, -1, true)), 0);
    assert_int_equal(haul_backward(results[0]), HAUL_OK);
    assert_true(haul_item(haul_tensor_grad(x)) == 1);
    assert_refused(haul_sum(x, HAUL_AXES(1)), HAUL_INVALID_ARGUMENT, "axis 1 of a 0-d tensor");
    assert_refused(haul_sum(x, HAUL_AXES(0, -1)), HAUL_INVALID_ARGUMENT, "axis -1 is given twice");
    haul_scope_pop(scope);
}

static void test_reduce__axes_of_a_scalar(void **state)
{
    (void)state;
    on_devices(scalars_have_an_axis);
}

static void test_reduce__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_I32, HAUL_SHAPE(2, 3));
    assert_refused(haul_mean(x), HAUL_DTYPE, "x is i32, but a floating dtype is expected; convert it with haul_cast");
    assert_refused(haul_sum(x, HAUL_AXES(2)), HAUL_INVALID_ARGUMENT, "haul_sum");
    assert_refused(haul_sum(x, HAUL_AXES(1, -1)), HAUL_INVALID_ARGUMENT, "axis -1 is given twice");
    assert_refused(haul_sum_with(&(haul_reduce_options){.x = x, .haul__axes = {.count = 9}}), HAUL_INVALID_ARGUMENT,
                   "count is 9");
    assert_refused(haul_sum(NULL), HAUL_INVALID_ARGUMENT, "x");
    assert_refused(haul_sum_with(NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_max(HAUL_NONE), HAUL_INVALID_ARGUMENT, "HAUL_NONE");
    assert_refused(haul_argmax(x, 2, false), HAUL_INVALID_ARGUMENT, "haul_argmax");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reduce__every_choice_of_axes),
        cmocka_unit_test(test_reduce__long_ones_by_definition),
        cmocka_unit_test(test_reduce__rounding_errors_do_not_grow_with_the_length),
        cmocka_unit_test(test_reduce__any_layout),
        cmocka_unit_test(test_reduce__integers),
        cmocka_unit_test(test_reduce__nan_wins),
        cmocka_unit_test(test_reduce__nothing_to_reduce),
        cmocka_unit_test(test_reduce__arguments_are_the_first_of_equals),
        cmocka_unit_test(test_reduce__ties_share_the_gradient),
        cmocka_unit_test(test_reduce__gradients),
        cmocka_unit_test(test_reduce__same_bits_for_threads_and_devices),
        cmocka_unit_test(test_reduce__into_a_target),
        cmocka_unit_test(test_reduce__axes_of_a_scalar),
        cmocka_unit_test(test_reduce__errors),
    };
    return cmocka_run_group_tests_name("ops_reduce", tests, NULL, NULL);
}
