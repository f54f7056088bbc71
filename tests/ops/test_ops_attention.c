/* Attention on every device: rows without keys, half precision, and the memory that it needs.
 *
 * ctest: cuda */
#include "support/into.h"

enum { QUERIES = 3, KEYS = 5, FEATURES = 4, MOST = 64 };

/* Which of the scores count. Row 1 has none. */
static const bool allowed[QUERIES * KEYS] = {true,  false, true,  true,  true,  false, false, false,
                                             false, false, false, false, false, false, true};

static haul_tensor *leaf(haul_device *device, haul_dtype dtype, haul_shape shape, double low, double high,
                         unsigned seed)
{
    double  values[4096];
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    sample_values(values, count, dtype, low, high, seed);
    haul_tensor *t = haul_to(haul_cast(haul_from_host(HAUL_F64, shape, values), dtype), device);
    return haul_set_requires_grad(haul_detach(t), true);
}

static haul_tensor *bool_mask(haul_device *device)
{
    return haul_to(haul_from_host(HAUL_BOOL, HAUL_SHAPE(QUERIES, KEYS), allowed), device);
}

static haul_tensor *float_mask(haul_device *device)
{
    float values[QUERIES * KEYS];
    for (int i = 0; i < QUERIES * KEYS; i++)
        values[i] = allowed[i] ? 0 : -INFINITY;
    return haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(QUERIES, KEYS), values), device);
}

static void assert_finite(haul_tensor *t, const char *what)
{
    if (!haul_tensor_is_valid(t))
        fail_msg("%s: %s", what, haul_error_message());
    double got[MOST];
    assert_true(haul_tensor_count(t) <= MOST);
    assert_int_equal(read_values(t, got, haul_tensor_count(t)), HAUL_OK);
    for (int64_t i = 0; i < haul_tensor_count(t); i++)
        if (!isfinite(got[i]))
            fail_msg("%s: element %lld is %g", what, (long long)i, got[i]);
}

/* ---- rows without keys ---- */

static void masked_rows_of(haul_device *device, haul_dtype dtype, haul_tensor *mask, bool causal, double dropout)
{
    static const double zero[FEATURES] = {0};
    haul_tensor        *q = leaf(device, dtype, HAUL_SHAPE(2, QUERIES, FEATURES), -2, 2, 1);
    haul_tensor        *k = leaf(device, dtype, HAUL_SHAPE(2, KEYS, FEATURES), -2, 2, 2);
    haul_tensor        *v = leaf(device, dtype, HAUL_SHAPE(2, KEYS, FEATURES), -2, 2, 3);
    haul_tensor        *y = haul_attention(q, k, v, .mask = mask, .causal = causal, .dropout = dropout);
    assert_finite(y, "the result");
    assert_close(haul_select(haul_select(y, 0, 1), 0, 1), zero, FEATURES, 0, "the masked row");
    haul_tensor *in[] = {q, k, v}, *g[3];
    assert_int_equal(haul_grad(haul_sum(haul_square(y)), in, 3, g, .create_graph = true), HAUL_OK);
    for (int i = 0; i < 3; i++)
        assert_finite(g[i], "a gradient");
    assert_close(haul_select(haul_select(g[0], 0, 1), 0, 1), zero, FEATURES, 0, "the masked query's gradient");
    assert_int_equal(haul_backward(haul_sum(haul_square(g[1]))), HAUL_OK);
    assert_finite(haul_tensor_grad(q), "a second derivative");
}

static void masked_rows(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16};
    for (int d = 0; d < 4; d++) {
        masked_rows_of(device, dtypes[d], bool_mask(device), false, 0);
        masked_rows_of(device, dtypes[d], float_mask(device), false, 0);
        masked_rows_of(device, dtypes[d], bool_mask(device), true, 0);
        masked_rows_of(device, dtypes[d], float_mask(device), true, 0.25);
    }
}

static void test_attention__rows_without_keys_are_zeros(void **state)
{
    (void)state;
    on_devices(masked_rows);
}

/* Long rows take other paths of the kernel than short ones. */
static void masked_lengths(haul_device *device)
{
    static const int64_t lengths[] = {1, 7, 16, 40, 300};
    for (int i = 0; i < 5; i++) {
        int64_t      n = lengths[i];
        haul_tensor *x = haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(9, n)), device);
        haul_tensor *row = haul_to(haul_unsqueeze(haul_arange_i64(0, 9, 1), 1), device);
        haul_tensor *y =
            haul_attention(x, haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(n, n)), device),
                           haul_to(haul_ones(HAUL_F32, HAUL_SHAPE(n, 1)), device), .mask = haul_ne_scalar(row, 4));
        assert_close(y, (double[]){1, 1, 1, 1, 0, 1, 1, 1, 1}, 9, 1e-6, "with one masked row");
    }
}

