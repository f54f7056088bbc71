/* Convolution, pooling and interpolation: operations as those of ops.h. x is [N, C, H, W], in the 1-d forms [N, C, L].
 */
#ifndef HAUL_CONV_H
#define HAUL_CONV_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

typedef struct HAUL__DESIGNATED haul_conv2d_options {
    haul_tensor *bias; /* [C_out] or HAUL_NONE; positional */
    HAUL__GUARD
    int64_t stride[2];   /* {vertical, horizontal}; default {1, 1} */
    int64_t padding[2];  /* zeros around, {vertical, horizontal}; default none; {1, HAUL_ZERO} pads rows only */
    int64_t dilation[2]; /* as stride */
    int64_t groups;      /* default 1; C_in and C_out are multiples of it */
    bool    relu;        /* as in haul_linear_options */
} haul_conv2d_options;

/* Cross-correlation with weight [C_out, C_in / groups, KH, KW]; the result has
 * floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1 rows and columns. It is channels-last where x or
 * the weight is, and where the device's library computes so. Dtypes promote; x or the weight has a floating one. */
#define haul_conv2d(x, weight, ...) haul_conv2d_with(x, weight, HAUL__OPTIONS(haul_conv2d_options, .bias = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv2d_with(haul_tensor *x, haul_tensor *weight, const haul_conv2d_options *options);
/* The same into `out`: haul_conv2d_into(out, x, weight, bias, .padding = {1, 1}). */
#define haul_conv2d_into(out, x, weight, ...)                                                                          \
    haul_conv2d_into_with(out, x, weight, HAUL__OPTIONS(haul_conv2d_options, .bias = __VA_ARGS__))
HAUL_API haul_status haul_conv2d_into_with(haul_tensor *out, haul_tensor *x, haul_tensor *weight,
                                           const haul_conv2d_options *options);

/* The same in one dimension, with weight [C_out, C_in / groups, K]. */
typedef struct HAUL__DESIGNATED haul_conv1d_options {
    haul_tensor *bias; /* [C_out] or HAUL_NONE; positional */
    HAUL__GUARD
    int64_t stride, padding, dilation, groups; /* defaults 1, 0, 1, 1 */
    bool    relu;                              /* as in haul_linear_options */
} haul_conv1d_options;
#define haul_conv1d(x, weight, ...) haul_conv1d_with(x, weight, HAUL__OPTIONS(haul_conv1d_options, .bias = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv1d_with(haul_tensor *x, haul_tensor *weight, const haul_conv1d_options *options);
#define haul_conv1d_into(out, x, weight, ...)                                                                          \
    haul_conv1d_into_with(out, x, weight, HAUL__OPTIONS(haul_conv1d_options, .bias = __VA_ARGS__))
HAUL_API haul_status haul_conv1d_into_with(haul_tensor *out, haul_tensor *x, haul_tensor *weight,
                                           const haul_conv1d_options *options);

typedef struct HAUL__DESIGNATED haul_conv_transpose2d_options {
    haul_tensor *bias; /* [C_out] or HAUL_NONE; positional */
    HAUL__GUARD
    int64_t stride[2], padding[2]; /* of the convolution, as in haul_conv2d: strides spread, padding takes away */
    int64_t output_padding[2];     /* rows and columns more at the end; less than the stride; default none */
    int64_t dilation[2], groups;   /* as in haul_conv2d */
} haul_conv_transpose2d_options;

/* The gradient of haul_conv2d with respect to its input, with a bias: weight is [C_in, C_out / groups, KH, KW], and the
 * result has (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1 rows and columns (Dumoulin,
 * Visin 2016). Formats and dtypes are as in haul_conv2d. */
