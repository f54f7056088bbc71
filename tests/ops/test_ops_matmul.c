/* Matrix products against plain loops in double, over sizes at and around the edges of tiles.
 *
 * ctest: cuda; labels=threads; cuda-labels=none; ptx */
#include <string.h>

#include "support/failure.h"
#include "support/linalg.h"

/* ---- shapes ---- */

static void compare_product(haul_device *device, haul_dtype dtype, int64_t m, int64_t n, int64_t k, bool ta, bool tb)
{
    haul_scope  *scope = haul_scope_push();
    double      *va, *vb, *want = calloc((size_t)(m * n) + 1, sizeof *want);
    haul_tensor *a = sample_tensor(device, dtype, ta ? HAUL_SHAPE(k, m) : HAUL_SHAPE(m, k), 1, &va);
    haul_tensor *b = sample_tensor(device, dtype, tb ? HAUL_SHAPE(n, k) : HAUL_SHAPE(k, n), 2, &vb);
    assert_non_null(want);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++)
            for (int64_t l = 0; l < k; l++)
                want[i * n + j] += va[ta ? l * m + i : i * k + l] * vb[tb ? j * k + l : l * n + j];
    char what[120];
    snprintf(what, sizeof what, "%s %lldx%lldx%lld %d%d on %s", haul_dtype_name(dtype), (long long)m, (long long)n,
             (long long)k, ta, tb, haul_device_name(device));
    double error = dtype == HAUL_F32 ? 2e-6 * (double)(k + 1) : dtype == HAUL_F64 ? 1e-14 * (double)(k + 1) : 0;
    if (ta)
        a = haul_transpose(a, 0, 1);
    if (tb)
        b = haul_transpose(b, 0, 1);
    assert_close(haul_matmul(a, b), want, m * n, error, what);
    free(va);
    free(vb);
    free(want);
    haul_scope_pop(scope);
}

static void compare_products(haul_device *device)
{
    static const int64_t sizes[][3] = {
        {1, 1, 1},    {1, 7, 3},     {7, 1, 3},    {5, 6, 0},    {6, 64, 5},    {7, 65, 16},
        {13, 63, 70}, {25, 130, 33}, {32, 16, 10}, {64, 10, 84}, {97, 17, 300}, {100, 70, 257},
    };
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_I32};
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        for (int d = 0; d < 3; d++)
            for (int t = 0; t < 4; t++)
                compare_product(device, dtypes[d], sizes[s][0], sizes[s][1], sizes[s][2], t & 1, t & 2);
}

static void test_matmul__all_sizes_and_transpositions(void **state)
{
    (void)state;
    on_devices(compare_products);
}

/* Devices may copy a long transposed operand first. Batches may share it. */
static void compare_long_products(haul_device *device)
{
    enum { M = 13, N = 300, K = 800 };
    for (int batch = 1; batch <= 2; batch++) {
        double      *va, *vb;
        haul_tensor *all = sample_tensor(device, HAUL_F32, HAUL_SHAPE(batch, K + 1, M + 2), 1, &va);
        haul_tensor *b = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, K, N), 2, &vb);
        haul_tensor *part = haul_slice(haul_slice(all, 1, 1, K + 1, 1), 2, 2, M + 2, 1);
        haul_tensor *a = haul_transpose(part, 1, 2), *apart = haul_matmul(a, b);
        assert_true(haul_item(haul_max(haul_abs(haul_sub(apart, haul_matmul(haul_contiguous(a), b))))) < 2e-6 * K);
        free(va);
        free(vb);
    }
}

static void test_matmul__long_transposed_operands(void **state)
{
    (void)state;
    on_devices(compare_long_products);
}

