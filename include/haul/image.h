/* Images and other signals on the device: other sizes, samples at any positions, and pictures that are turned, warped,
 * recoloured and filtered.
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

/* ---- Samples at any positions ---- */

/* What positions outside of a picture show:
 *
 * - HAUL_GRID_ZEROS: zeros
 * - HAUL_GRID_BORDER: the nearest element of the picture
 * - HAUL_GRID_REFLECTION: the picture mirrored at its edges; with .align_corners at the middles of its outer elements
 */
typedef enum haul_grid_padding { HAUL_GRID_ZEROS, HAUL_GRID_BORDER, HAUL_GRID_REFLECTION } haul_grid_padding;

/* Elements of x at the positions of a grid: haul_grid_sample(x, grid, HAUL_BILINEAR, .padding = HAUL_GRID_BORDER).
 *
 * Element [n, c, i, j] of the result is plane [n, c] of x at column grid[n, i, j, 0] and row grid[n, i, j, 1]. -1 and 1
 * are the outer edges of x, or with .align_corners the middles of its outer elements: 0 is always the middle of x.
 * Volumes have a third position, grid[n, i, j, k, 2], of the layer.
 *
 * - x: [N, C, H, W] or [N, C, D, H, W] of a floating dtype
 * - grid: [N, rows, columns, 2], or [N, layers, rows, columns, 3] for volumes, of a floating dtype; x and grid are cast
 *   to the dtype that they promote to
 * - mode: HAUL_NEAREST (the even one of two that are equally near), HAUL_BILINEAR (in volumes trilinear) or
 *   HAUL_BICUBIC (only for pictures); positional
 *
 * The result is [N, C, rows, columns] or [N, C, layers, rows, columns]. A position that is not a number counts as
 * outside. Gradients flow to x and grid, to any order; they are bit-identical for any number of threads. f16 and bf16
 * are computed in f32. */
typedef struct HAUL__DESIGNATED haul_grid_sample_options {
    haul_tensor       *x;    /* pictures or volumes; positional */
    haul_tensor       *grid; /* the positions; positional */
    haul_interpolation mode; /* how to interpolate; positional */
    HAUL__GUARD(padding)
    haul_grid_padding padding;       /* what positions outside of x show; default HAUL_GRID_ZEROS */
    bool              align_corners; /* -1 and 1 are the middles of the outer elements of x, not its edges */
} haul_grid_sample_options;
#define haul_grid_sample(x_, grid_, ...)                                                                               \
    haul_grid_sample_with(HAUL__OPTIONS(haul_grid_sample_options, .x = (x_), .grid = (grid_), .mode = __VA_ARGS__))
HAUL_API haul_tensor *haul_grid_sample_with(const haul_grid_sample_options *options);

/* A grid for haul_grid_sample, [N, rows, columns, 2]: the positions of the elements of a picture with `rows` and
 * `columns`, moved by theta.
 *
 * Position (x, y) becomes (theta[n, 0, 0] x + theta[n, 0, 1] y + theta[n, 0, 2], theta[n, 1, 0] x + theta[n, 1, 1] y +
 * theta[n, 1, 2]).
 *
 * - theta: [N, 2, 3] of a floating dtype, which the grid has, too
 * - align_corners: as that of haul_grid_sample; give both the same */
HAUL_API haul_tensor *haul_affine_grid(haul_tensor *theta, int64_t rows, int64_t columns, bool align_corners);

/* haul_affine_grid for volumes: [N, layers, rows, columns, 3].
 *
 * - theta: [N, 3, 4] of a floating dtype, for positions (x, y, z, 1)
 * - align_corners: as that of haul_grid_sample; give both the same */
HAUL_API haul_tensor *haul_affine_grid3d(haul_tensor *theta, int64_t layers, int64_t rows, int64_t columns,
                                         bool align_corners);

/* ---- Pictures turned and warped ----
 *
 * Pictures are [..., H, W] of a floating dtype or u8, with any number of axes in front. Functions here and
 * below that torchvision.transforms.v2.functional has, too, compute the same as these. u8 and half precision are
 * computed in f32. Warps and filters round u8; colours, tones and haul_adjust_sharpness truncate it. All are made of
 * other operations, so gradients flow through pictures of floating dtypes. */

typedef struct HAUL__DESIGNATED haul_rotate_options {
    double degrees; /* counter-clockwise; positional */
    HAUL__GUARD(mode)
    haul_interpolation mode;      /* HAUL_NEAREST, HAUL_BILINEAR or HAUL_BICUBIC; default HAUL_NEAREST */
    bool               expand;    /* the result has room for the whole turned picture, not only the size of x */
    double             center[2]; /* {x, y} from the upper left corner; HAUL_ZERO for 0; default the middle */
    double             fill;      /* the value outside of x; default 0 */
} haul_rotate_options;

/* x turned around its center: haul_rotate(x, 15, .mode = HAUL_BILINEAR). Multiples of 90 degrees around the middle only
 * move elements where the result has room for them. */
#define haul_rotate(x, ...) haul_rotate_with(x, HAUL__OPTIONS(haul_rotate_options, .degrees = __VA_ARGS__))
HAUL_API haul_tensor *haul_rotate_with(haul_tensor *x, const haul_rotate_options *options);