#define haul_conv_transpose2d(x, weight, ...)                                                                          \
    haul_conv_transpose2d_with(x, weight, HAUL__OPTIONS(haul_conv_transpose2d_options, .bias = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv_transpose2d_with(haul_tensor *x, haul_tensor *weight,
                                                 const haul_conv_transpose2d_options *options);
/* The same into `out`: haul_conv_transpose2d_into(out, x, weight, bias, .stride = {2, 2}). */
#define haul_conv_transpose2d_into(out, x, weight, ...)                                                                \
    haul_conv_transpose2d_into_with(out, x, weight, HAUL__OPTIONS(haul_conv_transpose2d_options, .bias = __VA_ARGS__))
HAUL_API haul_status haul_conv_transpose2d_into_with(haul_tensor *out, haul_tensor *x, haul_tensor *weight,
                                                     const haul_conv_transpose2d_options *options);

/* The same in one dimension, with weight [C_in, C_out / groups, K]. */
typedef struct HAUL__DESIGNATED haul_conv_transpose1d_options {
    haul_tensor *bias; /* [C_out] or HAUL_NONE; positional */
    HAUL__GUARD
    int64_t stride, padding, output_padding, dilation, groups; /* defaults 1, 0, 0, 1, 1 */
} haul_conv_transpose1d_options;
#define haul_conv_transpose1d(x, weight, ...)                                                                          \
    haul_conv_transpose1d_with(x, weight, HAUL__OPTIONS(haul_conv_transpose1d_options, .bias = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv_transpose1d_with(haul_tensor *x, haul_tensor *weight,
                                                 const haul_conv_transpose1d_options *options);
#define haul_conv_transpose1d_into(out, x, weight, ...)                                                                \
    haul_conv_transpose1d_into_with(out, x, weight, HAUL__OPTIONS(haul_conv_transpose1d_options, .bias = __VA_ARGS__))
HAUL_API haul_status haul_conv_transpose1d_into_with(haul_tensor *out, haul_tensor *x, haul_tensor *weight,
                                                     const haul_conv_transpose1d_options *options);

typedef struct HAUL__DESIGNATED haul_pool2d_options {
    int64_t size; /* of a square window, else its height; positional */
    HAUL__GUARD
    int64_t size_w;          /* width of a window that is not square */
    int64_t stride[2];       /* {vertical, horizontal}; default the window's size */
    int64_t padding[2];      /* at most half the window; default none; {1, HAUL_ZERO} pads rows only */
    bool    exclude_padding; /* average only: divide by the elements inside x */
} haul_pool2d_options;

/* The largest element, or the mean, of windows of x, which has a floating dtype; the result has
 * floor((size + 2 padding - window) / stride) + 1 rows and columns. Padding is never the largest; in a mean it is 0. */
#define haul_max_pool2d(x, ...) haul_max_pool2d_with(x, HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
#define haul_avg_pool2d(x, ...) haul_avg_pool2d_with(x, HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
HAUL_API haul_tensor *haul_max_pool2d_with(haul_tensor *x, const haul_pool2d_options *options);
HAUL_API haul_tensor *haul_avg_pool2d_with(haul_tensor *x, const haul_pool2d_options *options);
/* The same into `out`: haul_max_pool2d_into(out, x, 2, .stride = {2, 2}). */
#define haul_max_pool2d_into(out, x, ...)                                                                              \
    haul_max_pool2d_into_with(out, x, HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
#define haul_avg_pool2d_into(out, x, ...)                                                                              \
    haul_avg_pool2d_into_with(out, x, HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
HAUL_API haul_status haul_max_pool2d_into_with(haul_tensor *out, haul_tensor *x, const haul_pool2d_options *options);
HAUL_API haul_status haul_avg_pool2d_into_with(haul_tensor *out, haul_tensor *x, const haul_pool2d_options *options);

/* The same in one dimension. */
typedef struct HAUL__DESIGNATED haul_pool1d_options {
    int64_t size; /* of the window; positional */
    HAUL__GUARD
    int64_t stride, padding; /* as in haul_pool2d_options */
    bool    exclude_padding;
} haul_pool1d_options;
#define haul_max_pool1d(x, ...) haul_max_pool1d_with(x, HAUL__OPTIONS(haul_pool1d_options, .size = __VA_ARGS__))
#define haul_avg_pool1d(x, ...) haul_avg_pool1d_with(x, HAUL__OPTIONS(haul_pool1d_options, .size = __VA_ARGS__))
HAUL_API haul_tensor *haul_max_pool1d_with(haul_tensor *x, const haul_pool1d_options *options);
HAUL_API haul_tensor *haul_avg_pool1d_with(haul_tensor *x, const haul_pool1d_options *options);
#define haul_max_pool1d_into(out, x, ...)                                                                              \
    haul_max_pool1d_into_with(out, x, HAUL__OPTIONS(haul_pool1d_options, .size = __VA_ARGS__))
#define haul_avg_pool1d_into(out, x, ...)                                                                              \
    haul_avg_pool1d_into_with(out, x, HAUL__OPTIONS(haul_pool1d_options, .size = __VA_ARGS__))
HAUL_API haul_status haul_max_pool1d_into_with(haul_tensor *out, haul_tensor *x, const haul_pool1d_options *options);
HAUL_API haul_status haul_avg_pool1d_into_with(haul_tensor *out, haul_tensor *x, const haul_pool1d_options *options);

/* Pooling to `height` x `width`, whatever x's size: row i of the result is of x's rows floor(i H / height) to
 * ceil((i + 1) H / height) - 1, and so are columns. */
HAUL_API haul_tensor *haul_adaptive_max_pool2d(haul_tensor *x, int64_t height, int64_t width);
HAUL_API haul_tensor *haul_adaptive_avg_pool2d(haul_tensor *x, int64_t height, int64_t width);
HAUL_API haul_status  haul_adaptive_max_pool2d_into(haul_tensor *out, haul_tensor *x, int64_t height, int64_t width);
HAUL_API haul_status  haul_adaptive_avg_pool2d_into(haul_tensor *out, haul_tensor *x, int64_t height, int64_t width);

typedef enum haul_interpolation { HAUL_NEAREST, HAUL_BILINEAR } haul_interpolation;

/* haul_interpolate(x, .scale = {2, 2}), haul_interpolate(x, .size = {32, 32}, .mode = HAUL_BILINEAR): x, which has a
 * floating dtype, with planes of another size; one of size and scale is given. With n elements of an axis of x, m of
 * the result and r = n / m, or 1 / scale if scale is given, element i comes from x's element
 *   floor(i r), at most n - 1              (HAUL_NEAREST);
 *   (i + 1/2) r - 1/2, at least 0          (HAUL_BILINEAR), as a mean of the neighbours in both directions;
 *   i (n - 1) / (m - 1)                    (HAUL_BILINEAR with align_corners). */
typedef struct HAUL__DESIGNATED haul_interpolate_options {
    haul_tensor *x; /* positional */
    HAUL__GUARD
    int64_t            size[2];  /* {rows, columns} of the result */
    double             scale[2]; /* the result has floor(rows scale[0]) rows and floor(columns scale[1]) columns */
    haul_interpolation mode;     /* default HAUL_NEAREST */
    bool               align_corners;
} haul_interpolate_options;
#define haul_interpolate(...) haul_interpolate_with(HAUL__OPTIONS(haul_interpolate_options, .x = __VA_ARGS__))
HAUL_API haul_tensor *haul_interpolate_with(const haul_interpolate_options *options);
/* The same into `out`: haul_interpolate_into(out, x, .size = {32, 32}). */
#define haul_interpolate_into(out, ...)                                                                                \
    haul_interpolate_into_with(out, HAUL__OPTIONS(haul_interpolate_options, .x = __VA_ARGS__))
HAUL_API haul_status haul_interpolate_into_with(haul_tensor *out, const haul_interpolate_options *options);

HAUL_END

#endif