static void compare_batches(haul_device *device)
{
    double      *va, *vb, want[2 * 3 * 4 * 6];
    haul_tensor *a = sample_tensor(device, HAUL_F64, HAUL_SHAPE(2, 1, 4, 5), 1, &va);
    haul_tensor *b = sample_tensor(device, HAUL_F64, HAUL_SHAPE(3, 5, 6), 2, &vb);
    for (int x = 0; x < 2; x++)
        for (int y = 0; y < 3; y++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 6; j++) {
                    double sum = 0;
                    for (int k = 0; k < 5; k++)
                        sum += va[(x * 4 + i) * 5 + k] * vb[(y * 5 + k) * 6 + j];
                    want[((x * 3 + y) * 4 + i) * 6 + j] = sum;
                }
    haul_tensor *y = haul_matmul(a, b);
    assert_close(y, want, 2 * 3 * 4 * 6, 1e-12, "batches that broadcast");
    assert_int_equal(haul_tensor_ndim(y), 4);
    assert_int_equal(haul_tensor_dim(y, 0), 2);
    assert_int_equal(haul_tensor_dim(y, 1), 3);
    free(va);
    free(vb);
}

static void test_matmul__leading_axes_broadcast(void **state)
{
    (void)state;
    on_devices(compare_batches);
}

static void check_shape(haul_tensor *t, haul_shape want)
{
    if (!haul_tensor_is_valid(t))
        fail_msg("%s", haul_error_message());
    haul_shape got = haul_tensor_shape(t);
    assert_int_equal(got.ndim, want.ndim);
    for (int d = 0; d < want.ndim; d++)
        assert_int_equal(got.dims[d], want.dims[d]);
}

static void test_matmul__vectors_as_in_numpy(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *v = haul_ones(HAUL_F32, HAUL_SHAPE(4)), *m = haul_ones(HAUL_F32, HAUL_SHAPE(4, 3));
    haul_tensor *batch = haul_ones(HAUL_F32, HAUL_SHAPE(2, 5, 4));
    check_shape(haul_matmul(v, v), HAUL_SCALAR_SHAPE);
    check_shape(haul_matmul(v, m), HAUL_SHAPE(3));
    check_shape(haul_matmul(batch, v), HAUL_SHAPE(2, 5));
    check_shape(haul_matmul(v, haul_transpose(batch, 1, 2)), HAUL_SHAPE(2, 5));
    check_shape(haul_matmul(batch, m), HAUL_SHAPE(2, 5, 3));
    assert_true(haul_item(haul_matmul(v, v)) == 4);
    haul_scope_pop(scope);
}

static void test_matmul__dtypes_promote(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *a = haul_ones(HAUL_I32, HAUL_SHAPE(2, 3)), *b = haul_ones(HAUL_F64, HAUL_SHAPE(3, 2));
    assert_int_equal(haul_tensor_dtype(haul_matmul(a, b)), HAUL_F64);
    assert_int_equal(haul_tensor_dtype(haul_matmul(a, haul_transpose(a, 0, 1))), HAUL_I32);
    haul_scope_pop(scope);
}

/* What dtype limits would do to the sums shows in every product, also by vectors, in batches and into a target. */
static void small_integers(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_U8, HAUL_I8, HAUL_I16};
    const double            a_values[] = {127, 126, 125, 100, 99, 98}, want[] = {47630, 37424, 37424, 29405};
    haul_tensor            *long_a = haul_to(haul_from_host(HAUL_F64, HAUL_SHAPE(2, 3), a_values), device);
    for (int i = 0; i < 3; i++) {
        haul_tensor *a = haul_cast(long_a, dtypes[i]), *b = haul_transpose(a, 0, 1), *out, *bias;
        haul_tensor *batch = haul_expand(haul_unsqueeze(b, 0), HAUL_SHAPE(2, 3, 2)), *row = haul_select(a, 0, 0);
        haul_set_device(device);
        assert_int_equal(haul_tensor_dtype(haul_matmul(a, b)), HAUL_I32);
        assert_close(haul_matmul(a, b), want, 4, 0, "a product of small integers");
        assert_close(haul_select(haul_matmul(a, batch), 0, 1), want, 4, 0, "products in a batch");
        assert_close(haul_matmul(row, b), want, 2, 0, "a vector's product");
        assert_close(haul_matmul(row, row), want, 1, 0, "a dot product");
        out = haul_zeros(HAUL_I32, HAUL_SHAPE(2, 2));
        assert_int_equal(haul_matmul_into(out, a, b), HAUL_OK);
        assert_close(out, want, 4, 0, "into a target");
        bias = haul_full(dtypes[i], HAUL_SHAPE(2), 100);
        assert_int_equal(haul_linear_into(out, a, a, .bias = bias, .relu = true), HAUL_OK);
        assert_close(haul_sub_scalar(out, 100), want, 4, 0, "a layer into a target");
        assert_int_equal(haul_tensor_dtype(haul_linear(a, a)), HAUL_I32);
        assert_int_equal(haul_matmul_into(haul_zeros(dtypes[i], HAUL_SHAPE(2, 2)), a, b), HAUL_DTYPE);
        assert_non_null(strstr(haul_error_message(), "the result is i32"));
        haul_error_clear();
    }
    haul_tensor *least = haul_full(HAUL_I8, HAUL_SHAPE(1, 70), -128);
    assert_close(haul_linear(least, least), (double[]){1146880}, 1, 0, "of the least");
    assert_int_equal(haul_tensor_dtype(haul_matmul(haul_cast(long_a, HAUL_I8), haul_ones(HAUL_I64, HAUL_SHAPE(3, 1)))),
                     HAUL_I64);
}

