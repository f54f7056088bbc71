/* 2-d convolution by portable kernels. */
#ifndef HAUL_OPS_CONV_CONV2D_FLAT_H
#define HAUL_OPS_CONV_CONV2D_FLAT_H

#include "backends/implementation.h"
#include "engine/operation.h"

/* One of the three passes on its tensors: x, weight, y and bias, or their gradients. */
typedef struct haul__convolution {
    const haul__call *call;
    haul__conv2d      settings;
    haul_tensor      *x, *weight, *y, *bias; /* NULL: no bias */
} haul__convolution;

/* Writes y, x's gradient to x, or the weight's gradient to weight. All tensors are row-major and on the call's device;
 * no size is 0. */
haul_status haul__conv2d_flat_forward(const haul__convolution *v);
haul_status haul__conv2d_flat_data(const haul__convolution *v);
haul_status haul__conv2d_flat_weight(const haul__convolution *v);

#endif
