/* Layers and networks against PyTorch: results, and gradients of parameters and inputs, in f64 on every device.
 *
 * tests/golden/layers.safetensors has them; tools/golden/layers.py has the computations.
 *
 * ctest: cuda; sim */
#include <haul/haul.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/conformance/conformance.h"
#include "support/failure.h"

#define GOLDEN HAUL_SOURCE "/tests/golden/layers.safetensors"

enum { MOST = HAUL_MAX_ARGUMENTS };

static haul_module *layer_norm(void)
{
    return haul_nn_layer_norm(6);
}

static haul_module *attention(void)
{
    return haul_nn_multi_head_attention(12, 3);
}

static haul_module *attention_causal(void)
{
    return haul_nn_multi_head_attention(8, 2, .causal = true);
}

static haul_module *attention_cross(void)
{
    return haul_nn_multi_head_attention(8, 4);
}

static haul_module *attention_mask(void)
{
    return haul_nn_multi_head_attention(8, 2, .no_bias = true);
}

static haul_module *lstm(void)
{
    return haul_nn_lstm(3, 4);
}

static haul_module *lstm_deep(void)
{
    return haul_nn_lstm(3, 4, .layers = 2, .bidirectional = true);
}

static haul_module *gru(void)
{
    return haul_nn_gru(3, 4);
}

static haul_module *gru_deep(void)
{
    return haul_nn_gru(3, 4, .layers = 2, .bidirectional = true, .no_bias = true);
}

static haul_module *conv1d(void)
{
    return haul_nn_conv1d(4, 6, 3, .stride = 2, .padding = 1, .groups = 2);
}

static haul_module *conv_transpose2d(void)
{
    return haul_nn_conv_transpose2d(4, 6, 3, .kernel_w = 2, .stride = {2, 2}, .padding = {1, HAUL_ZERO},
                                    .output_padding = {1, 1}, .groups = 2);
}

static haul_module *upsample(void)
{
    return haul_nn_upsample(HAUL_BILINEAR, .scale = {2, 1.5});
}

static haul_module *adaptive_avg_pool2d(void)
{
    return haul_nn_adaptive_avg_pool2d(2, 3);
}

static haul_module *adaptive_max_pool2d(void)
{
    return haul_nn_adaptive_max_pool2d(2, 3);
}

static haul_module *char_gpt(void)
{
    return haul_model_new("char_gpt", .input = HAUL_SHAPE(8), .outputs = 11);
}

static haul_module *unet(void)
{
    return haul_model_new("unet", .input = HAUL_SHAPE(1, 8, 12), .outputs = 3, .kinds = 2);
}

static haul_module *prelu(void)
{
    return haul_nn_prelu(3, 0.25);
}

static haul_module *group_norm(void)
{
    return haul_nn_group_norm(2, 6);
}

static haul_module *instance_norm(void)
{
    return haul_nn_instance_norm(3);
}

static haul_module *instance_norm_affine(void)
{
    return haul_nn_instance_norm(3, .affine = true);
}

static haul_module *pixel_shuffle(void)
{
    return haul_nn_pixel_shuffle(2);
}

static haul_module *pixel_unshuffle(void)
{
    return haul_nn_pixel_unshuffle(2);
}

static haul_module *conv_transpose1d(void)
{
    return haul_nn_conv_transpose1d(4, 6, 3, .stride = 2, .padding = 1, .output_padding = 1, .groups = 2);
}

static haul_module *conv3d(void)
{
    return haul_nn_conv3d(4, 6, 3, .kernel_h = 2, .kernel_w = 1, .stride = {2, 1, 1},
                          .padding = {1, HAUL_ZERO, HAUL_ZERO}, .groups = 2);
}

static haul_module *conv3d_same(void)
{
    return haul_nn_conv3d(2, 3, 2, .same = true, .no_bias = true);
}

static haul_module *conv_transpose3d(void)
{
    return haul_nn_conv_transpose3d(4, 2, 2, .stride = {2, 2, 2});
}

static haul_module *max_pool1d(void)
{
    return haul_nn_max_pool1d(3, .stride = 2, .padding = 1);
}

static haul_module *avg_pool1d(void)
{
    return haul_nn_avg_pool1d(2);
}

