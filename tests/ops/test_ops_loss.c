/* Losses against their formulas, at extreme logits; gradients of both orders.
 *
 * ctest: cuda */
#include "support/into.h"

enum { ROWS = 37, CLASSES = 70 };

static double log_sum_exp(const double *x, int n)
{
    double most = x[0], sum = 0;
    for (int i = 1; i < n; i++)
        most = fmax(most, x[i]);
    for (int i = 0; i < n; i++)
        sum += exp(x[i] - most);
    return most + log(sum);
}

static haul_tensor *labels(haul_device *device, haul_dtype dtype, int classes, int64_t *out)
{
    for (int i = 0; i < ROWS; i++)
        out[i] = (i * 29 + 3) % classes;
    return haul_to(haul_cast(haul_from_host(HAUL_I64, HAUL_SHAPE(ROWS), out), dtype), device);
}

static void cross_entropy_with(haul_device *device, haul_dtype dtype, haul_dtype label_dtype, int classes, double error)
{
    haul_scope  *scope = haul_scope_push();
    int64_t      y[ROWS];
    double      *x, loss = 0, gradient[ROWS * CLASSES];
    haul_tensor *logits = sample_tensor(device, dtype, HAUL_SHAPE(ROWS, classes), 2, &x), *g;
    haul_tensor *target = labels(device, label_dtype, classes, y);
    for (int i = 0; i < ROWS; i++) {
        double s = log_sum_exp(x + i * classes, classes);
        loss += (s - x[i * classes + y[i]]) / ROWS;
        for (int c = 0; c < classes; c++)
            gradient[i * classes + c] = (exp(x[i * classes + c] - s) - (c == y[i])) / ROWS;
    }
    logits = haul_set_requires_grad(haul_detach(logits), true);
    haul_tensor *result = haul_cross_entropy(logits, target);
    assert_int_equal(haul_tensor_ndim(result), 0);
    assert_close(result, &loss, 1, error, "cross_entropy");
    assert_int_equal(haul_grad(result, &logits, 1, &g), HAUL_OK);
    assert_close(g, gradient, ROWS * classes, error / 10, "its gradient");
    haul_tensor *split = haul_nll_loss(haul_log_softmax(logits, 1), target);
    assert_close(split, &loss, 1, error, "nll_loss of log_softmax");
    assert_int_equal(haul_grad(split, &logits, 1, &g), HAUL_OK);
    assert_close(g, gradient, ROWS * classes, error / 10, "the gradient of the two");
    free(x);
    haul_scope_pop(scope);
}

static void cross_entropy(haul_device *device)
{
    static const int classes[] = {1, 2, 10, 31, 32, 33, 64, CLASSES};
    for (int i = 0; i < 8; i++) {
        cross_entropy_with(device, HAUL_F64, HAUL_I64, classes[i], 1e-12);
        cross_entropy_with(device, HAUL_F32, HAUL_I64, classes[i], 3e-6);
    }
    cross_entropy_with(device, HAUL_F32, HAUL_U8, 10, 3e-6);
    cross_entropy_with(device, HAUL_F32, HAUL_I32, 10, 3e-6);
}

static void test_loss__cross_entropy_by_definition(void **state)
{
    (void)state;
    on_devices(cross_entropy);
}

static void extremes(haul_device *device)
{
    static const float far[] = {1000, -1000, 0, -1e30f, 1e30f, 0};
    haul_tensor       *x = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 3), far), device);
    haul_tensor       *y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(2), (int64_t[]){0, 1}), device);
    assert_float_equal(haul_item(haul_cross_entropy(x, y)), 0, 1e-6);
    y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(2), (int64_t[]){2, 1}), device);
    assert_float_equal(haul_item(haul_cross_entropy(x, y)), 500, 1e-3);
    haul_tensor *z = haul_select(x, 0, 0),
                *t = haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(3), (float[]){1, 0, 0.5f}), device);
    assert_float_equal(haul_item(haul_bce_with_logits(z, t)), log(2) / 3, 1e-6);
    haul_tensor *equal = haul_expand(haul_select(haul_select(x, 0, 0), 0, 0), HAUL_SHAPE(2, 8));
    assert_float_equal(haul_item(haul_cross_entropy(equal, y)), log(8), 1e-6);
    haul_tensor *none = haul_slice(x, 0, 0, 0, 1);
    assert_true(isnan(haul_item(haul_cross_entropy(none, haul_slice(y, 0, 0, 0, 1)))));
}

