/* Channels-last as a memory layout: who keeps it and who makes it. */
#include "core/tensor.h"
#include "device/device.h"
#include "support/format.h"

/* ---- the format ---- */

static void converts(haul_device *device)
{
    haul_tensor *x = sample(device, 1), *last = channels_last(x);
    assert_true(haul_tensor_is_contiguous(x) && !haul_tensor_is_channels_last(x));
    assert_true(is_only_last(last));
    assert_int_equal(haul_tensor_stride(last, 1), 1);
    assert_int_equal(haul_tensor_stride(last, 3), 5);
    assert_int_equal(haul_tensor_stride(last, 2), 20);
    assert_int_equal(haul_tensor_stride(last, 0), 60);
    assert_equal(last, x, 0, "the elements");
    assert_ptr_equal(channels_last(last)->storage, last->storage);
    assert_ptr_equal(haul_to_memory_format(x, HAUL_CONTIGUOUS)->storage, x->storage);
    haul_tensor *back = haul_contiguous(last);
    assert_true(haul_tensor_is_contiguous(back));
    assert_equal(back, x, 0, "and back");
    /* as pictures come from files */
    haul_tensor *permuted =
        haul_permute(sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 3, 4, 5), 2, NULL), (const int[]){0, 3, 1, 2}, 4);
    assert_ptr_equal(channels_last(permuted)->storage, permuted->storage);
    /* where there is nothing to choose */
    haul_set_device(device);
    assert_true(haul_tensor_is_channels_last(haul_ones(HAUL_F32, HAUL_SHAPE(2, 1, 3, 4))));
    assert_true(haul_tensor_is_channels_last(haul_ones(HAUL_F32, HAUL_SHAPE(2, 7, 1, 1))));
    assert_true(haul_tensor_is_channels_last(haul_ones(HAUL_F32, HAUL_SHAPE(0, 7, 2, 2))));
    assert_false(haul_tensor_is_channels_last(haul_ones(HAUL_F32, HAUL_SHAPE(7, 2, 2))));
}

static void test_memory_format__converts(void **state)
{
    (void)state;
    on_devices(converts);
}

static void test_memory_format__refuses(void **state)
{
    (void)state;
    haul_scope *scope = haul_scope_push();
    assert_refused(haul_to_memory_format(NULL, HAUL_CHANNELS_LAST), HAUL_INVALID_ARGUMENT, "x");
    assert_refused(haul_to_memory_format(HAUL_NONE, HAUL_CHANNELS_LAST), HAUL_INVALID_ARGUMENT, "HAUL_NONE");
    assert_refused(channels_last(haul_ones(HAUL_F32, HAUL_SHAPE(2, 3, 4))), HAUL_SHAPE, "[N, C, H, W]");
    assert_refused(haul_to_memory_format(haul_ones(HAUL_F32, SHAPE), (haul_memory_format)7), HAUL_INVALID_ARGUMENT,
                   "not a memory format");
    haul_scope_pop(scope);
}

/* ---- who keeps it ---- */

