/* Layers: operations as modules (nn.h), with their parameters; initialisation; small networks by name. */
#ifndef HAUL_LAYERS_H
#define HAUL_LAYERS_H

#include <haul/base.h>
#include <haul/conv.h>
#include <haul/error.h>
#include <haul/nn.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* haul_nn_linear(in, out, .no_bias = true): weight [out, in] and bias [out]; x is [..., in]. */
typedef struct HAUL__DESIGNATED haul_nn_linear_options {
    int64_t out_features; /* positional */
    HAUL__GUARD
    bool no_bias;
    bool relu; /* as in haul_linear_options */
} haul_nn_linear_options;
#define haul_nn_linear(in, ...)                                                                                        \
    haul_nn_linear_with(in, HAUL__OPTIONS(haul_nn_linear_options, .out_features = __VA_ARGS__))
HAUL_API haul_module *haul_nn_linear_with(int64_t in_features, const haul_nn_linear_options *options);

/* haul_nn_conv2d(in, out, kernel, .padding = {1, 1}): weight [out, in / groups, KH, KW] and bias [out]; x is
 * [N, in, H, W]. */
typedef struct HAUL__DESIGNATED haul_nn_conv2d_options {
    int64_t kernel; /* size of a square window, else its height; positional */
    HAUL__GUARD
    int64_t kernel_w;                                   /* width of a window that is not square */
    int64_t stride[2], padding[2], dilation[2], groups; /* as in haul_conv2d */
    bool    no_bias;
    bool    relu; /* as in haul_linear_options */
} haul_nn_conv2d_options;
#define haul_nn_conv2d(in, out, ...)                                                                                   \
    haul_nn_conv2d_with(in, out, HAUL__OPTIONS(haul_nn_conv2d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv2d_with(int64_t in_channels, int64_t out_channels,
                                          const haul_nn_conv2d_options *options);

/* haul_nn_conv1d(in, out, kernel, .padding = 1): weight [out, in / groups, K] and bias [out]; x is [N, in, L]. */
typedef struct HAUL__DESIGNATED haul_nn_conv1d_options {
    int64_t kernel; /* size of the window; positional */
    HAUL__GUARD
    int64_t stride, padding, dilation, groups; /* as in haul_conv1d */
    bool    no_bias;
    bool    relu; /* as in haul_linear_options */
} haul_nn_conv1d_options;
#define haul_nn_conv1d(in, out, ...)                                                                                   \
    haul_nn_conv1d_with(in, out, HAUL__OPTIONS(haul_nn_conv1d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv1d_with(int64_t in_channels, int64_t out_channels,
                                          const haul_nn_conv1d_options *options);

/* haul_nn_conv_transpose2d(in, out, kernel, .stride = {2, 2}): weight [in, out / groups, KH, KW] and bias [out]; x is
 * [N, in, H, W]. */
typedef struct HAUL__DESIGNATED haul_nn_conv_transpose2d_options {
    int64_t kernel; /* size of a square window, else its height; positional */
    HAUL__GUARD
    int64_t kernel_w;                                                      /* width of a window that is not square */
    int64_t stride[2], padding[2], output_padding[2], dilation[2], groups; /* as in haul_conv_transpose2d */
    bool    no_bias;
} haul_nn_conv_transpose2d_options;
#define haul_nn_conv_transpose2d(in, out, ...)                                                                         \
    haul_nn_conv_transpose2d_with(in, out, HAUL__OPTIONS(haul_nn_conv_transpose2d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv_transpose2d_with(int64_t in_channels, int64_t out_channels,
                                                    const haul_nn_conv_transpose2d_options *options);

/* haul_nn_batch_norm(channels): weight and bias [channels], buffers running_mean and running_var [channels] and
 * num_batches_tracked (i64, 0-d), as in PyTorch; x is [N, channels, ...]. */
typedef struct HAUL__DESIGNATED haul_nn_batch_norm_options {
    int64_t channels; /* positional */
    HAUL__GUARD
    double momentum, eps; /* as in haul_batch_norm_options */
} haul_nn_batch_norm_options;
#define haul_nn_batch_norm(...)                                                                                        \
    haul_nn_batch_norm_with(HAUL__OPTIONS(haul_nn_batch_norm_options, .channels = __VA_ARGS__))
HAUL_API haul_module *haul_nn_batch_norm_with(const haul_nn_batch_norm_options *options);

/* haul_nn_layer_norm(features): weight, ones, and bias, zeros, [features]; x is [..., features]. */
typedef struct HAUL__DESIGNATED haul_nn_layer_norm_options {
    int64_t features; /* positional */
    HAUL__GUARD
    double eps; /* as in haul_layer_norm_options */
    bool   no_bias;
    bool   no_weight; /* neither weight nor bias */
} haul_nn_layer_norm_options;
#define haul_nn_layer_norm(...)                                                                                        \
    haul_nn_layer_norm_with(HAUL__OPTIONS(haul_nn_layer_norm_options, .features = __VA_ARGS__))
HAUL_API haul_module *haul_nn_layer_norm_with(const haul_nn_layer_norm_options *options);

/* haul_nn_rms_norm(features): weight, ones, [features]; x is [..., features]. */
typedef struct HAUL__DESIGNATED haul_nn_rms_norm_options {
    int64_t features; /* positional */
    HAUL__GUARD
    double eps; /* as in haul_rms_norm_options */
    bool   no_weight;
} haul_nn_rms_norm_options;
#define haul_nn_rms_norm(...) haul_nn_rms_norm_with(HAUL__OPTIONS(haul_nn_rms_norm_options, .features = __VA_ARGS__))
HAUL_API haul_module *haul_nn_rms_norm_with(const haul_nn_rms_norm_options *options);

/* haul_nn_multi_head_attention(features, heads): parameters in_proj_weight [3 features, features], in_proj_bias, and
 * the child out_proj, as in PyTorch. Inputs "query, key?, value?, mask?": query is [N, L, features], key and value are
 * [N, S, features] and default to the query (value to the key). mask is as in haul_attention, for scores [N, heads, L,
 * S]: [L, S] for all, [N, 1, 1, S] for padding. A bool mask is true where a score counts; in PyTorch's module it is the
 * other way round. */
typedef struct HAUL__DESIGNATED haul_nn_multi_head_attention_options {
    int64_t heads; /* positional; divides features */
    HAUL__GUARD
    bool   causal;  /* as in haul_attention */
    bool   no_bias; /* neither in_proj_bias nor out_proj.bias */
    double dropout; /* of attention weights, in training */
} haul_nn_multi_head_attention_options;
#define haul_nn_multi_head_attention(features, ...)                                                                    \
    haul_nn_multi_head_attention_with(features,                                                                        \
                                      HAUL__OPTIONS(haul_nn_multi_head_attention_options, .heads = __VA_ARGS__))
HAUL_API haul_module *haul_nn_multi_head_attention_with(int64_t                                     features,
                                                        const haul_nn_multi_head_attention_options *options);

/* haul_nn_lstm(in, hidden): long short-term memory (Hochreiter, Schmidhuber 1997), with the gates and the names of
 * PyTorch's parameters: weight_ih_l0 [4 hidden, in], weight_hh_l0 [4 hidden, hidden], bias_ih_l0, bias_hh_l0, then
 * weight_ih_l1 ...; those that run backward end with _reverse.
 * Inputs "x, h?, c?": x is [N, T, in]; h and c, the state to begin with, are [layers, N, hidden], and default to zeros.
 * Results "y, h, c": y is [N, T, hidden], the outputs of the last layer; h and c are the state after the last step.
 * Bidirectional ones have two layers of state for each layer, forward and backward, and y is [N, T, 2 hidden].
 * Sequences of a batch have one length: steps of padding count as others do. The output of the last real step of each
 * is haul_gather(y, 1, i), where i is i64 [N, 1, hidden] of lengths - 1. */
typedef struct HAUL__DESIGNATED haul_nn_recurrent_options {
    int64_t hidden; /* positional */
    HAUL__GUARD
    int    layers; /* default 1 */
    bool   bidirectional;
    bool   no_bias;
    double dropout; /* between layers, in training */
} haul_nn_recurrent_options;
#define haul_nn_lstm(in, ...) haul_nn_lstm_with(in, HAUL__OPTIONS(haul_nn_recurrent_options, .hidden = __VA_ARGS__))
HAUL_API haul_module *haul_nn_lstm_with(int64_t in_features, const haul_nn_recurrent_options *options);
/* Gated recurrent units (Cho et al. 2014), as haul_nn_lstm, with 3 hidden rows in the weights. Inputs "x, h?", results
 * "y, h". */
#define haul_nn_gru(in, ...) haul_nn_gru_with(in, HAUL__OPTIONS(haul_nn_recurrent_options, .hidden = __VA_ARGS__))
HAUL_API haul_module *haul_nn_gru_with(int64_t in_features, const haul_nn_recurrent_options *options);

/* haul_nn_embedding(count, size, .padding_idx = HAUL_ZERO): weight [count, size], of normal values as in PyTorch; x is
 * of any shape and an integer dtype. */
typedef struct HAUL__DESIGNATED haul_nn_embedding_options {
    int64_t size; /* of a row; positional */
    HAUL__GUARD
    int64_t padding_idx; /* a row that begins as zeros and gets no gradient; as in haul_embedding_options */
} haul_nn_embedding_options;
#define haul_nn_embedding(count, ...)                                                                                  \
    haul_nn_embedding_with(count, HAUL__OPTIONS(haul_nn_embedding_options, .size = __VA_ARGS__))
HAUL_API haul_module *haul_nn_embedding_with(int64_t count, const haul_nn_embedding_options *options);

HAUL_API haul_module *haul_nn_relu(void);
HAUL_API haul_module *haul_nn_tanh(void);
HAUL_API haul_module *haul_nn_sigmoid(void);
HAUL_API haul_module *haul_nn_gelu(void);
HAUL_API haul_module *haul_nn_silu(void);
HAUL_API haul_module *haul_nn_leaky_relu(double slope); /* of negative values: PyTorch's default is 0.01 */
HAUL_API haul_module *haul_nn_softmax(int axis);
HAUL_API haul_module *haul_nn_log_softmax(int axis);
HAUL_API haul_module *haul_nn_dropout(double p); /* in training only; p is a probability */
HAUL_API haul_module *haul_nn_flatten(int first_axis);

/* haul_nn_max_pool2d(3, .stride = {2, 2}), with the options of haul_max_pool2d. */
#define haul_nn_max_pool2d(...) haul_nn_max_pool2d_with(HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
#define haul_nn_avg_pool2d(...) haul_nn_avg_pool2d_with(HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
HAUL_API haul_module *haul_nn_max_pool2d_with(const haul_pool2d_options *options);
HAUL_API haul_module *haul_nn_avg_pool2d_with(const haul_pool2d_options *options);
/* haul_nn_adaptive_avg_pool2d(7, 7), as haul_adaptive_avg_pool2d. */
HAUL_API haul_module *haul_nn_adaptive_max_pool2d(int64_t height, int64_t width);
HAUL_API haul_module *haul_nn_adaptive_avg_pool2d(int64_t height, int64_t width);

/* haul_nn_upsample(HAUL_BILINEAR, .scale = {2, 2}), with the options of haul_interpolate. */
typedef struct HAUL__DESIGNATED haul_nn_upsample_options {
    haul_interpolation mode; /* positional */
    HAUL__GUARD
    int64_t size[2];
    double  scale[2];
    bool    align_corners;
} haul_nn_upsample_options;
#define haul_nn_upsample(...) haul_nn_upsample_with(HAUL__OPTIONS(haul_nn_upsample_options, .mode = __VA_ARGS__))
HAUL_API haul_module *haul_nn_upsample_with(const haul_nn_upsample_options *options);

/* Children "0", "1", ... called one after the other; the input of each is dropped as soon as it is used up. More can be
 * added by haul_module_add, under any name. */
HAUL_API haul_module *haul_nn_sequential(haul_module *const *children, int count);
#ifdef __cplusplus
extern "C++" {
template <size_t N> haul_module *haul__sequential(haul_module *const (&children)[N])
{
    return haul_nn_sequential(children, static_cast<int>(N));
}
}
#define HAUL_SEQUENTIAL(...) haul__sequential({__VA_ARGS__})
#else
#define HAUL_SEQUENTIAL(...)                                                                                           \
    haul_nn_sequential((haul_module *const[]){__VA_ARGS__}, HAUL__COUNT(haul_module *const, __VA_ARGS__))
#endif

/* Containers that are not called themselves: children "0", "1", ..., or under names of their own. */
HAUL_API haul_module *haul_nn_list(haul_module *const *children, int count);
HAUL_API haul_module *haul_nn_dict(const haul_named_module *children, int count);

/* ---- initialisation, in place; bounds as PyTorch's torch.nn.init ----
 * The last two want at least two dimensions, [out, in, ...]; sizes after these count as a window. */
HAUL_API haul_status haul_init_uniform(haul_tensor *t, double low, double high);
HAUL_API haul_status haul_init_normal(haul_tensor *t, double mean, double deviation);
HAUL_API haul_status haul_init_kaiming_uniform(haul_tensor *t, double a);   /* He et al. 2015; leaky slope a */
HAUL_API haul_status haul_init_xavier_uniform(haul_tensor *t, double gain); /* Glorot, Bengio 2010 */

/* ---- networks the command trains ---- */
/* Small networks by name, haul_model_new("simplecnn"): "simplecnn" (3x32x32 pictures, 10 classes; any picture of at
 * least 16x16), "dense" (10 -> 16 -> 1), "mlp" (3072 -> 256 -> 128 -> 10), "resnet18" (3x32x32 pictures, 10 classes;
 * any picture; ResNet-18 with a 3x3 first convolution and no pooling after it). NULL with the list of names for an
 * unknown one. */
typedef struct HAUL__DESIGNATED haul_model_options {
    const char *name; /* positional */
    HAUL__GUARD
    haul_shape input;   /* of one example, HAUL_SHAPE(1, 28, 28); default: as above */
    int64_t    outputs; /* classes or values to predict; default: as above */
} haul_model_options;
#define haul_model_new(...) haul_model_new_with(HAUL__OPTIONS(haul_model_options, .name = __VA_ARGS__))
HAUL_API haul_module *haul_model_new_with(const haul_model_options *options);

HAUL_END

#endif
