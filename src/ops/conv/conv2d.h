/* The passes of a 2-d convolution as operations: their attributes, and the functions of conv2d_run.c for each. */
#ifndef HAUL_OPS_CONV_CONV2D_H
#define HAUL_OPS_CONV_CONV2D_H

#include "backends/implementation.h"
#include "engine/implementation.h"
#include "engine/operation.h"

typedef struct haul__conv2d_attributes {
    int64_t stride[2], padding[2], dilation[2], groups;
    int64_t size[2], taps[2]; /* rows and columns of x and of the weight, which the other shapes do not determine */
    bool    relu;
    bool    given;         /* stride, padding and dilation are as the user gave them */
    bool    channels_last; /* the format in which it is computed; chosen by infer */
    bool    reserved[5];
} haul__conv2d_attributes;

typedef struct haul__conv_transpose2d_attributes {
    haul__conv2d_attributes conv; /* of the convolution; first, because the functions of conv2d.h expect it */
    int64_t                 output_padding[2];
} haul__conv_transpose2d_attributes;

/* The descriptor's `extra` points to one of these, in the order of their enum. The operands are x or dy, then the
 * weight or dy, then the bias if the pass has one. */
extern const haul__conv2d_pass haul__conv2d_passes[];

/* The other fields of the descriptor. x or the weight must have a floating dtype; the bias does not count. A product
 * costs two flops for each tap that an element of y meets, in each of the three passes. */
haul_dtype                         haul__conv2d_common_dtype(const haul__call *c);
haul_status                        haul__conv2d_compute(haul__call *c);
haul__cost                         haul__conv2d_cost(const haul__call *c);
extern const haul__implementations haul__conv2d_implementations;

/* For infer, with complete attributes: describes the result, and decides in which format the pass is computed: the one
 * that an implementation prefers, else row-major. The result is channels-last if it is computed so or, if it `follows`
 * the operands, if one of them is. */
haul_status haul__conv2d_describe(haul__call *c, const haul_shape *shape, bool follows);

/* A convolution and its gradient of the weight, which are the gradients of other operations. */
extern HAUL__OPERATION(conv2d);
extern HAUL__OPERATION(conv2d_backward_weight);

#endif
