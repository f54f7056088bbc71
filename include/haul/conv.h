/* Convolution and pooling: windows that slide over pictures and sequences, and resizing.
 *
 * In the 2-d forms x is [N, C, H, W], a batch of N pictures with C channels; in the 1-d forms it is [N, C, L]. Pairs of
 * sizes are {vertical, horizontal}. On the CPU convolutions run in oneDNN, if the library was built with it, or in
 * kernels of the library; on NVIDIA GPUs in cuDNN, if that is installed. */
#ifndef HAUL_CONV_H
#define HAUL_CONV_H

#include <haul/base.h>
#include <haul/error.h>
#include <haul/tensor.h>

HAUL_BEGIN

typedef struct HAUL__DESIGNATED haul_conv2d_options {
    haul_tensor *weight; /* [C_out, C_in / groups, KH, KW]; positional */
    HAUL__GUARD(bias)
    haul_tensor *bias;      /* [C_out]; default zeros */
    int64_t      stride[2]; /* step of the window, {vertical, horizontal}; default {1, 1} */
    /* zeros added on each side, {vertical, horizontal}; default none; {1, HAUL_ZERO} pads rows only */
    int64_t padding[2];
    int64_t dilation[2]; /* distance of the window's elements, {vertical, horizontal}; default {1, 1} */
    int64_t groups; /* channels are split into so many groups, which do not mix; divides C_in and C_out; default 1 */
    bool    relu; /* return max(result, 0), fused where supported; NaN may become 0, whereas haul_relu propagates it */
    bool    same; /* pad so that the result has the size of x; without .padding and .stride */
} haul_conv2d_options;

/* The convolution of neural networks, a cross-correlation: haul_conv2d(x, weight, .bias = b, .padding = {1, 1}). The
 * result is [N, C_out, H', W'], with floor((size + 2 padding - dilation (kernel - 1) - 1) / stride) + 1 rows and
 * columns. With .same it has the rows and columns of x. If the number of zeros is odd, the extra one is at the end, as
 * in PyTorch; x is then copied. Dtypes promote; x or the weight has a floating dtype.
 *
 * The result is channels-last if x or the weight is, and if the device's library computes that way.
 *
 * On the CPU, 3x3 convolutions of f32 may be computed by Winograd's algorithm, whose errors depend on neighbouring
 * pixels. In relation to the sum of the magnitudes of its products x * weight, the error of a result is about 2e-7, and
 * at most 2^-11 = 4.9e-4 next to numbers that are much larger. This bound takes the weights of all input channels to be
 * alike: if they are not, it holds for the sum in which each weight is as large as the largest of the output channel.
 * Parts of a picture where the algorithm would exceed the bound are computed as plain sums. An infinity or NaN reaches
 * only those results whose window contains it. The same is true of the gradients; for that of the weight, pixels of all
 * channels are taken to be alike.
 *
 * - x: [N, C_in, H, W] */
#define haul_conv2d(x, ...) haul_conv2d_with(x, HAUL__OPTIONS(haul_conv2d_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv2d_with(haul_tensor *x, const haul_conv2d_options *options);
#define haul_conv2d_into(out, x, ...)                                                                                  \
    haul_conv2d_into_with(out, x, HAUL__OPTIONS(haul_conv2d_options, .weight = __VA_ARGS__))
HAUL_API haul_status haul_conv2d_into_with(haul_tensor *out, haul_tensor *x, const haul_conv2d_options *options);

/* haul_conv2d in one dimension: haul_conv1d(x, weight, .bias = b, .padding = 1).
 *
 * - x: [N, C_in, L] */
typedef struct HAUL__DESIGNATED haul_conv1d_options {
    haul_tensor *weight; /* [C_out, C_in / groups, K]; positional */
    HAUL__GUARD(bias)
    haul_tensor *bias; /* [C_out]; default zeros */
    /* stride: step of the window; default 1. padding: zeros added at each end; default 0. dilation: distance of the
     * window's elements; default 1. groups: groups of channels that do not mix; default 1 */
    int64_t stride, padding, dilation, groups;
    bool    relu; /* return max(result, 0), fused where supported */
    bool    same; /* pad so that the result has the size of x; without .padding and .stride */
} haul_conv1d_options;
#define haul_conv1d(x, ...) haul_conv1d_with(x, HAUL__OPTIONS(haul_conv1d_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv1d_with(haul_tensor *x, const haul_conv1d_options *options);
#define haul_conv1d_into(out, x, ...)                                                                                  \
    haul_conv1d_into_with(out, x, HAUL__OPTIONS(haul_conv1d_options, .weight = __VA_ARGS__))
HAUL_API haul_status haul_conv1d_into_with(haul_tensor *out, haul_tensor *x, const haul_conv1d_options *options);