static void test_attention__masked_rows_of_all_lengths(void **state)
{
    (void)state;
    on_devices(masked_lengths);
}

static void no_keys(haul_device *device)
{
    static const double zero[2 * QUERIES * 2] = {0};
    for (int causal = 0; causal < 2; causal++) {
        haul_tensor *q = leaf(device, HAUL_F32, HAUL_SHAPE(2, QUERIES, FEATURES), -2, 2, 1);
        haul_tensor *k = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0, FEATURES)), device);
        haul_tensor *v = haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0, 2)), device);
        haul_tensor *y = haul_attention(q, k, v, .causal = causal);
        assert_close(y, zero, 2 * QUERIES * 2, 0, "without keys");
        assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
        assert_finite(haul_tensor_grad(q), "the gradient without keys");
    }
}

static void test_attention__without_keys(void **state)
{
    (void)state;
    on_devices(no_keys);
}

/* More queries than keys: the last ones see all keys. */
static void more_queries(haul_device *device)
{
    haul_tensor *q = leaf(device, HAUL_F32, HAUL_SHAPE(KEYS, FEATURES), -2, 2, 1);
    haul_tensor *k = leaf(device, HAUL_F32, HAUL_SHAPE(2, FEATURES), -2, 2, 2);
    haul_tensor *v = leaf(device, HAUL_F32, HAUL_SHAPE(2, FEATURES), -2, 2, 3);
    haul_tensor *y = haul_attention(q, k, v, .causal = true), *all = haul_attention(q, k, v);
    assert_equal_bits(haul_slice(y, 0, 1, KEYS, 1), haul_slice(all, 0, 1, KEYS, 1), "rows that see all keys");
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
    assert_finite(haul_tensor_grad(k), "the gradient of fewer keys");
}

static void test_attention__causal_with_fewer_keys(void **state)
{
    (void)state;
    on_devices(more_queries);
}

/* The module's rows without keys are its output's bias. */
static void module_rows(haul_device *device)
{
    haul_set_device(device);
    haul_module *m = haul_nn_multi_head_attention(FEATURES, 2);
    haul_tensor *x = leaf(device, HAUL_F32, HAUL_SHAPE(1, QUERIES, FEATURES), -2, 2, 1);
    bool         sees[QUERIES * QUERIES] = {true, true, false, false, false, false, true, false, true};
    haul_tensor *mask = haul_to(haul_from_host(HAUL_BOOL, HAUL_SHAPE(QUERIES, QUERIES), sees), device);
    haul_tensor *y = haul_call(m, x, HAUL_NONE, HAUL_NONE, mask);
    haul_tensor *bias = haul_module_parameter(haul_module_child(m, "out_proj"), "bias");
    assert_equal_bits(haul_select(haul_select(y, 0, 0), 0, 1), haul_detach(bias), "the masked row");
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
    assert_finite(haul_tensor_grad(haul_module_parameter(m, "in_proj_weight")), "the weight's gradient");
    assert_finite(haul_tensor_grad(x), "the gradient");
}

static void test_attention__module_with_masked_rows(void **state)
{
    (void)state;
    on_devices(module_rows);
}

/* ---- half precision ---- */

/* Scores beyond the range of f16. */
static void large_scores(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F16, HAUL_BF16};
    for (int d = 0; d < 2; d++) {
        haul_tensor *q = haul_to(haul_full(dtypes[d], HAUL_SHAPE(1, 2), 200), device);
        haul_tensor *v = haul_to(haul_full(dtypes[d], HAUL_SHAPE(1, 1), 1), device);
        assert_close(haul_attention(q, q, v, .scale = 1), (double[]){1}, 1, 0, "of large scores");
    }
}

static void test_attention__large_scores_in_half_precision(void **state)
{
    (void)state;
    on_devices(large_scores);
}

enum { LONG = 24, WIDE = 16 };