static void test_matmul__small_integers_give_i32(void **state)
{
    (void)state;
    on_devices(small_integers);
}

static void empty_products(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *none = haul_zeros(HAUL_F32, HAUL_SHAPE(0, 4)), *b = haul_ones(HAUL_F32, HAUL_SHAPE(4, 3));
    check_shape(haul_matmul(none, b), HAUL_SHAPE(0, 3));
    haul_tensor *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(3, 4)), true);
    haul_tensor *bias = haul_ones(HAUL_F32, HAUL_SHAPE(3));
    haul_tensor *y = haul_linear(none, w, .bias = bias);
    check_shape(y, HAUL_SHAPE(0, 3));
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
    double zeros[12] = {0}, ones[6] = {1, 1, 1, 1, 1, 1};
    assert_close(haul_tensor_grad(w), zeros, 12, 0, "the gradient of an empty batch");
    /* Nothing to add up: the bias alone. */
    y = haul_linear(haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0)), haul_zeros(HAUL_F32, HAUL_SHAPE(3, 0)), .bias = bias);
    assert_close(y, ones, 6, 0, "no columns");
}

static void test_matmul__empty_operands(void **state)
{
    (void)state;
    on_devices(empty_products);
}

/* Rows that one stride walks through, those of a view included, and others: permuted, broadcast. */
static void compare_rows(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F64, HAUL_SHAPE(3, 4, 6), 1, NULL), *views[5];
    haul_tensor *w = sample_tensor(device, HAUL_F64, HAUL_SHAPE(6, 5), 2, NULL), *wt = haul_transpose(w, 0, 1);
    views[0] = x;
    views[1] = haul_permute(x, (const int[]){1, 0, 2}, 3);
    views[2] = haul_expand(haul_slice(x, 0, 0, 1, 1), HAUL_SHAPE(7, 4, 6));
    views[3] = haul_slice(x, 1, 1, 2, 1);
    views[4] = haul_slice(haul_cat((haul_tensor *[]){x, x}, 2, 2), 2, 3, 9, 1);
    for (int i = 0; i < 5; i++) {
        haul_tensor *dense = haul_contiguous(views[i]);
        int64_t      rows = haul_tensor_dim(dense, 0) * haul_tensor_dim(dense, 1);
        double       want[7 * 4 * 5];
        haul_tensor *folded = haul_view(dense, HAUL_SHAPE(rows, 6));
        assert_int_equal(read_values(haul_matmul(folded, w), want, rows * 5), HAUL_OK);
        assert_close(haul_matmul(views[i], w), want, rows * 5, 0, "a product of many rows");
        assert_close(haul_linear(views[i], wt), want, rows * 5, 0, "linear of many rows");
    }
}

static void test_matmul__leading_axes_are_rows(void **state)
{
    (void)state;
    on_devices(compare_rows);
}

/* ---- permuted heads ---- */

enum { HEADS = 3, LENGTH = 20 };

