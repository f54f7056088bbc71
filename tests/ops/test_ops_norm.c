/* Batch normalisation, softmax and log_softmax against their formulas; running statistics; gradients of both orders.
 *
 * ctest: cuda */
#include "base/alloc.h"
#include "support/failure.h"
#include "support/linalg.h"

/* ---- batch_norm ---- */

typedef struct moments {
    double mean[80], var[80];
} moments;

/* Of x [n, c, inner]. */
static void measure(const double *x, int n, int c, int inner, moments *out)
{
    for (int k = 0; k < c; k++) {
        double sum = 0, squares = 0, count = (double)n * inner;
        for (int i = 0; i < n * inner; i++)
            sum += x[(i / inner * c + k) * inner + i % inner];
        out->mean[k] = sum / count;
        for (int i = 0; i < n * inner; i++)
            squares += pow(x[(i / inner * c + k) * inner + i % inner] - out->mean[k], 2);
        out->var[k] = squares / count;
    }
}

static void train_with(haul_device *device, haul_dtype dtype, int n, int c, int h, int w, double error)
{
    haul_scope *scope = haul_scope_push();
    haul_shape  shape = h ? HAUL_SHAPE(n, c, h, w) : HAUL_SHAPE(n, c);
    int         inner = h ? h * w : 1, count = n * c * inner;
    moments     m;
    double     *v, *scale, *shift, *want = calloc((size_t)count, sizeof *want), means[80], vars[80];
    assert_non_null(want);
    haul_tensor *x = sample_tensor(device, dtype, shape, 1, &v);
    haul_tensor *weight = sample_tensor(device, dtype, HAUL_SHAPE(c), 2, &scale);
    haul_tensor *bias = sample_tensor(device, dtype, HAUL_SHAPE(c), 3, &shift);
    haul_tensor *mean = haul_to(haul_zeros(dtype, HAUL_SHAPE(c)), device),
                *var = haul_to(haul_ones(dtype, HAUL_SHAPE(c)), device);
    measure(v, n, c, inner, &m);
    for (int i = 0; i < count; i++) {
        int k = i / inner % c;
        want[i] = (v[i] - m.mean[k]) / sqrt(m.var[k] + 1e-5) * scale[k] + shift[k];
    }
    for (int k = 0; k < c; k++) {
        means[k] = 0.2 * m.mean[k];
        vars[k] = 0.8 + 0.2 * m.var[k] * (double)(n * inner) / (double)(n * inner - 1);
    }
    uint64_t     version = haul_tensor_version(mean);
    haul_tensor *y = haul_batch_norm(x, .weight = weight, .bias = bias, .running_mean = mean, .running_var = var,
                                     .training = true, .momentum = 0.2);
    assert_close(y, want, count, error, "batch_norm in training");
    assert_close(mean, means, c, error, "running mean");
    assert_close(var, vars, c, error, "running variance");
    assert_true(haul_tensor_version(mean) > version);
    for (int i = 0; i < count; i++)
        want[i] = (v[i] - means[i / inner % c]) / sqrt(vars[i / inner % c] + 1e-5);
    y = haul_batch_norm(x, .running_mean = mean, .running_var = var);
    assert_close(y, want, count, error, "batch_norm in evaluation");
    assert_close(mean, means, c, error, "running mean, which evaluation leaves alone");
    free(v);
    free(scale);
    free(shift);
    free(want);
    haul_scope_pop(scope);
}

static void batch_norm(haul_device *device)
{
    static const int shapes[][4] = {{2, 1, 0, 0},     {16, 3, 0, 0},  {2500, 70, 0, 0}, {2, 3, 1, 1}, {4, 5, 3, 3},
                                    {3, 2, 100, 100}, {600, 2, 5, 7}, {1, 6, 1, 2},     {8, 4, 8, 4}};
    for (int i = 0; i < (int)(sizeof shapes / sizeof shapes[0]); i++) {
        const int *s = shapes[i];
        train_with(device, HAUL_F64, s[0], s[1], s[2], s[3], 1e-10);
        train_with(device, HAUL_F32, s[0], s[1], s[2], s[3], 1e-4);
    }
}

static void test_norm__batch_norm_by_definition(void **state)
{
    (void)state;
    on_devices(batch_norm);
}

