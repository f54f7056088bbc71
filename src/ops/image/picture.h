/* What operations on pictures [..., H, W] share: floats have values from 0 to 1, u8 from 0 to 255. */
#ifndef HAUL_OPS_IMAGE_PICTURE_H
#define HAUL_OPS_IMAGE_PICTURE_H

#include "ops/image/image.h"

/* The dtypes that pictures may have. */
#define HAUL__PICTURES (HAUL__FLOATS | HAUL__ONLY(HAUL_U8))

/* For compose: operand 0 is [..., H, W], or with channels > 0 [..., C, H, W] with C = 3, or with `grey` also 1, and the
 * thread's device becomes the call's. */
haul_status haul__check_picture(const haul__call *c, int channels, bool grey);

/* For compose: the result, which becomes a copy if it is the operand itself. */
haul_status haul__give_picture(haul__call *c, haul_tensor *y);

/* The dtype in which pictures are computed: f64, or f32 for all others. */
haul_tensor *haul__picture_wide(haul_tensor *x);
/* The value of white. */
double haul__picture_white(haul_dtype dtype);
/* A computed picture as `dtype`: u8 is rounded to the nearest value. */
haul_tensor *haul__picture_rounded(haul_tensor *y, haul_dtype dtype);
/* The same with values cut to those from black to white; u8 is truncated. */
haul_tensor *haul__picture_cut(haul_tensor *y, haul_dtype dtype);
/* x [..., H, W] as [pictures, 1, H, W], and back in the shape of x with other sizes of the last two axes. */
haul_tensor *haul__picture_planes(haul_tensor *x);
haul_tensor *haul__picture_of_planes(haul_tensor *y, const haul_shape *x, int64_t rows, int64_t columns);

#endif