/* [2, HEADS, LENGTH, features] as a view of [2, LENGTH, HEADS * features], or its copy. */
static haul_tensor *heads_of(haul_tensor *x, int64_t features, bool copied)
{
    haul_tensor *view = haul_transpose(haul_reshape(x, HAUL_SHAPE(2, LENGTH, HEADS, features)), 1, 2);
    return copied ? haul_contiguous(view) : view;
}

/* (q k^T) v of heads, and its gradients. */
static void product_of_heads(haul_tensor *x[3], int64_t features, bool copied, haul_tensor *out[4])
{
    haul_tensor *q = heads_of(x[0], features, copied), *k = heads_of(x[1], features, copied);
    haul_tensor *y = haul_matmul(haul_matmul(q, haul_transpose(k, -2, -1)), heads_of(x[2], features, copied));
    out[0] = y;
    assert_int_equal(haul_grad(haul_sum(haul_square(y)), x, 3, out + 1), HAUL_OK);
}

/* Heads that are views have the bits of copies. The result can be seen as features without a copy. */
static void compare_heads(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_F32, HAUL_F64, HAUL_F16, HAUL_BF16};
    for (int i = 0; i < 8; i++) {
        const int64_t features = i % 2 ? 8 : 33;
        haul_scope   *scope = haul_scope_push();
        haul_tensor  *x[3], *views[4], *copies[4];
        for (int t = 0; t < 3; t++) {
            x[t] = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, LENGTH, HEADS * features), (unsigned)t + 1, NULL);
            x[t] = haul_set_requires_grad(haul_detach(haul_cast(x[t], dtypes[i / 2])), true);
        }
        product_of_heads(x, features, false, views);
        product_of_heads(x, features, true, copies);
        for (int t = 0; t < 4; t++) {
            haul_tensor *same = haul_all(haul_eq(views[t], copies[t]));
            bool         value = false;
            assert_int_equal(haul_read(same, &value, sizeof value), HAUL_OK);
            assert_true(value);
        }
        assert_true(haul_tensor_is_contiguous(haul_transpose(views[0], 1, 2)));
        haul_scope_pop(scope);
    }
}

static void test_matmul__heads_in_rows(void **state)
{
    (void)state;
    on_devices(compare_heads);
}

/* ---- calls ---- */

static void check_node(haul_tensor *y, const char *name, haul_tensor *const *leaves)
{
    assert_valid(y);
    assert_string_equal(y->node->operation->name, name);
    for (int i = 0; i < 2; i++)
        assert_ptr_equal(y->node->edges[i].leaf, leaves[i]);
}

/* Neither vectors nor leading axes take operations of their own. */
static void test_matmul__is_one_node(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *v = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(4)), true);
    haul_tensor *x = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(2, 5, 4)), true);
    haul_tensor *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(4, 4)), true);
    check_node(haul_matmul(v, v), "haul_matmul", (haul_tensor *[]){v, v});
    check_node(haul_matmul(v, w), "haul_matmul", (haul_tensor *[]){v, w});
    check_node(haul_matmul(x, v), "haul_matmul", (haul_tensor *[]){x, v});
    check_node(haul_matmul(x, w), "haul_matmul", (haul_tensor *[]){x, w});
    check_node(haul_linear(x, w, .bias = v), "haul_linear", (haul_tensor *[]){x, w});
    /* Only relu's gradient reads the result. */
    assert_false(haul_linear(x, w, .bias = v)->node->saves_results & 1);
    assert_true(haul_linear(x, w, .bias = v, .relu = true)->node->saves_results & 1);
    haul_scope_pop(scope);
}

static void test_matmul__costs(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *w = haul_set_requires_grad(haul_ones(HAUL_F32, HAUL_SHAPE(4, 3)), true);
    haul_tensor *v = haul_ones(HAUL_F32, HAUL_SHAPE(4)), *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 5, 4));
    haul_tensor *wt = haul_transpose(w, 0, 1), *product = haul_matmul(v, w), *linear = haul_linear(x, wt);
    haul__cost   cost = cost_of(product, (haul_tensor *[]){x, w}, 2);
    assert_true(cost.flops == 2 * 10 * 3 * 4);
    assert_int_equal(cost.bytes, 4 * (40 + 12 + 30));
    assert_true(cost_of(product, (haul_tensor *[]){v, v}, 2).flops == 2 * 4);
    assert_true(cost_of(product, (haul_tensor *[]){v, w}, 2).flops == 2 * 3 * 4);
    assert_true(cost_of(linear, (haul_tensor *[]){x, wt, HAUL_NONE}, 3).flops == 2 * 10 * 3 * 4);
    haul_scope_pop(scope);
}