/* A mean a million times the deviation. */
static void far_mean(haul_device *device)
{
    haul_set_device(device);
    haul_manual_seed(2);
    haul_tensor *x = haul_randint(HAUL_F32, HAUL_SHAPE(32, 2, 9, 9), 1000000, 1000003);
    haul_tensor *y = haul_batch_norm(x, .training = true);
    assert_float_equal(haul_item(haul_mean(haul_square(y))), 1, 1e-4);
    assert_float_equal(haul_item(haul_mean(y)), 0, 0.05); /* the mean itself is known to half of 1/16 */
    haul_tensor *same = haul_batch_norm(haul_full(HAUL_F32, HAUL_SHAPE(7, 2, 3, 3), 0.1), .training = true);
    assert_float_equal(haul_item(haul_max(haul_abs(same))), 0, 0);
}

static void test_norm__large_means_cost_no_digits(void **state)
{
    (void)state;
    on_devices(far_mean);
}

static haul_tensor *normalised(haul_tensor *const *in, int count, void *context)
{
    const bool  *training = context;
    haul_tensor *mean = haul_full(HAUL_F64, HAUL_SHAPE(3), 0.3), *var = haul_full(HAUL_F64, HAUL_SHAPE(3), 1.7);
    (void)count;
    return haul_batch_norm(in[0], .weight = in[1], .bias = in[2], .running_mean = mean, .running_var = var,
                           .training = *training);
}

static void test_norm__gradients(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    for (int form = 0; form < 4; form++) {
        bool         training = form & 1;
        haul_shape   shape = form & 2 ? HAUL_SHAPE(11, 3) : HAUL_SHAPE(4, 3, 5, 2);
        haul_tensor *in[] = {sample_tensor(haul_cpu(), HAUL_F64, shape, 1, NULL),
                             sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(3), 2, NULL),
                             sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(3), 3, NULL)};
        if (haul_grad_check(normalised, in, 3, &training))
            fail_msg("training %d, %d dimensions: %s", training, shape.ndim, haul_error_message());
    }
    haul_scope_pop(scope);
}

/* The kernels' gradient is that of the composed form, on every device. */
static void composed(haul_device *device)
{
    for (int form = 0; form < 4; form++) {
        bool         training = form & 1;
        haul_shape   shape = form & 2 ? HAUL_SHAPE(3000, 3) : HAUL_SHAPE(40, 3, 25, 20);
        haul_tensor *in[3], *fused[3], *g[3];
        for (int i = 0; i < 3; i++)
            in[i] = haul_set_requires_grad(
                haul_detach(sample_tensor(device, HAUL_F64, i ? HAUL_SHAPE(3) : shape, (unsigned)i, NULL)), true);
        haul_tensor *mean = haul_to(haul_full(HAUL_F64, HAUL_SHAPE(3), 0.3), device), *var = haul_mul_scalar(mean, 4);
        haul_tensor *y = haul_batch_norm(in[0], .weight = in[1], .bias = in[2], .running_mean = mean,
                                         .running_var = var, .training = training);
        haul_tensor *seed = sample_tensor(device, HAUL_F64, shape, 9, NULL);
        assert_int_equal(haul_grad(y, in, 3, fused, .seed = seed, .keep = true), HAUL_OK);
        assert_int_equal(haul_grad(y, in, 3, g, .seed = seed, .create_graph = true), HAUL_OK);
        for (int i = 0; i < 3; i++)
            assert_true(haul_item(haul_max(haul_abs(haul_sub(fused[i], haul_detach(g[i]))))) < 1e-9);
    }
}

static void test_norm__gradient_that_is_differentiated_again(void **state)
{
    (void)state;
    on_devices(composed);
}

static void test_norm__batch_norm_errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 4)), *three = haul_ones(HAUL_F32, HAUL_SHAPE(3)),
                *four = haul_ones(HAUL_F32, HAUL_SHAPE(4));
    assert_refused(haul_batch_norm(x, .weight = four, .training = true), HAUL_SHAPE,
                   "weight has shape [4]; [3] is expected");
    assert_refused(haul_batch_norm(x, .weight = three, .bias = haul_cast(three, HAUL_F64), .training = true),
                   HAUL_DTYPE, "bias is f64");
    assert_refused(haul_batch_norm(x, .weight = three), HAUL_INVALID_ARGUMENT,
                   "evaluation needs the running statistics");
    assert_refused(haul_batch_norm(x, .weight = three, .running_mean = three, .training = true), HAUL_INVALID_ARGUMENT,
                   "or neither");
    assert_refused(
        haul_batch_norm(haul_slice(haul_slice(x, 0, 0, 1, 1), 2, 0, 1, 1), .weight = three, .training = true),
        HAUL_SHAPE, "more than one value");
    assert_refused(haul_batch_norm(three, .weight = three, .training = true), HAUL_SHAPE, "[N, C, ...]");
    assert_refused(haul_batch_norm(haul_cast(x, HAUL_I32), .training = true), HAUL_DTYPE, "floating");
    assert_valid(haul_batch_norm(x, .weight = NULL, .training = true)); /* an option that is not given */
    haul_tensor *wide = haul_expand(haul_slice(three, 0, 0, 1, 1), HAUL_SHAPE(3));
    assert_refused(haul_batch_norm(x, .weight = three, .running_mean = wide, .running_var = three, .training = true),
                   HAUL_INVALID_ARGUMENT, "share memory");
    /* a bias that failed is not a bias that was left out */
    assert_failed(haul_batch_norm(x, .weight = three, .bias = haul_add(three, four), .training = true));
    assert_int_equal(haul_error_status(), HAUL_SHAPE);
    assert_string_equal(haul_error_operation(), "haul_add");
    haul_error_clear();
    assert_close(three, (double[]){1, 1, 1}, 3, 0, "running statistics after failures");
    haul_scope_pop(scope);
}

