/* The passes of a 2-d convolution as operations: their attributes, and what conv2d_run.c does for each. */
#ifndef HAUL_OPS_CONV2D_H
#define HAUL_OPS_CONV2D_H

#include "backends/implementation.h"
#include "engine/implementation.h"
#include "engine/operation.h"

typedef struct haul__conv2d_attributes {
    int64_t stride[2], padding[2], dilation[2], groups;
    int64_t size[2], taps[2]; /* rows and columns of x and of the weight, which other shapes do not tell */
    bool    relu;
    bool    given;         /* stride, padding and dilation are as the user gave them */
    bool    channels_last; /* what it is computed in; infer's choice */
} haul__conv2d_attributes;

/* The descriptor's `extra` points to one of these, in the order of their enum. The operands are x or dy, then the
 * weight or dy, then the bias, if the pass has one. */
extern const haul__conv2d_pass haul__conv2d_passes[];

/* The rest of the descriptor. x or the weight has a floating dtype; the bias does not count for that. A product costs
 * two operations for each tap that an element of y meets, in each of the three passes. */
haul_dtype                         haul__conv2d_common_dtype(const haul__call *c);
haul_status                        haul__conv2d_compute(haul__call *c);
haul__cost                         haul__conv2d_cost(const haul__call *c);
extern const haul__implementations haul__conv2d_implementations;

/* For infer, with complete attributes: describe the result, and settle the format that the pass is computed in. It is
 * that of an implementation that wants one, else row-major. The result is channels-last if it is computed so, and, if
 * it `follows` them, if an operand is. */
haul_status haul__conv2d_describe(haul__call *c, const haul_shape *shape, bool follows);

/* A convolution and its gradient of the weight, which other operations' gradients are. */
extern HAUL__OPERATION(conv2d);
extern HAUL__OPERATION(conv2d_backward_weight);

#endif
