/* Every layer refuses a wrong shape by name: the error has the layer's place in the network, its kind, the shape that
 * was given, and the one that is expected. */
#include "support/linalg.h"

typedef haul_module *layer_maker(void);

typedef struct wrong {
    const char  *kind;
    layer_maker *make;
    haul_shape   given;
    const char  *has, *wants; /* parts of the message: about x, and about what the layer expects */
} wrong;

#define LAYER(name, call)                                                                                              \
    static haul_module *name(void)                                                                                     \
    {                                                                                                                  \
        return call;                                                                                                   \
    }
LAYER(linear, haul_nn_linear(3, 4))
LAYER(conv1d, haul_nn_conv1d(3, 4, 3))
LAYER(conv2d, haul_nn_conv2d(3, 4, 3))
LAYER(conv3d, haul_nn_conv3d(3, 4, 3))
LAYER(conv_transpose1d, haul_nn_conv_transpose1d(3, 4, 3))
LAYER(conv_transpose2d, haul_nn_conv_transpose2d(3, 4, 3))
LAYER(conv_transpose3d, haul_nn_conv_transpose3d(3, 4, 3))
LAYER(batch_norm, haul_nn_batch_norm(3))
LAYER(layer_norm, haul_nn_layer_norm(3))
LAYER(rms_norm, haul_nn_rms_norm(3))
LAYER(group_norm, haul_nn_group_norm(3, 6))
LAYER(instance_norm, haul_nn_instance_norm(3, .affine = true))
LAYER(attention, haul_nn_multi_head_attention(4, 2))
LAYER(encoder_layer, haul_nn_transformer_encoder_layer(4, 2))
LAYER(decoder_layer, haul_nn_transformer_decoder_layer(4, 2))
LAYER(encoder, haul_nn_transformer_encoder(4, 2))
LAYER(decoder, haul_nn_transformer_decoder(4, 2))
LAYER(lstm, haul_nn_lstm(3, 4))
LAYER(gru, haul_nn_gru(3, 4))
LAYER(rnn, haul_nn_rnn(3, 4))
LAYER(lstm_cell, haul_nn_lstm_cell(3, 4))
LAYER(gru_cell, haul_nn_gru_cell(3, 4))
LAYER(rnn_cell, haul_nn_rnn_cell(3, 4))
LAYER(prelu, haul_nn_prelu(3, 0.25))
LAYER(glu, haul_nn_glu(1))
LAYER(softmax, haul_nn_softmax(2))
LAYER(log_softmax, haul_nn_log_softmax(2))
LAYER(flatten, haul_nn_flatten(3))
LAYER(max_pool1d, haul_nn_max_pool1d(2))
LAYER(avg_pool1d, haul_nn_avg_pool1d(2))
LAYER(max_pool2d, haul_nn_max_pool2d(2))
LAYER(avg_pool2d, haul_nn_avg_pool2d(2))
LAYER(max_pool3d, haul_nn_max_pool3d(2))
LAYER(avg_pool3d, haul_nn_avg_pool3d(2))
LAYER(adaptive_max_pool1d, haul_nn_adaptive_max_pool1d(2))
LAYER(adaptive_avg_pool1d, haul_nn_adaptive_avg_pool1d(2))
LAYER(adaptive_max_pool2d, haul_nn_adaptive_max_pool2d(2, 2))
LAYER(adaptive_avg_pool2d, haul_nn_adaptive_avg_pool2d(2, 2))
LAYER(adaptive_max_pool3d, haul_nn_adaptive_max_pool3d(2, 2, 2))
LAYER(adaptive_avg_pool3d, haul_nn_adaptive_avg_pool3d(2, 2, 2))
LAYER(pixel_shuffle, haul_nn_pixel_shuffle(2))
LAYER(pixel_unshuffle, haul_nn_pixel_unshuffle(2))
LAYER(upsample, haul_nn_upsample(HAUL_BILINEAR, .scale = {2, 2}))