typedef struct HAUL__DESIGNATED haul_conv_transpose2d_options {
    haul_tensor *weight; /* [C_in, C_out / groups, KH, KW]; positional */
    HAUL__GUARD(bias)
    haul_tensor *bias; /* [C_out]; default zeros */
    /* stride: spreads the elements of x; default {1, 1}. padding: rows and columns removed on each side; default none
     */
    int64_t stride[2], padding[2];
    int64_t output_padding[2]; /* rows and columns added at the end; less than the stride; default none */
    /* dilation: distance of the window's elements; default {1, 1}. groups: groups of channels that do not mix; default
     * 1 */
    int64_t dilation[2], groups;
} haul_conv_transpose2d_options;

/* Transposed convolution, the gradient of haul_conv2d with respect to its input, with a bias. It enlarges pictures. The
 * result has (size - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1 rows and columns (Dumoulin,
 * Visin 2016). Memory formats and dtypes are those of haul_conv2d.
 *
 * - x: [N, C_in, H, W] */
#define haul_conv_transpose2d(x, ...)                                                                                  \
    haul_conv_transpose2d_with(x, HAUL__OPTIONS(haul_conv_transpose2d_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv_transpose2d_with(haul_tensor *x, const haul_conv_transpose2d_options *options);
#define haul_conv_transpose2d_into(out, x, ...)                                                                        \
    haul_conv_transpose2d_into_with(out, x, HAUL__OPTIONS(haul_conv_transpose2d_options, .weight = __VA_ARGS__))
HAUL_API haul_status haul_conv_transpose2d_into_with(haul_tensor *out, haul_tensor *x,
                                                     const haul_conv_transpose2d_options *options);

/* haul_conv_transpose2d in one dimension.
 *
 * - x: [N, C_in, L] */
typedef struct HAUL__DESIGNATED haul_conv_transpose1d_options {
    haul_tensor *weight; /* [C_in, C_out / groups, K]; positional */
    HAUL__GUARD(bias)
    haul_tensor *bias; /* [C_out]; default zeros */
    /* stride: spreads the elements of x; default 1. padding: elements removed at each end; default 0. output_padding:
     * elements added at the end; less than the stride; default 0. dilation: distance of the window's elements; default
     * 1. groups: groups of channels that do not mix; default 1 */
    int64_t stride, padding, output_padding, dilation, groups;
} haul_conv_transpose1d_options;
#define haul_conv_transpose1d(x, ...)                                                                                  \
    haul_conv_transpose1d_with(x, HAUL__OPTIONS(haul_conv_transpose1d_options, .weight = __VA_ARGS__))
HAUL_API haul_tensor *haul_conv_transpose1d_with(haul_tensor *x, const haul_conv_transpose1d_options *options);
#define haul_conv_transpose1d_into(out, x, ...)                                                                        \
    haul_conv_transpose1d_into_with(out, x, HAUL__OPTIONS(haul_conv_transpose1d_options, .weight = __VA_ARGS__))
HAUL_API haul_status haul_conv_transpose1d_into_with(haul_tensor *out, haul_tensor *x,
                                                     const haul_conv_transpose1d_options *options);

typedef struct HAUL__DESIGNATED haul_pool2d_options {
    int64_t size; /* size of a square window, or its height if .size_w is given; positional */
    HAUL__GUARD(size_w)
    int64_t size_w;    /* width of a window that is not square; default the height */
    int64_t stride[2]; /* step of the window, {vertical, horizontal}; default the window's size */
    /* rows and columns added on each side, at most half the window; default none; {1, HAUL_ZERO} pads rows only */
    int64_t padding[2];
    /* dilation: haul_max_pool2d only: distance between the elements of a window; default 1 */
    int64_t dilation[2];
    int64_t divisor;         /* haul_avg_pool2d only: divide by it; default the window's number of elements */
    bool    exclude_padding; /* haul_avg_pool2d only: divide by the number of elements inside x */
    bool    ceil_mode;       /* the last window may extend past x and its padding */
} haul_pool2d_options;

/* The largest element, or the mean, of each window of x: haul_max_pool2d(x, 2). The result has floor((size + 2
 * padding - window) / stride) + 1 rows and columns, where `window` spans the elements with their dilation. Padding is
 * never the largest element; in a mean it counts as 0. An x without examples or channels gives an empty result.
 *
 * With .ceil_mode the quotient is rounded up, as in PyTorch: there may be one more window, which begins inside x or in
 * the padding before it. Elements behind the padding do not count in a mean.
 *
 * - x: [N, C, H, W] of a floating dtype */
#define haul_max_pool2d(x, ...) haul_max_pool2d_with(x, HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
#define haul_avg_pool2d(x, ...) haul_avg_pool2d_with(x, HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
HAUL_API haul_tensor *haul_max_pool2d_with(haul_tensor *x, const haul_pool2d_options *options);
HAUL_API haul_tensor *haul_avg_pool2d_with(haul_tensor *x, const haul_pool2d_options *options);

/* The largest element of each window, and where it is: haul_max_pool2d_indices(x, &y, &indices, 2). y is
 * haul_max_pool2d's result, and gradients flow through it. indices is an i64 tensor of the same shape: the place in the
 * plane of x, row x W + column, of the first of the largest elements, or of the last NaN. On failure both are failed
 * tensors. */
#define haul_max_pool2d_indices(x, y, indices, ...)                                                                    \
    haul_max_pool2d_indices_with(x, y, indices, HAUL__OPTIONS(haul_pool2d_options, .size = __VA_ARGS__))
HAUL_API haul_status haul_max_pool2d_indices_with(haul_tensor *x, haul_tensor **y, haul_tensor **indices,
                                                  const haul_pool2d_options *options);

/* Planes of height x width, in which the elements of x are where `indices` says, and all others are 0: the inverse of
 * haul_max_pool2d_indices. The result is [N, C, height, width]. Of several elements for one place the last one stays.
 * Nothing of the gradient reaches an element that was replaced.
 *
 * - x: [N, C, H, W]
 * - indices: i64 in x's shape, from 0 to height x width - 1, as for haul_scatter */
HAUL_API haul_tensor *haul_max_unpool2d(haul_tensor *x, haul_tensor *indices, int64_t height, int64_t width);

/* haul_max_pool2d and haul_avg_pool2d in one dimension. The operand is [N, C, L].
 *
 * Its dtype is a floating one. */
typedef struct HAUL__DESIGNATED haul_pool1d_options {
    int64_t size; /* size of the window; positional */
    HAUL__GUARD(stride)
    /* stride: step of the window; default the window's size. padding: elements added at each end, at most half the
     * window; default 0 */
    int64_t stride, padding;
    int64_t dilation;        /* haul_max_pool1d only: distance between the elements of a window; default 1 */
    bool    exclude_padding; /* haul_avg_pool1d only: divide by the number of elements inside x */
    bool    ceil_mode;       /* the last window may extend past x and its padding */
} haul_pool1d_options;
#define haul_max_pool1d(x, ...) haul_max_pool1d_with(x, HAUL__OPTIONS(haul_pool1d_options, .size = __VA_ARGS__))
#define haul_avg_pool1d(x, ...) haul_avg_pool1d_with(x, HAUL__OPTIONS(haul_pool1d_options, .size = __VA_ARGS__))
HAUL_API haul_tensor *haul_max_pool1d_with(haul_tensor *x, const haul_pool1d_options *options);
HAUL_API haul_tensor *haul_avg_pool1d_with(haul_tensor *x, const haul_pool1d_options *options);

/* haul_max_pool2d_indices and haul_max_unpool2d in one dimension: indices are places in a line, and the result of
 * haul_max_unpool1d is [N, C, length].
 *
 * - x: [N, C, L] */
#define haul_max_pool1d_indices(x, y, indices, ...)                                                                    \
    haul_max_pool1d_indices_with(x, y, indices, HAUL__OPTIONS(haul_pool1d_options, .size = __VA_ARGS__))
HAUL_API haul_status  haul_max_pool1d_indices_with(haul_tensor *x, haul_tensor **y, haul_tensor **indices,
                                                   const haul_pool1d_options *options);
HAUL_API haul_tensor *haul_max_unpool1d(haul_tensor *x, haul_tensor *indices, int64_t length);

/* Pooling to [N, C, height, width], whatever the size of x. Row i of the result is made from rows floor(i H / height)
 * to ceil((i + 1) H / height) - 1 of x, and columns likewise.
 *
 * - x: [N, C, H, W] of a floating dtype */
HAUL_API haul_tensor *haul_adaptive_max_pool2d(haul_tensor *x, int64_t height, int64_t width);
HAUL_API haul_tensor *haul_adaptive_avg_pool2d(haul_tensor *x, int64_t height, int64_t width);

typedef struct HAUL__DESIGNATED haul_unfold_options {
    int64_t size; /* size of a square window, or its height if .size_w is given; positional */
    HAUL__GUARD(size_w)
    int64_t size_w;      /* width of a window that is not square; default the height */
    int64_t stride[2];   /* step of the window, {vertical, horizontal}; default 1 */
    int64_t padding[2];  /* rows and columns of zeros on each side; default none; {1, HAUL_ZERO} pads rows only */
    int64_t dilation[2]; /* distance between the elements of a window; default 1 */
} haul_unfold_options;

/* The windows of pictures as columns: haul_unfold(x, 3, .padding = {1, 1}). The result is [N, C size_h size_w,
 * windows]; a column has the elements of a window, those of the first channel first.
 *
 * - x: [N, C, H, W] */
#define haul_unfold(x, ...) haul_unfold_with(x, HAUL__OPTIONS(haul_unfold_options, .size = __VA_ARGS__))
HAUL_API haul_tensor *haul_unfold_with(haul_tensor *x, const haul_unfold_options *options);

/* Pictures from columns as haul_unfold gives them: [N, C, height, width]. Each element is the sum of its copies in the
 * columns, in a fixed order. haul_fold(x, height, width, 3, .padding = {1, 1}).
 *
 * - x: [N, C size_h size_w, windows] */
#define haul_fold(x, height, width, ...)                                                                               \
    haul_fold_with(x, height, width, HAUL__OPTIONS(haul_unfold_options, .size = __VA_ARGS__))
HAUL_API haul_tensor *haul_fold_with(haul_tensor *x, int64_t height, int64_t width, const haul_unfold_options *options);

HAUL_END

#endif
