/* Layer normalisation against its formula written in operations; its gradients, targets, edges and errors.
 *
 * ctest: cuda; ptx */
#include "support/failure.h"
#include "support/into.h"

/* The formula. */
static haul_tensor *composed(haul_tensor *x, haul_tensor *weight, haul_tensor *bias, double eps)
{
    haul_tensor *centred = haul_sub(x, haul_mean(x, HAUL_AXES(-1), .keepdim = true));
    haul_tensor *var = haul_mean(haul_square(centred), HAUL_AXES(-1), .keepdim = true);
    haul_tensor *normal = haul_mul(centred, haul_rsqrt(haul_add_scalar(var, eps)));
    return haul_add(haul_mul(normal, weight), bias);
}

static void compare(haul_tensor *got, haul_tensor *want, double error, const char *what)
{
    int64_t count = haul_tensor_count(want);
    double *v = calloc((size_t)count + 1, sizeof *v);
    assert_non_null(v);
    assert_int_equal(read_values(want, v, count), HAUL_OK);
    assert_close(got, v, count, error, what);
    free(v);
}

static void compare_with_formula(haul_device *device, haul_dtype dtype, int64_t rows, int64_t n, double error)
{
    static const char *const names[] = {"gradient of x", "gradient of weight", "gradient of bias"};
    haul_scope              *scope = haul_scope_push();
    haul_tensor             *x = sample_tensor(device, dtype, HAUL_SHAPE(2, rows, n), 1, NULL);
    haul_tensor             *in[] = {x, sample_tensor(device, dtype, HAUL_SHAPE(n), 2, NULL),
                                     sample_tensor(device, dtype, HAUL_SHAPE(n), 3, NULL)};
    haul_tensor             *seed = sample_tensor(device, dtype, HAUL_SHAPE(2, rows, n), 4, NULL);
    haul_tensor             *wide[3], *got[3], *want[3];
    for (int i = 0; i < 3; i++) {
        wide[i] = haul_cast(in[i], HAUL_F64);
        assert_valid(haul_set_requires_grad(in[i], true));
        assert_valid(haul_set_requires_grad(wide[i], true));
    }
    haul_tensor *y = haul_layer_norm(x, .weight = in[1], .bias = in[2], .eps = 1e-3);
    haul_tensor *exact = composed(wide[0], wide[1], wide[2], 1e-3);
    assert_int_equal(haul_tensor_dtype(y), dtype);
    compare(y, exact, error, "layer_norm");
    assert_int_equal(haul_grad(y, in, 3, got, .seed = seed), HAUL_OK);
    assert_int_equal(haul_grad(exact, wide, 3, want, .seed = haul_cast(seed, HAUL_F64)), HAUL_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(haul_tensor_dtype(got[i]), dtype);
        compare(got[i], want[i], error * (i ? 4 * (double)rows : 40), names[i]);
    }
    haul_scope_pop(scope);
}

static void by_formula(haul_device *device)
{
    static const int64_t lengths[] = {1, 2, 31, 32, 33, 100, 700};
    for (int i = 0; i < 7; i++) {
        compare_with_formula(device, HAUL_F64, 5, lengths[i], 1e-11);
        compare_with_formula(device, HAUL_F32, 5, lengths[i], 2e-5);
        compare_with_formula(device, HAUL_F16, 3, lengths[i], 2e-2);
        compare_with_formula(device, HAUL_BF16, 3, lengths[i], 1e-1);
    }
}

static void test_layer_norm__equals_its_formula(void **state)
{
    (void)state;
    on_devices(by_formula);
}

/* Mean 1e6, deviations of 1: a difference of squares would lose them all. */
static void test_layer_norm__large_means_cost_no_digits(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    float        far[] = {1000001, 999999, 1000001, 999999};
    haul_tensor *y = haul_layer_norm(haul_from_host(HAUL_F32, HAUL_SHAPE(1, 4), far), .eps = 1e-12);
    assert_close(y, (double[]){1, -1, 1, -1}, 4, 1e-6, "layer_norm of a large mean");
    haul_scope_pop(scope);
}

static haul_tensor *normalise(haul_tensor *const *in, int count, void *context)
{
    (void)context;
    return haul_square(
        haul_layer_norm(in[0], .weight = count > 1 ? in[1] : HAUL_NONE, .bias = count > 2 ? in[2] : HAUL_NONE));
}

