/* Running sums: order of additions, blocks, both directions, dtypes, targets.
 *
 * ctest: cuda */
#include "support/failure.h"
#include "support/into.h"

static void by_hand(haul_device *device)
{
    haul_tensor *x = haul_reshape(haul_to(haul_arange(HAUL_F32, 1, 7, 1), device), HAUL_SHAPE(2, 3)), *g;
    assert_close(haul_cumsum(x, 1), (double[]){1, 3, 6, 4, 9, 15}, 6, 0, "rows");
    assert_close(haul_cumsum(x, -2), (double[]){1, 2, 3, 5, 7, 9}, 6, 0, "columns");
    assert_close(haul_cumsum(haul_transpose(x, 0, 1), 0), (double[]){1, 4, 3, 9, 6, 15}, 6, 0, "a view");
    assert_close(haul_cumsum(haul_select(haul_flatten(x, 0), 0, 3), 0), (double[]){4}, 1, 0, "0-d");
    assert_close(haul_cumsum(haul_slice(x, 1, 0, 0, 1), 1), NULL, 0, 0, "of nothing");
    haul_tensor *bytes = haul_cumsum(haul_cast(haul_full_like(x, 200), HAUL_U8), 1);
    assert_int_equal(haul_tensor_dtype(bytes), HAUL_I64);
    assert_close(bytes, (double[]){200, 400, 600, 200, 400, 600}, 6, 0, "u8");
    assert_close(haul_cumsum(haul_gt_scalar(x, 2), 1), (double[]){0, 0, 1, 1, 2, 3}, 6, 0, "bool");
    x = haul_set_requires_grad(haul_clone(x), true);
    assert_succeeded(haul_grad(haul_sum(haul_mul(haul_cumsum(x, 1), haul_detach(x))), &x, 1, &g), "gradient");
    assert_close(g, (double[]){6, 5, 3, 15, 11, 6}, 6, 0, "gradient");
    assert_refused(haul_cumsum(x, 2), HAUL_INVALID_ARGUMENT, "haul_cumsum");
    haul_error_clear();
}

static void test_cumsum__by_hand(void **state)
{
    (void)state;
    on_devices(by_hand);
}

enum { BLOCK = 1024, LONG = BLOCK * BLOCK + 3 * BLOCK + 5 };

/* Each block is summed by itself; the running sums of the totals are added, in blocks again. */
static float *expect(const float *x, int64_t count)
{
    int64_t blocks = (count + BLOCK - 1) / BLOCK;
    float  *y = calloc((size_t)count, sizeof *y), *totals = calloc((size_t)blocks, sizeof *totals);
    assert_true(y && totals);
    for (int64_t i = 0; i < count; i++) {
        y[i] = i % BLOCK ? y[i - 1] + x[i] : x[i];
        totals[i / BLOCK] = y[i];
    }
    if (blocks > 1) {
        float *before = expect(totals, blocks);
        for (int64_t i = BLOCK; i < count; i++)
            y[i] += before[i / BLOCK - 1];
        free(before);
    }
    free(totals);
    return y;
}

/* The bits are those of the promised order, whether lines are neighbours or not. */
static void long_lines(haul_device *device)
{
    static const int64_t lengths[] = {BLOCK, BLOCK + 1, 5 * BLOCK - 1, LONG};
    for (int i = 0; i < 4; i++) {
        int64_t      n = lengths[i];
        haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(n), 1, NULL);
        float       *values = calloc((size_t)n, sizeof *values);
        assert_non_null(values);
        assert_int_equal(haul_read(x, values, (size_t)n * sizeof *values), HAUL_OK);
        float       *sums = expect(values, n);
        haul_tensor *want = haul_from_host(HAUL_F32, HAUL_SHAPE(n), sums);
        x = haul_to(x, device);
        assert_equal_bits(haul_cumsum(x, 0), want, "a line");
        if (n < LONG) {
            haul_tensor *pair = haul_cumsum(haul_stack((haul_tensor *[]){x, x}, 2, 1), 0);
            assert_equal_bits(haul_select(pair, 1, 1), want, "two lines side by side");
        }
        free(values);
        free(sums);
    }
}

static void test_cumsum__order_of_additions(void **state)
{
    (void)state;
    on_devices(long_lines);
}

/* Halves are rounded once. */
static void halves(haul_device *device)
{
    haul_tensor *y = haul_cumsum(haul_to(haul_full(HAUL_BF16, HAUL_SHAPE(4096), 0.25), device), 0);
    assert_int_equal(haul_tensor_dtype(y), HAUL_BF16);
    assert_float_equal(haul_item(haul_cast(haul_select(y, 0, 4095), HAUL_F32)), 1024, 0);
}

static void test_cumsum__of_halves(void **state)
{
    (void)state;
    on_devices(halves);
}

static haul_status cumsum_into(haul_tensor *out, haul_tensor *const *in)
{
    return haul_cumsum_into(out, in[0], 1);
}

static void into(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 5), 1, NULL);
    assert_into("cumsum", cumsum_into, haul_cumsum(x, 1), &x, 1, 0);
}

static void test_cumsum__into(void **state)
{
    (void)state;
    on_devices(into);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cumsum__by_hand),
        cmocka_unit_test(test_cumsum__order_of_additions),
        cmocka_unit_test(test_cumsum__of_halves),
        cmocka_unit_test(test_cumsum__into),
    };
    return cmocka_run_group_tests_name("ops_cumsum", tests, NULL, NULL);
}