/* Results and gradients are those of f32, rounded once. */
static void rounded_once(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F16, HAUL_BF16};
    for (int d = 0; d < 2; d++) {
        haul_tensor *half[3], *full[3], *g[2][3], *y[2];
        for (int i = 0; i < 3; i++) {
            half[i] = leaf(device, dtypes[d], HAUL_SHAPE(2, LONG, WIDE), -3, 3, (unsigned)i + 1);
            full[i] = haul_set_requires_grad(haul_detach(haul_cast(half[i], HAUL_F32)), true);
        }
        for (int wide = 0; wide < 2; wide++) {
            haul_tensor **in = wide ? full : half;
            y[wide] = haul_attention(in[0], in[1], in[2], .causal = true);
            haul_tensor *seed = haul_ones_like(y[wide]);
            assert_int_equal(haul_grad(y[wide], in, 3, g[wide], .seed = seed), HAUL_OK);
        }
        assert_equal_bits(y[0], haul_cast(y[1], dtypes[d]), "the result");
        for (int i = 0; i < 3; i++)
            assert_equal_bits(g[0][i], haul_cast(g[1][i], dtypes[d]), "a gradient");
    }
}

static void test_attention__half_precision_rounds_once(void **state)
{
    (void)state;
    on_devices(rounded_once);
}

/* ---- memory ---- */

/* Two matrices of scores exist at a time, however many steps make weights of scores. */
static void peak(haul_device *device)
{
    enum { LENGTH = 512 };
    const int64_t scores = (int64_t)LENGTH * LENGTH * 4;
    haul_set_device(device);
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(LENGTH, 8));
    haul_tensor *mask = haul_zeros(HAUL_F32, HAUL_SHAPE(LENGTH, LENGTH));
    haul_drop(haul_attention(x, x, x, .mask = mask, .causal = true, .dropout = 0.5));
    haul_memory_stats before, after;
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(device, &before), HAUL_OK);
    haul_drop(haul_attention(x, x, x, .mask = mask, .causal = true, .dropout = 0.5));
    assert_int_equal(haul_memory_stats_get(device, &after), HAUL_OK);
    const int64_t used = after.peak_allocated - before.allocated;
    if (used > scores * 5 / 2)
        fail_msg("%lld bytes were used, scores are %lld", (long long)used, (long long)scores);
}

static void test_attention__memory_of_scores(void **state)
{
    (void)state;
    on_devices(peak);
}

/* ---- blocks ---- */

/* Attention of more queries than are computed at a time, by its equation, with all scores at a time. */
static haul_tensor *by_equation(haul_tensor *const *in, haul_tensor *mask, bool causal, double scale)
{
    haul_tensor *scores = haul_mul_scalar(haul_matmul(in[0], haul_transpose(in[1], -2, -1)), scale);
    haul_tensor *none = haul_full(HAUL_F64, HAUL_SCALAR_SHAPE, -1e30);
    const int    ndim = haul_tensor_ndim(scores);
    if (mask != HAUL_NONE)
        scores = haul_tensor_dtype(mask) == HAUL_BOOL ? haul_where(mask, scores, none)
                                                      : haul_add(scores, haul_cast(mask, HAUL_F64));
    haul_tensor *row = haul_arange_i64(0, haul_tensor_dim(scores, ndim - 2), 1);
    haul_tensor *column = haul_arange_i64(0, haul_tensor_dim(scores, ndim - 1), 1);
    if (causal)
        scores = haul_where(haul_ge(haul_unsqueeze(row, 1), column), scores, none);
    return haul_matmul(haul_softmax(scores, -1), in[2]);
}

static void assert_near(haul_tensor *have, haul_tensor *want, double tolerance, const char *what)
{
    if (!haul_tensor_is_valid(have))
        fail_msg("%s: %s", what, haul_error_message());
    double far = haul_item(haul_max(haul_abs(haul_sub(haul_cast(haul_to(have, haul_cpu()), HAUL_F64), want))));
    if (!(far <= tolerance * (1 + haul_item(haul_max(haul_abs(want))))))
        fail_msg("%s: off by %g", what, far);
}

