/* Options of losses: what the samples do not reach. Layouts, ignored rows, empty batches, infinities, errors.
 *
 * ctest: cuda; cuda-labels=once */
#include "support/into.h"

static haul_tensor *on(haul_device *device, haul_dtype dtype, haul_shape shape, const double *values)
{
    return haul_to(haul_cast(haul_from_host(HAUL_F64, shape, values), dtype), device);
}

static haul_tensor *labels(haul_device *device, haul_shape shape, int64_t below)
{
    int64_t count = 1;
    for (int d = 0; d < shape.ndim; d++)
        count *= shape.dims[d];
    haul_tensor *y = haul_remainder_scalar(haul_arange_i64(3, 3 + 29 * count, 29), (double)below);
    return haul_to(haul_reshape(y, shape), device);
}

static haul_tensor *leaf(haul_tensor *x)
{
    return haul_set_requires_grad(haul_detach(x), true);
}

static haul_tensor *gradient(haul_tensor *loss, haul_tensor *x)
{
    haul_tensor *g = NULL;
    assert_int_equal(haul_grad(haul_sum(loss), &x, 1, &g), HAUL_OK);
    return g;
}

static void assert_like(haul_tensor *got, haul_tensor *want, double error, const char *what)
{
    const int64_t count = haul_tensor_count(want);
    double       *values = calloc((size_t)count + 1, sizeof *values);
    assert_non_null(values);
    assert_int_equal(read_values(want, values, count), HAUL_OK);
    assert_close(got, values, count, error, what);
    free(values);
}

/* ---- [N, C, ...] ---- */

/* [N, C, L] gives what its rows give as [N L, C], channels-last too, with each reduction. */
static void rows_of(haul_device *device, int64_t n, int64_t classes, int64_t length, bool plain)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(n, length, classes), 2, NULL);
    haul_tensor *y = labels(device, HAUL_SHAPE(n, length), classes);
    haul_tensor *weight = plain ? HAUL_NONE : sample_tensor(device, HAUL_F32, HAUL_SHAPE(classes), 3, NULL);
    haul_tensor *flat = leaf(haul_reshape(x, HAUL_SHAPE(n * length, classes))), *flat_y = haul_flatten(y, 0);
    haul_tensor *last = leaf(haul_transpose(x, 1, 2)), *packed = leaf(haul_contiguous(haul_transpose(x, 1, 2)));
    for (haul_reduction r = HAUL_REDUCE_MEAN; r <= HAUL_REDUCE_NONE; r = (haul_reduction)(r + 1)) {
        const int64_t ignored = plain ? 0 : 1;
        const double  smooth = plain ? 0 : 0.3;
#define LOSS(x, y)                                                                                                     \
    haul_cross_entropy(x, y, .weight = weight, .ignore_index = ignored, .label_smoothing = smooth, .reduction = r)
        haul_tensor *want = LOSS(flat, flat_y), *g = gradient(want, flat);
        haul_tensor *columns = LOSS(packed, y), *rows = LOSS(last, y);
        assert_like(columns, want, 1e-4, "[N, C, L]");
        assert_like(rows, want, r == HAUL_REDUCE_NONE ? 0 : 1e-4, "[N, C, L] with the classes innermost");
        g = haul_transpose(haul_reshape(g, HAUL_SHAPE(n, length, classes)), 1, 2);
        assert_like(gradient(columns, packed), g, 1e-6, "its gradient");
        assert_like(gradient(rows, last), g, 1e-6, "its gradient with the classes innermost");
        want = haul_nll_loss(haul_log_softmax(packed, 1), y, .weight = weight, .ignore_index = ignored, .reduction = r);
        if (plain)
            assert_like(columns, want, 1e-4, "nll_loss of log_softmax");
    }
    haul_scope_pop(scope);
}

static void images(haul_device *device)
{
    for (int plain = 0; plain < 2; plain++) {
        rows_of(device, 2, 3, 5, plain);
        rows_of(device, 2, 70, 3, plain);
        rows_of(device, 3, 2, 300, plain);
        rows_of(device, 1, 5, 1, plain);
        rows_of(device, 2, 1, 7, plain);
    }
    haul_tensor *x = leaf(
        haul_to_memory_format(sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 3, 4, 5), 1, NULL), HAUL_CHANNELS_LAST));
    haul_tensor *loss = haul_cross_entropy(x, labels(device, HAUL_SHAPE(2, 4, 5), 3), .reduction = HAUL_REDUCE_NONE);
    assert_int_equal(haul_tensor_ndim(loss), 3);
    assert_true(haul_tensor_is_channels_last(gradient(loss, x)));
}

