/* Images: [N, C, ...] with one to three axes of positions. */
#ifndef HAUL_OPS_IMAGE_IMAGE_H
#define HAUL_OPS_IMAGE_IMAGE_H

#include "engine/operation.h"

/* Sizes of axes: products of two of them and a small number fit 64 bits. */
enum { HAUL__IMAGE_LONGEST = 1 << 30 };

/* Element d of an axis of y is at (d mul + add) / div of x's axis, which is greater than -1; mul = skip div + rest. */
typedef struct haul__position {
    int64_t mul, add, div, skip, rest;
} haul__position;

/* An axis that is resized: the number of elements, where those of y are in x, and the ratio num / den of x's size to
 * y's, or the scale's inverse. */
typedef struct haul__resized_axis {
    int64_t        in, out, num, den;
    haul__position at;
} haul__resized_axis;

/* x [N, C, H, W] of a floating dtype, by the nearest or (`linear`) the four nearest elements (planes.c). */
haul_tensor *haul__interpolate_planes(haul_tensor *x, const haul__resized_axis axes[2], bool linear);
/* Sizes and positions of the axes, from the operation's attributes; returns `linear`. */
bool haul__interpolate_planes_of(const void *attributes, haul__resized_axis axes[2]);

/* How an axis is resampled (resample.c). */
typedef enum haul__resampling {
    HAUL__RESAMPLE_NEAREST,
    HAUL__RESAMPLE_LINEAR,
    HAUL__RESAMPLE_CUBIC,
    HAUL__RESAMPLE_AREA,
    HAUL__RESAMPLE_SMOOTH_LINEAR, /* antialiased */
    HAUL__RESAMPLE_SMOOTH_CUBIC
} haul__resampling;

/* x [N, C, ...] of f32 or f64 with another size of `axis`. */
haul_tensor *haul__resample(haul_tensor *x, int axis, const haul__resized_axis *of, haul__resampling kind);

#endif