static haul_module *max_pool3d(void)
{
    return haul_nn_max_pool3d(2);
}

static haul_module *avg_pool3d(void)
{
    return haul_nn_avg_pool3d(2, .stride = {1, 2, 1});
}

static haul_module *adaptive_avg_pool1d(void)
{
    return haul_nn_adaptive_avg_pool1d(3);
}

static haul_module *adaptive_max_pool1d(void)
{
    return haul_nn_adaptive_max_pool1d(3);
}

static haul_module *adaptive_avg_pool3d(void)
{
    return haul_nn_adaptive_avg_pool3d(2, 1, 3);
}

static haul_module *adaptive_max_pool3d(void)
{
    return haul_nn_adaptive_max_pool3d(2, 1, 3);
}

static haul_module *rnn(void)
{
    return haul_nn_rnn(3, 4);
}

static haul_module *rnn_relu(void)
{
    return haul_nn_rnn(3, 4, .layers = 2, .relu = true, .bidirectional = true);
}

static haul_module *lstm_lengths(void)
{
    return haul_nn_lstm(3, 4, .layers = 2, .bidirectional = true);
}

static haul_module *gru_lengths(void)
{
    return haul_nn_gru(3, 4, .layers = 2, .bidirectional = true);
}

static haul_module *lstm_cell(void)
{
    return haul_nn_lstm_cell(3, 4);
}

static haul_module *gru_cell(void)
{
    return haul_nn_gru_cell(3, 4);
}

static haul_module *rnn_cell(void)
{
    return haul_nn_rnn_cell(3, 4);
}

static haul_module *rnn_cell_relu(void)
{
    return haul_nn_rnn_cell(3, 4, .no_bias = true, .relu = true);
}

static haul_module *encoder_layer(void)
{
    return haul_nn_transformer_encoder_layer(8, 2, .hidden = 12, .dropout = HAUL_ZERO);
}

static haul_module *encoder_layer_first(void)
{
    return haul_nn_transformer_encoder_layer(8, 4, .hidden = 12, .dropout = HAUL_ZERO, .gelu = true, .norm_first = true,
                                             .causal = true);
}

static haul_module *decoder_layer(void)
{
    return haul_nn_transformer_decoder_layer(8, 2, .hidden = 12, .dropout = HAUL_ZERO, .causal = true);
}

static haul_module *decoder_layer_masks(void)
{
    return haul_nn_transformer_decoder_layer(8, 2, .hidden = 12, .dropout = HAUL_ZERO, .norm_first = true);
}

static haul_module *encoder(void)
{
    return haul_nn_transformer_encoder(8, 2, .layers = 2, .hidden = 12, .dropout = HAUL_ZERO, .final_norm = true);
}

static haul_module *decoder(void)
{
    return haul_nn_transformer_decoder(8, 2, .layers = 2, .hidden = 12, .dropout = HAUL_ZERO, .causal = true);
}

static const struct {
    const char *name;
    haul_module *(*make)(void);
} cases[] = {
    {"layer_norm", layer_norm},
    {"attention", attention},
    {"attention_causal", attention_causal},
    {"attention_cross", attention_cross},
    {"attention_mask", attention_mask},
    {"lstm", lstm},
    {"lstm_state", lstm},
    {"lstm_deep", lstm_deep},
    {"gru", gru},
    {"gru_deep", gru_deep},
    {"conv1d", conv1d},
    {"conv_transpose2d", conv_transpose2d},
    {"upsample", upsample},
    {"adaptive_avg_pool2d", adaptive_avg_pool2d},
    {"adaptive_max_pool2d", adaptive_max_pool2d},
    {"char_gpt", char_gpt},
    {"unet", unet},
    {"prelu", prelu},
    {"group_norm", group_norm},
    {"instance_norm", instance_norm},
    {"instance_norm_affine", instance_norm_affine},
    {"pixel_shuffle", pixel_shuffle},
    {"pixel_unshuffle", pixel_unshuffle},
    {"conv_transpose1d", conv_transpose1d},
    {"conv3d", conv3d},
    {"conv3d_same", conv3d_same},
    {"conv_transpose3d", conv_transpose3d},
    {"max_pool1d", max_pool1d},
    {"avg_pool1d", avg_pool1d},
    {"max_pool3d", max_pool3d},
    {"avg_pool3d", avg_pool3d},
    {"adaptive_avg_pool1d", adaptive_avg_pool1d},
    {"adaptive_max_pool1d", adaptive_max_pool1d},
    {"adaptive_avg_pool3d", adaptive_avg_pool3d},
    {"adaptive_max_pool3d", adaptive_max_pool3d},
    {"rnn", rnn},
    {"rnn_relu", rnn_relu},
    {"lstm_lengths", lstm_lengths},
    {"gru_lengths", gru_lengths},
    {"lstm_cell", lstm_cell},
    {"gru_cell", gru_cell},
    {"rnn_cell", rnn_cell},
    {"rnn_cell_relu", rnn_cell_relu},
    {"rnn_lengths", rnn},
    {"transformer_encoder_layer", encoder_layer},
    {"transformer_encoder_layer_first", encoder_layer_first},
    {"transformer_encoder_layer_mask", encoder_layer},
    {"transformer_decoder_layer", decoder_layer},
    {"transformer_decoder_layer_masks", decoder_layer_masks},
    {"transformer_encoder", encoder},
    {"transformer_decoder", decoder},
};

