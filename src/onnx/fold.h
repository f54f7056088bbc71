/* Operators that compute on the host (fold.c). */
#ifndef HAUL_ONNX_FOLD_H
#define HAUL_ONNX_FOLD_H

#include "onnx/operation.h"

haul__onnx_fold_function haul__onnx_fold_shape, haul__onnx_fold_size, haul__onnx_fold_constant,
    haul__onnx_fold_identity, haul__onnx_fold_cast, haul__onnx_fold_squeeze, haul__onnx_fold_unsqueeze,
    haul__onnx_fold_reshape, haul__onnx_fold_gather, haul__onnx_fold_concat, haul__onnx_fold_slice,
    haul__onnx_fold_constant_of_shape, haul__onnx_fold_range, haul__onnx_fold_expand, haul__onnx_fold_binary,
    haul__onnx_fold_unary, haul__onnx_fold_where, haul__onnx_fold_reduce, haul__onnx_fold_has_element;

#endif