static void pointwise(haul_device *device)
{
    haul_tensor *x = sample(device, 1), *z = sample(device, 2), *a = channels_last(x), *b = channels_last(z);
    haul_tensor *channel = sample_tensor(device, HAUL_F32, HAUL_SHAPE(5, 1, 1), 3, NULL);
    struct {
        const char  *what;
        haul_tensor *got, *want;
    } cases[] = {
        {"relu", haul_relu(a), haul_relu(x)},
        {"add", haul_add(a, b), haul_add(x, z)},
        {"the first operand's", haul_add(a, z), haul_add(x, z)},
        {"the full-shape operand's", haul_mul(channel, a), haul_mul(channel, x)},
        {"not a repeated operand's", haul_mul(haul_expand(channel, SHAPE), a), haul_mul(channel, x)},
        {"a slice's", haul_neg(haul_slice(channels_last(haul_cat((haul_tensor *[]){x, z}, 2, 1)), 1, 0, 5, 1)),
         haul_neg(x)},
        {"scalar", haul_mul_scalar(a, 3), haul_mul_scalar(x, 3)},
        {"compare", haul_gt(a, b), haul_gt(x, z)},
        {"where", haul_where(haul_gt(a, b), a, b), haul_maximum(x, z)},
        {"cast", haul_cast(a, HAUL_F64), haul_cast(x, HAUL_F64)},
        {"clone", haul_clone(a), x},
        {"identity", haul_identity(a, device), x},
        {"zeros_like", haul_zeros_like(a), haul_zeros_like(x)},
        {"full_like", haul_full_like(a, 7), haul_full_like(x, 7)},
        {"max_pool2d", haul_max_pool2d(a, 2), haul_max_pool2d(x, 2)},
        {"avg_pool2d", haul_avg_pool2d(a, 2), haul_avg_pool2d(x, 2)},
        {"cat", haul_cat((haul_tensor *[]){a, b}, 2, 1), haul_cat((haul_tensor *[]){x, z}, 2, 1)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (!haul_tensor_is_valid(cases[i].got) || !haul_tensor_is_valid(cases[i].want))
            fail_msg("%s: %s", cases[i].what, haul_error_message());
        if (!is_only_last(cases[i].got))
            fail_msg("%s does not keep the layout", cases[i].what);
        assert_equal(cases[i].got, cases[i].want, 0, cases[i].what);
    }
    assert_true(haul_tensor_is_contiguous(haul_add(x, b)));
    haul_tensor *out = haul_empty_like(a);
    assert_int_equal(haul_add_into(out, x, b), HAUL_OK);
    assert_equal(out, haul_add(x, z), 0, "add_into");
    assert_int_equal(haul_fill_into(out, 3), HAUL_OK);
    assert_equal(out, haul_full_like(x, 3), 0, "fill_into");
}

static void test_memory_format__pointwise_keeps_it(void **state)
{
    (void)state;
    on_devices(pointwise);
}

/* Any order of dimensions, not only this one. */
static void any_order(haul_device *device)
{
    static const int orders[][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    haul_tensor     *base = sample_tensor(device, HAUL_F32, HAUL_SHAPE(3, 1, 4), 1, NULL);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        haul_tensor *x = haul_permute(base, orders[i], 3), *y = haul_mul_scalar(x, 2);
        assert_true(haul__tensor_is_gap_free(x));
        assert_true(haul__tensor_same_layout(x, y));
        assert_equal(y, haul_mul_scalar(haul_contiguous(x), 2), 0, "a permuted operand");
    }
    assert_false(haul__tensor_is_gap_free(haul_slice(base, 2, 0, 2, 1)));
    assert_false(haul__tensor_is_gap_free(haul_expand(haul_slice(base, 0, 0, 1, 1), HAUL_SHAPE(3, 1, 4))));
}

static void test_memory_format__any_order_is_kept(void **state)
{
    (void)state;
    on_devices(any_order);
}

static void moves(haul_device *device)
{
    haul_tensor *x = sample(haul_cpu(), 1), *there = haul_to(channels_last(x), device);
    assert_true(is_only_last(there));
    assert_equal(there, x, 0, "moved");
    haul_tensor *wide = haul_to(there, haul_cpu(), .dtype = HAUL_F64);
    assert_true(is_only_last(wide));
    assert_equal(wide, x, 0, "moved back and converted");
    haul_tensor *target = haul_zeros_like(x);
    assert_int_equal(haul_copy_into(target, there), HAUL_OK);
    assert_equal(target, x, 0, "copied into a row-major tensor");
    target = haul_zeros_like(channels_last(x));
    assert_int_equal(haul_copy_into(target, haul_to(x, device)), HAUL_OK);
    assert_equal(target, x, 0, "copied from a row-major tensor");
    float values[COUNT];
    assert_int_equal(haul_read(there, values, sizeof values), HAUL_OK);
    assert_equal(haul_from_host(HAUL_F32, SHAPE, values), x, 0, "read, row-major");
    assert_int_equal(haul_write(there, (float[COUNT]){1, 2, 3}, sizeof values), HAUL_OK);
    assert_true(haul_item(haul_slice(haul_flatten(there, 0), 0, 2, 3, 1)) == 3);
}

static void test_memory_format__moves_keep_it(void **state)
{
    (void)state;
    on_devices(moves);
}

static void drops(haul_device *device)
{
    haul_set_device(device);
    haul_tensor *x = haul_set_requires_grad(channels_last(haul_ones(HAUL_F32, HAUL_SHAPE(4, 8, 5, 5))), true);
    haul_tensor *y = haul_dropout(x, 0.5, true);
    assert_true(is_only_last(y));
    /* a gradient in another format meets the same mask */
    assert_int_equal(haul_backward(y, .seed = haul_full(HAUL_F32, HAUL_SHAPE(4, 8, 5, 5), 1)), HAUL_OK);
    assert_equal(haul_tensor_grad(x), y, 0, "the mask of the gradient");
    assert_true(is_only_last(haul_tensor_grad(x)));
}

static void test_memory_format__dropout_keeps_its_mask(void **state)
{
    (void)state;
    on_devices(drops);
}

/* ---- gradients ---- */

static void gradients(haul_device *device)
{
    haul_tensor *x = haul_set_requires_grad(haul_detach(sample(device, 1)), true);
    haul_tensor *seed = sample(device, 2), *last = channels_last(seed);
    assert_int_equal(haul_backward(channels_last(x), .seed = last), HAUL_OK);
    assert_true(haul_tensor_is_contiguous(haul_tensor_grad(x))); /* in the format of x */
    assert_equal(haul_tensor_grad(x), seed, 0, "a leaf's gradient");
    assert_int_equal(haul_backward(haul_add(x, last), .seed = last), HAUL_OK);
    assert_equal(haul_tensor_grad(x), haul_mul_scalar(seed, 2), 0, "a sum of gradients that lie differently");
    haul_tensor *z = haul_set_requires_grad(haul_detach(last), true);
    assert_int_equal(haul_backward(haul_mul(z, x), .seed = seed), HAUL_OK);
    assert_true(is_only_last(haul_tensor_grad(z)));
    assert_equal(haul_tensor_grad(z), haul_mul(x, seed), 0, "a channels-last leaf's gradient");
}

static void test_memory_format__gradients_lie_as_their_leaves(void **state)
{
    (void)state;
    on_devices(gradients);
}

static haul_tensor *cubed(haul_tensor *const *in, int count, void *context)
{
    (void)count, (void)context;
    haul_tensor *g, *x = channels_last(in[0]), *y = haul_mul(haul_square(x), in[0]);
    y = haul_add(haul_avg_pool2d(y, 2, .stride = {1, 1}), haul_square(haul_max_pool2d(x, 2, .stride = {1, 1})));
    y = haul_batch_norm(y, .bias = HAUL_NONE, .training = true, .eps = 0.1);
    y = haul_square(y);
    if (haul_grad(haul_sum(y), in, 1, &g, .create_graph = true))
        return NULL;
    return haul_sum(haul_mul(g, in[0]));
}

static void test_memory_format__second_gradients(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(2, 3, 3, 3), 1, NULL);
    assert_int_equal(haul_grad_check(cubed, &x, 1, NULL, .tolerance = {1e-4, 1e-3}), HAUL_OK);
    haul_scope_pop(scope);
}