static void test_loss__extreme_logits(void **state)
{
    (void)state;
    on_devices(extremes);
}

static void pairs(haul_device *device)
{
    double      *x, *t, bce = 0, mse = 0;
    haul_tensor *a = sample_tensor(device, HAUL_F32, HAUL_SHAPE(9, 7), 1, &x),
                *b = sample_tensor(device, HAUL_F32, HAUL_SHAPE(9, 7), 2, &t);
    for (int i = 0; i < 63; i++) {
        bce += (fmax(x[i], 0) - x[i] * t[i] + log1p(exp(-fabs(x[i])))) / 63;
        mse += (x[i] - t[i]) * (x[i] - t[i]) / 63;
    }
    assert_close(haul_bce_with_logits(a, b), &bce, 1, 1e-5, "bce_with_logits");
    assert_close(haul_mse_loss(a, b), &mse, 1, 1e-5, "mse_loss");
    assert_float_equal(haul_item(haul_mse_loss(haul_cast(a, HAUL_F64), haul_cast(b, HAUL_F64))), mse, 1e-5);
    haul_tensor *whole = haul_cast(haul_mul_scalar(a, 3), HAUL_I32);
    assert_int_equal(haul_tensor_dtype(haul_mse_loss(whole, whole)), HAUL_F32);
    free(x);
    free(t);
}

static void test_loss__pairs_by_definition(void **state)
{
    (void)state;
    on_devices(pairs);
}

/* The composed gradient, under create_graph, is the fused one. */
static void composed(haul_device *device)
{
    int64_t      y[ROWS];
    haul_tensor *x =
        haul_set_requires_grad(haul_detach(sample_tensor(device, HAUL_F64, HAUL_SHAPE(ROWS, 10), 2, NULL)), true);
    haul_tensor *target = labels(device, HAUL_I64, 10, y), *fused, *g;
    haul_tensor *loss = haul_mul_scalar(haul_cross_entropy(x, target), 5);
    double       want[ROWS * 10];
    assert_int_equal(haul_grad(loss, &x, 1, &fused, .keep = true), HAUL_OK);
    assert_int_equal(haul_grad(loss, &x, 1, &g, .create_graph = true), HAUL_OK);
    assert_int_equal(read_values(fused, want, ROWS * 10), HAUL_OK);
    assert_close(g, want, ROWS * 10, 1e-14, "composed gradient");
    assert_true(haul_requires_grad(g));
}

static void test_loss__gradient_that_is_differentiated_again(void **state)
{
    (void)state;
    on_devices(composed);
}

static haul_tensor *all_losses(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    haul_tensor *target = context, *ce = haul_cross_entropy(in[0], target);
    haul_tensor *nll = haul_nll_loss(haul_mul_scalar(in[0], 2), target), *bce = haul_bce_with_logits(in[0], in[1]);
    return haul_add(haul_add(ce, nll), haul_add(bce, haul_mse_loss(in[0], in[1])));
}

static void test_loss__gradients(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    int64_t      y[ROWS];
    haul_tensor *target = labels(haul_cpu(), HAUL_I64, 6, y);
    haul_tensor *in[] = {sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(ROWS, 6), 1, NULL),
                         sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(ROWS, 6), 2, NULL)};
    if (haul_grad_check(all_losses, in, 2, target))
        fail_msg("%s", haul_error_message());
    haul_scope_pop(scope);
}

/* ---- infinities and NaN: what PyTorch gives ---- */

static bool same(double got, double want)
{
    return got == want || (isnan(got) && isnan(want)) || fabs(got - want) <= 1e-6 * fabs(want);
}