static void test_loss_options__images(void **state)
{
    (void)state;
    on_devices(images);
}

/* One row without a batch. */
static void single(haul_device *device)
{
    haul_tensor *x = leaf(sample_tensor(device, HAUL_F64, HAUL_SHAPE(7), 1, NULL)), *g;
    haul_tensor *y = labels(device, HAUL_SCALAR_SHAPE, 7), *batch = leaf(haul_unsqueeze(x, 0));
    haul_tensor *weight = sample_tensor(device, HAUL_F64, HAUL_SHAPE(7), 2, NULL);
    for (haul_reduction r = HAUL_REDUCE_MEAN; r <= HAUL_REDUCE_NONE; r = (haul_reduction)(r + 1)) {
        haul_tensor *loss = haul_cross_entropy(x, y, .weight = weight, .label_smoothing = 0.1, .reduction = r);
        haul_tensor *want =
            haul_cross_entropy(batch, haul_unsqueeze(y, 0), .weight = weight, .label_smoothing = 0.1, .reduction = r);
        assert_int_equal(haul_tensor_ndim(loss), 0);
        assert_like(loss, want, 0, "[C]");
        g = gradient(loss, x);
        assert_int_equal(haul_tensor_ndim(g), 1);
        assert_like(g, gradient(want, batch), 0, "its gradient");
        assert_like(haul_nll_loss(x, y, .reduction = r), haul_nll_loss(batch, haul_unsqueeze(y, 0), .reduction = r), 0,
                    "nll_loss of [C]");
    }
    haul_tensor *p = haul_softmax(weight, 0);
    assert_like(haul_cross_entropy(x, p), haul_cross_entropy(batch, haul_unsqueeze(p, 0)), 0, "probabilities [C]");
}

static void test_loss_options__without_a_batch(void **state)
{
    (void)state;
    on_devices(single);
}

/* ---- ignored rows ---- */

static void ignored(haul_device *device)
{
    static const double  rows[] = {1, 2, 3, NAN, INFINITY, -INFINITY, 0, 1, 0};
    static const int64_t some[] = {0, -100, 2}, all[] = {-100, -100, -100};
    haul_tensor         *y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(3), some), device);
    haul_tensor         *none = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(3), all), device);
    haul_tensor         *x = leaf(on(device, HAUL_F32, HAUL_SHAPE(3, 3), rows));
    const double         a = log(exp(-2) + exp(-1) + 1) + 2, b = log(2 + M_E);
    haul_tensor         *loss = haul_cross_entropy(x, y, .ignore_index = -100);
    assert_close(loss, (double[]){(a + b) / 2}, 1, 1e-6, "the mean of the others");
    assert_close(haul_slice(gradient(loss, x), 0, 1, 2, 1), (double[]){0, 0, 0}, 3, 0, "an ignored row's gradient");
    loss = haul_cross_entropy(x, y, .ignore_index = -100, .reduction = HAUL_REDUCE_NONE);
    assert_close(loss, (double[]){a, 0, b}, 3, 1e-6, "each loss");
    loss = haul_nll_loss(x, y, .ignore_index = -100, .reduction = HAUL_REDUCE_SUM);
    assert_close(loss, (double[]){-1}, 1, 0, "nll_loss");
    loss = haul_cross_entropy(haul_slice(x, 0, 2, 3, 1), haul_slice(y, 0, 2, 3, 1), .ignore_index = HAUL_ZERO);
    assert_close(loss, &b, 1, 1e-6, "a row of another class than 0");

    loss = haul_cross_entropy(x, none, .ignore_index = -100);
    assert_true(isnan(haul_item(loss)));
    assert_close(gradient(loss, x), (double[9]){0}, 9, 0, "the gradient of nothing");
    assert_true(isnan(haul_item(haul_nll_loss(x, none, .ignore_index = -100))));
    loss = haul_cross_entropy(x, none, .ignore_index = -100, .label_smoothing = 0.1, .reduction = HAUL_REDUCE_SUM);
    assert_close(loss, (double[]){0}, 1, 0, "the sum of nothing");
    loss = haul_cross_entropy(x, y);
    assert_true(!haul_tensor_is_valid(loss) || haul_device_sync(device));
    assert_string_equal(haul_error_message(), "haul_cross_entropy: y[1] is -100, but there are 3 classes");
    haul_error_clear();
}