static haul_safetensors *file;

static bool is_in_file(const char *name)
{
    for (int i = 0; i < haul_safetensors_count(file); i++) {
        haul_file_tensor entry;
        if (!haul_safetensors_entry(file, i, &entry) && !strcmp(entry.name, name))
            return true;
    }
    return false;
}

/* CASE/WHAT.I on `device`; NULL where the file has none. */
static haul_tensor *load(const char *name, const char *what, int i, haul_device *device)
{
    char text[100];
    snprintf(text, sizeof text, "%s/%s.%d", name, what, i);
    return is_in_file(text) ? haul_to(haul_safetensors_load(file, text), device) : NULL;
}

static void assert_close(haul_tensor *have, haul_tensor *want, const char *name, const char *what, haul_device *device)
{
    double far = haul_item(haul_max(haul_abs(haul_sub(haul_detach(have), want))));
    double large = haul_item(haul_max(haul_abs(want)));
    if (!(far <= 1e-12 * (1 + large)))
        fail_msg("%s of %s on %s: off by %g (%s)", what, name, haul_device_name(device), far, haul_error_message());
}

static void check_gradients(const char *name, haul_module *net, haul_device *device)
{
    haul_named_tensor found[64];
    int               n = haul_module_tensors(net, found, 64);
    for (int i = 0; i < n && !found[i].is_buffer; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s/grad.%s", name, found[i].name);
        assert_close(haul_tensor_grad(found[i].tensor), haul_to(haul_safetensors_load(file, text), device), name,
                     found[i].name, device);
    }
}

static void check(const char *name, haul_module *net, haul_device *device)
{
    char              prefix[80];
    haul_call_options o = {.mode = HAUL_TRAIN};
    haul_tensor      *want, *y[MOST] = {NULL}, *loss = haul_scalar(0, .dtype = HAUL_F64);
    int               inputs = 0, results = 0;
    haul_module_cast(net, HAUL_F64);
    snprintf(prefix, sizeof prefix, "%s/weight.", name);
    haul_weights_report report;
    if (haul_module_parameter_count(net) && haul_load_weights(GOLDEN, net, .prefix = prefix, .report = &report))
        fail_msg("%s: %s", name, haul_error_message());
    assert_int_equal(haul_module_place(net, device), HAUL_OK);
    for (haul_tensor *x; inputs < MOST && (x = load(name, "in", inputs, device)); inputs++)
        o.x[inputs] = haul_dtype_is_float(haul_tensor_dtype(x)) ? haul_set_requires_grad(x, true) : x;
    while (results < MOST && (want = load(name, "out", results, device))) {
        if (results)
            o.more[results - 1] = &y[results];
        results++;
    }
    assert_true(inputs > 0 && results > 0);
    y[0] = haul_call_with(net, &o);
    for (int i = 0; i < results; i++) {
        if (!haul_tensor_is_valid(y[i]))
            fail_msg("%s: %s", name, haul_error_message());
        assert_close(y[i], load(name, "out", i, device), name, "result", device);
        loss = haul_add(haul_to(loss, device), haul_sum(haul_mul(y[i], load(name, "seed", i, device))));
    }
    assert_int_equal(haul_backward(loss), HAUL_OK);
    check_gradients(name, net, device);
    for (int i = 0; i < inputs; i++)
        if ((want = load(name, "gin", i, device)))
            assert_close(haul_tensor_grad(o.x[i]), want, name, "gradient of an input", device);
}

