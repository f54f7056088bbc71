/* Kernels of a program's own operations, on all devices, dtypes and layouts.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"

/* behind the library's headers: its words are macros */
#include "support/custom_ops.h"

static double tolerance(haul_dtype dtype)
{
    return dtype == HAUL_F64 ? 1e-12 : dtype == HAUL_F32 ? 2e-6 : dtype == HAUL_F16 ? 4e-3 : 3e-2;
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

static haul_tensor *swish_formula(haul_tensor *x, double beta)
{
    return haul_mul(x, haul_sigmoid(haul_mul_scalar(x, beta)));
}

static haul_tensor *rms_formula(haul_tensor *x, haul_tensor *weight, double eps)
{
    haul_tensor *y = haul_mul(x, haul_rsqrt(haul_add_scalar(ROWS_MEAN(haul_square(x)), eps)));
    return weight == HAUL_NONE ? y : haul_mul(y, weight);
}

static void swish_everywhere(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F16, HAUL_BF16, HAUL_F32, HAUL_F64};
    for (int d = 0; d < 4; d++)
        for (int how = LAYOUT_contiguous; how <= LAYOUT_broadcast; how++) {
            double       values[3 * 5 * 7], error = tolerance(dtypes[d]);
            haul_shape   shape = HAUL_SHAPE(3, 5, 7);
            haul_scope  *scope = haul_scope_push();
            haul_tensor *got, *want;
            sample_values(values, 3 * 5 * 7, dtypes[d], -4, 4, 1);
            haul_tensor *x = make_operand(device, dtypes[d], shape, (layout)how, values), *wide;
            x = haul_set_requires_grad(haul_detach(x), true);
            wide = haul_set_requires_grad(haul_cast(haul_detach(x), HAUL_F64), true);
            haul_tensor *y = test_swish(x, 1.5), *exact = swish_formula(wide, 1.5);
            assert_valid(y);
            assert_int_equal(haul_tensor_dtype(y), dtypes[d]);
            assert_ptr_equal(haul_tensor_device(y), device);
            compare(y, exact, 2 * error, "swish");
            assert_int_equal(haul_grad(haul_sum(y), &x, 1, &got), HAUL_OK);
            assert_int_equal(haul_grad(haul_sum(exact), &wide, 1, &want), HAUL_OK);
            compare(got, want, 4 * error, "the gradient of swish");
            haul_scope_pop(scope);
        }
}

static void test_custom_kernels__a_pointwise_kernel_computes_on_all_devices(void **state)
{
    (void)state;
    on_devices(swish_everywhere);
}

static void rms_everywhere(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F16, HAUL_BF16, HAUL_F32, HAUL_F64};
    static const int64_t    lengths[] = {1, 31, 32, 33, 300};
    for (int d = 0; d < 4; d++)
        for (int k = 0; k < 5; k++)
            for (int weighted = 0; weighted < 2; weighted++) {
                haul_scope  *scope = haul_scope_push();
                double       error = 8 * tolerance(dtypes[d]);
                haul_tensor *x = sample_tensor(device, dtypes[d], HAUL_SHAPE(2, 4, lengths[k]), 1, NULL);
                haul_tensor *w =
                    weighted ? sample_tensor(device, dtypes[d], HAUL_SHAPE(lengths[k]), 2, NULL) : HAUL_NONE;
                haul_tensor *wide = weighted ? haul_cast(w, HAUL_F64) : HAUL_NONE;
                /* rows of a part: the buffers do not begin where their memory does */
                haul_tensor *part = haul_slice(x, 0, 1, 2, 1);
                compare(test_rms(part, w, 1e-3), rms_formula(haul_cast(part, HAUL_F64), wide, 1e-3), error, "rms");
                haul_scope_pop(scope);
            }
}

static void test_custom_kernels__a_kernel_of_rows_computes_on_all_devices(void **state)
{
    (void)state;
    on_devices(rms_everywhere);
}

/* One text: f32 is computed by the same steps everywhere. */
static void same_bits(haul_device *device)
{
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(5, 70), 3, NULL);
    haul_tensor *there = haul_to(x, device);
    assert_equal_bits(test_swish(there, 0.7), test_swish(x, 0.7), "swish");
    assert_equal_bits(test_rms(there, HAUL_NONE, 0.1), test_rms(x, HAUL_NONE, 0.1), "rms");
}

static void test_custom_kernels__bits_are_those_of_the_cpu(void **state)
{
    (void)state;
    on_devices(same_bits);
}

/* More items than a piece has: several threads work on them. */
static void test_custom_kernels__large_kernels_run_in_pieces(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(300000), 3, NULL);
    compare(test_swish(x, 1), haul_silu(x), 1e-6, "a large swish");
    x = haul_reshape(x, HAUL_SHAPE(3000, 100));
    compare(test_rms(x, HAUL_NONE, 0.5), rms_formula(x, HAUL_NONE, 0.5), 1e-5, "a large rms");
    haul_scope_pop(scope);
}

static void test_custom_kernels__of_nothing(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_set_requires_grad(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), true), *g;
    haul_tensor *y = test_rms(x, HAUL_NONE, 1);
    assert_int_equal(haul_tensor_count(y), 0);
    assert_int_equal(haul_grad(haul_sum(y), &x, 1, &g), HAUL_OK);
    assert_int_equal(haul_tensor_count(test_rms(haul_zeros(HAUL_F32, HAUL_SHAPE(3, 0)), HAUL_NONE, 1)), 0);
    haul_scope_pop(scope);
}