typedef struct HAUL__DESIGNATED haul_warp_affine_options {
    haul_tensor *x; /* [..., H, W]; positional */
    HAUL__GUARD(degrees)
    double             degrees;      /* by how much x is turned, clockwise; default 0 */
    double             translate[2]; /* {right, down}, in elements; default 0 */
    double             scale;        /* how much larger the content becomes, at least 1e-6; default 1 */
    double             shear[2];     /* {along x, along y}, in degrees between -90 and 90; default 0 */
    haul_interpolation mode;         /* HAUL_NEAREST, HAUL_BILINEAR or HAUL_BICUBIC; default HAUL_NEAREST */
    double             center[2];    /* {x, y} from the upper left corner; HAUL_ZERO for 0; default the middle */
    double             fill;         /* the value outside of x; default 0 */
} haul_warp_affine_options;

/* x scaled, sheared and turned around its center, and then moved, in the same size:
 * haul_warp_affine(x, .degrees = 10, .scale = 1.2, .translate = {4, 0}). */
#define haul_warp_affine(...) haul_warp_affine_with(HAUL__OPTIONS(haul_warp_affine_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_warp_affine_with(const haul_warp_affine_options *options);

typedef struct HAUL__DESIGNATED haul_warp_perspective_options {
    haul_tensor *x; /* [..., H, W]; positional */
    HAUL__GUARD(from)
    double             from[8]; /* four corners in x, {x, y, x, y, ...} from the upper left corner */
    double             to[8];   /* where they are in the result */
    haul_interpolation mode;    /* HAUL_NEAREST, HAUL_BILINEAR or HAUL_BICUBIC; default HAUL_NEAREST; torchvision's
                                 * default is bilinear here */
    double fill;                /* the value outside of x; default 0 */
} haul_warp_perspective_options;

/* x as seen from elsewhere, in the same size: four of its corners move to given positions. Fails if three corners of
 * `to` are on one line. */
#define haul_warp_perspective(...)                                                                                     \
    haul_warp_perspective_with(HAUL__OPTIONS(haul_warp_perspective_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_warp_perspective_with(const haul_warp_perspective_options *options);

/* ---- Colours ----
 *
 * Pictures are [..., C, H, W] with red, green and blue: floats from 0 to 1, or u8 from 0 to 255. Results are cut to
 * this range, and u8 is truncated to whole values. Pictures with one channel are grey. */

/* Grey pictures [..., 1, H, W], 0.2989 red + 0.587 green + 0.114 blue. Grey pictures stay. */
HAUL_API haul_tensor *haul_rgb_to_grayscale(haul_tensor *x);

/* Hue, saturation and value of each element (Smith 1978), and back. Hue is a part of the colour circle, from 0 to 1.
 *
 * - x: [..., 3, H, W] of a floating dtype */
HAUL_API haul_tensor *haul_rgb_to_hsv(haul_tensor *x);
HAUL_API haul_tensor *haul_hsv_to_rgb(haul_tensor *x);

/* Pictures that are brighter, richer in contrast or in colour for factors above 1, and less so below: `factor` x +
 * (1 - `factor`) z, where z is black, the mean grey of the picture, or the grey of each element, respectively.
 *
 * - factor: at least 0 */
HAUL_API haul_tensor *haul_adjust_brightness(haul_tensor *x, double factor);
HAUL_API haul_tensor *haul_adjust_contrast(haul_tensor *x, double factor);
HAUL_API haul_tensor *haul_adjust_saturation(haul_tensor *x, double factor);

/* Pictures with all hues moved on the colour circle.
 *
 * - factor: by how much, from -0.5 to 0.5 */
HAUL_API haul_tensor *haul_adjust_hue(haul_tensor *x, double factor);

/* ---- Tones ----
 *
 * Pictures are [..., H, W]: floats from 0 to 1, or u8 from 0 to 255. */

/* White minus x: the negative. */
HAUL_API haul_tensor *haul_invert(haul_tensor *x);

/* x with the elements at or above a threshold inverted.
 *
 * - threshold: at most white */
HAUL_API haul_tensor *haul_solarize(haul_tensor *x, double threshold);

/* x with fewer levels: 2^bits of them.
 *
 * - bits: from 0 to 8 */
HAUL_API haul_tensor *haul_posterize(haul_tensor *x, int bits);

/* Each plane rescaled so that its darkest element is black and its brightest white. Planes of one value are unchanged.
 */
HAUL_API haul_tensor *haul_autocontrast(haul_tensor *x);

/* Histogram equalisation of each plane, in 256 levels, as Pillow does it. The
 * result has no gradient. */
HAUL_API haul_tensor *haul_equalize(haul_tensor *x);

/* ---- Filters ----
 *
 * Pictures are [..., H, W]. A size is that of a square window: odd, and its half less than the rows and columns. */

/* The weighted mean of a window, by a normal distribution around its middle; the picture is mirrored at its edges.
 *
 * - sigma: the standard deviation, in elements; 0 stands for 0.15 size + 0.35 */
HAUL_API haul_tensor *haul_gaussian_blur(haul_tensor *x, int64_t size, double sigma);

/* Sharper pictures for factors above 1, smoother ones below: `factor` x + (1 - `factor`) z, where z is a mean of nine
 * neighbours in which the middle counts five times. Elements at the edges stay. Results are cut to the range of
 * pictures, and u8 is truncated.
 *
 * - factor: at least 0 */
HAUL_API haul_tensor *haul_adjust_sharpness(haul_tensor *x, double factor);

/* The median of each window; elements outside are those at the edges. All windows are in memory at once, size^2
 * elements for each one of x. */
HAUL_API haul_tensor *haul_median_blur(haul_tensor *x, int64_t size);

/* The largest, or smallest, element of each window; elements outside the picture are ignored. haul_dilate after
 * haul_erode opens a mask, and the other order closes it. */
HAUL_API haul_tensor *haul_dilate(haul_tensor *x, int64_t size);
HAUL_API haul_tensor *haul_erode(haul_tensor *x, int64_t size);

HAUL_END

#endif