static void test_loss_options__ignored_rows(void **state)
{
    (void)state;
    on_devices(ignored);
}

/* An index out of range fails with options, too. */
static void out_of_range(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(1, 3, 4), 1, NULL);
    haul_tensor *y = haul_to(haul_from_host(HAUL_I64, HAUL_SHAPE(1, 4), (int64_t[]){0, 2, 3, 1}), device);
    haul_tensor *weight = haul_ones_like(haul_select(haul_select(x, 0, 0), 1, 0));
    haul_tensor *loss = haul_cross_entropy(x, y, .weight = weight, .reduction = HAUL_REDUCE_NONE);
    assert_true(!haul_tensor_is_valid(loss) || haul_device_sync(device));
    assert_string_equal(haul_error_message(), "haul_cross_entropy: y[2] is 3, but there are 3 classes");
    haul_error_clear();
}

static void test_loss_options__an_index_out_of_range(void **state)
{
    (void)state;
    on_devices(out_of_range);
}

/* ---- sizes and dtypes ---- */

static void empty(haul_device *device)
{
    haul_tensor *x = leaf(haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(0, 3)), device));
    haul_tensor *y = haul_to(haul_zeros(HAUL_I64, HAUL_SHAPE(0)), device), *weight = haul_mean(x, HAUL_AXES(0));
    weight = haul_ones_like(haul_detach(weight));
    assert_true(isnan(haul_item(haul_cross_entropy(x, y, .weight = weight))));
    assert_true(isnan(haul_item(haul_cross_entropy(x, x))));
    assert_true(isnan(haul_item(haul_l1_loss(x, x))));
    assert_true(isnan(haul_item(haul_kl_div(x, x, .reduction = HAUL_REDUCE_BATCH_MEAN))));
    haul_tensor *sums[] = {haul_cross_entropy(x, y, .reduction = HAUL_REDUCE_SUM),
                           haul_nll_loss(x, y, .weight = weight, .reduction = HAUL_REDUCE_SUM),
                           haul_huber_loss(x, haul_detach(x), .reduction = HAUL_REDUCE_SUM),
                           haul_bce_with_logits(x, haul_detach(x), .reduction = HAUL_REDUCE_SUM)};
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        assert_float_equal(haul_item(sums[i]), 0, 0);
        assert_int_equal(haul_tensor_count(gradient(sums[i], x)), 0);
    }
    haul_tensor *none = haul_cross_entropy(x, y, .reduction = HAUL_REDUCE_NONE);
    assert_int_equal(haul_tensor_count(none), 0);
    assert_int_equal(haul_tensor_count(gradient(none, x)), 0);
}

static void test_loss_options__empty_batches(void **state)
{
    (void)state;
    on_devices(empty);
}

/* Sums of losses and of weights that f16 cannot hold. */
static void halves(haul_device *device)
{
    enum { MANY = 70000 };
    const haul_dtype dtypes[] = {HAUL_F16, HAUL_BF16};
    for (int i = 0; i < 2; i++) {
        haul_tensor *x = leaf(haul_cast(haul_to(haul_zeros(HAUL_F32, HAUL_SHAPE(MANY, 2)), device), dtypes[i]));
        haul_tensor *y = labels(device, HAUL_SHAPE(MANY), 2), *one = haul_ones_like(haul_detach(haul_select(x, 0, 0)));
        haul_tensor *loss = haul_cross_entropy(x, y, .weight = haul_mul_scalar(one, 3)), *g = gradient(loss, x);
        assert_int_equal(haul_tensor_dtype(loss), dtypes[i]);
        assert_float_equal(haul_item(loss), log(2), 2e-3);
        assert_float_equal(haul_item(haul_max(haul_cast(g, HAUL_F32))), 0.5 / MANY, 1e-7);
        loss = haul_nll_loss(haul_sub_scalar(x, 3), y, .weight = one);
        assert_float_equal(haul_item(loss), 3, 0);
        loss = haul_cross_entropy(x, y, .weight = haul_cast(one, HAUL_F32), .reduction = HAUL_REDUCE_NONE);
        assert_int_equal(haul_tensor_dtype(loss), dtypes[i]);
        assert_float_equal(haul_item(haul_select(loss, 0, MANY - 1)), log(2), 2e-3);
    }
}