/* ---- into given tensors ---- */

static void assert_into(haul_status status, haul_tensor *out, haul_tensor *wanted, const char *what)
{
    double want[64];
    assert_int_equal(status, HAUL_OK);
    assert_int_equal(read_values(wanted, want, haul_tensor_count(wanted)), HAUL_OK);
    assert_close(out, want, haul_tensor_count(wanted), 0, what);
}

static void into_given(haul_device *device)
{
    haul_tensor *a = sample_tensor(device, HAUL_F32, HAUL_SHAPE(4, 4), 1, NULL);
    haul_tensor *b = sample_tensor(device, HAUL_F32, HAUL_SHAPE(4, 4), 2, NULL);
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 3, 4), 3, NULL);
    haul_tensor *v = sample_tensor(device, HAUL_F32, HAUL_SHAPE(4), 4, NULL);
    haul_set_device(device);
    haul_tensor *out = haul_zeros(HAUL_F32, HAUL_SHAPE(4, 4)), *turned = haul_transpose(out, 0, 1);
    haul_tensor *rows = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 3, 4)), *few = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 3));
    assert_into(haul_matmul_into(out, a, b), out, haul_matmul(a, b), "matmul_into");
    assert_into(haul_matmul_into(turned, a, b), turned, haul_matmul(a, b), "matmul_into a transposed tensor");
    assert_into(haul_matmul_into(rows, x, b), rows, haul_matmul(x, b), "matmul_into, many rows");
    assert_into(haul_matmul_into(few, x, v), few, haul_matmul(x, v), "matmul_into, a vector");
    assert_into(haul_linear_into(rows, x, b, .bias = v, .relu = true), rows, haul_linear(x, b, .bias = v, .relu = true),
                "linear_into");
    haul_tensor *want = haul_matmul(a, b), *wanted_rows = haul_linear(x, b, .bias = v);
    assert_into(haul_matmul_into(a, a, b), a, want, "matmul_into an operand");
    assert_into(haul_linear_into(x, x, b, .bias = v), x, wanted_rows, "linear_into an operand");
    assert_int_equal(haul_matmul_into(out, x, b), HAUL_SHAPE);
    assert_int_equal(haul_linear_into(few, x, b, .bias = v), HAUL_SHAPE);
    haul_error_clear();
    assert_int_equal(haul_linear_into_with(few, x, NULL), HAUL_INVALID_ARGUMENT);
    haul_error_clear();
}

static void test_matmul__into_given_tensors(void **state)
{
    (void)state;
    on_devices(into_given);
}

/* ---- gradients ---- */

static haul_tensor *product_of(haul_tensor *const *in, int count, void *context)
{
    (void)count, (void)context;
    return haul_matmul(in[0], in[1]);
}

/* context: not NULL for relu of it. */
static haul_tensor *linear_of(haul_tensor *const *in, int count, void *context)
{
    return haul_linear(in[0], in[1], .bias = count > 2 ? in[2] : HAUL_NONE, .relu = context != NULL);
}

/* A function of first gradients, so that differences of it check second ones. */
static haul_tensor *gradients_of_linear(haul_tensor *const *in, int count, void *context)
{
    haul_tensor *g[2], *y = haul_sum(haul_square(linear_of(in, count, context)));
    if (haul_grad(y, in, 2, g, .create_graph = true))
        return NULL;
    return haul_add(haul_sum(haul_square(g[0])), haul_sum(haul_square(g[1])));
}

