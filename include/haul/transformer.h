/* Transformers: encoder and decoder layers, and stacks of them.
 *
 * The layers are those of Vaswani and others, "Attention is all you need", 2017, with PyTorch's names, so that its
 * files of weights fit.
 *
 *     haul_module *net = haul_nn_transformer_encoder(256, 8, .layers = 4, .hidden = 1024, .norm_first = true);
 *     haul_tensor *y = haul_call(net, x);  // x: [N, length, 256]
 *
 * Sequences are [N, length, features]. A bool mask is true where a score counts; in PyTorch's layers it is the other
 * way round. Masks are those of haul_attention, for scores [N, heads, length, length of the keys]: [L, S] for all, [N,
 * 1, 1, S] for padding. */
#ifndef HAUL_TRANSFORMER_H
#define HAUL_TRANSFORMER_H

#include <haul/nn.h>

HAUL_BEGIN

typedef struct HAUL__DESIGNATED haul_nn_transformer_options {
    int64_t heads; /* the number of heads, which divides features; positional */
    HAUL__GUARD(hidden)
    int64_t hidden;     /* size between the two linear layers; default 2048 */
    double  dropout;    /* probability with which a value becomes 0, in training; default 0.1; HAUL_ZERO for none */
    double  eps;        /* of the normalisations; default 1e-5; HAUL_ZERO for zero */
    bool    gelu;       /* haul_gelu between the linear layers instead of haul_relu */
    bool    norm_first; /* normalise what a part reads, instead of the sum of its input and its result */
    bool    causal;     /* position i sees positions 0 to i only */
    int     layers;     /* of a stack: the number of layers, at most 65536; default 6 */
    bool    final_norm; /* of a stack: normalise the result of the last layer */
} haul_nn_transformer_options;

/* An encoder layer: self-attention, then two linear layers, each added to its input and normalised. Children: self_attn
 * (haul_nn_multi_head_attention), linear1, linear2, norm1, norm2, dropout, dropout1, dropout2.
 *
 * Inputs: "x, mask?". Result: as x.
 *
 * - features: size of the last dimension of x, a multiple of .heads */
#define haul_nn_transformer_encoder_layer(features, ...)                                                               \
    haul_nn_transformer_encoder_layer_with(features, HAUL__OPTIONS(haul_nn_transformer_options, .heads = __VA_ARGS__))
HAUL_API haul_module *haul_nn_transformer_encoder_layer_with(int64_t                            features,
                                                             const haul_nn_transformer_options *options);

/* A decoder layer: self-attention, attention to the encoder's result, then two linear layers, each added to its input
 * and normalised. Children: self_attn, multihead_attn, linear1, linear2, norm1 to norm3, dropout, dropout1 to dropout3.
 *
 * Inputs: "x, memory, mask?, memory_mask?". memory is [N, S, features], the encoder's result. .causal is about
 * self-attention. Result: as x.
 *
 * - features: size of the last dimension of x and memory, a multiple of .heads */
#define haul_nn_transformer_decoder_layer(features, ...)                                                               \
    haul_nn_transformer_decoder_layer_with(features, HAUL__OPTIONS(haul_nn_transformer_options, .heads = __VA_ARGS__))
HAUL_API haul_module *haul_nn_transformer_decoder_layer_with(int64_t                            features,
                                                             const haul_nn_transformer_options *options);

/* .layers encoder or decoder layers one after the other, with inputs and options as those. Children: layers.0, layers.1
 * ..., and norm with .final_norm. Each layer has initial values of its own; PyTorch's TransformerEncoder copies those
 * of one layer.
 *
 * - features: size of the last dimension of x, a multiple of .heads */
#define haul_nn_transformer_encoder(features, ...)                                                                     \
    haul_nn_transformer_encoder_with(features, HAUL__OPTIONS(haul_nn_transformer_options, .heads = __VA_ARGS__))
#define haul_nn_transformer_decoder(features, ...)                                                                     \
    haul_nn_transformer_decoder_with(features, HAUL__OPTIONS(haul_nn_transformer_options, .heads = __VA_ARGS__))
HAUL_API haul_module *haul_nn_transformer_encoder_with(int64_t features, const haul_nn_transformer_options *options);
HAUL_API haul_module *haul_nn_transformer_decoder_with(int64_t features, const haul_nn_transformer_options *options);

HAUL_END

#endif