static void test_loss_options__halves(void **state)
{
    (void)state;
    on_devices(halves);
}

/* Losses of pairs, and cross entropy against probabilities, in f16 and bf16. */
typedef haul_tensor *pair_function(haul_tensor *x, haul_tensor *target, haul_reduction reduction);

#define PAIR_FUNCTION(name, ...)                                                                                       \
    static haul_tensor *name(haul_tensor *x, haul_tensor *target, haul_reduction reduction)                            \
    {                                                                                                                  \
        return haul_##__VA_ARGS__;                                                                                     \
    }
PAIR_FUNCTION(pair_mse, mse_loss(x, target, .reduction = reduction))
PAIR_FUNCTION(pair_l1, l1_loss(x, target, .reduction = reduction))
PAIR_FUNCTION(pair_huber, huber_loss(x, target, .reduction = reduction))
PAIR_FUNCTION(pair_smooth_l1, smooth_l1_loss(x, target, .reduction = reduction))
PAIR_FUNCTION(pair_kl_div, kl_div(x, target, .reduction = reduction))
PAIR_FUNCTION(pair_kl_div_log, kl_div(x, target, .log_target = true, .reduction = reduction))
PAIR_FUNCTION(pair_bce, bce_loss(x, target, .reduction = reduction))
PAIR_FUNCTION(pair_bce_logits, bce_with_logits(x, target, .reduction = reduction))
PAIR_FUNCTION(pair_bce_weighted, bce_with_logits(x, target, .weight = haul_detach(target), .pos_weight = haul_detach(x),
                                                 .reduction = reduction))
PAIR_FUNCTION(pair_probabilities,
              cross_entropy(x, target, .weight = haul_slice(haul_flatten(haul_detach(x), 0), 0, 0, 31, 1),
                            .label_smoothing = 0.1, .reduction = reduction))

static const struct {
    const char    *name;
    pair_function *f;
} pair_functions[] = {{"mse", pair_mse},
                      {"l1", pair_l1},
                      {"huber", pair_huber},
                      {"smooth_l1", pair_smooth_l1},
                      {"kl_div", pair_kl_div},
                      {"kl_div_log", pair_kl_div_log},
                      {"bce", pair_bce},
                      {"bce_with_logits", pair_bce_logits},
                      {"bce_with_logits of weights", pair_bce_weighted},
                      {"cross_entropy of probabilities", pair_probabilities}};

/* Result and gradients are those of f32, rounded once; also those that can be differentiated again. */
static void rounded_once(haul_device *device, haul_dtype dtype, int which, haul_reduction reduction, bool create_graph)
{
    haul_scope  *scope = haul_scope_push();
    haul_tensor *half[2], *full[2], *g[2][2], *y[2];
    for (int i = 0; i < 2; i++) {
        double values[5 * 31];
        sample_values(values, 5 * 31, dtype, 0.1, 0.9, (unsigned)i + 1);
        half[i] = leaf(haul_to(haul_cast(haul_from_host(HAUL_F64, HAUL_SHAPE(5, 31), values), dtype), device));
        full[i] = leaf(haul_cast(half[i], HAUL_F32));
    }
    for (int wide = 0; wide < 2; wide++) {
        haul_tensor **in = wide ? full : half;
        y[wide] = pair_functions[which].f(in[0], in[1], reduction);
        haul_tensor *seed = haul_ones_like(y[wide]);
        assert_int_equal(haul_grad(y[wide], in, 2, g[wide], .seed = seed, .create_graph = create_graph), HAUL_OK);
    }
    assert_equal_bits(y[0], haul_cast(y[1], dtype), pair_functions[which].name);
    for (int i = 0; i < 2; i++)
        assert_equal_bits(g[0][i], haul_cast(g[1][i], dtype), pair_functions[which].name);
    haul_scope_pop(scope);
}

