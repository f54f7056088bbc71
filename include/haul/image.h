/* Images and other signals on the device: another size.
 *
 * Pictures are [N, C, H, W]; their memory may be channels-last. */
#ifndef HAUL_IMAGE_H
#define HAUL_IMAGE_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

/* How elements between those of x are computed.
 *
 * - HAUL_NEAREST: the nearest element, towards the start as in PyTorch
 * - HAUL_BILINEAR: the weighted mean of the two neighbours along each axis: of four in pictures, which is linear in one
 *   dimension and trilinear in three
 * - HAUL_NEAREST_EXACT: the element whose middle is the nearest
 * - HAUL_BICUBIC: cubic convolution of four neighbours along each axis (Keys 1981), with a = -3/4
 * - HAUL_AREA: the mean of the elements that the result's element covers in part or whole */
typedef enum haul_interpolation {
    HAUL_NEAREST,
    HAUL_BILINEAR,
    HAUL_NEAREST_EXACT,
    HAUL_BICUBIC,
    HAUL_AREA
} haul_interpolation;

/* x with other sizes of the axes after the channels. Give either .size or .scale:
 *
 *     haul_tensor *larger = haul_interpolate(x, .scale = {2, 2});
 *     haul_tensor *exact = haul_interpolate(x, .size = {32, 32}, .mode = HAUL_BILINEAR);
 *     haul_tensor *small = haul_interpolate(x, .size = {8, 8}, .mode = HAUL_BICUBIC, .antialias = true);
 *
 * For n elements along an axis of x, m of the result and r = n / m, or 1 / scale if .scale is given, element i of the
 * result comes from this position of x:
 *
 * - `HAUL_NEAREST`: floor(i r), at most n - 1
 * - `HAUL_NEAREST_EXACT`: floor((i + 1/2) r), at most n - 1
 * - `HAUL_BILINEAR` and `HAUL_BICUBIC`: (i + 1/2) r - 1/2; the elements outside of x are those at its ends
 * - the same with .align_corners: i (n - 1) / (m - 1)
 * - `HAUL_AREA`: all from floor(i n / m) to ceil((i + 1) n / m) - 1
 *
 * With .antialias a smaller result is made with weights that reach r times as far, as Pillow does (and a = -1/2). A u8
 * result is computed in f32 and rounded to the nearest integer; it has no gradient. */
typedef struct HAUL__DESIGNATED haul_interpolate_options {
    haul_tensor *x; /* [N, C, L], [N, C, H, W] or [N, C, D, H, W] of a floating dtype or u8; positional */
    HAUL__GUARD(size)
    int64_t            size[3];  /* of the result, a number for each axis after the channels: {rows, columns} */
    double             scale[3]; /* the result has floor(rows scale[0]) rows, floor(columns scale[1]) columns */
    haul_interpolation mode;     /* how to interpolate; default HAUL_NEAREST */
    /* HAUL_BILINEAR and HAUL_BICUBIC only: the corner elements of x and of the result are at the same positions */
    bool align_corners;
    bool antialias; /* HAUL_BILINEAR and HAUL_BICUBIC only: a smaller result shows all elements of x */
} haul_interpolate_options;
#define haul_interpolate(...) haul_interpolate_with(HAUL__OPTIONS(haul_interpolate_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_interpolate_with(const haul_interpolate_options *options);
#define haul_interpolate_into(out, ...)                                                                                \
    haul_interpolate_into_with(out, HAUL__OPTIONS(haul_interpolate_options, .x = __VA_ARGS__))
HAUL_API haul_status haul_interpolate_into_with(haul_tensor *out, const haul_interpolate_options *options);

HAUL_END

#endif