static const wrong layers[] = {
    {"linear", linear, {2, {2, 5}}, "x has shape [2,5]", "the last axis of x must be 3 long"},
    {"conv1d",
     conv1d,
     {3, {2, 5, 7}},
     "x is [2,5,7] and weight is [4,3,3]",
     "weight must be [C_out, C_in / groups, K]"},
    {"conv1d", conv1d, {2, {2, 5}}, "x has shape [2,5]", "it must be [N, C, L]"},
    {"conv2d",
     conv2d,
     {4, {2, 5, 7, 7}},
     "x is [2,5,7,7] and weight is [4,3,3,3]",
     "weight must be [C_out, 5 / groups, KH, KW]"},
    {"conv2d", conv2d, {3, {3, 7, 7}}, "x has shape [3,7,7]", "it must be [N, C, H, W]"},
    {"conv3d",
     conv3d,
     {5, {2, 5, 7, 7, 7}},
     "x is [2,5,7,7,7] and weight is [4,3,3,3,3]",
     "weight must be [C_out, C_in / groups, KD, KH, KW]"},
    {"conv3d", conv3d, {4, {3, 7, 7, 7}}, "x has shape [3,7,7,7]", "it must be [N, C, D, H, W]"},
    {"conv_transpose1d",
     conv_transpose1d,
     {3, {2, 5, 7}},
     "x is [2,5,7] and weight is [3,4,3]",
     "weight must be [C_in, C_out / groups, K]"},
    {"conv_transpose1d", conv_transpose1d, {2, {2, 5}}, "x has shape [2,5]", "it must be [N, C, L]"},
    {"conv_transpose2d",
     conv_transpose2d,
     {4, {2, 5, 7, 7}},
     "x is [2,5,7,7] and weight is [3,4,3,3]",
     "weight must be [5, C_out / groups, KH, KW]"},
    {"conv_transpose2d", conv_transpose2d, {2, {2, 5}}, "x has shape [2,5]", "it must be [N, C, H, W]"},
    {"conv_transpose3d",
     conv_transpose3d,
     {5, {2, 5, 7, 7, 7}},
     "x is [2,5,7,7,7] and weight is [3,4,3,3,3]",
     "weight must be [C_in, C_out / groups, KD, KH, KW]"},
    {"conv_transpose3d", conv_transpose3d, {2, {2, 5}}, "x has shape [2,5]", "it must be [N, C, D, H, W]"},
    {"batch_norm", batch_norm, {4, {2, 5, 7, 7}}, "x of shape [2,5,7,7]", "weight has shape [3]; [5] is expected"},
    {"batch_norm", batch_norm, {1, {3}}, "x has shape [3]", "[N, C, ...] is expected"},
    {"layer_norm", layer_norm, {2, {2, 5}}, "x of shape [2,5]", "weight has shape [3]; [5] is expected"},
    {"rms_norm", rms_norm, {2, {2, 5}}, "x of shape [2,5]", "weight has shape [3]; [5] is expected"},
    {"group_norm", group_norm, {3, {2, 5, 7}}, "x of shape [2,5,7]", "a number that divides them is expected"},
    {"group_norm", group_norm, {1, {6}}, "x has shape [6]", "[N, C, ...] is expected"},
    {"instance_norm", instance_norm, {3, {2, 5, 7}}, "x of shape [2,5,7]", "weight has shape [3]; [5] is expected"},
    {"instance_norm", instance_norm, {2, {2, 3}}, "x has shape [2,3]", "[N, C, L ...] is expected"},
    {"multi_head_attention", attention, {3, {2, 5, 3}}, "query is f32[2,5,3]", "[N, length, 4] is expected"},
    {"transformer_encoder_layer", encoder_layer, {3, {2, 5, 3}}, "query is f32[2,5,3]", "[N, length, 4] is expected"},
    {"transformer_decoder_layer", decoder_layer, {3, {2, 5, 3}}, "query is f32[2,5,3]", "[N, length, 4] is expected"},
    {"transformer_encoder", encoder, {3, {2, 5, 3}}, "query is f32[2,5,3]", "[N, length, 4] is expected"},
    {"transformer_decoder", decoder, {3, {2, 5, 3}}, "query is f32[2,5,3]", "[N, length, 4] is expected"},
    {"lstm", lstm, {3, {2, 5, 4}}, "x is f32[2,5,4]", "[N, T, 3] is expected"},
    {"gru", gru, {3, {2, 5, 4}}, "x is f32[2,5,4]", "[N, T, 3] is expected"},
    {"rnn", rnn, {2, {5, 3}}, "x is f32[5,3]", "[N, T, 3] is expected"},
    {"lstm_cell", lstm_cell, {2, {2, 5}}, "x is f32[2,5]", "[N, 3] is expected"},
    {"gru_cell", gru_cell, {2, {2, 5}}, "x is f32[2,5]", "[N, 3] is expected"},
    {"rnn_cell", rnn_cell, {1, {3}}, "x is f32[3]", "[N, 3] is expected"},
    {"prelu", prelu, {3, {2, 5, 7}}, "x of shape [2,5,7]", "weight has shape [3]; [1] is expected, or [5]"},
    {"glu", glu, {3, {2, 5, 7}}, "x has shape [2,5,7]", "an even number is expected"},
    {"glu", glu, {1, {2}}, "a tensor of 1 dimensions", "axis 1 of"},
    {"softmax", softmax, {2, {2, 5}}, "a tensor of 2 dimensions", "axis 2 of"},
    {"log_softmax", log_softmax, {2, {2, 5}}, "a tensor of 2 dimensions", "axis 2 of"},
    {"flatten", flatten, {2, {2, 5}}, "a tensor of 2 dimensions", "axis 3 of"},
    {"max_pool1d", max_pool1d, {2, {2, 5}}, "x has shape [2,5]", "it must be [N, C, L]"},
    {"max_pool1d", max_pool1d, {3, {2, 5, 1}}, "x has 1 with its padding", "the window is 2"},
    {"avg_pool1d", avg_pool1d, {2, {2, 5}}, "x has shape [2,5]", "it must be [N, C, L]"},
    {"avg_pool1d", avg_pool1d, {3, {2, 5, 1}}, "x has 1 with its padding", "the window is 2"},
    {"max_pool2d", max_pool2d, {3, {2, 5, 7}}, "x has shape [2,5,7]", "it must be [N, C, H, W]"},
    {"max_pool2d", max_pool2d, {4, {2, 5, 1, 7}}, "x has 1 with its padding", "the window has 2 rows"},
    {"avg_pool2d", avg_pool2d, {3, {2, 5, 7}}, "x has shape [2,5,7]", "it must be [N, C, H, W]"},
    {"avg_pool2d", avg_pool2d, {4, {2, 5, 1, 7}}, "x has 1 with its padding", "the window has 2 rows"},
    {"max_pool3d", max_pool3d, {4, {2, 5, 7, 7}}, "x has shape [2,5,7,7]", "it must be [N, C, D, H, W]"},
    {"max_pool3d", max_pool3d, {5, {2, 5, 1, 7, 7}}, "x has 1 x 7 x 7 elements", "the window is 2 x 2 x 2"},
    {"avg_pool3d", avg_pool3d, {4, {2, 5, 7, 7}}, "x has shape [2,5,7,7]", "it must be [N, C, D, H, W]"},
    {"avg_pool3d", avg_pool3d, {5, {2, 5, 1, 7, 7}}, "x has 1 x 7 x 7 elements", "the window is 2 x 2 x 2"},
    {"adaptive_max_pool1d", adaptive_max_pool1d, {2, {2, 5}}, "x has shape [2,5]", "it must be [N, C, L]"},
    {"adaptive_avg_pool1d", adaptive_avg_pool1d, {2, {2, 5}}, "x has shape [2,5]", "it must be [N, C, L]"},
    {"adaptive_max_pool2d", adaptive_max_pool2d, {3, {2, 5, 7}}, "x has shape [2,5,7]", "it must be [N, C, H, W]"},
    {"adaptive_avg_pool2d", adaptive_avg_pool2d, {3, {2, 5, 7}}, "x has shape [2,5,7]", "it must be [N, C, H, W]"},
    {"adaptive_max_pool3d",
     adaptive_max_pool3d,
     {4, {2, 5, 7, 7}},
     "x has shape [2,5,7,7]",
     "it must be [N, C, D, H, W]"},
    {"adaptive_avg_pool3d",
     adaptive_avg_pool3d,
     {4, {2, 5, 7, 7}},
     "x has shape [2,5,7,7]",
     "it must be [N, C, D, H, W]"},
    {"pixel_shuffle",
     pixel_shuffle,
     {4, {2, 5, 7, 7}},
     "x has shape [2,5,7,7]",
     "a multiple of the square of the factor, 4, is expected"},
    {"pixel_unshuffle",
     pixel_unshuffle,
     {4, {2, 5, 7, 7}},
     "x has shape [2,5,7,7]",
     "multiples of the factor, 2, are expected"},
    {"upsample", upsample, {3, {2, 5, 7}}, "x has 1 axis after the channels", "number 2 of scale is given"},
    {"pixel_shuffle", pixel_shuffle, {2, {8, 7}}, "x has shape [8,7]", "[..., C, H, W] is expected"},
    {"pixel_unshuffle", pixel_unshuffle, {2, {8, 7}}, "x has shape [8,7]", "[..., C, H, W] is expected"},
};