static void half_pairs(haul_device *device)
{
    static const haul_reduction reductions[] = {HAUL_REDUCE_MEAN, HAUL_REDUCE_SUM, HAUL_REDUCE_NONE};
    static const haul_dtype     dtypes[] = {HAUL_F16, HAUL_BF16};
    for (size_t f = 0; f < sizeof pair_functions / sizeof pair_functions[0]; f++)
        for (int d = 0; d < 2; d++)
            for (int r = 0; r < 3; r++)
                for (int create_graph = 0; create_graph < 2; create_graph++)
                    rounded_once(device, dtypes[d], (int)f, reductions[r], create_graph);
}

static void test_loss_options__halves_of_pairs_round_once(void **state)
{
    (void)state;
    on_devices(half_pairs);
}

/* A square that f16 does not hold, and a factor 1 / N below its normal numbers. */
static void half_ranges(haul_device *device)
{
    enum { MANY = 4000000 };
    haul_tensor *zero = haul_to(haul_zeros(HAUL_F16, HAUL_SHAPE(1000)), device);
    haul_tensor *x =
        haul_to(haul_cast(haul_pad(haul_full(HAUL_F32, HAUL_SHAPE(1), 300), HAUL_PADS(0, 999)), HAUL_F16), device);
    assert_float_equal(haul_item(haul_mse_loss(x, zero)), 90, 0);
    x = leaf(haul_to(haul_full(HAUL_F16, HAUL_SHAPE(MANY), 1000), device));
    haul_tensor *g = gradient(haul_mse_loss(x, haul_zeros_like(haul_detach(x))), x);
    assert_float_equal(haul_item(haul_max(haul_cast(g, HAUL_F32))), 2000. / MANY, 3e-7);
}

static void test_loss_options__halves_of_wide_range(void **state)
{
    (void)state;
    on_devices(half_ranges);
}

/* ---- infinities and edges ---- */

static void assert_element(const char *what, haul_tensor *loss, haul_tensor *x, double want, double slope)
{
    double value = haul_item(loss), g = haul_item(gradient(loss, x));
    if (!(value == want || fabs(value - want) <= 1e-5 * fabs(want) || (isnan(value) && isnan(want))))
        fail_msg("%s is %g, not %g", what, value, want);
    if (!(g == slope || fabs(g - slope) <= 1e-5 * fabs(slope) || (isnan(g) && isnan(slope))))
        fail_msg("%s: the gradient is %g, not %g", what, g, slope);
}

static void edges(haul_device *device)
{
    static const struct {
        double x, target, l1[2], huber[2], smooth[2], kl[2], bce[2], weighted[2]; /* value and slope */
    } cases[] = {
        {1, 1, {0, 0}, {0, 0}, {0, 0}, {-1, -1}, {0, 0}, {0.9397851, -0.8068243}},
        {3, 0, {3, 1}, {4, 2}, {2.75, 1}, {0, 0}, {NAN, NAN}, {3.0485874, 0.9525741}},
        {0, 2, {2, -1}, {2, -2}, {1.75, -1}, {1.3862944, -2}, {200, -2e12}, {3.4657359, -3.5}},
        {INFINITY, 1, {INFINITY, 1}, {INFINITY, 2}, {INFINITY, 1}, {-INFINITY, -1}, {NAN, NAN}, {0, 0}},
        {-INFINITY, 0, {INFINITY, -1}, {INFINITY, -2}, {INFINITY, -1}, {0, 0}, {NAN, NAN}, {0, 0}},
        {-INFINITY, 1, {INFINITY, -1}, {INFINITY, -2}, {INFINITY, -1}, {INFINITY, -1}, {NAN, NAN}, {INFINITY, -3}},
        {1, 0, {1, 1}, {0.5, 1}, {0.75, 1}, {0, 0}, {100, 1e12}, {1.3132617, 0.7310586}},
        {NAN, 1, {NAN, NAN}, {NAN, NAN}, {NAN, NAN}, {NAN, -1}, {NAN, NAN}, {NAN, NAN}},
    };
    haul_tensor *three = haul_to(haul_scalar(3), device);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        haul_tensor *x = leaf(on(device, HAUL_F32, HAUL_SHAPE(1), &cases[i].x));
        haul_tensor *t = on(device, HAUL_F32, HAUL_SHAPE(1), &cases[i].target);
        assert_element("l1_loss", haul_l1_loss(x, t), x, cases[i].l1[0], cases[i].l1[1]);
        assert_element("huber_loss", haul_huber_loss(x, t, .delta = 2), x, cases[i].huber[0], cases[i].huber[1]);
        assert_element("smooth_l1_loss", haul_smooth_l1_loss(x, t, .beta = 0.5), x, cases[i].smooth[0],
                       cases[i].smooth[1]);
        assert_element("kl_div", haul_kl_div(x, t), x, cases[i].kl[0], cases[i].kl[1]);
        if (!isnan(cases[i].bce[0]))
            assert_element("bce_loss", haul_bce_loss(x, t), x, cases[i].bce[0], cases[i].bce[1]);
        assert_element("bce_with_logits", haul_bce_with_logits(x, t, .pos_weight = three), x, cases[i].weighted[0],
                       cases[i].weighted[1]);
    }
    haul_tensor *low = on(device, HAUL_F32, HAUL_SHAPE(1), (double[]){-INFINITY});
    assert_float_equal(haul_item(haul_kl_div(low, low, .log_target = true)), 0, 0);
}