/* `twice`: second derivatives, too. */
static void compare_blocks(haul_device *device, haul_dtype dtype, const haul_shape shapes[3], haul_tensor *mask,
                           bool causal, double tolerance, bool twice)
{
    haul_tensor *in[3], *wide[3], *g[3], *want[3];
    for (int i = 0; i < 3; i++) {
        in[i] =
            haul_set_requires_grad(haul_detach(sample_tensor(device, dtype, shapes[i], (unsigned)i + 1, NULL)), true);
        wide[i] = haul_set_requires_grad(haul_detach(haul_cast(haul_to(in[i], haul_cpu()), HAUL_F64)), true);
    }
    haul_tensor *there = mask == HAUL_NONE ? mask : haul_to(mask, device);
    haul_tensor *y = haul_attention(in[0], in[1], in[2], .mask = there, .causal = causal, .scale = 0.6);
    haul_tensor *right = by_equation(wide, mask, causal, 0.6);
    assert_near(haul_detach(y), haul_detach(right), tolerance, "the result");
    haul_tensor *seed = sample_tensor(haul_cpu(), HAUL_F64, haul_tensor_shape(right), 7, NULL);
    seed = haul_cast(haul_cast(seed, dtype), HAUL_F64);
    haul_tensor *of_y = haul_to(haul_cast(seed, dtype), device);
    assert_succeeded(haul_grad(y, in, 3, g, .seed = of_y, .create_graph = twice), "a gradient");
    assert_int_equal(haul_grad(right, wide, 3, want, .seed = seed, .create_graph = twice), HAUL_OK);
    for (int i = 0; i < 3; i++)
        assert_near(haul_detach(g[i]), haul_detach(want[i]), 4 * tolerance, "a gradient");
    if (!twice)
        return;
    haul_tensor *of = haul_sum(haul_square(haul_add(haul_sum(g[0]), haul_sum(haul_square(g[1])))));
    haul_tensor *of_right = haul_sum(haul_square(haul_add(haul_sum(want[0]), haul_sum(haul_square(want[1])))));
    assert_int_equal(haul_grad(of, in, 3, g, .keep = true), HAUL_OK);
    assert_int_equal(haul_grad(of_right, wide, 3, want, .keep = true), HAUL_OK);
    for (int i = 0; i < 3; i++)
        assert_near(g[i], want[i], 16 * tolerance, "a second derivative");
}

/* Fewer queries than are taken in blocks. Short rows are taken side by side, and longer ones end where a row sees no
 * more. */
static void causal_lengths(haul_device *device)
{
    static const int64_t lengths[][2] = {{1, 1},   {2, 5},     {5, 2},    {15, 17},   {17, 15},  {33, 70},
                                         {64, 64}, {127, 127}, {40, 128}, {130, 129}, {200, 40}, {65, 200}};
    const bool           far = device != haul_cpu();
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        const int64_t    queries = lengths[i][0], keys = lengths[i][1];
        const haul_shape shapes[] = {HAUL_SHAPE(3, queries, 4), HAUL_SHAPE(3, keys, 4), HAUL_SHAPE(3, keys, 2)};
        haul_scope      *scope = haul_scope_push();
        haul_tensor     *mask = haul_ne_scalar(haul_remainder_scalar(haul_arange_i64(0, keys, 1), 7), 3);
        compare_blocks(device, HAUL_F32, shapes, HAUL_NONE, true, 2e-5, false);
        compare_blocks(device, HAUL_F32, shapes, mask, true, 2e-5, false);
        compare_blocks(device, HAUL_F16, shapes, HAUL_NONE, true, 2e-3, false);
        if (!far || i % 4 == 1)
            compare_blocks(device, HAUL_F64, shapes, HAUL_NONE, true, 1e-12, true);
        haul_scope_pop(scope);
    }
}

static void test_attention__causal_lengths_are_the_equation(void **state)
{
    (void)state;
    on_devices(causal_lengths);
}

/* Scores that a row does not see are not read: a key that is NaN reaches no earlier row. */
static void unseen(haul_device *device)
{
    enum { ROWS = 140, LAST = ROWS - 1 };
    const haul_shape shape = HAUL_SHAPE(ROWS, FEATURES);
    haul_tensor     *q = sample_tensor(device, HAUL_F32, shape, 1, NULL),
                *k = sample_tensor(device, HAUL_F32, shape, 2, NULL);
    haul_tensor *v = sample_tensor(device, HAUL_F32, shape, 3, NULL);
    haul_tensor *row = haul_to(haul_unsqueeze(haul_arange_i64(0, ROWS, 1), 1), device);
    haul_tensor *bad = haul_where_scalar(haul_ne_scalar(row, LAST), k, NAN);
    haul_tensor *y = haul_attention(q, k, v, .causal = true), *of_bad = haul_attention(q, bad, v, .causal = true);
    assert_equal_bits(haul_slice(of_bad, 0, 0, LAST, 1), haul_slice(y, 0, 0, LAST, 1), "rows before a key that is NaN");
}

static void test_attention__causal_rows_read_no_later_scores(void **state)
{
    (void)state;
    on_devices(unseen);
}

