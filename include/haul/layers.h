/* Layers: modules that the library has, initial values, and small networks by name.
 *
 * A layer is an operation as a module, with its parameters. They have PyTorch's names, shapes and default initial
 * values, so that weights move between the two.
 *
 *     haul_module *net = HAUL_SEQUENTIAL(haul_nn_conv2d(3, 16, 3, .padding = {1, 1}), haul_nn_relu(),
 *                                        haul_nn_max_pool2d(2), haul_nn_flatten(1), haul_nn_linear(16 * 16 * 16, 10));
 *     haul_tensor *logits = haul_call(net, pictures);
 *
 * Each function returns NULL on failure. */
#ifndef HAUL_LAYERS_H
#define HAUL_LAYERS_H

#include <haul/base.h>
#include <haul/conv.h>
#include <haul/error.h>
#include <haul/image.h>
#include <haul/nn.h>
#include <haul/tensor.h>
#include <haul/volume.h>

HAUL_BEGIN

/* A linear layer, haul_linear: haul_nn_linear(in, out). Parameters: weight [out, in] and bias [out]. Input: [..., in].
 *
 * - in: size of the input's last dimension */
typedef struct HAUL__DESIGNATED haul_nn_linear_options {
    int64_t out_features; /* size of the output's last dimension; positional */
    HAUL__GUARD(no_bias)
    bool no_bias; /* no parameter bias */
    bool relu;    /* return max(result, 0), as .relu of haul_linear */
} haul_nn_linear_options;
#define haul_nn_linear(in, ...)                                                                                        \
    haul_nn_linear_with(in, HAUL__OPTIONS(haul_nn_linear_options, .out_features = __VA_ARGS__))
HAUL_API haul_module *haul_nn_linear_with(int64_t in_features, const haul_nn_linear_options *options);

/* A convolution, haul_conv2d: haul_nn_conv2d(in, out, 3, .padding = {1, 1}). Parameters: weight [out, in / groups, KH,
 * KW] and bias [out]. Input: [N, in, H, W].
 *
 * - in, out: channels of the input and of the result */