static void test_layers__results_and_gradients_are_those_of_pytorch(void **state)
{
    haul_device *devices[8];
    int          n = test_devices(devices, 8);
    haul_scope  *all = haul_scope_push();
    (void)state;
    file = haul_open_safetensors(GOLDEN);
    assert_non_null(file);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int d = 0; d < n; d++) {
            haul_scope *scope = haul_scope_push();
            check(cases[i].name, cases[i].make(), devices[d]);
            haul_scope_pop(scope);
        }
    haul_scope_pop(all);
}

/* ---- what they refuse, and what the goldens do not show ---- */

static bool says(const char *text)
{
    bool found = strstr(haul_error_message(), text) != NULL;
    if (!found)
        print_error("'%s' is expected in: %s\n", text, haul_error_message());
    haul_error_clear();
    return found;
}

static void test_layers__wrong_shapes_are_named(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    assert_null(haul_nn_multi_head_attention(10, 3));
    assert_true(says("10 features cannot be divided among 3 heads"));
    assert_null(haul_nn_transformer_encoder_layer(10, 3));
    assert_true(says("haul_nn_transformer_encoder_layer: 10 features cannot be divided among 3 heads"));
    assert_null(haul_nn_transformer_decoder_layer(8, 2, .layers = 3));
    assert_true(says("haul_nn_transformer_decoder_layer: this is one layer"));
    assert_null(haul_nn_transformer_encoder(8, 2, .layers = -1));
    assert_true(says("haul_nn_transformer_encoder: layers is -1"));
    assert_null(haul_nn_transformer_encoder(8, 2, .layers = INT32_MAX));
    assert_true(says("a number from 1 to 65536 is expected"));
    assert_null(haul_nn_transformer_decoder(8, 2, .hidden = -4));
    assert_true(says("haul_nn_transformer_decoder: hidden is -4"));
    assert_null(haul_nn_transformer_encoder_layer(8, 2, .dropout = 1.5));
    assert_true(says("dropout is 1.5"));
    assert_null(haul_nn_lstm(0, 3));
    assert_true(says("haul_nn_lstm: in_features is 0"));
    assert_null(haul_nn_gru(3, 4, .dropout = 2));
    assert_true(says("dropout is 2"));
    assert_null(haul_nn_group_norm(4, 6));
    assert_true(says("haul_nn_group_norm: 6 channels cannot be divided among 4 groups"));
    assert_null(haul_nn_group_norm(0, 6));
    assert_true(says("haul_nn_group_norm: groups is 0"));
    assert_null(haul_nn_instance_norm(3, .eps = -1));
    assert_true(says("haul_nn_instance_norm: eps is -1"));
    assert_null(haul_nn_pixel_shuffle(0));
    assert_true(says("haul_nn_pixel_shuffle: factor is 0"));
    assert_null(haul_nn_conv1d(3, 4, 0));
    assert_true(says("haul_nn_conv1d: kernel is 0"));
    assert_null(haul_nn_conv1d(3, 4, 3, .stride = -1));
    assert_true(says("stride is -1"));
    assert_null(haul_nn_conv_transpose2d(3, 4, 3, .groups = 2));
    assert_true(says("3 channels in and 4 out cannot be cut into 2 groups"));
    assert_null(haul_nn_conv_transpose2d(3, 4, 3, .output_padding = {1, -1}));
    assert_true(says("output_padding is {1, -1}"));
    assert_null(haul_nn_lstm(3, 4, .relu = true));
    assert_true(says("haul_nn_lstm: relu is set, but only haul_nn_rnn and haul_nn_rnn_cell have it"));
    assert_null(haul_nn_gru_cell(3, 4, .relu = true));
    assert_true(says("haul_nn_gru_cell: relu is set"));
    assert_null(haul_nn_rnn_cell(3, 0));
    assert_true(says("haul_nn_rnn_cell: hidden is 0"));
    haul_module *cell = haul_nn_lstm_cell(3, 4), *sequence = haul_nn_rnn(3, 4);
    haul_tensor *row = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 3)), *steps = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 5, 3));
    assert_failed(haul_call(cell, steps));
    assert_true(says("x is f32[2,5,3] on cpu; [N, 3] is expected"));
    assert_failed(haul_call(cell, row, row));
    assert_true(says("h is f32[2,3] on cpu; [2, 4] is expected"));
    assert_failed(haul_call(sequence, steps, HAUL_NONE, haul_arange_i64(0, 3, 1)));
    assert_true(says("lengths is i64[3] on cpu; integers of shape [2] are expected"));
    assert_failed(haul_call(sequence, steps, HAUL_NONE, haul_zeros(HAUL_F32, HAUL_SHAPE(2))));
    assert_true(says("lengths is f32[2] on cpu; integers of shape [2] are expected"));
    assert_null(haul_nn_conv3d(3, 4, 3, .groups = 2));
    assert_true(says("haul_nn_conv3d: 3 channels in and 4 out cannot be cut into 2 groups"));
    assert_null(haul_nn_conv3d(3, 4, 3, .padding = {1, 1}));
    assert_true(says("padding is {1, 1, 0}, but all three values must be given"));
    assert_null(haul_nn_conv_transpose3d(3, 4, 3, .stride = {2, 2, -2}));
    assert_true(says("stride is {2, 2, -2}; each must be from 1 to 2^31 - 1"));
    assert_null(haul_nn_conv_transpose1d(3, 4, 3, .output_padding = -1));
    assert_true(says("haul_nn_conv_transpose1d: output_padding is -1"));
    assert_null(haul_nn_max_pool1d(3, .padding = 2));
    assert_true(says("haul_nn_max_pool1d: padding 2 is not possible"));
    assert_null(haul_nn_avg_pool3d(2, .size_w = -1));
    assert_true(says("haul_nn_avg_pool3d: size_w is -1"));
    assert_null(haul_nn_adaptive_max_pool3d(2, 0, 1));
    assert_true(says("haul_nn_adaptive_max_pool3d: height is 0"));
    assert_failed(
        haul_conv3d(haul_zeros(HAUL_F32, HAUL_SHAPE(1, 2, 3, 3)), haul_zeros(HAUL_F32, HAUL_SHAPE(1, 2, 1, 1, 1))));
    assert_true(says("it must be [N, C, D, H, W]"));
    haul_tensor *volume = haul_zeros(HAUL_F32, HAUL_SHAPE(1, 2, 3, 3, 3));
    assert_failed(haul_call(haul_nn_conv3d(4, 1, 2), volume));
    assert_true(says("x is [1,2,3,3,3] and weight is [1,4,2,2,2] with 1 group(s)"));
    assert_failed(haul_call(haul_nn_conv3d(2, 1, 4), volume));
    assert_true(says("the weight spans more layers than the 3 that x has"));
    assert_failed(haul_call(haul_nn_conv3d(2, 1, 2, .same = true, .stride = {2, 2, 2}), volume));
    assert_true(says("same is set, so stride must be 1"));
    assert_failed(haul_call(haul_nn_conv_transpose3d(2, 1, 2, .padding = {2, 2, 2}), volume));
    assert_true(says("x gives 4 layers, from which the padding removes 2 at each side"));
    assert_failed(haul_call(haul_nn_max_pool3d(4), volume));
    assert_true(says("the window is 4 x 4 x 4, but x has 3 x 3 x 3 elements"));
    assert_failed(haul_call(haul_nn_adaptive_avg_pool1d(2), volume));
    assert_true(says("it must be [N, C, L]"));
    assert_null(haul_nn_upsample(HAUL_BILINEAR));
    assert_true(says("one of them must be given"));
    assert_null(haul_nn_adaptive_avg_pool2d(2, 0));
    assert_true(says("haul_nn_adaptive_avg_pool2d: width is 0"));
    haul_module *m = haul_nn_lstm(3, 4);
    assert_failed(haul_call(m, haul_zeros(HAUL_F32, HAUL_SHAPE(2, 5, 2))));
    assert_true(says("x is f32[2,5,2] on cpu; [N, T, 3] is expected"));
    assert_failed(haul_call(m, haul_zeros(HAUL_F32, HAUL_SHAPE(2, 0, 3))));
    assert_true(says("at least one step"));
    assert_failed(haul_call(m, haul_zeros(HAUL_F32, HAUL_SHAPE(2, 5, 3)), haul_zeros(HAUL_F32, HAUL_SHAPE(1, 4, 4))));
    assert_true(says("h is f32[1,4,4] on cpu; [1, 2, 4] is expected"));
    assert_failed(haul_call(haul_nn_multi_head_attention(4, 2), haul_zeros(HAUL_F32, HAUL_SHAPE(2, 4))));
    assert_true(says("query is f32[2,4] on cpu; [N, length, 4] is expected"));
    haul_scope_pop(scope);
}