static void assert_loss(const char *what, haul_tensor *x, haul_tensor *loss, double want, const double *slopes,
                        int count)
{
    double       got[8];
    haul_tensor *g;
    if (!same(haul_item(loss), want))
        fail_msg("%s is %g, not %g", what, haul_item(loss), want);
    assert_int_equal(haul_grad(loss, &x, 1, &g), HAUL_OK);
    assert_int_equal(read_values(g, got, count), HAUL_OK);
    for (int i = 0; i < count; i++)
        if (!same(got[i], slopes[i]))
            fail_msg("%s: gradient %d is %g, not %g", what, i, got[i], slopes[i]);
}

static haul_tensor *given(haul_device *device, haul_dtype dtype, haul_shape shape, const double *values)
{
    haul_tensor *x = haul_to(haul_cast(haul_from_host(HAUL_F64, shape, values), dtype), device);
    return haul_set_requires_grad(haul_detach(x), true);
}

/* A logit that is certain: PyTorch gives NaN where it is right, or wrong by minus infinity. */
static void infinite_pairs(haul_device *device, haul_dtype dtype)
{
    static const struct {
        double x, target, bce, slope;
    } cases[] = {{INFINITY, 0, INFINITY, 1}, {INFINITY, 1, 0, 0},          {INFINITY, 0.5, INFINITY, 0.5},
                 {-INFINITY, 0, 0, 0},       {-INFINITY, 1, INFINITY, -1}, {-INFINITY, 0.5, INFINITY, -0.5},
                 {100, 0, 100, 1},           {-1000, 1, 1000, -1},         {-1000, 0, 0, 0},
                 {NAN, 0, NAN, NAN},         {NAN, 1, NAN, NAN},           {0, NAN, NAN, NAN}};
    static const struct {
        double x, target, mse, slope;
    } squares[] = {{INFINITY, 0, INFINITY, INFINITY},
                   {INFINITY, INFINITY, NAN, NAN},
                   {-INFINITY, INFINITY, INFINITY, -INFINITY},
                   {NAN, 0, NAN, NAN}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_tensor *x = given(device, dtype, HAUL_SHAPE(1), &cases[i].x);
        haul_tensor *target = haul_detach(given(device, dtype, HAUL_SHAPE(1), &cases[i].target));
        assert_loss("bce_with_logits", x, haul_bce_with_logits(x, target), cases[i].bce, &cases[i].slope, 1);
    }
    for (size_t i = 0; i < sizeof squares / sizeof *squares; i++) {
        haul_tensor *x = given(device, dtype, HAUL_SHAPE(1), &squares[i].x);
        haul_tensor *target = haul_detach(given(device, dtype, HAUL_SHAPE(1), &squares[i].target));
        assert_loss("mse_loss", x, haul_mse_loss(x, target), squares[i].mse, &squares[i].slope, 1);
    }
}

static void infinite_classes(haul_device *device, haul_dtype dtype)
{
    static const struct {
        double  x[3];
        int64_t y;
        double  loss, slopes[3];
    } cases[] = {
        {{INFINITY, 0, 1}, 0, NAN, {NAN, NAN, NAN}},
        {{INFINITY, 0, 1}, 1, NAN, {NAN, NAN, NAN}},
        {{-INFINITY, 0, 1}, 0, INFINITY, {-1, 0.2689414213699951, 0.7310585786300049}},
        {{-INFINITY, 0, 1}, 1, 1.3132616875182228, {0, -0.7310585786300049, 0.7310585786300049}},
        {{-INFINITY, -INFINITY, 1}, 1, INFINITY, {0, -1, 1}},
        {{-INFINITY, -INFINITY, -INFINITY}, 0, NAN, {NAN, NAN, NAN}},
        {{NAN, 0, 1}, 1, NAN, {NAN, NAN, NAN}},
        {{1e38, -1e38, 0}, 0, 0, {0, 0, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_tensor *x = given(device, dtype, HAUL_SHAPE(1, 3), cases[i].x);
        haul_tensor *y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(1), &cases[i].y), device);
        assert_loss("cross_entropy", x, haul_cross_entropy(x, y), cases[i].loss, cases[i].slopes, 3);
        assert_loss("log_softmax and nll_loss", x, haul_nll_loss(haul_log_softmax(x, 1), y), cases[i].loss,
                    cases[i].slopes, 3);
    }
}