/* ---- pooling and batch normalisation ---- */

/* 70 channels: more than the kernels take side by side. Bits are those of row-major pooling. */
static void pools(haul_device *device)
{
    static const haul_pool2d_options all[] = {
        {.size = 2},
        {.size = 3, .stride = {2, 2}, .padding = {1, 1}},
        {.size = 3, .size_w = 2, .stride = {1, 3}, .padding = {1, HAUL_ZERO}, .exclude_padding = true},
    };
    for (size_t i = 0; i < 2 * sizeof all / sizeof all[0]; i++) {
        haul_tensor *(*pool)(haul_tensor *, const haul_pool2d_options *) =
            i & 1 ? haul_max_pool2d_with : haul_avg_pool2d_with;
        haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 70, 7, 6), 1, NULL), *seed = NULL, *y[2], *g[2];
        for (int last = 0; last < 2; last++) {
            haul_tensor *leaf = haul_set_requires_grad(haul_detach(last ? channels_last(x) : x), true);
            y[last] = pool(leaf, &all[i / 2]);
            seed = seed ? seed : sample_tensor(device, HAUL_F32, haul_tensor_shape(y[0]), 2, NULL);
            assert_int_equal(haul_grad(y[last], &leaf, 1, &g[last], .seed = seed), HAUL_OK);
        }
        assert_true(is_only_last(y[1]) && is_only_last(g[1]));
        assert_equal(y[1], y[0], 0, "pooling");
        assert_equal(g[1], g[0], 0, "the gradient of pooling");
    }
    /* NaN wins, the last of them */
    haul_tensor *x = haul_mul(sample_tensor(device, HAUL_F32, HAUL_SHAPE(1, 3, 2, 2), 1, NULL),
                              haul_to(haul_from_host(HAUL_F32, HAUL_SHAPE(2, 2), (float[]){1, NAN, NAN, 1}), device));
    haul_tensor *leaf = haul_set_requires_grad(haul_detach(channels_last(x)), true), *y = haul_max_pool2d(leaf, 2);
    assert_true(isnan(haul_item(haul_sum(y))));
    assert_int_equal(haul_backward(haul_sum(y)), HAUL_OK);
    assert_close(haul_tensor_grad(leaf), (double[]){0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0}, 12, 0, "where NaN was found");
}