static void assert_same_values(haul_tensor *a, haul_tensor *b)
{
    assert_true(haul_item(haul_max(haul_abs(haul_sub(a, b)))) == 0);
}

/* `out` is a tensor of its own, part of another one, or x. */
static void into(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(4, 3, 5, 6), 1, NULL);
    haul_tensor *weight = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3), 2, NULL);
    haul_tensor *y = haul_batch_norm(x, .weight = weight, .bias = HAUL_NONE, .training = true),
                *out = haul_empty_like(x);
    haul_tensor *wide = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(6, 3, 5, 6)), device);
    assert_int_equal(haul_batch_norm_into(out, x, .weight = weight, .training = true), HAUL_OK);
    assert_same_values(out, y);
    out = haul_slice(wide, 0, 1, 5, 1);
    assert_int_equal(haul_batch_norm_into(out, x, .weight = weight, .training = true), HAUL_OK);
    assert_same_values(out, y);
    assert_float_equal(haul_item(haul_sum(haul_abs(haul_slice(wide, 0, 5, 6, 1)))), 0, 0);
    assert_int_equal(haul_batch_norm_into(weight, x, .weight = weight, .training = true), HAUL_SHAPE);
    haul_error_clear();
    assert_int_equal(haul_batch_norm_into(x, x, .weight = weight, .training = true), HAUL_OK);
    assert_same_values(x, y);
}

static void test_norm__batch_norm_into(void **state)
{
    (void)state;
    on_devices(into);
}

/* There is nothing to take statistics of: the running ones stay, and gradients of weight and bias are 0. */
static void nothing(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_set_requires_grad(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3, 4, 4)), true), *g[2];
    haul_tensor *in[] = {haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3)), true),
                         haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3)), true)};
    haul_tensor *mean = haul_full(HAUL_F32, HAUL_SHAPE(3), 2), *var = haul_full(HAUL_F32, HAUL_SHAPE(3), 3);
    haul_tensor *y =
        haul_batch_norm(x, .weight = in[0], .bias = in[1], .running_mean = mean, .running_var = var, .training = true);
    assert_int_equal(haul_tensor_count(y), 0);
    assert_int_equal(haul_grad(haul_sum(y), in, 2, g), HAUL_OK);
    assert_close(g[0], (double[]){0, 0, 0}, 3, 0, "gradient of the weight");
    assert_close(g[1], (double[]){0, 0, 0}, 3, 0, "gradient of the bias");
    assert_close(mean, (double[]){2, 2, 2}, 3, 0, "running mean");
}

static void test_norm__batch_norm_of_an_empty_batch(void **state)
{
    (void)state;
    on_devices(nothing);
}

/* Training updates every other element of a tensor and f16 ones with the values of dense f32 ones; evaluation counts no
 * change. */
