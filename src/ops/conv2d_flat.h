/* 2-d convolution by kernels. */
#ifndef HAUL_OPS_CONV2D_FLAT_H
#define HAUL_OPS_CONV2D_FLAT_H

#include "engine/operation.h"

/* One of the three passes over its tensors: x, weight, y and bias, or their gradients. `wide` is the same in f32, for a
 * library that takes no halves; its tensors are NULL until one asked for them. */
typedef struct haul__convolution haul__convolution;
struct haul__convolution {
    const haul__call  *call;
    haul__conv2d       settings;              /* without buffers and offsets */
    haul_tensor       *x, *weight, *y, *bias; /* bias is NULL for none */
    haul__convolution *wide;
};

/* Write y, x's gradient to x, or the weight's gradient to weight. All tensors are row-major and on the call's device;
 * no size is 0. */
haul_status haul__conv2d_flat_forward(const haul__convolution *v);
haul_status haul__conv2d_flat_data(const haul__convolution *v);
haul_status haul__conv2d_flat_weight(const haul__convolution *v);

#endif