static void test_memory_format__pooling_keeps_it(void **state)
{
    (void)state;
    on_devices(pools);
}

static void normalises(haul_device *device)
{
    for (int training = 0; training < 2; training++) {
        haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(6, 70, 5, 5), 1, NULL), *y[2], *g[2][3];
        haul_tensor *per[4];
        for (unsigned i = 0; i < 4; i++)
            per[i] = haul_add_scalar(haul_abs(sample_tensor(device, HAUL_F32, HAUL_SHAPE(70), i + 2, NULL)), 0.1);
        haul_tensor *seed = sample_tensor(device, HAUL_F32, HAUL_SHAPE(6, 70, 5, 5), 9, NULL);
        haul_tensor *running[2][2];
        for (int last = 0; last < 2; last++) {
            haul_tensor *in[] = {last ? channels_last(x) : x, per[0], per[1]};
            for (int i = 0; i < 3; i++)
                in[i] = haul_set_requires_grad(haul_detach(in[i]), true);
            running[last][0] = haul_clone(per[2]);
            running[last][1] = haul_clone(per[3]);
            y[last] = haul_batch_norm(in[0], .weight = in[1], .bias = in[2], .running_mean = running[last][0],
                                      .running_var = running[last][1], .training = training);
            assert_int_equal(haul_grad(y[last], in, 3, g[last], .seed = seed), HAUL_OK);
        }
        assert_true(is_only_last(y[1]) && is_only_last(g[1][0]));
        assert_equal(y[1], y[0], 2e-5, "batch_norm");
        for (int i = 0; i < 3; i++)
            assert_equal(g[1][i], g[0][i], 2e-4, "a gradient of batch_norm");
        for (int i = 0; i < 2; i++)
            assert_equal(running[1][i], running[0][i], 1e-5, "a running statistic");
    }
}

static void test_memory_format__batch_norm_keeps_it(void **state)
{
    (void)state;
    on_devices(normalises);
}

/* ---- convolutions ---- */