typedef struct HAUL__DESIGNATED haul_nn_conv2d_options {
    int64_t kernel; /* size of a square window, or its height if .kernel_w is given; positional */
    HAUL__GUARD(kernel_w)
    int64_t kernel_w; /* width of a window that is not square; default the height */
    /* stride: step of the window; default {1, 1}. padding: zeros added on each side; default none. dilation: distance
     * of the window's elements; default {1, 1}. groups: groups of channels that do not mix; default 1 */
    int64_t stride[2], padding[2], dilation[2], groups;
    bool    no_bias; /* no parameter bias */
    bool    relu;    /* return max(result, 0), as .relu of haul_linear */
    bool    same;    /* the result has the size of the input, as .same of haul_conv2d */
} haul_nn_conv2d_options;
#define haul_nn_conv2d(in, out, ...)                                                                                   \
    haul_nn_conv2d_with(in, out, HAUL__OPTIONS(haul_nn_conv2d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv2d_with(int64_t in_channels, int64_t out_channels,
                                          const haul_nn_conv2d_options *options);

/* A convolution of sequences, haul_conv1d: haul_nn_conv1d(in, out, 3, .padding = 1). Parameters: weight [out, in /
 * groups, K] and bias [out]. Input: [N, in, L].
 *
 * - in, out: channels of the input and of the result */
typedef struct HAUL__DESIGNATED haul_nn_conv1d_options {
    int64_t kernel; /* size of the window; positional */
    HAUL__GUARD(stride)
    /* stride: step of the window; default 1. padding: zeros added at each end; default 0. dilation: distance of the
     * window's elements; default 1. groups: groups of channels that do not mix; default 1 */
    int64_t stride, padding, dilation, groups;
    bool    no_bias; /* no parameter bias */
    bool    relu;    /* return max(result, 0), as .relu of haul_linear */
    bool    same;    /* the result has the size of the input, as .same of haul_conv1d */
} haul_nn_conv1d_options;
#define haul_nn_conv1d(in, out, ...)                                                                                   \
    haul_nn_conv1d_with(in, out, HAUL__OPTIONS(haul_nn_conv1d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv1d_with(int64_t in_channels, int64_t out_channels,
                                          const haul_nn_conv1d_options *options);

/* A transposed convolution, haul_conv_transpose2d: haul_nn_conv_transpose2d(in, out, 2, .stride = {2, 2}). Parameters:
 * weight [in, out / groups, KH, KW] and bias [out]. Input: [N, in, H, W].
 *
 * - in, out: channels of the input and of the result */
typedef struct HAUL__DESIGNATED haul_nn_conv_transpose2d_options {
    int64_t kernel; /* size of a square window, or its height if .kernel_w is given; positional */
    HAUL__GUARD(kernel_w)
    int64_t kernel_w; /* width of a window that is not square; default the height */
    /* stride: spreads the elements of the input; default {1, 1}. padding: rows and columns removed on each side;
     * default none. output_padding: rows and columns added at the end; default none. dilation: distance of the window's
     * elements; default {1, 1}. groups: groups of channels that do not mix; default 1 */
    int64_t stride[2], padding[2], output_padding[2], dilation[2], groups;
    bool    no_bias; /* no parameter bias */
} haul_nn_conv_transpose2d_options;
#define haul_nn_conv_transpose2d(in, out, ...)                                                                         \
    haul_nn_conv_transpose2d_with(in, out, HAUL__OPTIONS(haul_nn_conv_transpose2d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv_transpose2d_with(int64_t in_channels, int64_t out_channels,
                                                    const haul_nn_conv_transpose2d_options *options);

/* A transposed convolution of sequences, haul_conv_transpose1d: haul_nn_conv_transpose1d(in, out, 2, .stride = 2).
 * Parameters: weight [in, out / groups, K] and bias [out]. Input: [N, in, L].
 *
 * - in, out: channels of the input and of the result */
typedef struct HAUL__DESIGNATED haul_nn_conv_transpose1d_options {
    int64_t kernel; /* size of the window; positional */
    HAUL__GUARD(stride)
    /* stride: spreads the elements of the input; default 1. padding: elements removed at each end; default 0.
     * output_padding: elements added at the end; default 0. dilation: distance of the window's elements; default 1.
     * groups: groups of channels that do not mix; default 1 */
    int64_t stride, padding, output_padding, dilation, groups;
    bool    no_bias; /* no parameter bias */
} haul_nn_conv_transpose1d_options;
#define haul_nn_conv_transpose1d(in, out, ...)                                                                         \
    haul_nn_conv_transpose1d_with(in, out, HAUL__OPTIONS(haul_nn_conv_transpose1d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv_transpose1d_with(int64_t in_channels, int64_t out_channels,
                                                    const haul_nn_conv_transpose1d_options *options);

/* A convolution of volumes, haul_conv3d: haul_nn_conv3d(in, out, 3, .padding = {1, 1, 1}). Parameters: weight [out, in
 * / groups, KD, KH, KW] and bias [out]. Input: [N, in, D, H, W].
 *
 * - in, out: channels of the input and of the result */
typedef struct HAUL__DESIGNATED haul_nn_conv3d_options {
    int64_t kernel; /* edge of a cubic window, or its depth if the others are given; positional */
    HAUL__GUARD(kernel_h)
    int64_t kernel_h, kernel_w; /* kernel_h, kernel_w: height and width of another window; default the depth */
    /* stride: step of the window; default {1, 1, 1}. padding: zeros added on each side; default none. dilation:
     * distance of the window's elements; default {1, 1, 1}. groups: groups of channels that do not mix; default 1 */
    int64_t stride[3], padding[3], dilation[3], groups;
    bool    no_bias; /* no parameter bias */
    bool    relu;    /* return max(result, 0), as .relu of haul_linear */
    bool    same;    /* the result has the size of the input, as .same of haul_conv3d */
} haul_nn_conv3d_options;
#define haul_nn_conv3d(in, out, ...)                                                                                   \
    haul_nn_conv3d_with(in, out, HAUL__OPTIONS(haul_nn_conv3d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv3d_with(int64_t in_channels, int64_t out_channels,
                                          const haul_nn_conv3d_options *options);

/* A transposed convolution of volumes, haul_conv_transpose3d: haul_nn_conv_transpose3d(in, out, 2, .stride = {2, 2,
 * 2}). Parameters: weight [in, out / groups, KD, KH, KW] and bias [out]. Input: [N, in, D, H, W].
 *
 * - in, out: channels of the input and of the result */
typedef struct HAUL__DESIGNATED haul_nn_conv_transpose3d_options {
    int64_t kernel; /* edge of a cubic window, or its depth if the others are given; positional */
    HAUL__GUARD(kernel_h)
    int64_t kernel_h, kernel_w; /* kernel_h, kernel_w: height and width of another window; default the depth */
    /* stride: spreads the elements of the input; default {1, 1, 1}. padding: elements removed on each side; default
     * none. output_padding: elements added at the end; default none. dilation: distance of the window's elements;
     * default {1, 1, 1}. groups: groups of channels that do not mix; default 1 */
    int64_t stride[3], padding[3], output_padding[3], dilation[3], groups;
    bool    no_bias; /* no parameter bias */
} haul_nn_conv_transpose3d_options;
#define haul_nn_conv_transpose3d(in, out, ...)                                                                         \
    haul_nn_conv_transpose3d_with(in, out, HAUL__OPTIONS(haul_nn_conv_transpose3d_options, .kernel = __VA_ARGS__))
HAUL_API haul_module *haul_nn_conv_transpose3d_with(int64_t in_channels, int64_t out_channels,
                                                    const haul_nn_conv_transpose3d_options *options);

/* Batch normalisation, haul_batch_norm: haul_nn_batch_norm(channels). Parameters: weight and bias [channels]. Buffers:
 * running_mean and running_var [channels] and num_batches_tracked (i64, no dimensions), as in PyTorch. Input: [N,
 * channels, ...]. */
typedef struct HAUL__DESIGNATED haul_nn_batch_norm_options {
    int64_t channels; /* the number of channels; positional */
    HAUL__GUARD(momentum)
    /* momentum: weight of the new batch in the running statistics; default 0.1; HAUL_ZERO leaves them unchanged. eps:
     * added to the variance; default 1e-5; HAUL_ZERO for zero */
    double momentum, eps;
} haul_nn_batch_norm_options;
#define haul_nn_batch_norm(...)                                                                                        \
    haul_nn_batch_norm_with(HAUL__OPTIONS(haul_nn_batch_norm_options, .channels = __VA_ARGS__))
HAUL_API haul_module *haul_nn_batch_norm_with(const haul_nn_batch_norm_options *options);

/* Layer normalisation, haul_layer_norm: haul_nn_layer_norm(features). Parameters: weight (ones) and bias (zeros)
 * [features]. Input: [..., features]. */
typedef struct HAUL__DESIGNATED haul_nn_layer_norm_options {
    int64_t features; /* size of the last dimension; positional */
    HAUL__GUARD(eps)
    double eps;       /* added to the variance; default 1e-5; HAUL_ZERO for zero */
    bool   no_bias;   /* no parameter bias */
    bool   no_weight; /* neither weight nor bias */
} haul_nn_layer_norm_options;
#define haul_nn_layer_norm(...)                                                                                        \
    haul_nn_layer_norm_with(HAUL__OPTIONS(haul_nn_layer_norm_options, .features = __VA_ARGS__))
HAUL_API haul_module *haul_nn_layer_norm_with(const haul_nn_layer_norm_options *options);

/* RMS normalisation, haul_rms_norm: haul_nn_rms_norm(features). Parameter: weight (ones) [features]. Input: [...,
 * features]. */
typedef struct HAUL__DESIGNATED haul_nn_rms_norm_options {
    int64_t features; /* size of the last dimension; positional */
    HAUL__GUARD(eps)
    double eps;       /* added to the mean of squares; default 1e-5; HAUL_ZERO for zero */
    bool   no_weight; /* no parameter weight */
} haul_nn_rms_norm_options;
#define haul_nn_rms_norm(...) haul_nn_rms_norm_with(HAUL__OPTIONS(haul_nn_rms_norm_options, .features = __VA_ARGS__))
HAUL_API haul_module *haul_nn_rms_norm_with(const haul_nn_rms_norm_options *options);

/* Group normalisation, haul_group_norm: haul_nn_group_norm(groups, channels). Parameters: weight (ones) and bias
 * (zeros) [channels]. Input: [N, channels, ...].
 *
 * - groups: the number of groups, which divides the channels */
typedef struct HAUL__DESIGNATED haul_nn_group_norm_options {
    int64_t channels; /* the number of channels; positional */
    HAUL__GUARD(eps)
    double eps;       /* added to the variance; default 1e-5; HAUL_ZERO for zero */
    bool   no_weight; /* neither weight nor bias */
} haul_nn_group_norm_options;
#define haul_nn_group_norm(groups, ...)                                                                                \
    haul_nn_group_norm_with(groups, HAUL__OPTIONS(haul_nn_group_norm_options, .channels = __VA_ARGS__))
HAUL_API haul_module *haul_nn_group_norm_with(int64_t groups, const haul_nn_group_norm_options *options);

/* Instance normalisation, haul_instance_norm: haul_nn_instance_norm(channels). It has no parameters, as in PyTorch by
 * default. With .affine it has weight (ones) and bias (zeros) [channels]. Input: [N, channels, L ...]. */
typedef struct HAUL__DESIGNATED haul_nn_instance_norm_options {
    int64_t channels; /* the number of channels; positional */
    HAUL__GUARD(eps)
    double eps;    /* added to the variance; default 1e-5; HAUL_ZERO for zero */
    bool   affine; /* the parameters weight and bias */
} haul_nn_instance_norm_options;
#define haul_nn_instance_norm(...)                                                                                     \
    haul_nn_instance_norm_with(HAUL__OPTIONS(haul_nn_instance_norm_options, .channels = __VA_ARGS__))
HAUL_API haul_module *haul_nn_instance_norm_with(const haul_nn_instance_norm_options *options);

/* Multi-head attention, haul_attention on `heads` parts of the features: haul_nn_multi_head_attention(features, heads).
 * Parameters: in_proj_weight [3 features, features], in_proj_bias, and the child out_proj, as in PyTorch.
 *
 * Inputs: "query, key?, value?, mask?". query is [N, L, features]; key and value are [N, S, features] and default to
 * the query (value to the key). mask is that of haul_attention, for scores [N, heads, L, S]: [L, S] for all, [N, 1, 1,
 * S] for padding. A bool mask is true where a score counts; in PyTorch's module it is the other way round. A query all
 * of whose keys are masked takes nothing from the values.
 *
 * - features: size of the last dimension of inputs and result */
typedef struct HAUL__DESIGNATED haul_nn_multi_head_attention_options {
    int64_t heads; /* the number of heads, which divides features; positional */
    HAUL__GUARD(causal)
    bool   causal;  /* position i of the query sees only positions 0 to i of the key */
    bool   no_bias; /* neither in_proj_bias nor out_proj.bias */
    double dropout; /* probability with which an attention weight becomes 0, in training; default 0 */
} haul_nn_multi_head_attention_options;
#define haul_nn_multi_head_attention(features, ...)                                                                    \
    haul_nn_multi_head_attention_with(features,                                                                        \
                                      HAUL__OPTIONS(haul_nn_multi_head_attention_options, .heads = __VA_ARGS__))
HAUL_API haul_module *haul_nn_multi_head_attention_with(int64_t                                     features,
                                                        const haul_nn_multi_head_attention_options *options);

/* Long short-term memory (Hochreiter, Schmidhuber 1997): haul_nn_lstm(in, hidden). Gates and parameters are those of
 * PyTorch: weight_ih_l0 [4 hidden, in], weight_hh_l0 [4 hidden, hidden], bias_ih_l0, bias_hh_l0, then weight_ih_l1 and
 * so on; those of the backward direction end with "_reverse".
 *
 * Inputs: "x, h?, c?, lengths?". x is [N, T, in]; h and c, the initial state, are [layers, N, hidden] and default to
 * zeros.
 *
 * Results: "y, h, c". y is [N, T, hidden], the outputs of the last layer; h and c are the state after the last step.
 * With .bidirectional there are two layers of state for each layer, forward and backward, and y is [N, T, 2 hidden].
 *
 * lengths, integers [N], are the numbers of steps of the sequences: haul_call(lstm, x, HAUL_NONE, HAUL_NONE, lengths).
 * The results are those of PyTorch's packed sequences: outputs past the end of a sequence are 0, h and c are the state
 * after its last step, and the backward direction begins there. They need no order. Padding has no effect on results or
 * gradients unless it is infinite or NaN. A length above T counts as T; a sequence of length 0 keeps its initial state.
 *
 * - in: size of the input's last dimension */
typedef struct HAUL__DESIGNATED haul_nn_recurrent_options {
    int64_t hidden; /* size of the state; positional */
    HAUL__GUARD(layers)
    int    layers;        /* number of layers, each of which reads the outputs of the one before; default 1 */
    bool   bidirectional; /* also run backward through the sequence */
    bool   no_bias;       /* no parameter bias */
    bool   relu;          /* haul_nn_rnn only: relu in place of tanh */
    double dropout;       /* probability with which an output between layers becomes 0, in training; default 0 */
} haul_nn_recurrent_options;
#define haul_nn_lstm(in, ...) haul_nn_lstm_with(in, HAUL__OPTIONS(haul_nn_recurrent_options, .hidden = __VA_ARGS__))
HAUL_API haul_module *haul_nn_lstm_with(int64_t in_features, const haul_nn_recurrent_options *options);

/* Gated recurrent units (Cho et al. 2014), as haul_nn_lstm: haul_nn_gru(in, hidden). The weights have 3 hidden rows.
 * Inputs: "x, h?, lengths?". Results: "y, h".
 *
 * - in: size of the input's last dimension */
#define haul_nn_gru(in, ...) haul_nn_gru_with(in, HAUL__OPTIONS(haul_nn_recurrent_options, .hidden = __VA_ARGS__))
HAUL_API haul_module *haul_nn_gru_with(int64_t in_features, const haul_nn_recurrent_options *options);

/* The recurrent network of Elman (1990), h' = tanh(W x + b + U h + c), as haul_nn_lstm: haul_nn_rnn(in, hidden). The
 * weights have hidden rows. Inputs: "x, h?, lengths?". Results: "y, h".
 *
 * - in: size of the input's last dimension */
#define haul_nn_rnn(in, ...) haul_nn_rnn_with(in, HAUL__OPTIONS(haul_nn_recurrent_options, .hidden = __VA_ARGS__))
HAUL_API haul_module *haul_nn_rnn_with(int64_t in_features, const haul_nn_recurrent_options *options);

/* One step of haul_nn_lstm, haul_nn_gru or haul_nn_rnn: haul_nn_lstm_cell(in, hidden). Parameters: weight_ih,
 * weight_hh, bias_ih, bias_hh, as in PyTorch's LSTMCell, GRUCell and RNNCell. x is [N, in]; the states are [N, hidden]
 * and default to zeros. Inputs of the LSTM cell: "x, h?, c?"; results: "h, c". Inputs of the others: "x, h?"; result:
 * "h".
 *
 * - in: size of the input's last dimension */
typedef struct HAUL__DESIGNATED haul_nn_cell_options {
    int64_t hidden; /* size of the state; positional */
    HAUL__GUARD(no_bias)
    bool no_bias; /* no parameters bias_ih and bias_hh */
    bool relu;    /* haul_nn_rnn_cell only: relu in place of tanh */
} haul_nn_cell_options;
#define haul_nn_lstm_cell(in, ...)                                                                                     \
    haul_nn_lstm_cell_with(in, HAUL__OPTIONS(haul_nn_cell_options, .hidden = __VA_ARGS__))
#define haul_nn_gru_cell(in, ...) haul_nn_gru_cell_with(in, HAUL__OPTIONS(haul_nn_cell_options, .hidden = __VA_ARGS__))
#define haul_nn_rnn_cell(in, ...) haul_nn_rnn_cell_with(in, HAUL__OPTIONS(haul_nn_cell_options, .hidden = __VA_ARGS__))
HAUL_API haul_module *haul_nn_lstm_cell_with(int64_t in_features, const haul_nn_cell_options *options);
HAUL_API haul_module *haul_nn_gru_cell_with(int64_t in_features, const haul_nn_cell_options *options);
HAUL_API haul_module *haul_nn_rnn_cell_with(int64_t in_features, const haul_nn_cell_options *options);

/* A table of rows, haul_embedding: haul_nn_embedding(count, size, .padding_idx = HAUL_ZERO). Parameter: weight [count,
 * size], normally distributed as in PyTorch. Input: indices of an integer dtype and any shape.
 *
 * - count: the number of rows */
typedef struct HAUL__DESIGNATED haul_nn_embedding_options {
    int64_t size; /* size of a row; positional */
    HAUL__GUARD(padding_idx)
    int64_t padding_idx; /* a row that begins as zeros and gets no gradient; default none; HAUL_ZERO for row 0 */
} haul_nn_embedding_options;
#define haul_nn_embedding(count, ...)                                                                                  \
    haul_nn_embedding_with(count, HAUL__OPTIONS(haul_nn_embedding_options, .size = __VA_ARGS__))
HAUL_API haul_module *haul_nn_embedding_with(int64_t count, const haul_nn_embedding_options *options);

/* Activations, as the operations of the same names: haul_relu, haul_tanh, haul_sigmoid, haul_gelu, haul_silu,
 * haul_selu, haul_mish, haul_hardswish, haul_hardsigmoid, haul_softsign. */
HAUL_API haul_module *haul_nn_relu(void);
HAUL_API haul_module *haul_nn_tanh(void);
HAUL_API haul_module *haul_nn_sigmoid(void);
HAUL_API haul_module *haul_nn_gelu(void);
HAUL_API haul_module *haul_nn_silu(void);
HAUL_API haul_module *haul_nn_selu(void);
HAUL_API haul_module *haul_nn_mish(void);
HAUL_API haul_module *haul_nn_hardswish(void);
HAUL_API haul_module *haul_nn_hardsigmoid(void);
HAUL_API haul_module *haul_nn_softsign(void);

/* haul_leaky_relu as a layer. `slope` is the factor of negative values; PyTorch's default is 0.01. */
HAUL_API haul_module *haul_nn_leaky_relu(double slope);

/* haul_elu or haul_celu as a layer; PyTorch's default of `alpha` is 1. */
HAUL_API haul_module *haul_nn_elu(double alpha);
HAUL_API haul_module *haul_nn_celu(double alpha);

/* haul_clamp as a layer: haul_nn_hardtanh(-1, 1), or haul_nn_hardtanh(0, 6) for a relu up to 6. The gradient is that of
 * haul_clamp, which passes the bounds; in PyTorch's Hardtanh it is 0 there. */
HAUL_API haul_module *haul_nn_hardtanh(double low, double high);

/* haul_prelu as a layer: haul_nn_prelu(1, 0.25). Parameter: weight [count], each with the value `slope`.
 *
 * - count: 1, or the number of channels of the input
 * - slope: the first value of the slopes; PyTorch's default is 0.25 */
HAUL_API haul_module *haul_nn_prelu(int64_t count, double slope);

/* haul_glu along an axis, as a layer. */
HAUL_API haul_module *haul_nn_glu(int axis);

/* haul_softmax or haul_log_softmax along an axis, as a layer. */
HAUL_API haul_module *haul_nn_softmax(int axis);
HAUL_API haul_module *haul_nn_log_softmax(int axis);

/* A layer that returns its input, for a place in which no layer is wanted: haul_module_replace(net, "fc",
 * haul_nn_identity()) gives the features that fc would read. */
HAUL_API haul_module *haul_nn_identity(void);

/* haul_dropout with probability p as a layer. It acts in training only. */
HAUL_API haul_module *haul_nn_dropout(double p);

/* haul_flatten as a layer; haul_nn_flatten(1) keeps the batch. */
HAUL_API haul_module *haul_nn_flatten(int first_axis);

/* haul_max_pool2d or haul_avg_pool2d as a layer: haul_nn_max_pool2d(3, .stride = {2, 2}). */
#define haul_nn_max_pool2d(...) haul_nn_max_pool2d_with(HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
#define haul_nn_avg_pool2d(...) haul_nn_avg_pool2d_with(HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
HAUL_API haul_module *haul_nn_max_pool2d_with(const haul_pool2d_options *options);
HAUL_API haul_module *haul_nn_avg_pool2d_with(const haul_pool2d_options *options);

/* haul_adaptive_max_pool2d or haul_adaptive_avg_pool2d as a layer: haul_nn_adaptive_avg_pool2d(7, 7). */
HAUL_API haul_module *haul_nn_adaptive_max_pool2d(int64_t height, int64_t width);
HAUL_API haul_module *haul_nn_adaptive_avg_pool2d(int64_t height, int64_t width);

/* Pooling of sequences and volumes, as the operations of the same names: haul_nn_max_pool1d(2), haul_nn_avg_pool3d(3,
 * .stride = {2, 2, 2}), haul_nn_adaptive_avg_pool1d(1). */
#define haul_nn_max_pool1d(...) haul_nn_max_pool1d_with(HAUL__OPTIONS(haul_pool1d_options, .size = __VA_ARGS__))
#define haul_nn_avg_pool1d(...) haul_nn_avg_pool1d_with(HAUL__OPTIONS(haul_pool1d_options, .size = __VA_ARGS__))
#define haul_nn_max_pool3d(...) haul_nn_max_pool3d_with(HAUL__OPTIONS(haul_pool3d_options, .size = __VA_ARGS__))
#define haul_nn_avg_pool3d(...) haul_nn_avg_pool3d_with(HAUL__OPTIONS(haul_pool3d_options, .size = __VA_ARGS__))
HAUL_API haul_module *haul_nn_max_pool1d_with(const haul_pool1d_options *options);
HAUL_API haul_module *haul_nn_avg_pool1d_with(const haul_pool1d_options *options);
HAUL_API haul_module *haul_nn_max_pool3d_with(const haul_pool3d_options *options);
HAUL_API haul_module *haul_nn_avg_pool3d_with(const haul_pool3d_options *options);
HAUL_API haul_module *haul_nn_adaptive_max_pool1d(int64_t length);
HAUL_API haul_module *haul_nn_adaptive_avg_pool1d(int64_t length);
HAUL_API haul_module *haul_nn_adaptive_max_pool3d(int64_t depth, int64_t height, int64_t width);
HAUL_API haul_module *haul_nn_adaptive_avg_pool3d(int64_t depth, int64_t height, int64_t width);

/* haul_pixel_shuffle or haul_pixel_unshuffle as a layer: haul_nn_pixel_shuffle(2). */
HAUL_API haul_module *haul_nn_pixel_shuffle(int64_t factor);
HAUL_API haul_module *haul_nn_pixel_unshuffle(int64_t factor);

/* haul_interpolate as a layer: haul_nn_upsample(HAUL_BILINEAR, .scale = {2, 2}). Give either .size or .scale. */
typedef struct HAUL__DESIGNATED haul_nn_upsample_options {
    haul_interpolation mode; /* how to interpolate; positional */
    HAUL__GUARD(size)
    int64_t size[3];       /* of the result, a number for each axis after the channels: {rows, columns} */
    double  scale[3];      /* factors of these axes */
    bool    align_corners; /* HAUL_BILINEAR and HAUL_BICUBIC only: corner elements keep their positions */
    bool    antialias;     /* HAUL_BILINEAR and HAUL_BICUBIC only: a smaller result shows all elements of x */
} haul_nn_upsample_options;
#define haul_nn_upsample(...) haul_nn_upsample_with(HAUL__OPTIONS(haul_nn_upsample_options, .mode = __VA_ARGS__))
HAUL_API haul_module *haul_nn_upsample_with(const haul_nn_upsample_options *options);

/* A module that calls its children one after the other, each with the result of the one before. The children are named
 * "0", "1" and so on; haul_module_add adds further ones under any name. Each intermediate tensor is freed as soon as it
 * is used up.
 *
 * HAUL_SEQUENTIAL(a, b, c) takes the children as arguments. If one is NULL, the call fails.
 *
 * - children, count: the modules, and their number */
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

/* Containers, which are not called themselves. haul_nn_list names its children "0", "1" and so on; haul_nn_dict takes
 * names.
 *
 * - children, count: the modules, and their number */
HAUL_API haul_module *haul_nn_list(haul_module *const *children, int count);
HAUL_API haul_module *haul_nn_dict(const haul_named_module *children, int count);

/* ---- Initial values ----
 * These functions fill a tensor in place, with the bounds of torch.nn.init. As there, nothing is recorded, so they
 * accept parameters while gradients are recorded. Those of Kaiming and Xavier and haul_init_orthogonal need at least
 * two dimensions, [out, in, ...]; sizes after these count as a window. */

/* Uniform numbers in [low, high). */
HAUL_API haul_status haul_init_uniform(haul_tensor *t, double low, double high);

/* Normally distributed numbers. */
HAUL_API haul_status haul_init_normal(haul_tensor *t, double mean, double deviation);

/* Uniform numbers for a leaky relu of slope `a` (He et al. 2015). */
HAUL_API haul_status haul_init_kaiming_uniform(haul_tensor *t, double a);

/* Uniform numbers that keep the variance of a linear layer (Glorot, Bengio 2010), times `gain`. */
HAUL_API haul_status haul_init_xavier_uniform(haul_tensor *t, double gain);

/* The same two with normally distributed numbers. */
HAUL_API haul_status haul_init_kaiming_normal(haul_tensor *t, double a);
HAUL_API haul_status haul_init_xavier_normal(haul_tensor *t, double gain);

/* Those of He et al. that keep the variance of gradients: fan_out in place of fan_in. */
HAUL_API haul_status haul_init_kaiming_uniform_fan_out(haul_tensor *t, double a);
HAUL_API haul_status haul_init_kaiming_normal_fan_out(haul_tensor *t, double a);

/* A convolution that gives its input: 1 in the middle of the window where the channels of input and result are the
 * same, in each of the groups, and 0 elsewhere.
 *
 * - t: [out, in / groups, window...] with one to three axes of the window
 * - groups: divides the channels of the result; 1 for none */
HAUL_API haul_status haul_init_dirac(haul_tensor *t, int64_t groups);

/* Normally distributed numbers around 0, of which the share `sparsity` of each column, rounded up, is replaced by 0
 * (Martens 2010).
 *
 * - t: [rows, columns]
 * - sparsity: from 0 to 1 */
HAUL_API haul_status haul_init_sparse(haul_tensor *t, double sparsity, double deviation);

/* Normally distributed numbers between low and high: others are not drawn. The interval must have a probability above
 * 0 in f64. */
HAUL_API haul_status haul_init_truncated_normal(haul_tensor *t, double mean, double deviation, double low, double high);

/* A random orthogonal matrix, times `gain`, of the sizes [out, in * window]: its rows or its columns, whichever are
 * fewer, are orthonormal (Saxe, McClelland, Ganguli 2013). */
HAUL_API haul_status haul_init_orthogonal(haul_tensor *t, double gain);

/* ---- Networks by name ----
 * The command `haul train` trains these. */

/* A small network by name: haul_model_new("simplecnn"). Returns NULL for an unknown name, and the message lists the
 * names.
 *
 * - "simplecnn": 3x32x32 pictures, 10 classes; accepts any picture of at least 16x16
 * - "dense": 10 values, a hidden layer of 16, 1 value
 * - "mlp": 3072 values, hidden layers of 256 and 128, 10 classes
 * - "resnet18": 3x32x32 pictures, 10 classes; accepts any picture. ResNet-18 with a 3x3 first convolution and no
 *   pooling after it
 * - "resnet18_imagenet", "resnet50": 3x224x224 pictures, 1000 classes; accept any picture. torchvision's resnet18 and
 *   resnet50, whose first convolution is 7x7 with stride 2, before a max pooling. Its files of weights fit
 * - "mobilenet_v2": 3x224x224 pictures, 1000 classes; accepts any picture. torchvision's mobilenet_v2
 * - "vit_tiny": 3x224x224 pictures, 1000 classes. A vision transformer with 12 blocks of 192 features and 3 heads, with
 *   the names of torchvision's VisionTransformer. Its patches are 16x16 in pictures of at least 96x96, else 4x4; sides
 *   are multiples of a patch's
 * - "char_gpt": 64 tokens out of 128, an integer for each; a transformer, whose result [N, length, 128]
 *   has logits of the token that follows each. .input is the longest sequence, HAUL_SHAPE(context), and .outputs the
 *   number of tokens. The embedding of tokens and the last layer share their weight
 * - "unet": 3x32x32 pictures, 3 classes for each pixel; a U-Net with three levels for pictures whose sides are
 *   multiples of 4. The result is [N, classes, height, width]. With .kinds = n it takes a second input, kind: an index
 *   [N] below n for each picture, whose embedding is added to each pixel of the coarsest level */
typedef struct HAUL__DESIGNATED haul_model_options {
    const char *name; /* the name of the network; positional */
    HAUL__GUARD(input)
    haul_shape input;    /* shape of one example, HAUL_SHAPE(1, 28, 28); default as above */
    int64_t    outputs;  /* classes or values to predict; default as above */
    int64_t    kinds;    /* of "unet": values of its second input; default 0: it has one input */
    int64_t    layers;   /* of "char_gpt": blocks, at most 1024; default 2 */
    int64_t    features; /* of "char_gpt": of each token, a multiple of the heads, at most 1,048,576; default 32 */
    int64_t    heads;    /* of "char_gpt": of the attention of each block; default 4 */
} haul_model_options;
#define haul_model_new(...) haul_model_new_with(HAUL__OPTIONS(haul_model_options, .name = __VA_ARGS__))
HAUL_API haul_module *haul_model_new_with(const haul_model_options *options);

HAUL_END

#endif
