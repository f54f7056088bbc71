/* Pooling over windows as operations: their attributes, and the functions of pool2d_run.c that compute them. */
#ifndef HAUL_OPS_POOL2D_H
#define HAUL_OPS_POOL2D_H

#include "engine/operation.h"

/* Pairs are {rows, columns}. infer completes what is not given; gradients take all of it over. */
typedef struct haul__pool2d_attributes {
    int64_t size[2], stride[2], padding[2];
    int64_t in[2], out[2], channels; /* planes of x and y */
    bool    exclude_padding;
    bool    adaptive; /* `out` is given, and the windows are x cut into so many parts, rounded outwards */
    bool    given;    /* stride and padding are as the user gave them */
    bool    channels_last;
} haul__pool2d_attributes;

haul_status haul__pool2d_max(haul__call *c);
haul_status haul__pool2d_avg(haul__call *c);
haul_status haul__pool2d_backward(haul__call *c); /* gradients; that of the maximum reads its index */
haul_status haul__pool2d_pick(haul__call *c);

extern HAUL__OPERATION(max_pool2d);
extern HAUL__OPERATION(avg_pool2d);

#endif
