/* Pooling over windows as operations: their attributes, and the functions of pool2d_run.c that compute them. */
#ifndef HAUL_OPS_POOL_POOL2D_H
#define HAUL_OPS_POOL_POOL2D_H

#include "engine/operation.h"

/* Pairs are {rows, columns}. infer fills in defaults; gradients copy all fields. */
typedef struct haul__pool2d_attributes {
    int64_t size[2], stride[2], padding[2];
    int64_t in[2], out[2], channels; /* planes of x and y */
    bool    exclude_padding;
    bool    adaptive; /* `out` is given, and the windows are that many parts of x, rounded outwards */
    bool    given;    /* stride and padding are the user's */
    bool    channels_last;
    bool    reserved[4];
} haul__pool2d_attributes;

haul_status haul__pool2d_max(haul__call *c);
haul_status haul__pool2d_avg(haul__call *c);
haul_status haul__pool2d_backward(haul__call *c); /* gradients; that of the maximum reads the forward pass's index */
haul_status haul__pool2d_pick(haul__call *c);

extern HAUL__OPERATION(max_pool2d);
extern HAUL__OPERATION(avg_pool2d);

#endif