static void blocks(haul_device *device)
{
    const haul_shape same[] = {HAUL_SHAPE(3, 600, 4), HAUL_SHAPE(3, 600, 4), HAUL_SHAPE(3, 600, 2)};
    const haul_shape more[] = {HAUL_SHAPE(2, 1, 513, 3), HAUL_SHAPE(3, 700, 3), HAUL_SHAPE(700, 5)};
    const haul_shape wide[] = {HAUL_SHAPE(1030, 4), HAUL_SHAPE(2, 40, 4), HAUL_SHAPE(2, 40, 3)};
    const haul_shape less[] = {HAUL_SHAPE(700, 3), HAUL_SHAPE(65, 3), HAUL_SHAPE(65, 3)};
    haul_tensor     *bools = haul_ne_scalar(haul_remainder_scalar(haul_arange_i64(0, 600, 1), 7), 3);
    haul_tensor     *bias = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(513, 1), 8, NULL);
    haul_tensor     *plane = haul_ne_scalar(haul_remainder_scalar(haul_arange_i64(0, 1030 * 40, 1), 11), 3);
    compare_blocks(device, HAUL_F64, wide, HAUL_NONE, false, 1e-12, true);
    compare_blocks(device, HAUL_F64, same, HAUL_NONE, true, 1e-12, true);
    compare_blocks(device, HAUL_F32, same, bools, true, 2e-5, false);
    compare_blocks(device, HAUL_F32, wide, haul_reshape(plane, HAUL_SHAPE(1030, 40)), false, 2e-5, false);
    compare_blocks(device, HAUL_F32, more, bias, true, 2e-5, false);
    compare_blocks(device, HAUL_F16, more, HAUL_NONE, true, 2e-3, false);
    compare_blocks(device, HAUL_BF16, less, HAUL_NONE, true, 2e-2, false);
}

static void test_attention__blocks_are_the_equation(void **state)
{
    (void)state;
    on_devices(blocks);
}

static haul_tensor *long_attention(void *which)
{
    haul_tensor *x =
        haul_set_requires_grad(haul_detach(sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(2, 800, 24), 1, NULL)), true);
    haul_tensor *y = haul_attention(x, x, x, .causal = true), *g;
    return !*(int *)which ? haul_detach(y) : haul_grad(haul_sum(haul_square(y)), &x, 1, &g) ? NULL : g;
}

static void test_attention__threads_do_not_change_bits(void **state)
{
    (void)state;
    for (int which = 0; which < 2; which++)
        assert_same_for_threads(long_attention, &which);
}

/* Forward and backward, the scores of all queries are never there at a time. */
static void long_peak(haul_device *device)
{
    enum { LENGTH = 4096, SCORES = LENGTH * LENGTH * 4 };
    haul_set_device(device);
    haul_tensor      *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(LENGTH, 8)), true), *g = NULL;
    haul_memory_stats before, after;
    assert_int_equal(haul_memory_reset_peak(device), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(device, &before), HAUL_OK);
    assert_int_equal(haul_grad(haul_sum(haul_attention(x, x, x, .causal = true)), &x, 1, &g), HAUL_OK);
    assert_int_equal(haul_memory_stats_get(device, &after), HAUL_OK);
    const int64_t used = after.peak_allocated - before.allocated;
    if (used > SCORES / 2)
        fail_msg("%lld bytes were used, all scores are %lld", (long long)used, (long long)SCORES);
}

static void test_attention__memory_of_long_sequences(void **state)
{
    (void)state;
    on_devices(long_peak);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_attention__rows_without_keys_are_zeros),
        cmocka_unit_test(test_attention__masked_rows_of_all_lengths),
        cmocka_unit_test(test_attention__without_keys),
        cmocka_unit_test(test_attention__causal_with_fewer_keys),
        cmocka_unit_test(test_attention__causal_lengths_are_the_equation),
        cmocka_unit_test(test_attention__causal_rows_read_no_later_scores),
        cmocka_unit_test(test_attention__module_with_masked_rows),
        cmocka_unit_test(test_attention__large_scores_in_half_precision),
        cmocka_unit_test(test_attention__half_precision_rounds_once),
        cmocka_unit_test(test_attention__memory_of_scores),
        cmocka_unit_test(test_attention__blocks_are_the_equation),
        cmocka_unit_test(test_attention__threads_do_not_change_bits),
        cmocka_unit_test(test_attention__memory_of_long_sequences),
    };
    return cmocka_run_group_tests_name("ops_attention", tests, NULL, NULL);
}
