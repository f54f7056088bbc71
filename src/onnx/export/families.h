/* The functions of the rows, one declaration for each. */
#ifndef HAUL_ONNX_EXPORT_FAMILIES_H
#define HAUL_ONNX_EXPORT_FAMILIES_H

#include "onnx/export/export.h"

#define FAMILY(name) haul__onnx_save_function haul__onnx_save_##name
FAMILY(addc);
FAMILY(affine);
FAMILY(alpha);
FAMILY(arange);
FAMILY(arange_i64);
FAMILY(arg);
FAMILY(avg_pool2d);
FAMILY(batch_norm);
FAMILY(bce_elements);
FAMILY(bits);
FAMILY(cast);
FAMILY(cat);
FAMILY(clamp);
FAMILY(class_loss);
FAMILY(conv2d);
FAMILY(conv_transpose2d);
FAMILY(ctc_losses);
FAMILY(cumulative);
FAMILY(either);
FAMILY(embedding);
FAMILY(erfc);
FAMILY(expand);
FAMILY(expm1);
FAMILY(fft_complex);
FAMILY(fft_of_real);
FAMILY(fft_to_real);
FAMILY(fill);
FAMILY(fill_like);
FAMILY(flip);
FAMILY(fmod);
FAMILY(gather);
FAMILY(gelu);
FAMILY(hardsigmoid);
FAMILY(hypot);
FAMILY(index_select);
FAMILY(index_sum);
FAMILY(interpolate);
FAMILY(isfinite);
FAMILY(layer_norm);
FAMILY(lerp);
FAMILY(linear);
FAMILY(log1p);
FAMILY(logaddexp);
FAMILY(logarithm);
FAMILY(masked_fill);
FAMILY(max_pool2d);
FAMILY(nan_to_num);
FAMILY(node);
FAMILY(norm);
FAMILY(not_node);
FAMILY(not_number);
FAMILY(number);
FAMILY(number_first);
FAMILY(pad);
FAMILY(pair_loss);
FAMILY(permute);
FAMILY(power_of);
FAMILY(quotient);
FAMILY(recurrent);
FAMILY(reduce);
FAMILY(remainder);
FAMILY(repeat);
FAMILY(reshape);
FAMILY(rms_norm);
FAMILY(roll);
FAMILY(rsqrt);
FAMILY(same);
FAMILY(scatter);
FAMILY(scatter_add);
FAMILY(scatter_fold);
FAMILY(select);
FAMILY(selu);
FAMILY(silu);
FAMILY(slice);
FAMILY(softmax);
FAMILY(softplus_beta);
FAMILY(sort);
FAMILY(square);
FAMILY(stack);
FAMILY(threshold);
FAMILY(topk);
FAMILY(transpose);
FAMILY(triangle);
FAMILY(trunc);
FAMILY(truth);
FAMILY(truth_of);
FAMILY(variance);
FAMILY(where_scalar);
#undef FAMILY

#endif