static void check_gradients(haul_device *device)
{
    static const haul_shape shapes[][2] = {
        {{2, {3, 4}}, {2, {4, 5}}},          {{1, {4}}, {2, {4, 5}}},       {{2, {3, 4}}, {1, {4}}},
        {{3, {2, 3, 4}}, {3, {2, 4, 2}}},    {{3, {2, 3, 4}}, {2, {4, 2}}}, {{2, {3, 4}}, {3, {2, 4, 2}}},
        {{4, {2, 1, 3, 2}}, {3, {3, 2, 2}}}, {{1, {4}}, {1, {4}}},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        haul_tensor *in[] = {sample_tensor(device, HAUL_F64, shapes[i][0], 1, NULL),
                             sample_tensor(device, HAUL_F64, shapes[i][1], 2, NULL)};
        if (haul_grad_check(product_of, in, 2, NULL))
            fail_msg("shapes %zu on %s: %s", i, haul_device_name(device), haul_error_message());
    }
    haul_tensor *in[] = {sample_tensor(device, HAUL_F64, HAUL_SHAPE(3, 4), 1, NULL),
                         sample_tensor(device, HAUL_F64, HAUL_SHAPE(5, 4), 2, NULL),
                         sample_tensor(device, HAUL_F64, HAUL_SHAPE(5), 3, NULL)};
    assert_int_equal(haul_grad_check(linear_of, in, 3, NULL), HAUL_OK);
    assert_int_equal(haul_grad_check(gradients_of_linear, in, 3, NULL, .tolerance = {1e-3, 1e-3}), HAUL_OK);
    static const haul_shape leading[] = {{1, {4}}, {3, {2, 3, 4}}};
    for (int i = 0; i < 2; i++) {
        haul_tensor *others[] = {sample_tensor(device, HAUL_F64, leading[i], 1, NULL), in[1], in[2]};
        assert_int_equal(haul_grad_check(linear_of, others, 3, NULL), HAUL_OK);
        assert_int_equal(haul_grad_check(gradients_of_linear, others, 3, NULL, .tolerance = {1e-3, 1e-3}), HAUL_OK);
    }
    bool relu = true;
    assert_int_equal(haul_grad_check(linear_of, in, 3, &relu), HAUL_OK);
    assert_int_equal(haul_grad_check(gradients_of_linear, in, 3, &relu, .tolerance = {1e-3, 1e-3}), HAUL_OK);
}

/* The options against the operations by themselves, in every dtype that has products. */
static void relu_after_linear(haul_device *device)
{
    static const haul_dtype dtypes[] = {HAUL_I32, HAUL_F16, HAUL_BF16, HAUL_F32, HAUL_F64};
    haul_device_properties  p;
    assert_int_equal(haul_device_describe(device, &p), HAUL_OK);
    for (size_t i = 0; i < sizeof dtypes / sizeof dtypes[0]; i++) {
        if (dtypes[i] == HAUL_F64 && !p.has_f64)
            continue;
        haul_tensor *x = sample_tensor(device, dtypes[i], HAUL_SHAPE(2, 5, 40), 1, NULL);
        haul_tensor *w = sample_tensor(device, dtypes[i], HAUL_SHAPE(33, 40), 2, NULL);
        haul_tensor *b = sample_tensor(device, dtypes[i], HAUL_SHAPE(33), 3, NULL);
        double       want[330];
        assert_int_equal(read_values(haul_relu(haul_linear(x, w, .bias = b)), want, 330), HAUL_OK);
        assert_close(haul_linear(x, w, .bias = b, .relu = true), want, 330, 0, "with relu");
        assert_int_equal(read_values(haul_relu(haul_linear(x, w)), want, 330), HAUL_OK);
        assert_close(haul_linear(x, w, .relu = true), want, 330, 0, "with relu, without bias");
    }
}

static void test_linear__relu(void **state)
{
    (void)state;
    on_devices(relu_after_linear);
}

static void test_matmul__gradients(void **state)
{
    (void)state;
    on_devices(check_gradients);
}

/* ---- threads ---- */

static haul_tensor *large_product(void *context)
{
    (void)context;
    haul_tensor *a = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(130, 600), 1, NULL);
    haul_tensor *b = sample_tensor(haul_cpu(), HAUL_F32, HAUL_SHAPE(600, 210), 2, NULL);
    return haul_matmul(a, b);
}

