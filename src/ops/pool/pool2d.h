/* Pooling over windows as operations: their attributes, and the functions of pool2d_run.c that compute them. */
#ifndef HAUL_OPS_POOL_POOL2D_H
#define HAUL_OPS_POOL_POOL2D_H

#include "engine/operation.h"
#include "kernels/types.h"
#include "ops/pool/pool2d_kernel.h"

/* Pairs are {rows, columns}. infer fills in defaults; gradients copy all fields. */
typedef struct haul__pool2d_attributes {
    int64_t size[2], stride[2], padding[2], dilation[2];
    int64_t divisor;                 /* of a mean; 0: the number of elements of the window */
    int64_t in[2], out[2], channels; /* planes of x and y */
    bool    exclude_padding;
    bool    adaptive; /* `out` is given, and the windows are that many parts of x, rounded outwards */
    bool    given;    /* stride and padding are the user's */
    bool    channels_last;
    bool    ceil_mode;
    bool    plain; /* for the kernels of pool2d_plain.c */
    bool    reserved[2];
} haul__pool2d_attributes;

/* As the options say, not completed. */
haul__pool2d_attributes haul__pool2d_attributes_of(const haul_pool2d_options *o);

haul_status haul__pool2d_max(haul__call *c);
haul_status haul__pool2d_avg(haul__call *c);
haul_status haul__pool2d_backward(haul__call *c); /* gradients; that of the maximum reads the forward pass's index */
haul_status haul__pool2d_pick(haul__call *c);

/* The params without offsets and items. */
pool2d_params haul__pool2d_params(const haul__pool2d_attributes *a);

/* pool2d_plain.c. The gradient of the mean takes the gradient in the format of x. */
haul_status haul__pool2d_plain_max(haul__call *c);
haul_status haul__pool2d_plain_avg(haul__call *c);
haul_status haul__pool2d_plain_spread(haul__call *c, haul_tensor *g);

/* Applies an operation that gives the largest elements and their places; attributes NULL: the options are missing. */
haul_status haul__apply_windows(const haul__operation *operation, const void *attributes, haul_tensor *x,
                                haul_tensor **y, haul_tensor **indices);

extern HAUL__OPERATION(max_pool2d);
extern HAUL__OPERATION(avg_pool2d);
extern HAUL__OPERATION(max_pool2d_found); /* results y and index, an i32 place in a plane */

#endif