static void test_loss_options__infinities_and_edges(void **state)
{
    (void)state;
    on_devices(edges);
}

static void no_beta(haul_device *device)
{
    haul_tensor *x = leaf(sample_tensor(device, HAUL_F32, HAUL_SHAPE(33), 1, NULL));
    haul_tensor *t = sample_tensor(device, HAUL_F32, HAUL_SHAPE(33), 2, NULL);
    haul_tensor *smooth = haul_smooth_l1_loss(x, t, .beta = HAUL_ZERO), *l1 = haul_l1_loss(x, t);
    assert_equal_bits(smooth, l1, "smooth_l1_loss with a beta of 0");
    assert_equal_bits(gradient(smooth, x), gradient(l1, x), "its gradient");
}

static void test_loss_options__beta_zero_is_l1(void **state)
{
    (void)state;
    on_devices(no_beta);
}

/* ---- gradients of operands other than the first ---- */

static haul_tensor *of_weights(haul_tensor *const *in, int count, void *context)
{
    (void)count, (void)context;
    haul_tensor *target = haul_sigmoid(in[1]);
    haul_tensor *bce = haul_bce_with_logits(in[0], target, .weight = in[2], .pos_weight = in[3]);
    haul_tensor *classes = haul_cross_entropy(in[0], haul_softmax(in[1], 1), .weight = in[3], .label_smoothing = 0.2);
    haul_tensor *pairs = haul_add(haul_huber_loss(in[0], in[1]), haul_smooth_l1_loss(in[0], in[1], .beta = 2));
    haul_tensor *kl = haul_kl_div(in[0], target, .reduction = HAUL_REDUCE_BATCH_MEAN);
    haul_tensor *logs = haul_kl_div(in[0], in[1], .log_target = true);
    haul_tensor *probable = haul_bce_loss(haul_sigmoid(in[0]), target, .reduction = HAUL_REDUCE_SUM);
    return haul_add(haul_add(haul_add(bce, classes), haul_add(pairs, kl)), haul_add(logs, probable));
}

static void test_loss_options__gradients_of_targets_and_weights(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *in[] = {sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(4, 3), 1, NULL),
                         sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(4, 3), 2, NULL),
                         sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(4, 1), 3, NULL),
                         sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(3), 4, NULL)};
    if (haul_grad_check(of_weights, in, 4, NULL))
        fail_msg("%s", haul_error_message());
    haul_scope_pop(scope);
}

/* ---- errors ---- */