/* An operand with dtypes of its own, a result of another dtype than T, and items that are neither. */
// clang-format off
HAUL_KERNEL4(pick_kernel, T, y, I64, at, const T, x, const I64, index, {
    const I64 n = SIZE(0);
    FOR_ITEMS(i) {
        const I64 k = index[i] < 0 ? 0 : index[i] < n ? index[i] : n - 1;
        STORE(y, i, LOAD(x, i * n + k));
        at[i] = k;
    }
});
// clang-format on

static haul_status pick_infer(haul_custom_call *c)
{
    for (int i = 0; i < 2; i++) {
        c->results[i].dtype = i ? HAUL_I64 : c->operands[0].dtype;
        c->results[i].shape = c->operands[1].shape;
    }
    return HAUL_OK;
}

static haul_status pick_launch(const haul_custom_call *c, haul_kernel_launch *l)
{
    l->sizes[0] = c->operands[0].shape.dims[1];
    return HAUL_OK;
}

static haul_custom_operation pick = {
    .name = "test_pick",
    .operands = {{"x"}, {"index", .dtypes = HAUL_DTYPE_BIT(HAUL_I64)}},
    .results = {{"y"}, {"at"}},
    .infer = pick_infer,
    .kernel = &pick_kernel,
    .launch = pick_launch,
};

static void picks(haul_device *device)
{
    haul_tensor *x = haul_to(haul_reshape(haul_arange(HAUL_F32, 0, 6, 1), HAUL_SHAPE(2, 3)), device), *made[2];
    haul_tensor *index = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(2), (int64_t[]){2, 9}), device);
    haul_tensor *operands[] = {x, index};
    assert_int_equal(haul_apply_all(&pick, NULL, operands, 2, made), HAUL_OK);
    assert_close(made[0], (double[]){2, 5}, 2, 0, "what was picked");
    assert_close(made[1], (double[]){2, 2}, 2, 0, "from where");
    assert_int_equal(haul_tensor_dtype(made[1]), HAUL_I64);
    assert_close(haul_apply(&pick, NULL, x, index), (double[]){2, 5}, 2, 0, "the first result alone");
    operands[1] = x;
    assert_int_equal(haul_apply_all(&pick, NULL, operands, 2, made), HAUL_DTYPE);
    assert_non_null(strstr(haul_error_message(), "test_pick: index is f32, but i64 is expected"));
    assert_failed(made[0]);
    assert_failed(made[1]);
    haul_error_clear();
}

static void test_custom_kernels__several_results_and_operands_of_other_dtypes(void **state)
{
    (void)state;
    on_devices(picks);
}

/* As many buffers as there may be. */
// clang-format off
HAUL_KERNEL6(six_kernel, T, sum, T, product, T, third, const T, a, const T, b, const T, c, {
    FOR_ITEMS(i) {
        STORE(sum, i, LOAD(a, i) + LOAD(b, i) + LOAD(c, i) + NUMBER(0));
        STORE(product, i, LOAD(a, i) * LOAD(b, i) * LOAD(c, i) * NUMBER(1));
        STORE(third, i, LOAD(c, i) + (A)SIZE(7));
    }
});
// clang-format on

static haul_status six_launch(const haul_custom_call *c, haul_kernel_launch *l)
{
    assert_true(l->numbers[0] == 100 && l->numbers[1] == 2 && l->items == c->results[0].count);
    l->sizes[7] = 1000;
    return HAUL_OK;
}

static haul_custom_operation six = {.name = "test_six",
                                    .operands = {{"a"}, {"b"}, {"c"}},
                                    .results = {{"sum"}, {"product"}, {"third"}},
                                    .kernel = &six_kernel,
                                    .numbers = 2,
                                    .launch = six_launch};

static void sixes(haul_device *device)
{
    haul_tensor *in[3], *y[3];
    for (int i = 0; i < 3; i++)
        in[i] = haul_to(haul_full(HAUL_F32, HAUL_SHAPE(2), i + 2), device);
    assert_int_equal(haul_apply_all(&six, (double[]){100, 2}, in, 3, y), HAUL_OK);
    assert_close(y[0], (double[]){109, 109}, 2, 0, "the sum");
    assert_close(y[1], (double[]){48, 48}, 2, 0, "the product");
    assert_close(y[2], (double[]){1004, 1004}, 2, 0, "the third");
    assert_int_equal(haul_apply_into(y[0], &six, ((double[]){100, 2}), in[0], in[1], in[2]), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "test_six: the operation has several results"));
    haul_error_clear();
}

static void test_custom_kernels__a_kernel_has_up_to_six_buffers(void **state)
{
    (void)state;
    on_devices(sixes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_custom_kernels__a_pointwise_kernel_computes_on_all_devices),
        cmocka_unit_test(test_custom_kernels__a_kernel_of_rows_computes_on_all_devices),
        cmocka_unit_test(test_custom_kernels__bits_are_those_of_the_cpu),
        cmocka_unit_test(test_custom_kernels__large_kernels_run_in_pieces),
        cmocka_unit_test(test_custom_kernels__of_nothing),
        cmocka_unit_test(test_custom_kernels__several_results_and_operands_of_other_dtypes),
        cmocka_unit_test(test_custom_kernels__a_kernel_has_up_to_six_buffers),
    };
    return cmocka_run_group_tests_name("custom_kernels", tests, NULL, NULL);
}