static void convolves(haul_device *device)
{
    haul_tensor *x = sample(device, 1), *w = weight_of(device);
    haul_tensor *bias = sample_tensor(device, HAUL_F32, HAUL_SHAPE(6), 8, NULL);
    haul_tensor *want = haul_conv2d(x, w, .bias = bias, .padding = {1, 1});
    for (int i = 1; i < 4; i++) {
        haul_tensor *y =
            haul_conv2d(i & 1 ? channels_last(x) : x, i & 2 ? channels_last(w) : w, .bias = bias, .padding = {1, 1});
        assert_true(is_only_last(y));
        assert_equal(y, want, layout_error(device), "a convolution");
    }
    assert_equal(haul_conv2d(x, w, .bias = bias, .padding = {1, 1}, .relu = true), haul_relu(want),
                 layout_error(device), "with relu");
}

static void test_memory_format__convolutions_keep_it(void **state)
{
    (void)state;
    on_devices(convolves);
}

static haul_tensor *conv_relu(haul_tensor *const *in, int count, void *context)
{
    (void)count;
    return haul_square(haul_conv2d(in[0], in[1], .bias = in[2], .relu = context != NULL));
}

/* Of sums of samples none is near 0, where relu has no gradient. */
static void test_memory_format__conv2d_relu_gradients(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *in[] = {sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(1, 2, 4, 4), 1, NULL),
                         sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(3, 2, 3, 3), 2, NULL),
                         sample_tensor(haul_cpu(), HAUL_F64, HAUL_SHAPE(3), 3, NULL)};
    assert_int_equal(haul_grad_check(conv_relu, in, 3, "relu", .tolerance = {1e-4, 1e-3}), HAUL_OK);
    assert_int_equal(haul_error_status(), HAUL_OK);
    haul_scope_pop(scope);
}

/* ---- modules, optimizers, files ---- */

static haul_module *network(void)
{
    haul_manual_seed(3);
    return HAUL_SEQUENTIAL(haul_nn_conv2d(5, 8, 3, .relu = true), haul_nn_max_pool2d(2, .stride = {1, 1}),
                           haul_nn_flatten(1), haul_nn_linear(8 * 1, 3));
}

static void train(haul_module *net, haul_tensor *x, int steps, haul_optimizer *optimizer)
{
    for (int i = 0; i < steps; i++) {
        assert_int_equal(haul_optimizer_zero_grad(optimizer), HAUL_OK);
        assert_int_equal(haul_backward(haul_mean(haul_square(haul_call(net, x)))), HAUL_OK);
        assert_int_equal(haul_optimizer_step(optimizer), HAUL_OK);
    }
}

/* Half of the steps before the module is converted: what the optimizer keeps goes along. */
static void trains(haul_device *device)
{
    haul_set_device(device);
    haul_module    *plain = network(), *last = network();
    haul_tensor    *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 5, 4, 4), 1, NULL);
    haul_optimizer *a = haul_adam(plain, 0.01), *b = haul_adam(last, 0.01);
    train(plain, x, 2, a);
    train(last, x, 2, b);
    haul_tensor *w = haul_module_parameter(last, "0.weight");
    assert_int_equal(haul_module_to_memory_format(last, HAUL_CHANNELS_LAST), HAUL_OK);
    assert_ptr_equal(haul_module_parameter(last, "0.weight"), w);
    assert_true(is_only_last(w) && is_only_last(haul_tensor_grad(w)));
    train(plain, x, 2, a);
    train(last, channels_last(x), 2, b);
    assert_true(is_only_last(w));
    assert_equal(w, haul_module_parameter(plain, "0.weight"), 1e-6, "a trained weight");
    assert_int_equal(haul_module_to_memory_format(last, HAUL_CONTIGUOUS), HAUL_OK);
    assert_true(haul_tensor_is_contiguous(w));
    train(plain, x, 1, a);
    train(last, x, 1, b);
    assert_equal(w, haul_module_parameter(plain, "0.weight"), 1e-6, "and trained on");
}