static void test_loss_options__errors(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(3, 4)), *y = haul_zeros(HAUL_I64, HAUL_SHAPE(3));
    haul_tensor *p = haul_ones(HAUL_F32, HAUL_SHAPE(3, 4)), *three = haul_ones(HAUL_F32, HAUL_SHAPE(3));
    haul_tensor *four = haul_ones(HAUL_F32, HAUL_SHAPE(4));
    assert_refused(haul_cross_entropy(x, y, .reduction = (haul_reduction)7), HAUL_INVALID_ARGUMENT, "reduction is 7");
    assert_refused(haul_mse_loss(x, p, .reduction = HAUL_REDUCE_BATCH_MEAN), HAUL_INVALID_ARGUMENT, "reduction is 3");
    assert_refused(haul_kl_div(x, p, .reduction = (haul_reduction)-1), HAUL_INVALID_ARGUMENT, "HAUL_REDUCE_BATCH_MEAN");
    assert_refused(haul_cross_entropy(x, y, .label_smoothing = 1.5), HAUL_INVALID_ARGUMENT, "label_smoothing is 1.5");
    assert_refused(haul_cross_entropy(x, p, .label_smoothing = NAN), HAUL_INVALID_ARGUMENT, "label_smoothing is nan");
    assert_refused(haul_cross_entropy(x, y, .weight = three), HAUL_SHAPE, "weight has shape [3]");
    assert_refused(haul_cross_entropy(x, p, .weight = three), HAUL_SHAPE, "weight has shape [3]");
    assert_refused(haul_nll_loss(x, y, .weight = leaf(four)), HAUL_GRAPH, "weight requires a gradient");
    assert_refused(haul_cross_entropy(x, p, .ignore_index = -100), HAUL_INVALID_ARGUMENT, "ignore_index is given");
    assert_refused(haul_cross_entropy(x, haul_transpose(p, 0, 1)), HAUL_DTYPE, "y is f32");
    assert_refused(haul_cross_entropy(haul_scalar(1), y), HAUL_SHAPE, "[C], [N, C] or [N, C, ...]");
    assert_refused(haul_cross_entropy(haul_scalar(1), haul_scalar(1)), HAUL_SHAPE, "[C], [N, C] or [N, C, ...]");
    assert_refused(haul_cross_entropy(haul_unsqueeze(x, 2), y), HAUL_SHAPE, "y has shape [3]; [3,1] is expected");
    haul_tensor *sequences = haul_ones(HAUL_F32, HAUL_SHAPE(2, 4, 5)),
                *of_each = haul_zeros(HAUL_I64, HAUL_SHAPE(2, 4));
    assert_refused(haul_cross_entropy(sequences, of_each), HAUL_SHAPE,
                   "if its last axis has them, pass haul_transpose(logits, 1, -1)");
    assert_true(haul_tensor_is_valid(haul_cross_entropy(haul_transpose(sequences, 1, -1), of_each)));
    assert_refused(haul_bce_with_logits(x, p, .pos_weight = three), HAUL_SHAPE, "pos_weight has shape [3]");
    assert_refused(haul_bce_with_logits(haul_select(x, 0, 0), four, .weight = x), HAUL_SHAPE, "weight has shape [3,4]");
    assert_refused(haul_huber_loss(x, p, .delta = -1), HAUL_INVALID_ARGUMENT, "delta is -1");
    assert_refused(haul_huber_loss(x, p, .delta = HAUL_ZERO), HAUL_INVALID_ARGUMENT, "delta is 0");
    assert_refused(haul_smooth_l1_loss(x, p, .beta = -1), HAUL_INVALID_ARGUMENT, "beta is -1");
    assert_refused(haul_l1_loss(x, four), HAUL_SHAPE, "they must be equal");
    assert_refused(haul_cross_entropy_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    assert_refused(haul_kl_div_with(x, NULL), HAUL_INVALID_ARGUMENT, "options");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss_options__images),
        cmocka_unit_test(test_loss_options__without_a_batch),
        cmocka_unit_test(test_loss_options__ignored_rows),
        cmocka_unit_test(test_loss_options__an_index_out_of_range),
        cmocka_unit_test(test_loss_options__empty_batches),
        cmocka_unit_test(test_loss_options__halves),
        cmocka_unit_test(test_loss_options__halves_of_pairs_round_once),
        cmocka_unit_test(test_loss_options__halves_of_wide_range),
        cmocka_unit_test(test_loss_options__infinities_and_edges),
        cmocka_unit_test(test_loss_options__beta_zero_is_l1),
        cmocka_unit_test(test_loss_options__gradients_of_targets_and_weights),
        cmocka_unit_test(test_loss_options__errors),
    };
    return cmocka_run_group_tests_name("ops_loss_options", tests, NULL, NULL);
}