static void infinities(haul_device *device)
{
    infinite_pairs(device, HAUL_F32);
    infinite_pairs(device, HAUL_F64);
    infinite_pairs(device, HAUL_BF16);
    infinite_classes(device, HAUL_F32);
    infinite_classes(device, HAUL_F64);
}

static void test_loss__infinities(void **state)
{
    (void)state;
    on_devices(infinities);
}

/* The gradients of composed losses reach operands of any layout. */
static void transposed(haul_device *device)
{
    haul_tensor *x = haul_set_requires_grad(haul_detach(sample_tensor(device, HAUL_F32, HAUL_SHAPE(6, 9), 1, NULL)),
                                            true),
                *t = sample_tensor(device, HAUL_F32, HAUL_SHAPE(9, 6), 2, NULL), *straight, *turned;
    haul_tensor *losses[][2] = {
        {haul_mse_loss(x, haul_contiguous(haul_transpose(t, 0, 1))), haul_mse_loss(haul_transpose(x, 0, 1), t)},
        {haul_bce_with_logits(x, haul_contiguous(haul_transpose(t, 0, 1))),
         haul_bce_with_logits(haul_transpose(x, 0, 1), t)},
    };
    for (int i = 0; i < 2; i++) {
        assert_int_equal(haul_grad(losses[i][0], &x, 1, &straight), HAUL_OK);
        assert_int_equal(haul_grad(losses[i][1], &x, 1, &turned), HAUL_OK);
        assert_equal_bits(turned, straight, "the gradient of a transposed operand");
    }
}

static void test_loss__gradients_of_transposed_operands(void **state)
{
    (void)state;
    on_devices(transposed);
}

static haul_status softmax_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_softmax_into(out, in[0], -1);
}

static haul_status log_softmax_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_log_softmax_into(out, in[0], 0);
}

static void into_targets(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(ROWS, 10), 1, NULL);
    assert_into("softmax", softmax_into, haul_softmax(x, -1), &x, 1, 0);
    assert_into("log_softmax", log_softmax_into, haul_log_softmax(x, 0), &x, 1, 0);
}

static void test_loss__into_a_target(void **state)
{
    (void)state;
    on_devices(into_targets);
}

static void test_loss__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(3, 4)), *y = haul_zeros(HAUL_I64, HAUL_SHAPE(3));
    assert_refused(haul_cross_entropy(haul_flatten(x, 0), y), HAUL_SHAPE, "y has shape [3]; [] is expected");
    assert_refused(haul_cross_entropy(x, haul_zeros(HAUL_I64, HAUL_SHAPE(4))), HAUL_SHAPE, "[3] is expected");
    assert_refused(haul_cross_entropy(x, haul_zeros(HAUL_F32, HAUL_SHAPE(3))), HAUL_DTYPE, "y is f32");
    assert_refused(haul_cross_entropy(haul_cast(x, HAUL_I32), y), HAUL_DTYPE, "logits");
    assert_refused(haul_cross_entropy(haul_zeros(HAUL_F32, HAUL_SHAPE(3, 0)), y), HAUL_SHAPE, "at least one class");
    assert_refused(haul_cross_entropy(x, HAUL_NONE), HAUL_INVALID_ARGUMENT, "y is HAUL_NONE");
    assert_refused(haul_nll_loss(NULL, y), HAUL_INVALID_ARGUMENT, "log_p");
    assert_refused(haul_mse_loss(x, haul_ones(HAUL_F32, HAUL_SHAPE(4))), HAUL_SHAPE, "they must be equal");
    assert_refused(haul_bce_with_logits(x, HAUL_NONE), HAUL_INVALID_ARGUMENT, "target is HAUL_NONE");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss__cross_entropy_by_definition),
        cmocka_unit_test(test_loss__extreme_logits),
        cmocka_unit_test(test_loss__pairs_by_definition),
        cmocka_unit_test(test_loss__gradient_that_is_differentiated_again),
        cmocka_unit_test(test_loss__gradients),
        cmocka_unit_test(test_loss__infinities),
        cmocka_unit_test(test_loss__gradients_of_transposed_operands),
        cmocka_unit_test(test_loss__into_a_target),
        cmocka_unit_test(test_loss__errors),
    };
    return cmocka_run_group_tests_name("ops_loss", tests, NULL, NULL);
}