static void test_memory_format__modules_train_in_either(void **state)
{
    (void)state;
    on_devices(trains);
    haul_scope *scope = haul_scope_push();
    assert_int_equal(haul_module_to_memory_format(NULL, HAUL_CONTIGUOUS), HAUL_INVALID_ARGUMENT);
    assert_int_equal(haul_module_to_memory_format(network(), (haul_memory_format)5), HAUL_INVALID_ARGUMENT);
    haul_scope_pop(scope);
}

/* ResNet-18 on a few small pictures: the same in both formats, forward and backward. */
static void residual(haul_device *device)
{
    haul_tensor *x = sample_tensor(device, HAUL_F32, HAUL_SHAPE(2, 3, 16, 16), 1, NULL), *y[2], *g[2][3];
    haul_set_device(device);
    for (int last = 0; last < 2; last++) {
        haul_manual_seed(5);
        haul_module *net = haul_model_new("resnet18");
        assert_int_equal(haul_module_parameter_count(net), 11173962);
        if (last)
            assert_int_equal(haul_module_to_memory_format(net, HAUL_CHANNELS_LAST), HAUL_OK);
        haul_tensor *middle =
            haul_call_child(net, "layer2", haul_call_child(net, "layer1", haul_call_child(net, "conv1", x)));
        assert_true(haul_tensor_is_valid(middle) && haul_tensor_dim(middle, 1) == 128 &&
                    haul_tensor_dim(middle, 2) == 8);
        assert_true(is_only_last(middle) == (last == 1));
        y[last] = haul_call(net, last ? channels_last(x) : x);
        assert_true(haul_tensor_is_valid(y[last]) && haul_tensor_dim(y[last], 0) == 2 &&
                    haul_tensor_dim(y[last], 1) == 10);
        haul_tensor *parameters[] = {haul_module_parameter(net, "conv1.weight"),
                                     haul_module_parameter(net, "layer2.0.downsample.0.weight"),
                                     haul_module_parameter(net, "layer4.1.bn2.weight")};
        assert_int_equal(haul_grad(haul_mean(haul_square(y[last])), parameters, 3, g[last]), HAUL_OK);
    }
    assert_equal(y[1], y[0], 1e-3, "resnet18");
    for (int i = 0; i < 3; i++) {
        double scale = haul_item(haul_max(haul_abs(g[0][i])));
        assert_true(scale > 0);
        assert_equal(haul_mul_scalar(g[1][i], 1 / scale), haul_mul_scalar(g[0][i], 1 / scale), 1e-2,
                     "a gradient of resnet18");
    }
}

static void test_memory_format__residual_networks(void **state)
{
    (void)state;
    on_devices(residual);
}

static void test_memory_format__files_are_row_major(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = sample(haul_cpu(), 1);
    assert_int_equal(haul_save_npy("last.npy", channels_last(x)), HAUL_OK);
    haul_tensor *back = haul_load_npy("last.npy");
    remove("last.npy");
    assert_equal(back, x, 0, "a file");
    assert_true(haul_tensor_is_contiguous(back));
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_format__converts),
        cmocka_unit_test(test_memory_format__refuses),
        cmocka_unit_test(test_memory_format__pointwise_keeps_it),
        cmocka_unit_test(test_memory_format__any_order_is_kept),
        cmocka_unit_test(test_memory_format__moves_keep_it),
        cmocka_unit_test(test_memory_format__dropout_keeps_its_mask),
        cmocka_unit_test(test_memory_format__gradients_lie_as_their_leaves),
        cmocka_unit_test(test_memory_format__second_gradients),
        cmocka_unit_test(test_memory_format__pooling_keeps_it),
        cmocka_unit_test(test_memory_format__batch_norm_keeps_it),
        cmocka_unit_test(test_memory_format__convolutions_keep_it),
        cmocka_unit_test(test_memory_format__conv2d_relu_gradients),
        cmocka_unit_test(test_memory_format__modules_train_in_either),
        cmocka_unit_test(test_memory_format__residual_networks),
        cmocka_unit_test(test_memory_format__files_are_row_major),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
