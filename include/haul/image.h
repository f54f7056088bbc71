/* Images and other signals on the device: another size, and samples at any positions.
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
 *
 * - grid: [N, rows, columns, 2] of a floating dtype; x and grid are cast to the dtype that they promote to
 * - mode: HAUL_NEAREST (the even one of two that are equally near), HAUL_BILINEAR or HAUL_BICUBIC; positional
 *
 * The result is [N, C, rows, columns]. A position that is not a number counts as outside. Gradients flow to x and grid,
 * to any order; they are bit-identical for any number of threads. f16 and bf16 are computed in f32. */
typedef struct HAUL__DESIGNATED haul_grid_sample_options {
    haul_tensor       *x;    /* [N, C, H, W] of a floating dtype; positional */
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

HAUL_END

#endif