/* Squares of the gradients, of which the gradients are of second order. */
static haul_tensor *squared_gradients(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *g[3], *sum = NULL;
    if (haul_grad(haul_sum(normalise(in, count, context)), in, count, g, .create_graph = true))
        return NULL;
    for (int i = 0; i < count; i++) {
        haul_tensor *term = haul_sum(haul_square(g[i]));
        sum = sum ? haul_add(sum, term) : term;
    }
    return sum;
}

/* Numerically, of both orders, for every set of operands. */
static void test_layer_norm__gradients(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    for (int count = 1; count <= 3; count++) {
        haul_tensor *in[] = {sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(2, 3, 5), 5, NULL),
                             sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(5), 6, NULL),
                             sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(5), 7, NULL)};
        if (haul_grad_check(normalise, in, count, NULL) ||
            haul_grad_check(squared_gradients, in, count, NULL, .tolerance = {1e-4, 1e-3}))
            fail_msg("%d operands: %s", count, haul_error_message());
    }
    haul_scope_pop(scope);
}

/* Only one of the operands. */
static void test_layer_norm__single_gradients(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *in[] = {sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(3, 5), 5, NULL),
                         sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(5), 6, NULL),
                         sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(5), 7, NULL)};
    for (int i = 0; i < 3; i++) {
        haul_tensor *all[3], *one, *leaf[3];
        for (int j = 0; j < 3; j++) {
            leaf[j] = haul_detach(in[j]);
            assert_valid(haul_set_requires_grad(leaf[j], true));
        }
        assert_int_equal(haul_grad(haul_sum(normalise(leaf, 3, NULL)), leaf, 3, all), HAUL_OK);
        haul_tensor *mixed[] = {in[0], in[1], in[2]};
        mixed[i] = leaf[i];
        assert_int_equal(haul_grad(haul_sum(normalise(mixed, 3, NULL)), &leaf[i], 1, &one), HAUL_OK);
        assert_equal_bits(one, all[i], "a single gradient");
    }
    haul_scope_pop(scope);
}

static haul_status run_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_layer_norm_into(out, in[0], .weight = in[1], .bias = in[2]);
}

static void into(haul_device *device)
{
    haul_tensor *in[] = {sample_tensor(device, HAUL_F32, HAUL_SHAPE(4, 6), 1, NULL),
                         sample_tensor(device, HAUL_F32, HAUL_SHAPE(6), 2, NULL),
                         sample_tensor(device, HAUL_F32, HAUL_SHAPE(6), 3, NULL)};
    assert_into("layer_norm_into", run_into, haul_layer_norm(in[0], .weight = in[1], .bias = in[2]), in, 3, 0);
}

static void test_layer_norm__into(void **state)
{
    (void)state;
    on_devices(into);
}

static void test_layer_norm__of_nothing(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *w = haul_ones(HAUL_F32, HAUL_SHAPE(3)), *g;
    assert_valid(haul_set_requires_grad(w, true));
    assert_int_equal(haul_tensor_count(haul_layer_norm(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0)))), 0);
    haul_tensor *y = haul_layer_norm(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), .weight = w);
    assert_int_equal(haul_tensor_count(y), 0);
    assert_int_equal(haul_grad(haul_sum(y), &w, 1, &g), HAUL_OK);
    assert_close(g, (double[]){0, 0, 0}, 3, 0, "the gradient of nothing");
    haul_scope_pop(scope);
}

static void test_layer_norm__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), *w = haul_ones(HAUL_F32, HAUL_SHAPE(2));
    assert_refused(haul_layer_norm(x, .weight = w), HAUL_SHAPE, "haul_layer_norm: weight has shape [2]");
    assert_refused(haul_layer_norm(x, .bias = w), HAUL_SHAPE, "haul_layer_norm: bias has shape [2]");
    assert_refused(haul_layer_norm(haul_select(w, 0, 0)), HAUL_SHAPE, "at least one dimension");
    assert_refused(haul_layer_norm_with(NULL), HAUL_INVALID_ARGUMENT, "haul_layer_norm: options");
    assert_int_equal(haul_layer_norm_into_with(x, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_norm__equals_its_formula),
        cmocka_unit_test(test_layer_norm__large_means_cost_no_digits),
        cmocka_unit_test(test_layer_norm__gradients),
        cmocka_unit_test(test_layer_norm__single_gradients),
        cmocka_unit_test(test_layer_norm__into),
        cmocka_unit_test(test_layer_norm__of_nothing),
        cmocka_unit_test(test_layer_norm__errors),
    };
    return cmocka_run_group_tests_name("ops_layer_norm", tests, NULL, NULL);
}
