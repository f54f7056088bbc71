/* Short rows: processors take several of them side by side, and the rest one by one. A row's result is bit-identical
 * either way: those that it has alone. */
#include "support/linalg.h"

enum { ROWS = 37, LONGEST = 1030 }; /* groups of 16 rows, and a rest */

static haul_tensor *weight, *bias; /* of a row */

static haul_tensor *sum(haul_tensor *x)
{
    return haul_sum(x, HAUL_AXES(-1));
}

static haul_tensor *mean(haul_tensor *x)
{
    return haul_mean(x, HAUL_AXES(-1));
}

static haul_tensor *product(haul_tensor *x)
{
    return haul_prod(x, HAUL_AXES(-1));
}

static haul_tensor *largest(haul_tensor *x)
{
    return haul_max(x, HAUL_AXES(-1));
}

static haul_tensor *smallest(haul_tensor *x)
{
    return haul_min(x, HAUL_AXES(-1));
}

static haul_tensor *all(haul_tensor *x)
{
    return haul_all(x, HAUL_AXES(-1));
}

static haul_tensor *variance(haul_tensor *x)
{
    return haul_var(x, HAUL_AXES(-1));
}

static haul_tensor *norm(haul_tensor *x)
{
    return haul_norm(x, HAUL_AXES(-1));
}

static haul_tensor *logsumexp(haul_tensor *x)
{
    return haul_logsumexp(x, HAUL_AXES(-1));
}

static haul_tensor *softmax(haul_tensor *x)
{
    return haul_softmax(x, -1);
}

static haul_tensor *log_softmax(haul_tensor *x)
{
    return haul_log_softmax(x, -1);
}

static haul_tensor *plain_layer_norm(haul_tensor *x)
{
    return haul_layer_norm(x);
}

static haul_tensor *layer_norm(haul_tensor *x)
{
    return haul_layer_norm(x, .weight = weight, .bias = bias);
}

/* The gradient reads the mean and the scale of each row. */
static haul_tensor *layer_norm_gradient(haul_tensor *x)
{
    haul_tensor *leaf = haul_clone(x), *g = NULL;
    assert_valid(haul_set_requires_grad(leaf, true));
    assert_int_equal(haul_grad(haul_sum(layer_norm(leaf)), &leaf, 1, &g), HAUL_OK);
    return g;
}

static haul_tensor *in_place(haul_tensor *x)
{
    haul_tensor *y = haul_clone(x);
    assert_int_equal(haul_softmax_into(y, y, -1), HAUL_OK);
    assert_int_equal(haul_layer_norm_into(y, y, .weight = weight), HAUL_OK);
    return y;
}

static const struct {
    const char *name;
    haul_tensor *(*of)(haul_tensor *x);
} operations[] = {
    {"sum", sum},
    {"mean", mean},
    {"product", product},
    {"largest", largest},
    {"smallest", smallest},
    {"all", all},
    {"variance", variance},
    {"norm", norm},
    {"logsumexp", logsumexp},
    {"softmax", softmax},
    {"log_softmax", log_softmax},
    {"plain layer_norm", plain_layer_norm},
    {"layer_norm", layer_norm},
    {"gradient of layer_norm", layer_norm_gradient},
    {"softmax and layer_norm in place", in_place},
};

/* ROWS rows, some of which hold infinities, NaN or negative zeros. */
static haul_tensor *rows_of(haul_device *device, haul_dtype dtype, int64_t n)
{
    static double values[ROWS * LONGEST];
    sample_values(values, ROWS * n, dtype, -2, 2, (unsigned)n);
    values[3 * n + n / 2] = NAN;
    values[18 * n + n - 1] = INFINITY;
    values[19 * n] = -INFINITY;
    for (int64_t j = 0; j < n; j++)
        values[20 * n + j] = -0.0;
    /* Their maximum or minimum is 0, with a sign that depends on which of the zeros is taken. */
    for (int64_t j = 0; j < n; j++) {
        values[21 * n + j] = j == n / 2 ? 0.0 : j ? -1 : -0.0;
        values[22 * n + j] = j == n / 2 ? -0.0 : j ? 1 : 0.0;
        values[23 * n + j] = j == n - 1 ? -0.0 : j % 3 ? -1 : 0.0;
        values[24 * n + j] = j == n - 1 ? 0.0 : j % 3 ? 1 : -0.0;
    }
    return haul_to(haul_cast(haul_from_host(HAUL_F64, HAUL_SHAPE(ROWS, n), values), dtype), device);
}

static void same_bits(const char *name, haul_tensor *rows, haul_tensor *one, int64_t n, int64_t row)
{
    static double want[LONGEST], got[ROWS * LONGEST];
    int64_t       each = haul_tensor_count(one);
    assert_int_equal(read_values(one, want, each), HAUL_OK);
    assert_int_equal(read_values(rows, got, ROWS * each), HAUL_OK);
    for (int64_t j = 0; j < each; j++) {
        double a = got[row * each + j], b = want[j];
        if (memcmp(&a, &b, sizeof a) != 0 && !(isnan(a) && isnan(b)))
            fail_msg("%s of rows of %lld: element %lld of row %lld is %.17g; alone it is %.17g", name, (long long)n,
                     (long long)j, (long long)row, a, b);
    }
}

static void compare_rows(haul_device *device, haul_dtype dtype, int64_t n)
{
    static const int64_t chosen[] = {0, 3, 15, 16, 18, 19, 20, 21, 22, 23, 24, 31, 32, 36};
    haul_scope          *scope = haul_scope_push();
    haul_tensor         *x = rows_of(device, dtype, n);
    weight = sample_tensor(device, dtype, HAUL_SHAPE(n), 2, NULL);
    bias = sample_tensor(device, dtype, HAUL_SHAPE(n), 3, NULL);
    for (size_t k = 0; k < sizeof operations / sizeof *operations; k++) {
        haul_tensor *y = operations[k].of(x);
        assert_valid(y);
        for (size_t r = 0; r < sizeof chosen / sizeof *chosen; r++)
            same_bits(operations[k].name, y, operations[k].of(haul_slice(x, 0, chosen[r], chosen[r] + 1, 1)), n,
                      chosen[r]);
    }
    haul_scope_pop(scope);
}

static void every_length(haul_device *device)
{
    int64_t step =
        strcmp(haul_device_name(device), "cpu") == 0 ? 1 : 31; /* elsewhere rows are not taken side by side */
    for (int64_t n = 1; n <= 130; n += step)
        compare_rows(device, HAUL_F32, n);
    for (int64_t n = 160; n <= LONGEST; n += 32 * step)
        for (int64_t beside = -1; beside <= 1; beside++)
            compare_rows(device, HAUL_F32, n + beside);
    for (int64_t n = 1; n <= 300; n += 7 * step) {
        compare_rows(device, HAUL_F16, n);
        compare_rows(device, HAUL_BF16, n);
    }
    compare_rows(device, HAUL_F64, 47);
}

static void test_short_rows__have_the_bits_that_they_have_alone(void **state)
{
    (void)state;
    on_devices(every_length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_rows__have_the_bits_that_they_have_alone),
    };
    return cmocka_run_group_tests_name("short_rows", tests, NULL, NULL);
}