/* Calls the layer with x, and with x again where it takes two inputs. */
static haul_tensor *forward(haul_module *m, haul_args *args)
{
    const char *kind = haul_module_kind(haul_module_child(m, "here"));
    bool        two = !strncmp(kind, "transformer_decoder", strlen("transformer_decoder"));
    return two ? haul_call_child(m, "here", args->x[0], args->x[0]) : haul_call_child(m, "here", args->x[0]);
}

static void assert_says(const char *kind, const char *part)
{
    if (!strstr(haul_error_message(), part))
        fail_msg("%s: '%s' is expected in: %s", kind, part, haul_error_message());
}

static void refuse(const wrong *w, haul_device *device)
{
    char         place[80];
    haul_module *net = haul_module_new("net", forward), *layer = w->make();
    assert_non_null(layer);
    assert_string_equal(haul_module_kind(layer), w->kind);
    assert_int_equal(haul_module_add(net, "here", layer), HAUL_OK);
    if (haul_tensor_is_valid(haul_call(net, haul_zeros(HAUL_F32, w->given))))
        fail_msg("%s on %s takes the wrong shape", w->kind, haul_device_name(device));
    snprintf(place, sizeof place, "in layer 'here' (%s)", w->kind);
    assert_says(w->kind, place);
    assert_says(w->kind, w->has);
    assert_says(w->kind, w->wants);
    haul_error_clear();
}

static void refuse_all(haul_device *device)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        haul_scope *scope = haul_scope_push();
        refuse(&layers[i], device);
        haul_scope_pop(scope);
    }
}

static void test_layer_errors__wrong_shapes(void **state)
{
    (void)state;
    on_devices(refuse_all);
}

/* A layer is named, too, if the call itself is wrong. */
static void test_layer_errors__a_missing_input(void **state)
{
    (void)state;
    haul_scope  *scope = haul_scope_push();
    haul_tensor *x = haul_zeros(HAUL_F32, HAUL_SHAPE(2, 5, 4));
    assert_refused(haul_call(HAUL_SEQUENTIAL(haul_nn_transformer_decoder_layer(4, 2)), x), HAUL_INVALID_ARGUMENT,
                   "needs the input 'memory'; it takes: x, memory, mask?, memory_mask?, in layer '0' "
                   "(transformer_decoder_layer)");
    haul_scope_pop(scope);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_errors__wrong_shapes),
        cmocka_unit_test(test_layer_errors__a_missing_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
