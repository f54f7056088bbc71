/* The functions of operators, by the files that have them. */
#ifndef HAUL_ONNX_FAMILIES_H
#define HAUL_ONNX_FAMILIES_H

#include "onnx/operation.h"

haul__onnx_run_function haul__onnx_unary, haul__onnx_binary, haul__onnx_variadic, haul__onnx_mean_of,
    haul__onnx_identity, haul__onnx_divide, haul__onnx_lstm, haul__onnx_gru, haul__onnx_attention, haul__onnx_bit_cast,
    haul__onnx_bit_shift, haul__onnx_hardmax, haul__onnx_modulo, haul__onnx_power, haul__onnx_where, haul__onnx_celu,
    haul__onnx_elu, haul__onnx_leaky_relu, haul__onnx_selu, haul__onnx_gelu, haul__onnx_swish, haul__onnx_hard_sigmoid,
    haul__onnx_thresholded_relu, haul__onnx_shrink, haul__onnx_prelu, haul__onnx_is_inf, haul__onnx_clip,
    haul__onnx_cast, haul__onnx_reduce, haul__onnx_reduce_l1, haul__onnx_reduce_l2, haul__onnx_reduce_log_sum,
    haul__onnx_reduce_sum_square, haul__onnx_arg, haul__onnx_cumsum, haul__onnx_reshape, haul__onnx_flatten,
    haul__onnx_transpose, haul__onnx_squeeze, haul__onnx_unsqueeze, haul__onnx_expand, haul__onnx_tile,
    haul__onnx_depth_to_space, haul__onnx_space_to_depth, haul__onnx_concat, haul__onnx_split, haul__onnx_slice,
    haul__onnx_pad, haul__onnx_constant_of_shape, haul__onnx_range_of, haul__onnx_eye_like, haul__onnx_trilu,
    haul__onnx_gather, haul__onnx_gather_elements, haul__onnx_scatter_elements, haul__onnx_scatter_nd,
    haul__onnx_nonzero, haul__onnx_topk, haul__onnx_one_hot, haul__onnx_conv, haul__onnx_conv_transpose,
    haul__onnx_max_pool, haul__onnx_average_pool, haul__onnx_lp_pool, haul__onnx_max_unpool, haul__onnx_global_pool,
    haul__onnx_gemm, haul__onnx_einsum, haul__onnx_batch_norm, haul__onnx_layer_norm, haul__onnx_rms_norm,
    haul__onnx_instance_norm, haul__onnx_group_norm, haul__onnx_softmax, haul__onnx_dropout, haul__onnx_resize,
    haul__onnx_causal_conv, haul__onnx_rotary, haul__onnx_linear_attention, haul__onnx_tensor_scatter,
    haul__onnx_reverse_sequence, haul__onnx_swiglu, haul__onnx_dft, haul__onnx_stft, haul__onnx_nll_loss,
    haul__onnx_cross_entropy, haul__onnx_grid_sample, haul__onnx_affine_grid, haul__onnx_center_crop_pad,
    haul__onnx_col2im, haul__onnx_quantize, haul__onnx_dequantize, haul__onnx_matmul_integer, haul__onnx_qlinear_matmul,
    haul__onnx_cumprod, haul__onnx_lp_normalization, haul__onnx_mean_variance_normalization, haul__onnx_gather_nd,
    haul__onnx_cosine_window, haul__onnx_dynamic_quantize, haul__onnx_compress, haul__onnx_unique, haul__onnx_lrn,
    haul__onnx_rnn, haul__onnx_conv_integer, haul__onnx_qlinear_conv, haul__onnx_non_max_suppression;

/* x with elements added, or for negative numbers taken away, before and after each axis. */
haul_tensor *haul__onnx_pads(haul_tensor *x, int ndim, const int64_t before[], const int64_t after[],
                             haul_pad_mode mode, double value);

/* Resize by the factors of each result, with these sizes or scales (resize.c). */
haul_tensor *haul__onnx_resample(haul__onnx_call *c, const haul__numbers *given, bool sizes);

#endif