static void running(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_cast(sample_tensor(device, HAUL_F32, HAUL_SHAPE(8, 3, 4, 4), 1, NULL), HAUL_F16);
    haul_tensor *mean[3], *var[3];
    for (int i = 0; i < 3; i++) {
        haul_tensor *t = haul_ones(i == 2 ? HAUL_F16 : HAUL_F32, HAUL_SHAPE(2, 6));
        mean[i] = i == 1 ? haul_slice(haul_select(t, 0, 0), 0, 0, 6, 2) : haul_slice(haul_select(t, 0, 0), 0, 0, 3, 1);
        var[i] = i == 1 ? haul_slice(haul_select(t, 0, 1), 0, 0, 6, 2) : haul_slice(haul_select(t, 0, 1), 0, 0, 3, 1);
        assert_valid(haul_batch_norm(x, .running_mean = mean[i], .running_var = var[i], .training = true));
        uint64_t version = haul_tensor_version(mean[i]);
        assert_valid(haul_batch_norm(x, .running_mean = mean[i], .running_var = var[i]));
        assert_int_equal(haul_tensor_version(mean[i]), version);
    }
    assert_same_values(mean[1], mean[0]);
    assert_same_values(var[1], var[0]);
    assert_same_values(mean[2], haul_cast(mean[0], HAUL_F16));
    assert_same_values(var[2], haul_cast(var[0], HAUL_F16));
    assert_true(haul_item(haul_max(haul_abs(haul_add_scalar(mean[0], -1)))) > 0.01);
}

static void test_norm__running_statistics_of_any_layout(void **state)
{
    (void)state;
    on_devices(running);
}

/* Operands written in place are never moved, so that the change is not made to a copy. */
static void test_norm__running_statistics_stay_where_they_are(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(8, 3)), *here = haul_ones(HAUL_F32, HAUL_SHAPE(3));
    haul_tensor *there = haul_to(here, haul_device_get("meta"));
    assert_int_equal(haul_set_placement_policy(HAUL_PLACE_MOVE), HAUL_OK);
    assert_refused(haul_batch_norm(x, .running_mean = here, .running_var = there, .training = true), HAUL_PLACEMENT,
                   "running_var is written in place and stays on meta");
    haul_scope_pop(scope);
}

/* Training without memory for the graph, or for anything else, leaves the running statistics as they were. */
static void test_norm__running_statistics_after_a_failure(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_set_requires_grad(sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(8, 3), 1, NULL), true);
    haul_tensor *mean = haul_full(HAUL_F32, HAUL_SHAPE(3), 2), *var = haul_full(HAUL_F32, HAUL_SHAPE(3), 3);
    haul_batch_norm(x, .training = true); /* kernels are ready */
    int failures = 0;
    for (int64_t nth = 1;; nth++) {
        haul__fault_plan(HAUL__FAULT_HOST, nth);
        haul_tensor *y = haul_batch_norm(x, .running_mean = mean, .running_var = var, .training = true);
        bool         reached = haul__fault_count() >= nth;
        haul__fault_plan(0, 0);
        if (!reached)
            break;
        haul_error_clear();
        failures += is_failed(y);
        if (!haul_tensor_is_valid(y))
            assert_close(mean, (double[]){2, 2, 2}, 3, 0, "running mean after a failure");
        haul_fill_into(mean, 2);
    }
    assert_true(failures > 3);
    haul_scope_pop(scope);
}

/* ---- softmax ---- */

static void softmax_along(haul_device *device, haul_dtype dtype, haul_shape shape, int axis, double error)
{
    haul_scope  *scope = haul_scope_push();
    double      *x;
    haul_tensor *in = sample_tensor(device, dtype, shape, 3, &x);
    int64_t      n = shape.dims[axis], inner = 1, count = haul_tensor_count(in);
    for (int d = axis + 1; d < shape.ndim; d++)
        inner *= shape.dims[d];
    double *p = calloc((size_t)count, sizeof *p), *log_p = calloc((size_t)count, sizeof *log_p);
    assert_non_null(p);
    assert_non_null(log_p);
    for (int64_t i = 0; i < count; i++) {
        double        sum = 0;
        const double *row = x + i / (n * inner) * n * inner + i % inner;
        for (int64_t j = 0; j < n; j++)
            sum += exp(row[j * inner]);
        p[i] = exp(x[i]) / sum;
        log_p[i] = x[i] - log(sum);
    }
    assert_close(haul_softmax(in, axis), p, count, error, "softmax");
    assert_close(haul_log_softmax(in, axis - shape.ndim), log_p, count, error * 10, "log_softmax");
    free(x);
    free(p);
    free(log_p);
    haul_scope_pop(scope);
}

static void softmax(haul_device *device)
{
    static const int64_t lengths[] = {1, 2, 31, 32, 33, 65, 100};
    for (int i = 0; i < 7; i++)
        for (int axis = 0; axis < 3; axis++) {
            haul_shape shape = HAUL_SHAPE(3, 2, 5);
            shape.dims[axis] = lengths[i];
            softmax_along(device, HAUL_F64, shape, axis, 1e-13);
            softmax_along(device, HAUL_F32, shape, axis, 1e-6);
        }
    softmax_along(device, HAUL_F32, HAUL_SHAPE(2, 9, 600), 1, 1e-6);
}

