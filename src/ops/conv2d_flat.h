/* 2-d convolution by kernels. All tensors are row-major and on one device; sizes are those of `c`, none of them 0. */
#ifndef HAUL_OPS_CONV2D_FLAT_H
#define HAUL_OPS_CONV2D_FLAT_H

#include "engine/dispatch.h"

/* y from x, weight and bias (or NULL). */
haul_status haul__conv2d_flat_forward(const haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *bias,
                                      haul_tensor *y);

/* x's gradient, written to `x`, from weight and dy. */
haul_status haul__conv2d_flat_data(const haul__conv2d *c, haul_tensor *x, haul_tensor *weight, haul_tensor *dy);

/* The weight's gradient from x and dy, as a tensor of the innermost scope. */
haul_tensor *haul__conv2d_flat_weight(const haul__conv2d *c, haul_tensor *x, haul_tensor *dy);

#endif