/* A sequence cut in two, with the state carried over, gives what the whole one gives. */
static void test_layers__state_carries_a_sequence_on(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    haul_manual_seed(3);
    haul_module *m = haul_nn_lstm(3, 4, .layers = 2);
    haul_tensor *x = haul_normal(HAUL_F32, HAUL_SHAPE(2, 6, 3), 0, 1), *h = NULL, *c = NULL;
    haul_tensor *whole = haul_call(m, x);
    haul_tensor *first = haul_call(m, haul_slice(x, 1, 0, 2, 1), .more = {&h, &c});
    haul_tensor *second = haul_call(m, haul_slice(x, 1, 2, 6, 1), h, c);
    haul_tensor *both = haul_cat((haul_tensor *[]){first, second}, 2, 1);
    assert_true(haul_item(haul_max(haul_abs(haul_sub(whole, both)))) < 1e-6);
    haul_scope_pop(scope);
}

static void test_layers__dropout_is_for_training(void **state)
{
    haul_scope *scope = haul_scope_push();
    (void)state;
    haul_tensor *x = haul_ones(HAUL_F32, HAUL_SHAPE(1, 3, 4));
    haul_module *nets[] = {haul_nn_lstm(4, 4, .layers = 2, .dropout = 0.5),
                           haul_nn_multi_head_attention(4, 2, .dropout = 0.5)};
    for (int i = 0; i < 2; i++) {
        haul_tensor *a = haul_call(nets[i], x, .mode = HAUL_EVALUATE),
                    *b = haul_call(nets[i], x, .mode = HAUL_EVALUATE);
        assert_true(haul_item(haul_max(haul_abs(haul_sub(a, b)))) == 0);
        a = haul_call(nets[i], x);
        assert_true(haul_item(haul_max(haul_abs(haul_sub(a, b)))) > 0);
    }
    haul_scope_pop(scope);
}