static void test_matmul__threads_do_not_change_bits(void **state)
{
    (void)state;
    assert_same_for_threads(large_product, NULL);
}

/* ---- errors ---- */

static void test_matmul__errors_name_both_shapes(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *a = haul_ones(HAUL_F32, HAUL_SHAPE(2, 3)), *b = haul_ones(HAUL_F32, HAUL_SHAPE(4, 2));
    haul_tensor *flag = haul_zeros(HAUL_BOOL, HAUL_SHAPE(3, 3));
    assert_refused(haul_matmul(a, b), HAUL_SHAPE, "a is [2,3] and b is [4,2]");
    assert_refused(haul_matmul(a, haul_scalar(2)), HAUL_SHAPE, "haul_mul");
    assert_refused(haul_matmul(flag, flag), HAUL_DTYPE, "numbers are expected");
    assert_refused(haul_matmul(a, HAUL_NONE), HAUL_INVALID_ARGUMENT, "b is HAUL_NONE");
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(2, 2, 4, 3)), *y = haul_ones(HAUL_F32, HAUL_SHAPE(3, 3, 2));
    assert_refused(haul_matmul(x, y), HAUL_SHAPE, "haul_matmul");
    assert_refused(haul_linear(a, b), HAUL_SHAPE, "the last axis of x must be 2 long");
    assert_refused(haul_linear(a, haul_ones(HAUL_F32, HAUL_SHAPE(3))), HAUL_SHAPE, "[out, in]");
    assert_refused(haul_linear(b, haul_ones(HAUL_F32, HAUL_SHAPE(3, 2)), .bias = a), HAUL_SHAPE, "bias must be [3]");
    haul_scope_pop(scope);
}

/* A setting of the thread, that scopes restore; where it does not apply nothing changes. */
static void test_precision__belongs_to_the_scope(void **state)
{
    (void)state;
    assert_int_equal(haul_matmul_precision(), HAUL_PRECISION_HIGHEST);
    haul_scope  *outer = haul_scope_push(), *inner = haul_scope_push();
    haul_tensor *a = haul_full(HAUL_F32, HAUL_SHAPE(2, 2), 1 + 0x1p-20);
    assert_int_equal(haul_set_matmul_precision(HAUL_PRECISION_HIGH), HAUL_OK);
    assert_int_equal(haul_matmul_precision(), HAUL_PRECISION_HIGH);
    assert_true(haul_item(haul_max(haul_matmul(a, a))) > 2);
    assert_int_equal(haul_set_matmul_precision((haul_precision)7), HAUL_INVALID_ARGUMENT);
    assert_non_null(strstr(haul_error_message(), "HAUL_PRECISION_HIGHEST"));
    assert_int_equal(haul_matmul_precision(), HAUL_PRECISION_HIGH);
    haul_scope_pop(inner);
    assert_int_equal(haul_matmul_precision(), HAUL_PRECISION_HIGHEST);
    haul_scope_pop(outer);
    haul_error_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matmul__all_sizes_and_transpositions),
        cmocka_unit_test(test_matmul__long_transposed_operands),
        cmocka_unit_test(test_matmul__leading_axes_broadcast),
        cmocka_unit_test(test_matmul__vectors_as_in_numpy),
        cmocka_unit_test(test_matmul__dtypes_promote),
        cmocka_unit_test(test_matmul__small_integers_give_i32),
        cmocka_unit_test(test_matmul__empty_operands),
        cmocka_unit_test(test_matmul__leading_axes_are_rows),
        cmocka_unit_test(test_matmul__heads_in_rows),
        cmocka_unit_test(test_matmul__is_one_node),
        cmocka_unit_test(test_matmul__costs),
        cmocka_unit_test(test_matmul__into_given_tensors),
        cmocka_unit_test(test_linear__relu),
        cmocka_unit_test(test_matmul__gradients),
        cmocka_unit_test(test_matmul__threads_do_not_change_bits),
        cmocka_unit_test(test_matmul__errors_name_both_shapes),
        cmocka_unit_test(test_precision__belongs_to_the_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