static void test_norm__softmax_along_any_axis(void **state)
{
    (void)state;
    on_devices(softmax);
}

static void softmax_extremes(haul_device *device)
{
    static const float far[] = {1e30f, -1e30f, 1e30f, -INFINITY, 0, -INFINITY};
    haul_tensor       *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), far), device);
    assert_close(haul_softmax(x, 1), (double[]){0.5, 0, 0.5, 0, 1, 0}, 6, 1e-7, "softmax of extremes");
    assert_close(haul_softmax(haul_contiguous(haul_transpose(x, 0, 1)), 0), (double[]){0.5, 0, 0, 1, 0.5, 0}, 6, 1e-7,
                 "softmax of extremes in columns");
    assert_float_equal(haul_item(haul_softmax(haul_select(haul_select(x, 0, 0), 0, 0), 0)), 1, 0);
    haul_tensor *whole = haul_softmax(haul_to(haul_zeros(HAUL_I32, HAUL_SHAPE(4)), device), 0);
    assert_int_equal(haul_tensor_dtype(whole), HAUL_F32);
    assert_close(whole, (double[]){0.25, 0.25, 0.25, 0.25}, 4, 0, "softmax of integers");
    assert_int_equal(haul_tensor_count(haul_softmax(haul_slice(x, 1, 0, 0, 1), 1)), 0);
    float nan[] = {1, NAN, 2};
    assert_true(
        isnan(haul_item(haul_sum(haul_softmax(haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(3), nan), device), 0)))));
    assert_refused(haul_softmax(x, 2), HAUL_INVALID_ARGUMENT, "haul_softmax");
    assert_refused(haul_log_softmax(HAUL_NONE, 0), HAUL_INVALID_ARGUMENT, "HAUL_NONE");
}

static void test_norm__softmax_of_extremes(void **state)
{
    (void)state;
    on_devices(softmax_extremes);
}

static haul_tensor *both_softmaxes(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    (void)context;
    return haul_add(haul_mul_scalar(haul_softmax(in[0], 1), 3), haul_square(haul_log_softmax(in[0], 2)));
}

static void test_norm__softmax_gradients(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    for (int length = 3; length < 40; length += 33) {
        haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(2, 4, length), 3, NULL);
        if (haul_grad_check(both_softmaxes, &x, 1, NULL))
            fail_msg("%s", haul_error_message());
    }
    haul_scope_pop(scope);
}

/* ---- threads and devices ---- */

static haul_tensor *everything(void *context)
{
    haul_tensor *x = context, *y = haul_batch_norm(x, .training = true);
    return haul_add(haul_softmax(y, 1), haul_log_softmax(y, 3));
}

static void test_norm__same_bits_for_threads_and_devices(void **state)
{
    (void)state;
    static float first[30 * 4 * 50 * 9], other[30 * 4 * 50 * 9];
    haul_scope  *scope = haul_scope_push();
    haul_device *devices[8];
    int          count = test_devices(devices, 8);
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(30, 4, 50, 9), 1, NULL);
    assert_same_for_threads(everything, x);
    for (int i = 0; i < count; i++) {
        assert_int_equal(haul_read(everything(haul_to(x, devices[i])), i ? other : first, sizeof first), HAUL_OK);
        if (i)
            assert_memory_equal(other, first, sizeof first);
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_norm__batch_norm_by_definition),
        cmocka_unit_test(test_norm__large_means_cost_no_digits),
        cmocka_unit_test(test_norm__gradients),
        cmocka_unit_test(test_norm__gradient_that_is_differentiated_again),
        cmocka_unit_test(test_norm__batch_norm_errors),
        cmocka_unit_test(test_norm__batch_norm_into),
        cmocka_unit_test(test_norm__batch_norm_of_an_empty_batch),
        cmocka_unit_test(test_norm__running_statistics_of_any_layout),
        cmocka_unit_test(test_norm__running_statistics_stay_where_they_are),
        cmocka_unit_test(test_norm__running_statistics_after_a_failure),
        cmocka_unit_test(test_norm__softmax_along_any_axis),
        cmocka_unit_test(test_norm__softmax_of_extremes),
        cmocka_unit_test(test_norm__softmax_gradients),
        cmocka_unit_test(test_norm__same_bits_for_threads_and_devices),
    };
    return cmocka_run_group_tests_name("ops_norm", tests, NULL, NULL);
}