/* A window's weights are uniform in +-1 / sqrt(of those behind the first axis), as are biases. */
static void test_layers__convolutions_begin_as_in_pytorch(void **state)
{
    haul_scope        *scope = haul_scope_push();
    haul_module *const made[] = {haul_nn_conv1d(20, 64, 5, .groups = 2), haul_nn_conv_transpose2d(64, 20, 3)};
    const double       bounds[] = {1 / sqrt(10 * 5), 1 / sqrt(20 * 3 * 3)};
    (void)state;
    for (int i = 0; i < 2; i++) {
        double weight = haul_item(haul_max(haul_abs(haul_detach(haul_module_parameter(made[i], "weight")))));
        double bias = haul_item(haul_max(haul_abs(haul_detach(haul_module_parameter(made[i], "bias")))));
        assert_true(weight <= bounds[i] && weight > 0.95 * bounds[i]);
        assert_true(bias <= bounds[i] && bias > 0.5 * bounds[i]);
    }
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layers__results_and_gradients_are_those_of_pytorch),
        cmocka_unit_test(test_layers__wrong_shapes_are_named),
        cmocka_unit_test(test_layers__convolutions_begin_as_in_pytorch),
        cmocka_unit_test(test_layers__state_carries_a_sequence_on),
        cmocka_unit_test(test_layers__dropout_is_for_training),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
